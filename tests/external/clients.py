"""Checkers that need no fixture tools: mcp-authlab, mcpcheck, and the TypeScript SDK as a client."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any, Final

from tests.external.install import HERE, ROOT, Tools
from tests.external.programs import run
from tests.external.report import Finding
from tests.external.scene import Scene

_TIMEOUT_S: Final = 120.0
_AUTHLAB: Final = "mcp-authlab"
_MCPCHECK: Final = "mcpcheck"
_SDK: Final = "TypeScript SDK"
_WARNS: Final = {"TLS-01": "the server under test is on loopback, without TLS"}
_SKIPS: Final = {
    "SESS-01": "the server is stateless",
    "SESS-02": "the server is stateless",
}


def check_authlab(tools: Tools, scene: Scene, results: Path) -> Finding:
    """Sign in through the consent page, then scan with those tokens and a token of the other context.

    Each context is its own authorization server here and mints for its own MCP URL alone, so the second token that
    ``login`` wants is of the same resource: that way the check of the redirect URI at the token endpoint runs. The
    token of a foreign audience for the scan is the other context's.
    """
    program = tools.python_tool("mcp-authlab")
    url = scene.mine.mcp_url
    tokens = {"MCP_AUTHLAB_TOKENS": str(scene.folder / "authlab.json")}
    browser = {"BROWSER": f"{' '.join(browser_command(scene))} %s"}
    login = [program, "login", url, "--thorough", "--foreign-resource", url, "--timeout", "30", "--no-color"]
    ran = run(login, log=results / "authlab-login.log", cwd=ROOT, timeout_s=_TIMEOUT_S, more={**tokens, **browser})
    if ran.status != 0:
        return Finding(_AUTHLAB, "no sign-in", (ran.output[-500:],))
    out = results / "authlab.json"
    scan = [program, "scan", url, "--fail-under", "A", "--format", "json", "--output", str(out), "--no-color"]
    foreign = {"MCP_AUTHLAB_FOREIGN_TOKEN": scene.other.token}
    ran = run(scan, log=results / "authlab-scan.log", cwd=ROOT, timeout_s=_TIMEOUT_S, more={**tokens, **foreign})
    if not out.is_file():
        return Finding(_AUTHLAB, "no report", (ran.output[-500:],))
    return _authlab_finding(json.loads(out.read_text(encoding="utf-8")))


def _authlab_finding(report: dict[str, Any]) -> Finding:
    allowed = {"warn": _WARNS, "skip": _SKIPS}
    odd = [entry for entry in report["results"] if entry["status"] != "pass"]
    problems = [
        f"{entry['id']} {entry['status']}: {entry['message']}"
        for entry in odd
        if entry["id"] not in allowed.get(entry["status"], {})
    ]
    if report["grade"] != "A":
        problems.append(f"grade {report['grade']}")
    summary = f"grade {report['grade']}, {report['counts']['pass']} checks passed, {report['coverage']['line']}"
    baselined = tuple(f"{entry['id']}: {({**_WARNS, **_SKIPS})[entry['id']]}" for entry in odd if not problems)
    return Finding(_AUTHLAB, summary, tuple(problems), baselined)


def check_mcpcheck(tools: Tools, scene: Scene, results: Path) -> Finding:
    """Every check of mcpcheck, warnings and inconclusive ones counted as failures."""
    out = results / "mcpcheck.json"
    options = ["--strict", "--probe", "all", "--legacy-probes", "--no-color", "-o", str(out)]
    command = [tools.python_tool("mcpcheck"), scene.mine.mcp_url, *options]
    token = {"MCPCHECK_TOKEN": scene.mine.token}
    ran = run(command, log=results / "mcpcheck.log", cwd=ROOT, timeout_s=_TIMEOUT_S, more=token)
    last = ran.output.strip().splitlines()[-1:] or ["no output"]
    return Finding(_MCPCHECK, last[0].strip(), () if ran.status == 0 else (ran.output[-1500:],))


def check_typescript_sdk(tools: Tools, scene: Scene, results: Path) -> Finding:
    """The SDK's ``auth()`` from the MCP URL alone, tool calls, a refresh, and a call with the new token."""
    script = tools.node_folder / "sdk_client.mjs"
    shutil.copy(HERE / "sdk_client.mjs", script)
    command = [tools.node, str(script), scene.mine.mcp_url, *browser_command(scene)]
    ran = run(command, log=results / "typescript-sdk.log", cwd=ROOT, timeout_s=_TIMEOUT_S)
    if ran.status != 0:
        return Finding(_SDK, "the flow broke off", (ran.output[-1500:],))
    said = json.loads(ran.output.strip().splitlines()[-1])
    (results / "typescript-sdk.json").write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")
    return Finding(_SDK, f"registered, signed in, called tools, refreshed; {len(said['tools'])} tools")


def browser_command(scene: Scene) -> list[str]:
    """The program that approves; the authorization URL comes last. It has to run in the project's folder."""
    return [sys.executable, "-m", "tests.external.browser", str(scene.browser_state)]
