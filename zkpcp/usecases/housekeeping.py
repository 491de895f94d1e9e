"""What has to end by itself, and needs no key: pages and hand-offs past their retention, idle grants, spent tokens, old sessions.

Runs at the start of the server and every hour after that, so downtime only delays it (ERA-08, AUTH-45). Each context is
swept in a transaction of its own, with its audit entry; a sweep that found nothing leaves none.
"""

from __future__ import annotations

from typing import Final

from zkpcp.core.audit import Action, Channel
from zkpcp.core.grants import GRANT_IDLE_LIFETIME_S, SESSION_IDLE_S
from zkpcp.core.stored import ContextRow
from zkpcp.usecases.audit_log import record
from zkpcp.usecases.grants import end_idle_grants
from zkpcp.usecases.services import Services

EVERY_S: Final = 3600


async def sweep_all(services: Services) -> None:
    """Sweep every context. Raises UnavailableError when the store is away."""
    async with services.store.read() as tx:
        handles = await tx.contexts.handles()
    for handle in handles:
        async with services.store.read() as tx:
            context = await tx.contexts.by_handle(handle)
        if context is not None:
            await sweep(services, context)


async def sweep(services: Services, context: ContextRow) -> None:
    """End in one context what has to end."""
    await end_idle_grants(services, context)
    now_ms = services.clock.now_ms()
    async with services.store.write() as tx:
        # A used-up look-up id is kept as long as its token could be replayed by a client that comes back late.
        await tx.grants.sweep_tokens(context.context_id, now_ms, GRANT_IDLE_LIFETIME_S * 1000)
        await tx.credentials.end_sessions_before(context.context_id, now_ms, SESSION_IDLE_S * 1000)
        pages = await tx.pages.delete_expired(context.context_id, now_ms)
        if pages:
            await record(
                tx,
                services,
                context.context_id,
                action=Action.RETENTION_SWEEP,
                channel=Channel.SYSTEM,
                categories=("memory",),
                counts={"pages": pages},
            )
