"""Keeping the integrity heads of slots: what an act changed is settled in them, in its own transaction (PCP §9.1).

A store notes every row that a transaction puts or takes. ``settle`` takes that into the head of each slot touched: one
read with a lock and one write, however many rows the slot has. Rows that were swept without a key wait as remnants and
are taken off by the next change of their slot, if they may be gone: a remnant of a row whose time has not come stays,
and a check of the sums then says so. Nothing is refused here because a sum does not come out: that is for the check.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from zkpcp.core.leaves import Change, Leaf
from zkpcp.core.slots import PARTITIONS, counted_slots
from zkpcp.core.stored import AuditHead, SlotHeadRow
from zkpcp.errors import TamperedError
from zkpcp.ports import Entropy, Transaction
from zkpcp.usecases.services import Services
from zkpcp.vault.heads import SlotSum, leaf_value, open_head, seal_head
from zkpcp.vault.keyring import OpenKeyring

_VERSIONS = "page_versions"


async def settle(tx: Transaction, services: Services, keys: OpenKeyring, *, ahead: int = 0) -> AuditHead | None:
    """Take what this transaction has changed so far into the heads of its slots, near its end.

    ``ahead``: 1 where an entry of the access log is about to be written, which the heads then name. The place in the
    log after which that was, None where nothing was changed. Raises TamperedError for a head that is missing or does
    not open.
    """
    changes = [each for each in await tx.heads.changes() if keys.roster.counts(each.leaf.slot, each.leaf.generation)]
    mine = [each for each in changes if keys.can_count(each.leaf.slot)]
    # What was swept along in a slot that is closed to this caller.
    await tx.heads.leave(each for each in changes if not keys.can_count(each.leaf.slot))
    if not mine:
        return None
    # The log is locked first, as every act that ends with an entry does: so no two wait for each other.
    log = await tx.audit.head(keys.context_id)
    await _settle(tx, services, keys, mine, log.seq + ahead)
    return log


async def take_remnants(tx: Transaction, services: Services, keys: OpenKeyring, slots: Collection[str]) -> None:
    """Take what was swept off the heads of these slots."""
    log = await tx.audit.head(keys.context_id)
    await _settle(tx, services, keys, (), log.seq, also=slots)


async def begin_slots(
    tx: Transaction, services: Services, keys: OpenKeyring, names: Iterable[str], partitions: Collection[str]
) -> None:
    """Make the heads of slots that have no rows yet at the live generation. For the owner."""
    log = await tx.audit.head(keys.context_id)
    empty = SlotSum(entry=log.seq)
    slots = sorted({slot for name in names for slot in counted_slots(name, partitions)})
    generation = keys.roster.generation
    await tx.heads.put([seal_head(keys, slot, generation, empty, services.entropy) for slot in slots])


async def begin_partition(tx: Transaction, services: Services, keys: OpenKeyring, partition: str) -> None:
    """Make the heads of a new partition, where rows are counted."""
    if PARTITIONS in keys.roster.counted:
        await begin_slots(tx, services, keys, [PARTITIONS], [partition])


async def is_empty_behind(tx: Transaction, services: Services, keys: OpenKeyring) -> bool:
    """Whether nothing is counted any more in any generation before the live one: each row there was has moved on."""
    live = keys.roster.generation
    rows = [row for row in await tx.heads.heads(keys.context_id) if row.generation < live]
    await take_remnants(tx, services, keys, {row.slot for row in rows if row.remnants})
    rows = [row for row in await tx.heads.heads(keys.context_id) if row.generation < live]
    return all(open_head(keys, row).is_empty and not row.remnants for row in rows)


async def may_be_gone(
    tx: Transaction, services: Services, context_id: str, remnants: Sequence[Leaf]
) -> tuple[list[Leaf], list[Leaf]]:
    """Which of these rows a sweep may have taken, and which not.

    Anything past its own end; an earlier version that is older, or behind more versions, than are kept, or whose page
    is there no more.
    """
    now_ms = services.clock.now_ms()
    keep, since_ms = services.history_kept()
    asked = {each.object_id for each in remnants if each.kind == _VERSIONS}
    current = await tx.heads.page_versions(context_id, asked) if asked else {}

    def is_over(leaf: Leaf) -> bool:
        if leaf.expires_ms is not None and leaf.expires_ms <= now_ms:
            return True
        if leaf.kind != _VERSIONS:
            return False
        newest = current.get(leaf.object_id)
        is_old = leaf.until_ms is not None and leaf.until_ms <= since_ms
        return is_old or newest is None or leaf.version < newest - keep

    over = [each for each in remnants if is_over(each)]
    return over, [each for each in remnants if not is_over(each)]


async def _settle(
    tx: Transaction,
    services: Services,
    keys: OpenKeyring,
    changes: Sequence[Change],
    entry: int,
    *,
    also: Collection[str] = (),
) -> None:
    context_id = keys.context_id
    places = {(each.leaf.slot, each.leaf.generation) for each in changes}
    slots = {slot for slot, _ in places} | set(also)
    rows = {(row.slot, row.generation): row for row in await tx.heads.turn(context_id, slots)}
    if not places <= rows.keys():
        raise TamperedError("the integrity head of a slot is missing")
    waiting = {row.slot for row in rows.values() if row.remnants}
    left = await tx.heads.remnants(context_id, waiting) if waiting else ()
    over, _ = await may_be_gone(tx, services, context_id, left) if left else ([], [])
    over = [each for each in over if (each.slot, each.generation) in rows]
    places |= {(each.slot, each.generation) for each in over}
    sums = {place: open_head(keys, rows[place]) for place in places}
    for leaf, is_put in (*((each.leaf, each.is_put) for each in changes), *((each, False) for each in over)):
        place, value = (leaf.slot, leaf.generation), leaf_value(keys, leaf)
        sums[place] = sums[place].with_leaf(value) if is_put else sums[place].without_leaf(value)
    await tx.heads.put([_sealed(keys, *place, sums[place], entry, services.entropy) for place in sorted(places)])
    if over:
        await tx.heads.forget(context_id, over)


def _sealed(keys: OpenKeyring, slot: str, generation: int, head: SlotSum, entry: int, entropy: Entropy) -> SlotHeadRow:
    return seal_head(keys, slot, generation, replace(head, sequence=head.sequence + 1, entry=entry), entropy)
