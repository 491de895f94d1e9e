"""The first look: what fits of a context, and what was left out (TOOL-11)."""

from __future__ import annotations

from itertools import chain, combinations

import pytest

from tests.flows.usecase_support import DEFAULT_GRANT, EVERYTHING, World, each_store
from zkpcp.core.schemas import canonical_json
from zkpcp.usecases.brief import MOST_PAGES, Brief


def size_of(result: Brief) -> int:
    profile = 0 if result.profile is None else len(canonical_json(result.profile).decode())
    return profile + sum(len(page.text) for page in result.pages)


@pytest.mark.requirement("TOOL-11")
async def test_a_brief_never_fails_for_a_scope_and_names_what_would_open_the_rest(world: World) -> None:
    async with world.owner() as owner:
        await owner.patch({"name": "Ada Reed"})
        await owner.write("a", "text")
        await owner.write("b", "text", sensitivity="sensitive")
    scopes = ("profile.core:read", "memory:read", "memory:write", "memory.sensitive:read")

    for held in chain.from_iterable(combinations(scopes, size) for size in range(len(scopes) + 1)):
        granted = await world.grant(*held)
        async with world.client(granted) as client:
            result = await client.brief()
        named = {scope for left in result.left_out for scope in left.required_scopes}
        shown = len(result.pages)
        assert (result.profile is None) == ("profile.core:read" in named) == ("profile.core:read" not in held)
        if "memory:read" not in held:
            assert (shown, "memory:read" in named) == (0, True)
        elif "memory.sensitive:read" not in held:
            assert (shown, "memory.sensitive:read" in named) == (1, True)
        else:
            assert (shown, {"memory:read", "memory.sensitive:read"} & named) == (2, set())


@pytest.mark.requirement("TOOL-11")
async def test_a_brief_says_the_same_of_an_empty_context_as_of_one_full_of_closed_pages(world: World) -> None:
    granted = await world.grant(*DEFAULT_GRANT)
    async with world.client(granted) as client:
        empty = await client.brief()
    async with world.owner() as owner:
        await owner.write("health/knee", "it creaks", sensitivity="sensitive")

    async with world.client(granted) as client:
        assert (await client.brief()).left_out == empty.left_out


@each_store
async def test_a_brief_keeps_to_its_size_and_counts_what_it_left_out(stored_world: World) -> None:
    async with stored_world.owner() as owner:
        await owner.patch({"name": "Ada Reed", "ai_instructions": "Answer briefly. " * 60})
        for number in range(6):
            await owner.write(f"n{number}", "long text " * 80)
        await owner.write("short", "tiny")
        for max_chars in (0, 10, 500, 1000, 2000, 5000, 50_000):
            result = await owner.brief(max_chars)
            left = [item.what for item in result.left_out]
            assert size_of(result) <= max_chars
            assert (result.profile is None) == any("profile" in what for what in left)
            missing = 7 - len(result.pages)
            assert [what.split()[0] for what in left if "more pages" in what] == ([str(missing)] if missing else [])
            assert all(page.cut == (len(page.text) < 800) for page in result.pages if page.head.path.value != "short")

        assert not (await owner.brief(50_000)).left_out


async def test_a_brief_shows_current_and_validated_pages_first_and_no_more_than_its_bound(world: World) -> None:
    granted = await world.grant(*EVERYTHING)

    async with world.client(granted) as client:
        await client.write("validated", "text", lifecycle="validated")
        await client.write("stale", "text", lifecycle="stale")
        await client.write("over", "text", valid_until="2001-01-01")
        await client.write("older", "text")
        world.clock.advance(1000)
        await client.write("newer", "text", relations=[{"rel": "supersedes", "target": "replaced"}])
        await client.write("replaced", "text")
        order = [page.head.path.value for page in (await client.brief()).pages]
        for number in range(MOST_PAGES):
            await client.write(f"n{number}", "text")
        many = await client.brief(50_000)

    assert order == ["validated", "newer", "older", "over", "replaced"]
    assert len(many.pages) == MOST_PAGES
