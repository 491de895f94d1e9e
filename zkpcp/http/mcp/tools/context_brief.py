"""``context_brief``: the good first call (PCP §6.2, TOOL-11)."""

from __future__ import annotations

from typing import Final

import orjson

from zkpcp.core.framing import Framed, frame_all, frame_page
from zkpcp.core.instants import to_rfc3339
from zkpcp.core.schemas import JsonObject
from zkpcp.http.mcp.tools import arguments as take
from zkpcp.http.mcp.tools import parts
from zkpcp.http.mcp.tools.definition import Annotations, ToolDefinition, ToolResult
from zkpcp.http.mcp.tools.memory_list import line_of
from zkpcp.usecases.access import Caller, acting
from zkpcp.usecases.brief import Brief, BriefPage, LeftOut, brief
from zkpcp.usecases.recall import head_as_json
from zkpcp.usecases.services import Services

DEFAULT_CHARS: Final = 8000

DEFINITION: Final = ToolDefinition(
    name="context_brief",
    title="Brief me on this context",
    description=(
        "Call first in a conversation: whose context this is, their profile (how they like to be answered) and the "
        "most useful recent pages, within max_chars. Never fails for a missing right: left_out names what is not in "
        "it and the scopes that open it. Then memory_search for the matter at hand."
    ),
    input_schema=parts.closed(
        {
            "max_chars": {
                "type": "integer",
                "minimum": 500,
                "maximum": 50000,
                "default": DEFAULT_CHARS,
            }
        }
    ),
    output_schema=parts.closed(
        {
            "context": parts.closed(
                {"kind": {"type": "string"}, "controller": {"type": "string"}}, ["kind", "controller"]
            ),
            "profile": {"type": ["object", "null"]},
            "pages": parts.array_of(
                parts.head({"text": {"type": "string"}, "cut": {"type": "boolean"}}, ["text", "cut"])
            ),
            "left_out": parts.array_of(
                parts.closed(
                    {"what": {"type": "string"}, "required_scopes": parts.array_of({"type": "string"})},
                    ["what", "required_scopes"],
                )
            ),
        },
        ["context", "profile", "pages", "left_out"],
    ),
    annotations=Annotations(read_only=True, destructive=False, idempotent=True),
)


class ContextBrief:
    """The tool."""

    definition = DEFINITION

    def __init__(self, services: Services) -> None:
        self._services = services

    async def call(self, caller: Caller, arguments: JsonObject) -> ToolResult:
        """Brief the caller."""
        async with acting(self._services, caller) as who:
            result = await brief(self._services, who, max_chars=take.number(arguments, "max_chars", DEFAULT_CHARS))
        return ToolResult(_structured(result), _text(result))


def _structured(result: Brief) -> JsonObject:
    return {
        "context": {"kind": result.kind, "controller": result.controller},
        "profile": result.profile,
        "pages": [{**head_as_json(page.head), "text": page.text, "cut": page.cut} for page in result.pages],
        "left_out": [{"what": item.what, "required_scopes": [*item.required_scopes]} for item in result.left_out],
    }


def _text(result: Brief) -> str:
    blocks: list[Framed] = []
    if result.profile is not None:
        profile = orjson.dumps(result.profile, option=orjson.OPT_INDENT_2).decode()
        blocks.append(frame_page("profile", str(result.profile.get("updated", "")), profile))
    blocks.extend(_framed(page) for page in result.pages)
    head = f"This is a {result.kind} context, controlled by {result.controller}."
    left_out = [_sentence(item) for item in result.left_out]
    return "\n\n".join(part for part in (head, frame_all(blocks), "\n".join(left_out)) if part)


def _framed(page: BriefPage) -> Framed:
    rest = "\n(cut here: memory_read gives the rest)" if page.cut else ""
    return frame_page(
        page.head.path.value, to_rfc3339(page.head.updated_ms), f"{line_of(page.head)}\n{page.text}{rest}"
    )


def _sentence(item: LeftOut) -> str:
    scopes = f" (scopes: {' '.join(item.required_scopes)})" if item.required_scopes else ""
    return f"Left out: {item.what}{scopes}."
