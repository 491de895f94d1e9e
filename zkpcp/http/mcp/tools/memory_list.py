"""``memory_list``: what pages there are, by path (PCP §6.2)."""

from __future__ import annotations

from typing import Final

from zkpcp.core.framing import frame_all, frame_page
from zkpcp.core.instants import to_rfc3339
from zkpcp.core.pages import Head
from zkpcp.core.schemas import JsonObject
from zkpcp.http.mcp.tools import arguments as take
from zkpcp.http.mcp.tools import parts
from zkpcp.http.mcp.tools.definition import Annotations, ToolDefinition, ToolResult
from zkpcp.usecases.access import Caller, acting
from zkpcp.usecases.filters import Filters
from zkpcp.usecases.recall import head_as_json, list_pages
from zkpcp.usecases.services import Services

DEFINITION: Final = ToolDefinition(
    name="memory_list",
    title="List memory pages",
    description=(
        "List pages by path, without their text: to see what there is, or all of a folder (prefix "
        "'projects/garden/'). To find what pages say, use memory_search instead. next_cursor is null at the end."
    ),
    input_schema=parts.closed(
        {
            "prefix": parts.PATH,
            "limit": parts.LIMIT,
            "cursor": parts.CURSOR,
            "type": parts.TYPE,
            "tags": parts.TAGS,
            "partition": parts.PARTITION,
            "include_stale": {"type": "boolean", "default": True},
            "include_archived": {"type": "boolean", "default": False},
        }
    ),
    output_schema=parts.closed(
        {"pages": parts.array_of(parts.head()), "next_cursor": parts.NEXT_CURSOR}, ["pages", "next_cursor"]
    ),
    annotations=Annotations(read_only=True, destructive=False, idempotent=True),
    scopes=(("memory:read",),),
)


class MemoryList:
    """The tool."""

    definition = DEFINITION

    def __init__(self, services: Services) -> None:
        self._services = services

    async def call(self, caller: Caller, arguments: JsonObject) -> ToolResult:
        """List pages."""
        filters = Filters(
            prefix=take.optional_text(arguments, "prefix") or "",
            type=take.optional_text(arguments, "type"),
            tags=take.texts(arguments, "tags"),
            partition=take.optional_text(arguments, "partition"),
            include_stale=take.flag(arguments, "include_stale", default=True),
            include_archived=take.flag(arguments, "include_archived"),
        )
        async with acting(self._services, caller) as who:
            listed = await list_pages(
                self._services,
                who,
                filters=filters,
                limit=take.number(arguments, "limit", 20),
                cursor=take.optional_text(arguments, "cursor"),
            )
        structured: JsonObject = {
            "pages": [head_as_json(head) for head in listed.heads],
            "next_cursor": listed.next_cursor,
        }
        if not listed.heads:
            return ToolResult(structured, "No pages here.")
        framed = frame_all(
            frame_page(head.path.value, to_rfc3339(head.updated_ms), line_of(head)) for head in listed.heads
        )
        more = f"\n\nMore pages: call again with cursor {listed.next_cursor}" if listed.next_cursor else ""
        return ToolResult(structured, framed + more)


def line_of(head: Head) -> str:
    """A page in one line: its title, and the dates that say when it holds."""
    dates = [f"{name} {value}" for name, value in (("from", head.valid_from), ("until", head.valid_until)) if value]
    notes = [*dates, *([head.lifecycle] if head.lifecycle != "active" else [])]
    return head.title + (f" ({', '.join(notes)})" if notes else "")
