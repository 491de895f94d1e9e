"""Which page comes first, and what of it is shown."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from zkpcp.core import ranking, terms
from zkpcp.core.paths import PagePath
from zkpcp.core.ranking import Candidate, Scored

NOW_MS = 1_000


def snippet(body: str, query: str) -> str:
    return ranking.snippet(body, list(terms.find(body, terms.terms_of_query(query))))


@dataclass(frozen=True, slots=True)
class Head:
    path: PagePath
    id: str = "x"
    lifecycle: str = "active"
    updated_ms: int = 0
    supersedes: tuple[str, ...] = ()
    valid_until_ms: int = 2**62

    def is_current(self, now_ms: int) -> bool:
        return now_ms <= self.valid_until_ms


def ranked(query: str, *pages: tuple[Head, str], limit: int = 10) -> list[Scored[Head]]:
    asked = terms.terms_of_query(query)
    candidates = []
    for head, body in pages:
        blob = terms.encode(terms.terms_of_page("", (), None, "", body))
        candidates.append(Candidate(head, terms.length_of(blob), terms.lookup(blob, asked.terms)))
    return ranking.rank(asked, candidates, now_ms=NOW_MS, limit=limit)


def paths(query: str, *pages: tuple[Head, str], limit: int = 10) -> list[str]:
    return [item.head.path.value for item in ranked(query, *pages, limit=limit)]


def test_the_page_with_more_and_rarer_words_of_the_query_comes_first() -> None:
    pages = [
        (Head(PagePath("both")), "the boiler was serviced"),
        (Head(PagePath("one")), "the boiler is old"),
        (Head(PagePath("none")), "bees and maps"),
        (Head(PagePath("common")), "the the the"),
    ]

    assert paths("the boiler service", *pages) == ["both", "one", "common"]


def test_equal_scores_go_to_the_newer_page_then_by_id() -> None:
    pages = [
        (Head(PagePath("old"), id="a", updated_ms=1), "bee"),
        (Head(PagePath("late"), id="c", updated_ms=2), "bee"),
        (Head(PagePath("early"), id="b", updated_ms=2), "bee"),
    ]

    assert paths("bee", *pages) == ["early", "late", "old"]
    assert paths("bee", *reversed(pages)) == ["early", "late", "old"]
    assert paths("bee", *pages, limit=2) == ["early", "late"]


@pytest.mark.requirement("MEM-11")
def test_a_page_past_its_validity_and_a_stale_one_rank_below_a_current_one() -> None:
    pages = [
        (Head(PagePath("past"), valid_until_ms=NOW_MS - 1, updated_ms=9), "bee"),
        (Head(PagePath("stale"), lifecycle="stale", updated_ms=9), "bee"),
        (Head(PagePath("current"), valid_until_ms=NOW_MS), "bee"),
    ]

    assert paths("bee", *pages) == ["current", "stale", "past"]


def test_a_superseded_page_ranks_below_what_supersedes_it() -> None:
    pages = [
        (Head(PagePath("v1"), updated_ms=9), "bee hive honey"),
        (Head(PagePath("v2"), supersedes=("V1",)), "bee and much else that was not asked for"),
        (Head(PagePath("v3"), supersedes=("v2", "gone")), "bee"),
        (Head(PagePath("other")), "hive"),
    ]

    result = ranked("bee hive honey", *pages)

    order = [item.head.path.value for item in result]
    assert order.index("v3") < order.index("v2") < order.index("v1")
    assert [item.score for item in result] == sorted((item.score for item in result), reverse=True)


def test_pages_that_supersede_each_other_are_all_returned() -> None:
    pages = [
        (Head(PagePath("a"), id="a", supersedes=("b",)), "bee"),
        (Head(PagePath("b"), id="b", supersedes=("c",)), "bee"),
        (Head(PagePath("c"), id="c", supersedes=("a", "c")), "bee"),
    ]

    assert sorted(paths("bee", *pages)) == ["a", "b", "c"]


def test_nothing_is_found_in_nothing() -> None:
    assert ranked("bee") == []
    assert ranked("…", (Head(PagePath("a")), "bee")) == []


def test_a_snippet_shows_where_most_words_of_the_query_stand() -> None:
    body = "bee " + "filler " * 200 + "the old\nbees make   honey in the hive " + "filler " * 200

    text = snippet(body, "bee honey hive")

    assert "bees make honey in the hive" in text
    assert text.startswith("…")
    assert text.endswith("…")
    assert len(text) <= ranking.SNIPPET_CHARS


def test_a_snippet_without_a_hit_is_the_start() -> None:
    assert snippet("one\n two", "bee") == "one two"
    assert snippet("", "bee") == ""


def test_why_names_the_words_and_their_place() -> None:
    query = terms.terms_of_query("boilers service bee")

    assert (
        ranking.why(query, in_title=terms.find("The boiler", query), in_body=terms.find("boiler serviced", query))
        == "boilers in the title; service in the text"
    )
    assert ranking.why(query, in_title=terms.find("maps", query), in_body=terms.find("", query)) == ""
