"""Pages from before there was a search index are found at once, and indexed when their owner has it made."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import asyncpg
import pytest

from tests.flows.usecase_support import Hand, World
from tests.support.postgres import Postgres
from zkpcp import storage
from zkpcp.core.instants import to_rfc3339
from zkpcp.usecases.forget import delete_page
from zkpcp.usecases.indexed import open_index
from zkpcp.usecases.indexing import rebuild_index

BACK_TO_0001 = (
    "drop table handovers",
    "alter table rosters drop column succession",
    "drop table slot_heads",
    "drop table head_remnants",
    "drop table key_links",
    "alter table audit_heads drop column roster_version",
    "drop table proposals",
    "drop table invites",
    "alter table audit_entries drop column partitions",
    "alter table rosters drop column features",
    "drop table partitions",
    "drop table history_marks",
    "drop table page_absences",
    "drop table page_versions",
    "drop index pages_by_slot",
    "drop table index_slots",
    "drop table index_parts",
    "drop table index_places",
    "update alembic_version set version_num = '0001'",
)


async def undo(url: str) -> None:
    """Make a database what it was before the index: the first revision, with its data."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite://"))
        for statement in BACK_TO_0001:
            connection.execute(statement)
        connection.commit()
        connection.close()
        return
    other = await asyncpg.connect(url)
    for statement in BACK_TO_0001:
        await other.execute(statement)
    await other.close()


@pytest.fixture(params=["sqlite", "postgres"])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        url = f"sqlite://{tmp_path / 'world.db'}"
    else:
        postgres: Postgres = request.getfixturevalue("postgres")
        url = postgres.fresh_database()
    storage.migrate(url)
    return url


async def found(hand: Hand, query: str, *, scan: bool = False) -> Sequence[tuple[str, float]]:
    now = to_rfc3339(hand.services.clock.now_ms())
    results = await hand.search(query, as_of=now if scan else None)
    return [(each.head.path.value, each.score) for each in results.found]


async def has_index(hand: Hand) -> bool:
    async with hand.services.store.read() as tx:
        return await open_index(tx, hand.who, hand.services.clock.now_ms(), hand.who.readable_slots()) is not None


@pytest.mark.requirement("MEM-17", "MEM-20")
async def test_pages_of_the_first_revision_are_found_and_can_be_indexed(new_url: str) -> None:
    store = await storage.open_store(new_url)
    world = await World.founded(store)
    async with world.owner() as owner:
        await owner.write("home/heat", "The boiler was serviced in March.", tags=["house"])
        await owner.write("home/boat", "The boat lies under the willow.")
        await owner.write("home/secret", "The key of the boiler room.", sensitivity="sensitive")
    await world.uncounted()
    await store.close()
    await undo(new_url)
    assert await asyncio.to_thread(storage.pending, new_url)

    await asyncio.to_thread(storage.migrate, new_url)

    store = await storage.open_store(new_url)
    world = world.with_store(store)
    try:
        async with world.owner() as owner:
            assert not await has_index(owner)
            assert sorted(path for path, _ in await found(owner, "boiler")) == ["home/heat", "home/secret"]
            assert await owner.paths() == ["home/boat", "home/heat", "home/secret"]
            # Writes, edits and deletions go on beside pages that the index does not know.
            await owner.write("home/heat", "The boiler was replaced.", tags=["house"])
            await owner.write("home/new", "Another boiler, in the boat.")
            await delete_page(owner.services, owner.who, path="home/boat")
            world.clock.advance(1_000)
            before = await found(owner, "boiler boat")
            assert {path for path, _ in before} == {"home/heat", "home/new", "home/secret"}

            assert await rebuild_index(owner.services, owner.who, lambda *_: None) == 3

            assert await has_index(owner)
            assert await found(owner, "boiler boat") == before == await found(owner, "boiler boat", scan=True)
            await owner.write("home/late", "A boiler of the neighbors.")
            assert await has_index(owner)
            assert len(await found(owner, "boiler")) == 4
    finally:
        await store.close()
