"""Two ways to call a server's tools: the reference client, and bare HTTP for what that client would not send."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import httpx2
import mcp
from mcp.client.streamable_http import streamable_http_client

from zkpcp.core.schemas import JsonObject

LEGACY: Final = "2025-11-25"
MODERN: Final = "2026-07-28"
_META: Final = "io.modelcontextprotocol/"


@asynccontextmanager
async def reference_client(url: str, token: str, mode: str = "auto") -> AsyncIterator[mcp.Client]:
    """The ``mcp`` package's client, connected with a token."""
    headers = {"authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        mcp.Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


@dataclass(frozen=True, slots=True)
class BareClient:
    """Tool calls over HTTP, one POST each, in MCP 2026-07-28."""

    http: httpx2.AsyncClient
    url: str
    token: str = field(repr=False)

    async def call(self, name: str, arguments: Mapping[str, object]) -> JsonObject:
        """The result of a tool call that HTTP and JSON-RPC let through."""
        reply = await self.post(name, arguments)
        assert reply.status_code == 200, reply.status_code
        message: dict[str, Any] = reply.json()
        assert "error" not in message, message["error"]
        result: JsonObject = message["result"]
        return result

    async def post(self, name: str, arguments: Mapping[str, object]) -> httpx2.Response:
        params = {
            "name": name,
            "arguments": dict(arguments),
            "_meta": {f"{_META}protocolVersion": MODERN, f"{_META}clientCapabilities": {}},
        }
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return await self.http.post(self.url, json=request, headers=self.headers(name))

    async def post_raw(self, name: str, body: bytes) -> httpx2.Response:
        """Send a body as it is, with the headers of a call of this tool."""
        return await self.http.post(self.url, content=body, headers=self.headers(name))

    def headers(self, name: str) -> dict[str, str]:
        return {
            "authorization": f"Bearer {self.token}",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": MODERN,
            "mcp-method": "tools/call",
            "mcp-name": name,
        }


@asynccontextmanager
async def bare_client(url: str, token: str, *, connections: int = 20) -> AsyncIterator[BareClient]:
    """A bare client with its connections."""
    limits = httpx2.Limits(max_connections=connections)
    async with httpx2.AsyncClient(timeout=60, limits=limits) as http:
        yield BareClient(http, url, token)
