"""Integrity heads in each store: what a transaction notes of the rows it changes, and what it leaves unsettled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, get_args

import pytest

from tests.contract.rows import ELSEWHERE, HERE, NOW, change, context, fill, handoff, page, profile, proposal
from zkpcp.core.leaves import Change, Leaf, LeafKind, leaf_of
from zkpcp.core.stored import PartitionRow, RotatedKind, RotatedRow, SlotHeadRow
from zkpcp.errors import ConflictError
from zkpcp.ports import Store

SLOT: Final = "memory/main"
KINDS: Final[tuple[LeafKind, ...]] = get_args(LeafKind)


def leaf(kind: RotatedKind, row: RotatedRow, until_ms: int | None = None) -> Leaf:
    found = leaf_of(kind, row, until_ms=until_ms)
    assert found is not None
    return found


def put(kind: RotatedKind, row: RotatedRow, until_ms: int | None = None) -> Change:
    return Change(row.context_id, leaf(kind, row, until_ms), is_put=True)


def took(kind: RotatedKind, row: RotatedRow, until_ms: int | None = None) -> Change:
    return Change(row.context_id, leaf(kind, row, until_ms), is_put=False)


def counted(changes: Iterable[Change]) -> dict[Leaf, int]:
    """What the changes add up to: how often each leaf is there more than before."""
    sums: dict[Leaf, int] = {}
    for each in changes:
        sums[each.leaf] = sums.get(each.leaf, 0) + (1 if each.is_put else -1)
    return {one: number for one, number in sums.items() if number}


async def found(store: Store) -> None:
    async with store.write() as tx:
        await tx.contexts.add(context())


async def test_a_head_is_put_replaced_and_ended_with_its_generation(store: Store) -> None:
    await fill(store)
    await fill(store, ELSEWHERE, "elsewhere")
    first, second = SlotHeadRow(HERE, SLOT, 1, b"one"), SlotHeadRow(HERE, SLOT, 2, b"two")
    other = SlotHeadRow(ELSEWHERE, SLOT, 1, b"theirs")
    async with store.write() as tx:
        await tx.heads.put([first, second, other, SlotHeadRow(HERE, "profile.core", 1, b"three")])
        await tx.heads.put([replace(first, sealed=b"anew")])
        assert await tx.heads.turn(HERE, [SLOT]) == [replace(first, sealed=b"anew"), second]
        assert await tx.heads.turn(HERE, []) == []

    async with store.write() as tx:
        await tx.heads.end(HERE, 2)
    async with store.read() as tx:
        assert await tx.heads.heads(HERE) == [second]
        assert await tx.heads.heads(ELSEWHERE) == [other]


async def test_a_transaction_says_once_what_it_put_and_took(store: Store) -> None:
    await found(store)
    async with store.write() as tx:
        await tx.pages.add(page(), 1, b"tag")
        assert await tx.heads.changes() == [put("pages", page())]
        assert await tx.heads.changes() == []
        await tx.pages.replace(page(version=2, updated_ms=NOW + 5))
        assert counted(await tx.heads.changes()) == counted(
            [
                took("pages", page()),
                put("page_versions", page(), NOW + 5),
                put("pages", page(version=2, updated_ms=NOW + 5)),
            ]
        )
        await tx.history.trim(HERE, "page", keep=0, since_ms=NOW)
        assert await tx.heads.changes() == [took("page_versions", page(), NOW + 5)]
        await tx.pages.delete(HERE, "page", 2, deleted_ms=NOW + 6, purge_ms=NOW + 9)
        assert await tx.heads.changes() == [took("pages", page(version=2, updated_ms=NOW + 5))]
        await tx.pages.recover(HERE, "page", 1, b"tag", recovered_ms=NOW + 7)
        assert await tx.heads.changes() == [put("pages", page(version=2, updated_ms=NOW + 5))]
    async with store.read() as tx:
        assert await tx.heads.remnants(HERE, [SLOT]) == []


async def test_profiles_hand_offs_names_and_proposals_are_noted_too(store: Store) -> None:
    await found(store)
    name = PartitionRow(HERE, "prt_one", 1, 1, NOW, b"sealed")
    async with store.write() as tx:
        for version in (1, 2):
            await tx.profiles.put(profile(version), change(version))
            await tx.handoffs.put(handoff(version))
            await tx.partitions.put(replace(name, version=version))
        await tx.proposals.add(proposal())
        await tx.proposals.replace(proposal(sealed=b"anew"))
        assert counted(await tx.heads.changes()) == counted(
            [
                put("profiles", profile(2)),
                put("profile_changes", change(1)),
                put("profile_changes", change(2)),
                put("handoffs", handoff(2)),
                put("partitions", replace(name, version=2)),
                put("proposals", proposal(sealed=b"anew")),
            ]
        )
        await tx.proposals.delete(HERE, "prp_one")
        assert await tx.heads.changes() == [took("proposals", proposal(sealed=b"anew"))]
        await tx.proposals.add(proposal(proposal_id="in quarantine", signature=b"signed"))
        assert await tx.heads.changes() == []


async def test_a_row_that_is_sealed_anew_leaves_one_generation_for_the_other(store: Store) -> None:
    await fill(store)
    async with store.write() as tx:
        await tx.pages.replace(page(version=2, updated_ms=NOW + 5))
        await tx.heads.changes()
        kinds: tuple[RotatedKind, ...] = (*KINDS, "deleted_pages")
        for kind in kinds:
            for row in await tx.rotation.behind(HERE, kind, 2, 10):
                anew = replace(row, generation=2, sealed=b"anew")
                assert await tx.rotation.reseal(kind, anew, row)
                noted = await tx.heads.changes()
                assert [each.is_put for each in noted] == ([] if kind == "deleted_pages" else [False, True])
                assert [each.leaf.generation for each in noted] == ([] if kind == "deleted_pages" else [1, 2])
                if kind != "deleted_pages":
                    assert noted[1].leaf in await tx.heads.leaves(HERE, kind, 10, 0)


async def test_what_a_sweep_takes_is_left_for_whoever_has_the_key(store: Store) -> None:
    await fill(store)
    async with store.write() as tx:
        await tx.pages.replace(page(version=2, updated_ms=NOW + 5, expires_ms=NOW + 1000))
        await tx.heads.put([SlotHeadRow(HERE, SLOT, 1, b"head")])
        await tx.proposals.add(proposal())
        await tx.heads.changes()  # as if they were settled
    async with store.write() as tx:
        assert await tx.pages.delete_expired(HERE, NOW + 1000) == 2
        assert await tx.handoffs.delete_expired(HERE, NOW + 1000) == 1
        assert await tx.proposals.delete_expired(HERE, NOW + 1000) == 1

    gone = {
        leaf("pages", page(version=2, updated_ms=NOW + 5, expires_ms=NOW + 1000)),
        leaf("page_versions", page(expires_ms=NOW + 1000), NOW + 5),
    }
    async with store.write() as tx:
        left = await tx.heads.remnants(HERE, [SLOT])
        assert set(left) == gone
        assert await tx.heads.remnants(HERE, ["handoff"]) == [leaf("handoffs", handoff())]
        assert await tx.heads.remnants(HERE, ["proposals/main"]) == [leaf("proposals", proposal())]
        assert [row.remnants for row in await tx.heads.turn(HERE, [SLOT])] == [2]
        await tx.heads.forget(HERE, left[:1])
        assert await tx.heads.remnants(HERE, [SLOT]) == left[1:]
        await tx.heads.forget(HERE, None)
        assert await tx.heads.remnants(HERE, [SLOT, "handoff", "proposals/main"]) == []


async def ended_by_a_conflict(store: Store) -> None:
    async with store.write() as tx:
        await tx.pages.delete_expired(HERE, NOW + 1000)
        await tx.pages.delete(HERE, "page", 1, deleted_ms=NOW, purge_ms=NOW)


async def test_what_a_transaction_takes_back_leaves_nothing(store: Store) -> None:
    await fill(store)
    await fill(store, ELSEWHERE, "elsewhere")
    with pytest.raises(ConflictError):
        await ended_by_a_conflict(store)
    async with store.write() as tx:
        await tx.heads.leave([took("pages", page(page_id="left")), put("pages", page(page_id="put"))])
    async with store.write() as tx:
        assert await tx.heads.remnants(HERE, [SLOT]) == [leaf("pages", page(page_id="left"))]
        assert await tx.heads.remnants(ELSEWHERE, [SLOT]) == []
        await tx.heads.end(HERE, 2)
        assert await tx.heads.remnants(HERE, [SLOT]) == []


async def test_every_stored_row_has_its_leaf_in_order_and_some_can_be_passed_over(store: Store) -> None:
    await fill(store)
    await fill(store, ELSEWHERE, "elsewhere")
    async with store.write() as tx:
        await tx.pages.add(page(page_id="a", expires_ms=NOW - 1), 1, b"a")
        await tx.proposals.add(proposal())
        await tx.proposals.add(proposal(proposal_id="prp_two", signature=b"signed"))
    async with store.read() as tx:
        pages = [leaf("pages", page(page_id="a", expires_ms=NOW - 1)), leaf("pages", page(expires_ms=NOW + 1000))]
        assert await tx.heads.leaves(HERE, "pages", 10, 0) == pages
        assert await tx.heads.leaves(HERE, "pages", 1, 1) == pages[1:]
        assert await tx.heads.leaves(HERE, "page_versions", 10, 0) == [leaf("page_versions", page(page_id="gone"), NOW)]
        assert await tx.heads.leaves(HERE, "proposals", 10, 0) == [leaf("proposals", proposal()), None]
        assert [len(await tx.heads.leaves(HERE, kind, 10, 0)) for kind in KINDS] == [2, 1, 1, 1, 1, 1, 2]
        assert await tx.heads.page_versions(HERE, ["page", "a", "gone", "never"]) == {"page": 1, "a": 1}
