"""Changing all keys: the owner's page to begin it, to see how far it is, and to end it (KEY-12).

A change that is under way goes on while its page is open: each answer takes steps for a second or two, says what is
left and asks to be loaded again, so that it works without a script. Steps need no form of their own: they do nothing
but finish what the owner has begun.
"""

from __future__ import annotations

import asyncio
import re
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from zkpcp.errors import ConflictError, InvalidInputError
from zkpcp.http.pages.web import SignedIn, Web, posted, see_other, signed_in
from zkpcp.usecases.roster_changes import require_owner
from zkpcp.usecases.rotation import Rotating, begin_rotation, rotation_left

HERE: Final = "/keys"
GOING_ON: Final = "/keys?go=1"
_NUMBER: Final = re.compile(r"[0-9]{1,10}")
_STEPS_S: Final = 1.5
"""For how long one answer takes steps."""


async def show(web: Web, request: Request) -> Response:
    """The page; with ``go`` the next steps are taken first."""
    async with signed_in(web, request, HERE) as owner:
        require_owner(owner.session)
        stuck = False
        if request.query_params.get("go") == "1" and owner.session.keyring.roster.oldest is not None:
            stuck = await _go_on(web, owner)
        return await _page(web, owner, request, stuck=stuck)


async def begin(web: Web, request: Request) -> Response:
    """Begin, once that is confirmed."""
    form = await posted(web, request)
    async with signed_in(web, request, HERE, form) as owner:
        if form.one("sure") != "yes":
            raise InvalidInputError("please tick the box to confirm that all keys are to be changed")
        await begin_rotation(web.services, owner.session)
        return see_other(web, f"{owner.place.base_path}{GOING_ON}")


async def end_without(web: Web, request: Request) -> Response:
    """End it although some records do not open, once that is confirmed."""
    form = await posted(web, request)
    async with signed_in(web, request, HERE, form) as owner:
        if form.one("sure") != "yes":
            raise InvalidInputError("please tick the box to confirm that these records are to be given up")
        rotating = Rotating(web.services, owner.session)
        while await rotating.step():
            pass
        await rotating.end(leave_damaged=True)
        return see_other(web, f"{owner.place.base_path}{HERE}")


async def _go_on(web: Web, owner: SignedIn) -> bool:
    """Take steps for a while; True when what is left does not open."""
    rotating = Rotating(web.services, owner.session)
    loop = asyncio.get_running_loop()
    until = loop.time() + _STEPS_S
    while loop.time() < until:
        if not await rotating.step():
            try:
                await rotating.end()
            except ConflictError:
                # Either nothing else is left, or an app has just moved a row from one kind to another.
                return rotating.damaged > 0
            return False
    return False


async def _page(web: Web, owner: SignedIn, request: Request, *, stuck: bool) -> Response:
    left = await rotation_left(web.services, owner.session)
    known = request.query_params.get("of", "")
    of = max(left.total, int(known) if _NUMBER.fullmatch(known) else 0)
    return web.pages.page(
        "keys",
        status=HTTPStatus.OK,
        nav=owner.nav,
        under_way=left.under_way,
        going=left.under_way and not stuck and request.query_params.get("go") == "1",
        finished=not left.under_way and request.query_params.get("go") == "1",
        stuck=stuck,
        left=left.total,
        of=of,
        next_url=f"{owner.place.base_path}{GOING_ON}&of={of}",
    )
