"""Joining a context by an invite: the newcomer's own passphrase, keys made in that request, and a MAC by the code.

Until the controller signs in next, the newcomer has no key copy and their sign-in answers ``locked`` (KEY-10). Nothing
here needs a key of the context; the newcomer learns the owner's key from behind the code, not from the database.
"""

from __future__ import annotations

from dataclasses import dataclass

from zkpcp.core.audit import Action, Channel
from zkpcp.core.grants import Actor
from zkpcp.core.stored import ContextRow, InviteRow
from zkpcp.errors import CorruptError, NotFoundError
from zkpcp.usecases.audit_log import record
from zkpcp.usecases.seed_wraps import wrap_under_both
from zkpcp.usecases.services import Services
from zkpcp.vault import holders, invites, seeds
from zkpcp.vault.secrets import (
    RecoveryCode,
    check_passphrase,
    invite_lookup_id,
    new_recovery_code,
    parse_recovery_code,
)
from zkpcp.vault.seeds import OpenedSeed

_NO_INVITE = "this invite does not exist, was used already or has expired; ask for a new one"


@dataclass(frozen=True, slots=True)
class Joined:
    """Somebody who has just joined, and their own recovery code, which is shown once and stored nowhere."""

    principal: str
    recovery_code: RecoveryCode


async def join(services: Services, context: ContextRow | None, *, code: str, passphrase: str) -> Joined:
    """Join by an invite's code.

    Raises InvalidInputError for a mistyped code or an unfit passphrase, NotFoundError, always the same, for an unknown
    context and an invite that is unknown, used, expired or not what was made. Takes the time of one Argon2id run.
    """
    invited = parse_recovery_code(code)
    try:
        check_passphrase(passphrase)
        if context is None:
            raise NotFoundError(_NO_INVITE)
        row, memory = await _offered(services, context, invited)
        seed = holders.new_seed(services.entropy)
        opened = OpenedSeed(seed, memory)
        own_code = new_recovery_code(services.entropy)
        try:
            now_ms = services.clock.now_ms()
            keys = invites.joined_keys(invited, row, holders.new_member(row.principal, seed), now_ms)
            wraps = await wrap_under_both(
                services, row.context_id, row.principal, opened, passphrase=passphrase, code=own_code
            )
        finally:
            seed.wipe()
    finally:
        invited.wipe()
    async with services.store.write() as tx:
        if not await tx.invites.join(context.context_id, row.lookup_id, keys):
            raise NotFoundError(_NO_INVITE)
        for wrap in wraps:
            await tx.credentials.put_wrap(wrap)
        await record(
            tx,
            services,
            context.context_id,
            action=Action.PRINCIPAL_JOINED,
            channel=Channel.MANAGEMENT,
            actor=Actor(row.principal),
            categories=("principals", "keys"),
        )
    return Joined(row.principal, own_code)


async def _offered(services: Services, context: ContextRow, code: RecoveryCode) -> tuple[InviteRow, seeds.Memory]:
    async with services.store.read() as tx:
        row = await tx.invites.invite(context.context_id, invite_lookup_id(code, context.context_id))
    if row is None or row.joined is not None or services.clock.now_ms() >= row.expires_ms:
        raise NotFoundError(_NO_INVITE)
    try:
        memory = invites.open_offer(code, row)
    except CorruptError:
        memory = None
    if memory is None:  # raised out here: the exception keeps nothing of what failed
        raise NotFoundError(_NO_INVITE)
    return row, memory
