"""The public MCP conformance suite: the server's scenarios of a revision, and the authorization server's.

Many scenarios want fixture tools, prompts or resources that a memory server does not have. Those stand, check by check
and with the reason, in ``baseline-<revision>.yml``, in the suite's own format. A check that fails and does not stand
there is a problem; so is an entry whose check passes, or did not run.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import Any, Final

import httpx2
import yaml  # type: ignore[import-untyped]  # the package ships no types

from tests.external.bearer_proxy import bearer_proxy
from tests.external.browser import browser
from tests.external.install import HERE, Tools
from tests.external.programs import end_group, run
from tests.external.report import Finding
from tests.external.scene import PASSPHRASE, Scene
from tests.support.server import free_port

REVISIONS: Final = ("2025-11-25", "2026-07-28")
_TIMEOUT_S: Final = 180.0
_AUTHORIZATION_TIMEOUT_S: Final = 60.0
_BAD: Final = ("FAILURE", "WARNING")


@dataclass(frozen=True, slots=True)
class Check:
    """One check of one scenario, by the name that a baseline calls it."""

    name: str
    status: str
    message: str


def check_server(tools: Tools, scene: Scene, results: Path, revision: str) -> Finding:
    """Every server scenario of a revision's frozen set."""
    out = results / f"suite-{revision}"
    baseline = HERE / f"baseline-{revision}.yml"
    with bearer_proxy(scene.server.port, scene.mine.token) as port:
        url = scene.mine.mcp_url.replace(f":{scene.server.port}/", f":{port}/")
        options = ["--url", url, "--requirements", revision, "--expected-failures", str(baseline), "-o", str(out)]
        command = [*tools.suite, "server", *options]
        ran = run(command, log=results / f"suite-{revision}.log", cwd=tools.node_folder, timeout_s=_TIMEOUT_S)
    expected = frozenset(yaml.safe_load(baseline.read_text(encoding="utf-8"))["server"])
    return judge(f"MCP conformance, server, {revision}", list(_checks(out)), expected, ran.status)


def check_authorization(tools: Tools, scene: Scene, results: Path) -> Finding:
    """The authorization server's scenarios, with a code grant through the real consent page."""
    out = results / "suite-authorization"
    port = free_port()
    redirect_uri = f"http://127.0.0.1:{port}/callback"
    metadata = {"client_name": "MCP conformance", "redirect_uris": [redirect_uri]}
    with httpx2.Client(trust_env=False, timeout=30) as http:
        client_id = http.post(f"{scene.mine.base_url}/register", json=metadata).raise_for_status().json()["client_id"]
    options = ["--url", scene.mine.base_url, "--client-id", client_id, "--resource", scene.mine.mcp_url]
    command = [*tools.suite, "authorization", *options, "-p", str(port), "-o", str(out)]
    log = results / "suite-authorization.log"
    with _started(command, tools.node_folder) as process:
        status = _approve_what_it_prints(process, log)
    checks = list(_checks(out))
    finding = judge("MCP conformance, authorization", checks, frozenset(), status)
    if any(check.name.startswith("authorization-code-grant:") and check.status == "SUCCESS" for check in checks):
        return finding
    return replace(finding, problems=(*finding.problems, "authorization-code-grant: did not pass"))


def judge(checker: str, checks: list[Check], expected: frozenset[str], status: int) -> Finding:
    """Hold what the suite found against a baseline."""
    failing = {check.name: check.message for check in checks if check.status in _BAD}
    good = Counter(check.status for check in checks)["SUCCESS"]
    problems = [f"{name}: {message}" for name, message in failing.items() if name not in expected]
    problems += [f"{name}: in the baseline, but it does not fail" for name in sorted(expected - failing.keys())]
    if not good:
        problems.append("no check passed")
    if status != 0 and not problems:
        problems.append(f"the suite ended with status {status}")
    baselined = tuple(sorted(expected & failing.keys()))
    summary = f"{good} checks passed, {len(baselined)} baselined with a reason"
    return Finding(checker, summary, tuple(problems), baselined)


def _checks(out: Path) -> Iterator[Check]:
    """Every check in a folder of the suite's results: ``<whose>-<scenario>-<time>/checks.json``."""
    for path in sorted(out.glob("*/checks.json")):
        scenario = re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", path.parent.name)
        scenario = re.sub(r"^(authorization-server|server)-", "", scenario)
        entries: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        for entry in entries:
            yield Check(f"{scenario}:{entry['id']}", entry["status"], str(entry.get("errorMessage", ""))[:200])


@contextmanager
def _started(command: list[str], cwd: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        end_group(process)


def _approve_what_it_prints(process: subprocess.Popen[bytes], log: Path) -> int:
    """Open the first authorization URL the suite prints, as its person would, and wait for its end."""
    reading = Thread(target=_read_and_approve, args=(process, log), daemon=True)
    reading.start()
    try:
        status = process.wait(_AUTHORIZATION_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        status = 1
        end_group(process)
    reading.join(_AUTHORIZATION_TIMEOUT_S)
    return status


def _read_and_approve(process: subprocess.Popen[bytes], log: Path) -> None:
    assert process.stdout is not None
    approved = False
    with log.open("wb") as out, browser(PASSPHRASE) as person:
        for line in process.stdout:
            out.write(line)
            out.flush()
            found = re.search(rb"http://\S+/authorize\?\S+", line)
            if found and not approved:
                approved = True
                try:
                    person.deliver(person.approve(found[0].decode("ascii")))
                except Exception as error:  # noqa: BLE001 - the suite then reports that nobody came back
                    sys.stderr.write(f"the browser gave up: {error}\n")
