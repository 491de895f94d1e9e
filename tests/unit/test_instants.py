import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zkpcp.core.instants import parse_date_or_instant, parse_rfc3339, to_rfc3339
from zkpcp.errors import InvalidInputError

FIRST_MS = -62_135_596_800_000  # 0001-01-01T00:00:00Z
LAST_MS = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z


@pytest.mark.requirement("MEM-10")
@given(st.integers(FIRST_MS, LAST_MS))
@example(FIRST_MS)
@example(LAST_MS)
@example(-1)
def test_an_instant_written_and_read_is_the_same_instant(ms: int) -> None:
    text = to_rfc3339(ms)

    assert parse_rfc3339(text) == ms
    assert len(text) == len("2026-01-31T09:30:00.000Z")
    assert text.endswith("Z")


@given(st.integers(FIRST_MS, LAST_MS), st.integers(FIRST_MS, LAST_MS))
def test_written_instants_sort_as_the_instants_do(one: int, other: int) -> None:
    assert (to_rfc3339(one) < to_rfc3339(other)) == (one < other)


@given(st.text())
@example("2026-02-30T00:00:00Z")
@example("0001-01-01T00:00:00+23:59")
@example("9999-12-31T23:59:59-23:59")
@example("0000-00-00")
@example("２０２６-01-01")
def test_any_text_is_an_instant_or_refused(text: str) -> None:
    try:
        span = parse_date_or_instant(text)
    except InvalidInputError:
        return

    assert FIRST_MS <= span.first_ms <= span.last_ms <= LAST_MS


@pytest.mark.parametrize(
    ("text", "same_as"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.5Z", 500),
        ("1970-01-01T00:00:00.123999999Z", 123),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1969-12-31T18:30:00-05:30", 0),
        ("1969-12-31T23:59:59.999Z", -1),
        ("2024-02-29T00:00:00Z", 1_709_164_800_000),
    ],
)
def test_rfc3339_is_read_with_any_offset_and_fraction(text: str, same_as: int) -> None:
    assert parse_rfc3339(text) == same_as


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-01-31",
        "2026-01-31T09:30:00",
        "2026-01-31 09:30:00Z",
        "2026-01-31t09:30:00z",
        "2026-01-31T09:30Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T09:30:60Z",
        "2026-01-31T09:30:00.Z",
        "2026-01-31T09:30:00+0200",
        "2026-01-31T09:30:00+24:00",
        "2025-02-29T09:30:00Z",
        "2026-01-31T09:30:00Z\n",
        "٢٠٢٦-01-31T09:30:00Z",
    ],
)
def test_what_is_not_rfc3339_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        parse_rfc3339(text)

    assert refusal.value.__context__ is None


def test_a_bare_date_is_its_whole_day_in_utc() -> None:
    span = parse_date_or_instant("2026-01-31")

    assert to_rfc3339(span.first_ms) == "2026-01-31T00:00:00.000Z"
    assert to_rfc3339(span.last_ms) == "2026-01-31T23:59:59.999Z"


@pytest.mark.parametrize("ms", [FIRST_MS - 1, LAST_MS + 1])
def test_an_instant_without_a_four_digit_year_is_refused(ms: int) -> None:
    with pytest.raises(InvalidInputError):
        to_rfc3339(ms)
