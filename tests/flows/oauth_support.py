"""A server in process with one signed-in owner, and the steps of an OAuth flow as a client and a browser take them."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
from fastapi import FastAPI

from zkpcp.core.audit import Entry, from_json
from zkpcp.core.schemas import JsonObject
from zkpcp.core.stored import ContextRow, GrantRow
from zkpcp.http import errors
from zkpcp.http.app import create_app
from zkpcp.http.limits import Limiter, MemoryLimiter
from zkpcp.http.oauth.edge import OAuthEdge
from zkpcp.http.oauth.routes import oauth_routes
from zkpcp.http.pages.render import Pages
from zkpcp.http.pages.routes import page_router
from zkpcp.http.pages.web import SetUpDoor, Web
from zkpcp.http.site import Layout, Site
from zkpcp.http.wellknown import well_known_routes
from zkpcp.ports import ClientDocumentFetcher, Store
from zkpcp.schema_files import load_schemas
from zkpcp.testing import CountingEntropy, FixedClock, MemoryStore
from zkpcp.usecases.client_documents import ClientDocuments
from zkpcp.usecases.found import found_context
from zkpcp.usecases.services import Services
from zkpcp.usecases.session import sign_in
from zkpcp.vault.secrets import CHEAPEST

ORIGIN = "https://pcp.example"
HANDLE = "lovelace"
PASSPHRASE = "a rather long passphrase"
REDIRECT_URI = "https://app.example/callback"
VERIFIER = "v" * 43
NOW_MS = 1_767_225_600_000
SCHEMAS = load_schemas()


def challenge(verifier: str) -> str:
    """The S256 challenge of a verifier, computed here on purpose (RFC 7636 §4.2)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


@dataclass(frozen=True)
class Leaving:
    """Where a browser is sent, and with which parameters."""

    url: str
    parameters: Mapping[str, str]


@dataclass(frozen=True)
class OAuthServer:
    """The application with what stands behind it."""

    app: FastAPI
    services: Services
    clock: FixedClock
    context: ContextRow
    site: Site
    cookies: Mapping[str, str] = field(repr=False)

    @property
    def base(self) -> str:
        return self.site.base_url(self.context.handle)

    @property
    def origin(self) -> str:
        """The origin of the context's pages."""
        return self.base.removesuffix(self.site.base_path(self.context.handle))

    @property
    def store(self) -> Store:
        return self.services.store

    def http(self, *, signed_in: bool = False) -> httpx2.AsyncClient:
        """A client of the application; ``signed_in`` with the owner's session."""
        cookies = dict(self.cookies) if signed_in else {}
        return httpx2.AsyncClient(transport=httpx2.ASGITransport(self.app), base_url=self.origin, cookies=cookies)

    async def get(self, url: str, *, signed_in: bool = False, **headers: str) -> httpx2.Response:
        async with self.http(signed_in=signed_in) as http:
            return await http.get(url, headers={name.replace("_", "-"): value for name, value in headers.items()})

    async def post(self, path: str, form: Mapping[str, str | Sequence[str]], **headers: str) -> httpx2.Response:
        """A client's POST of a form to an endpoint below the base."""
        return await self.post_raw(path, urlencode(form, doseq=True), **headers)

    async def post_raw(self, path: str, body: str, **headers: str) -> httpx2.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.http() as http:
            return await http.post(
                f"{self.base}{path}",
                content=body,
                headers={"content-type": "application/x-www-form-urlencoded", **named},
            )

    async def register(self, **metadata: object) -> httpx2.Response:
        async with self.http() as http:
            return await http.post(f"{self.base}/register", json={"redirect_uris": [REDIRECT_URI], **metadata})

    async def client_id(self, **metadata: object) -> str:
        reply = await self.register(**{"client_name": "Example App", **metadata})
        assert reply.status_code == 201
        return str(reply.json()["client_id"])

    def authorize_url(self, client_id: str, /, **changes: str | None) -> str:
        """An authorization request that is right but for ``changes``; None leaves a parameter out."""
        parameters = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": REDIRECT_URI,
            "scope": "profile.core:read memory:read offline_access",
            "state": "st-1",
            "code_challenge": challenge(VERIFIER),
            "code_challenge_method": "S256",
            "resource": f"{self.base}/mcp",
            **changes,
        }
        sent = {name: value for name, value in parameters.items() if value is not None}
        return f"{self.base}/authorize?{urlencode(sent)}"

    async def ask(self, client_id: str, /, **changes: str | None) -> httpx2.Response:
        return await self.get(self.authorize_url(client_id, **changes), signed_in=True)

    async def decide(
        self, page: httpx2.Response, decision: str = "allow", *, untick: Sequence[str] = (), **headers: str
    ) -> httpx2.Response:
        """Send the consent page's form as it came, but for the boxes to untick."""
        assert page.status_code == 200, page.text
        scopes = [scope for scope, ticked in boxes(page).items() if ticked and scope not in untick]
        return await self.send_consent(hidden(page, "request"), scopes, decision, **headers)

    async def send_consent(
        self, request: str, scopes: Sequence[str], decision: str = "allow", **headers: str
    ) -> httpx2.Response:
        form = urlencode({"request": request, "scope": scopes, "decision": decision}, doseq=True)
        sent = {
            "content-type": "application/x-www-form-urlencoded",
            "origin": self.origin,
            "sec-fetch-site": "same-origin",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        async with self.http(signed_in=True) as http:
            return await http.post(f"{self.base}/consent", content=form, headers=sent)

    async def code(self, client_id: str, /, **changes: str | None) -> str:
        answer = leaving(await self.decide(await self.ask(client_id, **changes)))
        return answer.parameters["code"]

    async def redeem(self, client_id: str, code: str, /, **changes: str) -> httpx2.Response:
        form = {
            "grant_type": "authorization_code",
            "client_id": client_id,
            "code": code,
            "redirect_uri": REDIRECT_URI,
            "code_verifier": VERIFIER,
            **changes,
        }
        return await self.post("/token", form)

    async def refresh(self, client_id: str, refresh_token: str, /, **changes: str) -> httpx2.Response:
        form = {"grant_type": "refresh_token", "client_id": client_id, "refresh_token": refresh_token, **changes}
        return await self.post("/token", form)

    async def tokens(self, client_id: str, /, **changes: str | None) -> JsonObject:
        reply = await self.redeem(client_id, await self.code(client_id, **changes))
        assert reply.status_code == 200, reply.text
        answer: JsonObject = reply.json()
        return answer

    async def grants(self) -> Sequence[GrantRow]:
        async with self.store.read() as tx:
            return await tx.grants.list_grants(self.context.context_id)

    async def entries(self) -> list[Entry]:
        """The access log, oldest first."""
        async with self.store.read() as tx:
            rows = await tx.audit.entries(self.context.context_id, limit=500)
        return [from_json(row.entry) for row in reversed(rows)]

    async def actions(self) -> list[str]:
        return [entry.action for entry in await self.entries()]


async def oauth_server(
    store: Store | None = None,
    *,
    origin: str = ORIGIN,
    layout: Layout = "paths",
    kind: str = "personal",
    refresh_reuse_grace_s: int = 0,
    documents: ClientDocumentFetcher | None = None,
    limiter: Limiter | None = None,
    mcp_calls_per_minute: int = 600,
    whole: bool = False,
) -> OAuthServer:
    """A server with the owner of one context signed in; ``whole`` is the product's own app, which is slower to make.

    With ``documents`` clients may be known by a document that is fetched there.
    """
    clock = FixedClock(NOW_MS)
    services = Services(
        store=store or MemoryStore(),
        clock=clock,
        entropy=CountingEntropy(),
        schemas=SCHEMAS,
        argon2=CHEAPEST,
        argon2_floor=CHEAPEST,
        refresh_reuse_grace_s=refresh_reuse_grace_s,
        client_documents=ClientDocuments(documents, clock) if documents else None,
    )
    founded = await found_context(services, handle=HANDLE, kind=kind, passphrase=PASSPHRASE)
    site = Site(
        origin=origin,
        layout=layout,
        single_handle=HANDLE if layout == "single" else None,
        client_documents=documents is not None,
    )
    limiter = limiter or MemoryLimiter(clock)
    app = _app(services, site, limiter)
    if whole:
        app = create_app(
            services,
            site,
            readable_metadata={},
            limiter=limiter,
            mcp_calls_per_minute=mcp_calls_per_minute,
            pages=_pages(secure=site.is_secure),
        )
    session = await sign_in(services, founded.context, passphrase=PASSPHRASE)
    name = f"{'__Host-' if site.is_secure else ''}zkpcp_{HANDLE}"
    return OAuthServer(app, services, clock, founded.context, site, {name: session.text()})


@cache
def _pages(*, secure: bool) -> Pages:
    # Compiling the templates takes longer than most of these tests.
    return Pages(secure=secure)


def _app(services: Services, site: Site, limiter: Limiter) -> FastAPI:
    """What ``create_app`` makes, without MCP and with the pages of the test before."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    pages = _pages(secure=site.is_secure)
    errors.install(app, pages, services.entropy)
    app.router.routes.extend(well_known_routes(services.store, site))
    app.router.routes.extend(oauth_routes(OAuthEdge(services, site, limiter, pages)))
    door = SetUpDoor(is_loopback=site.is_loopback, code=None)
    app.include_router(page_router(Web(services=services, site=site, limiter=limiter, pages=pages, door=door)))
    return app


def boxes(page: httpx2.Response) -> dict[str, bool]:
    """The scopes on a consent page, and whether their boxes are ticked."""
    inputs = [tag for tag in re.findall(r"<input[^>]*>", page.text) if 'name="scope"' in tag]
    return {_attribute(tag, "value"): " checked" in tag for tag in inputs}


def hidden(page: httpx2.Response, name: str) -> str:
    """The value of a hidden field."""
    [tag] = [tag for tag in re.findall(r"<input[^>]*>", page.text) if f'name="{name}"' in tag]
    return _attribute(tag, "value")


def leaving(answer: httpx2.Response) -> Leaving:
    """Where an answer sends the browser: by redirect, or by the page that does so for forms."""
    if answer.status_code in (302, 303):
        url = answer.headers["location"]
    else:
        assert answer.status_code == 200, answer.text
        match = re.search(r'http-equiv="refresh" content="0;url=([^"]*)"', answer.text)
        assert match is not None
        url = html.unescape(match[1])
    sent = parse_qs(urlsplit(url).query, strict_parsing=True)
    assert all(len(values) == 1 for values in sent.values())
    return Leaving(url, {name: value for name, [value] in sent.items()})


def _attribute(tag: str, name: str) -> str:
    match = re.search(rf'\b{name}="([^"]*)"', tag)
    assert match is not None
    return html.unescape(match[1])
