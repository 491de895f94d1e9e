"""How often one may try what can be abused, and how one is told to wait.

Implements SEC-01 and SEC-02. Keys are accounts, client ids, grants, browsers and addresses, never a secret; what is
kept of them is a hash. Counters live in the memory of this process (several processes then allow several times as
much), in a Redis or Valkey server, or in the database.

Strangers cannot lock the owner out: a browser that has signed in before is counted by itself (``usecases.devices``),
and so is the recovery code. It does NOT stop an attacker with many addresses from being a nuisance, only from guessing
fast.
"""

from __future__ import annotations

import hashlib
import ipaddress
import math
from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol, cast
from urllib.parse import urlsplit

from limits import RateLimitItem, RateLimitItemPerSecond
from limits.aio.storage import MemoryStorage, Storage
from limits.aio.strategies import FixedWindowRateLimiter, RateLimiter, SlidingWindowCounterRateLimiter
from limits.errors import ConfigurationError, StorageError
from limits.storage import storage_from_string
from starlette.requests import HTTPConnection
from typing_extensions import override

from zkpcp.core.stored import Counted
from zkpcp.errors import RateLimitedError, UnavailableError
from zkpcp.ports import Clock, Store

_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_MILLISECONDS: Final = 1000
_IPV6_SUBSCRIBER_BITS: Final = 64
_IMPLEMENTATION: Final = MappingProxyType({"redis": "redispy", "rediss": "redispy", "valkey": "valkey"})


@dataclass(frozen=True, slots=True)
class Rule:
    """At most ``amount`` attempts in any ``window_s`` seconds for one set of keys."""

    name: str
    amount: int
    window_s: int


# A person mistypes a few times; a program would try all day. Both windows count, so a second series waits longer.
SIGN_IN_FROM_HERE: Final = Rule("sign-in/account+address", 5, _MINUTE_S)
SIGN_IN_FROM_HERE_LONG: Final = Rule("sign-in/account+address/long", 20, _HOUR_S)
# For guesses spread over many addresses: about 500,000 a year, hopeless against twelve characters. A stranger can use
# it up, for browsers that have never signed in.
SIGN_IN_ACCOUNT: Final = Rule("sign-in/account", 60, _HOUR_S)
# In place of the three above for a browser that has signed in before, wherever it is; a stolen mark buys this much.
SIGN_IN_DEVICE: Final = Rule("sign-in/account+device", 20, _HOUR_S)
# Every check of a passphrase costs 64 MiB and a third of a second, whichever account it names.
SIGN_IN_ADDRESS: Final = Rule("sign-in/address", 30, _MINUTE_S)
# 160 random bits cannot be guessed; this only bounds the work.
RECOVER_ADDRESS: Final = Rule("recover/address", 10, _MINUTE_S)
# 160 random bits cannot be guessed; a newcomer costs an Argon2id run.
JOIN_ADDRESS: Final = Rule("join/address", 10, _MINUTE_S)
# A new context costs an Argon2id run and stays in the database.
SET_UP_ADDRESS: Final = Rule("set-up/address", 10, _MINUTE_S)
# A registration stays in the database; a client registers once per context.
REGISTER_ADDRESS: Final = Rule("register/address", 20, _HOUR_S)
# A person starts and answers a few.
AUTHORIZE_ADDRESS: Final = Rule("authorize/address", 60, _MINUTE_S)
# A pending authorization stays for minutes; only a signed-in person makes one.
AUTHORIZE_ACCOUNT: Final = Rule("authorize/account", 60, _MINUTE_S)
# A fetch from somewhere else, which only a signed-in person can cause and which is kept when it succeeds.
CLIENT_DOCUMENT_ACCOUNT: Final = Rule("client-document/account", 20, _MINUTE_S)
CLIENT_DOCUMENT_ADDRESS: Final = Rule("client-document/address", 20, _MINUTE_S)
# However many accounts ask: nobody is flooded through this server.
CLIENT_DOCUMENT_HOST: Final = Rule("client-document/host", 30, _MINUTE_S)
# A client refreshes once an hour; several people may share an address, and one of them several clients.
TOKEN_ADDRESS: Final = Rule("token/address", 120, _MINUTE_S)
# With the address: ids of clients that have a document are public, and a stranger could use their limit up.
TOKEN_CLIENT: Final = Rule("token/client+address", 60, _MINUTE_S)


class Limiter(Protocol):
    """Counts attempts."""

    async def hit(self, rule: Rule, *keys: str) -> None:
        """Count one attempt; raises RateLimitedError when it is one too many."""
        ...


class StorageLimiter:
    """Counts with a strategy of the ``limits`` library."""

    def __init__(self, clock: Clock, strategy: RateLimiter) -> None:
        self._clock = clock
        self._strategy = strategy

    async def hit(self, rule: Rule, *keys: str) -> None:
        """Count one attempt; raises RateLimitedError, UnavailableError when nothing can be counted."""
        item: RateLimitItem = RateLimitItemPerSecond(rule.amount, rule.window_s, rule.name)
        name = _counter_name(keys)
        try:
            if await self._strategy.hit(item, name):
                return
            stats = await self._strategy.get_window_stats(item, name)
        except StorageError:
            # Closed, not open: a limit that fails open is switched off by whoever can break its store.
            raise UnavailableError("the store of the rate limits cannot be reached") from None
        wait_s = math.ceil(stats.reset_time - self._clock.now_ms() / 1000)
        raise RateLimitedError("too many attempts; wait and try again", min(max(1, wait_s), rule.window_s))


class DatabaseCounters(Storage):
    """Our own database as a storage of the library: a fixed window, counted by one statement.

    Names are hashed here whole, so that not even the rule stands in the table in clear.
    """

    STORAGE_SCHEME = None

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__()
        self._store = store
        self._clock = clock

    @property
    @override
    def base_exceptions(self) -> tuple[type[Exception], ...]:
        return ()  # the store's own errors are ours already

    @override
    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        now_ms = self._clock.now_ms()
        async with self._store.write() as tx:
            counted = await tx.counters.add(
                _hashed(key), amount, now_ms=now_ms, ends_ms=now_ms + expiry * _MILLISECONDS
            )
        return counted.count

    @override
    async def get(self, key: str) -> int:
        counted = await self._counted(key)
        return counted.count if counted else 0

    @override
    async def get_expiry(self, key: str) -> float:
        counted = await self._counted(key)
        return (counted.ends_ms if counted else self._clock.now_ms()) / _MILLISECONDS

    @override
    async def check(self) -> bool:
        async with self._store.read() as tx:
            await tx.counters.count("", 0)
        return True

    @override
    async def reset(self) -> int | None:
        raise NotImplementedError("the limits of a running server are not reset")

    @override
    async def clear(self, key: str) -> None:
        async with self._store.write() as tx:
            await tx.counters.clear(_hashed(key))

    async def _counted(self, key: str) -> Counted | None:
        async with self._store.read() as tx:
            return await tx.counters.count(_hashed(key), self._clock.now_ms())


class MemoryLimiter(StorageLimiter):
    """Counts in this process, by the sliding window counter.

    The moving window of the same library would be exact, but keeps every attempt and walks over all of them.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock, SlidingWindowCounterRateLimiter(MemoryStorage()))


class DatabaseLimiter(StorageLimiter):
    """Counts in the database, for several processes that share it; each attempt is a small transaction."""

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__(clock, FixedWindowRateLimiter(DatabaseCounters(store, clock)))


class ServerLimiter(StorageLimiter):
    """Counts in a Redis or Valkey server (``redis://…``, ``rediss://…``, ``valkey://…``).

    Raises UnavailableError when the client library is not installed, or the URL is not one that it understands.
    """

    def __init__(self, url: str, clock: Clock) -> None:
        try:
            implementation = _IMPLEMENTATION[urlsplit(url).scheme]
            storage = storage_from_string(f"async+{url}", implementation=implementation, wrap_exceptions=True)
        except (ConfigurationError, ValueError, KeyError):
            storage = None
        if storage is None:  # raised out here: the library's error may repeat the URL, which may hold a password
            raise UnavailableError(
                "ZKPCP_LIMITS needs a URL such as redis://127.0.0.1:6379/0 and the Python package redis, or valkey"
            )
        super().__init__(clock, SlidingWindowCounterRateLimiter(cast(Storage, storage)))


@dataclass(frozen=True, slots=True)
class CallBudget:
    """How many MCP requests a grant may send (SEC-02)."""

    limiter: Limiter
    per_minute: int

    async def spend(self, context_id: str, grant_id: str) -> None:
        """Count one request; raises RateLimitedError when it is one too many."""
        await self.limiter.hit(Rule("mcp/grant", self.per_minute, _MINUTE_S), context_id, grant_id)


def _counter_name(keys: Iterable[str]) -> str:
    """What a counter is kept under: of one size, and no text that somebody sent stays in memory (KEY-04)."""
    # Length first, so that no two different sets of keys are the same counter.
    parts = [key.encode("utf-8", "replace") for key in keys]
    return hashlib.sha256(b"".join(len(part).to_bytes(4, "big") + part for part in parts)).hexdigest()


def _hashed(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def address_key(connection: HTTPConnection) -> str:
    """The address to count by: an IPv4 address, the /64 of an IPv6 address (one subscriber's), or ``unknown``."""
    host = connection.client.host if connection.client else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "unknown"
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((int(address), _IPV6_SUBSCRIBER_BITS), strict=False))
    return str(address)
