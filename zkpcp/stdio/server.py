"""What the local runtime answers: the tools, errors and instructions of the HTTP endpoint in the package's envelope.

Implements AUTH-36, AUTH-43, TOOL-16 and TOOL-17 over stdio, in both families of revisions. There is no 403 here: a call
that lacks a scope gets the result ``forbidden`` with ``required_scopes`` (PCP §3.5). Nothing of a call is logged but an
incident's id, its exception's type and the tool's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import structlog
from mcp import MCPError, types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from zkpcp import __version__
from zkpcp.core.discovery import PCP_VERSION
from zkpcp.core.schemas import JsonObject
from zkpcp.core.stored import ContextRow
from zkpcp.errors import InvalidTokenError, UnavailableError
from zkpcp.http.mcp import dispatch, results
from zkpcp.http.mcp.envelope import Request, RpcCode, RpcRefusedError
from zkpcp.http.mcp.mount import SERVER_NAME, SERVER_TITLE, authenticator, gate_of, refusal_notes
from zkpcp.http.mcp.revisions import MODERN, Era
from zkpcp.http.mcp.tools.catalog import tool_catalog
from zkpcp.http.site import Site
from zkpcp.stdio.connection import Connection
from zkpcp.usecases.local import ENDED
from zkpcp.usecases.services import Services

CACHE_TTL_MS: Final = 300_000

_LOG: Final = structlog.stdlib.get_logger(__name__)
_DISCOVER: Final = "server/discover"
_LIST: Final = "tools/list"
_CALL: Final = "tools/call"
_NO_ID: Final = 0
"""The package keeps the ids of requests; the dispatcher below does not look at them."""

Ctx = ServerRequestContext[dict[str, Any]]


class LocalTools:
    """The methods that the dispatcher answers, for one connection."""

    def __init__(self, services: Services, site: Site, connection: Connection) -> None:
        self._services = services
        self._site = site
        self._connection = connection
        self._catalog = tool_catalog(services)
        self._authenticate = authenticator(services)
        self._note_refusal = refusal_notes(services)

    async def discover(self, ctx: Ctx, params: types.RequestParams | None) -> types.DiscoverResult:
        """Answer ``server/discover``."""
        del params
        return types.DiscoverResult.model_validate(await self._answer(ctx, Request(_NO_ID, _DISCOVER, {})))

    async def list(self, ctx: Ctx, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """Answer ``tools/list``: the tools that the granted scopes allow."""
        asked: JsonObject = {"cursor": params.cursor if params else None}
        result = await self._answer(ctx, Request(_NO_ID, _LIST, asked))
        return types.ListToolsResult.model_validate(result)

    async def call(self, ctx: Ctx, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Answer ``tools/call``."""
        asked: JsonObject = {"name": params.name, "arguments": params.arguments}
        try:
            result = await self._answer(ctx, Request(_NO_ID, _CALL, asked))
        except (dispatch.StepUpError, UnavailableError) as refused:
            result = results.failure(refused)
        return types.CallToolResult.model_validate(result)

    async def _answer(self, ctx: Ctx, request: Request) -> Mapping[str, object]:
        era = Era.MODERN if ctx.protocol_version in MODERN else Era.LEGACY
        try:
            return await dispatch.answer(
                request,
                era,
                await self._session(),
                catalog=self._catalog,
                server_info={},
                note_refusal=self._note_refusal,
            )
        except RpcRefusedError as refused:
            raise MCPError(int(refused.rpc_code), refused.message, refused.data) from None
        except InvalidTokenError:
            raise MCPError(int(RpcCode.INVALID_REQUEST), ENDED) from None
        except (dispatch.StepUpError, UnavailableError):
            raise
        except Exception as error:  # noqa: BLE001 - the process edge: whatever it is, its text stays here
            incident = self._incident(error, request)
        raise MCPError(int(RpcCode.INTERNAL_ERROR), f"internal error; incident {incident}", {"incident": incident})

    async def _session(self) -> dispatch.Session[Any]:
        context, token = await self._connection.access()
        gate = gate_of(self._site, context)
        admit = partial(self._authenticate, gate, token)
        return dispatch.Session(gate, await admit(), admit)

    def _incident(self, error: Exception, request: Request) -> str:
        name = request.params.get("name") if isinstance(request.params, dict) else None
        # Only names of ours: whatever else stands there is the client's text.
        tool = name if isinstance(name, str) and self._catalog.find(name) is not None else "-"
        incident = self._services.new_id("inc")
        _LOG.error("mcp_incident", incident=incident, exception=type(error).__name__, tool=tool)
        return incident


def local_server(services: Services, site: Site, context: ContextRow, connection: Connection) -> Server[dict[str, Any]]:
    """The package's server of one context over one connection."""
    gate = gate_of(site, context)
    tools = LocalTools(services, site, connection)
    hint = CacheHint(ttl_ms=CACHE_TTL_MS, scope="private")
    server = Server[dict[str, Any]](
        SERVER_NAME,
        version=__version__,
        title=SERVER_TITLE,
        instructions=gate.instructions(),
        cache_hints={_LIST: hint, _DISCOVER: hint},
        on_list_tools=tools.list,
        on_call_tool=tools.call,
    )
    server.add_request_handler(_DISCOVER, types.RequestParams, tools.discover)
    server.extensions = {dispatch.PCP_EXTENSION: {"pcp_version": PCP_VERSION, "discovery": gate.discovery_url}}
    # No spans about requests: what an exporter of the person who runs this would collect is not ours to decide.
    server.middleware.clear()
    return server


def refused_line(refused: RpcRefusedError) -> types.JSONRPCError:
    """The answer to a line that no id can be read from."""
    error = types.ErrorData(code=int(refused.rpc_code), message=refused.message)
    return types.JSONRPCError(jsonrpc="2.0", id=None, error=error)
