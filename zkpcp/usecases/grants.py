"""A principal's grants: seeing them, ending them, and making one without a browser.

Ending a grant deletes its keyring, anchor and every wrap of its seed in one transaction (U6, KEY-08). What a client has
already read cannot be called back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zkpcp.core.audit import Action, Channel
from zkpcp.core.client_names import clean_name
from zkpcp.core.grants import GRANT_IDLE_LIFETIME_S, Actor
from zkpcp.core.roster import AGENT
from zkpcp.core.scopes import (
    OFFLINE_ACCESS,
    Offer,
    canonical,
    default_grant,
    effective,
    known_scopes,
    scopes_of_role,
)
from zkpcp.core.stored import ClientRow, ContextRow, GrantRow
from zkpcp.errors import InvalidInputError, NotFoundError, Violation
from zkpcp.ports import Transaction
from zkpcp.usecases.audit_log import record
from zkpcp.usecases.issuing import IssuedTokens, issue
from zkpcp.usecases.roster_changes import hold_open
from zkpcp.usecases.services import Services
from zkpcp.usecases.session import OpenSession
from zkpcp.vault import holders
from zkpcp.vault.holders import NewGrant
from zkpcp.vault.secrets import TokenSecret


@dataclass(frozen=True, slots=True)
class HeadlessGrant:
    """A grant that the owner made for a program of their own; the tokens are shown once."""

    grant_id: str
    client_id: str
    access: TokenSecret
    refresh: TokenSecret | None
    expires_in_s: int
    scopes: tuple[str, ...]


async def list_grants(services: Services, session: OpenSession) -> Sequence[GrantRow]:
    """The active grants, newest first: all for the controller, their own for everybody else."""
    whose = None if session.is_controller else session.principal
    async with services.store.read() as tx:
        grants = await tx.grants.list_grants(session.context.context_id)
    return [grant for grant in grants if whose is None or whose in (grant.principal, grant.on_behalf_of)]


async def revoke_grant(services: Services, session: OpenSession, grant_id: str) -> None:
    """End a grant at once. Raises NotFoundError when there is no such active grant that this principal may end."""
    async with services.store.write() as tx:
        grant = await tx.grants.grant(session.context.context_id, grant_id, lock=True)
        people = () if grant is None else (grant.principal, grant.on_behalf_of)
        may_end = session.is_controller or session.principal in people
        if grant is None or not may_end or grant.status != "active":
            raise NotFoundError("there is no such active grant")
        actor = Actor(session.principal, grant.client_id, grant.grant_id)
        await end_grant(tx, services, grant, Action.GRANT_REVOKED, Channel.MANAGEMENT, actor)


async def end_idle_grants(services: Services, context: ContextRow) -> int:
    """End every grant unused for 90 days (AUTH-45); the number ended. Needs no key."""
    unused_since_ms = services.clock.now_ms() - GRANT_IDLE_LIFETIME_S * 1000
    ended = 0
    async with services.store.write() as tx:
        for grant_id in await tx.grants.idle_grants(context.context_id, unused_since_ms):
            grant = await tx.grants.grant(context.context_id, grant_id, lock=True)
            if grant is not None and grant.status == "active":
                await end_grant(tx, services, grant, Action.GRANT_EXPIRED, Channel.SYSTEM, grant.actor)
                ended += 1
    return ended


async def end_grant(
    tx: Transaction, services: Services, grant: GrantRow, action: str, channel: Channel, actor: Actor
) -> None:
    """Delete what opens a locked grant and record it, inside the caller's transaction."""
    await tx.grants.revoke_grant(grant.context_id, grant.grant_id)
    await record(
        tx, services, grant.context_id, action=action, channel=channel, actor=actor, categories=("grants", "keys")
    )


async def create_grant(
    services: Services, session: OpenSession, *, client_name: str, scopes: str = "", agent: str | None = None
) -> HeadlessGrant:
    """Make a grant for a program of one's own, approved by being signed in; no scopes ask for the default grant.

    With ``agent`` the program acts as that agent, on behalf of whoever is signed in (SCOPE-06). Raises
    InvalidInputError for a name that shows nothing, for scopes that do not exist or open nothing, for no such agent.
    """
    name = clean_name(client_name)
    if not name:
        raise InvalidInputError("the client needs a name", [Violation("client_name", "must show something")])
    granted = own_scopes(scopes, session.context.offer)
    if not set(granted) <= scopes_of_role(session.keyring.roster.role(session.principal), session.context.offer):
        raise InvalidInputError("a scope is not yours to give", [Violation("scope", "must be among your own rights")])
    context_id = session.context.context_id
    client = ClientRow(
        context_id=context_id,
        client_id=services.new_id("own"),
        name=name,
        source="owner",
        redirect_uris=(),
        refreshable=OFFLINE_ACCESS in granted,
        created_ms=services.clock.now_ms(),
    )
    made = new_grant(services, session, client, granted, agent=agent)
    try:
        async with services.store.write() as tx:
            await tx.grants.add_client(client)
            return await connect_own(tx, services, session, made)
    finally:
        made.opened.seed.wipe()


async def connect_own(tx: Transaction, services: Services, session: OpenSession, made: NewGrant) -> HeadlessGrant:
    """Store a grant of the owner's own program and issue its first tokens, inside the caller's transaction."""
    await add_grant(tx, services, session, made, Channel.MANAGEMENT)
    issued = await issue(tx, services, made.row, made.opened, made.row.scopes)
    await record_issue(tx, services, made.row, Action.TOKEN_ISSUED, issued, Channel.MANAGEMENT)
    grant_id, client_id = made.row.grant_id, made.row.client_id
    return HeadlessGrant(grant_id, client_id, issued.access, issued.refresh, issued.expires_in_s, issued.scopes)


def new_grant(
    services: Services, session: OpenSession, client: ClientRow, scopes: tuple[str, ...], *, agent: str | None = None
) -> NewGrant:
    """Make the keys of a grant that the signed-in principal approves; the caller wipes its seed.

    Raises InvalidInputError for an agent that does not belong to the context.
    """
    if agent is not None and session.keyring.roster.role(agent) != AGENT:
        raise InvalidInputError("there is no such agent", [Violation("agent", "must be an agent of this context")])
    now_ms = services.clock.now_ms()
    unkeyed = GrantRow(
        context_id=session.context.context_id,
        grant_id=services.new_id("grt"),
        principal=agent or session.principal,
        on_behalf_of=session.principal if agent else None,
        client_id=client.client_id,
        client_name=client.name,
        scopes=scopes,
        status="active",
        created_ms=now_ms,
        used_ms=now_ms,
        refreshable=OFFLINE_ACCESS in scopes,
        kem_public=b"",
        sig_public=b"",
        signature=b"",
        anchor=b"",
    )
    return holders.make_grant(session.keyring, grant=unkeyed, offer=session.context.offer, entropy=services.entropy)


async def add_grant(
    tx: Transaction, services: Services, session: OpenSession, made: NewGrant, channel: Channel
) -> None:
    """Store a new grant and record it.

    Raises ConflictError when the roster changed since the session was opened: the keyring would be of an older state;
    LockedError while the context is locked.
    """
    await hold_open(tx, session)
    await tx.grants.add_grant(made.row, made.keyring)
    await record(
        tx,
        services,
        made.row.context_id,
        action=Action.GRANT_CREATED,
        channel=channel,
        actor=made.row.actor,
        categories=("grants", "keys"),
    )


async def record_issue(
    tx: Transaction, services: Services, grant: GrantRow, action: str, issued: IssuedTokens, channel: Channel
) -> None:
    """Record that tokens were handed out: how many, never which."""
    await record(
        tx,
        services,
        grant.context_id,
        action=action,
        channel=channel,
        actor=grant.actor,
        categories=("grants",),
        counts={"tokens": 1 if issued.refresh is None else 2},
    )


def own_scopes(text: str, offer: Offer) -> tuple[str, ...]:
    """The scopes that an owner names for a program of theirs; none named ask for the default grant.

    Raises InvalidInputError for scopes that do not exist or open nothing.
    """
    asked = set(text.split())
    if not asked:
        return default_grant(offer.kind)
    if not asked <= set(known_scopes(offer)):
        raise InvalidInputError("a scope does not exist here", [Violation("scope", "must be scopes of this context")])
    if effective(asked, offer) != asked or asked == {OFFLINE_ACCESS}:
        rule = "a scope over sensitive pages needs its base scope, and offline_access needs another scope"
        raise InvalidInputError("the scopes open nothing", [Violation("scope", rule)])
    return canonical(asked, offer)
