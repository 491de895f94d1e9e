"""Admitting what waits in the sensitive inbox: verify, re-seal under the slot's own keys, index (MEM-22).

A writer who may not read sensitive pages can still add one: it lies in quarantine, sealed to the slot's inbox, until a
request that holds the slot comes by. An item whose signature does not hold, or that was admitted before, is discarded,
and that is audited.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from zkpcp.core import terms as term_format
from zkpcp.core.audit import Action, Outcome
from zkpcp.core.slots import SubKeyRef, is_sensitive
from zkpcp.core.stored import InboxRow
from zkpcp.errors import ConflictError, CorruptError
from zkpcp.ports import Transaction
from zkpcp.usecases.access import Acting
from zkpcp.usecases.audit_log import record, require_current
from zkpcp.usecases.call import Call
from zkpcp.usecases.heads import settle
from zkpcp.usecases.indexing import index_page
from zkpcp.usecases.services import Services
from zkpcp.vault import records

AT_ONCE: Final = 50
"""How many items one request admits: it bounds the work a call may find waiting."""


async def admit_waiting(call: Call, of_slots: Collection[str] | None = None) -> bool:
    """Admit what waits in the inboxes this caller can open. True when more is left than one request admits.

    ``of_slots``: instead of those that the caller may read; for the owner, who looks after the whole context.
    """
    services, acting = call.services, call.acting
    wanted = acting.readable_slots() if of_slots is None else of_slots
    slots = [slot for slot in wanted if is_sensitive(slot) and acting.keys.holds(SubKeyRef(slot, "inbox"))]
    if not slots:
        return False
    async with services.store.read() as tx:
        waiting = await tx.pages.inbox(acting.context_id, slots, AT_ONCE + 1)
    if not waiting:
        return False
    call.decrypted = True
    call.looks_into(row.slot for row in waiting)
    async with services.store.write() as tx:
        refused = [row.page_id for row in waiting[:AT_ONCE] if not await _admit(tx, services, acting, row)]
        if refused:
            await record(
                tx,
                services,
                acting.context_id,
                action=Action.TAMPERING_FOUND,
                channel=acting.channel,
                outcome=Outcome.ERROR,
                actor=acting.actor,
                categories=("memory.sensitive",),
                partitions=call.partitions,
                object_ids=refused,
            )
        await settle(tx, services, acting.keys)
        await require_current(tx, acting.context_id, acting.keys.roster.version)
    return len(waiting) > AT_ONCE


async def _admit(tx: Transaction, services: Services, acting: Acting, row: InboxRow) -> bool:
    grant = await tx.grants.grant(acting.context_id, row.grant_id)
    if grant is None:
        await tx.pages.discard_inbox(acting.context_id, row.page_id)
        return False
    try:
        item = records.open_inbox(acting.keys, row, grant)
        # The terms came with the item, from a writer whose word for them need not be taken: they are made again.
        page = item.page
        vector = term_format.terms_of_page(page.title, page.tags, page.type, page.path.value, page.body)
        terms = term_format.encode(vector)
        sealed = records.seal_page(acting.keys, page, 1, terms, services.entropy)
    except CorruptError:
        await tx.pages.discard_inbox(acting.context_id, row.page_id)
        return False
    try:
        admitted = await tx.pages.admit(sealed)
    except ConflictError:
        # A copy of an item that became a page already: it leaves the inbox, and the page stays as it is.
        return False
    if admitted:
        await index_page(tx, services, acting, page.id, after=page, terms=terms)
    return True
