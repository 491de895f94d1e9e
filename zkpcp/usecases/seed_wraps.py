"""Wrapping a principal's seed under the secrets that its person keeps, the slow part in a worker thread (KEY-03)."""

from __future__ import annotations

import asyncio

from zkpcp.core.stored import SeedWrapRow
from zkpcp.usecases.services import Services
from zkpcp.vault import seeds
from zkpcp.vault.secrets import RecoveryCode, passphrase_bytes, wipe
from zkpcp.vault.seeds import OpenedSeed


async def wrap_under_passphrase(
    services: Services, context_id: str, principal: str, opened: OpenedSeed, passphrase: str
) -> SeedWrapRow:
    """The seed under a passphrase that has been checked. Takes the time of one Argon2id run."""
    secret = passphrase_bytes(passphrase)
    try:
        async with services.passphrase_gate:
            return await asyncio.to_thread(
                seeds.wrap_with_passphrase,
                secret,
                context_id,
                principal,
                opened,
                argon2=services.argon2,
                now_ms=services.clock.now_ms(),
                entropy=services.entropy,
            )
    finally:
        wipe(secret)


async def wrap_under_both(
    services: Services, context_id: str, principal: str, opened: OpenedSeed, *, passphrase: str, code: RecoveryCode
) -> tuple[SeedWrapRow, SeedWrapRow]:
    """The same, and the seed under the person's recovery code."""
    under_passphrase = await wrap_under_passphrase(services, context_id, principal, opened, passphrase)
    under_code = seeds.wrap_with_recovery_code(
        code, context_id, principal, opened, now_ms=services.clock.now_ms(), entropy=services.entropy
    )
    return under_passphrase, under_code
