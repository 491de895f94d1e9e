"""Turning an extension on or off, from the buttons on the home page (PROF-07)."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from zkpcp.errors import InvalidInputError
from zkpcp.http.pages.web import Web, posted, see_other, signed_in
from zkpcp.usecases.extensions import set_extension


async def switch(web: Web, request: Request) -> Response:
    """Turn one extension on or off and show the home page."""
    form = await posted(web, request)
    async with signed_in(web, request, "/", form) as owner:
        turn = form.one("turn")
        if turn not in ("on", "off"):
            raise InvalidInputError("the form does not say what to do")
        await set_extension(web.services, owner.session, form.one("extension"), enabled=turn == "on")
        return see_other(web, f"{owner.place.base_path}/#extensions")
