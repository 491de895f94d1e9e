"""``zkpcp client``: apps that ask for a client id instead of registering themselves."""

from __future__ import annotations

from typing import Annotated

import typer

from zkpcp.bootstrap import site_of
from zkpcp.cli.terminal import meant_context, print_json, say, settings_or_exit, with_services
from zkpcp.core.discovery import mcp_url
from zkpcp.errors import NotFoundError
from zkpcp.usecases.clients import add_client
from zkpcp.usecases.services import Services

app = typer.Typer(no_args_is_help=True, help="Apps that ask for a client id.", rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Keeps ``add`` a command of its own while it is the only one."""


@app.command("add")
def add(
    name: Annotated[str, typer.Option(help="The app's name, shown when it asks for access.")],
    redirect_uri: Annotated[list[str], typer.Option(help="Where it may be sent after consent; may be given again.")],
    handle: Annotated[str | None, typer.Option(help="The context; may be left out when there is only one.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Register an app beforehand: prints its client id. There is no client secret.

    This gives no access. The app still has to ask, and you decide in the browser.
    """
    settings = settings_or_exit()

    async def act(services: Services) -> dict[str, object]:
        context = await meant_context(services, handle)
        if context is None:
            raise NotFoundError("there is no such context")
        client = await add_client(services, context, name=name, redirect_uris=redirect_uri)
        facts = site_of(settings).facts(context)
        return {"client_id": client.client_id, "mcp_url": mcp_url(facts), "issuer": facts.base_url}

    answer = with_services(settings, act)
    if as_json:
        print_json(answer)
        return
    for key, value in answer.items():
        say(f"{key}: {value}")
