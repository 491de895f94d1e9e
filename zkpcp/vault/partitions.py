"""Sealing and opening the names of partitions.

Implements schemas/formats/sealed-record.md for the slots ``directory/<partition>``: a row is bound to its context,
slot, generation, version and time. Only whoever may do something in a partition holds its directory slot (MEM-13).
"""

from __future__ import annotations

from zkpcp.core import partitions as partition_format
from zkpcp.core.partitions import Partition
from zkpcp.core.slots import directory_slot
from zkpcp.core.stored import PartitionRow
from zkpcp.crypto.aead import SALT_BYTES, context_of, open_box, seal
from zkpcp.crypto.kdf import u64
from zkpcp.crypto.padding import pad, unpad
from zkpcp.crypto.wipe import wipe
from zkpcp.errors import TamperedError
from zkpcp.ports import Entropy
from zkpcp.vault.keyring import OpenKeyring


def seal_partition(
    keys: OpenKeyring, partition: Partition, version: int, updated_ms: int, entropy: Entropy
) -> PartitionRow:
    """Seal a partition's entry into the row of its ``version``, which counts from 1."""
    generation, key = keys.live_key(directory_slot(partition.id), "rec")
    place = partition_place(keys.context_id, partition.id, generation, version, updated_ms)
    plain = pad(partition_format.serialize(partition))
    try:
        sealed = seal(key, plain, place, salt=entropy.bytes(SALT_BYTES))
    finally:
        wipe(plain)
    return PartitionRow(keys.context_id, partition.id, generation, version, updated_ms, sealed)


def open_partition(keys: OpenKeyring, row: PartitionRow) -> Partition:
    """Open a partition's entry. Raises TamperedError when the row is not what was sealed for this place."""
    place = partition_place(keys.context_id, row.partition_id, row.generation, row.version, row.updated_ms)
    plain = open_box(keys.key(directory_slot(row.partition_id), row.generation, "rec"), row.sealed, place)
    try:
        partition = partition_format.parse_stored(unpad(plain))
    finally:
        wipe(plain)
    if partition.id != row.partition_id:
        raise TamperedError("a partition's entry belongs to another partition")
    return partition


def partition_place(context_id: str, partition_id: str, generation: int, version: int, updated_ms: int) -> bytes:
    """What a sealed row is bound to."""
    return context_of(
        "partition",
        context_id.encode(),
        directory_slot(partition_id).encode(),
        u64(generation),
        u64(version),
        u64(updated_ms),
    )
