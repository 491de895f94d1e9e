"""How much processor time the server spends on a call at 2,000 pages, with wipe-on-free on and off.

User and system time of the whole process, before and after a few hundred calls: unlike a latency it hardly depends on
what else the machine does. Time inside PostgreSQL's own processes is not in it. Goals: at most 12 ms for a write or a
search, and 8 ms for a read.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import Final

from bench.echo import serving_echo
from bench.live import serving
from bench.load import Kind, make_calls
from bench.scene import Scene, calls_of, plan_for

# New pages last: they change what the others are measured on.
KINDS: Final[tuple[Kind, ...]] = ("echo", "read", "write", "search", "create")
GOALS_MS: Final = {"read": 8.0, "write": 12.0, "search": 12.0}


@dataclass(frozen=True, slots=True)
class Figure:
    """One kind of call: the median over the rounds, in milliseconds of processor time."""

    kind: str
    wipe_on_free: bool
    cpu_ms: float


def measure(scene: Scene) -> list[Figure]:
    """Fill a context and measure."""
    pages = scene.size.cpu_pages
    deployment = scene.filled(pages).deployment
    spent: dict[tuple[Kind, bool], list[float]] = {}
    next_page = pages
    with ExitStack() as stack:
        done = stack.enter_context(scene.task(f"{scene.engine}: processor time", 2 * len(KINDS) * scene.size.rounds))
        servers = {
            (kind, wiping): stack.enter_context(start(deployment, wipe_on_free=wiping))
            for wiping in (True, False)
            for kind, start in (("echo", serving_echo), ("memory", serving))
        }
        for kind in KINDS:
            for number in range(scene.size.rounds):
                for wiping in (True, False):
                    server = servers["echo" if kind == "echo" else "memory", wiping]
                    calls = calls_of(scene.size, kind)
                    first = next_page if kind == "create" else number * 10_000 + wiping * 1_000
                    next_page += calls if kind == "create" else 0
                    if number == 0 and scene.size.warm_up:
                        harmless: Kind = "echo" if kind == "echo" else "read"
                        make_calls(plan_for(deployment, server, harmless, scene.size.warm_up, pages))
                    before = server.cpu_s()
                    make_calls(plan_for(deployment, server, kind, calls, pages, first=first))
                    spent.setdefault((kind, wiping), []).append((server.cpu_s() - before) / calls * 1_000)
                    done(1)
    return [Figure(kind, wiping, median(spent[kind, wiping])) for kind in KINDS for wiping in (True, False)]
