"""How many calls a second, and how long one takes, over HTTP at 1,000 pages, beside an echo.

The echo goes through the same dispatcher, framework and server (``echo.py``).

Absolute figures belong to a machine and its load. The ratios compare neighbouring measurements of one run: each round
measures the echo and then the memory calls, and the ratio is the median over the rounds. Wipe-on-free is on, as it is
by default. The client runs on the same machine and takes its share of it, in the echo's figures as in ours.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import Final

from bench.echo import serving_echo
from bench.live import Server, serving
from bench.load import Kind, Seen, make_calls
from bench.scene import Scene, calls_of, plan_for, quantile

KINDS: Final[tuple[Kind, ...]] = ("echo", "read", "write", "search")
CONNECTIONS: Final = (1, 8)


@dataclass(frozen=True, slots=True)
class Figure:
    """One kind of call over so many connections; ``ratio`` is its rate over the echo's."""

    kind: str
    connections: int
    per_s: float
    ratio: float
    p50_ms: float
    p99_ms: float


def measure(scene: Scene) -> list[Figure]:
    """Fill a context and measure."""
    pages = scene.size.http_pages
    deployment = scene.filled(pages).deployment
    seen: dict[tuple[Kind, int], list[Seen]] = {}
    with ExitStack() as stack:
        server = stack.enter_context(serving(deployment, wipe_on_free=True))
        echo = stack.enter_context(serving_echo(deployment, wipe_on_free=True))
        total = scene.size.rounds * len(CONNECTIONS) * len(KINDS)
        done = stack.enter_context(scene.task(f"{scene.engine}: calls over HTTP", total))
        for number in range(-1 if scene.size.warm_up else 0, scene.size.rounds):
            for connections in CONNECTIONS:
                for kind in KINDS:
                    target: Server = echo if kind == "echo" else server
                    calls = calls_of(scene.size, kind) if number >= 0 else scene.size.warm_up
                    first = (number + 1) * 1_000 + connections * 100_000
                    result = make_calls(
                        plan_for(deployment, target, kind, calls, pages, first=first, connections=connections)
                    )
                    if number >= 0:
                        seen.setdefault((kind, connections), []).append(result)
                        done(1)
    return [
        _figure(kind, connections, seen[kind, connections], seen["echo", connections])
        for connections in CONNECTIONS
        for kind in KINDS
    ]


def _figure(kind: Kind, connections: int, rounds: list[Seen], echo: list[Seen]) -> Figure:
    latencies = [latency for seen in rounds for latency in seen.latencies_s]
    return Figure(
        kind=kind,
        connections=connections,
        per_s=median(seen.per_s for seen in rounds),
        ratio=median(seen.per_s / beside.per_s for seen, beside in zip(rounds, echo, strict=True)),
        p50_ms=quantile(latencies, 0.5) * 1_000,
        p99_ms=quantile(latencies, 0.99) * 1_000,
    )
