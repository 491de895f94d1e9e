"""What has to end by itself, and needs no key.

Pages, proposals and hand-offs past their end, earlier versions of pages, idle grants, tokens, requests for consent that
nobody answered, clients that never got a grant, old sessions, counted attempts. Runs at the start of the server and
every hour after that, so downtime only delays it (ERA-08, AUTH-45). Each context is swept in a transaction of its own,
with its audit entry; a sweep that found nothing leaves none.
"""

from __future__ import annotations

from typing import Final

from zkpcp.core.audit import Action, Channel
from zkpcp.core.extensions import HANDOFF, KNOWN
from zkpcp.core.grants import GRANT_IDLE_LIFETIME_S, SESSION_IDLE_S
from zkpcp.core.stored import ContextRow
from zkpcp.ports import Transaction
from zkpcp.usecases.audit_log import record, swept_partitions
from zkpcp.usecases.clients import sweep_unused
from zkpcp.usecases.grants import end_idle_grants
from zkpcp.usecases.services import Services

EVERY_S: Final = 3600


async def sweep_all(services: Services) -> None:
    """Sweep every context. Raises UnavailableError when the store is away."""
    async with services.store.read() as tx:
        handles = await tx.contexts.handles()
    async with services.store.write() as tx:
        await tx.counters.sweep(services.clock.now_ms())
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
        await tx.grants.sweep_authorizations(context.context_id, now_ms)
        await sweep_unused(tx, services, context.context_id)
        await tx.invites.sweep(context.context_id, now_ms)
        await tx.credentials.end_sessions_before(context.context_id, now_ms, SESSION_IDLE_S * 1000)
        ctx = context.context_id
        await _note(tx, services, context, "memory", "pages", await tx.pages.delete_expired(ctx, now_ms))
        await _note(tx, services, context, "memory", "deleted_pages", await tx.pages.purge_deleted(ctx, now_ms))
        waited = await tx.proposals.delete_expired(ctx, now_ms)
        await _note(tx, services, context, "memory", "proposals", waited)
        keep, since_ms = services.history_kept()
        versions = await tx.history.sweep(ctx, now_ms, keep=keep, since_ms=since_ms)
        await _note(tx, services, context, "memory", "versions", versions)
        left = await tx.handoffs.delete_expired(ctx, now_ms)
        await _note(tx, services, context, KNOWN[HANDOFF].stem, "handoffs", left)


async def _note(
    tx: Transaction, services: Services, context: ContextRow, category: str, counted: str, number: int
) -> None:
    if not number:
        return
    await record(
        tx,
        services,
        context.context_id,
        action=Action.RETENTION_SWEEP,
        channel=Channel.SYSTEM,
        categories=(category,),
        partitions=swept_partitions(context) if category == "memory" else (),
        counts={counted: number},
    )
