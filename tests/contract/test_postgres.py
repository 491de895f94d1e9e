"""What PostgreSQL promises beyond the common contract: quiet errors, settings, locks that are waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.contract.rows import HERE, NOW, context, fill, page
from zkpcp import storage
from zkpcp.errors import UnavailableError
from zkpcp.ports import Store


@pytest.fixture
async def store(migrated_dsn: str) -> AsyncIterator[Store]:
    opened = await storage.open_store(migrated_dsn)
    yield opened
    await opened.close()
    connection = await asyncpg.connect(migrated_dsn)
    await connection.execute("delete from contexts")
    await connection.close()


@pytest.mark.parametrize(
    "dsn",
    ["postgresql://nobody:canary@127.0.0.1:1/none", "postgresql://127.0.0.1:canary/none"],
    ids=["nobody listens", "no port"],
)
async def test_a_server_that_is_away_is_unavailable_and_its_password_stays_out(dsn: str) -> None:
    with pytest.raises(UnavailableError) as refused:
        await storage.open_store(dsn)
    with pytest.raises(UnavailableError):
        await asyncio.to_thread(storage.migrate, dsn)

    assert "canary" not in str(refused.value)


async def test_a_wrong_password_is_unavailable(migrated_dsn: str) -> None:
    scheme, _, rest = migrated_dsn.partition("://")

    with pytest.raises(UnavailableError, match="28P01"):
        await storage.open_store(f"{scheme}://zkpcp:wrong@{rest.partition('@')[2]}")


async def test_a_connection_that_dies_is_unavailable_and_the_next_one_works(store: Store, migrated_dsn: str) -> None:
    await fill(store)
    killer = await asyncpg.connect(migrated_dsn)

    async def write_while_it_dies() -> None:
        async with store.write() as tx:
            await tx.pages.count(HERE)
            await killer.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where pid <> pg_backend_pid() and datname = current_database()"
            )
            await tx.pages.add(page(page_id="new"), 1, b"new")

    with pytest.raises(UnavailableError):
        await write_while_it_dies()
    await killer.close()

    async with store.read() as tx:
        assert await tx.pages.count(HERE) == 2


async def test_a_deadlock_ends_with_one_winner_and_one_that_may_try_again(store: Store) -> None:
    async with store.write() as tx:
        await tx.contexts.add(context())
        for name in ("a", "b"):
            await tx.pages.add(page(page_id=name), 1, name.encode())
    both_hold_one = asyncio.Barrier(2)

    async def lock(first: str, second: str) -> str:
        try:
            async with store.write() as tx:
                await tx.pages.page(HERE, first, ["memory/main"], NOW, lock=True)
                await both_hold_one.wait()
                await tx.pages.page(HERE, second, ["memory/main"], NOW, lock=True)
        except UnavailableError as error:
            return error.message
        return "committed"

    outcomes = sorted(await asyncio.gather(lock("a", "b"), lock("b", "a")))

    assert outcomes == ["committed", "the database is busy; the same request can be sent again"]


async def test_the_server_is_told_to_log_no_parameter(store: Store) -> None:
    async with store.read() as tx:
        connection = tx._driver._connection  # type: ignore[attr-defined]  # past the driver, on purpose
        for name in ("log_parameter_max_length", "log_parameter_max_length_on_error"):
            assert await connection.fetchval(f"show {name}") == "0"
        assert await connection.fetchval("show transaction_isolation") == "repeatable read"
        assert await connection.fetchval("show transaction_read_only") == "on"


async def test_a_role_without_rights_over_the_log_works_too(migrated_dsn: str) -> None:
    admin = await asyncpg.connect(migrated_dsn)
    await admin.execute("create role plain login password 'plain'")
    await admin.execute("grant select on all tables in schema public to plain")
    scheme, _, rest = migrated_dsn.partition("://")

    store = await storage.open_store(f"{scheme}://plain:plain@{rest.partition('@')[2]}")
    async with store.read() as tx:
        assert await tx.contexts.handles() == []
    await store.close()

    await admin.execute("drop owned by plain")
    await admin.execute("drop role plain")
    await admin.close()
