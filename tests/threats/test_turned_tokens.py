"""A host that changes rows of grants, tokens and clients to get more out of the token endpoint than was allowed (T-23).

Whoever presents the token here works with the host: they send whatever makes the changed row fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, TypeVar

import pytest
from httpx2 import Response

from tests.flows.oauth_support import HANDLE, PASSPHRASE, REDIRECT_URI, OAuthServer, leaving, oauth_server
from tests.flows.test_oauth_documents import CLIENT, Web, document
from zkpcp.core.audit import Action
from zkpcp.core.schemas import JsonObject
from zkpcp.core.stored import GrantRow, TokenRow
from zkpcp.testing import MemoryStore, _Tables
from zkpcp.usecases.found import found_context

K = TypeVar("K")
T = TypeVar("T", GrantRow, TokenRow)

ATTACKERS_URI: Final = "https://attacker.example/callback"
GRANTED: Final = {"memory:read", "offline_access"}
WIDER: Final = ("profile.core:read", "memory:read", "memory.sensitive:read", "memory:write", "offline_access")

TURNED_GRANTS: Final[Mapping[str, dict[str, object]]] = {
    "another principal": {"principal": "human:attacker"},
    "another beneficiary": {"on_behalf_of": "human:attacker"},
    "another client": {"client_id": "cli_attacker"},
    "another client name": {"client_name": "Somebody else"},
    "more scopes": {"scopes": WIDER},
    "fewer scopes": {"scopes": ("memory:read",)},
    "unknown scopes": {"scopes": ("memory:read", "everything", "\x00")},
    "another instant": {"created_ms": 1},
    "another sealing key": {"kem_public": bytes(1216)},
    "another signing key": {"sig_public": bytes(32)},
    "another signature": {"signature": bytes(64)},
    "no signature": {"signature": b""},
    "an end": {"status": "revoked"},
    "no use for long": {"used_ms": 1},
}
"""Refused, each of them."""

TURNED_TOKENS: Final[Mapping[str, dict[str, object]]] = {
    "a code": {"kind": "code"},
    "an access token": {"kind": "access"},
    "another client": {"client_id": "cli_attacker"},
    "an end": {"expires_ms": 1},
    "a use": {"used_ms": 1},
    "no wrap": {"wrapped": None},
    "an empty wrap": {"wrapped": b""},
    "another wrap": {"wrapped": bytes(180)},
}

HARMLESS_GRANTS: Final[Mapping[str, dict[str, object]]] = {
    "not refreshable": {"refreshable": False},
    "a use to come": {"used_ms": 2**52},
}
"""Served as if nothing was changed, and with no more than was allowed: nobody signs these members."""

HARMLESS_TOKENS: Final[Mapping[str, dict[str, object]]] = {
    "more scopes": {"scopes": WIDER},
    "no scopes": {"scopes": ()},
    "another instant": {"created_ms": 1},
    "a longer life": {"expires_ms": 2**52},
    "a redirect URI": {"redirect_uri": ATTACKERS_URI},
    "a challenge": {"code_challenge": "x"},
    "a grace": {"wrap_until_ms": 2**52},
}


def tables(server: OAuthServer) -> _Tables:
    assert isinstance(server.store, MemoryStore)
    return server.store._committed


def turn(rows: dict[K, T], changes: Mapping[str, object], which: Callable[[T], bool]) -> None:
    [key] = [key for key, row in rows.items() if which(row)]
    rows[key] = replace(rows[key], **changes)  # type: ignore[arg-type]  # the cases name members of the row


async def connected() -> tuple[OAuthServer, str, JsonObject]:
    """A server, a client, and the tokens it got."""
    server = await oauth_server(whole=True)
    client_id = await server.client_id(grant_types=["authorization_code", "refresh_token"])
    return server, client_id, await server.tokens(client_id, scope="memory:read offline_access")


def turn_grant(server: OAuthServer, changes: Mapping[str, object]) -> None:
    turn(tables(server).grants, changes, lambda _: True)


def turn_refresh(server: OAuthServer, changes: Mapping[str, object]) -> None:
    turn(tables(server).tokens, changes, lambda row: row.kind == "refresh")


async def refreshed(server: OAuthServer, client_id: str, tokens: JsonObject, changes: Mapping[str, object]) -> Response:
    """What whoever works with the host gets: as the client that the changed row names, with the widest scope it has."""
    sender = changes.get("client_id", client_id)
    if sender != client_id:
        [known] = [row for row in tables(server).clients.values() if row.client_id == client_id]
        tables(server).clients[server.context.context_id, str(sender)] = replace(known, client_id=str(sender))
    wide = {"scope": " ".join(WIDER)} if changes.get("scopes") == WIDER else {}
    reply = await server.refresh(str(sender), str(tokens["refresh_token"]), **wide)
    if wide and reply.status_code != 200 and reply.json()["error"] == "invalid_scope":
        return await server.refresh(str(sender), str(tokens["refresh_token"]))
    return reply


async def call(server: OAuthServer, token: object) -> int:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "memory_list", "arguments": {}}}
    async with server.http() as http:
        reply = await http.post(f"{server.base}/mcp", json=message, headers={"authorization": f"Bearer {token}"})
    return reply.status_code


def test_every_member_of_a_grant_and_of_a_token_is_tried() -> None:
    grants = {name for change in (*TURNED_GRANTS.values(), *HARMLESS_GRANTS.values()) for name in change}
    tokens = {name for change in (*TURNED_TOKENS.values(), *HARMLESS_TOKENS.values()) for name in change}

    # Ids are what a row is found by; the anchor and a token of another grant have tests of their own.
    assert grants == set(GrantRow.__slots__) - {"context_id", "grant_id", "anchor"}
    assert tokens == set(TokenRow.__slots__) - {"context_id", "lookup_id", "grant_id"}


@pytest.mark.requirement("AUTH-24", "AUTH-32", "AUTH-40")
@pytest.mark.parametrize("changes", TURNED_GRANTS.values(), ids=TURNED_GRANTS)
async def test_a_refresh_token_of_a_changed_grant_gives_nothing(changes: dict[str, object]) -> None:
    server, client_id, tokens = await connected()
    turn_grant(server, changes)

    reply = await refreshed(server, client_id, tokens, changes)

    assert (reply.status_code, reply.json()["error"]) == (400, "invalid_grant")
    assert await call(server, tokens["access_token"]) == 401


@pytest.mark.requirement("AUTH-22", "AUTH-31")
@pytest.mark.parametrize("changes", TURNED_TOKENS.values(), ids=TURNED_TOKENS)
async def test_a_changed_refresh_token_gives_nothing(changes: dict[str, object]) -> None:
    server, client_id, tokens = await connected()
    turn_refresh(server, changes)

    reply = await refreshed(server, client_id, tokens, changes)

    assert (reply.status_code, reply.json()["error"]) == (400, "invalid_grant")


@pytest.mark.requirement("AUTH-24", "AUTH-32", "AUTH-40")
@pytest.mark.parametrize(
    ("turn_row", "changes"),
    [
        *((turn_grant, changes) for changes in HARMLESS_GRANTS.values()),
        *((turn_refresh, changes) for changes in HARMLESS_TOKENS.values()),
    ],
    ids=[*HARMLESS_GRANTS, *HARMLESS_TOKENS],
)
async def test_what_nobody_signs_gives_no_more_than_was_allowed(
    turn_row: Callable[[OAuthServer, Mapping[str, object]], None], changes: dict[str, object]
) -> None:
    server, client_id, tokens = await connected()
    turn_row(server, changes)

    reply = await refreshed(server, client_id, tokens, changes)

    told = reply.json()
    assert reply.status_code == 200
    assert (set(told["scope"].split()), "refresh_token" in told, told["expires_in"]) == (GRANTED, True, 3600)
    assert await call(server, told["access_token"]) == 200


@pytest.mark.requirement("AUTH-25", "AUTH-40")
@pytest.mark.parametrize("kind", ["code", "refresh"])
async def test_a_token_that_was_moved_to_another_grant_gives_nothing(kind: str) -> None:
    """The client of a small grant gets its own secret pointed at a wide one."""
    server, client_id, tokens = await connected()
    code = await server.code(client_id, scope="memory:read")
    await server.tokens(client_id, scope=" ".join(WIDER))
    wide = next(row for row in tables(server).grants.values() if "memory:write" in row.scopes)
    small = next(row for row in tables(server).tokens.values() if row.kind == kind and row.used_ms is None)
    tables(server).tokens[small.context_id, small.lookup_id] = replace(small, grant_id=wide.grant_id)

    reply = await (
        server.redeem(client_id, code)
        if kind == "code"
        else server.refresh(client_id, str(tokens["refresh_token"]), scope="memory:write")
    )

    assert (reply.status_code, reply.json()["error"]) == (400, "invalid_grant")
    assert Action.TAMPERING_FOUND in await server.actions()


@pytest.mark.requirement("AUTH-28")
async def test_a_grant_whose_end_was_undone_in_its_row_stays_ended() -> None:
    server, client_id, tokens = await connected()
    await server.post("/revoke", {"token": str(tokens["refresh_token"])})
    turn_grant(server, {"status": "active"})

    reply = await server.refresh(client_id, str(tokens["refresh_token"]))

    assert (reply.status_code, reply.json()["error"]) == (400, "invalid_grant")
    assert await call(server, tokens["access_token"]) == 401


@pytest.mark.requirement("AUTH-25", "CTX-05")
async def test_contexts_whose_handles_were_swapped_take_no_token_and_no_session_of_each_other() -> None:
    server, client_id, tokens = await connected()
    await found_context(server.services, handle="other", kind="personal", passphrase=PASSPHRASE)
    contexts = tables(server).contexts
    for key, row in contexts.items():
        contexts[key] = replace(row, handle=HANDLE if row.handle == "other" else "other")

    assert await call(server, tokens["access_token"]) == 401
    refused = await server.refresh(client_id, str(tokens["refresh_token"]))
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_client")
    home = await server.get(f"{server.base}/", signed_in=True)
    assert home.headers["location"].startswith(f"/c/{HANDLE}/sign-in")


@pytest.mark.requirement("AUTH-18", "AUTH-22", "AUTH-39")
async def test_a_row_of_a_client_with_a_document_decides_nothing_about_the_next_consent() -> None:
    server = await oauth_server(documents=Web({CLIENT: document()}))
    await server.decide(await server.ask(CLIENT))
    clients = tables(server).clients
    [key] = clients
    clients[key] = replace(
        clients[key], name="Turned", source="operator", redirect_uris=(ATTACKERS_URI,), refreshable=False
    )

    astray = await server.ask(CLIENT, redirect_uri=ATTACKERS_URI)
    page = await server.ask(CLIENT)

    assert astray.status_code == 400
    assert "location" not in astray.headers
    assert "Turned" not in page.text
    assert "Example Tool" in page.text
    assert leaving(await server.decide(page)).url.startswith(f"{REDIRECT_URI}?")


@pytest.mark.requirement("AUTH-19")
async def test_a_row_does_not_stand_in_for_a_document_that_is_not_to_be_had() -> None:
    web = Web({CLIENT: document()})
    server = await oauth_server(documents=web)
    await server.decide(await server.ask(CLIENT))
    web.documents.clear()
    server.clock.advance(60_000)  # what the document may be kept

    page = await server.ask(CLIENT)

    assert page.status_code == 400
    assert "Example Tool" not in page.text
