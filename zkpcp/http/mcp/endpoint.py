"""The ASGI application behind ``POST <base>/mcp``: one request in, one JSON answer out, in every revision.

Implements MCP 2026-07-28 and 2025-11-25 (2025-06-18, 2025-03-26, 2024-11-05) over Streamable HTTP (AUTH-01 to
AUTH-04) by putting the gate, the revisions and the dispatch in their order. It keeps no session and mints no session
id: headers that name one are not read. It never logs a body, a header, an argument or the text of an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Final, Generic, TypeVar

import orjson
import structlog
from starlette.types import Receive, Scope, Send

from zkpcp.core.schemas import JsonObject, JsonValue
from zkpcp.errors import InvalidTokenError, LockedError, RateLimitedError, TooLargeError, UnavailableError
from zkpcp.http.mcp import dispatch, gate
from zkpcp.http.mcp.envelope import (
    MODERN_STATUS,
    Request,
    RequestId,
    RpcCode,
    RpcRefusedError,
    error_message,
    read_message,
    result_message,
    stamp_modern,
)
from zkpcp.http.mcp.gate import Answer, Authenticate, GateFacts, Headers, Locked, RequestPlace, ResolveContext
from zkpcp.http.mcp.jsonin import NotJsonError, RefusedJsonError, parse_json
from zkpcp.http.mcp.revisions import (
    Era,
    RoutingHeaders,
    check_modern,
    check_unanswered,
    choose_era,
    collapse_version,
    is_tolerated_mix,
)
from zkpcp.http.mcp.tools.definition import C, Catalog

T = TypeVar("T")

UNKNOWN_TOOL: Final = "unknown_tool"
"""Stands in the access log for the name of a tool that does not exist, which is the client's own text (AUD-04)."""

_LOG: Final = structlog.stdlib.get_logger(__name__)
_ALWAYS: Final = (
    (b"cache-control", b"no-store"),
    (b"vary", b"Origin"),
    (b"x-content-type-options", b"nosniff"),
)


def _no_origins(_host: str) -> frozenset[str]:
    return frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSettings:
    """How a deployment serves MCP.

    ``allowed_origins``: full origins in lower case, whichever context is meant; ``own_origins``: those of the context
    at a Host. ``allowed_hosts`` says whether a Host is served, None for any. ``lenient_era`` (the setting
    ``mcp_lenient_era``) serves a request whose header and ``_meta`` name different eras by its ``_meta``.
    """

    server_name: str
    server_title: str
    server_version: str
    allowed_origins: frozenset[str]
    own_origins: Callable[[str], frozenset[str]] = _no_origins
    allowed_hosts: Callable[[str], bool] | None = None
    max_body_bytes: int = 4 * 1024 * 1024
    cache_ttl_ms: int = 300_000
    lenient_era: bool = False

    def server_info(self) -> JsonObject:
        """Return MCP's ``Implementation`` object of this server."""
        return {"name": self.server_name, "title": self.server_title, "version": self.server_version}


class McpEndpoint(Generic[C]):
    """The endpoint of every context of a deployment; ``incident_id`` makes an opaque id for each unexpected failure."""

    def __init__(
        self,
        catalog: Catalog[C],
        authenticate: Authenticate[C],
        resolve_context: ResolveContext,
        settings: McpSettings,
        *,
        incident_id: Callable[[], str],
        note_refusal: dispatch.NoteRefusal[C] = dispatch.note_nothing,
    ) -> None:
        self._catalog = catalog
        self._authenticate = authenticate
        self._resolve_context = resolve_context
        self._settings = settings
        self._incident_id = incident_id
        self._note_refusal = note_refusal

    @property
    def catalog_fingerprint(self) -> str:
        """The fingerprint of the tools that this endpoint serves."""
        return self._catalog.fingerprint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        headers = Headers(scope["headers"])
        own = self._settings.own_origins(gate.host_of(headers))
        refused = gate.refuse_origin(headers, self._settings.allowed_origins | own)
        if refused is not None:
            await _send(send, refused, ())
            return
        try:
            answer = await self._serve(scope, headers, receive)
        except gate.ClientGoneError:
            return
        except Exception as error:  # noqa: BLE001 - the process edge: whatever it is, its text stays here
            incident = self._incident(error, tool="-")
            answer = gate.plain_refusal(
                HTTPStatus.INTERNAL_SERVER_ERROR, "internal", f"internal error; incident {incident}"
            )
        await _send(send, answer, gate.cors(headers))

    async def _serve(self, scope: Scope, headers: Headers, receive: Receive) -> Answer:
        refused = gate.refuse_host(headers, self._settings.allowed_hosts)
        if refused is not None:
            return refused
        if gate.is_preflight(scope["method"], headers):
            return gate.preflight()
        try:
            return await self._serve_context(scope, headers, receive)
        except TooLargeError as error:
            return gate.rpc_refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, error.message)
        except RateLimitedError as error:
            retry_after = (b"retry-after", str(error.retry_after_s).encode("ascii"))
            return gate.plain_refusal(HTTPStatus.TOO_MANY_REQUESTS, error.code, error.message, (retry_after,))
        except UnavailableError as error:
            return gate.plain_refusal(HTTPStatus.SERVICE_UNAVAILABLE, error.code, error.message)

    async def _serve_context(self, scope: Scope, headers: Headers, receive: Receive) -> Answer:
        place = RequestPlace(
            host=gate.host_of(headers),
            path=scope["path"],
            handle=scope.get("path_params", {}).get("handle"),
        )
        facts = await self._resolve_context(place)
        if facts is None:
            return gate.plain_refusal(HTTPStatus.NOT_FOUND, "not_found", "there is no such context")
        try:
            token = gate.bearer_token(headers)
            if token is None:
                return gate.unauthorized(facts, None)
            admit = partial(self._admit, facts, token)
            session = dispatch.Session(facts, await admit(), admit)
        except InvalidTokenError as refused_token:
            return gate.unauthorized(facts, refused_token)
        refused = gate.refuse_form(scope["method"], headers)
        if refused is not None:
            return refused
        body = await gate.read_body(receive, headers, self._settings.max_body_bytes)
        return await self._serve_message(body, headers, session, receive)

    async def _admit(self, facts: GateFacts, token: str) -> C | Locked:
        try:
            return await self._authenticate(facts, token)
        except LockedError as locked:
            return Locked(locked.message)

    async def _serve_message(
        self, body: bytes, headers: Headers, session: dispatch.Session[C], receive: Receive
    ) -> Answer:
        routing = RoutingHeaders(
            version=collapse_version(headers.all("mcp-protocol-version")),
            methods=headers.all("mcp-method"),
            names=headers.all("mcp-name"),
        )
        try:
            message = read_message(_parse(body))
            era = choose_era(routing.version, message)
            check_unanswered(routing.version, message)
        except RpcRefusedError as refused:
            return _error(None, refused, HTTPStatus.BAD_REQUEST)
        if not isinstance(message, Request):
            return Answer(HTTPStatus.ACCEPTED)
        work = self._serve_request(message, era, routing, session)
        # A closed connection cancels a request in 2026-07-28, and must not in the revisions before it.
        return await (work if era is Era.LEGACY else _unless_gone(work, receive))

    async def _serve_request(
        self, request: Request, era: Era, routing: RoutingHeaders, session: dispatch.Session[C]
    ) -> Answer:
        try:
            if era is Era.MODERN:
                self._note_mixed_eras(request, routing)
                check_modern(request, routing, lenient_era=self._settings.lenient_era)
            result = await dispatch.answer(
                request,
                era,
                session,
                catalog=self._catalog,
                server_info=self._settings.server_info(),
                note_refusal=self._note_refusal,
            )
            return Answer(HTTPStatus.OK, orjson.dumps(result_message(request.id, self._dress(request, era, result))))
        except RpcRefusedError as refused:
            if request.method == "tools/call":
                # A call that never became one is a failed call all the same (AUD-05).
                await self._note_refusal(session.caller, self._known_tool(request) or UNKNOWN_TOOL, refused)
            return _error(request.id, refused, _error_status(era, refused.rpc_code))
        except dispatch.StepUpError as missing:
            return gate.insufficient_scope(session.gate, missing.required_scopes)
        except InvalidTokenError as refused_token:
            return gate.unauthorized(session.gate, refused_token)
        except Exception as error:  # noqa: BLE001 - the process edge: whatever it is, its text stays here
            incident = self._incident(error, tool=self._known_tool(request) or "-")
            internal = RpcRefusedError(
                RpcCode.INTERNAL_ERROR, f"internal error; incident {incident}", {"incident": incident}
            )
            return _error(request.id, internal, _error_status(era, internal.rpc_code))

    def _dress(self, request: Request, era: Era, result: Mapping[str, object]) -> Mapping[str, object]:
        if era is Era.LEGACY:
            return result
        ttl_ms = self._settings.cache_ttl_ms if request.method in dispatch.CACHEABLE else None
        return stamp_modern(result, server_info=self._settings.server_info(), ttl_ms=ttl_ms)

    def _note_mixed_eras(self, request: Request, routing: RoutingHeaders) -> None:
        if is_tolerated_mix(routing.version, request):
            _LOG.warning("mcp_mixed_eras", header_version=routing.version, served=self._settings.lenient_era)

    def _known_tool(self, request: Request) -> str | None:
        # Only names of ours: whatever else stands there is the client's text.
        name = request.params.get("name") if isinstance(request.params, dict) else None
        return name if isinstance(name, str) and self._catalog.find(name) is not None else None

    def _incident(self, error: Exception, *, tool: str) -> str:
        incident = self._incident_id()
        _LOG.error("mcp_incident", incident=incident, exception=type(error).__name__, tool=tool)
        return incident


def _parse(body: bytes) -> JsonValue:
    try:
        return parse_json(body)
    except NotJsonError as refused:
        raise RpcRefusedError(RpcCode.PARSE_ERROR, refused.message) from None
    except RefusedJsonError as refused:
        raise RpcRefusedError(RpcCode.INVALID_REQUEST, refused.message) from None


def _error_status(era: Era, code: RpcCode) -> HTTPStatus:
    return HTTPStatus.OK if era is Era.LEGACY else MODERN_STATUS.get(code, HTTPStatus.BAD_REQUEST)


def _error(request_id: RequestId | None, refused: RpcRefusedError, status: HTTPStatus) -> Answer:
    return Answer(status, orjson.dumps(error_message(request_id, refused.rpc_code, refused.message, refused.data)))


async def _unless_gone(work: Coroutine[None, None, T], receive: Receive) -> T:
    """Return what ``work`` returns.

    Cancel it, wait for its end and raise ``ClientGoneError`` if the client leaves first.
    """
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_gone(receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise gate.ClientGoneError
    finally:
        # Also on our own cancellation: no task outlives its request.
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(send: Send, answer: Answer, cors: gate.HeaderList) -> None:
    headers = [*_ALWAYS, *cors, *answer.headers]
    if answer.body:
        headers.append((b"content-type", b"application/json"))
    if answer.status != HTTPStatus.NO_CONTENT:  # RFC 9110 §8.6: a 204 must not have one
        headers.append((b"content-length", str(len(answer.body)).encode("ascii")))
    await send({"type": "http.response.start", "status": int(answer.status), "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
