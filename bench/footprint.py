"""What a server takes up: memory at rest, time from start to first answer, bytes on disk for a byte kept.

Memory: the resident size a moment after the owner has signed in (Argon2 with 64 MiB) and looked at the home page, and
again after a few hundred calls. Start: from the command to the first answered request on a database that exists; with
wipe-on-free the process starts itself anew, so Python starts twice. Disk: the database files after a checkpoint, access
log and keys included, over the UTF-8 bytes of paths, titles, types, tags and bodies that were written once each.
Goals: at most 120 MB at rest, at most 3 s to the first answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPResponse
from statistics import median
from typing import Final
from urllib.parse import urlencode

from bench import corpus
from bench.live import HANDLE, PASSPHRASE, Deployment, Server, serving
from bench.load import make_calls
from bench.scene import Scene, calls_of, plan_for

REST_S: Final = 1.0
_MB: Final = 1_000_000
GOALS: Final = {"rest_mb": 120.0, "start_s": 3.0}


@dataclass(frozen=True, slots=True)
class Figure:
    """The figures of one setting of wipe-on-free, in units of 10^6 bytes and seconds."""

    wipe_on_free: bool
    start_s: float
    start_cpu_s: float
    start_mb: float
    rest_mb: float
    worked_mb: float
    disk_ratio: float


def measure(scene: Scene) -> list[Figure]:
    """Start servers, sign in, and look."""
    filled = scene.filled(scene.size.http_pages)
    payload = sum(corpus.page(number).payload_bytes for number in range(filled.pages))
    ratio = filled.stored_bytes / payload
    with scene.task(f"{scene.engine}: starts", 2 * scene.size.starts) as done:
        return [_figure(scene, filled.deployment, ratio, done, wipe_on_free=wiping) for wiping in (True, False)]


def _figure(
    scene: Scene, deployment: Deployment, ratio: float, done: Callable[[int], None], *, wipe_on_free: bool
) -> Figure:
    starts: list[tuple[float, float]] = []
    for _ in range(scene.size.starts - 1):
        with serving(deployment, wipe_on_free=wipe_on_free) as server:
            starts.append((server.started_s, server.cpu_s()))
        done(1)
    with serving(deployment, wipe_on_free=wipe_on_free) as server:
        starts.append((server.started_s, server.cpu_s()))
        fresh = server.rss_bytes()
        _sign_in(server)
        time.sleep(REST_S)
        at_rest = server.rss_bytes()
        for kind in ("read", "write", "search"):
            calls = calls_of(scene.size, kind)
            make_calls(plan_for(deployment, server, kind, calls, scene.size.http_pages, connections=8))
        time.sleep(REST_S)
        worked = server.rss_bytes()
        done(1)
    start_s, start_cpu_s = (median(values) for values in zip(*starts, strict=True))
    return Figure(wipe_on_free, start_s, start_cpu_s, fresh / _MB, at_rest / _MB, worked / _MB, ratio)


def _sign_in(server: Server) -> None:
    """As a browser does: the form, the passphrase, and the home page it leads to."""
    connection = HTTPConnection("127.0.0.1", server.port)
    form = {"passphrase": PASSPHRASE, "username": HANDLE}
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://127.0.0.1:{server.port}"}
    _ask(connection, "GET", f"/c/{HANDLE}/sign-in", {}, "", HTTPStatus.OK)
    answer = _ask(connection, "POST", f"/c/{HANDLE}/sign-in", headers, urlencode(form), HTTPStatus.SEE_OTHER)
    cookie = (answer.getheader("Set-Cookie") or "").partition(";")[0]
    _ask(connection, "GET", f"/c/{HANDLE}/", {"Cookie": cookie}, "", HTTPStatus.OK)
    connection.close()


def _ask(
    connection: HTTPConnection, method: str, path: str, headers: dict[str, str], body: str, expected: HTTPStatus
) -> HTTPResponse:
    connection.request(method, path, body or None, headers)
    answer = connection.getresponse()
    answer.read()
    if answer.status != expected:
        raise RuntimeError(f"{method} of a page was answered with {answer.status}")
    return answer
