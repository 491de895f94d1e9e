"""``memory_delete``: take a page out of memory (PCP §6.2, ERA-07).

Annotated idempotent: the same call again finds nothing to delete, answers ``not_found`` and changes nothing.
"""

from __future__ import annotations

from typing import Final

from zkpcp.core.schemas import JsonObject
from zkpcp.http.mcp.tools import arguments as take
from zkpcp.http.mcp.tools import parts
from zkpcp.http.mcp.tools.definition import Annotations, ToolDefinition, ToolResult
from zkpcp.usecases.access import Caller, acting
from zkpcp.usecases.forget import delete_page
from zkpcp.usecases.services import Services

DEFINITION: Final = ToolDefinition(
    name="memory_delete",
    title="Delete a memory page",
    description=(
        "Delete one page by path or id (exactly one), only when the person asked or agreed. To correct it use "
        "memory_write, to retire it lifecycle 'archived'. Read it first and send its `updated` as expected_updated; a "
        "conflict: it changed. You cannot undo this: only the owner can recover it, until recoverable_until. "
        "not_found also means: not open to you."
    ),
    input_schema=parts.closed({"path": parts.PATH, "id": parts.PAGE_ID, "expected_updated": parts.EXPECTED_UPDATED}),
    output_schema=parts.closed(
        {"deleted": {"const": True}, "id": {"type": "string"}, "recoverable_until": parts.INSTANT},
        ["deleted", "id", "recoverable_until"],
    ),
    annotations=Annotations(read_only=False, destructive=True, idempotent=True),
    scopes=(("memory:write",),),
)


class MemoryDelete:
    """The tool."""

    definition = DEFINITION

    def __init__(self, services: Services) -> None:
        self._services = services

    async def call(self, caller: Caller, arguments: JsonObject) -> ToolResult:
        """Delete the page."""
        async with acting(self._services, caller) as who:
            gone = await delete_page(
                self._services,
                who,
                path=take.optional_text(arguments, "path"),
                page_id=take.optional_text(arguments, "id"),
                expected_updated=take.optional_text(arguments, "expected_updated"),
            )
        # Not the path: to a caller who named the page by its id it is stored content.
        structured: JsonObject = {
            "deleted": True,
            "id": gone.page_id,
            "recoverable_until": gone.recoverable_until,
        }
        return ToolResult(
            structured, f"Deleted {gone.page_id}; only the owner can recover it, until {gone.recoverable_until}."
        )
