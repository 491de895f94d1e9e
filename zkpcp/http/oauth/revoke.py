"""``POST <base>/revoke``: a client gives up its grant (RFC 7009, AUTH-29)."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from zkpcp.core.stored import ContextRow
from zkpcp.http.limits import TOKEN_ADDRESS, address_key
from zkpcp.http.oauth.edge import (
    OAuthEdge,
    client_route,
    empty_answer,
    error_answer,
    no_header_credentials,
    read_params,
)
from zkpcp.usecases.token import revoke


def revoke_routes(edge: OAuthEdge) -> list[Route]:
    """The route of the revocation endpoint."""
    return [client_route(edge, "revoke", _revoke)]


async def _revoke(edge: OAuthEdge, request: Request, context: ContextRow) -> Response:
    await edge.limiter.hit(TOKEN_ADDRESS, address_key(request))
    refused = no_header_credentials(request)
    if refused is not None:
        return refused
    outcome = await revoke(edge.services, context, await read_params(request))
    return empty_answer() if outcome is None else error_answer(outcome.error, outcome.description)
