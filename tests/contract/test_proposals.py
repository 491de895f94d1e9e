"""Proposals keep their promises on every engine: who may see which is decided in the query."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.contract.rows import HERE, NOW, context, proposal
from zkpcp.core.stored import ProposalPlace, ProposalRow, ProposalState
from zkpcp.errors import ConflictError, NotFoundError
from zkpcp.ports import Store, Transaction

MAIN = "proposals/main"
SENSITIVE = "memory.sensitive/main"


async def seen(
    tx: Transaction,
    *slots: str,
    grant_id: str | None = None,
    own: Sequence[str] = (MAIN,),
    state: ProposalState = "proposed",
    before: ProposalPlace | None = None,
    limit: int = 10,
    now_ms: int = NOW,
) -> list[ProposalRow]:
    found = await tx.proposals.proposals(
        HERE,
        state,
        now_ms,
        slots=slots,
        grant_id=grant_id,
        own_slots=own,
        before=before or ProposalPlace(),
        limit=limit,
    )
    return list(found)


@pytest.mark.requirement("MEM-15")
async def test_reviewers_see_their_slots_and_a_grant_sees_its_own(store: Store) -> None:
    mine = proposal(created_ms=NOW + 1)
    others = proposal(proposal_id="prp_two", grant_id="other")
    closed = proposal(proposal_id="prp_three", slot=SENSITIVE, created_ms=NOW + 2)
    owners = proposal(proposal_id="prp_four", grant_id=None)
    rejected = proposal(proposal_id="prp_five", state="rejected")
    async with store.write() as tx:
        await tx.contexts.add(context())
        await tx.contexts.add(context(context_id="another", handle="another"))
        for row in (mine, others, closed, owners, rejected, proposal(context_id="another")):
            await tx.proposals.add(row)
        with pytest.raises(ConflictError):
            await tx.proposals.add(mine)

    async with store.read() as tx:
        assert await seen(tx, MAIN) == [mine, others, owners]
        assert await seen(tx, MAIN, SENSITIVE, limit=2) == [closed, mine]
        assert await seen(tx, MAIN, SENSITIVE, before=ProposalPlace(NOW + 1, "prp_one")) == [others, owners]
        assert await seen(tx, grant_id="grant") == [mine]
        assert await seen(tx, grant_id="grant", own=(MAIN, SENSITIVE)) == [closed, mine]
        assert await seen(tx, grant_id="nobody") == await seen(tx) == await seen(tx, grant_id="grant", own=()) == []
        assert await seen(tx, MAIN, state="rejected") == [rejected]
        assert await seen(tx, MAIN, now_ms=NOW + 1000) == []
        assert await tx.proposals.proposal(HERE, "prp_one", [MAIN], NOW) == mine
        assert await tx.proposals.proposal(HERE, "prp_one", [SENSITIVE], NOW) is None
        assert await tx.proposals.proposal(HERE, "prp_one", [MAIN], NOW + 1000) is None
        assert await tx.proposals.waiting(HERE) == 4


async def test_a_proposal_is_sealed_anew_ends_and_is_swept(store: Store) -> None:
    async with store.write() as tx:
        await tx.contexts.add(context())
        for row in (proposal(), proposal(proposal_id="prp_two"), proposal(proposal_id="prp_three", expires_ms=NOW + 9)):
            await tx.proposals.add(row)
        anew = proposal(state="rejected", expires_ms=NOW + 5000, sealed=b"anew", signature=b"signed")
        await tx.proposals.replace(anew)
        with pytest.raises(NotFoundError):
            await tx.proposals.replace(proposal(proposal_id="prp_none"))
        await tx.proposals.delete(HERE, "prp_two")
        await tx.proposals.delete(HERE, "prp_two")
        assert await tx.proposals.delete_expired(HERE, NOW + 8) == 0
        assert await tx.proposals.delete_expired(HERE, NOW + 9) == 1
        assert await tx.proposals.proposal(HERE, "prp_one", [MAIN], NOW, lock=True) == anew
        assert await tx.proposals.waiting(HERE) == 0
