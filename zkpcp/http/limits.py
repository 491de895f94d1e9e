"""How often one may try what can be abused, and how one is told to wait.

Implements SEC-01 and SEC-02. Keys are account names, client ids and addresses, never a secret. Counters live in the
memory of this process: several processes allow several times as much. It does NOT stop an attacker with many addresses
from being a nuisance, only from guessing fast; and no rule keeps the owner out for longer than its own window.
"""

from __future__ import annotations

import hashlib
import ipaddress
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from limits import RateLimitItem, RateLimitItemPerSecond
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import SlidingWindowCounterRateLimiter
from starlette.requests import HTTPConnection

from zkpcp.errors import RateLimitedError
from zkpcp.ports import Clock

_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_IPV6_SUBSCRIBER_BITS: Final = 64


@dataclass(frozen=True, slots=True)
class Rule:
    """At most ``amount`` attempts in any ``window_s`` seconds for one set of keys."""

    name: str
    amount: int
    window_s: int


# A person mistypes a few times; a program would try all day. Both windows count, so a second series waits longer.
SIGN_IN_FROM_HERE: Final = Rule("sign-in/account+address", 5, _MINUTE_S)
SIGN_IN_FROM_HERE_LONG: Final = Rule("sign-in/account+address/long", 20, _HOUR_S)
# For guesses spread over many addresses: about 500,000 a year, hopeless against twelve characters. It is the only rule
# that a stranger can use up for the owner, so it is loose, and an hour without the stranger ends it.
SIGN_IN_ACCOUNT: Final = Rule("sign-in/account", 60, _HOUR_S)
# Every check of a passphrase costs 64 MiB and a third of a second, whichever account it names.
SIGN_IN_ADDRESS: Final = Rule("sign-in/address", 30, _MINUTE_S)
# 160 random bits cannot be guessed; this only bounds the work.
RECOVER_ADDRESS: Final = Rule("recover/address", 10, _MINUTE_S)
# A new context costs an Argon2id run and stays in the database.
SET_UP_ADDRESS: Final = Rule("set-up/address", 10, _MINUTE_S)
# A registration stays in the database; a client registers once per context.
REGISTER_ADDRESS: Final = Rule("register/address", 20, _HOUR_S)
# A pending authorization stays for minutes; a person starts a few.
AUTHORIZE_ADDRESS: Final = Rule("authorize/address", 60, _MINUTE_S)
# A client refreshes once an hour; several people may share an address, and one of them several clients.
TOKEN_ADDRESS: Final = Rule("token/address", 120, _MINUTE_S)
TOKEN_CLIENT: Final = Rule("token/client", 60, _MINUTE_S)


class Limiter(Protocol):
    """Counts attempts."""

    async def hit(self, rule: Rule, *keys: str) -> None:
        """Count one attempt; raises RateLimitedError when it is one too many."""
        ...


class MemoryLimiter:
    """Counts in this process, by the sliding window counter.

    The moving window of the same library would be exact, but keeps every attempt and walks over all of them.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._strategy = SlidingWindowCounterRateLimiter(MemoryStorage())

    async def hit(self, rule: Rule, *keys: str) -> None:
        """Count one attempt; raises RateLimitedError when it is one too many."""
        item: RateLimitItem = RateLimitItemPerSecond(rule.amount, rule.window_s, rule.name)
        name = _counter_name(keys)
        if await self._strategy.hit(item, name):
            return
        stats = await self._strategy.get_window_stats(item, name)
        wait_s = math.ceil(stats.reset_time - self._clock.now_ms() / 1000)
        raise RateLimitedError("too many attempts; wait and try again", min(max(1, wait_s), rule.window_s))


def _counter_name(keys: Iterable[str]) -> str:
    """What a counter is kept under: of one size, and no text that somebody sent stays in memory (KEY-04)."""
    # Length first, so that no two different sets of keys are the same counter.
    parts = [key.encode("utf-8", "replace") for key in keys]
    return hashlib.sha256(b"".join(len(part).to_bytes(4, "big") + part for part in parts)).hexdigest()


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
