"""Pages that anybody may see: the root of the server, what its operator can read (KEY-01), stylesheet and icon."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from zkpcp.errors import NotFoundError
from zkpcp.http.pages.web import Web, see_other


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the database and what it holds."""

    name: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the database."""

    name: str
    columns: tuple[Column, ...]


async def show_root(web: Web, request: Request) -> Response:
    """Set-up on a server without contexts; otherwise what this is. It names no context."""
    async with web.services.store.read() as tx:
        empty = not await tx.contexts.handles()
    if empty:
        return see_other(web, "/set-up")
    return await show_about(web, request)


async def show_about(web: Web, _: Request) -> Response:
    """What this server is."""
    return web.pages.page("landing", example_url=web.site.base_url("name"))


async def show_metadata(web: Web, _: Request) -> Response:
    """The columns of the database in words."""
    tables = [
        Table(name, tuple(Column(column, meaning) for column, meaning in columns.items()))
        for name, columns in sorted(web.schema.items())
    ]
    return web.pages.page("metadata", tables=tables)


async def static(web: Web, request: Request) -> Response:
    """The stylesheet or the icon."""
    answer = web.pages.static_file(request.path_params["name"])
    if answer is None:
        raise NotFoundError("there is no such file")
    return answer
