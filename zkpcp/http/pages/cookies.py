"""The session cookie and the mark of a browser that signed in: of each context, so that one says nothing to another.

On https the name starts with ``__Host-``: only this host can set it, only over https, and it goes to the whole host, as
the prefix demands (``Path=/``). Contexts that share a host therefore see each other's cookies; one of another context
has another name and opens nothing. Loopback http has no such prefix, and its cookies are shared between ports.
The browser forgets the session cookie when it closes; when the session ends is the server's decision. The mark
(``usecases.devices``) stays, also after signing out, and signs nobody in.
"""

from __future__ import annotations

from typing import Final

from starlette.requests import HTTPConnection
from starlette.responses import Response

from zkpcp.core.stored import ContextRow
from zkpcp.errors import InvalidTokenError
from zkpcp.vault.secrets import TokenSecret, parse_token

_PREFIX: Final = "__Host-"


def cookie_name(handle: str, *, secure: bool) -> str:
    """The name of a context's session cookie; ``secure`` means that the site is on https."""
    return f"{_PREFIX if secure else ''}zkpcp_{handle}"


def session_from(request: HTTPConnection, context: ContextRow, *, secure: bool) -> TokenSecret | None:
    """The session token that the browser presents for a context, or None. Nothing is known yet about its being good."""
    text = request.cookies.get(cookie_name(context.handle, secure=secure))
    if text is None:
        return None
    try:
        return parse_token(text, "st")
    except InvalidTokenError:
        return None


def set_session(response: Response, context: ContextRow, token: TokenSecret, *, secure: bool) -> None:
    """Hand a session token to the browser. Lax, not Strict: clients send people here from other sites."""
    response.set_cookie(
        cookie_name(context.handle, secure=secure), token.text(), path="/", secure=secure, httponly=True, samesite="lax"
    )


def clear_session(response: Response, context: ContextRow, *, secure: bool) -> None:
    """Make the browser forget the session token."""
    response.delete_cookie(
        cookie_name(context.handle, secure=secure), path="/", secure=secure, httponly=True, samesite="lax"
    )


def mark_name(handle: str, *, secure: bool) -> str:
    """The name of the cookie with a browser's mark; no handle has an underscore."""
    return f"{_PREFIX if secure else ''}zkpcp_device_{handle}"


def mark_from(request: HTTPConnection, handle: str, *, secure: bool) -> str | None:
    """The mark that the browser presents for a context. Nothing is known yet about its being good."""
    return request.cookies.get(mark_name(handle, secure=secure))


def set_mark(response: Response, context: ContextRow, mark: str, lifetime_s: int, *, secure: bool) -> None:
    """Hand a mark to the browser."""
    response.set_cookie(
        mark_name(context.handle, secure=secure),
        mark,
        max_age=lifetime_s,
        path="/",
        secure=secure,
        httponly=True,
        samesite="strict",
    )
