"""The real tools behind the real MCP endpoint, called in both eras at once.

``Doors`` holds two worlds that began alike, one for each era. Every call is made in both; every answer is checked
against MCP's own types, against the tool's output schema and against the other era's, and its audit entry is looked up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from mcp_types.methods import validate_server_result
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp

from tests.flows.support_mcp import LEGACY_VERSION, META, ORIGIN, VERSION, Reply, ask
from tests.flows.usecase_support import Granted, World
from zkpcp.core.audit import Entry
from zkpcp.core.schemas import JsonObject, Schemas
from zkpcp.http.mcp.mount import mcp_endpoint
from zkpcp.http.mcp.tools.catalog import tool_catalog
from zkpcp.http.mcp.tools.definition import Catalog
from zkpcp.http.site import Site
from zkpcp.testing import MemoryStore
from zkpcp.usecases.access import Caller

ERAS: Final = {"legacy": LEGACY_VERSION, "modern": VERSION}
SITE: Final = Site(origin=ORIGIN)

Grants = dict[str, Granted]


def endpoint_of(world: World) -> ASGIApp:
    """The MCP endpoint of a world's context, at the path that ``support_mcp.ask`` uses."""
    endpoint = mcp_endpoint(world.services, SITE, allowed_origins=frozenset())
    return Starlette(routes=[Route("/c/{handle}/mcp", endpoint)])


def without_envelope(result: dict[str, Any]) -> dict[str, Any]:
    """A result without the four keys in which the eras may differ."""
    bare = {name: value for name, value in result.items() if name not in ("resultType", "ttlMs", "cacheScope")}
    meta = bare.pop("_meta", {})
    rest = {name: value for name, value in meta.items() if name != META + "serverInfo"}
    return {**bare, "_meta": rest} if rest else bare


@dataclass(slots=True)
class Doors:
    """Two worlds that began alike, each behind an endpoint."""

    worlds: dict[str, World]
    apps: dict[str, ASGIApp]
    catalog: Catalog[Caller]

    @classmethod
    async def opened(cls, kind: str = "personal") -> Doors:
        """Found a context for each era."""
        worlds = {era: await World.founded(MemoryStore(), kind=kind) for era in ERAS}
        apps = {era: endpoint_of(world) for era, world in worlds.items()}
        return cls(worlds, apps, tool_catalog(worlds["modern"].services))

    def advance(self, by_ms: int) -> None:
        """Let time pass in both worlds."""
        for world in self.worlds.values():
            world.clock.advance(by_ms)

    async def switch(self, *extensions: str, on: bool = True) -> None:
        """The owner turns extensions on or off, in both worlds."""
        for world in self.worlds.values():
            await world.switch(*extensions, on=on)

    async def grant(self, *scopes: str) -> Grants:
        """The same grant in both worlds."""
        return {era: await world.grant(*scopes) for era, world in self.worlds.items()}

    async def call(self, granted: Grants, tool: str, arguments: JsonObject) -> dict[str, Any]:
        """Call a tool in both eras; the one result they agree on."""
        results = []
        for era, version in ERAS.items():
            before = len(self.worlds[era].tables().entries)
            reply = await ask(
                self.apps[era], era, "tools/call", {"name": tool, "arguments": arguments}, token=granted[era].token
            )
            assert reply.status == 200, reply.body
            result = reply.json()["result"]
            validate_server_result("tools/call", version, result)
            self._check_output(tool, result)
            logged = list(self.worlds[era].tables().entries.values())[before:]
            assert [row.action for row in logged] == [tool]
            assert (logged[0].outcome == "ok") is not result["isError"]
            results.append(without_envelope(result))
        assert results[0] == results[1]
        return results[0]

    async def done(self, granted: Grants, tool: str, arguments: JsonObject) -> dict[str, Any]:
        """Call a tool that succeeds; its structured content."""
        result = await self.call(granted, tool, arguments)
        assert not result["isError"], result
        structured: dict[str, Any] = result["structuredContent"]
        return structured

    async def refused(self, granted: Grants, tool: str, arguments: JsonObject) -> dict[str, Any]:
        """Call a tool that refuses; the error object, which the text repeats (TOOL-08)."""
        result = await self.call(granted, tool, arguments)
        assert result["isError"]
        error: dict[str, Any] = result["structuredContent"]["error"]
        assert result["content"][0]["text"] == f"{error['code']}: {error['message']}"
        assert all(violation["message"] for violation in error.get("violations", []))
        return error

    async def ask(self, granted: Grants, method: str, params: JsonObject | None = None) -> dict[str, Reply]:
        """Any request, in both eras."""
        return {era: await ask(self.apps[era], era, method, params, token=granted[era].token) for era in ERAS}

    async def last_entries(self) -> list[Entry]:
        """The newest entry of each access log."""
        return [await world.last_entry() for world in self.worlds.values()]

    def _check_output(self, tool: str, result: dict[str, Any]) -> None:
        entry = self.catalog.find(tool)
        assert entry is not None
        if not result["isError"]:
            output = Schemas({"output": entry.definition.output_schema})
            assert output.violations("output", result["structuredContent"]) == ()


def paths(error: dict[str, Any]) -> list[str]:
    """The fields that an ``invalid_input`` names."""
    return [violation["path"] for violation in error["violations"]]
