"""The composition root: settings become a store, real clock and entropy, use-case services, and the web application.

Everything is made here and handed down; nothing below asks for a global. It holds no key: keys exist inside requests.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import FrameType
from typing import Final

import structlog
import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from zkpcp.config import Settings
from zkpcp.crypto.entropy import SystemEntropy
from zkpcp.errors import RefusedError, UnavailableError
from zkpcp.http.app import create_app
from zkpcp.http.connections import PromptHttp
from zkpcp.http.limits import DatabaseLimiter, Limiter, MemoryLimiter, ServerLimiter
from zkpcp.http.site import Site
from zkpcp.outbound.client_documents import PublicFetcher
from zkpcp.schema_files import load_schemas
from zkpcp.storage import migrate, open_store, pending
from zkpcp.storage.schema import TABLES
from zkpcp.usecases.client_documents import ClientDocuments
from zkpcp.usecases.housekeeping import EVERY_S, sweep_all
from zkpcp.usecases.services import Services
from zkpcp.vault.secrets import FLOOR, STRONG, Argon2Profile

KEEP_ALIVE_S: Final = 5
"""An open connection keeps its last request's buffers alive, so idle ones are closed soon (KEY-04)."""
FAREWELL_S: Final = 10
"""How long requests may still run after the process was told to stop."""
MOST_CONNECTIONS: Final = 500
"""Open connections at a time; one more is answered 503. Below the 1,024 files that a process may usually have open."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""
        return time.time_ns() // 1_000_000


def is_database_current(settings: Settings) -> bool:
    """Whether the database is there with today's schema. Makes the data directory. Not inside an event loop."""
    settings.data_dir.expanduser().mkdir(mode=0o700, parents=True, exist_ok=True)
    return not pending(settings.database)


def prepare_database(settings: Settings) -> None:
    """Make the data directory and bring the schema up to date. Not inside an event loop: migrations run their own."""
    if not is_database_current(settings):
        migrate(settings.database)


@asynccontextmanager
async def running_services(settings: Settings, *, argon2: Argon2Profile | None = None) -> AsyncIterator[Services]:
    """Open the store and make the services; closes the store at the end. ``argon2`` is for tests that need it cheap."""
    folder = settings.extension_schemas
    schemas = load_schemas(folder.expanduser() if folder else None)
    store = await open_store(settings.database)
    clock, schemes = SystemClock(), frozenset(settings.redirect_schemes)
    documents = ClientDocuments(PublicFetcher(), clock, redirect_schemes=schemes) if settings.client_documents else None
    try:
        yield Services(
            store=store,
            clock=clock,
            entropy=SystemEntropy(),
            schemas=schemas,
            argon2=argon2 or (STRONG if settings.strong_passphrases else FLOOR),
            argon2_floor=argon2 or FLOOR,
            deleted_retention_s=settings.deleted_retention_days * 86_400,
            history_versions=settings.history_versions,
            history_s=settings.history_days * 86_400,
            refresh_reuse_grace_s=settings.refresh_reuse_grace_seconds,
            redirect_schemes=schemes,
            client_documents=documents,
        )
    finally:
        await store.close()


def site_of(settings: Settings) -> Site:
    """Where contexts are."""
    return Site(
        origin=settings.origin,
        layout=settings.layout,
        single_handle=settings.single_handle,
        client_documents=settings.client_documents,
    )


def build_app(services: Services, settings: Settings, *, set_up_code: str | None = None) -> FastAPI:
    """The web application over these services."""
    return create_app(
        services,
        site_of(settings),
        allowed_origins=frozenset(settings.allowed_origins),
        lenient_era=settings.mcp_lenient_era,
        set_up_code=set_up_code,
        readable_metadata=TABLES,
        limiter=limiter_of(services, settings),
        mcp_calls_per_minute=settings.mcp_calls_per_minute,
    )


def limiter_of(services: Services, settings: Settings) -> Limiter:
    """What counts attempts. Raises UnavailableError for a server whose client library is not installed."""
    match settings.limits:
        case "memory":
            return MemoryLimiter(services.clock)
        case "database":
            return DatabaseLimiter(services.store, services.clock)
        case url:
            return ServerLimiter(url, services.clock)


def server_config(app: ASGIApp, *, host: str, port: int) -> uvicorn.Config:
    """How an application is served: nothing of a request is logged, and little of it stays in buffers."""
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        # Not uvloop: its receive buffers keep request text. No access log: paths and codes stand in URLs.
        loop="asyncio",
        http=PromptHttp,
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=FAREWELL_S,
        limit_concurrency=MOST_CONNECTIONS,
    )


async def serve(settings: Settings, *, set_up_code: str | None = None, argon2: Argon2Profile | None = None) -> None:
    """Serve until the process is told to stop."""
    configure_logs()
    async with running_services(settings, argon2=argon2) as services:
        app = build_app(services, settings, set_up_code=set_up_code)
        config = server_config(app, host=settings.host, port=settings.port)
        # uvicorn ends on SIGTERM and then raises it again for whoever had it before: without this, that would end the
        # process before the store is closed and its log emptied.
        signal.signal(signal.SIGTERM, _already_ending)
        sweeping = asyncio.create_task(keep_house(services))
        try:
            await uvicorn.Server(config).serve()
        finally:
            sweeping.cancel()
            await asyncio.gather(sweeping, return_exceptions=True)


def _already_ending(_number: int, _frame: FrameType | None) -> None:
    """Nothing is left to do: the server has stopped, and the store is about to be closed."""


async def keep_house(services: Services) -> None:
    """Sweep now and every hour; a store that is away is tried again the next time."""
    log = structlog.get_logger("zkpcp.housekeeping")
    while True:
        try:
            await sweep_all(services)
        except (UnavailableError, RefusedError) as error:
            log.warning("sweep_failed", exception=type(error).__name__)
        await asyncio.sleep(EVERY_S)


def configure_logs() -> None:
    """Logs go to standard error as JSON with named fields; no traceback, since its lines can hold content."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")
    # uvicorn logs the traceback of an exception it catches; ours are caught before, and this is the last resort.
    uvicorn_log = logging.getLogger("uvicorn.error")
    uvicorn_log.addFilter(_without_traceback)
    # Its warnings are about single requests that are not HTTP: a stranger could fill the disk with them.
    uvicorn_log.setLevel(logging.ERROR)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def _without_traceback(record: logging.LogRecord) -> bool:
    record.exc_info = None
    record.exc_text = None
    return True
