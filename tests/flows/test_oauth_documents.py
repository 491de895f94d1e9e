"""Clients known by a document: looked at when a person is asked, shown as what they are, and not needed again."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from tests.flows.oauth_support import REDIRECT_URI, OAuthServer, boxes, hidden, leaving, oauth_server
from zkpcp.core.client_documents import ClientDocumentError, ClientUrl, Fault, Fetched
from zkpcp.core.schemas import JsonObject
from zkpcp.http.limits import CLIENT_DOCUMENT_ACCOUNT, CLIENT_DOCUMENT_HOST
from zkpcp.usecases.client_documents import ClientDocuments

CLIENT = "https://tool.example/oauth/client.json"
REFUSED = "The app&#39;s description could not be read at the address that it gives as its client_id."


@dataclass
class Web:
    """Documents by their address; notes what is fetched."""

    documents: dict[str, JsonObject] = field(default_factory=dict)
    fault: Fault | None = None
    fetched: list[str] = field(default_factory=list)

    async def fetch(self, url: ClientUrl) -> Fetched:
        self.fetched.append(url.value)
        if self.fault is not None or url.value not in self.documents:
            raise ClientDocumentError(self.fault or "status")
        return Fetched(json.dumps(self.documents[url.value]).encode(), 60)


def document(**members: object) -> JsonObject:
    plain: JsonObject = {
        "client_id": CLIENT,
        "client_name": "Example Tool",
        "redirect_uris": [REDIRECT_URI, "http://localhost/callback"],
        "grant_types": ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
        "token_endpoint_auth_method": "none",
        "logo_uri": "https://tool.example/logo.png",
    }
    return {**plain, **members}  # type: ignore[dict-item]  # the cases give JSON


async def known(web: Web | None = None) -> tuple[OAuthServer, Web]:
    web = web or Web({CLIENT: document()})
    return await oauth_server(documents=web), web


async def stored_source(server: OAuthServer, client_id: str = CLIENT) -> str | None:
    async with server.store.read() as tx:
        client = await tx.grants.client(server.context.context_id, client_id)
    return client.source if client else None


@pytest.mark.requirement("AUTH-17", "AUTH-18", "AUTH-19", "AUTH-39")
async def test_the_page_shows_the_host_of_the_document_and_that_the_name_comes_from_it() -> None:
    server, _ = await known()

    page = await server.ask(CLIENT, scope="memory:read")

    for shown in ("Example Tool", "tool.example", "app.example", "own description"):
        assert shown in page.text
    # The document lists the refresh grant, so staying connected is asked too; its logo is not.
    assert boxes(page) == {"memory:read": True, "offline_access": True}
    assert "logo.png" not in page.text


@pytest.mark.requirement("AUTH-18", "AUTH-40")
async def test_such_a_client_is_stored_with_its_first_grant_and_tokens_never_fetch() -> None:
    server, web = await known()
    page = await server.ask(CLIENT)
    assert web.fetched == [CLIENT]
    assert await stored_source(server) is None
    # Its host is away from here on.
    web.documents.clear()

    code = leaving(await server.decide(page)).parameters["code"]
    assert await stored_source(server) == "cimd"
    tokens = (await server.redeem(CLIENT, code)).json()
    server.clock.advance(24 * 3600 * 1000)
    renewed = await server.refresh(CLIENT, tokens["refresh_token"])

    assert renewed.status_code == 200
    assert web.fetched == [CLIENT]
    [grant] = await server.grants()
    assert (grant.client_id, grant.client_name) == (CLIENT, "Example Tool")


@pytest.mark.requirement("AUTH-18", "AUTH-40")
async def test_declining_leaves_nothing_of_the_client() -> None:
    server, _ = await known()

    await server.decide(await server.ask(CLIENT), "deny")

    assert await stored_source(server) is None


@pytest.mark.requirement("AUTH-18", "AUTH-39", "AUTH-40")
async def test_what_was_shown_is_what_is_granted_and_a_changed_document_is_asked_about_anew() -> None:
    server, web = await known()
    page = await server.ask(CLIENT)
    web.documents[CLIENT] = document(client_name="Another Tool", redirect_uris=["https://other.example/"])
    server.clock.advance(60_000)
    other = await server.ask(CLIENT, redirect_uri="https://other.example/")
    assert "Another Tool" in other.text

    assert leaving(await server.decide(page)).url.startswith(f"{REDIRECT_URI}?")
    async with server.store.read() as tx:
        client = await tx.grants.client(server.context.context_id, CLIENT)
    assert client is not None
    assert (client.name, client.redirect_uris) == ("Example Tool", (REDIRECT_URI, "http://localhost/callback"))

    # The address that the document no longer has is refused, and the new one makes a second grant.
    assert (await server.ask(CLIENT)).status_code == 400
    assert leaving(await server.decide(other)).url.startswith("https://other.example/?")
    assert sorted(grant.client_name for grant in await server.grants()) == ["Another Tool", "Example Tool"]


@pytest.mark.requirement("AUTH-19", "AUTH-22")
async def test_redirect_uris_are_the_documents_and_loopback_ports_are_free() -> None:
    server, _ = await known()

    assert (await server.ask(CLIENT, redirect_uri="https://app.example/other")).status_code == 400
    page = await server.ask(CLIENT, redirect_uri="http://localhost:49152/callback")

    assert "localhost:49152" in page.text
    assert leaving(await server.decide(page)).url.startswith("http://localhost:49152/callback?")


@pytest.mark.requirement("AUTH-19")
@pytest.mark.parametrize("fault", ["address", "connection", "time", "status", "content_type", "size"])
async def test_a_person_learns_one_sentence_whatever_went_wrong(fault: Fault) -> None:
    server, _ = await known(Web(fault=fault))

    page = await server.ask(CLIENT)

    assert page.status_code == 400
    assert REFUSED in page.text
    assert fault not in page.text.replace("at the address that it gives", "")
    assert "location" not in page.headers


@pytest.mark.requirement("AUTH-18", "AUTH-19")
@pytest.mark.parametrize(
    "client_id",
    [
        "https://tool.example",
        "https://tool.example/a/../client.json",
        "https://user@tool.example/client.json",
        "https://127.0.0.1/client.json",
        "https://localhost/client.json",
        "https://tool.example:8443/client.json",
        "https://tool.example/client.json#part",
        "https://tool.example/client.json?x=1",
        "https://TOOL.example/client.json",
    ],
)
async def test_an_id_that_names_no_document_is_refused_with_the_same_sentence_and_not_fetched(client_id: str) -> None:
    server, web = await known()

    page = await server.ask(client_id)

    assert page.status_code == 400
    assert REFUSED in page.text
    assert web.fetched == []


@pytest.mark.requirement("AUTH-19")
async def test_a_document_that_lies_about_its_id_is_refused() -> None:
    server, _ = await known(Web({CLIENT: document(client_id="https://other.example/client.json")}))

    assert REFUSED in (await server.ask(CLIENT)).text


@pytest.mark.requirement("AUTH-19")
async def test_a_stranger_makes_this_server_fetch_nothing() -> None:
    server, web = await known()

    answer = await server.get(server.authorize_url(CLIENT))

    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/c/lovelace/sign-in?next=")
    fake = {"cookie": "; ".join(f"{name}=pcp_st_{'A' * 43}" for name in server.cookies)}
    assert (await server.get(server.authorize_url(CLIENT), **fake)).status_code == 303  # type: ignore[arg-type]  # headers
    assert web.fetched == []


@pytest.mark.requirement("SEC-01", "SEC-02", "AUTH-19")
async def test_fetches_are_limited_for_the_account_and_for_the_host_that_is_asked() -> None:
    server, web = await known(Web())

    answers = [
        await server.ask(f"https://{number}.tool.example/client.json")
        for number in "abcdefghijklmnopqrstuvwxyz"[: CLIENT_DOCUMENT_ACCOUNT.amount + 1]
    ]

    assert {answer.status_code for answer in answers[:-1]} == {400}
    assert answers[-1].status_code == 429
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert len(web.fetched) == CLIENT_DOCUMENT_ACCOUNT.amount
    assert CLIENT_DOCUMENT_HOST.amount > CLIENT_DOCUMENT_ACCOUNT.amount


@pytest.mark.requirement("AUTH-18")
async def test_a_server_that_fetches_nothing_says_so_and_refuses_such_an_id() -> None:
    server = await oauth_server()

    assert (await server.ask(CLIENT)).status_code == 400
    metadata = (await server.get(f"{server.base}/.well-known/oauth-authorization-server")).json()
    assert metadata["client_id_metadata_document_supported"] is False


@pytest.mark.requirement("AUTH-13", "AUTH-18")
async def test_the_metadata_advertises_documents_beside_public_clients() -> None:
    server, _ = await known()

    metadata = (await server.get(f"{server.base}/.well-known/oauth-authorization-server")).json()

    assert metadata["client_id_metadata_document_supported"] is True
    assert metadata["token_endpoint_auth_methods_supported"] == ["none"]


@pytest.mark.requirement("AUTH-18")
async def test_a_document_may_use_the_schemes_that_the_operator_lists_and_no_other() -> None:
    web = Web({CLIENT: document(redirect_uris=["cursor://x/callback", "example-app://x/callback"])})
    documents = ClientDocuments(web, (await oauth_server()).clock, redirect_schemes=frozenset({"example-app"}))

    async def count(_host: str) -> None:
        return None

    assert (await documents.get(CLIENT, count=count)).redirect_uris == ("example-app://x/callback",)


@pytest.mark.requirement("AUTH-18")
async def test_a_token_for_an_id_that_nobody_granted_anything_is_refused() -> None:
    server, web = await known()

    reply = await server.refresh(CLIENT, f"pcp_rt_{'A' * 43}")

    assert reply.json()["error"] == "invalid_client"
    assert web.fetched == []


@pytest.mark.requirement("AUTH-41")
async def test_the_request_of_such_a_client_is_bound_to_its_session_too() -> None:
    server, _ = await known()
    page = await server.ask(CLIENT)
    secret = hidden(page, "request")

    assert (await server.send_consent(secret, ["memory:read"], origin="https://evil.example")).status_code == 403
    assert (await server.send_consent(secret, ["memory:read"])).status_code == 200
    assert (await server.send_consent(secret, ["memory:read"])).status_code == 404
