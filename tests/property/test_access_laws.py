"""Law: whatever happens to partitions, access lists, members and agents, each reads what a simple model says.

Partitions are opened and closed; people join, are suspended, let in again and removed; an agent acts for them; pages
are written and moved. After each step everybody's list of pages, and that of each app, is compared with the model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from typing_extensions import override

from tests.flows.usecase_support import DEFAULT_GRANT, Granted, Member, World
from zkpcp.core.access import RIGHTS, Right
from zkpcp.errors import ForbiddenError, InvalidInputError, InvalidTokenError, NotFoundError, RefusedError
from zkpcp.testing import MemoryStore
from zkpcp.usecases import principals
from zkpcp.usecases.access import LockedCaller, authenticate
from zkpcp.usecases.partitions import set_access

T = TypeVar("T")
NAMES = ("main", "one", "two")
PEOPLE = ("bob", "cleo")
AGENT = "agent:scout"
_BOTH: tuple[Right, ...] = ("read", "write")
rights = st.frozensets(st.sampled_from(RIGHTS))


@dataclass
class Person:
    """Somebody in the model, with what they hold outside it."""

    member: Member
    app: Granted
    agent: Granted | None = None
    state: str = "in"


@dataclass
class Model:
    """Who may do what, and where each page is."""

    access: dict[str, dict[str, frozenset[Right]]] = field(default_factory=dict)
    pages: dict[str, str] = field(default_factory=dict)

    def may(self, who: str, right: Right, partition: str) -> bool:
        return right in self.access[partition].get(who, frozenset())

    def reads(self, *who: str) -> list[str]:
        return sorted(path for path, where in self.pages.items() if all(self.may(name, "read", where) for name in who))


class AccessMachine(RuleBasedStateMachine):
    """The context and the model side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.world = self.run(World.founded(MemoryStore(), kind="team"))
        self.model = Model()
        self.people: dict[str, Person] = {}
        self.ids = {"main": "main"}
        self.steps = 0

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    @override
    def teardown(self) -> None:
        self.runner.close()

    @initialize(agents=rights)
    def begin(self, agents: frozenset[Right]) -> None:
        for name in NAMES[1:]:
            self.ids[name] = self.run(self.world.partition(name))
        self.model.access = {name: {"human:owner": frozenset(RIGHTS)} for name in NAMES}
        held = {self.ids[name]: agents for name in NAMES}
        self.run(self._as_owner(principals.add_agent, agent=AGENT, rights=held))
        for name in NAMES:
            self.model.access[name][AGENT] = agents

    @precondition(lambda self: len(self.people) < len(PEOPLE))
    @rule(opened=st.fixed_dictionaries(dict.fromkeys(NAMES, rights)))
    def somebody_joins(self, opened: dict[str, frozenset[Right]]) -> None:
        name = PEOPLE[len(self.people)]
        member = self.run(self.world.join(name, {self.ids[where]: tuple(held) for where, held in opened.items()}))
        for where, held in opened.items():
            self.model.access[where][member.principal] = held
        app = self.run(self.world.grant(*DEFAULT_GRANT, member=member))
        agent = self.run(self.world.grant(*DEFAULT_GRANT, member=member, agent=AGENT))
        self.people[name] = Person(member, app, agent)

    @rule(where=st.sampled_from(NAMES), who=st.sampled_from((*PEOPLE, "scout", "owner")), held=rights)
    def a_list_changes(self, where: str, who: str, held: frozenset[Right]) -> None:
        principal = AGENT if who == "scout" else f"human:{who}"
        if who in PEOPLE and (who not in self.people or self.people[who].state == "gone"):
            return
        lists = {**self.model.access[where], principal: held}
        given = {name: rights for name, rights in lists.items() if rights}
        try:
            self.run(self._as_owner(set_access, self.ids[where], given))
        except InvalidInputError:
            assert not self._has_reader(lists)
            return
        assert self._has_reader(lists)
        self.model.access[where] = lists

    @rule(who=st.sampled_from(PEOPLE), what=st.sampled_from(("suspend", "resume", "remove")))
    def a_member_is_dealt_with(self, who: str, what: str) -> None:
        person = self.people.get(who)
        allowed = {"suspend": ("in",), "resume": ("out",), "remove": ("in", "out")}[what]
        if person is None or person.state not in allowed:
            return
        state = {"suspend": "out", "resume": "in", "remove": "gone"}[what]
        before, person.state = person.state, state
        if not all(self._has_reader(lists) for lists in self.model.access.values()):
            person.state = before
            with pytest.raises(InvalidInputError):
                self.run(self._as_owner(getattr(principals, what), person.member.principal))
            return
        self.run(self._as_owner(getattr(principals, what), person.member.principal))
        if state == "gone":
            for lists in self.model.access.values():
                lists.pop(person.member.principal, None)

    @rule(
        who=st.sampled_from((*PEOPLE, "owner")),
        path=st.sampled_from(("a", "b", "c")),
        where=st.sampled_from(NAMES),
        by_agent=st.booleans(),
    )
    def somebody_writes(self, who: str, path: str, where: str, by_agent: bool) -> None:
        actors = (f"human:{who}", AGENT) if by_agent and who != "owner" else (f"human:{who}",)
        held = self.model.pages.get(path)
        may = all(self.model.may(each, "write", where) for each in actors)
        if held is not None:
            may = may and all(self.model.may(each, right, held) for each in actors for right in _BOTH)
        wrote = self.run(self._write(who, path, where, by_agent=by_agent and who != "owner"))
        if wrote is not None:
            assert wrote is may
            if wrote:
                self.model.pages[path] = where

    @invariant()
    def everybody_reads_what_the_model_says(self) -> None:
        self.run(self._world_is_as_the_model())

    async def _world_is_as_the_model(self) -> None:
        async with self.world.owner() as owner:
            assert await owner.paths() == self.model.reads("human:owner")
        for person in self.people.values():
            principal = person.member.principal
            if person.state != "in":
                await self._is_out(person)
                continue
            async with person.member.hand() as hand:
                assert await hand.paths() == self.model.reads(principal)
            async with self.world.client(person.app) as app:
                assert await app.paths() == self.model.reads(principal)
            if person.agent is not None:
                async with self.world.client(person.agent) as agent:
                    assert await agent.paths() == self.model.reads(principal, AGENT)

    async def _is_out(self, person: Person) -> None:
        for granted in filter(None, (person.app, person.agent)):
            if person.state == "out":
                caller = await authenticate(self.world.services, self.world.context, granted.token)
                assert isinstance(caller, LockedCaller)
            else:
                with pytest.raises(InvalidTokenError):
                    await authenticate(self.world.services, self.world.context, granted.token)
        async with self.world.store.read() as tx:
            assert await tx.grants.principal_keyring(self.world.context_id, person.member.principal) is None

    async def _write(self, who: str, path: str, where: str, *, by_agent: bool) -> bool | None:
        """Whether it was written; None for somebody who cannot come in at all."""
        person = self.people.get(who)
        if who != "owner" and (person is None or person.state != "in"):
            return None
        self.steps += 1
        body = f"text {self.steps}"
        try:
            if person is None:
                async with self.world.owner() as owner:
                    await owner.write(path, body, partition=where)
            else:
                granted = person.agent if by_agent and person.agent is not None else person.app
                async with self.world.client(granted) as app:
                    await app.write(path, body, partition=where)
        except (ForbiddenError, InvalidInputError, NotFoundError, RefusedError):
            return False
        return True

    async def _as_owner(self, act: Any, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - any use case
        async with self.world.open() as session:
            await act(self.world.services, session, *arguments, **named)

    def _has_reader(self, lists: dict[str, frozenset[Right]]) -> bool:
        states = {person.member.principal: person.state for person in self.people.values()}
        return any("read" in held and name != AGENT and states.get(name, "in") == "in" for name, held in lists.items())


@pytest.mark.requirement("SCOPE-04", "SCOPE-06", "MEM-12", "MEM-13", "CTX-07")
def test_at_every_step_each_person_app_and_agent_reads_what_the_model_says() -> None:
    run_state_machine_as_test(
        AccessMachine,
        settings=settings(
            max_examples=15, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
        ),
    )
