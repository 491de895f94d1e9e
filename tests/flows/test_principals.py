"""People and agents in one context: invites, the wait for a key copy, suspension, removal, acting for somebody."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import pytest

from tests.flows.usecase_support import DEFAULT_GRANT, EVERYTHING, PASSPHRASE, Granted, Hand, World, every_store
from zkpcp import storage
from zkpcp.core.access import RIGHTS, Right, Rights, parse_rights
from zkpcp.core.audit import Outcome
from zkpcp.core.oauth_params import Params
from zkpcp.core.roster import AGENT, MEMBER, SUSPENDED
from zkpcp.core.stored import JoinedKeys
from zkpcp.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    InvalidTokenError,
    LockedError,
    NotFoundError,
    SignInError,
)
from zkpcp.testing import MemoryStore, _Tables
from zkpcp.usecases import principals
from zkpcp.usecases.access import Caller, LockedCaller, acting, acting_as, authenticate
from zkpcp.usecases.extensions import set_extension
from zkpcp.usecases.grants import create_grant, list_grants, revoke_grant
from zkpcp.usecases.issuing import IssuedTokens
from zkpcp.usecases.joining import join
from zkpcp.usecases.lock import lock_context
from zkpcp.usecases.services import Services
from zkpcp.usecases.session import OpenSession, open_session, recover, sign_in
from zkpcp.usecases.token import exchange

BOBS = "six otters by the mill"
MAIN: Rights = {"main": frozenset(RIGHTS)}


@pytest.fixture
async def shared() -> World:
    """A team in memory."""
    return await World.founded(MemoryStore(), kind="team")


async def invited(world: World, name: str = "bob", rights: Rights = MAIN) -> str:
    async with world.open() as session:
        made = await principals.invite(world.services, session, principal=f"human:{name}", rights=rights)
    return made.code.printable()


async def joined(world: World, name: str = "bob", rights: Rights = MAIN, passphrase: str = BOBS) -> str:
    """Somebody who has joined and been let in; their recovery code."""
    newcomer = await join(world.services, world.context, code=await invited(world, name, rights), passphrase=passphrase)
    async with world.open() as session:
        assert await principals.admit_joined(world.services, session) == (f"human:{name}",)
    await world.sign_in()
    await world.refresh()
    return newcomer.recovery_code.printable()


async def granted_by(world: World, name: str, *scopes: str, agent: str | None = None) -> Granted:
    token = await sign_in(world.services, world.context, passphrase=BOBS, principal=f"human:{name}")
    async with open_session(world.services, world.context, token) as session:
        made = await create_grant(world.services, session, client_name="Quill", scopes=" ".join(scopes), agent=agent)
    return Granted(made.grant_id, made.access.text(), made.access.lookup_id())


async def role_of(world: World, principal: str) -> str:
    async with world.open() as session:
        return session.keyring.roster.role(principal)


# ----------------------------------------------------------------------------------------------------------- coming in


@pytest.mark.parametrize("world_url", ["world_memory", "world_sqlite", "world_postgres"], indirect=True)
@pytest.mark.requirement("KEY-10", "KEY-03")
async def test_a_newcomer_waits_for_their_key_copy_and_the_controllers_next_sign_in_makes_it(world_url: str) -> None:
    store = await storage.open_store(world_url) if world_url else MemoryStore()
    try:
        world = await World.founded(store, handle="team-of-ada", kind="team")
        newcomer = await join(world.services, world.context, code=await invited(world), passphrase=BOBS)

        with pytest.raises(LockedError, match="controller of this context signs in next"):
            await sign_in(world.services, world.context, passphrase=BOBS, principal="human:bob")
        with pytest.raises(SignInError):
            await sign_in(world.services, world.context, passphrase="not the passphrase", principal="human:bob")
        async with world.open() as session:
            waiting = (await principals.everybody(world.services, session)).invites
            assert await principals.admit_joined(world.services, session) == ("human:bob",)
            assert await principals.admit_joined(world.services, session) == ()
        token = await sign_in(world.services, world.context, passphrase=BOBS, principal="human:bob")

        assert newcomer.principal == "human:bob"
        assert [(each.principal, each.joined) for each in waiting] == [("human:bob", True)]
        async with world.owner() as owner:
            await owner.write("plan", "leeks")
        async with open_session(world.services, world.context, token) as session:
            bob = Hand(world.services, acting_as(session))
            assert (await bob.read("plan")).body == "leeks"
            await bob.write("mine", "beans")
            assert not session.keyring.is_controller
        assert [entry.action for entry in await world.entries() if entry.action.startswith("principal.")] == [
            "principal.invited", "principal.joined", "principal.added"
        ]  # fmt: skip
    finally:
        await store.close()


async def test_a_code_works_once_until_it_ends_or_is_withdrawn(shared: World) -> None:
    used, late, withdrawn, replaced = [await invited(shared, name) for name in ("bob", "cleo", "dan", "eve")]
    await invited(shared, "eve")
    async with shared.open() as session:
        await principals.withdraw_invite(shared.services, session, "human:dan")
    await join(shared.services, shared.context, code=used, passphrase=BOBS)
    shared.clock.advance(principals.INVITE_LIFETIME_S * 1000)

    refusals = set()
    for code in (used, late, withdrawn, replaced, shared.recovery_code):
        with pytest.raises(NotFoundError) as refused:
            await join(shared.services, shared.context, code=code, passphrase=BOBS)
        refusals.add(refused.value.message)
    with pytest.raises(NotFoundError) as unknown:
        await join(shared.services, None, code=used, passphrase=BOBS)

    assert refusals == {unknown.value.message}


async def test_a_mistyped_code_and_a_weak_passphrase_are_said_and_leave_the_invite_as_it_is(shared: World) -> None:
    code = await invited(shared)
    for bad, passphrase in ((code[:-1], BOBS), (code[:-1] + ("A" if code[-1] != "A" else "B"), BOBS), (code, "short")):
        with pytest.raises(InvalidInputError):
            await join(shared.services, shared.context, code=bad, passphrase=passphrase)

    await join(shared.services, shared.context, code=code, passphrase=BOBS)


async def test_an_id_is_invited_once_at_a_time_and_never_again_once_it_was_somebodys(shared: World) -> None:
    await joined(shared)
    async with shared.open() as session:
        for principal in ("human:bob", "human:owner", "agent:x", "org:acme.example", "human:Bob", "human:"):
            with pytest.raises(InvalidInputError):
                await principals.invite(shared.services, session, principal=principal, rights=MAIN)
        await principals.remove(shared.services, session, "human:bob")
        with pytest.raises(InvalidInputError):
            await principals.invite(shared.services, session, principal="human:bob", rights=MAIN)
        with pytest.raises(InvalidInputError):
            await principals.invite(
                shared.services, session, principal="human:cleo", rights={"nowhere": frozenset(RIGHTS)}
            )
        await principals.invite(shared.services, session, principal="human:cleo", rights=MAIN)
    await join(shared.services, shared.context, code=await invited(shared, "dan"), passphrase=BOBS)
    with pytest.raises(ConflictError):
        await invited(shared, "dan")


@pytest.mark.requirement("KEY-03")
async def test_a_host_that_swaps_a_newcomers_keys_gets_no_keyring(shared: World) -> None:
    code = await invited(shared)
    await join(shared.services, shared.context, code=code, passphrase=BOBS)
    stranger = await shared_keys()

    def swap(tables: _Tables) -> None:
        for key, row in tables.invites.items():
            assert row.joined is not None
            tables.invites[key] = replace(row, joined=replace(stranger, mac=row.joined.mac))

    shared.tamper(swap)
    async with shared.open() as session:
        assert await principals.admit_joined(shared.services, session) == ()
        assert session.keyring.roster.principal("human:bob") is None

    assert (await shared.last_entry()).action == "tampering.found"
    assert shared.tables().invites == {}
    assert not [key for key in shared.tables().wraps if key[1] == "human:bob"]


async def shared_keys() -> JoinedKeys:
    """The keys of somebody who joined another team."""
    world = await World.founded(MemoryStore(), handle="eve", kind="team")
    await join(world.services, world.context, code=await invited(world), passphrase=BOBS)
    (row,) = world.tables().invites.values()
    assert row.joined is not None
    return row.joined


@pytest.mark.requirement("KEY-03")
async def test_a_host_cannot_make_an_invite_name_another_owner_id_or_end(shared: World) -> None:
    code = await invited(shared)
    (key,) = shared.tables().invites
    row = shared.tables().invites[key]
    for change in (
        {"offer": row.offer[:-1] + bytes([row.offer[-1] ^ 1])},
        {"principal": "human:eve"},
        {"expires_ms": row.expires_ms + 1},
        {"offer": b""},
    ):
        forged = replace(row, **change)
        shared.tamper(lambda tables, forged=forged: tables.invites.update({key: forged}))  # type: ignore[misc]  # a default
        with pytest.raises(NotFoundError):
            await join(shared.services, shared.context, code=code, passphrase=BOBS)
    assert not [each for each in shared.tables().wraps if each[1] != "human:owner"]


@pytest.mark.requirement("CTX-01", "CTX-08")
async def test_a_personal_context_takes_in_nobody(world: World) -> None:
    async with world.open() as session:
        with pytest.raises(ConflictError):
            await principals.invite(world.services, session, principal="human:bob", rights=MAIN)
        with pytest.raises(InvalidInputError):
            await principals.add_agent(world.services, session, agent="org:acme.example", rights=MAIN)


async def test_a_member_sets_a_new_passphrase_with_their_own_recovery_code(shared: World) -> None:
    code = await joined(shared)

    with pytest.raises(SignInError):
        await recover(
            shared.services,
            shared.context,
            recovery_code=shared.recovery_code,
            new_passphrase="other words here",
            principal="human:bob",
        )
    await recover(
        shared.services, shared.context, recovery_code=code, new_passphrase="other words here", principal="human:bob"
    )

    await sign_in(shared.services, shared.context, passphrase="other words here", principal="human:bob")
    await sign_in(shared.services, shared.context, passphrase=PASSPHRASE)
    async with shared.open():
        pass  # the owner's session is none of Bob's


# --------------------------------------------------------------------------------------------------------- what they do


async def test_a_member_acts_within_their_role_and_sees_their_own_apps_only(shared: World) -> None:
    await joined(shared)
    token = await sign_in(shared.services, shared.context, passphrase=BOBS, principal="human:bob")
    granted = await granted_by(shared, "bob", "memory:read", "profile.team:read")
    owners = await shared.grant("memory:read")

    async with open_session(shared.services, shared.context, token) as session:
        bob = Hand(shared.services, acting_as(session))
        with pytest.raises(ForbiddenError):
            await bob.patch({"name": "Ours"}, "profile.team")
        with pytest.raises(InvalidInputError):
            await create_grant(shared.services, session, client_name="Quill", scopes="profile.team:write")
        with pytest.raises(NotFoundError):
            await revoke_grant(shared.services, session, owners.grant_id)
        with pytest.raises(ForbiddenError):
            await set_extension(shared.services, session, "pcp.home", enabled=True)
        acts = (
            principals.everybody(shared.services, session),
            principals.invite(shared.services, session, principal="human:eve", rights=MAIN),
            principals.remove(shared.services, session, "human:owner"),
        )
        for act in acts:
            with pytest.raises(ForbiddenError):
                await act
        assert [each.grant_id for each in await list_grants(shared.services, session)] == [granted.grant_id]
        assert await principals.admit_joined(shared.services, session) == ()
    async with shared.open() as session:
        assert {each.grant_id for each in await list_grants(shared.services, session)} == {
            granted.grant_id, owners.grant_id
        }  # fmt: skip


@every_store
@pytest.mark.requirement("PROF-07")
async def test_a_member_who_was_there_before_reads_an_extension_that_is_turned_on_later(stored_world: World) -> None:
    world = await World.founded(stored_world.store, handle=f"{stored_world.context.handle}-team", kind="team")
    bob = await world.join("bob")
    await world.switch("pcp.finance")
    async with world.owner() as owner:
        await owner.patch({"currency": "EUR"}, "pcp.finance")
    granted = await world.grant("profile.finance:read", member=bob)
    async with world.client(granted) as client:
        finance = (await client.profiles()).by_namespace["pcp.finance"]
        assert finance is not None
        assert finance["currency"] == "EUR"
    async with world.open() as session:
        await lock_context(world.services, session)
    await world.sign_in()
    await world.switch("pcp.home")
    async with world.store.read() as tx:
        assert await tx.grants.principal_keyring(world.context_id, "human:bob") is None


@every_store
@pytest.mark.requirement("SCOPE-06")
async def test_an_agent_may_do_what_it_and_its_person_may_both(stored_world: World) -> None:
    one, two = await stored_world.partition("one"), await stored_world.partition("two")
    await add_agent(stored_world, {one: ("read",), two: RIGHTS})
    granted = await stored_world.grant(*DEFAULT_GRANT, agent="agent:scout")
    async with stored_world.owner() as owner:
        for partition in ("main", "one", "two"):
            await owner.write(f"in/{partition}", "leeks", partition=partition)

    async with stored_world.client(granted) as client:
        assert await client.paths() == ["in/one", "in/two"]
        with pytest.raises(ForbiddenError):
            await client.write("in/one", "no")
        await client.write("in/two", "yes")
        assert not any("main" in slot for slot, _, _ in client.who.keys._contents.keys)
    async with stored_world.open() as session:
        with pytest.raises(InvalidInputError):
            await principals.add_agent(stored_world.services, session, agent="agent:scout", rights={})
    assert stored_world.context.features == ("partitions", "delegation")


async def add_agent(world: World, rights: dict[str, Sequence[Right]]) -> None:
    held = {each: parse_rights(names) for each, names in rights.items()}
    async with world.open() as session:
        await principals.add_agent(world.services, session, agent="agent:scout", rights=held)
    await world.refresh()


@pytest.mark.requirement("SCOPE-06")
async def test_what_the_person_loses_the_agent_loses(shared: World) -> None:
    await joined(shared)
    await add_agent(shared, {"main": RIGHTS})
    granted = await granted_by(shared, "bob", *DEFAULT_GRANT[1:], agent="agent:scout")
    async with shared.owner() as owner:
        await owner.write("plan", "leeks")
    async with shared.client(granted) as client:
        assert await client.paths() == ["plan"]

    lists: dict[str, Sequence[Right]] = {"bob": ("propose",)}
    await shared.allow("main", **lists)

    async with shared.client(granted) as client:
        assert await client.paths() == []
        assert client.who.keys.readable_slots() == frozenset()


@pytest.mark.requirement("SCOPE-07", "MEM-09")
async def test_what_an_agent_writes_names_it_and_its_person_and_so_does_the_log(shared: World) -> None:
    await joined(shared)
    await add_agent(shared, {"main": RIGHTS})
    granted = await granted_by(shared, "bob", *DEFAULT_GRANT[1:], agent="agent:scout")

    async with shared.client(granted) as client:
        forged = {"principal": "human:owner", "on_behalf_of": "human:owner"}
        await client.write("found", "leeks", source=forged)
        await client.write("style/found", "leeks")
    entries = [entry for entry in await shared.entries() if entry.action == "memory_write"]
    async with shared.owner() as owner:
        pages = [await owner.read(path) for path in ("found", "style/found")]

    for page in pages:
        assert (page.source["principal"], page.source["on_behalf_of"]) == ("agent:scout", "human:bob")
    assert {(entry.principal, entry.on_behalf_of) for entry in entries} == {("agent:scout", "human:bob")}


@pytest.mark.requirement("SCOPE-06")
async def test_delegation_is_decided_from_the_signed_grant_and_nobody_can_claim_it(shared: World) -> None:
    await joined(shared)
    await add_agent(shared, {"main": RIGHTS})
    granted = await shared.grant(*DEFAULT_GRANT, agent="agent:scout")
    own = await shared.grant(*DEFAULT_GRANT)
    for each, change in (
        (granted, {"on_behalf_of": None}),
        (granted, {"on_behalf_of": "human:bob"}),
        (own, {"principal": "agent:scout", "on_behalf_of": "human:owner"}),
    ):
        key = (shared.context_id, each.grant_id)
        before = shared.tables().grants[key]
        forged = replace(before, **change)
        shared.tamper(lambda tables, key=key, forged=forged: tables.grants.update({key: forged}))  # type: ignore[misc]
        caller = await shared.caller(each)
        with pytest.raises(InvalidTokenError):
            async with acting(shared.services, caller):
                pass
        shared.tamper(lambda tables, key=key, before=before: tables.grants.update({key: before}))  # type: ignore[misc]
    async with shared.open() as session:
        with pytest.raises(InvalidInputError):
            await create_grant(shared.services, session, client_name="Quill", agent="agent:nobody")
        with pytest.raises(InvalidInputError):
            await create_grant(shared.services, session, client_name="Quill", agent="human:bob")


# ----------------------------------------------------------------------------------------------------------- going away


async def test_a_suspended_member_is_locked_out_at_once_and_gets_everything_back(shared: World) -> None:
    await joined(shared)
    token = await sign_in(shared.services, shared.context, passphrase=BOBS, principal="human:bob")
    granted = await granted_by(shared, "bob", "memory:read")
    profile = await granted_by(shared, "bob", "profile.team:read")

    async with shared.open() as session:
        await principals.suspend(shared.services, session, "human:bob")
        with pytest.raises(NotFoundError):
            await principals.suspend(shared.services, session, "human:bob")

    assert await role_of(shared, "human:bob") == SUSPENDED
    for each in (granted, profile):
        caller = await authenticate(shared.services, shared.context, each.token)
        assert isinstance(caller, LockedCaller)
        assert "suspended" in caller.message
    with pytest.raises(InvalidTokenError):
        async with open_session(shared.services, shared.context, token):
            pass
    with pytest.raises(LockedError, match="suspended"):
        await sign_in(shared.services, shared.context, passphrase=BOBS, principal="human:bob")

    async with shared.open() as session:
        await principals.resume(shared.services, session, "human:bob")
    assert await role_of(shared, "human:bob") == MEMBER
    await sign_in(shared.services, shared.context, passphrase=BOBS, principal="human:bob")
    for each in (granted, profile):
        async with shared.client(each) as client:
            assert client.who.keys.holder == each.grant_id


async def test_an_app_of_a_suspended_member_renews_its_tokens_opens_nothing_and_alarms_nobody(shared: World) -> None:
    await joined(shared)
    token = await sign_in(shared.services, shared.context, passphrase=BOBS, principal="human:bob")
    async with open_session(shared.services, shared.context, token) as session:
        made = await create_grant(
            shared.services, session, client_name="Quill", scopes="memory:read offline_access", agent=None
        )
    assert made.refresh is not None
    refresh = {"grant_type": "refresh_token", "client_id": made.client_id, "refresh_token": made.refresh.text()}

    async with shared.open() as session:
        await principals.suspend(shared.services, session, "human:bob")
    renewed = await exchange(
        shared.services, shared.context, Params(refresh.items()), mcp_url="https://pcp.example/mcp"
    )

    assert isinstance(renewed, IssuedTokens)
    text = renewed.access.text()
    assert isinstance(await authenticate(shared.services, shared.context, text), LockedCaller)
    assert "tampering.found" not in [entry.action for entry in await shared.entries()]
    async with shared.open() as session:
        await principals.resume(shared.services, session, "human:bob")
    caller = await authenticate(shared.services, shared.context, text)
    assert isinstance(caller, Caller)
    async with acting(shared.services, caller) as who:
        assert who.scopes == {"memory:read", "offline_access"}


@every_store
@pytest.mark.requirement("CTX-07", "KEY-08", "KEY-12", "AUD-05")
async def test_a_removal_ends_keys_sessions_grants_and_delegation_in_one_step(stored_world: World) -> None:
    bob = await stored_world.join("bob", {"main": RIGHTS})
    await add_agent(stored_world, {"main": RIGHTS})
    granted = await stored_world.grant(*DEFAULT_GRANT, member=bob)
    delegated = await stored_world.grant(*DEFAULT_GRANT, member=bob, agent="agent:scout")
    others = await stored_world.grant(*DEFAULT_GRANT, agent="agent:scout")

    async with stored_world.open() as session:
        await principals.remove(stored_world.services, session, "human:bob")
        roster = session.keyring.roster

    assert (roster.principal("human:bob"), roster.removed) == (None, ("human:bob",))
    assert not any("human:bob" in people for people in roster.access.values())
    for each in (granted, delegated):
        with pytest.raises(InvalidTokenError):
            await authenticate(stored_world.services, stored_world.context, each.token)
    async with stored_world.store.read() as tx:
        for kind in ("passphrase", "recovery"):
            assert await tx.credentials.wrap(stored_world.context_id, "human:bob", kind) is None
        assert await tx.grants.principal_keyring(stored_world.context_id, "human:bob") is None
        for each in (granted, delegated):
            assert await tx.grants.keyring(stored_world.context_id, "grant", each.grant_id, 1) is None
    async with stored_world.client(others) as client:
        assert await client.paths() == []
    actions = [entry.action for entry in await stored_world.entries()][-4:]
    assert sorted(actions) == ["grant.revoked", "grant.revoked", "memory_list", "principal.removed"]


@pytest.mark.requirement("CTX-07")
async def test_a_removal_that_cannot_be_recorded_removes_nothing(shared: World) -> None:
    await joined(shared)
    async with shared.open() as session:
        before = session.keyring.roster.version
    shared.tamper(lambda tables: tables.heads.pop(shared.context_id))

    async with shared.open() as session:
        with pytest.raises(NotFoundError):
            await principals.remove(shared.services, session, "human:bob")
    async with shared.open() as session:
        assert session.keyring.roster.version == before
    assert [key for key in shared.tables().wraps if key[1] == "human:bob"]


@pytest.mark.requirement("CTX-07", "SCOPE-06")
async def test_removing_an_agent_ends_every_delegation_to_it(shared: World) -> None:
    await joined(shared)
    await add_agent(shared, {"main": RIGHTS})
    grants = [
        await shared.grant("memory:read", agent="agent:scout"),
        await granted_by(shared, "bob", "memory:read", agent="agent:scout"),
    ]
    own = await granted_by(shared, "bob", "memory:read")

    async with shared.open() as session:
        await principals.remove(shared.services, session, "agent:scout")
    await shared.refresh()

    for each in grants:
        with pytest.raises(InvalidTokenError):
            await authenticate(shared.services, shared.context, each.token)
    async with shared.client(own) as client:
        assert await client.paths() == []
    assert shared.context.features == ()
    assert await role_of(shared, "agent:scout") != AGENT


async def test_the_controller_is_neither_suspended_nor_removed_and_nobody_else_is_found(shared: World) -> None:
    async with shared.open() as session:
        for act in (principals.suspend, principals.remove):
            with pytest.raises(ForbiddenError):
                await act(shared.services, session, "human:owner")
            with pytest.raises(NotFoundError):
                await act(shared.services, session, "human:nobody")
        with pytest.raises(NotFoundError):
            await principals.resume(shared.services, session, "human:nobody")


async def test_a_partitions_last_reader_is_not_suspended_or_removed(shared: World) -> None:
    garden = await shared.partition("garden")
    await joined(shared, rights={garden: frozenset(RIGHTS)})
    await shared.allow(garden, owner=(), bob=RIGHTS)

    async with shared.open() as session:
        for act in (principals.suspend, principals.remove):
            with pytest.raises(InvalidInputError):
                await act(shared.services, session, "human:bob")
    assert await role_of(shared, "human:bob") == MEMBER


@pytest.mark.parametrize("end", [principals.remove, principals.suspend])
async def test_what_a_member_left_in_quarantine_is_let_in_before_they_go(
    shared: World, end: Callable[[Services, OpenSession, str], Awaitable[None]]
) -> None:
    await joined(shared)
    granted = await granted_by(shared, "bob", "memory:read", "memory:write")
    async with shared.client(granted) as client:
        await client.write("theirs", "leeks", sensitivity="sensitive")

    async with shared.open() as session:
        await end(shared.services, session, "human:bob")

    async with shared.owner() as owner:
        page = await owner.read("theirs")
    assert (page.body, page.source["principal"]) == ("leeks", "human:bob")


# ------------------------------------------------------------------------------------------------------- a hostile host


@pytest.mark.requirement("CTX-07", "KEY-08")
async def test_a_host_that_puts_back_everything_of_a_removed_member_is_refused(shared: World) -> None:
    await joined(shared)
    granted = await granted_by(shared, "bob", "memory:read")
    token = await sign_in(shared.services, shared.context, passphrase=BOBS, principal="human:bob")
    old = shared.tables()
    async with shared.open() as session:
        await principals.remove(shared.services, session, "human:bob")
    await shared.sign_in()

    def put_back(tables: _Tables) -> None:
        tables.wraps |= old.wraps
        tables.sessions |= old.sessions
        # All keys have changed since: a keyring of before is not even looked at unless it claims to be of now.
        for (context_id, kind, holder, _), row in old.keyrings.items():
            tables.keyrings.setdefault((context_id, kind, holder, 2), replace(row, epoch=2))
        tables.grants |= old.grants
        tables.tokens |= old.tokens

    shared.tamper(put_back)
    with pytest.raises(SignInError):
        await sign_in(shared.services, shared.context, passphrase=BOBS, principal="human:bob")
    with pytest.raises(InvalidTokenError):
        async with open_session(shared.services, shared.context, token):
            pass
    with pytest.raises(InvalidTokenError):
        async with acting(shared.services, await shared.caller(granted)):
            pass
    assert [entry.outcome for entry in await shared.entries() if entry.action == "tampering.found"] == [
        Outcome.ERROR
    ] * 3


@pytest.mark.requirement("KEY-03")
async def test_whoever_came_later_refuses_a_roster_from_before(shared: World) -> None:
    await joined(shared)
    old = shared.tables().rosters
    async with shared.open() as session:
        await principals.remove(shared.services, session, "human:bob")
    later = await shared.grant(*EVERYTHING[2:])
    await shared.sign_in()

    def show_the_state_before(tables: _Tables) -> None:
        tables.rosters.update(old)
        for (context_id, kind, holder, _), row in list(tables.keyrings.items()):
            tables.keyrings[context_id, kind, holder, 1] = replace(row, epoch=1)

    shared.tamper(show_the_state_before)

    with pytest.raises(InvalidTokenError):
        async with acting(shared.services, await shared.caller(later)):
            pass
    with pytest.raises(InvalidTokenError):
        async with shared.open():
            pass


@pytest.mark.requirement("KEY-03")
async def test_a_suspended_members_old_keyring_opens_nothing_when_it_is_put_back(shared: World) -> None:
    await joined(shared)
    granted = await granted_by(shared, "bob", "memory:read")
    old = shared.tables().keyrings
    async with shared.open() as session:
        await principals.suspend(shared.services, session, "human:bob")

    shared.tamper(lambda tables: tables.keyrings.update(old))

    with pytest.raises(SignInError):
        await sign_in(shared.services, shared.context, passphrase=BOBS, principal="human:bob")
    with pytest.raises(InvalidTokenError):
        async with acting(shared.services, await shared.caller(granted)):
            pass
