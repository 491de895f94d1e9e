"""What tests of use cases stand on: a founded context in a store, its owner, and clients with any scopes.

A plug-in of the test suite: ``world`` lives in memory, ``stored_world`` in each store that ``each_store`` or
``every_store`` names. Time stands still unless a test moves it, and Argon2 runs at its cheapest settings.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pytest

from tests.support.postgres import Postgres
from zkpcp import storage
from zkpcp.core import audit
from zkpcp.core.access import RIGHTS, Right, with_rights
from zkpcp.core.audit import Entry
from zkpcp.core.pages import Page
from zkpcp.core.roster import Roster
from zkpcp.core.schemas import JsonValue, Schemas
from zkpcp.core.scopes import default_grant
from zkpcp.core.stored import AuditRow, ContextRow, GrantRow, TokenRow
from zkpcp.ports import Store
from zkpcp.schema_files import load_schemas
from zkpcp.testing import CountingEntropy, FixedClock, MemoryStore, _Tables
from zkpcp.usecases import brief as briefs
from zkpcp.usecases import log, profile, recall, remember, search
from zkpcp.usecases.access import Acting, Caller, acting, acting_as, authenticate
from zkpcp.usecases.extensions import set_extension
from zkpcp.usecases.filters import Filters
from zkpcp.usecases.found import found_context
from zkpcp.usecases.key_links import take_links
from zkpcp.usecases.log import LogFilters
from zkpcp.usecases.managing import record_managed
from zkpcp.usecases.partitions import create_partition, explicit, set_access
from zkpcp.usecases.roster_changes import change_roster
from zkpcp.usecases.services import Services
from zkpcp.usecases.session import OpenSession, open_session, sign_in
from zkpcp.vault import holders, seeds
from zkpcp.vault.secrets import CHEAPEST, Argon2Profile, TokenSecret, new_token
from zkpcp.vault.seeds import Memory, OpenedSeed

NOW_MS: Final = 1_800_000_000_000
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
PASSPHRASE: Final = "seven herons over the weir"
DEFAULT_GRANT: Final = default_grant("personal")
EVERYTHING: Final = (
    "profile.core:read",
    "profile.core:write",
    "memory:read",
    "memory:write",
    "memory.sensitive:read",
    "memory.sensitive:write",
    "audit:read",
)

_SCHEMAS: Final = load_schemas()
_NUMBERS: Final = count(1)
_MAIN: Final[Mapping[str, Sequence[Right]]] = {"main": RIGHTS}


@dataclass(frozen=True, slots=True)
class Granted:
    """A grant and its one access token."""

    grant_id: str
    token: str
    lookup_id: bytes


@dataclass(frozen=True, slots=True)
class Hand:
    """Somebody's open keys and the use cases, called as tools call them."""

    services: Services
    who: Acting

    async def write(
        self, path: str, body: str = "", *, expected: str | None = None, **frontmatter: object
    ) -> remember.Written:
        return await remember.write_page(
            self.services, self.who, path=path, body=body, frontmatter=frontmatter or None, expected_updated=expected
        )

    async def read(self, path: str | None = None, *, page_id: str | None = None) -> Page:
        return await recall.read_page(self.services, self.who, path=path, page_id=page_id)

    async def list(
        self, *, limit: int = 50, cursor: str | None = None, filters: Filters | None = None
    ) -> recall.Listed:
        return await recall.list_pages(
            self.services, self.who, filters=filters or Filters(), limit=limit, cursor=cursor
        )

    async def paths(self, filters: Filters | None = None) -> Sequence[str]:
        return [head.path.value for head in (await self.list(filters=filters)).heads]

    async def search(
        self,
        query: str,
        *,
        limit: int = 50,
        cursor: str | None = None,
        filters: Filters | None = None,
        as_of: str | None = None,
    ) -> search.Results:
        return await search.search_pages(
            self.services,
            self.who,
            query=query,
            filters=filters or Filters(),
            limit=limit,
            cursor=cursor,
            as_of=as_of,
        )

    async def found(self, query: str, filters: Filters | None = None) -> Sequence[str]:
        return [found.head.path.value for found in (await self.search(query, filters=filters)).found]

    async def brief(self, max_chars: int = 8000) -> briefs.Brief:
        return await briefs.brief(self.services, self.who, max_chars=max_chars)

    async def profiles(self) -> profile.Profiles:
        return await profile.get_profiles(self.services, self.who)

    async def patch(self, patch: JsonValue, namespace: str | None = None) -> profile.Changed:
        return await profile.update_profile(self.services, self.who, patch=patch, namespace=namespace)

    async def log(
        self, *, limit: int = 100, cursor: str | None = None, filters: LogFilters | None = None
    ) -> log.Entries:
        return await log.list_entries(
            self.services, self.who, filters=filters or LogFilters(), limit=limit, cursor=cursor
        )


@dataclass(slots=True)
class World:
    """A context, its signed-in owner, and what everybody in it needs."""

    services: Services
    clock: FixedClock
    context: ContextRow
    recovery_code: str
    session: TokenSecret

    @classmethod
    async def founded(
        cls, store: Store, *, handle: str = "ada", kind: str = "personal", argon2: Argon2Profile = CHEAPEST
    ) -> World:
        """Set a context up and sign its owner in: two entries in its access log."""
        clock = FixedClock(NOW_MS)
        services = Services(
            store=store,
            clock=clock,
            entropy=CountingEntropy(handle),
            schemas=_SCHEMAS,
            argon2=argon2,
            argon2_floor=argon2,
        )
        founded = await found_context(services, handle=handle, kind=kind, passphrase=PASSPHRASE)
        session = await sign_in(services, founded.context, passphrase=PASSPHRASE)
        return cls(services, clock, founded.context, founded.recovery_code.printable(), session)

    @property
    def store(self) -> Store:
        return self.services.store

    @property
    def schemas(self) -> Schemas:
        return self.services.schemas

    @property
    def context_id(self) -> str:
        return self.context.context_id

    def with_store(self, store: Store) -> World:
        """The same world, seen through another store."""
        return replace(self, services=replace(self.services, store=store))

    async def switch(self, *extensions: str, on: bool = True) -> None:
        """The owner turns extensions on or off."""
        async with self.open() as session:
            for extension in extensions:
                await set_extension(self.services, session, extension, enabled=on)
        async with self.store.read() as tx:
            context = await tx.contexts.by_handle(self.context.handle)
        assert context is not None
        self.context = context

    async def sign_in(self) -> None:
        """Sign the owner in again, after time has passed."""
        self.session = await sign_in(self.services, self.context, passphrase=PASSPHRASE)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[OpenSession]:
        """The owner's open session."""
        async with open_session(self.services, self.context, self.session) as session:
            yield session

    @asynccontextmanager
    async def owner(self) -> AsyncIterator[Hand]:
        """The owner on the management surface."""
        async with self.open() as session:
            yield Hand(self.services, acting_as(session))

    @asynccontextmanager
    async def client(self, granted: Granted) -> AsyncIterator[Hand]:
        """A client with its access token, for one call or more."""
        caller = await self.caller(granted)
        async with acting(self.services, caller) as who:
            yield Hand(self.services, who)

    async def caller(self, granted: Granted) -> Caller:
        """The client as the server sees it before anything is opened."""
        caller = await authenticate(self.services, self.context, granted.token)
        assert isinstance(caller, Caller)
        return caller

    async def refresh(self) -> None:
        """Look the context up again, as every request does."""
        async with self.store.read() as tx:
            context = await tx.contexts.by_handle(self.context.handle)
        assert context is not None
        self.context = context

    async def partition(self, name: str, description: str = "", **access: Sequence[Right]) -> str:
        """The owner makes a partition and opens it; ``access`` names people without ``human:``."""
        async with self.open() as session:
            partition = await create_partition(self.services, session, name=name, description=description)
        if access:
            await self.allow(partition, **access)
        await self.refresh()
        return partition

    async def allow(self, partition: str, **access: Sequence[Right]) -> None:
        """Replace an access list; the owner keeps every right unless named."""
        lists = {f"human:{name}": frozenset(rights) for name, rights in ({"owner": RIGHTS} | access).items()}
        async with self.open() as session:
            await set_access(self.services, session, partition, lists)

    async def join(self, name: str, access: Mapping[str, Sequence[Right]] = _MAIN) -> Member:
        """A member, by the owner's word alone; ``access`` by partition id. Tests of invites do it the long way."""
        principal, seed = f"human:{name}", holders.new_seed(self.services.entropy)

        def change(roster: Roster) -> Roster:
            lists = explicit(roster)
            for partition, rights in access.items():
                lists = with_rights(lists, partition, principal, rights)
            entry = holders.new_member(principal, seed)
            return replace(roster, principals=(*roster.principals, entry), access=lists)

        async with self.open() as session, self.store.write() as tx:
            roster = await change_roster(tx, session, change)
        await self.refresh()
        return Member(self, principal, OpenedSeed(seed, Memory.of(roster)))

    async def grant(
        self, *scopes: str, client_id: str = "cli_quill", member: Member | None = None, agent: str | None = None
    ) -> Granted:
        """A new grant with an access token, as consent and token endpoint make them; nothing is logged."""
        principal = member.principal if member else self.context.controller
        now_ms = self.clock.now_ms()
        wanted = GrantRow(
            context_id=self.context_id,
            grant_id=self.services.new_id("gr"),
            principal=agent or principal,
            on_behalf_of=principal if agent else None,
            client_id=client_id,
            client_name="Quill",
            scopes=scopes,
            status="active",
            created_ms=now_ms,
            used_ms=now_ms,
            refreshable=False,
            kem_public=b"",
            sig_public=b"",
            signature=b"",
            anchor=b"",
        )
        async with member.open() if member else self.open() as session:
            made = holders.make_grant(
                session.keyring, grant=wanted, offer=self.context.offer, entropy=self.services.entropy
            )
        token = new_token("at", self.services.entropy)
        wrapped = seeds.wrap_for_token(
            token, "access", self.context_id, wanted.grant_id, made.opened, self.services.entropy
        )
        made.opened.seed.wipe()
        row = TokenRow(
            context_id=self.context_id,
            lookup_id=token.lookup_id(),
            kind="access",
            grant_id=wanted.grant_id,
            client_id=client_id,
            scopes=scopes,
            created_ms=now_ms,
            expires_ms=now_ms + HOUR_MS,
            used_ms=None,
            wrapped=wrapped,
        )
        async with self.store.write() as tx:
            await tx.grants.add_grant(made.row, made.keyring)
            await tx.grants.add_token(row)
        return Granted(wanted.grant_id, token.text(), row.lookup_id)

    async def audit_rows(self) -> Sequence[AuditRow]:
        """The whole access log as it is stored, oldest first."""
        async with self.store.read() as tx:
            rows = await tx.audit.entries(self.context_id, limit=10_000)
        return [*reversed(rows)]

    async def entries(self) -> Sequence[Entry]:
        """The whole access log, oldest first."""
        return [audit.from_json(row.entry) for row in await self.audit_rows()]

    async def last_entry(self) -> Entry:
        return (await self.entries())[-1]

    def tables(self) -> _Tables:
        """The rows of a store in memory."""
        assert isinstance(self.store, MemoryStore)
        return self.store._committed

    async def uncounted(self) -> None:
        """Make the context what it was before there were integrity heads."""
        async with self.open() as session, self.store.write() as tx:
            await change_roster(tx, session, lambda roster: replace(roster, counted=MappingProxyType({})))
            await record_managed(tx, self.services, session, "test", ())
        if isinstance(self.store, MemoryStore):
            self.tamper(lambda tables: tables.slot_heads.clear())

    def tamper(self, change: Callable[[_Tables], object]) -> None:
        """Change rows as a hostile host can, behind everybody's back; a store in memory only."""
        assert isinstance(self.store, MemoryStore)
        tables = self.store._committed.copy()
        change(tables)
        self.store._committed = tables


@dataclass(frozen=True, slots=True)
class Member:
    """A principal other than the owner, by the seed that their passphrase would open."""

    world: World
    principal: str
    opened: OpenedSeed

    @asynccontextmanager
    async def open(self) -> AsyncIterator[OpenSession]:
        """The member's open session."""
        context_id = self.world.context_id
        async with self.world.store.read() as tx:
            roster = await tx.contexts.roster(context_id)
            keyring = await tx.grants.principal_keyring(context_id, self.principal)
        assert roster is not None
        assert keyring is not None
        with holders.open_principal(self.principal, self.opened, roster, keyring) as keys:
            await take_links(self.world.services, keys)
            yield OpenSession(self.world.context, self.principal, keys)

    @asynccontextmanager
    async def hand(self) -> AsyncIterator[Hand]:
        """The member on the management surface."""
        async with self.open() as session:
            yield Hand(self.world.services, acting_as(session))


def follows(rows: Sequence[AuditRow]) -> bool:
    """Whether the stored entries follow one another from the first one on."""
    head = audit.GENESIS
    for number, row in enumerate(rows, start=1):
        head = audit.follow(head, audit.from_json(row.entry))
        if (row.seq, row.hash) != (number, head):
            return False
    return True


@pytest.fixture(scope="session")
def world_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file, to copy."""
    path = tmp_path_factory.mktemp("worlds") / "template.db"
    storage.migrate(f"sqlite://{path}")
    return path


@pytest.fixture(scope="session")
def world_postgres(postgres: Postgres) -> str:
    """The URL of a migrated PostgreSQL database that the worlds of a run share, each a context of its own."""
    url = postgres.fresh_database()
    storage.migrate(url)
    return url


@pytest.fixture
def world_sqlite(world_template: Path, tmp_path: Path) -> str:
    """The URL of a SQLite database of one world's own."""
    path = tmp_path / "world.db"
    shutil.copyfile(world_template, path)
    return f"sqlite://{path}"


@pytest.fixture
def world_url(request: pytest.FixtureRequest) -> str:
    """Where a parametrized world lives; made outside the test's event loop, as migrations are."""
    return "" if request.param == "world_memory" else str(request.getfixturevalue(request.param))


@pytest.fixture
async def world() -> World:
    """A world in memory."""
    return await World.founded(MemoryStore())


@pytest.fixture
async def stored_world(world_url: str) -> AsyncIterator[World]:
    """A world in the store at ``world_url``."""
    store: Store = await storage.open_store(world_url) if world_url else MemoryStore()
    try:
        yield await World.founded(store, handle=f"ada-{next(_NUMBERS)}")
    finally:
        await store.close()


each_store: Final = pytest.mark.parametrize("world_url", ["world_memory", "world_sqlite"], indirect=True)
"""In memory and in SQLite: for tests that take ``stored_world``."""

every_store: Final = pytest.mark.parametrize(
    "world_url", ["world_memory", "world_sqlite", "world_postgres"], indirect=True
)
"""In PostgreSQL too."""
