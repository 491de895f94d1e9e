import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkpcp.core.paths import SEGMENT_PATTERN, parse_path, parse_prefix
from zkpcp.errors import InvalidInputError

segments = st.from_regex(SEGMENT_PATTERN, fullmatch=True)
paths = st.lists(segments, min_size=1, max_size=16).map("/".join).filter(lambda path: len(path) <= 512)


@pytest.mark.requirement("MEM-01")
@given(paths)
def test_a_valid_path_is_taken_as_it_is(text: str) -> None:
    path = parse_path(text)

    assert path.value == text
    assert "/".join(path.segments) == text


@pytest.mark.requirement("MEM-01")
@given(st.text() | st.text(alphabet="aZ9_.-/\\ \x00é%:", max_size=40))
def test_any_text_is_a_path_or_refused_and_never_rewritten(text: str) -> None:
    try:
        path = parse_path(text)
    except InvalidInputError as error:
        (violation,) = error.violations
        assert violation.path == "path"
    else:
        assert path.value == text


@pytest.mark.requirement("MEM-01")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "/notes",
        "notes/",
        "notes//today",
        "..",
        "../notes",
        "notes/../today",
        ".",
        "./notes",
        ".hidden",
        "-dash",
        "notes/today.",
        "notes\\today",
        "C:\\notes",
        "C:/notes",
        "notes/to day",
        "notes\x00",
        "notes\n",
        "%2e%2e/notes",
        "café",
        "cafe\u0301",
        "n\u043ete",
        "a" * 65,
        "/".join("a" * 17),
        "/".join(["a" * 64] * 7 + ["a" * 58]),  # 513 characters
        "notes/*",
        "~/notes",
    ],
)
def test_a_path_outside_the_grammar_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        parse_path(text, "target")

    assert [violation.path for violation in refusal.value.violations] == ["target"]


@pytest.mark.requirement("MEM-03")
@pytest.mark.parametrize(
    "text", ["a", "_index", "notes/_index", "v1.2/a..b", "a" * 64, "/".join("a" * 16), "CON", "1/2-3_4.md"]
)
def test_the_grammar_knows_no_special_names(text: str) -> None:
    assert parse_path(text).value == text


@pytest.mark.requirement("MEM-01")
def test_a_path_of_512_characters_is_the_longest() -> None:
    longest = "/".join(["a" * 64] * 7 + ["a" * 57])

    assert len(parse_path(longest).value) == 512
    with pytest.raises(InvalidInputError) as refusal:
        parse_path(longest + "a")
    assert refusal.value.violations[0].message == "must have at most 512 characters"


@pytest.mark.requirement("MEM-02")
@given(paths)
def test_paths_that_differ_only_in_case_fold_to_one(text: str) -> None:
    assert parse_path(text.upper()).folded == parse_path(text.lower()).folded == parse_path(text).folded


@pytest.mark.requirement("MEM-21")
@pytest.mark.parametrize(
    ("text", "is_style"),
    [
        ("style/tone", True),
        ("Style/tone", True),
        ("style/a/b", True),
        ("style", False),
        ("styles/a", False),
        ("a/style/b", False),
    ],
)
def test_style_is_what_lies_under_style(text: str, is_style: bool) -> None:
    assert parse_path(text).is_style is is_style


def test_a_path_shows_nothing_of_itself() -> None:
    path = parse_path("secret/diagnosis")

    assert "secret" not in repr(path)
    assert "secret" not in f"{path}"


@given(paths, st.data())
def test_every_beginning_of_a_path_is_a_prefix_that_fits_it(text: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(text)))

    prefix = parse_prefix(text[:cut])

    assert prefix == text[:cut]
    assert parse_path(text).has_prefix(prefix)


def test_a_prefix_with_a_slash_means_the_folder_and_without_one_a_beginning() -> None:
    inside, beside = parse_path("notes/today"), parse_path("notes-old/today")

    assert inside.has_prefix(parse_prefix("Notes/"))
    assert not beside.has_prefix(parse_prefix("Notes/"))
    assert inside.has_prefix(parse_prefix("notes"))
    assert beside.has_prefix(parse_prefix("notes"))


@pytest.mark.parametrize(
    "text", ["/", "/notes", "notes//", "../", "notes/.", "notes./", "a b", "%", "é", "a" * 65, "a/" * 17]
)
def test_what_no_path_can_begin_with_is_refused_as_a_prefix(text: str) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        parse_prefix(text)

    assert refusal.value.violations[0].path == "prefix"
