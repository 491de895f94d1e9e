"""Reading one page and listing pages: only what the caller may see ever leaves the store (MEM-17, MEM-18, TOOL-10)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import islice

from zkpcp.core import pages as page_format
from zkpcp.core.instants import to_rfc3339
from zkpcp.core.pages import Head, Page
from zkpcp.core.paths import parse_path
from zkpcp.core.schemas import JsonValue
from zkpcp.core.slots import MAIN_PARTITION, category_of
from zkpcp.core.stored import PageRow
from zkpcp.errors import ForbiddenError, InvalidInputError, NotFoundError, TamperedError, Violation
from zkpcp.ports import Transaction
from zkpcp.usecases.access import Acting
from zkpcp.usecases.call import Call, calling
from zkpcp.usecases.filters import Filters
from zkpcp.usecases.inbox import admit_waiting
from zkpcp.usecases.indexed import OpenIndex, open_index
from zkpcp.usecases.partition_names import PartitionNames, partition_names
from zkpcp.usecases.services import Services
from zkpcp.vault import records
from zkpcp.vault.cursors import open_cursor, seal_cursor

READ = "memory_read"
LIST = "memory_list"
NOT_THERE = "there is no such page, or it is not open to this connection"


@dataclass(frozen=True, slots=True, repr=False)
class Listed:
    """Part of a list: the heads in order, and the cursor that continues it, None at its end."""

    heads: tuple[Head, ...]
    next_cursor: str | None


async def read_page(services: Services, acting: Acting, *, path: str | None = None, page_id: str | None = None) -> Page:
    """The page with this path or this id. Raises NotFoundError, also for a page the caller may not see (TOOL-10)."""
    async with calling(services, acting, READ, "memory") as call:
        check_one_of(path, page_id)
        check_read_scope(acting)
        await admit_waiting(call)
        async with services.store.read() as tx:
            row = await find_page(tx, call, path, page_id)
            names = await partition_names(tx, call)
        if row is None:
            raise NotFoundError(NOT_THERE)
        call.decrypted = True
        page = names.page(open_found(acting, row, path, page_id))
        call.object_ids.add(page.id)
        call.categories = {category_of(row.slot)}
        call.looks_into([row.slot])
        async with services.store.write() as tx:
            await call.record(tx)
        return page


async def list_pages(
    services: Services, acting: Acting, *, filters: Filters, limit: int, cursor: str | None = None
) -> Listed:
    """Pages in the order of their paths. Raises InvalidInputError for a cursor that this call did not return."""
    async with calling(services, acting, LIST, "memory") as call:
        check_read_scope(acting)
        filters.check()
        after = open_cursor(acting.keys, LIST, filters.as_json(), cursor) if cursor is not None else None
        await admit_waiting(call)
        async with services.store.read() as tx:
            heads = await _in_order(tx, call, filters, after if isinstance(after, str) else "", limit + 1)
        part = tuple(heads[:limit])
        more = len(heads) > limit
        next_cursor = (
            seal_cursor(acting.keys, LIST, filters.as_json(), part[-1].path.folded, services.entropy) if more else None
        )
        _note(call, part)
        async with services.store.write() as tx:
            await call.record(tx)
        return Listed(part, next_cursor)


def head_as_json(head: Head) -> dict[str, JsonValue]:
    """How a page stands in a list: what it is, and the dates that say when it holds (MEM-11)."""
    entry: dict[str, JsonValue] = {
        "path": head.path.value,
        "id": head.id,
        "title": head.title,
        "updated": to_rfc3339(head.updated_ms),
        "lifecycle": head.lifecycle,
        "sensitivity": head.sensitivity,
    }
    optional: dict[str, JsonValue] = {
        "partition": None if head.partition == MAIN_PARTITION else head.partition,
        "type": head.type,
        "tags": list(head.tags) or None,
        "valid_from": head.valid_from,
        "valid_until": head.valid_until,
        "expires": None if head.expires_ms is None else to_rfc3339(head.expires_ms),
    }
    return entry | {name: value for name, value in optional.items() if value is not None}


async def find_page(
    tx: Transaction, call: Call, path: str | None, page_id: str | None, *, lock: bool = False
) -> PageRow | None:
    """The row at this path or with this id, if the caller may see it."""
    acting, now_ms = call.acting, call.services.clock.now_ms()
    if path is not None:
        page_id = await page_id_at(tx, acting, path)
    if page_id is None:
        return None
    return await tx.pages.page(acting.context_id, page_id, acting.readable_slots(), now_ms, lock=lock)


async def page_id_at(tx: Transaction, acting: Acting, path: str) -> str | None:
    """The id of the page at a path, whoever may see it. Raises InvalidInputError for what is no path."""
    generation, tag = records.path_tag(acting.keys, parse_path(path, "/path"))
    return await tx.pages.by_tag(acting.context_id, generation, tag)


def open_found(acting: Acting, row: PageRow, path: str | None, page_id: str | None) -> Page:
    """The page in a row that ``find_page`` found. Raises TamperedError when it is not the page that was asked for."""
    page = records.open_page(acting.keys, row)
    if page_id is not None and page.id != page_id:
        raise TamperedError("the store answers with another page than the one asked for")
    if path is not None:
        records.check_path(page, parse_path(path))
    return page


async def directory(tx: Transaction, call: Call, filters: Filters | None = None) -> list[Head]:
    """The heads of all pages the caller may see, in the partition and below the prefix of ``filters``.

    They come from the index if there is one, and say their partition's name.
    """
    wanted = filters or Filters()
    names, slots, opened = await _looked_up(tx, call, wanted)
    if opened is not None:
        return [*names.heads(await opened.directory(wanted.prefix))]
    return [*names.heads(head for head in await _stored(tx, call, slots) if head.path.has_prefix(wanted.prefix))]


async def _looked_up(
    tx: Transaction, call: Call, filters: Filters
) -> tuple[PartitionNames, frozenset[str], OpenIndex | None]:
    """The partitions by name, the slots that are asked for, and their index if there is one."""
    names = await partition_names(tx, call)
    slots = filters.slots(call.acting.readable_slots(), names)
    call.looks_into(slots)
    opened = await open_index(tx, call.acting, call.services.clock.now_ms(), slots)
    call.decrypted = call.decrypted or (opened is not None and opened.pages > 0)
    return names, slots, opened


async def _stored(tx: Transaction, call: Call, slots: Collection[str]) -> list[Head]:
    """The heads of all pages in these slots, from their rows."""
    acting = call.acting
    rows = await tx.pages.heads(acting.context_id, slots, call.services.clock.now_ms())
    call.decrypted = call.decrypted or bool(rows)
    return [records.open_head(acting.keys, row) for row in rows]


async def _in_order(tx: Transaction, call: Call, filters: Filters, after: str, wanted: int) -> list[Head]:
    """The first ``wanted`` pages behind a path, in the order of paths; an index is decoded no further than that."""
    names, slots, opened = await _looked_up(tx, call, filters)
    if opened is None:
        heads = [head for head in await _stored(tx, call, slots) if filters.admit(head) and head.path.folded > after]
        return [*names.heads(sorted(heads, key=_by_path)[:wanted])]
    beyond = after.encode()
    lines = sorted(each for each in await opened.lines(filters.prefix) if each[0] > beyond)
    decoded = (page_format.decode_head(line) for _, line in lines)
    return [*names.heads(islice(filter(filters.admit, decoded), wanted))]


def _note(call: Call, heads: Iterable[Head]) -> None:
    shown = list(heads)
    call.object_ids.update(head.id for head in shown)
    call.counts["pages"] = len(shown)
    if any(head.sensitivity == "sensitive" for head in shown):
        call.categories.add("memory.sensitive")


def _by_path(head: Head) -> str:
    return head.path.folded


def check_one_of(path: str | None, page_id: str | None) -> None:
    """Raise InvalidInputError unless exactly one of them is given (TOOL-12)."""
    if (path is None) == (page_id is None):
        rule = "give exactly one of path and id"
        raise InvalidInputError(rule, [Violation("/path", rule), Violation("/id", rule)])


def check_read_scope(acting: Acting) -> None:
    """Raise ForbiddenError unless the caller may read pages."""
    if "memory:read" not in acting.scopes:
        raise ForbiddenError("reading pages needs another scope", ("memory:read",))
