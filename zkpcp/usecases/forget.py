"""Deleting a page, and the owner's way to have it back for a while (ERA-07, MEM-07, TOOL-10; PCP §5.2, §8.10).

A deleted page is moved, still sealed, to a table that no reading, searching, listing or exporting query looks at, and
its path is free at once; its earlier versions share its fate. For ``Services.deleted_retention_s`` its owner can
recover it; then it is swept. So that writing and deleting in turns cannot fill the disk, there is a most that is kept;
the first deleted go first. A page that is still in quarantine (MEM-22) is nothing its writer can see, and so nothing it
can delete. Deleting is NOT erasing: what has to be gone at once is the erasure's business.
"""

from __future__ import annotations

from dataclasses import dataclass

from zkpcp.core.audit import Action, Channel
from zkpcp.core.instants import to_rfc3339
from zkpcp.core.slots import category_of
from zkpcp.core.stored import PageRow
from zkpcp.errors import ConflictError, ForbiddenError, NotFoundError, TamperedError, TooLargeError
from zkpcp.ports import Transaction
from zkpcp.usecases.access import Acting
from zkpcp.usecases.audit_log import record
from zkpcp.usecases.call import calling
from zkpcp.usecases.inbox import admit_waiting
from zkpcp.usecases.indexing import index_page
from zkpcp.usecases.partition_names import require_right
from zkpcp.usecases.proposals import writes_wait
from zkpcp.usecases.recall import NOT_THERE, check_one_of, find_page, open_found
from zkpcp.usecases.remember import CHANGED, is_free, parse_expected
from zkpcp.usecases.services import Services
from zkpcp.vault import records

ACTION = "memory_delete"
MOST_LISTED = 500
"""How many deleted pages one list shows."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """What a deletion did: which page, and until when (RFC 3339) its owner can recover it."""

    page_id: str
    recoverable_until: str


@dataclass(frozen=True, slots=True, repr=False)
class DeletedPage:
    """A deleted page in its owner's list; the instants are RFC 3339."""

    page_id: str
    path: str
    title: str
    sensitivity: str
    deleted: str
    recoverable_until: str


@dataclass(frozen=True, slots=True, repr=False)
class Recovered:
    """A page that is back where it was, as it was."""

    page_id: str
    path: str


async def delete_page(
    services: Services,
    acting: Acting,
    *,
    path: str | None = None,
    page_id: str | None = None,
    expected_updated: str | None = None,
) -> Deleted:
    """Delete the page with this path or this id.

    Raises NotFoundError, also for a page the caller may not see; ConflictError for a stale ``expected_updated``;
    ForbiddenError for a sensitive page without memory.sensitive:write (MEM-07); InvalidInputError.
    """
    async with calling(services, acting, ACTION, "memory") as call:
        if "memory:write" not in acting.scopes:
            raise ForbiddenError("deleting pages needs another scope", ("memory:write",))
        if writes_wait(acting):
            raise ForbiddenError("nothing is deleted here without its owner: what apps write waits for review")
        check_one_of(path, page_id)
        expected_ms = parse_expected(expected_updated)
        await admit_waiting(call)
        async with services.store.write() as tx:
            row = await find_page(tx, call, path, page_id, lock=True)
            if row is None:
                raise NotFoundError(NOT_THERE)
            call.decrypted = True
            page = open_found(acting, row, path, page_id)
            call.looks_into([row.slot])
            require_right(acting, "write", page.partition)
            if expected_ms is not None and expected_ms != page.updated_ms:
                raise ConflictError(CHANGED)
            if page.is_sensitive and "memory.sensitive:write" not in acting.scopes:
                needed = ("memory:write", "memory.sensitive:write")
                raise ForbiddenError("deleting a sensitive page needs another scope", needed)
            now_ms = services.clock.now_ms()
            purge_ms = _purge_ms(services, row, now_ms)
            # A clock that was set back must not make a page's life end before it began.
            deleted_ms = max(now_ms, row.updated_ms)
            await tx.pages.delete(acting.context_id, page.id, row.version, deleted_ms=deleted_ms, purge_ms=purge_ms)
            await index_page(tx, services, acting, page.id, before=row)
            call.object_ids.add(page.id)
            call.categories = {category_of(row.slot)}
            await call.record(tx)
            await _make_room(services, tx, acting.context_id)
        return Deleted(page.id, to_rfc3339(purge_ms))


async def list_deleted(services: Services, acting: Acting, *, limit: int = MOST_LISTED) -> tuple[DeletedPage, ...]:
    """What the owner can still recover, the last deleted first. Raises ForbiddenError for anybody else."""
    async with calling(services, acting, Action.DELETED_LISTED, "memory") as call:
        _check_owner(acting)
        async with services.store.read() as tx:
            rows = await tx.pages.deleted(
                acting.context_id, acting.readable_slots(), services.clock.now_ms(), min(limit, MOST_LISTED)
            )
        call.decrypted = bool(rows)
        call.counts["pages"] = len(rows)
        call.object_ids.update(row.head.page_id for row in rows)
        call.categories.update(category_of(row.head.slot) for row in rows)
        call.looks_into(row.head.slot for row in rows)
        listed = []
        for row in rows:
            head = records.open_head(acting.keys, row.head)
            listed.append(
                DeletedPage(
                    page_id=head.id,
                    path=head.path.value,
                    title=head.title,
                    sensitivity=head.sensitivity,
                    deleted=to_rfc3339(row.deleted_ms),
                    recoverable_until=to_rfc3339(row.purge_ms),
                )
            )
        async with services.store.write() as tx:
            await call.record(tx)
        return tuple(listed)


async def recover_page(services: Services, acting: Acting, page_id: str) -> Recovered:
    """Put a deleted page back at its path, unchanged.

    Raises NotFoundError when there is none or its time is over, ConflictError when its path is taken, TooLargeError
    when the context is full, ForbiddenError for anybody but the owner.
    """
    async with calling(services, acting, Action.PAGE_RECOVERED, "memory") as call:
        _check_owner(acting)
        async with services.store.write() as tx:
            now_ms = services.clock.now_ms()
            row = await tx.pages.deleted_page(acting.context_id, page_id, acting.readable_slots(), now_ms)
            if row is None:
                raise NotFoundError("there is no such deleted page, or the time to recover it is over")
            call.decrypted = True
            page = records.open_page(acting.keys, row)
            if page.id != page_id:
                raise TamperedError("the store answers with another page than the one asked for")
            if await tx.pages.count(acting.context_id) >= services.max_pages:
                raise TooLargeError(f"this context holds its limit of {services.max_pages} pages")
            (generation, tag), *newer = records.path_tags(acting.keys, page.path)
            if not await is_free(tx, call, generation, tag):
                raise ConflictError("another page is at its path now; delete that one first")
            await tx.pages.recover(acting.context_id, page_id, generation, tag, recovered_ms=now_ms)
            for generation, tag in newer:
                await tx.pages.claim(acting.context_id, page_id, generation, tag)
            with records.open_terms(acting.keys, row) as terms:
                await index_page(tx, services, acting, page_id, after=page, terms=terms)
            call.object_ids.add(page_id)
            call.categories = {category_of(row.slot)}
            call.looks_into([row.slot])
            await call.record(tx)
        return Recovered(page.id, page.path.value)


async def _make_room(services: Services, tx: Transaction, context_id: str) -> None:
    purged = await tx.pages.purge_deleted_beyond(context_id, services.max_deleted_pages, services.max_deleted_bytes)
    if purged:
        await record(
            tx,
            services,
            context_id,
            action=Action.RETENTION_SWEEP,
            channel=Channel.SYSTEM,
            categories=("memory",),
            counts={"deleted_pages": purged},
        )


def _purge_ms(services: Services, row: PageRow, now_ms: int) -> int:
    # Retention goes on for a deleted page: one that expires sooner is gone sooner.
    until_ms = now_ms + services.deleted_retention_s * 1000
    return until_ms if row.expires_ms is None else min(until_ms, row.expires_ms)


def _check_owner(acting: Acting) -> None:
    # No scope gives this: a client that deletes must not be able to bring back what its owner deleted.
    if not acting.keys.is_controller:
        raise ForbiddenError("only the owner of this context can recover deleted pages")
