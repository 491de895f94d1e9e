"""The lines of standard input, one message each, as far as this server reads them (MCP, transports: stdio).

The same JSON is read as over HTTP, and no more of it: what two readers could take in different ways never reaches the
protocol. Reading waits on the event loop, not in a thread, so that the program can end while the client is silent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import IO, Final

from zkpcp.errors import RefusedError, TooLargeError, UnavailableError
from zkpcp.http.mcp.envelope import RpcCode, RpcRefusedError
from zkpcp.http.mcp.jsonin import NotJsonError, parse_json

MAX_LINE_BYTES: Final = 4 * 1024 * 1024

Refuse = Callable[[RpcRefusedError], Awaitable[None]]


class Lines:
    """An asynchronous iterator over the lines that are readable messages; ``refuse`` answers all others."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self.refuse: Refuse = _say_nothing

    def __aiter__(self) -> Lines:
        return self

    async def __anext__(self) -> str:
        """The next readable line. Raises StopAsyncIteration where the input ends."""
        while True:
            try:
                line = await self._next_line()
                if not line:
                    raise StopAsyncIteration
                if line.strip():
                    parse_json(line)
                    return line.decode()
            except RefusedError as refused:
                code = RpcCode.PARSE_ERROR if isinstance(refused, NotJsonError) else RpcCode.INVALID_REQUEST
                await self.refuse(RpcRefusedError(code, refused.message))

    async def _next_line(self) -> bytes:
        try:
            return await self._reader.readline()
        except ValueError:
            pass
        # Raised out here: the error of the reader knows how much was sent.
        raise TooLargeError("the message is larger than this server reads")


async def lines_of(file: IO[bytes]) -> Lines:
    """The lines of a pipe, socket or terminal. Raises UnavailableError for anything else."""
    reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    try:
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    except ValueError:
        raise UnavailableError("standard input must be the pipe of an MCP client") from None
    return Lines(reader)


async def _say_nothing(refused: RpcRefusedError) -> None:
    del refused
