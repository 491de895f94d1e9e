"""Where the processor time of a call goes, in the parts that a reader of the code knows.

A server process samples itself: a timer on its own processor time interrupts it every few milliseconds, and the
innermost frame that belongs to a named part gets the sample; cryptography counts for whoever called it. A long call
into C is seen when it returns, to the frame that made it. Shares are good to a few percent; they are no benchmark.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Final

from bench.live import Deployment, free_port, running
from bench.load import Kind, make_calls
from bench.scene import Scene, calls_of, plan_for
from zkpcp.bootstrap import serve
from zkpcp.cli.process import WIPING
from zkpcp.config import load_settings

KINDS: Final[tuple[Kind, ...]] = ("read", "write", "search")
SAMPLE_S: Final = 0.001

# By the end of a file's path, the first that fits; what is left out counts for its caller.
_PARTS: Final = (
    ("zkpcp/vault/holders.py", "token to keyring"),
    ("zkpcp/vault/seeds.py", "token to keyring"),
    ("zkpcp/vault/keyring.py", "token to keyring"),
    ("zkpcp/usecases/access.py", "token to keyring"),
    ("zkpcp/vault/", "sealing and opening"),
    ("zkpcp/core/terms.py", "search terms"),
    ("zkpcp/core/ranking.py", "ranking and snippets"),
    ("zkpcp/usecases/search.py", "ranking and snippets"),
    ("zkpcp/core/audit.py", "access log"),
    ("zkpcp/usecases/audit_log.py", "access log"),
    ("zkpcp/usecases/call.py", "access log"),
    ("zkpcp/core/", "page format"),
    ("zkpcp/storage/", "storage"),
    ("/aiosqlite/", "storage"),
    ("/asyncpg/", "storage"),
    ("zkpcp/http/", "HTTP and MCP"),
    ("zkpcp/usecases/", "the use case itself"),
    ("/starlette/", "HTTP and MCP"),
    ("/fastapi/", "HTTP and MCP"),
    ("/uvicorn/", "HTTP and MCP"),
    ("/asyncio/", "event loop"),
)
_WAITING: Final = "/selectors.py"


def measure(scene: Scene) -> dict[str, dict[str, float]]:
    """The share of each part in percent, by kind of call."""
    deployment = scene.filled(scene.size.http_pages).deployment
    with scene.task(f"{scene.engine}: sampling", len(KINDS)) as done:
        shares: dict[str, dict[str, float]] = {}
        for kind in KINDS:
            shares[kind] = _shares(_sampled(scene, deployment, kind))
            done(1)
        return shares


def _sampled(scene: Scene, deployment: Deployment, kind: Kind) -> dict[str, int]:
    port = free_port()
    result = deployment.folder / f"{kind}.json"
    environment = deployment.environment(port=port) | dict(WIPING)
    command = [sys.executable, "-m", "bench.hot_path", str(result)]
    with running(command, environment, port, "/healthz") as server:
        calls = scene.size.rounds * calls_of(scene.size, kind)
        make_calls(plan_for(deployment, server, kind, calls, scene.size.http_pages))
    samples: dict[str, int] = json.loads(result.read_text(encoding="utf-8"))
    return samples


def _shares(samples: dict[str, int]) -> dict[str, float]:
    total = sum(samples.values()) or 1
    ordered = sorted(samples.items(), key=lambda item: -item[1])
    return {part: 100 * count / total for part, count in ordered}


def part_of(frame: FrameType | None) -> str:
    """The part that a stack is working for."""
    for name in _files(frame):
        for ending, part in _PARTS:
            if ending in name:
                return part
    return "the rest"


def _files(frame: FrameType | None) -> Iterator[str]:
    while frame is not None:
        yield frame.f_code.co_filename
        frame = frame.f_back


def _sample_into(samples: Counter[str], frame: FrameType | None) -> None:
    if frame is not None and frame.f_code.co_filename.endswith(_WAITING):
        # The event loop waits, so another thread is at work: the database's, or the one that computes for a use case.
        here = threading.get_ident()
        parts = {part_of(other) for ident, other in sys._current_frames().items() if ident != here}  # noqa: SLF001 - the one way
        samples["storage" if "storage" in parts else "event loop"] += 1
        return
    samples[part_of(frame)] += 1


def main() -> None:
    samples: Counter[str] = Counter()
    # uvicorn raises the signal that stopped it once more, for whoever wants to know.
    signal.signal(signal.SIGINT, lambda _number, _frame: None)
    signal.signal(signal.SIGPROF, lambda _number, frame: _sample_into(samples, frame))
    signal.setitimer(signal.ITIMER_PROF, SAMPLE_S, SAMPLE_S)
    asyncio.run(serve(load_settings()))
    signal.setitimer(signal.ITIMER_PROF, 0)
    Path(sys.argv[1]).write_text(json.dumps(samples), encoding="utf-8")


if __name__ == "__main__":
    main()
