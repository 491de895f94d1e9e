"""Who may try how often, where that is counted, and that strangers keep nobody out of their own context."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import httpx2
import pytest
from limits.aio.storage.redis import RedisStorage

from tests.flows.oauth_support import HANDLE, NOW_MS, PASSPHRASE, OAuthServer, hidden, oauth_server
from tests.flows.usecase_support import World, every_store
from tests.support.redis import Redis
from zkpcp.bootstrap import SystemClock
from zkpcp.core.schemas import JsonObject
from zkpcp.errors import RateLimitedError, UnavailableError
from zkpcp.http.limits import (
    AUTHORIZE_ACCOUNT,
    REGISTER_ADDRESS,
    SIGN_IN_ACCOUNT,
    SIGN_IN_DEVICE,
    SIGN_IN_FROM_HERE,
    TOKEN_CLIENT,
    DatabaseLimiter,
    Rule,
    ServerLimiter,
)
from zkpcp.testing import FixedClock, MemoryStore
from zkpcp.usecases.devices import MARK_LIFETIME_S, device_of, new_mark
from zkpcp.usecases.session import recover

RULE = Rule("example", 2, 60)
PING: JsonObject = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def at(server: OAuthServer, address: str, cookies: httpx2.Cookies | None = None) -> httpx2.AsyncClient:
    """A browser at an address, on a page of the server's own."""
    transport = httpx2.ASGITransport(server.app, client=(address, 50_000))
    headers = {"origin": server.origin, "sec-fetch-site": "same-origin"}
    return httpx2.AsyncClient(transport=transport, base_url=server.origin, headers=headers, cookies=cookies)


async def try_passphrase(browser: httpx2.AsyncClient, passphrase: str = "a wrong guess") -> int:
    answer = await browser.post(f"/c/{HANDLE}/sign-in", data={"passphrase": passphrase})
    return answer.status_code


@asynccontextmanager
async def sharing(server: Redis) -> AsyncIterator[ServerLimiter]:
    """What a process counts with; Redis has a clock of its own, so the real one it is."""
    limiter = ServerLimiter(server.url, SystemClock())
    try:
        yield limiter
    finally:
        client = cast(RedisStorage, limiter._strategy.storage).bridge.storage  # type: ignore[attr-defined]  # of its redis kind
        await client.aclose()


def strangers(count: int) -> list[str]:
    """Addresses far apart from each other."""
    return [f"198.51.{number // 250}.{number % 250 + 1}" for number in range(count)]


class Door:
    """Lets everybody through until it is shut, and notes what it was asked."""

    def __init__(self) -> None:
        self.is_shut = False
        self.asked: list[tuple[Rule, tuple[str, ...]]] = []

    async def hit(self, rule: Rule, *keys: str) -> None:
        self.asked.append((rule, keys))
        if self.is_shut:
            raise RateLimitedError("too many attempts", 7)


# ---------------------------------------------------------------------------------------------------------- the owner


@pytest.mark.requirement("SEC-01", "SEC-02")
async def test_guesses_from_many_addresses_stay_slow_and_do_not_keep_the_owner_out() -> None:
    server = await oauth_server()
    async with at(server, "192.0.2.1") as known:
        assert await try_passphrase(known, PASSPHRASE) == 303
        known.cookies.delete(f"__Host-zkpcp_{HANDLE}")  # the session is over; the mark stays

        answers = []
        for address in strangers(SIGN_IN_ACCOUNT.amount + 20):
            async with at(server, address) as stranger:
                answers.append(await try_passphrase(stranger))

        # One attempt of the account's sixty was the owner's own first.
        assert answers.count(403) == SIGN_IN_ACCOUNT.amount - 1
        assert answers.count(429) == 21
        async with at(server, "203.0.113.9") as unknown:
            assert await try_passphrase(unknown, PASSPHRASE) == 429
        # The owner's browser gets in at once, wherever it is by now.
        async with at(server, "203.0.113.10", known.cookies) as elsewhere:
            assert await try_passphrase(elsewhere, PASSPHRASE) == 303


@pytest.mark.requirement("SEC-02")
async def test_the_recovery_code_is_not_counted_with_the_guesses() -> None:
    server = await oauth_server()
    for address in strangers(SIGN_IN_ACCOUNT.amount):
        async with at(server, address) as stranger:
            await try_passphrase(stranger)

    async with at(server, "203.0.113.9") as unknown:
        form = {"recovery_code": "wrong", "passphrase": "another long one", "passphrase_again": "another long one"}
        assert (await unknown.post(f"/c/{HANDLE}/recover", data=form)).status_code == 400


@pytest.mark.requirement("SEC-02")
async def test_a_stolen_mark_buys_few_guesses_and_signs_nobody_in() -> None:
    server = await oauth_server()
    async with at(server, "192.0.2.1") as known:
        await try_passphrase(known, PASSPHRASE)
        known.cookies.delete(f"__Host-zkpcp_{HANDLE}")

        assert (await known.get(f"/c/{HANDLE}/")).status_code == 303
        answers = []
        for address in strangers(SIGN_IN_DEVICE.amount + 5):
            async with at(server, address, known.cookies) as thief:
                answers.append(await try_passphrase(thief))

    assert answers.count(403) == SIGN_IN_DEVICE.amount
    assert answers[-5:] == [429] * 5


async def test_a_made_up_mark_is_none() -> None:
    server = await oauth_server()
    for text in ("", "x", "A" * 75, "A" * 4000, "é", "=" * 8):
        assert await device_of(server.services, server.context, text) is None
    assert await device_of(server.services, server.context, None) is None
    assert await device_of(server.services, None, "A" * 75) is None

    async with at(server, "192.0.2.1") as guesser:
        name = f"__Host-zkpcp_device_{HANDLE}"
        answers = []
        for number in range(SIGN_IN_FROM_HERE.amount + 1):
            guesser.cookies.set(name, f"{number}" * 75)
            answers.append(await try_passphrase(guesser))
    assert answers[-1] == 429


async def test_a_mark_names_one_browser_of_one_account_until_it_ends() -> None:
    world = await World.founded(MemoryStore())
    other = await World.founded(world.store, handle="bea")
    first, second = await new_mark(world.services, world.context), await new_mark(world.services, world.context)
    assert first is not None

    named = await device_of(world.services, world.context, first)
    assert named is not None
    assert named != await device_of(world.services, world.context, second)
    assert await device_of(world.services, other.context, first) is None
    for place in range(0, len(first), 7):
        changed = first[:place] + ("A" if first[place] != "A" else "B") + first[place + 1 :]
        assert await device_of(world.services, world.context, changed) is None

    world.clock.advance(MARK_LIFETIME_S * 1000 - 1)
    assert await device_of(world.services, world.context, first) == named
    world.clock.advance(1)
    assert await device_of(world.services, world.context, first) is None


async def test_a_new_passphrase_ends_every_mark() -> None:
    world = await World.founded(MemoryStore())
    mark = await new_mark(world.services, world.context)

    await recover(
        world.services, world.context, recovery_code=world.recovery_code, new_passphrase="quite another passphrase"
    )

    assert await device_of(world.services, world.context, mark) is None


# ------------------------------------------------------------------------------------------------------ OAuth and MCP


@pytest.mark.requirement("SEC-01", "SEC-02")
async def test_a_client_is_told_to_wait_at_the_token_endpoint_and_others_of_its_id_are_not() -> None:
    server = await oauth_server()
    client_id = await server.client_id()
    form = {"grant_type": "refresh_token", "client_id": client_id, "refresh_token": "x"}

    async with at(server, "192.0.2.1") as stranger:
        answers = [await stranger.post(f"{server.base}/token", data=form) for _ in range(TOKEN_CLIENT.amount + 1)]
    async with at(server, "192.0.2.2") as client:
        other = await client.post(f"{server.base}/token", data=form)

    assert answers[-2].status_code == 400
    assert answers[-1].status_code == 429
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert answers[-1].json()["error"] == "temporarily_unavailable"
    assert other.status_code == 400


@pytest.mark.requirement("SEC-01", "SEC-02")
async def test_asking_is_limited_for_the_account_and_not_by_cookies_that_only_look_like_a_session() -> None:
    server = await oauth_server()
    url = server.authorize_url(await server.client_id())
    fake = httpx2.Cookies(dict.fromkeys(server.cookies, f"pcp_st_{'A' * 43}"))
    for address in strangers(AUTHORIZE_ACCOUNT.amount + 1):
        async with at(server, address, fake) as stranger:
            assert (await stranger.get(url)).status_code == 303

    answers = []
    for address in strangers(AUTHORIZE_ACCOUNT.amount + 1):
        async with at(server, address, httpx2.Cookies(dict(server.cookies))) as owner:
            answers.append(await owner.get(url))

    assert [answer.status_code for answer in answers] == [200] * AUTHORIZE_ACCOUNT.amount + [429]
    assert int(answers[-1].headers["retry-after"]) >= 1


@pytest.mark.requirement("SEC-01", "SEC-02")
async def test_calls_are_limited_for_each_grant() -> None:
    server = await oauth_server(mcp_calls_per_minute=3, whole=True)
    client_id = await server.client_id()
    first, other = await server.tokens(client_id), await server.tokens(client_id)
    renewed = (await server.refresh(client_id, str(first["refresh_token"]))).json()

    async def call(tokens: JsonObject) -> httpx2.Response:
        authorization = f"Bearer {tokens['access_token']}"
        headers = {"accept": "application/json, text/event-stream", "authorization": authorization}
        async with server.http() as http:
            return await http.post(f"{server.base}/mcp", json=PING, headers=headers)

    answers = [await call(first) for _ in range(4)]

    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 60
    assert answers[-1].json()["error"]["code"] == "rate_limited"
    # A new token of the same grant has no budget of its own; another grant has.
    assert (await call(renewed)).status_code == 429
    assert (await call(other)).status_code == 200


@pytest.mark.requirement("SEC-01")
async def test_every_endpoint_of_oauth_answers_429_with_the_time_to_wait_beyond_a_limit() -> None:
    door = Door()
    server = await oauth_server(limiter=door)
    client_id = await server.client_id()
    page = await server.ask(client_id)
    code = await server.code(client_id)
    door.is_shut = True

    answers = {
        "authorize": await server.ask(client_id),
        "authorize of a stranger": await server.get(server.authorize_url("nobody")),
        "consent": await server.send_consent(hidden(page, "request"), ["memory:read"]),
        "token": await server.redeem(client_id, code),
        "revoke": await server.post("/revoke", {"token": code}),
        "register": await server.register(),
    }

    told = {name: (answer.status_code, answer.headers.get("retry-after")) for name, answer in answers.items()}
    assert told == dict.fromkeys(answers, (429, "7"))
    # What is counted by is no secret.
    assert not [
        secret for secret in (code, hidden(page, "request"), *server.cookies.values()) if secret in str(door.asked)
    ]
    # Whoever comes back in time still has what they came with.
    door.is_shut = False
    assert (await server.redeem(client_id, code)).status_code == 200
    assert (await server.decide(page)).status_code == 200


@pytest.mark.requirement("SEC-01")
async def test_registration_is_limited_with_the_time_to_wait() -> None:
    server = await oauth_server()

    answers = [await server.register() for _ in range(REGISTER_ADDRESS.amount + 1)]

    assert answers[-1].status_code == 429
    assert int(answers[-1].headers["retry-after"]) >= 1


# -------------------------------------------------------------------------------------------------- where it is counted


@every_store
@pytest.mark.requirement("SEC-01")
async def test_processes_that_share_a_database_count_together(stored_world: World) -> None:
    one, two = (DatabaseLimiter(stored_world.store, stored_world.clock) for _ in range(2))

    await one.hit(RULE, "a", "b")
    await two.hit(RULE, "a", "b")
    await two.hit(RULE, "ab", "")
    with pytest.raises(RateLimitedError) as refused:
        await one.hit(RULE, "a", "b")

    assert refused.value.retry_after_s == 60
    stored_world.clock.advance(59_999)
    with pytest.raises(RateLimitedError) as refused:
        await two.hit(RULE, "a", "b")
    assert refused.value.retry_after_s == 1
    stored_world.clock.advance(1)
    await two.hit(RULE, "a", "b")


@pytest.mark.requirement("SEC-12")
async def test_no_account_address_or_rule_stands_in_the_table() -> None:
    store = MemoryStore()
    await DatabaseLimiter(store, FixedClock(NOW_MS)).hit(RULE, "lovelace", "192.0.2.1")

    [name] = store._committed.counters
    assert len(name) == 64
    assert int(name, 16)


@pytest.mark.requirement("SEC-01")
async def test_the_whole_server_counts_in_the_database_when_it_is_told_to() -> None:
    store = MemoryStore()
    server = await oauth_server(store, limiter=DatabaseLimiter(store, FixedClock(NOW_MS)))

    async with at(server, "192.0.2.1") as guesser:
        answers = [await try_passphrase(guesser) for _ in range(SIGN_IN_FROM_HERE.amount + 1)]

    assert answers[-1] == 429
    assert store._committed.counters


@pytest.mark.parametrize(
    "url", ["redis://:secret@127.0.0.1:1/0", "valkey://:secret@127.0.0.1:1/0", "ftp://:secret@x", "memory"]
)
async def test_a_server_that_cannot_be_asked_lets_nobody_through_and_its_password_is_not_repeated(url: str) -> None:
    with pytest.raises(UnavailableError) as refused:
        await ServerLimiter(url, FixedClock(NOW_MS)).hit(RULE, "a")

    assert "secret" not in refused.value.message


@pytest.mark.requirement("SEC-01", "SEC-02", "SEC-12")
async def test_processes_that_share_a_redis_server_count_together_under_names_that_say_nothing(
    redis_server: Redis,
) -> None:
    async with sharing(redis_server) as one, sharing(redis_server) as two:
        await one.hit(RULE, "lovelace", "192.0.2.1")
        await two.hit(RULE, "lovelace", "192.0.2.1")
        await two.hit(RULE, "lovelace", "192.0.2.2")
        with pytest.raises(RateLimitedError) as refused:
            await one.hit(RULE, "lovelace", "192.0.2.1")

        assert 1 <= refused.value.retry_after_s <= RULE.window_s
        names = redis_server.ask("KEYS", "*")
        assert names.count(b"LIMITS") >= 2
        for word in (b"lovelace", b"192.0.2"):
            assert word not in names


@pytest.mark.requirement("SEC-01")
async def test_two_servers_that_share_a_redis_server_answer_429_together(redis_server: Redis) -> None:
    answers = []
    async with sharing(redis_server) as one, sharing(redis_server) as two:
        servers = [await oauth_server(limiter=limiter) for limiter in (one, two)]
        for number in range(SIGN_IN_FROM_HERE.amount + 1):
            async with at(servers[number % 2], "192.0.2.1") as guesser:
                answers.append(await guesser.post(f"/c/{HANDLE}/sign-in", data={"passphrase": "a wrong guess"}))

    assert [answer.status_code for answer in answers[:-1]] == [403] * SIGN_IN_FROM_HERE.amount
    assert answers[-1].status_code == 429
    assert int(answers[-1].headers["retry-after"]) >= 1


@pytest.mark.requirement("SEC-01")
async def test_a_redis_server_that_goes_away_closes_the_door(redis_server: Redis) -> None:
    async with sharing(redis_server) as limiter:
        server = await oauth_server(limiter=limiter)
        async with at(server, "192.0.2.1") as person:
            assert await try_passphrase(person) == 403
            redis_server.stop()

            assert await try_passphrase(person, PASSPHRASE) == 503
