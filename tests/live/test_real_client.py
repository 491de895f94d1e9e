"""The whole job with the real client against a real server: both engines, every mode, the same answers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import httpx2
import mcp
import pytest

from tests.live.clients import LEGACY, MODERN, bare_client, reference_client
from tests.live.conftest import ServerMaker
from tests.live.owner import EVERYTHING, PASSPHRASE, Connection, connected
from tests.support.server import RunningServer

MODES: Final = ("auto", "legacy", MODERN)

_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_ID: Final = re.compile(r"\b([a-z]{2,4})_[0-9a-f]{32}\b")
_OF_THE_MOMENT: Final = ("score", "duration_ms", "next_cursor")
_CURSOR: Final = re.compile(r"(?<=call again with cursor )\S+")


@dataclass
class Job:
    """What a client does with a context, step by step, and what it was answered."""

    client: mcp.Client
    steps: list[object] = field(default_factory=list)

    async def call(self, name: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
        result = await self.client.call_tool(name, arguments or {})
        texts = [block.text for block in result.content if isinstance(block, mcp.types.TextContent)]
        self.steps.append([name, bool(result.is_error), result.structured_content, texts])
        structured: dict[str, Any] = result.structured_content
        return structured

    async def whole(self) -> None:
        self.steps.append([tool.model_dump(mode="json") for tool in (await self.client.list_tools()).tools])
        await self.call("context_brief")
        await self._profile()
        await self._pages()
        await self._looking()
        await self.call("audit_list", {"limit": 50})

    async def _profile(self) -> None:
        await self.call("profile_get")
        work = {"role": "gardener", "organization": None}
        await self.call("profile_update", {"patch": {"languages": [{"code": "de"}], "work": work}})
        await self.call("profile_update", {"patch": {"languages": "German"}})
        await self.call("profile_get", {"namespaces": ["profile.core"]})

    async def _pages(self) -> None:
        beans = "# Beans\r\n\r\nThe beans climb  \nand the peas too."
        tags = ["garden", "2026"]
        first = await self.call(
            "memory_write", {"path": "garden/beans", "body": beans, "frontmatter": {"tags": tags, "x_plot": 4}}
        )
        await self.call("memory_write", {"path": "garden/plan", "body": "---\ntype: semantic\n---\nPeas after beans."})
        await self.call("memory_write", {"path": "style/mail", "body": "Short, without a greeting."})
        change = {"path": "garden/beans", "body": f"{beans}\n\nPicked.", "expected_updated": first["updated"]}
        await self.call("memory_write", change)
        await self.call("memory_write", change)
        await self.call("memory_write", {"path": "Garden/Beans", "body": "The same path in capitals."})
        await self.call("memory_write", {"path": "../beans", "body": "Nowhere."})

    async def _looking(self) -> None:
        await self.call("memory_search", {"query": "beans"})
        await self.call("memory_search", {"query": "greeting", "path_prefix": "style/"})
        listed = await self.call("memory_list", {"limit": 2})
        await self.call("memory_list", {"limit": 2, "cursor": listed["next_cursor"]})
        read = await self.call("memory_read", {"path": "garden/beans"})
        await self.call("memory_read", {"id": read["page"]["id"]})
        await self.call("memory_read", {"path": "garden/cabbage"})
        await self.call("memory_read")
        await self.call("context_brief", {"max_chars": 1000})


def normal(value: Any) -> Any:  # noqa: ANN401 - whatever JSON it is
    """The value without what differs between two runs: instants, ids (but their kind), scores of time, durations."""
    match value:
        case dict():
            hidden = {name for name in _OF_THE_MOMENT if value.get(name) is not None}
            return {name: "*" if name in hidden else normal(item) for name, item in value.items()}
        case list():
            return [normal(item) for item in value]
        case str():
            return _CURSOR.sub("*", _ID.sub(r"\1_*", _INSTANT.sub("<instant>", value)))
        case _:
            return value


async def do_job(connection: Connection, mode: str) -> list[object]:
    async with reference_client(connection.mcp_url, connection.access_token, mode) as client:
        job = Job(client)
        await job.whole()
        assert client.protocol_version == (LEGACY if mode == "legacy" else MODERN)
    return job.steps


@pytest.mark.requirement("AUTH-01", "AUTH-02", "AUTH-03", "TOOL-03", "TOOL-06", "TOOL-08")
async def test_the_same_calls_give_the_same_answers_in_both_eras_and_on_both_engines(
    sqlite_server: RunningServer, postgres_server: RunningServer
) -> None:
    answers: dict[tuple[str, str], list[object]] = {}
    for engine, server in (("sqlite", sqlite_server), ("postgres", postgres_server)):
        for mode in MODES:
            connection = await connected(server)
            answers[engine, mode] = [normal(step) for step in await do_job(connection, mode)]

    first = answers["sqlite", "auto"]
    assert [step[1] for step in first[1:] if isinstance(step, list)].count(True) == 6
    for who, others in answers.items():
        for step, other in zip(first, others, strict=True):
            assert other == step, who


@pytest.mark.requirement("TOOL-03", "AUD-02")
async def test_every_tool_of_the_profile_is_listed_and_answers_what_was_asked(server: RunningServer) -> None:
    connection = await connected(server)

    async with reference_client(connection.mcp_url, connection.access_token) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        job = Job(client)
        await job.whole()
        page = await job.call("memory_read", {"path": "garden/beans"})
        found = await job.call("memory_search", {"query": "peas"})
        listed = await job.call("memory_list")
        profile = await job.call("profile_get")
        log = await job.call("audit_list", {"limit": 50, "action": "memory_write"})

    assert set(names) >= {
        "audit_list",
        "context_brief",
        "memory_list",
        "memory_read",
        "memory_search",
        "memory_write",
        "profile_get",
        "profile_update",
    }
    assert page["page"]["body"] == "# Beans\r\n\r\nThe beans climb  \nand the peas too.\n\nPicked."
    assert page["page"]["frontmatter"]["title"] == "Beans"
    assert {entry["path"] for entry in found["results"]} == {"garden/beans", "garden/plan"}
    assert [entry["path"] for entry in listed["pages"]] == ["garden/beans", "garden/plan", "style/mail"]
    assert profile["profile"]["name"] == "Ada Example"
    assert profile["profile"]["languages"] == [{"code": "de"}]
    outcomes = [entry["outcome"] for entry in log["entries"]]
    assert outcomes == ["invalid", "conflict", "conflict", "ok", "ok", "ok", "ok"]


@pytest.mark.requirement("AUTH-28", "AUTH-30", "AUTH-31", "AUTH-12", "KEY-08")
async def test_a_script_is_connected_by_commands_refreshes_and_is_disconnected_at_once(
    make_server: ServerMaker, engine_url: str
) -> None:
    server = make_server(engine_url)
    run = _commands(server)
    run("init", "--handle", "me", "--kind", "personal", "--name", "Ada Example")
    granted = run("grant", "create", "--client", "my script", "--scope", EVERYTHING)
    server.start()

    async with reference_client(granted["mcp_url"], granted["access_token"]) as client:
        written = await client.call_tool("memory_write", {"path": "a", "body": "written by a script"})
    renewed = await _refreshed(granted, granted["refresh_token"])
    again = await _refreshed(renewed | {"mcp_url": granted["mcp_url"]} | _endpoint(granted), renewed["refresh_token"])
    async with reference_client(granted["mcp_url"], again["access_token"]) as client:
        read = await client.call_tool("memory_read", {"path": "a"})
    server.command("grant", "revoke", granted["grant_id"], "--passphrase-stdin", stdin=f"{PASSPHRASE}\n")
    refused = [await _status(granted["mcp_url"], token["access_token"]) for token in (granted, renewed, again)]

    assert not written.is_error
    assert read.structured_content is not None
    assert read.structured_content["page"]["body"] == "written by a script"
    assert refused == [(401, True)] * 3


def _endpoint(granted: Mapping[str, Any]) -> dict[str, Any]:
    return {name: granted[name] for name in ("client_id", "token_endpoint")}


async def _refreshed(granted: Mapping[str, Any], refresh_token: str) -> dict[str, Any]:
    form = {"grant_type": "refresh_token", "client_id": granted["client_id"], "refresh_token": refresh_token}
    async with httpx2.AsyncClient() as http:
        reply = await http.post(granted["token_endpoint"], data=form)
    assert reply.status_code == 200, reply.text
    answer: dict[str, Any] = reply.json()
    return answer


async def _status(url: str, token: str) -> tuple[int, bool]:
    async with bare_client(url, token) as client:
        reply = await client.post("memory_list", {})
    return reply.status_code, 'error="invalid_token"' in reply.headers.get("www-authenticate", "")


def _commands(server: RunningServer) -> Callable[..., dict[str, Any]]:
    def run(*arguments: str) -> dict[str, Any]:
        done = server.command(*arguments, "--passphrase-stdin", "--json", stdin=f"{PASSPHRASE}\n")
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    return run
