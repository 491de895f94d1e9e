"""Joining a context by an invite's code, and the one showing of the newcomer's own recovery code (KEY-13).

The link that an invite makes carries the code behind a ``#``, which browsers do not send. Pages have no script, so the
newcomer puts it into the form.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from zkpcp.errors import InvalidInputError, NotFoundError
from zkpcp.http.limits import JOIN_ADDRESS, address_key
from zkpcp.http.pages.people import code_rows
from zkpcp.http.pages.render import as_sentence
from zkpcp.http.pages.web import Place, Web, place_of, posted
from zkpcp.usecases.joining import Joined, join

_NO_ERRORS: Final[Mapping[str, str]] = {}
_FIELDS: Final = {"recovery_code": "code", "passphrase": "passphrase"}


async def show(web: Web, request: Request) -> Response:
    """The form; the same for contexts that exist and others."""
    return _form(web, await place_of(web, request))


async def submit(web: Web, request: Request) -> Response:
    """Join, and show the newcomer's recovery code."""
    form = await posted(web, request)
    place = await place_of(web, request)
    await web.limiter.hit(JOIN_ADDRESS, address_key(request))
    errors = {}
    if form.one("passphrase") != form.one("passphrase_again"):
        errors["passphrase_again"] = "The two passphrases are not the same."
    if form.one("understood") != "yes":
        errors["understood"] = "Please confirm that you have understood this."
    if errors:
        return _form(web, place, errors)
    code = form.one("code").rpartition("#")[2]
    try:
        joined = await join(web.services, place.context, code=code, passphrase=form.one("passphrase"))
    except InvalidInputError as error:
        return _form(
            web, place, {_FIELDS.get(item.path, "code"): as_sentence(item.message) for item in error.violations}
        )
    except NotFoundError as error:
        return _form(web, place, message=as_sentence(error.message))
    return _welcome(web, place, joined)


def _welcome(web: Web, place: Place, joined: Joined) -> Response:
    rows = code_rows(joined.recovery_code.printable())
    joined.recovery_code.wipe()
    return web.pages.page(
        "joined",
        handle=place.handle,
        principal=joined.principal,
        rows=rows,
        sign_in=f"{place.base_path}/sign-in",
        base_url=web.site.base_url(place.handle),
    )


def _form(web: Web, place: Place, errors: Mapping[str, str] = _NO_ERRORS, message: str = "") -> Response:
    return web.pages.page(
        "join",
        status=HTTPStatus.BAD_REQUEST if errors or message else HTTPStatus.OK,
        handle=place.handle,
        base_path=place.base_path,
        organization=place.organization,
        errors=errors,
        message=message,
    )
