"""Clients that introduce themselves."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.flows.oauth_support import REDIRECT_URI, leaving, oauth_server
from zkpcp.core.audit import Action
from zkpcp.core.client_names import MAX_NAME_CHARACTERS, clean_name
from zkpcp.usecases import clients
from zkpcp.usecases.housekeeping import sweep


@pytest.mark.requirement("AUTH-17", "AUTH-20")
async def test_a_client_becomes_a_public_client_whatever_it_asks_to_be() -> None:
    server = await oauth_server()

    reply = await server.register(
        client_name="Example App",
        token_endpoint_auth_method="client_secret_post",
        grant_types=["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
        application_type="web",
        scope="claudeai",
        jwks_uri="https://app.example/jwks",
        unknown={"member": [1]},
    )

    assert reply.status_code == 201
    assert reply.headers["cache-control"] == "no-store"
    body = reply.json()
    assert body["client_id"].startswith("dcr_")
    assert body["token_endpoint_auth_method"] == "none"
    assert body["grant_types"] == ["authorization_code", "refresh_token"]
    assert body["redirect_uris"] == [REDIRECT_URI]
    assert not [name for name in body if "secret" in name]
    assert Action.CLIENT_REGISTERED in await server.actions()


@pytest.mark.requirement("AUTH-20")
async def test_unfit_redirect_uris_are_dropped_while_one_remains() -> None:
    server = await oauth_server()
    fit = ["cursor://anysphere.cursor-mcp/oauth/callback", "http://localhost:8787/callback", "https://app.example/cb"]

    reply = await server.register(redirect_uris=["javascript:alert(1)", "http://app.example/cb", 7, None, *fit, fit[0]])

    assert reply.status_code == 201
    assert reply.json()["redirect_uris"] == fit


@pytest.mark.requirement("AUTH-20")
@pytest.mark.parametrize(
    "uris",
    [
        [],
        None,
        "https://app.example/cb",
        {"0": "https://app.example/cb"},
        ["http://app.example/cb"],
        ["javascript:alert(1)"],
        [["https://app.example/cb"]],
        [f"https://app.example/{n}" for n in range(21)],
    ],
)
async def test_a_client_without_a_usable_redirect_uri_is_refused(uris: object) -> None:
    server = await oauth_server()

    reply = await server.register(redirect_uris=uris)

    assert reply.status_code == 400
    assert reply.json()["error"] == "invalid_redirect_uri"


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b"\xff", b"[" * 20_000, b'"x"'])
async def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    server = await oauth_server()

    async with server.http() as http:
        reply = await http.post(f"{server.base}/register", content=body)

    assert reply.status_code == 400
    assert reply.json()["error"] == "invalid_client_metadata"


async def test_a_body_without_end_is_not_read_to_its_end() -> None:
    server = await oauth_server()

    async with server.http() as http:
        reply = await http.post(f"{server.base}/register", content=json.dumps({"x": "y" * 70_000}).encode())

    assert reply.status_code == 413


async def test_a_context_that_does_not_exist_registers_nobody() -> None:
    server = await oauth_server()

    async with server.http() as http:
        reply = await http.post(f"{server.site.origin}/c/nobody/register", json={"redirect_uris": [REDIRECT_URI]})

    assert reply.status_code == 404
    assert reply.headers["content-type"] == "application/json"


@pytest.mark.requirement("SEC-01")
async def test_registrations_from_one_address_are_limited() -> None:
    server = await oauth_server()

    replies = [await server.register() for _ in range(21)]

    assert {reply.status_code for reply in replies[:20]} == {201}
    assert replies[20].status_code == 429
    assert int(replies[20].headers["retry-after"]) >= 1


@given(st.text(max_size=300))
def test_a_name_shows_what_it_says(name: str) -> None:
    cleaned = clean_name(name)

    assert len(cleaned) <= MAX_NAME_CHARACTERS
    assert all(character.isprintable() for character in cleaned)
    assert cleaned == clean_name(cleaned)


async def test_a_name_loses_what_turns_its_order_around_and_an_empty_one_becomes_the_host() -> None:
    server = await oauth_server()

    turned = await server.register(client_name="  Ex\u202eample\x00\n App ")
    nameless = await server.register(client_name="\u200b")

    assert turned.json()["client_name"] == "Example App"
    assert nameless.json()["client_name"] == "app.example"


@pytest.mark.requirement("AUTH-17", "SEC-01")
async def test_a_flood_of_registrations_pushes_out_its_own_and_nobody_with_a_grant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clients, "MOST_UNUSED", 3)
    server = await oauth_server()
    used = await server.client_id()
    await server.tokens(used)
    first, *_others = [await server.client_id() for _ in range(3)]
    server.clock.advance(1)

    flooding = [await server.client_id() for _ in range(3)]

    assert (await server.ask(first)).status_code == 400  # not registered any more
    for client_id in (used, *flooding):
        assert (await server.ask(client_id)).status_code == 200


@pytest.mark.requirement("AUTH-17")
async def test_a_flood_of_registrations_does_not_push_out_an_app_while_its_owner_decides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clients, "MOST_UNUSED", 3)
    server = await oauth_server()
    client_id = await server.client_id()
    page = await server.ask(client_id)
    for _ in range(5):
        server.clock.advance(1)
        await server.client_id(client_name="Flood")

    code = leaving(await server.decide(page)).parameters["code"]

    assert (await server.redeem(client_id, code)).status_code == 200


@pytest.mark.requirement("AUTH-17")
async def test_a_client_that_nobody_allowed_for_a_month_has_to_register_again() -> None:
    server = await oauth_server()
    unused, used = await server.client_id(), await server.client_id()
    await server.tokens(used)
    server.clock.advance(clients.UNUSED_LIFETIME_S * 1000 + 1)

    await sweep(server.services, server.context)

    async with server.store.read() as tx:
        assert await tx.grants.client(server.context.context_id, unused) is None
        assert await tx.grants.client(server.context.context_id, used) is not None
