"""One context at the origin, many below a path, many on host names of their own: the same rules, told apart."""

from __future__ import annotations

from collections.abc import Mapping

import httpx2
import pytest

from tests.flows.oauth_support import HANDLE, ORIGIN, PASSPHRASE, OAuthServer, leaving, oauth_server
from tests.support.page_server import PageServer, page_server
from zkpcp.core.client_documents import ClientUrl, Fetched
from zkpcp.core.schemas import JsonObject
from zkpcp.core.stored import ContextRow
from zkpcp.errors import InvalidInputError
from zkpcp.http.site import Layout, Site
from zkpcp.usecases.found import found_context
from zkpcp.usecases.grants import create_grant
from zkpcp.usecases.session import open_session, sign_in
from zkpcp.vault.secrets import parse_token

LAYOUTS = pytest.mark.parametrize("layout", ["paths", "single", "hosts"])
OF_MANY = pytest.mark.parametrize("layout", ["paths", "hosts"])
PING: JsonObject = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
BASES: Mapping[str, str] = {
    "paths": f"{ORIGIN}/c/{HANDLE}",
    "single": ORIGIN,
    "hosts": f"https://{HANDLE}.pcp.example",
}


async def mcp(server: OAuthServer, url: str, token: str | None = None, **headers: str) -> httpx2.Response:
    sent = {"accept": "application/json, text/event-stream", **headers}
    if token is not None:
        sent["authorization"] = f"Bearer {token}"
    async with server.http() as http:
        return await http.post(url, json=PING, headers=sent)


async def connected(server: OAuthServer) -> str:
    return str((await server.tokens(await server.client_id()))["access_token"])


async def another_context(server: OAuthServer) -> tuple[ContextRow, str, str]:
    """Another context of the same server, its owner's session, and an access token for it."""
    founded = await found_context(server.services, handle="byron", kind="personal", passphrase=PASSPHRASE)
    session = await sign_in(server.services, founded.context, passphrase=PASSPHRASE)
    text = session.text()
    async with open_session(server.services, founded.context, session) as owner:
        made = await create_grant(server.services, owner, client_name="script", scopes="memory:read")
    return founded.context, text, made.access.text()


# ------------------------------------------------------------------------------------------------------ MCP and tokens


@pytest.mark.requirement("AUTH-10", "AUTH-11", "DISC-09")
@LAYOUTS
async def test_who_shows_no_token_is_led_to_the_metadata_of_this_context(layout: Layout) -> None:
    server = await oauth_server(layout=layout, whole=True)
    assert server.base == BASES[layout]

    answer = await mcp(server, f"{server.base}/mcp")

    challenge = answer.headers["www-authenticate"]
    assert answer.status_code == 401
    assert "error=" not in challenge
    assert 'scope="profile.core:read memory:read memory:write"' in challenge
    url = challenge.split('resource_metadata="')[1].split('"')[0]
    assert (await server.get(url)).json()["resource"] == f"{server.base}/mcp"


@pytest.mark.requirement("AUTH-12", "AUTH-24", "AUTH-25", "CTX-05")
@OF_MANY
async def test_a_token_serves_its_own_context_and_is_none_for_another(layout: Layout) -> None:
    server = await oauth_server(layout=layout, whole=True)
    mine = await connected(server)
    _, _, theirs = await another_context(server)

    assert (await mcp(server, f"{server.base}/mcp", mine)).status_code == 200
    assert (await mcp(server, f"{server.site.base_url('byron')}/mcp", theirs)).status_code == 200
    for url, token in ((server.base, theirs), (server.site.base_url("byron"), mine)):
        refused = await mcp(server, f"{url}/mcp", token)
        assert refused.status_code == 401
        assert 'error="invalid_token"' in refused.headers["www-authenticate"]


@pytest.mark.requirement("AUTH-09", "AUTH-44")
@OF_MANY
async def test_an_unknown_context_and_the_origin_itself_are_no_resource(layout: Layout) -> None:
    server = await oauth_server(layout=layout, whole=True)
    token = await connected(server)

    for url in (server.site.base_url("nobody"), ORIGIN):
        for sent in (token, None):
            answer = await mcp(server, f"{url}/mcp", sent)
            assert answer.status_code == 404
            assert answer.headers["content-type"] == "application/json"
            assert "www-authenticate" not in answer.headers


@pytest.mark.requirement("AUTH-26")
@LAYOUTS
async def test_tokens_of_somebody_else_are_refused_and_ours_are_sent_nowhere(layout: Layout) -> None:
    class Nowhere:
        async def fetch(self, url: ClientUrl) -> Fetched:
            raise AssertionError(f"a call made this server ask {url.host}")

    server = await oauth_server(layout=layout, documents=Nowhere(), whole=True)

    assert (await mcp(server, f"{server.base}/mcp", await connected(server))).status_code == 200
    for foreign in (
        "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJodHRwczovL290aGVyLmV4YW1wbGUvIn0.c2ln",
        "ghp_0123456789abcdef0123456789abcdef0123",
        f"pcp_at_{'A' * 43}",
    ):
        refused = await mcp(server, f"{server.base}/mcp", foreign)
        assert refused.status_code == 401
        assert 'error="invalid_token"' in refused.headers["www-authenticate"]


@pytest.mark.requirement("AUTH-06")
@pytest.mark.parametrize(
    ("layout", "origin", "status"),
    [
        ("hosts", f"https://{HANDLE}.pcp.example", 200),
        ("hosts", "https://byron.pcp.example", 403),
        ("hosts", ORIGIN, 403),
        ("hosts", f"https://{HANDLE}.pcp.example.evil.example", 403),
        ("hosts", "null", 403),
        ("paths", ORIGIN, 200),
        ("paths", f"https://{HANDLE}.pcp.example", 403),
        ("single", ORIGIN, 200),
    ],
)
async def test_a_page_may_call_its_own_context_alone(layout: Layout, origin: str, status: int) -> None:
    server = await oauth_server(layout=layout, whole=True)

    answer = await mcp(server, f"{server.base}/mcp", await connected(server), origin=origin)

    assert answer.status_code == status


@pytest.mark.requirement("SEC-06")
@pytest.mark.parametrize("host", ["evil.example", f"{HANDLE}.evil.example", "a.b.pcp.example", "-x.pcp.example"])
async def test_a_host_that_is_not_ours_is_not_served(host: str) -> None:
    server = await oauth_server(layout="hosts", whole=True)

    assert (await mcp(server, f"{server.base}/mcp", await connected(server), host=host)).status_code == 421


# ------------------------------------------------------------------------------------------------------------- consent


@pytest.mark.requirement("AUTH-22", "AUTH-24", "AUTH-34", "AUTH-39", "AUTH-40")
@LAYOUTS
async def test_a_flow_ends_with_the_issuer_of_the_context(layout: Layout) -> None:
    server = await oauth_server(layout=layout)
    client_id = await server.client_id()

    answer = leaving(await server.decide(await server.ask(client_id)))

    assert answer.parameters["iss"] == BASES[layout]
    assert (await server.redeem(client_id, answer.parameters["code"])).status_code == 200


@pytest.mark.requirement("AUTH-41")
@pytest.mark.parametrize("origin", ["https://byron.pcp.example", ORIGIN])
async def test_another_contexts_page_cannot_answer_for_this_one(origin: str) -> None:
    server = await oauth_server(layout="hosts")
    page = await server.ask(await server.client_id())

    for site in ("same-site", "same-origin"):
        assert (await server.decide(page, origin=origin, sec_fetch_site=site)).status_code == 403
    assert await server.grants() == []


@pytest.mark.requirement("AUTH-25", "CTX-05")
@OF_MANY
async def test_a_client_or_session_of_one_context_is_unknown_to_another(layout: Layout) -> None:
    server = await oauth_server(layout=layout)
    client_id = await server.client_id()
    _, session, _ = await another_context(server)
    other = server.site.base_url("byron")
    url = server.authorize_url(client_id, resource=None).replace(server.base, other)

    cookies = {"__Host-zkpcp_byron": session}
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(server.app), cookies=cookies) as browser:
        asked = await browser.get(url)
        home = await browser.get(f"{server.base}/")

    assert asked.status_code == 400
    assert home.status_code == 303


# ------------------------------------------------------------------------------------------------- pages of host names


def browser_at(server: PageServer, origin: str) -> httpx2.AsyncClient:
    headers = {"origin": origin, "sec-fetch-site": "same-origin", "accept": "text/html"}
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(server.app), base_url=origin, headers=headers)


async def set_up(server: PageServer, origin: str = ORIGIN, handle: str = "ada") -> httpx2.Response:
    form = {
        "handle": handle,
        "name": "Ada",
        "kind": "personal",
        "understood": "yes",
        "passphrase": PASSPHRASE,
        "passphrase_again": PASSPHRASE,
        "set_up_code": "code",
    }
    async with browser_at(server, origin) as browser:
        return await browser.post("/set-up", data=form)


async def test_set_up_is_at_the_parent_and_leads_to_the_contexts_own_origin() -> None:
    server = page_server(ORIGIN, hosts=True, set_up_code="code")
    async with browser_at(server, ORIGIN) as browser:
        assert (await browser.get("/")).headers["location"] == "/set-up"

    assert (await set_up(server, "https://ada.pcp.example")).status_code == 404
    made = await set_up(server)

    assert made.status_code == 200
    assert 'href="https://ada.pcp.example/"' in made.text
    # A cookie of the parent would be none of the context's.
    assert "set-cookie" not in made.headers
    async with browser_at(server, ORIGIN) as browser:
        assert "https://name.pcp.example" in (await browser.get("/")).text
        for path in ("/sign-in", "/recover", "/profile", "/log", "/authorize", "/c/ada/"):
            assert (await browser.get(path)).status_code == 404
    async with browser_at(server, "https://ada.pcp.example") as browser:
        assert (await browser.get("/")).headers["location"].startswith("/sign-in")
        signed_in = await browser.post("/sign-in", data={"passphrase": PASSPHRASE})
        assert signed_in.headers["set-cookie"].startswith("__Host-zkpcp_ada=")
        home = await browser.get("/")
        assert "https://ada.pcp.example/mcp" in home.text
        assert (await browser.get("/set-up")).status_code == 404


@pytest.mark.parametrize("handle", ["ada-", "xn--ada"])
async def test_a_handle_that_cannot_be_a_host_name_is_refused(handle: str) -> None:
    server = page_server(ORIGIN, hosts=True, set_up_code="code")

    refused = await set_up(server, handle=handle)

    assert refused.status_code == 400
    assert "part of a host name" in refused.text
    assert (await set_up(server)).status_code == 200


@pytest.mark.parametrize("origin", ["http://127.0.0.1:8765", "http://[::1]:8765"])
def test_an_address_has_no_names_below_it(origin: str) -> None:
    with pytest.raises(InvalidInputError):
        Site(origin=origin, layout="hosts")


@pytest.mark.requirement("SEC-06")
async def test_on_this_computer_contexts_have_names_below_localhost() -> None:
    server = await oauth_server(origin="http://localhost:8765", layout="hosts", whole=True)
    token = await connected(server)

    assert server.base == f"http://{HANDLE}.localhost:8765"
    assert (await mcp(server, f"{server.base}/mcp", token)).status_code == 200
    for host in ("evil.example:8765", "localhost.evil.example:8765", "a.b.localhost:8765"):
        assert (await mcp(server, f"{server.base}/mcp", token, host=host)).status_code == 421


async def test_a_session_of_one_name_is_signed_in_there_alone() -> None:
    server = await oauth_server(layout="hosts")
    [session] = server.cookies.values()

    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(server.app)) as browser:
        for name in (f"__Host-zkpcp_{HANDLE}", "__Host-zkpcp_byron"):
            answer = await browser.get("https://byron.pcp.example/", headers={"cookie": f"{name}={session}"})
            assert answer.headers["location"].startswith("/sign-in")
    assert parse_token(session, "st") is not None
