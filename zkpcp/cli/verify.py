"""``zkpcp verify``: everything that is stored, checked with the owner's keys; for the owner and an auditor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.table import Table

from zkpcp import __version__
from zkpcp.cli.owner import signed_in
from zkpcp.cli.terminal import CORRUPT_EXIT, passphrase, say_error, settings_or_exit, with_services
from zkpcp.core.instants import to_rfc3339
from zkpcp.core.schemas import JsonObject, canonical_json
from zkpcp.usecases.counting import count_anew
from zkpcp.usecases.services import Services
from zkpcp.usecases.verify import Check, verify_context


def verify(
    handle: Annotated[str | None, typer.Option(help="The context; may be left out when there is only one.")] = None,
    passphrase_stdin: Annotated[bool, typer.Option("--passphrase-stdin", help="Read it from standard input.")] = False,
    count: Annotated[
        bool,
        typer.Option("--count", help="First count all rows anew, and take what is there for what there should be."),
    ] = False,
    report: Annotated[Path | None, typer.Option("--json", help="Also write the result to this file.")] = None,
) -> None:
    """Check everything stored in a context, with its owner's keys. Exit status 0 only when all of it holds.

    Opens every page, profile and hand-off where it lies, verifies the signatures of roster, grants and keyrings, and
    follows the access log from its newest entry to its first, and holds the rows of each slot against what was counted
    under a key. Prints counts and opaque ids, no content. What it cannot see: an older state of everything.
    """
    settings = settings_or_exit()
    secret = passphrase(from_stdin=passphrase_stdin)
    console = Console(stderr=True)

    async def act(services: Services) -> tuple[tuple[Check, ...], int]:
        async with signed_in(services, handle, secret) as owner:
            if count:
                await count_anew(services, owner)
            with Progress(
                SpinnerColumn(), TextColumn("{task.description}"), TextColumn("{task.completed}"), console=console
            ) as bar:
                tasks: dict[str, int] = {}

                def advance(name: str, more: int) -> None:
                    task = tasks.setdefault(name, len(tasks))
                    if task == len(bar.tasks):
                        bar.add_task(name, total=None)
                    bar.advance(bar.tasks[task].id, more)

                return await verify_context(services, owner, advance), services.clock.now_ms()

    checks, at_ms = with_services(settings, act)
    _print(checks)
    if report is not None:
        report.write_bytes(canonical_json(_as_json(checks, at_ms)))
    if not all(check.holds for check in checks):
        say_error("Something stored is damaged or was tampered with.")
        raise typer.Exit(CORRUPT_EXIT)


def _print(checks: tuple[Check, ...]) -> None:
    table = Table("check", "claim", "looked at", "wrong", "result")
    for check in checks:
        table.add_row(
            check.name, check.claim, str(check.looked_at), str(check.wrong), "holds" if check.holds else "does not hold"
        )
    Console().print(table)
    for check in checks:
        for problem in check.problems:
            say_error(f"  {check.name}: {problem}")
        if check.note:
            say_error(f"  {check.name}: {check.note}")


def _as_json(checks: tuple[Check, ...], at_ms: int) -> JsonObject:
    return {
        "version": __version__,
        "at": to_rfc3339(at_ms),
        "holds": all(check.holds for check in checks),
        "checks": [
            {
                "name": check.name,
                "claim": check.claim,
                "looked_at": check.looked_at,
                "wrong": check.wrong,
                "problems": [*check.problems],
                "note": check.note,
            }
            for check in checks
        ],
    }
