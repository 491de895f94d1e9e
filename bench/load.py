"""The client that makes the calls, in a process of its own so that it shares no interpreter with what it measures.

``python -m bench.load`` reads a plan from standard input and prints what it saw: raw HTTP/1.1 over a few kept-open
loopback connections, each sending its next call when the last one is answered (a closed loop: it says what a call takes
under this much load, not what an overload does). Requests are encoded before the clock starts. Calls are MCP
2026-07-28, without a handshake.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Final, Literal, TypeAlias

from bench import corpus

Kind: TypeAlias = Literal["echo", "read", "write", "create", "search"]

_VERSION: Final = "2026-07-28"
_META: Final = "io.modelcontextprotocol/"
_TOOLS: Final = {
    "echo": "echo",
    "read": "memory_read",
    "write": "memory_write",
    "create": "memory_write",
    "search": "memory_search",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """Which calls to make: ``calls`` of a kind, over the first ``pages`` pages, numbered from ``first``."""

    port: int
    path: str
    kind: Kind
    calls: int
    connections: int
    pages: int
    first: int = 0
    token: str = field(default="bench", repr=False)


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of it: how long all of it took, and each call by itself, in seconds."""

    elapsed_s: float
    latencies_s: tuple[float, ...]

    @property
    def per_s(self) -> float:
        """Calls per second."""
        return len(self.latencies_s) / self.elapsed_s


def make_calls(plan: Plan) -> Seen:
    """Carry out a plan in another process."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.load"],
        input=json.dumps(asdict(plan)),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    seen = json.loads(done.stdout)
    return Seen(seen["elapsed_s"], tuple(seen["latencies_s"]))


def arguments(kind: Kind, number: int, pages: int) -> dict[str, object]:
    """The arguments of one call; neighbouring numbers go to pages far apart."""
    place = (number * 7919) % pages
    match kind:
        case "echo":
            return {"text": corpus.page(place).body}
        case "read":
            return {"path": corpus.page(place).path}
        case "write":
            return corpus.page(place, edition=number + 1).arguments()
        case "create":
            return corpus.page(number).arguments()
        case "search":
            return {"query": corpus.query(number, pages)}


def encode(plan: Plan, number: int) -> bytes:
    """One HTTP request."""
    tool = _TOOLS[plan.kind]
    meta = {
        _META + "protocolVersion": _VERSION,
        _META + "clientCapabilities": {},
        _META + "clientInfo": {"name": "bench", "version": "1"},
    }
    params = {"name": tool, "arguments": arguments(plan.kind, number, plan.pages), "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}, ensure_ascii=False)
    content = body.encode()
    head = (
        f"POST {plan.path} HTTP/1.1\r\nHost: 127.0.0.1:{plan.port}\r\nAuthorization: Bearer {plan.token}\r\n"
        f"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
        f"MCP-Protocol-Version: {_VERSION}\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


async def carry_out(plan: Plan) -> Seen:
    """Make the calls of a plan from this process."""
    requests = iter([encode(plan, plan.first + number) for number in range(plan.calls)])
    latencies: list[float] = []
    streams = [await asyncio.open_connection("127.0.0.1", plan.port) for _ in range(plan.connections)]
    begun = time.perf_counter()
    await asyncio.gather(*(_converse(reader, writer, requests, latencies) for reader, writer in streams))
    elapsed = time.perf_counter() - begun
    for _, writer in streams:
        writer.close()
    return Seen(elapsed, tuple(latencies))


async def _converse(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, requests: Iterator[bytes], latencies: list[float]
) -> None:
    for request in requests:
        begun = time.perf_counter()
        writer.write(request)
        answer = await _answer(reader)
        latencies.append(time.perf_counter() - begun)
        if b'"isError":false' not in answer:
            raise RuntimeError(f"a call failed: {answer[-200:]!r}")


async def _answer(reader: asyncio.StreamReader) -> bytes:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if not head.startswith(b"http/1.1 200"):
        raise RuntimeError(f"a call was refused: {head[:40]!r}")
    length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
    return await reader.readexactly(length)


def main() -> None:
    plan = Plan(**json.load(sys.stdin))
    json.dump(asdict(asyncio.run(carry_out(plan))), sys.stdout)


if __name__ == "__main__":
    main()
