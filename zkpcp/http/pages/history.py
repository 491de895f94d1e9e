"""What the owner can do with a page's past: see its versions, look at one, make one the newest again.

Addresses hold the page's opaque id and a version's number, never a path or title.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from zkpcp.core.pages import serialize
from zkpcp.errors import InvalidInputError, NotFoundError
from zkpcp.http.pages.render import Moment
from zkpcp.http.pages.web import Web, posted, see_other, signed_in
from zkpcp.usecases.versions import Version, list_versions, read_version, restore_version

_NUMBER: Final = re.compile(r"[1-9][0-9]{0,9}")


@dataclass(frozen=True, slots=True, repr=False)
class ListedVersion:
    """A version in the list; the current one has no end."""

    number: int
    href: str
    title: str
    sensitive: bool
    written: Moment
    until: Moment | None


async def show_versions(web: Web, request: Request) -> Response:
    """The versions of a page, the newest first."""
    async with signed_in(web, request, "") as owner:
        page_id = request.path_params["page_id"]
        versions = await list_versions(web.services, owner.acting, page_id)
        page = f"{owner.place.base_path}/pages/{page_id}"
        return web.pages.page(
            "history",
            nav=owner.nav,
            page=page,
            path=versions[0].head.path.value,
            current=versions[0].number,
            versions=[_listed(version, page) for version in versions],
        )


async def show_version(web: Web, request: Request) -> Response:
    """One earlier version, as text."""
    async with signed_in(web, request, "") as owner:
        page_id = request.path_params["page_id"]
        version = await read_version(web.services, owner.acting, page_id, _number(request.path_params["number"]))
        return web.pages.page(
            "version",
            nav=owner.nav,
            page=f"{owner.place.base_path}/pages/{page_id}",
            path=version.page.path.value,
            number=version.number,
            current=version.current,
            written=Moment.of(version.page.updated_ms),
            text=serialize(version.page).decode(),
        )


async def restore(web: Web, request: Request) -> Response:
    """Write an earlier version anew as the newest one and show the page."""
    form = await posted(web, request)
    async with signed_in(web, request, "", form) as owner:
        page_id = request.path_params["page_id"]
        current = form.one("current")
        if _NUMBER.fullmatch(current) is None:
            raise InvalidInputError("the form does not say which version it was made for")
        number = _number(form.one("number"))
        await restore_version(web.services, owner.acting, page_id, number, current=int(current))
        return see_other(web, f"{owner.place.base_path}/pages/{page_id}")


def _listed(version: Version, page: str) -> ListedVersion:
    return ListedVersion(
        number=version.number,
        href=page if version.until_ms is None else f"{page}/history/{version.number}",
        title=version.head.title,
        sensitive=version.head.sensitivity == "sensitive",
        written=Moment.of(version.head.updated_ms),
        until=None if version.until_ms is None else Moment.of(version.until_ms),
    )


def _number(text: str) -> int:
    if _NUMBER.fullmatch(text) is None:
        raise NotFoundError("there is no such version")
    return int(text)
