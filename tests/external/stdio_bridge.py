"""The server's own application behind standard input and output, with a fixed token: for checkers that know stdio only.

Not a way to run the server: `zkpcp stdio` is. This one keeps its database in ``MCPGT_STATE_DIR``, begins with the seed
it finds beside the definition, and at its end writes ``context.json``: what the context then holds, in the clear, as
the tools' hints speak of it. The access log is not in it, since every call has to be recorded there, reading too.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any, Final

import httpx2

from zkpcp.bootstrap import build_app, configure_logs, running_services
from zkpcp.config import Settings, load_settings
from zkpcp.vault.secrets import CHEAPEST

STATE_FILE: Final = "context.json"
DATABASE: Final = "zkpcp.db"
REVISION: Final = "2025-11-25"
_WITH_TIMES: Final = frozenset({"created", "updated", "recorded_at", "expires", "id"})


class Bridge:
    """One client's messages to the application, each an HTTP request in process."""

    def __init__(self, http: httpx2.AsyncClient, url: str, token: str) -> None:
        self._http = http
        self._url = url
        self._headers = {
            "authorization": f"Bearer {token}",
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            "mcp-protocol-version": REVISION,
        }

    async def send(self, message: bytes) -> bytes:
        """The answer to a message; empty for a notification."""
        return (await self._http.post(self._url, content=message, headers=self._headers)).content

    async def call(self, name: str, **arguments: object) -> dict[str, Any]:
        """The structured result of a tool call."""
        params = {"name": name, "arguments": arguments}
        request = {"jsonrpc": "2.0", "id": "bridge", "method": "tools/call", "params": params}
        result: dict[str, Any] = json.loads(await self.send(json.dumps(request).encode()))["result"][
            "structuredContent"
        ]
        return result


async def serve(settings: Settings, url: str, token: str) -> str:
    """Answer until the input ends; returns what the context then holds."""
    async with running_services(settings, argon2=CHEAPEST) as services:
        transport = httpx2.ASGITransport(build_app(services, settings))
        async with httpx2.AsyncClient(transport=transport) as http:
            bridge = Bridge(http, url, token)
            await _answer_lines(bridge)
            return await content_of(bridge)


async def content_of(bridge: Bridge) -> str:
    """What the context holds as JSON: pages, profile and hand-offs, without what differs from run to run."""
    listed = (await bridge.call("memory_list"))["pages"]
    pages = [_without_times(await bridge.call("memory_read", path=page["path"])) for page in listed]
    profiles = _without_times(await bridge.call("profile_get"))
    handoffs = [
        _without_times(handoff)
        for status in ("open", "done")
        for handoff in (await bridge.call("handoff_list", status=status))["handoffs"]
    ]
    return json.dumps({"pages": pages, "profile": [profiles], "handoffs": handoffs}, indent=1)


def settings_for(folder: Path) -> Settings:
    """The settings of a server with its database in this folder."""
    return load_settings(data_dir=folder, database_url=f"sqlite:///{folder.absolute() / DATABASE}")


async def _answer_lines(bridge: Bridge) -> None:
    async def answer(line: bytes) -> None:
        if reply := await bridge.send(line):
            sys.stdout.buffer.write(reply + b"\n")
            sys.stdout.buffer.flush()

    async with asyncio.TaskGroup() as answering:
        while line := await asyncio.to_thread(sys.stdin.buffer.readline):
            answering.create_task(answer(line))


def _without_times(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        return {name: _without_times(item) for name, item in value.items() if name not in _WITH_TIMES}
    return [_without_times(item) for item in value] if isinstance(value, list) else value


def main() -> None:
    """Serve what the environment names."""
    configure_logs()  # to standard error: standard output is the client's
    state, seed = Path(os.environ["MCPGT_STATE_DIR"]), Path(os.environ["BRIDGE_SEED"])
    if not (state / DATABASE).exists():
        shutil.copy(seed, state / DATABASE)
    content = asyncio.run(serve(settings_for(state), os.environ["BRIDGE_URL"], os.environ["BRIDGE_TOKEN"]))
    (state / STATE_FILE).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
