"""``zkpcp stdio`` with the real client: the tools of HTTP, and a grant that lives as long as the process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final

import keyring.backend
import mcp
import pytest
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.live.clients import LEGACY, MODERN
from tests.live.owner import EVERYTHING, PASSPHRASE, connected
from tests.live.test_real_client import Job, do_job, normal
from tests.support.env_keyring import EnvironmentKeyring
from tests.support.server import RunningServer
from zkpcp.bootstrap import prepare_database, running_services
from zkpcp.cli import os_keyring
from zkpcp.core.audit import Entry, from_json
from zkpcp.core.stored import GrantRow
from zkpcp.usecases.found import found_context
from zkpcp.usecases.local import end

CLIENT: Final = "my editor"
SCOPES: Final = "memory:read memory:write audit:read"

_ROOT: Final = Path(__file__).resolve().parents[2]
_NO_KEYRING: Final = "keyring.backends.fail.Keyring"
_NUMBERS: Final = count(1)
_END_TIMEOUT_S: Final = 20


@dataclass(frozen=True)
class Home:
    """A computer with one context on it, and the ways to start ``zkpcp stdio`` there."""

    server: RunningServer
    handle: str
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def screen(self) -> Path:
        """What the terminal showed."""
        return self.server.folder / f"{self.handle}.screen"

    @property
    def errors(self) -> Path:
        """What the last command said on standard error."""
        return self.server.folder / f"{self.handle}.stderr"

    def environment(self, **more: str) -> dict[str, str]:
        """The environment of a command, on a computer without a keyring unless ``more`` says otherwise."""
        folder, data_dir = str(self.server.folder), str(self.server.data_dir)
        own = {"HOME": folder, "ZKPCP_DATA_DIR": data_dir, "PYTHON_KEYRING_BACKEND": _NO_KEYRING}
        # One start instead of two; what the second start is for, a test of its own measures.
        return {**own, "ZKPCP_WIPE_ON_FREE": "false", **more}

    def with_keyring(self, passphrase: str = PASSPHRASE, **more: str) -> dict[str, str]:
        """The same on a computer whose keyring holds a passphrase."""
        account = os_keyring.account(self.handle, f"sqlite:///{self.server.data_dir}/zkpcp.db")
        entries = json.dumps([[os_keyring.SERVICE, account, passphrase]])
        return self.environment(PYTHON_KEYRING_BACKEND=_BACKEND, TEST_KEYRING=entries, **more)

    def with_terminal(self, passphrase: str = PASSPHRASE, **more: str) -> dict[str, str]:
        """The same for a command behind ``AT_TERMINAL``."""
        return self.environment(TEST_ANSWER=passphrase, TEST_SCREEN=str(self.screen), **more)

    def arguments(self, *more: str, name: str = CLIENT, scope: str = SCOPES) -> list[str]:
        command = ["-m", "zkpcp.cli.main", "stdio", "--context", self.handle]
        return [*command, *(more or ("--client", name, "--scope", scope))]

    def start(self, environment: Mapping[str, str], *arguments: str) -> subprocess.Popen[bytes]:
        """The command itself, with pipes and without a terminal."""
        process = subprocess.Popen(
            [sys.executable, *(arguments or self.arguments())],
            cwd=_ROOT,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    async def grants(self) -> list[GrantRow]:
        """The active grants."""
        async with running_services(self.server.settings()) as services, services.store.read() as tx:
            context = await tx.contexts.by_handle(self.handle)
            assert context is not None
            return list(await tx.grants.list_grants(context.context_id))

    async def log(self) -> list[Entry]:
        """The access log, newest first."""
        async with running_services(self.server.settings()) as services, services.store.read() as tx:
            context = await tx.contexts.by_handle(self.handle)
            assert context is not None
            return [from_json(row.entry) for row in await tx.audit.entries(context.context_id, limit=1000)]


_BACKEND: Final = f"{EnvironmentKeyring.__module__}.{EnvironmentKeyring.__name__}"
AT_TERMINAL: Final = ("-m", "tests.support.with_terminal", sys.executable)


@pytest.fixture(scope="module")
def computer(tmp_path_factory: pytest.TempPathFactory) -> RunningServer:
    """A data directory; no server runs."""
    made = RunningServer(tmp_path_factory.mktemp("computer"))
    prepare_database(made.settings())
    return made


@pytest.fixture
async def home(computer: RunningServer) -> AsyncIterator[Home]:
    handle = f"me{next(_NUMBERS)}"
    async with running_services(computer.settings()) as services:
        await found_context(services, handle=handle, kind="personal", passphrase=PASSPHRASE, name="Ada Example")
    made = Home(computer, handle)
    yield made
    for process in made.started:
        process.kill()
        process.wait(_END_TIMEOUT_S)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


@asynccontextmanager
async def client_of(
    home: Home,
    environment: Mapping[str, str],
    *before: str,
    scope: str = SCOPES,
    name: str = CLIENT,
    mode: str = "auto",
) -> AsyncIterator[mcp.Client]:
    """The reference client over a process that it starts and ends."""
    arguments = [*before, *home.arguments(scope=scope, name=name)]
    parameters = StdioServerParameters(command=sys.executable, args=arguments, env=dict(environment), cwd=_ROOT)
    with home.errors.open("w", encoding="utf-8") as errors:
        async with mcp.Client(stdio_client(parameters, errlog=errors), mode=mode) as client:
            yield client


async def call(client: mcp.Client, name: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
    result = await client.call_tool(name, arguments or {})
    assert not result.is_error, result.structured_content
    structured: dict[str, Any] = result.structured_content
    return structured


def exchanged(process: subprocess.Popen[bytes], *lines: bytes) -> list[dict[str, Any]]:
    """Send lines; the same number of answers."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"".join(line + b"\n" for line in lines))
    process.stdin.flush()
    return [json.loads(process.stdout.readline()) for _ in lines]


def called(name: str, arguments: Mapping[str, object], number: int = 1) -> bytes:
    meta = "io.modelcontextprotocol/"
    params = {
        "name": name,
        "arguments": arguments,
        "_meta": {f"{meta}protocolVersion": MODERN, f"{meta}clientCapabilities": {}},
    }
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode()


def ended(process: subprocess.Popen[bytes], stdin: bytes = b"") -> tuple[int, str, str]:
    """Close standard input and wait for the end: exit status, standard output, standard error."""
    out, err = process.communicate(stdin, _END_TIMEOUT_S)
    return process.returncode, out.decode(), err.decode()


@pytest.mark.requirement("AUTH-43", "TOOL-16", "TOOL-17", "AUD-02")
async def test_a_client_works_over_stdio_and_every_call_is_in_the_log_under_its_grant(home: Home) -> None:
    async with client_of(home, home.with_terminal(ZKPCP_WIPE_ON_FREE="true"), *AT_TERMINAL) as client:
        (grant,) = await home.grants()
        await call(client, "context_brief")
        written = await call(client, "memory_write", {"path": "garden/beans", "body": "The beans climb."})
        found = await call(client, "memory_search", {"query": "beans"})
        read = await call(client, "memory_read", {"path": "garden/beans"})
        log = await call(client, "audit_list", {"limit": 20})
        instructions = client.instructions or ""
        extensions = client.server_capabilities.extensions or {}
    after = await home.grants()
    entries = await home.log()

    assert (grant.client_name, grant.principal) == (CLIENT, "human:owner")
    assert set(grant.scopes) == {*SCOPES.split(), "offline_access"}
    assert [page["path"] for page in found["results"]] == ["garden/beans"]
    assert (read["page"]["id"], read["page"]["body"]) == (written["id"], "The beans climb.")
    tools = ["memory_read", "memory_search", "memory_write", "context_brief"]
    assert [entry["action"] for entry in log["entries"]][:4] == tools
    assert {entry["grant"] for entry in log["entries"][:4]} == {grant.grant_id}
    assert instructions.startswith("This is one person's own context")
    assert extensions["io.github.pcp-protocol/pcp"]["pcp_version"] == "0.3"
    assert after == []
    ours = [entry for entry in entries if entry.grant == grant.grant_id]
    assert [entry.action for entry in ours] == ["grant.revoked", "audit_list", *tools, "token.issued", "grant.created"]
    assert all(entry.decrypted for entry in ours if entry.action in ("memory_read", "memory_search"))
    screen = home.screen.read_text(encoding="utf-8")
    assert "Passphrase: " in screen
    assert PASSPHRASE not in screen
    assert home.errors.read_text(encoding="utf-8") == ""


def _same_clients(step: object) -> str:
    return json.dumps(normal(step), sort_keys=True).replace("loc_*", "own_*")


@pytest.mark.requirement("AUTH-03", "TOOL-06")
@pytest.mark.parametrize("mode", ["legacy", MODERN])
async def test_the_tools_answer_over_stdio_what_they_answer_over_http(
    home: Home, sqlite_server: RunningServer, mode: str
) -> None:
    over_http = await do_job(await connected(sqlite_server, client_name=CLIENT), mode)

    async with client_of(home, home.with_keyring(), scope=EVERYTHING, mode=mode) as client:
        job = Job(client)
        await job.whole()
        version = client.protocol_version

    assert version == (LEGACY if mode == "legacy" else MODERN)
    for ours, theirs in zip(job.steps, over_http, strict=True):
        assert _same_clients(ours) == _same_clients(theirs)


@pytest.mark.requirement("AUTH-36", "AUTH-38", "AUTH-43")
async def test_a_call_beyond_the_configured_scopes_is_forbidden_names_them_and_is_audited(home: Home) -> None:
    async with client_of(home, home.with_keyring(), scope="memory:read") as client:
        listed = [tool.name for tool in (await client.list_tools()).tools]
        refused = await client.call_tool("memory_write", {"path": "a", "body": "b"})
    denied = [(entry.action, entry.outcome) for entry in await home.log() if entry.outcome != "ok"]

    assert "memory_write" not in listed
    assert refused.is_error
    assert refused.structured_content is not None
    assert refused.structured_content["error"]["code"] == "forbidden"
    assert refused.structured_content["error"]["required_scopes"] == ["memory:write"]
    assert denied == [("memory_write", "denied")]


@pytest.mark.requirement("AUTH-43", "KEY-08")
@pytest.mark.parametrize("ending", ["input", signal.SIGTERM, signal.SIGINT])
async def test_the_grant_ends_with_the_process(home: Home, ending: str | signal.Signals) -> None:
    process = home.start(home.with_keyring())
    (answer,) = exchanged(process, called("memory_list", {}))
    during = await home.grants()
    if isinstance(ending, signal.Signals):
        process.send_signal(ending)
        process.wait(_END_TIMEOUT_S)
    status, out, err = ended(process)

    assert answer["result"]["structuredContent"] == {"pages": [], "next_cursor": None}
    assert len(during) == 1
    assert await home.grants() == []
    assert (status, out, err) == (0, "", "")


@pytest.mark.requirement("AUTH-43")
async def test_what_a_killed_process_left_is_ended_by_the_next_and_a_running_one_is_left_alone(home: Home) -> None:
    running, killed = home.start(home.with_keyring()), home.start(home.with_keyring())
    for process in (running, killed):
        exchanged(process, called("memory_list", {}))
    before = {grant.grant_id for grant in await home.grants()}
    killed.kill()
    killed.wait(_END_TIMEOUT_S)
    other = home.start(home.with_keyring(), *home.arguments(name="another client"))
    exchanged(other, called("memory_list", {}))
    beside = {grant.grant_id for grant in await home.grants()}
    following = home.start(home.with_keyring())
    exchanged(following, called("memory_list", {}))
    after = {grant.grant_id for grant in await home.grants()}
    (still,) = exchanged(running, called("memory_list", {}, 2))
    ends = [ended(process)[0] for process in (running, other, following)]
    ended(killed)

    assert len(before) == 2
    assert before < beside
    assert len(before & after) == 1
    assert len(after) == 3
    assert still["result"]["isError"] is False
    assert ends == [0, 0, 0]
    assert await home.grants() == []
    assert list((home.server.data_dir / "stdio").iterdir()) == []


@pytest.mark.requirement("AUTH-12")
async def test_a_grant_that_the_owner_ends_opens_nothing_any_more(home: Home) -> None:
    process = home.start(home.with_keyring())
    exchanged(process, called("memory_list", {}))
    (grant,) = await home.grants()
    async with running_services(home.server.settings()) as services:
        await end(services, grant.context_id, grant.grant_id)
    (answer,) = exchanged(process, called("memory_list", {}, 2))

    assert "has ended" in answer["error"]["message"]
    assert ended(process)[0] == 0


@pytest.mark.requirement("SEC-12", "TOOL-08")
async def test_lines_that_are_no_message_are_refused_by_their_rule_and_the_next_is_served(home: Home) -> None:
    process = home.start(home.with_keyring())
    twice = called("memory_list", {}).replace(b'"id": 1', b'"id": 1, "id": 2')
    deep = called("memory_list", {}).replace(
        b'"arguments": {}', b'"arguments": {"x": ' + b"[" * 2000 + b"]" * 2000 + b"}"
    )
    surrogate = called("memory_read", {"path": "%"}).replace(b"%", b"\\ud83d")
    broken = b'{"jsonrpc": "2.0", \xff\xfe'
    nan = called("memory_list", {"limit": 7}).replace(b"7", b"NaN", 1)
    answers = exchanged(process, twice, deep, surrogate, broken, nan, b"secret words", called("memory_list", {}, 9))
    status, out, err = ended(process)

    assert [answer.get("error", {}).get("code") for answer in answers] == [-32600] * 3 + [-32700] * 3 + [None]
    assert [answer["id"] for answer in answers] == [None] * 6 + [9]
    assert "secret words" not in json.dumps(answers) + out + err
    assert status == 0


@pytest.mark.requirement("AUTH-43")
async def test_a_wrong_passphrase_starts_nothing_and_is_said_in_a_sentence(home: Home) -> None:
    typed = home.start(home.with_terminal("another passphrase"), *AT_TERMINAL, *home.arguments())
    kept = home.start(home.with_keyring("another passphrase"))
    unasked = home.start(home.environment())
    ends = [ended(process, f"{PASSPHRASE}\n".encode()) for process in (typed, kept, unasked)]

    fits = "account and passphrase do not fit together"
    assert ends[0] == (1, "", f"{fits}\n")
    assert ends[1][:2] == (1, "")
    assert ends[1][2].splitlines()[-1] == fits
    assert "--remember" in ends[1][2]
    assert ends[2][:2] == (2, "")
    assert ends[2][2].startswith("there is no terminal to ask for the passphrase on")
    assert await home.grants() == []


async def test_a_passphrase_is_remembered_only_after_it_opened_the_context(home: Home) -> None:
    remember, forget = (*AT_TERMINAL, *home.arguments("--remember")), home.arguments("--forget")
    fits = home.with_terminal(PYTHON_KEYRING_BACKEND=_BACKEND)
    misfits = home.with_terminal("another passphrase", PYTHON_KEYRING_BACKEND=_BACKEND)
    empty = home.environment(PYTHON_KEYRING_BACKEND=_BACKEND)
    remembering = [home.start(environment, *remember) for environment in (fits, misfits, home.with_terminal())]
    forgetting = [home.start(environment, *forget) for environment in (home.with_keyring(), empty)]
    ends = [ended(process) for process in remembering]
    forgets = [ended(process) for process in forgetting]

    assert ends[0] == (0, "", "The passphrase is kept in: a keyring for tests\n")
    assert ends[1] == (1, "", "account and passphrase do not fit together\n")
    assert ends[2][0] == 2
    assert ends[2][2].startswith("no keyring of the operating system took the passphrase")
    assert forgets == [(0, "", "The passphrase is removed.\n"), (0, "", "There was none to remove.\n")]


def test_a_keyring_gives_back_what_it_was_given_for_that_account_only(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh: keyring.backend.KeyringBackend = EnvironmentKeyring()
    monkeypatch.setattr("keyring.core._keyring_backend", fresh)
    ours, theirs = (os_keyring.account("me", f"sqlite:///{place}.db") for place in ("here", "there"))

    os_keyring.store(ours, PASSPHRASE)

    assert os_keyring.stored(ours) == PASSPHRASE
    assert os_keyring.stored(theirs) is None
    assert os_keyring.forget(ours)
    assert not os_keyring.forget(ours)
    assert os_keyring.stored(ours) is None
