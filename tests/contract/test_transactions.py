"""Transactions are atomic, isolated, and confined to their context on every engine."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.contract.rows import (
    ELSEWHERE,
    HERE,
    NOW,
    authorization,
    change,
    client,
    context,
    entry,
    fill,
    grant,
    item,
    keyring,
    look,
    page,
    profile,
    roster_row,
    session,
    token,
    wrap,
)
from zkpcp.errors import NotFoundError, UnavailableError
from zkpcp.ports import Store, Transaction


class _InterruptedError(Exception):
    """What a use case might raise."""


async def test_an_exception_takes_everything_back(store: Store) -> None:
    await fill(store)
    before = await look(store, HERE)

    async def write_and_fail() -> None:
        async with store.write() as tx:
            await tx.pages.replace(page(version=2))
            await tx.grants.revoke_grant(HERE, "grant")
            await tx.audit.append(entry(2))
            raise _InterruptedError

    with pytest.raises(_InterruptedError):
        await write_and_fail()

    assert await look(store, HERE) == before
    async with store.write() as tx:  # and nothing stays locked
        await tx.audit.append(entry(2))


async def test_a_cancelled_request_takes_everything_back(store: Store) -> None:
    await fill(store)
    before = await look(store, HERE)
    inside = asyncio.Event()

    async def hang() -> None:
        async with store.write() as tx:
            await tx.pages.replace(page(version=2))
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(hang())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert await look(store, HERE) == before
    async with store.write() as tx:
        await tx.pages.replace(page(version=2))


async def test_a_reader_sees_one_state_from_its_first_look_on(store: Store) -> None:
    await fill(store)
    async with store.read() as reader:
        before = await reader.audit.entries(HERE, limit=10)
        async with store.write() as writer:
            await writer.pages.add(page(page_id="new"), 1, b"new")
            await writer.audit.append(entry(2))
        assert await reader.pages.count(HERE) == 2
        assert await reader.audit.entries(HERE, limit=10) == before

    async with store.read() as reader:
        assert await reader.pages.count(HERE) == 3


async def test_what_is_not_committed_shows_to_nobody_else(store: Store) -> None:
    await fill(store)
    async with store.write() as writer:
        await writer.pages.add(page(page_id="new"), 1, b"new")
        assert await writer.pages.count(HERE) == 3
        async with store.read() as reader:
            assert await reader.pages.count(HERE) == 2


async def test_many_readers_and_writers_work_at_once(store: Store) -> None:
    await fill(store)

    async def write(n: int) -> None:
        async with store.write() as tx:
            await tx.pages.add(page(page_id=f"page-{n}"), 1, f"tag-{n}".encode())

    async def read() -> int:
        async with store.read() as tx:
            first = await tx.pages.count(HERE)
            await asyncio.sleep(0)
            return first if first == await tx.pages.count(HERE) else -1

    results = await asyncio.gather(*(write(n) for n in range(20)), *(read() for _ in range(20)))

    assert -1 not in results
    async with store.read() as tx:
        assert await tx.pages.count(HERE) == 22


async def test_a_reading_transaction_neither_writes_nor_locks(store: Store) -> None:
    await fill(store)
    async with store.read() as tx:
        with pytest.raises(RuntimeError):
            await tx.pages.add(page(page_id="new"), 1, b"new")
        with pytest.raises(RuntimeError):
            await tx.grants.take_authorization(HERE, b"asked")
        with pytest.raises(RuntimeError):
            await tx.grants.grant(HERE, "grant", lock=True)
        with pytest.raises(RuntimeError):
            await tx.audit.head(HERE)
        assert await tx.pages.count(HERE) == 2


async def test_nothing_runs_after_the_end_of_a_transaction(store: Store) -> None:
    await fill(store)
    async with store.read() as reader:
        pass
    async with store.write() as writer:
        pass

    for over in (reader, writer):
        with pytest.raises(RuntimeError):
            await over.pages.count(HERE)


async def test_a_transaction_with_a_failed_statement_cannot_commit(store: Store) -> None:
    await fill(store)

    async def fail_and_go_on() -> None:
        async with store.write() as tx:
            await tx.pages.add(page(page_id="new"), 1, b"new")
            with pytest.raises(NotFoundError):
                await tx.pages.add(page(context_id="nowhere"), 1, b"tag")
            with pytest.raises(UnavailableError):
                await tx.pages.count(HERE)

    with pytest.raises(UnavailableError):
        await fail_and_go_on()
    async with store.read() as tx:
        assert await tx.pages.count(HERE) == 2


@pytest.mark.requirement("SEC-09")
async def test_no_method_touches_another_context(store: Store) -> None:
    await fill(store, HERE, "here")
    await fill(store, ELSEWHERE, "elsewhere")
    before = await look(store, ELSEWHERE)

    async with store.write() as tx:
        await tx.contexts.put_roster(roster_row(2, epoch=2))
        await tx.credentials.put_wrap(wrap(wrapped=b"new"))
        await tx.credentials.touch_session(HERE, b"session", NOW + 1)
        await tx.credentials.end_sessions_before(HERE, NOW + 10_000, 1)
        await tx.credentials.end_session(HERE, b"session")
        await tx.grants.take_authorization(HERE, b"asked")
        await tx.grants.touch_grant(HERE, "grant", NOW + 10**9)
        await tx.grants.put_keyring(keyring(sealed=b"new"))
        await tx.grants.put_keyring(keyring(holder_kind="principal", holder="human:me", sealed=b"new"))
        await tx.grants.use_token(HERE, b"token", NOW)
        await tx.grants.sweep_tokens(HERE, NOW + 10**9, 0)
        await tx.grants.revoke_grant(HERE, "grant")
        await tx.pages.replace(page(version=2, expires_ms=NOW))
        await tx.pages.discard_inbox(HERE, "item")
        await tx.history.trim(HERE, "gone", keep=0, since_ms=NOW + 10_000)
        await tx.history.sweep(HERE, NOW + 10_000, keep=0, since_ms=NOW + 10_000)
        await tx.pages.purge_deleted(HERE, NOW + 10_000)
        await tx.pages.delete_expired(HERE, NOW + 10_000)
        await tx.profiles.put(profile(2), change(2))
        await tx.audit.append(entry(2))

    assert await look(store, ELSEWHERE) == before
    async with store.read() as tx:
        assert await tx.grants.list_grants(HERE) == []
        assert await tx.grants.idle_grants(HERE, NOW + 10**10) == []
        assert [row.context_id for row in await tx.grants.list_grants(ELSEWHERE)] == [ELSEWHERE]
        assert await tx.pages.count(HERE) == 0
        assert await tx.pages.pages(HERE, ["page"], ["memory/main"], NOW) == []
        assert list(await tx.pages.heads(HERE, ["memory/main"], NOW)) == []
        assert list(await tx.pages.terms(HERE, ["memory/main"], NOW)) == []


@pytest.mark.requirement("SEC-09")
async def test_every_row_belongs_to_a_context_that_exists(store: Store) -> None:
    orphans: dict[str, Callable[[Transaction], Awaitable[None]]] = {
        "roster": lambda tx: tx.contexts.put_roster(roster_row()),
        "wrap": lambda tx: tx.credentials.put_wrap(wrap()),
        "session": lambda tx: tx.credentials.add_session(session()),
        "client": lambda tx: tx.grants.add_client(client()),
        "authorization": lambda tx: tx.grants.add_authorization(authorization()),
        "grant": lambda tx: tx.grants.add_grant(grant(), keyring()),
        "keyring": lambda tx: tx.grants.put_keyring(keyring()),
        "token": lambda tx: tx.grants.add_token(token()),
        "page": lambda tx: tx.pages.add(page(), 1, b"tag"),
        "item": lambda tx: tx.pages.add_to_inbox(item(), 1, b"tag"),
        "profile": lambda tx: tx.profiles.put(profile(), change()),
    }
    for add in orphans.values():
        with pytest.raises(NotFoundError):
            async with store.write() as tx:
                await add(tx)

    async with store.write() as tx:
        await tx.contexts.add(context())
    assert [found for found in await look(store, HERE) if found not in (None, [])] == []
