"""Pages from a client's draft to what others may see of them: writing, reading, listing, searching (PCP §5)."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from tests.flows.usecase_support import (
    DEFAULT_GRANT,
    EVERYTHING,
    HOUR_MS,
    MINUTE_MS,
    NOW_MS,
    Hand,
    World,
    each_store,
    every_store,
)
from zkpcp.core.instants import to_rfc3339
from zkpcp.core.pages import serialize
from zkpcp.core.schemas import JsonObject, canonical_json
from zkpcp.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError, RefusedError, TooLargeError
from zkpcp.usecases import inbox
from zkpcp.usecases.filters import Filters

DAY_MS = 24 * HOUR_MS
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


async def content_of(world: World) -> Mapping[str, tuple[str, str]]:
    """Every page there is, as its owner reads it: path to version and file."""
    async with world.owner() as owner:
        heads = (await owner.list(filters=Filters(include_archived=True))).heads
        pages = [await owner.read(page_id=head.id) for head in heads]
    return {page.path.value: (page.updated, serialize(page).decode()) for page in pages}


@every_store
@pytest.mark.requirement("MEM-04", "MEM-10")
async def test_a_written_page_reads_back_byte_for_byte_with_its_stamps(stored_world: World) -> None:
    granted = await stored_world.grant(*DEFAULT_GRANT)
    body = "# Tea at the mill\r\n\r\ntwo spoons  \nno newline at the end"

    async with stored_world.client(granted) as client:
        written = await client.write("notes/tea", body, tags=["kitchen"], x_mood="calm")
        page = await client.read("notes/tea")
        same = await client.read(page_id=written.page_id)

    assert (written.path, written.created) == ("notes/tea", True)
    assert page.body == body == same.body
    assert (page.title, page.tags, page.frontmatter["x_mood"]) == ("Tea at the mill", ("kitchen",), "calm")
    assert page.updated == written.updated == page.frontmatter["recorded_at"]
    assert all(INSTANT.fullmatch(str(page.frontmatter[key])) for key in ("updated", "recorded_at"))
    frontmatter = cast(JsonObject, page.plain_frontmatter())
    assert stored_world.schemas.violations("0.3/memory.page", frontmatter) == ()


@pytest.mark.requirement("MEM-01")
@pytest.mark.parametrize(
    "path", ["", "/a", "a//b", "a/../b", "a\\b", "a\0b", "a/b.", "straße", "a" * 65, "a/" * 16 + "a", "a b"]
)
async def test_a_path_outside_the_grammar_is_refused_and_nothing_is_written(world: World, path: str) -> None:
    granted = await world.grant(*DEFAULT_GRANT)

    async with world.client(granted) as client:
        with pytest.raises(InvalidInputError) as refused:
            await client.write(path, "text")

    assert [violation.path for violation in refused.value.violations] == ["/path"]
    assert path == "" or path not in str(refused.value)
    assert await content_of(world) == {}


@each_store
@pytest.mark.requirement("MEM-02")
async def test_two_paths_that_differ_only_in_case_are_one_place(stored_world: World) -> None:
    granted = await stored_world.grant(*DEFAULT_GRANT)

    async with stored_world.client(granted) as client:
        await client.write("Notes/Tea", "first")
        before = await content_of(stored_world)
        with pytest.raises(ConflictError):
            await client.write("notes/tea", "second")

    assert await content_of(stored_world) == before


@pytest.mark.requirement("MEM-05")
async def test_a_block_at_the_start_of_a_body_is_frontmatter_and_never_text(world: World) -> None:
    granted = await world.grant(*DEFAULT_GRANT)

    async with world.client(granted) as client:
        await client.write("a", "---\ntitle: Harbor\ntags: [sea]\n---\nThe tide turns.")
        page = await client.read("a")
        for broken in (
            "---\ntitle: [\n---\ntext",
            "---\ntitle: open",
            "---\n- a list\n---\n",
            "---\na: 1\na: 2\n---\n",
        ):
            with pytest.raises(InvalidInputError):
                await client.write("b", broken)
        with pytest.raises(InvalidInputError):
            await client.write("b", "---\ntitle: One\n---\ntext", title="Two")

        assert await client.paths() == ["a"]
    assert (page.title, page.tags, page.body) == ("Harbor", ("sea",), "The tide turns.")


@each_store
@pytest.mark.requirement("MEM-06")
async def test_an_update_keeps_sensitivity_title_and_partition_unless_they_are_given(stored_world: World) -> None:
    granted = await stored_world.grant(*EVERYTHING)

    async with stored_world.client(granted) as client:
        await client.write("health/knee", "old", title="Knee", sensitivity="sensitive", tags=["body"])
        await client.write("health/knee", "new", lifecycle="validated")
        replaced = await client.read("health/knee")
        await client.write("health/knee", "newer")
        kept = await client.read("health/knee")

    assert (replaced.title, replaced.sensitivity, replaced.partition) == ("Knee", "sensitive", "main")
    assert (replaced.tags, replaced.lifecycle) == ((), "validated")
    assert (kept.sensitivity, kept.lifecycle, kept.body) == ("sensitive", "validated", "newer")


@each_store
@pytest.mark.requirement("MEM-07")
async def test_changing_a_sensitive_page_or_its_sensitivity_takes_the_sensitive_scope(stored_world: World) -> None:
    reader = await stored_world.grant("memory:read", "memory:write", "memory.sensitive:read")
    writer = await stored_world.grant("memory:read", "memory:write", "memory.sensitive:write")

    async with stored_world.client(reader) as client:
        await client.write("health/knee", "it creaks", sensitivity="sensitive")
        await client.write("notes/tea", "two spoons")
        before = await content_of(stored_world)
        changes: list[tuple[str, dict[str, Any]]] = [
            ("health/knee", {}),
            ("health/knee", {"sensitivity": "normal"}),
            ("notes/tea", {"sensitivity": "sensitive"}),
        ]
        for path, frontmatter in changes:
            with pytest.raises(ForbiddenError) as refused:
                await client.write(path, "changed", **frontmatter)
            assert refused.value.required_scopes == ("memory:write", "memory.sensitive:write")
        assert await content_of(stored_world) == before
    async with stored_world.client(writer) as client:
        await client.write("notes/tea", "now private", sensitivity="sensitive")
        with pytest.raises(NotFoundError):
            await client.read("notes/tea")

    async with stored_world.owner() as owner:
        assert (await owner.read("notes/tea")).is_sensitive


@each_store
@pytest.mark.requirement("MEM-08", "TOOL-10")
async def test_a_closed_page_is_not_found_and_its_path_answers_conflict_and_nothing_else(stored_world: World) -> None:
    granted = await stored_world.grant(*DEFAULT_GRANT)
    async with stored_world.owner() as owner:
        closed = await owner.write("health/knee", "it creaks", sensitivity="sensitive")
    before = await content_of(stored_world)

    async with stored_world.client(granted) as client:
        with pytest.raises(NotFoundError) as by_path:
            await client.read("health/knee")
        with pytest.raises(NotFoundError) as by_id:
            await client.read(page_id=closed.page_id)
        with pytest.raises(NotFoundError) as nothing_there:
            await client.read("health/elbow")
        for expected in (None, closed.updated, to_rfc3339(NOW_MS - 1)):
            with pytest.raises(ConflictError) as occupied:
                await client.write("health/knee", "mine", expected=expected)
            assert "knee" not in str(occupied.value)

    assert str(by_path.value) == str(by_id.value) == str(nothing_there.value)
    assert await content_of(stored_world) == before


@pytest.mark.requirement("MEM-09")
async def test_what_the_server_stamps_is_never_taken_from_a_client(world: World) -> None:
    granted = await world.grant(*DEFAULT_GRANT, client_id="cli_honest")

    async with world.client(granted) as client:
        written = await client.write(
            "a",
            "text",
            id="pg_mine",
            updated="2001-01-01T00:00:00.000Z",
            recorded_at="2001-01-01T00:00:00.000Z",
            review={"state": "approved", "verified": [{"by": "human:eve", "at": "2001-01-01T00:00:00.000Z"}]},
            source={"principal": "human:eve", "on_behalf_of": "human:eve", "client": "cli_eve", "origin": "chat"},
        )
        page = await client.read("a")

    assert page.id == written.page_id != "pg_mine"
    assert page.frontmatter["updated"] == page.frontmatter["recorded_at"] == to_rfc3339(NOW_MS)
    assert page.source == {"origin": "chat", "principal": world.context.controller, "client": "cli_honest"}
    assert "review" not in page.frontmatter


@each_store
@pytest.mark.requirement("MEM-11")
async def test_a_page_past_its_validity_keeps_its_lifecycle_shows_its_dates_and_ranks_below(
    stored_world: World,
) -> None:
    granted = await stored_world.grant(*DEFAULT_GRANT)
    yesterday = to_rfc3339(NOW_MS - DAY_MS)[:10]

    async with stored_world.client(granted) as client:
        await client.write("old", "the ferry leaves at nine", title="Ferry", valid_until=yesterday)
        await client.write("new", "the ferry leaves at nine", title="Ferry")
        results = (await client.search("ferry nine")).found
        brief = (await client.brief()).pages
        page = await client.read("old")

    assert [found.head.path.value for found in results] == ["new", "old"]
    assert results[1].head.valid_until == yesterday
    assert [(entry.head.path.value, entry.head.valid_until) for entry in brief] == [("new", None), ("old", yesterday)]
    assert page.lifecycle == "active"


@every_store
@pytest.mark.requirement("MEM-18")
async def test_a_page_past_its_retention_is_never_returned_and_its_path_is_free(stored_world: World) -> None:
    granted = await stored_world.grant(*EVERYTHING)
    soon = to_rfc3339(NOW_MS + MINUTE_MS)

    async with stored_world.client(granted) as client:
        gone = await client.write("notes/visit", "platform seven", expires=soon)
        closed = await client.write("health/visit", "platform eight", expires=soon, sensitivity="sensitive")
        stored_world.clock.advance(MINUTE_MS)
        for look in (client.read("notes/visit"), client.read(page_id=gone.page_id), client.read("health/visit")):
            with pytest.raises(NotFoundError):
                await look
        assert await client.paths() == []
        assert await client.found("platform") == []
        assert (await client.brief()).pages == []

        again = await client.write("notes/visit", "platform nine")
    default = await stored_world.grant(*DEFAULT_GRANT)
    async with stored_world.client(default) as client:
        fresh = await client.write("health/visit", "platform ten")

    assert again.created
    assert fresh.created
    assert len({gone.page_id, closed.page_id, again.page_id, fresh.page_id}) == 4


async def test_a_retention_that_has_ended_already_is_refused(world: World) -> None:
    granted = await world.grant(*DEFAULT_GRANT)

    async with world.client(granted) as client:
        with pytest.raises(InvalidInputError) as refused:
            await client.write("a", "text", expires=to_rfc3339(NOW_MS))

    assert [violation.path for violation in refused.value.violations] == ["/frontmatter/expires"]


@every_store
@pytest.mark.requirement("TOOL-13")
async def test_a_stale_expected_updated_is_a_conflict_and_changes_nothing(stored_world: World) -> None:
    granted = await stored_world.grant(*DEFAULT_GRANT)

    async with stored_world.client(granted) as client:
        first = await client.write("a", "one")
        second = await client.write("a", "two", expected=first.updated)
        before = await content_of(stored_world)
        for stale in (first.updated, to_rfc3339(NOW_MS + DAY_MS)):
            with pytest.raises(ConflictError):
                await client.write("a", "three", expected=stale)
        with pytest.raises(ConflictError):
            await client.write("gone", "three", expected=first.updated)
        with pytest.raises(InvalidInputError):
            await client.write("a", "three", expected="yesterday")
        assert await content_of(stored_world) == before

        third = await client.write("a", "four", expected=second.updated)

    assert first.updated < second.updated < third.updated  # though the clock stood still
    assert (first.created, second.created, third.created) == (True, False, False)


@every_store
@pytest.mark.requirement("MEM-21", "MEM-22")
async def test_the_default_grant_adds_a_sensitive_page_that_only_its_owner_reads(stored_world: World) -> None:
    granted = await stored_world.grant(*DEFAULT_GRANT)

    async with stored_world.client(granted) as client:
        written = await client.write("style/letters", "Short sentences, no adjectives.")
        other = await client.write("health/knee", "it creaks", sensitivity="sensitive")
        for page_id in (written.page_id, other.page_id):
            with pytest.raises(NotFoundError):
                await client.read(page_id=page_id)
        with pytest.raises(ConflictError):
            await client.write("style/letters", "Long sentences.")
        assert await client.paths() == []
        assert await client.found("adjectives") == []
        assert (await client.brief()).pages == []
    async with stored_world.owner() as owner:
        page = await owner.read("style/letters")
        found = await owner.found("adjectives")
        listed = await owner.paths()

    assert written.created
    assert page.id == written.page_id
    assert page.body == "Short sentences, no adjectives."
    assert page.frontmatter["sensitivity"] == "sensitive"
    assert page.source["client"] == "cli_quill"
    assert (found, listed) == (["style/letters"], ["health/knee", "style/letters"])


@pytest.mark.requirement("MEM-21")
async def test_under_style_a_client_may_still_say_normal(world: World) -> None:
    granted = await world.grant(*DEFAULT_GRANT)

    async with world.client(granted) as client:
        await client.write("Style/colors", "Blue.", sensitivity="normal")

        assert (await client.read("style/colors")).sensitivity == "normal"


@pytest.mark.requirement("MEM-22")
async def test_a_page_in_quarantine_is_admitted_by_any_first_look(world: World) -> None:
    writer = await world.grant(*DEFAULT_GRANT)
    reader = await world.grant("memory:read", "memory.sensitive:read")
    looks: dict[str, Callable[[Hand], Awaitable[object]]] = {
        "list": lambda hand: hand.list(),
        "search": lambda hand: hand.search("quiet"),
        "brief": lambda hand: hand.brief(),
    }

    for name, look in looks.items():
        async with world.client(writer) as client:
            await client.write(f"style/{name}", "quiet words")
        async with world.client(reader) as client:
            await look(client)
        assert world.tables().inbox == {}, name
        assert (await world.last_entry()).decrypted

    async with world.client(reader) as client:
        assert sorted(await client.paths()) == ["style/brief", "style/list", "style/search"]


@pytest.mark.requirement("KEY-07")
async def test_a_look_that_admits_a_page_says_that_it_decrypted_though_it_finds_nothing(world: World) -> None:
    granted = await world.grant(*DEFAULT_GRANT)
    async with world.client(granted) as client:
        await client.write("style/letters", "quiet words")

    async with world.owner() as owner:
        for decrypted in (True, False):
            with pytest.raises(NotFoundError):
                await owner.read("nowhere")
            assert (await world.last_entry()).decrypted is decrypted


@each_store
@pytest.mark.requirement("MEM-22")
async def test_the_owner_replaces_a_page_that_waits_in_quarantine(stored_world: World) -> None:
    granted = await stored_world.grant(*DEFAULT_GRANT)
    async with stored_world.client(granted) as client:
        written = await client.write("style/letters", "quiet words")

    async with stored_world.owner() as owner:
        changed = await owner.write("style/letters", "loud words")
        page = await owner.read("style/letters")

    assert (changed.created, changed.page_id, page.body) == (False, written.page_id, "loud words")


async def test_a_search_says_when_more_waits_in_quarantine_than_one_call_admits(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "AT_ONCE", 2)
    granted = await world.grant(*DEFAULT_GRANT)
    async with world.client(granted) as client:
        for number in range(3):
            await client.write(f"style/{number}", "quiet words")

    async with world.owner() as owner:
        first = await owner.search("quiet")
        second = await owner.search("quiet")

    assert (first.searched_all, len(first.found)) == (False, 2)
    assert (second.searched_all, len(second.found)) == (True, 3)


@each_store
@pytest.mark.requirement("MEM-22")
async def test_a_page_written_by_a_client_that_was_revoked_meanwhile_is_still_admitted(stored_world: World) -> None:
    granted = await stored_world.grant(*DEFAULT_GRANT)
    async with stored_world.client(granted) as client:
        await client.write("style/letters", "Short sentences.")
    async with stored_world.store.write() as tx:
        await tx.grants.revoke_grant(stored_world.context_id, granted.grant_id)

    async with stored_world.owner() as owner:
        assert (await owner.read("style/letters")).body == "Short sentences."


@pytest.mark.requirement("SCOPE-01")
@pytest.mark.parametrize(
    "scopes",
    [
        ("memory:write",),
        ("memory.sensitive:read",),
        ("memory:write", "memory.sensitive:read"),
        ("memory:write", "memory.sensitive:write"),
        ("memory.sensitive:read", "memory.sensitive:write"),
        ("profile.core:read", "audit:read"),
    ],
)
async def test_no_scope_but_reading_reads(world: World, scopes: tuple[str, ...]) -> None:
    granted = await world.grant(*scopes)
    async with world.owner() as owner:
        written = await owner.write("a", "text")

    async with world.client(granted) as client:
        for look in (client.read("a"), client.read(page_id=written.page_id), client.list(), client.search("text")):
            with pytest.raises(ForbiddenError) as refused:
                await look
            assert refused.value.required_scopes == ("memory:read",)
        assert (await client.brief()).pages == []


@pytest.mark.requirement("SCOPE-01")
async def test_writing_takes_its_own_scope_and_gives_no_way_to_replace_what_one_cannot_read(world: World) -> None:
    blind = await world.grant("memory:write")
    reader = await world.grant("memory:read", "memory.sensitive:read", "memory.sensitive:write")

    async with world.client(blind) as client:
        written = await client.write("a", "one")
        with pytest.raises(ConflictError):
            await client.write("a", "two", expected=written.updated)
    async with world.client(reader) as client:
        with pytest.raises(ForbiddenError):
            await client.write("b", "text")

        assert (await client.read("a")).body == "one"


@each_store
@pytest.mark.requirement("SCOPE-02", "MEM-17")
async def test_sensitive_pages_show_nowhere_without_their_scope(stored_world: World) -> None:
    default = await stored_world.grant(*DEFAULT_GRANT)
    blind = await stored_world.grant("memory:read", "memory:write", "memory.sensitive:write")
    full = await stored_world.grant("memory:read", "memory.sensitive:read")
    async with stored_world.owner() as owner:
        await owner.write("notes/walk", "the knee held on the walk")
    alone: dict[str, list[tuple[float, str]]] = {}
    for granted in (default, blind):
        async with stored_world.client(granted) as client:
            alone[granted.grant_id] = [(found.score, found.snippet) for found in (await client.search("knee")).found]
    async with stored_world.owner() as owner:
        for number in range(3):
            await owner.write(f"health/{number}", "knee knee knee", title="Knee", sensitivity="sensitive")

    for granted in (default, blind):
        async with stored_world.client(granted) as client:
            results = await client.search("knee")
            assert [found.head.path.value for found in results.found] == ["notes/walk"]
            # Neither count nor statistics of what is closed show in a score (§5.5).
            assert [(found.score, found.snippet) for found in results.found] == alone[granted.grant_id]
            assert await client.paths() == ["notes/walk"]
            brief = await client.brief()
            assert [entry.head.path.value for entry in brief.pages] == ["notes/walk"]
            assert [left.required_scopes for left in brief.left_out][-1] == ("memory:read", "memory.sensitive:read")
    async with stored_world.client(full) as client:
        assert len(await client.found("knee")) == 4
        assert len(await client.paths()) == 4
        assert len((await client.brief()).pages) == 4


@pytest.mark.requirement("SCOPE-02")
async def test_the_owner_can_act_with_fewer_scopes_than_there_are(world: World) -> None:
    async with world.owner() as owner:
        await owner.write("health/knee", "it creaks", sensitivity="sensitive")
        less = Hand(world.services, replace(owner.who, scopes=owner.who.scopes - {"memory.sensitive:read"}))

        with pytest.raises(NotFoundError):
            await less.read("health/knee")


async def test_a_narrowed_token_reads_no_more_than_it_says(world: World) -> None:
    granted = await world.grant(*EVERYTHING)
    async with world.owner() as owner:
        await owner.write("health/knee", "it creaks", sensitivity="sensitive")
    async with world.store.read() as tx:
        row = await tx.grants.token(world.context_id, granted.lookup_id)
    assert row is not None
    narrow = replace(row, scopes=("memory:read", "memory.sensitive:write"))
    world.tamper(lambda tables: tables.tokens.update({(world.context_id, granted.lookup_id): narrow}))

    async with world.client(granted) as client:
        assert client.who.scopes == {"memory:read"}
        with pytest.raises(NotFoundError):
            await client.read("health/knee")


@every_store
async def test_one_bad_thing_leaves_nothing_half_written(stored_world: World) -> None:
    granted = await stored_world.grant(*EVERYTHING)
    async with stored_world.client(granted) as client:
        await client.write("a", "one")
        before = await content_of(stored_world)
        bad: list[tuple[str, str, dict[str, Any]]] = [
            ("b", "nul \0", {}),
            ("b", "lone \ud800", {}),
            ("b", "x" * (2 * 1024 * 1024), {}),
            ("b", "text", {"tags": "not a list"}),
            ("b", "text", {"unknown": 1}),
            ("b", "text", {"partition": "elsewhere"}),
            ("b", "text", {"valid_from": "someday"}),
            ("b", "text", {"x_big": "x" * (70 * 1024)}),
            ("A", "text", {}),
            ("a", "text", {"sensitivity": "secret"}),
        ]
        for path, body, frontmatter in bad:
            with pytest.raises(RefusedError) as refused:
                await client.write(path, body, **frontmatter)
            assert "text" not in str(refused.value)

        assert await content_of(stored_world) == before
        await client.write("b", "free after all that")


async def test_a_full_context_takes_no_further_page_but_changes_what_it_has(world: World) -> None:
    granted = await world.grant(*DEFAULT_GRANT)
    small = replace(world, services=replace(world.services, max_pages=1))

    async with small.client(granted) as client:
        await client.write("a", "one")
        with pytest.raises(TooLargeError):
            await client.write("b", "two")
        changed = await client.write("a", "three")

    assert not changed.created


async def test_exactly_one_of_path_and_id_names_a_page(world: World) -> None:
    granted = await world.grant(*DEFAULT_GRANT)

    async with world.client(granted) as client:
        written = await client.write("a", "one")
        with pytest.raises(InvalidInputError):
            await client.read()
        with pytest.raises(InvalidInputError):
            await client.read("a", page_id=written.page_id)


@each_store
async def test_a_list_goes_by_path_and_its_cursor_continues_exactly(stored_world: World) -> None:
    granted = await stored_world.grant(*DEFAULT_GRANT)
    paths = ["Beta", "alpha", "alpha/one", "delta", "gamma", "gamma/two", "zeta"]

    async with stored_world.client(granted) as client:
        for path in reversed(paths):
            await client.write(path, "text")
        walked: list[str] = []
        cursor = None
        for _ in range(4):
            part = await client.list(limit=2, cursor=cursor)
            walked += [head.path.value for head in part.heads]
            cursor = part.next_cursor
            # A page that appears behind the cursor does not move what comes after it.
            await client.write(f"aa{len(walked)}", "text")

    assert cursor is None
    assert walked == sorted(paths, key=str.lower)


async def test_filters_leave_out_what_does_not_fit(world: World) -> None:
    granted = await world.grant(*DEFAULT_GRANT)
    both = Filters(prefix="plans/", type="semantic", tags=("boat",), include_stale=False)

    async with world.client(granted) as client:
        await client.write("plans/sail", "wind", type="semantic", tags=["boat", "sea"])
        await client.write("plans/oars", "wind", type="episodic", tags=["boat"])
        await client.write("plans/keel", "wind", type="semantic", tags=["boat"], lifecycle="stale")
        await client.write("plants/ivy", "wind", type="semantic", tags=["boat"])

        assert await client.paths(both) == ["plans/sail"]
        assert await client.found("wind", both) == ["plans/sail"]
        assert sorted(await client.paths(Filters(prefix="PLAN"))) == [
            "plans/keel",
            "plans/oars",
            "plans/sail",
            "plants/ivy",
        ]
        with pytest.raises(InvalidInputError) as refused:
            await client.search("wind", filters=Filters(prefix="../up", prefix_field="/path_prefix"))
    assert [violation.path for violation in refused.value.violations] == ["/path_prefix"]


@each_store
@pytest.mark.requirement("MEM-18")
async def test_archived_pages_stay_out_unless_asked_for(stored_world: World) -> None:
    granted = await stored_world.grant(*DEFAULT_GRANT)
    archived = Filters(include_archived=True)

    async with stored_world.client(granted) as client:
        await client.write("old", "the orchard gate", lifecycle="archived")

        assert await client.paths() == []
        assert await client.found("orchard") == []
        assert (await client.brief()).pages == []
        assert await client.paths(archived) == ["old"]
        assert await client.found("orchard", archived) == ["old"]
        assert (await client.read("old")).lifecycle == "archived"


@every_store
async def test_a_search_follows_every_edit_and_reads_more_than_latin_words(stored_world: World) -> None:
    granted = await stored_world.grant(*DEFAULT_GRANT)

    async with stored_world.client(granted) as client:
        await client.write("a", "the lantern hangs by the door", title="Porch")
        await client.write("b", "京都の図書館で本を借りた", title="Kyoto")
        await client.write("c", "pinned to libfoo-2.1-rc3 until ZK-4711 is closed", title="Pins")
        assert await client.found("lantern") == ["a"]
        await client.write("a", "the candle stands by the door")

        assert await client.found("lantern") == []
        assert await client.found("candle") == ["a"]
        assert await client.found("図書館") == ["b"]
        assert await client.found("ZK-4711") == ["c"]
        assert await client.found("libfoo-2.1-rc3") == ["c"]


@each_store
async def test_a_superseded_page_stands_below_what_supersedes_it(stored_world: World) -> None:
    granted = await stored_world.grant(*DEFAULT_GRANT)

    async with stored_world.client(granted) as client:
        await client.write("address/old", "lives in Mill Lane, Mill Lane 4, by the mill", title="Mill Lane")
        relations = [{"rel": "supersedes", "target": "address/old"}]
        await client.write("address/new", "moved away from Mill Lane to Quay Street", relations=relations)

        assert await client.found("mill lane") == ["address/new", "address/old"]


@each_store
async def test_a_search_continues_where_its_cursor_ends(stored_world: World) -> None:
    granted = await stored_world.grant(*DEFAULT_GRANT)

    async with stored_world.client(granted) as client:
        for number in range(5):
            await client.write(f"n{number}", "heron " * (number + 1))
        whole = [found.head.path.value for found in (await client.search("heron")).found]
        walked: list[str] = []
        cursor = None
        for _ in range(3):
            part = await client.search("heron", limit=2, cursor=cursor)
            walked += [found.head.path.value for found in part.found]
            cursor = part.next_cursor

    assert cursor is None
    assert walked == whole
    assert len(whole) == 5


async def test_a_cursor_serves_only_the_call_that_returned_it(world: World) -> None:
    first = await world.grant(*DEFAULT_GRANT)
    second = await world.grant(*DEFAULT_GRANT)
    async with world.client(first) as client:
        for number in range(3):
            await client.write(f"plans/{number}", "heron")
        listed = (await client.list(limit=1)).next_cursor
        searched = (await client.search("heron", limit=1)).next_cursor
        assert listed is not None
        assert searched is not None
        garbage = ["", "x", "%%%", "ä", "A" * 400, listed[:-2], listed + "AA", listed.swapcase()]

        for call in (
            client.list(cursor=listed, filters=Filters(prefix="plans")),
            client.list(cursor=searched),
            client.search("heron", cursor=listed),
            client.search("heron egret", cursor=searched),
            client.search("heron", cursor=searched, as_of="2026-01-01"),
            *[client.list(cursor=cursor) for cursor in garbage],
        ):
            with pytest.raises(InvalidInputError) as refused:
                await call
            assert [violation.path for violation in refused.value.violations] == ["/cursor"]
    async with world.client(second) as client:
        with pytest.raises(InvalidInputError):
            await client.list(cursor=listed)
    assert "plans" not in listed


@each_store
@pytest.mark.requirement("MEM-19")
async def test_a_search_as_of_a_day_says_whether_it_could_be_exact(stored_world: World) -> None:
    granted = await stored_world.grant(*DEFAULT_GRANT)
    then = to_rfc3339(NOW_MS + MINUTE_MS)

    async with stored_world.client(granted) as client:
        await client.write("a", "heron one")
        await client.write("b", "heron two")
        stored_world.clock.advance(2 * MINUTE_MS)
        await client.write("c", "heron three")
        exact = await client.search("heron", as_of=then)
        await client.write("a", "heron four")
        changed = await client.search("heron", as_of=then)

        with pytest.raises(InvalidInputError):
            await client.search("heron", as_of="then")
        with pytest.raises(InvalidInputError):
            await client.search(" ?! ")
    assert (sorted(found.head.path.value for found in exact.found), exact.as_of_exact) == (["a", "b"], True)
    # What it said then is kept: see test_history.
    assert (sorted(found.head.path.value for found in changed.found), changed.as_of_exact) == (["a", "b"], True)
    assert changed.as_of == then


@pytest.mark.requirement("CTX-06")
async def test_nothing_of_one_context_is_open_to_a_client_of_another(world: World) -> None:
    other = await World.founded(world.store, handle="bea")
    async with world.owner() as owner:
        written = await owner.write("notes/tea", "two spoons")
    granted = await other.grant(*EVERYTHING)

    async with other.client(granted) as client:
        for look in (client.read("notes/tea"), client.read(page_id=written.page_id)):
            with pytest.raises(NotFoundError):
                await look
        assert (await client.paths(), await client.found("spoons")) == ([], [])
        mine = await client.write("notes/tea", "three spoons")

    assert mine.created
    logged = b"".join(canonical_json(list(entry.object_ids)) for entry in await other.entries())
    assert written.page_id.encode() not in logged
