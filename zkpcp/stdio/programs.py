"""Which local programs are running: a locked file for each, named by its grant.

The operating system drops the lock when a process ends, however it ends. Files hold nothing. It does NOT see programs
on other computers that use the same database.
"""

from __future__ import annotations

import fcntl
import re
from pathlib import Path
from typing import IO, Final

_GRANT_ID: Final = re.compile(r"[a-z0-9_]{1,64}")
"""Ids as we make them. They come from the database, which must not choose a path."""


class LockedFiles:
    """The programs of one data directory; implements ``zkpcp.usecases.local.Programs``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._claimed: dict[str, IO[bytes]] = {}

    def claim(self, grant_id: str) -> None:
        """Say that the program with this grant is running, until ``release`` or the end of this process."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self._path(grant_id).open("ab")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._claimed[grant_id] = file

    def is_running(self, grant_id: str) -> bool:
        """Whether a process holds the claim; a file that nobody holds any more is removed."""
        if _GRANT_ID.fullmatch(grant_id) is None:
            return False
        try:
            with self._path(grant_id).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._path(grant_id).unlink(missing_ok=True)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def release(self) -> None:
        """Give up every claim of this process."""
        while self._claimed:
            grant_id, file = self._claimed.popitem()
            self._path(grant_id).unlink(missing_ok=True)
            file.close()

    def _path(self, grant_id: str) -> Path:
        return self._folder / f"{grant_id}.lock"
