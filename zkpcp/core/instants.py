"""How points in time are written and read.

Implements PCP §5.2.4 (MEM-10) and the part of RFC 3339 it rests on. Inside the server an instant is an ``int``:
milliseconds since 1970-01-01T00:00:00Z. It does not read the clock, and it knows no leap seconds: second 60 is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import Final, NamedTuple, TypeVar

from zkpcp.errors import InvalidInputError, Violation

T = TypeVar("T")

_DAY_MS: Final = 86_400_000
_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
_MIN_MS: Final = (date.min.toordinal() - _EPOCH_ORDINAL) * _DAY_MS
_MAX_MS: Final = (date.max.toordinal() - _EPOCH_ORDINAL + 1) * _DAY_MS - 1

_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_INSTANT: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})T([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])(?:\.([0-9]{1,9}))?"
    r"(?:Z|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))"
)

INSTANT_RULE: Final = "must be an RFC 3339 instant such as 2026-01-31T09:30:00Z"
DATE_OR_INSTANT_RULE: Final = "must be a date such as 2026-01-31 or an RFC 3339 instant such as 2026-01-31T09:30:00Z"


class Span(NamedTuple):
    """The first and the last millisecond of what a date (a whole UTC day) or an instant (one millisecond) names."""

    first_ms: int
    last_ms: int


def to_rfc3339(ms: int) -> str:
    """Write an instant as ``YYYY-MM-DDTHH:MM:SS.mmmZ``, always with milliseconds and always in UTC.

    Raises InvalidInputError outside the years 0001 to 9999.
    """
    if not _MIN_MS <= ms <= _MAX_MS:
        raise InvalidInputError("an instant must lie in the years 0001 to 9999")
    days, rest = divmod(ms, _DAY_MS)
    seconds, millis = divmod(rest, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    day = date.fromordinal(days + _EPOCH_ORDINAL).isoformat()
    return f"{day}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z"


def parse_rfc3339(text: str) -> int:
    """Read an RFC 3339 instant with any offset; what is finer than a millisecond is cut off.

    Raises InvalidInputError.
    """
    match = _INSTANT.fullmatch(text)
    if match is None:
        raise InvalidInputError(INSTANT_RULE)
    day, hour, minute, second, fraction, sign, offset_hour, offset_minute = match.groups()
    ms = _day_start_ms(day) + (int(hour) * 3600 + int(minute) * 60 + int(second)) * 1000
    if fraction is not None:
        ms += int(fraction[:3].ljust(3, "0"))
    if sign is not None:
        offset_ms = (int(offset_hour) * 60 + int(offset_minute)) * 60_000
        ms += offset_ms if sign == "-" else -offset_ms
    if not _MIN_MS <= ms <= _MAX_MS:
        raise InvalidInputError(INSTANT_RULE)
    return ms


def parse_date_or_instant(text: str) -> Span:
    """Read what a client may write in ``valid_from`` and ``valid_until``; a bare date is that whole day in UTC.

    Raises InvalidInputError.
    """
    if _DATE.fullmatch(text) is None:
        ms = parse_rfc3339(text)
        return Span(ms, ms)
    first_ms = _day_start_ms(text)
    return Span(first_ms, first_ms + _DAY_MS - 1)


def read_field(name: str, text: str | None, read: Callable[[str], T], kind: str) -> T | None:
    """Read the field ``/name`` of a client's input by ``read``, such as ``parse_rfc3339``; None where it is absent.

    Raises InvalidInputError whose violation names the field; ``kind`` says in words what the field has to be.
    """
    if text is None:
        return None
    try:
        return read(text)
    except InvalidInputError as error:
        violation = Violation(f"/{name}", error.message)
    raise InvalidInputError(f"{name} is not {kind}", [violation])


def _day_start_ms(text: str) -> int:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = None
    if day is None:  # raised out here, so that no exception carries the text as its context
        raise InvalidInputError("must be a day of the calendar")
    return (day.toordinal() - _EPOCH_ORDINAL) * _DAY_MS
