"""A partition's entry in the directory: its name and what it is for, and how that is kept.

Implements PCP §5.3. The id is opaque and random and never changes; the name may. Whoever has no right in a partition
cannot open its entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zkpcp.core.schemas import JsonObject, canonical_json, parse_canonical_object
from zkpcp.core.slots import MAIN_PARTITION
from zkpcp.errors import CorruptError

_MEMBERS: Final = 3


@dataclass(frozen=True, slots=True, repr=False)
class Partition:
    """A partition as its own people see it."""

    id: str
    name: str
    description: str = ""


MAIN = Partition(MAIN_PARTITION, MAIN_PARTITION)
"""The first partition, which every context has; its name is fixed, so it has no entry in the directory."""


def serialize(partition: Partition) -> bytes:
    """The sealed form."""
    entry: JsonObject = {"id": partition.id, "name": partition.name, "description": partition.description}
    return canonical_json(entry)


def parse_stored(data: bytes | bytearray | memoryview) -> Partition:
    """Read what ``serialize`` wrote. Raises CorruptError."""
    entry = parse_canonical_object(data, "a stored partition")
    match entry:
        case {"id": str(partition_id), "name": str(name), "description": str(description)} if len(entry) == _MEMBERS:
            return Partition(partition_id, name, description)
        case _:
            raise CorruptError("a stored partition does not have the members it must have")
