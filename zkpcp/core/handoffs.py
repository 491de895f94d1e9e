"""What one assistant leaves for another: unfinished work in a few words (PCP §6.5).

A hand-off is parsed once from a tool's arguments and has one stored form, canonical JSON. Who wrote it is the server's
to say. It does NOT check that whoever it is addressed to exists: names of assistants are plain text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, cast, get_args

from zkpcp.core.instants import parse_rfc3339
from zkpcp.core.schemas import JsonObject, JsonValue, canonical_json, parse_canonical_object
from zkpcp.errors import CorruptError, InvalidInputError, Violation

Status = Literal["open", "done"]

STATUSES: Final[tuple[str, ...]] = get_args(Status)
MAX_TITLE: Final = 256
MAX_CONTENT: Final = 16_384
MAX_NAME: Final = 64
DEFAULT_LIFETIME_S: Final = 30 * 24 * 3600
"""A hand-off that nobody picked up is gone after this, unless its writer said otherwise."""

MAX_LIFETIME_S: Final = 366 * 24 * 3600

_VERSION: Final = 1
_MEMBERS: Final = frozenset({"v", "id", "title", "content", "to", "from", "status", "created", "updated", "expires"})


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Handoff:
    """A hand-off. ``to``: the assistant it is meant for, None for whichever comes first; ``sender``: the app's name."""

    id: str
    title: str
    content: str
    to: str | None
    sender: str
    status: Status
    created_ms: int
    updated_ms: int
    expires_ms: int

    def is_for(self, name: str | None) -> bool:
        """Whether the assistant of this name should see it; names differ by more than case."""
        return name is None or self.to is None or self.to.casefold() == name.casefold()


@dataclass(frozen=True, slots=True, repr=False)
class Draft:
    """What a writer gives; right by construction."""

    title: str
    content: str
    to: str | None
    expires_ms: int


def draft(
    *, title: str | None, content: str | None, to: str | None = None, expires: str | None = None, now_ms: int
) -> Draft:
    """Read what a writer gives. Raises InvalidInputError that names every member that breaks its rule."""
    expires_ms, late = _expiry(expires, now_ms)
    rules = [
        _line("/title", title, MAX_TITLE),
        _line("/to", to, MAX_NAME) if to is not None else None,
        None if _is_text(content, MAX_CONTENT) else Violation("/content", f"must be text of 1 to {MAX_CONTENT}"),
        late,
    ]
    violations = [rule for rule in rules if rule is not None]
    if violations or title is None or content is None:
        raise InvalidInputError("the hand-off is not valid", violations)
    return Draft(title.strip(), content, None if to is None else to.strip(), expires_ms)


def as_json(handoff: Handoff) -> JsonObject:
    """The stored members but for the format's version; instants in milliseconds."""
    return {
        "id": handoff.id,
        "title": handoff.title,
        "content": handoff.content,
        "to": handoff.to,
        "from": handoff.sender,
        "status": handoff.status,
        "created": handoff.created_ms,
        "updated": handoff.updated_ms,
        "expires": handoff.expires_ms,
    }


def serialize(handoff: Handoff) -> bytes:
    """The one stored form."""
    return canonical_json({"v": _VERSION, **as_json(handoff)})


def parse_stored(data: bytes | bytearray | memoryview) -> Handoff:
    """Read what ``serialize`` wrote; raises CorruptError for anything else."""
    value = parse_canonical_object(data, "a stored hand-off")
    if value.keys() != _MEMBERS or value["v"] != _VERSION or value["status"] not in STATUSES:
        raise CorruptError("a stored hand-off does not have the members it must have")
    to = value["to"]
    return Handoff(
        id=_text(value["id"]),
        title=_text(value["title"]),
        content=_text(value["content"]),
        to=None if to is None else _text(to),
        sender=_text(value["from"]),
        status=cast(Status, value["status"]),
        created_ms=_number(value["created"]),
        updated_ms=_number(value["updated"]),
        expires_ms=_number(value["expires"]),
    )


def _expiry(text: str | None, now_ms: int) -> tuple[int, Violation | None]:
    if text is None:
        return now_ms + DEFAULT_LIFETIME_S * 1000, None
    try:
        expires_ms = parse_rfc3339(text)
    except InvalidInputError as error:
        return 0, Violation("/expires", error.message)
    if not now_ms < expires_ms <= now_ms + MAX_LIFETIME_S * 1000:
        return 0, Violation("/expires", "must lie ahead, by a year at most")
    return expires_ms, None


def _line(path: str, text: str | None, most: int) -> Violation | None:
    if text is not None and _is_text(text.strip(), most) and text.isprintable():
        return None
    return Violation(path, f"must be one line of 1 to {most} characters")


def _is_text(text: str | None, most: int) -> bool:
    if text is None or not 0 < len(text) <= most or "\x00" in text:
        return False
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _text(value: JsonValue) -> str:
    if not isinstance(value, str):
        raise CorruptError("a stored hand-off has a member that must be text and is not")
    return value


def _number(value: JsonValue) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise CorruptError("a stored hand-off has a member that must be a number and is not")
    return value
