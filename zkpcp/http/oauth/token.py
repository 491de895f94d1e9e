"""``POST <base>/token``: a code or refresh token for new tokens (RFC 6749 §4.1.3 and §6)."""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from zkpcp.core.discovery import mcp_url
from zkpcp.core.schemas import JsonObject
from zkpcp.core.scopes import join
from zkpcp.core.stored import ContextRow
from zkpcp.http.limits import TOKEN_ADDRESS, TOKEN_CLIENT, address_key
from zkpcp.http.oauth.edge import (
    OAuthEdge,
    client_route,
    error_answer,
    json_answer,
    no_header_credentials,
    read_params,
)
from zkpcp.usecases.issuing import IssuedTokens
from zkpcp.usecases.token import TokenRefusal, exchange


def token_routes(edge: OAuthEdge) -> list[Route]:
    """The route of the token endpoint."""
    return [client_route(edge, "token", _token)]


async def _token(edge: OAuthEdge, request: Request, context: ContextRow) -> Response:
    address = address_key(request)
    await edge.limiter.hit(TOKEN_ADDRESS, address)
    refused = no_header_credentials(request)
    if refused is not None:
        return refused
    params = await read_params(request)
    client_id = params.one("client_id")
    if client_id is not None:
        await edge.limiter.hit(TOKEN_CLIENT, context.context_id, client_id, address)
    outcome = await exchange(edge.services, context, params, mcp_url=mcp_url(edge.site.facts(context)))
    if isinstance(outcome, TokenRefusal):
        return error_answer(outcome.error, outcome.description)
    try:
        return json_answer(HTTPStatus.OK, _reply(outcome))
    finally:
        outcome.wipe()


def _reply(issued: IssuedTokens) -> JsonObject:
    """RFC 6749 §5.1. ``scope`` is always there, since what was granted may be less than what was asked for."""
    reply: JsonObject = {
        "access_token": issued.access.text(),
        "token_type": "Bearer",
        "expires_in": issued.expires_in_s,
        "scope": join(issued.scopes),
    }
    if issued.refresh is not None:
        reply["refresh_token"] = issued.refresh.text()
    return reply
