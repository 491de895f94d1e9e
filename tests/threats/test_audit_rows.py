"""A host that stores what no column of its type can hold: every row is refused as damage, before anything opens it.

SQLite gives types to values and not to columns, so a file that was edited can hold text as a key or a version below
zero. On PostgreSQL the types hold and only the signs can be wrong.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from tests.flows.usecase_support import EVERYTHING, Granted, Hand, World
from zkpcp.core.audit import Outcome
from zkpcp.errors import CorruptError
from zkpcp.usecases.session import sign_in

SECRET: Final = "the boat is under the willow"

sqlite_only = pytest.mark.parametrize("world_url", ["world_sqlite"], indirect=True)

Look = Callable[[Hand], Awaitable[object]]
READ: Final[Look] = lambda hand: hand.read("notes/boat")  # noqa: E731 - one of several looks
SCAN: Final[Look] = lambda hand: hand.search("boat", as_of="2099-01-01T00:00:00Z")  # noqa: E731
SEARCH: Final[Look] = lambda hand: hand.search("boat")  # noqa: E731


def host(url: str, statement: str, *arguments: object) -> None:
    """What whoever can write the file does to it."""
    connection = sqlite3.connect(url.removeprefix("sqlite://"))
    try:
        connection.execute(statement, arguments)
        connection.commit()
    finally:
        connection.close()


PAGE: Final = [
    ("version", -1, READ),
    ("version", "x", SCAN),
    ("generation", "zz", SEARCH),
    ("updated_ms", -1, READ),
    ("updated_ms", 1.5, SCAN),
    ("expires_ms", "x", READ),
    ("sealed", "text", READ),
    ("head", 5, SCAN),
    ("terms", "text", SEARCH),
    ("review_state", b"approved", READ),
]


@sqlite_only
@pytest.mark.parametrize(("column", "value", "look"), PAGE, ids=[f"{column}={value!r}" for column, value, _ in PAGE])
@pytest.mark.requirement("KEY-05", "KEY-07")
async def test_a_page_row_of_foreign_types_is_damage_and_is_audited(
    stored_world: World, world_url: str, column: str, value: object, look: Look
) -> None:
    granted = await stored_world.grant(*EVERYTHING)
    async with stored_world.owner() as owner:
        await owner.write("notes/boat", SECRET)
    await asyncio.to_thread(host, world_url, f"update pages set {column} = ?", value)  # noqa: S608 - a name of ours

    async with stored_world.client(granted) as client:
        with pytest.raises(CorruptError) as error:
            await look(client)

    assert "willow" not in str(error.value)
    last = await stored_world.last_entry()
    assert (last.action, last.outcome) == ("tampering.found", Outcome.ERROR)


OTHER: Final = [
    ("profiles", "version", -1),
    ("profiles", "sealed", "text"),
    ("keyrings", "sealed", "text"),
    ("rosters", "body", "text"),
    ("rosters", "version", "x"),
    ("grants", "created_ms", -1),
    ("grants", "sig_public", "x"),
    ("grants", "scopes", 7),
    ("tokens", "wrapped", "x"),
    ("tokens", "expires_ms", "x"),
    ("contexts", "locked_ms", "x"),
]


async def call(world: World, granted: Granted) -> None:
    """A call from the beginning: context, token, grant, roster, keyring, content."""
    async with world.store.read() as tx:
        await tx.contexts.by_handle(world.context.handle)
    async with world.client(granted) as client:
        await client.profiles()


@sqlite_only
@pytest.mark.parametrize(("table", "column", "value"), OTHER, ids=[f"{table}.{column}" for table, column, _ in OTHER])
@pytest.mark.requirement("KEY-05")
async def test_every_other_row_of_a_call_is_checked_too(
    stored_world: World, world_url: str, table: str, column: str, value: object
) -> None:
    granted = await stored_world.grant(*EVERYTHING)
    async with stored_world.owner() as owner:
        await owner.patch({"name": "Ada Reed"})
    await asyncio.to_thread(host, world_url, f"update {table} set {column} = ?", value)  # noqa: S608 - names of ours

    with pytest.raises(CorruptError):
        await call(stored_world, granted)


@sqlite_only
@pytest.mark.parametrize(("column", "value"), [("memory_kib", "x"), ("wrapped", "text"), ("salt", 3)])
@pytest.mark.requirement("KEY-05")
async def test_a_wrap_of_foreign_types_opens_nothing(
    stored_world: World, world_url: str, column: str, value: object
) -> None:
    await asyncio.to_thread(host, world_url, f"update seed_wraps set {column} = ?", value)  # noqa: S608 - names of ours

    with pytest.raises(CorruptError):
        await sign_in(stored_world.services, stored_world.context, passphrase="seven herons over the weir")


@sqlite_only
@pytest.mark.requirement("AUD-05")
async def test_an_entry_of_the_log_that_is_no_bytes_is_damage(stored_world: World, world_url: str) -> None:
    await asyncio.to_thread(host, world_url, "update audit_entries set entry = cast(entry as text)")

    async with stored_world.owner() as owner:
        with pytest.raises(CorruptError):
            await owner.log()
