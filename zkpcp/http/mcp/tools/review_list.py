"""``review_list``: what waits for review or was rejected (PCP §6.2, §5.4, SEC-11)."""

from __future__ import annotations

from typing import Final, cast

from zkpcp.core.framing import Framed, frame_all, frame_page
from zkpcp.core.instants import to_rfc3339
from zkpcp.core.pages import serialize
from zkpcp.core.schemas import JsonObject
from zkpcp.core.stored import ProposalState
from zkpcp.http.mcp.tools import arguments as take
from zkpcp.http.mcp.tools import parts
from zkpcp.http.mcp.tools.definition import Annotations, ToolDefinition, ToolResult
from zkpcp.usecases.access import Caller, acting
from zkpcp.usecases.review import Listed, list_proposals
from zkpcp.usecases.services import Services

DEFINITION: Final = ToolDefinition(
    name="review_list",
    title="List proposals",
    description="Proposed pages that wait for review, or rejected ones, newest first: yours, or all if you may review.",
    input_schema=parts.closed(
        {
            "state": {"type": "string", "enum": ["proposed", "rejected"], "default": "proposed"},
            "limit": parts.LIMIT,
            "cursor": parts.CURSOR,
        }
    ),
    output_schema=parts.closed(
        {
            "proposals": parts.array_of(
                parts.closed(
                    {
                        "proposal_id": {"type": "string"},
                        "review": {"enum": ["proposed", "rejected"]},
                        "created": parts.INSTANT,
                        "path": {"type": "string"},
                        "frontmatter": {"type": "object"},
                        "body": {"type": "string"},
                    },
                    ["proposal_id", "review", "created", "path", "frontmatter", "body"],
                )
            ),
            "next_cursor": parts.NEXT_CURSOR,
        },
        ["proposals", "next_cursor"],
    ),
    annotations=Annotations(read_only=True, destructive=False, idempotent=True),
    scopes=(("review:read",),),
    feature="review",
)


class ReviewList:
    """The tool."""

    definition = DEFINITION

    def __init__(self, services: Services) -> None:
        self._services = services

    async def call(self, caller: Caller, arguments: JsonObject) -> ToolResult:
        """List proposals."""
        state: ProposalState = "rejected" if arguments.get("state") == "rejected" else "proposed"
        async with acting(self._services, caller) as who:
            found = await list_proposals(
                self._services,
                who,
                state=state,
                limit=take.number(arguments, "limit", 20),
                cursor=take.optional_text(arguments, "cursor"),
            )
        structured: JsonObject = {
            "proposals": [_item(each) for each in found.proposals],
            "next_cursor": found.next_cursor,
        }
        return ToolResult(structured, frame_all(map(_framed, found.proposals)) or "There are no such proposals.")


def _item(item: Listed) -> JsonObject:
    return {
        "proposal_id": item.proposal_id,
        "review": item.state,
        "created": to_rfc3339(item.created_ms),
        "path": item.page.path.value,
        "frontmatter": cast("JsonObject", item.page.plain_frontmatter()),
        "body": item.page.body,
    }


def _framed(item: Listed) -> Framed:
    text = f"proposal_id: {item.proposal_id}\n{serialize(item.page).decode()}"
    return frame_page(item.page.path.value, to_rfc3339(item.created_ms), text, item.state)
