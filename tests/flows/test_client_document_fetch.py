"""A client's document is fetched over TLS from public addresses only, whatever names, hosts and senders try.

The servers are real ones on loopback. Names resolve to addresses of the test's choice, and the network between notes
which address is dialed and leads every dial to the server of the test: nothing leaves the machine, and a denied address
that was dialed all the same would show.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

import httpcore2
import pytest
from typing_extensions import override

from tests.support.tls_server import Answer, Authority, TlsServer, serve_tls
from zkpcp.core.client_documents import (
    MAX_DOCUMENT_BYTES,
    ClientDocumentError,
    ClientUrl,
    Fetched,
    IPAddress,
    parse_client_id,
    parse_document,
)
from zkpcp.outbound.client_documents import PublicFetcher
from zkpcp.ports import ClientDocumentFetcher
from zkpcp.testing import FixedClock
from zkpcp.usecases.client_documents import ClientDocuments

HOST = "app.example"
URL = parse_client_id(f"https://{HOST}/oauth/client.json")
PUBLIC = "8.8.8.8"
DOCUMENT = json.dumps(
    {"client_id": URL.value, "client_name": "Notes", "redirect_uris": ["https://app.example/callback"]}
).encode()


@dataclass
class Names:
    """A resolver that gives its answers one after the other, the last one for ever."""

    answers: list[list[str]]
    asked: list[str] = field(default_factory=list)

    async def __call__(self, host: str) -> list[IPAddress]:
        self.asked.append(host)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [ip_address(address) for address in answer]


class Network(httpcore2.AnyIOBackend):
    """Notes every dial and leads it to one port on loopback, unless the address is out of reach."""

    def __init__(self, port: int, unreachable: Iterable[str] = ()) -> None:
        self.dials: list[tuple[str, int]] = []
        self._port = port
        self._unreachable = frozenset(unreachable)

    @override
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        self.dials.append((host, port))
        if host in self._unreachable:
            raise httpcore2.ConnectError
        return await super().connect_tcp("127.0.0.1", self._port, timeout, local_address, socket_options)


@dataclass
class World:
    """A fetcher, the names it resolves, the network it dials and the server behind it."""

    fetcher: PublicFetcher
    names: Names
    network: Network
    server: TlsServer


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.new()


@pytest.fixture(scope="module")
def certificate(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], ssl.SSLContext]:
    def make(host: str) -> ssl.SSLContext:
        folder: Path = tmp_path_factory.mktemp("certificate")
        return authority.serving([host], folder)

    return make


def reply(
    body: bytes = DOCUMENT, *, status: str = "200 OK", content_type: str | None = "application/json", extra: str = ""
) -> Answer:
    """A whole answer with its length."""
    kind = "" if content_type is None else f"Content-Type: {content_type}\r\n"
    head = f"HTTP/1.1 {status}\r\n{kind}{extra}Content-Length: {len(body)}\r\n\r\n"
    return raw(head.encode("latin-1") + body)


def raw(data: bytes) -> Answer:
    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    return answer


Open = Callable[..., AbstractAsyncContextManager[World]]


@pytest.fixture
def world(authority: Authority, certificate: Callable[[str], ssl.SSLContext]) -> Open:
    @asynccontextmanager
    async def opened(
        answer: Answer,
        *,
        answers: list[list[str]] | None = None,
        certified: str = HOST,
        trust: ssl.SSLContext | None = None,
        unreachable: Iterable[str] = (),
        timeout_s: float = 5.0,
    ) -> AsyncIterator[World]:
        names = Names(answers or [[PUBLIC]])
        async with serve_tls(certificate(certified), answer) as server:
            network = Network(server.port, unreachable)
            fetcher = PublicFetcher(
                ssl_context=trust or authority.trusting(), resolve=names, network=network, timeout_s=timeout_s
            )
            yield World(fetcher, names, network, server)

    return opened


async def fault(fetcher: ClientDocumentFetcher) -> str:
    with pytest.raises(ClientDocumentError) as caught:
        await fetcher.fetch(URL)
    # Causes name addresses and hosts: none may hang on what goes up.
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return caught.value.fault


@pytest.mark.requirement("AUTH-18", "AUTH-19")
async def test_a_document_is_fetched_by_one_look_up_one_numeric_dial_and_tls_for_the_name(world: Open) -> None:
    async with world(reply(extra="Cache-Control: max-age=300\r\n")) as here:
        fetched = await here.fetcher.fetch(URL)

    assert fetched == Fetched(DOCUMENT, 300)
    assert here.names.asked == [HOST]
    assert here.network.dials == [(PUBLIC, 443)]
    assert here.server.names == [HOST]
    head = here.server.heads[0].lower()
    assert head.startswith("get /oauth/client.json http/1.1\r\n")
    assert f"\r\nhost: {HOST}\r\n" in head
    assert "\r\naccept-encoding: identity\r\n" in head
    assert "cookie" not in head
    assert "authorization" not in head


@pytest.mark.requirement("AUTH-19")
async def test_a_document_becomes_a_client_through_the_cache(world: Open) -> None:
    async def count(_host: str) -> None: ...

    async with world(reply()) as here:
        documents = ClientDocuments(here.fetcher, FixedClock(0))
        found = [await documents.get(URL.value, count=count) for _request in range(3)]

    assert found == [parse_document(URL, DOCUMENT)] * 3
    assert len(here.server.heads) == 1


@pytest.mark.requirement("AUTH-19")
async def test_a_development_fetcher_may_allow_loopback(
    authority: Authority, certificate: Callable[[str], ssl.SSLContext]
) -> None:
    async with serve_tls(certificate(HOST), reply()) as server:
        fetcher = PublicFetcher(
            ssl_context=authority.trusting(),
            resolve=Names([["127.0.0.1"]]),
            allow=lambda address: address.is_loopback,
            network=Network(server.port),
        )

        assert (await fetcher.fetch(URL)).body == DOCUMENT


@pytest.mark.requirement("AUTH-19")
@pytest.mark.parametrize(
    "answer",
    [
        ["127.0.0.1"],
        ["10.0.0.1"],
        ["169.254.0.1"],
        ["169.254.169.254"],
        ["168.63.129.16"],
        ["100.100.100.200"],
        ["0.0.0.0"],  # noqa: S104  # nobody binds to it here
        ["224.0.0.1"],
        ["::1"],
        ["::ffff:127.0.0.1"],
        ["fe80::1"],
        ["fd00:ec2::254"],
        ["64:ff9b::7f00:1"],
        ["64:ff9b::808:808"],
        ["64:ff9b:1::a9fe:a9fe"],
        ["2002:7f00:1::1"],
        ["::ffff:0:7f00:1"],
        [PUBLIC, "127.0.0.1"],
        ["127.0.0.1", PUBLIC],
        [PUBLIC, "1.1.1.1", "2606:4700::1111", "::1"],
    ],
)
async def test_a_name_with_an_address_that_is_not_public_is_refused_without_a_dial(
    world: Open, answer: list[str]
) -> None:
    async with world(reply(), answers=[answer]) as here:
        assert await fault(here.fetcher) == "address"

    assert here.network.dials == []
    assert here.server.heads == []


@pytest.mark.requirement("AUTH-19")
async def test_a_second_answer_of_a_name_is_never_asked_for(world: Open) -> None:
    async with world(reply(), answers=[[PUBLIC], ["127.0.0.1"]]) as here:
        assert (await here.fetcher.fetch(URL)).body == DOCUMENT
        assert here.names.asked == [HOST]
        assert here.network.dials == [(PUBLIC, 443)]

        # The next fetch looks again and keeps no connection that the first look-up allowed.
        assert await fault(here.fetcher) == "address"

    assert here.network.dials == [(PUBLIC, 443)]


@pytest.mark.requirement("AUTH-19")
async def test_a_host_that_cannot_be_reached_by_one_address_is_tried_by_the_next_of_the_same_answer(
    world: Open,
) -> None:
    async with world(reply(), answers=[["2606:4700::1111", PUBLIC]], unreachable=["2606:4700::1111"]) as here:
        assert (await here.fetcher.fetch(URL)).body == DOCUMENT

    assert here.names.asked == [HOST]
    assert here.network.dials == [("2606:4700::1111", 443), (PUBLIC, 443)]


@pytest.mark.requirement("AUTH-19")
async def test_a_host_is_dialed_a_few_times_at_most(world: Open) -> None:
    addresses = [f"8.8.8.{number}" for number in range(50)]
    async with world(reply(), answers=[addresses], unreachable=addresses) as here:
        assert await fault(here.fetcher) == "connection"

    assert len(here.network.dials) == 3


@pytest.mark.requirement("AUTH-19")
async def test_a_name_without_an_address_is_refused(world: Open) -> None:
    async with world(reply(), answers=[[]]) as here:
        assert await fault(here.fetcher) == "address"


@pytest.mark.requirement("AUTH-19")
async def test_a_look_up_that_fails_is_a_refusal() -> None:
    async def broken(_host: str) -> list[IPAddress]:
        raise OSError

    assert await fault(PublicFetcher(resolve=broken)) == "connection"


@pytest.mark.requirement("AUTH-19")
async def test_a_certificate_for_another_host_is_refused(world: Open) -> None:
    async with world(reply(), certified="evil.example") as here:
        assert await fault(here.fetcher) == "connection"

    assert here.server.names == [HOST]
    assert here.server.heads == []


@pytest.mark.requirement("AUTH-19")
async def test_an_authority_that_the_system_does_not_trust_is_refused(world: Open) -> None:
    async with world(reply(), trust=ssl.create_default_context()) as here:
        assert await fault(here.fetcher) == "connection"

    assert here.server.heads == []


@pytest.mark.requirement("AUTH-19")
@pytest.mark.parametrize(
    ("status", "extra"),
    [
        ("301 Moved", f"Location: https://{HOST}/other.json\r\n"),
        ("302 Found", f"Location: https://{HOST}/other.json\r\n"),
        ("307 Temporary Redirect", "Location: http://127.0.0.1/\r\n"),
        ("308 Permanent Redirect", f"Location: https://{HOST}/other.json\r\n"),
        ("201 Created", ""),
        ("206 Partial Content", ""),
        ("404 Not Found", ""),
        ("500 Internal Server Error", ""),
    ],
)
async def test_only_200_counts_and_no_redirect_is_followed(world: Open, status: str, extra: str) -> None:
    async with world(reply(status=status, extra=extra)) as here:
        assert await fault(here.fetcher) == "status"

    assert len(here.server.heads) == len(here.network.dials) == 1


@pytest.mark.requirement("AUTH-19")
@pytest.mark.parametrize("kind", ["text/html", "text/json", "application/jsonp", "application/+json", "", None])
async def test_another_content_type_is_refused(world: Open, kind: str | None) -> None:
    async with world(reply(content_type=kind)) as here:
        assert await fault(here.fetcher) == "content_type"


@pytest.mark.requirement("AUTH-19")
async def test_two_content_types_are_refused(world: Open) -> None:
    async with world(reply(extra="Content-Type: text/html\r\n")) as here:
        assert await fault(here.fetcher) == "content_type"


@pytest.mark.requirement("AUTH-18")
@pytest.mark.parametrize(
    "kind", ["application/json; charset=utf-8", "Application/JSON", "application/oauth-client+json"]
)
async def test_json_goes_by_several_names(world: Open, kind: str) -> None:
    async with world(reply(content_type=kind)) as here:
        assert (await here.fetcher.fetch(URL)).body == DOCUMENT


@pytest.mark.requirement("AUTH-19")
async def test_the_largest_document_is_read_and_one_byte_more_is_not(world: Open) -> None:
    largest = DOCUMENT + b" " * (MAX_DOCUMENT_BYTES - len(DOCUMENT))
    async with world(reply(largest)) as here:
        assert (await here.fetcher.fetch(URL)).body == largest
    async with world(reply(largest + b" ")) as here:
        assert await fault(here.fetcher) == "size"


@pytest.mark.requirement("AUTH-19")
async def test_a_body_in_chunks_without_end_is_cut_while_it_streams(world: Open) -> None:
    async def endless(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"400\r\n" + b" " * 1024 + b"\r\n")
            await writer.drain()

    async with world(endless) as here:
        assert await fault(here.fetcher) == "size"


@pytest.mark.requirement("AUTH-19")
async def test_a_sender_that_never_pauses_for_long_is_cut_at_the_limit_for_the_whole(world: Open) -> None:
    async def drip(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n")
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.01)

    async with world(drip, timeout_s=0.3) as here:
        assert await fault(here.fetcher) == "time"

    assert len(here.server.heads) == 1


@pytest.mark.requirement("AUTH-19")
async def test_a_server_that_never_answers_is_left_at_the_limit(world: Open) -> None:
    async def silence(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with world(silence, timeout_s=0.3) as here:
        assert await fault(here.fetcher) == "time"


@pytest.mark.requirement("AUTH-19")
async def test_a_look_up_that_never_ends_is_left_at_the_limit() -> None:
    async def never(_host: str) -> list[IPAddress]:
        await asyncio.Event().wait()
        return []

    assert await fault(PublicFetcher(resolve=never, timeout_s=0.05)) == "time"


@pytest.mark.requirement("AUTH-19")
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"220 mail.example ESMTP\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000,
    ],
)
async def test_what_is_no_whole_http_answer_is_refused(world: Open, data: bytes) -> None:
    async with world(raw(data)) as here:
        assert await fault(here.fetcher) == "connection"


@pytest.mark.requirement("AUTH-19")
async def test_a_server_without_tls_is_refused() -> None:
    async def plain(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
        network = Network(server.sockets[0].getsockname()[1])

        assert await fault(PublicFetcher(resolve=Names([[PUBLIC]]), network=network)) == "connection"


@pytest.mark.requirement("AUTH-19")
async def test_proxies_of_the_environment_are_not_used(world: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with world(reply()) as here:
        assert (await here.fetcher.fetch(URL)).body == DOCUMENT

    assert here.network.dials == [(PUBLIC, 443)]


@pytest.mark.requirement("AUTH-19")
@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "0177.0.0.1", "0x7f.1", "localhost"])
async def test_what_the_system_reads_as_loopback_is_refused_even_if_it_passed_for_a_name(host: str) -> None:
    # parse_client_id lets none of these through: this is the second wall.
    network = Network(port=1)
    fetcher = PublicFetcher(network=network)

    with pytest.raises(ClientDocumentError) as caught:
        await fetcher.fetch(ClientUrl(f"https://{host}/client.json", host, "/client.json"))

    assert caught.value.fault == "address"
    assert network.dials == []
