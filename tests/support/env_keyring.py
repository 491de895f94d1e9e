"""A backend for the ``keyring`` package without any file: it begins with what the environment holds.

``TEST_KEYRING`` holds a JSON list of entries [service, account, password].
"""

from __future__ import annotations

import json
import os

from keyring.backend import KeyringBackend
from keyring.errors import PasswordDeleteError
from typing_extensions import override


class EnvironmentKeyring(KeyringBackend):
    """Entries in the memory of this process."""

    priority = 1
    name = "a keyring for tests"

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # the library has no annotations
        entries = json.loads(os.environ.get("TEST_KEYRING", "[]"))
        self._entries = {(service, account): password for service, account, password in entries}

    @override
    def get_password(self, service: str, username: str) -> str | None:
        return self._entries.get((service, username))

    @override
    def set_password(self, service: str, username: str, password: str) -> None:
        self._entries[service, username] = password

    @override
    def delete_password(self, service: str, username: str) -> None:
        if self._entries.pop((service, username), None) is None:
            raise PasswordDeleteError
