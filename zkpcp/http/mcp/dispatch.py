"""What a method answers.

One function for both families of revisions (AUTH-03): it knows no HTTP and no envelope. Implements AUTH-36, AUTH-38,
TOOL-06, TOOL-08 and TOOL-16. It holds nothing between two calls.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol

from zkpcp.core.discovery import PCP_VERSION
from zkpcp.core.schemas import JsonObject
from zkpcp.errors import (
    ChangedKeysError,
    CorruptError,
    ForbiddenError,
    InvalidInputError,
    InvalidTokenError,
    LockedError,
    RefusedError,
    UnavailableError,
)
from zkpcp.http.mcp import results
from zkpcp.http.mcp.envelope import Request, RpcCode, RpcRefusedError
from zkpcp.http.mcp.gate import GateFacts, Locked
from zkpcp.http.mcp.revisions import LEGACY, SUPPORTED, Era, check_tool_params
from zkpcp.http.mcp.tools.definition import C, C_contra, Caller, Catalog, CatalogEntry

PCP_EXTENSION: Final = "io.github.pcp-protocol/pcp"

_METHODS: Final = {
    Era.MODERN: frozenset({"server/discover", "tools/list", "tools/call"}),
    Era.LEGACY: frozenset({"initialize", "ping", "tools/list", "tools/call"}),
}
CACHEABLE: Final = frozenset({"server/discover", "tools/list"})


class StepUpError(ForbiddenError):
    """The token can never make this call; ``required_scopes`` names all that the call needs."""


@dataclass(frozen=True, slots=True)
class Session(Generic[C]):
    """Who asks, and where; it ends with the request. ``admit_again`` looks the same token up once more."""

    gate: GateFacts
    caller: C | Locked
    admit_again: Callable[[], Awaitable[C | Locked]]


class NoteRefusal(Protocol[C_contra]):
    """Writes the audit entry of a call that is refused before its tool runs (AUD-05); the tool writes all others."""

    async def __call__(self, caller: C_contra | Locked, tool_name: str, refused: RefusedError) -> None:
        """Write the entry. What it raises goes to the client in place of the refusal: no entry, no answer."""
        ...


async def note_nothing(caller: Caller | Locked, tool_name: str, refused: RefusedError) -> None:
    """Stands in where nothing is audited, as in tests of the protocol alone."""


async def answer(
    request: Request,
    era: Era,
    session: Session[C],
    *,
    catalog: Catalog[C],
    server_info: JsonObject,
    note_refusal: NoteRefusal[C] = note_nothing,
) -> Mapping[str, object]:
    """Return the result of a request, without what its revision's envelope adds.

    Raises ``RpcRefusedError``, ``StepUpError``, ``InvalidTokenError``; anything else is an incident.
    """
    if request.method not in _METHODS[era]:
        raise RpcRefusedError(RpcCode.METHOD_NOT_FOUND, "there is no such method in this protocol version")
    params = request.params if request.params is not None else {}
    if not isinstance(params, dict):
        raise RpcRefusedError(RpcCode.INVALID_PARAMS, "params must be an object")
    match request.method:
        case "initialize":
            return _initialize(params, session.gate, server_info)
        case "ping":
            return {}
        case "server/discover":
            # Beside the server's identity and not in the extension's settings, which are the protocol's to define. It
            # is the fingerprint of all tools: what a token may list of them differs from token to token.
            about: JsonObject = {PCP_EXTENSION: {"catalog": catalog.fingerprint}}
            return {"supportedVersions": [*SUPPORTED], **_abilities(session.gate), "_meta": about}
        case "tools/list":
            return _list(params, catalog, session)
        case _:
            return await _call(params, catalog, session, note_refusal)


def _initialize(params: JsonObject, gate: GateFacts, server_info: JsonObject) -> Mapping[str, object]:
    wanted = params.get("protocolVersion")
    if not isinstance(wanted, str):
        raise RpcRefusedError(RpcCode.INVALID_PARAMS, "params.protocolVersion must be a string")
    agreed = wanted if wanted in LEGACY else LEGACY[0]
    return {"protocolVersion": agreed, "serverInfo": server_info, **_abilities(gate)}


def _abilities(gate: GateFacts) -> Mapping[str, object]:
    extension: JsonObject = {"pcp_version": PCP_VERSION, "discovery": gate.discovery_url}
    return {
        "capabilities": {"tools": {"listChanged": False}, "extensions": {PCP_EXTENSION: extension}},
        "instructions": gate.instructions(),
    }


def _list(params: JsonObject, catalog: Catalog[C], session: Session[C]) -> Mapping[str, object]:
    if params.get("cursor") is not None:
        raise RpcRefusedError(RpcCode.INVALID_PARAMS, "params.cursor was not given out by this server")
    return {"tools": catalog.listing(session.caller.scopes, session.gate.offered)}


async def _call(
    params: JsonObject, catalog: Catalog[C], session: Session[C], note_refusal: NoteRefusal[C]
) -> Mapping[str, object]:
    name, arguments = check_tool_params(params)
    entry, offered = catalog.find(name), session.gate.offered
    if entry is None or not entry.definition.is_served(offered):
        raise RpcRefusedError(RpcCode.INVALID_PARAMS, "there is no such tool")
    caller = session.caller
    missing: Sequence[str] = () if caller.scopes is None else entry.definition.missing_scopes(caller.scopes, offered)
    if missing:
        step_up = StepUpError("the call needs more scopes", missing)
        await note_refusal(caller, name, step_up)
        raise step_up
    if isinstance(caller, Locked):
        return await _refuse(LockedError(caller.message), name, caller, note_refusal)
    violations = entry.violations(arguments)
    if violations:
        broken = InvalidInputError("the arguments break the tool's input schema", violations)
        return await _refuse(broken, name, caller, note_refusal)
    try:
        try:
            return await _run(entry, caller, arguments)
        except ChangedKeysError:
            # Nothing was done, and the client need not know: the call is as good as one that came a moment later.
            caller = await session.admit_again()
            if isinstance(caller, Locked):
                return await _refuse(LockedError(caller.message), name, caller, note_refusal)
            return await _run(entry, caller, arguments)
    except InvalidTokenError:
        # A key that should open and does not: the token ends here, as it would have at the door.
        raise
    except (RefusedError, UnavailableError) as refused:
        return results.failure(refused)


async def _refuse(
    refused: RefusedError, tool_name: str, caller: C | Locked, note_refusal: NoteRefusal[C]
) -> Mapping[str, object]:
    await note_refusal(caller, tool_name, refused)
    return results.failure(refused)


async def _run(entry: CatalogEntry[C], caller: C, arguments: JsonObject) -> Mapping[str, object]:
    result = await entry.tool.call(caller, arguments)
    if not entry.is_output(result.structured):
        raise CorruptError("a result breaks the tool's output schema")
    return results.success(result)
