import math

import pytest

from zkpcp.core import frontmatter
from zkpcp.core.frontmatter import MAX_BYTES, MAX_DEPTH, MAX_KEY_CHARS
from zkpcp.errors import CorruptError, InvalidInputError, TooLargeError


@pytest.mark.requirement("MEM-05")
@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("- a\n- b\n", "line 1: must be a mapping"),
        ("just text", "line 1: must be a mapping"),
        ("~", "line 1: must be a mapping"),
        ("title: a\ntitle: b", "line 2: keys must not repeat"),
        ('x_a: {b: 1, "b": 2}', "line 1: keys must not repeat"),
        ("x_a:\n  - b: 1\n    b: 2", "line 3: keys must not repeat"),
        ("x_a:\n\tb: 1", "line 2: must be valid YAML"),
        ("x_a:\n \tb: 1", "line 2: must be valid YAML"),
        ("\ttitle: a", "line 1: must be valid YAML"),
        ("x_a: &anchor 1", "line 1: anchors and aliases are not allowed"),
        ("&anchor title: a", "line 1: anchors and aliases are not allowed"),
        ("&root\ntitle: a", "line 1: anchors and aliases are not allowed"),
        ("x_a: *anchor", "line 1: anchors and aliases are not allowed"),
        ("*anchor : a", "line 1: anchors and aliases are not allowed"),
        ("x_a: !!python/object/apply:os.system ['true']", "line 1: tags are not allowed"),
        ("x_a: !!str 1", "line 1: tags are not allowed"),
        ("x_a: ! 1", "line 1: tags are not allowed"),
        ("!!map\ntitle: a", "line 1: tags are not allowed"),
        ("!!str title: a", "line 1: tags are not allowed"),
        ("1: a", f"line 1: keys must be strings of at most {MAX_KEY_CHARS} characters"),
        ("true: a", f"line 1: keys must be strings of at most {MAX_KEY_CHARS} characters"),
        ("~: a", f"line 1: keys must be strings of at most {MAX_KEY_CHARS} characters"),
        ("[a, b]: c", f"line 1: keys must be strings of at most {MAX_KEY_CHARS} characters"),
        ("? {a: b}\n: c", f"line 1: keys must be strings of at most {MAX_KEY_CHARS} characters"),
        ("x_" + "a" * MAX_KEY_CHARS + ": 1", f"line 1: keys must be strings of at most {MAX_KEY_CHARS} characters"),
        ("x_a: .nan", "line 1: numbers must be finite"),
        ("x_a: -.INF", "line 1: numbers must be finite"),
        ("x_a: 1e999", "line 1: numbers must be finite"),
        ("x_a: 9223372036854775808", "line 1: integers must fit into 64 bits"),
        ("x_a: " + "9" * 5000, "line 1: integers must fit into 64 bits"),
        ("x_a: 0x" + "f" * 5000, "line 1: integers must fit into 64 bits"),
        ("x_a: " + "[" * MAX_DEPTH + "]" * MAX_DEPTH, f"line 1: must not nest deeper than {MAX_DEPTH} levels"),
        ("x_a: " + "[" * 60_000, "must be valid YAML"),
        ("- " * 30_000, "line 1: must be a mapping"),
        ("x_a:\n" + " " + "- " * 30_000, f"line 2: must not nest deeper than {MAX_DEPTH} levels"),
        ("--- {title: a}", "line 1: must be one document without markers or directives"),
        ("%YAML 1.1\n---\ntitle: a", "line 1: must be one document without markers or directives"),
        ("title: a\n...\n", "line 2: must be one document without markers or directives"),
        ("title: a\n--- b\n", "must be one document without markers or directives"),
        ("title: [a", "must be valid YAML"),
        ("title: 'a", "must be valid YAML"),
        ("title: a: b", "line 1: must be valid YAML"),
        ("title: \x07", "must be valid YAML"),
        ('title: "\\ud800"', "line 1: must be valid YAML"),
        ("title: \ud800", "must not contain NUL or lone surrogates"),
        ("title: a\x00b", "must not contain NUL or lone surrogates"),
        ('title: "a\\0b"', "line 1: must not contain NUL or lone surrogates"),
    ],
)
def test_yaml_with_more_than_one_meaning_or_price_is_refused(text: str, rule: str) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        frontmatter.parse(text)

    (violation,) = refusal.value.violations
    assert violation.path == "/frontmatter"
    assert violation.message.endswith(rule)
    assert refusal.value.__context__ is None


def test_an_alias_bomb_is_refused_at_its_first_anchor() -> None:
    bomb = "x_a: &a [lol]\n" + "".join(f"x_{n}: &n{n} [*a, *a, *a, *a]\n" for n in range(1000))

    with pytest.raises(InvalidInputError):
        frontmatter.parse(bomb)


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("NO", "NO"),
        ("yes", "yes"),
        ("on", "on"),
        ("y", "y"),
        ("2026-01-31", "2026-01-31"),
        ("2026-01-31T09:30:00Z", "2026-01-31T09:30:00Z"),
        ("12:30:45", "12:30:45"),
        ("1_000", "1_000"),
        ("0b11", "0b11"),
        ("=", "="),
        ("1.2.3", "1.2.3"),
        ("+358 40 1", "+358 40 1"),
        ("a#b #c", "a#b"),
        ('"null"', "null"),
        ("'true'", "true"),
        ("|\n  1\n", "1\n"),
        ("'#tag'", "#tag"),
        ("true", True),
        ("FALSE", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("0", 0),
        ("-12", -12),
        ("+5", 5),
        ("007", 7),
        ("0o17", 15),
        ("0xFF", 255),
        ("9223372036854775807", 2**63 - 1),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1.", 1.0),
        ("1e3", 1000.0),
        ("[]", []),
        ("{}", {}),
        ("[a, 1, [true]]", ["a", 1, [True]]),
        ("{b: {c: ~}}", {"b": {"c": None}}),
    ],
)
def test_scalars_follow_the_core_schema_of_yaml_1_2(scalar: str, value: object) -> None:
    parsed = frontmatter.parse(f"x_a: {scalar}")["x_a"]

    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "{}"])
def test_a_block_without_keys_is_an_empty_mapping(text: str) -> None:
    assert frontmatter.parse(text) == {}


@pytest.mark.parametrize("text", ["title: a\r\ntags: [b]\r\n", "\ufefftitle: a\ntags: [b]", "title: a\rtags:\r- b\r"])
def test_line_ends_and_a_byte_order_mark_of_any_system_are_read(text: str) -> None:
    assert frontmatter.parse(text) == {"title": "a", "tags": ["b"]}


def test_64_kib_are_the_most() -> None:
    fits = "x_a: " + "é" * ((MAX_BYTES - 5) // 2)

    assert frontmatter.parse(fits)
    with pytest.raises(TooLargeError):
        frontmatter.parse(fits + "é")
    with pytest.raises(TooLargeError):
        frontmatter.parse("a" * (MAX_BYTES + 1))


def test_32_levels_are_the_deepest() -> None:
    deepest = "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1)

    parsed = frontmatter.parse(f"x_a: {deepest}")

    assert frontmatter.checked(parsed) == parsed


@pytest.mark.parametrize(
    "value",
    [
        [1],
        "text",
        None,
        {"x_a": {1, 2}},
        {"x_a": b"bytes"},
        {"x_a": math.nan},
        {"x_a": math.inf},
        {"x_a": 2**63},
        {"x_a": "\ud800"},
        {"x_a": ["a\x00b"]},
        {"x_\ud800": 1},
        {"x_" + "a" * MAX_KEY_CHARS: 1},
        {1: 2},
        {"x_a": {1: 2}},
    ],
)
def test_a_value_that_cannot_be_stored_is_refused(value: object) -> None:
    with pytest.raises(InvalidInputError):
        frontmatter.checked(value)


def test_a_mapping_of_any_depth_is_refused_by_a_typed_error() -> None:
    value: object = 1
    for _ in range(100_000):
        value = [value]

    with pytest.raises(InvalidInputError):
        frontmatter.checked({"x_a": value})


def test_the_stored_form_is_ours_alone() -> None:
    text = frontmatter.dump(
        {
            "x_b": {"z": None, "a": [True, 1, 1.5]},
            "x_a": "NO",
            "updated": "2026-01-31T09:30:00.000Z",
            "x_odd key": 1,
            "valid_from": "2026-01-31",
            "title": 'A "quoted" #title\nof two lines \u2028\x85\x7f\ufeff é 😀',
        }
    )

    assert text == (
        'title: "A \\"quoted\\" #title\\nof two lines \\u2028\\u0085\\u007f\\ufeff é 😀"\n'
        'valid_from: "2026-01-31"\n'
        'updated: "2026-01-31T09:30:00.000Z"\n'
        'x_a: "NO"\n'
        'x_b: {"a": [true, 1, 1.5], "z": null}\n'
        '"x_odd key": 1\n'
    )
    assert frontmatter.dump(frontmatter.load(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "title: a\n",
        'title: "a"',
        'title:  "a"\n',
        'title: "a" \n',
        'x_a: 1\ntitle: "a"\n',
        'title: "a"\n# comment\n',
        "x_a: [1,2]\n",
        "x_a: 1.50\n",
        'x_a: "\\u0041"\n',
        "title: [\n",
        "x_a: NaN\n",
        "x_a: &b 1\n",
    ],
)
def test_text_that_is_not_in_the_stored_form_is_damage(text: str) -> None:
    with pytest.raises(CorruptError):
        frontmatter.load(text)
