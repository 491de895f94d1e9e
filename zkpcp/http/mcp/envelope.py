"""What one JSON-RPC message is, and how an answer to it is spelled.

JSON-RPC 2.0 as MCP narrows it: one object per POST, an id is a string or an integer, never null; refusals carry the
request's id, and none where it could not be read. MCP 2026-07-28 adds four members to a result; nothing else differs
between the revisions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from http import HTTPStatus
from typing import Final, TypeAlias

from zkpcp.core.schemas import JsonObject, JsonValue
from zkpcp.errors import RefusedError

RequestId: TypeAlias = str | int

META: Final = "io.modelcontextprotocol/"


class RpcCode(IntEnum):
    """The error codes this endpoint answers with: JSON-RPC's own, and two of MCP 2026-07-28."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    HEADER_MISMATCH = -32020
    UNSUPPORTED_PROTOCOL_VERSION = -32022


# HTTP statuses of errors in MCP 2026-07-28, where not 400. It assigns none to an internal error.
MODERN_STATUS: Final = {
    RpcCode.METHOD_NOT_FOUND: HTTPStatus.NOT_FOUND,
    RpcCode.INTERNAL_ERROR: HTTPStatus.OK,
}


class RpcRefusedError(RefusedError):
    """The message cannot be served, and JSON-RPC has a code for why; the message names a rule, never a value."""

    def __init__(self, rpc_code: RpcCode, message: str, data: JsonObject | None = None) -> None:
        super().__init__(message)
        self.rpc_code = rpc_code
        self.data = data


@dataclass(frozen=True, slots=True)
class Request:
    """A message that wants an answer; ``params`` is as the client sent it, None where absent."""

    id: RequestId
    method: str
    # Not in the repr: arguments are content.
    params: JsonValue = field(repr=False)

    def meta(self) -> JsonObject:
        """Return ``params._meta``, empty where there is none."""
        meta = self.params.get("_meta") if isinstance(self.params, dict) else None
        return meta if isinstance(meta, dict) else {}


@dataclass(frozen=True, slots=True)
class Notification:
    """A message that wants no answer."""

    method: str


@dataclass(frozen=True, slots=True)
class PostedResponse:
    """A client's answer to a request that this server never makes."""


Message: TypeAlias = Request | Notification | PostedResponse


def read_message(value: JsonValue) -> Message:
    """Return the one message that a body holds; raises ``RpcRefusedError`` (-32600)."""
    if isinstance(value, list):
        raise RpcRefusedError(RpcCode.INVALID_REQUEST, "a batch is not supported; send one message per request")
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        raise RpcRefusedError(RpcCode.INVALID_REQUEST, "the body must be one JSON-RPC 2.0 object")
    if "method" not in value and ("result" in value or "error" in value):
        return PostedResponse()
    method = value.get("method")
    if not isinstance(method, str):
        raise RpcRefusedError(RpcCode.INVALID_REQUEST, "method must be a string")
    if "id" not in value:
        return Notification(method)
    request_id = value["id"]
    # bool is an int in Python, and JSON's true is no id.
    if isinstance(request_id, bool) or not isinstance(request_id, str | int):
        raise RpcRefusedError(RpcCode.INVALID_REQUEST, "id must be a string or an integer")
    return Request(request_id, method, value.get("params"))


def result_message(request_id: RequestId, result: Mapping[str, object]) -> dict[str, object]:
    """Return the answer that carries ``result``."""
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def error_message(
    request_id: RequestId | None, code: RpcCode, message: str, data: JsonObject | None = None
) -> JsonObject:
    """Return the answer that carries an error; without an id where ``request_id`` is None."""
    error: JsonObject = {"code": int(code), "message": message}
    if data is not None:
        error["data"] = data
    answer: JsonObject = {"jsonrpc": "2.0", "error": error}
    if request_id is not None:
        answer["id"] = request_id
    return answer


def stamp_modern(result: Mapping[str, object], *, server_info: JsonObject, ttl_ms: int | None) -> dict[str, object]:
    """Return ``result`` with what MCP 2026-07-28 adds to it.

    ``ttl_ms`` is None where the method's result is not cacheable.
    """
    stamped: dict[str, object] = {"resultType": "complete", **result}
    if ttl_ms is not None:
        # Private: lists depend on the token, and instructions on the context.
        stamped |= {"ttlMs": ttl_ms, "cacheScope": "private"}
    own = result.get("_meta", {})
    stamped["_meta"] = {**(own if isinstance(own, dict) else {}), META + "serverInfo": server_info}
    return stamped
