"""``partition_list``: the partitions of memory that are open to the caller (PCP §6.2, §5.3)."""

from __future__ import annotations

from typing import Final

from zkpcp.core.access import RIGHTS
from zkpcp.core.framing import Framed, frame_all, frame_page
from zkpcp.core.schemas import JsonObject
from zkpcp.http.mcp.tools import parts
from zkpcp.http.mcp.tools.definition import Annotations, ToolDefinition, ToolResult
from zkpcp.usecases.access import Caller, acting
from zkpcp.usecases.partitions import OpenPartition, list_partitions
from zkpcp.usecases.services import Services

DEFINITION: Final = ToolDefinition(
    name="partition_list",
    title="List memory partitions",
    description=(
        "List the partitions of memory open to you, what each is for, and what you may do there. Use the names as "
        "frontmatter.partition in memory_write, and as partition in memory_search and memory_list."
    ),
    input_schema=parts.closed({}),
    output_schema=parts.closed(
        {
            "partitions": parts.array_of(
                parts.closed(
                    {
                        "name": {"type": "string"},
                        "description": {"type": "string"},
                        "rights": parts.array_of({"type": "string", "enum": [*RIGHTS]}),
                    },
                    ["name", "description", "rights"],
                )
            )
        },
        ["partitions"],
    ),
    annotations=Annotations(read_only=True, destructive=False, idempotent=True),
    scopes=(("memory:read",),),
    feature="partitions",
)


class PartitionList:
    """The tool."""

    definition = DEFINITION

    def __init__(self, services: Services) -> None:
        self._services = services

    async def call(self, caller: Caller, _: JsonObject) -> ToolResult:
        """List partitions."""
        async with acting(self._services, caller) as who:
            found = await list_partitions(self._services, who)
        structured: JsonObject = {
            "partitions": [
                {"name": each.partition.name, "description": each.partition.description, "rights": [*each.rights]}
                for each in found
            ]
        }
        return ToolResult(structured, frame_all(map(_framed, found)) or "No partition is open to you.")


def _framed(item: OpenPartition) -> Framed:
    about = f"{item.partition.description}\n" if item.partition.description else ""
    return frame_page(f"partition/{item.partition.name}", "", f"{about}You may: {', '.join(item.rights)}.")
