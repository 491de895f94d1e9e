"""``memory_search``: find pages by what they say (PCP §6.2, §5.5)."""

from __future__ import annotations

from typing import Final

from zkpcp.core.framing import Framed, frame_all, frame_page
from zkpcp.core.instants import to_rfc3339
from zkpcp.core.schemas import JsonObject
from zkpcp.http.mcp.tools import arguments as take
from zkpcp.http.mcp.tools import parts
from zkpcp.http.mcp.tools.definition import Annotations, ToolDefinition, ToolResult
from zkpcp.http.mcp.tools.memory_list import line_of
from zkpcp.usecases.access import Caller, acting
from zkpcp.usecases.filters import Filters
from zkpcp.usecases.recall import head_as_json
from zkpcp.usecases.search import Found, Results, search_pages
from zkpcp.usecases.services import Services

DEFINITION: Final = ToolDefinition(
    name="memory_search",
    title="Search memory",
    description=(
        "Find pages by words: before you answer what may depend on things this person or team has told you, and "
        "before you write a new page. Give distinctive words in the language of the notes, not a whole question. "
        "Answers the best pages, each with a snippet and why it matched: memory_read a page before you rely on it. "
        "Nothing found is not never said: try other words; some pages may be closed to you. searched_all false: not "
        "everything was searched. as_of searches what pages said then, as_of_exact: whether completely."
    ),
    input_schema=parts.closed(
        {
            "query": {
                "type": "string",
                "minLength": 1,
                "maxLength": 1000,
                "description": 'Words; or "a phrase", -without, tag:x.',
            },
            "limit": {**parts.LIMIT, "default": 10},
            "cursor": parts.CURSOR,
            "type": parts.TYPE,
            "tags": parts.TAGS,
            "partition": parts.PARTITION,
            "path_prefix": parts.PATH,
            "include_stale": {"type": "boolean", "default": True},
            "include_archived": {"type": "boolean", "default": False},
            "as_of": parts.AS_OF,
        },
        ["query"],
    ),
    output_schema=parts.closed(
        {
            "results": parts.array_of(
                parts.head(
                    {"score": {"type": "number"}, "snippet": {"type": "string"}, "why": {"type": "string"}},
                    ["score", "snippet", "why"],
                )
            ),
            "searched_all": {"type": "boolean"},
            "as_of": {"type": ["string", "null"]},
            "as_of_exact": {"type": "boolean"},
            "next_cursor": parts.NEXT_CURSOR,
        },
        ["results", "searched_all", "as_of", "as_of_exact", "next_cursor"],
    ),
    annotations=Annotations(read_only=True, destructive=False, idempotent=True),
    scopes=(("memory:read",),),
)


class MemorySearch:
    """The tool."""

    definition = DEFINITION

    def __init__(self, services: Services) -> None:
        self._services = services

    async def call(self, caller: Caller, arguments: JsonObject) -> ToolResult:
        """Search."""
        filters = Filters(
            prefix=take.optional_text(arguments, "path_prefix") or "",
            prefix_field="/path_prefix",
            type=take.optional_text(arguments, "type"),
            tags=take.texts(arguments, "tags"),
            partition=take.optional_text(arguments, "partition"),
            include_stale=take.flag(arguments, "include_stale", default=True),
            include_archived=take.flag(arguments, "include_archived"),
        )
        async with acting(self._services, caller) as who:
            results = await search_pages(
                self._services,
                who,
                query=take.text(arguments, "query"),
                filters=filters,
                limit=take.number(arguments, "limit", 10),
                cursor=take.optional_text(arguments, "cursor"),
                as_of=take.optional_text(arguments, "as_of"),
            )
        return ToolResult(_structured(results), _text(results))


def _structured(results: Results) -> JsonObject:
    return {
        "results": [
            {**head_as_json(found.head), "score": found.score, "snippet": found.snippet, "why": found.why}
            for found in results.found
        ],
        "searched_all": results.searched_all,
        "as_of": results.as_of,
        "as_of_exact": results.as_of_exact,
        "next_cursor": results.next_cursor,
    }


def _text(results: Results) -> str:
    if not results.found:
        return "Nothing found. Try other or fewer words."
    framed = frame_all(_framed(found) for found in results.found)
    notes = []
    if not results.searched_all:
        notes.append("Not everything could be searched; other words or another call may find more.")
    if not results.as_of_exact:
        notes.append("Something of that time may be lacking, deleted pages for example, so this answer is not exact.")
    if results.next_cursor:
        notes.append(f"More results: call again with cursor {results.next_cursor}")
    return "\n\n".join([framed, *notes])


def _framed(found: Found) -> Framed:
    head = found.head
    text = f"{line_of(head)}\n{found.snippet}\n[{found.why}]"
    return frame_page(head.path.value, to_rfc3339(head.updated_ms), text)
