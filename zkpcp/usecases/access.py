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

from zkpcp.core import roster as roster_format
from zkpcp.core.access import Right, Rights
from zkpcp.core.audit import Action, Channel, Outcome
from zkpcp.core.grants import GRANT_IDLE_LIFETIME_S, Actor
from zkpcp.core.roster import SUSPENDED
from zkpcp.core.scopes import effective, known_scopes, scopes_of_role
from zkpcp.core.slots import memory_slot
from zkpcp.core.stored import AccessView, ContextRow, KeyringRow
from zkpcp.errors import CorruptError, InvalidTokenError
from zkpcp.usecases.audit_log import record
from zkpcp.usecases.key_links import take_links
from zkpcp.usecases.log_memory import check_log
from zkpcp.usecases.services import Services
from zkpcp.usecases.session import OpenSession
from zkpcp.vault import holders, seeds
from zkpcp.vault.keyring import OpenKeyring
from zkpcp.vault.secrets import TokenSecret, parse_token

_REFUSED = "the access token is not valid here"
_LOCKED = "this context is locked; its owner can unlock it on the management pages"
_NO_KEY_COPY = "the key copy for this connection is not ready; it is made at the owner's next sign-in"

_SUSPENDED = "the access of the person behind this connection is suspended; the controller of the context can end that"


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
        """The memory slots whose pages this caller may see: scopes, access list and keys decide (SCOPE-02, 04, 05)."""
        if "memory:read" not in self.scopes:
            return frozenset()
        wanted = (False, True) if "memory.sensitive:read" in self.scopes else (False,)
        slots = {memory_slot(each, sensitive=flag) for each in self.partitions_with("read") for flag in wanted}
        return frozenset(slots) & self.keys.readable_slots()

    @property
    def rights(self) -> Rights:
        """What the access lists let this caller do, by partition (SCOPE-04, SCOPE-06)."""
        return self.keys.roster.acting_rights(self.actor.principal, self.actor.on_behalf_of)

    def partitions_with(self, right: Right) -> frozenset[str]:
        """The ids of the partitions in which the access lists give this right."""
        return frozenset(partition for partition, rights in self.rights.items() if right in rights)

    def may(self, right: Right, partition: str) -> bool:
        """Whether the access lists give this right in a partition."""
        return right in self.rights.get(partition, ())


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
        return LockedCaller(context, grant.actor, scopes, _what_ends_the_wait(view))
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
        try:
            await check_log(services, keys)
        except CorruptError:
            await _record_tampering(services, caller)
            raise InvalidTokenError(_REFUSED) from None
        await take_links(services, keys)
        grant, context = caller.access.grant, caller.context
        role = keys.roster.role(grant.on_behalf_of or grant.principal)
        scopes = caller.scopes & scopes_of_role(role, context.offer)
        yield Acting(context, caller.actor, scopes, Channel.MCP, keys)


def acting_as(session: OpenSession) -> Acting:
    """Whoever is signed in, on the management surface: every scope there is, within the access lists."""
    offer = session.context.offer
    role = session.keyring.roster.role(session.principal)
    scopes = effective(known_scopes(offer), offer) & scopes_of_role(role, offer)
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


def _what_ends_the_wait(view: AccessView) -> str:
    # Nothing is opened here, so the roster is not verified: it decides about a sentence and nothing else.
    try:
        role = roster_format.parse(view.roster.body).role(view.grant.on_behalf_of or view.grant.principal)
    except CorruptError:
        role = ""
    return _SUSPENDED if role == SUSPENDED else _NO_KEY_COPY


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
