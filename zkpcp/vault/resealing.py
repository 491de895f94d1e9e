"""Sealing a stored row anew under the live keys, with the same content in the same place.

For a change of keys (PCP §9.1, KEY-12). What is opened is not read: the same bytes are sealed again, so that no later
change of a format can lose anything on the way. Version and times stay, a change of keys is no edit.

An item that waits in an inbox, or a proposal that its author could not read, is bound by that author's signature and is
not sealed anew here: it has to be admitted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar, cast

from zkpcp.core.slots import SubKeyName, directory_slot, profile_slot
from zkpcp.core.stored import (
    HandoffRow,
    PageRow,
    PartitionRow,
    ProfileChangeRow,
    ProfileRow,
    ProposalRow,
    RotatedRow,
)
from zkpcp.crypto.aead import SALT_BYTES, open_box, seal
from zkpcp.crypto.wipe import wipe
from zkpcp.errors import TamperedError
from zkpcp.ports import Entropy
from zkpcp.vault.handoffs import SLOT as HANDOFFS
from zkpcp.vault.handoffs import handoff_place
from zkpcp.vault.keyring import OpenKeyring
from zkpcp.vault.partitions import partition_place
from zkpcp.vault.records import Part, page_place, profile_place, proposal_place

Row = TypeVar("Row", bound=RotatedRow)


def reseal(keys: OpenKeyring, row: Row, entropy: Entropy) -> Row:
    """The row under the live keys. Raises TamperedError when it is not what was sealed for its place."""
    if row.context_id != keys.context_id:
        raise TamperedError("a row belongs to another context")
    sealing = _Sealing(keys, row.generation, entropy)
    return cast(Row, _resealed(sealing, row))


def _resealed(sealing: _Sealing, row: RotatedRow) -> RotatedRow:
    if isinstance(row, PageRow):
        return _page(sealing, row)
    if isinstance(row, ProposalRow):
        return _proposal(sealing, row)
    slot, place = _bound(row)
    sealed = sealing.again(slot, "rec", row.sealed, place)
    return replace(row, generation=sealing.live, sealed=sealed)


def _bound(row: ProfileRow | ProfileChangeRow | HandoffRow | PartitionRow) -> tuple[str, Callable[[int], bytes]]:
    """The slot of a row that has one sealed part, and what that part is bound to in each generation."""
    context_id = row.context_id
    if isinstance(row, ProfileRow):
        slot = profile_slot(row.namespace)
        return slot, lambda g: profile_place(context_id, slot, g, "profile", row.version, row.updated_ms)
    if isinstance(row, ProfileChangeRow):
        slot, who = profile_slot(row.namespace), (row.principal, row.client)
        return slot, lambda g: profile_place(context_id, slot, g, "change", row.version, row.at_ms, who)
    if isinstance(row, HandoffRow):
        return HANDOFFS, lambda g: handoff_place(
            context_id, g, row.handoff_id, row.version, row.updated_ms, row.expires_ms
        )
    slot = directory_slot(row.partition_id)
    return slot, lambda g: partition_place(context_id, row.partition_id, g, row.version, row.updated_ms)


def _page(sealing: _Sealing, row: PageRow) -> PageRow:
    def part(name: Part, box: bytes) -> bytes:
        return sealing.again(
            row.slot, name, box, lambda g: page_place(row.context_id, replace(row, generation=g), name)
        )

    return replace(
        row,
        generation=sealing.live,
        sealed=part("rec", row.sealed),
        head=part("head", row.head),
        terms=part("terms", row.terms),
    )


def _proposal(sealing: _Sealing, row: ProposalRow) -> ProposalRow:
    if row.signature:
        raise TamperedError("a proposal in quarantine is not sealed anew before it is admitted")
    sealed = sealing.again(row.slot, "rec", row.sealed, lambda g: proposal_place(replace(row, generation=g)))
    return replace(row, generation=sealing.live, sealed=sealed)


class _Sealing:
    """From one generation to the live one."""

    def __init__(self, keys: OpenKeyring, generation: int, entropy: Entropy) -> None:
        self._keys = keys
        self._generation = generation
        self._entropy = entropy
        self.live = keys.roster.generation

    def again(self, slot: str, name: SubKeyName, box: bytes, place: Callable[[int], bytes]) -> bytes:
        plain = open_box(self._keys.key(slot, self._generation, name), box, place(self._generation))
        try:
            key = self._keys.key(slot, self.live, name)
            return seal(key, plain, place(self.live), salt=self._entropy.bytes(SALT_BYTES))
        finally:
            wipe(plain)
