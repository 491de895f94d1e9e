"""``GET <base>/authorize`` and ``POST <base>/consent``: from a client's request to a person's answer.

Implements RFC 6749 §4.1.1, §4.1.2, RFC 9207 and PCP §3.6 (AUTH-34, AUTH-39 to AUTH-41).

1. The request is judged. What cannot be trusted is shown on a page; other errors go to the client with ``iss``. A
   client id that names a document is looked at only after sign-in: no stranger makes this server fetch (AUTH-19).
2. Nobody signed in: to the sign-in page and back to this very URL. Its parameters are in the address bar already; no
   secret is.
3. Signed in: the request is kept as pending and the consent page is the answer itself. Its one-time secret is a hidden
   field, bound to the session, so it is in no URL, log or Referer.
4. The form's answer is a page that leads to the client: browsers hold ``form-action`` against every redirect of a form.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from zkpcp.core.authorize import Denied, Untrusted
from zkpcp.core.client_documents import ClientDocumentError
from zkpcp.core.discovery import mcp_url
from zkpcp.core.oauth_params import Params
from zkpcp.core.redirects import with_parameters
from zkpcp.core.roster import AGENT
from zkpcp.core.stored import ContextRow
from zkpcp.errors import (
    InvalidInputError,
    InvalidTokenError,
    NotFoundError,
    RateLimitedError,
    RefusedError,
)
from zkpcp.http.errors import status_of
from zkpcp.http.limits import (
    AUTHORIZE_ACCOUNT,
    AUTHORIZE_ADDRESS,
    CLIENT_DOCUMENT_ACCOUNT,
    CLIENT_DOCUMENT_ADDRESS,
    CLIENT_DOCUMENT_HOST,
    address_key,
)
from zkpcp.http.oauth.edge import OAuthEdge
from zkpcp.http.oauth.views import consent_view
from zkpcp.http.pages.cookies import session_from
from zkpcp.http.pages.forms import Form, read_form
from zkpcp.http.pages.headers import check_same_origin
from zkpcp.usecases.client_documents import Count
from zkpcp.usecases.consent import Approved, Asked, approve, ask, begin, decline, names_a_document, parse_ticket
from zkpcp.usecases.partitions import own_partitions
from zkpcp.usecases.session import OpenSession, is_signed_in, open_session
from zkpcp.vault.secrets import TokenSecret

_LOG: Final = structlog.get_logger("zkpcp.oauth")
_AGAIN: Final = "Go back to the app and connect again."


def authorize_routes(edge: OAuthEdge) -> list[Route]:
    """The routes of the authorization endpoint and of the consent form."""

    async def authorize(request: Request) -> Response:
        return await _on_a_page(edge, request, _authorize)

    async def consent(request: Request) -> Response:
        return await _on_a_page(edge, request, _consent)

    prefix = edge.site.prefix
    return [
        Route(f"{prefix}/authorize", authorize, methods=["GET"]),
        Route(f"{prefix}/consent", consent, methods=["POST"]),
    ]


PageEndpoint = Callable[[OAuthEdge, Request, ContextRow], Awaitable[Response]]


async def _on_a_page(edge: OAuthEdge, request: Request, answer: PageEndpoint) -> Response:
    """Answer with a page, whatever happens: a person is looking."""
    try:
        context = await edge.context(request)
        if context is None:
            raise NotFoundError("There is no such context here.")
        return await answer(edge, request, context)
    except RefusedError as error:
        return _error_page(edge, error)


def _error_page(edge: OAuthEdge, error: RefusedError) -> Response:
    # Not 401 for a session that ended: that asks for a scheme by which a browser could answer (RFC 9110 §15.5.2).
    status = HTTPStatus.BAD_REQUEST if isinstance(error, InvalidTokenError) else status_of(error)
    answer = edge.pages.error_page(status, "This did not work", error.message, _AGAIN)
    if isinstance(error, RateLimitedError):
        answer.headers["Retry-After"] = str(error.retry_after_s)
    return answer


async def _authorize(edge: OAuthEdge, request: Request, context: ContextRow) -> Response:
    await edge.limiter.hit(AUTHORIZE_ADDRESS, address_key(request))
    params = Params.parse(request.scope["query_string"])
    if names_a_document(edge.services, params) and not await _is_signed_in(edge, request, context):
        return _to_sign_in(edge, request, context)
    count, url = _fetch_counter(edge, request, context), mcp_url(edge.site.facts(context))
    try:
        asked = await ask(edge.services, context, params, mcp_url=url, count=count)
    except ClientDocumentError as error:
        # Which rule was broken is for the operator; to the person it is one sentence.
        _LOG.info("client_document_refused", fault=error.fault)
        asked = Untrusted(error.message)
    match asked:
        case Untrusted(reason):
            return edge.pages.error_page(HTTPStatus.BAD_REQUEST, "This app cannot be connected", reason, _AGAIN)
        case Denied():
            # Not the answer to a form, so a plain redirect reaches the client.
            return _leave(_callback(edge, context, asked), HTTPStatus.FOUND)
        case Asked():
            return await _show(edge, request, context, asked)


def _fetch_counter(edge: OAuthEdge, request: Request, context: ContextRow) -> Count:
    async def count(host: str) -> None:
        await edge.limiter.hit(CLIENT_DOCUMENT_ACCOUNT, context.context_id)
        await edge.limiter.hit(CLIENT_DOCUMENT_ADDRESS, address_key(request))
        await edge.limiter.hit(CLIENT_DOCUMENT_HOST, host)

    return count


async def _is_signed_in(edge: OAuthEdge, request: Request, context: ContextRow) -> bool:
    token = session_from(request, context, secure=edge.site.is_secure)
    if token is None:
        return False
    try:
        return await is_signed_in(edge.services, context, token)
    finally:
        token.wipe()


async def _show(edge: OAuthEdge, request: Request, context: ContextRow, asked: Asked) -> Response:
    token = session_from(request, context, secure=edge.site.is_secure)
    if token is None:
        return _to_sign_in(edge, request, context)
    try:
        async with open_session(edge.services, context, token) as session:
            # Only now: a cookie that merely looks like a session's would let strangers use the limit up.
            await edge.limiter.hit(AUTHORIZE_ACCOUNT, context.context_id)
            pending = await begin(edge.services, session, token, asked)
            roster = session.keyring.roster
            partitions = await own_partitions(edge.services, session) if context.is_partitioned else ()
    except InvalidTokenError:
        return _to_sign_in(edge, request, context)
    finally:
        token.wipe()
    view = consent_view(
        context,
        pending.client,
        pending.row,
        account=session.principal,
        partitions=partitions,
        role=roster.role(session.principal),
        agents=[each.principal for each in roster.principals if each.role == AGENT],
        request_secret=pending.ticket.text(),
        action_url=f"{edge.site.base_path(context.handle)}/consent",
    )
    pending.ticket.wipe()
    return edge.pages.consent_page(view)


def _to_sign_in(edge: OAuthEdge, request: Request, context: ContextRow) -> Response:
    base = edge.site.base_path(context.handle)
    back = f"{base}/authorize?{request.scope['query_string'].decode('ascii')}"
    return _leave(f"{base}/sign-in?next={quote(back, safe='/')}", HTTPStatus.SEE_OTHER)


async def _consent(edge: OAuthEdge, request: Request, context: ContextRow) -> Response:
    await edge.limiter.hit(AUTHORIZE_ADDRESS, address_key(request))
    check_same_origin(request, edge.site.origins_at(request.headers.get("host", "")))
    form = await read_form(request)
    token = session_from(request, context, secure=edge.site.is_secure)
    if token is None:
        raise InvalidTokenError("you are not signed in any more")
    try:
        async with open_session(edge.services, context, token) as session:
            answer = await _answer(edge, session, token, form)
    finally:
        token.wipe()
    return edge.pages.redirect_page(_callback(edge, context, answer))


async def _answer(edge: OAuthEdge, session: OpenSession, token: TokenSecret, form: Form) -> Approved | Denied:
    decision = form.one("decision")
    if decision not in ("allow", "deny"):
        raise InvalidInputError("the form does not say whether to allow")
    ticket = parse_ticket(form.one("request"))
    try:
        if decision == "deny":
            return await decline(edge.services, session, token, ticket)
        return await approve(edge.services, session, token, ticket, form.all("scope"), form.one("agent") or None)
    finally:
        ticket.wipe()


def _callback(edge: OAuthEdge, context: ContextRow, answer: Approved | Denied) -> str:
    """The client's redirect URI with the answer; ``iss`` stands on every one (RFC 9207 §2)."""
    if isinstance(answer, Approved):
        parameters = [("code", answer.code.text())]
        answer.code.wipe()
    else:
        parameters = [("error", answer.error), ("error_description", answer.description)]
    if answer.state is not None:
        parameters.append(("state", answer.state))
    parameters.append(("iss", edge.site.base_url(context.handle)))
    return with_parameters(answer.redirect_uri, parameters)


def _leave(url: str, status: HTTPStatus) -> Response:
    """Redirect to an ASCII URL exactly as it is: a redirect URI must arrive as the client registered it."""
    headers = {"Location": url, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
    return Response(status_code=status, headers=headers)
