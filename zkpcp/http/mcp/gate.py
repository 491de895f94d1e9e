"""Whether an HTTP request may be read at all, and how it is turned away if not.

Implements AUTH-06, AUTH-10 to AUTH-12, AUTH-23, AUTH-36, AUTH-44 on the wire: RFC 6750 challenges with RFC 9728
metadata, media types and sizes of RFC 9110, and the CORS preflight. A token comes from the Authorization header and
nowhere else. Who a token belongs to, and what a body means, is decided elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, Protocol, TypeVar

import orjson
from starlette.types import Receive

from zkpcp.errors import InvalidTokenError, TooLargeError
from zkpcp.http.mcp.envelope import RpcCode, error_message
from zkpcp.http.mcp.tools.definition import Caller

_BEARER: Final = re.compile(r"bearer +([A-Za-z0-9._~+/-]+=*)", re.IGNORECASE)  # RFC 6750 §2.1
_JSON_MEDIA_TYPE: Final = re.compile(r'application/json(?: *; *charset *= *"?utf-8"?)?', re.IGNORECASE)
_LENGTH: Final = re.compile(r"[0-9]{1,18}")  # longer ones are caught while reading
_REQUEST_HEADERS: Final = (
    b"Authorization, Content-Type, Last-Event-ID, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id"
)
# From the most to the least telling; RFC 9110 §12.5.1 lets the most telling range decide.
_JSON_RANGES: Final = ("application/json", "application/*", "*/*")

C_co = TypeVar("C_co", bound=Caller, covariant=True)

HeaderList = tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True)
class RequestPlace:
    """Where a request was sent, from which a deployment tells the context.

    ``handle`` is the route's, None where it has none.
    """

    host: str
    path: str
    handle: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GateFacts:
    """What the endpoint has to know of a context before anyone is let in; nothing of it is secret.

    ``resource_metadata_url`` and ``default_scope`` go into challenges, ``discovery_url`` into the extension;
    ``instructions`` builds the server instructions (TOOL-17) when a client asks for them. ``offered`` are the scopes
    that exist here, None for every one: a tool that only others would open is not there.
    """

    context_id: str
    handle: str
    resource_metadata_url: str
    default_scope: str
    discovery_url: str
    instructions: Callable[[], str]
    offered: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Locked:
    """A token that is good while a key it needs is away (KEY-10): every call answers ``locked``, the rest works.

    ``scopes`` is None where they cannot be told.
    """

    message: str
    scopes: frozenset[str] | None = None


class ResolveContext(Protocol):
    """Finds the context that a place belongs to, or None."""

    async def __call__(self, place: RequestPlace) -> GateFacts | None:
        """Return the facts of the context, or None where there is none."""
        ...


class Authenticate(Protocol[C_co]):
    """Tells who a token speaks for in a context."""

    async def __call__(self, gate: GateFacts, token: str) -> C_co | Locked:
        """Return the caller.

        Raises ``InvalidTokenError`` (401), ``RateLimitedError`` (429) and ``LockedError``, which is ``Locked``
        without its scopes.
        """
        ...


class ClientGoneError(Exception):
    """The client closed the connection before its request was complete; there is nobody to answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer; ``body`` is empty or JSON."""

    status: HTTPStatus
    body: bytes = field(default=b"", repr=False)
    headers: HeaderList = ()


class Headers:
    """A request's headers.

    Names in any case; several lines of one name are kept apart; blanks around values are gone (RFC 9110 §5.5).
    """

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in raw:
            self._values.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1").strip(" \t"))

    def all(self, name: str) -> tuple[str, ...]:
        """Return every value of a header, in order."""
        return tuple(self._values.get(name, ()))

    def single(self, name: str) -> str | None:
        """Return the value of a header that was sent exactly once."""
        values = self.all(name)
        return values[0] if len(values) == 1 else None


def host_of(headers: Headers) -> str:
    """Return the Host in lower case, empty where there is not exactly one."""
    return (headers.single("host") or "").lower()


def refuse_origin(headers: Headers, allowed: frozenset[str]) -> Answer | None:
    """Refuse a browser page of another origin; a request without Origin comes from no page (AUTH-06)."""
    if not headers.all("origin") or headers.single("origin") in allowed:
        return None
    return rpc_refusal(HTTPStatus.FORBIDDEN, "the Origin is not allowed")


def refuse_host(headers: Headers, allowed: Callable[[str], bool] | None) -> Answer | None:
    """Refuse a Host that is not ours, where ours are configured: DNS rebinding of a loopback server."""
    if allowed is None or allowed(host_of(headers)):
        return None
    return rpc_refusal(HTTPStatus.MISDIRECTED_REQUEST, "the Host is not served here")


def is_preflight(method: str, headers: Headers) -> bool:
    """Say whether this is a browser's question before the real request, which by design carries no token."""
    return method == "OPTIONS" and bool(headers.all("origin")) and bool(headers.all("access-control-request-method"))


def preflight() -> Answer:
    """Return the leave for a real request; the caller adds the origin."""
    return Answer(
        HTTPStatus.NO_CONTENT,
        headers=(
            (b"access-control-allow-methods", b"POST"),
            (
                b"access-control-allow-headers",
                _REQUEST_HEADERS,
            ),
            (b"access-control-max-age", b"600"),
        ),
    )


def cors(headers: Headers) -> HeaderList:
    """Return what lets a page of the allowed origin read the answer; empty for requests that come from no page."""
    origin = headers.single("origin")
    if origin is None:
        return ()
    return (
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", b"WWW-Authenticate, Retry-After"),
    )


def bearer_token(headers: Headers) -> str | None:
    """Return the token of the Authorization header, None where no bearer token was sent.

    Raises ``InvalidTokenError`` for one that is no token, and for two: which of them counts must not depend on the
    reader.
    """
    values = headers.all("authorization")
    if not any(value.lower().split(" ")[0] == "bearer" for value in values):
        return None
    match = _BEARER.fullmatch(values[0]) if len(values) == 1 else None
    if match is None:
        raise InvalidTokenError("the Authorization header must hold one bearer token")
    return match.group(1)


def refuse_form(method: str, headers: Headers) -> Answer | None:
    """Refuse what is not a POST of JSON from a client that reads JSON."""
    if method != "POST":
        refusal = rpc_refusal(HTTPStatus.METHOD_NOT_ALLOWED, "send messages by POST")
        return Answer(refusal.status, refusal.body, ((b"allow", b"POST"),))
    if not _JSON_MEDIA_TYPE.fullmatch(headers.single("content-type") or ""):
        return rpc_refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the Content-Type must be application/json")
    if not accepts_json(headers.all("accept")):
        return rpc_refusal(HTTPStatus.NOT_ACCEPTABLE, "the Accept header must allow application/json")
    return None


def accepts_json(values: Sequence[str]) -> bool:
    """Say whether an Accept header allows JSON; no header, or an empty one, allows anything."""
    weights: dict[str, bool] = {}
    for part in ",".join(values).split(","):
        media_range, *parameters = (piece.strip().lower() for piece in part.split(";"))
        refused = any(re.fullmatch(r"q *= *0(\.0*)?", parameter) for parameter in parameters)
        if media_range:
            weights[media_range] = not refused
    if not weights:
        return True
    return next((weights[media_range] for media_range in _JSON_RANGES if media_range in weights), False)


async def read_body(receive: Receive, headers: Headers, limit_bytes: int) -> bytes:
    """Return the body; raises ``TooLargeError`` without reading past the limit, and ``ClientGoneError``."""
    announced = headers.single("content-length") or ""
    if _LENGTH.fullmatch(announced) and int(announced) > limit_bytes:
        raise TooLargeError("the body is larger than this server reads")
    body = bytearray()
    while True:
        event = await receive()
        if event["type"] != "http.request":
            raise ClientGoneError
        body += event.get("body", b"")
        if len(body) > limit_bytes:
            raise TooLargeError("the body is larger than this server reads")
        if not event.get("more_body", False):
            return bytes(body)


def rpc_refusal(status: HTTPStatus, message: str) -> Answer:
    """Return a refusal of a request whose body was not looked at: a JSON-RPC error without an id."""
    return Answer(status, orjson.dumps(error_message(None, RpcCode.INVALID_REQUEST, message)))


def plain_refusal(status: HTTPStatus, code: str, message: str, headers: HeaderList = (), **members: object) -> Answer:
    """Return a refusal that is about the HTTP request and deliberately no JSON-RPC message (AUTH-10, AUTH-44)."""
    return Answer(status, orjson.dumps({"error": {"code": code, "message": message, **members}}), headers)


def unauthorized(gate: GateFacts, refused: InvalidTokenError | None) -> Answer:
    """Return the 401 of a context.

    ``refused`` is None where no token was sent, since RFC 6750 §3.1 then names no error.
    """
    parameters = {"resource_metadata": gate.resource_metadata_url, "scope": gate.default_scope}
    if refused is None:
        return _challenge(HTTPStatus.UNAUTHORIZED, "unauthorized", "an access token is needed", parameters)
    return _challenge(
        HTTPStatus.UNAUTHORIZED,
        "invalid_token",
        "the access token is not valid here",
        {"error": "invalid_token", "error_description": "the access token is not valid here", **parameters},
    )


def insufficient_scope(gate: GateFacts, scopes: Sequence[str]) -> Answer:
    """Return the step-up answer, which names every scope that the call needs (AUTH-36)."""
    message = "the access token lacks a scope that this call needs"
    parameters = {
        "error": "insufficient_scope",
        "error_description": message,
        "scope": " ".join(scopes),
        "resource_metadata": gate.resource_metadata_url,
    }
    return _challenge(HTTPStatus.FORBIDDEN, "insufficient_scope", message, parameters, required_scopes=[*scopes])


def _challenge(status: HTTPStatus, code: str, message: str, parameters: dict[str, str], **members: object) -> Answer:
    text = "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parameters.items())
    return plain_refusal(status, code, message, ((b"www-authenticate", text.encode("ascii")),), **members)
