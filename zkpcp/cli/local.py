"""``zkpcp stdio``: one context for one client on this computer, over standard input and output (AUTH-43).

Standard input is the protocol's: the passphrase comes from the operating system's keyring, or is asked for on the
controlling terminal. Whatever people read goes to standard error.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import termios
from typing import Annotated

import typer

from zkpcp.cli import os_keyring
from zkpcp.cli.process import forbid_dumps
from zkpcp.cli.terminal import (
    REFUSED_EXIT,
    database_for_people,
    fail,
    prepare_database_apart,
    say_error,
    settings_or_exit,
    with_services,
)
from zkpcp.config import Settings
from zkpcp.errors import SignInError, UnavailableError, ZkpcpError
from zkpcp.usecases import local
from zkpcp.usecases.services import Services

_TERMINAL = "/dev/tty"


def stdio(
    context: Annotated[str, typer.Option(help="The context's handle.")],
    scope: Annotated[str, typer.Option(help="Scopes with blanks between; none: the default grant.")] = "",
    client: Annotated[str, typer.Option(help="A name for the client, shown in the list of apps.")] = "local app",
    remember: Annotated[
        bool, typer.Option("--remember", help="Ask for the passphrase, keep it in the system's keyring, and end.")
    ] = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="Remove the passphrase from the system's keyring, and end.")
    ] = False,
) -> None:
    """Serve a context over stdio to the MCP client that starts this command.

    The scopes become a grant that ends with the process; you approve it with the passphrase, from the system's keyring
    (see --remember) or typed on the terminal. Give each client, and each computer that uses the same database, a name
    of its own.
    """
    if remember and forget:
        say_error("--remember and --forget exclude each other")
        raise typer.Exit(REFUSED_EXIT)
    settings = settings_or_exit()
    account = os_keyring.account(context, database_for_people(settings))
    try:
        if forget:
            _forget(account)
            return
        _prepare(settings)
        if remember:
            _remember(settings, context, account)
            return
        _serve(settings, context, account, client=client, scope=scope)
    except ZkpcpError as error:
        fail(error)


def _prepare(settings: Settings) -> None:
    prepare_database_apart(settings)
    forbid_dumps()


def _serve(settings: Settings, handle: str, account: str, *, client: str, scope: str) -> None:
    from zkpcp.stdio.run import serve  # noqa: PLC0415 - the mcp package takes a second to load; this command needs it

    is_stored = False

    def passphrase() -> str:
        nonlocal is_stored
        secret = os_keyring.stored(account)
        is_stored = secret is not None
        return _asked() if secret is None else secret

    try:
        asyncio.run(serve(settings, handle=handle, client_name=client, scopes=scope, passphrase=passphrase))
    except SignInError:
        if is_stored:
            say_error("The passphrase in the system's keyring does not open this context; store it anew (--remember).")
        raise


def _remember(settings: Settings, handle: str, account: str) -> None:
    async def act(services: Services) -> str:
        secret = _asked()
        async with local.approved(services, handle, secret):
            return os_keyring.store(account, secret)

    say_error(f"The passphrase is kept in: {with_services(settings, act)}")


def _forget(account: str) -> None:
    say_error("The passphrase is removed." if os_keyring.forget(account) else "There was none to remove.")


def _asked() -> str:
    """The passphrase, typed on the controlling terminal. Raises UnavailableError where there is none.

    ``getpass`` alone would fall back to standard input.
    """
    if not _has_terminal():
        raise UnavailableError(
            "there is no terminal to ask for the passphrase on; run this command once with --remember in a terminal"
        )
    return getpass.getpass("Passphrase: ")


def _has_terminal() -> bool:
    try:
        terminal = os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return False
    try:
        termios.tcgetattr(terminal)
    except termios.error:
        return False
    finally:
        os.close(terminal)
    return True
