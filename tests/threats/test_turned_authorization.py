"""A host that changes what a person is about to allow, after the page was shown or before its code is used (T-23)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from tests.flows.oauth_support import OAuthServer, challenge, leaving, oauth_server
from zkpcp.core.audit import Action
from zkpcp.core.stored import AuthorizationRow
from zkpcp.testing import MemoryStore, _Tables

ATTACKERS_URI = "https://attacker.example/callback"
ATTACKERS_VERIFIER = "a-verifier-that-only-the-attacker-knows-0123456789"

TURNED: Mapping[str, dict[str, object]] = {
    "another client": {"client_id": "cli_attacker"},
    "another redirect URI": {"redirect_uri": ATTACKERS_URI},
    "another state": {"state": "other"},
    "more scopes": {"scopes": ("profile.core:read", "memory:read", "memory:write", "offline_access")},
    "another challenge": {"code_challenge": challenge(ATTACKERS_VERIFIER)},
    "a longer life": {"expires_ms": 2**52},
    "another time": {"created_ms": 1},
    "another name": {"client_name": "Somebody else"},
    "another source of the name": {"client_source": "operator"},
    "more redirect URIs": {"client_redirect_uris": (ATTACKERS_URI,)},
    "refresh": {"client_refreshable": True},
}


def tables(server: OAuthServer) -> _Tables:
    assert isinstance(server.store, MemoryStore)
    return server.store._committed


def turn_authorization(server: OAuthServer, change: Callable[[AuthorizationRow], AuthorizationRow]) -> None:
    rows = tables(server).authorizations
    [key] = rows
    rows[key] = change(rows[key])


def test_every_member_of_a_pending_authorization_is_tried() -> None:
    tried = {name for change in TURNED.values() for name in change}

    assert tried == set(AuthorizationRow.__slots__) - {"context_id", "lookup_id"}


@pytest.mark.requirement("AUTH-39", "AUTH-40")
@pytest.mark.parametrize("changes", TURNED.values(), ids=TURNED)
@pytest.mark.parametrize("decision", ["allow", "deny"])
async def test_a_request_that_was_changed_behind_the_page_is_neither_allowed_nor_answered(
    changes: dict[str, object], decision: str
) -> None:
    server = await oauth_server()
    page = await server.ask(await server.client_id())
    turn_authorization(server, lambda row: replace(row, **changes))  # type: ignore[arg-type]  # the cases name members of the row

    answer = await server.decide(page, decision)

    assert answer.status_code == 404
    assert ATTACKERS_URI not in answer.text
    assert not await server.grants()
    assert (await server.actions())[-1] == Action.TAMPERING_FOUND


async def test_the_page_answers_one_request_and_no_other_of_the_same_person() -> None:
    """The rows of two open pages are exchanged, each whole."""
    server = await oauth_server()
    client_id = await server.client_id()
    first = await server.ask(client_id, scope="memory:read")
    await server.ask(client_id, scope="memory:read memory:write offline_access")
    rows = tables(server).authorizations
    one, other = rows
    rows[one], rows[other] = replace(rows[other], lookup_id=one[1]), replace(rows[one], lookup_id=other[1])

    answer = await server.decide(first)

    assert answer.status_code == 404
    assert not await server.grants()


@pytest.mark.parametrize("request_text", ["", ".", "pcp_ac_x.00", "no-token"])
async def test_a_form_without_its_digest_is_refused(request_text: str) -> None:
    server = await oauth_server()
    page = await server.ask(await server.client_id())
    assert page.status_code == 200

    answer = await server.send_consent(request_text, ["memory:read"])

    assert answer.status_code in (400, 401)
    assert not await server.grants()


async def test_a_form_with_another_digest_is_refused() -> None:
    server = await oauth_server()
    page = await server.ask(await server.client_id())
    secret, _, digest = server_request(page.text).partition(".")

    answer = await server.send_consent(f"{secret}.{'0' * len(digest)}", ["memory:read"])

    assert answer.status_code == 404
    assert not await server.grants()


def server_request(page: str) -> str:
    return page.partition('name="request" value="')[2].partition('"')[0]


@pytest.mark.requirement("AUTH-21", "AUTH-22")
@pytest.mark.parametrize(
    "changes",
    [
        {"client_id": "cli_attacker"},
        {"redirect_uri": ATTACKERS_URI},
        {"code_challenge": challenge(ATTACKERS_VERIFIER)},
    ],
    ids=["client", "redirect URI", "challenge"],
)
async def test_a_code_whose_row_was_turned_to_an_attacker_opens_nothing_for_them(changes: dict[str, str]) -> None:
    """The attacker sends whatever makes the turned row fit."""
    server = await oauth_server()
    client_id = await server.client_id()
    await server.client_id(client_name="Attacker", redirect_uris=[ATTACKERS_URI])
    attacker = next(row.client_id for row in tables(server).clients.values() if row.name == "Attacker")
    changes = {name: attacker if name == "client_id" else value for name, value in changes.items()}
    code = leaving(await server.decide(await server.ask(client_id))).parameters["code"]
    turn_code(server, **changes)

    reply = await server.redeem(
        changes.get("client_id", client_id),
        code,
        **({"redirect_uri": ATTACKERS_URI} if "redirect_uri" in changes else {}),
        **({"code_verifier": ATTACKERS_VERIFIER} if "code_challenge" in changes else {}),
    )

    assert (reply.status_code, reply.json()["error"]) == (400, "invalid_grant")
    assert Action.TAMPERING_FOUND in await server.actions()
    assert not [row for row in tables(server).tokens.values() if row.kind != "code"]


def turn_code(server: OAuthServer, **changes: str) -> None:
    rows = tables(server).tokens
    [key] = [key for key, row in rows.items() if row.kind == "code"]
    rows[key] = replace(rows[key], **changes)  # type: ignore[arg-type]  # the cases name members of the row


@pytest.mark.requirement("AUTH-33")
async def test_a_grant_without_offline_access_gets_no_refresh_token_whatever_its_row_says() -> None:
    server = await oauth_server()
    client_id = await server.client_id(grant_types=["authorization_code"])
    code = await server.code(client_id, scope="memory:read")
    rows = tables(server).grants
    [key] = rows
    rows[key] = replace(rows[key], refreshable=True)

    reply = await server.redeem(client_id, code)

    assert reply.status_code == 200
    assert "refresh_token" not in reply.json()
