"""What a server that wipes on free still holds in memory once its requests are done and their connections closed.

Three bursts of everything that takes a secret or content; after each one another process reads all writable memory.
It shows what this build on this machine leaves behind (U2), and gives no guarantee about CPython.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from tests.live.byte_search import forms
from tests.live.clients import bare_client, reference_client
from tests.live.conftest import ServerMaker
from tests.live.owner import EXTENDED, EXTENSIONS, Connection, connected
from tests.live.process_memory import around, writable_memory
from tests.live.test_canaries import (
    Words,
    invented_word,
    past_the_tools,
    secret_bytes,
    submitted_forms,
    through_every_tool,
    through_the_extensions,
)
from tests.support.server import RunningServer, is_healthy
from zkpcp.bootstrap import running_services
from zkpcp.crypto.tokens import parse_token
from zkpcp.vault import seeds

BURSTS: Final = 3


@pytest.fixture
def wiping_server(make_server: ServerMaker) -> RunningServer:
    """``zkpcp serve`` with its defaults, whose memory this process may read."""
    server = make_server(real_command=True)
    server.start()
    environment = Path(f"/proc/{server.pid}/environ")
    try:
        assert b"PYTHONMALLOC=pymalloc_debug" in environment.read_bytes()
        next(writable_memory(server.pid))
    except PermissionError:
        pytest.skip("reading the server's memory needs root or CAP_SYS_PTRACE: it is not dumpable")
    except FileNotFoundError:
        pytest.skip("there is no /proc here")
    return server


def remnants(server: RunningServer, unwanted: dict[str, bytes]) -> list[str]:
    """Each unwanted value that is found in a server's memory, with its neighborhood."""
    return remnants_in(server.pid, unwanted)


def remnants_in(pid: int, unwanted: dict[str, bytes]) -> list[str]:
    """The same for any process."""
    return [
        f"{name} at {around(part, value)}"
        for part in writable_memory(pid)
        for name, value in unwanted.items()
        if value in part.data
    ]


async def burst(server: RunningServer, connection: Connection, words: Words) -> dict[str, bytes]:
    """Tools, errors, refreshes, sign-ins and pages; then every connection is closed. What must not be left."""
    async with bare_client(connection.mcp_url, connection.access_token) as client:
        await through_every_tool(client, words.secret)
        await through_the_extensions(client, words.secret)
        # Characters beyond the basic plane make a process keep the whole text four bytes a character.
        await client.call("memory_write", {"path": f"wide/{words.secret}", "body": f"\U0001f33b {words.secret}"})
        await client.call("memory_read", {"path": f"wide/{words.secret}"})
    async with reference_client(connection.mcp_url, connection.access_token, "legacy") as client:
        await client.call_tool("context_brief", {})
    await past_the_tools(connection, words.secret)
    session = await _pages(connection, words)
    async with httpx2.AsyncClient(timeout=60) as http:
        form = {"grant_type": "refresh_token", "client_id": connection.client_id}
        first = await http.post(
            f"{connection.base_url}/token", data={**form, "refresh_token": connection.refresh_token}
        )
        assert first.status_code == 200, first.text
        second = await http.post(
            f"{connection.base_url}/token", data={**form, "refresh_token": first.json()["refresh_token"]}
        )
    answers: list[dict[str, Any]] = [first.json(), second.json()]
    tokens = [connection.access_token, connection.refresh_token, session]
    tokens += [answer[name] for answer in answers for name in ("access_token", "refresh_token")]
    # The passphrase, titles, queries and all else begin with the word or hold it.
    unwanted = {f"word ({form})": value for form, value in forms(words.secret.encode()).items()}
    for number, token in enumerate(tokens):
        name = f"token {number} {token[:6]}"
        unwanted |= {name: token.encode(), f"secret of {name}": secret_bytes(token)}
        unwanted[f"wrap key of {name}"] = bytes(parse_token(token, token[4:6]).wrap_key(connection.context_id))  # type: ignore[arg-type]  # the kind stands in the token
    unwanted["grant seed"] = await _grant_seed(server, connection)
    return unwanted


async def _pages(connection: Connection, words: Words) -> str:
    origin, base = connection.mcp_url.partition("/c/")[0], f"/c/{connection.handle}"
    async with httpx2.AsyncClient(base_url=origin, headers={"origin": origin}, timeout=60) as http:
        await http.post(f"{base}/sign-in", data={"passphrase": f"{words.secret} is wrong"})
        assert (await http.post(f"{base}/sign-in", data={"passphrase": words.passphrase})).status_code == 303
        for path in ("/", "/pages", "/log", "/profile"):
            assert (await http.get(f"{base}{path}")).status_code == 200
        await submitted_forms(http, base, words.secret, (await http.get(f"{base}/deleted")).text)
        return next(cookie.value for cookie in http.cookies.jar if cookie.value)


async def _grant_seed(server: RunningServer, connection: Connection) -> bytes:
    token = parse_token(connection.access_token, "at")
    async with running_services(server.settings()) as services, services.store.read() as tx:
        row = await tx.grants.token(connection.context_id, token.lookup_id())
    assert row is not None
    assert row.wrapped is not None
    opened = seeds.unwrap_with_token(token, "access", connection.context_id, connection.grant_id, row.wrapped)
    return bytes(opened.seed.view())


async def test_the_search_finds_what_a_request_in_progress_holds(wiping_server: RunningServer) -> None:
    held = invented_word("held by a request")
    reader, writer = await asyncio.open_connection("127.0.0.1", wiping_server.port)
    form = f"passphrase={held}"
    headers = "content-type: application/x-www-form-urlencoded\r\ncontent-length: 4000\r\n"
    origin = f"host: 127.0.0.1:{wiping_server.port}\r\norigin: {wiping_server.origin}\r\n"
    writer.write(f"POST /set-up HTTP/1.1\r\n{origin}{headers}\r\n{form}".encode())
    await writer.drain()
    assert is_healthy(wiping_server.port)

    assert remnants(wiping_server, {"held": held.encode()}) != []
    assert remnants(wiping_server, {"data folder": os.fsencode(wiping_server.data_dir)}) != []
    writer.close()
    await writer.wait_closed()
    assert await reader.read() == b""
    assert is_healthy(wiping_server.port)
    assert remnants(wiping_server, {"held": held.encode()}) == []


@pytest.mark.requirement("KEY-04")
async def test_nothing_of_a_burst_is_left_once_its_connections_are_closed(wiping_server: RunningServer) -> None:
    unwanted: dict[str, bytes] = {}

    for number in range(BURSTS):
        words = Words(invented_word(f"burst {number}"), "")
        connection = await connected(
            wiping_server,
            passphrase=words.passphrase,
            name=f"{words.secret} founder",
            scopes=EXTENDED,
            extensions=EXTENSIONS,
        )
        found = await burst(wiping_server, connection, words)
        unwanted |= {f"burst {number}: {name}": value for name, value in found.items()}
        # One more request on a connection of its own: the loop has seen the others close.
        assert is_healthy(wiping_server.port)

        assert remnants(wiping_server, found) == []
    assert remnants(wiping_server, unwanted) == []
