"""Telling a browser that signed in before from a stranger, so that guessing by strangers never keeps the owner out.

Implements the part of SEC-02 that is about people: attempts at an account are limited whoever makes them, and a
stranger could use that limit up. A browser that has signed in holds a mark, and attempts with a mark are counted by
themselves.

A mark is a random number and an end, with a MAC over both. Its key is the salt of the account's passphrase wrap: nobody
on the network knows it, whoever reads the database could guess at the passphrase anyway, and a new passphrase ends
every mark. Nothing is stored. A mark signs nobody in and opens nothing.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from typing import Final

from zkpcp.core.stored import ContextRow, SeedWrapRow
from zkpcp.usecases.services import Services

MARK_LIFETIME_S: Final = 180 * 24 * 3600
_NUMBER_BYTES: Final = 16
_END_BYTES: Final = 8
_MAC_BYTES: Final = 32
_LABEL: Final = b"zkpcp/v1/device-mark"


async def new_mark(services: Services, context: ContextRow) -> str | None:
    """A mark for a browser that has just signed in; None for an account without a passphrase."""
    wrap = await _wrap(services, context)
    if wrap is None:
        return None
    ends_ms = services.clock.now_ms() + MARK_LIFETIME_S * 1000
    body = services.entropy.bytes(_NUMBER_BYTES) + ends_ms.to_bytes(_END_BYTES, "big")
    return base64.urlsafe_b64encode(body + _mac(wrap, body)).decode("ascii").rstrip("=")


async def device_of(services: Services, context: ContextRow | None, mark: str | None) -> str | None:
    """Which browser shows this mark, as a name to count by; None when it is not a mark of this account's."""
    wrap = await _wrap(services, context) if context is not None else None
    if wrap is None or mark is None:
        return None
    raw = _decoded(mark)
    body, mac = raw[:-_MAC_BYTES], raw[-_MAC_BYTES:]
    if len(raw) != _NUMBER_BYTES + _END_BYTES + _MAC_BYTES or not hmac.compare_digest(mac, _mac(wrap, body)):
        return None
    if services.clock.now_ms() >= int.from_bytes(body[_NUMBER_BYTES:], "big"):
        return None
    return body[:_NUMBER_BYTES].hex()


async def _wrap(services: Services, context: ContextRow) -> SeedWrapRow | None:
    async with services.store.read() as tx:
        return await tx.credentials.wrap(context.context_id, context.owner, "passphrase")


def _mac(wrap: SeedWrapRow, body: bytes) -> bytes:
    # Length first, so that no two different accounts have the same input.
    account = b"".join(
        len(part).to_bytes(2, "big") + part for part in (wrap.context_id.encode(), wrap.principal.encode())
    )
    return hmac.digest(wrap.salt, _LABEL + account + body, "sha256")


def _decoded(mark: str) -> bytes:
    try:
        return base64.b64decode(mark + "=" * (-len(mark) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""
