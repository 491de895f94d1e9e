"""What a query can say, what comes of queries and pages that mean no good, and how much of a page a search looks at."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.flows.usecase_support import World
from zkpcp.core import asking, ranking, terms
from zkpcp.core.pages import Limits, head_of
from zkpcp.core.ranking import Scored
from zkpcp.errors import InvalidInputError, TooLargeError
from zkpcp.usecases import search
from zkpcp.usecases.filters import Filters

MIB = 1 << 20

FOUND = [
    ("boiler", {"heat", "boat"}),
    ('"the boiler"', {"heat"}),
    ('"The  BOILER," was', {"heat"}),
    ('"boiler the"', set()),
    ('"was serviced" boat', {"heat"}),
    ("boiler -willow", {"heat"}),
    ('boiler -"under the willow"', {"heat"}),
    ('boiler -"willow the"', {"heat", "boat"}),
    ("boiler tag:house", {"heat"}),
    ("boiler TAG:House", {"heat"}),
    ("boiler -tag:house", {"boat"}),
    ("tag:house", {"heat"}),
    ('tag:"on the water"', {"boat"}),
    ('"boiler', {"heat", "boat"}),
    ('boiler"', {"heat", "boat"}),
    ("boiler -", {"heat", "boat"}),
    ("boiler tag:", {"heat", "boat"}),
    ("boiler - willow", {"heat", "boat"}),
    ("“the boiler”", {"heat"}),
    ("well-kept", {"boat"}),
    ('"well kept"', {"boat"}),
    ('"CAFÉ"', {"boat"}),
    ('"cafe"', {"boat"}),
    ('"蜂蜜水"', {"honey"}),
    ('"蜜蜂"', set()),
    ("蜂蜜 -甜的", set()),
    ("蜂蜜 -苦的", {"honey"}),
]


async def three_pages(world: World) -> None:
    async with world.owner() as owner:
        await owner.write("p/heat", "The boiler was serviced in March.", title="Heating", tags=["house"])
        boat = "A boiler lies under the willow, well-kept, at the Café."
        await owner.write("p/boat", boat, title="Boat", tags=["On the water"])
        await owner.write("p/honey", "蜂蜜水是甜的", title="Honey")


@pytest.mark.parametrize("scan", [False, True])
@pytest.mark.requirement("MEM-17")
async def test_phrases_exclusions_and_tags_mean_what_they_say(world: World, scan: bool) -> None:
    await three_pages(world)
    async with world.owner() as owner:
        for query, paths in FOUND:
            results = await owner.search(query, as_of="2099-01-01" if scan else None)
            assert {each.head.path.value.removeprefix("p/") for each in results.found} == paths, query
            assert results.searched_all, query


async def test_filters_and_operators_go_together(world: World) -> None:
    await three_pages(world)
    async with world.owner() as owner:
        assert await owner.found('"the boiler"', Filters(tags=("house",), prefix="p/h")) == ["p/heat"]
        assert await owner.found("boiler -willow", Filters(prefix="p/b")) == []


@pytest.mark.parametrize(
    "query", ["", " ", "-boiler", '-"the boiler"', '""', '"', '"' * 501, "-", "?!", "-tag:house", "\x00\x07"]
)
async def test_a_query_with_nothing_to_look_for_is_refused_by_its_field(world: World, query: str) -> None:
    async with world.owner() as owner:
        with pytest.raises(InvalidInputError) as refused:
            await owner.search(query)
    assert [each.path for each in refused.value.violations] == ["/query"]


@pytest.mark.parametrize(
    "query",
    [
        "boiler " * 2_000,
        " ".join(f"word{number}" for number in range(500)),
        " ".join(f'"the word{number}"' for number in range(100)),
        " ".join(f"-w{number}" for number in range(300)) + " boiler",
        "the and of to",
        "(.*)+$ [a-z]{99999} \\1 (?=x)",
        "🐝🐝 👩‍👩‍👧 boiler",
        "ｂｏｉｌｅｒ　ｂｏｉｌｅｒ",
        "bo\u0301i\u0308ler e\u0301\u0301\u0301",
        "boiler\u200b\u00ad\x00\x1b[31m",
        "боилер boiler 蜂蜜 ボイラー مرجل",
        "-" * 999 + "boiler",
        "tag:" * 250 + "boiler",
        "\U0010ffff\ud800 boiler",
    ],
)
async def test_any_query_is_answered(world: World, query: str) -> None:
    await three_pages(world)
    async with world.owner() as owner:
        results = await owner.search(query)
    assert len(results.found) <= 3


async def test_a_query_of_more_than_is_looked_up_says_so(world: World) -> None:
    await three_pages(world)
    async with world.owner() as owner:
        assert (await owner.search(" ".join(string.ascii_lowercase))).searched_all
        assert not (await owner.search(" ".join(f"word{number}" for number in range(500)))).searched_all
        assert not (await owner.search(" ".join(f'"w{number}"' for number in range(30)))).searched_all


@given(st.text(st.sampled_from("ab-\":tag “”„'蜂蜜 \n"), max_size=40))
@settings(max_examples=200)
def test_any_text_is_a_query(text: str) -> None:
    asked = asking.parse(text)
    assert len(asked.phrases) <= asking.MOST_OPERATORS
    for phrase in (*asked.phrases, *asked.barred_phrases):
        phrase.is_in(terms.plain(text))


@given(st.lists(st.sampled_from(["bee", "hive", "蜂蜜", "café", "B2"]), min_size=1, max_size=3), st.text(max_size=20))
def test_a_phrase_is_in_every_text_that_has_its_words_side_by_side(words: list[str], around: str) -> None:
    [phrase] = asking.parse(f'"{" ".join(words)}"').phrases
    text = f"{around} | {', '.join(words).upper()} | {around}"
    assert phrase.is_in(terms.plain(text))
    vector = terms.terms_of_page("", (), None, "", text)
    assert set(terms.certain_terms(" ".join(words))) <= vector.frequencies.keys()


@given(
    st.text(st.sampled_from("ab e蜂\n"), max_size=300),
    st.lists(st.sampled_from(["ab", "b", "e", "蜂"])),
    st.integers(8, 400),
)
def test_what_is_read_of_a_text_lies_in_it_in_order_and_within_its_room(text: str, words: list[str], room: int) -> None:
    parts = ranking.to_read(text, words, room)
    flat = [at for part in parts for at in part]
    assert flat == sorted(flat)
    assert sum(end - start for start, end in parts) <= room
    assert all(0 <= start <= end <= len(text) for start, end in parts)


@pytest.mark.parametrize("unit", ["ab ", "ab", "蜂蜜", "a-é.c@d "])
@pytest.mark.requirement("MEM-17")
async def test_the_text_that_a_search_looks_at_is_bounded(world: World, unit: str) -> None:
    query = asking.parse(unit).query
    async with world.owner() as owner:
        await owner.write("p/long", unit * (MIB // len(unit.encode())), title=unit)
        page = await owner.read("p/long")
    opened = search._Opened(page, head_of(page), frozenset(query.terms))
    finder = terms.Finder(query)
    before = 0
    for _ in range(12):
        found = search._result(finder, query, Scored(head_of(page), 1.0), opened)
        assert len(found.snippet) <= ranking.SNIPPET_CHARS
        assert finder.looked - before <= search.READ_PER_PAGE + len(page.title)
        before = finder.looked
    assert finder.looked <= search.READ_PER_CALL + 12 * 2 * ranking.SNIPPET_CHARS


async def test_a_page_of_one_word_and_one_of_very_many_are_kept_and_found(world: World) -> None:
    many = " ".join(f"w{number:x}" for number in range(100_000))
    async with world.owner() as owner:
        await owner.write("p/one", "x" * (MIB - 100), title="One")
        assert await owner.found("x" * 900) == ["p/one"]
        assert (await owner.search("one")).searched_all
        await owner.write("p/many", many, title="Many")
        found = await owner.search("many w10")
        assert [each.head.path.value for each in found.found] == ["p/many"]
        # Of so many words not all are indexed, and a search says that it may have missed some.
        assert not found.searched_all
        assert found.found[0].why == "many in the title; w10 in the text"
        with pytest.raises(TooLargeError):
            await owner.write("p/more", "x" * (Limits().body_bytes + 1))
