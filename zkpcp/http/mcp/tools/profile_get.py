"""``profile_get``: the profiles this connection may read (PCP §6.2, PROF-05)."""

from __future__ import annotations

from typing import Final

import orjson

from zkpcp.core.framing import frame_all, frame_page
from zkpcp.core.schemas import JsonObject, Schemas
from zkpcp.http.mcp.tools import arguments as take
from zkpcp.http.mcp.tools import parts
from zkpcp.http.mcp.tools.definition import Annotations, ToolDefinition, ToolResult
from zkpcp.usecases.access import Caller, acting
from zkpcp.usecases.profile import CORE, TEAM, get_profiles
from zkpcp.usecases.services import Services

_DESCRIPTION: Final = (
    "Read who this is: name, languages, location, work, interests, how they want to be answered (communication, "
    "ai_instructions). null: empty or not open to you. context_brief includes it: call this to see it whole, or "
    "before profile_update. `extensions`: further parts open to you, such as pcp.health; ask only for those you need."
)


def _definition(schemas: Schemas) -> ToolDefinition:
    return ToolDefinition(
        name="profile_get",
        title="Read the profile",
        description=_DESCRIPTION,
        input_schema=parts.closed(
            {
                "namespaces": {
                    "type": "array",
                    "maxItems": 16,
                    "items": {"type": "string"},
                    "description": "Such as profile.core; all when left out.",
                }
            }
        ),
        output_schema=parts.closed(
            {
                "profile": {"type": ["object", "null"]},
                "team": {"type": ["object", "null"]},
                "extensions": {"type": "object", "additionalProperties": {"type": ["object", "null"]}},
            },
            ["profile", "team", "extensions"],
        ),
        annotations=Annotations(read_only=True, destructive=False, idempotent=True),
        scopes=parts.profile_groups(schemas, "read"),
    )


class ProfileGet:
    """The tool."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.definition = _definition(services.schemas)

    async def call(self, caller: Caller, arguments: JsonObject) -> ToolResult:
        """Read the profiles."""
        async with acting(self._services, caller) as who:
            found = await get_profiles(self._services, who, take.optional_texts(arguments, "namespaces"))
        structured: JsonObject = {
            "profile": found.by_namespace.get(CORE),
            "team": found.by_namespace.get(TEAM),
            "extensions": {name: data for name, data in found.by_namespace.items() if name not in (CORE, TEAM)},
        }
        blocks = [
            frame_page(
                name, str(profile.get("updated", "")), orjson.dumps(profile, option=orjson.OPT_INDENT_2).decode()
            )
            for name, profile in found.by_namespace.items()
            if profile is not None
        ]
        return ToolResult(structured, frame_all(blocks) or "The profile is empty.")
