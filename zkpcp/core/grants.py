"""The life of a grant and of its tokens as numbers and small values.

A grant = principal x client x scopes in one context, with an id that survives refresh (AUTH-27). Lifetimes are the
documented ones (PCP §3, AUTH-33, AUTH-45).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from zkpcp.errors import InvalidInputError, Violation

CODE_LIFETIME_S: Final = 60
ACCESS_LIFETIME_S: Final = 3600
GRANT_IDLE_LIFETIME_S: Final = 90 * 24 * 3600
SESSION_IDLE_S: Final = 15 * 60
SESSION_LIFETIME_S: Final = 8 * 3600
PENDING_AUTHORIZATION_S: Final = 15 * 60

GrantStatus = Literal["active", "revoked"]

_HANDLE: Final = re.compile(r"[a-z0-9][a-z0-9-]{1,62}")
_PRINCIPAL: Final = re.compile(r"(human|agent|service|org):[a-z0-9][a-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts: the principal, through which client and grant, and for whom. Ids only; never content."""

    principal: str
    client: str | None = None
    grant_id: str | None = None
    on_behalf_of: str | None = None


def parse_handle(text: str) -> str:
    """A context handle: 2 to 63 characters a-z, 0-9 and "-", not starting with "-" (PCP §2)."""
    if _HANDLE.fullmatch(text) is None:
        rule = "2 to 63 characters: a to z, 0 to 9 and '-', not starting with '-'"
        raise InvalidInputError("the handle is not valid", [Violation("handle", rule)])
    return text


def account_of(text: str) -> str | None:
    """The principal that somebody means who types an account name; None for the context's own controller.

    A text that is no name gives an id that nobody has.
    """
    name = text.strip().lower()
    if not name:
        return None
    principal = name if name.startswith("human:") else f"human:{name}"
    return principal if _PRINCIPAL.fullmatch(principal) else "human:"


def parse_principal(text: str) -> str:
    """A principal id such as ``human:me`` (PCP §1)."""
    if _PRINCIPAL.fullmatch(text) is None:
        rule = "human:, agent:, service: or org:, then a to z, 0 to 9, '.', '_' and '-', 64 characters at most"
        raise InvalidInputError("the principal is not valid", [Violation("principal", rule)])
    return text
