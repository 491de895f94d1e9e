"""What a hostile or careless client sends: the answer names the field and the rule, and nothing is stored."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from tests.live.clients import BareClient, bare_client
from tests.live.owner import Connection, connected
from tests.support.server import RunningServer
from zkpcp.bootstrap import running_services

_TOP: Final = {"path": "ok", "body": "text"}
_BOMB: Final = "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nx_d: [*c, *c]"

BAD_PATHS: Final = {
    "dots": "../etc/passwd",
    "dots inside": "notes/../secret",
    "one dot": "./notes",
    "backslash": "notes\\beans",
    "NUL": "notes/be\0ans",
    "empty segment": "notes//beans",
    "leading slash": "/notes",
    "trailing slash": "notes/",
    "empty": "",
    "513 characters": "/".join(["a" * 64] * 7 + ["b" * 58]),
    "not ASCII": "notes/böhnen",
    "look-alike": "notes/bеans",
    "ends in a dot": "notes/beans.",
    "17 segments": "/".join("a" * 17),
    "line break": "notes\nbeans",
    "percent": "notes/%2e%2e",
}
BAD_BLOCKS: Final = {
    "list": "- a\n- b",
    "scalar": "just words",
    "duplicate keys": "title: one\ntitle: two",
    "tab": "title: one\n\ttype: semantic",
    "alias bomb": _BOMB,
    "python tag": "title: !!python/object/apply:os.system ['true']",
    "other tag": "title: !thing x",
    "two documents": "title: one\n...\n--- \ntitle: two",
    "NO as a type": "type: NO",
    "bare word as a date": "valid_from: tomorrow",
    "number as a title": "title: 7",
    "unknown key": "colour: green",
}
BAD_FRONTMATTER: Final[dict[str, dict[str, Any]]] = {
    "tags that are no list": {"tags": "a"},
    "unknown key": {"colour": "green"},
    "confidence beyond one": {"confidence": 2},
    "partition that is not there": {"partition": "nowhere"},
    "expired already": {"expires": "2020-01-01T00:00:00Z"},
    "impossible date": {"valid_from": "2026-02-30"},
}


@pytest.fixture
async def connection(sqlite_server: RunningServer) -> Connection:
    return await connected(sqlite_server)


@pytest.fixture
async def client(connection: Connection) -> AsyncIterator[BareClient]:
    async with bare_client(connection.mcp_url, connection.access_token) as bare:
        yield bare


def error_of(result: dict[str, Any]) -> dict[str, Any]:
    assert result["isError"] is True
    error: dict[str, Any] = result["structuredContent"]["error"]
    assert result["content"][0]["text"].startswith(f"{error['code']}: ")
    return error


def assert_names(error: dict[str, Any], field: str, value: str) -> None:
    """The violation names the field and a rule, and repeats nothing of the value."""
    assert error["code"] == "invalid_input"
    assert any(violation["path"].lstrip("/").startswith(field) for violation in error["violations"]), error
    assert all(violation["message"] for violation in error["violations"])
    if value.strip():
        assert value not in json.dumps(error, ensure_ascii=False)


@pytest.mark.requirement("MEM-01", "TOOL-08", "TOOL-09")
async def test_a_path_outside_the_grammar_is_refused_by_its_rule(
    sqlite_server: RunningServer, connection: Connection, client: BareClient
) -> None:
    assert len(BAD_PATHS["513 characters"]) == 513

    for path in BAD_PATHS.values():
        for name in ("memory_write", "memory_read"):
            arguments = {"path": path, "body": "text"} if name == "memory_write" else {"path": path}
            assert_names(error_of(await client.call(name, arguments)), "path", path)

    listed = await client.call("memory_list", {})
    assert listed["structuredContent"] == {"pages": [], "next_cursor": None}
    await assert_only_the_name(sqlite_server, connection)


@pytest.mark.requirement("MEM-05", "TOOL-08")
async def test_frontmatter_that_two_readers_could_take_differently_is_refused_by_its_rule(
    sqlite_server: RunningServer, connection: Connection, client: BareClient
) -> None:
    for block in BAD_BLOCKS.values():
        error = error_of(await client.call("memory_write", {**_TOP, "body": f"---\n{block}\n---\ntext"}))
        assert_names(error, "frontmatter", block)
    for keys in BAD_FRONTMATTER.values():
        error = error_of(await client.call("memory_write", {**_TOP, "frontmatter": keys}))
        assert_names(error, "frontmatter", json.dumps(keys))
    for no_object in (["title"], "title: x", 7):
        error = error_of(await client.call("memory_write", {**_TOP, "frontmatter": no_object}))
        assert_names(error, "frontmatter", "")
    both = {**_TOP, "body": "---\ntitle: one\n---\ntext", "frontmatter": {"title": "two"}}
    assert_names(error_of(await client.call("memory_write", both)), "body", "title: one")
    unclosed = {**_TOP, "body": "---\ntitle: one\n\ntext without an end"}
    assert error_of(await client.call("memory_write", unclosed))["code"] == "invalid_input"

    await assert_only_the_name(sqlite_server, connection)


@pytest.mark.requirement("MEM-04", "MEM-10")
async def test_what_other_readers_of_yaml_twist_stays_a_string(client: BareClient) -> None:
    block = "title: NO\nvalid_from: 2026-02-03\nx_country: NO\nx_version: 1.10.0\nx_time: 12:30:45\nx_octal: 010"

    written = await client.call("memory_write", {**_TOP, "body": f"---\n{block}\n---\ntext"})
    read = await client.call("memory_read", {"path": "ok"})

    assert written["isError"] is False
    keys = read["structuredContent"]["page"]["frontmatter"]
    assert keys["title"] == "NO"
    assert keys["valid_from"] == "2026-02-03"
    assert (keys["x_country"], keys["x_version"], keys["x_time"]) == ("NO", "1.10.0", "12:30:45")


@pytest.mark.requirement("TOOL-08")
async def test_a_body_that_is_no_text_or_too_large_is_refused_and_nothing_is_stored(
    sqlite_server: RunningServer, connection: Connection, client: BareClient
) -> None:
    surrogate = _request("memory_write", r'{"path": "ok", "body": "half \ud83d of a pair"}')
    broken_utf8 = _request("memory_write", '{"path": "ok", "body": "%"}').replace(b"%", b"\xff\xfe")
    twice = _request("memory_write", '{"path": "ok", "path": "ok2", "body": "x"}')
    replies = [await client.post_raw("memory_write", body) for body in (surrogate, broken_utf8, twice)]
    huge = await client.call("memory_write", {"path": "ok", "body": "a" * (2 * 1024 * 1024)})
    wide = await client.call("memory_write", {"path": "ok", "body": "é" * (600 * 1024)})
    nul = await client.call("memory_write", {"path": "ok", "body": "a\0b"})
    beyond = await client.post("memory_write", {"path": "ok", "body": "a" * (4 * 1024 * 1024)})

    assert [reply.status_code for reply in replies] == [400, 400, 400]
    for reply, rule in zip(replies, ("lone surrogate", "UTF-8", "twice"), strict=True):
        assert rule in reply.json()["error"]["message"]
    for result in (huge, wide):
        error = error_of(result)
        assert error["code"] == "too_large"
        assert "body must have at most 1048576 bytes" in error["message"]
    assert_names(error_of(nul), "body", "a\0b")
    assert beyond.status_code == 413
    await assert_only_the_name(sqlite_server, connection)


@pytest.mark.requirement("PROF-03")
async def test_a_profile_patch_that_breaks_the_schema_changes_nothing(
    sqlite_server: RunningServer, connection: Connection, client: BareClient
) -> None:
    before = await client.call("profile_get", {})
    bad: dict[str, Any] = {"name": 7, "timezone": "no zone", "shoe_size": 43, "languages": [{"proficiency": "x"}]}
    for member, value in bad.items():
        error = error_of(await client.call("profile_update", {"patch": {member: value}}))
        assert error["code"] == "invalid_input"
        assert error["violations"], member
    nameless = {"name": None, "locale": "de"}
    assert error_of(await client.call("profile_update", {"patch": nameless}))["code"] == "invalid_input"

    assert await client.call("profile_get", {}) == before
    await assert_only_the_name(sqlite_server, connection)


async def assert_only_the_name(server: RunningServer, connection: Connection) -> None:
    """Nothing but the profile that the context began with."""
    async with running_services(server.settings()) as services, services.store.read() as tx:
        assert await tx.pages.count(connection.context_id) == 0
        assert len(await tx.profiles.changes(connection.context_id, "profile.core", 9)) == 1


def _request(name: str, arguments: str) -> bytes:
    meta = '{"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}'
    params = f'{{"name": "{name}", "arguments": {arguments}, "_meta": {meta}}}'
    return f'{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {params}}}'.encode()
