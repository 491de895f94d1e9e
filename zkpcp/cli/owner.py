"""How a command acts as the owner of a context: which one is meant, and the passphrase for one act."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import typer

from zkpcp.cli.terminal import meant_context
from zkpcp.usecases import session
from zkpcp.usecases.services import Services
from zkpcp.usecases.session import OpenSession

Handle = Annotated[str | None, typer.Option(help="The context; may be left out when there is only one.")]
FromStdin = Annotated[bool, typer.Option("--passphrase-stdin", help="Read the passphrase from standard input.")]


@asynccontextmanager
async def signed_in(services: Services, handle: str | None, secret: str) -> AsyncIterator[OpenSession]:
    """The owner, signed in for one command. Raises SignInError; InvalidInputError where the context is not clear."""
    context = await meant_context(services, handle)
    async with session.signed_in(services, context, passphrase=secret) as owner:
        yield owner
