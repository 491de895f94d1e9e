"""A passphrase in the operating system's keyring, for programs that start without a person (``zkpcp stdio``).

Kept only when its owner says so. Whoever can open that keyring can open the context: it is as strong as the account on
this computer, and the keyring's own lock. The library is imported when one of these functions runs, not before.
"""

from __future__ import annotations

from types import ModuleType
from typing import Final

from zkpcp.errors import UnavailableError

SERVICE: Final = "zkpcp"


def account(handle: str, database: str) -> str:
    """The entry's account: contexts of the same handle in two databases are two. ``database``: without credentials."""
    return f"{handle} in {database}"


def stored(name: str) -> str | None:
    """The passphrase of an account, None where there is none or no keyring to ask."""
    keyring = _library()
    try:
        passphrase: str | None = keyring.get_password(SERVICE, name)
    except keyring.errors.KeyringError:
        passphrase = None
    return passphrase


def store(name: str, passphrase: str) -> str:
    """Keep a passphrase; the name of the keyring that keeps it. Raises UnavailableError."""
    keyring = _library()
    done = True
    try:
        keyring.set_password(SERVICE, name, passphrase)
    except keyring.errors.KeyringError:
        done = False
    if not done:  # raised out here: no exception of a backend, which may hold what it was given, comes along
        raise UnavailableError("no keyring of the operating system took the passphrase; is one installed and unlocked?")
    return str(keyring.get_keyring().name)


def forget(name: str) -> bool:
    """Remove a passphrase; False where there was none. Raises UnavailableError."""
    keyring = _library()
    try:
        keyring.delete_password(SERVICE, name)
    except keyring.errors.PasswordDeleteError:
        return False
    except keyring.errors.KeyringError:
        raise UnavailableError("the keyring of the operating system does not answer") from None
    return True


def _library() -> ModuleType:
    import keyring  # noqa: PLC0415 - searches for backends; no other command needs it
    import keyring.errors  # noqa: PLC0415

    return keyring
