"""A context inside this process: the real use cases on a real database, without HTTP.

For questions about what search finds, what it costs beside another engine in the same process, and what its database
shows. The clock stands still and the keys are the same in every run: figures of sizes and places repeat.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, cast

from zkpcp import storage
from zkpcp.core.stored import ContextRow, IndexPartRow, PageRow
from zkpcp.ports import Index, Pages, Store, Transaction
from zkpcp.schema_files import load_schemas
from zkpcp.testing import CountingEntropy, FixedClock
from zkpcp.usecases.access import Acting, Caller, acting, authenticate
from zkpcp.usecases.filters import Filters
from zkpcp.usecases.found import found_context
from zkpcp.usecases.grants import create_grant
from zkpcp.usecases.recall import list_pages, read_page
from zkpcp.usecases.remember import write_page
from zkpcp.usecases.search import search_pages
from zkpcp.usecases.services import Services
from zkpcp.usecases.session import open_session, sign_in
from zkpcp.vault.secrets import CHEAPEST

_NOW_MS: Final = 1_800_000_000_000
_PASSPHRASE: Final = "six unrelated words for one measurement"
_WRITES_PER_COMMIT: Final = 200


@dataclass(frozen=True, slots=True)
class Text:
    """A page to write."""

    path: str
    body: str
    title: str = ""
    tags: tuple[str, ...] = ()
    type: str | None = None

    def frontmatter(self) -> dict[str, object] | None:
        """What a client would send along."""
        keys: dict[str, object] = {}
        if self.title:
            keys["title"] = self.title
        if self.tags:
            keys["tags"] = list(self.tags)
        if self.type:
            keys["type"] = self.type
        return keys or None


@dataclass(frozen=True, slots=True)
class Inside:
    """A context, and an app's access token to it; every call opens the app's keys anew, as the server does."""

    services: Services
    context: ContextRow
    token: str = field(repr=False)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Acting]:
        """The app with open keys."""
        caller = await authenticate(self.services, self.context, self.token)
        assert isinstance(caller, Caller)
        async with acting(self.services, caller) as who:
            yield who

    async def write(self, text: Text) -> str:
        """Create or replace a page; its id."""
        async with self.client() as who:
            return await self.write_as(who, text)

    async def write_as(self, who: Acting, text: Text) -> str:
        """The same with keys that are open already."""
        written = await write_page(self.services, who, path=text.path, body=text.body, frontmatter=text.frontmatter())
        return written.page_id

    async def search(self, query: str, limit: int = 10) -> list[str]:
        """The paths that answer a query, best first."""
        async with self.client() as who:
            results = await search_pages(self.services, who, query=query, filters=Filters(), limit=limit)
            return [found.head.path.value for found in results.found]

    async def read(self, path: str) -> str:
        """The body of a page."""
        async with self.client() as who:
            return (await read_page(self.services, who, path=path)).body

    async def list(self, prefix: str, limit: int = 50) -> list[str]:
        """The first paths below a prefix."""
        async with self.client() as who:
            listed = await list_pages(self.services, who, filters=Filters(prefix=prefix), limit=limit)
            return [head.path.value for head in listed.heads]

    async def fill(self, texts: Sequence[Text], done: Callable[[int], None] = lambda _: None) -> None:
        """Write many pages, some hundred to a commit; each one is indexed and compacts as if it came alone."""
        for first in range(0, len(texts), _WRITES_PER_COMMIT):
            async with self.services.store.write() as tx:
                quick = replace(self, services=replace(self.services, store=cast("Store", _OneTransaction(tx))))
                async with quick.client() as who:
                    for text in texts[first : first + _WRITES_PER_COMMIT]:
                        await quick.write_as(who, text)
            done(len(texts[first : first + _WRITES_PER_COMMIT]))

    def watched(self, seen: Seen) -> Inside:
        """The same context, with every row that is read from its index and pages noted."""
        return replace(self, services=replace(self.services, store=cast("Store", _Watched(self.services.store, seen))))


@dataclass(slots=True)
class Seen:
    """What a host sees a call read: parts of the index, and pages, by name and id; and the bytes of both."""

    parts: list[str] = field(default_factory=list)
    pages: list[str] = field(default_factory=list)
    read_bytes: int = 0


@asynccontextmanager
async def founded(folder: Path, handle: str = "bench") -> AsyncIterator[Inside]:
    """A context in the migrated database of ``migrated(folder)``, with one app that has the default scopes."""
    async with founded_at(_url(folder), handle) as inside:
        yield inside


@asynccontextmanager
async def founded_at(url: str, handle: str = "bench") -> AsyncIterator[Inside]:
    """The same in any migrated database."""
    store = await storage.open_store(url)
    try:
        services = Services(
            store=store,
            clock=FixedClock(_NOW_MS),
            entropy=CountingEntropy(handle),
            schemas=load_schemas(),
            argon2=CHEAPEST,
            argon2_floor=CHEAPEST,
        )
        made = await found_context(services, handle=handle, kind="personal", passphrase=_PASSPHRASE)
        session = await sign_in(services, made.context, passphrase=_PASSPHRASE)
        async with open_session(services, made.context, session) as owner:
            grant = await create_grant(services, owner, client_name="bench")
        yield Inside(services, made.context, grant.access.text())
    finally:
        await store.close()


def migrated(folder: Path) -> Path:
    """The file of an empty database in a folder; not to be called inside an event loop."""
    folder.mkdir(parents=True, exist_ok=True)
    storage.migrate(_url(folder))
    return _file(folder)


def _file(folder: Path) -> Path:
    return folder / "context.db"


def _url(folder: Path) -> str:
    return f"sqlite://{_file(folder).resolve()}"


class _OneTransaction:
    """A store whose every transaction is the same one, for filling."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Transaction]:
        yield self._tx

    @asynccontextmanager
    async def write(self) -> AsyncIterator[Transaction]:
        yield self._tx


class _Watched:
    """A store that notes what is read."""

    def __init__(self, store: Store, seen: Seen) -> None:
        self._store = store
        self._seen = seen

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Transaction]:
        async with self._store.read() as tx:
            yield cast("Transaction", _WatchedTransaction(tx, self._seen))

    @asynccontextmanager
    async def write(self) -> AsyncIterator[Transaction]:
        async with self._store.write() as tx:
            yield tx


class _WatchedTransaction:
    def __init__(self, tx: Transaction, seen: Seen) -> None:
        self._tx = tx
        self.index = _WatchedIndex(tx.index, seen)
        self.pages = _WatchedPages(tx.pages, seen)

    def __getattr__(self, name: str) -> object:
        return getattr(self._tx, name)


class _WatchedIndex:
    def __init__(self, index: Index, seen: Seen) -> None:
        self._index = index
        self._seen = seen

    async def parts(self, context_id: str, slot: str, parts: Collection[str]) -> Sequence[IndexPartRow]:
        rows = await self._index.parts(context_id, slot, parts)
        self._seen.parts += [row.part for row in rows]
        self._seen.read_bytes += sum(len(row.sealed) for row in rows)
        return rows

    def __getattr__(self, name: str) -> object:
        return getattr(self._index, name)


class _WatchedPages:
    def __init__(self, pages: Pages, seen: Seen) -> None:
        self._pages = pages
        self._seen = seen

    async def pages(
        self, context_id: str, page_ids: Sequence[str], slots: Collection[str], now_ms: int
    ) -> Sequence[PageRow]:
        rows = await self._pages.pages(context_id, page_ids, slots, now_ms)
        self._seen.pages += [row.page_id for row in rows]
        self._seen.read_bytes += sum(len(row.sealed) for row in rows)
        return rows

    def __getattr__(self, name: str) -> object:
        return getattr(self._pages, name)
