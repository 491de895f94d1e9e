"""mcp-groundtruth: do the tools do what their annotations say? It calls each tool and compares what the context holds.

It knows stdio only, so the application runs behind ``stdio_bridge`` from one and the same seeded context, anew for
every session. What it compares is the content, in the clear: the database would show it ciphertext that differs every
time. Every tool that is listed has to be called here.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2

from tests.external.install import ROOT, Tools
from tests.external.programs import run
from tests.external.report import Finding
from tests.external.scene import PASSPHRASE, Scene
from tests.external.stdio_bridge import DATABASE, STATE_FILE, Bridge, content_of, settings_for
from zkpcp.bootstrap import build_app, prepare_database, running_services, site_of
from zkpcp.config import Settings
from zkpcp.core.discovery import mcp_url
from zkpcp.core.extensions import HANDOFF
from zkpcp.core.scopes import Offer, known_scopes
from zkpcp.usecases.extensions import set_extension
from zkpcp.usecases.found import found_context
from zkpcp.usecases.grants import create_grant
from zkpcp.usecases.session import open_session, sign_in
from zkpcp.vault.secrets import CHEAPEST

_CHECKER: Final = "mcp-groundtruth"
_TIMEOUT_S: Final = 600.0
_PAGE: Final = "notes/herons"
_BODY: Final = "# Herons\n\nThey nest early, above the weir.\n"
ARGUMENTS: Final[Mapping[str, Mapping[str, object]]] = {
    "context_brief": {},
    "memory_search": {"query": "herons"},
    "memory_read": {"path": _PAGE},
    "memory_list": {},
    "memory_write": {"path": "notes/otters", "body": "# Otters\n"},
    "memory_delete": {"path": _PAGE},
    "profile_get": {},
    "profile_update": {"patch": {"pronouns": "she/her"}},
    "audit_list": {},
    "handoff_write": {"title": "Nest boxes", "content": "Count them, then order more."},
    "handoff_list": {},
}
"""How each tool is called, such that it does what it is for."""


def check_annotations(tools: Tools, scene: Scene, results: Path) -> Finding:
    """Run the battery against every tool."""
    folder = scene.folder / "groundtruth"
    folder.mkdir()
    listed = _seeded(folder)
    missing = [f"{name}: groundtruth.ARGUMENTS does not say how to call it" for name in listed if name not in ARGUMENTS]
    if missing:
        return Finding(_CHECKER, "not every tool can be called", tuple(missing))
    runs = folder / "runs"
    options = ["--runs", "3", "--concurrent-attempts", "3", "--runs-dir", str(runs)]
    command = [tools.python_tool("mcpgt"), "run", str(folder), *options]
    ran = run(command, log=results / "groundtruth.log", cwd=ROOT, timeout_s=_TIMEOUT_S)
    reports = list(runs.glob("*/report.json"))
    if not reports:
        return Finding(_CHECKER, "no report", (ran.output[-1500:],))
    report = json.loads(reports[0].read_text(encoding="utf-8"))
    (results / "groundtruth.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
    return _finding(report, listed)


def _finding(report: Mapping[str, Any], listed: list[str]) -> Finding:
    verdicts = [(tool["tool"], verdict) for tool in report["tools"] for verdict in tool["verdicts"]]
    passed = [name for name, verdict in verdicts if verdict["outcome"] == "PASS"]
    problems = [
        f"{name} {verdict['test']}: {verdict['outcome']} {verdict.get('reason') or ''}".rstrip()
        for name, verdict in verdicts
        if verdict["outcome"] not in ("PASS", "NOT_APPLICABLE")
    ]
    # Where a hint promises nothing, the sessions still have to have run, and alike.
    problems += [
        f"{name} {verdict['test']}: {issue['detail']}"
        for name, verdict in verdicts
        for issue in verdict["issues"]
        if verdict["outcome"] == "NOT_APPLICABLE" and issue["reason"] in ("SETUP_FAILED", "NONDETERMINISTIC")
    ]
    problems += [f"{name}: not tested" for name in listed if name not in {name for name, _ in verdicts}]
    if not passed:
        problems.append("no verdict")
    return Finding(_CHECKER, f"{len(passed)} promises of {len(listed)} tools hold", tuple(problems))


@dataclass(frozen=True, slots=True)
class _Seed:
    """A context with two pages and a hand-off: what it holds, where it is, a token for it, the tools it lists."""

    content: str
    mcp_url: str
    token: str
    tools: list[str]
    handoff_id: str


def _seeded(folder: Path) -> list[str]:
    """Make the seed and the definition; returns the tools that the server lists."""
    settings = settings_for(folder)
    prepare_database(settings)
    seed = asyncio.run(_seed(settings))
    (folder / "seed.json").write_text(seed.content, encoding="utf-8")
    (folder / "fixture.toml").write_text(_definition(folder, seed), encoding="utf-8")
    return seed.tools


async def _seed(settings: Settings) -> _Seed:
    async with running_services(settings, argon2=CHEAPEST) as services:
        founded = await found_context(services, handle="me", kind="personal", passphrase=PASSPHRASE, name="Ada Example")
        session = await sign_in(services, founded.context, passphrase=PASSPHRASE)
        async with open_session(services, founded.context, session) as owner:
            await set_extension(services, owner, HANDOFF, enabled=True)
        async with services.store.read() as tx:
            extended = await tx.contexts.by_handle("me")
        assert extended is not None
        async with open_session(services, extended, session) as owner:
            scopes = " ".join(known_scopes(Offer("personal", (HANDOFF,))))
            token = (await create_grant(services, owner, client_name="a checker", scopes=scopes)).access.text()
        url = mcp_url(site_of(settings).facts(founded.context))
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(build_app(services, settings))) as http:
            bridge = Bridge(http, url, token)
            await bridge.call("memory_write", path=_PAGE, body=_BODY)
            await bridge.call("memory_write", path="notes/weir", body="# The weir\n")
            handoff = await bridge.call("handoff_write", title="Census", content="Half of the nests are counted.")
            content = await content_of(bridge)
            request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
            listed = json.loads(await bridge.send(json.dumps(request).encode()))["result"]["tools"]
    return _Seed(content, url, token, [str(tool["name"]) for tool in listed], handoff["id"])


def _definition(folder: Path, seed: _Seed) -> str:
    environment = {
        "PYTHONPATH": str(ROOT),
        "BRIDGE_SEED": str(folder / DATABASE),
        "BRIDGE_URL": seed.mcp_url,
        "BRIDGE_TOKEN": seed.token,
    }
    lines = [
        "[fixture]",
        'name = "zkpcp"',
        f"command = {json.dumps([sys.executable, '-m', 'tests.external.stdio_bridge'])}",
        "[fixture.env]",
        *(f"{name} = {json.dumps(value)}" for name, value in environment.items()),
        "[state]",
        f'locations = ["json:{STATE_FILE}"]',
        "[[adapters]]",
        'kind = "json"',
        f'label = "{STATE_FILE}"',
        'seed = "seed.json"',
        'business = ["pages", "profile", "handoffs"]',
    ]
    for name in seed.tools:
        lines += ["[[tools]]", f'name = "{name}"', f"arguments = {_toml(ARGUMENTS.get(name, {}))}"]
    # The same tool as one that changes what is there.
    done = _toml({"id": seed.handoff_id, "status": "done"})
    lines += ["[[tools]]", 'name = "handoff_write"', 'variant = "done"', f"arguments = {done}"]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    return json.dumps(value)
