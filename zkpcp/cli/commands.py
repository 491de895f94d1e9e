"""The commands of ``zkpcp``, put together."""

from __future__ import annotations

import typer

from zkpcp import __version__
from zkpcp.cli import client, context, grant, index, local, rotate, server, verify

HELP = """Keep a person's AI context so that the machine it lies on cannot read it.

Begin with `zkpcp serve` and open the address it prints, or set up on the command line:

  zkpcp init --handle me --name "Your Name"

Settings come from the environment: ZKPCP_DATA_DIR, ZKPCP_DATABASE_URL, ZKPCP_HOST, ZKPCP_PORT, ZKPCP_PUBLIC_URL
(see `zkpcp serve --help`). A passphrase is asked for, or read from standard input; it is never an argument.
"""

app = typer.Typer(
    help=HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("serve")(server.serve)
app.command("stdio")(local.stdio)
app.command("init")(context.init)
app.command("recover")(context.recover)
app.command("lock")(grant.lock)
app.command("unlock")(grant.unlock)
app.command("rotate")(rotate.rotate)
app.command("verify")(verify.verify)
app.command("migrate")(server.migrate)
app.add_typer(grant.app, name="grant")
app.add_typer(index.app, name="index")
app.add_typer(client.app, name="client")


@app.command("version")
def version() -> None:
    """Print the version."""
    typer.echo(__version__)
