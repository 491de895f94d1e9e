"""A small deployment of the MCP endpoint: an echo, tools that fail on demand, tokens that stand for themselves."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Scope

from zkpcp.core.schemas import JsonObject
from zkpcp.errors import InvalidTokenError, ZkpcpError
from zkpcp.http.mcp.endpoint import McpEndpoint, McpSettings
from zkpcp.http.mcp.gate import GateFacts, Locked, RequestPlace
from zkpcp.http.mcp.tools.definition import Annotations, Catalog, Tool, ToolDefinition, ToolResult

ORIGIN = "https://pcp.test"
URL = ORIGIN + "/c/ada/mcp"
METADATA_URL = ORIGIN + "/.well-known/oauth-protected-resource/c/ada/mcp"
DEFAULT_SCOPE = "profile.core:read memory:read memory:write"
VERSION = "2026-07-28"
LEGACY_VERSION = "2025-11-25"
META = "io.modelcontextprotocol/"
READER, WRITER, NOBODY, LOCKED, BLIND = "reader", "writer", "nobody", "locked", "blind"

WORD: JsonObject = {"pattern": "^[a-z]+$", "description": "a word in lower case"}

Headers = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FakeCaller:
    scopes: frozenset[str]


def definition(name: str, *scopes: tuple[str, ...], **changes: Any) -> ToolDefinition:  # noqa: ANN401 - as the fields are
    base = ToolDefinition(
        name=name,
        title=name.title(),
        description="A tool of the tests.",
        input_schema={
            "type": "object",
            "properties": {
                "say": {"type": "string", "maxLength": 10},
                "kind": {"enum": ["loud", "quiet"]},
                "times": {"type": "integer", "minimum": 1, "maximum": 3},
                "tags": {
                    "type": "array",
                    "maxItems": 2,
                    "uniqueItems": True,
                    "items": WORD,
                },
                "free": {"type": "object", "additionalProperties": {"type": "string"}},
            },
            "required": ["say"],
            "additionalProperties": False,
        },
        output_schema={
            "type": "object",
            "properties": {"said": {"type": "string"}},
            "required": ["said"],
            "additionalProperties": False,
        },
        annotations=Annotations(read_only=True, destructive=False, idempotent=True),
        scopes=scopes,
    )
    return replace(base, **changes)


@dataclass
class EchoTool:
    definition: ToolDefinition
    calls: int = 0

    async def call(self, _caller: FakeCaller, arguments: JsonObject) -> ToolResult:
        self.calls += 1
        return ToolResult({"said": arguments["say"]}, f"said {arguments['say']}")


@dataclass
class FailingTool:
    definition: ToolDefinition
    error: Exception

    async def call(self, _caller: FakeCaller, _arguments: JsonObject) -> ToolResult:
        raise self.error


@dataclass
class StrayTool:
    """Answers what its output schema does not allow."""

    definition: ToolDefinition

    async def call(self, _caller: FakeCaller, _arguments: JsonObject) -> ToolResult:
        return ToolResult({"unsaid": 1}, "stray")


@dataclass
class SlowTool:
    """Says when it has begun, goes on when told to, and remembers how it ended."""

    definition: ToolDefinition
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    ended: str = "not yet"

    async def call(self, _caller: FakeCaller, _arguments: JsonObject) -> ToolResult:
        self.begun.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.ended = "cancelled"
            raise
        self.ended = "done"
        return ToolResult({"said": "slowly"}, "slowly")


async def resolve(place: RequestPlace) -> GateFacts | None:
    if place.handle not in ("ada", "bob"):
        return None
    return GateFacts(
        context_id="ctx-1",
        handle=place.handle,
        resource_metadata_url=METADATA_URL.replace("ada", place.handle),
        default_scope=DEFAULT_SCOPE,
        discovery_url=f"{ORIGIN}/c/{place.handle}/.well-known/pcp.json",
        instructions=lambda: "A personal context.",
    )


@dataclass
class FakeAuthenticator:
    """Knows five tokens of one context, and raises ``error`` for every token where it is given one."""

    error: ZkpcpError | None = None

    async def __call__(self, gate: GateFacts, token: str) -> FakeCaller | Locked:
        if self.error is not None:
            raise self.error
        callers: dict[str, FakeCaller | Locked] = {
            READER: FakeCaller(frozenset({"memory:read"})),
            WRITER: FakeCaller(frozenset({"memory:read", "memory:write", "audit:read"})),
            NOBODY: FakeCaller(frozenset()),
            LOCKED: Locked("the owner has to unlock", frozenset({"memory:read"})),
            BLIND: Locked("the owner has to unlock"),
        }
        if gate.handle != "ada" or token not in callers:
            raise InvalidTokenError("no such token")
        return callers[token]


SETTINGS = McpSettings(
    server_name="zkpcp", server_title="zkpcp", server_version="0.0.1", allowed_origins=frozenset({ORIGIN})
)


def tools() -> list[Tool[FakeCaller]]:
    return [
        EchoTool(definition("echo", ("memory:read",))),
        EchoTool(definition("shout", ("memory:write", "memory.sensitive:write"), ("memory:propose", "memory:write"))),
        EchoTool(definition("open_echo")),
        StrayTool(definition("stray", ("memory:read",))),
    ]


def build(
    *more: Tool[FakeCaller],
    authenticate: FakeAuthenticator | None = None,
    settings: McpSettings = SETTINGS,
    incident_id: Callable[[], str] = lambda: "incident-1",
) -> ASGIApp:
    endpoint = McpEndpoint(
        Catalog([*tools(), *more]), authenticate or FakeAuthenticator(), resolve, settings, incident_id=incident_id
    )
    return Starlette(routes=[Route("/c/{handle}/mcp", endpoint)])


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:  # noqa: ANN401 - whatever JSON it is
        return orjson.loads(self.body)

    @property
    def challenge(self) -> str:
        return self.headers.get("www-authenticate", "")


async def send(
    app: ASGIApp,
    body: bytes | JsonObject = b"",
    headers: Headers | Iterable[tuple[bytes, bytes]] = (),
    *,
    method: str = "POST",
    path: str = "/c/ada/mcp",
    query: bytes = b"",
) -> Reply:
    """Send one request straight into the application, headers as they are; the connection stays open."""
    raw = body if isinstance(body, bytes) else orjson.dumps(body)
    lines = [(k.encode(), v.encode()) for k, v in headers.items()] if isinstance(headers, Mapping) else [*headers]
    scope: Scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query,
        "headers": [(name.lower(), value) for name, value in lines], "root_path": "", "scheme": "https",
        "http_version": "1.1", "server": ("pcp.test", 443), "client": ("192.0.2.1", 1),
    }  # fmt: skip
    incoming: list[Message] = [{"type": "http.request", "body": raw}]
    sent: list[Message] = []

    async def receive() -> Message:
        if incoming:
            return incoming.pop()
        await asyncio.Event().wait()
        raise AssertionError

    async def collect(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, collect)
    start, *rest = sent
    assert start["type"] == "http.response.start"
    assert all(part["type"] == "http.response.body" for part in rest)
    reply_headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in start["headers"]}
    return Reply(start["status"], reply_headers, b"".join(part.get("body", b"") for part in rest))


def http_headers(token: str | None = WRITER, **more: str | None) -> dict[str, str]:
    """Return what every client sends; a keyword adds or, with None, removes a header."""
    base = {
        "host": "pcp.test",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "authorization": None if token is None else f"Bearer {token}",
    }
    given = {name.replace("_", "-"): value for name, value in more.items()}
    return {name: value for name, value in {**base, **given}.items() if value is not None}


def legacy(method: str, params: JsonObject | None = None, request_id: str | int = 1) -> JsonObject:
    message: JsonObject = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return message if params is None else {**message, "params": params}


def legacy_headers(token: str | None = WRITER, **more: str | None) -> dict[str, str]:
    return http_headers(token, **{"mcp_protocol_version": LEGACY_VERSION, **more})


def modern(method: str, params: JsonObject | None = None, request_id: str | int = 1) -> JsonObject:
    meta: JsonObject = {META + "protocolVersion": VERSION, META + "clientCapabilities": {}}
    return legacy(method, {**(params or {}), "_meta": meta}, request_id)


def modern_headers(
    method: str, token: str | None = WRITER, name: str | None = None, **more: str | None
) -> dict[str, str]:
    named = {"mcp_protocol_version": VERSION, "mcp_method": method, "mcp_name": name}
    return http_headers(token, **{**named, **more})


def as_header(name: str) -> str:
    """Return a name as a header can carry it."""
    if name.isascii() and name.isidentifier():
        return name
    return "=?base64?" + base64.b64encode(name.encode()).decode() + "?="


async def ask(
    app: ASGIApp, era: str, method: str, params: JsonObject | None = None, *, token: str | None = WRITER
) -> Reply:
    """Make one well-formed request in an era."""
    if era == "legacy":
        return await send(app, legacy(method, params), legacy_headers(token))
    name = (params or {}).get("name")
    headers = modern_headers(method, token, as_header(name) if isinstance(name, str) else None)
    return await send(app, modern(method, params), headers)


async def call(app: ASGIApp, era: str, name: str, arguments: JsonObject, *, token: str | None = WRITER) -> Reply:
    return await ask(app, era, "tools/call", {"name": name, "arguments": arguments}, token=token)
