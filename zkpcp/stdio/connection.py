"""The tokens of one local grant, in memory only, renewed as they run out (AUTH-30, AUTH-31, AUTH-43).

No key and no passphrase is kept: every call opens the grant's keyring with the access token and wipes it again, as over
HTTP.
"""

from __future__ import annotations

import asyncio
from typing import Final

from zkpcp.core.grants import ACCESS_LIFETIME_S
from zkpcp.core.stored import ContextRow
from zkpcp.errors import InvalidTokenError
from zkpcp.usecases import local
from zkpcp.usecases.grants import HeadlessGrant
from zkpcp.usecases.services import Services
from zkpcp.vault.secrets import TokenSecret

RENEW_BEFORE_END_S: Final = 300
"""A token is renewed while it is still good for the calls under way."""


class Connection:
    """A local program's grant from its begin to its end."""

    def __init__(self, services: Services, context: ContextRow, made: HeadlessGrant, *, mcp_url: str) -> None:
        if made.refresh is None:
            raise ValueError("a local grant has a refresh token")
        self._services = services
        self._context = context
        self._grant_id = made.grant_id
        self._client_id = made.client_id
        self._mcp_url = mcp_url
        self._access: TokenSecret = made.access
        self._refresh: TokenSecret = made.refresh
        self._renew_ms = self._renewal_ms()
        self._renewing = asyncio.Lock()

    async def access(self) -> tuple[ContextRow, str]:
        """The context as it is now, and a good access token. Raises InvalidTokenError after the grant's end."""
        async with self._services.store.read() as tx:
            context = await tx.contexts.by_handle(self._context.handle)
        if context is None or context.context_id != self._context.context_id:
            raise InvalidTokenError(local.ENDED)
        async with self._renewing:
            if self._services.clock.now_ms() >= self._renew_ms:
                await self._renew(context)
            return context, self._access.text()

    async def end(self) -> None:
        """End the grant and overwrite its tokens."""
        try:
            await local.end(self._services, self._context.context_id, self._grant_id)
        finally:
            self._access.wipe()
            self._refresh.wipe()

    async def _renew(self, context: ContextRow) -> None:
        issued = await local.renew(
            self._services, context, client_id=self._client_id, refresh=self._refresh, mcp_url=self._mcp_url
        )
        if issued.refresh is None:
            raise InvalidTokenError(local.ENDED)
        self._access.wipe()
        self._refresh.wipe()
        self._access, self._refresh = issued.access, issued.refresh
        self._renew_ms = self._renewal_ms()

    def _renewal_ms(self) -> int:
        return self._services.clock.now_ms() + (ACCESS_LIFETIME_S - RENEW_BEFORE_END_S) * 1000
