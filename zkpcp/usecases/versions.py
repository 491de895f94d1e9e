"""A page's history in its owner's hands: list it, look at one version, make one the newest again (PCP §5.2).

What is restored is title, text and what else the version said of itself. Sensitivity, partition and retention stay as
they are now: going back must not open a page, move it or keep it longer. Restoring is a write like any other: the
version that it replaces goes into the history, and who restores is its author.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from zkpcp.core import page_keys
from zkpcp.core.audit import Action
from zkpcp.core.pages import Draft, Head, Page
from zkpcp.core.slots import category_of
from zkpcp.core.stored import HeadRow, PageRow
from zkpcp.errors import ConflictError, ForbiddenError, NotFoundError, TamperedError
from zkpcp.ports import Transaction
from zkpcp.usecases.access import Acting
from zkpcp.usecases.call import Call, calling
from zkpcp.usecases.inbox import admit_waiting
from zkpcp.usecases.partition_names import partition_names
from zkpcp.usecases.recall import NOT_THERE, check_read_scope
from zkpcp.usecases.remember import CHANGED, replace_page
from zkpcp.usecases.services import Services
from zkpcp.vault import records

MOST_LISTED: Final = 500
"""How many versions one list shows."""

_NOT_KEPT = "there is no such version of this page, or it is not kept any more"
_STAYING: Final = ("sensitivity", "partition", "expires")


@dataclass(frozen=True, slots=True, repr=False)
class Version:
    """One version of a page. ``until_ms``: when it was replaced; None: it is the current one."""

    number: int
    head: Head
    until_ms: int | None


@dataclass(frozen=True, slots=True, repr=False)
class VersionText:
    """An earlier version as a whole, and the number of the current one."""

    number: int
    page: Page
    current: int


async def list_versions(services: Services, acting: Acting, page_id: str) -> tuple[Version, ...]:
    """The versions of a page that are open to the caller, the newest first. Raises NotFoundError."""
    async with calling(services, acting, Action.HISTORY_LISTED, "memory") as call:
        check_read_scope(acting)
        now_ms, slots = services.clock.now_ms(), acting.readable_slots()
        await admit_waiting(call)
        async with services.store.read() as tx:
            row = await tx.pages.page(acting.context_id, page_id, slots, now_ms)
            if row is None:
                raise NotFoundError(NOT_THERE)
            earlier = await tx.history.versions(acting.context_id, page_id, slots, now_ms, MOST_LISTED)
            names = await partition_names(tx, call)
        call.decrypted = True
        rows: list[tuple[PageRow | HeadRow, int | None]] = [(row, None)]
        rows += ((each.head, each.until_ms) for each in earlier)
        versions = tuple(
            Version(head.version, names.head(records.open_head(acting.keys, head)), until) for head, until in rows
        )
        if any(version.head.id != page_id for version in versions):
            raise TamperedError("the store answers with another page than the one asked for")
        call.object_ids.add(page_id)
        call.categories = {category_of(head.slot) for head, _ in rows}
        call.counts["versions"] = len(versions)
        call.looks_into(head.slot for head, _ in rows)
        async with services.store.write() as tx:
            await call.record(tx)
        return versions


async def read_version(services: Services, acting: Acting, page_id: str, number: int) -> VersionText:
    """One earlier version of a page. Raises NotFoundError."""
    async with calling(services, acting, Action.VERSION_READ, "memory") as call:
        check_read_scope(acting)
        async with services.store.read() as tx:
            stored = await tx.pages.page(acting.context_id, page_id, acting.readable_slots(), services.clock.now_ms())
            page = (await partition_names(tx, call)).page(await _open_version(tx, call, page_id, number))
        if stored is None:
            raise NotFoundError(NOT_THERE)
        async with services.store.write() as tx:
            await call.record(tx)
        return VersionText(number, page, stored.version)


async def restore_version(services: Services, acting: Acting, page_id: str, number: int, *, current: int) -> Page:
    """Write a version anew as the newest one.

    Raises NotFoundError, ConflictError when the page is not at version ``current`` any more, ForbiddenError.
    """
    async with calling(services, acting, Action.VERSION_RESTORED, "memory") as call:
        check_read_scope(acting)
        if "memory:write" not in acting.scopes:
            raise ForbiddenError("restoring a version needs another scope", ("memory:write",))
        async with services.store.write() as tx:
            row = await tx.pages.page(
                acting.context_id, page_id, acting.readable_slots(), services.clock.now_ms(), lock=True
            )
            if row is None:
                raise NotFoundError(NOT_THERE)
            if row.version != current:
                raise ConflictError(CHANGED)
            earlier = await _open_version(tx, call, page_id, number)
            stored = records.open_page(acting.keys, row)
            page = await replace_page(tx, call, _draft(stored, earlier), row, None)
            call.categories.add(category_of(row.slot))
            await call.record(tx)
        return page


async def _open_version(tx: Transaction, call: Call, page_id: str, number: int) -> Page:
    acting, now_ms = call.acting, call.services.clock.now_ms()
    row = await tx.history.version(acting.context_id, page_id, number, acting.readable_slots(), now_ms)
    if row is None:
        raise NotFoundError(_NOT_KEPT)
    call.decrypted = True
    page = records.open_page(acting.keys, row)
    if page.id != page_id or row.version != number:
        raise TamperedError("the store answers with another version than the one asked for")
    call.object_ids.add(page_id)
    call.categories = {category_of(row.slot)}
    call.looks_into([row.slot])
    return page


def _draft(stored: Page, earlier: Page) -> Draft:
    keys = page_keys.client_part(earlier.frontmatter)
    # As a client would send it: who wrote a version is for the server to say.
    keys["source"] = page_keys.client_source(earlier.source)
    now = page_keys.client_part(stored.frontmatter)
    for key in _STAYING:
        keys.pop(key, None)
        if key in now:
            keys[key] = now[key]
    return Draft(stored.path, MappingProxyType(keys), earlier.body)
