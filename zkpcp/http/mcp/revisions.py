"""Which protocol revision a request speaks, and whether it is well formed there.

MCP 2026-07-28 (transports, versioning): every request names its version in a header and in ``params._meta``, and its
method and name in headers that must agree with the body. The revisions before it negotiate once, by ``initialize``,
and are read leniently. It does not say what a method answers.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from enum import Enum
from typing import Final

from zkpcp.core.schemas import JsonObject, JsonValue
from zkpcp.http.mcp.envelope import META, Message, Notification, PostedResponse, Request, RpcCode, RpcRefusedError

MODERN: Final = ("2026-07-28",)
LEGACY: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
# What we advertise. The two oldest are served to clients that name them, and recommended to nobody.
SUPPORTED: Final = ("2026-07-28", "2025-11-25", "2025-06-18")

# The member of params that the Mcp-Name header repeats, by method.
_NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

_BASE64_PREFIX: Final = "=?base64?"
_BASE64_SUFFIX: Final = "?="


class Era(Enum):
    """The two families of revisions, which differ in their envelope only."""

    LEGACY = "legacy"
    MODERN = "modern"


@dataclass(frozen=True, slots=True)
class RoutingHeaders:
    """The headers that repeat the body: ``version`` is None where absent; the others hold every value that was sent."""

    version: str | None
    methods: tuple[str, ...]
    names: tuple[str, ...]


def collapse_version(values: tuple[str, ...]) -> str | None:
    """Return the one version that the header's lines name; some clients and proxies send the same one twice."""
    if not values:
        return None
    named = dict.fromkeys(part.strip(" \t") for value in values for part in value.split(","))
    return ", ".join(named)


def choose_era(version: str | None, message: Message) -> Era:
    """Return the era that a message is served in; ``version`` is the header's."""
    if version is not None and version not in LEGACY:
        return Era.MODERN
    if isinstance(message, Request) and message.method != "initialize" and META + "protocolVersion" in message.meta():
        return Era.MODERN
    return Era.LEGACY


def is_tolerated_mix(version: str | None, request: Request) -> bool:
    """Say whether a request has a legacy header over a 2026-07-28 body, as some connectors are known to send."""
    return version in LEGACY and request.meta().get(META + "protocolVersion") in MODERN


def check_modern(request: Request, headers: RoutingHeaders, *, lenient_era: bool) -> None:
    """Check a request against MCP 2026-07-28, in the order in which its errors take precedence.

    ``lenient_era`` lets a request with a legacy version header pass by its ``_meta``. Raises ``RpcRefusedError``.
    """
    version = _check_shape(request, headers.version)
    by_meta = lenient_era and is_tolerated_mix(headers.version, request)
    if headers.version != version and not by_meta:
        raise _mismatch("MCP-Protocol-Version", "params._meta")
    _check_routing("Mcp-Method", headers.methods, request.method, required=not by_meta)
    named_by = _NAMED_BY.get(request.method)
    name = request.params.get(named_by) if named_by is not None and isinstance(request.params, dict) else None
    if isinstance(name, str):
        _check_routing("Mcp-Name", headers.names, name, required=not by_meta)
    if version not in MODERN:
        raise unsupported_version(version)


def check_unanswered(version: str | None, message: Message) -> None:
    """Refuse a notification of an unserved version, and an answer to a request that 2026-07-28 has no place for.

    Raises ``RpcRefusedError``; a request passes.
    """
    match message:
        case Notification() if version is not None and version not in MODERN + LEGACY:
            raise unsupported_version(version)
        case PostedResponse() if version is not None and version not in LEGACY:
            raise RpcRefusedError(RpcCode.INVALID_REQUEST, "this server makes no requests to answer")
        case _:
            return


def unsupported_version(requested: str) -> RpcRefusedError:
    """Return the refusal that lets a client choose another version."""
    supported: list[JsonValue] = [*SUPPORTED]
    return RpcRefusedError(
        RpcCode.UNSUPPORTED_PROTOCOL_VERSION,
        "this protocol version is not supported",
        {"supported": supported, "requested": requested},
    )


def _check_shape(request: Request, header_version: str | None) -> str:
    meta = request.meta()
    version = meta.get(META + "protocolVersion")
    if not isinstance(version, str) or not isinstance(meta.get(META + "clientCapabilities"), dict):
        if header_version is not None and header_version not in MODERN + LEGACY:
            raise unsupported_version(header_version)
        raise _malformed("params._meta must hold protocolVersion (a string) and clientCapabilities (an object)")
    _check_optional_meta(meta)
    if request.method == "tools/call" and isinstance(request.params, dict):
        check_tool_params(request.params)
    return version


def check_tool_params(params: JsonObject) -> tuple[str, JsonObject]:
    """Return the name and arguments of a ``tools/call``.

    Absent arguments are none. Raises ``RpcRefusedError`` (-32602).
    """
    name = params.get("name")
    arguments = params.get("arguments")
    if not isinstance(name, str):
        raise _malformed("params.name must be a string")
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise _malformed("params.arguments must be an object")
    return name, arguments


def _check_optional_meta(meta: JsonObject) -> None:
    client = meta.get(META + "clientInfo", {"name": "", "version": ""})
    if not isinstance(client, dict) or not all(isinstance(client.get(key), str) for key in ("name", "version")):
        raise _malformed("params._meta clientInfo must hold name and version")
    if not isinstance(meta.get(META + "logLevel", ""), str):
        raise _malformed("params._meta logLevel must be a string")
    token = meta.get("progressToken", "")
    if isinstance(token, bool) or not isinstance(token, str | int):
        raise _malformed("params._meta progressToken must be a string or an integer")


def _check_routing(header: str, values: tuple[str, ...], body: str, *, required: bool) -> None:
    if not values and not required:
        return
    if len(values) != 1 or decode_header_value(values[0]) != body:
        raise _mismatch(header, "the body")


def decode_header_value(value: str) -> str | None:
    """Return the text of a header value: plain ASCII, or base64 of UTF-8 in ``=?base64?…?=``; None if it is neither."""
    if not value.isascii() or not value.isprintable():
        return None
    wrapped = len(value) >= len(_BASE64_PREFIX) + len(_BASE64_SUFFIX)
    if not (wrapped and value.startswith(_BASE64_PREFIX) and value.endswith(_BASE64_SUFFIX)):
        return value
    try:
        return base64.b64decode(value[len(_BASE64_PREFIX) : -len(_BASE64_SUFFIX)], validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return None


def _mismatch(header: str, what: str) -> RpcRefusedError:
    return RpcRefusedError(RpcCode.HEADER_MISMATCH, f"the header {header} must be sent once and agree with {what}")


def _malformed(rule: str) -> RpcRefusedError:
    return RpcRefusedError(RpcCode.INVALID_PARAMS, rule)
