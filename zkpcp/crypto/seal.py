"""How something is sealed to a public key, so that keyrings reach holders whose secrets the host does not have.

HPKE (RFC 9180) base mode, single shot: KEM X-Wing (ML-KEM-768 + X25519, draft-connolly-cfrg-xwing-kem), HKDF-SHA256,
AES-256-GCM; an algorithm byte in front and inside the info, since X-Wing is still a draft. Encapsulation draws from the
library's own generator: it offers no way to pass randomness in.

It does NOT authenticate the sender: anybody who has the public key can seal to it. What is opened must be signed.
"""

from __future__ import annotations

import hashlib
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from zkpcp.crypto.buffers import Buffer
from zkpcp.crypto.kdf import KEY_BYTES
from zkpcp.crypto.opaque import Opaque
from zkpcp.crypto.wipe import wipe_bytes
from zkpcp.errors import CorruptError, TamperedError

ALGORITHM: Final = 0x01
PUBLIC_BYTES: Final = 1216

_MLKEM_PUBLIC_BYTES: Final = 1184
_MLKEM_SEED_BYTES: Final = 64
_X25519_BYTES: Final = 32
_ENCAPSULATED_BYTES: Final = 1120
_TAG_BYTES: Final = 16
_ALGORITHM_BYTE: Final = bytes([ALGORITHM])

SEAL_OVERHEAD: Final = 1 + _ENCAPSULATED_BYTES + _TAG_BYTES
"""Bytes that sealing adds to a plaintext of any length."""


class KemPrivateKey(Opaque):
    """An X-Wing private key, expanded from a 32-byte seed; the library clears it when the object goes."""

    __slots__ = ("_pair", "_public")

    def __init__(self, seed: Buffer) -> None:
        if len(seed) != KEY_BYTES:
            raise ValueError("an X-Wing seed has 32 bytes")
        expanded = hashlib.shake_256(seed).digest(_MLKEM_SEED_BYTES + _X25519_BYTES)
        view = memoryview(expanded)
        mlkem = MLKEM768PrivateKey.from_seed_bytes(view[:_MLKEM_SEED_BYTES])
        x25519 = X25519PrivateKey.from_private_bytes(view[_MLKEM_SEED_BYTES:])
        view.release()
        wipe_bytes(expanded)
        self._pair = hpke.MLKEM768X25519PrivateKey(mlkem, x25519)
        self._public = mlkem.public_key().public_bytes_raw() + x25519.public_key().public_bytes_raw()

    def public_bytes(self) -> bytes:
        """Return the 1216-byte public key: ML-KEM-768 (1184), then X25519 (32)."""
        return self._public


def seal_to(public: bytes, plaintext: Buffer, info: bytes) -> bytes:
    """Seal the plaintext to a public key, bound to `info`; raises CorruptError for bytes that are no public key."""
    suite, recipient = _suite(), _public_key(public)
    return _ALGORITHM_BYTE + suite.encrypt(plaintext, recipient, info=_ALGORITHM_BYTE + info)


def open_sealed(private: KemPrivateKey, sealed: Buffer, info: bytes) -> bytearray:
    """Open what was sealed to this key with the same `info`; the caller owns and wipes the plaintext.

    Raises CorruptError for bytes that no sealing can have, TamperedError when key, info or content do not fit.
    """
    if len(sealed) < SEAL_OVERHEAD:
        raise CorruptError("a sealed message is shorter than its fixed parts")
    if sealed[0] != ALGORITHM:
        raise CorruptError("a sealed message has an unknown algorithm")
    try:
        with memoryview(sealed) as view:
            pair = private._pair  # noqa: SLF001 - its own module
            opened = _suite().decrypt(view[1:], pair, info=_ALGORITHM_BYTE + info)
    except InvalidTag:
        raise TamperedError("a sealed message does not belong to this key and place") from None
    plaintext = bytearray(opened)
    wipe_bytes(opened)
    return plaintext


def check_public(public: bytes) -> None:
    """Raise CorruptError unless the bytes are a well-formed public key."""
    _public_key(public)


def _suite() -> hpke.Suite:
    return hpke.Suite(hpke.KEM.MLKEM768_X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM)


def _public_key(public: bytes) -> hpke.MLKEM768X25519PublicKey:
    if len(public) != PUBLIC_BYTES:
        raise CorruptError("a public sealing key has 1216 bytes")
    try:
        mlkem = MLKEM768PublicKey.from_public_bytes(public[:_MLKEM_PUBLIC_BYTES])
        x25519 = X25519PublicKey.from_public_bytes(public[_MLKEM_PUBLIC_BYTES:])
    except ValueError:
        raise CorruptError("a public sealing key is not well formed") from None
    return hpke.MLKEM768X25519PublicKey(mlkem, x25519)
