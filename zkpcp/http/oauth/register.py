"""``POST <base>/register``: dynamic client registration (RFC 7591, AUTH-17, AUTH-20)."""

from __future__ import annotations

import json
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from zkpcp.core.schemas import JsonObject
from zkpcp.core.stored import ClientRow, ContextRow
from zkpcp.errors import InvalidInputError
from zkpcp.http.limits import REGISTER_ADDRESS, address_key
from zkpcp.http.oauth.edge import OAuthEdge, client_route, error_answer, json_answer, read_body
from zkpcp.usecases.clients import register


def register_routes(edge: OAuthEdge) -> list[Route]:
    """The route of the registration endpoint."""
    return [client_route(edge, "register", _register)]


async def _register(edge: OAuthEdge, request: Request, context: ContextRow) -> Response:
    await edge.limiter.hit(REGISTER_ADDRESS, address_key(request))
    metadata = _parsed(await read_body(request))
    if metadata is None:
        return error_answer("invalid_client_metadata", "the body must be a JSON object")
    try:
        client = await register(edge.services, context, metadata)
    except InvalidInputError as error:
        return error_answer("invalid_redirect_uri", error.message)
    return json_answer(HTTPStatus.CREATED, _reply(client))


def _parsed(body: bytes) -> JsonObject | None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _reply(client: ClientRow) -> JsonObject:
    """What was registered, which may be less than what was asked for (RFC 7591 §3.2.1)."""
    return {
        "client_id": client.client_id,
        "client_id_issued_at": client.created_ms // 1000,
        "client_name": client.name,
        "redirect_uris": list(client.redirect_uris),
        "grant_types": ["authorization_code", *(["refresh_token"] if client.refreshable else [])],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }
