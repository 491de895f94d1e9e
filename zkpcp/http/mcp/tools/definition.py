"""What a tool is, and which tools a caller sees.

Implements TOOL-01, TOOL-04, TOOL-05 (a definition that breaks them cannot be made) and the listing per scopes of
AUTH-38. It decides on scopes alone: rights that depend on an object are the tool's own business.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

import orjson

from zkpcp.core.schemas import JsonObject, JsonValue, Schemas, canonical_json
from zkpcp.errors import Violation

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")
_INPUT: Final = "input"
_OUTPUT: Final = "output"
_FINGERPRINT_DIGITS: Final = 16


class Caller(Protocol):
    """Whoever a token speaks for, as far as every tool needs to know."""

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes that the token carries."""
        ...


C = TypeVar("C", bound=Caller)
C_contra = TypeVar("C_contra", bound=Caller, contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """What a client may tell its user about a tool before calling it."""

    read_only: bool
    destructive: bool
    idempotent: bool
    open_world: bool = False

    def wire(self) -> JsonObject:
        """Return MCP's ``annotations`` object, every hint stated."""
        return {
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent,
            "openWorldHint": self.open_world,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition:
    """A tool as clients see it.

    ``scopes``: any one group suffices, and needs all its scopes; no group at all means that any token will do.
    ``feature``: the tool is served where the context has this optional feature.
    Raises ValueError for a definition that breaks §6.1 or §6.2.
    """

    name: str
    title: str
    description: str
    input_schema: JsonObject
    output_schema: JsonObject
    annotations: Annotations
    scopes: tuple[tuple[str, ...], ...] = ()
    feature: str | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError("a tool's name must match ^[a-z][a-z0-9_]{0,39}$")
        if not self.title or not self.description:
            raise ValueError(f"{self.name}: a tool needs a title and a description")
        if not all(self.scopes):
            raise ValueError(f"{self.name}: a group of scopes must not be empty")
        if self.input_schema.get("additionalProperties") is not False:
            raise ValueError(f"{self.name}: the input schema must set additionalProperties to false")
        if self.input_schema.keys() & {"oneOf", "anyOf", "allOf"}:
            raise ValueError(f"{self.name}: the input schema must have no oneOf, anyOf or allOf at its top")
        for schema in (self.input_schema, self.output_schema):
            if schema.get("type") != "object":
                raise ValueError(f"{self.name}: a schema's root must have type object")
            _check_self_contained(self.name, schema)

    def is_served(self, offered: Collection[str] | None) -> bool:
        """Say whether a context that offers these scopes has this tool at all; None stands for every scope.

        A feature that the context has is among them as ``feature:<name>``.
        """
        if offered is not None and self.feature is not None and f"feature:{self.feature}" not in offered:
            return False
        return not self.scopes or any(self._open_groups(offered))

    def missing_scopes(self, held: Collection[str], offered: Collection[str] | None = None) -> tuple[str, ...]:
        """Return every scope of the group that lacks least, or nothing if the call may be made.

        A group with a scope that the context does not offer is not named.
        """
        lacking = [(sum(scope not in held for scope in group), group) for group in self._open_groups(offered)]
        if not lacking or any(count == 0 for count, _group in lacking):
            return ()
        return min(lacking, key=lambda entry: entry[0])[1]

    def _open_groups(self, offered: Collection[str] | None) -> Iterator[tuple[str, ...]]:
        return (group for group in self.scopes if offered is None or all(scope in offered for scope in group))

    def wire(self) -> JsonObject:
        """Return MCP's ``Tool`` object, valid in every revision."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input_schema,
            "outputSchema": self.output_schema,
            "annotations": self.annotations.wire(),
        }


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A success: ``structured`` validates against the output schema, ``text`` says the same for a model to read."""

    structured: JsonObject = field(repr=False)
    text: str = field(repr=False)


class Tool(Protocol[C_contra]):
    """One tool."""

    @property
    def definition(self) -> ToolDefinition:
        """How clients see it; the same for the life of the process."""
        ...

    async def call(self, caller: C_contra, arguments: JsonObject) -> ToolResult:
        """Do it; ``arguments`` conform to the input schema. Raises what ``zkpcp.errors`` has."""
        ...


@dataclass(frozen=True, slots=True)
class CatalogEntry(Generic[C]):
    """A tool with its schemas compiled."""

    tool: Tool[C]
    definition: ToolDefinition
    wire: JsonObject
    _schemas: Schemas

    def violations(self, arguments: JsonObject) -> tuple[Violation, ...]:
        """Return which rules of the input schema ``arguments`` break, in words that hold no value."""
        return self._schemas.violations(_INPUT, arguments)

    def is_output(self, structured: JsonObject) -> bool:
        """Say whether a result validates against the output schema (TOOL-06)."""
        return not self._schemas.violations(_OUTPUT, structured)


def compile_tool(tool: Tool[C]) -> CatalogEntry[C]:
    """Return the tool with its schemas compiled; raises CorruptError for a schema that is none."""
    definition = tool.definition
    schemas = Schemas({_INPUT: definition.input_schema, _OUTPUT: definition.output_schema})
    return CatalogEntry(tool, definition, definition.wire(), schemas)


class Catalog(Generic[C]):
    """The tools of a deployment, in the fixed order in which they are listed.

    ``fingerprint``: 16 hexadecimal digits of the SHA-256 of all descriptors in their order, as canonical JSON. Equal
    catalogs have equal ones, in every process: a client whose copy has another one lists the tools again.
    Raises ValueError for a name given twice.
    """

    def __init__(self, tools: Sequence[Tool[C]]) -> None:
        self._entries = {tool.definition.name: compile_tool(tool) for tool in tools}
        if len(self._entries) != len(tools):
            raise ValueError("two tools have the same name")
        self.total_bytes = sum(len(orjson.dumps(entry.wire)) for entry in self._entries.values())
        whole = canonical_json([entry.wire for entry in self._entries.values()])
        self.fingerprint = hashlib.sha256(whole).hexdigest()[:_FINGERPRINT_DIGITS]

    def find(self, name: str) -> CatalogEntry[C] | None:
        """Return the tool of that name, whoever may call it (AUTH-38)."""
        return self._entries.get(name)

    def entries(self) -> Sequence[CatalogEntry[C]]:
        """Return every tool, in order."""
        return tuple(self._entries.values())

    def listing(self, scopes: Collection[str] | None, offered: Collection[str] | None = None) -> list[JsonValue]:
        """Return the tools that ``scopes`` allow in a context with these ``offered`` ones, in order.

        None stands for every scope: where those of the token are not known, every tool of the context is listed.
        """
        return [
            entry.wire
            for entry in self._entries.values()
            if entry.definition.is_served(offered)
            and (scopes is None or not entry.definition.missing_scopes(scopes, offered))
        ]


def _check_self_contained(tool_name: str, schema: JsonObject) -> None:
    for key, value in _members(schema):
        if key in ("$ref", "$dynamicRef") and isinstance(value, str) and not value.startswith("#"):
            raise ValueError(f"{tool_name}: a schema must be self-contained")
        if key == "x-mcp-header":
            # Clients would copy the argument into a header, where proxies log it.
            raise ValueError(f"{tool_name}: a schema must not use x-mcp-header")


def _members(value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    if isinstance(value, dict):
        yield from value.items()
        for member in value.values():
            yield from _members(member)
    elif isinstance(value, list):
        for item in value:
            yield from _members(item)
