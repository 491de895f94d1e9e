"""Which requests for a client's document lead to a fetch, and which fetches count."""

from __future__ import annotations

import asyncio
import gc
import json
from dataclasses import dataclass, field

import pytest

from zkpcp.core.client_documents import ClientDocumentError, ClientUrl, Fetched
from zkpcp.errors import InvalidInputError, RateLimitedError
from zkpcp.testing import FixedClock
from zkpcp.usecases.client_documents import MAX_FETCHES_AT_ONCE, ClientDocuments, as_client

NOW_MS = 1_767_225_600_000
CLIENT_ID = "https://app.example/client.json"


def client_id(number: int) -> str:
    return f"https://app{number}.example/client.json"


@dataclass
class Web:
    """Every URL answers with a document that names it; or fails, or waits for the gate."""

    max_age_s: int | None = 300
    is_down: bool = False
    name: str = "Notes"
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gate.set()

    async def fetch(self, url: ClientUrl) -> Fetched:
        self.asked.append(url.value)
        await self.gate.wait()
        if self.is_down:
            raise ClientDocumentError("connection")
        document = {"client_id": url.value, "client_name": self.name, "redirect_uris": ["http://localhost/cb"]}
        return Fetched(json.dumps(document).encode(), self.max_age_s)


@dataclass
class Counter:
    """Counts per host, and refuses when told to."""

    hosts: list[str] = field(default_factory=list)
    is_full: bool = False

    async def __call__(self, host: str) -> None:
        self.hosts.append(host)
        if self.is_full:
            raise RateLimitedError("too many attempts; wait and try again", 7)


@pytest.fixture
def web() -> Web:
    return Web()


@pytest.fixture
def count() -> Counter:
    return Counter()


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(NOW_MS)


@pytest.fixture
def documents(web: Web, clock: FixedClock) -> ClientDocuments:
    return ClientDocuments(web, clock, max_documents=3)


async def settle() -> None:
    for _turn in range(5):
        await asyncio.sleep(0)


@pytest.mark.requirement("AUTH-18")
async def test_a_document_is_fetched_once_while_it_is_fresh(
    documents: ClientDocuments, web: Web, clock: FixedClock, count: Counter
) -> None:
    first = await documents.get(CLIENT_ID, count=count)
    web.name = "Renamed"
    clock.advance(299_999)
    kept = await documents.get(CLIENT_ID, count=count)
    clock.advance(1)
    renewed = await documents.get(CLIENT_ID, count=count)

    assert first == kept
    assert renewed.client_name == "Renamed"
    assert web.asked == [CLIENT_ID] * 2
    assert count.hosts == ["app.example"] * 2


@pytest.mark.requirement("AUTH-19")
async def test_a_failure_is_not_kept_and_a_stale_document_is_no_substitute(
    documents: ClientDocuments, web: Web, clock: FixedClock, count: Counter
) -> None:
    await documents.get(CLIENT_ID, count=count)
    clock.advance(300_000)
    web.is_down = True
    for _attempt in range(2):
        with pytest.raises(ClientDocumentError):
            await documents.get(CLIENT_ID, count=count)
    web.is_down = False
    document = await documents.get(CLIENT_ID, count=count)

    assert document.client_name == "Notes"
    assert len(web.asked) == len(count.hosts) == 4


@pytest.mark.requirement("AUTH-19")
async def test_a_document_that_breaks_a_rule_is_not_kept(documents: ClientDocuments, web: Web, count: Counter) -> None:
    web.name = "\u200b"
    with pytest.raises(ClientDocumentError):
        await documents.get(CLIENT_ID, count=count)
    web.name = "Notes"

    assert (await documents.get(CLIENT_ID, count=count)).client_name == "Notes"


@pytest.mark.requirement("SEC-01")
async def test_a_refused_count_means_no_fetch_but_what_is_known_stays_known(
    documents: ClientDocuments, web: Web, count: Counter
) -> None:
    known = await documents.get(CLIENT_ID, count=count)
    count.is_full = True
    with pytest.raises(RateLimitedError):
        await documents.get(client_id(2), count=count)

    assert await documents.get(CLIENT_ID, count=count) == known
    assert web.asked == [CLIENT_ID]


@pytest.mark.requirement("AUTH-19")
async def test_what_is_no_client_url_is_neither_counted_nor_fetched(
    documents: ClientDocuments, web: Web, count: Counter
) -> None:
    with pytest.raises(InvalidInputError):
        await documents.get("https://127.0.0.1/client.json", count=count)

    assert web.asked == count.hosts == []


async def test_many_requests_for_one_document_make_one_fetch(
    documents: ClientDocuments, web: Web, count: Counter
) -> None:
    web.gate.clear()
    requests = [asyncio.create_task(documents.get(CLIENT_ID, count=count)) for _ in range(5)]
    await settle()
    web.gate.set()
    found = await asyncio.gather(*requests)

    assert len(set(found)) == 1
    assert web.asked == [CLIENT_ID]
    assert count.hosts == ["app.example"]


async def test_who_leaves_does_not_stop_the_fetch_for_the_others(
    documents: ClientDocuments, web: Web, count: Counter
) -> None:
    web.gate.clear()
    leaver, stayer = (asyncio.create_task(documents.get(CLIENT_ID, count=count)) for _ in range(2))
    await settle()
    leaver.cancel()
    await settle()
    web.gate.set()

    assert (await stayer).client_id == CLIENT_ID
    assert leaver.cancelled()
    assert web.asked == [CLIENT_ID]


async def test_a_failure_that_nobody_waits_for_any_more_is_forgotten(
    documents: ClientDocuments, web: Web, count: Counter
) -> None:
    complaints: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, complaint: complaints.append(complaint))
    web.gate.clear()
    web.is_down = True
    leaver = asyncio.create_task(documents.get(CLIENT_ID, count=count))
    await settle()
    leaver.cancel()
    web.gate.set()
    await settle()
    web.is_down = False

    assert (await documents.get(CLIENT_ID, count=count)).client_id == CLIENT_ID
    assert len(web.asked) == 2
    del leaver  # its traceback would keep the fetch alive, and asyncio complains when the last reference goes
    gc.collect()
    assert complaints == []


async def test_the_document_that_was_not_used_for_longest_makes_room(
    documents: ClientDocuments, web: Web, count: Counter
) -> None:
    for number in (1, 2, 3, 1, 4):
        await documents.get(client_id(number), count=count)
    web.asked.clear()
    for number in (1, 3, 4, 2):
        await documents.get(client_id(number), count=count)

    assert web.asked == [client_id(2)]


@pytest.mark.requirement("SEC-01")
async def test_only_so_many_fetches_run_at_once(web: Web, clock: FixedClock, count: Counter) -> None:
    documents = ClientDocuments(web, clock)
    web.gate.clear()
    running = [
        asyncio.create_task(documents.get(client_id(number), count=count)) for number in range(MAX_FETCHES_AT_ONCE)
    ]
    await settle()
    with pytest.raises(RateLimitedError):
        await asyncio.wait_for(documents.get(CLIENT_ID, count=count), 1)
    web.gate.set()
    await asyncio.gather(*running)

    assert (await documents.get(CLIENT_ID, count=count)).client_id == CLIENT_ID


async def test_consent_knows_the_client_as_it_knows_others(documents: ClientDocuments, count: Counter) -> None:
    client = as_client(await documents.get(CLIENT_ID, count=count), context_id="cx_1", now_ms=NOW_MS)

    assert (client.client_id, client.name, client.source) == (CLIENT_ID, "Notes", "cimd")
    assert client.redirect_uris == ("http://localhost/cb",)
