"""Invites keep their promises on every engine."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.contract.rows import HERE, NOW, context
from zkpcp.core.stored import InviteRow, JoinedKeys
from zkpcp.errors import ConflictError
from zkpcp.ports import Store

KEYS = JoinedKeys(NOW + 5, b"kem", b"sig", b"mac")


def invite(**changes: Any) -> InviteRow:  # noqa: ANN401 - any field of a row
    row = InviteRow(HERE, b"code", "human:you", NOW, NOW + 1000, b"offer", b"kept")
    return replace(row, **changes)


async def test_invites_are_found_by_their_code_and_listed_by_principal(store: Store) -> None:
    later = invite(lookup_id=b"another", principal="human:zoe", joined=KEYS)
    async with store.write() as tx:
        await tx.contexts.add(context())
        await tx.contexts.add(context(context_id="another", handle="another"))
        for row in (later, invite(), invite(context_id="another")):
            await tx.invites.add(row)
        with pytest.raises(ConflictError):
            await tx.invites.add(invite())

    async with store.read() as tx:
        assert await tx.invites.invite(HERE, b"code") == invite()
        assert await tx.invites.invite(HERE, b"no code") is None
        assert list(await tx.invites.invites(HERE)) == [invite(), later]


async def test_of_many_who_join_by_one_invite_one_does(store: Store) -> None:
    async with store.write() as tx:
        await tx.contexts.add(context())
        await tx.invites.add(invite())

    async def attempt(number: int) -> bool:
        async with store.write() as tx:
            return await tx.invites.join(HERE, b"code", replace(KEYS, joined_ms=number))

    won = await asyncio.gather(*(attempt(number) for number in range(5)))

    async with store.read() as tx:
        row = await tx.invites.invite(HERE, b"code")
    assert won.count(True) == 1
    assert row == invite(offer=b"", joined=replace(KEYS, joined_ms=won.index(True)))


async def test_an_unused_invite_is_swept_at_its_end_and_a_used_one_waits(store: Store) -> None:
    async with store.write() as tx:
        await tx.contexts.add(context())
        for name in (b"unused", b"used", b"lasting", b"withdrawn"):
            await tx.invites.add(invite(lookup_id=name, expires_ms=NOW + (9000 if name == b"lasting" else 1000)))
        assert await tx.invites.join(HERE, b"used", KEYS)
        assert not await tx.invites.join(HERE, b"nothing", KEYS)
        await tx.invites.delete(HERE, b"withdrawn")
        await tx.invites.delete(HERE, b"withdrawn")
        await tx.invites.sweep(HERE, NOW + 999)
        assert len(await tx.invites.invites(HERE)) == 3
        await tx.invites.sweep(HERE, NOW + 1000)

    async with store.read() as tx:
        assert [row.lookup_id for row in await tx.invites.invites(HERE)] == [b"lasting", b"used"]
