"""``handoff_write``: leave unfinished work for another assistant, or mark it as done (PCP §6.5, TOOL-15)."""

from __future__ import annotations

from typing import Final

from zkpcp.core.handoffs import MAX_CONTENT, MAX_TITLE, STATUSES, Handoff
from zkpcp.core.instants import to_rfc3339
from zkpcp.core.schemas import JsonObject
from zkpcp.http.mcp.tools import arguments as take
from zkpcp.http.mcp.tools import parts
from zkpcp.http.mcp.tools.definition import Annotations, ToolDefinition, ToolResult
from zkpcp.usecases.access import Acting, Caller, acting
from zkpcp.usecases.handoffs import leave, set_status
from zkpcp.usecases.services import Services

DEFINITION: Final = ToolDefinition(
    name="handoff_write",
    title="Hand work over",
    description=(
        "Leave unfinished work for another of this person's assistants: `title`, `content` (Markdown: goal, what is "
        "done, what is next), `to` whom (anybody if left out), when they move on to another app or ask for it; "
        "lasting facts belong in memory_write. `id` and `status` alone mark one as done or open it again. Without "
        "`expires` it is gone after 30 days."
    ),
    input_schema=parts.closed(
        {
            "title": {"type": "string", "maxLength": MAX_TITLE},
            "content": {"type": "string", "maxLength": MAX_CONTENT},
            "to": {
                "type": "string",
                "description": "Its name, such as Claude Code.",
            },
            "expires": {"type": "string", "description": "An instant within a year."},
            "id": {"type": "string", "description": "Of handoff_list, to change it."},
            "status": {"type": "string", "enum": [*STATUSES]},
        }
    ),
    output_schema=parts.closed(
        {
            "id": {"type": "string"},
            "status": {"type": "string"},
            "updated": parts.INSTANT,
            "expires": parts.INSTANT,
            "created": {"type": "boolean"},
        },
        ["id", "status", "updated", "expires", "created"],
    ),
    annotations=Annotations(read_only=False, destructive=True, idempotent=False),
    scopes=(("ext.handoff:write",),),
)


class HandoffWrite:
    """The tool."""

    definition = DEFINITION

    def __init__(self, services: Services) -> None:
        self._services = services

    async def call(self, caller: Caller, arguments: JsonObject) -> ToolResult:
        """Leave a hand-off, or change one's status."""
        async with acting(self._services, caller) as who:
            if "id" in arguments:
                written = await self._change(who, arguments)
            else:
                written = await self._leave(who, caller, arguments)
        structured: JsonObject = {
            "id": written.id,
            "status": written.status,
            "updated": to_rfc3339(written.updated_ms),
            "expires": to_rfc3339(written.expires_ms),
            "created": "id" not in arguments,
        }
        return ToolResult(structured, f"Hand-off {written.id} is {written.status}, until {structured['expires']}.")

    async def _leave(self, who: Acting, caller: Caller, arguments: JsonObject) -> Handoff:
        return await leave(
            self._services,
            who,
            title=take.optional_text(arguments, "title"),
            content=take.optional_text(arguments, "content"),
            to=take.optional_text(arguments, "to"),
            expires=take.optional_text(arguments, "expires"),
            status=take.optional_text(arguments, "status"),
            sender=caller.access.grant.client_name,
        )

    async def _change(self, who: Acting, arguments: JsonObject) -> Handoff:
        return await set_status(
            self._services,
            who,
            take.text(arguments, "id"),
            take.optional_text(arguments, "status"),
            beside=sorted(arguments.keys() - {"id", "status"}),
        )
