"""A removed member with all they could keep, and a copy of the database: nothing new opens, later nothing at all.

What can be kept: the seed that the passphrase opens, every sub key that the keyring held, and the same of the apps the
member connected. What is tried: every key that follows from these, on every sealed part of every row, at its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, get_args

import pytest

from tests.flows.usecase_support import EVERYTHING, Granted, Member, World, every_store
from tests.threats.test_stolen_token import everything_derived
from zkpcp.core.stored import PageRow, ProposalRow, RotatedKind, RotatedRow
from zkpcp.crypto.aead import context_of, open_box
from zkpcp.crypto.kdf import derive, u64
from zkpcp.crypto.keys import Key
from zkpcp.errors import InvalidTokenError, TamperedError
from zkpcp.testing import MemoryStore, _Tables
from zkpcp.usecases import principals
from zkpcp.usecases.access import LockedCaller, authenticate
from zkpcp.usecases.forget import delete_page
from zkpcp.usecases.review import propose_page, set_review
from zkpcp.usecases.rotation import Rotating
from zkpcp.vault import holders, records
from zkpcp.vault.keyring import OpenKeyring
from zkpcp.vault.resealing import _bound
from zkpcp.vault.seeds import OpenedSeed

on_disk = pytest.mark.parametrize("world_url", ["world_sqlite"], indirect=True)
KINDS: Final[tuple[RotatedKind, ...]] = get_args(RotatedKind)


@dataclass(frozen=True, slots=True)
class Kept:
    """What somebody took along: every key that follows from what they had, and the seed of their keyring."""

    keys: frozenset[bytes]
    seed: OpenedSeed
    granted: Granted


async def keep(world: World, member: Member) -> Kept:
    granted = await world.grant(*EVERYTHING, member=member)
    async with member.open() as session, world.client(granted) as client:
        keys = {key for keyring in (session.keyring, client.who.keys) for key in keys_of(keyring, world)}
    return Kept(frozenset(keys), member.opened, granted)


def keys_of(keyring: OpenKeyring, world: World) -> Iterator[bytes]:
    """The keys in a keyring; with all that the key schedule makes of them once, in memory, because it takes long."""
    if isinstance(world.store, MemoryStore):
        yield from everything_derived(keyring)
    else:
        yield from (bytes(key) for key in keyring._contents.keys.values())


async def copied(world: World) -> Sequence[RotatedRow]:
    """Every sealed row, as whoever copies the database has it."""
    async with world.store.read() as tx:
        return [row for kind in KINDS for row in await tx.rotation.behind(world.context_id, kind, 99, 1000)]


def boxes(row: RotatedRow) -> Iterator[tuple[bytes, bytes]]:
    """The sealed parts of a row, each with what it is bound to."""
    if isinstance(row, PageRow):
        yield row.sealed, records.page_place(row.context_id, row, "rec")
        yield row.head, records.page_place(row.context_id, row, "head")
        yield row.terms, records.page_place(row.context_id, row, "terms")
    elif isinstance(row, ProposalRow):
        yield row.sealed, records.proposal_place(row)
    else:
        _, place = _bound(row)
        yield row.sealed, place(row.generation)


def opened(kept: Kept, rows: Sequence[RotatedRow]) -> list[RotatedRow]:
    """The rows of which a part opens."""
    return [row for row in rows if any(_opens(key, *box) for box in boxes(row) for key in kept.keys)]


def _opens(key: bytes | memoryview, box: bytes, place: bytes) -> bool:
    try:
        open_box(key, box, place)
    except TamperedError:
        return False
    return True


async def filled(world: World) -> None:
    """Pages with earlier versions, a deleted one, a sensitive one, a profile, a partition and a proposal."""
    await world.partition("garden", bob=("read", "write"))
    async with world.open() as session:
        await set_review(world.services, session, "proposals")
    await world.refresh()
    async with world.owner() as owner:
        await owner.write("plan", "sail on Sunday")
        await owner.write("plan", "sail on Monday")
        await owner.write("key", "on the beam", sensitivity="sensitive")
        gone = await owner.write("gone", "the old mooring")
        await delete_page(world.services, owner.who, path="gone", expected_updated=gone.updated)
        await owner.patch({"name": "The crew"})
        await propose_page(world.services, owner.who, path="next", body="row on Friday")


async def go_on(world: World) -> int:
    """What the others write after the removal; how many sealed rows that makes or changes."""
    async with world.owner() as owner:
        await owner.write("new", "behind the weir")
        await owner.write("plan", "sail on Tuesday")
        await owner.write("key", "under the mat", sensitivity="sensitive")
        await owner.patch({"name": "The crew of the heron"})
    return 4


async def finish(world: World) -> None:
    async with world.open() as session:
        rotating = Rotating(world.services, session)
        while await rotating.step():
            pass
        await rotating.end()


async def team(world: World) -> tuple[World, Kept]:
    world = await World.founded(world.store, handle=f"{world.context.handle}-team", kind="team")
    member = await world.join("bob")
    await filled(world)
    kept = await keep(world, member)
    async with world.open() as session:
        await principals.remove(world.services, session, "human:bob")
    return world, kept


@every_store
@pytest.mark.requirement("KEY-12", "CTX-07")
async def test_what_a_removed_member_kept_opens_nothing_new_and_after_the_end_nothing_at_all(
    stored_world: World,
) -> None:
    world, kept = await team(stored_world)
    before = await copied(world)
    # The search itself works: until all is sealed anew, a copy opens as far as they could read. The page says so.
    assert len(opened(kept, before)) >= 6

    world.clock.advance(1)
    await go_on(world)
    now = await copied(world)
    fresh = [row for row in now if row not in before and row.generation == 2]
    assert len(fresh) >= 4
    assert opened(kept, fresh) == []

    await finish(world)
    after = await copied(world)
    assert len(after) >= len(now)
    assert opened(kept, after) == []


@on_disk
@pytest.mark.requirement("KEY-12")
async def test_no_link_leads_from_what_a_removed_member_kept_to_a_newer_key(stored_world: World) -> None:
    world, kept = await team(stored_world)
    async with world.store.read() as tx:
        links = await tx.rotation.links(world.context_id)
    assert len(links) > 10

    for link, key in product(links, kept.keys):
        place = (link.context_id.encode(), link.slot.encode(), u64(link.generation), link.name.encode())
        with Key(derive(key, "link")) as sealing:
            assert not _opens(sealing.view(), link.sealed, context_of("key-link", *place))


@every_store
@pytest.mark.requirement("KEY-12", "KEY-08", "AUTH-20")
async def test_seed_and_token_of_a_removed_member_open_no_keyring_that_is_stored(stored_world: World) -> None:
    world, kept = await team(stored_world)

    with pytest.raises(InvalidTokenError):
        await authenticate(world.services, world.context, kept.granted.token)
    async with world.store.read() as tx:
        roster = await tx.contexts.roster(world.context_id)
        assert await tx.grants.principal_keyring(world.context_id, "human:bob") is None
        others = await tx.grants.principal_keyring(world.context_id, world.context.controller)
    assert roster is not None
    assert others is not None
    for principal in ("human:bob", world.context.controller):
        with pytest.raises(TamperedError):
            holders.open_principal(principal, kept.seed, roster, others)


@pytest.mark.requirement("KEY-12", "MEM-17")
async def test_the_index_of_a_slot_opens_with_nothing_that_was_kept_once_all_is_sealed_anew(world: World) -> None:
    world, kept = await team(world)

    def opens_index() -> bool:
        bound = (
            (part, (part.context_id.encode(), part.slot.encode(), u64(generation), part.part.encode(), u64(part.stamp)))
            for part in world.tables().index_parts.values()
            for generation in (1, 2)
        )
        return any(
            _opens(key, part.sealed, context_of("index/part", *place)) for part, place in bound for key in kept.keys
        )

    assert opens_index()
    await finish(world)
    assert world.tables().index_parts
    assert not opens_index()


@pytest.mark.requirement("KEY-12", "KEY-10")
async def test_whoever_has_seen_the_removal_refuses_the_roster_and_the_keyrings_of_before(world: World) -> None:
    world = await World.founded(world.store, handle="crew", kind="team")
    await world.join("bob")
    await filled(world)
    before = world.tables()
    async with world.open() as session:
        await principals.remove(world.services, session, "human:bob")
    await world.sign_in()
    granted = await world.grant(*EVERYTHING)

    def put_back(tables: _Tables) -> None:
        tables.rosters.update(before.rosters)
        tables.keyrings.update(before.keyrings)

    world.tamper(put_back)
    caller = await authenticate(world.services, world.context, granted.token)
    # There is no keyring of the earlier epoch for it: nothing opens, and nothing is written under earlier keys.
    assert isinstance(caller, LockedCaller)
    with pytest.raises(InvalidTokenError, match="does not open"):
        async with world.open():
            pass
