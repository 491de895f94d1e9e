"""How the outcome of a tool is spelled as an MCP result.

Implements TOOL-08 and TOOL-09 (§6.3): a failure is a result with ``isError``, its code in the text and in
``structuredContent.error``.
"""

from __future__ import annotations

from zkpcp.core.schemas import MAX_VIOLATIONS, JsonObject, JsonValue
from zkpcp.errors import (
    ForbiddenError,
    InvalidInputError,
    RateLimitedError,
    RefusedError,
    UnavailableError,
    Violation,
)
from zkpcp.http.mcp.tools.definition import ToolResult


def success(result: ToolResult) -> dict[str, object]:
    """Return the ``tools/call`` result of a success."""
    return {"content": [_text(result.text)], "structuredContent": result.structured, "isError": False}


def failure(error: RefusedError | UnavailableError) -> dict[str, object]:
    """Return the ``tools/call`` result of a failure; its message is the error's own, which holds no content."""
    details: JsonObject = {"code": error.code, "message": error.message}
    content: list[JsonValue] = [_text(f"{error.code}: {error.message}")]
    if isinstance(error, InvalidInputError) and error.violations:
        # Page rules name every item of a list that breaks them; the answer is as short as that of a schema.
        named = error.violations[:MAX_VIOLATIONS]
        details["violations"] = [{"path": broken.path, "message": broken.message} for broken in named]
        content.append(_text("\n".join(_sentence(broken) for broken in named)))
    if isinstance(error, ForbiddenError) and error.required_scopes:
        details["required_scopes"] = [*error.required_scopes]
    if isinstance(error, RateLimitedError):
        details["retry_after"] = error.retry_after_s
    return {"content": content, "structuredContent": {"error": details}, "isError": True}


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _sentence(broken: Violation) -> str:
    return f"{broken.path or 'the input'} {broken.message}"
