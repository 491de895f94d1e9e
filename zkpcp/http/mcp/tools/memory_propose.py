"""``memory_propose``: suggest a page, or a change of one, to a reviewer (PCP §6.2, §5.4)."""

from __future__ import annotations

from typing import Final

from zkpcp.core.schemas import JsonObject
from zkpcp.http.mcp.tools import arguments as take
from zkpcp.http.mcp.tools import parts
from zkpcp.http.mcp.tools.definition import Annotations, ToolDefinition, ToolResult
from zkpcp.usecases.access import Caller, acting
from zkpcp.usecases.review import propose_page
from zkpcp.usecases.services import Services

DEFINITION: Final = ToolDefinition(
    name="memory_propose",
    title="Propose a memory page",
    description="Propose a page or a change; nothing is saved until a reviewer approves it. Arguments as memory_write.",
    input_schema=parts.closed(
        {
            "path": parts.PATH,
            "body": {"type": "string"},
            "frontmatter": {"type": "object"},
            "expected_updated": parts.EXPECTED_UPDATED,
        },
        ["path", "body"],
    ),
    output_schema=parts.closed(
        {"proposal_id": {"type": "string"}, "applied": {"const": False}}, ["proposal_id", "applied"]
    ),
    annotations=Annotations(read_only=False, destructive=False, idempotent=False),
    scopes=(("memory:propose",),),
    feature="review",
)


class MemoryPropose:
    """The tool."""

    definition = DEFINITION

    def __init__(self, services: Services) -> None:
        self._services = services

    async def call(self, caller: Caller, arguments: JsonObject) -> ToolResult:
        """Store the proposal."""
        async with acting(self._services, caller) as who:
            proposal_id = await propose_page(self._services, who, **take.page(arguments))
        return ToolResult(
            {"proposal_id": proposal_id, "applied": False}, f"Not saved: it waits for review as {proposal_id}."
        )
