"""How a plaintext is sealed under a symmetric key and bound to its place: the Box.

Implements schemas/formats/box.md: one version byte, then a C2SP chunked-encryption message
(c2sp.org/chunked-encryption) with HKDF-Expand-SHA512 and AES-256-GCM, known as Cobblestone-256. Written on
`hmac.digest` and `*_into`, because the library's own decryptor returns immutable bytes that cannot be wiped; the
tests hold both against each other.

It does NOT hide the length (see `padding`), and a Box says nothing about whether it is the newest one.
"""

from __future__ import annotations

import hmac
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from zkpcp.crypto.buffers import Buffer
from zkpcp.crypto.kdf import KEY_BYTES, lp
from zkpcp.crypto.wipe import wipe, wipe_bytes
from zkpcp.errors import CorruptError, TamperedError

VERSION: Final = 0x01
SALT_BYTES: Final = 24

_COMMITMENT_BYTES: Final = 32
_TAG_BYTES: Final = 16
_NONCE_BYTES: Final = 12
_CHUNK_BYTES: Final = 16 * 1024
_SEALED_CHUNK_BYTES: Final = _CHUNK_BYTES + _TAG_BYTES
_BLOCK_BYTES: Final = 64  # one SHA-512 output
_HEADER_BYTES: Final = 1 + SALT_BYTES + _COMMITMENT_BYTES
_DERIVED_BYTES: Final = KEY_BYTES + _NONCE_BYTES + _COMMITMENT_BYTES
_INFO_PREFIX: Final = b"c2sp.org/chunked-encryption@v1+AEAD_AES_256_GCM\x00"
_VERSION_BYTE: Final = bytes([VERSION])

BOX_OVERHEAD: Final = _HEADER_BYTES + _TAG_BYTES
"""Bytes a Box adds to a plaintext shorter than 16 KiB; `box_size` knows every length."""


def context_of(kind: str, *fields: Buffer) -> bytes:
    """Return the bytes a Box is bound to: what kind of thing it is, then where it belongs, each length-prefixed."""
    return lp(kind.encode(), *fields)


def box_size(plaintext_size: int) -> int:
    """Return the size in bytes of a Box around a plaintext of that size."""
    return _HEADER_BYTES + plaintext_size + (plaintext_size // _CHUNK_BYTES + 1) * _TAG_BYTES


def seal(key: Buffer, plaintext: Buffer, context: bytes, *, salt: bytes) -> bytes:
    """Seal the plaintext under a 32-byte key; the 24-byte salt must be fresh and random for each call."""
    if len(salt) != SALT_BYTES:
        raise ValueError("a box salt has 24 bytes")
    size = len(plaintext)
    box = bytearray(box_size(size))
    box[0] = VERSION
    box[1 : 1 + SALT_BYTES] = salt
    derived = _derived(key, salt, context)
    with memoryview(derived) as secret, memoryview(box) as out, memoryview(plaintext) as source:
        try:
            cipher = AESGCM(secret[:KEY_BYTES])
            out[1 + SALT_BYTES : _HEADER_BYTES] = secret[KEY_BYTES + _NONCE_BYTES :]
            at = _HEADER_BYTES
            # A last, shorter chunk always exists, empty at each multiple of 16 KiB: it is what ends the message.
            for number, start in enumerate(range(0, size + 1, _CHUNK_BYTES)):
                chunk = source[start : start + _CHUNK_BYTES]
                at += cipher.encrypt_into(_nonce(secret, number), chunk, None, out[at : at + len(chunk) + _TAG_BYTES])
        finally:
            wipe(secret)
    return bytes(box)


def open_box(key: Buffer, box: Buffer, context: bytes) -> bytearray:
    """Open a Box sealed under the same key and context; the caller owns and wipes the plaintext.

    Raises CorruptError for bytes that no Box can have, TamperedError when key, context or content do not fit.
    """
    with memoryview(box) as view:
        if len(view) < BOX_OVERHEAD:
            raise CorruptError("a box is shorter than its fixed parts")
        if view[0] != VERSION:
            raise CorruptError("a box has an unknown version")
        full_chunks, last_bytes = divmod(len(view) - _HEADER_BYTES, _SEALED_CHUNK_BYTES)
        if last_bytes < _TAG_BYTES:
            raise CorruptError("a box ends without its last chunk")
        derived = _derived(key, view[1 : 1 + SALT_BYTES], context)
        plaintext = bytearray(full_chunks * _CHUNK_BYTES + last_bytes - _TAG_BYTES)
        with memoryview(derived) as secret, memoryview(plaintext) as out:
            try:
                if not hmac.compare_digest(secret[KEY_BYTES + _NONCE_BYTES :], view[1 + SALT_BYTES : _HEADER_BYTES]):
                    raise TamperedError("a box does not belong to this key and place")
                _open_chunks(secret, view[_HEADER_BYTES:], out)
            except InvalidTag:
                # On failure decrypt_into leaves unauthenticated plaintext in its buffer.
                wipe(out)
                raise TamperedError("the content of a box was changed") from None
            finally:
                wipe(secret)
    return plaintext


def _open_chunks(secret: memoryview, sealed: memoryview, out: memoryview) -> None:
    cipher = AESGCM(secret[:KEY_BYTES])
    at = 0
    for number, start in enumerate(range(0, len(sealed), _SEALED_CHUNK_BYTES)):
        chunk = sealed[start : start + _SEALED_CHUNK_BYTES]
        at += cipher.decrypt_into(_nonce(secret, number), chunk, None, out[at : at + len(chunk) - _TAG_BYTES])


def _nonce(secret: memoryview, number: int) -> Buffer:
    base = secret[KEY_BYTES : KEY_BYTES + _NONCE_BYTES]
    if number == 0:
        return base
    return (int.from_bytes(base, "big") ^ number).to_bytes(_NONCE_BYTES, "big")


def _derived(key: Buffer, salt: Buffer, context: bytes) -> bytearray:
    """Return key ‖ base nonce ‖ commitment, the first 76 bytes of HKDF-Expand-SHA512."""
    if len(key) != KEY_BYTES:
        raise ValueError("a box key has 32 bytes")
    # The version stands inside as well, so that a later format can never be passed off as this one.
    info = b"".join((_INFO_PREFIX, salt, _VERSION_BYTE, context))
    first = hmac.digest(key, info + b"\x01", "sha512")
    message = bytearray(_BLOCK_BYTES + len(info) + 1)
    message[:_BLOCK_BYTES] = first
    message[_BLOCK_BYTES:-1] = info
    message[-1] = 0x02
    second = hmac.digest(key, message, "sha512")
    derived = bytearray(_DERIVED_BYTES)
    derived[:_BLOCK_BYTES] = first
    derived[_BLOCK_BYTES:] = memoryview(second)[: _DERIVED_BYTES - _BLOCK_BYTES]
    wipe(message)
    # The second block is left to the allocator: it holds the rest of the public commitment and bytes never used.
    wipe_bytes(first)
    return derived
