"""The grant of a program on this computer: begun with the passphrase, renewed without it, ended with the program."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.flows.usecase_support import HOUR_MS, MINUTE_MS, PASSPHRASE, World
from zkpcp.errors import InvalidInputError, InvalidTokenError, SignInError
from zkpcp.stdio.connection import Connection
from zkpcp.stdio.programs import LockedFiles
from zkpcp.usecases import local
from zkpcp.usecases.access import Caller, authenticate
from zkpcp.usecases.grants import HeadlessGrant

URL = "http://127.0.0.1:8765/c/ada/mcp"
SCOPES = "memory:read memory:write"


@dataclass
class Running:
    """Programs that a test starts and stops."""

    grants: set[str] = field(default_factory=set)

    def claim(self, grant_id: str) -> None:
        self.grants.add(grant_id)

    def is_running(self, grant_id: str) -> bool:
        return grant_id in self.grants


async def begun(world: World, programs: local.Programs, *, name: str = "editor", scopes: str = SCOPES) -> HeadlessGrant:
    async with local.approved(world.services, "ada", PASSPHRASE) as owner:
        return await local.begin(world.services, owner, programs, client_name=name, scopes=scopes)


def connection(world: World, made: HeadlessGrant) -> Connection:
    return Connection(world.services, world.context, made, mcp_url=URL)


async def active(world: World) -> set[str]:
    async with world.store.read() as tx:
        return {grant.grant_id for grant in await tx.grants.list_grants(world.context_id)}


@pytest.mark.requirement("AUTH-43")
async def test_the_configured_scopes_become_a_grant_that_the_log_tells_of(world: World) -> None:
    made = await begun(world, Running())

    entries = {entry.action: entry for entry in await world.entries() if entry.grant == made.grant_id}
    async with world.store.read() as tx:
        client = await tx.grants.client(world.context_id, made.client_id)
    assert made.scopes == ("memory:read", "memory:write", "offline_access")
    assert client is not None
    assert (client.name, client.source) == ("editor", "local")
    assert entries.keys() == {"grant.created", "token.issued"}
    assert entries["grant.created"].principal == world.context.controller


@pytest.mark.requirement("AUTH-43", "AUTH-40")
async def test_nothing_is_granted_without_the_passphrase_or_for_scopes_that_do_not_exist(world: World) -> None:
    with pytest.raises(SignInError):
        async with local.approved(world.services, "ada", "another long passphrase"):
            pass
    with pytest.raises(SignInError):
        async with local.approved(world.services, "nobody", PASSPHRASE):
            pass
    for name, scopes in (("editor", "memory:everything"), ("editor", "offline_access"), ("\u200b", SCOPES)):
        with pytest.raises(InvalidInputError):
            await begun(world, Running(), name=name, scopes=scopes)

    assert await active(world) == set()


@pytest.mark.requirement("AUTH-30", "AUTH-31", "AUTH-43")
async def test_tokens_are_renewed_before_they_run_out_and_after_a_long_sleep(world: World) -> None:
    ours = connection(world, await begun(world, Running()))
    seen = []
    for minutes in (0, 54, 2, 4, 52, 60 * 24 * 30):
        world.clock.advance(minutes * MINUTE_MS)
        context, token = await ours.access()
        assert isinstance(await authenticate(world.services, context, token), Caller)
        seen.append(token)

    assert [seen.index(token) for token in seen] == [0, 0, 2, 2, 4, 5]


@pytest.mark.requirement("AUTH-43", "KEY-08")
async def test_after_its_end_a_grant_gives_no_token_and_the_last_one_opens_nothing(world: World) -> None:
    made = await begun(world, Running())
    ours = connection(world, made)
    context, token = await ours.access()

    await local.end(world.services, world.context_id, made.grant_id)

    with pytest.raises(InvalidTokenError):
        await authenticate(world.services, context, token)
    world.clock.advance(2 * HOUR_MS)
    with pytest.raises(InvalidTokenError):
        await ours.access()
    await ours.end()
    assert [entry.action for entry in await world.entries()].count("grant.revoked") == 1


@pytest.mark.requirement("AUTH-43")
async def test_a_client_that_starts_ends_what_its_dead_programs_left_and_nothing_else(world: World) -> None:
    programs = Running()
    dead, alive = await begun(world, programs), await begun(world, programs)
    programs.grants.discard(dead.grant_id)
    other = await begun(world, programs, name="another")
    programs.grants.discard(other.grant_id)
    browser = await world.grant("memory:read")

    following = await begun(world, programs)

    assert dead.client_id == alive.client_id == following.client_id != other.client_id
    assert await active(world) == {alive.grant_id, other.grant_id, browser.grant_id, following.grant_id}


def test_a_claim_holds_until_it_is_released_and_leaves_no_file(tmp_path: Path) -> None:
    ours, others = LockedFiles(tmp_path / "stdio"), LockedFiles(tmp_path / "stdio")

    ours.claim("grt_1")
    while_held = others.is_running("grt_1")
    ours.release()

    assert while_held
    assert not others.is_running("grt_1")
    assert list((tmp_path / "stdio").iterdir()) == []


def test_a_grant_id_of_the_database_chooses_no_path(tmp_path: Path) -> None:
    victim = tmp_path / "victim.lock"
    victim.touch()

    assert not LockedFiles(tmp_path / "stdio").is_running("../victim")
    assert victim.exists()
