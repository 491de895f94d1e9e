"""Whether a JSON value satisfies one of the published schemas, and in plain words why not.

Implements the ``violations`` of PCP §4.3 and §6.3 (PROF-03) over JSON Schema 2020-12. The validator's own messages
quote the value, so none of them leaves this module. Loading the schema files is ``zkpcp.schema_files``' question.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

import jsonschema_rs

from zkpcp.errors import CorruptError, Violation

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]
JsonObject = dict[str, JsonValue]

MAX_VIOLATIONS: Final = 32
"""How many violations one answer names, so that a small request cannot make a large answer."""

_MANY_NODES: Final = 1000

_TYPE_NAMES: Final[Mapping[str, str]] = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a text",
}
_LIMITS: Final[Mapping[str, str]] = {
    "minLength": "must have at least {} characters",
    "maxLength": "must have at most {} characters",
    "minItems": "must have at least {} items",
    "maxItems": "must have at most {} items",
    "minProperties": "must have at least {} members",
    "maxProperties": "must have at most {} members",
    "minimum": "must be at least {}",
    "maximum": "must be at most {}",
    "uniqueItems": "must not repeat an item",
    "propertyNames": "has a member whose name does not have the form it must have",
}
_NO_JSON: Final = Violation("", "must be JSON: finite numbers, text without lone surrogates, not too deep")


class Schemas:
    """The published schemas by name, such as ``0.3/profile.core``; compiled once, never changed."""

    __slots__ = ("_raw", "_validators")

    def __init__(self, schemas: Mapping[str, JsonObject]) -> None:
        """Compile; raises CorruptError for a schema that is none: then the installation is damaged."""
        self._raw: Final = {name: json.dumps(schema) for name, schema in schemas.items()}
        self._validators: Final = {name: _compile(name, schema) for name, schema in schemas.items()}

    @property
    def names(self) -> frozenset[str]:
        """The names there are."""
        return frozenset(self._raw)

    def raw(self, name: str) -> JsonObject:
        """A copy of the schema itself, to be published or embedded."""
        schema: JsonObject = json.loads(self._raw[name])
        return schema

    def violations(self, name: str, value: JsonValue) -> tuple[Violation, ...]:
        """What is wrong with ``value``, at most ``MAX_VIOLATIONS`` rules; paths are JSON pointers (RFC 6901)."""
        if not _is_json(value):
            return (_NO_JSON,)
        errors = _errors(self._validators[name], value)
        if not errors:
            return ()
        schema = self.raw(name)
        found = dict.fromkeys(violation for error in errors for violation in _explain(schema, error))
        return tuple(found)[:MAX_VIOLATIONS]


def pointer(*segments: str | int) -> str:
    """Write a JSON pointer (RFC 6901 §3)."""
    return "".join(f"/{str(segment).replace('~', '~0').replace('/', '~1')}" for segment in segments)


def canonical_json(value: JsonValue) -> bytes:
    """Write JSON in one form: members sorted by code point, no white space, UTF-8. Equal values give equal bytes."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")).encode()


def parse_canonical_object(data: bytes | bytearray | memoryview, what: str) -> JsonObject:
    """Read what ``canonical_json`` wrote for an object; ``what`` names it in the CorruptError for anything else."""
    value = _loads(bytes(data))
    if not isinstance(value, dict) or not _is_canonical(value, data):
        raise CorruptError(f"{what} is not a JSON object in canonical form")
    return value


def _is_json(value: JsonValue) -> bool:
    # The validator looks at what the schema asks for and lets a lone surrogate pass in a text without a pattern.
    try:
        canonical_json(value)
    except (ValueError, RecursionError):
        return False
    return True


def _loads(data: bytes) -> JsonValue:
    # Returns None instead of raising, since the parser's exceptions carry the text.
    try:
        value: JsonValue = json.loads(data.decode())
    except (ValueError, RecursionError):
        return None
    return value


def _is_canonical(value: JsonObject, data: bytes | bytearray | memoryview) -> bool:
    # Also refuses duplicate members: one of them would be missing.
    try:
        return canonical_json(value) == data
    except (ValueError, RecursionError):
        return False


def _compile(name: str, schema: JsonObject) -> jsonschema_rs.Draft202012Validator:
    try:
        return jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
    except ValueError as error:
        raise CorruptError(f"the schema {name} is not a JSON Schema") from error


def _errors(validator: jsonschema_rs.Draft202012Validator, value: JsonValue) -> list[jsonschema_rs.ValidationError]:
    # The validator builds an error for every node before it yields the first one: half a minute for a body of a few
    # megabytes. A large value is therefore told its first error only.
    if validator.is_valid(value):
        return []
    if _has_few_nodes(value):
        return list(validator.iter_errors(value))
    try:
        validator.validate(value)
    except jsonschema_rs.ValidationError as first:
        return [first]
    return []


def _has_few_nodes(value: JsonValue) -> bool:
    waiting: list[JsonValue] = [value]
    for _node in range(_MANY_NODES):
        if not waiting:
            return True
        node = waiting.pop()
        if isinstance(node, dict | list):
            if len(node) > _MANY_NODES:
                return False
            waiting.extend(node.values() if isinstance(node, dict) else node)
    return False


def _explain(schema: JsonObject, error: jsonschema_rs.ValidationError) -> Iterator[Violation]:
    where = pointer(*error.instance_path)
    keyword = error.kind.name
    holder, rule = _at(schema, error.schema_path)
    match keyword, rule:
        case "required", _:
            # The property's name comes from the schema, never from the value.
            yield Violation(where + pointer(str(error.kind.as_dict()["property"])), "is required")
        case "additionalProperties", _:
            members = holder.get("properties")
            names = ", ".join(members) if isinstance(members, dict) else ""
            yield Violation(where, f"has a member it must not have; its members are: {names}")
        case "enum", list():
            yield Violation(where, f"must be one of: {', '.join(str(item) for item in rule)}")
        case "const", _:
            yield Violation(where, f"must be {json.dumps(rule)}")
        case "type", str():
            yield Violation(where, f"must be {_TYPE_NAMES[rule]}")
        case "type", list():
            yield Violation(where, f"must be {' or '.join(_TYPE_NAMES[str(item)] for item in rule)}")
        case (("pattern" | "format"), _):
            described = holder.get("description")
            expected = f"must be {described}" if isinstance(described, str) else "does not have the form it must have"
            yield Violation(where, expected)
        case _ if keyword in _LIMITS:
            yield Violation(where, _LIMITS[keyword].format(rule))
        case _:
            yield Violation(where, f"breaks the rule {keyword} of its schema")


def _at(schema: JsonObject, path: list[str | int]) -> tuple[JsonObject, JsonValue]:
    """The keyword's value at ``path`` and the schema object that holds it; our schemas have no references to follow."""
    holder: JsonObject = schema
    value: JsonValue = schema
    for step in path:
        if isinstance(value, dict):
            holder, value = value, value.get(str(step))
        elif isinstance(value, list) and isinstance(step, int):
            value = value[step]
    return holder, value
