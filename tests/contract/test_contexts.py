"""Contexts and rosters keep their promises on every engine."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.contract.rows import ELSEWHERE, HERE, NOW, context, roster_row
from zkpcp.core.stored import HandoverRow, RosterRow
from zkpcp.errors import ConflictError, CorruptError
from zkpcp.ports import Store


async def test_a_context_is_found_by_its_handle(store: Store) -> None:
    row = context(locked_ms=5)
    async with store.write() as tx:
        await tx.contexts.add(row)

    async with store.read() as tx:
        assert await tx.contexts.by_handle("here") == row
        assert await tx.contexts.by_handle("HERE") is None


@pytest.mark.requirement("PROF-07")
async def test_extensions_are_enabled_one_by_one_and_come_sorted_with_their_own_context(store: Store) -> None:
    async with store.write() as tx:
        await tx.contexts.add(context(extensions=("not.by.adding",)))
        await tx.contexts.add(context(context_id="another", handle="another"))
        assert await tx.contexts.by_handle("here") == context()
        for name in ("zkpcp.handoff", "pcp.home", "com.example.pets"):
            assert await tx.contexts.enable_extension(HERE, name, 7)
        assert not await tx.contexts.enable_extension(HERE, "pcp.home", 8)
        assert await tx.contexts.enable_extension("another", "pcp.legal", 9)

    async with store.write() as tx:
        assert await tx.contexts.disable_extension(HERE, "com.example.pets")
        assert not await tx.contexts.disable_extension(HERE, "com.example.pets")
        assert not await tx.contexts.disable_extension(HERE, "pcp.legal")
    async with store.read() as tx:
        assert await tx.contexts.by_handle("here") == context(extensions=("pcp.home", "zkpcp.handoff"))
        assert await tx.contexts.by_handle("another") == context(
            context_id="another", handle="another", extensions=("pcp.legal",)
        )


async def test_a_handle_belongs_to_one_context_and_the_refusal_leaves_the_transaction_usable(store: Store) -> None:
    async with store.write() as tx:
        await tx.contexts.add(context())
        with pytest.raises(ConflictError, match="handle"):
            await tx.contexts.add(context(context_id="another"))
        await tx.contexts.add(context(context_id="another", handle="another"))

    async with store.read() as tx:
        assert await tx.contexts.handles() == ["another", "here"]


async def test_handles_come_sorted_by_their_bytes(store: Store) -> None:
    handles = ["b", "a-b", "ab", "a0", "a"]
    async with store.write() as tx:
        for handle in handles:
            await tx.contexts.add(context(context_id=handle, handle=handle))

    async with store.read() as tx:
        assert await tx.contexts.handles() == sorted(handles)


async def test_roster_versions_follow_each_other_without_a_gap(store: Store) -> None:
    async with store.write() as tx:
        await tx.contexts.add(context())
        assert await tx.contexts.roster(HERE) is None
        with pytest.raises(ConflictError):
            await tx.contexts.put_roster(roster_row(2))
        await tx.contexts.put_roster(roster_row(1))
        for wrong in (1, 3):
            with pytest.raises(ConflictError):
                await tx.contexts.put_roster(roster_row(wrong))
        await tx.contexts.put_roster(roster_row(2, epoch=2))

    async with store.read() as tx:
        assert await tx.contexts.roster(HERE) == roster_row(2, epoch=2)


@pytest.mark.requirement("CTX-03")
async def test_a_handover_names_the_controller_and_its_succession_outlives_later_rosters(store: Store) -> None:
    async with store.write() as tx:
        await tx.contexts.add(context())
        await tx.contexts.add(context(context_id=ELSEWHERE, handle="elsewhere"))
        await tx.contexts.put_roster(roster_row(1))
        await tx.contexts.put_roster(roster_row(1, context_id=ELSEWHERE))
        await tx.contexts.hand_over(HERE, "human:other", b"step")
        await tx.contexts.put_roster(roster_row(2))

    async with store.read() as tx:
        assert await tx.contexts.roster(HERE) == replace(roster_row(2), succession=b"step")
        assert await tx.contexts.roster(ELSEWHERE) == roster_row(1, context_id=ELSEWHERE)
        here, elsewhere = await tx.contexts.by_handle("here"), await tx.contexts.by_handle("elsewhere")
    assert here is not None
    assert elsewhere is not None
    assert (here.controller, here.kind, elsewhere.controller) == ("human:other", "personal", "human:me")


@pytest.mark.requirement("CTX-03")
async def test_there_is_one_offer_of_control_and_it_can_be_replaced_and_ended(store: Store) -> None:
    first = HandoverRow(HERE, "human:bob", 1, NOW, NOW + 1000, b"offered", b"sealed", b"signed")
    async with store.write() as tx:
        await tx.contexts.add(context())
        assert await tx.contexts.handover(HERE) is None
        assert not await tx.contexts.delete_handover(HERE)
        await tx.contexts.put_handover(first)
        await tx.contexts.put_handover(replace(first, principal="human:cleo", epoch=2))

    async with store.write() as tx:
        assert await tx.contexts.handover(HERE) == replace(first, principal="human:cleo", epoch=2)
        assert await tx.contexts.handover(ELSEWHERE) is None
        assert await tx.contexts.delete_handover(HERE)
        assert await tx.contexts.handover(HERE) is None


async def test_a_roster_that_is_none_is_not_stored(store: Store) -> None:
    async with store.write() as tx:
        await tx.contexts.add(context())
        with pytest.raises(CorruptError):
            await tx.contexts.put_roster(RosterRow(HERE, 1, b"{}", b"signed"))
        assert await tx.contexts.roster(HERE) is None


async def test_a_locked_roster_makes_the_next_writer_wait_and_see_the_change(store: Store) -> None:
    async with store.write() as tx:
        await tx.contexts.add(context())
        await tx.contexts.put_roster(roster_row(1))
    holds, asks = asyncio.Event(), asyncio.Event()

    async def replace_roster() -> None:
        async with store.write() as tx:
            await tx.contexts.roster(HERE, lock=True)
            holds.set()
            await asks.wait()
            await tx.contexts.put_roster(roster_row(2))

    async def version() -> int:
        await holds.wait()
        asks.set()
        async with store.write() as tx:
            row = await tx.contexts.roster(HERE, lock=True)
            assert row is not None
            return row.version

    assert (await asyncio.gather(version(), replace_roster()))[0] == 2


async def test_a_context_is_locked_once_and_unlocked_once(store: Store) -> None:
    async with store.write() as tx:
        await tx.contexts.add(context())
        await tx.contexts.add(context(context_id=ELSEWHERE, handle="elsewhere"))

    async with store.write() as tx:
        assert await tx.contexts.locked_ms(HERE) is None
        assert not await tx.contexts.set_locked(HERE, None)
        assert await tx.contexts.set_locked(HERE, NOW)
        assert not await tx.contexts.set_locked(HERE, NOW + 1)
        assert not await tx.contexts.set_locked("nowhere", NOW)

    async with store.read() as tx:
        assert await tx.contexts.locked_ms(HERE) == NOW
        assert await tx.contexts.locked_ms(ELSEWHERE) is None
        found = await tx.contexts.by_handle(context().handle)
        assert found is not None
        assert found.locked_ms == NOW
    async with store.write() as tx:
        assert await tx.contexts.set_locked(HERE, None)
        assert await tx.contexts.locked_ms(HERE) is None
