"""What waits for a reviewer: storing it, and who sees it (PCP §5.4).

Implements MEM-14 and MEM-15: a proposal is never part of memory; its author (the same grant) and reviewers alone see
it. Limits, on purpose: whoever may propose in a partition holds the key of its proposals, so "the author alone" is
policy there, and a sensitive proposal that its author may not read is open to reviewers alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from zkpcp.core import pages as page_format
from zkpcp.core.access import Right
from zkpcp.core.audit import Channel
from zkpcp.core.instants import to_rfc3339
from zkpcp.core.pages import Author, Draft, Page
from zkpcp.core.slots import PATHS, SubKeyRef, memory_slot, proposals_slot
from zkpcp.core.stored import PageRow, ProposalPlace, ProposalRow, ProposalState
from zkpcp.errors import ConflictError, CorruptError, ForbiddenError, TamperedError, TooLargeError
from zkpcp.ports import Transaction
from zkpcp.usecases.access import Acting
from zkpcp.usecases.audit_log import require_current
from zkpcp.usecases.call import Call
from zkpcp.usecases.heads import settle
from zkpcp.usecases.partition_names import default_partition, require_right
from zkpcp.vault import records
from zkpcp.vault.records import Proposal

MOST_WAITING: Final = 1000
_MOST_AT_ALL: Final = 100_000
_DAY_MS: Final = 24 * 3600 * 1000
WAITING_MS: Final = 90 * _DAY_MS
REJECTED_MS: Final = 30 * _DAY_MS
_CHANGED: Final = "the page changed meanwhile: read it again and propose the change on what you find"


def writes_wait(acting: Acting) -> bool:
    """Whether what this caller writes is stored as a proposal."""
    return acting.channel is Channel.MCP and acting.keys.roster.writes_wait


def review_slots(acting: Acting, right: Right) -> frozenset[str]:
    """The slots of proposals in partitions where the caller has this right, as far as scopes and keys open them."""
    sensitive = acting.readable_slots()
    found = {
        slot
        for each in acting.partitions_with(right)
        for slot in (proposals_slot(each), memory_slot(each, sensitive=True))
        if (slot in sensitive or slot == proposals_slot(each)) and acting.keys.holds(SubKeyRef(slot, "rec"))
    }
    return frozenset(found)


async def store_proposal(
    tx: Transaction, call: Call, draft: Draft, expected_ms: int | None, author: Author, right: Right
) -> str:
    """Store what the caller would write; the proposal's id. It says nothing of a page that is closed to its author.

    Raises TooLargeError when too many wait, ConflictError, ForbiddenError.
    """
    acting, services = call.acting, call.services
    if await tx.proposals.waiting(acting.context_id) >= MOST_WAITING:
        raise TooLargeError(f"{MOST_WAITING} proposals wait for review already")
    now_ms, proposal_id = services.clock.now_ms(), services.new_id("prp")
    stored = await _open_page(tx, call, draft, now_ms)
    if stored is None:
        base_ms = expected_ms
        partition = str((draft.frontmatter or {}).get("partition") or default_partition(acting, right))
        page = page_format.create(draft, page_id=proposal_id, now_ms=now_ms, author=author, default_partition=partition)
    else:
        base_ms = stored.updated_ms
        if expected_ms is not None and expected_ms != base_ms:
            raise ConflictError(_CHANGED)
        require_right(acting, right, stored.partition)
        changes = page_format.is_sensitivity_change(stored, draft)
        if changes and "memory.sensitive:write" not in acting.scopes:
            raise ForbiddenError(
                "changing whether a page is sensitive needs another scope", ("memory:write", "memory.sensitive:write")
            )
        page = page_format.update(stored, draft, now_ms=now_ms, author=author)
    require_right(acting, right, page.partition)
    by = {"by": author.principal, "at": to_rfc3339(now_ms)}
    page = page_format.with_review(page, {"state": "proposed", "generated": by})
    row = ProposalRow(
        context_id=acting.context_id,
        proposal_id=proposal_id,
        slot="",
        generation=0,
        grant_id=acting.actor.grant_id,
        principal=acting.actor.principal,
        state="proposed",
        created_ms=now_ms,
        expires_ms=now_ms + WAITING_MS,
        sealed=b"",
        signature=b"",
    )
    await tx.proposals.add(records.seal_proposal(acting.keys, row, Proposal(page, base_ms), services.entropy))
    call.object_ids.add(proposal_id)
    call.looks_into([records.slot_of(page)])
    return proposal_id


async def settle_quarantined(call: Call) -> None:
    """Seal anew what only its author's signature vouches for, while that signature still counts."""
    acting, services = call.acting, call.services
    now_ms = services.clock.now_ms()
    slots = [memory_slot(each, sensitive=True) for each in acting.keys.roster.partitions]
    async with services.store.write() as tx:
        for row in await every_proposal(tx, acting.context_id, slots, now_ms):
            if row.signature:
                grant = None if row.grant_id is None else await tx.grants.grant(acting.context_id, row.grant_id)
                call.decrypted = True
                try:
                    proposal = records.open_proposal(acting.keys, row, grant)
                except CorruptError:
                    await tx.proposals.delete(acting.context_id, row.proposal_id)
                    continue
                await tx.proposals.replace(records.seal_proposal(acting.keys, row, proposal, services.entropy))
        await settle(tx, services, acting.keys)
        await require_current(tx, acting.context_id, acting.keys.roster.version)


async def every_proposal(
    tx: Transaction, context_id: str, slots: Collection[str], now_ms: int
) -> Sequence[ProposalRow]:
    """All in these slots, whatever their state; for whoever looks after the whole context."""
    found: list[ProposalRow] = []
    states: tuple[ProposalState, ...] = ("proposed", "rejected")
    for state in states:
        found += await tx.proposals.proposals(
            context_id,
            state,
            now_ms,
            slots=slots,
            grant_id=None,
            own_slots=(),
            before=ProposalPlace(),
            limit=_MOST_AT_ALL,
        )
    return found


async def open_row(tx: Transaction, call: Call, row: ProposalRow, slots: Collection[str]) -> Proposal:
    """Open one that the store has answered with. Raises TamperedError."""
    acting = call.acting
    grant = None
    if row.signature and row.grant_id is not None:
        grant = await tx.grants.grant(acting.context_id, row.grant_id)
    call.decrypted = True
    if row.slot not in slots:
        raise TamperedError("the store answers with a proposal that was not asked for")
    proposal = records.open_proposal(acting.keys, row, grant)
    call.object_ids.add(row.proposal_id)
    call.looks_into([records.slot_of(proposal.page)])
    if proposal.page.is_sensitive:
        call.categories.add("memory.sensitive")
    return proposal


async def _open_page(tx: Transaction, call: Call, draft: Draft, now_ms: int) -> Page | None:
    """The page at the draft's path if the caller may read it."""
    acting = call.acting
    if not acting.keys.holds(SubKeyRef(PATHS, "tag")):
        return None
    page_id = await tx.pages.by_tag(acting.context_id, *records.path_tag(acting.keys, draft.path))
    row: PageRow | None = None
    if page_id is not None:
        row = await tx.pages.page(acting.context_id, page_id, acting.readable_slots(), now_ms)
    if row is None:
        return None
    call.decrypted = True
    page = records.open_page(acting.keys, row)
    records.check_path(page, draft.path)
    return page
