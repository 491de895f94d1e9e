"""What the OAuth endpoints stand on, and how they read a request and write an answer.

Implements the wire side of RFC 6749 §5 and PCP §9 (SEC-01): form bodies of limited size, ``no-store``, JSON errors with
constant texts, CORS for the endpoints that clients call themselves. It never logs a body, a header or a URL.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from zkpcp.core.oauth_params import Params
from zkpcp.core.schemas import JsonObject, canonical_json
from zkpcp.core.stored import ContextRow
from zkpcp.errors import InvalidInputError, RateLimitedError, TooLargeError, UnavailableError
from zkpcp.http.limits import Limiter
from zkpcp.http.oauth.views import ConsentView
from zkpcp.http.site import Site
from zkpcp.usecases.services import Services

MAX_BODY_BYTES: Final = 64 * 1024
_FORM_TYPE: Final = "application/x-www-form-urlencoded"
_CORS: Final = {"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "Retry-After, WWW-Authenticate"}
_PREFLIGHT: Final = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "POST",
    "Access-Control-Allow-Headers": "Accept, Authorization, Content-Type, MCP-Protocol-Version",
    "Access-Control-Max-Age": "600",
}
_NEVER_KEEP: Final = {"Cache-Control": "no-store", "Pragma": "no-cache", "X-Content-Type-Options": "nosniff"}


class ConsentPages(Protocol):
    """How the pages around consent look; each answer carries the headers of its kind (SEC-03, AUTH-41)."""

    def consent_page(self, view: ConsentView) -> Response:
        """The consent page."""
        ...

    def redirect_page(self, url: str) -> Response:
        """A page that leads to a client's redirect URI; browsers would stop a form's answer that redirects there."""
        ...

    def error_page(self, status: int, title: str, text: str, next_step: str) -> Response:
        """A page for what cannot be told to the client."""
        ...


@dataclass(frozen=True, slots=True)
class OAuthEdge:
    """The parts that every OAuth endpoint uses."""

    services: Services
    site: Site
    limiter: Limiter
    pages: ConsentPages

    async def context(self, request: Request) -> ContextRow | None:
        """The context that a request means."""
        handle = request.path_params.get("handle")
        return await self.site.context(self.services.store, host=request.headers.get("host", ""), handle=handle)


ClientEndpoint = Callable[[OAuthEdge, Request, ContextRow], Awaitable[Response]]


def client_route(edge: OAuthEdge, name: str, answer: ClientEndpoint) -> Route:
    """The route of an endpoint that clients call themselves, from programs and from pages of any origin."""

    async def endpoint(request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(status_code=HTTPStatus.NO_CONTENT, headers=_PREFLIGHT)
        context = await edge.context(request)
        if context is None:
            body: JsonObject = {"error": {"code": "not_found", "message": "there is no such context"}}
            return json_answer(HTTPStatus.NOT_FOUND, body)
        try:
            return await answer(edge, request, context)
        except InvalidInputError as error:
            return error_answer("invalid_request", error.message)
        except TooLargeError as error:
            return error_answer("invalid_request", error.message, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        except RateLimitedError as error:
            return _too_many(error)
        except UnavailableError:
            return error_answer("temporarily_unavailable", "try again later", HTTPStatus.SERVICE_UNAVAILABLE)

    return Route(f"{edge.site.prefix}/{name}", endpoint, methods=["POST", "OPTIONS"])


async def read_params(request: Request) -> Params:
    """Read a form body. Raises InvalidInputError, TooLargeError."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != _FORM_TYPE:
        raise InvalidInputError("the Content-Type must be application/x-www-form-urlencoded")
    return Params.parse(await read_body(request))


async def read_body(request: Request) -> bytes:
    """Read a body of ``MAX_BODY_BYTES`` at most. Raises TooLargeError without reading further."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise TooLargeError("the body is larger than this endpoint reads")
    return bytes(body)


def json_answer(status: HTTPStatus, body: JsonObject) -> Response:
    """A JSON answer that nobody keeps."""
    return Response(
        canonical_json(body), status_code=status, headers={**_CORS, **_NEVER_KEEP}, media_type="application/json"
    )


def error_answer(error: str, description: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> Response:
    """An error of RFC 6749 §5.2; the description is constant ASCII."""
    return json_answer(status, {"error": error, "error_description": description})


def empty_answer() -> Response:
    """The 200 of RFC 7009 §2.2."""
    return Response(status_code=HTTPStatus.OK, headers={**_CORS, **_NEVER_KEEP})


def no_header_credentials(request: Request) -> Response | None:
    """Refuse a client that authenticates by header: clients have no secret here (RFC 6749 §5.2)."""
    if "authorization" not in request.headers:
        return None
    answer = error_answer("invalid_client", "clients have no secret here", HTTPStatus.UNAUTHORIZED)
    answer.headers["WWW-Authenticate"] = 'Basic realm="token endpoint"'
    return answer


def _too_many(error: RateLimitedError) -> Response:
    answer = error_answer("temporarily_unavailable", "too many requests; wait", HTTPStatus.TOO_MANY_REQUESTS)
    answer.headers["Retry-After"] = str(error.retry_after_s)
    return answer
