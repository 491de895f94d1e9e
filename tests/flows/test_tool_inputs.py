"""Bad input to the real tools: a typed answer that names field and rule, alike in both eras, and its audit entry."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.flows.support_mcp import (
    META,
    VERSION,
    Reply,
    legacy_headers,
    modern_headers,
    send,
)
from tests.flows.tools_support import ERAS, Doors, Grants, paths, without_envelope
from tests.flows.usecase_support import EVERYTHING, MINUTE_MS, NOW_MS
from zkpcp.core.audit import Outcome
from zkpcp.core.instants import to_rfc3339
from zkpcp.core.schemas import JsonObject, JsonValue
from zkpcp.http.mcp.endpoint import UNKNOWN_TOOL

CANARY = "zebrafinch"

WRONG: dict[str, tuple[str, JsonObject, list[str]]] = {
    "an unknown argument": ("memory_read", {"path": "a", CANARY: 1}, [""]),
    "an unknown argument to a tool that needs none": ("context_brief", {CANARY: CANARY}, [""]),
    "nothing of what is needed": ("memory_write", {}, ["/path", "/body"]),
    "a number for a text": ("memory_search", {"query": 5}, ["/query"]),
    "null for a text": ("memory_search", {"query": None}, ["/query"]),
    "a text for a list": ("memory_list", {"tags": CANARY}, ["/tags"]),
    "a list for an object": ("memory_write", {"path": "a", "body": "", "frontmatter": [CANARY]}, ["/frontmatter"]),
    "a text for an object": ("profile_update", {"patch": CANARY}, ["/patch"]),
    "a number as a text": ("memory_list", {"limit": "20"}, ["/limit"]),
    "a size as a text": ("context_brief", {"max_chars": "8000"}, ["/max_chars"]),
    "true for a number": ("audit_list", {"limit": True}, ["/limit"]),
    "a number for a flag": ("memory_list", {"include_archived": 1}, ["/include_archived"]),
    "a broken number": ("memory_search", {"query": "a", "limit": 1.5}, ["/limit"]),
    "too few": ("memory_list", {"limit": 0}, ["/limit"]),
    "too many": ("memory_list", {"limit": 51}, ["/limit"]),
    "no words": ("memory_search", {"query": "?!"}, ["/query"]),
    "a query that is too long": ("memory_search", {"query": CANARY * 200}, ["/query"]),
    "10,000 tags": ("memory_list", {"tags": [CANARY] * 10_000}, ["/tags"]),
    "10,000 tags that are none": ("memory_search", {"query": "a", "tags": [*range(10_000)]}, ["/tags"]),
    "10,000 namespaces": ("profile_get", {"namespaces": [CANARY] * 10_000}, ["/namespaces"]),
    "10,000 tags of a page": (
        "memory_write",
        {"path": "a", "body": "", "frontmatter": {"tags": ["t"] * 10_000}},
        ["/frontmatter/tags"],
    ),
    "10,000 sources of a page": (
        "memory_write",
        {"path": "a", "body": "", "frontmatter": {"derived_from": ["/"] * 10_000}},
        [f"/frontmatter/derived_from/{n}" for n in range(32)],
    ),
    "an unknown kind of page": ("memory_list", {"type": CANARY}, ["/type"]),
    "a path that is none": ("memory_read", {"path": f"../{CANARY}"}, ["/path"]),
    "a path that is too long": ("memory_delete", {"path": "a" * 513}, ["/path"]),
    "a prefix that is none": ("memory_search", {"query": "a", "path_prefix": f"/{CANARY}"}, ["/path_prefix"]),
    "both names of a page": ("memory_read", {"path": "a", "id": CANARY}, ["/path", "/id"]),
    "no name of a page": ("memory_delete", {"expected_updated": to_rfc3339(NOW_MS)}, ["/path", "/id"]),
    "a time that is none": ("memory_search", {"query": "a", "as_of": CANARY}, ["/as_of"]),
    "a time to read that is none": ("memory_read", {"path": "a", "as_of": CANARY}, ["/as_of"]),
    "a beginning that is none": ("audit_list", {"since": CANARY}, ["/since"]),
    "an outcome that is none": ("audit_list", {"outcome": CANARY}, ["/outcome"]),
    "a version that is none": (
        "memory_write",
        {"path": "a", "body": "", "expected_updated": CANARY},
        ["/expected_updated"],
    ),
    "a cursor that is none": ("memory_list", {"cursor": CANARY}, ["/cursor"]),
    "a cursor that is too long": ("audit_list", {"cursor": "A" * 8193}, ["/cursor"]),
    "a namespace without a schema to change": (
        "profile_update",
        {"patch": {}, "namespace": f"org.example.{CANARY}"},
        ["/namespace"],
    ),
    "a namespace that is off": ("profile_get", {"namespaces": ["profile.core", "pcp.health"]}, ["/namespaces"]),
    "a patch that deletes a required member": ("profile_update", {"patch": {"name": None}}, ["/name"]),
    "a patch with an unknown member": ("profile_update", {"patch": {CANARY: CANARY}}, [""]),
    "a frontmatter key that is none": (
        "memory_write",
        {"path": "a", "body": "", "frontmatter": {CANARY: 1}},
        ["/frontmatter/*"],
    ),
    "two frontmatters": (
        "memory_write",
        {"path": "a", "body": f"---\ntitle: {CANARY}\n---\n", "frontmatter": {"title": "b"}},
        ["/body"],
    ),
    "a partition that is none": (
        "memory_write",
        {"path": "a", "body": "", "frontmatter": {"partition": CANARY}},
        ["/frontmatter/partition"],
    ),
    "an end in the past": (
        "memory_write",
        {"path": "a", "body": "", "frontmatter": {"expires": to_rfc3339(NOW_MS)}},
        ["/frontmatter/expires"],
    ),
}


@pytest.fixture
async def doors() -> Doors:
    return await Doors.opened()


@pytest.fixture
async def full(doors: Doors) -> Grants:
    """Every scope, a profile, and a page at ``kept``."""
    granted = await doors.grant(*EVERYTHING)
    await doors.done(granted, "profile_update", {"patch": {"name": "Ada Reed", "interests": ["herons"]}})
    await doors.done(granted, "memory_write", {"path": "kept", "body": "a heron on the weir"})
    return granted


@pytest.mark.requirement("TOOL-08", "TOOL-09", "TOOL-12", "AUD-05", "SEC-12")
@pytest.mark.parametrize("what", WRONG)
async def test_bad_arguments_are_answered_with_the_field_and_the_rule_and_change_nothing(
    doors: Doors, full: Grants, what: str
) -> None:
    tool, arguments, fields = WRONG[what]
    stored = [world.tables().pages | world.tables().profiles for world in doors.worlds.values()]

    error = await doors.refused(full, tool, arguments)

    assert error["code"] == "invalid_input"
    assert paths(error) == fields
    assert CANARY not in str(error)
    assert "heron" not in str(error)
    assert [entry.outcome for entry in await doors.last_entries()] == [Outcome.INVALID] * 2
    assert [world.tables().pages | world.tables().profiles for world in doors.worlds.values()] == stored


@pytest.mark.requirement("TOOL-13")
@pytest.mark.parametrize("tool", ["memory_write", "memory_delete"])
async def test_a_change_based_on_another_version_is_a_conflict(doors: Doors, full: Grants, tool: str) -> None:
    body: JsonObject = {"body": "a heron"} if tool == "memory_write" else {}
    read = await doors.done(full, "memory_read", {"path": "kept"})
    updated = read["page"]["frontmatter"]["updated"]

    for stale in (to_rfc3339(NOW_MS - 1), to_rfc3339(NOW_MS + 365 * 24 * 60 * MINUTE_MS), "0001-01-01T00:00:00Z"):
        error = await doors.refused(full, tool, {"path": "kept", "expected_updated": stale, **body})
        assert error["code"] == "conflict"
        assert [entry.outcome for entry in await doors.last_entries()] == [Outcome.CONFLICT] * 2
    if tool == "memory_write":
        gone = await doors.refused(full, tool, {"path": "new", "expected_updated": updated, **body})
        assert gone["code"] == "conflict"

    await doors.done(full, tool, {"path": "kept", "expected_updated": updated, **body})


async def test_a_cursor_serves_only_its_token_its_tool_and_its_query(doors: Doors, full: Grants) -> None:
    other = await doors.grant(*EVERYTHING)
    for n in range(3):
        await doors.done(full, "memory_write", {"path": f"birds/{n}", "body": "heron"})
    listed = (await doors.done(full, "memory_list", {"limit": 1}))["next_cursor"]
    found = (await doors.done(full, "memory_search", {"query": "heron", "limit": 1}))["next_cursor"]
    logged = (await doors.done(full, "audit_list", {"limit": 1}))["next_cursor"]

    foreign: list[tuple[Grants, str, JsonObject]] = [
        (other, "memory_list", {"limit": 1, "cursor": listed}),
        (other, "audit_list", {"limit": 1, "cursor": logged}),
        (full, "memory_list", {"prefix": "birds", "cursor": listed}),
        (full, "memory_list", {"cursor": found}),
        (full, "memory_search", {"query": "egret", "cursor": found}),
        (full, "memory_search", {"query": "heron", "cursor": listed}),
        (full, "audit_list", {"cursor": logged, "outcome": "ok"}),
    ]
    for granted, tool, arguments in foreign:
        error = await doors.refused(granted, tool, arguments)
        assert (error["code"], paths(error)) == ("invalid_input", ["/cursor"])
    more = await doors.done(full, "memory_list", {"limit": 1, "cursor": listed})
    assert [page["path"] for page in more["pages"]] == ["birds/1"]


@pytest.mark.requirement("TOOL-10", "ERA-07")
async def test_what_is_not_there_what_is_closed_and_what_was_deleted_answer_alike(doors: Doors, full: Grants) -> None:
    default = await doors.grant("memory:read", "memory:write")
    knee = await doors.done(
        full, "memory_write", {"path": "knee", "body": "it creaks", "frontmatter": {"sensitivity": "sensitive"}}
    )
    gone = await doors.done(full, "memory_write", {"path": "gone", "body": "soon"})
    deleted = await doors.done(full, "memory_delete", {"id": gone["id"]})

    assert deleted["deleted"] is True
    assert deleted["id"] == gone["id"]
    names: list[JsonObject] = [
        {"path": "knee"},
        {"id": knee["id"]},
        {"path": "gone"},
        {"id": gone["id"]},
        {"path": "nowhere"},
        {"id": "pg_nothing"},
        {"id": "\0'; --"},
    ]
    errors = [await doors.refused(default, tool, name) for tool in ("memory_read", "memory_delete") for name in names]
    assert errors == [errors[0]] * len(errors)
    assert errors[0]["code"] == "not_found"


@pytest.mark.requirement("MEM-07", "AUTH-36", "AUTH-37")
async def test_a_right_that_depends_on_the_page_is_a_result_and_one_that_does_not_is_a_403(
    doors: Doors, full: Grants
) -> None:
    reader = await doors.grant("memory:read", "memory:write", "memory.sensitive:read")
    blind = await doors.grant("memory:read", "memory.sensitive:read")
    await doors.done(
        full, "memory_write", {"path": "knee", "body": "it creaks", "frontmatter": {"sensitivity": "sensitive"}}
    )

    error = await doors.refused(reader, "memory_delete", {"path": "knee"})
    step_up = await doors.ask(blind, "tools/call", {"name": "memory_delete", "arguments": {"path": "knee"}})

    assert error["code"] == "forbidden"
    assert error["required_scopes"] == ["memory:write", "memory.sensitive:write"]
    assert [reply.status for reply in step_up.values()] == [403, 403]
    assert [(entry.action, entry.outcome) for entry in await doors.last_entries()] == [
        ("memory_delete", Outcome.DENIED)
    ] * 2


async def test_a_page_that_is_too_large_is_told_so(doors: Doors, full: Grants) -> None:
    error = await doors.refused(full, "memory_write", {"path": "a", "body": "x" * (1024 * 1024 + 1)})

    assert error["code"] == "too_large"


def _post(arguments: bytes, era: str) -> bytes:
    meta = b', "_meta": {"%sprotocolVersion": "%s", "%sclientCapabilities": {}}' % (
        META.encode(),
        VERSION.encode(),
        META.encode(),
    )
    return (
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "memory_write", "arguments": %s%s}}'
        % (
            arguments,
            meta if era == "modern" else b"",
        )
    )


async def _raw(doors: Doors, granted: Grants, era: str, arguments: bytes) -> Reply:
    token = granted[era].token
    headers = modern_headers("tools/call", token, "memory_write") if era == "modern" else legacy_headers(token)
    return await send(doors.apps[era], _post(arguments, era), headers)


UNREADABLE: dict[str, tuple[bytes, int, str]] = {
    "a repeated argument": (b'{"path": "zebrafinch", "body": "", "path": "b"}', 400, "occurs twice"),
    "a repeated key of a page": (
        b'{"path": "a", "body": "", "frontmatter": {"x_a": 1, "x_a": 2}}',
        400,
        "occurs twice",
    ),
    "not a number": (b'{"path": "a", "body": "", "frontmatter": {"importance": NaN}}', 400, "NaN"),
    "an endless number": (b'{"path": "a", "body": "", "frontmatter": {"importance": 1e999}}', 400, "64 bits"),
    "2,000 levels": (
        b'{"path": "a", "body": "", "frontmatter": {"x_a": ' + b"[" * 2000 + b"]" * 2000 + b"}}",
        400,
        "nested too deeply",
    ),
    "half a character": (b'{"path": "a", "body": "zebrafinch \\ud83d"}', 400, "lone surrogate"),
    "half a character in a name": (
        b'{"path": "a", "body": "", "frontmatter": {"x_\\udc00": 1}}',
        400,
        "lone surrogate",
    ),
    "bytes that are no text": (b'{"path": "a", "body": "\xff"}', 400, "UTF-8"),
    "5 MiB": (b'{"path": "a", "body": "' + b"z" * (5 * 1024 * 1024) + b'"}', 413, "larger"),
    "half an object": (b'{"path": "a", ', 400, "one JSON text"),
}


@pytest.mark.requirement("SEC-12")
@pytest.mark.parametrize("what", UNREADABLE)
async def test_a_body_that_two_readers_could_take_differently_is_refused_whole(
    doors: Doors, full: Grants, what: str
) -> None:
    arguments, status, rule = UNREADABLE[what]
    before = [world.tables() for world in doors.worlds.values()]

    replies = [await _raw(doors, full, era, arguments) for era in ERAS]

    assert replies[0].body == replies[1].body
    for reply in replies:
        error = reply.json()["error"]
        assert (reply.status, type(error["code"])) == (status, int)
        assert rule in error["message"]
        assert "result" not in reply.json()
        assert CANARY.encode() not in reply.body
    # Nothing ran: no call can be read from such a body, and so the log names none.
    assert [world.tables() for world in doors.worlds.values()] == before


@pytest.mark.requirement("AUD-05")
@pytest.mark.parametrize(
    ("params", "logged"),
    [
        ({"name": CANARY, "arguments": {"path": "a"}}, UNKNOWN_TOOL),
        ({"name": "memory_read", "arguments": [CANARY]}, "memory_read"),
        ({"name": "memory_read", "arguments": CANARY}, "memory_read"),
        ({"name": ["memory_read"], "arguments": {}}, UNKNOWN_TOOL),
        ({"arguments": {}}, UNKNOWN_TOOL),
    ],
)
async def test_a_call_that_is_no_call_is_refused_and_logged_all_the_same(
    doors: Doors, full: Grants, params: JsonObject, logged: str
) -> None:
    before = [len(await world.entries()) for world in doors.worlds.values()]

    replies = await doors.ask(full, "tools/call", params)

    errors = [reply.json()["error"] for reply in replies.values()]
    assert errors[0] == errors[1]
    assert errors[0]["code"] == -32602
    assert CANARY not in str(errors)
    assert [(entry.action, entry.outcome) for entry in await doors.last_entries()] == [(logged, Outcome.INVALID)] * 2
    assert [len(await world.entries()) for world in doors.worlds.values()] == [count + 1 for count in before]


async def test_every_tool_answers_alike_in_both_eras(doors: Doors, full: Grants) -> None:
    page = (await doors.done(full, "memory_read", {"path": "kept"}))["page"]
    calls: list[tuple[str, JsonObject]] = [
        ("context_brief", {}),
        ("context_brief", {"max_chars": 500}),
        ("memory_search", {"query": "heron", "as_of": "2030-01-01"}),
        ("memory_search", {"query": "nothing of that"}),
        ("memory_list", {"prefix": "k", "limit": 1.0}),
        ("memory_read", {"id": page["id"]}),
        ("memory_read", {"id": page["id"], "as_of": "2030-01-01"}),
        ("memory_write", {"path": "new", "body": "# New\n"}),
        ("memory_delete", {"path": "new"}),
        ("profile_get", {}),
        ("profile_get", {"namespaces": ["profile.core"]}),
        ("profile_update", {"patch": {"interests": ["weirs"]}}),
        ("audit_list", {"limit": 50, "since": "2020-01-01"}),
    ]
    for tool, arguments in calls:
        await doors.done(full, tool, arguments)

    listed = await doors.ask(full, "tools/list")
    bare = [without_envelope(reply.json()["result"]) for reply in listed.values()]
    assert bare[0] == bare[1]
    assert {tool["name"] for tool in bare[0]["tools"]} == {tool for tool, _ in calls}


@pytest.mark.requirement("TOOL-07")
async def test_the_text_repeats_what_the_structured_content_says(doors: Doors, full: Grants) -> None:
    await doors.done(full, "memory_write", {"path": "birds/heron", "body": "# The heron\n\nIt fishes at the weir.\n"})
    await doors.done(full, "profile_update", {"patch": {"name": "Ada Example", "interests": ["weirs"]}})
    calls: dict[str, tuple[JsonObject, tuple[str, ...]]] = {
        "context_brief": ({}, ("personal", "Ada Example", "birds/heron", "It fishes at the weir.")),
        "memory_search": ({"query": "fishes"}, ("birds/heron", "The heron", "It fishes at the weir.")),
        "memory_read": ({"path": "birds/heron"}, ("birds/heron", "The heron", "It fishes at the weir.")),
        "memory_list": ({"prefix": "birds/"}, ("birds/heron", "The heron")),
        "memory_write": ({"path": "birds/wren", "body": "It sings."}, ("birds/wren", "Created")),
        "profile_get": ({}, ("Ada Example", "weirs")),
        "profile_update": ({"patch": {"pronouns": "she/her"}}, ("/pronouns", "she/her")),
        "audit_list": ({"limit": 1}, ("profile_update", "ok")),
    }
    for tool, (arguments, told) in calls.items():
        result = await doors.call(full, tool, arguments)
        text = "\n".join(block["text"] for block in result["content"])
        assert [part for part in told if part not in text] == [], tool


# ------------------------------------------------------------------------------------------------- any JSON at all

_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=8,
)


def _arguments(schema: JsonObject) -> st.SearchStrategy[dict[str, Any]]:
    """The tool's own members with any JSON for values, half of them of the right type, and sometimes a strange one."""
    properties = schema["properties"]
    assert isinstance(properties, dict)
    known = st.fixed_dictionaries({}, optional={name: _fitting(rule) | _JSON for name, rule in properties.items()})
    strange: st.SearchStrategy[dict[str, Any]] = st.just({}) | st.dictionaries(st.text(max_size=10), _JSON, max_size=1)
    return st.tuples(known, strange).map(lambda pair: {**pair[0], **pair[1]})


def _fitting(rule: JsonValue) -> st.SearchStrategy[Any]:
    assert isinstance(rule, dict)
    if "enum" in rule and isinstance(rule["enum"], list):
        return st.sampled_from(rule["enum"])
    if rule["type"] == "string":
        return st.sampled_from(["a", "kept", "notes/tea", "2026-01-01", to_rfc3339(NOW_MS), "heron"]) | st.text(
            max_size=30
        )
    if rule["type"] == "integer":
        return st.integers(-2, 60)
    if rule["type"] == "array":
        return st.lists(st.text(max_size=8), max_size=4)
    if rule["type"] == "boolean":
        return st.booleans()
    return st.dictionaries(st.sampled_from(["name", "title", "tags", "expires", "x_a", "interests"]), _JSON, max_size=3)


@pytest.mark.requirement("TOOL-06", "TOOL-08", "SEC-12", "AUD-05")
def test_any_json_is_answered_with_a_typed_result_and_nothing_of_a_closed_page() -> None:
    with asyncio.Runner() as runner:
        doors, granted = runner.run(_with_a_closed_page())

        scopes = {scope for scope in EVERYTHING if not scope.startswith("memory.sensitive")}
        open_to_it = [
            entry
            for entry in doors.catalog.entries()
            if not entry.definition.missing_scopes(scopes) and entry.definition.feature is None
        ]

        @settings(max_examples=20)
        @given(st.data())
        def attempt(data: st.DataObject) -> None:
            for entry in open_to_it:
                arguments = data.draw(_arguments(entry.definition.input_schema))
                result = runner.run(doors.call(granted, entry.definition.name, arguments))
                assert CANARY not in orjson.dumps(result).decode()

        attempt()


async def _with_a_closed_page() -> tuple[Doors, Grants]:
    doors = await Doors.opened()
    granted = await doors.grant(*(scope for scope in EVERYTHING if not scope.startswith("memory.sensitive")))
    for world in doors.worlds.values():
        async with world.owner() as owner:
            await owner.write(f"closed/{CANARY}", CANARY, title=CANARY, tags=[CANARY], sensitivity="sensitive")
            await owner.write("kept", "a heron on the weir")
            await owner.patch({"name": "Ada Reed"})
    return doors, granted
