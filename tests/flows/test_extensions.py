"""Extensions from the owner's switch to the tools, discovery and the access log (PCP §4.6)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.contract.rows import authorization, client
from tests.flows.support_mcp import ask
from tests.flows.tools_support import ERAS, SITE, Doors, paths
from tests.flows.usecase_support import EVERYTHING, World, each_store
from zkpcp.core.audit import Action, Channel, to_json
from zkpcp.core.discovery import context_document
from zkpcp.core.extensions import HANDOFF, KNOWN
from zkpcp.core.schemas import JsonObject
from zkpcp.errors import ForbiddenError, InvalidInputError, NotFoundError
from zkpcp.http.oauth.views import consent_view
from zkpcp.schema_files import load_schemas
from zkpcp.testing import MemoryStore
from zkpcp.usecases.extensions import choices, set_extension
from zkpcp.usecases.profile import get_profiles

HEALTH: JsonObject = {"blood_type": "0-", "conditions": [{"name": "hay fever"}]}
NAMESPACES = [extension.id for extension in KNOWN.values() if extension.is_profile]


@pytest.fixture
async def doors() -> Doors:
    return await Doors.opened()


async def tool_names(doors: Doors, *scopes: str) -> set[str]:
    granted = await doors.grant(*scopes)
    lists = [reply.json()["result"]["tools"] for reply in (await doors.ask(granted, "tools/list")).values()]
    assert lists[0] == lists[1]
    return {tool["name"] for tool in lists[0]}


# ----------------------------------------------------------------------------------------------------- on and off


@each_store
@pytest.mark.requirement("PROF-07", "AUD-05")
async def test_each_extension_is_turned_on_and_off_by_itself_and_each_time_is_logged(stored_world: World) -> None:
    for extension in KNOWN.values():
        before = set(stored_world.context.extensions)
        await stored_world.switch(extension.id)
        assert set(stored_world.context.extensions) == before | {extension.id}
        entry = await stored_world.last_entry()
        assert (entry.action, entry.channel, entry.principal) == (
            Action.EXTENSION_ENABLED,
            Channel.MANAGEMENT,
            "human:owner",
        )
        assert entry.categories == (extension.stem,)
        assert stored_world.schemas.violations("0.3/audit.entry", to_json(entry)) == ()
    entries = len(await stored_world.entries())
    await stored_world.switch("pcp.home")
    assert len(await stored_world.entries()) == entries

    await stored_world.switch("pcp.home", on=False)

    assert set(stored_world.context.extensions) == KNOWN.keys() - {"pcp.home"}
    assert (await stored_world.last_entry()).action == Action.EXTENSION_DISABLED


@pytest.mark.requirement("PROF-08")
async def test_only_what_is_known_or_registered_can_be_turned_on_and_by_the_controller_only(world: World) -> None:
    for name in ("pcp.pets", "com.example.pets", "profile.core", ""):
        with pytest.raises(NotFoundError):
            await world.switch(name)
    async with world.open() as session:
        assert [choice.extension.id for choice in choices(world.services, session)] == [*KNOWN]
        with pytest.raises(ForbiddenError):
            await set_extension(world.services, replace(session, principal="human:guest"), "pcp.home", enabled=True)

    assert world.context.extensions == ()


@pytest.mark.requirement("PROF-07", "TOOL-15")
async def test_discovery_names_the_extensions_that_are_on_and_no_other(world: World) -> None:
    off = context_document(SITE.facts(world.context))
    await world.switch("pcp.health", HANDOFF)
    on = context_document(SITE.facts(world.context))

    assert (off["profile_extensions"], off["features"]) == ([], [])
    assert (on["profile_extensions"], on["features"]) == (["pcp.health", HANDOFF], ["extensions"])
    assert world.schemas.violations("0.3/discovery", on) == ()


# ------------------------------------------------------------------------------------------------------- the tools


@pytest.mark.requirement("PROF-03", "PROF-06")
async def test_an_extension_is_read_and_changed_under_its_own_scopes(doors: Doors) -> None:
    await doors.switch(*NAMESPACES)
    full = await doors.grant("profile.core:read", "profile.core:write", "profile.health:read", "profile.health:write")
    core = await doors.grant("profile.core:read", "profile.core:write")
    home = await doors.grant("profile.home:read")

    await doors.done(full, "profile_update", {"patch": {"name": "Ada Reed"}})
    changed = await doors.done(full, "profile_update", {"namespace": "pcp.health", "patch": HEALTH})
    seen = await doors.done(full, "profile_get", {})
    only = await doors.done(full, "profile_get", {"namespaces": ["pcp.health"]})
    entries = await doors.last_entries()

    assert changed["profile"] == {"pcp_version": "0.3", **HEALTH, "updated": changed["updated"]}
    assert changed["changed"] == ["/blood_type", "/conditions"]
    assert (seen["profile"]["name"], seen["extensions"]) == ("Ada Reed", {"pcp.health": changed["profile"]})
    assert (only["profile"], only["extensions"]) == (None, {"pcp.health": changed["profile"]})
    assert {entry.categories for entry in entries} == {("profile.health",)}
    assert (await doors.done(core, "profile_get", {}))["extensions"] == {}
    assert (await doors.done(home, "profile_get", {})) == {
        "profile": None,
        "team": None,
        "extensions": {"pcp.home": None},
    }
    for namespaces in (["pcp.health"], ["pcp.health", "pcp.legal"]):
        error = await doors.refused(core, "profile_get", {"namespaces": [*namespaces]})
        assert error["code"] == "forbidden"
        assert error["required_scopes"][0] == "profile.health:read"
    error = await doors.refused(core, "profile_update", {"namespace": "pcp.health", "patch": HEALTH})
    assert (error["code"], error["required_scopes"]) == ("forbidden", ["profile.health:write"])
    error = await doors.refused(full, "profile_update", {"namespace": "pcp.health", "patch": {"blood_type": "C"}})
    assert (error["code"], paths(error)) == ("invalid_input", ["/blood_type"])


@pytest.mark.requirement("PROF-06")
async def test_no_call_under_the_core_scopes_returns_a_word_of_an_extension(doors: Doors) -> None:
    await doors.switch(*KNOWN)
    full = await doors.grant("profile.health:write", "ext.handoff:write")
    core = await doors.grant(*EVERYTHING)
    await doors.done(full, "profile_update", {"namespace": "pcp.health", "patch": {"emergency_notes": "zebrafinch"}})
    await doors.done(full, "handoff_write", {"title": "zebrafinch", "content": "zebrafinch"})

    calls: list[tuple[str, JsonObject]] = [
        ("profile_get", {}),
        ("context_brief", {}),
        ("memory_search", {"query": "zebrafinch"}),
        ("audit_list", {}),
        ("profile_update", {"patch": {"name": "Ada Reed"}}),
    ]
    for tool, arguments in calls:
        assert b"zebrafinch" not in orjson.dumps(await doors.call(core, tool, arguments)), tool


@pytest.mark.requirement("SCOPE-01")
async def test_writing_an_extension_does_not_imply_reading_it(doors: Doors) -> None:
    await doors.switch("pcp.health")
    writer = await doors.grant("profile.health:write")

    changed = await doors.done(writer, "profile_update", {"namespace": "pcp.health", "patch": HEALTH})

    assert (changed["profile"], changed["changed"]) == (None, ["/blood_type", "/conditions"])
    for era in ERAS:
        params: JsonObject = {"name": "profile_get", "arguments": {"namespaces": ["pcp.health"]}}
        reply = await ask(doors.apps[era], era, "tools/call", params, token=writer[era].token)
        assert reply.status == 403


@pytest.mark.requirement("PROF-07")
async def test_an_extension_that_is_off_is_not_served_and_its_data_is_kept(doors: Doors) -> None:
    await doors.switch("pcp.health", HANDOFF)
    scopes = (
        "profile.core:read",
        "profile.core:write",
        "profile.health:read",
        "profile.health:write",
        "ext.handoff:read",
    )
    granted = await doors.grant(*scopes)
    stored = (await doors.done(granted, "profile_update", {"namespace": "pcp.health", "patch": HEALTH}))["profile"]
    assert "handoff_list" in await tool_names(doors, *scopes)

    await doors.switch("pcp.health", HANDOFF, on=False)

    assert (await doors.done(granted, "profile_get", {}))["extensions"] == {}
    assert paths(await doors.refused(granted, "profile_get", {"namespaces": ["pcp.health"]})) == ["/namespaces"]
    off: JsonObject = {"namespace": "pcp.health", "patch": HEALTH}
    assert paths(await doors.refused(granted, "profile_update", off)) == ["/namespace"]
    assert "handoff_list" not in await tool_names(doors, *scopes)
    for era in ERAS:
        params: JsonObject = {"name": "handoff_list", "arguments": {}}
        reply = await ask(doors.apps[era], era, "tools/call", params, token=granted[era].token)
        assert reply.json()["error"]["message"] == "there is no such tool"
        assert "www-authenticate" not in reply.headers
        async with doors.worlds[era].owner() as owner:
            assert (await get_profiles(owner.services, owner.who)).by_namespace.keys() == {"profile.core"}
        async with doors.worlds[era].store.read() as tx:
            assert await tx.profiles.profile(doors.worlds[era].context_id, "pcp.health") is not None
    await doors.switch("pcp.health")
    assert (await doors.done(granted, "profile_get", {}))["extensions"] == {"pcp.health": stored}


@pytest.mark.requirement("TOOL-11")
async def test_the_brief_says_which_extensions_are_on_and_how_to_get_at_them(doors: Doors) -> None:
    await doors.switch("pcp.health", "pcp.home", HANDOFF)
    granted = await doors.grant(*EVERYTHING, "profile.home:read", "ext.handoff:read")

    left_out: list[dict[str, Any]] = (await doors.done(granted, "context_brief", {}))["left_out"]

    assert {item["what"]: item["required_scopes"] for item in left_out} == {
        "health, if any": ["profile.health:read"],
        "home, if any: use profile_get with namespace pcp.home": [],
        "hand-offs, if any: use handoff_list": [],
    }


@pytest.mark.requirement("PROF-02", "AUTH-36")
async def test_a_team_is_asked_for_the_scopes_of_its_own_profile() -> None:
    doors = await Doors.opened("team")
    granted = await doors.grant("memory:read")
    for era in ERAS:
        calls: list[tuple[str, JsonObject, str]] = [
            ("profile_get", {}, "profile.team:read"),
            ("profile_update", {"patch": {}}, "profile.team:write"),
        ]
        for tool, arguments, scope in calls:
            params: JsonObject = {"name": tool, "arguments": arguments}
            reply = await ask(doors.apps[era], era, "tools/call", params, token=granted[era].token)
            assert reply.status == 403
            assert f'scope="{scope}"' in reply.challenge


@pytest.mark.requirement("PROF-02", "PROF-03", "PROF-04", "PROF-05")
async def test_a_team_profile_lives_through_the_tools() -> None:
    doors = await Doors.opened("team")
    granted = await doors.grant("profile.team:read", "profile.team:write")
    patch: JsonObject = {"name": "Harbor watch", "members": [{"principal": "human:ada", "role": "keeper"}]}

    assert (await doors.done(granted, "profile_get", {})) == {"profile": None, "team": None, "extensions": {}}
    changed = await doors.done(granted, "profile_update", {"patch": patch})
    error = await doors.refused(granted, "profile_update", {"patch": {"members": [{"principal": "ada"}]}})
    seen = await doors.done(granted, "profile_get", {})

    assert paths(error) == ["/members/0/principal"]
    assert (seen["profile"], seen["team"]) == (None, changed["profile"])
    assert doors.worlds["modern"].schemas.violations("0.3/profile.team", seen["team"]) == ()
    for world in doors.worlds.values():
        async with world.store.read() as tx:
            (row,) = await tx.profiles.changes(world.context_id, "profile.team", 10)
        assert (row.principal, row.client) == ("human:owner", "cli_quill")


# -------------------------------------------------------------------------------------------------- somebody else's


@pytest.mark.requirement("PROF-07", "PROF-08")
async def test_a_registered_namespace_is_served_and_without_its_schema_takes_nothing_new(tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {"pcp_version": {}, "updated": {}, "pets": {"type": "array"}},
        "additionalProperties": False,
    }
    tmp_path.joinpath("com.example.pets.schema.json").write_bytes(orjson.dumps(schema))
    plain = await World.founded(MemoryStore())
    world = replace(plain, services=replace(plain.services, schemas=load_schemas(tmp_path)))
    await world.switch("com.example.pets")
    granted = await world.grant("profile.com.example.pets:read", "profile.com.example.pets:write")

    async with world.client(granted) as client:
        changed = await client.patch({"pets": ["Tilly"]}, "com.example.pets")
        seen = await client.profiles()
    without = replace(world, services=plain.services)
    async with without.client(granted) as client:
        assert await client.profiles() == seen
        with pytest.raises(InvalidInputError):
            await client.patch({"pets": []}, "com.example.pets")

    assert seen.by_namespace == {"com.example.pets": changed.profile}


# ----------------------------------------------------------------------------------------------------- the log


@pytest.mark.requirement("AUD-06")
async def test_a_reader_of_the_log_sees_no_category_of_an_extension_that_is_closed_to_it(doors: Doors) -> None:
    await doors.switch("pcp.health", HANDOFF)
    full = await doors.grant("profile.health:write", "ext.handoff:write", "ext.handoff:read")
    await doors.done(full, "profile_update", {"namespace": "pcp.health", "patch": HEALTH})
    await doors.done(full, "handoff_write", {"title": "Boat", "content": "Paint the hull."})
    reader = await doors.grant("audit:read", "ext.handoff:read")

    listed = (await doors.done(reader, "audit_list", {}))["entries"]
    by_action = {entry["action"]: entry for entry in listed}

    assert (by_action["profile_update"]["categories"], by_action["profile_update"]["counts"]) == ([], {})
    assert by_action["handoff_write"]["categories"] == ["ext.handoff"]
    assert len(by_action["handoff_write"]["object_ids"]) == 1
    assert {tuple(entry["categories"]) for entry in listed if entry["action"] == "extension.enabled"} == {
        (),
        ("ext.handoff",),
    }
    assert (await doors.done(reader, "audit_list", {"category": "profile.health"}))["entries"] == []


# ----------------------------------------------------------------------------------------------------- consent


@pytest.mark.requirement("AUTH-39")
async def test_consent_shows_what_is_on_special_ones_unticked_and_names_those_not_asked_for(world: World) -> None:
    pending = authorization(scopes=("profile.home:read", "profile.health:read", "memory:read"))
    off = consent_view(world.context, client(), pending, account="human:owner", request_secret="s", action_url="/x")
    await world.switch("pcp.health", "pcp.home", "pcp.residency")
    on = consent_view(world.context, client(), pending, account="human:owner", request_secret="s", action_url="/x")

    assert [item.scope for item in off.items] == ["memory:read"]
    ticked = {item.scope: (item.preticked, item.sensitive) for item in on.items}
    assert ticked == {
        "profile.home:read": (True, False),
        "profile.health:read": (False, True),
        "memory:read": (True, False),
    }
    assert KNOWN["pcp.residency"].read in on.not_requested
    assert KNOWN["pcp.health"].write in on.not_requested
    assert not any("residency" in sentence for sentence in off.not_requested)
