"""A host that swaps keys, rosters, grants, anchors or wraps: the token is refused, and the log says why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from tests.flows.usecase_support import DEFAULT_GRANT, EVERYTHING, PASSPHRASE, Granted, World
from zkpcp.core import roster as rosters
from zkpcp.core.audit import Outcome
from zkpcp.core.roster import Roster
from zkpcp.core.stored import GrantRow, KeyringRow, RosterRow, TokenRow
from zkpcp.crypto.keyring import KeyringContents
from zkpcp.crypto.seal import KemPrivateKey
from zkpcp.crypto.sign import SigningKey
from zkpcp.errors import InvalidTokenError, LockedError, SignInError
from zkpcp.testing import _Tables
from zkpcp.usecases.access import Caller, LockedCaller, acting, authenticate
from zkpcp.usecases.session import sign_in
from zkpcp.vault import holders, seeds
from zkpcp.vault.secrets import parse_token
from zkpcp.vault.seeds import OpenedSeed

ATTACKER = SigningKey.from_seed(bytes(range(32)))
ATTACKER_KEM = KemPrivateKey(bytes(range(32, 64))).public_bytes()


@dataclass(slots=True)
class Scene:
    """Two grants of one context and one of another, all in the same database."""

    world: World
    mine: Granted
    wide: Granted
    other: World
    theirs: Granted

    def grant(self, tables: _Tables) -> GrantRow:
        return tables.grants[self.world.context_id, self.mine.grant_id]

    def put_grant(self, tables: _Tables, **changes: object) -> None:
        row = replace(self.grant(tables), **changes)  # type: ignore[arg-type]  # the cases name members of the row
        tables.grants[row.context_id, row.grant_id] = row

    def keyring(self, tables: _Tables, world: World, granted: Granted) -> KeyringRow:
        return tables.keyrings[world.context_id, "grant", granted.grant_id, 1]

    def put_keyring(self, tables: _Tables, sealed: bytes, signature: bytes, epoch: int = 1) -> None:
        row = KeyringRow(self.world.context_id, "grant", self.mine.grant_id, epoch, sealed, signature)
        tables.keyrings[row.context_id, "grant", row.holder, epoch] = row

    def token(self, tables: _Tables, granted: Granted) -> TokenRow:
        return tables.tokens[self.world.context_id, granted.lookup_id]

    def put_token(self, tables: _Tables, **changes: object) -> None:
        row = replace(self.token(tables, self.mine), **changes)  # type: ignore[arg-type]  # as in put_grant
        tables.tokens[row.context_id, row.lookup_id] = row

    def roster(self, tables: _Tables) -> Roster:
        return rosters.parse(tables.rosters[self.world.context_id].body)

    def put_roster(self, tables: _Tables, roster: Roster, signer: SigningKey | None = None) -> None:
        """Store a roster under the owner's old signature, or signed anew by ``signer``."""
        body = rosters.serialize(roster)
        old = tables.rosters[self.world.context_id]
        signature = old.signature if signer is None else signer.sign("roster", body)
        tables.rosters[self.world.context_id] = RosterRow(self.world.context_id, roster.version, body, signature)


@pytest.fixture
async def scene(world: World) -> Scene:
    other = await World.founded(world.store, handle="bea")
    mine = await world.grant(*DEFAULT_GRANT, client_id="cli_mine")
    wide = await world.grant(*EVERYTHING, client_id="cli_wide")
    return Scene(world, mine, wide, other, await other.grant(*EVERYTHING))


def another_grants_keyring(scene: Scene, tables: _Tables) -> None:
    row = scene.keyring(tables, scene.world, scene.wide)
    scene.put_keyring(tables, row.sealed, row.signature)


def another_contexts_keyring(scene: Scene, tables: _Tables) -> None:
    row = scene.keyring(tables, scene.other, scene.theirs)
    scene.put_keyring(tables, row.sealed, row.signature)


def a_keyring_signed_by_another_key(scene: Scene, tables: _Tables) -> None:
    row = scene.keyring(tables, scene.world, scene.mine)
    scene.put_keyring(tables, row.sealed, ATTACKER.sign("keyring", row.sealed))


def a_keyring_of_the_attackers_own(scene: Scene, tables: _Tables) -> None:
    contents = KeyringContents(keys={("memory/main", 1, "rec"): bytearray(b"k" * 32)}, inboxes={}, root=None)
    row = holders._sealed_keyring(
        contents, scene.roster(tables), "grant", scene.mine.grant_id, scene.grant(tables).kem_public, ATTACKER
    )
    scene.put_keyring(tables, row.sealed, row.signature)


def a_damaged_keyring(scene: Scene, tables: _Tables) -> None:
    row = scene.keyring(tables, scene.world, scene.mine)
    scene.put_keyring(tables, row.sealed[:-1] + bytes([row.sealed[-1] ^ 1]), row.signature)


def an_empty_keyring(scene: Scene, tables: _Tables) -> None:
    scene.put_keyring(tables, b"", b"")


def wider_scopes(scene: Scene, tables: _Tables) -> None:
    scene.put_grant(tables, scopes=EVERYTHING)
    scene.put_token(tables, scopes=EVERYTHING)


def another_principal(scene: Scene, tables: _Tables) -> None:
    scene.put_grant(tables, principal="human:eve")


def another_beneficiary(scene: Scene, tables: _Tables) -> None:
    scene.put_grant(tables, on_behalf_of="human:eve")


def another_client(scene: Scene, tables: _Tables) -> None:
    scene.put_grant(tables, client_id="cli_eve")


def another_client_name(scene: Scene, tables: _Tables) -> None:
    scene.put_grant(tables, client_name="Your bank")


def another_sealing_key(scene: Scene, tables: _Tables) -> None:
    scene.put_grant(tables, kem_public=ATTACKER_KEM)


def another_signing_key(scene: Scene, tables: _Tables) -> None:
    scene.put_grant(tables, sig_public=ATTACKER.public_bytes())


def a_grant_signed_by_another_key(scene: Scene, tables: _Tables) -> None:
    scene.put_grant(tables, signature=ATTACKER.sign("grant", *holders._grant_fields(scene.grant(tables))))


def another_grants_anchor(scene: Scene, tables: _Tables) -> None:
    scene.put_grant(tables, anchor=tables.grants[scene.world.context_id, scene.wide.grant_id].anchor)


def another_contexts_anchor(scene: Scene, tables: _Tables) -> None:
    scene.put_grant(tables, anchor=tables.grants[scene.other.context_id, scene.theirs.grant_id].anchor)


def another_grants_wrap(scene: Scene, tables: _Tables) -> None:
    scene.put_token(tables, wrapped=scene.token(tables, scene.wide).wrapped)


def a_token_that_points_at_another_grant(scene: Scene, tables: _Tables) -> None:
    scene.put_token(tables, grant_id=scene.wide.grant_id, client_id="cli_wide", scopes=EVERYTHING)


def a_whole_other_grant_under_this_token(scene: Scene, tables: _Tables) -> None:
    wide = scene.token(tables, scene.wide)
    scene.put_token(tables, grant_id=wide.grant_id, scopes=wide.scopes, wrapped=wide.wrapped)


def a_changed_principals_sealing_key(scene: Scene, tables: _Tables) -> None:
    roster = scene.roster(tables)
    scene.put_roster(tables, replace(roster, principals=(replace(roster.principals[0], kem_public=ATTACKER_KEM),)))


def a_changed_principals_signing_key(scene: Scene, tables: _Tables) -> None:
    roster = scene.roster(tables)
    principal = replace(roster.principals[0], sig_public=ATTACKER.public_bytes())
    scene.put_roster(tables, replace(roster, principals=(principal,)))


def a_roster_signed_by_the_attacker(scene: Scene, tables: _Tables) -> None:
    roster = scene.roster(tables)
    principal = replace(roster.principals[0], sig_public=ATTACKER.public_bytes(), kem_public=ATTACKER_KEM)
    scene.put_roster(tables, replace(roster, principals=(principal,)), ATTACKER)


def a_roster_owned_by_the_attacker(scene: Scene, tables: _Tables) -> None:
    roster = scene.roster(tables)
    principal = replace(roster.principals[0], sig_public=ATTACKER.public_bytes(), kem_public=ATTACKER_KEM)
    scene.put_roster(tables, replace(roster, owner=ATTACKER.public_bytes(), principals=(principal,)), ATTACKER)


def the_attackers_whole_chain(scene: Scene, tables: _Tables) -> None:
    a_roster_owned_by_the_attacker(scene, tables)
    a_grant_signed_by_another_key(scene, tables)
    a_keyring_of_the_attackers_own(scene, tables)


def a_wrap_that_remembers_the_attacker(scene: Scene, tables: _Tables) -> None:
    the_attackers_whole_chain(scene, tables)
    context_id, grant_id = scene.world.context_id, scene.mine.grant_id
    token = parse_token(scene.mine.token, "at")
    opened = seeds.unwrap_with_token(
        token, "access", context_id, grant_id, scene.token(tables, scene.mine).wrapped or b""
    )
    turned = OpenedSeed(opened.seed, replace(opened.memory, owner=ATTACKER.public_bytes()))
    wrapped = seeds.wrap_for_token(token, "access", context_id, grant_id, turned, scene.world.services.entropy)
    scene.put_token(tables, wrapped=wrapped)


def another_contexts_roster(scene: Scene, tables: _Tables) -> None:
    row = tables.rosters[scene.other.context_id]
    tables.rosters[scene.world.context_id] = replace(row, context_id=scene.world.context_id)


def a_roster_of_the_next_version_by_nobody(scene: Scene, tables: _Tables) -> None:
    scene.put_roster(tables, replace(scene.roster(tables), version=2))


def a_roster_row_with_another_version(scene: Scene, tables: _Tables) -> None:
    row = tables.rosters[scene.world.context_id]
    tables.rosters[scene.world.context_id] = replace(row, version=2)


ATTACKS: tuple[Callable[[Scene, _Tables], None], ...] = (
    another_grants_keyring,
    another_contexts_keyring,
    a_keyring_signed_by_another_key,
    a_keyring_of_the_attackers_own,
    a_damaged_keyring,
    an_empty_keyring,
    wider_scopes,
    another_principal,
    another_beneficiary,
    another_client,
    another_client_name,
    another_sealing_key,
    another_signing_key,
    a_grant_signed_by_another_key,
    another_grants_anchor,
    another_contexts_anchor,
    another_grants_wrap,
    a_token_that_points_at_another_grant,
    a_whole_other_grant_under_this_token,
    a_changed_principals_sealing_key,
    a_changed_principals_signing_key,
    a_roster_signed_by_the_attacker,
    a_roster_owned_by_the_attacker,
    the_attackers_whole_chain,
    a_wrap_that_remembers_the_attacker,
    another_contexts_roster,
    a_roster_of_the_next_version_by_nobody,
    a_roster_row_with_another_version,
)


async def refused_as_tampering(world: World, granted: Granted) -> None:
    before = len(await world.entries())
    caller = await world.caller(granted)
    with pytest.raises(InvalidTokenError) as refused:
        async with acting(world.services, caller):
            pytest.fail("a tampered grant opened")
    assert str(refused.value) == "the access token is not valid here"
    entries = await world.entries()
    assert len(entries) == before + 1
    assert (entries[-1].action, entries[-1].outcome, entries[-1].decrypted) == (
        "tampering.found",
        Outcome.ERROR,
        False,
    )


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack.__name__ for attack in ATTACKS])
@pytest.mark.requirement("KEY-03", "KEY-10", "AUTH-12")
async def test_a_grant_whose_rows_were_changed_opens_nothing(
    scene: Scene, attack: Callable[[Scene, _Tables], None]
) -> None:
    scene.world.tamper(lambda tables: attack(scene, tables))

    await refused_as_tampering(scene.world, scene.mine)


async def test_the_scene_opens_as_long_as_nobody_changes_it(scene: Scene) -> None:
    for world, granted in ((scene.world, scene.mine), (scene.world, scene.wide), (scene.other, scene.theirs)):
        async with world.client(granted) as client:
            assert await client.paths() == []


async def signed_again(world: World, *, version: int, epoch: int) -> RosterRow:
    """The next roster as the owner signs it."""
    async with world.open() as session:
        roster = replace(session.keyring.roster, version=version, epoch=epoch)
        return holders.sign_roster(roster, session.keyring._signing)


@pytest.mark.requirement("KEY-10")
async def test_a_keyring_of_an_earlier_epoch_is_not_one_of_this_epoch(scene: Scene) -> None:
    roster = await signed_again(scene.world, version=2, epoch=2)
    scene.world.tamper(lambda tables: tables.rosters.update({scene.world.context_id: roster}))

    waiting = await authenticate(scene.world.services, scene.world.context, scene.mine.token)
    old = scene.keyring(scene.world.tables(), scene.world, scene.mine)
    scene.world.tamper(lambda tables: scene.put_keyring(tables, old.sealed, old.signature, epoch=2))

    assert isinstance(waiting, LockedCaller)  # not sealed yet: temporarily away, no content
    await refused_as_tampering(scene.world, scene.mine)


async def test_a_roster_older_than_a_wrap_remembers_is_refused(scene: Scene) -> None:
    world = scene.world
    first = world.tables().rosters[world.context_id]
    second = await signed_again(world, version=2, epoch=1)
    world.tamper(lambda tables: tables.rosters.update({world.context_id: second}))
    await world.sign_in()
    newer = await world.grant(*DEFAULT_GRANT)
    async with world.client(newer), world.client(scene.mine):
        pass  # both open while the database tells the truth

    world.tamper(lambda tables: tables.rosters.update({world.context_id: first}))

    await refused_as_tampering(world, newer)
    with pytest.raises(InvalidTokenError):
        async with world.open():
            pytest.fail("a session opened an older roster than it had seen")
    assert (await world.last_entry()).action == "tampering.found"
    # Whoever saw nothing newer cannot tell: a wrap remembers only its own past.
    async with world.client(scene.mine):
        pass


def foreign_principal_keyring(world: World, other: World, tables: _Tables) -> None:
    row = tables.keyrings[other.context_id, "principal", "human:owner", 1]
    tables.keyrings[world.context_id, "principal", "human:owner", 1] = replace(row, context_id=world.context_id)


def resigned_principal_keyring(world: World, _other: World, tables: _Tables) -> None:
    key = (world.context_id, "principal", "human:owner", 1)
    row = tables.keyrings[world.context_id, "principal", "human:owner", 1]
    tables.keyrings[key[0], "principal", key[2], 1] = replace(row, signature=ATTACKER.sign("keyring", row.sealed))


def foreign_roster(world: World, other: World, tables: _Tables) -> None:
    tables.rosters[world.context_id] = replace(tables.rosters[other.context_id], context_id=world.context_id)


def swapped_public_key(world: World, _other: World, tables: _Tables) -> None:
    row = tables.rosters[world.context_id]
    roster = rosters.parse(row.body)
    changed = replace(roster, principals=(replace(roster.principals[0], kem_public=ATTACKER_KEM),))
    body = rosters.serialize(changed)
    tables.rosters[world.context_id] = replace(row, body=body, signature=ATTACKER.sign("roster", body))


@pytest.mark.parametrize(
    "attack", [foreign_principal_keyring, resigned_principal_keyring, foreign_roster, swapped_public_key]
)
async def test_an_owner_neither_stays_nor_gets_in_with_keys_that_were_swapped(
    world: World, attack: Callable[[World, World, _Tables], None]
) -> None:
    other = await World.founded(world.store, handle="bea")
    world.tamper(lambda tables: attack(world, other, tables))

    with pytest.raises(InvalidTokenError):
        async with world.open():
            pytest.fail("a session opened swapped keys")
    assert (await world.last_entry()).action == "tampering.found"
    with pytest.raises(SignInError):
        await sign_in(world.services, world.context, passphrase=PASSPHRASE)
    assert (await world.last_entry()).action == "tampering.found"


async def test_a_session_shown_as_another_principals_does_not_open(world: World) -> None:
    key = (world.context_id, world.session.lookup_id())
    row = replace(world.tables().sessions[key], principal="human:eve")

    def attack(tables: _Tables) -> None:
        keyring = tables.keyrings[world.context_id, "principal", "human:owner", 1]
        tables.keyrings[world.context_id, "principal", "human:eve", 1] = replace(keyring, holder="human:eve")
        tables.sessions[key] = row

    world.tamper(attack)

    with pytest.raises(InvalidTokenError):
        async with world.open():
            pytest.fail("a session opened for somebody else")
    assert (await world.last_entry()).action == "tampering.found"


async def test_a_key_copy_that_is_gone_locks_and_opens_nothing(scene: Scene) -> None:
    world = scene.world
    world.tamper(lambda tables: tables.keyrings.clear())

    assert isinstance(await authenticate(world.services, world.context, scene.mine.token), LockedCaller)
    with pytest.raises(LockedError):
        async with world.open():
            pytest.fail("a session opened without a keyring")


@pytest.mark.requirement("AUTH-12")
@pytest.mark.parametrize("kind", ["ac", "rt", "st"])
async def test_a_token_of_another_kind_or_place_is_refused_before_anything_opens(scene: Scene, kind: str) -> None:
    services, context = scene.world.services, scene.world.context
    text = scene.mine.token.replace("pcp_at_", f"pcp_{kind}_")
    unknown = scene.mine.token[:-4] + ("AAAA" if not scene.mine.token.endswith("AAAA") else "BBBA")

    for token in (text, unknown, "", "pcp_at_", scene.mine.token + "A", f" {scene.mine.token}", scene.theirs.token):
        with pytest.raises(InvalidTokenError) as refused:
            await authenticate(services, context, token)
        assert not token or token not in str(refused.value)
    caller = await authenticate(services, context, scene.mine.token)
    assert isinstance(caller, Caller)
    scene.world.clock.advance(3600 * 1000)
    with pytest.raises(InvalidTokenError):
        await authenticate(services, context, scene.mine.token)
