"""The clock and the entropy that tests use do what their names say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zkpcp.ports import Clock, Entropy, Store
from zkpcp.testing import CountingEntropy, FixedClock, MemoryStore


def test_a_fixed_clock_stands_still_until_it_is_moved() -> None:
    clock: Clock = (fixed := FixedClock(1000))

    assert [clock.now_ms(), clock.now_ms()] == [1000, 1000]
    fixed.advance(5)
    assert clock.now_ms() == 1005


@given(st.lists(st.integers(16, 64), min_size=1, max_size=50), st.text(max_size=5))
def test_counted_entropy_repeats_between_runs_and_never_within_one(sizes: list[int], seed: str) -> None:
    first: Entropy = CountingEntropy(seed)
    second = CountingEntropy(seed)

    drawn = [first.bytes(size) for size in sizes]

    assert [len(data) for data in drawn] == sizes
    assert len({data[:16] for data in drawn}) == len(drawn)
    assert [second.bytes(size) for size in sizes] == drawn
    assert CountingEntropy(seed + "x").bytes(16) != drawn[0][:16]


def test_the_memory_store_is_a_store() -> None:
    store: Store = MemoryStore()

    assert store is not None
