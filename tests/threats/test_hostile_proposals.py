"""Proposals against a token of another connection and a host that rewrites its database."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.flows.test_review import PROPOSER, listed, propose, turn
from tests.flows.usecase_support import World
from zkpcp.core.slots import proposals_slot, slice_for
from zkpcp.core.stored import ProposalRow
from zkpcp.errors import CorruptError, NotFoundError
from zkpcp.usecases import review


@pytest.mark.requirement("MEM-15")
async def test_another_connection_sees_nothing_of_what_was_proposed(world: World) -> None:
    await turn(world)
    member = await world.join("bea", {"main": ("read", "propose")})
    author, other = await world.grant(*PROPOSER, member=member), await world.grant(*PROPOSER, member=member)
    async with world.client(author) as client:
        proposal_id = await propose(client, "plan", "x")
        assert await listed(client) == [proposal_id]
    async with world.client(other) as client:
        assert await listed(client) == []
        for act in (review.compare, review.reject):
            with pytest.raises(NotFoundError):
                await act(client.services, client.who, proposal_id)


@pytest.mark.requirement("MEM-15")
@pytest.mark.parametrize("sensitivity", ["normal", "sensitive"])
@pytest.mark.parametrize(
    "change",
    [
        {"state": "rejected"},
        {"principal": "human:mallory"},
        {"grant_id": None},
        {"expires_ms": 2**50},
        {"created_ms": 5},
        {"sealed": b"\0" * 200},
        {"signature": b"\0" * 64},
        {"proposal_id": "prp_other"},
    ],
    ids=lambda change: next(iter(change)),
)
async def test_a_changed_row_is_refused(world: World, sensitivity: str, change: dict[str, Any]) -> None:
    await turn(world)
    async with world.client(await world.grant(*PROPOSER)) as client:
        proposal_id = await propose(client, "plan", "x", sensitivity=sensitivity)

    def swap(row: ProposalRow) -> ProposalRow:
        return replace(row, **change)

    key = (world.context_id, proposal_id)
    world.tamper(lambda tables: tables.proposals.update({key: swap(tables.proposals[key])}))
    async with world.owner() as hand:
        with pytest.raises(CorruptError):
            await review.list_proposals(hand.services, hand.who, state=change.get("state", "proposed"))
    assert (await world.last_entry()).action == "tampering.found"


async def test_a_rejected_proposal_cannot_be_made_to_wait_again(world: World) -> None:
    await turn(world)
    async with world.client(await world.grant(*PROPOSER)) as client:
        proposal_id = await propose(client, "plan", "x")
    before = world.tables().proposals[world.context_id, proposal_id]
    async with world.owner() as hand:
        await review.reject(hand.services, hand.who, proposal_id)
    rejected = world.tables().proposals[world.context_id, proposal_id]
    forged = replace(rejected, state=before.state, expires_ms=before.expires_ms)
    world.tamper(lambda tables: tables.proposals.update({(world.context_id, proposal_id): forged}))
    async with world.owner() as hand:
        with pytest.raises(CorruptError):
            await review.approve(hand.services, hand.who, proposal_id, seen_updated="")


@pytest.mark.requirement("SCOPE-04")
def test_proposals_open_with_the_rights_and_scopes_for_them_alone() -> None:
    slot = proposals_slot("main")
    everything = {"main": ("read", "write", "propose", "review")}
    assert slot in slice_for(["memory:propose"], everything).slots
    assert slot in slice_for(["review:read"], everything).slots
    assert slot in slice_for(["memory:write"], everything, writes_wait=True).slots
    assert slot not in slice_for(["memory:read", "memory:write", "memory.sensitive:read"], everything).slots
    assert slot not in slice_for(["memory:propose", "review:read"], {"main": ("read", "write")}).slots
    for scope in ("memory:propose", "review:read"):
        assert not any(name.startswith("memory") for name in slice_for([scope], everything).slots)
