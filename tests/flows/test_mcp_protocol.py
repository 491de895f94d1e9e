"""The MCP endpoint's protocol half: who is let in, what each message gets, and that both eras get the same."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx2
import mcp
import orjson
import pytest
import structlog.testing
from mcp.client.streamable_http import streamable_http_client
from mcp_types.methods import validate_server_result
from starlette.types import ASGIApp, Message, Scope

from tests.flows.support_mcp import (
    BLIND,
    DEFAULT_SCOPE,
    LEGACY_VERSION,
    LOCKED,
    META,
    METADATA_URL,
    NOBODY,
    ORIGIN,
    READER,
    SETTINGS,
    URL,
    VERSION,
    WRITER,
    EchoTool,
    FailingTool,
    FakeAuthenticator,
    Reply,
    SlowTool,
    ask,
    build,
    call,
    definition,
    http_headers,
    legacy,
    legacy_headers,
    modern,
    modern_headers,
    send,
)
from zkpcp.core.schemas import JsonObject
from zkpcp.errors import (
    ConflictError,
    CorruptError,
    ForbiddenError,
    InvalidInputError,
    InvalidTokenError,
    LockedError,
    NotFoundError,
    RateLimitedError,
    RefusedError,
    TooLargeError,
    UnavailableError,
    Violation,
)
from zkpcp.http.mcp.jsonin import DEPTH_LIMIT
from zkpcp.http.mcp.tools.definition import Catalog, ToolDefinition

ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])
ENVELOPE = ("resultType", "_meta", "ttlMs", "cacheScope")
SUPPORTED = ["2026-07-28", "2025-11-25", "2025-06-18"]


@pytest.fixture
def app() -> ASGIApp:
    return build()


def code_of(reply: Reply) -> int:
    assert reply.headers["content-type"] == "application/json"
    code = reply.json()["error"]["code"]
    assert isinstance(code, int)
    return code


def core_of(reply: Reply) -> dict[str, Any]:
    return {key: value for key, value in reply.json()["result"].items() if key not in ENVELOPE}


# --------------------------------------------------------------------------------------------- who is let in


@pytest.mark.requirement("AUTH-06")
@pytest.mark.parametrize("origin", ["https://evil.test", "null", "", ORIGIN + ".evil.test", "http://pcp.test"])
async def test_a_page_of_another_origin_is_turned_away_before_anything_else(app: ASGIApp, origin: str) -> None:
    reply = await send(app, modern("tools/list"), modern_headers("tools/list", token="bad", origin=origin))

    assert reply.status == 403
    assert "id" not in reply.json()
    assert "access-control-allow-origin" not in reply.headers
    assert reply.challenge == ""


@pytest.mark.requirement("AUTH-06")
async def test_two_origins_are_none(app: ASGIApp) -> None:
    lines = [(k.encode(), v.encode()) for k, v in http_headers(origin=ORIGIN).items()] + [(b"origin", ORIGIN.encode())]

    assert (await send(app, legacy("ping"), lines)).status == 403


@pytest.mark.requirement("AUTH-06")
@pytest.mark.parametrize("origin", [None, ORIGIN])
async def test_a_request_without_origin_or_of_ours_is_served(app: ASGIApp, origin: str | None) -> None:
    reply = await send(app, legacy("ping"), legacy_headers(origin=origin))

    assert reply.status == 200
    assert reply.headers.get("access-control-allow-origin") == origin
    assert reply.headers["vary"] == "Origin"


async def test_a_browser_may_ask_before_it_has_a_token(app: ASGIApp) -> None:
    headers = {"origin": ORIGIN, "access-control-request-method": "POST"}

    reply = await send(app, b"", headers, method="OPTIONS")

    assert (reply.status, reply.body) == (204, b"")
    assert reply.headers["access-control-allow-origin"] == ORIGIN
    assert reply.headers["access-control-allow-methods"] == "POST"
    assert {"Authorization", "Content-Type", "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"} <= set(
        reply.headers["access-control-allow-headers"].split(", ")
    )
    assert "WWW-Authenticate" in reply.headers["access-control-expose-headers"]


@pytest.mark.parametrize(("host", "status"), [("127.0.0.1:8000", 200), ("evil.test", 421), (None, 421)])
async def test_a_host_is_checked_where_hosts_are_configured(host: str | None, status: int) -> None:
    app = build(settings=replace(SETTINGS, allowed_hosts={"127.0.0.1:8000"}.__contains__))

    assert (await send(app, legacy("ping"), legacy_headers(host=host))).status == status


@pytest.mark.requirement("AUTH-44")
@pytest.mark.parametrize("token", [None, READER, "bad"])
@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_an_unknown_context_is_not_found_and_challenges_nobody(
    app: ASGIApp, token: str | None, method: str
) -> None:
    reply = await send(app, legacy("ping"), legacy_headers(token), path="/c/nobody/mcp", method=method)

    assert reply.status == 404
    assert reply.json()["error"]["code"] == "not_found"
    assert reply.challenge == ""


@pytest.mark.requirement("AUTH-10", "AUTH-11")
@pytest.mark.parametrize("authorization", [None, "Basic YTpi", "reader"])
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "PUT", "HEAD", "OPTIONS"])
async def test_who_shows_no_token_is_told_where_to_get_one(
    app: ASGIApp, authorization: str | None, method: str
) -> None:
    reply = await send(app, legacy("ping"), legacy_headers(None, authorization=authorization), method=method)

    assert reply.status == 401
    assert reply.challenge == f'Bearer resource_metadata="{METADATA_URL}", scope="{DEFAULT_SCOPE}"'
    assert "jsonrpc" not in reply.json()


@pytest.mark.requirement("AUTH-12")
@pytest.mark.parametrize("authorization", ["Bearer bad", "bearer bad", "Bearer", "Bearer a b", "Bearer é", "Bearer ,"])
async def test_a_bad_token_is_named_as_the_error(app: ASGIApp, authorization: str) -> None:
    reply = await send(app, legacy("ping"), legacy_headers(authorization=authorization))

    assert reply.status == 401
    assert 'error="invalid_token"' in reply.challenge
    assert f'resource_metadata="{METADATA_URL}"' in reply.challenge
    assert "jsonrpc" not in reply.json()


@pytest.mark.requirement("AUTH-12")
async def test_a_token_of_another_context_is_no_token_here(app: ASGIApp) -> None:
    reply = await send(app, legacy("ping"), legacy_headers(WRITER), path="/c/bob/mcp")

    assert reply.status == 401
    assert 'error="invalid_token"' in reply.challenge


@pytest.mark.requirement("AUTH-12")
async def test_two_authorization_headers_are_no_token(app: ASGIApp) -> None:
    lines = [(name.encode(), value.encode()) for name, value in legacy_headers(WRITER).items()]

    reply = await send(app, legacy("ping"), [*lines, (b"authorization", b"Bearer reader")])

    assert reply.status == 401


@pytest.mark.requirement("AUTH-23")
async def test_a_token_in_the_url_or_the_body_is_not_seen(app: ASGIApp) -> None:
    headers = http_headers(None, content_type="application/x-www-form-urlencoded")

    reply = await send(app, b"access_token=writer", headers, query=b"access_token=writer")

    assert reply.status == 401
    assert "error=" not in reply.challenge


@pytest.mark.parametrize(
    ("error", "status"),
    [(RateLimitedError("slow down", 7), 429), (UnavailableError("the database is away"), 503)],
)
async def test_the_door_says_who_has_to_act(error: RefusedError | UnavailableError, status: int) -> None:
    reply = await send(build(authenticate=FakeAuthenticator(error)), legacy("ping"), legacy_headers())

    assert reply.status == status
    assert reply.json()["error"]["code"] == error.code
    assert reply.headers.get("retry-after") == ("7" if status == 429 else None)


@pytest.mark.requirement("AUTH-04")
@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS"])
async def test_only_post_is_spoken_here(app: ASGIApp, method: str) -> None:
    reply = await send(app, b"", http_headers(accept="text/event-stream"), method=method)

    assert (reply.status, reply.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 200),
        ("Application/JSON; charset=utf-8", 200),
        ('application/json;charset="UTF-8"', 200),
        ("application/json; charset=utf-16", 415),
        ("text/plain", 415),
        ("application/jsonp", 415),
        (None, 415),
    ],
)
async def test_a_body_is_json_by_its_own_word(app: ASGIApp, content_type: str | None, status: int) -> None:
    assert (await send(app, legacy("ping"), legacy_headers(content_type=content_type))).status == status


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        (None, 200),
        ("", 200),
        ("*/*", 200),
        ("application/*;q=0.1", 200),
        ("application/json", 200),
        ("text/event-stream, application/json;q=0.5", 200),
        ("text/event-stream", 406),
        ("text/html, application/xhtml+xml", 406),
        ("application/json;q=0, */*", 406),
    ],
)
async def test_a_client_that_reads_no_json_is_told_so(app: ASGIApp, accept: str | None, status: int) -> None:
    assert (await send(app, legacy("ping"), legacy_headers(accept=accept))).status == status


@pytest.mark.requirement("AUTH-04")
async def test_an_answer_is_json_and_is_not_kept(app: ASGIApp) -> None:
    reply = await ask(app, "modern", "tools/list")

    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["cache-control"] == "no-store"
    assert int(reply.headers["content-length"]) == len(reply.body)


async def test_reading_stops_at_the_largest_body() -> None:
    app = build(settings=replace(SETTINGS, max_body_bytes=100))
    chunks = 0

    async def receive() -> Message:
        nonlocal chunks
        chunks += 1
        return {"type": "http.request", "body": b" " * 60, "more_body": True}

    reply = await drive(app, legacy_headers(), receive)
    announced = await send(app, b"", legacy_headers(content_length="101"))

    assert (reply.status, chunks) == (413, 2)
    assert announced.status == 413
    assert (await send(app, legacy("ping"), legacy_headers())).status == 200


# ------------------------------------------------------------------------------------------------ one message

NESTED = b"[" * (DEPTH_LIMIT + 1) + b"]" * (DEPTH_LIMIT + 1)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff", -32700),
        (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}', -32700),
        (orjson.dumps(legacy("ping")).decode().encode("utf-16"), -32700),
        (b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}', -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"} {}', -32700),
        (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":{"b":1,"b":1}}}', -32600),
        (b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + NESTED + b"}", -32600),
        (b"[" * 100_000, -32600),
        (b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}', -32600),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b'"ping"', -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":[],"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
    ],
)
@pytest.mark.parametrize("version", [None, LEGACY_VERSION, VERSION])
async def test_what_is_no_single_message_is_refused_without_an_id(
    app: ASGIApp, body: bytes, code: int, version: str | None
) -> None:
    reply = await send(app, body, http_headers(mcp_protocol_version=version))

    assert (reply.status, code_of(reply)) == (400, code)
    assert "id" not in reply.json()


@pytest.mark.parametrize("request_id", [0, -1, 2**63 - 1, "", "a-1", "\U0001f511"])
async def test_an_answer_carries_the_id_it_answers(app: ASGIApp, request_id: str | int) -> None:
    reply = await send(app, legacy("ping", request_id=request_id), legacy_headers())

    assert reply.json() == {"jsonrpc": "2.0", "id": request_id, "result": {}}


@pytest.mark.parametrize("version", [None, LEGACY_VERSION, VERSION])
async def test_a_notification_is_accepted_and_not_answered(app: ASGIApp, version: str | None) -> None:
    body: JsonObject = {"jsonrpc": "2.0", "method": "notifications/initialized"}

    reply = await send(app, body, http_headers(mcp_protocol_version=version))

    assert (reply.status, reply.body) == (202, b"")


async def test_a_notification_of_an_unserved_version_is_refused(app: ASGIApp) -> None:
    body: JsonObject = {"jsonrpc": "2.0", "method": "notifications/initialized"}

    reply = await send(app, body, http_headers(mcp_protocol_version="2031-01-01"))

    assert (reply.status, code_of(reply)) == (400, -32022)


@pytest.mark.parametrize(("version", "status"), [(None, 202), (LEGACY_VERSION, 202), (VERSION, 400)])
async def test_an_answer_nobody_asked_for_is_taken_by_the_old_revisions_only(
    app: ASGIApp, version: str | None, status: int
) -> None:
    body: JsonObject = {"jsonrpc": "2.0", "id": 1, "result": {}}

    assert (await send(app, body, http_headers(mcp_protocol_version=version))).status == status


# ------------------------------------------------------------------------------------------- 2026-07-28 alone


@pytest.mark.requirement("AUTH-02")
async def test_discover_says_all_a_client_needs(app: ASGIApp) -> None:
    reply = await ask(app, "modern", "server/discover")

    result = reply.json()["result"]
    validate_server_result("server/discover", VERSION, result)
    assert result["supportedVersions"] == SUPPORTED
    assert result["resultType"] == "complete"
    assert result["cacheScope"] == "private"
    assert result["ttlMs"] > 0
    assert result["_meta"][META + "serverInfo"]["name"] == "zkpcp"
    assert result["instructions"] == "A personal context."


def with_meta(**changes: Any) -> JsonObject:  # noqa: ANN401 - wrong on purpose
    """Return a tools/list whose ``_meta`` members are changed, or removed where None."""
    meta = {META + "protocolVersion": VERSION, META + "clientCapabilities": {}}
    changed = {**meta, **{META + name if name != "progressToken" else name: value for name, value in changes.items()}}
    return legacy("tools/list", {"_meta": {name: value for name, value in changed.items() if value is not None}})


@pytest.mark.requirement("AUTH-02")
@pytest.mark.parametrize(
    "body",
    [
        legacy("tools/list"),
        legacy("tools/list", {}),
        legacy("tools/list", {"_meta": {}}),
        legacy("tools/list", {"_meta": []}),
        {**legacy("tools/list"), "params": [1]},
        with_meta(protocolVersion=None),
        with_meta(clientCapabilities=None),
        with_meta(protocolVersion=7),
        with_meta(clientCapabilities=[]),
        with_meta(clientInfo={"name": "x"}),
        with_meta(logLevel=3),
        with_meta(progressToken=True),
    ],
)
async def test_a_modern_request_brings_its_whole_meta(app: ASGIApp, body: JsonObject) -> None:
    reply = await send(app, body, modern_headers("tools/list"))

    assert (reply.status, code_of(reply)) == (400, -32602)
    assert reply.json()["id"] == 1


async def test_the_client_need_not_give_its_name(app: ASGIApp) -> None:
    unnamed = await send(app, with_meta(), modern_headers("tools/list"))
    named = await send(app, with_meta(clientInfo={"name": "x", "version": "1"}), modern_headers("tools/list"))

    assert (unnamed.status, named.status) == (200, 200)


@pytest.mark.requirement("AUTH-02")
@pytest.mark.parametrize(
    "changes",
    [
        {"mcp_protocol_version": None},
        {"mcp_protocol_version": LEGACY_VERSION},
        {"mcp_protocol_version": "2031-01-01"},
        {"mcp_protocol_version": f"{VERSION}, {LEGACY_VERSION}"},
        {"mcp_method": None},
        {"mcp_method": "tools/list"},
        {"mcp_method": "Tools/Call"},
        {"mcp_method": "tools/call, tools/call"},
        {"mcp_name": None},
        {"mcp_name": "shout"},
        {"mcp_name": "ECHO"},
        {"mcp_name": "echo\xa0"},
        {"mcp_name": "=?base64?ZWNob?="},
        {"mcp_name": "=?BASE64?ZWNobw==?="},
        {"mcp_name": "=?base64?/w==?="},
        {"mcp_name": "=?base64?="},
    ],
)
async def test_headers_and_body_say_the_same(app: ASGIApp, changes: dict[str, str | None]) -> None:
    body = modern("tools/call", {"name": "echo", "arguments": {"say": "hi"}})

    reply = await send(app, body, modern_headers("tools/call", name="echo", **changes))

    assert (reply.status, code_of(reply)) == (400, -32020)
    assert reply.json()["id"] == 1


@pytest.mark.requirement("AUTH-02")
@pytest.mark.parametrize("header", ["mcp-method", "mcp-name"])
async def test_a_routing_header_comes_once(app: ASGIApp, header: str) -> None:
    headers = modern_headers("tools/call", name="echo")
    lines = [(name.encode(), value.encode()) for name, value in headers.items()]
    body = modern("tools/call", {"name": "echo", "arguments": {"say": "hi"}})

    reply = await send(app, body, [*lines, (header.encode(), headers[header].encode())])

    assert code_of(reply) == -32020


@pytest.mark.parametrize(
    "changes",
    [
        {"mcp_name": " echo\t"},
        {"mcp_name": "=?base64?" + base64.b64encode(b"echo").decode() + "?="},
        {"mcp_protocol_version": f"{VERSION}, {VERSION}"},
        {"mcp_session_id": "made-up", "last_event_id": "7"},
    ],
)
async def test_what_means_the_same_is_the_same(app: ASGIApp, changes: dict[str, str | None]) -> None:
    body = modern("tools/call", {"name": "echo", "arguments": {"say": "hi"}})

    reply = await send(app, body, modern_headers("tools/call", name="echo", **changes))

    assert reply.json()["result"]["structuredContent"] == {"said": "hi"}


@pytest.mark.requirement("AUTH-02")
@pytest.mark.parametrize("body", [with_meta(protocolVersion="2031-01-01"), legacy("tools/list"), legacy("initialize")])
async def test_an_unserved_version_is_answered_with_those_that_are(app: ASGIApp, body: JsonObject) -> None:
    reply = await send(app, body, modern_headers(str(body["method"]), mcp_protocol_version="2031-01-01"))

    assert (reply.status, code_of(reply)) == (400, -32022)
    assert reply.json()["error"]["data"] == {"supported": SUPPORTED, "requested": "2031-01-01"}


@pytest.mark.requirement("AUTH-02")
@pytest.mark.parametrize(
    "method",
    ["initialize", "ping", "logging/setLevel", "subscriptions/listen", "resources/list", "prompts/list", "tools/lists"],
)
async def test_a_method_that_is_not_there_is_not_found(app: ASGIApp, method: str) -> None:
    reply = await send(app, modern(method), modern_headers(method))

    assert (reply.status, code_of(reply)) == (404, -32601)


@pytest.mark.parametrize("params", [{}, {"name": 7}, {"name": "echo", "arguments": []}])
async def test_a_call_without_a_name_or_with_a_list_of_arguments_is_malformed(app: ASGIApp, params: JsonObject) -> None:
    reply = await send(app, modern("tools/call", params), modern_headers("tools/call", name="echo"))
    older = await send(app, legacy("tools/call", params), legacy_headers())

    assert (reply.status, code_of(reply)) == (400, -32602)
    assert (older.status, code_of(older)) == (200, -32602)


@pytest.mark.parametrize("headers", [{}, {"mcp_method": "tools/call", "mcp_name": "echo"}])
async def test_a_legacy_header_over_a_modern_body_is_served_where_the_operator_says_so(
    headers: dict[str, str | None],
) -> None:
    body = modern("tools/call", {"name": "echo", "arguments": {"say": "hi"}})

    with structlog.testing.capture_logs() as logs:
        strict = await send(build(), body, legacy_headers(**headers))
        lenient = await send(build(settings=replace(SETTINGS, lenient_era=True)), body, legacy_headers(**headers))

    assert code_of(strict) == -32020
    assert lenient.json()["result"]["resultType"] == "complete"
    assert [(entry["event"], entry["served"]) for entry in logs] == [
        ("mcp_mixed_eras", False),
        ("mcp_mixed_eras", True),
    ]


async def test_leniency_ends_at_headers_that_lie() -> None:
    app = build(settings=replace(SETTINGS, lenient_era=True))
    body = modern("tools/call", {"name": "echo", "arguments": {"say": "hi"}})

    wrong_name = await send(app, body, legacy_headers(mcp_name="shout"))
    no_version = await send(app, body, http_headers())

    assert (code_of(wrong_name), code_of(no_version)) == (-32020, -32020)


# ------------------------------------------------------------------------------------- 2025-11-25 and before


@pytest.mark.requirement("AUTH-01")
@pytest.mark.parametrize(
    ("wanted", "agreed"),
    [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2024-11-05"),
        ("2026-07-28", "2025-11-25"),
        ("2031-01-01", "2025-11-25"),
    ],
)
@pytest.mark.parametrize("header", [None, LEGACY_VERSION])
async def test_initialize_agrees_on_a_version_and_starts_no_session(
    app: ASGIApp, wanted: str, agreed: str, header: str | None
) -> None:
    params: JsonObject = {
        "protocolVersion": wanted,
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
        "_meta": {META + "protocolVersion": VERSION},
    }

    reply = await send(app, legacy("initialize", params), http_headers(accept="*/*", mcp_protocol_version=header))

    result = reply.json()["result"]
    validate_server_result("initialize", agreed, result)
    assert result["protocolVersion"] == agreed
    assert not set(ENVELOPE) & set(result)
    assert "mcp-session-id" not in reply.headers


async def test_initialize_needs_a_version(app: ASGIApp) -> None:
    reply = await send(app, legacy("initialize", {}), legacy_headers())

    assert (reply.status, code_of(reply)) == (200, -32602)


@pytest.mark.requirement("AUTH-01")
@pytest.mark.parametrize("version", [None, "2025-06-18", "2025-03-26", "2024-11-05", "2025-11-25, 2025-11-25"])
async def test_any_served_version_is_good_for_any_request(app: ASGIApp, version: str | None) -> None:
    reply = await send(app, legacy("tools/list"), http_headers(mcp_protocol_version=version))

    assert [tool["name"] for tool in reply.json()["result"]["tools"]] == ["echo", "open_echo", "stray"]


async def test_routing_headers_mean_nothing_to_the_old_revisions(app: ASGIApp) -> None:
    reply = await send(app, legacy("ping"), legacy_headers(mcp_method="tools/call", mcp_name="nonsense"))

    assert reply.json()["result"] == {}


@pytest.mark.parametrize("method", ["logging/setLevel", "server/discover", "resources/list", "nonsense"])
async def test_an_old_client_learns_in_the_body_that_a_method_is_not_there(app: ASGIApp, method: str) -> None:
    reply = await send(app, legacy(method), legacy_headers())

    assert (reply.status, code_of(reply)) == (200, -32601)


@pytest.mark.requirement("AUTH-03")
async def test_a_session_changes_nothing(app: ASGIApp) -> None:
    body = legacy("tools/call", {"name": "echo", "arguments": {"say": "hi"}})

    without = await send(app, body, legacy_headers())
    within = await send(app, body, legacy_headers(mcp_session_id="made-up", last_event_id="7"))

    assert (within.status, within.headers, within.body) == (without.status, without.headers, without.body)


# ---------------------------------------------------------------------------------------------------- both eras


@pytest.mark.requirement("TOOL-16")
async def test_both_eras_declare_the_extension(app: ASGIApp) -> None:
    older = await send(app, legacy("initialize", {"protocolVersion": LEGACY_VERSION}), legacy_headers())
    newer = await ask(app, "modern", "server/discover")

    expected = {"pcp_version": "0.3", "discovery": ORIGIN + "/c/ada/.well-known/pcp.json"}
    for reply in (older, newer):
        capabilities = reply.json()["result"]["capabilities"]
        assert capabilities["extensions"] == {"io.github.pcp-protocol/pcp": expected}
        assert capabilities["tools"] == {"listChanged": False}


@ERAS
@pytest.mark.requirement("TOOL-04", "TOOL-05")
async def test_every_listed_tool_says_what_it_is(app: ASGIApp, era: str) -> None:
    reply = await ask(app, era, "tools/list")

    result = reply.json()["result"]
    validate_server_result("tools/list", VERSION if era == "modern" else LEGACY_VERSION, result)
    for tool in result["tools"]:
        assert tool["title"]
        assert tool["outputSchema"]["type"] == "object"
        assert tool["annotations"]["openWorldHint"] is False
        assert not {"oneOf", "anyOf", "allOf"} & tool["inputSchema"].keys()
    assert ("ttlMs" in result) == (era == "modern")


@ERAS
@pytest.mark.parametrize(
    ("token", "names"),
    [
        (NOBODY, ["open_echo"]),
        (READER, ["echo", "open_echo", "stray"]),
        (LOCKED, ["echo", "open_echo", "stray"]),
        (BLIND, ["echo", "shout", "open_echo", "stray"]),
    ],
)
async def test_a_token_lists_what_it_may_call_in_a_fixed_order(
    app: ASGIApp, era: str, token: str, names: list[str]
) -> None:
    for _again in range(2):
        reply = await ask(app, era, "tools/list", token=token)

        assert [tool["name"] for tool in reply.json()["result"]["tools"]] == names


@ERAS
async def test_a_cursor_we_never_gave_is_refused(app: ASGIApp, era: str) -> None:
    assert code_of(await ask(app, era, "tools/list", {"cursor": "made-up"})) == -32602


@ERAS
@pytest.mark.requirement("TOOL-06")
async def test_a_success_is_structured_and_readable(app: ASGIApp, era: str) -> None:
    reply = await call(app, era, "echo", {"say": "hi"})

    result = reply.json()["result"]
    validate_server_result("tools/call", VERSION if era == "modern" else LEGACY_VERSION, result)
    assert result["structuredContent"] == {"said": "hi"}
    assert result["content"] == [{"type": "text", "text": "said hi"}]
    assert not result["isError"]


@ERAS
@pytest.mark.requirement("TOOL-06")
async def test_a_result_that_breaks_its_schema_never_leaves(app: ASGIApp, era: str) -> None:
    reply = await call(app, era, "stray", {"say": "hi"})

    assert (reply.status, code_of(reply)) == (200, -32603)


SAME: list[tuple[str, JsonObject, str]] = [
    ("tools/list", {}, WRITER),
    ("tools/list", {"cursor": "x"}, WRITER),
    ("tools/call", {"name": "echo", "arguments": {"say": "hi"}}, WRITER),
    ("tools/call", {"name": "open_echo", "arguments": {"say": "hi"}}, NOBODY),
    ("tools/call", {"name": "echo", "arguments": {}}, WRITER),
    ("tools/call", {"name": "echo"}, WRITER),
    ("tools/call", {"name": "echo", "arguments": {"say": "hi"}}, LOCKED),
    ("tools/call", {"name": "nowhere", "arguments": {}}, WRITER),
    ("tools/call", {"name": "shout", "arguments": {"say": "hi"}}, READER),
    ("tools/call", {"name": "broken", "arguments": {"say": "hi"}}, WRITER),
    ("tools/call", {"name": "refusing", "arguments": {"say": "hi"}}, WRITER),
]


@pytest.mark.requirement("AUTH-01", "AUTH-02", "AUTH-03")
@pytest.mark.parametrize(("method", "params", "token"), SAME)
async def test_the_same_request_gets_the_same_answer_in_both_eras(method: str, params: JsonObject, token: str) -> None:
    app = build(
        FailingTool(definition("broken"), RuntimeError("secret")),
        FailingTool(definition("refusing"), ForbiddenError("not yours", ["audit:read"])),
    )

    older = await ask(app, "legacy", method, params, token=token)
    newer = await ask(app, "modern", method, params, token=token)

    assert older.challenge == newer.challenge
    if "result" in older.json():
        assert core_of(older) == core_of(newer)
        assert not set(ENVELOPE) & set(older.json()["result"])
    else:
        assert older.json() == newer.json()


@ERAS
@pytest.mark.requirement("AUTH-36", "AUTH-38")
async def test_a_hidden_tool_answers_with_every_scope_it_needs(app: ASGIApp, era: str) -> None:
    listed = await ask(app, era, "tools/list", token=READER)
    reply = await call(app, era, "shout", {"say": "hi"}, token=READER)

    assert "shout" not in [tool["name"] for tool in listed.json()["result"]["tools"]]
    assert reply.status == 403
    assert 'error="insufficient_scope"' in reply.challenge
    assert 'scope="memory:write memory.sensitive:write"' in reply.challenge
    assert f'resource_metadata="{METADATA_URL}"' in reply.challenge


@ERAS
@pytest.mark.requirement("AUTH-36")
async def test_the_challenge_asks_for_what_is_nearest_to_what_was_granted(era: str) -> None:
    nearer = EchoTool(definition("nearer", ("export:read", "erase:request"), ("memory:read", "review:read")))

    reply = await call(build(nearer), era, "nearer", {"say": "hi"}, token=READER)

    assert 'scope="memory:read review:read"' in reply.challenge
    assert nearer.calls == 0


@ERAS
async def test_a_tool_that_does_not_exist_is_a_mistake_in_the_parameters(app: ASGIApp, era: str) -> None:
    reply = await call(app, era, "nowhere", {})

    assert (reply.status, code_of(reply)) == (400 if era == "modern" else 200, -32602)
    assert "nowhere" not in reply.body.decode()


def failure_of(reply: Reply) -> dict[str, Any]:
    """Return ``structuredContent.error`` of a failed call, whose text says the same."""
    assert reply.status == 200
    result = reply.json()["result"]
    assert result["isError"] is True
    error = result["structuredContent"]["error"]
    assert result["content"][0] == {"type": "text", "text": f"{error['code']}: {error['message']}"}
    assert isinstance(error, dict)
    return error


@ERAS
@pytest.mark.requirement("TOOL-08", "TOOL-09")
@pytest.mark.parametrize(
    ("arguments", "path", "rule"),
    [
        ({}, "/say", "is required"),
        ({"say": 7}, "/say", "must be a text"),
        ({"say": "canary-canary"}, "/say", "must have at most 10 characters"),
        ({"say": "a", "times": 9}, "/times", "must be at most 3"),
        ({"say": "a", "kind": "canary"}, "/kind", "must be one of: loud, quiet"),
        ({"say": "a", "tags": ["a", "CANARY"]}, "/tags/1", "must be a word in lower case"),
        ({"say": "a", "tags": ["a", "a"]}, "/tags", "must not repeat an item"),
        ({"say": "a", "canary": 1}, "", "has a member it must not have; its members are: say, kind, times, tags, free"),
        ({"say": "a", "free": {"a/b~": 1}}, "/free/a~1b~0", "must be a text"),
    ],
)
async def test_bad_arguments_are_told_by_field_and_rule_and_not_by_value(
    app: ASGIApp, era: str, arguments: JsonObject, path: str, rule: str
) -> None:
    reply = await call(app, era, "echo", arguments)

    error = failure_of(reply)
    assert error["code"] == "invalid_input"
    assert error["violations"] == [{"path": path, "message": rule}]
    assert rule in reply.json()["result"]["content"][1]["text"]
    assert "canary" not in reply.body.decode().lower()


@ERAS
@pytest.mark.requirement("TOOL-08", "TOOL-09")
@pytest.mark.parametrize(
    ("error", "more"),
    [
        (InvalidInputError("no", [Violation("/a", "is bad")]), {"violations": [{"path": "/a", "message": "is bad"}]}),
        (InvalidInputError("no"), {}),
        (NotFoundError("no"), {}),
        (ForbiddenError("no", ["audit:read"]), {"required_scopes": ["audit:read"]}),
        (ConflictError("no"), {}),
        (LockedError("no"), {}),
        (TooLargeError("no"), {}),
        (RateLimitedError("no", 9), {"retry_after": 9}),
        (UnavailableError("no"), {}),
    ],
)  # fmt: skip
async def test_a_failure_is_a_result_with_its_code(
    era: str, error: RefusedError | UnavailableError, more: dict[str, object]
) -> None:
    app = build(FailingTool(definition("failing"), error))

    reply = await call(app, era, "failing", {"say": "hi"})

    assert failure_of(reply) == {"code": error.code, "message": "no", **more}
    validate_server_result("tools/call", VERSION if era == "modern" else LEGACY_VERSION, reply.json()["result"])
    assert reply.challenge == ""


@ERAS
@pytest.mark.requirement("AUTH-12")
async def test_a_token_found_out_in_the_middle_of_a_call_is_refused_as_at_the_door(era: str) -> None:
    app = build(FailingTool(definition("failing"), InvalidTokenError("a seal does not open")))

    reply = await call(app, era, "failing", {"say": "hi"})

    assert reply.status == 401
    assert 'error="invalid_token"' in reply.challenge


@ERAS
@pytest.mark.parametrize("token", [LOCKED, BLIND])
@pytest.mark.requirement("TOOL-08")
async def test_a_locked_context_answers_locked_to_calls_and_serves_the_rest(era: str, token: str) -> None:
    app = build()

    reply = await call(app, era, "echo", {"say": "hi"}, token=token)
    hello = await ask(app, era, "initialize" if era == "legacy" else "server/discover",
                      {"protocolVersion": LEGACY_VERSION}, token=token)  # fmt: skip

    assert failure_of(reply) == {"code": "locked", "message": "the owner has to unlock"}
    assert "result" in hello.json()


@ERAS
async def test_a_door_that_finds_the_context_locked_lets_in(era: str) -> None:
    app = build(authenticate=FakeAuthenticator(LockedError("wait for the owner")))

    assert failure_of(await call(app, era, "echo", {"say": "hi"}))["code"] == "locked"
    assert (await ask(app, era, "tools/list")).status == 200


@ERAS
@pytest.mark.parametrize(
    "error", [RuntimeError("canary"), CorruptError("canary"), ExceptionGroup("canary", [OSError()])]
)
async def test_an_incident_is_told_by_its_number_alone(era: str, error: Exception) -> None:
    app = build(FailingTool(definition("failing"), error))

    with structlog.testing.capture_logs() as logs:
        reply = await call(app, era, "failing", {"say": "canary"})

    assert reply.status == 200
    assert reply.json()["error"] == {
        "code": -32603,
        "message": "internal error; incident incident-1",
        "data": {"incident": "incident-1"},
    }
    assert logs == [
        {
            "event": "mcp_incident",
            "log_level": "error",
            "incident": "incident-1",
            "exception": type(error).__name__,
            "tool": "failing",
        }
    ]


async def test_an_incident_at_the_door_has_a_number_too() -> None:
    app = build(authenticate=FakeAuthenticator(CorruptError("canary")))

    with structlog.testing.capture_logs() as logs:
        reply = await send(app, legacy("ping"), legacy_headers())

    assert reply.status == 500
    assert reply.json() == {"error": {"code": "internal", "message": "internal error; incident incident-1"}}
    assert "canary" not in str(logs)


# ------------------------------------------------------------------------------------------------ leaving early


async def drive(app: ASGIApp, headers: dict[str, str], receive: Any) -> Reply:  # noqa: ANN401 - an ASGI receive
    """Run one request whose events ``receive`` makes; a reply of status 0 was never sent."""
    scope: Scope = {
        "type": "http", "method": "POST", "path": "/c/ada/mcp", "query_string": b"", "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip
    sent: list[Message] = []

    async def collect(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, collect)
    if not sent:
        return Reply(0, {}, b"")
    return Reply(sent[0]["status"], {}, sent[1]["body"])


@pytest.mark.parametrize(("era", "ended", "status"), [("modern", "cancelled", 0), ("legacy", "done", 200)])
async def test_a_client_that_leaves_cancels_its_call_in_the_new_revision_only(
    era: str, ended: str, status: int
) -> None:
    tool = SlowTool(definition("slow"))
    params: JsonObject = {"name": "slow", "arguments": {"say": "hi"}}
    body = modern("tools/call", params) if era == "modern" else legacy("tools/call", params)
    headers = modern_headers("tools/call", name="slow") if era == "modern" else legacy_headers()
    events: asyncio.Queue[Message] = asyncio.Queue()
    events.put_nowait({"type": "http.request", "body": orjson.dumps(body)})

    async with asyncio.TaskGroup() as group:
        serving = group.create_task(drive(build(tool), headers, events.get))
        await tool.begun.wait()
        events.put_nowait({"type": "http.disconnect"})
        if era == "legacy":
            for _turn in range(10):  # time enough for a server that listens to notice
                await asyncio.sleep(0)
            tool.go_on.set()

    assert tool.ended == ended
    assert serving.result().status == status


async def test_a_server_that_stops_leaves_no_call_running() -> None:
    tool = SlowTool(definition("slow"))
    events: asyncio.Queue[Message] = asyncio.Queue()
    body = modern("tools/call", {"name": "slow", "arguments": {"say": "hi"}})
    events.put_nowait({"type": "http.request", "body": orjson.dumps(body)})
    serving = asyncio.create_task(drive(build(tool), modern_headers("tools/call", name="slow"), events.get))
    await tool.begun.wait()

    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)

    assert tool.ended == "cancelled"


async def test_a_body_that_never_ends_is_answered_to_nobody(app: ASGIApp) -> None:
    events: asyncio.Queue[Message] = asyncio.Queue()
    events.put_nowait({"type": "http.request", "body": b"{", "more_body": True})
    events.put_nowait({"type": "http.disconnect"})

    assert (await drive(app, legacy_headers(), events.get)).status == 0


# ---------------------------------------------------------------------------------------------------- definitions


@pytest.mark.requirement("TOOL-01")
@pytest.mark.parametrize("name", ["", "memory.read", "Memory", "9lives", "a-b", "a" * 41, "é", "a\n"])
def test_a_tool_has_a_plain_name(name: str) -> None:
    with pytest.raises(ValueError, match="name must match"):
        definition(name)


@pytest.mark.requirement("TOOL-04", "TOOL-05")
@pytest.mark.parametrize(
    "changes",
    [
        {"title": ""},
        {"description": ""},
        {"scopes": ((),)},
        {"input_schema": {"type": "object"}},
        {"input_schema": {"additionalProperties": False}},
        {"input_schema": {"type": "object", "additionalProperties": False, "oneOf": []}},
        {"input_schema": {"type": "object", "additionalProperties": False, "anyOf": []}},
        {"input_schema": {"type": "object", "additionalProperties": False, "allOf": []}},
        {"input_schema": {"type": "object", "additionalProperties": False, "properties": {"a": {"$ref": "https://x"}}}},
        {"input_schema": {"type": "object", "additionalProperties": False, "properties": {"a": {"x-mcp-header": "A"}}}},
        {"output_schema": {"type": "array"}},
    ],
)
def test_a_definition_that_breaks_the_rules_cannot_be_made(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="tool"):
        definition("tool", **changes)


def test_a_catalog_has_each_name_once_and_knows_its_size() -> None:
    one, other = EchoTool(definition("one")), EchoTool(definition("other"))

    with pytest.raises(ValueError, match="same name"):
        Catalog([one, one])
    catalog = Catalog([one, other])
    assert catalog.total_bytes == sum(len(orjson.dumps(tool)) for tool in catalog.listing(None))


def test_a_tool_that_needs_nothing_lacks_nothing() -> None:
    free: ToolDefinition = definition("free")

    assert free.missing_scopes(frozenset()) == ()


# ----------------------------------------------------------------------------------------------- the real client


@pytest.fixture
async def http_client(app: ASGIApp) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, headers={"authorization": f"Bearer {READER}"}) as client:
        yield client


@pytest.mark.requirement("AUTH-01", "AUTH-02", "TOOL-08", "TOOL-16")
@pytest.mark.parametrize("mode", ["auto", "legacy", VERSION])
async def test_the_reference_client_does_its_work(http_client: httpx2.AsyncClient, mode: str) -> None:
    async with mcp.Client(streamable_http_client(URL, http_client=http_client), mode=mode) as client:
        tools = await client.list_tools()
        good = await client.call_tool("echo", {"say": "hi"})
        bad = await client.call_tool("echo", {"say": 7})
        version, capabilities = client.protocol_version, client.server_capabilities

    assert version == (LEGACY_VERSION if mode == "legacy" else VERSION)
    assert [tool.name for tool in tools.tools] == ["echo", "open_echo", "stray"]
    assert good.structured_content == {"said": "hi"}
    assert bad.is_error
    # A client that adopts a version asks nothing, and after initialize this one drops the member.
    if mode == "auto":
        assert "io.github.pcp-protocol/pcp" in (capabilities.extensions or {})


async def test_a_body_full_of_mistakes_is_told_one_of_them(app: ASGIApp) -> None:
    # The validator would build a million errors; a loop that it blocks serves nobody.
    reply = await call(app, "legacy", "echo", {"say": "hi", "tags": [*"A" * 500_000]})

    assert len(failure_of(reply)["violations"]) == 1
