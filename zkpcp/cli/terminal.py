"""What commands share: asking for secrets, reading them from standard input, and saying things for people or programs.

A passphrase is never an argument: arguments are visible to every process of the machine.
"""

from __future__ import annotations

import asyncio
import getpass
import json
import subprocess
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import NoReturn, TypeVar

import typer

from zkpcp.bootstrap import is_database_current, prepare_database, running_services
from zkpcp.config import Settings, load_settings
from zkpcp.core.stored import ContextRow
from zkpcp.errors import CorruptError, InvalidInputError, RefusedError, UnavailableError, Violation, ZkpcpError
from zkpcp.usecases.services import Services

T = TypeVar("T")

REFUSED_EXIT = 1
UNAVAILABLE_EXIT = 2
CORRUPT_EXIT = 3


def settings_or_exit(**overrides: object) -> Settings:
    """The settings; ends the command with a plain sentence when they are not usable."""
    try:
        return load_settings(**overrides)
    except UnavailableError as error:
        fail(error)


def with_services(settings: Settings, act: Callable[[Services], Coroutine[object, object, T]]) -> T:
    """Run an act over the database of these settings, brought up to date first."""

    async def run() -> T:
        async with running_services(settings) as services:
            return await act(services)

    try:
        prepare_database(settings)
        return asyncio.run(run())
    except ZkpcpError as error:
        fail(error)


async def meant_context(services: Services, handle: str | None) -> ContextRow | None:
    """The context that ``--handle`` names, or the only one there is.

    None where the name is no context's; raises InvalidInputError where a name is needed.
    """
    async with services.store.read() as tx:
        handles = await tx.contexts.handles()
        if handle is None and len(handles) != 1:
            rule = "name the context: there is not exactly one"
            raise InvalidInputError("which context is meant?", [Violation("--handle", rule)])
        return await tx.contexts.by_handle(handle or handles[0])


def prepare_database_apart(settings: Settings) -> None:
    """Bring the schema up to date in a process of its own: migrations load what a server should not keep in memory."""
    if is_database_current(settings):
        return
    command = [sys.executable, "-m", "zkpcp.cli.main", "migrate"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, check=False)  # noqa: S603 - our own command, no shell
    if done.returncode:
        raise typer.Exit(done.returncode)


def fail(error: ZkpcpError) -> NoReturn:
    """Say what went wrong and what to do, and end the command."""
    if isinstance(error, CorruptError):
        say_error(f"Something stored is damaged or was tampered with: {error.message}.")
        raise typer.Exit(CORRUPT_EXIT)
    if isinstance(error, UnavailableError):
        say_error(error.message)
        raise typer.Exit(UNAVAILABLE_EXIT)
    if isinstance(error, RefusedError):
        say_error(error.message)
        if isinstance(error, InvalidInputError):
            for violation in error.violations:
                say_error(f"  {violation.path}: {violation.message}")
    raise typer.Exit(REFUSED_EXIT)


def say(text: str) -> None:
    """A line for a person."""
    typer.echo(text)


def say_error(text: str) -> None:
    """A line on standard error."""
    typer.echo(text, err=True)


def print_json(members: Mapping[str, object]) -> None:
    """One JSON object on standard output, for programs."""
    typer.echo(json.dumps(members, indent=2, ensure_ascii=False))


def passphrase(*, from_stdin: bool, confirm: bool = False) -> str:
    """The passphrase: one line of standard input, or asked for without showing it."""
    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    first = getpass.getpass("Passphrase: ")
    if confirm and getpass.getpass("Once more: ") != first:
        say_error("The two do not match. Nothing was changed; please start again.")
        raise typer.Exit(REFUSED_EXIT)
    return first


def database_for_people(settings: Settings) -> str:
    """The database's URL without its credentials."""
    # A password may stand before the @ or as a parameter behind the ?.
    scheme, _, rest = settings.database.partition("?")[0].partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
