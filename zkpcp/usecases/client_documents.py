"""Knowing a client by the document that its client id names, fetched when a person is to be asked and not later.

Implements PCP §3.3 (AUTH-18, AUTH-19, SEC-01). Documents are kept in this process for as long as they may be; failures
are not. Many requests for one document make one fetch. A document is public and the same for every context, so the
URL alone is its key. Tokens never need it: a client whose host is away stays connected.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from zkpcp.core.client_documents import ClientDocument, ClientUrl, lifetime_s, parse_client_id, parse_document
from zkpcp.core.redirects import PRIVATE_USE_SCHEMES
from zkpcp.core.stored import ClientRow
from zkpcp.errors import RateLimitedError
from zkpcp.ports import ClientDocumentFetcher, Clock

MAX_DOCUMENTS: Final = 256
MAX_FETCHES_AT_ONCE: Final = 32
SOURCE: Final = "cimd"
_FETCH_TAKES_S: Final = 5

Count = Callable[[str], Awaitable[None]]
"""Counts one fetch from a host, named in the argument, for whoever caused it; raises RateLimitedError."""


@dataclass(frozen=True, slots=True)
class _Kept:
    document: ClientDocument
    fresh_until_ms: int


class ClientDocuments:
    """The documents known at the moment; one instance serves the process."""

    def __init__(
        self,
        fetcher: ClientDocumentFetcher,
        clock: Clock,
        *,
        max_documents: int = MAX_DOCUMENTS,
        redirect_schemes: frozenset[str] = PRIVATE_USE_SCHEMES,
    ) -> None:
        self._fetcher = fetcher
        self._clock = clock
        self._max_documents = max_documents
        self._redirect_schemes = redirect_schemes
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._running: dict[str, asyncio.Task[ClientDocument]] = {}

    async def get(self, client_id: str, *, count: Count) -> ClientDocument:
        """The document that a client id names, fetched unless it is known.

        ``count`` is awaited before a fetch, and only then: failed ones count, or they would be free. Raises
        InvalidInputError for a client id that names no document, ClientDocumentError for a document that is not to be
        had or breaks a rule, RateLimitedError.
        """
        url = parse_client_id(client_id)
        document = self._fresh(url)
        if document is not None:
            return document
        if url.value not in self._running:
            if len(self._running) >= MAX_FETCHES_AT_ONCE:
                raise RateLimitedError("too many apps are being looked up; wait and try again", _FETCH_TAKES_S)
            await count(url.host)
        # Looked at again: another request may have started the fetch while this one was counted.
        running = self._running.get(url.value) or self._start(url)
        # Shielded: who stops waiting must not stop it for the others.
        return await asyncio.shield(running)

    def _fresh(self, url: ClientUrl) -> ClientDocument | None:
        kept = self._kept.get(url.value)
        if kept is None or self._clock.now_ms() >= kept.fresh_until_ms:
            return None
        self._kept.move_to_end(url.value)
        return kept.document

    def _start(self, url: ClientUrl) -> asyncio.Task[ClientDocument]:
        def end(task: asyncio.Task[ClientDocument]) -> None:
            del self._running[url.value]
            if not task.cancelled():
                task.exception()  # seen, even when everybody who waited has left

        task = asyncio.create_task(self._fetch(url))
        self._running[url.value] = task
        task.add_done_callback(end)
        return task

    async def _fetch(self, url: ClientUrl) -> ClientDocument:
        self._kept.pop(url.value, None)
        fetched = await self._fetcher.fetch(url)
        document = parse_document(url, fetched.body, private_use_schemes=self._redirect_schemes)
        fresh_until_ms = self._clock.now_ms() + lifetime_s(fetched.max_age_s) * 1000
        self._kept[url.value] = _Kept(document, fresh_until_ms)
        if len(self._kept) > self._max_documents:
            self._kept.popitem(last=False)
        return document


def as_client(document: ClientDocument, *, context_id: str, now_ms: int) -> ClientRow:
    """The client as consent and grants know clients."""
    return ClientRow(
        context_id=context_id,
        client_id=document.client_id,
        name=document.client_name,
        source=SOURCE,
        redirect_uris=document.redirect_uris,
        refreshable=document.refreshable,
        created_ms=now_ms,
    )
