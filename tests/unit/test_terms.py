"""Which terms texts in several scripts have, and how vectors are stored."""

from __future__ import annotations

import unicodedata

import pytest

from zkpcp.core import terms
from zkpcp.errors import CorruptError


def page(body: str, title: str = "", language: str | None = None) -> set[str]:
    return set(terms.terms_of_page(title, (), None, "", body, language).frequencies)


def finds(query: str, body: str) -> bool:
    """Whether every word of the query is in the page, at least by a stem."""
    blob = terms.encode(terms.terms_of_page("", (), None, "", body))
    asked = terms.terms_of_query(query)
    found = terms.lookup(blob, asked.terms)
    return bool(asked.words) and all(any(stem in found for stem in word.stems) for word in asked.words)


def test_a_word_is_a_term_as_it_stands_and_by_its_stem() -> None:
    assert page("The boilers were serviced") >= {"e:boilers", "s:boiler", "e:serviced", "s:servic"}


@pytest.mark.parametrize(
    ("query", "body"),
    [
        ("boiler service", "The BOILERS were serviced by Weber."),
        ("memories", "a memory of the sea"),
        ("Häuser", "Das ist ein Haus und die Straße ist nicht lang."),
        ("strasse", "Das ist ein Haus und die Straße ist nicht lang."),
        ("cafe zurich", "Café in Zürich"),
        ("café zürich", "the cafe in zurich"),
        ("книги", "Я читаю книгу и не сплю"),
        ("chevaux", "Les chevaux de la ferme et une vache"),
        ("MEM-01", "It proves mem-01 and others."),
        ("01", "It proves mem-01 and others."),
        ("2.3.0", "Upgraded to 2.3.0."),
        ("ada@bees.example", "Write to Ada@Bees.example soon."),
        ("snake case", "the snake_case_name of it"),
        ("东京塔", "我去东京塔看夜景"),
        ("夜景", "我去东京塔看夜景"),
        ("ﬁle", "a file"),
        ("ＡＢＣ１２３", "part abc123"),
        ("한국어", "한국어를 배웁니다"),
        ("हिन्दी", "यह हिन्दी है"),
        ("Caroline", "That is Caroline's own."),
    ],
)
def test_a_page_is_found_by_what_people_type(query: str, body: str) -> None:
    assert finds(query, body)


def test_another_word_with_the_same_start_is_not_found() -> None:
    assert not finds("car", "caravan and carpet")
    assert not finds("夜空", "我去东京塔看夜景")


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_every_normal_form_of_a_text_has_the_same_terms(form: str) -> None:
    text = "Žlutý kůň, Zürich; ガイド và Việt Nam, é"

    assert page(unicodedata.normalize(form, text)) == page(text)  # type: ignore[arg-type]  # one of the four forms


def test_joined_identifiers_are_terms_as_parts_and_as_a_whole() -> None:
    assert page("kvarn-42.b") >= {"e:kvarn", "e:42", "e:b", "e:kvarn-42.b"}


def test_unspaced_scripts_are_read_in_pairs_and_a_lone_character_as_itself() -> None:
    assert page("東京都 木") == {"e:東京", "s:東京", "e:京都", "s:京都", "e:木", "s:木"}


def test_title_tags_and_path_count_and_a_page_is_filed_under_them() -> None:
    vector = terms.terms_of_page("Boiler", ["House care"], "semantic", "home/Heating", "boiler")

    assert vector.frequencies["e:boiler"] == 3
    assert vector.frequencies["e:care"] == 2
    assert vector.frequencies["e:heating"] == 1
    assert vector.frequencies[terms.tag_term("house CARE")] == 1
    assert vector.frequencies[terms.type_term("semantic")] == 1
    assert {terms.path_term("home"), terms.path_term("heating")} <= set(vector.frequencies)
    assert vector.length == 2 + 4 + 2 + 1


def test_a_page_is_stemmed_in_the_language_its_own_words_tell() -> None:
    german = "Wir sind nicht in den Häusern und auch nicht bei der Arbeit"

    assert "s:haus" in page(german)
    assert "s:haus" in page(german, language="en")
    assert "s:haus" in page("Häusern", language="de-CH")
    assert "s:haus" not in page("Häusern")


def test_a_query_looks_under_every_language_it_could_have_been_filed_in() -> None:
    told = terms.terms_of_query("when does the boiler service happen")
    untold = terms.terms_of_query("cavalli")

    assert told.languages == ("english",)
    assert {"s:caval", "s:cavalli"} <= set(untold.words[0].stems)


def test_words_of_a_query_count_once_and_are_limited() -> None:
    assert [word.text for word in terms.terms_of_query("bee BEE bee hive").words] == ["bee", "hive"]
    assert len(terms.terms_of_query(" ".join(f"w{n}" for n in range(999))).words) == terms.MAX_QUERY_WORDS
    assert terms.terms_of_query(" …!? ").words == ()


def test_hits_stand_where_the_words_were_written() -> None:
    text = "Ｂoilers: the BOILER-service of Café Zürich, 東京都"
    query = terms.terms_of_query("boiler cafe 京都")

    assert [text[hit.start : hit.end] for hit in terms.find(text, query)] == ["Ｂoilers", "BOILER", "Café", "京都"]


def test_values_that_hold_text_do_not_show_it() -> None:
    vector = terms.terms_of_page("Marker", ["marker"], None, "marker", "marker")
    query = terms.terms_of_query("marker")

    shown = repr((vector, query, query.words, terms.probe(query.terms)))
    assert "marker" not in shown.lower()


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"1",
        b"2 0",
        b"1 01",
        b"1 0\n",
        b"1 0\n\x01!",
        b"1 0\nword",
        b"1 0\nb\x01!\na\x01!",
        b"1 0\na\x01!\na\x01!",
        b"1 0\na\x01!\na\x02!",
        b"1 0\na\x01\x1f",
        b"1 0\na\x07!",
        b"1 0\n\xff\x01!",
        b"1 0\na\x01 ",
    ],
)
def test_a_stored_vector_in_another_form_is_damage(blob: bytes) -> None:
    with pytest.raises(CorruptError):
        terms.decode(blob)


def test_a_vector_cut_off_inside_a_line_is_damage() -> None:
    with pytest.raises(CorruptError):
        terms.lookup(b"1 1\nbee\x01", ["e:bee"])
    with pytest.raises(CorruptError):
        terms.length_of(b"")


def test_an_exact_count_does_not_stand_in_for_a_stem_that_is_not_there() -> None:
    blob = terms.encode(terms.TermVector(3, {"e:memori": 1, "e:memory": 2, "s:memory": 5}))

    assert terms.lookup(blob, ["e:memori", "s:memori", "e:memory", "s:memory"]) == {
        "e:memori": 1,
        "e:memory": 2,
        "s:memory": 5,
    }


def test_a_megabyte_of_different_words_stays_within_the_limit() -> None:
    vector = terms.terms_of_page("title", (), None, "a", " ".join(f"w{n}" for n in range(20_000)))

    assert sum(term.startswith("e:") for term in vector.frequencies) == terms.MAX_WORDS
    assert "e:title" in vector.frequencies
