"""Signing in with a passphrase or a recovery code, and what a signed-in request opens.

A session token is the only thing that opens its own wrap of the principal's seed; the host stores its look-up id.
Every failing sign-in gives the same error after the same work, whether or not the account exists. How often one may try
is the HTTP layer's business.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from zkpcp.core.audit import Action, Channel, Outcome
from zkpcp.core.grants import SESSION_IDLE_S, SESSION_LIFETIME_S, Actor
from zkpcp.core.roster import SUSPENDED
from zkpcp.core.stored import ContextRow, KeyringRow, RosterRow, SeedWrapRow, SessionRow
from zkpcp.errors import CorruptError, InvalidInputError, InvalidTokenError, LockedError, SignInError, TamperedError
from zkpcp.ports import Transaction
from zkpcp.usecases.audit_log import record
from zkpcp.usecases.key_links import take_links
from zkpcp.usecases.log_memory import check_log
from zkpcp.usecases.seed_wraps import wrap_under_passphrase
from zkpcp.usecases.services import Services
from zkpcp.vault import holders, seeds
from zkpcp.vault.keyring import OpenKeyring
from zkpcp.vault.secrets import (
    Argon2Profile,
    RecoveryCode,
    TokenSecret,
    check_passphrase,
    new_token,
    parse_recovery_code,
    passphrase_bytes,
    wipe,
)
from zkpcp.vault.seeds import OpenedSeed

_SEEN_STEP_MS = 60_000
"""A session's last use is kept to the minute: less writing, and less to read from."""

SIGN_IN_REFUSED = "account and passphrase do not fit together"
_NO_KEY_COPY = "your key copy is not ready yet; it is made when the controller of this context signs in next"
_LOCKED = "this context is locked; its controller can unlock it"
_SUSPENDED = "your access is suspended; the controller of this context can end that"
RECOVERY_REFUSED = "account and recovery code do not fit together"


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A signed-in principal for the length of one request."""

    context: ContextRow
    principal: str
    keyring: OpenKeyring

    @property
    def is_controller(self) -> bool:
        """Whether this is the person who controls the context, with its root."""
        return self.keyring.is_controller and self.principal == self.keyring.holder

    @property
    def actor(self) -> Actor:
        """The actor that audit entries name."""
        return Actor(self.principal)


async def sign_in(
    services: Services, context: ContextRow | None, *, passphrase: str, principal: str | None = None
) -> TokenSecret:
    """Open a session. ``principal`` defaults to the controller.

    Raises SignInError, always the same one, for an unknown context, an unknown principal, a wrong passphrase, and a
    wrap whose Argon2 settings were lowered. The work is the same in each case. Raises LockedError for somebody with the
    right passphrase who has no keyring now: a newcomer, or a suspended member.
    """
    name = principal or (context.owner if context else "")
    wrap, roster, keyring = await _sign_in_rows(services, context, name)
    opened = await _try_passphrase(services, wrap or _decoy(services), passphrase)
    if context is None:
        raise SignInError(SIGN_IN_REFUSED)
    try:
        if wrap is None or opened is None or roster is None:
            await _record_sign_in(services, context, name if wrap else None, Outcome.DENIED)
            raise SignInError(SIGN_IN_REFUSED)
        if keyring is None:
            await _record_sign_in(services, context, name, Outcome.LOCKED)
            raise LockedError(_what_ends_the_wait(context, name, opened, roster))
        return await _start(services, context, name, opened, roster, keyring)
    finally:
        if opened is not None:
            opened.seed.wipe()


async def recover(
    services: Services,
    context: ContextRow | None,
    *,
    recovery_code: str,
    new_passphrase: str,
    principal: str | None = None,
) -> TokenSecret:
    """Set a new passphrase with the recovery code, and sign in. The old passphrase wrap is replaced (KEY-12).

    Every other session ends with it: who recovers may do so because somebody else has the passphrase. All of it
    happens in one transaction, and only after the keyring has opened with what the code gives.

    Raises InvalidInputError for a mistyped code or an unfit passphrase, SignInError when the code opens nothing.
    """
    code = parse_recovery_code(recovery_code)
    check_passphrase(new_passphrase)
    name = principal or (context.owner if context else "")
    _, roster, keyring = await _sign_in_rows(services, context, name)
    if context is None:
        raise SignInError(RECOVERY_REFUSED)
    opened = await _try_recovery_code(services, context, name, code)
    try:
        if opened is None or roster is None:
            await _record_sign_in(services, context, name if principal is None else None, Outcome.DENIED)
            raise SignInError(RECOVERY_REFUSED)
        if keyring is None:
            await _record_sign_in(services, context, name, Outcome.LOCKED)
            raise LockedError(_what_ends_the_wait(context, name, opened, roster))
        token, row = await _session_of(services, context, name, opened, roster, keyring)
        wrap = await wrap_under_passphrase(services, context.context_id, name, opened, new_passphrase)
        await _replace_passphrase(services, context, wrap, row)
        return token
    finally:
        if opened is not None:
            opened.seed.wipe()


async def sign_out(services: Services, context: ContextRow, token: TokenSecret) -> None:
    """End a session; its wrap is deleted. Ending an unknown session does nothing."""
    async with services.store.write() as tx:
        row = await tx.credentials.session(context.context_id, token.lookup_id())
        if row is None:
            return
        await tx.credentials.end_session(context.context_id, row.lookup_id)
        await record(
            tx,
            services,
            context.context_id,
            action=Action.SIGN_OUT,
            channel=Channel.MANAGEMENT,
            actor=Actor(row.principal),
            categories=("keys",),
        )


async def is_signed_in(services: Services, context: ContextRow, token: TokenSecret) -> bool:
    """Whether a session is there and has not ended. Opens nothing."""
    async with services.store.read() as tx:
        row = await tx.credentials.session(context.context_id, token.lookup_id())
    return row is not None and not _has_ended(row, services.clock.now_ms())


@asynccontextmanager
async def signed_in(
    services: Services, context: ContextRow | None, *, passphrase: str, principal: str | None = None
) -> AsyncIterator[OpenSession]:
    """Somebody signed in for one act and out again at its end. Raises SignInError, LockedError as ``sign_in`` does."""
    token = await sign_in(services, context, passphrase=passphrase, principal=principal)
    if context is None:
        raise SignInError(SIGN_IN_REFUSED)
    try:
        async with open_session(services, context, token) as session:
            yield session
    finally:
        await sign_out(services, context, token)
        token.wipe()


@asynccontextmanager
async def open_session(services: Services, context: ContextRow, token: TokenSecret) -> AsyncIterator[OpenSession]:
    """Open the keyring of a signed-in principal; every key is overwritten on leaving the block.

    Raises InvalidTokenError for an unknown, idle (15 min) or expired (8 h) session, or one whose wrap does not open.
    """
    now_ms = services.clock.now_ms()
    row, roster, keyring_row = await _session_rows(services, context, token, now_ms)
    try:
        opened = seeds.unwrap_with_token(token, "session", context.context_id, row.principal, row.wrapped)
        try:
            keyring = holders.open_principal(row.principal, opened, roster, keyring_row)
        finally:
            opened.seed.wipe()
    except CorruptError as error:
        await _record_tampering(services, context, row.principal)
        raise InvalidTokenError("the session does not open; sign in again") from error
    with keyring:
        try:
            await check_log(services, keyring)
        except CorruptError as error:
            await _record_tampering(services, context, row.principal)
            raise InvalidTokenError("the session does not open; sign in again") from error
        await take_links(services, keyring)
        yield OpenSession(context, row.principal, keyring)


async def _session_rows(
    services: Services, context: ContextRow, token: TokenSecret, now_ms: int
) -> tuple[SessionRow, RosterRow, KeyringRow]:
    lookup_id = token.lookup_id()
    async with services.store.read() as tx:
        row = await tx.credentials.session(context.context_id, lookup_id)
        if row is None or _has_ended(row, now_ms):
            raise InvalidTokenError("the session has ended; sign in again")
        roster, keyring = await _roster_and_keyring(tx, context, row.principal)
    if roster is None or keyring is None:
        raise LockedError(_NO_KEY_COPY)
    if now_ms - row.seen_ms >= _SEEN_STEP_MS:
        async with services.store.write() as tx:
            await tx.credentials.touch_session(context.context_id, lookup_id, now_ms)
    return row, roster, keyring


def _has_ended(row: SessionRow, now_ms: int) -> bool:
    return now_ms >= row.expires_ms or now_ms - row.seen_ms >= SESSION_IDLE_S * 1000


async def _sign_in_rows(
    services: Services, context: ContextRow | None, principal: str
) -> tuple[SeedWrapRow | None, RosterRow | None, KeyringRow | None]:
    if context is None:
        return None, None, None
    async with services.store.read() as tx:
        wrap = await tx.credentials.wrap(context.context_id, principal, "passphrase")
        roster, keyring = await _roster_and_keyring(tx, context, principal)
    return wrap, roster, keyring


async def _roster_and_keyring(
    tx: Transaction, context: ContextRow, principal: str
) -> tuple[RosterRow | None, KeyringRow | None]:
    roster = await tx.contexts.roster(context.context_id)
    if roster is None:
        return None, None
    return roster, await tx.grants.principal_keyring(context.context_id, principal)


async def _try_passphrase(services: Services, wrap: SeedWrapRow, passphrase: str) -> OpenedSeed | None:
    try:
        secret = passphrase_bytes(passphrase)
    except InvalidInputError:
        # The same work for a text that no passphrase can be, so that time tells nothing about the account.
        secret = bytearray(b"no passphrase has this form \x00")
    try:
        async with services.passphrase_gate:
            return await asyncio.to_thread(_opened_or_none, secret, wrap, services.argon2_floor)
    finally:
        wipe(secret)


def _opened_or_none(secret: bytearray, wrap: SeedWrapRow, floor: Argon2Profile) -> OpenedSeed | None:
    try:
        return seeds.unwrap_with_passphrase(secret, wrap, floor=floor)
    except CorruptError:
        return None


def _decoy(services: Services) -> SeedWrapRow:
    """A wrap that opens with nothing, so that an unknown account costs what a known one costs."""
    argon2 = services.argon2
    settings = (argon2.memory_kib, argon2.time_cost, argon2.parallelism)
    return SeedWrapRow("", "", "passphrase", services.entropy.bytes(16), *settings, bytes(200), 0)


def _what_ends_the_wait(context: ContextRow, principal: str, opened: OpenedSeed, roster: RosterRow) -> str:
    """Why somebody with the right secret has no keyring (KEY-10); only they are told."""
    if context.locked_ms is not None:
        return _LOCKED
    try:
        role = holders.verified_roster(roster, opened.memory).role(principal)
    except CorruptError:
        role = ""
    return _SUSPENDED if role == SUSPENDED else _NO_KEY_COPY


async def _try_recovery_code(
    services: Services, context: ContextRow, principal: str, code: RecoveryCode
) -> OpenedSeed | None:
    async with services.store.read() as tx:
        wrap = await tx.credentials.wrap(context.context_id, principal, "recovery")
    try:
        return seeds.unwrap_with_recovery_code(code, wrap) if wrap is not None else None
    except TamperedError:
        return None
    finally:
        code.wipe()


async def _replace_passphrase(services: Services, context: ContextRow, wrap: SeedWrapRow, session: SessionRow) -> None:
    async with services.store.write() as tx:
        await tx.credentials.put_wrap(wrap)
        await tx.credentials.end_sessions_of(context.context_id, session.principal)
        await record(
            tx,
            services,
            context.context_id,
            action=Action.CREDENTIAL_CHANGED,
            channel=Channel.MANAGEMENT,
            actor=Actor(session.principal),
            categories=("keys",),
        )
        await tx.credentials.add_session(session)
        await _sign_in_entry(tx, services, context, session.principal, Outcome.OK)


async def _start(
    services: Services,
    context: ContextRow,
    principal: str,
    opened: OpenedSeed,
    roster: RosterRow,
    keyring_row: KeyringRow,
) -> TokenSecret:
    token, row = await _session_of(services, context, principal, opened, roster, keyring_row)
    async with services.store.write() as tx:
        await tx.credentials.end_sessions_before(context.context_id, row.created_ms, SESSION_IDLE_S * 1000)
        await tx.credentials.add_session(row)
        await _sign_in_entry(tx, services, context, principal, Outcome.OK)
    return token


async def _session_of(
    services: Services,
    context: ContextRow,
    principal: str,
    opened: OpenedSeed,
    roster: RosterRow,
    keyring_row: KeyringRow,
) -> tuple[TokenSecret, SessionRow]:
    """A session that is not stored yet. Raises SignInError, with an entry, when the keyring does not open."""
    async with services.store.read() as tx:
        newest = await tx.audit.newest(context.context_id)
    try:
        with holders.open_principal(principal, opened, roster, keyring_row) as keyring:
            await check_log(services, keyring)
            remembered = OpenedSeed(opened.seed, seeds.Memory.of(keyring.roster, newest))
    except CorruptError as error:
        await _record_tampering(services, context, principal)
        raise SignInError(SIGN_IN_REFUSED) from error
    token = new_token("st", services.entropy)
    now_ms = services.clock.now_ms()
    row = SessionRow(
        context_id=context.context_id,
        lookup_id=token.lookup_id(),
        principal=principal,
        created_ms=now_ms,
        seen_ms=now_ms,
        expires_ms=now_ms + SESSION_LIFETIME_S * 1000,
        wrapped=seeds.wrap_for_token(token, "session", context.context_id, principal, remembered, services.entropy),
    )
    return token, row


async def _record_sign_in(services: Services, context: ContextRow, principal: str | None, outcome: Outcome) -> None:
    async with services.store.write() as tx:
        await _sign_in_entry(tx, services, context, principal, outcome)


async def _sign_in_entry(
    tx: Transaction, services: Services, context: ContextRow, principal: str | None, outcome: Outcome
) -> None:
    await record(
        tx,
        services,
        context.context_id,
        action=Action.SIGN_IN,
        channel=Channel.MANAGEMENT,
        outcome=outcome,
        actor=Actor(principal) if principal else None,
        categories=("keys",),
    )


async def _record_tampering(services: Services, context: ContextRow, principal: str) -> None:
    async with services.store.write() as tx:
        await record(
            tx,
            services,
            context.context_id,
            action=Action.TAMPERING_FOUND,
            channel=Channel.MANAGEMENT,
            outcome=Outcome.ERROR,
            actor=Actor(principal),
            categories=("keys",),
        )
