"""``audit_list``: who did what and when, never what it said (PCP §6.2, AUD-02)."""

from __future__ import annotations

from typing import Final

from zkpcp.core.audit import Entry, Outcome, to_json
from zkpcp.core.instants import to_rfc3339
from zkpcp.core.schemas import JsonObject, Schemas
from zkpcp.http.mcp.tools import arguments as take
from zkpcp.http.mcp.tools import parts
from zkpcp.http.mcp.tools.definition import Annotations, ToolDefinition, ToolResult
from zkpcp.usecases.access import Caller, acting
from zkpcp.usecases.log import LogFilters, list_entries
from zkpcp.usecases.services import Services

_DESCRIPTION: Final = (
    "Read the access log, newest first: which client did what, when, with what outcome; no content, titles or paths. "
    "Only when the person asks who looked at or changed their context. Reading it is logged too."
)


def _definition(schemas: Schemas) -> ToolDefinition:
    entry = {name: value for name, value in schemas.raw("0.3/audit.entry").items() if not name.startswith("$")}
    return ToolDefinition(
        name="audit_list",
        title="Read the access log",
        description=_DESCRIPTION,
        input_schema=parts.closed(
            {
                "limit": parts.LIMIT,
                "cursor": parts.CURSOR,
                "since": {"type": "string", "description": "A date or instant."},
                "action": {"type": "string", "description": "memory_read, grant.created, ..."},
                "category": {"type": "string", "description": "memory, profile.core, ..."},
                "outcome": {"type": "string", "enum": [outcome.value for outcome in Outcome]},
            }
        ),
        output_schema=parts.closed(
            {"entries": parts.array_of(entry), "next_cursor": parts.NEXT_CURSOR}, ["entries", "next_cursor"]
        ),
        annotations=Annotations(read_only=True, destructive=False, idempotent=True),
        scopes=(("audit:read",),),
    )


class AuditList:
    """The tool."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.definition = _definition(services.schemas)

    async def call(self, caller: Caller, arguments: JsonObject) -> ToolResult:
        """List entries."""
        filters = LogFilters(
            since=take.optional_text(arguments, "since"),
            action=take.optional_text(arguments, "action"),
            category=take.optional_text(arguments, "category"),
            outcome=take.optional_text(arguments, "outcome"),
        )
        async with acting(self._services, caller) as who:
            listed = await list_entries(
                self._services,
                who,
                filters=filters,
                limit=take.number(arguments, "limit", 20),
                cursor=take.optional_text(arguments, "cursor"),
            )
        structured: JsonObject = {
            "entries": [to_json(entry) for entry in listed.entries],
            "next_cursor": listed.next_cursor,
        }
        lines = [_line(entry) for entry in listed.entries] or ["No entries."]
        if listed.next_cursor:
            lines.append(f"More entries: call again with cursor {listed.next_cursor}")
        return ToolResult(structured, "\n".join(lines))


def _line(entry: Entry) -> str:
    who = entry.client or entry.principal or "nobody signed in"
    return f"{to_rfc3339(entry.at_ms)} {entry.action} by {who}: {entry.outcome.value}"
