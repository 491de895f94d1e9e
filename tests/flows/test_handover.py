"""Handing control over: by the word of both, with new keys, and everybody goes on with what they have."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from tests.flows.usecase_support import EVERYTHING, PASSPHRASE, Member, World, every_store
from zkpcp.core.access import RIGHTS
from zkpcp.core.roster import CONTROLLER, MEMBER
from zkpcp.core.stored import HandoverRow, RosterRow
from zkpcp.errors import ConflictError, CorruptError, ForbiddenError, InvalidTokenError, LockedError, NotFoundError
from zkpcp.testing import _Tables
from zkpcp.usecases import principals
from zkpcp.usecases.access import Caller, authenticate
from zkpcp.usecases.handover import OFFER_LIFETIME_MS, Offered, offer_control, offered, take_control, withdraw_offer
from zkpcp.usecases.lock import lock_context
from zkpcp.usecases.rotation import Rotating, begin_rotation
from zkpcp.usecases.session import sign_in
from zkpcp.usecases.verify import verify_context

OWNER, BOB = "human:owner", "human:bob"


async def offer(world: World, principal: str = BOB) -> None:
    async with world.open() as session:
        await offer_control(world.services, session, principal)


async def take(member: Member) -> None:
    async with member.open() as session:
        await take_control(member.world.services, session)
    await member.world.refresh()


async def team(world: World) -> tuple[World, Member]:
    team = await World.founded(world.store, handle=f"{world.context.handle}-team", kind="team")
    async with team.owner() as owner:
        await owner.write("plan", "sail on Sunday")
        await owner.write("key", "on the beam", sensitivity="sensitive")
    return team, await team.join("bob")


def _put_roster(tables: _Tables, *, row: RosterRow) -> None:
    tables.rosters[row.context_id] = row


def _put_handover(tables: _Tables, *, row: HandoverRow) -> None:
    tables.handovers[row.context_id] = row


async def seal_all_anew(world: World, member: Member) -> None:
    async with member.open() as session:
        rotating = Rotating(world.services, session)
        while await rotating.step():
            pass
        assert rotating.damaged == 0
        await rotating.end()


@every_store
@pytest.mark.requirement("CTX-03", "AUD-05")
async def test_control_goes_over_when_both_have_agreed_and_everybody_goes_on(stored_world: World) -> None:
    world, bob = await team(stored_world)
    carol = await world.join("carol", {"main": ("read",)})
    owners_app, bobs_app = await world.grant(*EVERYTHING), await world.grant(*EVERYTHING, member=bob)

    await offer(world)
    async with bob.open() as session:
        assert await offered(world.services, session) == Offered(BOB, world.clock.now_ms() + OFFER_LIFETIME_MS)
        assert not session.is_controller
    async with carol.open() as session:
        assert await offered(world.services, session) is None
    await take(bob)

    assert (world.context.controller, world.context.kind) == (BOB, "team")
    async with bob.open() as session:
        roster = session.keyring.roster
        assert session.is_controller
        assert (roster.role(BOB), roster.role(OWNER), roster.generation) == (CONTROLLER, MEMBER, 2)
        await principals.add_agent(world.services, session, agent="agent:scout", rights={"main": frozenset(RIGHTS)})
    async with world.open() as session:
        assert not session.is_controller
        with pytest.raises(ForbiddenError):
            await principals.suspend(world.services, session, BOB)
    for granted in (owners_app, bobs_app):
        async with world.client(granted) as client:
            assert (await client.read("plan")).body == "sail on Sunday"
    async with carol.hand() as hand:
        assert (await hand.read("plan")).body == "sail on Sunday"
    await seal_all_anew(world, bob)
    async with bob.open() as session:
        assert all(check.holds for check in await verify_context(world.services, session, lambda *_: None))
    async with bob.hand() as hand:
        assert (await hand.read("key")).body == "on the beam"
    entries = [(entry.action, entry.principal) for entry in await world.entries()]
    assert ("control.offered", OWNER) in entries
    assert ("control.taken", BOB) in entries


@every_store
@pytest.mark.requirement("CTX-03", "KEY-12")
async def test_the_one_before_signs_in_as_a_member_and_what_they_kept_opens_nothing_new(stored_world: World) -> None:
    world, bob = await team(stored_world)
    async with world.open() as session:
        with session.keyring.own_contents() as contents:
            assert contents.root is not None
            kept = bytes(contents.root.key)
    await offer(world)
    await take(bob)

    await sign_in(world.services, world.context, passphrase=PASSPHRASE, principal=OWNER)
    with pytest.raises(Exception, match="do not fit"):
        await sign_in(world.services, world.context, passphrase=PASSPHRASE)
    async with bob.open() as session:
        with session.keyring.own_contents() as contents:
            assert contents.root is not None
            assert bytes(contents.root.key) != kept


@pytest.mark.requirement("CTX-03")
async def test_control_can_go_back_and_those_who_have_seen_nothing_since_still_find_the_owner(world: World) -> None:
    world, bob = await team(world)
    early = await world.grant(*EVERYTHING)
    carol = await world.join("carol")
    await offer(world)
    await take(bob)
    async with bob.open() as session:
        await offer_control(world.services, session, OWNER)
    async with world.open() as session:
        await take_control(world.services, session)
    await world.refresh()

    assert world.context.controller == OWNER
    async with world.open() as session:
        assert session.is_controller
    async with world.client(early) as client:
        assert (await client.read("plan")).body == "sail on Sunday"
    for member in (bob, carol):
        async with member.hand() as hand:
            assert (await hand.read("plan")).body == "sail on Sunday"


@pytest.mark.requirement("CTX-03")
async def test_an_offer_is_for_its_member_and_its_time_and_ends_with_the_keys(world: World) -> None:
    world, bob = await team(world)
    carol = await world.join("carol")
    await offer(world)
    with pytest.raises(NotFoundError):
        await take(carol)
    world.clock.advance(OFFER_LIFETIME_MS)
    with pytest.raises(NotFoundError):
        await take(bob)
    await world.sign_in()
    await offer(world)
    async with world.open() as session:
        await begin_rotation(world.services, session)
    with pytest.raises(NotFoundError):
        await take(bob)
    await offer(world)
    async with world.open() as session:
        before = session.keyring.roster.generation
        await withdraw_offer(world.services, session)
    async with world.open() as session:
        assert session.keyring.roster.generation == before + 1
        with pytest.raises(NotFoundError):
            await withdraw_offer(world.services, session)
    with pytest.raises(NotFoundError):
        await take(bob)
    assert world.context.controller == OWNER


@pytest.mark.requirement("CTX-03")
async def test_nobody_else_offers_it_and_not_everywhere_nor_to_anybody(world: World) -> None:
    with pytest.raises(ConflictError, match="one person"):
        await offer(world)
    world, bob = await team(world)
    async with bob.open() as session:
        with pytest.raises(ForbiddenError):
            await offer_control(world.services, session, OWNER)
        with pytest.raises(ForbiddenError):
            await withdraw_offer(world.services, session)
    for nobody in ("human:nobody", OWNER, "agent:scout"):
        with pytest.raises(NotFoundError):
            await offer(world, nobody)
    await offer(world)
    async with world.open() as session:
        with pytest.raises(ForbiddenError):
            await take_control(world.services, session)
        await lock_context(world.services, session)
    await world.sign_in()
    await world.refresh()
    with pytest.raises(LockedError):
        await offer(world)


@pytest.mark.requirement("CTX-03", "KEY-10")
async def test_a_host_can_neither_make_a_succession_nor_take_one_away(world: World) -> None:
    world, bob = await team(world)
    granted = await world.grant(*EVERYTHING)
    await offer(world)
    async with bob.open() as session:
        mine = session.keyring.sign("succession/taken", b"anything")
    before = world.tables()
    await take(bob)
    after = world.tables()
    row = after.rosters[world.context_id]

    for succession in (b"", row.succession[:-1], row.succession[:-64] + mine, row.succession[:-1] + b"\x00"):
        forged = replace(row, succession=succession)
        world.tamper(partial(_put_roster, row=forged))
        with pytest.raises(InvalidTokenError):
            async with world.client(granted):
                pass
        with pytest.raises(CorruptError):
            async with bob.open():
                pass

    def put_back(tables: _Tables) -> None:
        tables.rosters.update(before.rosters)
        tables.keyrings.update(before.keyrings)

    world.tamper(lambda tables: tables.rosters.update(after.rosters))
    seen = await world.grant(*EVERYTHING, member=bob)
    world.tamper(put_back)
    assert not isinstance(await authenticate(world.services, world.context, seen.token), Caller)


@pytest.mark.requirement("CTX-03")
async def test_an_offer_that_the_owner_did_not_make_is_refused(world: World) -> None:
    world, bob = await team(world)
    carol = await world.join("carol")
    await offer(world, "human:carol")
    row = world.tables().handovers[world.context_id]
    for forged in (replace(row, principal=BOB), replace(row, expires_ms=row.expires_ms + 1), replace(row, sealed=b"")):
        world.tamper(partial(_put_handover, row=forged))
        for member in (bob, carol):
            with pytest.raises((CorruptError, NotFoundError)):
                await take(member)
    assert world.context.controller == OWNER
    assert "control.taken" not in [entry.action for entry in await world.entries()]
