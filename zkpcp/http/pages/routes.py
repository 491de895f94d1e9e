"""Which address shows which page.

Where contexts share an origin a context's pages lie below ``/c/<handle>``, otherwise below the root of its own.
Every route answers with HTML, by which ``zkpcp.http.errors`` knows that failures have to be pages too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import APIRouter
from fastapi.responses import HTMLResponse
from starlette.requests import Request
from starlette.responses import Response

from zkpcp.errors import InvalidTokenError
from zkpcp.http.pages import (
    browse,
    extensions,
    history,
    home,
    joining,
    keys,
    partitions,
    people,
    profile,
    public,
    review,
    sessions,
    set_up,
)
from zkpcp.http.pages.web import Web, see_other, to_sign_in

Handler = Callable[[Web, Request], Awaitable[Response]]


Add = Callable[[str, str, Handler], None]


def page_router(web: Web) -> APIRouter:
    """The routes of all pages but consent, which the authorization server shows."""
    router = APIRouter(default_response_class=HTMLResponse, include_in_schema=False)

    def add(method: str, path: str, handler: Handler) -> None:
        router.add_api_route(path, _bound(web, handler), methods=[method], response_model=None)

    add("GET", "/set-up", set_up.show)
    add("POST", "/set-up", set_up.submit)
    add("GET", "/docs", public.show_about)
    add("GET", "/docs/metadata", public.show_metadata)
    add("GET", "/static/{name}", public.static)
    base = web.site.prefix
    if base:
        add("GET", "/", public.show_root)
        add("GET", base, _with_slash)
    add("GET", f"{base}/", home.show if base else _home_or_root)
    add("GET", f"{base}/sign-in", sessions.show_sign_in)
    add("POST", f"{base}/sign-in", sessions.submit_sign_in)
    add("POST", f"{base}/sign-out", sessions.submit_sign_out)
    add("GET", f"{base}/recover", sessions.show_recover)
    add("POST", f"{base}/recover", sessions.submit_recover)
    add("POST", f"{base}/disconnect", home.disconnect)
    add("POST", f"{base}/lock", home.lock)
    add("POST", f"{base}/unlock", home.unlock)
    add("GET", f"{base}/keys", keys.show)
    add("POST", f"{base}/keys", keys.begin)
    add("POST", f"{base}/keys/finish", keys.end_without)
    add("POST", f"{base}/extensions", extensions.switch)
    _add_people(add, base)
    add("GET", f"{base}/partitions", partitions.show)
    add("POST", f"{base}/partitions", partitions.create)
    add("POST", f"{base}/partitions/describe", partitions.describe)
    add("POST", f"{base}/partitions/access", partitions.access)
    add("GET", f"{base}/review", review.show)
    add("POST", f"{base}/review", review.switch)
    add("GET", f"{base}/review/{{proposal_id}}", review.show_proposal)
    add("POST", f"{base}/review/{{proposal_id}}", review.resolve)
    add("GET", f"{base}/profile", profile.show)
    add("GET", f"{base}/pages", browse.show_pages)
    add("POST", f"{base}/pages", browse.rebuild)
    add("GET", f"{base}/pages/{{page_id}}", browse.show_page)
    add("GET", f"{base}/pages/{{page_id}}/history", history.show_versions)
    add("POST", f"{base}/pages/{{page_id}}/history", history.restore)
    add("GET", f"{base}/pages/{{page_id}}/history/{{number}}", history.show_version)
    add("GET", f"{base}/deleted", browse.show_deleted)
    add("POST", f"{base}/deleted", browse.recover)
    add("GET", f"{base}/log", browse.show_log)
    return router


async def _with_slash(web: Web, request: Request) -> Response:
    return see_other(web, f"{request.scope['path']}/")


async def _home_or_root(web: Web, request: Request) -> Response:
    if web.site.is_multi:
        is_root = web.site.is_root(request.headers.get("host", ""))
        return await (public.show_root if is_root else home.show)(web, request)
    async with web.services.store.read() as tx:
        empty = not await tx.contexts.handles()
    return await (public.show_root if empty else home.show)(web, request)


def _bound(web: Web, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            return await handler(web, request)
        except InvalidTokenError:
            return await to_sign_in(web, request)

    return endpoint


def _add_people(add: Add, base: str) -> None:
    add("GET", f"{base}/people", people.show)
    add("POST", f"{base}/people/invite", people.invite)
    add("POST", f"{base}/people/withdraw", people.withdraw)
    add("POST", f"{base}/people/agent", people.add_agent)
    add("POST", f"{base}/people/suspend", people.suspend)
    add("POST", f"{base}/people/resume", people.resume)
    add("POST", f"{base}/people/remove", people.remove)
    add("POST", f"{base}/people/offer", people.offer)
    add("POST", f"{base}/people/withdraw-offer", people.withdraw_offer)
    add("GET", f"{base}/control", people.show_offer)
    add("POST", f"{base}/control", people.take)
    add("GET", f"{base}/join", joining.show)
    add("POST", f"{base}/join", joining.submit)
