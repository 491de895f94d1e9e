"""Which rows a slot has, said so that it can be summed: one leaf for each row, and what a transaction did to them.

Implements the keyless half of schemas/formats/integrity-head.md (PCP §9.1). A leaf names a row and the hash of what is
sealed in it. Whoever stores rows notes each that it puts or takes; whoever holds the keys settles that in the slot's
head. Pages in quarantine and deleted pages have no leaf: the first are not sealed under the slot yet, the second go by
size as well as by time, without a key.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from zkpcp.core.extensions import HANDOFF, KNOWN
from zkpcp.core.slots import directory_slot, profile_slot
from zkpcp.core.stored import (
    HandoffRow,
    PageRow,
    PartitionRow,
    ProfileChangeRow,
    ProfileRow,
    ProposalRow,
    RotatedKind,
    RotatedRow,
)

LeafKind: TypeAlias = Literal[
    "pages", "page_versions", "profiles", "profile_changes", "handoffs", "partitions", "proposals"
]
"""The kinds of rows that are counted, by their tables."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One row: where it is sealed, which it is, when it may go without a key, and the SHA-256 of its sealed parts.

    ``until_ms``: when an earlier version of a page was replaced; None for every other kind.
    """

    slot: str
    generation: int
    kind: LeafKind
    object_id: str
    version: int
    expires_ms: int | None
    until_ms: int | None
    digest: bytes


@dataclass(frozen=True, slots=True)
class Change:
    """A row that a transaction put into a context, or took out of it."""

    context_id: str
    leaf: Leaf
    is_put: bool


class Journal:
    """What one transaction has put and taken since it was last asked."""

    __slots__ = ("_changes",)

    def __init__(self) -> None:
        self._changes: list[Change] = []

    def put(self, kind: RotatedKind, row: RotatedRow, *, until_ms: int | None = None) -> None:
        """Note a row that is stored from now on."""
        self._note(kind, row, until_ms, is_put=True)

    def took(self, kind: RotatedKind, row: RotatedRow, *, until_ms: int | None = None) -> None:
        """Note a row that is stored no more."""
        self._note(kind, row, until_ms, is_put=False)

    def take(self) -> list[Change]:
        """All that was noted, which is then forgotten."""
        noted, self._changes = self._changes, []
        return noted

    def _note(self, kind: RotatedKind, row: RotatedRow, until_ms: int | None, *, is_put: bool) -> None:
        leaf = leaf_of(kind, row, until_ms=until_ms)
        if leaf is not None:
            self._changes.append(Change(row.context_id, leaf, is_put))


_HANDOFFS: Final = KNOWN[HANDOFF].slot


def leaf_of(kind: RotatedKind, row: RotatedRow, *, until_ms: int | None = None) -> Leaf | None:
    """The leaf of a row; None for one that is not counted."""
    if kind == "deleted_pages":
        return None
    if isinstance(row, ProposalRow) and row.signature:  # in quarantine, sealed to the inbox
        return None
    slot, object_id, version, expires_ms = _place(row)
    return Leaf(slot, row.generation, kind, object_id, version, expires_ms, until_ms, _digest(row))


def _place(row: RotatedRow) -> tuple[str, str, int, int | None]:
    """Slot, id, version and end of a row."""
    if isinstance(row, PageRow):
        return row.slot, row.page_id, row.version, row.expires_ms
    if isinstance(row, ProfileRow | ProfileChangeRow):
        return profile_slot(row.namespace), row.namespace, row.version, None
    if isinstance(row, HandoffRow):
        return _HANDOFFS, row.handoff_id, row.version, row.expires_ms
    if isinstance(row, PartitionRow):
        return directory_slot(row.partition_id), row.partition_id, row.version, None
    return row.slot, row.proposal_id, 0, row.expires_ms


def _digest(row: RotatedRow) -> bytes:
    parts = (row.sealed, row.head, row.terms) if isinstance(row, PageRow) else (row.sealed,)
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(4, "big"))
        digest.update(part)
    return digest.digest()
