"""Profiles from patch to stored row and back (PCP §4)."""

from __future__ import annotations

import pytest

from tests.flows.usecase_support import EVERYTHING, MINUTE_MS, World, each_store, every_store
from zkpcp.core.instants import to_rfc3339
from zkpcp.core.schemas import JsonValue
from zkpcp.errors import ForbiddenError, InvalidInputError
from zkpcp.testing import MemoryStore
from zkpcp.vault import records


@every_store
@pytest.mark.requirement("PROF-01", "PROF-03", "PROF-05")
async def test_patches_merge_into_a_valid_profile_and_an_empty_one_is_null(stored_world: World) -> None:
    granted = await stored_world.grant(*EVERYTHING)

    async with stored_world.client(granted) as client:
        assert (await client.profiles()).by_namespace == {"profile.core": None}
        first = await client.patch({"name": "Ada Reed", "interests": ["herons", "ferries"]})
        second = await client.patch({"interests": ["weirs"], "pronouns": "she/her", "locale": None})
        stored = (await client.profiles()).by_namespace["profile.core"]
        gone = await client.patch({"name": None, "interests": None, "pronouns": None})
        empty = await client.profiles()
        again = await client.patch({"name": "Ada Reed"})

    assert first.members == ("/interests", "/name")
    assert second.members == ("/interests", "/pronouns")
    assert stored == second.profile
    assert stored is not None
    assert (stored["name"], stored["interests"], stored["updated"]) == ("Ada Reed", ["weirs"], second.updated)
    assert stored_world.schemas.violations("0.3/profile.core", stored) == ()
    assert (gone.profile, empty.by_namespace) == (None, {"profile.core": None})
    assert again.profile == {"pcp_version": "0.3", "name": "Ada Reed", "updated": again.updated}
    assert first.updated < second.updated < gone.updated < again.updated


@each_store
@pytest.mark.requirement("PROF-03", "PROF-08")
async def test_an_invalid_result_changes_nothing_and_says_what_is_wrong(stored_world: World) -> None:
    granted = await stored_world.grant(*EVERYTHING)
    bad: dict[str, JsonValue] = {
        "/name": {"name": None},
        "/locale": {"locale": 7},
        "": {"shoe_size": 44},
        "/interests/0": {"interests": [1]},
    }

    async with stored_world.client(granted) as client:
        await client.patch({"name": "Ada Reed", "pronouns": "she/her"})
        before = (await client.profiles()).by_namespace
        for path, patch in bad.items():
            with pytest.raises(InvalidInputError) as refused:
                await client.patch(patch)
            assert path in [violation.path for violation in refused.value.violations]
            assert "Ada" not in str(refused.value.violations)
        with pytest.raises(InvalidInputError):
            await client.patch(["not an object"])
        for namespace in ("profile.team", "pcp.health", "pcp.unheard-of"):
            with pytest.raises(InvalidInputError):
                await client.patch({"name": "Ada"}, namespace)

        assert (await client.profiles()).by_namespace == before
    async with stored_world.store.read() as tx:
        assert len(await tx.profiles.changes(stored_world.context_id, "profile.core", 10)) == 1


@each_store
@pytest.mark.requirement("PROF-04")
async def test_every_update_appends_who_when_and_which_members_to_the_change_log(stored_world: World) -> None:
    granted = await stored_world.grant(*EVERYTHING, client_id="cli_nib")
    async with stored_world.client(granted) as client:
        by_client = await client.patch({"name": "Ada Reed"})
    stored_world.clock.advance(MINUTE_MS)

    async with stored_world.owner() as owner:
        by_owner = await owner.patch({"pronouns": "she/her", "name": "Ada Reed"})
        async with stored_world.store.read() as tx:
            rows = await tx.profiles.changes(stored_world.context_id, "profile.core", 10)
        members = [records.open_change(owner.who.keys, row) for row in rows]

    assert [(row.version, row.principal, row.client) for row in rows] == [
        (2, "human:owner", None),
        (1, "human:owner", "cli_nib"),
    ]
    assert [to_rfc3339(row.at_ms) for row in rows] == [by_owner.updated, by_client.updated]
    assert members == [("/pronouns",), ("/name",)]


@pytest.mark.requirement("SCOPE-01")
async def test_reading_and_changing_the_profile_are_two_scopes(world: World) -> None:
    reader = await world.grant("profile.core:read")
    writer = await world.grant("profile.core:write")
    neither = await world.grant("memory:read", "memory:write")

    async with world.client(writer) as client:
        changed = await client.patch({"name": "Ada Reed"})
        with pytest.raises(ForbiddenError) as refused:
            await client.profiles()
        assert refused.value.required_scopes == ("profile.core:read",)
        # No :write implies a :read, so the answer says that something changed and not into what.
        assert (changed.profile, changed.members) == (None, ("/name",))
    for granted in (reader, neither):
        async with world.client(granted) as client:
            with pytest.raises(ForbiddenError) as refused:
                await client.patch({"name": "Eve"})
            assert refused.value.required_scopes == ("profile.core:write",)
    async with world.client(reader) as client:
        profile = (await client.profiles()).by_namespace["profile.core"]

    assert profile is not None
    assert profile["name"] == "Ada Reed"


@pytest.mark.requirement("SCOPE-01", "TOOL-10")
async def test_a_patch_tells_one_who_may_not_read_nothing_of_what_is_there(world: World) -> None:
    whole = await world.grant("profile.core:read", "profile.core:write", "audit:read")
    writer = await world.grant("profile.core:write", "audit:read")
    async with world.client(whole) as client:
        await client.patch({"name": "Ada Reed", "pronouns": "she/her"})
    guesses: list[JsonValue] = [{"pronouns": "she/her"}, {"pronouns": "they/them"}, {"pronouns": None}]

    answers = []
    async with world.client(writer) as client:
        for guess in guesses:
            changed = await client.patch(guess)
            answers.append((changed.profile, changed.members, (await world.last_entry()).counts))
        same = await client.patch({"name": "Ada Reed", "updated": "2020-01-01T00:00:00Z"})

    assert answers == [(None, ("/pronouns",), {"members": 1})] * 3
    assert same.members == ("/name",)
    async with world.client(whole) as client:
        assert (await client.patch({"name": "Ada Reed"})).members == ()


@pytest.mark.requirement("PROF-01", "PROF-03")
async def test_a_time_zone_that_is_set_is_one_there_is(world: World) -> None:
    async with world.client(await world.grant("profile.core:read", "profile.core:write")) as client:
        await client.patch({"name": "Ada Reed", "timezone": "Europe/Lisbon"})
        for zone in ("Europe/Lisbonne", "europe/lisbon", "Mars/Olympus_Mons", "localtime"):
            with pytest.raises(InvalidInputError) as refused:
                await client.patch({"timezone": zone})
            assert [violation.path for violation in refused.value.violations] == ["/timezone"]
            assert zone not in str(refused.value.violations)
        profile = (await client.profiles()).by_namespace["profile.core"]

    assert profile is not None
    assert profile["timezone"] == "Europe/Lisbon"


@pytest.mark.requirement("PROF-02")
async def test_a_team_has_a_team_profile_and_none_of_a_person() -> None:
    world = await World.founded(MemoryStore(), kind="team")
    granted = await world.grant("profile.team:read", "profile.team:write", "profile.core:read", "profile.core:write")

    async with world.client(granted) as client:
        changed = await client.patch({"name": "Harbor watch", "purpose": "Keep the lights on"})
        profiles = await client.profiles()
        with pytest.raises(InvalidInputError):
            await client.patch({"name": "Ada"}, "profile.core")

    assert client.who.scopes == {"profile.team:read", "profile.team:write"}
    assert profiles.by_namespace == {"profile.team": changed.profile}
    assert changed.profile is not None
    assert world.schemas.violations("0.3/profile.team", changed.profile) == ()
