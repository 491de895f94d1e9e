"""How a passphrase becomes a key: one written form, a least length, and Argon2id (RFC 9106) at a least cost.

The written form follows the OpaqueString profile of RFC 8265 §4.2: other spaces become U+0020, then Unicode NFC, then
UTF-8; case and leading or trailing spaces count. Settings read from a stored row are refused below the floor, so that
a changed row cannot make guessing cheap. It does NOT make a weak passphrase strong: with a database copy it can be
guessed at leisure.
"""

from __future__ import annotations

import unicodedata
from typing import Final

from argon2.low_level import ARGON2_VERSION, Type, ffi
from argon2.low_level import lib as argon2  # type: ignore[attr-defined]  # public, but left out of its export list

from zkpcp.crypto.buffers import Buffer
from zkpcp.crypto.kdf import KEY_BYTES
from zkpcp.crypto.profiles import CEILING, Argon2Profile
from zkpcp.crypto.wipe import stack_zero, wipe, wipe_bytes
from zkpcp.errors import CorruptError, InvalidInputError, TamperedError, UnavailableError, Violation

SALT_BYTES: Final = 16
MINIMUM_CHARACTERS: Final = 12
MAXIMUM_CHARACTERS: Final = 1024

_FEWEST_DIFFERENT_CHARACTERS: Final = 5


def passphrase_bytes(text: str) -> bytearray:
    """Return the one written form of a passphrase, for `stretch`; the caller owns and wipes it.

    Raises InvalidInputError for control characters, lone surrogates, an empty or an over-long text.
    """
    return _encoded(_normalized(text))


def check_passphrase(text: str) -> None:
    """Raise InvalidInputError unless the text is fit to be a new passphrase."""
    normalized = _normalized(text)
    wipe(_encoded(normalized))
    if len(normalized) < MINIMUM_CHARACTERS:
        raise _refused(f"use at least {MINIMUM_CHARACTERS} characters; several unrelated words are easiest to remember")
    if len(set(normalized)) < _FEWEST_DIFFERENT_CHARACTERS:
        raise _refused(f"use at least {_FEWEST_DIFFERENT_CHARACTERS} different characters")


def stretch(passphrase: Buffer, salt: bytes, profile: Argon2Profile, *, floor: Argon2Profile) -> bytearray:
    """Return the 32-byte key of a passphrase; the caller owns and wipes it.

    Takes a third of a second at 64 MiB and releases the interpreter meanwhile: call it in a worker thread, few at a
    time. Raises TamperedError for settings below the floor or beyond the ceiling, CorruptError for a salt that is not
    16 bytes.
    """
    if not _within(floor, profile, CEILING):
        raise TamperedError("the stored passphrase settings are outside what this server accepts")
    if len(salt) != SALT_BYTES:
        raise CorruptError("a passphrase salt has 16 bytes")
    stretched = bytearray(KEY_BYTES)
    # argon2-cffi's hash_secret_raw runs this same call on copies that stay in the C heap; from_buffer makes none.
    status = argon2.argon2_hash(
        profile.time_cost,
        profile.memory_kib,
        profile.parallelism,
        ffi.from_buffer(passphrase),
        len(passphrase),
        ffi.from_buffer(salt),
        len(salt),
        ffi.from_buffer(stretched, require_writable=True),
        KEY_BYTES,
        ffi.NULL,
        0,
        Type.ID.value,
        ARGON2_VERSION,
    )
    stack_zero()
    if status == argon2.ARGON2_MEMORY_ALLOCATION_ERROR:
        raise UnavailableError("there is not enough memory to check a passphrase")
    if status != argon2.ARGON2_OK:
        raise CorruptError("the passphrase settings are not ones that Argon2 accepts")
    return stretched


def _within(floor: Argon2Profile, profile: Argon2Profile, ceiling: Argon2Profile) -> bool:
    return (
        floor.memory_kib <= profile.memory_kib <= ceiling.memory_kib
        and floor.time_cost <= profile.time_cost <= ceiling.time_cost
        and floor.parallelism <= profile.parallelism <= ceiling.parallelism
    )


def _normalized(text: str) -> str:
    # Before normalizing, which may make a text longer and takes its time over long ones.
    if not 0 < len(text) <= MAXIMUM_CHARACTERS:
        raise _refused(f"use between 1 and {MAXIMUM_CHARACTERS} characters")
    spaced = "".join(" " if unicodedata.category(character) == "Zs" else character for character in text)
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in spaced):
        raise _refused("control characters and broken characters cannot be used")
    return unicodedata.normalize("NFC", spaced)


def _encoded(normalized: str) -> bytearray:
    encoded = normalized.encode()
    owned = bytearray(encoded)
    wipe_bytes(encoded)
    return owned


def _refused(rule: str) -> InvalidInputError:
    return InvalidInputError(f"passphrase: {rule}", [Violation("passphrase", rule)])
