"""The integrity head of a slot: how many rows it has and what they add up to, under a key that the host does not have.

Implements schemas/formats/integrity-head.md (PCP §9.1). Each row is a leaf, a number derived by a key of the slot; the
head seals their sum modulo 2^256. A row that was dropped, doubled, put back or exchanged makes another sum. It does NOT
say which row it was, nor that a head is the newest one, and whoever holds the slot can make any head.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from zkpcp.core.leaves import Leaf
from zkpcp.core.stored import SlotHeadRow
from zkpcp.crypto.aead import SALT_BYTES, context_of, open_box, seal
from zkpcp.crypto.buffers import Buffer
from zkpcp.crypto.kdf import derive, u64
from zkpcp.crypto.keys import Key
from zkpcp.crypto.wipe import wipe
from zkpcp.errors import CorruptError
from zkpcp.ports import Entropy
from zkpcp.vault.keyring import OpenKeyring

_SUM_BYTES: Final = 32
_MODULUS: Final = 1 << (8 * _SUM_BYTES)
_COUNT_MODULUS: Final = 1 << 64
_HEAD_BYTES: Final = 3 * 8 + _SUM_BYTES


@dataclass(frozen=True, slots=True, repr=False)
class SlotSum:
    """What a head says: how often it was changed, at which entry of the access log last, and its rows' number and sum.

    ``count`` is taken modulo 2^64: of a slot from which a row was dropped more rows can be taken than it counts.
    """

    sequence: int = 0
    entry: int = 0
    count: int = 0
    total: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether it counts no row."""
        return (self.count, self.total) == (0, 0)

    def with_leaf(self, value: int) -> SlotSum:
        """One row more."""
        return replace(self, count=(self.count + 1) % _COUNT_MODULUS, total=(self.total + value) % _MODULUS)

    def without_leaf(self, value: int) -> SlotSum:
        """One row less."""
        return replace(self, count=(self.count - 1) % _COUNT_MODULUS, total=(self.total - value) % _MODULUS)

    def counts_as(self, other: SlotSum) -> bool:
        """Whether both are about the same rows."""
        return (self.count, self.total) == (other.count, other.total)


def leaf_value(keys: OpenKeyring, leaf: Leaf) -> int:
    """What a row adds to the sum of its slot. Raises MissingKeyError."""
    return value_of(keys.integrity_key(leaf.slot, leaf.generation), leaf)


def value_of(key: Buffer, leaf: Leaf) -> int:
    """The same by the integrity key of the leaf's slot and generation."""
    value = derive(
        key,
        "integrity/leaf",
        leaf.kind.encode(),
        leaf.object_id.encode(),
        u64(leaf.version),
        _optional(leaf.expires_ms),
        _optional(leaf.until_ms),
        leaf.digest,
    )
    try:
        return int.from_bytes(value, "big")
    finally:
        wipe(value)


def seal_head(keys: OpenKeyring, slot: str, generation: int, head: SlotSum, entropy: Entropy) -> SlotHeadRow:
    """Seal the head of a slot."""
    plain = encode(head)
    try:
        with _key(keys, slot, generation) as key:
            context = head_place(keys.context_id, slot, generation)
            sealed = seal(key.view(), plain, context, salt=entropy.bytes(SALT_BYTES))
    finally:
        wipe(plain)
    return SlotHeadRow(keys.context_id, slot, generation, sealed)


def open_head(keys: OpenKeyring, row: SlotHeadRow) -> SlotSum:
    """Open the head of a slot. Raises TamperedError when it is not what was sealed for this place."""
    with _key(keys, row.slot, row.generation) as key:
        plain = open_box(key.view(), row.sealed, head_place(keys.context_id, row.slot, row.generation))
    try:
        return decode(plain)
    finally:
        wipe(plain)


def encode(head: SlotSum) -> bytearray:
    """What is sealed in a head."""
    total = head.total.to_bytes(_SUM_BYTES, "big")
    return bytearray(b"".join((u64(head.sequence), u64(head.entry), u64(head.count), total)))


def decode(plain: Buffer) -> SlotSum:
    """The inverse of ``encode``. Raises CorruptError."""
    if len(plain) != _HEAD_BYTES:
        raise CorruptError("an integrity head has the wrong length")
    sequence, entry, count = (int.from_bytes(plain[at : at + 8], "big") for at in (0, 8, 16))
    return SlotSum(sequence, entry, count, int.from_bytes(plain[24:], "big"))


def head_place(context_id: str, slot: str, generation: int) -> bytes:
    """What a head is bound to."""
    return context_of("integrity-head", context_id.encode(), slot.encode(), u64(generation))


def _key(keys: OpenKeyring, slot: str, generation: int) -> Key:
    return Key(derive(keys.integrity_key(slot, generation), "integrity/head"))


def _optional(instant_ms: int | None) -> bytes:
    """An absent instant is no bytes, which no instant is; one before 1970 is 0."""
    return b"" if instant_ms is None else u64(max(0, instant_ms))
