"""Laws of the MCP endpoint: any bytes get an answer of a closed list, and no answer repeats what was wrong."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Final

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.flows.support_mcp import (
    META,
    READER,
    VERSION,
    WRITER,
    EchoTool,
    Reply,
    ask,
    build,
    call,
    definition,
    http_headers,
    legacy,
    send,
)
from zkpcp.core.schemas import JsonObject, JsonValue
from zkpcp.errors import RefusedError
from zkpcp.http.mcp.jsonin import RefusedJsonError, parse_json
from zkpcp.http.mcp.revisions import decode_header_value

STATUSES: Final = {200, 202, 204, 400, 401, 403, 404, 405, 406, 413, 415, 421}
RPC_CODES: Final = {-32700, -32600, -32601, -32602, -32020, -32022}
ENVELOPE: Final = ("resultType", "_meta", "ttlMs", "cacheScope")

TEXT: Final = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SCALARS: Final = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), TEXT
)
JSON: Final[st.SearchStrategy[JsonValue]] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=8
)
METHODS: Final = st.sampled_from(["initialize", "ping", "tools/list", "tools/call", "server/discover", "nonsense"])
VERSIONS: Final = st.sampled_from([VERSION, "2025-11-25", "2031-01-01", ""])
NAMES: Final = st.sampled_from(["echo", "shout", "open_echo", "nonsense"])

# Close to right, so that the examples reach every step of the ladder.
META_OBJECT: Final = st.fixed_dictionaries(
    {},
    optional={
        META + "protocolVersion": VERSIONS | JSON,
        META + "clientCapabilities": st.just({}) | JSON,
        META + "clientInfo": st.just({"name": "x", "version": "1"}) | JSON,
        "progressToken": JSON,
    },
)
PARAMS: Final = st.fixed_dictionaries(
    {},
    optional={
        "_meta": META_OBJECT | JSON,
        "name": NAMES | JSON,
        "arguments": st.just({"say": "hi"}) | JSON,
        "protocolVersion": VERSIONS | JSON,
        "cursor": JSON,
    },
)
MESSAGE: Final = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0")},
    optional={"id": st.integers(0, 9) | JSON, "method": METHODS | JSON, "params": PARAMS | JSON, "result": JSON},
)
BODY: Final = st.binary(max_size=60) | JSON.map(orjson.dumps) | MESSAGE.map(orjson.dumps)

ANY_HEADER: Final = st.tuples(
    st.sampled_from(
        [
            "origin", "host", "authorization", "accept", "content-type", "content-length", "mcp-protocol-version",
            "mcp-method", "mcp-name", "mcp-session-id", "access-control-request-method", "x-other",
        ]
    ),
    st.binary(max_size=20) | st.sampled_from([b"*/*", b"application/json", b"Bearer reader", b"echo", b"tools/call"]),
)  # fmt: skip
USUAL_HEADERS: Final = st.fixed_dictionaries(
    {}, optional={"mcp-protocol-version": VERSIONS, "mcp-method": METHODS, "mcp-name": NAMES}
).map(lambda more: [(name.encode(), value.encode()) for name, value in {**http_headers(), **more}.items()])
HEADERS: Final = st.tuples(USUAL_HEADERS | st.just([]), st.lists(ANY_HEADER, max_size=3)).map(
    lambda parts: [*parts[0], *((name.encode(), value) for name, value in parts[1])]
)

APP: Final = build()


def assert_well_formed(reply: Reply) -> None:
    assert reply.status in STATUSES
    if not reply.body:
        assert reply.status in {202, 204}
        return
    assert reply.headers["content-type"] == "application/json"
    message = reply.json()
    assert ("www-authenticate" in reply.headers) == (reply.status in {401, 403} and "jsonrpc" not in message)
    if "jsonrpc" not in message:
        assert reply.status in {401, 403, 404}
        assert set(message["error"]) >= {"code", "message"}
    elif "error" in message:
        assert message["error"]["code"] in RPC_CODES
    else:
        assert reply.status == 200


@pytest.mark.requirement("AUTH-04")
@settings(max_examples=300, deadline=None)
@given(
    body=BODY,
    headers=HEADERS,
    method=st.sampled_from(["POST"] * 6 + ["GET", "DELETE", "OPTIONS"]),
    path=st.sampled_from(["/c/ada/mcp"] * 6 + ["/c/nobody/mcp"]),
)
def test_any_bytes_get_an_answer_from_a_closed_list(
    body: bytes, headers: list[tuple[bytes, bytes]], method: str, path: str
) -> None:
    assert_well_formed(asyncio.run(send(APP, body, headers, method=method, path=path)))


@pytest.mark.requirement("AUTH-01", "AUTH-02", "AUTH-03")
@settings(max_examples=100, deadline=None)
@given(method=st.sampled_from(["tools/list", "tools/call"]), params=PARAMS, token=st.sampled_from([READER, WRITER]))
def test_both_eras_give_one_answer(method: str, params: JsonObject, token: str) -> None:
    plain = {name: value for name, value in params.items() if name != "_meta"}

    older, newer = (asyncio.run(ask(APP, era, method, plain, token=token)).json() for era in ("legacy", "modern"))

    if "result" in newer:
        newer["result"] = {name: value for name, value in newer["result"].items() if name not in ENVELOPE}
    assert older == newer


@settings(max_examples=200)
@given(value=JSON)
def test_what_is_json_is_read_as_it_was_written(value: JsonValue) -> None:
    for text in (orjson.dumps(value), json.dumps(value).encode()):
        assert parse_json(text) == value


@settings(max_examples=300)
@given(text=st.binary(max_size=80) | st.text('[]{}:,"\\u0dD8eE19.-+ntaf', max_size=40).map(str.encode))
def test_any_bytes_are_a_value_or_a_refusal(text: bytes) -> None:
    try:
        value = parse_json(text)
    except RefusedError:
        return
    assert parse_json(orjson.dumps(value)) == value


@given(name=TEXT, around=st.lists(st.sampled_from("[{"), max_size=20))
def test_a_name_twice_is_refused_at_any_depth(name: str, around: list[str]) -> None:
    key = json.dumps(name)
    text = f"{{{key}:1,{key}:2}}"
    for bracket in around:
        text = f"[{text}]" if bracket == "[" else f'{{"a":{text}}}'

    with pytest.raises(RefusedJsonError):
        parse_json(text.encode())


@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_a_name_survives_its_header(text: str) -> None:
    assert decode_header_value("=?base64?" + base64.b64encode(text.encode()).decode() + "?=") == text


@given(value=st.text(st.characters(max_codepoint=255), max_size=30))
def test_any_header_value_is_a_text_or_nothing(value: str) -> None:
    decoded = decode_header_value(value)

    assert decoded is None or decoded.encode("utf-8").decode("utf-8") == decoded


def with_canary(canary: str) -> st.SearchStrategy[JsonObject]:
    """Return arguments that break the schema somewhere, each with the canary as a value or as an unknown name."""
    return st.fixed_dictionaries(
        {"say": st.just(canary)},
        optional={
            "kind": st.just(canary),
            "times": st.just(canary),
            "tags": st.lists(st.just(canary), min_size=1, max_size=3),
            canary: JSON,
        },
    )


@pytest.mark.requirement("TOOL-09")
@settings(max_examples=50, deadline=None)
@given(arguments=with_canary("CANARY-CANARY"), era=st.sampled_from(["legacy", "modern"]))
def test_a_refused_argument_is_not_repeated(arguments: JsonObject, era: str) -> None:
    reply = asyncio.run(call(APP, era, "echo", arguments))

    assert reply.json()["result"]["structuredContent"]["error"]["code"] == "invalid_input"
    assert "CANARY" not in reply.body.decode()


@pytest.mark.requirement("AUTH-36", "AUTH-38")
@given(
    groups=st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True).map(tuple), max_size=3),
    held=st.frozensets(st.sampled_from("abcd")),
)
def test_what_is_missing_is_enough(groups: list[tuple[str, ...]], held: frozenset[str]) -> None:
    tool = definition("tool", *groups)

    missing = tool.missing_scopes(held)

    allowed = not groups or any(held >= set(group) for group in groups)
    assert (missing == ()) == allowed
    assert tool.missing_scopes(held | set(missing)) == ()


@settings(max_examples=20, deadline=None)
@given(request_id=st.integers(-(2**63), 2**63 - 1) | TEXT)
def test_an_id_comes_back_as_it_went(request_id: int | str) -> None:
    reply = asyncio.run(send(APP, legacy("ping", request_id=request_id), http_headers()))

    assert reply.json()["id"] == request_id


@settings(max_examples=20, deadline=None)
@given(scopes=st.permutations(["one", "two", "three"]))
def test_the_order_of_tools_is_the_order_given(scopes: list[str]) -> None:
    app = build(*(EchoTool(definition(name)) for name in scopes))

    listed = asyncio.run(ask(app, "legacy", "tools/list")).json()["result"]["tools"]

    assert [tool["name"] for tool in listed][-3:] == scopes
