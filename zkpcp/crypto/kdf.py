"""How one key is turned into another: HMAC-SHA512 over a label and length-prefixed fields.

This is the first block of HKDF-Expand (RFC 5869 §2.3) with SHA-512, cut to 32 bytes; schemas/formats/README.md. Input
keys are uniformly random, so there is no Extract step. It does NOT stretch: a passphrase goes through
`passphrase.stretch`.
"""

from __future__ import annotations

import hmac
from typing import Final

from zkpcp.crypto.buffers import Buffer
from zkpcp.crypto.wipe import wipe_bytes

KEY_BYTES: Final = 32

_PREFIX: Final = b"zkpcp/v1/"


def lp(*fields: Buffer) -> bytes:
    """Return each field behind its 4-byte big-endian length, so that no two field lists give the same bytes."""
    return b"".join(part for field in fields for part in (len(field).to_bytes(4, "big"), field))


def u64(value: int) -> bytes:
    """Return a generation, epoch or version as 8 big-endian bytes; raises `OverflowError` outside 0 to 2^64 - 1."""
    return value.to_bytes(8, "big")


def framed(label: str, *fields: Buffer) -> bytes:
    """Return the unambiguous message that derivations and signatures are made over; `label` is ASCII without NUL."""
    return _PREFIX + label.encode("ascii") + b"\x00" + lp(*fields) + b"\x01"


def derive(key: Buffer, label: str, *fields: Buffer) -> bytearray:
    """Derive a 32-byte key for one purpose; the caller owns and wipes it."""
    block = hmac.digest(key, framed(label, *fields), "sha512")
    derived = bytearray(KEY_BYTES)
    # Through a view: slicing `block` itself would make one more copy of the key that nobody can wipe.
    derived[:] = memoryview(block)[:KEY_BYTES]
    wipe_bytes(block)
    return derived
