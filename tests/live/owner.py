"""The owner of a context on a running server, acting in the test's own process on the same database.

What a person does with ``zkpcp init`` and ``zkpcp grant``, with Argon2 at its cheapest; the commands themselves are
tested where a test says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from tests.support.server import RunningServer
from zkpcp.bootstrap import running_services, site_of
from zkpcp.core.discovery import mcp_url
from zkpcp.core.extensions import KNOWN
from zkpcp.usecases.extensions import set_extension
from zkpcp.usecases.found import found_context
from zkpcp.usecases.grants import create_grant
from zkpcp.usecases.session import open_session, sign_in, sign_out
from zkpcp.vault.secrets import CHEAPEST

RIGHTS: Final = ("read", "write")
PASSPHRASE: Final = "seven herons over the weir"
EVERYTHING: Final = (
    "profile.core:read profile.core:write memory:read memory:write memory.sensitive:read memory.sensitive:write "
    "audit:read offline_access"
)
EXTENSIONS: Final = tuple(KNOWN)
"""Every extension of this server."""
EXTENDED: Final = " ".join([EVERYTHING, *(f"{each.stem}:{right}" for each in KNOWN.values() for right in RIGHTS)])
"""Everything there is when all of them are on."""

_NUMBERS: Final = count(1)


@dataclass(frozen=True, slots=True)
class Connection:
    """A context with one grant, as a script that was connected knows it."""

    handle: str
    context_id: str
    mcp_url: str
    grant_id: str
    client_id: str
    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    recovery_code: str = field(repr=False)

    @property
    def base_url(self) -> str:
        return self.mcp_url.removesuffix("/mcp")


async def connected(
    server: RunningServer,
    handle: str = "",
    *,
    name: str | None = "Ada Example",
    passphrase: str = PASSPHRASE,
    client_name: str = "a script",
    scopes: str = EVERYTHING,
    extensions: Sequence[str] = (),
) -> Connection:
    """Set a context up, with a handle that no other has unless one is given, and connect a program to it.

    Its owner turns ``extensions`` on first.
    """
    handle = handle or f"me{next(_NUMBERS)}"
    # As the server has it: it refuses a wrap that is cheaper than its own floor.
    argon2 = None if server.real_command else CHEAPEST
    async with running_services(server.settings(), argon2=argon2) as services:
        founded = await found_context(services, handle=handle, kind="personal", passphrase=passphrase, name=name)
        token = await sign_in(services, founded.context, passphrase=passphrase)
        async with open_session(services, founded.context, token) as owner:
            for extension in extensions:
                await set_extension(services, owner, extension, enabled=True)
        async with services.store.read() as tx:
            context = await tx.contexts.by_handle(handle)
        assert context is not None
        async with open_session(services, context, token) as owner:
            made = await create_grant(services, owner, client_name=client_name, scopes=scopes)
        await sign_out(services, founded.context, token)
        return Connection(
            handle=handle,
            context_id=founded.context.context_id,
            mcp_url=mcp_url(site_of(server.settings()).facts(founded.context)),
            grant_id=made.grant_id,
            client_id=made.client_id,
            access_token=made.access.text(),
            refresh_token=made.refresh.text() if made.refresh else "",
            recovery_code=founded.recovery_code.printable(),
        )
