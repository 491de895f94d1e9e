"""Every act leaves exactly one entry, and nothing of what it touched (PCP §7.5, U5)."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager

import pytest

from tests.flows.usecase_support import (
    DEFAULT_GRANT,
    EVERYTHING,
    MINUTE_MS,
    NOW_MS,
    Granted,
    Hand,
    World,
    each_store,
    every_store,
    follows,
)
from zkpcp.core import audit
from zkpcp.core.audit import Channel, Entry, Outcome
from zkpcp.core.instants import to_rfc3339
from zkpcp.core.stored import AuditHead, AuditRow
from zkpcp.errors import ForbiddenError, InvalidInputError, RefusedError, UnavailableError
from zkpcp.ports import (
    Audit,
    Contexts,
    Counters,
    Credentials,
    Grants,
    Handoffs,
    Heads,
    History,
    Index,
    Invites,
    Pages,
    Partitions,
    Profiles,
    Proposals,
    Rotation,
    Store,
    Transaction,
)
from zkpcp.usecases.found import found_context
from zkpcp.usecases.history import read_page_as_of
from zkpcp.usecases.log import LogFilters
from zkpcp.usecases.session import sign_in
from zkpcp.usecases.versions import list_versions
from zkpcp.vault.secrets import CHEAPEST

Act = Callable[[Hand], Awaitable[object]]

DONE: dict[str, tuple[Act, str]] = {
    "write": (lambda hand: hand.write("b", "text"), "memory_write"),
    "replace": (lambda hand: hand.write("a", "other"), "memory_write"),
    "read": (lambda hand: hand.read("a"), "memory_read"),
    "read then": (lambda hand: read_page_as_of(hand.services, hand.who, as_of="2099-01-01", path="a"), "memory_read"),
    "search then": (lambda hand: hand.search("text", as_of="2099-01-01"), "memory_search"),
    "list": (lambda hand: hand.list(), "memory_list"),
    "search": (lambda hand: hand.search("text"), "memory_search"),
    "brief": (lambda hand: hand.brief(), "context_brief"),
    "profile": (lambda hand: hand.profiles(), "profile_get"),
    "patch": (lambda hand: hand.patch({"name": "Ada"}), "profile_update"),
    "log": (lambda hand: hand.log(), "audit_list"),
}
"""Acts that succeed with every scope, given a page at ``a``, and their names in the log."""

FAILING: dict[str, tuple[Act, str, Outcome]] = {
    "bad path": (lambda hand: hand.write("/", "text"), "memory_write", Outcome.INVALID),
    "case": (lambda hand: hand.write("A", "text"), "memory_write", Outcome.CONFLICT),
    "stale": (lambda hand: hand.write("a", "x", expected=to_rfc3339(1)), "memory_write", Outcome.CONFLICT),
    "nothing": (lambda hand: hand.read("nowhere"), "memory_read", Outcome.NOT_FOUND),
    "neither": (lambda hand: hand.read(), "memory_read", Outcome.INVALID),
    "cursor": (lambda hand: hand.list(cursor="x"), "memory_list", Outcome.INVALID),
    "no words": (lambda hand: hand.search("?"), "memory_search", Outcome.INVALID),
    "patch": (lambda hand: hand.patch({"shoe": 1}), "profile_update", Outcome.INVALID),
    "log": (lambda hand: hand.log(cursor="x"), "audit_list", Outcome.INVALID),
}


@every_store
@pytest.mark.requirement("AUD-02", "AUD-03", "AUD-05", "KEY-07")
async def test_every_act_has_exactly_one_entry_and_the_entries_form_one_chain(stored_world: World) -> None:
    granted = await stored_world.grant(*EVERYTHING)
    async with stored_world.client(granted) as client:
        await client.write("a", "text")
        await client.patch({"name": "Ada Reed"})
        for name, (act, action) in DONE.items():
            before = len(await stored_world.entries())
            await act(client)
            entries = await stored_world.entries()
            assert (len(entries), entries[-1].action, entries[-1].outcome) == (before + 1, action, Outcome.OK), name
            assert entries[-1].decrypted == (name not in ("write", "log")), name
        for name, (act, action, outcome) in FAILING.items():
            before = len(await stored_world.entries())
            with pytest.raises(RefusedError):
                await act(client)
            entries = await stored_world.entries()
            assert (len(entries), entries[-1].action, entries[-1].outcome) == (before + 1, action, outcome), name
            assert (entries[-1].object_ids, dict(entries[-1].counts)) == ((), {}), name

    entries = await stored_world.entries()
    for entry in entries:
        assert stored_world.schemas.violations("0.3/audit.entry", audit.to_json(entry)) == ()
    assert {entry.grant for entry in entries[2:]} == {granted.grant_id}
    assert {entry.channel for entry in entries} == {Channel.MCP, Channel.MANAGEMENT}
    assert follows(await stored_world.audit_rows())


@pytest.mark.requirement("AUD-05", "KEY-07")
async def test_a_refused_act_that_opened_something_says_so(world: World) -> None:
    granted = await world.grant(*EVERYTHING)

    async with world.client(granted) as client:
        await client.write("a", "text")
        await client.patch({"name": "Ada Reed"})
        for name, decrypts in (("case", True), ("stale", True), ("patch", True), ("bad path", False)):
            with pytest.raises(RefusedError):
                await FAILING[name][0](client)
            assert (await world.last_entry()).decrypted is decrypts, name


@pytest.mark.requirement("AUD-05")
async def test_an_act_without_its_scope_is_denied_and_logged(world: World) -> None:
    granted = await world.grant()

    async with world.client(granted) as client:
        for name, (act, action) in DONE.items():
            if name == "brief":
                continue
            before = len(await world.entries())
            with pytest.raises(ForbiddenError):
                await act(client)
            entries = await world.entries()
            assert (len(entries), entries[-1].action, entries[-1].outcome) == (before + 1, action, Outcome.DENIED), name
            assert not entries[-1].decrypted


@pytest.mark.requirement("AUD-05")
async def test_a_sweep_of_expired_pages_is_an_entry_of_its_own(world: World) -> None:
    granted = await world.grant(*DEFAULT_GRANT)
    async with world.client(granted) as client:
        await client.write("a", "text", expires=to_rfc3339(NOW_MS + 1))
        world.clock.advance(1)
        await client.write("a", "text")

    sweep, write = (await world.entries())[-2:]

    assert (sweep.action, sweep.channel, dict(sweep.counts)) == ("retention.sweep", Channel.SYSTEM, {"pages": 1})
    assert (write.action, write.outcome) == ("memory_write", Outcome.OK)
    assert follows(await world.audit_rows())


class _FullLog:
    """An access log that takes no further entry."""

    def __init__(self, log: Audit) -> None:
        self._log = log

    async def head(self, context_id: str) -> AuditHead:
        return await self._log.head(context_id)

    async def newest(self, context_id: str) -> AuditHead:
        return await self._log.newest(context_id)

    async def hash_of(self, context_id: str, seq: int) -> bytes | None:
        return await self._log.hash_of(context_id, seq)

    async def append(self, row: AuditRow, roster_version: int = 0) -> None:
        raise UnavailableError(f"the access log takes no entry number {row.seq} by roster {roster_version}")

    async def entries(
        self,
        context_id: str,
        *,
        limit: int,
        before_seq: int | None = None,
        since_ms: int | None = None,
        action: str | None = None,
        category: str | None = None,
        outcome: str | None = None,
        partitions: Collection[str] | None = None,
    ) -> Sequence[AuditRow]:
        return await self._log.entries(
            context_id,
            limit=limit,
            before_seq=before_seq,
            since_ms=since_ms,
            action=action,
            category=category,
            outcome=outcome,
            partitions=partitions,
        )


class _FullLogTransaction:
    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    @property
    def contexts(self) -> Contexts:
        return self._tx.contexts

    @property
    def credentials(self) -> Credentials:
        return self._tx.credentials

    @property
    def grants(self) -> Grants:
        return self._tx.grants

    @property
    def pages(self) -> Pages:
        return self._tx.pages

    @property
    def history(self) -> History:
        return self._tx.history

    @property
    def profiles(self) -> Profiles:
        return self._tx.profiles

    @property
    def handoffs(self) -> Handoffs:
        return self._tx.handoffs

    @property
    def invites(self) -> Invites:
        return self._tx.invites

    @property
    def partitions(self) -> Partitions:
        return self._tx.partitions

    @property
    def counters(self) -> Counters:
        return self._tx.counters

    @property
    def proposals(self) -> Proposals:
        return self._tx.proposals

    @property
    def heads(self) -> Heads:
        return self._tx.heads

    @property
    def rotation(self) -> Rotation:
        return self._tx.rotation

    @property
    def index(self) -> Index:
        return self._tx.index

    @property
    def audit(self) -> Audit:
        return _FullLog(self._tx.audit)


class FullLogStore:
    """A store whose access log fails, and everything else works."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Transaction]:
        async with self._store.read() as tx:
            yield _FullLogTransaction(tx)

    @asynccontextmanager
    async def write(self) -> AsyncIterator[Transaction]:
        async with self._store.write() as tx:
            yield _FullLogTransaction(tx)

    async def close(self) -> None:
        await self._store.close()


async def everything_of(world: World, granted: Granted) -> object:
    async with world.client(granted) as client:
        pages = [await client.read(page_id=head.id) for head in (await client.list()).heads]
        versions = [await list_versions(client.services, client.who, page.id) for page in pages]
        texts = [(page.path.value, page.updated, page.body) for page in pages]
        return texts, versions, (await client.profiles()).by_namespace


@each_store
@pytest.mark.requirement("KEY-07", "AUD-05")
async def test_an_act_that_cannot_be_logged_returns_nothing_and_changes_nothing(stored_world: World) -> None:
    granted = await stored_world.grant(*EVERYTHING)
    async with stored_world.client(granted) as client:
        await client.write("a", "text")
        await client.patch({"name": "Ada Reed"})
    before = await everything_of(stored_world, granted)
    deaf = stored_world.with_store(FullLogStore(stored_world.store))

    async with deaf.client(granted) as client:
        for act in [act for act, _ in DONE.values()] + [act for act, _, _ in FAILING.values()]:
            with pytest.raises(UnavailableError):
                await act(client)
        with pytest.raises(UnavailableError):
            await client.write("style/letters", "Short sentences.")
    with pytest.raises(UnavailableError):
        await sign_in(deaf.services, deaf.context, passphrase="not the passphrase")
    with pytest.raises(UnavailableError):
        await found_context(deaf.services, handle="bea", kind="personal", passphrase="seven herons over the weir")

    assert await everything_of(stored_world, granted) == before
    async with stored_world.store.read() as tx:
        assert await tx.contexts.by_handle("bea") is None
    assert follows(await stored_world.audit_rows())


@each_store
@pytest.mark.requirement("AUD-04", "SEC-12")
async def test_no_entry_holds_a_body_title_path_query_tag_or_profile_value(stored_world: World) -> None:
    canaries = [f"zq{word}zq" for word in ("body", "title", "path", "query", "tag", "value", "author", "cursor")]
    body, title, path, query, tag, value, author, cursor = canaries
    granted = await stored_world.grant(*EVERYTHING)
    default = await stored_world.grant(*DEFAULT_GRANT)

    async def refused(act: Awaitable[object]) -> None:
        with pytest.raises(RefusedError) as error:
            await act
        assert not [word for word in canaries if word in f"{error.value!r} {error.value.__context__!r}"]

    async with stored_world.client(granted) as client:
        await client.write(path, body, title=title, tags=[tag], source={"session": author}, x_note=value)
        await client.write(f"{path}/closed", body, title=title, sensitivity="sensitive")
        await client.read(path)
        await client.search(f"{query} {body}")
        await client.patch({"name": value, "interests": [value]})
        await client.brief()
        await client.log()
        await refused(client.write(f"{path}//", body))
        await refused(client.write(path, f"---\n{title}: [\n---\n"))
        await refused(client.write(path, body, **{title: value}))
        await refused(client.write(path, body, tags=[tag * 50], lifecycle=value))
        await refused(client.write(path.upper(), body))
        await refused(client.read(f"{path}/none"))
        await refused(client.read(f"{path}/.."))
        await refused(client.search(query, cursor=cursor))
        await refused(client.patch({value: value, "name": {value: value}, "locale": value * 99}))
        await refused(client.log(cursor=cursor))
        await refused(client.log(filters=LogFilters(since=value)))
    async with stored_world.client(default) as client:
        await client.write(f"style/{path}", body, title=title)
        await refused(client.write(f"{path}/closed", body))
    async with stored_world.owner() as owner:
        await owner.read(f"style/{path}")

    # Every member but the random ids and the hash, so that nothing is found by chance.
    logged = b"\n".join(row.entry for row in await stored_world.audit_rows())
    for word in canaries:
        for form in (word.encode(), base64.b64encode(word.encode())[:8], word.encode().hex().encode()):
            assert form.lower() not in logged.lower()
    assert follows(await stored_world.audit_rows())


def plain(entry: Entry) -> tuple[str, tuple[str, ...], tuple[str, ...], dict[str, int]]:
    return entry.action, entry.categories, entry.object_ids, dict(entry.counts)


@each_store
@pytest.mark.requirement("AUD-02", "AUD-06")
async def test_a_reader_of_the_log_sees_of_each_entry_what_its_scopes_open(stored_world: World) -> None:
    async with stored_world.owner() as owner:
        closed = await owner.write("health/knee", "it creaks", sensitivity="sensitive")
        opened = await owner.write("notes/tea", "two spoons")
        await owner.patch({"name": "Ada Reed"})
    reader = await stored_world.grant("memory:read", "audit:read")
    auditor = await stored_world.grant("audit:read")

    async with stored_world.owner() as owner:
        whole = (await owner.log()).entries
    async with stored_world.client(reader) as client:
        part = (await client.log()).entries
    async with stored_world.client(auditor) as client:
        least = (await client.log()).entries

    # Newest first; the last three before the readers' own are what the owner did.
    patched, second, first = whole[:3]
    assert plain(first) == ("memory_write", ("memory", "memory.sensitive"), (closed.page_id,), {})
    assert plain(second) == ("memory_write", ("memory",), (opened.page_id,), {})
    assert plain(patched) == ("profile_update", ("profile.core",), (), {"members": 1})
    assert [plain(entry) for entry in part[1:4]] == [
        ("profile_update", (), (), {}),
        ("memory_write", ("memory",), (opened.page_id,), {}),
        ("memory_write", ("memory",), (), {}),
    ]
    assert [plain(entry) for entry in least[2:5]] == [
        ("profile_update", (), (), {}),
        ("memory_write", (), (), {}),
        ("memory_write", (), (), {}),
    ]


@pytest.mark.requirement("AUD-06")
async def test_a_filter_by_a_closed_category_finds_nothing(world: World) -> None:
    async with world.owner() as owner:
        await owner.write("health/knee", "it creaks", sensitivity="sensitive")
        await owner.write("notes/tea", "two spoons")
    granted = await world.grant("memory:read", "audit:read")
    closed, opened = LogFilters(category="memory.sensitive"), LogFilters(category="memory")

    async with world.client(granted) as client:
        by_closed = await client.log(filters=closed, limit=1)
        by_open = await client.log(filters=opened)
    async with world.owner() as owner:
        by_owner = await owner.log(filters=closed)

    assert by_closed.entries == ()
    assert by_closed.next_cursor is None
    assert len(by_open.entries) == 2
    assert len(by_owner.entries) == 1


@each_store
@pytest.mark.requirement("AUD-02")
async def test_the_log_is_read_newest_first_in_parts_and_by_what_is_asked(stored_world: World) -> None:
    granted = await stored_world.grant(*EVERYTHING)
    async with stored_world.client(granted) as client:
        for number in range(4):
            stored_world.clock.advance(MINUTE_MS)
            await client.write(f"n{number}", "text")
        with pytest.raises(RefusedError):
            await client.read("nowhere")
        writes = LogFilters(action="memory_write")
        part = await client.log(limit=3, filters=writes)
        rest = await client.log(limit=3, filters=writes, cursor=part.next_cursor)
        failed = await client.log(filters=LogFilters(outcome="not_found"))
        late = await client.log(filters=LogFilters(since=to_rfc3339(NOW_MS + 4 * MINUTE_MS), action="memory_write"))
        with pytest.raises(InvalidInputError):
            await client.log(limit=3, cursor=part.next_cursor)

    seen = [entry.at_ms for entry in (*part.entries, *rest.entries)]
    assert seen == [NOW_MS + number * MINUTE_MS for number in (4, 3, 2, 1)]
    assert rest.next_cursor is None
    assert [entry.action for entry in failed.entries] == ["memory_read"]
    assert len(late.entries) == 1
    assert json.loads(audit.canonical(late.entries[0]))["grant"] == granted.grant_id


async def test_two_contexts_keep_two_logs(world: World) -> None:
    other = await World.founded(world.store, handle="bea", argon2=CHEAPEST)
    before = await world.entries()

    async with other.owner() as owner:
        await owner.write("a", "text")

    assert await world.entries() == before
    assert follows(await other.audit_rows())
