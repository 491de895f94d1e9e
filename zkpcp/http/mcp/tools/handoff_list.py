"""``handoff_list``: unfinished work that other assistants have left (PCP §6.5, TOOL-15)."""

from __future__ import annotations

from typing import Final

from zkpcp.core.framing import Framed, frame_all, frame_page
from zkpcp.core.handoffs import STATUSES, Handoff
from zkpcp.core.instants import to_rfc3339
from zkpcp.core.schemas import JsonObject
from zkpcp.http.mcp.tools import arguments as take
from zkpcp.http.mcp.tools import parts
from zkpcp.http.mcp.tools.definition import Annotations, ToolDefinition, ToolResult
from zkpcp.usecases.access import Caller, acting
from zkpcp.usecases.handoffs import list_handoffs
from zkpcp.usecases.services import Services

DEFAULT_LIMIT: Final = 10
MAX_LIMIT: Final = 20
"""Each can be long, and an answer holds all of them whole."""

DEFINITION: Final = ToolDefinition(
    name="handoff_list",
    title="Look for handed-over work",
    description=(
        "List work that this person's other assistants left unfinished, the last changed first: when they ask to go "
        "on with something begun elsewhere. With `to`, your own name: what is for you or for anybody. Mark what is "
        "finished as done with handoff_write."
    ),
    input_schema=parts.closed(
        {
            "to": {"type": "string"},
            "status": {"type": "string", "enum": [*STATUSES], "default": "open"},
            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
            "cursor": parts.CURSOR,
        }
    ),
    output_schema=parts.closed(
        {
            "handoffs": parts.array_of(
                parts.closed(
                    {
                        "id": {"type": "string"},
                        "title": {"type": "string"},
                        "content": {"type": "string"},
                        "to": {"type": ["string", "null"]},
                        "from": {"type": "string"},
                        "status": {"type": "string"},
                        "created": parts.INSTANT,
                        "updated": parts.INSTANT,
                        "expires": parts.INSTANT,
                    },
                    ["id", "title", "content", "to", "from", "status", "created", "updated", "expires"],
                )
            ),
            "next_cursor": parts.NEXT_CURSOR,
        },
        ["handoffs", "next_cursor"],
    ),
    annotations=Annotations(read_only=True, destructive=False, idempotent=True),
    scopes=(("ext.handoff:read",),),
)


class HandoffList:
    """The tool."""

    definition = DEFINITION

    def __init__(self, services: Services) -> None:
        self._services = services

    async def call(self, caller: Caller, arguments: JsonObject) -> ToolResult:
        """List hand-offs."""
        async with acting(self._services, caller) as who:
            listed = await list_handoffs(
                self._services,
                who,
                to=take.optional_text(arguments, "to"),
                status=take.optional_text(arguments, "status") or "open",
                limit=take.number(arguments, "limit", DEFAULT_LIMIT),
                cursor=take.optional_text(arguments, "cursor"),
            )
        structured: JsonObject = {
            "handoffs": [_as_json(handoff) for handoff in listed.handoffs],
            "next_cursor": listed.next_cursor,
        }
        text = frame_all(_framed(handoff) for handoff in listed.handoffs) or "There are no such hand-offs."
        if listed.next_cursor:
            text += f"\n\nMore hand-offs: call again with cursor {listed.next_cursor}"
        return ToolResult(structured, text)


def _as_json(handoff: Handoff) -> JsonObject:
    return {
        "id": handoff.id,
        "title": handoff.title,
        "content": handoff.content,
        "to": handoff.to,
        "from": handoff.sender,
        "status": handoff.status,
        "created": to_rfc3339(handoff.created_ms),
        "updated": to_rfc3339(handoff.updated_ms),
        "expires": to_rfc3339(handoff.expires_ms),
    }


def _framed(handoff: Handoff) -> Framed:
    head = f"{handoff.title}\nfrom {handoff.sender}, to {handoff.to or 'whoever comes first'}"
    return frame_page(f"handoff/{handoff.id}", to_rfc3339(handoff.updated_ms), f"{head}\n\n{handoff.content}")
