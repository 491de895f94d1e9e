"""Who wrote this: Ed25519 (RFC 8032) over a labelled, length-prefixed message.

The label separates uses, so that a signed roster can never be shown as a signed keyring. It does NOT say when
something was signed, nor that it is the newest; whose key is believed is decided by the anchor and the roster.
"""

from __future__ import annotations

from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from zkpcp.crypto.buffers import Buffer
from zkpcp.crypto.kdf import KEY_BYTES, framed
from zkpcp.crypto.opaque import Opaque
from zkpcp.errors import CorruptError, TamperedError

PUBLIC_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64


class SigningKey(Opaque):
    """An Ed25519 private key; the library clears it when the object goes."""

    __slots__ = ("_private",)

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private

    @classmethod
    def from_seed(cls, seed: Buffer) -> SigningKey:
        """Return the key of a 32-byte seed; the seed stays the caller's to wipe."""
        if len(seed) != KEY_BYTES:
            raise ValueError("a signing seed has 32 bytes")
        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    def public_bytes(self) -> bytes:
        """Return the 32-byte public key."""
        return self._private.public_key().public_bytes_raw()

    def sign(self, label: str, *fields: Buffer) -> bytes:
        """Return the 64-byte signature over the label and the fields."""
        return self._private.sign(_message(label, *fields))


def verify(public: bytes, signature: bytes, label: str, *fields: Buffer) -> None:
    """Return if the signature fits key, label and fields; else raise TamperedError (CorruptError: no such key)."""
    if len(public) != PUBLIC_BYTES:
        raise CorruptError("a public signing key has 32 bytes")
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, _message(label, *fields))
    except ValueError:
        raise CorruptError("a public signing key is not well formed") from None
    except InvalidSignature:
        raise TamperedError("a signature does not fit what it stands under") from None


def _message(label: str, *fields: Buffer) -> bytes:
    return framed(f"sign/{label}", *fields)
