"""What the token and revocation endpoints do: code or refresh token in, new tokens out, or the reason why not.

Implements RFC 6749 §4.1.3, §5 and §6, RFC 7636 §4.6, RFC 7009, RFC 8707 and PCP §3.4 (AUTH-21, AUTH-22, AUTH-24,
AUTH-30 to AUTH-33, AUTH-45) with the custody of §9.1: the wrap of the grant's seed under the old secret is deleted and
new ones are made in one transaction. A client that is known by a document is looked up as it was when its grant was
made; nothing is fetched here (AUTH-18).

1. The grant is locked before the token, as a revocation does, so that neither waits for the other.
2. A used code or refresh token comes back: somebody else has it. The grant ends, unless a refresh token is still within
   the grace of the settings: its wrap was kept, and it is served once more.
3. Client, redirect URI, resource, verifier, scope are checked before anything is opened.
4. The wrap opens, the roster is the one it remembers or newer, the grant's row is signed: only then are tokens made.

Refusals are values: an exception would roll back the revocation of step 2.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Literal

from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oauth2.rfc7636.challenge import CODE_VERIFIER_PATTERN

from zkpcp.core.audit import Action, Channel, Outcome
from zkpcp.core.authorize import is_resource_refused
from zkpcp.core.grants import GRANT_IDLE_LIFETIME_S
from zkpcp.core.oauth_params import Params
from zkpcp.core.scopes import canonical
from zkpcp.core.stored import ContextRow, GrantRow, TokenRow
from zkpcp.errors import CorruptError, InvalidTokenError
from zkpcp.ports import Transaction
from zkpcp.usecases.audit_log import record
from zkpcp.usecases.grants import end_grant, record_issue
from zkpcp.usecases.issuing import USED_TOKENS_KEPT_MS, IssuedTokens, issue
from zkpcp.usecases.services import Services
from zkpcp.vault import holders, seeds
from zkpcp.vault.secrets import TokenSecret, parse_token
from zkpcp.vault.seeds import Memory, OpenedSeed

TokenError = Literal[
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "invalid_scope",
    "invalid_target",
    "unsupported_grant_type",
]


@dataclass(frozen=True, slots=True)
class TokenRefusal:
    """An error of RFC 6749 §5.2 or RFC 8707 §2; ``description`` is constant and says nothing about the token."""

    error: TokenError
    description: str


_NOT_GOOD = TokenRefusal("invalid_grant", "the code or refresh token is not valid for this client")
_REPEATED = TokenRefusal("invalid_request", "a parameter is repeated")
_NO_CLIENT = TokenRefusal("invalid_client", "the client is not registered here; clients have no secret")
_WRONG_TARGET = TokenRefusal("invalid_target", "resource must be the MCP URL of this context, once")


@dataclass(frozen=True, slots=True)
class _Presented:
    """What the client sent, with its secret parsed."""

    context: ContextRow
    params: Params
    client_id: str
    secret: TokenSecret
    kind: Literal["code", "refresh"]


async def exchange(
    services: Services, context: ContextRow, params: Params, *, mcp_url: str
) -> IssuedTokens | TokenRefusal:
    """Answer a token request. ``params`` is its form body; the URL's query is not looked at (AUTH-23)."""
    presented = await _presented(services, context, params, mcp_url)
    if isinstance(presented, TokenRefusal):
        return presented
    try:
        async with services.store.write() as tx:
            return await _redeem(tx, services, presented)
    finally:
        presented.secret.wipe()


async def revoke(services: Services, context: ContextRow, params: Params) -> TokenRefusal | None:
    """End the grant behind an access or refresh token (RFC 7009); None also for a token that is not known.

    Whoever holds the token may do so; a ``client_id`` that is sent must be the token's.
    """
    if params.repeats or params.one("token") is None:
        return TokenRefusal("invalid_request", "token must be sent, once")
    if _sends_a_secret(params):
        return _NO_CLIENT
    secret = _parsed(params.one("token") or "", ("at", "rt"))
    if secret is None:
        return None
    try:
        async with services.store.write() as tx:
            return await _revoke(tx, services, context, secret, params.one("client_id"))
    finally:
        secret.wipe()


async def _presented(
    services: Services, context: ContextRow, params: Params, mcp_url: str
) -> _Presented | TokenRefusal:
    if params.repeats:
        return _REPEATED
    client_id = params.one("client_id")
    if client_id is None:
        return TokenRefusal("invalid_request", "client_id is missing")
    if _sends_a_secret(params) or not await _is_client(services, context, client_id):
        return _NO_CLIENT
    if is_resource_refused(params, mcp_url):
        return _WRONG_TARGET
    secret: TokenSecret | TokenRefusal
    match params.one("grant_type"):
        case "authorization_code":
            secret = _sent(params, "code", "ac", "redirect_uri", "code_verifier")
            kind: Literal["code", "refresh"] = "code"
        case "refresh_token":
            secret = _sent(params, "refresh_token", "rt")
            kind = "refresh"
        case None:
            return TokenRefusal("invalid_request", "grant_type is missing")
        case _:
            return TokenRefusal("unsupported_grant_type", "grant_type must be authorization_code or refresh_token")
    return secret if isinstance(secret, TokenRefusal) else _Presented(context, params, client_id, secret, kind)


def _sent(params: Params, name: str, kind: Literal["ac", "rt"], *others: str) -> TokenSecret | TokenRefusal:
    text = params.one(name)
    if text is None or any(params.one(other) is None for other in others):
        return TokenRefusal("invalid_request", f"needed parameters: {', '.join((name, *others))}")
    return _parsed(text, (kind,)) or _NOT_GOOD


def _sends_a_secret(params: Params) -> bool:
    return params.one("client_secret") is not None or params.one("client_assertion") is not None


async def _is_client(services: Services, context: ContextRow, client_id: str) -> bool:
    async with services.store.read() as tx:
        return await tx.grants.client(context.context_id, client_id) is not None


def _parsed(text: str, kinds: tuple[Literal["ac", "at", "rt"], ...]) -> TokenSecret | None:
    for kind in kinds:
        try:
            return parse_token(text, kind)
        except InvalidTokenError:
            continue
    return None


async def _redeem(tx: Transaction, services: Services, presented: _Presented) -> IssuedTokens | TokenRefusal:
    now_ms = services.clock.now_ms()
    found = await _locked(tx, presented.context, presented.secret)
    if found is None or found[0].status != "active" or found[1].kind != presented.kind:
        return _NOT_GOOD
    grant, token = found
    if token.used_ms is not None and not _is_in_grace(services, token, now_ms):
        return await _replayed(tx, services, grant)
    if now_ms - grant.used_ms >= GRANT_IDLE_LIFETIME_S * 1000:
        await end_grant(tx, services, grant, Action.GRANT_EXPIRED, Channel.OAUTH, grant.actor)
        return _NOT_GOOD
    scopes = _checked(presented, grant, token, now_ms)
    if isinstance(scopes, TokenRefusal):
        return scopes
    opened = await _opened(tx, presented, grant, token)
    if opened is None:
        await _record(tx, services, grant, Action.TAMPERING_FOUND, Outcome.ERROR)
        return _NOT_GOOD
    try:
        if token.used_ms is None and not await _use_up(tx, services, token, now_ms):
            return _NOT_GOOD
        if token.used_ms is not None:
            # The owner can see in the log that it came twice.
            await _record(tx, services, grant, Action.TOKEN_REPLAYED, Outcome.OK)
        return await _renew(tx, services, presented.kind, grant, opened, scopes)
    finally:
        opened.seed.wipe()


async def _locked(tx: Transaction, context: ContextRow, secret: TokenSecret) -> tuple[GrantRow, TokenRow] | None:
    lookup_id = secret.lookup_id()
    seen = await tx.grants.token(context.context_id, lookup_id)
    if seen is None:
        return None
    grant = await tx.grants.grant(context.context_id, seen.grant_id, lock=True)
    token = await tx.grants.token(context.context_id, lookup_id, lock=True)
    return None if grant is None or token is None else (grant, token)


def _is_in_grace(services: Services, token: TokenRow, now_ms: int) -> bool:
    """Whether a used refresh token still opens: clients are known that refresh from several places at once.

    Both the time it was promised when it was used and the setting of today have to allow it.
    """
    if token.kind != "refresh" or token.used_ms is None or token.wrapped is None or token.wrap_until_ms is None:
        return False
    return now_ms < min(token.wrap_until_ms, token.used_ms + services.refresh_reuse_grace_s * 1000)


async def _replayed(tx: Transaction, services: Services, grant: GrantRow) -> TokenRefusal:
    """Two hold the same secret, and nobody can tell which is the client: the grant ends (AUTH-31)."""
    await _record(tx, services, grant, Action.TOKEN_REPLAYED, Outcome.DENIED)
    await end_grant(tx, services, grant, Action.GRANT_REVOKED, Channel.OAUTH, grant.actor)
    return _NOT_GOOD


def _checked(presented: _Presented, grant: GrantRow, token: TokenRow, now_ms: int) -> tuple[str, ...] | TokenRefusal:
    """The scopes of the access token to issue, or why there is none."""
    if token.client_id != presented.client_id or now_ms >= token.expires_ms:
        return _NOT_GOOD
    if presented.kind == "code":
        return grant.scopes if _proves(presented.params, token) else _NOT_GOOD
    asked = set((presented.params.one("scope") or "").split())
    if not asked <= set(grant.scopes):
        return TokenRefusal("invalid_scope", "scope can only narrow what was granted")
    return canonical(asked, presented.context.offer) if asked else grant.scopes


def _proves(params: Params, token: TokenRow) -> bool:
    """Whether redirect URI and verifier are those of the authorization request (RFC 6749 §4.1.3, RFC 7636 §4.6)."""
    verifier = params.one("code_verifier") or ""
    if token.code_challenge is None or CODE_VERIFIER_PATTERN.fullmatch(verifier) is None:
        return False
    is_proved = hmac.compare_digest(_challenge(verifier).encode(), token.code_challenge.encode())
    return is_proved and params.one("redirect_uri") == token.redirect_uri


async def _opened(tx: Transaction, presented: _Presented, grant: GrantRow, token: TokenRow) -> OpenedSeed | None:
    """The grant's seed, remembering the newest state; None when wrap, roster or grant row are not what was written."""
    context_id = presented.context.context_id
    roster_row = await tx.contexts.roster(context_id)
    # The grant's client is signed; the token's is a copy that whoever edits the database could turn.
    if roster_row is None or token.wrapped is None or token.client_id != grant.client_id:
        return None
    try:
        opened = seeds.unwrap_with_token(
            presented.secret, presented.kind, context_id, grant.grant_id, token.wrapped, bound=_bound(presented)
        )
    except CorruptError:
        return None
    try:
        roster = holders.verified_roster(roster_row, opened.memory)
        holders.signed_grant(grant, roster)  # a suspended person's apps stay connected, and open nothing
    except CorruptError:
        opened.seed.wipe()
        return None
    return OpenedSeed(opened.seed, Memory.of(roster, await tx.audit.newest(context_id)))


def _bound(presented: _Presented) -> tuple[bytes, ...]:
    """What the client itself sent, not what the token's row says: a changed row opens nothing."""
    if presented.kind != "code":
        return ()
    params = presented.params
    challenge = _challenge(params.one("code_verifier") or "")
    return seeds.code_binding(presented.client_id, params.one("redirect_uri") or "", challenge)


def _challenge(verifier: str) -> str:
    challenge: str = create_s256_code_challenge(verifier)  # type: ignore[no-untyped-call]  # authlib has no annotations
    return challenge


async def _use_up(tx: Transaction, services: Services, token: TokenRow, now_ms: int) -> bool:
    grace_ms = services.refresh_reuse_grace_s * 1000 if token.kind == "refresh" else 0
    keep_until_ms = now_ms + grace_ms if grace_ms else None
    return await tx.grants.use_token(token.context_id, token.lookup_id, now_ms, keep_wrap_until_ms=keep_until_ms)


async def _renew(
    tx: Transaction,
    services: Services,
    kind: Literal["code", "refresh"],
    grant: GrantRow,
    opened: OpenedSeed,
    scopes: tuple[str, ...],
) -> IssuedTokens:
    now_ms = services.clock.now_ms()
    issued = await issue(tx, services, grant, opened, scopes)
    await tx.grants.touch_grant(grant.context_id, grant.grant_id, now_ms)
    await tx.grants.sweep_tokens(grant.context_id, now_ms, USED_TOKENS_KEPT_MS)
    action = Action.TOKEN_ISSUED if kind == "code" else Action.TOKEN_REFRESHED
    await record_issue(tx, services, grant, action, issued, Channel.OAUTH)
    return issued


async def _revoke(
    tx: Transaction, services: Services, context: ContextRow, secret: TokenSecret, client_id: str | None
) -> TokenRefusal | None:
    found = await _locked(tx, context, secret)
    if found is None:
        return None
    grant, token = found
    if client_id not in (None, token.client_id):
        return TokenRefusal("invalid_client", "the token was not issued to this client")
    if grant.status == "active":
        await end_grant(tx, services, grant, Action.GRANT_REVOKED, Channel.OAUTH, grant.actor)
    return None


async def _record(tx: Transaction, services: Services, grant: GrantRow, action: str, outcome: Outcome) -> None:
    await record(
        tx,
        services,
        grant.context_id,
        action=action,
        channel=Channel.OAUTH,
        outcome=outcome,
        actor=grant.actor,
        categories=("grants", "keys"),
    )
