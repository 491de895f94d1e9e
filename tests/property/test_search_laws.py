"""Laws of term vectors and of ranking."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from hypothesis import example, given, settings
from hypothesis import strategies as st

from zkpcp.core import ranking, terms
from zkpcp.core.paths import PagePath
from zkpcp.core.ranking import Candidate
from zkpcp.core.terms import TermVector
from zkpcp.errors import CorruptError

term_texts = st.text(
    st.sampled_from("abcé東-:\x7f") | st.characters(codec="utf-8", min_codepoint=0x20),
    min_size=1,
    max_size=5,
)
term_names = st.builds("{}:{}".format, st.sampled_from(["e", "s", "tag", "type", "path"]), term_texts)
vectors = st.builds(
    TermVector,
    length=st.integers(0, 10**9),
    frequencies=st.dictionaries(term_names, st.integers(1, terms.MAX_TF), max_size=30),
)
words = st.sampled_from(["bee", "bees", "hive", "honey", "honeyed", "run", "running", "the", "maps", "蜂蜜"])
bodies = st.lists(words, max_size=12).map(" ".join)


@dataclass(frozen=True, slots=True)
class Head:
    path: PagePath
    id: str
    updated_ms: int
    lifecycle: str = "active"
    supersedes: tuple[str, ...] = ()

    def is_current(self, now_ms: int) -> bool:
        return now_ms >= 0


@given(vectors)
def test_a_vector_survives_storage(vector: TermVector) -> None:
    blob = terms.encode(vector)

    assert terms.decode(blob) == vector
    assert terms.decode(memoryview(bytearray(blob))) == vector
    assert terms.length_of(blob) == vector.length


@given(vectors, st.lists(term_names, max_size=10), st.data())
def test_a_look_up_agrees_with_the_whole_vector(vector: TermVector, others: list[str], data: st.DataObject) -> None:
    held = data.draw(st.lists(st.sampled_from(sorted(vector.frequencies)), max_size=10)) if vector.frequencies else []
    asked = [*held, *others]

    found = terms.lookup(bytearray(terms.encode(vector)), asked)

    assert found == {term: vector.frequencies[term] for term in asked if term in vector.frequencies}


@given(
    st.binary(max_size=40) | st.lists(st.sampled_from([b"1 0", b"\n", b"a", b"\x01!", b"\x02 ", b"b"])).map(b"".join)
)
def test_any_bytes_are_a_vector_or_damage(data: bytes) -> None:
    try:
        vector = terms.decode(data)
    except CorruptError:
        return
    assert terms.encode(vector) == data


@given(st.binary(max_size=40), st.lists(term_names, max_size=4))
def test_a_look_up_in_any_bytes_ends_in_counts_or_damage(data: bytes, asked: list[str]) -> None:
    try:
        found = terms.lookup(data, asked)
    except CorruptError:
        return
    assert set(found) <= set(asked)


@given(
    st.text(),
    st.lists(st.text(max_size=8), max_size=3),
    st.text(max_size=8),
    st.text(),
    st.none() | st.text(max_size=8),
)
def test_any_text_has_a_vector(title: str, tags: list[str], path: str, body: str, language: str | None) -> None:
    vector = terms.terms_of_page(title, tags, "semantic", path, body, language)

    assert terms.decode(terms.encode(vector)) == vector


@given(st.text(), st.none() | st.text(max_size=8))
def test_any_text_is_a_query_that_finds_its_own_words(text: str, language: str | None) -> None:
    query = terms.terms_of_query(text, language)
    blob = terms.encode(terms.terms_of_page("", (), None, "", text))

    found = terms.lookup(blob, terms.probe(query.terms))

    assert all(word.exact in found for word in query.words)
    assert all(0 <= hit.start < hit.end <= len(text) for hit in terms.find(text, query))


@given(st.text(), st.text(max_size=20), st.integers(20, 300))
def test_a_snippet_is_one_line_within_its_limit(body: str, query: str, max_chars: int) -> None:
    text = ranking.snippet(body, list(terms.find(body, terms.terms_of_query(query))), max_chars)

    assert len(text) <= max_chars
    assert re.search(r"[\r\n]", text) is None


@settings(max_examples=50)
@given(st.lists(bodies, max_size=8), bodies, st.integers(1, 5))
def test_ranking_is_the_formula(pages: list[str], question: str, limit: int) -> None:
    query = terms.terms_of_query(question)
    vectors = [terms.terms_of_page("", (), None, "", body) for body in pages]
    heads = [Head(PagePath(f"p{n}"), f"id{n:02}", n % 3) for n in range(len(pages))]
    candidates = [
        Candidate(head, vector.length, terms.lookup(terms.encode(vector), query.terms))
        for head, vector in zip(heads, vectors, strict=True)
    ]

    result = ranking.rank(query, candidates, now_ms=0, limit=limit)

    expected = []
    mean = sum(vector.length for vector in vectors) / len(vectors) if vectors else 0
    for head, vector in zip(heads, vectors, strict=True):
        score = 0.0
        for word in query.words:
            for weight, forms in ((0.3, [word.exact]), (1.0, list(word.stems))):
                count = max(vector.frequencies.get(form, 0) for form in forms)
                holding = max(sum(form in other.frequencies for other in vectors) for form in forms)
                if count:
                    idf = math.log(1 + (len(vectors) - holding + 0.5) / (holding + 0.5))
                    score += word.weight * weight * idf * count / (count + 0.9 * (1 - 0.4 + 0.4 * vector.length / mean))
        if score > 0:
            expected.append((score, head))
    assert len(result) == min(limit, len(expected))
    scores = {head.id: score for score, head in expected}
    assert all(math.isclose(item.score, scores[item.head.id]) for item in result)
    assert [item.score for item in result] == sorted((item.score for item in result), reverse=True)
    best = sorted((score for score, _ in expected), reverse=True)[:limit]
    assert all(math.isclose(item.score, score) for item, score in zip(result, best, strict=True))


@settings(max_examples=50)
@given(st.lists(bodies, max_size=6), bodies, st.randoms(use_true_random=False))
def test_the_order_of_the_candidates_does_not_matter(pages: list[str], question: str, random: st.DataObject) -> None:
    query = terms.terms_of_query(question)
    candidates = []
    for number, body in enumerate(pages):
        vector = terms.terms_of_page("", (), None, "", body)
        found = terms.lookup(terms.encode(vector), query.terms)
        candidates.append(Candidate(Head(PagePath(f"p{number}"), f"id{number}", number % 2), vector.length, found))
    shuffled = list(candidates)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis gives a seeded random.Random

    one = ranking.rank(query, candidates, now_ms=0, limit=10)
    other = ranking.rank(query, shuffled, now_ms=0, limit=10)

    assert [item.head.id for item in one] == [item.head.id for item in other]


@example("11ß1", "11ß1")
@given(
    st.text(st.sampled_from("abeéÉßﬁＡ _-.@+\u0301'İıſK1\u0900\u0904蜂"), max_size=25),
    st.text("abeéß@_-1 ", max_size=12),
)
def test_looking_at_likely_words_only_finds_what_looking_at_all_would(text: str, asked: str) -> None:
    query = terms.terms_of_query(asked)
    finder = terms.Finder(query)
    places = [place for token in terms._TOKEN.finditer(text) for place in terms._pieces(token)]
    every = [(start, end, finder._number_of(text[start:end])) for start, end in places]

    found = [(hit.start, hit.end, hit.word) for hit in terms.find(text, query)]

    assert found == [place for place in every if place[2] is not None]
