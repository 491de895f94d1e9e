"""Whole flows with clients that we did not write: authlib's and the MCP package's."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from authlib.integrations.httpx_client import AsyncOAuth2Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.shared.auth import OAuthClientMetadata

from tests.flows.oauth_support import REDIRECT_URI, OAuthServer, leaving, oauth_server
from tests.flows.test_oauth_documents import CLIENT, Web, document
from tests.support.oauth_wallet import Wallet
from zkpcp.core.audit import Action
from zkpcp.http.site import Layout

LOOPBACK = "http://127.0.0.1:49152/callback"


class Person:
    """Opens the address the client gives and allows what is ticked."""

    def __init__(self, server: OAuthServer) -> None:
        self.server = server
        self.asked: list[dict[str, list[str]]] = []
        self.answer: AuthorizationCodeResult | None = None

    async def visit(self, url: str) -> None:
        self.asked.append(parse_qs(urlsplit(url).query))
        sent = leaving(await self.server.decide(await self.server.get(url, signed_in=True))).parameters
        self.answer = AuthorizationCodeResult(code=sent["code"], state=sent["state"], iss=sent["iss"])

    async def callback(self) -> AuthorizationCodeResult:
        assert self.answer is not None
        return self.answer


@pytest.mark.requirement("AUTH-07", "AUTH-08", "AUTH-13", "AUTH-17", "AUTH-34")
@pytest.mark.parametrize("layout", ["paths", "single", "hosts"])
async def test_the_mcp_client_finds_its_way_from_the_endpoint_alone(layout: Layout) -> None:
    server = await oauth_server(layout=layout, whole=True)
    wallet, person = Wallet(), Person(server)
    metadata = OAuthClientMetadata.model_validate({"client_name": "MCP client", "redirect_uris": [LOOPBACK]})
    provider = OAuthClientProvider(f"{server.base}/mcp", metadata, wallet, person.visit, person.callback)
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    headers = {"accept": "application/json, text/event-stream"}

    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(server.app), auth=provider) as http:
        answer = await http.post(f"{server.base}/mcp", json=ping, headers=headers)
        assert answer.status_code == 200
        assert wallet.tokens is not None
        assert wallet.tokens.refresh_token is not None
        first = wallet.tokens.access_token
        provider.context.token_expiry_time = 1.0
        assert (await http.post(f"{server.base}/mcp", json=ping, headers=headers)).status_code == 200

    assert wallet.tokens.access_token != first
    [asked] = person.asked
    assert asked["resource"] == [f"{server.base}/mcp"]
    assert asked["code_challenge_method"] == ["S256"]
    assert len(await server.grants()) == 1


@pytest.mark.requirement("AUTH-13", "AUTH-17", "AUTH-18", "AUTH-30")
@pytest.mark.parametrize("layout", ["paths", "single", "hosts"])
async def test_the_mcp_client_with_a_document_is_known_by_it_and_registers_nothing(layout: Layout) -> None:
    web = Web({CLIENT: document(redirect_uris=["http://127.0.0.1/callback"])})
    server = await oauth_server(layout=layout, documents=web, whole=True)
    wallet, person = Wallet(), Person(server)
    metadata = OAuthClientMetadata.model_validate({"client_name": "MCP client", "redirect_uris": [LOOPBACK]})
    provider = OAuthClientProvider(
        f"{server.base}/mcp", metadata, wallet, person.visit, person.callback, client_metadata_url=CLIENT
    )
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    headers = {"accept": "application/json, text/event-stream"}

    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(server.app), auth=provider) as http:
        assert (await http.post(f"{server.base}/mcp", json=ping, headers=headers)).status_code == 200
        provider.context.token_expiry_time = 1.0
        assert (await http.post(f"{server.base}/mcp", json=ping, headers=headers)).status_code == 200

    [asked] = person.asked
    assert asked["client_id"] == [CLIENT]
    assert web.fetched == [CLIENT]
    [grant] = await server.grants()
    assert (grant.client_id, grant.client_name) == (CLIENT, "Example Tool")
    assert Action.CLIENT_REGISTERED not in await server.actions()
    assert Action.TOKEN_REFRESHED in await server.actions()


@pytest.mark.requirement("AUTH-29", "AUTH-30")
async def test_authlibs_client_connects_refreshes_and_disconnects() -> None:
    server = await oauth_server()
    client_id = await server.client_id()
    client: Any = AsyncOAuth2Client(  # type: ignore[no-untyped-call]  # authlib has no annotations, hence Any
        client_id,
        token_endpoint_auth_method="none",
        revocation_endpoint_auth_method="none",
        code_challenge_method="S256",
        redirect_uri=REDIRECT_URI,
        scope="memory:read offline_access",
        transport=httpx2.ASGITransport(server.app),
    )
    verifier = "authlib-" + "x" * 40
    url, state = client.create_authorization_url(f"{server.base}/authorize", code_verifier=verifier)

    sent = leaving(await server.decide(await server.get(url, signed_in=True)))
    assert sent.parameters["state"] == state
    token = await client.fetch_token(f"{server.base}/token", authorization_response=sent.url, code_verifier=verifier)
    renewed = await client.refresh_token(f"{server.base}/token", token["refresh_token"])
    assert renewed["refresh_token"] != token["refresh_token"]
    revoked = await client.revoke_token(f"{server.base}/revoke", renewed["refresh_token"])

    assert revoked.status_code == 200
    assert await server.grants() == []
    await client.aclose()
