"""The recovery code: a person's own second secret, printed once, typed back by hand. Invites' codes have its form.

160 random bits and a 20-bit checksum in Crockford's base 32, nine groups of four; schemas/formats/recovery-code.md.
The host takes no part in a recovery (KEY-11, KEY-13): the code opens a seed wrap like any other secret.
It does NOT repair mistyped codes; the checksum only tells.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from typing_extensions import override

from zkpcp.crypto.entropy import Entropy
from zkpcp.crypto.kdf import derive
from zkpcp.crypto.opaque import Opaque
from zkpcp.crypto.wipe import wipe, wipe_bytes
from zkpcp.errors import InvalidInputError, Violation

SECRET_BYTES: Final = 20

_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_SYMBOL_BITS: Final = 5
_CHECKSUM_BITS: Final = 20
_SYMBOLS: Final = (SECRET_BYTES * 8 + _CHECKSUM_BITS) // _SYMBOL_BITS
_GROUP: Final = 4
_INVITE_LOOKUP_BYTES: Final = 16
_CHECKSUM_LABEL: Final = b"zkpcp/v1/recovery/checksum\x00"

# Crockford's look-alikes, and the dashes that word processors and phones put in place of a hyphen.
_AS_MEANT: Final = str.maketrans(
    {"O": "0", "I": "1", "L": "1"} | dict.fromkeys("-\u2010\u2011\u2012\u2013\u2014\u2212")
)


class RecoveryCode(Opaque):
    """A recovery code; `printable` is the only way to read it."""

    __slots__ = ("_secret",)

    __hash__ = None  # type: ignore[assignment]  # a hash of a secret would be a fingerprint of it

    def __init__(self, owned: bytearray) -> None:
        """Take ownership of the 20 secret bytes."""
        if len(owned) != SECRET_BYTES:
            raise ValueError("a recovery code has 20 secret bytes")
        self._secret = owned

    def printable(self) -> str:
        """Return the code as it is shown once: nine groups of four, joined by hyphens."""
        number = int.from_bytes(self._secret, "big") << _CHECKSUM_BITS | _checksum(self._secret)
        shifts = range((_SYMBOLS - 1) * _SYMBOL_BITS, -1, -_SYMBOL_BITS)
        symbols = "".join(_ALPHABET[number >> shift & 0x1F] for shift in shifts)
        return "-".join(symbols[start : start + _GROUP] for start in range(0, _SYMBOLS, _GROUP))

    def wipe(self) -> None:
        """Overwrite the secret; the code can no longer be used."""
        wipe(self._secret)

    @override
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RecoveryCode):
            return NotImplemented
        return hmac.compare_digest(self._secret, other._secret)


def new_code(entropy: Entropy) -> RecoveryCode:
    """Return a fresh recovery code."""
    drawn = entropy.bytes(SECRET_BYTES)
    code = RecoveryCode(bytearray(drawn))
    wipe_bytes(drawn)
    return code


def parse_code(text: str) -> RecoveryCode:
    """Return the code that a person typed, whatever case, spaces and hyphens they used, with O for 0 and I or L for 1.

    Raises InvalidInputError for another length, a character outside the alphabet, or a checksum that does not fit.
    """
    # Upper-casing is for ASCII only: elsewhere it can change a text's length or turn one letter into another.
    symbols = "".join(text.split()).translate(_UPPER).translate(_AS_MEANT)
    if len(symbols) != _SYMBOLS:
        raise _refused(f"it has {_SYMBOLS} letters and digits")
    number = 0
    for symbol in symbols:
        value = _ALPHABET.find(symbol)
        if value < 0:
            raise _refused("it has a character that no recovery code contains")
        number = number << _SYMBOL_BITS | value
    secret = bytearray((number >> _CHECKSUM_BITS).to_bytes(SECRET_BYTES, "big"))
    if number & ((1 << _CHECKSUM_BITS) - 1) != _checksum(secret):
        wipe(secret)
        raise _refused("it was mistyped somewhere: its check characters do not fit")
    return RecoveryCode(secret)


def wrap_key(code: RecoveryCode, context_id: str, principal: str) -> bytearray:
    """Derive the key of this principal's recovery wrap; the caller owns and wipes it."""
    secret = code._secret  # noqa: SLF001 - its own module
    return derive(secret, "recovery/wrap", context_id.encode(), principal.encode())


def invite_lookup_id(code: RecoveryCode, context_id: str) -> bytes:
    """Return the 16 bytes by which the host finds an invite; they say nothing about its code."""
    derived = derive(code._secret, "invite/lookup", context_id.encode())  # noqa: SLF001 - its own module
    lookup_id = bytes(derived[:_INVITE_LOOKUP_BYTES])
    wipe(derived)
    return lookup_id


def invite_key(code: RecoveryCode, context_id: str, principal: str) -> bytearray:
    """Derive the key behind an invite's code; the caller owns and wipes it."""
    return derive(code._secret, "invite/key", context_id.encode(), principal.encode())  # noqa: SLF001 - its own module


_UPPER: Final = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def _checksum(secret: bytearray) -> int:
    digest = hashlib.sha256(_CHECKSUM_LABEL)
    digest.update(secret)
    return int.from_bytes(digest.digest()[:3], "big") >> (24 - _CHECKSUM_BITS)


def _refused(rule: str) -> InvalidInputError:
    return InvalidInputError(f"recovery code: {rule}", [Violation("recovery_code", rule)])
