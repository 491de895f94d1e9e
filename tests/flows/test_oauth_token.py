"""Codes and tokens: what is given for what, and what ends a grant."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.flows.oauth_support import REDIRECT_URI, VERIFIER, OAuthServer, leaving, oauth_server
from zkpcp import storage
from zkpcp.core.audit import Action
from zkpcp.core.grants import ACCESS_LIFETIME_S, CODE_LIFETIME_S, GRANT_IDLE_LIFETIME_S
from zkpcp.core.oauth_params import Params
from zkpcp.core.schemas import JsonObject
from zkpcp.core.stored import AccessView, RosterRow, TokenRow
from zkpcp.errors import ConflictError, InvalidInputError, InvalidTokenError, NotFoundError, TamperedError
from zkpcp.testing import MemoryStore
from zkpcp.usecases.access import Caller, acting, authenticate
from zkpcp.usecases.grants import create_grant, end_idle_grants, list_grants, revoke_grant
from zkpcp.usecases.housekeeping import sweep
from zkpcp.usecases.session import OpenSession, open_session
from zkpcp.usecases.token import TokenRefusal, exchange
from zkpcp.vault import holders, seeds
from zkpcp.vault.secrets import parse_token


def text(tokens: JsonObject, name: str) -> str:
    value = tokens[name]
    assert isinstance(value, str)
    return value


async def opens(server: OAuthServer, access_token: str) -> frozenset[str] | None:
    """The scopes an access token acts with, None when it is refused."""
    try:
        caller = await authenticate(server.services, server.context, access_token)
        assert isinstance(caller, Caller)
        async with acting(server.services, caller) as someone:
            return someone.scopes
    except InvalidTokenError:
        return None


def memory(server: OAuthServer) -> MemoryStore:
    assert isinstance(server.store, MemoryStore)
    return server.store


def rows(server: OAuthServer, kind: str) -> list[TokenRow]:
    return [row for row in memory(server)._committed.tokens.values() if row.kind == kind]


@contextlib.asynccontextmanager
async def owner(server: OAuthServer) -> AsyncIterator[OpenSession]:
    [session] = server.cookies.values()
    async with open_session(server.services, server.context, parse_token(session, "st")) as opened:
        yield opened


@pytest.mark.requirement("AUTH-33")
async def test_a_code_becomes_tokens_that_open_what_was_granted() -> None:
    server = await oauth_server()
    client_id = await server.client_id()

    reply = await server.redeem(client_id, await server.code(client_id), resource=f"{server.base}/mcp")

    assert reply.status_code == 200
    assert reply.headers["cache-control"] == "no-store"
    tokens = reply.json()
    assert set(tokens) == {"access_token", "token_type", "expires_in", "scope", "refresh_token"}
    assert tokens["token_type"] == "Bearer"
    assert tokens["expires_in"] == ACCESS_LIFETIME_S <= 3600
    assert tokens["scope"] == "profile.core:read memory:read offline_access"
    assert await opens(server, tokens["access_token"]) == frozenset(
        {"profile.core:read", "memory:read", "offline_access"}
    )
    assert Action.TOKEN_ISSUED in await server.actions()


@pytest.mark.requirement("AUTH-22")
async def test_a_code_is_good_for_its_client_its_redirect_its_verifier_and_its_minute() -> None:
    server = await oauth_server()
    client_id = await server.client_id()
    code = await server.code(client_id)
    other = await server.client_id()

    for wrong in (
        {"client_id": other},
        {"redirect_uri": f"{REDIRECT_URI}/"},
        {"code_verifier": "w" * 43},
        {"code_verifier": "short"},
        {"code_verifier": "ä" * 43},
        {"code": "pcp_ac_" + "A" * 43},
        {"code": "nonsense"},
    ):
        refused = await server.redeem(client_id, code, **wrong)
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")
    server.clock.advance(CODE_LIFETIME_S * 1000 - 1)
    assert (await server.redeem(client_id, code)).status_code == 200

    late = await server.code(client_id)
    server.clock.advance(CODE_LIFETIME_S * 1000)
    assert (await server.redeem(client_id, late)).json()["error"] == "invalid_grant"


@pytest.mark.requirement("AUTH-22")
async def test_a_code_used_twice_ends_the_grant_that_came_of_it() -> None:
    server = await oauth_server()
    client_id = await server.client_id()
    code = await server.code(client_id)
    tokens = (await server.redeem(client_id, code)).json()

    again = await server.redeem(client_id, code)

    assert again.json()["error"] == "invalid_grant"
    assert await opens(server, tokens["access_token"]) is None
    assert (await server.refresh(client_id, tokens["refresh_token"])).json()["error"] == "invalid_grant"
    assert (await server.actions())[-2:] == [Action.TOKEN_REPLAYED, Action.GRANT_REVOKED]


@pytest.mark.requirement("AUTH-27", "AUTH-30")
async def test_a_refresh_gives_new_tokens_of_the_same_grant_and_calls_in_flight_live_on() -> None:
    server = await oauth_server()
    client_id = await server.client_id()
    first = await server.tokens(client_id)
    [before] = await server.grants()

    second = (await server.refresh(client_id, text(first, "refresh_token"))).json()

    assert second["access_token"] != first["access_token"]
    assert second["refresh_token"] != first["refresh_token"]
    [after] = await server.grants()
    assert before.grant_id == after.grant_id
    assert await opens(server, text(first, "access_token")) == await opens(server, second["access_token"])
    assert {entry.grant for entry in await server.entries() if entry.action == Action.TOKEN_REFRESHED} == {
        before.grant_id
    }


@pytest.mark.requirement("AUTH-31", "KEY-08")
async def test_a_rotated_refresh_token_that_comes_back_ends_the_grant_though_the_request_fails() -> None:
    server = await oauth_server()
    client_id = await server.client_id()
    first = await server.tokens(client_id)
    second = (await server.refresh(client_id, text(first, "refresh_token"))).json()

    again = await server.refresh(client_id, text(first, "refresh_token"))

    assert (again.status_code, again.json()["error"]) == (400, "invalid_grant")
    assert await server.grants() == []
    assert await opens(server, second["access_token"]) is None
    assert (await server.refresh(client_id, second["refresh_token"])).status_code == 400
    assert all(row.wrapped is None for kind in ("code", "access", "refresh") for row in rows(server, kind))
    assert (await server.actions())[-2:] == [Action.TOKEN_REPLAYED, Action.GRANT_REVOKED]


@pytest.mark.requirement("AUTH-31")
async def test_within_the_grace_of_the_settings_a_used_refresh_token_serves_and_then_ends_the_grant() -> None:
    server = await oauth_server(refresh_reuse_grace_s=10)
    client_id = await server.client_id()
    first = await server.tokens(client_id)
    second = (await server.refresh(client_id, text(first, "refresh_token"))).json()

    server.clock.advance(9_999)
    third = (await server.refresh(client_id, text(first, "refresh_token"))).json()
    assert await opens(server, second["access_token"])
    assert await opens(server, third["access_token"])
    assert (await server.refresh(client_id, third["refresh_token"])).status_code == 200
    # It came twice, and the owner can see that.
    assert Action.TOKEN_REPLAYED in await server.actions()

    server.clock.advance(1)
    assert (await server.refresh(client_id, text(first, "refresh_token"))).json()["error"] == "invalid_grant"
    assert await opens(server, third["access_token"]) is None


@pytest.mark.requirement("AUTH-31", "KEY-08")
async def test_what_the_grace_keeps_is_one_wrap_until_its_end_and_no_code_has_it() -> None:
    server = await oauth_server(refresh_reuse_grace_s=10)
    client_id = await server.client_id()
    code = await server.code(client_id)
    first = (await server.redeem(client_id, code)).json()
    assert [row.wrapped for row in rows(server, "code")] == [None]
    second = (await server.refresh(client_id, first["refresh_token"])).json()
    assert [row.wrapped is None for row in rows(server, "refresh")] == [False, False]

    server.clock.advance(10_000)
    await sweep(server.services, server.context)

    assert [row.wrapped is None for row in rows(server, "refresh") if row.used_ms is not None] == [True]
    assert (await server.refresh(client_id, second["refresh_token"])).status_code == 200


@pytest.mark.requirement("AUTH-31")
async def test_a_grace_that_the_operator_takes_back_is_over_for_tokens_used_before_too() -> None:
    server = await oauth_server(refresh_reuse_grace_s=10)
    client_id = await server.client_id()
    first = await server.tokens(client_id)
    assert (await server.refresh(client_id, text(first, "refresh_token"))).status_code == 200

    strict = replace(server.services, refresh_reuse_grace_s=0)
    params = Params(
        [
            ("grant_type", "refresh_token"),
            ("client_id", client_id),
            ("refresh_token", text(first, "refresh_token")),
        ]
    )
    refused = await exchange(strict, server.context, params, mcp_url=f"{server.base}/mcp")

    assert isinstance(refused, TokenRefusal)
    assert await server.grants() == []


@pytest.mark.requirement("AUTH-31")
async def test_with_a_grace_all_that_refresh_at_once_are_served_on_a_real_database(database_url: str) -> None:
    store = await storage.open_store(database_url)
    try:
        server = await oauth_server(store, refresh_reuse_grace_s=10)
        client_id = await server.client_id()
        tokens = await server.tokens(client_id)

        refreshed = await asyncio.gather(*(server.refresh(client_id, text(tokens, "refresh_token")) for _ in range(6)))

        assert [reply.status_code for reply in refreshed] == [200] * 6
        assert len({reply.json()["refresh_token"] for reply in refreshed}) == 6
        for reply in refreshed:
            assert await opens(server, reply.json()["access_token"])
    finally:
        await store.close()


@pytest.mark.requirement("AUTH-32")
async def test_a_refresh_may_narrow_one_access_token_and_never_widens() -> None:
    server = await oauth_server()
    client_id = await server.client_id()
    first = await server.tokens(client_id)

    narrow = (await server.refresh(client_id, text(first, "refresh_token"), scope="memory:read")).json()
    assert narrow["scope"] == "memory:read"
    assert await opens(server, narrow["access_token"]) == frozenset({"memory:read"})

    for wider in ("memory:read memory:write", "memory.sensitive:read", "bogus"):
        refused = await server.refresh(client_id, narrow["refresh_token"], scope=wider)
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_scope")

    whole = (await server.refresh(client_id, narrow["refresh_token"])).json()
    assert whole["scope"] == first["scope"]


@pytest.mark.requirement("AUTH-24")
@pytest.mark.parametrize(
    "resource", [["https://evil.example/mcp"], ["{base}/mcp", "https://evil.example/mcp"], ["{base}/mcp", "{base}/mcp"]]
)
async def test_a_token_is_asked_for_this_context_alone(resource: list[str]) -> None:
    server = await oauth_server()
    client_id = await server.client_id()
    form = {
        "grant_type": "authorization_code",
        "client_id": client_id,
        "code": await server.code(client_id),
        "redirect_uri": REDIRECT_URI,
        "code_verifier": VERIFIER,
        "resource": [value.format(base=server.base) for value in resource],
    }

    assert (await server.post("/token", form)).json()["error"] == "invalid_target"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"grant_type": ""}, "invalid_request"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"grant_type": "client_credentials"}, "unsupported_grant_type"),
        ({"client_id": ""}, "invalid_request"),
        ({"client_id": "dcr_unknown"}, "invalid_client"),
        ({"client_secret": "something"}, "invalid_client"),
        ({"code": ""}, "invalid_request"),
        ({"code_verifier": ""}, "invalid_request"),
        ({"redirect_uri": ""}, "invalid_request"),
    ],
)
async def test_a_token_request_that_is_not_right_gets_the_error_of_the_rfc(changes: dict[str, str], error: str) -> None:
    server = await oauth_server()
    client_id = await server.client_id()

    reply = await server.redeem(client_id, await server.code(client_id), **changes)

    assert reply.status_code == 400
    assert reply.json()["error"] == error
    assert reply.headers["access-control-allow-origin"] == "*"


async def test_an_empty_client_secret_is_none() -> None:
    server = await oauth_server()
    client_id = await server.client_id()

    assert (await server.redeem(client_id, await server.code(client_id), client_secret="")).status_code == 200


async def test_a_client_that_authenticates_by_header_is_told_that_it_cannot() -> None:
    server = await oauth_server()

    reply = await server.post("/token", {"grant_type": "refresh_token"}, authorization="Basic eDp5")

    assert (reply.status_code, reply.json()["error"]) == (401, "invalid_client")
    assert reply.headers["www-authenticate"].startswith("Basic")


@pytest.mark.requirement("AUTH-23")
async def test_what_stands_in_the_url_of_a_token_request_does_not_count() -> None:
    server = await oauth_server()
    client_id = await server.client_id()
    form = {
        "grant_type": "authorization_code",
        "client_id": client_id,
        "code": await server.code(client_id),
        "redirect_uri": REDIRECT_URI,
        "code_verifier": VERIFIER,
    }

    assert (await server.post(f"/token?{urlencode(form)}", {})).status_code == 400
    assert (await server.post("/token", form)).status_code == 200


async def test_a_repeated_parameter_and_another_media_type_are_refused() -> None:
    server = await oauth_server()
    client_id = await server.client_id()
    form = f"grant_type=refresh_token&client_id={client_id}&refresh_token=a&refresh_token=b"

    assert (await server.post_raw("/token", form)).json()["error"] == "invalid_request"
    assert (await server.post_raw("/token", "{}", content_type="application/json")).status_code == 400
    assert (await server.post_raw("/token", "x=" + "y" * 70_000)).status_code == 413
    assert (await server.post_raw("/token", "a=%ff")).json()["error"] == "invalid_request"


async def test_without_staying_connected_there_is_no_refresh_token() -> None:
    server = await oauth_server()

    tokens = await server.tokens(await server.client_id(), scope="memory:read")

    assert "refresh_token" not in tokens


@pytest.mark.requirement("AUTH-28", "AUTH-29", "KEY-08")
@pytest.mark.parametrize("which", ["access_token", "refresh_token"])
async def test_a_client_gives_up_its_grant(which: str) -> None:
    server = await oauth_server()
    client_id = await server.client_id()
    tokens = await server.tokens(client_id)
    stranger = await server.client_id()

    refused = await server.post("/revoke", {"token": text(tokens, which), "client_id": stranger})
    assert refused.json()["error"] == "invalid_client"
    assert await opens(server, text(tokens, "access_token"))

    reply = await server.post("/revoke", {"token": text(tokens, which), "client_id": client_id, "token_type_hint": "x"})

    assert (reply.status_code, reply.content) == (200, b"")
    assert await server.grants() == []
    assert await opens(server, text(tokens, "access_token")) is None


@pytest.mark.requirement("AUTH-29")
@pytest.mark.parametrize("token", ["unknown", "pcp_at_" + "A" * 43, "pcp_st_" + "A" * 43])
async def test_giving_up_an_unknown_token_is_no_error(token: str) -> None:
    server = await oauth_server()

    assert (await server.post("/revoke", {"token": token})).status_code == 200
    assert (await server.post("/revoke", {})).json()["error"] == "invalid_request"


@pytest.mark.requirement("AUTH-27", "AUTH-28", "KEY-08")
async def test_the_owner_ends_a_grant_and_all_that_opens_it_is_gone() -> None:
    server = await oauth_server()
    tokens = await server.tokens(await server.client_id())

    async with owner(server) as session:
        [grant] = await list_grants(server.services, session)
        await revoke_grant(server.services, session, grant.grant_id)
        with pytest.raises(NotFoundError):
            await revoke_grant(server.services, session, grant.grant_id)

    tables = memory(server)._committed
    assert tables.grants[server.context.context_id, grant.grant_id].anchor == b""
    assert [key for key in tables.keyrings if key[1] == "grant"] == []
    assert all(row.wrapped is None for row in tables.tokens.values())
    assert await opens(server, text(tokens, "access_token")) is None
    assert (await server.actions())[-1] == Action.GRANT_REVOKED


async def test_a_principal_sees_and_ends_their_own_grants_only() -> None:
    server = await oauth_server()
    tokens = await server.tokens(await server.client_id())

    async with owner(server) as session:
        [grant] = await list_grants(server.services, session)
        somebody = replace(session, principal="human:somebody")
        assert await list_grants(server.services, somebody) == []
        with pytest.raises(NotFoundError):
            await revoke_grant(server.services, somebody, grant.grant_id)

    assert await opens(server, text(tokens, "access_token"))


async def test_a_grant_is_not_sealed_from_an_older_state_than_the_database_has() -> None:
    server = await oauth_server()

    async with owner(server) as session:
        await next_roster(server)
        with pytest.raises(ConflictError):
            await create_grant(server.services, session, client_name="script", scopes="memory:read")

    assert await server.grants() == []


@pytest.mark.requirement("AUTH-45")
async def test_a_grant_unused_for_ninety_days_ends_when_it_is_used_again() -> None:
    server = await oauth_server()
    client_id = await server.client_id()
    tokens = await server.tokens(client_id)

    server.clock.advance(GRANT_IDLE_LIFETIME_S * 1000 - 60_000)
    renewed = (await server.refresh(client_id, text(tokens, "refresh_token"))).json()
    server.clock.advance(GRANT_IDLE_LIFETIME_S * 1000)
    refused = await server.refresh(client_id, renewed["refresh_token"])

    assert refused.json()["error"] == "invalid_grant"
    assert await server.grants() == []
    assert (await server.actions())[-1] == Action.GRANT_EXPIRED


@pytest.mark.requirement("AUTH-45")
async def test_a_grant_unused_for_ninety_days_ends_without_being_used_too() -> None:
    server = await oauth_server()
    await server.tokens(await server.client_id())

    assert await end_idle_grants(server.services, server.context) == 0
    server.clock.advance((GRANT_IDLE_LIFETIME_S + 60) * 1000)
    assert await end_idle_grants(server.services, server.context) == 1
    assert await server.grants() == []


@pytest.mark.requirement("AUTH-22", "KEY-08")
async def test_what_a_used_code_or_refresh_token_opened_is_gone_with_its_use() -> None:
    server = await oauth_server()
    client_id = await server.client_id()
    tokens = await server.tokens(client_id)
    [code] = rows(server, "code")
    assert (code.wrapped, code.used_ms) == (None, server.clock.now_ms())

    await server.refresh(client_id, text(tokens, "refresh_token"))

    assert sorted(row.wrapped is None for row in rows(server, "refresh")) == [False, True]


async def test_a_wrap_that_was_changed_is_refused_and_written_down() -> None:
    server = await oauth_server()
    client_id = await server.client_id()
    tokens = await server.tokens(client_id)
    [row] = rows(server, "refresh")
    assert row.wrapped is not None
    changed = replace(row, wrapped=row.wrapped[:-1] + bytes([row.wrapped[-1] ^ 1]))
    memory(server)._committed.tokens[row.context_id, row.lookup_id] = changed

    refused = await server.refresh(client_id, text(tokens, "refresh_token"))

    assert refused.json()["error"] == "invalid_grant"
    assert (await server.actions())[-1] == Action.TAMPERING_FOUND


async def test_scopes_that_were_added_to_the_grants_row_issue_nothing() -> None:
    server = await oauth_server()
    client_id = await server.client_id()
    tokens = await server.tokens(client_id)
    [grant] = await server.grants()
    widened = replace(grant, scopes=(*grant.scopes, "memory.sensitive:read"))
    memory(server)._committed.grants[grant.context_id, grant.grant_id] = widened

    refused = await server.refresh(client_id, text(tokens, "refresh_token"))

    assert refused.json()["error"] == "invalid_grant"
    assert (await server.actions())[-1] == Action.TAMPERING_FOUND


async def test_new_tokens_remember_the_newest_roster_so_that_an_older_one_is_noticed() -> None:
    server = await oauth_server()
    client_id = await server.client_id()
    tokens = await server.tokens(client_id)
    old, new = await next_roster(server)
    renewed = (await server.refresh(client_id, text(tokens, "refresh_token"))).json()

    access = parse_token(renewed["access_token"], "at")
    async with server.store.read() as tx:
        view = await tx.grants.access(server.context.context_id, access.lookup_id())
    assert view is not None
    assert remembers(server, view, renewed["access_token"]) == new.version
    memory(server)._committed.rosters[server.context.context_id] = old

    refused = await server.refresh(client_id, renewed["refresh_token"])

    assert refused.json()["error"] == "invalid_grant"
    assert (await server.actions())[-1] == Action.TAMPERING_FOUND


async def next_roster(server: OAuthServer) -> tuple[RosterRow, RosterRow]:
    """Let the owner sign the next version of the roster."""
    async with owner(server) as session:
        following = replace(session.keyring.roster, version=session.keyring.roster.version + 1)
        new = holders.sign_roster(following, session.keyring._signing)
        async with server.store.write() as tx:
            old = await tx.contexts.roster(server.context.context_id)
            await tx.contexts.put_roster(new)
    assert old is not None
    return old, new


def remembers(server: OAuthServer, view: AccessView, access_token: str) -> int:
    opened = seeds.unwrap_with_token(
        parse_token(access_token, "at"),
        "access",
        server.context.context_id,
        view.grant.grant_id,
        view.token.wrapped or b"",
    )
    return opened.memory.roster_version


async def test_a_wrap_opens_for_its_own_kind_of_token_only() -> None:
    server = await oauth_server()
    tokens = await server.tokens(await server.client_id())
    [row] = rows(server, "refresh")
    refresh = parse_token(text(tokens, "refresh_token"), "rt")

    with pytest.raises(TamperedError):
        seeds.unwrap_with_token(refresh, "access", row.context_id, row.grant_id, row.wrapped or b"")


@pytest.mark.requirement("AUTH-35")
async def test_no_stored_row_holds_a_secret() -> None:
    server = await oauth_server()
    client_id = await server.client_id()
    code = await server.code(client_id)
    tokens = (await server.redeem(client_id, code)).json()

    stored = repr(memory(server)._committed)

    for secret in (code, tokens["access_token"], tokens["refresh_token"]):
        assert secret not in stored
        assert secret[len("pcp_ac_") :] not in stored


async def test_the_owner_makes_a_grant_for_a_program() -> None:
    server = await oauth_server()

    async with owner(server) as session:
        made = await create_grant(
            server.services, session, client_name="back-up script", scopes="memory:read offline_access"
        )

    assert made.refresh is not None
    assert await opens(server, made.access.text()) == frozenset({"memory:read", "offline_access"})
    renewed = await server.refresh(made.client_id, made.refresh.text())
    assert renewed.status_code == 200
    [grant] = await server.grants()
    assert (grant.grant_id, grant.client_name) == (made.grant_id, "back-up script")


@pytest.mark.parametrize(
    ("name", "scopes"),
    [
        ("", "memory:read"),
        ("\u200b", "memory:read"),
        ("script", "bogus"),
        ("script", "memory:read bogus"),
        ("script", "memory.sensitive:read"),
        ("script", "offline_access"),
    ],
)
async def test_the_owner_is_told_of_scopes_and_names_that_mean_nothing(name: str, scopes: str) -> None:
    server = await oauth_server()

    async with owner(server) as session:
        with pytest.raises(InvalidInputError):
            await create_grant(server.services, session, client_name=name, scopes=scopes)

    assert await server.grants() == []


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    url = f"sqlite://{tmp_path / 'zkpcp.db'}" if request.param == "sqlite" else request.getfixturevalue("postgres_dsn")
    storage.migrate(url)
    return str(url)


@pytest.mark.parametrize("odd", ["\x00", "dcr_\x00", "\U0010ffff", "'; --", "x" * 5000])
async def test_a_client_id_that_no_database_knows_is_refused_and_breaks_nothing(database_url: str, odd: str) -> None:
    store = await storage.open_store(database_url)
    try:
        server = await oauth_server(store)
        client_id = await server.client_id(client_name=f"Ex{odd}ample")
        tokens = await server.tokens(client_id)

        assert (await server.ask(odd)).status_code == 400
        error = "invalid_request" if "\0" in odd else "invalid_client"
        for refused in (
            await server.redeem(odd, "pcp_ac_" + "A" * 43),
            await server.refresh(odd, text(tokens, "refresh_token")),
            await server.post("/revoke", {"token": text(tokens, "access_token"), "client_id": odd}),
        ):
            assert (refused.status_code, refused.json()["error"]) == (400, error)
        assert (await server.get(f"{server.base[: -len(server.context.handle)]}%00/authorize")).status_code == 404
        assert (await server.refresh(client_id, text(tokens, "refresh_token"))).status_code == 200
    finally:
        await store.close()


@pytest.mark.requirement("AUTH-22", "AUTH-30", "AUTH-31")
async def test_of_many_at_once_one_is_served_on_a_real_database(database_url: str) -> None:
    store = await storage.open_store(database_url)
    try:
        server = await oauth_server(store)
        client_id = await server.client_id()
        code = await server.code(client_id)
        redeemed = await asyncio.gather(*(server.redeem(client_id, code) for _ in range(4)))
        assert sorted(reply.status_code for reply in redeemed) == [200, 400, 400, 400]
        assert await server.grants() == []

        tokens = await server.tokens(client_id)
        refreshed = await asyncio.gather(*(server.refresh(client_id, text(tokens, "refresh_token")) for _ in range(4)))
        assert sorted(reply.status_code for reply in refreshed) == [200, 400, 400, 400]
        assert await server.grants() == []

        page = await server.ask(client_id)
        answers = await asyncio.gather(*(server.decide(page) for _ in range(3)))
        assert sorted(reply.status_code for reply in answers) == [200, 404, 404]
        [approved] = [leaving(reply) for reply in answers if reply.status_code == 200]
        good = (await server.redeem(client_id, approved.parameters["code"])).json()
        renewed = (await server.refresh(client_id, good["refresh_token"])).json()
        assert await opens(server, renewed["access_token"])
        assert (await server.post("/revoke", {"token": renewed["access_token"]})).status_code == 200
        assert await opens(server, renewed["access_token"]) is None
    finally:
        await store.close()
