"""Keeping each slot's search index in step with its pages, in the transaction that changes them (MEM-17, MEM-20).

A write locks the index of its slot, changes a few parts and compacts one bucket: constant work, whatever the size. A
slot that has pages but no index, or one for older keys, is left alone; searches scan it, until ``rebuild_index``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from zkpcp.core import index
from zkpcp.core import pages as page_format
from zkpcp.core.audit import Action
from zkpcp.core.index import Indexed, Segment, Writer
from zkpcp.core.pages import Head, Page
from zkpcp.core.stored import IndexPlace, IndexSlotRow, PageRow, tally_mark
from zkpcp.errors import ForbiddenError, TamperedError
from zkpcp.ports import Entropy, Transaction
from zkpcp.usecases.access import Acting
from zkpcp.usecases.call import calling
from zkpcp.usecases.services import Services
from zkpcp.vault import index as sealed_index
from zkpcp.vault import records

_META: Final = "meta"
_MOST_SEGMENTS: Final = 4096
"""Some 16 million pages."""


@dataclass(frozen=True, slots=True, repr=False)
class Keeper:
    """The index of one slot, locked for the length of a transaction."""

    tx: Transaction
    acting: Acting
    row: IndexSlotRow
    entropy: Entropy
    now_ms: int

    async def write(self, page_id: str, place: IndexPlace | None, old: bytes | None, new: Indexed | None) -> IndexPlace:
        """Index a page anew or change it at its place; remove it when ``new`` is None. Its place from now on."""
        segment, number, which = await self._segment(place)
        writer = Writer(segment, sealed_index.bucket_hash(self.acting.keys, self.row.slot, self.row.generation, which))
        writer.load(await open_parts(self.tx, self.acting, self.row, segment, which, writer.needs(number, self.now_ms)))
        if place is not None and page_format.decode_head(writer.head(number)).id != page_id:
            raise TamperedError("the search index has another page at this place")
        writer.write(number, old, new, self.now_ms)
        await self.store(writer, which)
        return IndexPlace(self.row.slot, which, number)

    async def _segment(self, place: IndexPlace | None) -> tuple[Segment, int, int]:
        if place is not None:
            [segment] = await open_segments(self.tx, self.acting, self.row, [place.segment])
            return segment, place.number, place.segment
        last = self.row.segments - 1
        if last >= 0:
            [segment] = await open_segments(self.tx, self.acting, self.row, [last])
            number = segment.free_number()
            if number is not None:
                return segment, number, last
        await self.tx.index.set_slot(replace(self.row, segments=last + 2))
        return Segment(), 0, last + 1

    async def store(self, writer: Writer, which: int) -> None:
        """Seal and store what a writer changed."""
        segment = writer.segment
        stamped = {name: (segment.stamp_of(name), data) for name, data in writer.parts().items()}
        stamped[_META] = (segment.seq, segment.encode())
        rows = [
            sealed_index.seal_part(
                self.acting.keys, self.row.slot, self.row.generation, f"{which}/{name}", stamp, data, self.entropy
            )
            for name, (stamp, data) in stamped.items()
        ]
        await self.tx.index.put(rows)
        if gone := writer.gone():
            await self.tx.index.drop(self.row.context_id, self.row.slot, [f"{which}/{name}" for name in gone])


async def index_page(
    tx: Transaction,
    services: Services,
    acting: Acting,
    page_id: str,
    *,
    before: PageRow | None = None,
    after: Page | None = None,
    terms: bytes = b"",
) -> None:
    """Follow a page from its row before to what it is now, with its encoded term vector, also from slot to slot."""
    place = None if before is None else await tx.index.place(acting.context_id, page_id)
    was = None if before is None or place is None else before.slot
    becomes = None if after is None else records.slot_of(after)
    old = _terms(acting, before) if before is not None and was is not None else None
    new = None if after is None else _entry(terms, page_format.head_of(after))
    now_place: IndexPlace | None = None
    for slot in sorted({slot for slot in (was, becomes) if slot is not None}):
        keeper = await _keeper(tx, services, acting, slot, page_id)
        if keeper is None:
            continue
        here = (place, old) if slot == was else (None, None)
        there = await keeper.write(page_id, *here, new if slot == becomes else None)
        now_place = there if slot == becomes else now_place
    if now_place != place:
        await tx.index.set_place(acting.context_id, page_id, now_place)


async def open_segments(
    tx: Transaction, acting: Acting, row: IndexSlotRow, which: Sequence[int] | None = None
) -> list[Segment]:
    """The meta parts of these segments, by default of all. Raises TamperedError when one is away."""
    if row.segments > _MOST_SEGMENTS:
        raise TamperedError("the search index has more segments than there can be")
    names = [f"{number}/{_META}" for number in (range(row.segments) if which is None else which)]
    stored = {each.part: each for each in await tx.index.parts(row.context_id, row.slot, names)}
    if len(stored) != len(names):
        raise TamperedError("the search index lacks a segment")
    return [
        index.decode_segment(
            sealed_index.open_part(acting.keys, stored[name], row.slot, row.generation, stored[name].stamp)
        )
        for name in names
    ]


async def open_parts(
    tx: Transaction,
    acting: Acting,
    row: IndexSlotRow,
    segment: Segment,
    which: int,
    names: Collection[str],
    read: Collection[str] = (),
) -> dict[str, bytes]:
    """Other parts of a segment by name; those in ``read`` are only read. Raises TamperedError for one that is away."""
    asked = [f"{which}/{name}" for name in {*names, *read}]
    stored = {each.part: each for each in await tx.index.parts(row.context_id, row.slot, asked)} if asked else {}
    if len(stored) != len(asked):
        raise TamperedError("the search index lacks a part")
    return {
        name: sealed_index.open_part(
            acting.keys, stored[f"{which}/{name}"], row.slot, row.generation, segment.stamp_of(name)
        )
        for name in names
    }


async def rebuild_index(services: Services, acting: Acting, advance: Callable[[int, int], None]) -> int:
    """Make the index of every slot again; ``advance`` is told how many pages of how many are done.

    One transaction: other writers wait for it. Raises ForbiddenError for anybody but the owner.
    """
    async with calling(services, acting, Action.INDEX_REBUILT, "memory") as call:
        if not acting.keys.is_controller:
            raise ForbiddenError("only the owner of this context can rebuild its index")
        done = 0
        async with services.store.write() as tx:
            total = await tx.pages.count(acting.context_id)

            def one_more() -> None:
                nonlocal done
                done += 1
                advance(done, total)

            for slot in sorted(acting.readable_slots()):
                await rebuild_slot(tx, services, acting, slot, one_more)
            call.decrypted = done > 0
            call.counts["pages"] = done
            await call.record(tx)
        return done


async def rebuild_slot(
    tx: Transaction, services: Services, acting: Acting, slot: str, advance: Callable[[], None]
) -> None:
    """Make the index of one slot again, under the live keys, from the pages' own vectors and heads."""
    now_ms = services.clock.now_ms()
    generation = acting.keys.roster.generation
    row = replace(await tx.index.turn(acting.context_id, slot, generation), generation=generation, segments=0)
    await tx.index.clear(acting.context_id, slot)
    vectors = await tx.pages.terms(acting.context_id, (slot,), now_ms)
    heads = {head.page_id: head for head in await tx.pages.heads(acting.context_id, (slot,), now_ms)}
    for first in range(0, len(vectors), index.PAGES_PER_SEGMENT):
        which = row.segments
        row = replace(row, segments=which + 1)
        writer = Writer(Segment(), sealed_index.bucket_hash(acting.keys, slot, generation, which))
        for number, vector in enumerate(vectors[first : first + index.PAGES_PER_SEGMENT]):
            head = records.open_head(acting.keys, heads[vector.page_id])
            with records.open_terms(acting.keys, vector) as terms:
                writer.write(number, None, _entry(terms, head), now_ms)
            await tx.index.set_place(acting.context_id, vector.page_id, IndexPlace(slot, which, number))
            advance()
        await Keeper(tx, acting, row, services.entropy, now_ms).store(writer, which)
    await tx.index.set_slot(row)


async def _keeper(tx: Transaction, services: Services, acting: Acting, slot: str, page_id: str) -> Keeper | None:
    generation, now_ms = acting.keys.roster.generation, services.clock.now_ms()
    row = await tx.index.turn(acting.context_id, slot, generation)
    if row.generation != generation:
        return None
    if not row.segments and await tx.pages.has_others(acting.context_id, slot, page_id, now_ms):
        return None
    return Keeper(tx, acting, row, services.entropy, now_ms)


def _entry(terms: bytes, head: Head) -> Indexed:
    asked = (
        head.lifecycle in ("stale", "archived")
        or head.valid_from is not None
        or head.valid_until is not None
        or bool(head.supersedes)
    )
    return Indexed(terms, page_format.encode_head(head), tally_mark(head.updated_ms), head.expires_ms, asked)


def _terms(acting: Acting, row: PageRow) -> bytes:
    with records.open_terms(acting.keys, row) as terms:
        return terms
