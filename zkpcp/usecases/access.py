"""Who an access token speaks for, and the keys it opens for the length of one call (AUTH-12, AUTH-25, KEY-10).

1. Look the token up by its id: kind, expiry, context, state of the grant. Anything wrong: InvalidTokenError.
2. A locked context, or a keyring not sealed yet for the current epoch: LockedCaller, which says what ends the wait.
3. Token -> grant seed -> anchor -> roster -> grant row -> keyring. A failure behind a valid look-up is tampering: it is
   audited, and the token is refused.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from zkpcp.core.audit import Action, Channel, Outcome
from zkpcp.core.grants import GRANT_IDLE_LIFETIME_S, Actor
from zkpcp.core.scopes import effective, known_scopes
from zkpcp.core.slots import MAIN_PARTITION, memory_slot
from zkpcp.core.stored import AccessView, ContextRow, KeyringRow
from zkpcp.errors import CorruptError, InvalidTokenError
from zkpcp.usecases.audit_log import record
from zkpcp.usecases.services import Services
from zkpcp.usecases.session import OpenSession
from zkpcp.vault import holders, seeds
from zkpcp.vault.keyring import OpenKeyring
from zkpcp.vault.secrets import TokenSecret, parse_token

_REFUSED = "the access token is not valid here"
_LOCKED = "this context is locked; its owner can unlock it on the management pages"
_NO_KEY_COPY = "the key copy for this connection is not ready; it is made at the owner's next sign-in"


@dataclass(frozen=True, slots=True, repr=False)
class Caller:
    """A client with a good token: its scopes, and what opens its keyring."""

    context: ContextRow
    access: AccessView
    keyring: KeyringRow
    token: TokenSecret
    scopes: frozenset[str]

    @property
    def actor(self) -> Actor:
        """The actor that audit entries name."""
        return self.access.grant.actor


@dataclass(frozen=True, slots=True, repr=False)
class LockedCaller:
    """A client with a good token whose key is away for now (KEY-10), and what ends the wait."""

    context: ContextRow
    actor: Actor
    scopes: frozenset[str]
    message: str


@dataclass(frozen=True, slots=True, repr=False)
class Acting:
    """Somebody with open keys for the length of one act: a client's call, or a signed-in principal's request."""

    context: ContextRow
    actor: Actor
    scopes: frozenset[str]
    channel: Channel
    keys: OpenKeyring

    @property
    def context_id(self) -> str:
        """The context's id."""
        return self.context.context_id

    def readable_slots(self) -> frozenset[str]:
        """The memory slots whose pages this caller may see: scopes decide, and keys must be there (SCOPE-02)."""
        if "memory:read" not in self.scopes:
            return frozenset()
        slots = {memory_slot(MAIN_PARTITION, sensitive=False)}
        if "memory.sensitive:read" in self.scopes:
            slots.add(memory_slot(MAIN_PARTITION, sensitive=True))
        return frozenset(slots) & self.keys.readable_slots()


async def authenticate(services: Services, context: ContextRow, token_text: str) -> Caller | LockedCaller:
    """The caller behind an access token. Raises InvalidTokenError."""
    token = parse_token(token_text, "at")
    async with services.store.read() as tx:
        view = await tx.grants.access(context.context_id, token.lookup_id())
    now_ms = services.clock.now_ms()
    if view is None or view.token.kind != "access" or now_ms >= view.token.expires_ms or view.token.wrapped is None:
        raise InvalidTokenError(_REFUSED)
    grant = view.grant
    if grant.status != "active" or now_ms - grant.used_ms > GRANT_IDLE_LIFETIME_S * 1000:
        raise InvalidTokenError(_REFUSED)
    scopes = effective(view.token.scopes, context.offer) & effective(grant.scopes, context.offer)
    if context.locked_ms is not None:
        return LockedCaller(context, grant.actor, scopes, _LOCKED)
    if view.keyring is None:
        return LockedCaller(context, grant.actor, scopes, _NO_KEY_COPY)
    return Caller(context, view, view.keyring, token, scopes)


@asynccontextmanager
async def acting(services: Services, caller: Caller) -> AsyncIterator[Acting]:
    """Open the caller's keyring until the end of the block. Raises InvalidTokenError on tampering."""
    try:
        keys = _open(caller)
    except CorruptError:
        keys = None
    if keys is None:
        await _record_tampering(services, caller)
        raise InvalidTokenError(_REFUSED)
    with keys:
        yield Acting(caller.context, caller.actor, caller.scopes, Channel.MCP, keys)


def owner_acting(session: OpenSession) -> Acting:
    """A signed-in controller on the management surface: every scope there is."""
    offer = session.context.offer
    scopes = effective(known_scopes(offer), offer)
    return Acting(session.context, session.actor, scopes, Channel.MANAGEMENT, session.keyring)


def _open(caller: Caller) -> OpenKeyring:
    grant, token = caller.access.grant, caller.access.token
    try:
        opened = seeds.unwrap_with_token(
            caller.token, "access", caller.context.context_id, grant.grant_id, token.wrapped or b""
        )
    finally:
        caller.token.wipe()
    try:
        return holders.open_grant(grant, opened, caller.access.roster, caller.keyring)
    finally:
        opened.seed.wipe()


async def _record_tampering(services: Services, caller: Caller) -> None:
    async with services.store.write() as tx:
        await record(
            tx,
            services,
            caller.context.context_id,
            action=Action.TAMPERING_FOUND,
            channel=Channel.MCP,
            outcome=Outcome.ERROR,
            actor=caller.actor,
            categories=("keys",),
        )
