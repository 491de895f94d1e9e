"""The yardstick: an endpoint with the same dispatcher, framework and server around a tool that gives back its argument.

``python -m bench.echo PORT``. What a memory call costs beyond an echo is ours; what the echo costs is HTTP, JSON and
the protocol. Tokens are not looked at, and nothing is stored, sealed or written down.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

import uvicorn
from fastapi import FastAPI
from starlette.routing import Route

from bench.live import Deployment, Server, free_port, running
from zkpcp.bootstrap import configure_logs, server_config
from zkpcp.cli.process import WIPING
from zkpcp.core.schemas import JsonObject
from zkpcp.http.mcp.endpoint import McpEndpoint, McpSettings
from zkpcp.http.mcp.gate import GateFacts, Locked, RequestPlace
from zkpcp.http.mcp.tools.definition import Annotations, Catalog, ToolDefinition, ToolResult

_TEXT: Final[JsonObject] = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}
PATH: Final = "/c/me/mcp"


@dataclass(frozen=True, slots=True)
class _Anybody:
    scopes: frozenset[str] = frozenset()


class _Echo:
    """The tool."""

    definition = ToolDefinition(
        name="echo",
        title="Echo",
        description="Gives back its argument.",
        input_schema=_TEXT,
        output_schema=_TEXT,
        annotations=Annotations(read_only=True, destructive=False, idempotent=True),
    )

    async def call(self, _caller: _Anybody, arguments: JsonObject) -> ToolResult:
        """Give it back, as the memory tools do: once as a value and once as text."""
        return ToolResult(arguments, str(arguments["text"]))


async def _resolve(place: RequestPlace) -> GateFacts | None:
    here = f"http://{place.host}"
    return GateFacts(
        context_id="echo",
        handle=place.handle or "",
        resource_metadata_url=here,
        default_scope="",
        discovery_url=here,
        instructions=lambda: "",
    )


async def _admit(gate: GateFacts, token: str) -> _Anybody | Locked:
    del gate, token
    return _Anybody()


def application() -> FastAPI:
    """The same application as the server's, with this one route."""
    settings = McpSettings(server_name="echo", server_title="echo", server_version="1", allowed_origins=frozenset())
    endpoint = McpEndpoint(Catalog([_Echo()]), _admit, _resolve, settings, incident_id=lambda: "incident")
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.router.routes.append(Route("/c/{handle}/mcp", endpoint))
    return app


@contextmanager
def serving_echo(deployment: Deployment, *, wipe_on_free: bool) -> Iterator[Server]:
    """The echo server in a process of its own, under the same allocators."""
    port = free_port()
    environment = deployment.environment() | dict(WIPING if wipe_on_free else {})
    with running([sys.executable, "-m", "bench.echo", str(port)], environment, port, "/") as server:
        yield server


def main() -> None:
    config = server_config(application(), host="127.0.0.1", port=int(sys.argv[1]))
    configure_logs()
    with suppress(KeyboardInterrupt):
        asyncio.run(uvicorn.Server(config).serve())


if __name__ == "__main__":
    main()
