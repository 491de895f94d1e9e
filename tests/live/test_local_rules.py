"""The rules of the local HTTP profile on a real socket: bytes in, bytes out, no client library that mends anything.

The same rules over many values, in process: ``tests/flows/test_local_profile.py``. Here it is the server's own parser
and listener that must not undo them.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from tests.live.clients import MODERN, call_body
from tests.live.conftest import ServerMaker
from tests.live.owner import Connection, connected
from tests.support.server import RunningServer
from zkpcp.bootstrap import running_services

_CALL: Final = call_body("memory_list", {})
_LISTENING: Final = "0A"
_TCP: Final = {"tcp": "0100007F", "tcp6": "00000000000000000000000001000000"}
"""The kernel's tables of sockets, and how 127.0.0.1 and ::1 are written there."""


@dataclass(frozen=True)
class Scene:
    """A server, a context on it, and the address to reach it at."""

    server: RunningServer
    connection: Connection = field(repr=False)
    address: str = "127.0.0.1"

    @property
    def port(self) -> int:
        return self.server.port

    def lines(self, **changed: str | None) -> list[str]:
        """The header lines of a good call; ``None`` leaves one out, another value replaces it."""
        good: dict[str, str] = {
            "host": f"127.0.0.1:{self.port}",
            "authorization": f"Bearer {self.connection.access_token}",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": MODERN,
            "mcp-method": "tools/call",
            "mcp-name": "memory_list",
        }
        values = {**good, **{name.replace("_", "-"): value for name, value in changed.items()}}
        return [f"{name}: {value}" for name, value in values.items() if value is not None]

    async def sent(self, head: str, lines: list[str], body: bytes = _CALL) -> bytes:
        """The whole answer to a request that ends its connection; empty where there is none."""
        lines = [*lines, f"content-length: {len(body)}", "connection: close"]
        raw = "".join(f"{line}\r\n" for line in (head, *lines)).encode("latin-1") + b"\r\n" + body
        reader, writer = await asyncio.open_connection(self.address, self.port)
        try:
            writer.write(raw)
            return await asyncio.wait_for(reader.read(-1), 20)
        finally:
            writer.close()

    async def call(self, *more: str, version: str = "HTTP/1.1", path: str = "", **changed: str | None) -> bytes:
        path = path or f"/c/{self.connection.handle}/mcp"
        return await self.sent(f"POST {path} {version}", [*self.lines(**changed), *more])

    async def entries(self) -> int:
        """How many entries the access log has."""
        async with running_services(self.server.settings()) as services, services.store.read() as tx:
            return len(await tx.audit.entries(self.connection.context_id, limit=10_000))


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


@pytest.fixture(scope="module")
def scene(sqlite_server: RunningServer) -> Iterator[Scene]:
    """One context for all: no test here changes it, except for entries in its log."""
    made = Scene(sqlite_server, asyncio.run(connected(sqlite_server)))
    assert status(asyncio.run(made.call())) == 200
    yield made
    assert status(asyncio.run(made.call())) == 200


def listening(port: int) -> set[str]:
    """The local addresses on which somebody listens at a port, as the kernel writes them."""
    found = set()
    for table in _TCP:
        path = Path("/proc/net") / table
        for line in path.read_text().splitlines()[1:] if path.exists() else ():
            _, local, _, state, *_ = line.split()
            address, _, number = local.partition(":")
            if state == _LISTENING and int(number, 16) == port:
                found.add(address)
    return found


@pytest.mark.requirement("SEC-05")
def test_a_server_that_is_told_nothing_listens_on_a_loopback_address_and_no_other(sqlite_server: RunningServer) -> None:
    assert listening(sqlite_server.port) == {_TCP["tcp"]}


@pytest.mark.requirement("SEC-06")
@pytest.mark.parametrize(
    "host",
    [
        "attacker.example",  # a name that was re-bound to this computer
        "attacker.example:{port}",
        "127.0.0.1.attacker.example:{port}",
        "localhost.attacker.example",
        "attacker.example@localhost",
        "localhost, attacker.example",
        "127.0.0.2:{port}",
        "0.0.0.0:{port}",
        "2130706433:{port}",
        "[::ffff:127.0.0.1]:{port}",
        "::1",
        "localhost.:{port}",
        "localhost:{port}:1",
        "localhost:http",
        "",
    ],
)
async def test_a_host_that_is_not_this_computer_is_turned_away_before_its_token_is_looked_at(
    scene: Scene, host: str
) -> None:
    before = await scene.entries()
    answers = [await scene.call(host=host.format(port=scene.port), authorization=token) for token in _tokens(scene)]

    assert [status(answer) for answer in answers] == [421, 421]
    assert answers[0].partition(b"\r\n\r\n")[2] == answers[1].partition(b"\r\n\r\n")[2]
    assert b"attacker" not in answers[0]
    assert await scene.entries() == before


def _tokens(scene: Scene) -> tuple[str | None, ...]:
    return (f"Bearer {scene.connection.access_token}", None)


@pytest.mark.requirement("SEC-06")
@pytest.mark.parametrize("version", ["HTTP/1.0", "HTTP/1.1"])
async def test_no_host_and_two_hosts_are_turned_away(scene: Scene, version: str) -> None:
    missing = await scene.call(version=version, host=None)
    twice = await scene.call("Host: attacker.example", version=version)
    folded = await scene.call("host:\tattacker.example", version=version)

    # The parser may refuse what is no HTTP before the rule does; served it is never.
    assert {status(answer) for answer in (missing, twice, folded)} <= {400, 421}


@pytest.mark.requirement("SEC-06")
async def test_an_absolute_target_does_not_stand_in_for_the_host(scene: Scene) -> None:
    path = f"/c/{scene.connection.handle}/mcp"
    hidden = await scene.call(path=f"http://127.0.0.1:{scene.port}{path}", host="attacker.example")

    assert status(hidden) == 421


@pytest.mark.requirement("SEC-06")
@pytest.mark.parametrize("host", ["localhost:{port}", "LocalHost:{port}", "127.0.0.1:{port}", "[::1]:{port}"])
async def test_each_name_of_this_computer_is_served_on_the_socket(scene: Scene, host: str) -> None:
    assert status(await scene.call(host=host.format(port=scene.port))) == 200


@pytest.mark.requirement("SEC-05", "SEC-06")
async def test_a_server_on_the_other_loopback_address_serves_it_and_listens_nowhere_else(
    make_server: ServerMaker,
) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    server = make_server(more={"ZKPCP_HOST": "::1"})
    server.start("::1")
    scene = Scene(server, await connected(server), address="::1")

    served = await scene.call(host=f"[::1]:{server.port}")
    foreign = await scene.call(host=f"[::2]:{server.port}")

    assert (status(served), status(foreign)) == (200, 421)
    assert listening(server.port) == {_TCP["tcp6"]}


@pytest.mark.requirement("SEC-07")
@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "http://attacker.example",
        "http://127.0.0.1.attacker.example",
        "https://127.0.0.1:{port}",
        "http://127.0.0.1:{port}.attacker.example",
        "http://127.0.0.1:{port}/",
        "http://127.0.0.1:{port} http://attacker.example",
        "file://",
    ],
)
async def test_a_page_of_another_origin_reads_and_does_nothing(scene: Scene, origin: str) -> None:
    before = await scene.entries()
    value = origin.format(port=scene.port)

    answer = await scene.call(origin=value)
    preflight = await scene.sent(
        f"OPTIONS /c/{scene.connection.handle}/mcp HTTP/1.1",
        [f"host: 127.0.0.1:{scene.port}", f"origin: {value}", "access-control-request-method: POST"],
        b"",
    )

    assert status(answer) == 403
    for reply in (answer, preflight):
        assert b"access-control-allow" not in reply.lower()
        assert scene.connection.handle.encode() not in reply
    assert await scene.entries() == before


@pytest.mark.requirement("SEC-07")
async def test_two_origins_are_none_and_a_listed_one_beside_another_does_not_help(scene: Scene) -> None:
    own = f"http://127.0.0.1:{scene.port}"

    assert status(await scene.call(origin=own)) == 200
    assert status(await scene.call("Origin: http://attacker.example", origin=own)) == 403
    assert status(await scene.call("Origin: " + own, origin="http://attacker.example")) == 403


@pytest.mark.requirement("SEC-07")
@pytest.mark.parametrize(
    "media_type",
    [
        "text/plain",
        "text/plain; a=application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json, text/plain",
        "application/jsonp",
        "application/json; charset=utf-16",
        None,
    ],
)
async def test_what_a_page_may_post_anywhere_is_not_read(scene: Scene, media_type: str | None) -> None:
    before = await scene.entries()

    assert status(await scene.call(content_type=media_type)) == 415
    assert status(await scene.call("Content-Type: text/plain")) == 415
    assert await scene.entries() == before


@pytest.mark.requirement("SEC-08")
@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer null", "Basic bWU6bWU=", "Bearer pcp_at_" + "A" * 43, "Bearer pcp_rt_" + "A" * 43],
)
async def test_nobody_is_let_in_for_being_on_this_computer(scene: Scene, header: str | None) -> None:
    before = await scene.entries()
    forwarded = ("X-Forwarded-For: 127.0.0.1", "X-Real-IP: 127.0.0.1", "Forwarded: for=127.0.0.1")
    plain = await scene.call(*forwarded, authorization=header)
    in_url = await scene.call(
        path=f"/c/{scene.connection.handle}/mcp?access_token={scene.connection.access_token}", authorization=header
    )
    cookie = await scene.call(f"Cookie: session={scene.connection.access_token}", authorization=header)

    for answer in (plain, in_url, cookie):
        assert status(answer) == 401
        assert b"www-authenticate: bearer " in answer.lower()
    assert await scene.entries() == before


@pytest.mark.requirement("SEC-08")
async def test_every_method_of_the_endpoint_asks_for_a_token_first(scene: Scene) -> None:
    target = f"/c/{scene.connection.handle}/mcp"
    lines = scene.lines(authorization=None)
    answers = {
        method: status(await scene.sent(f"{method} {target} HTTP/1.1", lines))
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND")
    }

    assert answers == dict.fromkeys(answers, 401)


async def test_what_is_no_http_fills_no_log(scene: Scene) -> None:
    log = scene.server.logs[1]
    before = log.stat().st_size
    word = "bdfghjklmnprtvwxz"
    for line in (f"{word}\r\n\r\n", f"GET /{word} HTTP/9.9\r\n\r\n", f"\x16\x03\x01{word}\r\n\r\n") * 20:
        reader, writer = await asyncio.open_connection(scene.address, scene.port)
        writer.write(line.encode("latin-1"))
        await asyncio.wait_for(reader.read(-1), 20)
        writer.close()
    upgrade = await scene.call("Upgrade: websocket", "Connection: Upgrade")

    assert status(upgrade) in (200, 400)
    assert log.read_bytes()[before:] == b""
