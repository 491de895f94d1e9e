"""The laws of page values: what is written reads back, there is one stored form, and no input is a surprise."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from zkpcp.core import frontmatter, page_keys, pages
from zkpcp.core.frontmatter import YamlValue
from zkpcp.core.pages import Author, Page
from zkpcp.core.paths import PagePath, parse_path
from zkpcp.errors import CorruptError, InvalidInputError, RefusedError, TooLargeError

SCHEMA = Path(__file__).parents[2] / "schemas" / "0.3" / "memory.page.schema.json"
schema = jsonschema_rs.Draft202012Validator(json.loads(SCHEMA.read_text()), validate_formats=False)

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
# Lines and characters that serializers and parsers of Markdown, YAML and JSON trip over.
YAML_MARKS = ("---", "--- ", "...", "'", '"', "\\", "&a", "*a", "!!str ", "%", ": ", "- ", "?", "|", ">", "<<: ", "#")
YAML_LOOKS = (
    "NO",
    "2026-01-31",
    "1e3",
    "~",
    "a",
    "1",
    "title: ",
    "tags: [a, b]",
    "x_a: {b: c}",
    "[",
    "]",
    "{",
    "}",
    ",",
)
LINE_ENDS = ("\n", "\r\n", "\r", "\u2028", "\u2029", "\x85")
OTHERS = ("\t", " ", "\ufeff", "\x7f", "\uffff", "# ", "```", "é", "😀")
awkward = st.lists(st.sampled_from(YAML_MARKS + YAML_LOOKS + LINE_ENDS + OTHERS), max_size=25).map("".join)
bodies = text | awkward

scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
keys = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20) | awkward.filter(
    lambda key: len(key) <= frontmatter.MAX_KEY_CHARS
)
yaml_values: st.SearchStrategy[YamlValue] = st.recursive(
    scalars | bodies,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=8,
)
mappings = st.dictionaries(keys, yaml_values, max_size=5)

paths = st.from_regex(r"[A-Za-z0-9_]{1,8}(/[a-z0-9_.-]{0,5}[a-z_]){0,3}", fullmatch=True).filter(
    lambda path: not any(segment[0] in ".-" for segment in path.split("/"))
)
instants = st.sampled_from(["2026-01-31T09:30:00Z", "1999-12-31T23:59:59.5+05:30", "9999-12-31T23:59:59.999Z"])
dates_or_instants = instants | st.dates().map(lambda day: day.isoformat())
shares = st.floats(0, 1) | st.sampled_from([0, 1])
relations = st.fixed_dictionaries(
    {"rel": st.sampled_from(["supersedes", "contradicts", "refines", "about", "x-bm:depends_on"]), "target": paths},
    optional={"confidence": shares},
)
extras = st.dictionaries(keys.map(lambda key: f"x_{key}"[: frontmatter.MAX_KEY_CHARS]), yaml_values, max_size=3)
valid_keys: dict[str, st.SearchStrategy[Any]] = {
    "title": bodies.filter(lambda title: 1 <= len(title) <= 512),
    "type": st.sampled_from(page_keys.TYPES),
    "tags": st.lists(awkward.filter(lambda tag: 1 <= len(tag) <= 64), max_size=5),
    "sensitivity": st.sampled_from(page_keys.SENSITIVITIES),
    "partition": st.from_regex(r"[a-z0-9][a-z0-9_-]{0,63}", fullmatch=True),
    "lifecycle": st.sampled_from(page_keys.LIFECYCLES),
    "confidence": shares,
    "importance": shares,
    "valid_from": dates_or_instants,
    "valid_until": dates_or_instants,
    "expires": instants,
    "source": st.fixed_dictionaries(
        {},
        optional={
            "origin": st.sampled_from(page_keys.ORIGINS),
            "session": st.text("abc-1", min_size=1, max_size=9),
            "at": dates_or_instants,
            "basis": st.sampled_from(page_keys.BASES),
        },
    ),
    "derived_from": st.lists(paths, max_size=3),
    "relations": st.lists(relations, max_size=3),
}
client_frontmatter = st.builds(lambda own, extra: own | extra, st.fixed_dictionaries({}, optional=valid_keys), extras)
authors = st.builds(
    Author,
    principal=st.sampled_from(["human:anna", "agent:scribe"]),
    client=st.sampled_from(["client-1", "https://client.example/metadata.json"]),
    on_behalf_of=st.sampled_from([None, "human:anna"]),
)
now = st.integers(0, 4_000_000_000_000)


@st.composite
def made_pages(draw: st.DrawFn) -> Page:
    path, body = draw(paths), draw(bodies)
    given_keys = draw(st.none() | client_frontmatter)
    try:
        draft = pages.draft(path, body, given_keys)
    except InvalidInputError:
        assume(False)  # the body begins with a block
    page = pages.create(draft, page_id="p-1", now_ms=draw(now), author=draw(authors))
    if draw(st.booleans()):
        page = pages.update(page, draft, now_ms=draw(now), author=draw(authors))
    return page


def exact(value: object) -> str:
    """A text that tells 1, 1.0 and true apart, as YAML does and Python's equality does not."""
    return json.dumps(value, sort_keys=True)


@given(mappings)
def test_dumped_frontmatter_reads_back_and_has_one_form(mapping: dict[str, YamlValue]) -> None:
    dumped = frontmatter.dump(mapping)

    for read in (frontmatter.parse(dumped), frontmatter.load(dumped), frontmatter.checked(mapping)):
        assert exact(read) == exact(mapping)
        assert frontmatter.dump(read) == dumped


@given(mappings, st.data())
def test_equal_frontmatter_has_one_text_in_any_order(mapping: dict[str, YamlValue], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(list(mapping.items())))

    assert frontmatter.dump(dict(shuffled)) == frontmatter.dump(mapping)


@given(awkward | st.text() | awkward.map(lambda tail: f"title: {tail}"))
@example("x_a: *a")
@example("?")
@example("? - a")
@example("!")
@example('"\\')
def test_any_text_is_frontmatter_or_refused(source: str) -> None:
    try:
        mapping = frontmatter.parse(source)
    except (InvalidInputError, TooLargeError):
        return

    dumped = frontmatter.dump(mapping)
    assert frontmatter.parse(dumped) == mapping
    assert frontmatter.dump(frontmatter.parse(dumped)) == dumped


@given(st.text() | paths, st.text() | awkward | awkward.map(lambda tail: f"---\n{tail}"), st.none() | mappings)
def test_any_arguments_are_a_draft_or_refused(path: str, body: str, given_keys: dict[str, YamlValue] | None) -> None:
    try:
        draft = pages.draft(path, body, given_keys)
    except RefusedError:
        return

    assert body.endswith(draft.body)


@pytest.mark.requirement("MEM-04", "MEM-10")
@given(made_pages())
def test_every_page_reads_back_from_its_one_stored_form(page: Page) -> None:
    data = pages.serialize(page)
    read = pages.parse_stored(page.path, data)

    assert read == page
    assert pages.serialize(read) == data
    assert pages.parse_stored(page.path, memoryview(bytearray(data))) == page
    assert data.endswith(page.body.encode())


@pytest.mark.requirement("MEM-04")
@given(made_pages())
def test_every_page_satisfies_the_published_schema(page: Page) -> None:
    assert schema.is_valid(page.plain_frontmatter())


DAMAGED = parse_path("notes/a")
STORED = pages.serialize(
    pages.create(
        pages.draft("notes/a", "text", {"tags": ["a"], "x_a": {"b": [1, 2.5, None]}}),
        page_id="p-1",
        now_ms=0,
        author=Author("human:anna", "client-1"),
    )
)


def read_or_damage(path: PagePath, data: bytes) -> None:
    try:
        page = pages.parse_stored(path, data)
    except CorruptError:
        return
    assert pages.serialize(page) == data


@given(st.binary() | awkward.map(lambda tail: f"---\n{tail}\n---\n".encode()))
def test_any_bytes_are_a_page_in_its_form_or_damage(data: bytes) -> None:
    read_or_damage(DAMAGED, data)


@given(st.integers(0, len(STORED) - 1), st.integers(0, 3), st.binary(max_size=3))
def test_a_damaged_page_is_a_page_in_its_form_or_damage(at: int, cut: int, put: bytes) -> None:
    read_or_damage(DAMAGED, STORED[:at] + put + STORED[at + cut :])


@given(made_pages())
def test_every_head_reads_back(page: Page) -> None:
    head = pages.head_of(page)

    assert pages.decode_head(pages.encode_head(head)) == head


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["active", "normal", "a"]),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@given(st.binary() | st.lists(json_values, max_size=16).map(lambda fields: json.dumps([1, *fields]).encode()))
def test_any_bytes_are_a_head_or_damage(data: bytes) -> None:
    try:
        head = pages.decode_head(data)
    except CorruptError:
        return
    assert pages.decode_head(pages.encode_head(head)) == head


# Values at, just inside and just outside the rules. Days that no calendar has are left out: a pattern cannot know them.
SCALAR_EDGES = (None, True, 0, 1, 1.5, -0.1, "", "a", "A", "_", "a" * 64, "a" * 65, "a" * 512, "a" * 513, "é" * 512)
PATH_EDGES = ("a/b", "/a", "a.", "/".join("a" * 16), "/".join("a" * 17), ["a/b", "a//b"], ["a"], ["a"] * 64, ["a"] * 65)
WORDS: tuple[object, ...] = ("semantic", "sensitive", "active", [], {}, [1], [[]], {"x_a": 1})
DAY = "2026-01-31"
STAMP = "2026-01-31T09:30:00.123Z"
TIMES = (DAY, STAMP, "2026-01-31T09:30:00Z", "2026-01-31\n", "2026-01-31T24:00:00Z", "2026-01-31T09:30:00.123+00:00")
REVIEWS = (
    {"state": "approved"},
    {"state": "done"},
    {"state": "proposed", "generated": {"by": "human:anna", "at": STAMP}},
    {"state": "rejected", "rejected": {"by": "human:anna", "at": "2026-01-31T09:30:00Z"}},
    {"state": "approved", "verified": [{"by": "human:anna"}]},
)
SOURCES = (
    {"principal": "a", "client": "b"},
    {"principal": "a", "client": "b", "origin": "chat", "at": DAY},
    {"principal": "a"},
    {"principal": "a", "client": "c" * 2049},
)
RELATIONS = (
    [{"rel": "about", "target": "a"}],
    [{"rel": "x-a:b", "target": "a", "confidence": 1}],
    [{"rel": "x-:", "target": "a"}],
    [{"rel": "about"}],
    [{"rel": "about", "target": "a", "more": 1}],
    [{"rel": "about", "target": "a", "confidence": 2}],
)
edges: st.SearchStrategy[Any] = st.sampled_from(
    SCALAR_EDGES + PATH_EDGES + WORDS + TIMES + REVIEWS + SOURCES + RELATIONS
)
VALID: dict[str, YamlValue] = {
    "id": "p-1",
    "title": "A",
    "source": {"principal": "human:anna", "client": "client-1"},
    "recorded_at": "2026-01-31T09:30:00.123Z",
    "updated": "2026-01-31T09:30:00.123Z",
}


@pytest.mark.requirement("MEM-04")
@given(st.sampled_from([*frontmatter.KEY_ORDER, "x_a", "y"]), edges)
def test_the_code_and_the_published_schema_agree_on_every_edge(key: str, value: YamlValue) -> None:
    candidate = {**VALID, key: value}

    assert is_stored(candidate) == schema.is_valid(candidate)


@pytest.mark.requirement("MEM-04")
@pytest.mark.parametrize("key", [*VALID])
def test_the_code_and_the_published_schema_agree_on_what_is_required(key: str) -> None:
    candidate = {name: value for name, value in VALID.items() if name != key}

    assert is_stored(VALID)
    assert schema.is_valid(VALID)
    assert not is_stored(candidate)
    assert not schema.is_valid(candidate)


def is_stored(candidate: Mapping[str, YamlValue]) -> bool:
    try:
        page_keys.require_stored(candidate)
    except InvalidInputError:
        return False
    return True
