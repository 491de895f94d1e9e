"""``zkpcp grant``: connections without a browser, for scripts; the owner approves them with the passphrase."""

from __future__ import annotations

from typing import Annotated

import typer

from zkpcp.bootstrap import site_of
from zkpcp.cli.owner import FromStdin, Handle, signed_in
from zkpcp.cli.terminal import passphrase, print_json, say, settings_or_exit, with_services
from zkpcp.core.discovery import mcp_url
from zkpcp.core.instants import to_rfc3339
from zkpcp.core.scopes import join
from zkpcp.core.stored import GrantRow
from zkpcp.usecases.grants import create_grant, list_grants, revoke_grant
from zkpcp.usecases.lock import lock_context, unlock_context
from zkpcp.usecases.services import Services

app = typer.Typer(no_args_is_help=True, help="Connections without a browser, for scripts.", rich_markup_mode=None)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.command("create")
def create(
    client: Annotated[str, typer.Option(help="A name for the script or program, shown in the list of apps.")],
    scope: Annotated[
        str,
        typer.Option(help="Scopes with blanks between; if left out: read the profile, read and write memory, refresh."),
    ] = "",
    handle: Handle = None,
    passphrase_stdin: FromStdin = False,
    as_json: AsJson = False,
) -> None:
    """Connect a program: prints an access token, and a refresh token where the scopes hold offline_access.

    The tokens are shown once. The access token lives for an hour; the refresh token is good for one use and gives both
    anew at the token endpoint, which wants the client_id beside it. End the connection with `zkpcp grant revoke` or on
    the home page.
    """
    settings = settings_or_exit()
    secret = passphrase(from_stdin=passphrase_stdin)

    async def act(services: Services) -> dict[str, object]:
        async with signed_in(services, handle, secret) as owner:
            made = await create_grant(services, owner, client_name=client, scopes=scope)
            facts = site_of(settings).facts(owner.context)
            answer: dict[str, object] = {
                "access_token": made.access.text(),
                "refresh_token": made.refresh.text() if made.refresh else None,
                "token_type": "Bearer",
                "expires_in": made.expires_in_s,
                "scope": join(made.scopes),
                "grant_id": made.grant_id,
                "client_id": made.client_id,
                "mcp_url": mcp_url(facts),
                "token_endpoint": f"{facts.base_url}/token",
            }
            made.access.wipe()
            if made.refresh is not None:
                made.refresh.wipe()
            return answer

    answer = with_services(settings, act)
    if as_json:
        print_json(answer)
        return
    for name, value in answer.items():
        if value is not None:
            say(f"{name}: {value}")


@app.command("list")
def list_(handle: Handle = None, passphrase_stdin: FromStdin = False, as_json: AsJson = False) -> None:
    """List the connected apps."""
    secret = passphrase(from_stdin=passphrase_stdin)

    async def act(services: Services) -> list[dict[str, object]]:
        async with signed_in(services, handle, secret) as owner:
            return [_shown(row) for row in await list_grants(services, owner)]

    grants = with_services(settings_or_exit(), act)
    if as_json:
        print_json({"grants": grants})
        return
    if not grants:
        say("No app is connected.")
    for grant in grants:
        say(f"{grant['grant_id']}  {grant['client']}  {grant['scope']}  last used {grant['last_used']}")


@app.command("revoke")
def revoke(
    grant_id: Annotated[str, typer.Argument(help="As `zkpcp grant list` prints it.")],
    handle: Handle = None,
    passphrase_stdin: FromStdin = False,
) -> None:
    """End a connection at once: its keys are deleted and its tokens open nothing any more."""
    secret = passphrase(from_stdin=passphrase_stdin)

    async def act(services: Services) -> None:
        async with signed_in(services, handle, secret) as owner:
            await revoke_grant(services, owner, grant_id)

    with_services(settings_or_exit(), act)
    say("Disconnected.")


def lock(handle: Handle = None, passphrase_stdin: FromStdin = False) -> None:
    """Take every app's and everybody else's keys away at once, and sign everybody out.

    For when something looks wrong. Apps stay connected and are told to wait, until `zkpcp unlock`.
    """
    settings = settings_or_exit()
    secret = passphrase(from_stdin=passphrase_stdin)

    async def act(services: Services) -> None:
        async with signed_in(services, handle, secret) as owner:
            await lock_context(services, owner)

    with_services(settings, act)
    say("Locked. Nobody but its controller can open anything in this context; `zkpcp unlock` ends that.")


def unlock(handle: Handle = None, passphrase_stdin: FromStdin = False) -> None:
    """Give apps and members their keys back.

    Disconnect what you do not trust before (`zkpcp grant list`, `zkpcp grant revoke`).
    """
    settings = settings_or_exit()
    secret = passphrase(from_stdin=passphrase_stdin)

    async def act(services: Services) -> int:
        async with signed_in(services, handle, secret) as owner:
            return await unlock_context(services, owner)

    connected = with_services(settings, act)
    say(f"Unlocked. Connected apps that have their keys again: {connected}.")


def _shown(row: GrantRow) -> dict[str, object]:
    return {
        "grant_id": row.grant_id,
        "client": row.client_name,
        "principal": row.principal,
        "scope": join(row.scopes),
        "created": to_rfc3339(row.created_ms),
        "last_used": to_rfc3339(row.used_ms),
    }
