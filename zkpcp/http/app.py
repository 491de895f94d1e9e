"""The web application: well-known documents, OAuth, MCP, and the owner's pages, under one set of failures and limits.

It only puts together. Order matters in one place: the routes of one context at the origin (layout ``single``) come
after those that belong to the server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from zkpcp import __version__
from zkpcp.http import errors
from zkpcp.http.hosts import LocalHostsOnly
from zkpcp.http.limits import MemoryLimiter
from zkpcp.http.mcp.mount import mcp_endpoint
from zkpcp.http.oauth.edge import OAuthEdge
from zkpcp.http.oauth.routes import oauth_routes
from zkpcp.http.pages.render import Pages
from zkpcp.http.pages.routes import page_router
from zkpcp.http.pages.web import SetUpDoor, Web
from zkpcp.http.site import Site
from zkpcp.http.wellknown import well_known_routes
from zkpcp.usecases.services import Services


def create_app(
    services: Services,
    site: Site,
    *,
    allowed_origins: frozenset[str] = frozenset(),
    lenient_era: bool = False,
    set_up_code: str | None = None,
    readable_metadata: Mapping[str, Mapping[str, str]],
) -> FastAPI:
    """Make the application. ``readable_metadata`` describes the database for the page on metadata (KEY-01)."""
    # No generated API documents, and no redirect that would answer a path before its access check.
    app = FastAPI(title="zkpcp", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    if site.is_loopback:
        app.add_middleware(LocalHostsOnly)
    pages = Pages(secure=site.is_secure)
    limiter = MemoryLimiter(services.clock)
    web = Web(
        services=services,
        site=site,
        limiter=limiter,
        pages=pages,
        door=SetUpDoor(is_loopback=site.is_loopback, code=set_up_code),
        schema=readable_metadata,
    )
    errors.install(app, pages, services.entropy)
    mcp = mcp_endpoint(services, site, allowed_origins=allowed_origins, lenient_era=lenient_era)
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
