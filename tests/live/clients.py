"""Ways to call a server's tools: the reference client, bare HTTP for what that would not send, and a quick one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
import mcp
import orjson
from mcp.client.streamable_http import streamable_http_client

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

    async def call(self, name: str, arguments: Mapping[str, object]) -> dict[str, Any]:
        """The result of a tool call that HTTP and JSON-RPC let through."""
        reply = await self.post(name, arguments)
        assert reply.status_code == 200, reply.status_code
        message: dict[str, Any] = reply.json()
        assert "error" not in message, message["error"]
        result: dict[str, Any] = message["result"]
        return result

    async def post(self, name: str, arguments: Mapping[str, object]) -> httpx2.Response:
        return await self.post_raw(name, call_body(name, arguments))

    async def post_raw(self, name: str, body: bytes) -> httpx2.Response:
        """Send a body as it is, with the headers of a call of this tool."""
        return await self.http.post(self.url, content=body, headers=call_headers(self.token, name))


@dataclass(frozen=True, slots=True)
class QuickClient:
    """Tool calls, each on a connection of its own, with so little work per call that many keep the server busy."""

    url: str
    token: str = field(repr=False)

    async def call(self, name: str, arguments: Mapping[str, object]) -> dict[str, Any] | None:
        """The result of a tool call; None where no whole answer came, or none with status 200."""
        parts, body = urlsplit(self.url), call_body(name, arguments)
        headers = {**call_headers(self.token, name), "host": parts.netloc, "connection": "close"}
        lines = "".join(f"{header}: {value}\r\n" for header, value in headers.items())
        head = f"POST {parts.path} HTTP/1.1\r\n{lines}content-length: {len(body)}\r\n\r\n"
        try:
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
            writer.write(head.encode("ascii") + body)
            answer = await reader.read(-1)
            writer.close()
        except OSError:
            return None
        status, _, rest = answer.partition(b"\r\n")
        try:
            message: dict[str, Any] = orjson.loads(rest.partition(b"\r\n\r\n")[2])
        except ValueError:
            return None
        return message["result"] if status == b"HTTP/1.1 200 OK" else None


def call_body(name: str, arguments: Mapping[str, object]) -> bytes:
    """The JSON of a tool call in MCP 2026-07-28."""
    params = {
        "name": name,
        "arguments": dict(arguments),
        "_meta": {f"{_META}protocolVersion": MODERN, f"{_META}clientCapabilities": {}},
    }
    return orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})


def call_headers(token: str, name: str) -> dict[str, str]:
    """The headers that belong to it."""
    return {
        "authorization": f"Bearer {token}",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": MODERN,
        "mcp-method": "tools/call",
        "mcp-name": name,
    }


@asynccontextmanager
async def bare_client(url: str, token: str) -> AsyncIterator[BareClient]:
    """A bare client with its connections."""
    async with httpx2.AsyncClient(timeout=60) as http:
        yield BareClient(http, url, token)
