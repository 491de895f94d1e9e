"""``memory_write``: create a page or replace it (PCP §6.2, §5.2.2)."""

from __future__ import annotations

from typing import Final

from zkpcp.core.schemas import JsonObject
from zkpcp.http.mcp.tools import arguments as take
from zkpcp.http.mcp.tools import parts
from zkpcp.http.mcp.tools.definition import Annotations, ToolDefinition, ToolResult
from zkpcp.usecases.access import Caller, acting
from zkpcp.usecases.remember import write_page
from zkpcp.usecases.services import Services

DEFINITION: Final = ToolDefinition(
    name="memory_write",
    title="Write a memory page",
    description=(
        "Save what will still matter in later conversations as a Markdown page, one topic each, or replace one. "
        "memory_search first and update what exists: memory_read it, send its whole text with your changes (it "
        "replaces the body) and its `updated` as expected_updated; conflict: somebody else changed it, read again. "
        "Conflict without expected_updated: the path is taken, choose another. Mark what is private (health, money, "
        "relationships) with frontmatter.sensitivity 'sensitive'. No passwords or keys, nothing the person did not "
        "want kept. Answers the new `updated`; applied false: not saved, it waits for review."
    ),
    input_schema=parts.closed(
        {
            "path": {**parts.PATH, "description": "Such as projects/garden/plan: ASCII letters, digits, . _ -"},
            "body": {"type": "string", "description": "Markdown."},
            "frontmatter": {
                "type": "object",
                "description": (
                    "title, type (episodic, semantic, procedural), tags, sensitivity (normal, sensitive), partition, "
                    "lifecycle (active, validated, stale, archived), confidence, importance (0 to 1), valid_from, "
                    "valid_until (dates), expires (the page's end), source, derived_from, relations, x_* keys. On an "
                    "update it replaces all old keys but title, sensitivity and partition; left out, they stay."
                ),
            },
            "expected_updated": parts.EXPECTED_UPDATED,
        },
        ["path", "body"],
    ),
    output_schema=parts.closed(
        {
            "path": {"type": "string"},
            "id": {"type": ["string", "null"]},
            "updated": {"type": ["string", "null"], "format": "date-time"},
            "created": {"type": "boolean"},
            "applied": {"type": "boolean"},
            "proposal_id": {"type": ["string", "null"]},
        },
        ["path", "id", "updated", "created", "applied", "proposal_id"],
    ),
    annotations=Annotations(read_only=False, destructive=True, idempotent=False),
    scopes=(("memory:write",),),
)


class MemoryWrite:
    """The tool."""

    definition = DEFINITION

    def __init__(self, services: Services) -> None:
        self._services = services

    async def call(self, caller: Caller, arguments: JsonObject) -> ToolResult:
        """Write the page."""
        async with acting(self._services, caller) as who:
            written = await write_page(self._services, who, **take.page(arguments))
        if written.proposal_id is not None:
            waits: JsonObject = {
                "path": written.path,
                "id": None,
                "updated": None,
                "created": False,
                "applied": False,
                "proposal_id": written.proposal_id,
            }
            return ToolResult(waits, f"Not saved: it waits for review as {written.proposal_id}.")
        structured: JsonObject = {
            "path": written.path,
            "id": written.page_id,
            "updated": written.updated,
            "created": written.created,
            "applied": True,
            "proposal_id": None,
        }
        verb = "Created" if written.created else "Replaced"
        return ToolResult(structured, f"{verb} {written.path}; updated {written.updated}, id {written.page_id}.")
