"""Seed wraps and sessions keep their promises on every engine."""

from __future__ import annotations

import pytest

from tests.contract.rows import HERE, NOW, context, keyring, session, wrap
from zkpcp.errors import ConflictError
from zkpcp.ports import Store


@pytest.fixture(autouse=True)
async def _context(store: Store) -> None:
    async with store.write() as tx:
        await tx.contexts.add(context())


@pytest.mark.requirement("KEY-12")
async def test_a_new_wrap_takes_the_place_of_the_old_one_of_its_kind(store: Store) -> None:
    recovery = wrap(kind="recovery", wrapped=b"by code")
    async with store.write() as tx:
        await tx.credentials.put_wrap(wrap())
        await tx.credentials.put_wrap(recovery)
        await tx.credentials.put_wrap(wrap(wrapped=b"new", salt=b"newer"))

    async with store.read() as tx:
        assert await tx.credentials.wrap(HERE, "human:me", "passphrase") == wrap(wrapped=b"new", salt=b"newer")
        assert await tx.credentials.wrap(HERE, "human:me", "recovery") == recovery
        assert await tx.credentials.wrap(HERE, "human:you", "recovery") is None


async def test_a_session_is_seen_later_and_never_earlier(store: Store) -> None:
    async with store.write() as tx:
        await tx.credentials.add_session(session())
        with pytest.raises(ConflictError):
            await tx.credentials.add_session(session())
        await tx.credentials.touch_session(HERE, b"session", NOW + 7)
        await tx.credentials.touch_session(HERE, b"session", NOW + 3)

    async with store.read() as tx:
        assert await tx.credentials.session(HERE, b"session") == session(seen_ms=NOW + 7)


async def test_a_session_ends_when_asked_and_ending_twice_is_no_error(store: Store) -> None:
    async with store.write() as tx:
        await tx.credentials.add_session(session())
        await tx.credentials.end_session(HERE, b"session")
        await tx.credentials.end_session(HERE, b"session")

        assert await tx.credentials.session(HERE, b"session") is None


async def test_sessions_end_at_their_idle_and_at_their_absolute_end(store: Store) -> None:
    async with store.write() as tx:
        await tx.credentials.add_session(session(lookup_id=b"over", expires_ms=NOW, seen_ms=NOW))
        await tx.credentials.add_session(session(lookup_id=b"idle", expires_ms=NOW + 1, seen_ms=NOW - 100))
        await tx.credentials.add_session(session(lookup_id=b"live", expires_ms=NOW + 1, seen_ms=NOW - 99))
        await tx.credentials.end_sessions_before(HERE, NOW, 100)

        assert await tx.credentials.session(HERE, b"over") is None
        assert await tx.credentials.session(HERE, b"idle") is None
        assert await tx.credentials.session(HERE, b"live") is not None


@pytest.mark.requirement("KEY-08", "CTX-07")
async def test_what_opens_for_a_principal_goes_as_a_whole_and_nothing_of_others_with_it(store: Store) -> None:
    async with store.write() as tx:
        for name in ("human:me", "human:you"):
            await tx.credentials.put_wrap(wrap(principal=name))
            await tx.credentials.put_wrap(wrap(principal=name, kind="recovery"))
            await tx.credentials.add_session(session(principal=name, lookup_id=name.encode()))
            for epoch in (1, 2):
                await tx.grants.put_keyring(keyring(holder_kind="principal", holder=name, epoch=epoch))

    async with store.write() as tx:
        await tx.credentials.end_sessions_of(HERE, "human:me")
        await tx.credentials.delete_wraps(HERE, "human:me")
        await tx.grants.delete_keyrings(HERE, "principal", "human:me")
        await tx.grants.delete_keyrings(HERE, "grant", "human:you")

    async with store.read() as tx:
        for name, stays in (("human:me", False), ("human:you", True)):
            assert (await tx.credentials.session(HERE, name.encode()) is not None) is stays
            assert (await tx.credentials.wrap(HERE, name, "passphrase") is not None) is stays
            assert (await tx.credentials.wrap(HERE, name, "recovery") is not None) is stays
            assert (await tx.grants.principal_keyring(HERE, name) is not None) is stays
            assert (await tx.grants.keyring(HERE, "principal", name, 1) is not None) is stays
