"""Proposing, looking through what is proposed, and resolving it on the management surface (PCP §5.4).

Implements MEM-15, MEM-16 and MEM-09: an approved page bears its author's stamps and says who verified it. Approving
takes the right to write in the partition besides the right to review; rejecting takes the right to review alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, cast

from zkpcp.core import page_keys
from zkpcp.core import pages as page_format
from zkpcp.core.access import ReviewMode
from zkpcp.core.audit import Action, Channel
from zkpcp.core.frontmatter import YamlValue
from zkpcp.core.instants import to_rfc3339
from zkpcp.core.pages import Author, Draft, Page
from zkpcp.core.slots import SubKeyRef, category_of, memory_slot
from zkpcp.core.stored import ProposalPlace, ProposalRow, ProposalState
from zkpcp.errors import ConflictError, ForbiddenError, NotFoundError, TamperedError
from zkpcp.ports import Transaction
from zkpcp.usecases.access import Acting
from zkpcp.usecases.call import Call, calling
from zkpcp.usecases.inbox import admit_waiting
from zkpcp.usecases.managing import record_managed
from zkpcp.usecases.partition_names import partition_names
from zkpcp.usecases.proposals import REJECTED_MS, open_row, review_slots, store_proposal
from zkpcp.usecases.remember import (
    CHANGED,
    Approved,
    author_of,
    check_draft,
    create_page,
    page_at,
    parse_expected,
    read_draft,
    replace_page,
)
from zkpcp.usecases.roster_changes import change_roster
from zkpcp.usecases.services import Services
from zkpcp.usecases.session import OpenSession
from zkpcp.vault import records
from zkpcp.vault.cursors import open_cursor, seal_cursor
from zkpcp.vault.records import Proposal

PROPOSE: Final = "memory_propose"
LIST: Final = "review_list"
_NOT_THERE: Final = "there is no such proposal, or it is not open to you"
_ALL: Final = 1000


@dataclass(frozen=True, slots=True, repr=False)
class Listed:
    """A proposal as its author or a reviewer sees it; the page has its partition's name."""

    proposal_id: str
    state: ProposalState
    created_ms: int
    page: Page


@dataclass(frozen=True, slots=True, repr=False)
class Proposals:
    """Part of a list, the newest first, and the cursor that continues it."""

    proposals: tuple[Listed, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """A proposal beside the page as it is now; ``is_stale``: it was made from another version of that page."""

    proposal: Listed
    current: Page | None
    is_stale: bool


async def set_review(services: Services, session: OpenSession, mode: ReviewMode) -> None:
    """Say whether writes wait for review. Raises ForbiddenError for anybody but the controller."""
    async with services.store.write() as tx:
        await change_roster(tx, session, lambda roster: replace(roster, review=mode))
        await record_managed(tx, services, session, Action.REVIEW_CHANGED, ("memory",))


async def propose_page(
    services: Services,
    acting: Acting,
    *,
    path: str,
    body: str,
    frontmatter: Mapping[str, object] | None = None,
    expected_updated: str | None = None,
) -> str:
    """Propose a page, or a change of one; the proposal's id. Raises as ``write_page`` does."""
    async with calling(services, acting, PROPOSE, "memory") as call:
        if "memory:propose" not in acting.scopes:
            raise ForbiddenError("proposing pages needs another scope", ("memory:propose",))
        draft, expected_ms = read_draft(services, path, body, frontmatter, expected_updated)
        # What the author may read is what the proposal is made from, also while it waits in quarantine.
        await admit_waiting(call)
        async with services.store.write() as tx:
            draft = (await partition_names(tx, call)).draft(draft)
            proposal_id = await store_proposal(tx, call, draft, expected_ms, author_of(acting), "propose")
            await call.record(tx)
        return proposal_id


async def list_proposals(
    services: Services,
    acting: Acting,
    *,
    state: ProposalState = "proposed",
    limit: int = _ALL,
    cursor: str | None = None,
) -> Proposals:
    """What waits or was rejected: all of it to reviewers of its partition, a grant's own to that grant (MEM-15)."""
    async with calling(services, acting, LIST, "memory") as call:
        _check_scope(acting)
        before = ProposalPlace()
        if cursor is not None:
            place = cast("list[object]", open_cursor(acting.keys, LIST, {"state": state}, cursor))
            before = ProposalPlace(int(str(place[0])), str(place[1]))
        slots, own = review_slots(acting, "review"), review_slots(acting, "propose") | review_slots(acting, "write")
        async with services.store.read() as tx:
            rows = await tx.proposals.proposals(
                acting.context_id,
                state,
                services.clock.now_ms(),
                slots=slots,
                grant_id=acting.actor.grant_id,
                own_slots=own,
                before=before,
                limit=limit + 1,
            )
            names = await partition_names(tx, call)
            found = []
            for row in rows[:limit]:
                _check_answer(acting, row, state, slots)
                page = (await open_row(tx, call, row, slots | own)).page
                found.append(Listed(row.proposal_id, row.state, row.created_ms, names.page(page)))
        next_cursor = None
        if len(rows) > limit:
            last = found[-1]
            next_cursor = seal_cursor(
                acting.keys, LIST, {"state": state}, [str(last.created_ms), last.proposal_id], services.entropy
            )
        call.counts["proposals"] = len(found)
        async with services.store.write() as tx:
            await call.record(tx)
        return Proposals(tuple(found), next_cursor)


async def compare(services: Services, acting: Acting, proposal_id: str) -> Comparison:
    """A waiting proposal beside the page as it is. Raises NotFoundError, ConflictError for a closed page."""
    async with calling(services, acting, LIST, "memory") as call:
        await admit_waiting(call)
        async with services.store.write() as tx:
            row, proposal = await _waiting(tx, call, proposal_id)
            stored = await page_at(tx, call, _draft(proposal.page))
            current = None if stored is None else records.open_page(acting.keys, stored)
            names = await partition_names(tx, call)
            await call.record(tx)
        shown = Listed(row.proposal_id, row.state, row.created_ms, names.page(proposal.page))
        base_ms = None if current is None else current.updated_ms
        return Comparison(shown, None if current is None else names.page(current), base_ms != proposal.base_ms)


async def approve(
    services: Services, acting: Acting, proposal_id: str, *, seen_updated: str, edited: str | None = None
) -> str:
    """Make a proposal, or what the reviewer made of it (``edited``: a whole page as text), a page; the page's id.

    ``seen_updated`` is the instant of the page that the reviewer saw beside it, empty for none. Raises ConflictError
    when that page has changed since, or, for one approved as it is, since it was proposed; NotFoundError,
    ForbiddenError, InvalidInputError.
    """
    async with calling(services, acting, Action.REVIEW_RESOLVED, "memory") as call:
        seen_ms = parse_expected(seen_updated or None)
        await admit_waiting(call)
        async with services.store.write() as tx:
            row, proposal = await _waiting(tx, call, proposal_id)
            draft = _draft(proposal.page)
            if edited is not None:
                text = page_format.draft(draft.path.value, edited, None, services.page_limits)
                draft = (await partition_names(tx, call)).draft(text)
            check_draft(draft, now_ms=services.clock.now_ms())
            stored = await page_at(tx, call, draft)
            now_there = None if stored is None else stored.updated_ms
            if now_there != seen_ms or (edited is None and now_there != proposal.base_ms):
                raise ConflictError(CHANGED)
            approved = _approved(acting, proposal.page, services.clock.now_ms())
            if stored is None:
                _check_slot(acting, draft, proposal.page)
                page = await create_page(tx, call, draft, None, partition=proposal.page.partition, approved=approved)
            else:
                page = await replace_page(tx, call, draft, stored, None, approved=approved)
            await tx.proposals.delete(acting.context_id, row.proposal_id)
            call.object_ids.add(page.id)
            call.categories.add(category_of(records.slot_of(page)))
            call.looks_into([records.slot_of(page)])
            call.counts["approved"] = 1
            await call.record(tx)
        return page.id


async def reject(services: Services, acting: Acting, proposal_id: str) -> None:
    """Reject a proposal; it is kept for a while, for its author and reviewers. Raises NotFoundError."""
    async with calling(services, acting, Action.REVIEW_RESOLVED, "memory") as call, services.store.write() as tx:
        row, proposal = await _waiting(tx, call, proposal_id)
        now_ms = services.clock.now_ms()
        review = dict(cast("Mapping[str, YamlValue]", proposal.page.frontmatter["review"]))
        by = {"by": acting.actor.principal, "at": to_rfc3339(now_ms)}
        page = page_format.with_review(proposal.page, {**review, "state": "rejected", "rejected": by})
        rejected = replace(row, state="rejected", expires_ms=now_ms + REJECTED_MS)
        kept = Proposal(page, proposal.base_ms)
        await tx.proposals.replace(records.seal_proposal(acting.keys, rejected, kept, services.entropy))
        call.counts["rejected"] = 1
        await call.record(tx)


async def _waiting(tx: Transaction, call: Call, proposal_id: str) -> tuple[ProposalRow, Proposal]:
    acting = call.acting
    slots, now_ms = review_slots(acting, "review"), call.services.clock.now_ms()
    row = await tx.proposals.proposal(acting.context_id, proposal_id, slots, now_ms, lock=True)
    if row is None or row.state != "proposed" or row.proposal_id != proposal_id:
        raise NotFoundError(_NOT_THERE)
    return row, await open_row(tx, call, row, slots)


def _check_scope(acting: Acting) -> None:
    if acting.channel is Channel.MCP and "review:read" not in acting.scopes:
        raise ForbiddenError("looking through proposals needs another scope", ("review:read",))


def _check_answer(acting: Acting, row: ProposalRow, state: ProposalState, slots: frozenset[str]) -> None:
    mine = row.grant_id is not None and row.grant_id == acting.actor.grant_id
    if row.state != state or not (mine or row.slot in slots):
        raise TamperedError("the store answers with a proposal that was not asked for")


def _check_slot(acting: Acting, draft: Draft, page: Page) -> None:
    """An approved page goes into memory, never into quarantine: the reviewer has to hold its slot."""
    keys = draft.frontmatter or {}
    sensitive = keys.get("sensitivity", "sensitive" if draft.path.is_style else "normal") == "sensitive"
    slot = memory_slot(str(keys.get("partition", page.partition)), sensitive=sensitive)
    if not acting.keys.holds(SubKeyRef(slot, "rec")):
        raise ForbiddenError("approving this page needs the right to read what is like it")


def _draft(page: Page) -> Draft:
    """What the author would have sent."""
    keys = page_keys.client_part(page.frontmatter)
    keys["source"] = page_keys.client_source(page.source)
    return Draft(page.path, MappingProxyType(keys), page.body)


def _approved(acting: Acting, page: Page, now_ms: int) -> Approved:
    source, review = page.source, cast("Mapping[str, YamlValue]", page.frontmatter["review"])
    behalf = source.get("on_behalf_of")
    author = Author(str(source["principal"]), str(source["client"]), None if behalf is None else str(behalf))
    verified: list[YamlValue] = [{"by": acting.actor.principal, "at": to_rfc3339(now_ms)}]
    return Approved(author, {"state": "approved", "generated": review["generated"], "verified": verified})
