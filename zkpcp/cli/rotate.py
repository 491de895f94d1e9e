"""``zkpcp rotate``: all keys of a context changed and everything sealed anew, by its owner's passphrase."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from zkpcp.cli.owner import FromStdin, Handle, signed_in
from zkpcp.cli.terminal import CORRUPT_EXIT, passphrase, say, say_error, settings_or_exit, with_services
from zkpcp.errors import ConflictError
from zkpcp.usecases.rotation import Rotating, begin_rotation, rotation_left
from zkpcp.usecases.services import Services

_COLUMNS = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())


def rotate(
    handle: Handle = None,
    passphrase_stdin: FromStdin = False,
    leave_damaged: Annotated[
        bool,
        typer.Option("--leave-damaged", help="Finish although some records do not open; they never will again."),
    ] = False,
) -> None:
    """Change all keys of a context. Apps stay connected and go on working meanwhile.

    From the first moment on, what is written does not open with the earlier keys; what is stored is encrypted anew,
    some seconds for a thousand pages. When it is stopped half way, the same command goes on where it was. It does not
    help against a copy of the database that somebody already has.
    """
    secret = passphrase(from_stdin=passphrase_stdin)

    async def act(services: Services) -> int:
        with Progress(*_COLUMNS, console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task("Sealing records anew", total=None)
            async with signed_in(services, handle, secret) as owner:
                if not (await rotation_left(services, owner)).under_way:
                    await begin_rotation(services, owner)
                total = (await rotation_left(services, owner)).total
                progress.update(task, total=total)
                rotating, done = Rotating(services, owner), 0
                while more := await rotating.step():
                    done += more
                    progress.update(task, completed=min(done, total))
                await _end(rotating, leave_damaged=leave_damaged)
                return done

    say(f"All keys are changed; {with_services(settings_or_exit(), act)} records were sealed anew.")


async def _end(rotating: Rotating, *, leave_damaged: bool) -> None:
    try:
        await rotating.end(leave_damaged=leave_damaged)
    except ConflictError as error:
        say_error(f"Not finished: {error.message}.")
        if rotating.damaged:
            say_error("They do not open. `zkpcp verify` names them; put back a backup, or use --leave-damaged.")
            raise typer.Exit(CORRUPT_EXIT) from None
        raise
