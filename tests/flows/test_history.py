"""What memory said at an earlier time, against a model; who may see it; how long it is kept (PCP §5.2, §5.5)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.flows.tools_support import Doors, endpoint_of
from tests.flows.usecase_support import (
    DEFAULT_GRANT,
    EVERYTHING,
    HOUR_MS,
    MINUTE_MS,
    NOW_MS,
    Granted,
    Hand,
    World,
    each_store,
    every_store,
)
from zkpcp.core.instants import to_rfc3339
from zkpcp.core.pages import Page
from zkpcp.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError, TamperedError
from zkpcp.testing import _Tables
from zkpcp.usecases import history
from zkpcp.usecases.filters import Filters
from zkpcp.usecases.forget import delete_page, recover_page
from zkpcp.usecases.history import PageThen, read_page_as_of
from zkpcp.usecases.housekeeping import sweep_all
from zkpcp.usecases.versions import list_versions, read_version, restore_version

DAY_MS = 24 * HOUR_MS
ALL = Filters(include_archived=True)
WORDS = ("heron", "weir", "boat", "willow")
PATHS = ("notes/a", "notes/b", "c")
_NUMBERS = count(1)


async def then(hand: Hand, as_of: int | str, path: str | None = None, *, page_id: str | None = None) -> PageThen:
    text = as_of if isinstance(as_of, str) else to_rfc3339(as_of)
    return await read_page_as_of(hand.services, hand.who, as_of=text, path=path, page_id=page_id)


def keeping(world: World, *, versions: int = 100, days: int = 730) -> World:
    """The same world under other settings."""
    return replace(world, services=replace(world.services, history_versions=versions, history_s=days * DAY_MS // 1000))


# ------------------------------------------------------------------------------------------------------------ the model


@dataclass
class Life:
    """A page as the model knows it: what it was from each instant on; None: deleted."""

    path: str
    states: list[tuple[int, tuple[str, bool] | None]] = field(default_factory=list)

    def at(self, at_ms: int) -> tuple[str, bool] | None:
        return next((state for since_ms, state in reversed(self.states) if since_ms <= at_ms), None)

    @property
    def now(self) -> tuple[str, bool] | None:
        return self.states[-1][1]


@dataclass
class Model:
    """What every page was and when, in plain values."""

    lives: dict[str, Life] = field(default_factory=dict)

    def seen(self, at_ms: int, *, sensitive: bool) -> tuple[dict[str, str], bool]:
        """What one may see of a time, by page id, and whether that is all there can have been."""
        texts, exact = {}, True
        for page_id, life in self.lives.items():
            then, now = life.at(at_ms), life.now
            last = next(state for _, state in reversed(life.states) if state is not None)
            if now is None:
                exact = exact and not (last[1] <= sensitive and then is not None)
            elif now[1] <= sensitive and then is not None:
                if then[1] <= sensitive:
                    texts[page_id] = then[0]
                else:
                    exact = False
        return texts, exact


operations = st.one_of(
    st.tuples(
        st.just("write"),
        st.sampled_from(PATHS),
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=3),
        st.booleans(),
    ),
    st.tuples(st.just("delete"), st.sampled_from(PATHS)),
    st.tuples(st.just("recover"), st.integers(0, 5)),
    st.tuples(st.just("wait"), st.integers(1, 5)),
)


async def follow(world: World, owner: Hand, model: Model, operation: tuple[object, ...]) -> None:
    """Do one thing in the world and in the model."""
    now_ms = world.clock.now_ms()
    match operation:
        case ("wait", int(minutes)):
            world.clock.advance(minutes * MINUTE_MS)
        case ("write", str(path), list(words), bool(sensitive)):
            body = " ".join(map(str, words))
            written = await owner.write(path, body, sensitivity="sensitive" if sensitive else "normal")
            page = await owner.read(page_id=written.page_id)
            life = model.lives.setdefault(written.page_id, Life(path))
            life.states.append((page.updated_ms, (body, sensitive)))
        case ("delete", str(path)):
            for page_id, life in model.lives.items():
                if life.path == path and life.now is not None:
                    await delete_page(owner.services, owner.who, page_id=page_id)
                    life.states.append((max(now_ms, life.states[-1][0]), None))
        case ("recover", int(number)):
            deleted = [page_id for page_id, life in model.lives.items() if life.now is None]
            if not deleted:
                return
            page_id = deleted[number % len(deleted)]
            life = model.lives[page_id]
            taken = any(other.path == life.path and other.now is not None for other in model.lives.values())
            if taken:
                with pytest.raises(ConflictError):
                    await recover_page(owner.services, owner.who, page_id)
            else:
                await recover_page(owner.services, owner.who, page_id)
                life.states.append((max(now_ms, life.states[-1][0]), life.states[-2][1]))
        case _:
            pytest.fail("an operation of another form")


async def check(hand: Hand, model: Model, at_ms: int, *, sensitive: bool) -> None:
    """Reading and searching answer about this time as the model does."""
    texts, exact = model.seen(at_ms, sensitive=sensitive)
    # The clock stands still at times, and then what is written is stamped a little ahead of it.
    exact = exact and at_ms <= hand.services.clock.now_ms()
    for word in WORDS:
        results = await hand.search(word, as_of=to_rfc3339(at_ms))
        assert results.as_of_exact == exact
        assert results.searched_all
        found = {item.head.id: item for item in results.found}
        assert set(found) == {page_id for page_id, text in texts.items() if word in text.split()}
        assert all(item.head.path.value == model.lives[page_id].path for page_id, item in found.items())
        assert all(word in item.snippet for item in found.values())
    for page_id, life in model.lives.items():
        if page_id in texts:
            page = await then(hand, at_ms, page_id=page_id)
            known = at_ms <= hand.services.clock.now_ms()
            assert (page.page.body, page.page.path.value, page.exact) == (texts[page_id], life.path, known)
            assert (await then(hand, at_ms, life.path)).page.id == page_id
            continue
        try:
            page = await then(hand, at_ms, page_id=page_id)
        except NotFoundError:
            continue
        # It was there but closed: the next version that is open stands in, and says so.
        before = life.at(at_ms)
        assert before is not None
        assert before[1] > sensitive
        assert (page.exact, page.page.updated_ms > at_ms, page.page.sensitivity) == (False, True, "normal")


async def live_through(world: World, edits: Sequence[tuple[object, ...]], instants: Sequence[int]) -> None:
    model = Model()
    async with world.owner() as owner:
        for operation in edits:
            await follow(world, owner, model, operation)
        await world.sign_in()
        narrow = await world.grant(*DEFAULT_GRANT)
        end_ms = world.clock.now_ms()
        for at in instants:
            at_ms = NOW_MS + at if at < 1000 else NOW_MS + (at * MINUTE_MS // 1000) % max(1, end_ms - NOW_MS + 1)
            await check(owner, model, at_ms, sensitive=True)
            async with world.client(narrow) as client:
                await check(client, model, at_ms, sensitive=False)


@every_store
@pytest.mark.requirement("MEM-19", "MEM-17")
@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    edits=st.lists(operations, min_size=1, max_size=20),
    instants=st.lists(st.integers(-5, 20) | st.integers(1000, 100_000), min_size=1, max_size=4),
)
async def test_an_earlier_time_is_answered_as_a_model_does(
    stored_world: World, edits: list[tuple[object, ...]], instants: list[int]
) -> None:
    # Each example is a context of its own in the same store.
    await live_through(await World.founded(stored_world.store, handle=f"example-{next(_NUMBERS)}"), edits, instants)


@every_store
@pytest.mark.requirement("MEM-19")
async def test_a_hundred_edits_are_answered_as_a_model_does(stored_world: World) -> None:
    edits: list[tuple[object, ...]] = []
    for n in range(100):
        words = [WORDS[n % 4], WORDS[n // 4 % 4]]
        edits.append(("write", PATHS[n % 3], words, n % 7 in (3, 4)))
        if n % 11 == 5:
            edits += [("wait", 1), ("delete", PATHS[n % 2])]
        if n % 11 == 8:
            edits += [("wait", 1), ("recover", n), ("recover", n + 1)]
        if n % 3:
            edits.append(("wait", 1))

    await live_through(stored_world, edits, [-1, 0, *range(1500, 100_000, 9000)])


# -------------------------------------------------------------------------------------------------- what is not kept


@every_store
@pytest.mark.requirement("MEM-19")
async def test_a_trimmed_history_says_that_it_is_not_exact(stored_world: World) -> None:
    world = keeping(stored_world, versions=2)
    granted = await world.grant(*EVERYTHING)
    async with world.client(granted) as client:
        for n in range(5):
            await client.write("log", f"heron number {n}")
            world.clock.advance(MINUTE_MS)

        asked = {n: await then(client, NOW_MS + n * MINUTE_MS, "log") for n in range(5)}
        results = {n: await client.search("heron", as_of=to_rfc3339(NOW_MS + n * MINUTE_MS)) for n in range(5)}
        with pytest.raises(NotFoundError):
            await then(client, NOW_MS - 1, "log")
        before = await client.search("heron", as_of=to_rfc3339(NOW_MS - 1))

    # Of five, the current one and two earlier ones are there; what comes next stands in for what is not.
    assert [asked[n].page.body[-1] for n in range(5)] == ["2", "2", "2", "3", "4"]
    assert [asked[n].exact for n in range(5)] == [False, False, True, True, True]
    assert [len(results[n].found) for n in range(5)] == [0, 0, 1, 1, 1]
    assert [results[n].as_of_exact for n in range(5)] == [False, False, True, True, True]
    assert not before.as_of_exact


@each_store
async def test_a_search_of_the_past_that_had_to_stop_says_so(
    stored_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "MOST_SCANNED", 2)
    async with stored_world.owner() as owner:
        seen = []
        for path in ("a", "b", "c"):
            await owner.write(path, "heron")
            results = await owner.search("heron", as_of=to_rfc3339(NOW_MS))
            seen.append((len(results.found), results.searched_all))

    assert seen == [(1, True), (2, True), (2, False)]


@each_store
async def test_no_history_is_kept_where_none_is_wanted_and_time_trims_too(stored_world: World) -> None:
    for world in (keeping(stored_world, versions=0), keeping(stored_world, days=0)):
        async with world.owner() as owner:
            written = await owner.write("a", "one")
            await owner.write("a", "two")
            assert len(await list_versions(owner.services, owner.who, written.page_id)) == 1
            await delete_page(owner.services, owner.who, path="a")

    async with stored_world.owner() as owner:
        written = await owner.write("b", "one")
        await owner.write("b", "two")
    stored_world.clock.advance(10 * DAY_MS)
    await sweep_all(stored_world.services)
    await stored_world.sign_in()
    async with stored_world.owner() as owner:
        assert len(await list_versions(owner.services, owner.who, written.page_id)) == 2
    await sweep_all(keeping(stored_world, days=9).services)
    async with stored_world.owner() as owner:
        assert len(await list_versions(owner.services, owner.who, written.page_id)) == 1
    swept = [dict(entry.counts) for entry in await stored_world.entries() if entry.action == "retention.sweep"]
    assert swept == [{"versions": 1}]


@every_store
@pytest.mark.requirement("ERA-07", "ERA-08", "MEM-18")
async def test_what_expired_or_was_deleted_is_in_no_answer_about_any_time(stored_world: World) -> None:
    granted = await stored_world.grant(*EVERYTHING)
    async with stored_world.client(granted) as client:
        kept = await client.write("kept", "the heron stays")
        await client.write("brief", "the heron waits")
        stored_world.clock.advance(MINUTE_MS)
        await client.write("brief", "the heron waits more", expires=to_rfc3339(NOW_MS + 10 * MINUTE_MS))
        await client.write("gone", "the heron left")
        asked = to_rfc3339(stored_world.clock.now_ms())
        before = await client.search("heron", as_of=asked)
        await delete_page(client.services, client.who, path="gone")
        stored_world.clock.advance(10 * MINUTE_MS)

        async def look() -> tuple[list[str], bool]:
            results = await client.search("heron", as_of=asked)
            return [found.head.path.value for found in results.found], results.as_of_exact

        unswept = await look()
        for path in ("brief", "gone"):
            with pytest.raises(NotFoundError):
                await then(client, asked, path)
        await sweep_all(stored_world.services)
        swept = await look()
        later = await client.search("heron", as_of=to_rfc3339(stored_world.clock.now_ms()))

    assert before.as_of_exact
    assert len(before.found) == 3
    assert unswept == swept == (["kept"], False)
    assert ([found.head.id for found in later.found], later.as_of_exact) == ([kept.page_id], True)
    async with stored_world.store.read() as tx:
        slots = ["memory/main", "memory.sensitive/main"]
        assert await tx.history.terms_as_of(stored_world.context_id, slots, 0, NOW_MS, 10) != []
        rows = await tx.history.pages_as_of(stored_world.context_id, [kept.page_id], slots, 0, NOW_MS)
        assert [row.page_id for row in rows] == [kept.page_id]


@pytest.mark.requirement("MEM-19", "TOOL-12")
async def test_the_tool_says_whether_what_it_reads_is_what_the_page_said_then() -> None:
    doors = await Doors.opened()
    for era, world in doors.worlds.items():
        doors.worlds[era] = keeping(world, versions=1)
    doors.apps = {era: endpoint_of(world) for era, world in doors.worlds.items()}
    granted = await doors.grant(*EVERYTHING)
    for body in ("one", "two", "three"):
        await doors.done(granted, "memory_write", {"path": "a", "body": body})
        doors.advance(MINUTE_MS)
    times = [to_rfc3339(NOW_MS + n * MINUTE_MS) for n in (0, 1)]
    lost, kept = [await doors.call(granted, "memory_read", {"path": "a", "as_of": time}) for time in times]
    plain = await doors.done(granted, "memory_read", {"path": "a"})
    before = await doors.refused(granted, "memory_read", {"path": "a", "as_of": to_rfc3339(NOW_MS - 1)})

    for result, time, exact in ((lost, times[0], False), (kept, times[1], True)):
        structured = result["structuredContent"]
        assert structured["page"]["body"] == "two"
        assert (structured["as_of"], structured["as_of_exact"]) == (time, exact)
        assert ("not exact" in result["content"][0]["text"]) is not exact
    assert set(plain) == {"page"}
    assert before["code"] == "not_found"


# ------------------------------------------------------------------------------------------------------ who may see it


@every_store
@pytest.mark.requirement("MEM-17", "MEM-13")
async def test_the_stricter_of_then_and_now_decides_who_sees_a_version(stored_world: World) -> None:
    narrow, full = await stored_world.grant(*DEFAULT_GRANT), await stored_world.grant(*EVERYTHING)
    async with stored_world.client(full) as client:
        opened = await client.write("opened", "the secret heron", sensitivity="sensitive")
        closed = await client.write("closed", "the open heron")
        stored_world.clock.advance(MINUTE_MS)
        await client.write("opened", "the open heron", sensitivity="normal")
        await client.write("closed", "the secret heron", sensitivity="sensitive")
        seen = await client.search("heron", as_of=to_rfc3339(NOW_MS))
        assert (len(seen.found), seen.as_of_exact) == (2, True)
        assert (await then(client, NOW_MS, "opened")).page.body == "the secret heron"

    async with stored_world.client(narrow) as client:
        unseen = await client.search("heron", as_of=to_rfc3339(NOW_MS))
        assert (unseen.found, unseen.as_of_exact) == ((), False)
        stand_in = await then(client, NOW_MS, page_id=opened.page_id)
        assert (stand_in.page.body, stand_in.exact) == ("the open heron", False)
        for page in (closed.page_id, "pg_nobody"):
            with pytest.raises(NotFoundError):
                await then(client, NOW_MS, page_id=page)
            with pytest.raises(NotFoundError):
                await list_versions(client.services, client.who, page)
        numbers = [version.number for version in await list_versions(client.services, client.who, opened.page_id)]
        assert numbers == [2]
        with pytest.raises(NotFoundError):
            await read_version(client.services, client.who, opened.page_id, 1)


@pytest.mark.requirement("KEY-05")
async def test_a_version_that_a_host_changed_moved_or_relabelled_does_not_open(world: World) -> None:
    async with world.owner() as owner:
        first = await owner.write("a", "the heron waits")
        other = await owner.write("b", "the heron left")
        for path in ("a", "b", "a"):
            world.clock.advance(MINUTE_MS)
            await owner.write(path, "nothing of that")
    place = (world.context_id, first.page_id, 1)
    good = world.tables().versions[place]
    stranger = world.tables().versions[world.context_id, other.page_id, 1]
    changes = {
        "a later version": replace(good.page, version=2),
        "an earlier date": replace(good.page, updated_ms=good.page.updated_ms - 1),
        "another slot": replace(good.page, slot="memory.sensitive/main"),
        "another page": replace(stranger.page, page_id=first.page_id),
        "another text": replace(good.page, sealed=stranger.page.sealed, head=stranger.page.head),
    }
    for changed in changes.values():
        version = replace(good, page=changed)

        def put(tables: _Tables, version: object = version) -> None:
            tables.versions[place] = version  # type: ignore[assignment]  # a version, kept by default for the closure

        world.tamper(put)
        async with world.owner() as owner:
            with pytest.raises(TamperedError):
                await then(owner, NOW_MS, "a")
            with pytest.raises(TamperedError):
                await owner.search("heron", as_of=to_rfc3339(NOW_MS))
        assert (await world.last_entry()).action == "tampering.found"


@every_store
@pytest.mark.requirement("SEC-01")
async def test_an_earlier_version_is_stored_as_ciphertext_only(stored_world: World) -> None:
    canary = "quillwort-canary"
    async with stored_world.owner() as owner:
        written = await owner.write(f"notes/{canary}", f"{canary} in the text", title=canary, tags=[canary])
        await owner.write(f"notes/{canary}", "nothing of that", title="other")
        async with stored_world.store.read() as tx:
            slots = owner.who.readable_slots()
            row = await tx.history.version(stored_world.context_id, written.page_id, 1, slots, NOW_MS)
        assert canary in (await then(owner, NOW_MS, page_id=written.page_id)).page.body

    assert row is not None
    assert canary.encode() not in repr(row).encode() + row.sealed + row.head + row.terms
    assert canary not in json.dumps([entry.entry.decode() for entry in await stored_world.audit_rows()])


# -------------------------------------------------------------------------------------------------- time and validity


@each_store
@pytest.mark.requirement("MEM-11", "MEM-18", "MEM-19")
async def test_validity_is_that_of_the_time_that_is_asked_about(stored_world: World) -> None:
    day = [to_rfc3339(NOW_MS + n * DAY_MS)[:10] for n in range(-20, 21)]
    async with stored_world.owner() as owner:
        await owner.write("winter", "the ferry leaves at nine", title="Ferry", valid_until=day[20])
        await owner.write("summer", "the ferry leaves at nine", title="Ferry", valid_from=day[22])
        await owner.write("ever", "the ferry leaves at nine", title="Ferry")
        now = await owner.search("ferry")
        stored_world.clock.advance(3 * DAY_MS)
        await stored_world.sign_in()
    async with stored_world.owner() as owner:
        later = await owner.search("ferry")
        past = await owner.search("ferry", as_of=to_rfc3339(NOW_MS))

    def order(found: object) -> str:
        return " ".join(item.head.path.value for item in found)  # type: ignore[attr-defined]  # results of a search

    assert order(now.found).endswith("summer")
    assert order(later.found).endswith("winter")
    assert order(past.found) == order(now.found)
    shown = {item.head.path.value: (item.head.valid_from, item.head.valid_until) for item in now.found}
    assert shown == {"winter": (None, day[20]), "summer": (day[22], None), "ever": (None, None)}


@each_store
@pytest.mark.requirement("MEM-18")
async def test_lifecycle_and_supersession_are_those_of_the_time_too(stored_world: World) -> None:
    async with stored_world.owner() as owner:
        await owner.write("old", "lives in Mill Lane, Mill Lane four", title="Mill Lane")
        stored_world.clock.advance(MINUTE_MS)
        relations = [{"rel": "supersedes", "target": "old"}]
        await owner.write("new", "moved from Mill Lane to Quay Street", relations=relations)
        stored_world.clock.advance(MINUTE_MS)
        await owner.write("old", "lives in Mill Lane, Mill Lane four", lifecycle="stale")
        stored_world.clock.advance(MINUTE_MS)
        await owner.write("old", "lives in Mill Lane, Mill Lane four", lifecycle="archived")

        async def paths(minute: int, filters: Filters | None = None) -> list[str]:
            results = await owner.search("mill lane", filters=filters, as_of=to_rfc3339(NOW_MS + minute * MINUTE_MS))
            assert results.as_of_exact
            return [found.head.path.value for found in results.found]

        fresh = Filters(include_stale=False)
        assert [await paths(minute) for minute in range(4)] == [["old"], ["new", "old"], ["new", "old"], ["new"]]
        assert [await paths(minute, fresh) for minute in (1, 2, 3)] == [["new", "old"], ["new"], ["new"]]
        assert await paths(3, ALL) == ["new", "old"]
        assert await owner.found("mill lane", fresh) == ["new"]
        assert await owner.paths(Filters(include_stale=False, include_archived=True)) == ["new", "old"]


@pytest.mark.requirement("MEM-19")
async def test_a_day_is_answered_by_its_end_and_what_lies_ahead_not_exactly(world: World) -> None:
    today = to_rfc3339(NOW_MS)[:10]
    async with world.owner() as owner:
        await owner.write("a", "heron one")
        await owner.write("a", "heron two")
        now = await owner.search("heron", as_of=today)
        page = await then(owner, today, "a")
        ahead = await owner.search("heron", as_of=to_rfc3339(NOW_MS + DAY_MS))
        yesterday = await owner.search("heron", as_of=to_rfc3339(NOW_MS - DAY_MS)[:10])
        for wrong in ("spring", "", "2026-02-30"):
            with pytest.raises(InvalidInputError):
                await then(owner, wrong, "a")
        with pytest.raises(InvalidInputError):
            await read_page_as_of(owner.services, owner.who, as_of=today)

    assert (len(now.found), now.as_of_exact, now.as_of) == (1, True, to_rfc3339(NOW_MS))
    assert (page.page.body, page.exact, page.as_of) == ("heron two", True, to_rfc3339(NOW_MS))
    assert (len(ahead.found), ahead.as_of_exact) == (1, False)
    assert (len(yesterday.found), yesterday.as_of_exact) == (0, True)


@every_store
@pytest.mark.requirement("MEM-10")
async def test_a_clock_that_is_set_back_never_takes_a_page_back_in_time(stored_world: World) -> None:
    async with stored_world.owner() as owner:
        first = await owner.write("a", "heron one")
        stored_world.clock.advance(-HOUR_MS)
        second = await owner.write("a", "heron two", expected=first.updated)
        third = await owner.write("a", "heron three", expected=second.updated)
        deleted = await delete_page(owner.services, owner.who, path="a")
        await recover_page(owner.services, owner.who, deleted.page_id)
        today = to_rfc3339(NOW_MS)[:10]

        assert first.updated < second.updated < third.updated
        assert (await then(owner, today, "a")).page.body == "heron three"
        assert [found.head.path.value for found in (await owner.search("heron", as_of=today)).found] == ["a"]
        assert (await then(owner, second.updated, "a")).page.body == "heron two"


async def test_an_edit_to_a_retention_that_has_ended_is_refused(world: World) -> None:
    async with world.owner() as owner:
        await owner.write("a", "text")
        with pytest.raises(InvalidInputError) as refused:
            await owner.write("a", "text", expires=to_rfc3339(NOW_MS))
        assert (await owner.read("a")).expires_ms is None

    assert [violation.path for violation in refused.value.violations] == ["/frontmatter/expires"]


# --------------------------------------------------------------------------------------------------- putting one back


@every_store
async def test_a_version_is_put_back_as_the_newest_one_and_nothing_is_lost(stored_world: World) -> None:
    soon = to_rfc3339(NOW_MS + DAY_MS)
    async with stored_world.owner() as owner:
        body = "---\nnot: ours\n---\n\r\nbody\0"[:-1]
        first = await owner.write("a", "---\ntitle: One\ntags: [x]\nx_note: kept\n---\n" + body)
        stored_world.clock.advance(MINUTE_MS)
        await owner.write("a", "two", title="Two", sensitivity="sensitive", expires=soon)

        shown = await read_version(owner.services, owner.who, first.page_id, 1)
        with pytest.raises(ConflictError):
            await restore_version(owner.services, owner.who, first.page_id, 1, current=1)
        with pytest.raises(NotFoundError):
            await restore_version(owner.services, owner.who, first.page_id, 2, current=2)
        back = await restore_version(owner.services, owner.who, first.page_id, 1, current=2)
        page = await owner.read("a")
        versions = await list_versions(owner.services, owner.who, first.page_id)

    assert (shown.page.body, shown.page.title, shown.current) == (body, "One", 2)
    assert page == back
    assert (page.id, page.body, page.title, page.tags) == (first.page_id, body, "One", ("x",))
    assert page.frontmatter["x_note"] == "kept"
    # Going back opens nothing and keeps nothing longer.
    assert (page.sensitivity, page.frontmatter["expires"]) == ("sensitive", soon)
    assert page.recorded_at_ms == NOW_MS < page.updated_ms
    assert [(version.number, version.head.title) for version in versions] == [(3, "One"), (2, "Two"), (1, "One")]
    assert versions[0].until_ms is None
    actions = [entry.action for entry in await stored_world.entries()]
    assert actions.count("memory.version_restored") == 3
    assert {"memory.version_read", "memory.history_listed"} <= set(actions)


async def test_putting_back_takes_the_rights_of_writing(world: World) -> None:
    async with world.owner() as owner:
        page_id = (await owner.write("a", "one", sensitivity="sensitive")).page_id
        await owner.write("a", "two")
    reader = await world.grant("memory:read", "memory.sensitive:read")
    writer = await world.grant("memory:read", "memory:write", "memory.sensitive:read")
    for granted in (reader, writer):
        async with world.client(granted) as client:
            with pytest.raises(ForbiddenError):
                await restore_version(client.services, client.who, page_id, 1, current=2)
    page = await _body(world, writer)
    assert page.body == "two"


async def _body(world: World, granted: Granted) -> Page:
    async with world.client(granted) as client:
        return await client.read("a")
