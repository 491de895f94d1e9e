"""The documents under ``/.well-known/``, and the 404 of everything else there.

Implements PCP §2 and §3.2 (DISC-01, DISC-07, DISC-08, AUTH-08, AUTH-13 to AUTH-16), RFC 8414 §3.1 and RFC 9728 §3.1.
Anybody may read them, a page of another origin too; nothing redirects. Some clients look for the authorization server's
metadata where OpenID Connect would put it, or behind the issuer's path: they get the same document.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterator
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from zkpcp.core import discovery
from zkpcp.core.discovery import ContextFacts
from zkpcp.core.schemas import JsonObject, canonical_json
from zkpcp.core.scopes import scopes_supported
from zkpcp.http.site import Site
from zkpcp.ports import Store

MAX_AGE_S: Final = 300
_EVERY_METHOD: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_CORS: Final = {"Access-Control-Allow-Origin": "*"}
_PREFLIGHT: Final = {
    **_CORS,
    "Access-Control-Allow-Methods": "GET",
    "Access-Control-Allow-Headers": "Accept, Content-Type, MCP-Protocol-Version",
    "Access-Control-Max-Age": "600",
}

_CONTEXT: Final = "/.well-known/pcp.json"

Endpoint = Callable[[Request], Awaitable[Response]]
Builder = Callable[[ContextFacts], JsonObject]


def well_known_routes(store: Store, site: Site) -> list[Route]:
    """The routes, to stand before all others; the last ones catch what else is asked for under a ``.well-known``."""
    documents = {path: _document(store, site, build) for path, build in _context_documents(site.prefix)}
    if site.layout == "paths":
        documents[_CONTEXT] = _root(site)
    elif site.layout == "hosts":
        documents[_CONTEXT] = _by_host(site, _root(site), documents[_CONTEXT])
    routes = [Route(path, endpoint, methods=["GET", "OPTIONS"]) for path, endpoint in documents.items()]
    catch_all = [
        Route(f"{parent}/.well-known{rest}", _nothing_here, methods=_EVERY_METHOD)
        for parent in dict.fromkeys((f"{site.prefix}/mcp", site.prefix, ""))
        for rest in ("/{rest:path}", "")
    ]
    return [*routes, *catch_all]


def _context_documents(prefix: str) -> Iterator[tuple[str, Builder]]:
    yield f"{prefix}{_CONTEXT}", discovery.context_document
    yield f"/.well-known/oauth-protected-resource{prefix}/mcp", _resource_metadata
    for name in ("oauth-authorization-server", "openid-configuration"):
        yield f"/.well-known/{name}{prefix}", _server_metadata
        yield f"{prefix}/.well-known/{name}", _server_metadata


def _resource_metadata(facts: ContextFacts) -> JsonObject:
    return discovery.protected_resource_metadata(facts, scopes_supported(facts.kind))


def _server_metadata(facts: ContextFacts) -> JsonObject:
    return discovery.authorization_server_metadata(facts, scopes_supported(facts.kind))


def _document(store: Store, site: Site, build: Builder) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        if request.method == "OPTIONS":
            return _preflight()
        context = await site.context(
            store, host=request.headers.get("host", ""), handle=request.path_params.get("handle")
        )
        return _not_found() if context is None else _found(request, build(site.facts(context)))

    return endpoint


def _by_host(site: Site, root: Endpoint, context: Endpoint) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        return await (root if site.is_root(request.headers.get("host", "")) else context)(request)

    return endpoint


def _root(site: Site) -> Endpoint:
    document = discovery.root_document(
        context_url_template=site.context_url_template, documentation_url=site.documentation_url
    )

    async def endpoint(request: Request) -> Response:
        return _preflight() if request.method == "OPTIONS" else _found(request, document)

    return endpoint


async def _nothing_here(request: Request) -> Response:
    return _preflight() if request.method == "OPTIONS" else _not_found()


def _found(request: Request, document: JsonObject) -> Response:
    body = canonical_json(document)
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {
        **_CORS,
        "ETag": etag,
        "Cache-Control": f"public, max-age={MAX_AGE_S}",
        "X-Content-Type-Options": "nosniff",
    }
    known = {tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")}
    if etag in known or "*" in known:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(body, headers=headers, media_type="application/json")


def _not_found() -> Response:
    body = canonical_json({"error": {"code": "not_found", "message": "there is no such document here"}})
    return Response(
        body,
        status_code=HTTPStatus.NOT_FOUND,
        headers={**_CORS, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"},
        media_type="application/json",
    )


def _preflight() -> Response:
    return Response(status_code=HTTPStatus.NO_CONTENT, headers=_PREFLIGHT)
