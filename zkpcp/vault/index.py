"""Sealing and opening the parts of a search index, and the keyed hash that says which bucket a word is in.

Implements schemas/formats/blind-index.md (KEY-06). A part is bound to its slot, its name and the write that made it;
the stamps of all others are in ``meta``, so parts of different states do not go together. Sizes are padded to a ladder.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final

from zkpcp.core import index
from zkpcp.core.index import Hash
from zkpcp.core.slots import SubKeyName, is_sensitive
from zkpcp.core.stored import IndexPartRow
from zkpcp.crypto.aead import SALT_BYTES, context_of, open_box, seal
from zkpcp.crypto.kdf import u64
from zkpcp.crypto.padding import pad, unpad
from zkpcp.crypto.wipe import wipe
from zkpcp.errors import TamperedError
from zkpcp.ports import Entropy
from zkpcp.vault.keyring import OpenKeyring

if TYPE_CHECKING:
    from hashlib import _Hash

_LENGTH_BYTES = 4
_HASH_BYTES = index.HASH_BITS // 8
_BLOCK_BYTES: Final = 64
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))


def bucket_hash(keys: OpenKeyring, slot: str, generation: int, segment: int) -> Hash:
    """The keyed hash of one segment, good as long as the keyring is open."""
    inner, outer = _hmac_states(keys.bucket_key(slot, generation, segment))

    def hash_(text: bytes) -> int:
        first, second = inner.copy(), outer.copy()
        first.update(text)
        second.update(first.digest())
        return int.from_bytes(second.digest()[:_HASH_BYTES], "big")

    return hash_


def seal_part(
    keys: OpenKeyring, slot: str, generation: int, part: str, stamp: int, data: bytes, entropy: Entropy
) -> IndexPartRow:
    """Seal one part; ``part`` is its whole name, such as ``0/words/3``."""
    plain = pad(data, floor=index.ladder(len(data) + _LENGTH_BYTES), powers_of_two=is_sensitive(slot))
    key = keys.key(slot, generation, _key_of(part))
    try:
        box = seal(key, plain, _context(keys, slot, generation, part, stamp), salt=entropy.bytes(SALT_BYTES))
    finally:
        wipe(plain)
    return IndexPartRow(keys.context_id, slot, part, stamp, box)


def open_part(keys: OpenKeyring, row: IndexPartRow, slot: str, generation: int, stamp: int) -> bytes:
    """Open one part of this slot, made by this write. Raises TamperedError."""
    if (row.slot, row.stamp) != (slot, stamp):
        raise TamperedError("a part of the search index is not the one that belongs here")
    plain = open_box(
        keys.key(slot, generation, _key_of(row.part)), row.sealed, _context(keys, slot, generation, row.part, stamp)
    )
    try:
        # Splitting and finding need bytes; they are wiped on free.
        return bytes(unpad(plain))
    finally:
        wipe(plain)


def _hmac_states(key: memoryview) -> tuple[_Hash, _Hash]:
    """The two states of HMAC-SHA256 that the key alone decides (RFC 2104 §4): half of the work for short texts."""
    padded = bytearray(_BLOCK_BYTES)
    padded[: len(key)] = key
    inner, outer = padded.translate(_INNER), padded.translate(_OUTER)
    try:
        return sha256(inner), sha256(outer)
    finally:
        for each in (padded, inner, outer):
            wipe(each)


def _key_of(part: str) -> SubKeyName:
    return "head" if "/heads/" in part else "terms"


def _context(keys: OpenKeyring, slot: str, generation: int, part: str, stamp: int) -> bytes:
    return context_of("index/part", keys.context_id.encode(), slot.encode(), u64(generation), part.encode(), u64(stamp))
