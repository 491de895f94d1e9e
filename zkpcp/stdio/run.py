"""The life of ``zkpcp stdio``: approve the scopes, serve until the client leaves, end the grant.

1. The owner's passphrase opens the context; the configured scopes become a grant (AUTH-43).
2. The passphrase is gone before the first message is read; from here on there are only tokens.
3. The client closes standard input, or a signal comes: the grant ends, and with it its keys.

A process that is killed ends nothing; the next one of the same client does.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from zkpcp.bootstrap import configure_logs, keep_house, running_services, site_of
from zkpcp.config import Settings
from zkpcp.core.discovery import mcp_url
from zkpcp.core.stored import ContextRow
from zkpcp.http.mcp.envelope import RpcRefusedError
from zkpcp.stdio.connection import Connection
from zkpcp.stdio.lines import Lines, lines_of
from zkpcp.stdio.output import Output, standard_output
from zkpcp.stdio.programs import LockedFiles
from zkpcp.stdio.server import local_server, refused_line
from zkpcp.usecases import local
from zkpcp.usecases.services import Services

_FOLDER: Final = "stdio"
_ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


async def serve(
    settings: Settings, *, handle: str, client_name: str, scopes: str, passphrase: Callable[[], str]
) -> None:
    """Serve one client over standard input and output.

    ``passphrase`` gives the passphrase once it is needed. Raises SignInError, InvalidInputError and UnavailableError
    before anything is served.
    """
    configure_logs()
    # The package logs exceptions with the values that caused them.
    logging.getLogger("mcp").setLevel(logging.CRITICAL + 1)
    async with running_services(settings) as services:
        programs = LockedFiles(settings.data_dir.expanduser() / _FOLDER)
        try:
            context, connection = await _begin(services, settings, programs, handle, client_name, scopes, passphrase)
            try:
                async with _housekeeping(services):
                    server = local_server(services, site_of(settings), context, connection)
                    await _until_told(server, await lines_of(sys.stdin.buffer))
            finally:
                await connection.end()
        finally:
            programs.release()


async def _begin(
    services: Services,
    settings: Settings,
    programs: LockedFiles,
    handle: str,
    client_name: str,
    scopes: str,
    passphrase: Callable[[], str],
) -> tuple[ContextRow, Connection]:
    async with local.approved(services, handle, passphrase()) as owner:
        made = await local.begin(services, owner, programs, client_name=client_name, scopes=scopes)
        url = mcp_url(site_of(settings).facts(owner.context))
        return owner.context, Connection(services, owner.context, made, mcp_url=url)


async def _until_told(server: Server[dict[str, Any]], lines: Lines) -> None:
    """Serve until the client closes its end, or one of the ending signals comes."""
    serving = asyncio.create_task(_serve(server, lines))
    loop = asyncio.get_running_loop()
    for number in _ENDING:
        loop.add_signal_handler(number, serving.cancel)
    try:
        await asyncio.wait((serving,))
        if not serving.cancelled():
            serving.result()
    finally:
        serving.cancel()


async def _serve(server: Server[dict[str, Any]], lines: Lines) -> None:
    try:
        with standard_output() as output:
            await _exchange(server, lines, output)
    except* OSError:
        pass  # the client closed its end while an answer was on the way


async def _exchange(server: Server[dict[str, Any]], lines: Lines, output: Output) -> None:
    stdin, stdout = cast("anyio.AsyncFile[str]", lines), cast("anyio.AsyncFile[str]", output)
    async with stdio_server(stdin=stdin, stdout=stdout) as (read_stream, write_stream):

        async def refuse(refused: RpcRefusedError) -> None:
            await write_stream.send(SessionMessage(refused_line(refused)))

        lines.refuse = refuse
        await server.run(read_stream, write_stream, server.create_initialization_options())


@asynccontextmanager
async def _housekeeping(services: Services) -> AsyncIterator[None]:
    sweeping = asyncio.create_task(keep_house(services))
    try:
        yield
    finally:
        sweeping.cancel()
        await asyncio.gather(sweeping, return_exceptions=True)
