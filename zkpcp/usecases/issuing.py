"""Making a grant's access token and refresh token, each with its own wrap of the grant's seed.

The caller holds the grant's open seed inside a write transaction; what is issued becomes valid with its commit.
Lifetimes are those of PCP §3 (AUTH-30, AUTH-33, AUTH-45).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zkpcp.core.grants import ACCESS_LIFETIME_S, GRANT_IDLE_LIFETIME_S
from zkpcp.core.scopes import OFFLINE_ACCESS
from zkpcp.core.stored import GrantRow, TokenKind, TokenRow
from zkpcp.ports import Transaction
from zkpcp.usecases.services import Services
from zkpcp.vault import seeds
from zkpcp.vault.secrets import TokenSecret, new_token
from zkpcp.vault.seeds import OpenedSeed

USED_TOKENS_KEPT_MS: Final = GRANT_IDLE_LIFETIME_S * 1000
"""How long the look-up id of a used code or refresh token stays, by which a replay is recognized."""


@dataclass(frozen=True, slots=True)
class IssuedTokens:
    """Tokens to be handed to the client, once. ``scopes`` are the access token's."""

    access: TokenSecret
    refresh: TokenSecret | None
    scopes: tuple[str, ...]
    expires_in_s: int = ACCESS_LIFETIME_S

    def wipe(self) -> None:
        """Overwrite the secrets after they were handed out."""
        self.access.wipe()
        if self.refresh is not None:
            self.refresh.wipe()


async def issue(
    tx: Transaction, services: Services, grant: GrantRow, opened: OpenedSeed, scopes: tuple[str, ...]
) -> IssuedTokens:
    """Add an access token with ``scopes`` and, for a refreshable grant, a refresh token with all of the grant's."""
    now_ms = services.clock.now_ms()
    access, access_row = _wrapped(services, grant, opened, "access", scopes, now_ms + ACCESS_LIFETIME_S * 1000)
    await tx.grants.add_token(access_row)
    refresh = None
    # The signed scopes decide, not the row's readable flag, which whoever edits the database could turn.
    if OFFLINE_ACCESS in grant.scopes:
        # The grant's scopes, not the narrowed ones: narrowing one access token is not for ever (RFC 6749 §6).
        end_ms = now_ms + GRANT_IDLE_LIFETIME_S * 1000
        refresh, refresh_row = _wrapped(services, grant, opened, "refresh", grant.scopes, end_ms)
        await tx.grants.add_token(refresh_row)
    return IssuedTokens(access, refresh, scopes)


def _wrapped(
    services: Services, grant: GrantRow, opened: OpenedSeed, kind: TokenKind, scopes: tuple[str, ...], expires_ms: int
) -> tuple[TokenSecret, TokenRow]:
    token = new_token("at" if kind == "access" else "rt", services.entropy)
    row = TokenRow(
        context_id=grant.context_id,
        lookup_id=token.lookup_id(),
        kind=kind,
        grant_id=grant.grant_id,
        client_id=grant.client_id,
        scopes=scopes,
        created_ms=services.clock.now_ms(),
        expires_ms=expires_ms,
        used_ms=None,
        wrapped=seeds.wrap_for_token(token, kind, grant.context_id, grant.grant_id, opened, services.entropy),
    )
    return token, row
