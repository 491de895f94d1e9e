"""Reading tool arguments that have passed the input schema: each with its type, absent ones with their default."""

from __future__ import annotations

from typing import TypedDict, cast

from zkpcp.core.schemas import JsonObject


def text(arguments: JsonObject, name: str) -> str:
    """A required string."""
    return cast(str, arguments[name])


def optional_text(arguments: JsonObject, name: str) -> str | None:
    """An optional string."""
    return cast("str | None", arguments.get(name))


def number(arguments: JsonObject, name: str, default: int) -> int:
    """An optional integer. JSON Schema counts 20.0 as an integer."""
    return int(cast(float, arguments.get(name, default)))


def flag(arguments: JsonObject, name: str, *, default: bool = False) -> bool:
    """An optional boolean."""
    return cast(bool, arguments.get(name, default))


def texts(arguments: JsonObject, name: str) -> tuple[str, ...]:
    """An optional list of strings."""
    return tuple(cast("list[str]", arguments.get(name, [])))


def optional_texts(arguments: JsonObject, name: str) -> tuple[str, ...] | None:
    """An optional list of strings, None where it is absent."""
    return texts(arguments, name) if name in arguments else None


def optional_object(arguments: JsonObject, name: str) -> JsonObject | None:
    """An optional object."""
    return cast("JsonObject | None", arguments.get(name))


class PageArguments(TypedDict):
    """What a tool that takes a page is called with, as the use cases take it."""

    path: str
    body: str
    frontmatter: JsonObject | None
    expected_updated: str | None


def page(arguments: JsonObject) -> PageArguments:
    """A page to write or to propose."""
    return {
        "path": text(arguments, "path"),
        "body": text(arguments, "body"),
        "frontmatter": optional_object(arguments, "frontmatter"),
        "expected_updated": optional_text(arguments, "expected_updated"),
    }
