"""Setting up a context: its owner, its first keys, the passphrase and the recovery code (KEY-03, KEY-13)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from zkpcp.core.audit import Action, Channel
from zkpcp.core.grants import Actor, parse_handle, parse_principal
from zkpcp.core.stored import ContextRow, SeedWrapRow
from zkpcp.errors import ConflictError, InvalidInputError, Violation
from zkpcp.usecases.audit_log import record
from zkpcp.usecases.services import Services
from zkpcp.vault import holders, seeds
from zkpcp.vault.holders import Founding
from zkpcp.vault.secrets import RecoveryCode, check_passphrase, new_recovery_code, passphrase_bytes, wipe

KINDS = ("personal", "work", "team")
DEFAULT_PRINCIPAL = "human:owner"


@dataclass(frozen=True, slots=True)
class Founded:
    """A new context, and the recovery code, which is shown once and stored nowhere."""

    context: ContextRow
    recovery_code: RecoveryCode


async def found_context(
    services: Services, *, handle: str, kind: str, passphrase: str, principal: str = DEFAULT_PRINCIPAL
) -> Founded:
    """Make an empty context controlled by ``principal``.

    Raises InvalidInputError for a handle, kind, principal or passphrase that breaks its rule, ConflictError when the
    handle is taken. Takes the time of one Argon2id run.
    """
    parse_handle(handle)
    parse_principal(principal)
    check_passphrase(passphrase)
    if kind not in KINDS:
        raise InvalidInputError("the kind is not valid", [Violation("kind", f"one of {', '.join(KINDS)}")])
    async with services.store.read() as tx:
        if await tx.contexts.by_handle(handle) is not None:
            raise ConflictError("a context with this handle exists already; choose another handle")
    context = ContextRow(
        context_id=services.new_id("ctx"),
        handle=handle,
        kind=kind,
        controller=principal,
        controller_type="human",
        created_ms=services.clock.now_ms(),
    )
    founding = holders.found(context.context_id, principal, services.entropy)
    code = new_recovery_code(services.entropy)
    try:
        wraps = await _wraps(services, context, founding, passphrase, code)
        await _save(services, context, founding, wraps)
    finally:
        founding.opened.seed.wipe()
    return Founded(context, code)


async def _wraps(
    services: Services, context: ContextRow, founding: Founding, passphrase: str, code: RecoveryCode
) -> tuple[SeedWrapRow, SeedWrapRow]:
    place = (context.context_id, context.controller, founding.opened)
    secret = passphrase_bytes(passphrase)
    try:
        async with services.passphrase_gate:
            under_passphrase = await asyncio.to_thread(
                seeds.wrap_with_passphrase,
                secret,
                *place,
                argon2=services.argon2,
                now_ms=context.created_ms,
                entropy=services.entropy,
            )
    finally:
        wipe(secret)
    under_code = seeds.wrap_with_recovery_code(code, *place, now_ms=context.created_ms, entropy=services.entropy)
    return under_passphrase, under_code


async def _save(
    services: Services, context: ContextRow, founding: Founding, wraps: tuple[SeedWrapRow, SeedWrapRow]
) -> None:
    async with services.store.write() as tx:
        await tx.contexts.add(context)
        await tx.contexts.put_roster(founding.roster)
        await tx.grants.put_keyring(founding.keyring)
        for wrap in wraps:
            await tx.credentials.put_wrap(wrap)
        await record(
            tx,
            services,
            context.context_id,
            action=Action.CONTEXT_CREATED,
            channel=Channel.MANAGEMENT,
            actor=Actor(context.controller),
            categories=("keys",),
        )
