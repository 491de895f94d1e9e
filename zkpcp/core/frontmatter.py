"""How frontmatter is read and written as YAML.

Implements PCP §5.2: the values a frontmatter may hold, a reader for what clients send, and the one serialization that
is stored. The reader knows the subset of YAML that has one meaning everywhere: the scalars of YAML 1.2's core schema
(§10.3.2 of that specification, so ``NO`` and a bare date are strings), without anchors, aliases, tags, directives or
duplicate keys. The writer puts one key on a line and its value behind it as JSON, which is YAML too. What each key
means is ``page_keys``' question. Comments and the client's own layout are not kept.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import yaml  # type: ignore[import-untyped]  # the package ships no types, and we use six names of it
from yaml.cyaml import CParser  # type: ignore[import-untyped]  # as above

from zkpcp.errors import CorruptError, InvalidInputError, TooLargeError, Violation

YamlValue = None | bool | int | float | str | Sequence["YamlValue"] | Mapping[str, "YamlValue"]
"""What frontmatter may hold. Collections are lists and dicts inside; the read-only types say: never change them."""

MAX_BYTES: Final = 64 * 1024
MAX_DEPTH: Final = 32  # collections inside each other, the frontmatter itself being the first
MAX_KEY_CHARS: Final = 128  # YAML readers end an implicit key at 1,024 characters, and one of ours escapes to at most 6
MAX_INT: Final = 2**63 - 1

KEY_ORDER: Final = (
    "id",
    "title",
    "type",
    "tags",
    "sensitivity",
    "partition",
    "lifecycle",
    "confidence",
    "importance",
    "valid_from",
    "valid_until",
    "expires",
    "source",
    "recorded_at",
    "updated",
    "derived_from",
    "relations",
    "review",
)

_RANK: Final[Mapping[str, int]] = {key: rank for rank, key in enumerate(KEY_ORDER)}
_JSON: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True, allow_nan=False)
_PLAIN_KEY: Final = re.compile(r"x_[A-Za-z0-9_-]*")
_KEY: Final = re.compile(r"^([A-Za-z0-9_-]+):", re.MULTILINE)
# Characters that a YAML reader refuses or takes for a line end; JSON would leave them as they are.
_UNSAFE: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_NOT_TEXT: Final = re.compile("[\x00\ud800-\udfff]")

_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBER_START: Final = frozenset("+-.0123456789")
_INT: Final = re.compile(r"[-+]?[0-9]+")
_BASED_INT: Final = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")

_MAPPING_RULE: Final = "must be a mapping"
_TEXT_RULE: Final = "must not contain NUL or lone surrogates"
_DEPTH_RULE: Final = f"must not nest deeper than {MAX_DEPTH} levels"
_KEY_RULE: Final = f"keys must be strings of at most {MAX_KEY_CHARS} characters"
_INT_RULE: Final = "integers must fit into 64 bits"
_FINITE_RULE: Final = "numbers must be finite"


def parse(text: str, *, max_bytes: int = MAX_BYTES) -> dict[str, YamlValue]:
    """Read a client's frontmatter block, without its ``---`` lines; an empty block is an empty mapping.

    Raises InvalidInputError with the line and the rule, TooLargeError above ``max_bytes`` of UTF-8.
    """
    if len(text) > max_bytes:
        raise TooLargeError(f"frontmatter must have at most {max_bytes} bytes")
    if _NOT_TEXT.search(text) is not None:
        raise _refusal(_TEXT_RULE)
    if len(text.encode()) > max_bytes:
        raise TooLargeError(f"frontmatter must have at most {max_bytes} bytes")
    return _Reader(text).document()


def checked(value: object) -> dict[str, YamlValue]:
    """Copy a mapping that came as JSON, so that it is known to hold nothing but storable values.

    Raises InvalidInputError.
    """
    if not isinstance(value, Mapping):
        raise _refusal(_MAPPING_RULE)
    return _checked_mapping(value.items(), 1)


def dump(mapping: Mapping[str, YamlValue]) -> str:
    """Write frontmatter in its one stored form, the same text for equal mappings.

    The known keys come first in ``KEY_ORDER``, then the others sorted; nested keys are sorted. Every string is quoted,
    so no reader of any YAML version takes one for a date, a number or a boolean.
    """
    keys = sorted(mapping, key=lambda key: (_RANK.get(key, len(KEY_ORDER)), key))
    return "".join([f"{_key(key)}: {_json(mapping[key])}\n" for key in keys])


def load(text: str) -> dict[str, YamlValue]:
    """Read what ``dump`` wrote, and nothing else; raises CorruptError."""
    mapping = _json_lines(text)
    if mapping is not None and dump(mapping) == text:
        # No other value is written as this text, so YAML's own reader could only give the same.
        return mapping
    mapping = _parsed(text)
    if mapping is None or dump(mapping) != text:
        raise CorruptError("stored frontmatter is not in its canonical form")
    return mapping


class _Reader:
    """One pass over the parser's events: nothing is ever expanded, so a small text cannot become a large value."""

    def __init__(self, text: str) -> None:
        self._parser = CParser(text)

    def document(self) -> dict[str, YamlValue]:
        self._next()  # the stream's start
        start = self._next()
        if isinstance(start, yaml.StreamEndEvent):
            return {}
        if start.explicit or start.version is not None or start.tags:
            raise _refusal("must be one document without markers or directives", start)
        root = self._next()
        if not isinstance(root, yaml.MappingStartEvent):
            raise _refusal(_MAPPING_RULE, root)
        self._plain(root)
        mapping = self._mapping(1)
        end = self._next()
        if end.explicit or not isinstance(self._next(), yaml.StreamEndEvent):
            raise _refusal("must be one document without markers or directives", end)
        return mapping

    def _next(self) -> yaml.Event:
        line: int | None = None
        try:
            return self._parser.get_event()
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = None if mark is None else mark.line + 1
        # Raised out here without a context: the parser's own error quotes the text. Nor is that error kept in a
        # variable: it would hold this frame, the frame the parser, and the parser the text, until the next collection.
        raise _refusal("must be valid YAML", line=line)

    @staticmethod
    def _plain(event: yaml.NodeEvent) -> None:
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise _refusal("anchors and aliases are not allowed", event)
        if event.tag is not None:
            raise _refusal("tags are not allowed", event)

    def _value(self, event: yaml.NodeEvent, depth: int) -> YamlValue:
        self._plain(event)
        if isinstance(event, yaml.ScalarEvent):
            return _scalar(event)
        if depth >= MAX_DEPTH:
            raise _refusal(_DEPTH_RULE, event)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(depth + 1)
        items: list[YamlValue] = []
        while not isinstance(item := self._next(), yaml.SequenceEndEvent):
            items.append(self._value(item, depth + 1))
        return items

    def _mapping(self, depth: int) -> dict[str, YamlValue]:
        mapping: dict[str, YamlValue] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            self._plain(event)
            key = _scalar(event) if isinstance(event, yaml.ScalarEvent) else None
            if not isinstance(key, str) or len(key) > MAX_KEY_CHARS:
                raise _refusal(_KEY_RULE, event)
            if key in mapping:
                raise _refusal("keys must not repeat", event)
            mapping[key] = self._value(self._next(), depth)
        return mapping


def _scalar(event: yaml.ScalarEvent) -> YamlValue:
    text: str = event.value
    if not event.implicit[0]:  # quoted or a block: a string whatever it looks like
        if "\0" in text:
            raise _refusal(_TEXT_RULE, event)
        return text
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if text[0] in _NUMBER_START:
        return _number(text, event)
    return text


def _number(text: str, event: yaml.ScalarEvent) -> int | float | str:
    if _INT.fullmatch(text) is not None:
        return _in_range(_int(text, 10), event)
    if _BASED_INT.fullmatch(text) is not None:
        return _in_range(_int(text, 0), event)
    if _FLOAT.fullmatch(text) is not None:
        value = float(text)
        if not math.isfinite(value):
            raise _refusal(_FINITE_RULE, event)
        return value
    if _NOT_FINITE.fullmatch(text) is not None:
        raise _refusal(_FINITE_RULE, event)
    return text


def _int(text: str, base: int) -> int:
    try:
        return int(text, base)
    except ValueError:  # more digits than Python converts
        return MAX_INT + 1


def _in_range(value: int, event: yaml.ScalarEvent | None = None) -> int:
    if not -MAX_INT - 1 <= value <= MAX_INT:
        raise _refusal(_INT_RULE, event)
    return value


def _checked_mapping(items: Iterable[tuple[object, object]], depth: int) -> dict[str, YamlValue]:
    copy: dict[str, YamlValue] = {}
    for key, value in items:
        if not isinstance(key, str) or len(key) > MAX_KEY_CHARS:
            raise _refusal(_KEY_RULE)
        copy[_checked_text(key)] = _checked_value(value, depth)
    return copy


def _checked_value(value: object, depth: int) -> YamlValue:
    match value:
        case str():
            return _checked_text(value)
        case None | bool():
            return value
        case int():
            return _in_range(value)
        case float():
            if not math.isfinite(value):
                raise _refusal(_FINITE_RULE)
            return value
        case Mapping() | list() | tuple() if depth >= MAX_DEPTH:
            raise _refusal(_DEPTH_RULE)
        case Mapping():
            return _checked_mapping(value.items(), depth + 1)
        case list() | tuple():
            return [_checked_value(item, depth + 1) for item in value]
        case _:
            raise _refusal("values must be strings, numbers, booleans, null, lists or mappings")


def _checked_text(text: str) -> str:
    if _NOT_TEXT.search(text) is not None:
        raise _refusal(_TEXT_RULE)
    return text


def _key(key: str) -> str:
    return key if key in _RANK or _PLAIN_KEY.fullmatch(key) is not None else _json(key)


def _json(value: YamlValue) -> str:
    text = _JSON.encode(value)
    return text if text.isascii() and "\x7f" not in text else _UNSAFE.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _json_lines(text: str) -> dict[str, YamlValue] | None:
    """The mapping of lines that are a key and JSON each; None for anything else, or what breaks a rule."""
    lines = _KEY.sub(r'"\1":', text.removesuffix("\n")).replace("\n", ",")
    try:
        return checked(json.loads(f"{{{lines}}}"))
    except (ValueError, RecursionError, InvalidInputError):
        return None


def _parsed(text: str) -> dict[str, YamlValue] | None:
    try:
        return parse(text, max_bytes=sys.maxsize)  # it was small enough when it was written, before the server's stamps
    except InvalidInputError:
        return None


def _refusal(rule: str, event: yaml.Event | None = None, *, line: int | None = None) -> InvalidInputError:
    if event is not None:
        line = event.start_mark.line + 1
    where = "" if line is None else f"line {line}: "
    return InvalidInputError("not valid frontmatter", [Violation("/frontmatter", f"{where}{rule}")])
