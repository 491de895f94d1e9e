"""What a failed request answers: a page where the route answers with pages, JSON elsewhere.

A refusal says which rule was broken. A missing backend says so. Damage, and everything nobody thought of, is a 500
with an incident id; the log line of the same id names the exception's class and nothing else, since messages and
tracebacks can hold content (SEC-12, KEY-05). MCP and OAuth endpoints have error bodies of their own and make them.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from zkpcp.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    InvalidTokenError,
    LockedError,
    NotFoundError,
    RateLimitedError,
    RefusedError,
    SignInError,
    TooLargeError,
    UnavailableError,
    ZkpcpError,
)
from zkpcp.http.pages.render import Pages, as_sentence
from zkpcp.ports import Entropy

_STATUS: Final[tuple[tuple[type[RefusedError], HTTPStatus], ...]] = (
    (NotFoundError, HTTPStatus.NOT_FOUND),
    (ConflictError, HTTPStatus.CONFLICT),
    (LockedError, HTTPStatus.LOCKED),
    (TooLargeError, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    (RateLimitedError, HTTPStatus.TOO_MANY_REQUESTS),
    (InvalidTokenError, HTTPStatus.UNAUTHORIZED),
    (SignInError, HTTPStatus.FORBIDDEN),
    (ForbiddenError, HTTPStatus.FORBIDDEN),
    (InvalidInputError, HTTPStatus.BAD_REQUEST),
)
_TITLES: Final[Mapping[int, str]] = {
    HTTPStatus.BAD_REQUEST: "That cannot be right",
    HTTPStatus.UNAUTHORIZED: "Please sign in",
    HTTPStatus.FORBIDDEN: "Not allowed",
    HTTPStatus.NOT_FOUND: "There is nothing here",
    HTTPStatus.METHOD_NOT_ALLOWED: "This address does not work that way",
    HTTPStatus.CONFLICT: "Somebody was first",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "That is too large",
    HTTPStatus.LOCKED: "Locked for now",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many attempts",
    HTTPStatus.SERVICE_UNAVAILABLE: "Out of service for the moment",
}
_FAILED: Final = "This server failed at what you asked for. It is not your fault."
_HTTP_TEXTS: Final[Mapping[int, str]] = {
    HTTPStatus.NOT_FOUND: "There is no page at this address.",
    HTTPStatus.METHOD_NOT_ALLOWED: "This address cannot be used in that way.",
}
_NO_STORE: Final = {"Cache-Control": "no-store"}


def status_of(error: RefusedError) -> HTTPStatus:
    """The status of a refusal's answer."""
    return next((code for kind, code in _STATUS if isinstance(error, kind)), HTTPStatus.BAD_REQUEST)


class Failures:
    """Makes the answers to failed requests."""

    def __init__(self, pages: Pages, entropy: Entropy) -> None:
        self._pages = pages
        self._entropy = entropy
        self._log = structlog.get_logger("zkpcp.http")

    async def known(self, request: Request, error: Exception) -> Response:
        """The answer to an error of ``zkpcp.errors``."""
        if isinstance(error, RefusedError):
            return self._refused(request, error)
        if isinstance(error, UnavailableError):
            self._log.error("unavailable", part=error.message)
            text = "A part that this server needs is away. Please try again in a minute."
            return _answer(self._pages, request, HTTPStatus.SERVICE_UNAVAILABLE, error.code, text)
        return self.unknown(request, error)

    async def invalid(self, request: Request, _: Exception) -> Response:
        """The answer to a request that does not fit its route's model; the framework's own would repeat the values."""
        text = "The request does not have the form it must have."
        return _answer(self._pages, request, HTTPStatus.UNPROCESSABLE_ENTITY, "invalid_input", text)

    async def http(self, request: Request, error: Exception) -> Response:
        """The answer to an unknown path or a wrong method."""
        status = error.status_code if isinstance(error, HTTPException) else HTTPStatus.NOT_FOUND
        code = "not_found" if status == HTTPStatus.NOT_FOUND else "invalid_input"
        answer = _answer(self._pages, request, status, code, _HTTP_TEXTS.get(status, "The request was refused."))
        if isinstance(error, HTTPException) and error.headers:
            answer.headers.update(error.headers)
        return answer

    def unknown(self, request: Request, error: Exception) -> Response:
        """The answer to everything else: an incident id, and a log line that names the class of the exception."""
        incident = f"inc_{self._entropy.bytes(8).hex()}"
        self._log.error("incident", incident=incident, error=type(error).__name__)
        if _wants_page(request):
            step = "If it happens again, tell the operator of this server the number below."
            return self._pages.error_page(500, "Something went wrong", _FAILED, step, incident=incident)
        body = {"error": "server_error", "error_description": _FAILED, "incident": incident}
        return JSONResponse(body, 500, _NO_STORE)

    def _refused(self, request: Request, error: RefusedError) -> Response:
        status = status_of(error)
        if not isinstance(error, RateLimitedError):
            return _answer(self._pages, request, status, error.code, error.message)
        minutes = -(-error.retry_after_s // 60)
        step = f"Try again in {minutes} minute{'' if minutes == 1 else 's'}."
        answer = _answer(self._pages, request, status, error.code, error.message, step)
        answer.headers["Retry-After"] = str(error.retry_after_s)
        return answer


class LastResort:
    """ASGI middleware, outermost: what no handler knows becomes an incident and goes no further.

    The framework's own last resort raises the exception again, and the server prints its message and traceback.
    """

    def __init__(self, app: ASGIApp, failures: Failures) -> None:
        self._app = app
        self._failures = failures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except ClientDisconnect:
            return  # nobody is there to be answered, and nothing failed
        except Exception as error:  # noqa: BLE001  # the process edge: anything further out would print it
            answer = self._failures.unknown(Request(scope), error)
            # A started answer cannot be taken back; the server closes the connection in the middle of it.
            if not started:
                await answer(scope, receive, send)


def install(app: FastAPI, pages: Pages, entropy: Entropy) -> None:
    """Let every failed request of ``app`` end here."""
    failures = Failures(pages, entropy)
    app.add_exception_handler(ZkpcpError, failures.known)
    app.add_exception_handler(RequestValidationError, failures.invalid)
    app.add_exception_handler(HTTPException, failures.http)
    app.add_middleware(LastResort, failures=failures)


def _answer(
    pages: Pages, request: Request, status: int, code: str, text: str, next_step: str = "Go back and try again."
) -> Response:
    if _wants_page(request):
        title = _TITLES.get(status, "That did not work")
        return pages.error_page(status, title, as_sentence(text), next_step)
    return JSONResponse({"error": code, "error_description": text}, status, _NO_STORE)


def _wants_page(request: Request) -> bool:
    route = request.scope.get("route")
    if isinstance(route, APIRoute):
        return route.response_class is HTMLResponse
    # No route: a person who mistyped an address gets a page, a program JSON; well-known documents are for programs.
    # Not request.url: the standard library keeps the last URLs that it took apart (KEY-04).
    return "/.well-known/" not in request.scope["path"] and "text/html" in request.headers.get("accept", "")
