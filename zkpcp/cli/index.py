"""``zkpcp index``: the search index, made again from the pages; the owner opens them with the passphrase."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from zkpcp.cli.owner import FromStdin, Handle, signed_in
from zkpcp.cli.terminal import passphrase, say, settings_or_exit, with_services
from zkpcp.usecases.access import acting_as
from zkpcp.usecases.indexing import rebuild_index
from zkpcp.usecases.services import Services

app = typer.Typer(no_args_is_help=True, help="The search index.", rich_markup_mode=None)


@app.callback()
def index() -> None:
    """The search index."""


@app.command("rebuild")
def rebuild(handle: Handle = None, passphrase_stdin: FromStdin = False) -> None:
    """Make the search index again from the pages; apps wait with their writes until it is done.

    Needed only where `memory_search` reports damage, or after pages came into the database by another way.
    """
    secret = passphrase(from_stdin=passphrase_stdin)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())

    async def act(services: Services) -> int:
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task("Indexing pages", total=None)
            async with signed_in(services, handle, secret) as owner:
                return await rebuild_index(
                    services,
                    acting_as(owner),
                    lambda done, total: progress.update(task, completed=done, total=total),
                )

    pages = with_services(settings_or_exit(), act)
    say(f"Indexed {pages} pages.")
