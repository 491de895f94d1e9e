"""Law: whatever happens in a shared context, each person, app and agent reads what a simple model says, at every step.

Pages are written, moved, made sensitive, proposed, reviewed, deleted, recovered and end; partitions are opened and
closed; people join, are suspended, let in again and removed; an agent acts for them; all keys change, at once or half
way, again and again. The model knows no keys, no index and no store.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from typing_extensions import override

from tests.flows.usecase_support import DEFAULT_GRANT, Granted, Hand, Member, World
from zkpcp import storage
from zkpcp.core.access import RIGHTS, ReviewMode, Right
from zkpcp.core.instants import to_rfc3339
from zkpcp.errors import ConflictError, InvalidInputError, InvalidTokenError, NotFoundError, RefusedError
from zkpcp.ports import Store
from zkpcp.testing import MemoryStore
from zkpcp.usecases import principals, review
from zkpcp.usecases.access import LockedCaller, authenticate
from zkpcp.usecases.forget import delete_page, recover_page
from zkpcp.usecases.housekeeping import sweep
from zkpcp.usecases.partitions import describe_partition, set_access
from zkpcp.usecases.remember import write_page
from zkpcp.usecases.rotation import Rotating, begin_rotation, rotation_left
from zkpcp.usecases.verify import verify_context

T = TypeVar("T")
PARTS: Final = ("main", "one", "two")
PEOPLE: Final = ("bob", "cleo", "dan")
OWNER: Final = "human:owner"
AGENT: Final = "agent:scout"
FULL: Final = (
    "memory:read",
    "memory:write",
    "memory.sensitive:read",
    "memory.sensitive:write",
    "memory:propose",
    "review:read",
)
SOME: Final[tuple[frozenset[Right], ...]] = (
    frozenset(("read",)),
    frozenset(("write",)),
    frozenset(("read", "write")),
    frozenset(("read", "propose")),
    frozenset(("read", "review")),
)
_HANDLES: Final = count(1)

rights: st.SearchStrategy[frozenset[Right]] = st.sampled_from([frozenset(RIGHTS), *SOME]) | st.frozensets(
    st.sampled_from(RIGHTS)
)
paths = st.sampled_from(("a", "b", "c"))
parts = st.sampled_from(PARTS)
ends = st.sampled_from((None, None, None, 3_000))
actors = st.sampled_from(
    [("owner", "pages"), *((who, how) for who in PEOPLE for how in ("pages", "plain", "full", "agent"))]
)

acts_on_people = st.one_of(
    st.tuples(st.just("list"), parts, st.sampled_from((*PEOPLE, "scout", "owner")), rights),
    st.tuples(st.just("list"), parts, st.sampled_from(PEOPLE), rights),
    # Somebody who is gone does nothing any more: the last one stays.
    st.tuples(st.just("member"), st.sampled_from(PEOPLE), st.sampled_from(("suspend", "resume"))),
    st.tuples(st.just("member"), st.sampled_from(PEOPLE[:-1]), st.just("remove")),
    st.tuples(st.just("name"), st.sampled_from(PARTS[1:])),
    st.tuples(st.just("review"), st.sampled_from(("proposals", "proposals", "all-app-writes-wait"))),
)
acts_on_pages = st.one_of(
    st.tuples(st.just("write"), actors, paths, parts, st.booleans(), ends),
    st.tuples(st.just("write"), actors, paths, parts, st.just(value=False), st.none()),
    st.tuples(st.just("propose"), actors, paths, parts, st.booleans()),
    st.tuples(st.just("delete"), actors, paths),
    st.tuples(st.just("recover"), st.integers(0, 9)),
    st.tuples(
        st.just("review"),
        st.sampled_from(("owner", *PEOPLE)),
        st.integers(0, 9),
        st.sampled_from(("approve", "approve", "edit", "reject")),
    ),
)


@dataclass(frozen=True)
class Kept:
    """A page of the model; ``stamp`` is another one after each change."""

    page_id: str
    where: str
    sensitive: bool
    body: str
    ends_ms: int | None
    stamp: int


@dataclass(frozen=True)
class Waiting:
    """A proposal of the model; ``base``: the stamp of the page that its author saw there."""

    path: str
    where: str
    sensitive: bool
    body: str
    base: int | None
    grant_id: str | None


@dataclass
class Person:
    """Somebody in the model, with what they hold outside it."""

    member: Member
    apps: dict[str, Granted]
    state: str = "in"


@dataclass(frozen=True)
class Actor:
    """Somebody who acts now: who is asked for rights, and what the way they came by allows."""

    principals: tuple[str, ...]
    sensitive: bool
    proposes: bool
    is_app: bool
    grant_id: str | None


@dataclass
class Model:
    """Who may do what, what is where, and what waits."""

    access: dict[str, dict[str, frozenset[Right]]] = field(default_factory=dict)
    pages: dict[str, Kept] = field(default_factory=dict)
    deleted: dict[str, tuple[str, Kept]] = field(default_factory=dict)
    waiting: dict[str, Waiting] = field(default_factory=dict)
    writes_wait: bool = False

    def rights(self, actor: Actor, where: str) -> frozenset[Right]:
        held = [self.access[where].get(name, frozenset()) for name in actor.principals]
        return frozenset[Right].intersection(*held)

    def sees(self, actor: Actor, page: Kept | Waiting) -> bool:
        return "read" in self.rights(actor, page.where) and (actor.sensitive or not page.sensitive)

    def may_put(self, actor: Actor, path: str, where: str, sensitive: bool, right: Right) -> bool:
        """Whether a page may be written there, or proposed, which asks for less."""
        page = self.pages.get(path)
        free = right in self.rights(actor, where)
        if page is None or (right == "propose" and not self.sees(actor, page)):
            return free
        touches = page.sensitive if right == "write" and not self.waits(actor) else False
        careful = actor.sensitive or not (touches or page.sensitive != sensitive)
        if self.waits(actor) and not self.sees(actor, page):
            return free
        return self.sees(actor, page) and free and right in self.rights(actor, page.where) and careful

    def waits(self, actor: Actor) -> bool:
        return self.writes_wait and actor.is_app

    def reviews(self, actor: Actor, proposal: Waiting) -> bool:
        opens = not proposal.sensitive or self.sees(actor, proposal)
        return opens and "review" in self.rights(actor, proposal.where)

    def lists(self, actor: Actor, proposal: Waiting) -> bool:
        held = self.rights(actor, proposal.where)
        mine = proposal.grant_id is not None and proposal.grant_id == actor.grant_id
        opens = not proposal.sensitive or self.sees(actor, proposal)
        # A writer has the keys of proposals while writes wait; a sensitive one lies with the pages.
        writes = "write" in held and (self.writes_wait or proposal.sensitive)
        return self.reviews(actor, proposal) or (mine and opens and ("propose" in held or writes))


class Everything(RuleBasedStateMachine):
    """The context and the model side by side."""

    url: ClassVar[str] = ""
    template: ClassVar[Path | None] = None

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.mkdtemp()
        self.store = self.run(self._store())
        self.world = self.run(World.founded(self.store, handle=f"law-{next(_HANDLES)}", kind="team"))
        self.model = Model()
        self.people: dict[str, Person] = {}
        self.ids = {"main": "main"}
        self.names = {"main": "main"}
        self.numbers: Iterator[int] = count(1)
        self.refusal: RefusedError | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    async def _store(self) -> Store:
        if self.template is not None:
            shutil.copyfile(self.template, f"{self.folder}/world.db")
            return await storage.open_store(f"sqlite://{self.folder}/world.db")
        return await storage.open_store(self.url) if self.url else MemoryStore()

    @override
    def teardown(self) -> None:
        try:
            if self.names.keys() == set(PARTS):
                self.run(self._everything_is_whole())
        finally:
            self.run(self.store.close())
            self.runner.close()
            shutil.rmtree(self.folder)

    @initialize(agents=rights, opened=st.tuples(*(st.fixed_dictionaries(dict.fromkeys(PARTS, rights)) for _ in PEOPLE)))
    def begin(self, agents: frozenset[Right], opened: tuple[dict[str, frozenset[Right]], ...]) -> None:
        self.run(self._as_owner(review.set_review, "proposals"))
        for name in PARTS[1:]:
            self.ids[name] = self.run(self.world.partition(name))
            self.names[name] = name
        self.model.access = {name: {OWNER: frozenset(RIGHTS)} for name in PARTS}
        self.run(self._as_owner(principals.add_agent, agent=AGENT, rights={self.ids[name]: agents for name in PARTS}))
        for name in PARTS:
            self.model.access[name][AGENT] = agents
        for name, held in zip(PEOPLE, opened, strict=True):
            self._join(name, held)

    # People and access lists.

    @rule(acts=st.lists(acts_on_people, min_size=1, max_size=3))
    def people_change(self, acts: list[tuple[Any, ...]]) -> None:
        doing: dict[str, Callable[..., None]] = {
            "list": self._a_list_changes,
            "member": self._a_member_is_dealt_with,
            "name": self._a_partition_has_another_name,
            "review": self._review_is_set,
        }
        for what, *how in acts:
            doing[what](*how)

    def _a_list_changes(self, where: str, who: str, held: frozenset[Right]) -> None:
        principal = AGENT if who == "scout" else f"human:{who}"
        if who in PEOPLE and (who not in self.people or self.people[who].state == "gone"):
            return
        lists = {**self.model.access[where], principal: held}
        given = {name: rights for name, rights in lists.items() if rights}
        if not self._has_reader(lists):
            with pytest.raises(InvalidInputError, match="access list"):
                self.run(self._as_owner(set_access, self.ids[where], given))
            return
        self.run(self._as_owner(set_access, self.ids[where], given))
        self.model.access[where] = lists

    def _a_member_is_dealt_with(self, who: str, what: str) -> None:
        person = self.people.get(who)
        allowed = {"suspend": ("in",), "resume": ("out",), "remove": ("in", "out")}[what]
        if person is None or person.state not in allowed:
            return
        state = {"suspend": "out", "resume": "in", "remove": "gone"}[what]
        before, person.state = person.state, state
        act = self._as_owner(getattr(principals, what), person.member.principal)
        if not all(self._has_reader(lists) for lists in self.model.access.values()):
            person.state = before
            with pytest.raises(InvalidInputError):
                self.run(act)
            return
        self.run(act)
        if state == "gone":
            for lists in self.model.access.values():
                lists.pop(person.member.principal, None)

    def _a_partition_has_another_name(self, where: str) -> None:
        name = f"{where}-{next(self.numbers)}"
        self.run(self._as_owner(describe_partition, self.ids[where], name=name, description=""))
        self.names[where] = name

    # Pages.

    @rule(acts=st.lists(acts_on_pages, min_size=4, max_size=12))
    def pages_change(self, acts: list[tuple[Any, ...]]) -> None:
        doing: dict[str, Callable[..., None]] = {
            "write": self._somebody_writes,
            "propose": self._somebody_proposes,
            "delete": self._somebody_deletes,
            "recover": self._the_owner_recovers,
            "review": self._somebody_reviews,
        }
        for what, *how in acts:
            doing[what](*how)

    def _somebody_writes(
        self, actor: tuple[str, str], path: str, where: str, sensitive: bool, ends_in_ms: int | None
    ) -> None:
        who = self._actor(actor)
        if who is None:
            return
        self._tick()
        body, now_ms = self._text(), self.world.clock.now_ms()
        ends_ms = None if ends_in_ms is None else now_ms + ends_in_ms
        may = self.model.may_put(who, path, where, sensitive, "write")
        page = self.model.pages.get(path)
        base = page.stamp if page is not None and self.model.sees(who, page) else None
        written = self.run(self._write(actor, path, body, where, sensitive, ends_ms))
        assert (written is not None) is may, (self.refusal, who, path, where, sensitive, page)
        if written is None:
            return
        page_id, proposal_id = written
        assert (proposal_id is not None) is self.model.waits(who)
        if proposal_id is not None:
            self.model.waiting[proposal_id] = Waiting(path, where, sensitive, body, base, who.grant_id)
        else:
            self.model.pages[path] = Kept(page_id, where, sensitive, body, ends_ms, next(self.numbers))

    def _somebody_deletes(self, actor: tuple[str, str], path: str) -> None:
        self._tick()
        who, page = self._actor(actor), self.model.pages.get(path)
        if who is None or page is None:
            return
        may = (
            self.model.sees(who, page)
            and "write" in self.model.rights(who, page.where)
            and (who.sensitive or not page.sensitive)
            and not self.model.waits(who)
        )
        assert self.run(self._done(actor, delete_page, path=path)) is may
        if may:
            del self.model.pages[path]
            self.model.deleted[page.page_id] = (path, page)

    def _the_owner_recovers(self, which: int) -> None:
        if not self.model.deleted:
            return
        self._tick()
        page_id = sorted(self.model.deleted)[which % len(self.model.deleted)]
        path, page = self.model.deleted[page_id]
        owner = self._actor(("owner", "pages"))
        assert owner is not None
        ended = page.ends_ms is not None and page.ends_ms <= self.world.clock.now_ms()
        may = self.model.sees(owner, page) and path not in self.model.pages and not ended
        assert self.run(self._done(("owner", "pages"), recover_page, page_id)) is may, (
            page,
            path in self.model.pages,
            ended,
        )
        if may:
            self.model.pages[path] = page
            del self.model.deleted[page_id]

    def _time_passes(self, by_ms: int, swept: bool) -> None:
        self.world.clock.advance(by_ms)
        now_ms = self.world.clock.now_ms()
        live = self.model.pages.items()
        self.model.pages = {path: page for path, page in live if page.ends_ms is None or page.ends_ms > now_ms}
        if swept:
            self.run(sweep(self.world.services, self.world.context))

    # Review.

    def _review_is_set(self, mode: ReviewMode) -> None:
        self.run(self._as_owner(review.set_review, mode))
        self.model.writes_wait = mode == "all-app-writes-wait"

    def _somebody_proposes(self, actor: tuple[str, str], path: str, where: str, sensitive: bool) -> None:
        who = self._actor(actor)
        if who is None:
            return
        self._tick()
        page, body = self.model.pages.get(path), self._text()
        may = who.proposes and self.model.may_put(who, path, where, sensitive, "propose")
        base = page.stamp if page is not None and self.model.sees(who, page) else None
        proposal_id = self.run(self._propose(actor, path, body, where, sensitive))
        assert (proposal_id is not None) is may, (self.refusal, who, path, where, sensitive, page)
        if proposal_id is not None:
            self.model.waiting[proposal_id] = Waiting(path, where, sensitive, body, base, who.grant_id)

    def _somebody_reviews(self, who: str, which: int, what: str) -> None:
        reviewer = self._actor((who, "pages"))
        if reviewer is None or not self.model.waiting:
            return
        self._tick()
        proposal_id = sorted(self.model.waiting)[which % len(self.model.waiting)]
        proposal = self.model.waiting[proposal_id]
        edited = self._text() if what == "edit" else None
        may = self.model.reviews(reviewer, proposal)
        if what != "reject":
            may = may and self._may_approve(reviewer, proposal, edited is not None)
        page_id = self.run(self._review(who, proposal_id, proposal, what, edited))
        assert (page_id is not None) is may, (self.refusal, what, reviewer, proposal, self.model.pages)
        if page_id is None:
            return
        del self.model.waiting[proposal_id]
        if what != "reject":
            body = proposal.body if edited is None else edited
            self.model.pages[proposal.path] = Kept(
                page_id, proposal.where, proposal.sensitive, body, None, next(self.numbers)
            )

    def _may_approve(self, reviewer: Actor, proposal: Waiting, edited: bool) -> bool:
        page = self.model.pages.get(proposal.path)
        if "write" not in self.model.rights(reviewer, proposal.where):
            return False
        if page is None:
            return edited or proposal.base is None
        if not self.model.sees(reviewer, page) or "write" not in self.model.rights(reviewer, page.where):
            return False
        return edited or proposal.base == page.stamp

    # Keys.

    @rule(
        what=st.sampled_from(("begin", "steps", "steps", "end", "wait")),
        steps=st.integers(1, 4),
        by_ms=st.sampled_from((1_000, 2_500)),
        swept=st.booleans(),
    )
    def keys_change_or_time_passes(self, what: str, steps: int, by_ms: int, swept: bool) -> None:
        if what == "wait":
            self._time_passes(by_ms, swept)
        elif what == "begin":
            self.run(self._as_owner(begin_rotation))
        else:
            self.run(self._go_on(steps if what == "steps" else 0))

    async def _go_on(self, steps: int) -> None:
        """Take some steps, or try to end it."""
        async with self.world.open() as session:
            if session.keyring.roster.oldest is None:
                return
            rotating = Rotating(self.world.services, session)
            for _ in range(steps):
                await rotating.step()
            if not steps and (await rotation_left(self.world.services, session)).total:
                with pytest.raises(ConflictError):
                    await rotating.end()
            elif not steps:
                await rotating.end()

    # What has to hold.

    @invariant()
    def each_reads_what_the_model_says(self) -> None:
        self.run(self._world_is_as_the_model())

    async def _world_is_as_the_model(self) -> None:
        async with self.world.open() as session:
            await principals._admit_quarantined(self.world.services, session)
        for actor in [
            ("owner", "pages"),
            *((who, how) for who in self.people for how in ("pages", "plain", "full", "agent")),
        ]:
            who = self._actor(actor)
            if who is None:
                await self._is_out(self.people[actor[0]])
                continue
            meant = {path: page.body for path, page in self.model.pages.items() if self.model.sees(who, page)}
            async with self._hand(actor) as hand:
                assert await hand.paths() == sorted(meant)
                found = (await hand.search("heron")).found
                assert {each.head.path.value: each.snippet for each in found} == meant
                for path, page in self.model.pages.items():
                    if path not in meant:
                        with pytest.raises(NotFoundError):
                            await hand.read(page_id=page.page_id)
                if actor[1] in ("pages", "full"):
                    listed = (await review.list_proposals(hand.services, hand.who)).proposals
                    seen = {pid: each.body for pid, each in self.model.waiting.items() if self.model.lists(who, each)}
                    assert {each.proposal_id: each.page.body for each in listed} == seen

    async def _everything_is_whole(self) -> None:
        """All that is stored opens; and after a change of keys nothing of the earlier ones is left."""
        async with self.world.open() as session:
            if session.keyring.roster.oldest is None:
                await begin_rotation(self.world.services, session)
            rotating = Rotating(self.world.services, session)
            while await rotating.step():
                pass
            assert rotating.damaged == 0
            await rotating.end()
            checks = await verify_context(self.world.services, session, lambda *_: None)
            assert [each for each in checks if not each.holds] == []
        await self._world_is_as_the_model()

    async def _is_out(self, person: Person) -> None:
        for granted in person.apps.values():
            if person.state == "out":
                caller = await authenticate(self.world.services, self.world.context, granted.token)
                assert isinstance(caller, LockedCaller)
            else:
                with pytest.raises(InvalidTokenError):
                    await authenticate(self.world.services, self.world.context, granted.token)
        async with self.world.store.read() as tx:
            assert await tx.grants.principal_keyring(self.world.context_id, person.member.principal) is None

    # The way from the model to the world.

    def _join(self, name: str, opened: dict[str, frozenset[Right]]) -> None:
        member = self.run(self.world.join(name, {self.ids[where]: tuple(held) for where, held in opened.items()}))
        for where, held in opened.items():
            self.model.access[where][member.principal] = held
        apps = {
            "plain": self.run(self.world.grant(*DEFAULT_GRANT, member=member)),
            "full": self.run(self.world.grant(*FULL, member=member)),
            "agent": self.run(self.world.grant(*FULL, member=member, agent=AGENT)),
        }
        self.people[name] = Person(member, apps)

    def _actor(self, actor: tuple[str, str]) -> Actor | None:
        """Who that is; None for somebody who is not in."""
        who, how = actor
        if who == "owner":
            return Actor((OWNER,), sensitive=True, proposes=True, is_app=False, grant_id=None)
        person = self.people.get(who)
        if person is None or person.state != "in":
            return None
        if how == "pages":
            return Actor((person.member.principal,), sensitive=True, proposes=True, is_app=False, grant_id=None)
        names = (person.member.principal, AGENT) if how == "agent" else (person.member.principal,)
        full = how != "plain"
        return Actor(names, sensitive=full, proposes=full, is_app=True, grant_id=person.apps[how].grant_id)

    @asynccontextmanager
    async def _hand(self, actor: tuple[str, str]) -> AsyncIterator[Hand]:
        who, how = actor
        if who == "owner":
            async with self.world.owner() as hand:
                yield hand
        elif how == "pages":
            async with self.people[who].member.hand() as hand:
                yield hand
        else:
            async with self.world.client(self.people[who].apps[how]) as hand:
                yield hand

    def _frontmatter(self, where: str, sensitive: bool) -> dict[str, object]:
        return {"partition": self.names[where], "sensitivity": "sensitive" if sensitive else "normal"}

    async def _write(
        self, actor: tuple[str, str], path: str, body: str, where: str, sensitive: bool, ends_ms: int | None
    ) -> tuple[str, str | None] | None:
        keys = self._frontmatter(where, sensitive) | ({} if ends_ms is None else {"expires": to_rfc3339(ends_ms)})
        async with self._hand(actor) as hand:
            try:
                written = await write_page(hand.services, hand.who, path=path, body=body, frontmatter=keys)
            except RefusedError as error:
                self.refusal = error
                return None
        return written.page_id, written.proposal_id

    async def _propose(self, actor: tuple[str, str], path: str, body: str, where: str, sensitive: bool) -> str | None:
        async with self._hand(actor) as hand:
            try:
                return await review.propose_page(
                    hand.services, hand.who, path=path, body=body, frontmatter=self._frontmatter(where, sensitive)
                )
            except RefusedError as error:
                self.refusal = error
                return None

    async def _review(self, who: str, proposal_id: str, proposal: Waiting, what: str, edited: str | None) -> str | None:
        async with self._hand((who, "pages")) as hand:
            try:
                if what == "reject":
                    await review.reject(hand.services, hand.who, proposal_id)
                    return ""
                shown = await review.compare(hand.services, hand.who, proposal_id)
                text = None
                if edited is not None:
                    keys = self._frontmatter(proposal.where, proposal.sensitive)
                    text = "".join(["---\n", *(f"{name}: {value}\n" for name, value in keys.items()), "---\n", edited])
                seen = "" if shown.current is None else shown.current.updated
                return await review.approve(hand.services, hand.who, proposal_id, seen_updated=seen, edited=text)
            except RefusedError as error:
                self.refusal = error
                return None

    async def _done(self, actor: tuple[str, str], act: Any, *arguments: Any, **named: Any) -> bool:  # noqa: ANN401 - any use case
        async with self._hand(actor) as hand:
            try:
                await act(hand.services, hand.who, *arguments, **named)
            except RefusedError as error:
                self.refusal = error
                return False
        return True

    async def _as_owner(self, act: Any, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - any use case
        async with self.world.open() as session:
            await act(self.world.services, session, *arguments, **named)
        await self.world.refresh()
        for person in self.people.values():
            person.member.world.context = self.world.context

    def _tick(self) -> None:
        """No two changes are at the same instant, so that the model needs none."""
        self.world.clock.advance(1)
        now_ms = self.world.clock.now_ms()
        live = self.model.pages.items()
        self.model.pages = {path: page for path, page in live if page.ends_ms is None or page.ends_ms > now_ms}

    def _text(self) -> str:
        return f"heron {next(self.numbers)}"

    def _has_reader(self, lists: dict[str, frozenset[Right]]) -> bool:
        states = {person.member.principal: person.state for person in self.people.values()}
        return any("read" in held and name != AGENT and states.get(name, "in") == "in" for name, held in lists.items())


def run(kind: type[Everything], examples: int) -> None:
    run_state_machine_as_test(
        kind,
        settings=settings(
            max_examples=examples,
            stateful_step_count=25,
            deadline=None,
            # To shrink one takes minutes, and it is short enough as it is.
            phases=(Phase.explicit, Phase.reuse, Phase.generate),
            suppress_health_check=list(HealthCheck),
        ),
    )


_PROVES: Final = pytest.mark.requirement(
    "SCOPE-04", "SCOPE-06", "MEM-07", "MEM-08", "MEM-12", "MEM-13", "MEM-15", "MEM-18", "CTX-07", "KEY-12"
)


@_PROVES
def test_at_every_step_each_person_app_and_agent_reads_what_the_model_says() -> None:
    run(Everything, 15)


@_PROVES
def test_in_a_file_each_reads_what_the_model_says(world_template: Path) -> None:
    run(type("OnSqlite", (Everything,), {"template": world_template}), 2)


@_PROVES
def test_in_a_server_each_reads_what_the_model_says(world_postgres: str) -> None:
    run(type("OnPostgres", (Everything,), {"url": world_postgres}), 2)
