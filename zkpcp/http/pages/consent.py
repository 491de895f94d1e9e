"""What the consent page (AUTH-39) needs to know; facts are the authorization server's, words the template's.

``ConsentFacts`` repeats the members of the OAuth layer's view that the page shows, so that the pages need not know that
layer and it may know them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

NAME_SOURCES: Final = {
    "dcr": "This name was given by the app itself. Nobody has checked it.",
    "cimd": "This name stands in the app's own description at the address below. Whoever runs that address wrote it.",
    "operator": "This app was registered by whoever runs this server, under this name.",
    "owner": "You gave the app this name.",
}


class ConsentScope(Protocol):
    """One scope with its check box."""

    @property
    def scope(self) -> str: ...
    @property
    def sentence(self) -> str: ...
    @property
    def preticked(self) -> bool: ...
    @property
    def sensitive(self) -> bool: ...


class ConsentFacts(Protocol):
    """What the consent page shows."""

    @property
    def client_name(self) -> str: ...
    @property
    def client_name_source(self) -> str: ...
    @property
    def client_host(self) -> str | None: ...
    @property
    def redirect_host(self) -> str: ...
    @property
    def redirect_is_loopback(self) -> bool: ...
    @property
    def context_handle(self) -> str: ...
    @property
    def context_kind(self) -> str: ...
    @property
    def controller(self) -> str: ...
    @property
    def account(self) -> str: ...
    @property
    def items(self) -> Sequence[ConsentScope]: ...
    @property
    def not_requested(self) -> Sequence[str]: ...
    @property
    def readable_by_organization(self) -> bool: ...
    @property
    def partitions(self) -> Sequence[str]: ...
    @property
    def agents(self) -> Sequence[str]: ...
    @property
    def request_secret(self) -> str: ...
    @property
    def action_url(self) -> str: ...
