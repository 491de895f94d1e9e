"""``profile_update``: an RFC 7396 merge patch to a profile (PCP §6.2, PROF-03)."""

from __future__ import annotations

from typing import Final

import orjson

from zkpcp.core.framing import frame_all, frame_page
from zkpcp.core.schemas import JsonObject, Schemas
from zkpcp.http.mcp.tools import arguments as take
from zkpcp.http.mcp.tools import parts
from zkpcp.http.mcp.tools.definition import Annotations, ToolDefinition, ToolResult
from zkpcp.usecases.access import Caller, acting
from zkpcp.usecases.profile import update_profile
from zkpcp.usecases.services import Services

_DESCRIPTION: Final = (
    "Change the profile with a JSON merge patch (RFC 7396): given members replace, null removes, arrays are replaced "
    "whole (send the old items too), the rest stays. Only lasting facts about who this is, said by them and with "
    "their agreement; all else belongs in memory_write. `name` is required while there is anything else. An invalid "
    "result changes nothing and names what is wrong. Answers the profile (null if you may not read it) and the "
    "changed members."
)


def _definition(schemas: Schemas) -> ToolDefinition:
    return ToolDefinition(
        name="profile_update",
        title="Change the profile",
        description=_DESCRIPTION,
        input_schema=parts.closed(
            {
                "patch": {
                    "type": "object",
                    "description": (
                        "Members: name, preferred_name, pronouns, languages, locale, timezone, location, "
                        "communication, work, interests, ai_instructions."
                    ),
                },
                "namespace": {
                    "type": "string",
                    "description": (
                        "The context's own when left out. An extension such as pcp.health has other members: a "
                        "refused patch names them. References only, no account numbers or passwords."
                    ),
                },
            },
            ["patch"],
        ),
        output_schema=parts.closed(
            {
                "profile": {"type": ["object", "null"]},
                "updated": parts.INSTANT,
                "changed": parts.array_of({"type": "string"}),
            },
            ["profile", "updated", "changed"],
        ),
        annotations=Annotations(read_only=False, destructive=True, idempotent=True),
        scopes=parts.profile_groups(schemas, "write"),
    )


class ProfileUpdate:
    """The tool."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.definition = _definition(services.schemas)

    async def call(self, caller: Caller, arguments: JsonObject) -> ToolResult:
        """Patch the profile."""
        async with acting(self._services, caller) as who:
            changed = await update_profile(
                self._services,
                who,
                patch=arguments["patch"],
                namespace=take.optional_text(arguments, "namespace"),
            )
        # None also for a caller who may not read it: no :write implies a :read (SCOPE-01).
        profile = changed.profile
        structured: JsonObject = {
            "profile": profile,
            "updated": changed.updated,
            "changed": [*changed.members],
        }
        note = f"Updated {changed.updated}; changed: {', '.join(changed.members) or 'nothing'}."
        if profile is None:
            return ToolResult(structured, note)
        text = orjson.dumps(profile, option=orjson.OPT_INDENT_2).decode()
        return ToolResult(structured, f"{note}\n\n{frame_all([frame_page(changed.namespace, changed.updated, text)])}")
