"""A server on a person's own computer: who may speak to it, from where and how (PCP §9.4)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Final

import httpx2
import pytest

from tests.flows.usecase_support import World
from zkpcp.bootstrap import build_app
from zkpcp.config import LOOPBACK_HOSTS, Settings

ORIGIN: Final = "http://127.0.0.1:8765"
FRIEND: Final = "http://localhost:6274"
FOREIGN_HOSTS: Final = (
    "evil.example",
    "evil.example:8765",
    "localhost.evil.example:8765",
    "127.0.0.1.evil.example",
    "127.0.0.2:8765",
    "0.0.0.0:8765",
    "[::2]:8765",
    "localhost:8765@evil.example",
    "localhost:",
    "",
)
FOREIGN_ORIGINS: Final = (
    "https://evil.example",
    "http://evil.example:8765",
    "http://127.0.0.1",
    "http://127.0.0.1:8766",
    "https://127.0.0.1:8765",
    "http://localhost.evil.example:8765",
    "null",
    "",
)
LISTING: Final = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "memory_list", "arguments": {}},
}


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Settings:
    """What somebody gets who sets nothing but one more web origin."""
    for name in ("HOST", "PORT", "PUBLIC_URL", "LAYOUT"):
        monkeypatch.delenv(f"ZKPCP_{name}", raising=False)
    return Settings(allowed_origins=(FRIEND,))


@pytest.fixture
async def http(world: World, settings: Settings) -> AsyncIterator[httpx2.AsyncClient]:
    app = build_app(world.services, settings)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=ORIGIN) as client:
        yield client


@pytest.fixture
async def bearer(world: World) -> str:
    return f"Bearer {(await world.grant('memory:read')).token}"


async def post(http: httpx2.AsyncClient, bearer: str, **headers: str) -> httpx2.Response:
    sent = {"authorization": bearer, "content-type": "application/json"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    return await http.post("/c/ada/mcp", content=json.dumps(LISTING), headers=sent)


@pytest.mark.requirement("SEC-05")
def test_whoever_sets_nothing_listens_on_this_computer_only(settings: Settings) -> None:
    assert settings.host in LOOPBACK_HOSTS
    assert settings.is_loopback


@pytest.mark.requirement("SEC-06")
@pytest.mark.parametrize("host", ["localhost:8765", "127.0.0.1:8765", "[::1]:8765", "LocalHost:8765"])
async def test_each_name_of_this_computer_is_served(http: httpx2.AsyncClient, bearer: str, host: str) -> None:
    assert (await post(http, bearer, host=host)).status_code == 200
    assert (await http.get("/healthz", headers={"host": host})).status_code == 200


@pytest.mark.requirement("SEC-06")
@pytest.mark.parametrize("path", ["/healthz", "/c/ada/mcp", "/c/ada/authorize", "/c/ada/.well-known/pcp.json", "/"])
async def test_any_other_host_is_refused_everywhere_with_a_good_token_too(
    http: httpx2.AsyncClient, bearer: str, path: str
) -> None:
    for host in FOREIGN_HOSTS:
        for method in ("GET", "POST"):
            reply = await http.request(method, path, headers={"host": host, "authorization": bearer})
            assert reply.status_code == 421, host
            assert "ada" not in reply.text


@pytest.mark.requirement("SEC-06")
async def test_two_hosts_are_none(http: httpx2.AsyncClient) -> None:
    reply = await http.get("/healthz", headers=[("host", "127.0.0.1:8765"), ("host", "evil.example")])

    assert reply.status_code == 421


@pytest.mark.requirement("SEC-07")
@pytest.mark.parametrize("origin", FOREIGN_ORIGINS)
async def test_a_page_of_an_origin_that_is_not_listed_is_refused(
    http: httpx2.AsyncClient, bearer: str, origin: str
) -> None:
    reply = await post(http, bearer, origin=origin)

    assert reply.status_code == 403
    assert "access-control-allow-origin" not in reply.headers


@pytest.mark.requirement("SEC-07")
@pytest.mark.parametrize("origin", [ORIGIN, "http://localhost:8765", "http://[::1]:8765", FRIEND])
async def test_our_own_pages_and_a_listed_origin_are_served(http: httpx2.AsyncClient, bearer: str, origin: str) -> None:
    reply = await post(http, bearer, origin=origin)

    assert reply.status_code == 200
    assert reply.headers["access-control-allow-origin"] == origin


@pytest.mark.requirement("SEC-07")
@pytest.mark.parametrize(
    "media_type",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json", ""],
)
async def test_what_a_form_of_any_page_could_send_is_not_read(
    world: World, http: httpx2.AsyncClient, bearer: str, media_type: str
) -> None:
    before = len(await world.entries())

    reply = await post(http, bearer, content_type=media_type)

    assert reply.status_code == 415
    assert len(await world.entries()) == before


@pytest.mark.requirement("SEC-08")
@pytest.mark.parametrize("token", [None, "Bearer ", "Bearer pcp_at_", "Basic YWRhOmFkYQ==", "bearer x y"])
async def test_being_on_the_same_computer_proves_nothing(http: httpx2.AsyncClient, token: str | None) -> None:
    headers = {"content-type": "application/json"} | ({} if token is None else {"authorization": token})
    for method in ("initialize", "ping", "server/discover", "tools/list", "tools/call"):
        body: dict[str, Any] = LISTING | {"method": method}
        reply = await http.post("/c/ada/mcp", content=json.dumps(body), headers=headers)

        assert reply.status_code == 401, method
        assert reply.headers["www-authenticate"].startswith("Bearer ")
