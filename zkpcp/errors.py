"""Every error this package raises on purpose, sorted by who has to act.

``RefusedError``: the caller sent something we will not do; it can be corrected and tried again.
``UnavailableError``: the operator has to act (a database is away, a setting is missing).
``CorruptError``: something stored is not what we stored: tampering or damage. It fails closed.

Messages name the field and the rule, never a value: they may reach clients and logs (AUD-04, SEC-12).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule of one field: ``path`` is a JSON pointer or a field name, ``message`` the rule in plain words."""

    path: str
    message: str


class ZkpcpError(Exception):
    """The root of the tree; never raised directly."""

    code: ClassVar[str] = "internal"


class RefusedError(ZkpcpError):
    """The caller has to act. ``code`` is the PCP failure code (§6.3)."""

    code: ClassVar[str] = "invalid_input"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidInputError(RefusedError):
    """A value breaks a rule; ``violations`` names each field and its rule."""

    code: ClassVar[str] = "invalid_input"

    def __init__(self, message: str, violations: Sequence[Violation] = ()) -> None:
        super().__init__(message)
        self.violations = tuple(violations)


class NotFoundError(RefusedError):
    """There is no such object, or the caller may not know that there is one (TOOL-10)."""

    code: ClassVar[str] = "not_found"


class ForbiddenError(RefusedError):
    """The caller's grant lacks a right; ``required_scopes`` names every scope that would give it."""

    code: ClassVar[str] = "forbidden"

    def __init__(self, message: str, required_scopes: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.required_scopes = tuple(required_scopes)


class ConflictError(RefusedError):
    """The object changed, exists already, or its name is taken."""

    code: ClassVar[str] = "conflict"


class ChangedKeysError(ConflictError):
    """Keys or rights changed after this caller's keyring was opened; a new try opens it as they are now."""

    def __init__(self) -> None:
        super().__init__("the keys or rights of this context changed meanwhile; try again")


class LockedError(RefusedError):
    """A key is away for now; the message says what ends the wait (KEY-10)."""

    code: ClassVar[str] = "locked"


class TooLargeError(RefusedError):
    """A documented size limit is exceeded."""

    code: ClassVar[str] = "too_large"


class RateLimitedError(RefusedError):
    """Too many attempts; ``retry_after_s`` says how many seconds to wait."""

    code: ClassVar[str] = "rate_limited"

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class InvalidTokenError(RefusedError):
    """The token is unknown, expired, revoked, for another context, or can never unlock: HTTP 401 (AUTH-12)."""

    code: ClassVar[str] = "invalid_token"


class SignInError(RefusedError):
    """Handle, account and secret do not fit together; deliberately one message for every cause."""

    code: ClassVar[str] = "forbidden"


class UnavailableError(ZkpcpError):
    """The operator has to act; the message names the part that is away."""

    code: ClassVar[str] = "unavailable"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class CorruptError(ZkpcpError):
    """Stored bytes do not parse or do not add up: damage."""

    code: ClassVar[str] = "internal"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class TamperedError(CorruptError):
    """A seal, signature or binding fails under the right key: damage or an attack; it is audited and never retried."""
