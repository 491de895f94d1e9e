"""What every page handler is handed, how it finds the context of a request, and how it asks for a signed-in owner."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from zkpcp.core.stored import ContextRow
from zkpcp.errors import InvalidTokenError, NotFoundError
from zkpcp.http.limits import Limiter
from zkpcp.http.pages.cookies import clear_session, session_from, set_mark, set_session
from zkpcp.http.pages.forms import Form, check_form_token, form_token, read_form
from zkpcp.http.pages.headers import check_same_origin, page_headers
from zkpcp.http.pages.render import Nav, Pages, nav_for
from zkpcp.http.site import Site
from zkpcp.usecases.access import Acting, acting_as
from zkpcp.usecases.devices import MARK_LIFETIME_S, new_mark
from zkpcp.usecases.services import Services
from zkpcp.usecases.session import OpenSession, open_session
from zkpcp.vault.secrets import TokenSecret


class SetUpDoor:
    """Who may set up a context: anybody on this computer, or once whoever has the code printed at the start.

    A server that others can reach has a code, whatever address it tells people.
    """

    def __init__(self, *, is_loopback: bool, code: str | None) -> None:
        self.needs_code = not is_loopback or code is not None
        self._digest = hashlib.sha256(code.encode()).digest() if code else None

    def opens(self, code: str) -> bool:
        """Whether a typed code is the one; the question costs nothing and has to be rate-limited."""
        if not self.needs_code:
            return True
        digest = hashlib.sha256(code.strip().encode("utf-8", "replace")).digest()
        return self._digest is not None and hmac.compare_digest(digest, self._digest)

    @contextmanager
    def closing(self) -> Iterator[None]:
        """One at a time goes through; once somebody has, the code opens nothing any more."""
        digest, self._digest = self._digest, None
        try:
            yield
        except BaseException:
            self._digest = digest
            raise


@dataclass(frozen=True, slots=True)
class Web:
    """The parts of the server that pages use. ``schema`` describes the database: table, column, meaning (KEY-01)."""

    services: Services
    site: Site
    limiter: Limiter
    pages: Pages
    door: SetUpDoor
    schema: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def mcp_url(self, handle: str) -> str:
        """Where clients connect to a context."""
        return f"{self.site.base_url(handle)}/mcp"


@dataclass(frozen=True, slots=True)
class Place:
    """The context base that a request was sent to; ``context`` is None where there is no context of this name."""

    handle: str
    base_path: str
    context: ContextRow | None

    @property
    def organization(self) -> str:
        """The organization that controls the context and can read it (CTX-02); discovery says so to anybody."""
        return self.context.controller if self.context is not None and self.context.is_organizations else ""


@dataclass(frozen=True, slots=True, repr=False)
class SignedIn:
    """An owner with open keys for the length of one request."""

    place: Place
    session: OpenSession
    nav: Nav

    @property
    def acting(self) -> Acting:
        """The owner as the use cases take them."""
        return acting_as(self.session)


async def place_of(web: Web, request: Request) -> Place:
    """The base that a request was sent to. Nothing in the answer tells whether the context exists.

    Raises NotFoundError at an address that is no context's.
    """
    named = request.path_params.get("handle")
    host = request.headers.get("host", "")
    handle = web.site.handle_of(host=host, handle=named)
    if handle is None:
        raise NotFoundError("there is nothing at this address")
    context = await web.site.context(web.services.store, host=host, handle=named)
    return Place(handle, web.site.base_path(handle), context)


async def posted(web: Web, request: Request) -> Form:
    """The form of a POST from one of our own pages. Raises CrossSiteError, InvalidInputError, TooLargeError."""
    check_same_origin(request, web.site.origins_at(request.headers.get("host", "")))
    return await read_form(request)


def session_token(web: Web, request: Request, place: Place) -> tuple[ContextRow, TokenSecret]:
    """The context and session of a request. Raises InvalidTokenError when there is neither."""
    token = session_from(request, place.context, secure=web.site.is_secure) if place.context else None
    if place.context is None or token is None:
        raise InvalidTokenError("sign in first")
    return place.context, token


@asynccontextmanager
async def signed_in(web: Web, request: Request, here: str, form: Form | None = None) -> AsyncIterator[SignedIn]:
    """The signed-in owner; ``here`` is the page's path below the base, ``form`` a form that has to be of this session.

    Raises InvalidTokenError when nobody is signed in, ForbiddenError for a form of another session.
    """
    place = await place_of(web, request)
    context, token = session_token(web, request, place)
    try:
        if form is not None:
            check_form_token(form, token)
        csrf = form_token(token)
        async with open_session(web.services, context, token) as session:
            yield SignedIn(place, session, nav_for(context, place.base_path, csrf, here))
    finally:
        token.wipe()


async def to_sign_in(web: Web, request: Request) -> Response:
    """Send somebody who is not signed in to do so, and back afterwards (only pages that were asked for by GET)."""
    place = await place_of(web, request)
    url = f"{place.base_path}/sign-in"
    if request.method == "GET":
        # Not request.url: the standard library keeps the last URLs that it took apart (KEY-04).
        path, query = request.scope["path"], request.scope["query_string"].decode("latin-1")
        target = path + (f"?{query}" if query else "")
        url += f"?next={quote(target, safe='')}"
    return see_other(web, url)


def see_other(web: Web, path: str) -> Response:
    """Go on to a page of ours."""
    return RedirectResponse(path, HTTPStatus.SEE_OTHER, page_headers(secure=web.site.is_secure))


async def start_session(web: Web, response: Response, context: ContextRow, token: TokenSecret) -> None:
    """Hand the session to the browser, and a mark by which its next sign-in is told from a stranger's.

    The token is wiped.
    """
    set_session(response, context, token, secure=web.site.is_secure)
    token.wipe()
    mark = await new_mark(web.services, context)
    if mark is not None:
        set_mark(response, context, mark, MARK_LIFETIME_S, secure=web.site.is_secure)


def end_session(web: Web, response: Response, context: ContextRow) -> None:
    """Make the browser forget the session."""
    clear_session(response, context, secure=web.site.is_secure)


def existing(place: Place) -> ContextRow:
    """The context of a place. Raises NotFoundError."""
    if place.context is None:
        raise NotFoundError("there is nothing at this address")
    return place.context
