"""The OAuth routes of every context, put together."""

from __future__ import annotations

from starlette.routing import Route

from zkpcp.http.oauth.authorize import authorize_routes
from zkpcp.http.oauth.edge import OAuthEdge
from zkpcp.http.oauth.register import register_routes
from zkpcp.http.oauth.revoke import revoke_routes
from zkpcp.http.oauth.token import token_routes


def oauth_routes(edge: OAuthEdge) -> list[Route]:
    """Registration, authorization with consent, token, revocation; the metadata is ``wellknown``'s."""
    return [*register_routes(edge), *authorize_routes(edge), *token_routes(edge), *revoke_routes(edge)]
