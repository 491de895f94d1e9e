"""Strangers who connect and send nothing, or too slowly."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from tests.flows.oauth_support import HANDLE, oauth_server
from zkpcp.bootstrap import server_config
from zkpcp.http.connections import PromptHttp

PATIENCE_S: Final = 20  # of the tests, for a machine under load
FORM_TYPE: Final = "application/x-www-form-urlencoded"
HEAD: Final = f"POST /c/{HANDLE}/token HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {FORM_TYPE}\r\n".encode()


class SoonClosing(PromptHttp):
    """The same clock, run out at once."""

    arrival_s = 0.2


@asynccontextmanager
async def served(
    app: Callable[[Scope, Receive, Send], Awaitable[None]], protocol: type[PromptHttp] = PromptHttp
) -> AsyncIterator[tuple[uvicorn.Server, int]]:
    """The app as ``zkpcp serve`` has it, on a free port; what is left when the block ends is waited for."""
    config = server_config(app, host="127.0.0.1", port=0)
    config.http = protocol
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    [listener] = server.servers[0].sockets
    try:
        yield server, listener.getsockname()[1]
    finally:
        server.should_exit = True
        async with asyncio.timeout(PATIENCE_S):
            await server.shutdown()


async def rest(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(PATIENCE_S):
        return await reader.read()


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTT",
        HEAD,
        HEAD + b"content-length: 100\r\n\r\ngrant_type=",
        HEAD + b"transfer-encoding: chunked\r\n\r\n5\r\ngrant\r\n",
    ],
    ids=["nothing", "half a line", "half a header", "half a body", "half of chunks"],
)
async def test_a_request_that_does_not_arrive_is_answered_408_and_its_connection_closed(sent: bytes) -> None:
    app = (await oauth_server()).app
    async with served(app, SoonClosing) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)

        answer = await rest(reader)

        writer.close()
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"error":"request_timeout"' in answer


async def test_a_second_request_on_the_same_connection_has_a_clock_too() -> None:
    app = (await oauth_server()).app
    async with served(app, SoonClosing) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /nothing HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" + HEAD)

        answers = await rest(reader)

        writer.close()
    assert answers.startswith(b"HTTP/1.1 404 ")
    assert b"HTTP/1.1 408 " in answers


async def test_blank_lines_after_an_answer_do_not_keep_a_connection_open() -> None:
    app = (await oauth_server()).app
    async with served(app, SoonClosing) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /nothing HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        await reader.readuntil(b"}")
        writer.write(b"\r\n")

        answer = await rest(reader)

        writer.close()
    assert answer.startswith(b"HTTP/1.1 408 ")


async def test_a_request_that_does_not_arrive_is_not_answered_in_the_place_of_the_one_before() -> None:
    seen = asyncio.Event()

    async def slow(_: Scope, _receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"100")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"half of", "more_body": True})
        await seen.wait()

    for sent in (HEAD, HEAD + b"content-length: 100\r\n\r\ngrant_type="):
        async with served(slow, SoonClosing) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" + sent)

            answer = await rest(reader)

            seen.set()
            writer.close()
        seen.clear()
        assert answer.endswith(b"half of")


async def test_the_clock_stops_when_the_request_is_here_however_long_the_answer_takes() -> None:
    answered = asyncio.Event()

    async def slow(_: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await answered.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
        await send({"type": "http.response.body", "body": b"at last"})

    async with served(slow, SoonClosing) as (_, port):
        asyncio.get_running_loop().call_later(4 * SoonClosing.arrival_s, answered.set)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")

        answer = await rest(reader)

        writer.close()
    assert b"at last" in answer


async def test_idle_strangers_neither_hold_others_up_nor_the_end_of_the_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = (await oauth_server()).app
    async with served(app) as (server, port):
        open_ends = [await asyncio.open_connection("127.0.0.1", port) for _ in range(50)]
        for _, writer in open_ends[::2]:
            writer.write(HEAD + b"content-length: 100\r\n\r\ngrant_type=secret-canary")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /nothing HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
        assert (await rest(reader)).startswith(b"HTTP/1.1 404 ")

        with caplog.at_level(logging.ERROR):
            async with asyncio.timeout(5):  # half of what running requests are given
                await server.shutdown()

        for stream, end in (*open_ends, (reader, writer)):
            await rest(stream)
            end.close()
    assert not caplog.records


async def test_beyond_the_most_connections_the_next_is_told_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zkpcp.bootstrap.MOST_CONNECTIONS", 3)
    app = (await oauth_server()).app
    async with served(app) as (_, port):
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")

        answer = await rest(reader)

        for _, end in (*idle, (reader, writer)):
            end.close()
    assert answer.startswith(b"HTTP/1.1 503 ")
