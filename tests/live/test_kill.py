"""What is left after SIGKILL in the middle of 200 parallel writes: every acknowledged page, whole; no gap in the log.

The kill comes with the n-th acknowledgement, never by the clock. Killed is the zkpcp server on either engine, or the
PostgreSQL server under it with every process it has.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from tests.live.clients import QuickClient
from tests.live.conftest import ServerMaker
from tests.live.owner import Connection, connected
from tests.support import postgres as postgres_support
from tests.support.postgres import Postgres, running_postgres
from tests.support.server import RunningServer
from zkpcp.bootstrap import running_services
from zkpcp.core.audit import GENESIS, follow, from_json

WRITES: Final = 200
KILL_POINTS: Final = (1, 60, 150)
_GONE_TIMEOUT_S: Final = 20.0
_MANY: Final = 1_000_000


@dataclass
class Burst:
    """200 writes at once; ``kill`` is called at the ``at``-th acknowledgement."""

    at: int
    kill: Callable[[], None]
    acknowledged: dict[str, str] = field(default_factory=dict)

    async def run(self, client: QuickClient) -> None:
        await asyncio.gather(*(self._write(client, number) for number in range(WRITES)))

    async def _write(self, client: QuickClient, number: int) -> None:
        path, body = f"burst-{self.at}/p{number:03}", body_of(number)
        result = await client.call("memory_write", {"path": path, "body": body})
        if result is None or result["isError"]:
            return
        self.acknowledged[path] = body
        if len(self.acknowledged) == self.at:
            self.kill()


def body_of(number: int) -> str:
    """About 2 KB, different for each page, with an end that a torn page would lack."""
    return f"# Page {number}\n" + f"line of page {number}\n" * 100 + f"end of page {number}"


async def burst(connection: Connection, at: int, kill: Callable[[], None]) -> dict[str, str]:
    """The pages that were acknowledged before and after the kill."""
    writes = Burst(at, kill)
    await writes.run(QuickClient(connection.mcp_url, connection.access_token))
    assert at <= len(writes.acknowledged) < WRITES
    return writes.acknowledged


async def assert_whole(server: RunningServer, connection: Connection, acknowledged: dict[str, str]) -> None:
    listed = await _listed(connection)
    assert acknowledged.keys() <= listed.keys()
    assert listed == {path: body_of(int(path[-3:])) for path in listed}

    async with running_services(server.settings()) as services:
        async with services.store.read() as tx:
            rows = list(reversed(await tx.audit.entries(connection.context_id, limit=_MANY)))
            pages = await tx.pages.count(connection.context_id)
        async with services.store.write() as tx:
            head = await tx.audit.head(connection.context_id)
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    previous = GENESIS
    for row in rows:
        previous = follow(previous, from_json(row.entry))
        assert row.hash == previous
    assert (head.seq, head.hash) == (len(rows), previous)
    written = [from_json(row.entry) for row in rows if row.action == "memory_write" and row.outcome == "ok"]
    assert pages == len(listed) == len(written)
    assert len({entry.object_ids for entry in written}) == len(written)


async def _listed(connection: Connection) -> dict[str, str]:
    """Every page that the server lists, read by its path."""
    client = QuickClient(connection.mcp_url, connection.access_token)
    bodies: dict[str, str] = {}
    cursor: str | None = ""
    while cursor is not None:
        listed = await client.call("memory_list", {"limit": 50, **({"cursor": cursor} if cursor else {})})
        assert listed is not None
        cursor = listed["structuredContent"]["next_cursor"]
        paths = [page["path"] for page in listed["structuredContent"]["pages"]]
        read = await asyncio.gather(*(_read(client, path) for path in paths))
        bodies |= dict(zip(paths, read, strict=True))
    return bodies


async def _read(client: QuickClient, path: str) -> str:
    result = await client.call("memory_read", {"path": path})
    assert result is not None
    body: str = result["structuredContent"]["page"]["body"]
    return body


@pytest.mark.requirement("AUD-05")
async def test_a_killed_server_has_kept_every_page_that_it_acknowledged(
    make_server: ServerMaker, engine_url: str
) -> None:
    server = make_server(engine_url)
    server.start()
    connection = await connected(server)
    acknowledged: dict[str, str] = {}

    for at in KILL_POINTS:
        acknowledged |= await burst(connection, at, server.kill)
        server.start()

    await assert_whole(server, connection, acknowledged)


@pytest.mark.requirement("AUD-05")
async def test_a_killed_database_has_kept_every_page_and_the_server_goes_on_with_it(make_server: ServerMaker) -> None:
    with running_postgres(durable=True) as database:
        server = make_server(database.fresh_database())
        server.start()
        connection = await connected(server)
        acknowledged: dict[str, str] = {}

        for at in KILL_POINTS:
            acknowledged |= await burst(connection, at, lambda: kill_postgres(database))
            start_postgres(database)

        await assert_whole(server, connection, acknowledged)
        server.stop()


def kill_postgres(database: Postgres) -> None:
    """SIGKILL for the postmaster first, so that it cannot restart the others, then for every child of its."""
    pid_file = database.folder / "data" / "postmaster.pid"
    postmaster = int(pid_file.read_text(encoding="ascii").split()[0])
    os.kill(postmaster, signal.SIGSTOP)  # no new children while they are counted
    pids = [postmaster, *(pid for pid in _processes() if _parent(pid) == postmaster)]
    handles = [os.pidfd_open(pid) for pid in pids]
    for handle in handles:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    for handle in handles:
        # A handle is readable once its process has ended, whether or not somebody has collected it.
        assert select.select([handle], [], [], _GONE_TIMEOUT_S)[0], "PostgreSQL does not die"
        os.close(handle)
    # An uncollected process still has its number, which PostgreSQL would take for a running server.
    pid_file.unlink()
    (database.folder / f".s.PGSQL.{database.port}.lock").unlink()


def start_postgres(database: Postgres) -> None:
    """Start it on the same data; it recovers by itself."""
    postgres_support._start(database, postgres_support._account(), durable=True)


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _parent(pid: int) -> int | None:
    """The parent of a process; the name in front of it may hold blanks and parentheses."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[1])
