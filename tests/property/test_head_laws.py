"""Laws of integrity heads: a sum is that of its rows in any order, and of no other rows that anybody can find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, get_args

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from zkpcp.core.leaves import Journal, Leaf, LeafKind, leaf_of
from zkpcp.core.stored import PageRow
from zkpcp.errors import CorruptError
from zkpcp.testing import CountingEntropy
from zkpcp.vault import heads
from zkpcp.vault.heads import SlotSum

KEY: Final = CountingEntropy("head laws").bytes(32)

instants = st.none() | st.integers(0, 2**63 - 1)
leaves = st.builds(
    Leaf,
    st.just("memory/main"),
    st.just(1),
    st.sampled_from(get_args(LeafKind)),
    st.text(max_size=5),
    st.integers(0, 2**63 - 1),
    instants,
    instants,
    st.binary(min_size=32, max_size=32),
)
sums = st.builds(SlotSum, *[st.integers(0, 2**64 - 1)] * 3, st.integers(0, 2**256 - 1))
rows = st.builds(
    PageRow,
    st.just("ctx"),
    st.text(max_size=3),
    st.just("memory/main"),
    st.integers(1, 3),
    st.integers(1, 9),
    st.just("approved"),
    st.integers(0, 9),
    instants,
    st.binary(max_size=4),
    st.binary(max_size=4),
    st.binary(max_size=4),
)


def summed(many: Sequence[Leaf], start: SlotSum = SlotSum()) -> SlotSum:  # noqa: B008 - a value that never changes
    for leaf in many:
        start = start.with_leaf(heads.value_of(KEY, leaf))
    return start


@given(st.lists(leaves, max_size=6), st.randoms(use_true_random=False), sums)
def test_a_sum_is_the_same_in_any_order_and_from_any_start(many: list[Leaf], random: object, start: SlotSum) -> None:
    shuffled = sorted(many, key=lambda _: random.random())  # type: ignore[attr-defined]  # hypothesis's own Random
    assert summed(many, start) == summed(shuffled, start)


@given(st.lists(leaves, max_size=6), sums)
def test_taking_off_what_was_added_gives_the_sum_before(many: list[Leaf], start: SlotSum) -> None:
    head = summed(many, start)
    for leaf in many:
        head = head.without_leaf(heads.value_of(KEY, leaf))
    assert head == start
    assert summed(many).is_empty == (not many)


@given(st.lists(leaves, max_size=4), st.lists(leaves, max_size=4))
def test_other_rows_make_another_sum(some: list[Leaf], others: list[Leaf]) -> None:
    same = sorted(map(repr, some)) == sorted(map(repr, others))
    assert summed(some).counts_as(summed(others)) == same


@given(leaves)
def test_a_row_that_is_there_twice_does_not_cancel_itself(leaf: Leaf) -> None:
    assert not summed([leaf, leaf]).counts_as(SlotSum())
    assert not summed([leaf, leaf]).counts_as(summed([leaf]))


@given(leaves, leaves)
def test_whatever_is_different_about_a_row_makes_another_leaf(one: Leaf, other: Leaf) -> None:
    mixed = (
        replace(one, kind=other.kind),
        replace(one, object_id=other.object_id),
        replace(one, version=other.version),
        replace(one, expires_ms=other.expires_ms),
        replace(one, until_ms=other.until_ms),
        replace(one, digest=other.digest),
    )
    for each in mixed:
        assert (heads.value_of(KEY, each) == heads.value_of(KEY, one)) == (each == one)
    assert heads.value_of(bytes(32), one) != heads.value_of(KEY, one)


@given(sums)
def test_a_head_is_read_as_it_was_written(head: SlotSum) -> None:
    plain = heads.encode(head)
    assert heads.decode(plain) == head
    for cut in (plain[:-1], plain + b"\x00"):
        with pytest.raises(CorruptError):
            heads.decode(cut)


@given(rows, rows)
def test_rows_with_other_sealed_parts_have_other_leaves(one: PageRow, other: PageRow) -> None:
    assume((one.sealed, one.head, one.terms) != (other.sealed, other.head, other.terms))
    moved = replace(one, sealed=other.sealed, head=other.head, terms=other.terms)
    assert leaf_of("pages", one) != leaf_of("pages", moved)
    assert leaf_of("pages", one) != leaf_of("page_versions", one, until_ms=1)
    assert leaf_of("deleted_pages", one) is None


@given(st.lists(st.tuples(st.booleans(), rows), max_size=5))
def test_a_journal_says_once_and_in_order_what_was_noted(noted: list[tuple[bool, PageRow]]) -> None:
    journal = Journal()
    for is_put, row in noted:
        (journal.put if is_put else journal.took)("pages", row)
    taken = journal.take()
    assert [(each.is_put, each.leaf) for each in taken] == [(is_put, leaf_of("pages", row)) for is_put, row in noted]
    assert journal.take() == []
