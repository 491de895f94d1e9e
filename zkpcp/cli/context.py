"""``zkpcp init`` and ``zkpcp recover``: a context's beginning, and the way back in."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from zkpcp.bootstrap import site_of
from zkpcp.cli.terminal import (
    REFUSED_EXIT,
    passphrase,
    print_json,
    say,
    say_error,
    settings_or_exit,
    with_services,
)
from zkpcp.core.discovery import mcp_url
from zkpcp.errors import SignInError
from zkpcp.usecases import session
from zkpcp.usecases.found import Founded, found_context
from zkpcp.usecases.services import Services

LOSS = (
    "Nobody can restore a lost passphrase and recovery code: not this server, not its host, not the makers of zkpcp. "
    "Without both, what the context holds is gone for good."
)


def init(
    handle: Annotated[str, typer.Option(help="Short public name of the context, such as me.")],
    name: Annotated[str | None, typer.Option(help="Your name (a team's name); kept encrypted in the profile.")] = None,
    kind: Annotated[str, typer.Option(help="personal, work or team; it never changes later.")] = "personal",
    organization: Annotated[
        str | None,
        typer.Option(
            help="Host name of the organization that controls a work or team context: it can read everything in it."
        ),
    ] = None,
    passphrase_stdin: Annotated[
        bool, typer.Option("--passphrase-stdin", help="Read the passphrase from standard input.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Set up a context: asks for a passphrase, prints the recovery code once.

    Choose several unrelated words, 12 characters at least. The recovery code is the only way back in when the
    passphrase is lost: write it down and keep it apart from this machine.
    """
    settings = settings_or_exit()
    if not passphrase_stdin:
        say(LOSS)
        if organization is not None:
            say("The organization can read everything in this context, and so can whoever it lets administer it.")
        if not typer.confirm("I have understood this"):
            raise typer.Exit(REFUSED_EXIT)
    secret = passphrase(from_stdin=passphrase_stdin, confirm=True)

    async def act(services: Services) -> Founded:
        site_of(settings).check_handle(handle)
        return await found_context(
            services, handle=handle, kind=kind, passphrase=secret, name=name, organization=organization
        )

    founded = with_services(settings, act)
    code = founded.recovery_code.printable()
    founded.recovery_code.wipe()
    url = mcp_url(site_of(settings).facts(founded.context))
    if as_json:
        print_json({"handle": handle, "kind": kind, "mcp_url": url, "recovery_code": code, "warning": LOSS})
        return
    say(f"The context {handle} is ready.\n")
    say(f"Recovery code (shown once, write it down):\n\n  {code}\n")
    if passphrase_stdin:
        say(LOSS)
    say(f"Address for MCP clients: {url}")
    say("Start the server with `zkpcp serve` if it is not running.")


def recover(
    handle: Annotated[str, typer.Option(help="The context's handle.")],
    stdin: Annotated[
        bool, typer.Option("--stdin", help="Read recovery code and new passphrase from standard input, a line each.")
    ] = False,
) -> None:
    """Set a new passphrase with the recovery code. What the context holds stays as it is, apps stay connected."""
    settings = settings_or_exit()
    code = sys.stdin.readline().strip() if stdin else typer.prompt("Recovery code")
    secret = passphrase(from_stdin=stdin, confirm=True)

    async def act(services: Services) -> None:
        async with services.store.read() as tx:
            context = await tx.contexts.by_handle(handle)
        token = await session.recover(services, context, recovery_code=code, new_passphrase=secret)
        if context is None:
            raise SignInError(session.RECOVERY_REFUSED)
        await session.sign_out(services, context, token)
        token.wipe()

    with_services(settings, act)
    say_error("The new passphrase is set; the old one no longer works. The recovery code stays the same.")
