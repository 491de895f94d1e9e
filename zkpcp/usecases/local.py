"""The grant of a program on this computer that serves one client over stdio (AUTH-43, PCP §3.1).

The owner approves the configured scopes with the passphrase when the program starts; from then on it holds nothing but
tokens. Its grant ends with it. A program that died without ending its grant has it ended by the next one of the same
client. It does NOT decide which programs are alive: that is asked of ``Programs``.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Protocol

from zkpcp.core.audit import Action, Channel
from zkpcp.core.client_names import clean_name
from zkpcp.core.oauth_params import Params
from zkpcp.core.scopes import OFFLINE_ACCESS, canonical
from zkpcp.core.stored import ClientRow, ContextRow
from zkpcp.errors import InvalidInputError, InvalidTokenError, Violation
from zkpcp.ports import Transaction
from zkpcp.usecases import token
from zkpcp.usecases.grants import HeadlessGrant, connect_own, end_grant, new_grant, own_scopes
from zkpcp.usecases.issuing import IssuedTokens
from zkpcp.usecases.services import Services
from zkpcp.usecases.session import OpenSession, signed_in
from zkpcp.vault.secrets import TokenSecret

SOURCE: Final = "local"
"""The source of such a client's name: the command that started the program."""

ENDED: Final = "this connection has ended; start the program anew"


class Programs(Protocol):
    """Which local programs are running, by their grants."""

    def claim(self, grant_id: str) -> None:
        """Say, until the end of this process, that its program is running."""
        ...

    def is_running(self, grant_id: str) -> bool:
        """Whether the program with this grant is running on this computer."""
        ...


@asynccontextmanager
async def approved(services: Services, handle: str, passphrase: str) -> AsyncIterator[OpenSession]:
    """The owner, signed in for one act. Raises SignInError, the same one for an unknown context."""
    async with services.store.read() as tx:
        context = await tx.contexts.by_handle(handle)
    async with signed_in(services, context, passphrase=passphrase) as session:
        yield session


async def begin(
    services: Services, session: OpenSession, programs: Programs, *, client_name: str, scopes: str = ""
) -> HeadlessGrant:
    """Make the grant of a program that starts now, and end those of its client's programs that are gone.

    ``offline_access`` is always part of it: without a person to ask, the program renews its tokens by itself. No scopes
    ask for the default grant. Raises InvalidInputError as ``create_grant`` does.
    """
    name = clean_name(client_name)
    if not name:
        raise InvalidInputError("the client needs a name", [Violation("client", "must show something")])
    offer = session.context.offer
    granted = canonical({*own_scopes(scopes, offer), OFFLINE_ACCESS}, offer)
    client = ClientRow(
        context_id=session.context.context_id,
        client_id=_client_id(name),
        name=name,
        source=SOURCE,
        redirect_uris=(),
        refreshable=True,
        created_ms=services.clock.now_ms(),
    )
    made = new_grant(services, session, client, granted)
    try:
        async with services.store.write() as tx:
            await _end_abandoned(tx, services, session, programs, client.client_id)
            # Before the commit: whoever sees the grant also sees that its program is running.
            programs.claim(made.row.grant_id)
            if await tx.grants.client(client.context_id, client.client_id) is None:
                await tx.grants.add_client(client)
            return await connect_own(tx, services, session, made)
    finally:
        made.opened.seed.wipe()


async def renew(
    services: Services, context: ContextRow, *, client_id: str, refresh: TokenSecret, mcp_url: str
) -> IssuedTokens:
    """New tokens for the refresh token, which ends with this. Raises InvalidTokenError when the grant has ended."""
    params = Params([("grant_type", "refresh_token"), ("client_id", client_id), ("refresh_token", refresh.text())])
    issued = await token.exchange(services, context, params, mcp_url=mcp_url)
    if not isinstance(issued, IssuedTokens):
        raise InvalidTokenError(ENDED)
    return issued


async def end(services: Services, context_id: str, grant_id: str) -> None:
    """End the grant of a program that ends. Needs no key; does nothing when the grant has ended already."""
    async with services.store.write() as tx:
        grant = await tx.grants.grant(context_id, grant_id, lock=True)
        if grant is not None and grant.status == "active":
            await end_grant(tx, services, grant, Action.GRANT_REVOKED, Channel.SYSTEM, grant.actor)


async def _end_abandoned(
    tx: Transaction, services: Services, session: OpenSession, programs: Programs, client_id: str
) -> None:
    context_id = session.context.context_id
    for seen in await tx.grants.list_grants(context_id, session.principal):
        if seen.client_id != client_id or programs.is_running(seen.grant_id):
            continue
        grant = await tx.grants.grant(context_id, seen.grant_id, lock=True)
        if grant is not None and grant.status == "active":
            await end_grant(tx, services, grant, Action.GRANT_REVOKED, Channel.MANAGEMENT, grant.actor)


def _client_id(name: str) -> str:
    """The same for every start of a client, which is known by its name alone; the name is readable metadata anyway."""
    return f"loc_{hashlib.sha256(name.encode()).hexdigest()[:32]}"
