"""What the owner can look at: memory pages as they are stored, deleted ones while there is time, and the access log.

A page's address holds its opaque id and never its path: addresses stay in browser histories and the logs of proxies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from zkpcp.core.audit import Entry
from zkpcp.core.instants import parse_rfc3339
from zkpcp.core.pages import serialize
from zkpcp.http.pages.render import Moment
from zkpcp.http.pages.web import Web, posted, see_other, signed_in
from zkpcp.usecases.filters import Filters
from zkpcp.usecases.forget import list_deleted, recover_page
from zkpcp.usecases.indexing import rebuild_index
from zkpcp.usecases.log import LogFilters, list_entries
from zkpcp.usecases.recall import list_pages, read_page

PAGES_AT_ONCE: Final = 100
ENTRIES_AT_ONCE: Final = 50


@dataclass(frozen=True, slots=True, repr=False)
class ListedPage:
    """A memory page in the list."""

    href: str
    title: str
    path: str
    sensitive: bool
    updated: Moment


@dataclass(frozen=True, slots=True, repr=False)
class DeletedEntry:
    """A deleted page, and until when it can be had back."""

    page_id: str
    title: str
    path: str
    sensitive: bool
    deleted: Moment
    until: Moment


@dataclass(frozen=True, slots=True)
class LogLine:
    """An entry of the access log in words."""

    at: Moment
    action: str
    outcome: str
    who: str
    through: str
    touched: str
    decrypted: bool


async def show_pages(web: Web, request: Request) -> Response:
    """The list of memory pages."""
    async with signed_in(web, request, "/pages") as owner:
        listed = await list_pages(
            web.services,
            owner.acting,
            filters=Filters(include_archived=True),
            limit=PAGES_AT_ONCE,
            cursor=request.query_params.get("cursor"),
        )
        base = f"{owner.place.base_path}/pages"
        pages = [
            ListedPage(
                f"{base}/{head.id}",
                head.title,
                head.path.value,
                head.sensitivity == "sensitive",
                Moment.of(head.updated_ms),
            )
            for head in listed.heads
        ]
        more = f"{base}?cursor={listed.next_cursor}" if listed.next_cursor else ""
        deleted = f"{owner.place.base_path}/deleted"
        return web.pages.page("pages", nav=owner.nav, pages=pages, more=more, deleted=deleted)


async def rebuild(web: Web, request: Request) -> Response:
    """Make the search index again and show the list; writes wait until it is done."""
    form = await posted(web, request)
    async with signed_in(web, request, "/pages", form) as owner:
        await rebuild_index(web.services, owner.acting, _unseen)
        return see_other(web, f"{owner.place.base_path}/pages")


async def show_page(web: Web, request: Request) -> Response:
    """One memory page, as text."""
    async with signed_in(web, request, "") as owner:
        page = await read_page(web.services, owner.acting, page_id=request.path_params["page_id"])
        text = serialize(page).decode()
        history = f"{owner.place.base_path}/pages/{page.id}/history"
        return web.pages.page("page", nav=owner.nav, path=page.path.value, text=text, history=history)


async def show_deleted(web: Web, request: Request) -> Response:
    """The deleted pages that can still be had back."""
    async with signed_in(web, request, "/deleted") as owner:
        deleted = await list_deleted(web.services, owner.acting)
        pages = [
            DeletedEntry(
                item.page_id,
                item.title,
                item.path,
                item.sensitivity == "sensitive",
                Moment.of(parse_rfc3339(item.deleted)),
                Moment.of(parse_rfc3339(item.recoverable_until)),
            )
            for item in deleted
        ]
        return web.pages.page("deleted", nav=owner.nav, pages=pages)


async def recover(web: Web, request: Request) -> Response:
    """Put a deleted page back and show it."""
    form = await posted(web, request)
    async with signed_in(web, request, "/deleted", form) as owner:
        recovered = await recover_page(web.services, owner.acting, form.one("page_id"))
        return see_other(web, f"{owner.place.base_path}/pages/{recovered.page_id}")


async def show_log(web: Web, request: Request) -> Response:
    """The access log, newest first."""
    async with signed_in(web, request, "/log") as owner:
        listed = await list_entries(
            web.services,
            owner.acting,
            filters=LogFilters(),
            limit=ENTRIES_AT_ONCE,
            cursor=request.query_params.get("cursor"),
        )
        older = f"{owner.place.base_path}/log?cursor={listed.next_cursor}" if listed.next_cursor else ""
        return web.pages.page("log", nav=owner.nav, entries=[_line(entry) for entry in listed.entries], older=older)


def _unseen(done: int, total: int) -> None:
    """A page has nowhere to show progress while its form is being answered."""


def _line(entry: Entry) -> LogLine:
    return LogLine(
        at=Moment.of(entry.at_ms),
        action=entry.action,
        outcome=entry.outcome.value.replace("_", " "),
        who=entry.principal or "nobody signed in",
        through=" ".join(filter(None, (entry.channel.value, entry.client))),
        touched=", ".join(entry.categories),
        decrypted=entry.decrypted,
    )
