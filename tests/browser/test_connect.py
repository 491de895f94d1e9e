"""The whole way in, as a person walks it in Chromium against the real server: set up, connect an app, decline a scope.

The app is a real loopback client: it registers, sends the browser to the consent page, receives the code, exchanges it
with PKCE, and calls the MCP endpoint with the `mcp` client.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from playwright.async_api import Page

from tests.support.server import RunningServer

PASSPHRASE = "four plain words here"
VERIFIER = "a-verifier-of-forty-three-characters-or-more-0123"
STATE = "st4te-with spaces & more"
NARROW = {"width": 360, "height": 740}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    running = RunningServer(tmp_path)
    running.start()
    yield running
    running.stop()


@dataclass
class LoopbackApp:
    """An app on this computer that waits for the browser to come back."""

    port: int = 0
    came_back: asyncio.Future[str] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def redirect_uri(self) -> str:
        return f"http://127.0.0.1:{self.port}/callback"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        target = head.split(" ")[1]
        if target.startswith("/callback") and not self.came_back.done():
            assert "referer:" not in head.lower()
            self.came_back.set_result(target)
        body = b"You can close this tab."
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()


@asynccontextmanager
async def waiting_app() -> AsyncIterator[LoopbackApp]:
    app = LoopbackApp()
    listener = await asyncio.start_server(app.answer, "127.0.0.1", 0)
    app.port = listener.sockets[0].getsockname()[1]
    async with listener:
        yield app


async def set_up(page: Page, origin: str) -> str:
    """Set the context ada up; returns the recovery code that the page showed."""
    await page.goto(origin)
    await page.get_by_label("Handle").fill("ada")
    await page.get_by_label("Your name").fill("Ada Example")
    await page.get_by_label("Passphrase", exact=True).fill(PASSPHRASE)
    await page.get_by_label("The same passphrase again").fill(PASSPHRASE)
    await page.get_by_label("Nobody can restore").check()
    await page.get_by_role("button", name="Set up").click()
    await page.get_by_role("heading", level=1).wait_for()
    return await page.locator("main").inner_text()


async def register(http: httpx2.AsyncClient, base: str, app: LoopbackApp) -> str:
    metadata = {
        "client_name": "Garden Helper",
        "redirect_uris": [app.redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_method": "none",
    }
    answer = await http.post(f"{base}/register", json=metadata)
    assert answer.status_code == 201
    return str(answer.json()["client_id"])


def authorize_url(base: str, client_id: str, app: LoopbackApp) -> str:
    challenge = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
    parameters = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": app.redirect_uri,
        "state": STATE,
        "scope": "profile.core:read memory:read memory:write memory.sensitive:read offline_access",
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        "resource": f"{base}/mcp",
    }
    return f"{base}/authorize?{urlencode(parameters)}"


@pytest.mark.requirement("AUTH-39", "AUTH-40", "AUTH-34")
async def test_a_person_sets_up_connects_an_app_and_declines_one_scope(server: RunningServer, page: Page) -> None:
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    base = f"{server.origin}/c/ada"
    async with waiting_app() as app, httpx2.AsyncClient() as http:
        shown = await set_up(page, server.origin)
        assert "recovery" in shown.lower()
        client_id = await register(http, base, app)

        await page.goto(authorize_url(base, client_id, app))
        consent = await page.locator("main").inner_text()
        assert "Garden Helper" in consent
        assert f"127.0.0.1:{app.port}" in consent
        assert not await page.get_by_role("checkbox", name="marked sensitive, such as").is_checked()
        await page.get_by_role("checkbox", name="Create and change memory pages").uncheck()
        await page.get_by_role("button", name="Allow", exact=True).click()

        target = await asyncio.wait_for(app.came_back, 20)
        answer = {name: values[0] for name, values in parse_qs(urlsplit(target).query).items()}
        assert answer["state"] == STATE
        assert answer["iss"] == base
        tokens = await exchange(http, base, client_id, app, answer["code"])
        assert tokens["scope"] == "profile.core:read memory:read offline_access"
        await use(base, tokens["access_token"])
    assert complaints == []


async def exchange(http: httpx2.AsyncClient, base: str, client_id: str, app: LoopbackApp, code: str) -> dict[str, str]:
    form = {
        "grant_type": "authorization_code",
        "client_id": client_id,
        "code": code,
        "redirect_uri": app.redirect_uri,
        "code_verifier": VERIFIER,
        "resource": f"{base}/mcp",
    }
    answer = await http.post(f"{base}/token", data=form)
    assert answer.status_code == 200
    tokens: dict[str, str] = answer.json()
    return tokens


async def use(base: str, access_token: str) -> None:
    """What was declined is not there: the page cannot be written, and the tool is not listed."""
    headers = {"Authorization": f"Bearer {access_token}"}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(f"{base}/mcp", http_client=http)) as client,
    ):
        names = {tool.name for tool in (await client.list_tools()).tools}
        brief = await client.call_tool("context_brief", {})
    assert "memory_write" not in names
    assert "memory_read" in names
    assert brief.structured_content is not None
    assert brief.structured_content["profile"]["name"] == "Ada Example"


async def test_somebody_who_is_not_signed_in_comes_to_consent_after_the_passphrase(
    server: RunningServer, page: Page
) -> None:
    base = f"{server.origin}/c/ada"
    async with waiting_app() as app, httpx2.AsyncClient() as http:
        await set_up(page, server.origin)
        client_id = await register(http, base, app)
        await page.context.clear_cookies()
        await page.set_viewport_size({"width": NARROW["width"], "height": NARROW["height"]})

        await page.goto(authorize_url(base, client_id, app))
        await page.get_by_label("Passphrase").fill("not the passphrase")
        await page.keyboard.press("Enter")
        await page.get_by_text("That did not work").wait_for()
        await page.get_by_label("Passphrase").fill(PASSPHRASE)
        await page.keyboard.press("Enter")

        await page.get_by_role("heading", name="Garden Helper").wait_for()
        assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        await page.get_by_role("button", name="Don't allow").press("Enter")
        target = await asyncio.wait_for(app.came_back, 20)

    answer = {name: values[0] for name, values in parse_qs(urlsplit(target).query).items()}
    assert answer["error"] == "access_denied"
    assert answer["iss"] == base
    assert "code" not in answer
