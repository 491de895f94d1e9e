"""Laws of the search index: whatever was written, edited, deleted and compacted, it counts as a scan would."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zkpcp.core import index, ranking, terms
from zkpcp.core.index import Indexed, Reader, Segment, Writer
from zkpcp.core.paths import PagePath
from zkpcp.core.ranking import Candidate, Corpus
from zkpcp.errors import CorruptError

NOW_MS = 1_000
WORDS = ("bee", "bees", "hive", "honey", "honeyed", "running", "run", "the", "蜂蜜", "queen", "drone", "comb")
bodies = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
writes = st.tuples(st.integers(0, 9), bodies | st.none(), st.sampled_from([None, None, None, 5_000]))


def hash_of(text: bytes) -> int:
    return int.from_bytes(hashlib.sha256(text).digest()[:2], "big")


@dataclass(frozen=True, slots=True)
class Head:
    path: PagePath
    id: str
    updated_ms: int = 0
    lifecycle: str = "active"
    supersedes: tuple[str, ...] = ()

    def is_current(self, now_ms: int) -> bool:
        return now_ms >= 0


@dataclass
class Stored:
    """A segment as it is stored, beside the term vectors that it should stand for."""

    pages_per_bucket: int
    meta: bytes = b""
    parts: dict[str, bytes] = field(default_factory=dict)
    vectors: dict[str, bytes] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)

    def segment(self) -> Segment:
        return index.decode_segment(self.meta) if self.meta else Segment()

    def write(self, page: str, body: str | None, expires_ms: int | None = None, now_ms: int = NOW_MS) -> None:
        old = self.vectors.pop(page, None)
        self.ends.pop(page, None)
        if old is None and body is None:
            return
        segment = self.segment()
        writer = Writer(segment, hash_of, self.pages_per_bucket)
        number = segment.free_number() if old is None else self.numbers[page]
        assert number is not None
        new = None
        if body is not None:
            vector = terms.encode(terms.terms_of_page(page, (), None, page, body))
            self.vectors[page], self.numbers[page] = vector, number
            if expires_ms is not None:
                self.ends[page] = expires_ms
            new = Indexed(vector, page.encode(), 7, expires_ms, asked=False)
        writer.load({part: self.parts[part] for part in writer.needs(number, now_ms)})
        writer.write(number, old, new, now_ms)
        self.parts |= writer.parts()
        for part in writer.gone():
            self.parts.pop(part, None)
        self.meta = segment.encode()

    def scores(self, text: str, now_ms: int = NOW_MS) -> dict[str, float]:
        query = terms.terms_of_query(text)
        reader = Reader(self.segment(), hash_of)
        parts = {part: self.parts[part] for part in reader.needs(query.terms)} if self.meta else {}
        counts = reader.counts(query.terms, parts, now_ms) if self.meta else {}
        pages, length = reader.segment.size(now_ms)
        frequencies = {term: len(found) for term, found in counts.items()}
        corpus = Corpus(pages, length / pages if pages else 0.0, frequencies)
        names = {number: page for page, number in self.numbers.items() if page in self.vectors}
        totals = ranking.scores(query, corpus, reader.segment.lengths, counts)
        return {names[number]: score for number, score in totals.items()}

    def scanned(self, text: str, now_ms: int = NOW_MS) -> dict[str, float]:
        query = terms.terms_of_query(text)
        candidates = [
            Candidate(Head(PagePath(page), page), terms.length_of(blob), terms.lookup(blob, query.terms))
            for page, blob in self.vectors.items()
            if self.ends.get(page, now_ms + 1) > now_ms
        ]
        score = ranking.scorer(query, ranking.corpus_of(candidates))
        return {item.head.id: score(item) for item in candidates if item.frequencies}


@given(st.lists(writes, max_size=40), st.sampled_from([1, 2, 100]), bodies)
@settings(max_examples=150, deadline=None)
@pytest.mark.requirement("MEM-17", "MEM-20")
def test_any_writes_score_exactly_as_a_scan_of_what_is_left(
    history: list[tuple[int, str | None, int | None]], pages_per_bucket: int, text: str
) -> None:
    stored = Stored(pages_per_bucket)
    for page, body, expires_ms in history:
        stored.write(f"p{page}", body, expires_ms)

    assert stored.scores(text + " honey") == stored.scanned(text + " honey")
    assert stored.scores("bees run", 6_000) == stored.scanned("bees run", 6_000)


@given(st.lists(writes, max_size=20), st.lists(writes, max_size=20))
@settings(max_examples=80, deadline=None)
@pytest.mark.requirement("MEM-18")
def test_what_expired_before_later_writes_never_comes_back(
    before: list[tuple[int, str | None, int | None]], after: list[tuple[int, str | None, int | None]]
) -> None:
    stored = Stored(2)
    for page, body, expires_ms in before:
        stored.write(f"p{page}", body, expires_ms)
    # The sweep that deletes the rows has no key: the index learns of it with the next write.
    for swept in [name for name, end_ms in stored.ends.items() if end_ms <= 9_000]:
        del stored.vectors[swept], stored.ends[swept]
    for page, body, _ in after:
        stored.write(f"q{page}", body, None, now_ms=9_000)

    for word in ("honey", "bees", "the run"):
        assert stored.scores(word, 9_000) == stored.scanned(word, 9_000)


@given(st.lists(st.tuples(st.integers(0, 300), bodies), min_size=40, max_size=120))
@settings(max_examples=20, deadline=None)
def test_the_delta_is_no_longer_than_the_buckets_are_many(history: list[tuple[int, str]]) -> None:
    stored = Stored(4)
    for page, body in history:
        stored.write(f"p{page}", body)
        segment = stored.segment()
        kept = sum(len(index.decode_entries(stored.parts[f"delta/{place}"])) for place in segment.delta)
        assert kept <= 2 * len(segment.buckets) + index.ENTRIES_PER_DELTA
        named = [f"heads/{each}" for each in segment.heads] + [f"delta/{each}" for each in segment.delta]
        pairs = [f"{kind}/{each}" for each in segment.buckets for kind in ("words", "postings")]
        assert set(stored.parts) == {*named, *pairs}
    assert len(history) < 40 or len({page for page, _ in history}) < 30 or len(stored.segment().buckets) >= 4


@given(st.lists(writes, max_size=12), st.lists(writes, max_size=12))
@settings(max_examples=60, deadline=None)
@pytest.mark.requirement("KEY-06")
def test_which_parts_a_write_changes_does_not_hang_on_its_words(
    history: list[tuple[int, str | None, int | None]], others: list[tuple[int, str | None, int | None]]
) -> None:
    one, two = Stored(2), Stored(2)
    for number, (page, body, _) in enumerate(history):
        # The same pages come and go; only what they say differs.
        other = others[number % len(others)][1] if others else None
        before = [dict(stored.parts) for stored in (one, two)]
        one.write(f"p{page}", body)
        two.write(f"p{page}", body if body is None else (other or "") + " queen of the comb " + str(number))
        changed = [
            {part for part in stored.parts if not part.startswith("delta/") and stored.parts[part] != was.get(part)}
            for stored, was in zip((one, two), before, strict=True)
        ]
        assert one.segment().buckets == two.segment().buckets
        turn = {part for part in changed[0] | changed[1] if part.startswith(("words/", "postings/"))}
        fresh = {place for place, stamp in one.segment().buckets.items() if stamp == one.segment().seq}
        assert {int(part.partition("/")[2]) for part in turn} <= fresh


@given(bodies, bodies)
def test_a_search_reads_a_number_of_buckets_that_words_do_not_choose(first: str, second: str) -> None:
    segment = Segment(seq=1, level=6, buckets=dict.fromkeys(range(64, 128), 1))
    read = [Reader(segment, hash_of).needs(terms.terms_of_query(text).terms) for text in (first, second)]

    assert all(len(parts) in (16, 32, 64, 128) for parts in read)
    assert read[0] == Reader(segment, hash_of).needs(terms.terms_of_query(first).terms)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_part_or_a_typed_error(data: bytes) -> None:
    for read in (index.decode_segment, index.decode_entries):
        try:
            read(data)
        except CorruptError:
            continue


@given(st.lists(st.tuples(st.integers(0, 4095) | st.integers(250, 262), st.sampled_from([1, 0x20, 0x21, 0xFF]))))
def test_a_list_of_postings_is_what_was_set_and_not_dropped(changes: list[tuple[int, int]]) -> None:
    kept = {number: count for number, count in dict(changes).items() if count >= terms.FIRST_COUNT_BYTE}
    bucket = index.Bucket()
    bucket.change({b"word\x01": changes})

    assert index.decode_list(bucket.lists) == kept
    assert list(index.decode_list(bucket.lists)) == sorted(kept)
    assert index.decode_bucket(*bucket.encode()) == bucket


@given(st.integers(0, 10**7))
def test_the_ladder_has_eight_steps_to_a_doubling_and_is_kept_by_the_padding(size: int) -> None:
    step = index.ladder(size)

    assert size <= step <= max(1024, size * 1.13 + 128)
    assert index.ladder(step) == step
