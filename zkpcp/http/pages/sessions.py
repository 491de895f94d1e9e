"""Signing in, signing out, and a new passphrase with the recovery code.

A wrong passphrase and an unknown context get the same answer after the same work. Where a sign-in leads is a path below
the context's own base, never another site.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from zkpcp.core.grants import account_of
from zkpcp.core.stored import ContextRow
from zkpcp.errors import ConflictError, InvalidInputError, InvalidTokenError, LockedError, SignInError
from zkpcp.http.limits import (
    RECOVER_ADDRESS,
    SIGN_IN_ACCOUNT,
    SIGN_IN_ADDRESS,
    SIGN_IN_DEVICE,
    SIGN_IN_FROM_HERE,
    SIGN_IN_FROM_HERE_LONG,
    address_key,
)
from zkpcp.http.pages.cookies import mark_from
from zkpcp.http.pages.forms import check_form_token, local_path
from zkpcp.http.pages.render import as_sentence
from zkpcp.http.pages.web import (
    Place,
    Web,
    end_session,
    existing,
    place_of,
    posted,
    see_other,
    session_token,
    start_session,
)
from zkpcp.usecases.devices import device_of
from zkpcp.usecases.principals import admit_joined
from zkpcp.usecases.session import open_session, recover, sign_in, sign_out
from zkpcp.vault.secrets import TokenSecret

_WRONG: Final = "That did not work. Check the passphrase, capitals included, and the address of this page."
_WRONG_CODE: Final = "That did not work. Check the recovery code and the address of this page."
_NO_ERRORS: Final[Mapping[str, str]] = {}
# The fields of the form have the names of the rules' fields, but for this one.
_FIELDS: Final = {"passphrase": "passphrase", "recovery_code": "recovery_code"}


async def show_sign_in(web: Web, request: Request) -> Response:
    """The sign-in form; the same for contexts that exist and others."""
    place = await place_of(web, request)
    return _sign_in_page(web, place, local_path(request.query_params.get("next", ""), place.base_path))


async def submit_sign_in(web: Web, request: Request) -> Response:
    """Sign in and go where the person wanted to go."""
    form = await posted(web, request)
    place = await place_of(web, request)
    await _count_sign_in(web, request, place)
    target = local_path(form.one("next"), place.base_path)
    try:
        token = await sign_in(
            web.services, place.context, passphrase=form.one("passphrase"), principal=account_of(form.one("account"))
        )
    except SignInError:
        return _sign_in_page(web, place, target, _WRONG)
    except LockedError as error:
        return _sign_in_page(web, place, target, as_sentence(error.message))
    await _let_in(web, existing(place), token)
    answer = see_other(web, target or f"{place.base_path}/")
    await start_session(web, answer, existing(place), token)
    return answer


async def _let_in(web: Web, context: ContextRow, token: TokenSecret) -> None:
    """Make the keys of those who have joined since the controller was here last."""
    async with open_session(web.services, context, token) as session:
        # Somebody else is changing who belongs: the page of people, or the next sign-in, does it then.
        with suppress(ConflictError):
            await admit_joined(web.services, session)


async def _count_sign_in(web: Web, request: Request, place: Place) -> None:
    """Count an attempt: of a browser that signed in before by itself, whatever strangers do; of others with theirs."""
    address = address_key(request)
    await web.limiter.hit(SIGN_IN_ADDRESS, address)
    mark = mark_from(request, place.handle, secure=web.site.is_secure)
    device = await device_of(web.services, place.context, mark)
    if device is not None:
        await web.limiter.hit(SIGN_IN_DEVICE, place.handle, device)
        return
    await web.limiter.hit(SIGN_IN_FROM_HERE, place.handle, address)
    await web.limiter.hit(SIGN_IN_FROM_HERE_LONG, place.handle, address)
    await web.limiter.hit(SIGN_IN_ACCOUNT, place.handle)


async def submit_sign_out(web: Web, request: Request) -> Response:
    """End the session; somebody whose session has ended already sees the same."""
    form = await posted(web, request)
    place = await place_of(web, request)
    answer = see_other(web, f"{place.base_path}/sign-in")
    try:
        context, token = session_token(web, request, place)
    except InvalidTokenError:
        return answer
    check_form_token(form, token)
    await sign_out(web.services, context, token)
    token.wipe()
    end_session(web, answer, context)
    return answer


async def show_recover(web: Web, request: Request) -> Response:
    """The form for a new passphrase."""
    return _recover_page(web, await place_of(web, request))


async def submit_recover(web: Web, request: Request) -> Response:
    """Set the new passphrase and sign in."""
    form = await posted(web, request)
    place = await place_of(web, request)
    await web.limiter.hit(RECOVER_ADDRESS, address_key(request))
    passphrase = form.one("passphrase")
    if passphrase != form.one("passphrase_again"):
        return _recover_page(web, place, {"passphrase_again": "The two passphrases are not the same."})
    try:
        token = await recover(
            web.services,
            place.context,
            recovery_code=form.one("recovery_code"),
            new_passphrase=passphrase,
            principal=account_of(form.one("account")),
        )
    except InvalidInputError as error:
        errors = {item.path: as_sentence(item.message) for item in error.violations if item.path in _FIELDS}
        return _recover_page(web, place, errors)
    except SignInError:
        return _recover_page(web, place, message=_WRONG_CODE)
    except LockedError as error:
        return _recover_page(web, place, message=as_sentence(error.message))
    answer = see_other(web, f"{place.base_path}/")
    await start_session(web, answer, existing(place), token)
    return answer


def _sign_in_page(web: Web, place: Place, target: str | None, message: str = "") -> Response:
    return web.pages.page(
        "sign_in",
        status=HTTPStatus.FORBIDDEN if message else HTTPStatus.OK,
        handle=place.handle,
        base_path=place.base_path,
        organization=place.organization,
        next=target,
        purpose="An app wants to connect. Sign in to see what it asks for." if _is_consent(place, target) else "",
        message=message,
    )


def _is_consent(place: Place, target: str | None) -> bool:
    return target is not None and target.startswith(f"{place.base_path}/authorize")


def _recover_page(web: Web, place: Place, errors: Mapping[str, str] = _NO_ERRORS, message: str = "") -> Response:
    return web.pages.page(
        "recover",
        status=HTTPStatus.BAD_REQUEST if errors or message else HTTPStatus.OK,
        handle=place.handle,
        base_path=place.base_path,
        errors=errors,
        message=message,
    )
