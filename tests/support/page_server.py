"""A small server of nothing but the pages, in process or on a loopback port, with a memory store behind it.

``add_test_routes`` puts the consent and the redirect page at addresses of their own, so that a browser can be sent to
them without an authorization server.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from starlette.requests import Request
from starlette.responses import Response

from zkpcp.errors import CorruptError, UnavailableError
from zkpcp.http.errors import install
from zkpcp.http.limits import Limiter, MemoryLimiter, Rule
from zkpcp.http.pages.render import Pages
from zkpcp.http.pages.routes import page_router
from zkpcp.http.pages.web import SetUpDoor, Web
from zkpcp.http.site import Site
from zkpcp.schema_files import load_schemas
from zkpcp.storage.schema import TABLES
from zkpcp.testing import CountingEntropy, FixedClock, MemoryStore
from zkpcp.usecases.services import Services
from zkpcp.vault.secrets import CHEAPEST

NOW_MS = 1_767_225_600_000


class NoLimiter:
    """Counts nothing: for tests that sign in more often than a person does."""

    async def hit(self, rule: Rule, *keys: str) -> None:
        """Let everything pass."""


@dataclass(frozen=True)
class ConsentScopeExample:
    """A scope on the consent page."""

    scope: str
    sentence: str
    preticked: bool = True
    sensitive: bool = False


@dataclass(frozen=True)
class ConsentExample:
    """What an authorization server would tell the consent page."""

    client_name: str
    items: Sequence[ConsentScopeExample]
    not_requested: Sequence[str] = ()
    client_name_source: str = "dcr"
    client_host: str | None = None
    redirect_host: str = "127.0.0.1:33418"
    redirect_is_loopback: bool = True
    context_handle: str = "ada"
    context_kind: str = "personal"
    controller: str = "human:owner"
    account: str = "human:owner"
    readable_by_organization: bool = False
    partitions: Sequence[str] = ()
    agents: Sequence[str] = ()
    request_secret: str = "one-time"
    action_url: str = "/example/decide"


@dataclass(frozen=True)
class PageServer:
    """The application and what its tests look at."""

    app: FastAPI
    web: Web
    store: MemoryStore
    clock: FixedClock
    origin: str


def page_server(
    origin: str = "http://127.0.0.1:8000",
    *,
    single_handle: str | None = None,
    hosts: bool = False,
    set_up_code: str | None = None,
    limiter: Limiter | None = None,
) -> PageServer:
    """The pages of a server whose public address is ``origin``; ``hosts``: each context has a name below it."""
    clock, entropy, store = FixedClock(NOW_MS), CountingEntropy(), MemoryStore()
    services = Services(
        store=store,
        clock=clock,
        entropy=entropy,
        schemas=load_schemas(),
        argon2=CHEAPEST,
        argon2_floor=CHEAPEST,
    )
    layout = Site(origin=origin, layout="hosts" if hosts else "paths")
    if single_handle:
        layout = Site(origin=origin, layout="single", single_handle=single_handle)
    pages = Pages(secure=layout.is_secure)
    web = Web(
        services=services,
        site=layout,
        limiter=limiter or MemoryLimiter(clock),
        pages=pages,
        door=SetUpDoor(is_loopback=layout.is_loopback, code=set_up_code),
        schema=TABLES,
    )
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.include_router(page_router(web))
    install(app, pages, entropy)
    return PageServer(app, web, store, clock, origin)


def add_test_routes(server: PageServer, consent: ConsentExample, redirect_to: str) -> None:
    """The consent page at ``/example/consent``; its decision leads to ``redirect_to`` by the redirect page."""
    pages = server.web.pages

    async def show_consent(_: Request) -> Response:
        return pages.consent_page(consent)

    async def decide(_: Request) -> Response:
        return pages.redirect_page(redirect_to)

    server.app.add_api_route("/example/consent", show_consent, response_class=HTMLResponse, response_model=None)
    server.app.add_api_route(
        "/example/decide", decide, methods=["POST"], response_class=HTMLResponse, response_model=None
    )


def add_failing_routes(server: PageServer) -> None:
    """Routes that fail in each way that a handler can, as a page and as JSON."""
    for name, error in (
        ("unexpected", KeyError("a secret word")),
        ("damage", CorruptError("a secret word")),
        ("away", UnavailableError("the database is away")),
    ):
        server.app.add_api_route(
            f"/fail/page/{name}", _failing(error), response_class=HTMLResponse, response_model=None
        )
        server.app.add_api_route(f"/fail/json/{name}", _failing(error), response_model=None)


@asynccontextmanager
async def listening(app: FastAPI, port: int) -> AsyncIterator[None]:
    """Serve ``app`` on a loopback port until the block ends."""
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    try:
        while not server.started:
            if serving.done():
                await serving
            await asyncio.sleep(0.01)
        yield
    finally:
        server.should_exit = True
        await serving


def screenshot_folder() -> Path | None:
    """Where screenshots go, if anywhere."""
    folder = os.environ.get("ZKPCP_SHOTS")
    return Path(folder) if folder else None


def free_port() -> int:
    """A loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _failing(error: Exception) -> Callable[[Request], Awaitable[Response]]:
    async def fail(_: Request) -> Response:
        raise error

    return fail
