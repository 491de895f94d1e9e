"""A client that nobody has prepared connects by itself: 401, discovery, registration, sign-in, consent, tokens, tools.

The client is the reference client's own OAuth provider; the person is a browser's worth of HTTP: a cookie jar that
follows redirects, and forms sent back as they came. What a real browser makes of the pages is tested elsewhere.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlencode

import httpx2
import mcp
import pytest
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

from tests.flows.oauth_support import boxes, hidden, leaving
from tests.live.owner import PASSPHRASE, Connection, connected
from tests.support.oauth_wallet import Wallet
from tests.support.server import RunningServer

REDIRECT_URI = "http://127.0.0.1:33418/callback"


@dataclass
class Person:
    """The owner at a browser: signs in when asked, and unticks what ``declines`` names."""

    passphrase: str
    declines: tuple[str, ...] = ()
    shown: list[str] = field(default_factory=list)
    callback: dict[str, str] = field(default_factory=dict)

    async def visit(self, url: str) -> None:
        origin = url.partition("/c/")[0]
        async with httpx2.AsyncClient(base_url=origin, follow_redirects=True, timeout=60) as browser:
            page = await browser.get(url)
            if 'name="passphrase"' in page.text:
                form = {"passphrase": self.passphrase, "next": hidden(page, "next")}
                page = await browser.post(page.url.path, data=form, headers={"origin": origin})
            assert page.status_code == 200
            self.shown = list(boxes(page))
            allowed = [scope for scope, ticked in boxes(page).items() if ticked and scope not in self.declines]
            body = urlencode({"request": hidden(page, "request"), "scope": allowed, "decision": "allow"}, doseq=True)
            headers = {"origin": origin, "content-type": "application/x-www-form-urlencoded"}
            answer = await browser.post(page.url.path.replace("/authorize", "/consent"), content=body, headers=headers)
        left = leaving(answer)
        assert left.url.startswith(f"{REDIRECT_URI}?")
        self.callback = dict(left.parameters)

    async def returned(self) -> AuthorizationCodeResult:
        return AuthorizationCodeResult(**self.callback)


def provider(connection: Connection, kept: Wallet, person: Person) -> OAuthClientProvider:
    metadata = OAuthClientMetadata.model_validate({"redirect_uris": [REDIRECT_URI], "client_name": "Example client"})
    return OAuthClientProvider(
        server_url=connection.mcp_url,
        client_metadata=metadata,
        storage=kept,
        redirect_handler=person.visit,
        callback_handler=person.returned,
    )


@asynccontextmanager
async def connecting(connection: Connection, auth: OAuthClientProvider) -> AsyncIterator[mcp.Client]:
    async with (
        httpx2.AsyncClient(auth=auth, timeout=60) as http,
        mcp.Client(streamable_http_client(connection.mcp_url, http_client=http)) as client,
    ):
        yield client


@pytest.mark.requirement("AUTH-10", "AUTH-13", "AUTH-17", "AUTH-21", "AUTH-34", "AUTH-39", "AUTH-40")
async def test_an_unprepared_client_connects_with_one_scope_declined(server: RunningServer) -> None:
    connection = await connected(server)
    kept, person = Wallet(), Person(PASSPHRASE, declines=("memory:write",))

    async with connecting(connection, provider(connection, kept, person)) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        brief = await client.call_tool("context_brief", {})

    assert "memory:write" in person.shown
    assert person.callback["iss"] == connection.base_url
    assert kept.tokens is not None
    assert "memory:write" not in (kept.tokens.scope or "").split()
    assert "memory_read" in tools
    assert "memory_write" not in tools
    assert brief.structured_content is not None
    assert brief.structured_content["profile"]["name"] == "Ada Example"


@pytest.mark.requirement("AUTH-27", "AUTH-30")
async def test_a_connected_client_renews_its_tokens_without_the_person(sqlite_server: RunningServer) -> None:
    connection = await connected(sqlite_server)
    kept, person = Wallet(), Person(PASSPHRASE)
    auth = provider(connection, kept, person)
    async with connecting(connection, auth) as client:
        written = await client.call_tool("memory_write", {"path": "a", "body": "kept"})
    first = kept.tokens

    person.passphrase = "nobody is here"
    auth.context.token_expiry_time = 1  # an hour later, as the client counts
    async with connecting(connection, auth) as client:
        read = await client.call_tool("memory_read", {"path": "a"})

    assert not written.is_error
    assert not read.is_error
    assert first is not None
    assert kept.tokens is not None
    assert kept.tokens.access_token != first.access_token
    assert kept.tokens.refresh_token not in (None, first.refresh_token)
