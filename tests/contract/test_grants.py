"""Clients, authorizations, grants, keyrings and tokens keep their promises on every engine."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.contract.rows import ELSEWHERE, HERE, NOW, authorization, client, context, grant, keyring, roster_row, token
from zkpcp.core.stored import AccessView, TokenRow
from zkpcp.errors import ConflictError
from zkpcp.ports import Store

MINUTE = 60_000


@pytest.fixture(autouse=True)
async def _context(store: Store) -> None:
    async with store.write() as tx:
        await tx.contexts.add(context())


async def test_a_client_comes_back_as_it_was_registered(store: Store) -> None:
    plain = client(client_id="plain", redirect_uris=(), refreshable=False)
    async with store.write() as tx:
        await tx.grants.add_client(client())
        await tx.grants.add_client(plain)
        with pytest.raises(ConflictError):
            await tx.grants.add_client(client(name="Other"))

    async with store.read() as tx:
        assert await tx.grants.client(HERE, "client") == client()
        assert await tx.grants.client(HERE, "plain") == plain
        assert await tx.grants.client(HERE, "stranger") is None


async def test_a_client_that_is_put_again_is_replaced_but_for_its_first_instant(store: Store) -> None:
    changed = client(name="Other", source="cimd", redirect_uris=("https://b.example/",), refreshable=False)
    async with store.write() as tx:
        await tx.grants.put_client(client())
        await tx.grants.put_client(replace(changed, created_ms=NOW + 1))

    async with store.read() as tx:
        assert await tx.grants.client(HERE, "client") == changed


@pytest.mark.requirement("AUTH-17")
async def test_clients_that_never_got_a_grant_go_by_age_and_the_oldest_beyond_a_number(store: Store) -> None:
    async with store.write() as tx:
        await tx.contexts.add(context(context_id=ELSEWHERE, handle="elsewhere"))
        for age in range(5):
            await tx.grants.add_client(client(client_id=f"dcr_{age}", source="dcr", created_ms=NOW - age))
        await tx.grants.add_client(client(client_id="at_once", source="dcr", created_ms=NOW - 1))
        for source in ("operator", "cimd", "local", "owner"):
            await tx.grants.add_client(client(client_id=source, source=source, created_ms=NOW - 99))
        await tx.grants.add_client(client(context_id=ELSEWHERE, client_id="other", source="dcr", created_ms=NOW - 99))
        await tx.grants.add_client(client(client_id="used", source="dcr", created_ms=NOW - 99))
        await tx.grants.add_client(client(client_id="ended", source="dcr", created_ms=NOW - 99))
        await tx.grants.add_grant(grant(grant_id="a", client_id="used"), keyring(holder="a"))
        await tx.grants.add_grant(grant(grant_id="b", client_id="ended"), keyring(holder="b"))
        await tx.grants.revoke_grant(HERE, "b")
        await tx.grants.add_client(client(client_id="asked", source="dcr", created_ms=NOW - 99))
        await tx.grants.add_authorization(authorization(client_id="asked"))

        await tx.grants.sweep_clients(HERE, NOW - 3, 3)

        left = ["dcr_0", "dcr_1", "dcr_2", "dcr_3", "dcr_4", "at_once", "operator", "cimd", "local", "owner"]
        left = [name for name in [*left, "used", "ended", "asked"] if await tx.grants.client(HERE, name)]
        assert await tx.grants.client(ELSEWHERE, "other")
    assert left == ["dcr_0", "dcr_1", "at_once", "operator", "cimd", "local", "owner", "used", "ended", "asked"]


async def test_authorizations_that_nobody_answered_are_swept(store: Store) -> None:
    async with store.write() as tx:
        await tx.contexts.add(context(context_id=ELSEWHERE, handle="elsewhere"))
        await tx.grants.add_authorization(authorization(lookup_id=b"over", expires_ms=NOW))
        await tx.grants.add_authorization(authorization(lookup_id=b"open", expires_ms=NOW + 1))
        await tx.grants.add_authorization(authorization(lookup_id=b"other", context_id=ELSEWHERE, expires_ms=NOW))
        await tx.grants.sweep_authorizations(HERE, NOW)

    async with store.read() as tx:
        assert await tx.grants.authorization(HERE, b"over") is None
        assert await tx.grants.authorization(HERE, b"open") is not None
        assert await tx.grants.authorization(ELSEWHERE, b"other") is not None


async def test_a_pending_authorization_has_one_taker(store: Store) -> None:
    async with store.write() as tx:
        await tx.grants.add_authorization(authorization(state="opaque"))
        with pytest.raises(ConflictError):
            await tx.grants.add_authorization(authorization())

    async def take() -> bool:
        async with store.write() as tx:
            return await tx.grants.take_authorization(HERE, b"asked") == authorization(state="opaque")

    assert sorted(await asyncio.gather(*(take() for _ in range(8)))) == [False] * 7 + [True]
    async with store.read() as tx:
        assert await tx.grants.authorization(HERE, b"asked") is None


async def test_a_grant_comes_back_with_its_keyring(store: Store) -> None:
    row = grant(on_behalf_of="agent:helper", refreshable=False, scopes=())
    async with store.write() as tx:
        await tx.grants.add_grant(row, keyring())
        with pytest.raises(ConflictError):
            await tx.grants.add_grant(grant(), keyring(epoch=9))

    async with store.read() as tx:
        assert await tx.grants.grant(HERE, "grant") == row
        assert await tx.grants.keyring(HERE, "grant", "grant", 1) == keyring()
        assert await tx.grants.keyring(HERE, "grant", "grant", 9) is None
        assert await tx.grants.keyring(HERE, "principal", "grant", 1) is None


async def test_active_grants_are_listed_newest_first(store: Store) -> None:
    async with store.write() as tx:
        for name, created, principal in (("a", 1, "human:me"), ("b", 3, "human:you"), ("c", 2, "human:me")):
            row = grant(grant_id=name, created_ms=created, principal=principal)
            await tx.grants.add_grant(row, keyring(holder=name))
        await tx.grants.add_grant(grant(grant_id="d"), keyring(holder="d"))
        await tx.grants.revoke_grant(HERE, "d")

    async with store.read() as tx:
        assert [row.grant_id for row in await tx.grants.list_grants(HERE)] == ["b", "c", "a"]
        assert [row.grant_id for row in await tx.grants.list_grants(HERE, "human:me")] == ["c", "a"]


async def test_the_last_use_of_a_grant_is_kept_to_the_minute(store: Store) -> None:
    minute = NOW - NOW % MINUTE
    async with store.write() as tx:
        await tx.grants.add_grant(grant(used_ms=minute + 5), keyring())
        seen = []
        for used_ms in (minute + 7, minute + MINUTE + 1, minute + MINUTE + 59_999, minute + 9):
            await tx.grants.touch_grant(HERE, "grant", used_ms)
            row = await tx.grants.grant(HERE, "grant")
            seen.append(row.used_ms if row else None)

    assert seen == [minute + 5, minute + MINUTE, minute + MINUTE, minute + MINUTE]


async def test_grants_that_nobody_uses_are_found(store: Store) -> None:
    async with store.write() as tx:
        for name, used_ms in (("old", 99), ("edge", 100), ("gone", 1)):
            await tx.grants.add_grant(grant(grant_id=name, used_ms=used_ms), keyring(holder=name))
        await tx.grants.revoke_grant(HERE, "gone")

        assert await tx.grants.idle_grants(HERE, 100) == ["old"]


async def test_a_keyring_is_replaced_within_its_epoch_and_a_principal_opens_the_newest(store: Store) -> None:
    mine = keyring(holder_kind="principal", holder="human:me")
    async with store.write() as tx:
        assert await tx.grants.principal_keyring(HERE, "human:me") is None
        for row in (mine, keyring(holder_kind="principal", holder="human:me", epoch=2, sealed=b"second")):
            await tx.grants.put_keyring(row)
        await tx.grants.put_keyring(keyring(holder_kind="principal", holder="human:me", sealed=b"again"))

        assert await tx.grants.keyring(HERE, "principal", "human:me", 1) == keyring(
            holder_kind="principal", holder="human:me", sealed=b"again"
        )
        newest = await tx.grants.principal_keyring(HERE, "human:me")
        assert newest is not None
        assert (newest.epoch, newest.sealed) == (2, b"second")


@pytest.mark.requirement("KEY-08")
async def test_revoking_a_grant_leaves_no_keyring_no_anchor_and_no_wrap(store: Store) -> None:
    other = grant(grant_id="other")
    async with store.write() as tx:
        await tx.grants.add_grant(grant(), keyring())
        await tx.grants.put_keyring(keyring(epoch=2))
        await tx.grants.add_grant(other, keyring(holder="other"))
        await tx.grants.put_keyring(keyring(holder_kind="principal", holder="grant"))  # a namesake
        await tx.grants.add_token(token())
        await tx.grants.add_token(token(lookup_id=b"refresh", kind="refresh"))
        await tx.grants.add_token(token(lookup_id=b"other", grant_id="other"))
    async with store.write() as tx:
        await tx.grants.revoke_grant(HERE, "grant")
        await tx.grants.revoke_grant(HERE, "grant")
        await tx.grants.revoke_grant(HERE, "stranger")

    async with store.read() as tx:
        assert await tx.grants.grant(HERE, "grant") == grant(status="revoked", anchor=b"")
        assert await tx.grants.keyring(HERE, "grant", "grant", 1) is None
        assert await tx.grants.keyring(HERE, "grant", "grant", 2) is None
        assert await tx.grants.token(HERE, b"token") == token(wrapped=None)
        assert await tx.grants.token(HERE, b"refresh") == token(lookup_id=b"refresh", kind="refresh", wrapped=None)
        assert await tx.grants.grant(HERE, "other") == other
        assert await tx.grants.keyring(HERE, "grant", "other", 1) is not None
        assert await tx.grants.keyring(HERE, "principal", "grant", 1) is not None
        assert await tx.grants.token(HERE, b"other") == token(lookup_id=b"other", grant_id="other")


async def test_a_token_is_used_up_by_exactly_one_of_many(store: Store) -> None:
    code = token(lookup_id=b"code", kind="code", redirect_uri="http://127.0.0.1/", code_challenge="challenge")
    async with store.write() as tx:
        await tx.grants.add_token(code)
        with pytest.raises(ConflictError):
            await tx.grants.add_token(code)

    async def use(at_ms: int) -> int | None:
        async with store.write() as tx:
            return at_ms if await tx.grants.use_token(HERE, b"code", at_ms) else None

    winners = [at_ms for at_ms in await asyncio.gather(*(use(NOW + n) for n in range(8))) if at_ms is not None]

    assert len(winners) == 1
    async with store.write() as tx:
        row = await tx.grants.token(HERE, b"code", lock=True)
        assert row == token(
            lookup_id=b"code",
            kind="code",
            redirect_uri="http://127.0.0.1/",
            code_challenge="challenge",
            used_ms=winners[0],
            wrapped=None,
        )
        assert not await tx.grants.use_token(HERE, b"stranger", NOW)


async def test_a_wrap_that_is_kept_goes_with_the_sweep_after_its_time(store: Store) -> None:
    refresh = token(lookup_id=b"refresh", kind="refresh")
    used = replace(refresh, used_ms=NOW, wrap_until_ms=NOW + 100)
    async with store.write() as tx:
        await tx.grants.add_token(refresh)
        assert await tx.grants.use_token(HERE, b"refresh", NOW, keep_wrap_until_ms=NOW + 100)
        assert not await tx.grants.use_token(HERE, b"refresh", NOW + 1, keep_wrap_until_ms=NOW + 500)
        await tx.grants.sweep_tokens(HERE, NOW + 99, 10_000)
        assert await tx.grants.token(HERE, b"refresh") == used
    async with store.write() as tx:
        await tx.grants.sweep_tokens("elsewhere", NOW + 100, 10_000)
        assert await tx.grants.token(HERE, b"refresh") == used
        await tx.grants.sweep_tokens(HERE, NOW + 100, 10_000)

    async with store.read() as tx:
        assert await tx.grants.token(HERE, b"refresh") == replace(used, wrapped=None, wrap_until_ms=None)


async def test_the_sweep_keeps_live_tokens_refresh_tokens_and_look_up_ids_that_show_a_replay(store: Store) -> None:
    kept: list[TokenRow] = [
        token(lookup_id=b"live", expires_ms=NOW + 1),
        token(lookup_id=b"refresh", kind="refresh", expires_ms=NOW - 1),
        token(lookup_id=b"just used", kind="code", used_ms=NOW - 100, wrapped=None, expires_ms=NOW - 90),
    ]
    swept: list[TokenRow] = [
        token(lookup_id=b"expired", expires_ms=NOW),
        token(lookup_id=b"code", kind="code", expires_ms=NOW - 1),
        token(lookup_id=b"used long ago", kind="refresh", used_ms=NOW - 101, wrapped=None),
    ]
    async with store.write() as tx:
        for row in kept + swept:
            await tx.grants.add_token(row)
        await tx.grants.sweep_tokens(HERE, NOW, 100)

        for row in kept:
            assert await tx.grants.token(HERE, row.lookup_id) == row
        for row in swept:
            assert await tx.grants.token(HERE, row.lookup_id) is None


async def test_access_shows_token_grant_roster_and_the_keyring_of_the_rosters_epoch(store: Store) -> None:
    async with store.write() as tx:
        await tx.grants.add_grant(grant(), keyring())
        await tx.grants.add_token(token())
        await tx.grants.add_token(token(lookup_id=b"refresh", kind="refresh"))
        assert await tx.grants.access(HERE, b"token") is None  # no roster yet
        await tx.contexts.put_roster(roster_row(1))
        assert await tx.grants.access(HERE, b"token") == AccessView(token(), grant(), keyring(), roster_row(1))

        await tx.contexts.put_roster(roster_row(2, epoch=2))
        assert await tx.grants.access(HERE, b"token") == AccessView(token(), grant(), None, roster_row(2, epoch=2))
        await tx.grants.put_keyring(keyring(epoch=2, sealed=b"second"))

    async with store.read() as tx:
        view = await tx.grants.access(HERE, b"token")
        assert view is not None
        assert view.keyring == keyring(epoch=2, sealed=b"second")
        assert await tx.grants.access(HERE, b"refresh") is None
        assert await tx.grants.access(HERE, b"stranger") is None
        assert await tx.grants.access("elsewhere", b"token") is None


async def test_a_locked_grant_makes_the_next_writer_wait_and_see_the_change(store: Store) -> None:
    async with store.write() as tx:
        await tx.grants.add_grant(grant(), keyring())

    async def revoke_if_active() -> bool:
        async with store.write() as tx:
            row = await tx.grants.grant(HERE, "grant", lock=True)
            assert row is not None
            await asyncio.sleep(0)
            if row.status == "active":
                await tx.grants.revoke_grant(HERE, "grant")
            return row.status == "active"

    assert sum(await asyncio.gather(*(revoke_if_active() for _ in range(6)))) == 1


@pytest.mark.requirement("KEY-08")
async def test_every_keyring_but_one_can_be_deleted(store: Store) -> None:
    async with store.write() as tx:
        await tx.contexts.add(context(context_id=ELSEWHERE, handle="elsewhere"))
        for kind, holder in (("principal", "human:me"), ("principal", "human:bob"), ("grant", "human:me")):
            for epoch in (1, 2):
                await tx.grants.put_keyring(keyring(holder_kind=kind, holder=holder, epoch=epoch))
        await tx.grants.put_keyring(keyring(context_id=ELSEWHERE, holder="other"))

        await tx.grants.delete_keyrings_but(HERE, "principal", "human:me")

        assert await tx.grants.keyring(HERE, "principal", "human:me", 1)
        assert await tx.grants.keyring(HERE, "principal", "human:me", 2)
        assert await tx.grants.keyring(HERE, "principal", "human:bob", 1) is None
        assert await tx.grants.keyring(HERE, "grant", "human:me", 2) is None
        assert await tx.grants.keyring(ELSEWHERE, "grant", "other", 1)
