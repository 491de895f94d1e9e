"""Which keys a page's frontmatter may hold, and what each may say.

Implements the table of PCP §5.2 and its server-stamped keys (§5.2.3, MEM-09). The same rules are published as
``schemas/0.3/memory.page.schema.json``; they stand here as code since a page is checked at every write and every read.
A violation names one of our keys and its rule; a key that is not ours is the client's content and shows as ``*``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from zkpcp.core.frontmatter import YamlValue
from zkpcp.core.instants import (
    DATE_OR_INSTANT_RULE,
    INSTANT_RULE,
    parse_date_or_instant,
    parse_rfc3339,
    to_rfc3339,
)
from zkpcp.core.paths import parse_path
from zkpcp.errors import InvalidInputError, Violation

MAX_VIOLATIONS: Final = 32  # what is wrong a thousand times need not be said a thousand times
MAX_TITLE_CHARS: Final = 512
MAX_TAGS: Final = 64
MAX_TAG_CHARS: Final = 64
MAX_PRINCIPAL_CHARS: Final = 256
MAX_CLIENT_CHARS: Final = 2048  # a client id may be the URL of its metadata document

TYPES: Final = ("episodic", "semantic", "procedural")
SENSITIVITIES: Final = ("normal", "sensitive")
LIFECYCLES: Final = ("active", "validated", "stale", "archived")
ORIGINS: Final = ("chat", "connector", "import", "user", "agent", "consolidation")
BASES: Final = ("provided", "observed", "inferred")
REVIEW_STATES: Final = ("proposed", "approved", "rejected")

PARTITION_PATTERN: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
PAGE_ID_PATTERN: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_RELATION: Final = re.compile(r"supersedes|contradicts|refines|about|x-[a-z0-9-]{1,32}:[A-Za-z0-9._-]{1,64}")

Rule = Callable[[YamlValue, str, list[Violation]], None]
"""Looks at one value that stands at a JSON pointer, and adds what it breaks to the list."""

FIELD: Final = "/frontmatter"


def _text(max_chars: int) -> Rule:
    def rule(value: YamlValue, at: str, broken: list[Violation]) -> None:
        if not isinstance(value, str) or not 1 <= len(value) <= max_chars:
            broken.append(Violation(at, f"must be a string of 1 to {max_chars} characters"))

    return rule


def _one_of(names: tuple[str, ...]) -> Rule:
    def rule(value: YamlValue, at: str, broken: list[Violation]) -> None:
        if not isinstance(value, str) or value not in names:
            broken.append(Violation(at, f"must be one of {', '.join(names)}"))

    return rule


def _like(pattern: re.Pattern[str], in_words: str) -> Rule:
    def rule(value: YamlValue, at: str, broken: list[Violation]) -> None:
        if not isinstance(value, str) or pattern.fullmatch(value) is None:
            broken.append(Violation(at, in_words))

    return rule


def _read_by(reader: Callable[[str], object], in_words: str) -> Rule:
    def rule(value: YamlValue, at: str, broken: list[Violation]) -> None:
        if isinstance(value, str):
            try:
                reader(value)
            except InvalidInputError as error:
                broken.append(Violation(at, error.message))
        else:
            broken.append(Violation(at, in_words))

    return rule


def _list_of(item_rule: Rule, max_items: int | None = None) -> Rule:
    def rule(value: YamlValue, at: str, broken: list[Violation]) -> None:
        if not isinstance(value, list):
            broken.append(Violation(at, "must be a list"))
        elif max_items is not None and len(value) > max_items:
            broken.append(Violation(at, f"must have at most {max_items} items"))
        else:
            for place, item in enumerate(value):
                item_rule(item, f"{at}/{place}", broken)

    return rule


def _members(rules: Mapping[str, Rule], required: tuple[str, ...] = ()) -> Rule:
    def rule(value: YamlValue, at: str, broken: list[Violation]) -> None:
        if not isinstance(value, dict):
            broken.append(Violation(at, f"must be a mapping of {', '.join(rules)}"))
            return
        for name, member in value.items():
            if name in rules:
                rules[name](member, f"{at}/{name}", broken)
            else:
                broken.append(Violation(f"{at}/*", f"may hold only {', '.join(rules)}"))
        broken.extend(Violation(f"{at}/{name}", "is required") for name in required if name not in value)

    return rule


def _unit_number(value: YamlValue, at: str, broken: list[Violation]) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        broken.append(Violation(at, "must be a number from 0 to 1"))


def _path(value: YamlValue, at: str, broken: list[Violation]) -> None:
    if not isinstance(value, str):
        broken.append(Violation(at, "must be a page path"))
        return
    try:
        parse_path(value, at)
    except InvalidInputError as error:
        broken.extend(error.violations)


def _stamp(value: YamlValue, at: str, broken: list[Violation]) -> None:
    try:
        canonical = isinstance(value, str) and to_rfc3339(parse_rfc3339(value)) == value
    except InvalidInputError:
        canonical = False
    if not canonical:
        broken.append(Violation(at, "must be an instant in UTC with milliseconds and Z"))


_INSTANT: Final = _read_by(parse_rfc3339, INSTANT_RULE)
_DATE_OR_INSTANT: Final = _read_by(parse_date_or_instant, DATE_OR_INSTANT_RULE)
_PRINCIPAL: Final = _text(MAX_PRINCIPAL_CHARS)
_BY: Final = _members({"by": _PRINCIPAL, "at": _stamp}, required=("by", "at"))

_SOURCE_FROM_CLIENT: Final[Mapping[str, Rule]] = {
    "origin": _one_of(ORIGINS),
    "session": _text(256),
    "at": _DATE_OR_INSTANT,
    "basis": _one_of(BASES),
}
_SOURCE_FROM_SERVER: Final[Mapping[str, Rule]] = {
    "principal": _PRINCIPAL,
    "on_behalf_of": _PRINCIPAL,
    "client": _text(MAX_CLIENT_CHARS),
}

_FROM_CLIENT: Final[Mapping[str, Rule]] = {
    "title": _text(MAX_TITLE_CHARS),
    "type": _one_of(TYPES),
    "tags": _list_of(_text(MAX_TAG_CHARS), MAX_TAGS),
    "sensitivity": _one_of(SENSITIVITIES),
    "partition": _like(PARTITION_PATTERN, "must be 1 to 64 of the characters a-z 0-9 _ -, beginning with a-z or 0-9"),
    "lifecycle": _one_of(LIFECYCLES),
    "confidence": _unit_number,
    "importance": _unit_number,
    "valid_from": _DATE_OR_INSTANT,
    "valid_until": _DATE_OR_INSTANT,
    "expires": _INSTANT,
    "source": _members(_SOURCE_FROM_CLIENT),
    "derived_from": _list_of(_path),
    "relations": _list_of(
        _members(
            {
                "rel": _like(_RELATION, "must be supersedes, contradicts, refines, about or x-<name>:<relation>"),
                "target": _path,
                "confidence": _unit_number,
            },
            required=("rel", "target"),
        )
    ),
}
_FROM_SERVER: Final[Mapping[str, Rule]] = {
    "id": _like(PAGE_ID_PATTERN, "must be 1 to 128 of the characters A-Z a-z 0-9 . _ : -"),
    "recorded_at": _stamp,
    "updated": _stamp,
    "review": _members(
        {
            "state": _one_of(REVIEW_STATES),
            "generated": _BY,
            "verified": _list_of(_BY),
            "rejected": _BY,
        },
        required=("state",),
    ),
}
_STORED: Final[Mapping[str, Rule]] = {
    **_FROM_CLIENT,
    **_FROM_SERVER,
    "source": _members({**_SOURCE_FROM_CLIENT, **_SOURCE_FROM_SERVER}, required=("principal", "client")),
}
_REQUIRED: Final = ("id", "title", "source", "recorded_at", "updated")

_UNKNOWN: Final = "a key must be one of " + ", ".join(_FROM_CLIENT) + ", or begin with x_"


def client_keys(mapping: Mapping[str, YamlValue]) -> dict[str, YamlValue]:
    """Take what a client may set out of its frontmatter; what the server sets is ignored, null says nothing.

    Raises InvalidInputError with a violation for each broken rule.
    """
    keys: dict[str, YamlValue] = {}
    for key, value in mapping.items():
        if key in _FROM_SERVER or (value is None and key in _FROM_CLIENT):
            continue
        if key == "source" and isinstance(value, dict):
            if source := client_source(value):
                keys[key] = source
        else:
            keys[key] = value
    _require(_violations(keys, _FROM_CLIENT))
    return keys


def client_source(source: Mapping[str, YamlValue]) -> dict[str, YamlValue]:
    """Leave out of a ``source`` what the server sets, and what is null."""
    return {name: value for name, value in source.items() if name not in _SOURCE_FROM_SERVER and value is not None}


def client_part(stored: Mapping[str, YamlValue]) -> dict[str, YamlValue]:
    """The keys of a stored page that its client set."""
    return {key: value for key, value in stored.items() if key not in _FROM_SERVER and key != "source"}


def require_stored(mapping: Mapping[str, YamlValue]) -> None:
    """Hold a whole stored frontmatter to the rules, server-stamped keys included; raises InvalidInputError."""
    missing = [Violation(f"{FIELD}/{key}", "is required") for key in _REQUIRED if key not in mapping]
    _require(missing + _violations(mapping, _STORED))


def _violations(mapping: Mapping[str, YamlValue], rules: Mapping[str, Rule]) -> list[Violation]:
    broken: list[Violation] = []
    unknown = False
    for key, value in mapping.items():
        rule = rules.get(key)
        if rule is not None:
            rule(value, f"{FIELD}/{key}", broken)
        elif not key.startswith("x_"):
            unknown = True
    if unknown:
        broken.append(Violation(f"{FIELD}/*", _UNKNOWN))
    return broken


def _require(broken: list[Violation]) -> None:
    if broken:
        raise InvalidInputError("not valid frontmatter", broken[:MAX_VIOLATIONS])
