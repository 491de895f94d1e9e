"""``python -m tests.external``: install the checkers, set the scene, run them all, print a table.

Results lie in ``build/conformance/results``. Ends with status 1 when anything failed that is not in a baseline, or
stands in one and passes. Takes a few minutes; the first time also what the downloads take.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.external.clients import check_authlab, check_mcpcheck, check_typescript_sdk
from tests.external.groundtruth import check_annotations
from tests.external.install import BUILD, ROOT, Tools, install
from tests.external.programs import ConformanceError
from tests.external.report import Finding, table, write_summary
from tests.external.scene import Scene, scene
from tests.external.suite import REVISIONS, check_authorization, check_server


def main() -> int:
    """Run every checker."""
    results = BUILD / "results"
    try:
        tools = install()
        shutil.rmtree(results, ignore_errors=True)
        results.mkdir()
        with tempfile.TemporaryDirectory(prefix="zkpcp-conformance-") as folder, scene(Path(folder)) as made:
            findings = [_said(check) for check in _checks(tools, made, results)]
    except ConformanceError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    write_summary(results / "summary.json", findings)
    sys.stdout.write(f"\n{table(findings)}\n\nResults: {results.relative_to(ROOT)}\n")
    return 0 if all(finding.passed for finding in findings) else 1


def _checks(tools: Tools, made: Scene, results: Path) -> list[Callable[[], Finding]]:
    return [
        *(lambda revision=revision: check_server(tools, made, results, revision) for revision in REVISIONS),
        lambda: check_authorization(tools, made, results),
        lambda: check_authlab(tools, made, results),
        lambda: check_mcpcheck(tools, made, results),
        lambda: check_typescript_sdk(tools, made, results),
        lambda: check_annotations(tools, made, results),
    ]


def _said(check: Callable[[], Finding]) -> Finding:
    finding = check()
    sys.stdout.write(f"{finding.checker}: {finding.summary}\n")
    sys.stdout.flush()
    return finding


if __name__ == "__main__":
    sys.exit(main())
