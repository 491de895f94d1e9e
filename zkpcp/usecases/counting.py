"""Whether the rows that a context has are those that were counted, and counting them anew (PCP §9.1).

A check reads every row that is counted, in one snapshot, and holds what they add up to against the integrity head of
their slot. So it notices rows that were dropped, doubled, exchanged or put back, and a slot put back whole, where the
access log knows of a later write to it. It says which slot, not which row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final, TypeAlias, get_args

from zkpcp.core import audit
from zkpcp.core.audit import Action, Entry, Outcome
from zkpcp.core.extensions import slot_of_stem
from zkpcp.core.leaves import LeafKind
from zkpcp.core.slots import MAIN_PARTITION, counted_names, counted_slots, memory_slot
from zkpcp.core.stored import AuditRow, SlotHeadRow
from zkpcp.errors import ConflictError, CorruptError
from zkpcp.ports import Transaction
from zkpcp.usecases.heads import begin_slots, may_be_gone
from zkpcp.usecases.managing import record_managed
from zkpcp.usecases.roster_changes import change_roster, require_owner
from zkpcp.usecases.services import Services
from zkpcp.usecases.session import OpenSession
from zkpcp.vault.heads import SlotSum, leaf_value, open_head, seal_head
from zkpcp.vault.keyring import OpenKeyring

Place: TypeAlias = tuple[str, int]
"""A slot at a generation."""

_KINDS: Final[tuple[LeafKind, ...]] = get_args(LeafKind)
_AT_ONCE: Final = 500
_DELETED: Final = frozenset({"memory_delete", Action.PAGE_RECOVERED})
_WRITTEN: Final = frozenset({"memory_write", Action.VERSION_RESTORED})
_PAGE: Final = "pg_"


async def count_anew(services: Services, session: OpenSession) -> None:
    """Count every row there is now, and take that for what there should be; from here on every change is counted.

    For the owner of a context made before there were integrity heads, or who has seen what is missing and goes on.
    Raises ForbiddenError for anybody else, LockedError, ConflictError while the keys are being changed.
    """
    require_owner(session)
    keys, context_id = session.keyring, session.context.context_id
    if keys.roster.oldest is not None:
        raise ConflictError("the keys are being changed: rows are counted with that")
    async with services.store.write() as tx:
        namespaces = await tx.rotation.namespaces(context_id)
        names = MappingProxyType(dict.fromkeys(counted_names(namespaces), keys.roster.generation))
        # Changes the version: whoever writes meanwhile by the roster before is refused, and comes again.
        await change_roster(tx, session, lambda roster: replace(roster, counted=names))
        await begin_slots(tx, services, keys, names, keys.roster.partitions)
        log = await tx.audit.head(context_id)
        sums = await _sums(tx, keys, lambda _more: None)
        sealed = [
            seal_head(keys, *place, replace(each, sequence=1, entry=log.seq), services.entropy)
            for place, each in sorted(sums.items())
        ]
        await tx.heads.put(sealed)
        await tx.heads.forget(context_id, None)
        await record_managed(tx, services, session, Action.ROWS_COUNTED, ("memory", "keys"), decrypted=True)


async def wrong_sums(
    tx: Transaction,
    services: Services,
    keys: OpenKeyring,
    written: Mapping[str, int],
    looked_at: Callable[[int], None],
) -> list[str]:
    """What does not come out, by slot. ``written``: the newest entry of the log that says a slot was written to."""
    roster = keys.roster
    rows = {(row.slot, row.generation): row for row in await tx.heads.heads(keys.context_id)}
    sums = await _sums(tx, keys, looked_at)
    remnants = await tx.heads.remnants(keys.context_id, {slot for slot, _ in rows})
    over, early = await may_be_gone(tx, services, keys.context_id, remnants)
    for leaf in over:
        place = (leaf.slot, leaf.generation)
        sums[place] = sums.get(place, SlotSum()).with_leaf(leaf_value(keys, leaf))
    found = [f"{leaf.slot}: a row is gone before its time" for leaf in early]
    demanded = {(slot, roster.generation) for name in roster.counted for slot in counted_slots(name, roster.partitions)}
    for slot, generation in sorted(demanded | sums.keys() | rows.keys()):
        row, counted = rows.get((slot, generation)), sums.get((slot, generation), SlotSum())
        if not roster.counts(slot, generation):
            continue
        if row is None:
            found.append(f"{slot}: its head is missing")
        else:
            found += _compared(keys, row, counted, written.get(slot, 0))
    return found


def _compared(keys: OpenKeyring, row: SlotHeadRow, counted: SlotSum, entry: int) -> list[str]:
    try:
        head = open_head(keys, row)
    except CorruptError as error:
        return [f"{row.slot}: its head: {error.message}"]
    if head.count != counted.count:
        return [f"{row.slot}: {counted.count} rows, and not the {head.count} that were counted"]
    if not head.counts_as(counted):
        return [f"{row.slot}: other rows than those that were counted"]
    if row.generation == keys.roster.generation and head.entry < entry:
        return [f"{row.slot}: entry {entry} of the log says that it was written to after this state of it"]
    return []


def written_slot(row: AuditRow) -> str | None:
    """The slot that an entry of the log says was written to; None where it says nothing that certain."""
    if row.outcome != Outcome.OK.value:
        return None
    try:
        entry = audit.from_json(row.entry)
    except CorruptError:
        return None
    if entry.action == "profile_update":
        return slot_of_stem(entry.categories[0]) if len(entry.categories) == 1 else None
    return _memory_slot(entry)


def _memory_slot(entry: Entry) -> str | None:
    partitions = entry.partitions or (MAIN_PARTITION,)
    if len(partitions) != 1 or not all(each.startswith(_PAGE) for each in entry.object_ids):
        return None
    sensitive = "memory.sensitive" in entry.categories
    # A sensitive page may have been written to the inbox only.
    if entry.action in _DELETED or (entry.action in _WRITTEN and not sensitive):
        return memory_slot(partitions[0], sensitive=sensitive)
    return None


async def _sums(tx: Transaction, keys: OpenKeyring, looked_at: Callable[[int], None]) -> dict[Place, SlotSum]:
    """What the stored rows add up to, by slot and generation."""
    sums: dict[Place, SlotSum] = {}
    for kind in _KINDS:
        skip = 0
        while leaves := await tx.heads.leaves(keys.context_id, kind, _AT_ONCE, skip):
            skip += len(leaves)
            counted = [each for each in leaves if each is not None and keys.roster.counts(each.slot, each.generation)]
            for leaf in counted:
                place = (leaf.slot, leaf.generation)
                sums[place] = sums.get(place, SlotSum()).with_leaf(leaf_value(keys, leaf))
            looked_at(len(counted))
    return sums
