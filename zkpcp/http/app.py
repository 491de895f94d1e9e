"""The web application: well-known documents, OAuth, MCP, and the owner's pages, under one set of failures and limits.

It only puts together. Order matters in one place: the routes of contexts that have an origin of their own (layouts
``single`` and ``hosts``) come after those that belong to the server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from zkpcp import __version__
from zkpcp.http import errors
from zkpcp.http.hosts import LocalHostsOnly
from zkpcp.http.limits import CallBudget, Limiter, MemoryLimiter
from zkpcp.http.mcp.mount import mcp_endpoint
from zkpcp.http.oauth.edge import OAuthEdge
from zkpcp.http.oauth.routes import oauth_routes
from zkpcp.http.pages.render import Pages
from zkpcp.http.pages.routes import page_router
from zkpcp.http.pages.web import SetUpDoor, Web
from zkpcp.http.site import Site
from zkpcp.http.wellknown import well_known_routes
from zkpcp.usecases.services import Services

MCP_CALLS_PER_MINUTE: Final = 600


def create_app(
    services: Services,
    site: Site,
    *,
    allowed_origins: frozenset[str] = frozenset(),
    lenient_era: bool = False,
    set_up_code: str | None = None,
    readable_metadata: Mapping[str, Mapping[str, str]],
    limiter: Limiter | None = None,
    mcp_calls_per_minute: int = MCP_CALLS_PER_MINUTE,
    pages: Pages | None = None,
) -> FastAPI:
    """Make the application.

    ``readable_metadata`` describes the database for the page on metadata (KEY-01). Attempts are counted in this process
    unless a ``limiter`` is given. ``pages`` spares compiling the templates anew; they have to be of this site's kind.
    """
    # No generated API documents, and no redirect that would answer a path before its access check.
    app = FastAPI(title="zkpcp", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    if site.is_loopback:
        app.add_middleware(LocalHostsOnly, names_below=site.layout == "hosts")
    pages = pages or Pages(secure=site.is_secure)
    limiter = limiter or MemoryLimiter(services.clock)
    web = Web(
        services=services,
        site=site,
        limiter=limiter,
        pages=pages,
        door=SetUpDoor(is_loopback=site.is_loopback, code=set_up_code),
        schema=readable_metadata,
    )
    errors.install(app, pages, services.entropy)
    mcp = mcp_endpoint(
        services,
        site,
        allowed_origins=allowed_origins,
        lenient_era=lenient_era,
        budget=CallBudget(limiter, mcp_calls_per_minute),
    )
    app.router.routes.append(Route("/healthz", _health(mcp.catalog_fingerprint)))
    app.router.routes.extend(well_known_routes(services.store, site))
    app.router.routes.append(Route(f"{site.prefix}/mcp", mcp))
    app.router.routes.extend(oauth_routes(OAuthEdge(services=services, site=site, limiter=limiter, pages=pages)))
    app.include_router(page_router(web))
    return app


def _health(catalog: str) -> Callable[[Request], Awaitable[Response]]:
    async def health(_: Request) -> Response:
        state = {"status": "ok", "version": __version__, "catalog": catalog}
        return JSONResponse(state, headers={"Cache-Control": "no-store"})

    return health
