"""The parts that several tools' schemas share: one spelling for one thing, in arguments and in results."""

from __future__ import annotations

from typing import Final

from zkpcp.core.extensions import available
from zkpcp.core.schemas import JsonObject, Schemas

# Lengths are the business of the rules behind them: a schema says what a model needs to know.
PATH: Final[JsonObject] = {"type": "string"}
LIMIT: Final[JsonObject] = {"type": "integer", "minimum": 1, "maximum": 50, "default": 20}
CURSOR: Final[JsonObject] = {
    "type": "string",
    "description": "The last next_cursor; the rest unchanged.",
}
PARTITION: Final[JsonObject] = {"type": "string", "description": "Only this one of partition_list."}
AS_OF: Final[JsonObject] = {"type": "string", "description": "A past date or instant."}
PAGE_ID: Final[JsonObject] = {"type": "string"}
EXPECTED_UPDATED: Final[JsonObject] = {"type": "string"}
TYPE: Final[JsonObject] = {"type": "string", "enum": ["episodic", "semantic", "procedural"]}
TAGS: Final[JsonObject] = {
    "type": "array",
    "maxItems": 64,
    "items": {"type": "string"},
    "description": "All of them.",
}
INSTANT: Final[JsonObject] = {"type": "string", "format": "date-time"}
NEXT_CURSOR: Final[JsonObject] = {"type": ["string", "null"]}

HEAD_PROPERTIES: Final[JsonObject] = {
    "path": {"type": "string"},
    "id": {"type": "string"},
    "title": {"type": "string"},
    "updated": INSTANT,
    "lifecycle": {"type": "string"},
    "sensitivity": {"type": "string"},
    "type": {"type": "string"},
    "tags": {"type": "array", "items": {"type": "string"}},
    "valid_from": {"type": "string"},
    "valid_until": {"type": "string"},
    "expires": INSTANT,
    "partition": {"type": "string"},
}
HEAD_REQUIRED: Final = ["path", "id", "title", "updated", "lifecycle", "sensitivity"]


def profile_groups(schemas: Schemas, right: str) -> tuple[tuple[str, ...], ...]:
    """The groups of scopes of a tool for profiles: the right to any one of the namespaces suffices."""
    namespaces = [extension.stem for extension in available(schemas.names) if extension.is_profile]
    return tuple((f"{stem}:{right}",) for stem in ("profile.core", "profile.team", *namespaces))


def closed(properties: JsonObject, required: list[str] | None = None) -> JsonObject:
    """An object schema that names every member it allows."""
    schema: JsonObject = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = [*required]
    return schema


def array_of(items: JsonObject) -> JsonObject:
    """A list of such items."""
    return {"type": "array", "items": items}


def head(extra: JsonObject | None = None, required: list[str] | None = None) -> JsonObject:
    """A page as lists show it, with more members where a tool has them."""
    return closed({**HEAD_PROPERTIES, **(extra or {})}, [*HEAD_REQUIRED, *(required or [])])
