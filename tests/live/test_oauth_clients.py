"""Clients that we did not write sign in to a running server over real connections, through the pages a person sees."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import httpx2
import mcp
import pytest
from authlib.integrations.httpx_client import AsyncOAuth2Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

from tests.external.browser import browser
from tests.live.conftest import ServerMaker
from tests.live.owner import PASSPHRASE, Connection, connected
from tests.support.oauth_wallet import Wallet

CALLBACK: Final = "http://127.0.0.1:49152/callback"


class Person:
    """Opens the address the client gives, signs in and allows what is ticked."""

    def __init__(self) -> None:
        self.answers: list[str] = []

    async def visit(self, url: str) -> None:
        self.answers.append(await asyncio.to_thread(self._approve, url))

    async def callback(self) -> AuthorizationCodeResult:
        sent = {name: values[0] for name, values in parse_qs(urlsplit(self.answers[-1]).query).items()}
        return AuthorizationCodeResult(code=sent["code"], state=sent["state"], iss=sent["iss"])

    @staticmethod
    def _approve(url: str) -> str:
        with browser(PASSPHRASE) as here:
            return here.approve(url)


@pytest.fixture
async def context(make_server: ServerMaker) -> Connection:
    server = make_server()
    server.start()
    return await connected(server)


@pytest.mark.requirement("AUTH-07", "AUTH-13", "AUTH-17", "AUTH-30", "AUTH-34")
async def test_the_mcp_client_signs_in_from_the_address_alone_and_stays_in(context: Connection) -> None:
    wallet, person = Wallet(), Person()
    metadata = OAuthClientMetadata.model_validate({"client_name": "MCP client", "redirect_uris": [CALLBACK]})
    provider = OAuthClientProvider(context.mcp_url, metadata, wallet, person.visit, person.callback)

    await _with_client(context, provider, _writes)
    assert wallet.tokens is not None
    assert wallet.tokens.refresh_token is not None
    first = wallet.tokens.access_token
    provider.context.token_expiry_time = 1.0
    await _with_client(context, provider, _reads)

    assert wallet.tokens.access_token != first
    assert len(person.answers) == 1


@pytest.mark.requirement("AUTH-20", "AUTH-29", "AUTH-30", "AUTH-34")
async def test_authlibs_client_signs_in_refreshes_and_disconnects(context: Connection) -> None:
    async with httpx2.AsyncClient(trust_env=False) as http:
        metadata = {"client_name": "authlib", "redirect_uris": [CALLBACK]}
        client_id = (await http.post(f"{context.base_url}/register", json=metadata)).json()["client_id"]
        client: Any = AsyncOAuth2Client(  # type: ignore[no-untyped-call]  # authlib has no annotations, hence Any
            client_id,
            token_endpoint_auth_method="none",
            revocation_endpoint_auth_method="none",
            code_challenge_method="S256",
            redirect_uri=CALLBACK,
            scope="memory:read offline_access",
        )
        verifier = "authlib-" + "x" * 40
        url, state = client.create_authorization_url(f"{context.base_url}/authorize", code_verifier=verifier)
        person = Person()
        await person.visit(url)
        answer = person.answers[0]
        assert parse_qs(urlsplit(answer).query)["state"] == [state]

        token_url = f"{context.base_url}/token"
        token = await client.fetch_token(token_url, authorization_response=answer, code_verifier=verifier)
        renewed = await client.refresh_token(token_url, token["refresh_token"])
        assert await _status(http, context, renewed["access_token"]) == 200
        revoked = await client.revoke_token(f"{context.base_url}/revoke", renewed["refresh_token"])

        assert revoked.status_code == 200
        assert await _status(http, context, renewed["access_token"]) == 401
        await client.aclose()


async def _with_client(
    context: Connection, provider: OAuthClientProvider, use: Callable[[mcp.Client], Awaitable[None]]
) -> None:
    async with (
        httpx2.AsyncClient(auth=provider, timeout=30, trust_env=False) as http,
        mcp.Client(streamable_http_client(context.mcp_url, http_client=http)) as client,
    ):
        await use(client)


async def _writes(client: mcp.Client) -> None:
    result = await client.call_tool("memory_write", {"path": "notes/herons", "body": "They nest early.\n"})
    assert not result.is_error


async def _reads(client: mcp.Client) -> None:
    result = await client.call_tool("memory_read", {"path": "notes/herons"})
    assert result.structured_content is not None
    assert result.structured_content["page"]["body"] == "They nest early.\n"


async def _status(http: httpx2.AsyncClient, context: Connection, token: str) -> int:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    headers = {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream"}
    return (await http.post(context.mcp_url, json=ping, headers=headers)).status_code
