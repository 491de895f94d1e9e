"""Whatever happens to pages, a search says what a plain count over the pages that are open would say."""

from __future__ import annotations

import asyncio
import math
import shutil
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from typing_extensions import override

from tests.flows.usecase_support import World
from zkpcp import storage
from zkpcp.core import terms
from zkpcp.core.instants import to_rfc3339
from zkpcp.errors import ConflictError
from zkpcp.testing import MemoryStore
from zkpcp.usecases.filters import Filters
from zkpcp.usecases.forget import delete_page, recover_page
from zkpcp.usecases.indexing import rebuild_index

T = TypeVar("T")
WORDS = ("bee", "bees", "hive", "honey", "running", "run", "the", "蜂蜜", "queen", "comb")
paths = st.sampled_from([f"notes/n{number}" for number in range(7)])
bodies = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
tags = st.sampled_from([(), ("keeper",), ("keeper", "old")])


@dataclass(frozen=True)
class Kept:
    page_id: str
    body: str
    tags: tuple[str, ...]
    sensitive: bool
    lifecycle: str
    ends_ms: int | None


class LostError(Exception):
    """Ends a transaction in the middle."""


class Searches(RuleBasedStateMachine):
    url = ""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.mkdtemp()
        if self.url:
            shutil.copyfile(self.url, f"{self.folder}/world.db")
        self.store = self.run(storage.open_store(f"sqlite://{self.folder}/world.db")) if self.url else MemoryStore()
        self.world = self.run(World.founded(self.store))
        self.granted = self.run(self.world.grant("memory:read"))
        self.pages: dict[str, Kept] = {}
        self.deleted: dict[str, tuple[str, Kept]] = {}

    def run(self, work: Coroutine[object, object, T]) -> T:
        return self.runner.run(work)

    @override
    def teardown(self) -> None:
        self.run(self.store.close())
        self.runner.close()
        shutil.rmtree(self.folder)

    def live(self) -> dict[str, Kept]:
        now_ms = self.world.clock.now_ms()
        return {path: page for path, page in self.pages.items() if page.ends_ms is None or page.ends_ms > now_ms}

    @rule(
        path=paths,
        body=bodies,
        tags=tags,
        sensitive=st.booleans(),
        lifecycle=st.sampled_from(["active", "active", "stale", "archived"]),
        ends_in_ms=st.sampled_from([None, None, 3_000, 9_000]),
    )
    def write(
        self, path: str, body: str, tags: tuple[str, ...], sensitive: bool, lifecycle: str, ends_in_ms: int | None
    ) -> None:
        ends_ms = None if ends_in_ms is None else self.world.clock.now_ms() + ends_in_ms
        expires = {} if ends_ms is None else {"expires": to_rfc3339(ends_ms)}
        level = "sensitive" if sensitive else "normal"

        async def act() -> str:
            async with self.world.owner() as owner:
                written = await owner.write(
                    path, body, title="comb", tags=list(tags), sensitivity=level, lifecycle=lifecycle, **expires
                )
                return written.page_id

        self.pages[path] = Kept(self.run(act()), body, tags, sensitive, lifecycle, ends_ms)
        self.deleted.pop(self.pages[path].page_id, None)

    @precondition(lambda self: self.live())
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(sorted(self.live())))

        async def act() -> None:
            async with self.world.owner() as owner:
                await delete_page(owner.services, owner.who, path=path)

        self.run(act())
        page = self.pages.pop(path)
        self.deleted[page.page_id] = (path, page)

    @precondition(lambda self: self.deleted)
    @rule(data=st.data())
    def recover(self, data: st.DataObject) -> None:
        page_id = data.draw(st.sampled_from(sorted(self.deleted)))
        path, page = self.deleted[page_id]
        if path in self.pages or (page.ends_ms is not None and page.ends_ms <= self.world.clock.now_ms()):
            return

        async def act() -> None:
            async with self.world.owner() as owner:
                await recover_page(owner.services, owner.who, page_id)

        self.run(act())
        self.pages[path] = page
        del self.deleted[page_id]

    @rule(path=paths, body=bodies)
    def write_in_vain(self, path: str, body: str) -> None:
        """A write that fails: somebody else's change was not known."""

        async def act() -> None:
            async with self.world.owner() as owner:
                with pytest.raises(ConflictError):
                    await owner.write(path, body, expected="2001-01-01T00:00:00.000Z")

        self.run(act())

    @precondition(lambda self: self.live())
    @rule()
    def lose_a_transaction(self) -> None:
        """A transaction that has changed the index, and is rolled back."""

        async def act() -> None:
            async with self.world.owner() as owner, self.world.store.write() as tx:
                for slot in sorted(owner.who.readable_slots()):
                    row = await tx.index.turn(owner.who.context_id, slot, 1)
                    await tx.index.clear(owner.who.context_id, row.slot)
                raise LostError

        with pytest.raises(LostError):
            self.run(act())

    @rule(by_ms=st.sampled_from([1, 2_000, 5_000]))
    def time_passes(self, by_ms: int) -> None:
        self.world.clock.advance(by_ms)

    @rule()
    def sweep(self) -> None:
        async def act() -> None:
            async with self.world.store.write() as tx:
                await tx.pages.delete_expired(self.world.context_id, self.world.clock.now_ms())

        self.run(act())
        self.pages = self.live()

    @rule()
    def rebuild(self) -> None:
        async def act() -> None:
            async with self.world.owner() as owner:
                await rebuild_index(owner.services, owner.who, lambda *_: None)

        self.run(act())

    @invariant()
    def a_search_says_what_a_count_says(self) -> None:
        async def act() -> None:
            async with self.world.owner() as owner:
                for query, needs, bars in QUESTIONS:
                    results = await owner.search(query, filters=Filters(include_archived=True))
                    said = {each.head.path.value: each.score for each in results.found}
                    close_to(said, expected(self.live(), query.split()[0], needs, bars))
            async with self.world.client(self.granted) as client:
                open_ = {path: page for path, page in self.live().items() if not page.sensitive}
                results = await client.search("bees", filters=Filters(include_archived=True))
                close_to({each.head.path.value: each.score for each in results.found}, expected(open_, "bees"))
                shown = {path for path, page in open_.items() if page.lifecycle != "archived"}
                assert set(await client.paths()) == shown

        self.run(act())


QUESTIONS = (("honey", "", ""), ("running -queen tag:keeper", "keeper", "queen"), ("蜂蜜", "", ""))


def expected(pages: dict[str, Kept], word: str, tag: str = "", barred: str = "") -> dict[str, float]:
    """BM25 over exact word and stem, counted page by page."""
    vectors = {path: terms.terms_of_page("comb", page.tags, None, path, page.body) for path, page in pages.items()}
    mean = sum(vector.length for vector in vectors.values()) / len(vectors) if vectors else 0
    [asked] = terms.terms_of_query(word).words
    found: dict[str, float] = {}
    for path, vector in vectors.items():
        score = 0.0
        for weight, forms in ((0.3, [asked.exact]), (1.0, list(asked.stems))):
            count = max(vector.frequencies.get(form, 0) for form in forms)
            holding = max(sum(form in other.frequencies for other in vectors.values()) for form in forms)
            idf = math.log(1 + (len(vectors) - holding + 0.5) / (holding + 0.5))
            score += weight * idf * count / (count + 0.9 * (0.6 + 0.4 * vector.length / mean)) if count else 0.0
        fits = (not tag or tag in pages[path].tags) and f"e:{barred}" not in vector.frequencies
        if score and fits:
            found[path] = score * (0.7 if pages[path].lifecycle == "stale" else 1.0)
    return found


def close_to(said: dict[str, float], meant: dict[str, float]) -> None:
    assert said.keys() == meant.keys()
    assert all(abs(score - meant[path]) < 0.001 for path, score in said.items())


@pytest.mark.requirement("MEM-17", "MEM-18", "MEM-20")
def test_a_search_says_what_a_count_over_the_open_pages_says() -> None:
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    run_state_machine_as_test(
        Searches, settings=settings(max_examples=12, stateful_step_count=16, deadline=None, suppress_health_check=slow)
    )


@pytest.mark.requirement("MEM-17", "MEM-18")
def test_a_search_of_a_database_does_too(world_template: Path) -> None:
    kind = type("OnSqlite", (Searches,), {"url": str(world_template)})
    run_state_machine_as_test(
        kind,
        settings=settings(
            max_examples=2, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
