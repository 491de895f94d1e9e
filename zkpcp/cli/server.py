"""``zkpcp serve``: the server."""

from __future__ import annotations

import asyncio
import base64
from typing import Annotated

import typer

from zkpcp.bootstrap import prepare_database
from zkpcp.bootstrap import serve as run_server
from zkpcp.cli.process import forbid_dumps
from zkpcp.cli.terminal import database_for_people, fail, prepare_database_apart, say, settings_or_exit
from zkpcp.config import LOOPBACK_HOSTS, Settings
from zkpcp.crypto.entropy import SystemEntropy
from zkpcp.errors import ZkpcpError


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on (ZKPCP_HOST, 127.0.0.1).")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on (ZKPCP_PORT, 8765).")] = None,
    public_url: Annotated[
        str | None,
        typer.Option(help="Origin that clients see (ZKPCP_PUBLIC_URL); https unless it is loopback."),
    ] = None,
) -> None:
    """Serve until interrupted.

    The database lies in ZKPCP_DATA_DIR (~/.local/share/zkpcp) unless ZKPCP_DATABASE_URL names another, such as
    postgresql://user@host/name. The server listens on loopback; to reach it from elsewhere put a proxy with https in
    front and set ZKPCP_PUBLIC_URL to the address people use.
    """
    settings = settings_or_exit(host=host, port=port, public_url=public_url)
    try:
        prepare_database_apart(settings)
        forbid_dumps()
        # Whoever reaches the address it listens on can set up a context, whatever Host they name.
        is_private = settings.is_loopback and settings.host in LOOPBACK_HOSTS
        code = None if is_private else _new_code()
        _greet(settings, code)
        asyncio.run(run_server(settings, set_up_code=code))
    except ZkpcpError as error:
        fail(error)


def migrate() -> None:
    """Bring the database's schema up to date. `zkpcp serve` does it by itself; several servers may do it at once."""
    settings = settings_or_exit()
    try:
        prepare_database(settings)
    except ZkpcpError as error:
        fail(error)


def _new_code() -> str:
    return base64.b32encode(SystemEntropy().bytes(10)).decode()


def _greet(settings: Settings, code: str | None) -> None:
    say(f"zkpcp serves {settings.origin} (listening on {settings.host}:{settings.port})")
    say(f"Database: {database_for_people(settings)}")
    if code is not None:
        say(f"To set up a context in the browser you will be asked for this code: {code}")
    say(f"Open {settings.origin} in a browser to set up or sign in. Stop with Ctrl-C.")
