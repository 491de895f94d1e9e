"""Key slots: which slot holds an object, and which sub keys a set of scopes opens.

Slots follow the scopes, so that consent is enforced by keys as well as by policy (U1, SCOPE-02). A grant's keyring
carries the slice computed here and nothing else. Limits, on purpose: within one memory slot, read and write share
the slot's keys (write without read is policy there), and path tags are one key for all memory grants.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final, Literal

from zkpcp.core.extensions import KNOWN, slot_of_stem

PATHS: Final = "paths"
CONTROLLER: Final = "controller"
MAIN_PARTITION: Final = "main"
PARTITIONS: Final = "partitions"
"""Stands in a roster for the slots of every partition."""
_PROFILES: Final = ("profile.core", "profile.team")
_DIRECTORY: Final = "directory"

SubKeyName = Literal["rec", "head", "terms", "link", "integrity", "inbox", "tag"]

_MEMORY_KEYS: Final[tuple[SubKeyName, ...]] = ("rec", "head", "terms", "link", "integrity")
_ALL_OF_MAIN: Final[Mapping[str, Collection[str]]] = MappingProxyType({MAIN_PARTITION: ("read", "write")})
_SENSITIVE_KEYS: Final[tuple[SubKeyName, ...]] = (*_MEMORY_KEYS, "inbox")


@dataclass(frozen=True, slots=True, order=True)
class SubKeyRef:
    """One sub key by name; its generation is decided when the keyring is made."""

    slot: str
    name: SubKeyName


@dataclass(frozen=True, slots=True)
class Slice:
    """What a keyring carries: sub keys, and the public inbox keys of slots that can be written to but not read."""

    sub_keys: frozenset[SubKeyRef]
    inboxes: frozenset[str]

    @property
    def slots(self) -> frozenset[str]:
        """The slots of which at least one sub key is held."""
        return frozenset(ref.slot for ref in self.sub_keys)


def memory_slot(partition: str, *, sensitive: bool) -> str:
    """The slot of a page: partition and sensitivity decide."""
    return f"memory.sensitive/{partition}" if sensitive else f"memory/{partition}"


def profile_slot(namespace: str) -> str:
    """The slot of a profile namespace bears the namespace's own name."""
    return namespace


def partition_of(slot: str) -> str | None:
    """The partition of a memory slot, None for every other slot."""
    head, _, partition = slot.partition("/")
    return partition if head in ("memory", "memory.sensitive") and partition else None


def proposals_slot(partition: str) -> str:
    """The slot of what is proposed in a partition and is not sensitive."""
    return f"proposals/{partition}"


def directory_slot(partition: str) -> str:
    """The slot of a partition's name and description."""
    return f"{_DIRECTORY}/{partition}"


def counted_names(namespaces: Iterable[str] = ()) -> frozenset[str]:
    """What a roster names when the rows of every slot are counted: all slots of partitions as one, others by name."""
    return frozenset({PARTITIONS, *_PROFILES, *(each.slot for each in KNOWN.values()), *namespaces})


def counted_name(slot: str) -> str:
    """The name by which a roster says that the rows of a slot are counted."""
    return PARTITIONS if "/" in slot else slot


def counted_slots(name: str, partitions: Iterable[str]) -> tuple[str, ...]:
    """The slots behind such a name."""
    if name != PARTITIONS:
        return (name,)
    kinds = (
        partial(memory_slot, sensitive=False),
        partial(memory_slot, sensitive=True),
        proposals_slot,
        directory_slot,
    )
    return tuple(slot_of(each) for each in partitions for slot_of in kinds)


def every_sub_key(partitions: Iterable[str], others: Iterable[str]) -> frozenset[SubKeyRef]:
    """Each sub key under which something can be stored: of these partitions, and ``rec`` of these other slots."""
    refs = {SubKeyRef(PATHS, "tag"), *(SubKeyRef(slot, "rec") for slot in others)}
    for partition in partitions:
        refs.update(SubKeyRef(memory_slot(partition, sensitive=False), name) for name in _MEMORY_KEYS)
        refs.update(SubKeyRef(memory_slot(partition, sensitive=True), name) for name in _SENSITIVE_KEYS)
        refs.add(SubKeyRef(proposals_slot(partition), "rec"))
        refs.add(SubKeyRef(directory_slot(partition), "rec"))
    return frozenset(refs)


def is_sensitive(slot: str) -> bool:
    """Whether pages of this slot are sensitive."""
    return slot.startswith("memory.sensitive/")


def category_of(slot: str) -> str:
    """The audit category of a slot (§7): the part before the partition."""
    return slot.partition("/")[0]


def slice_for(
    scopes: Iterable[str], rights: Mapping[str, Collection[str]] = _ALL_OF_MAIN, *, writes_wait: bool = False
) -> Slice:
    """The slice that these effective scopes open with these rights, by partition; nothing more (SCOPE-04).

    ``writes_wait``: whoever may write proposes instead (MEM-14), and needs the keys for that.
    """
    held = set(scopes)
    refs: set[SubKeyRef] = set()
    inboxes: set[str] = set()
    # Profile and extensions: every namespace has a slot of its own, so that no other scope opens it (PROF-06, PROF-10).
    slots = {slot_of_stem(scope.rpartition(":")[0]) for scope in held}
    refs.update(SubKeyRef(slot, "rec") for slot in slots if slot is not None)
    if "memory:read" in held or "memory:write" in held:
        refs.add(SubKeyRef(PATHS, "tag"))
    for partition, allowed in rights.items():
        normal = memory_slot(partition, sensitive=False)
        sensitive = memory_slot(partition, sensitive=True)
        reads = "memory:read" in held and "read" in allowed
        writes = "memory:write" in held and "write" in allowed
        proposes = "memory:propose" in held and "propose" in allowed
        reviews = "review:read" in held and "review" in allowed
        if proposes or reviews or (writes and writes_wait):
            refs.add(SubKeyRef(proposals_slot(partition), "rec"))
            inboxes.add(sensitive)
            if partition != MAIN_PARTITION:
                refs.add(SubKeyRef(directory_slot(partition), "rec"))
        if reads or writes:
            refs.update(SubKeyRef(normal, name) for name in _MEMORY_KEYS)
            inboxes.add(sensitive)
            if partition != MAIN_PARTITION:
                refs.add(SubKeyRef(directory_slot(partition), "rec"))
        if (reads and "memory.sensitive:read" in held) or (writes and "memory.sensitive:write" in held):
            refs.update(SubKeyRef(sensitive, name) for name in _SENSITIVE_KEYS)
    return Slice(frozenset(refs), frozenset(inboxes))
