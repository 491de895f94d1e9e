"""A person's answer to an app that asks for access (AUTH-18, AUTH-39, AUTH-40).

An app is registered, or its id is the URL of a document about it, which is fetched here and never for a token. What the
person was shown of the app is what the grant is made for: a document that changes meanwhile changes nothing, and every
consent is a new grant. A client with a document becomes a row with its first grant, not before.

An authorization request becomes a pending authorization only for a signed-in person, so a stranger cannot fill the
table. It is kept under an id derived from two secrets, the one in the page's form and the session's: a form used in
another session finds nothing. The form also carries a digest of everything that the page showed, and a row that was
changed meanwhile is refused: the database cannot put another client, redirect URI or challenge under the person's yes.
One answer wins. There is no other way to a grant than ``approve`` and the owner's own ``create_grant``.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection
from dataclasses import dataclass, field

from zkpcp.core.audit import Action, Channel, Outcome
from zkpcp.core.authorize import AuthorizeRequest, Denied, Untrusted, read_authorize
from zkpcp.core.client_documents import ClientDocumentError, is_client_url
from zkpcp.core.grants import CODE_LIFETIME_S, PENDING_AUTHORIZATION_S, Actor
from zkpcp.core.oauth_params import Params
from zkpcp.core.schemas import canonical_json
from zkpcp.core.scopes import OFFLINE_ACCESS, canonical, effective, scopes_of_role
from zkpcp.core.stored import AuthorizationRow, ClientRow, ContextRow, GrantRow, TokenRow
from zkpcp.errors import InvalidInputError, InvalidTokenError, NotFoundError
from zkpcp.ports import Transaction
from zkpcp.usecases.audit_log import record
from zkpcp.usecases.client_documents import SOURCE, Count, as_client
from zkpcp.usecases.grants import add_grant, new_grant
from zkpcp.usecases.services import Services
from zkpcp.usecases.session import OpenSession
from zkpcp.vault import seeds
from zkpcp.vault.secrets import TokenSecret, new_token, parse_token
from zkpcp.vault.seeds import OpenedSeed

_LOOKUP_BYTES = 16
_GONE = "this request was answered already or has expired; go back to the app and connect again"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that may be put before the person, and the client it comes from."""

    request: AuthorizeRequest
    client: ClientRow


@dataclass(frozen=True, slots=True)
class Ticket:
    """What the page's form sends back: a one-time secret, and the digest of the pending authorization it was made for.

    It goes into the page's form and nowhere else.
    """

    secret: TokenSecret
    digest: bytes

    def text(self) -> str:
        """The value of the form's hidden field."""
        return f"{self.secret.text()}.{self.digest.hex()}"

    def wipe(self) -> None:
        """Overwrite the secret."""
        self.secret.wipe()


def parse_ticket(text: str) -> Ticket:
    """Read the form's hidden field. Raises InvalidTokenError."""
    secret, _, digest = text.partition(".")
    try:
        return Ticket(parse_token(secret, "ac"), bytes.fromhex(digest))
    except ValueError:
        raise InvalidTokenError("the form's request is not one of this server's") from None


@dataclass(frozen=True, slots=True)
class Pending:
    """A pending authorization, and the form's way back to it."""

    row: AuthorizationRow
    client: ClientRow
    ticket: Ticket


@dataclass(frozen=True, slots=True)
class Approved:
    """The code for the client, once."""

    redirect_uri: str
    state: str | None = field(repr=False)
    code: TokenSecret


def names_a_document(services: Services, params: Params) -> bool:
    """Whether answering this request may take a fetch from somewhere else."""
    client_id = params.one("client_id")
    return services.client_documents is not None and client_id is not None and is_client_url(client_id)


async def ask(
    services: Services, context: ContextRow, params: Params, *, mcp_url: str, count: Count
) -> Asked | Untrusted | Denied:
    """Judge an authorization request. Nothing is stored; ``count`` is asked before anything is fetched.

    Raises ClientDocumentError, whatever is wrong with the client's document, and RateLimitedError.
    """
    client_id = params.one("client_id")
    client = None if client_id is None else await _client(services, context, client_id, count)
    request = read_authorize(params, client, offer=context.offer, mcp_url=mcp_url)
    if client is None or not isinstance(request, AuthorizeRequest):
        return Untrusted("This app is not registered here.") if isinstance(request, AuthorizeRequest) else request
    return Asked(request, client)


async def _client(services: Services, context: ContextRow, client_id: str, count: Count) -> ClientRow | None:
    if services.client_documents is None or not is_client_url(client_id):
        async with services.store.read() as tx:
            return await tx.grants.client(context.context_id, client_id)
    try:
        document = await services.client_documents.get(client_id, count=count)
    except InvalidInputError:
        document = None
    if document is None:
        raise ClientDocumentError("client_id")
    return as_client(document, context_id=context.context_id, now_ms=services.clock.now_ms())


async def begin(services: Services, session: OpenSession, session_token: TokenSecret, asked: Asked) -> Pending:
    """Keep a request for 15 minutes, for this session only, until it is answered."""
    now_ms = services.clock.now_ms()
    secret = new_token("ac", services.entropy)
    request = asked.request
    row = AuthorizationRow(
        context_id=session.context.context_id,
        lookup_id=_lookup_id(secret, session_token),
        client_id=request.client_id,
        redirect_uri=request.redirect_uri,
        state=request.state,
        scopes=request.scopes,
        code_challenge=request.code_challenge,
        created_ms=now_ms,
        expires_ms=now_ms + PENDING_AUTHORIZATION_S * 1000,
        client_name=asked.client.name,
        client_source=asked.client.source,
        client_redirect_uris=asked.client.redirect_uris,
        client_refreshable=asked.client.refreshable,
    )
    async with services.store.write() as tx:
        await tx.grants.add_authorization(row)
    return Pending(row, asked.client, Ticket(secret, _digest(row)))


async def approve(
    services: Services,
    session: OpenSession,
    session_token: TokenSecret,
    ticket: Ticket,
    ticked: Collection[str],
    agent: str | None = None,
) -> Approved | Denied:
    """Make a new grant of what was both asked for and ticked, and a code for it; Denied when nothing over data is left.

    With ``agent`` the app acts as that agent, on behalf of whoever approves (SCOPE-06).

    Raises NotFoundError for a request that was answered, has expired or belongs to another session, ConflictError when
    the context changed meanwhile.
    """
    async with services.store.write() as tx:
        taken = await _take(tx, services, session, session_token, ticket)
        answer = None if taken is None else await _answer(tx, services, session, taken, ticked, agent)
    if answer is None:  # raised out here: an expired request stays deleted
        raise NotFoundError(_GONE)
    return answer


async def decline(services: Services, session: OpenSession, session_token: TokenSecret, ticket: Ticket) -> Denied:
    """Answer no. Raises NotFoundError as ``approve`` does."""
    async with services.store.write() as tx:
        taken = await _take(tx, services, session, session_token, ticket)
        denied = None if taken is None else await _deny(tx, services, session, taken)
    if denied is None:
        raise NotFoundError(_GONE)
    return denied


async def _take(
    tx: Transaction, services: Services, session: OpenSession, session_token: TokenSecret, ticket: Ticket
) -> AuthorizationRow | None:
    pending = await tx.grants.take_authorization(session.context.context_id, _lookup_id(ticket.secret, session_token))
    if pending is None or services.clock.now_ms() >= pending.expires_ms:
        return None
    if hmac.compare_digest(_digest(pending), ticket.digest):
        return pending
    await record(
        tx,
        services,
        session.context.context_id,
        action=Action.TAMPERING_FOUND,
        channel=Channel.OAUTH,
        outcome=Outcome.ERROR,
        actor=session.actor,
        categories=("grants",),
    )
    return None


async def _answer(
    tx: Transaction,
    services: Services,
    session: OpenSession,
    pending: AuthorizationRow,
    ticked: Collection[str],
    agent: str | None,
) -> Approved | Denied:
    offer, role = session.context.offer, session.keyring.roster.role(session.principal)
    scopes = effective(set(pending.scopes) & set(ticked), offer) & scopes_of_role(role, offer)
    if scopes <= {OFFLINE_ACCESS}:
        return await _deny(tx, services, session, pending)
    client = _as_shown(services, pending)
    made = new_grant(services, session, client, canonical(scopes, offer), agent=agent)
    try:
        code, row = _code(services, pending, made.row, made.opened)
    finally:
        made.opened.seed.wipe()
    if client.source == SOURCE:
        await tx.grants.put_client(client)
    await tx.grants.add_token(row)
    await add_grant(tx, services, session, made, Channel.OAUTH)
    return Approved(pending.redirect_uri, pending.state, code)


def _as_shown(services: Services, pending: AuthorizationRow) -> ClientRow:
    return ClientRow(
        context_id=pending.context_id,
        client_id=pending.client_id,
        name=pending.client_name,
        source=pending.client_source,
        redirect_uris=pending.client_redirect_uris,
        refreshable=pending.client_refreshable,
        created_ms=services.clock.now_ms(),
    )


def _code(
    services: Services, pending: AuthorizationRow, grant: GrantRow, opened: OpenedSeed
) -> tuple[TokenSecret, TokenRow]:
    now_ms = services.clock.now_ms()
    code = new_token("ac", services.entropy)
    row = TokenRow(
        context_id=grant.context_id,
        lookup_id=code.lookup_id(),
        kind="code",
        grant_id=grant.grant_id,
        client_id=grant.client_id,
        scopes=grant.scopes,
        created_ms=now_ms,
        expires_ms=now_ms + CODE_LIFETIME_S * 1000,
        used_ms=None,
        wrapped=seeds.wrap_for_token(
            code,
            "code",
            grant.context_id,
            grant.grant_id,
            opened,
            services.entropy,
            bound=seeds.code_binding(grant.client_id, pending.redirect_uri, pending.code_challenge),
        ),
        redirect_uri=pending.redirect_uri,
        code_challenge=pending.code_challenge,
    )
    return code, row


async def _deny(tx: Transaction, services: Services, session: OpenSession, pending: AuthorizationRow) -> Denied:
    await record(
        tx,
        services,
        session.context.context_id,
        action=Action.GRANT_CREATED,
        channel=Channel.OAUTH,
        outcome=Outcome.DENIED,
        actor=Actor(session.principal, pending.client_id),
        categories=("grants",),
    )
    return Denied(pending.redirect_uri, pending.state, "access_denied", "the request was declined")


def _digest(pending: AuthorizationRow) -> bytes:
    """Of every member: what the page showed, what it asks for and until when."""
    members = {name: getattr(pending, name) for name in AuthorizationRow.__slots__}
    members["lookup_id"] = pending.lookup_id.hex()
    return hashlib.sha256(canonical_json(members)).digest()


def _lookup_id(secret: TokenSecret, session_token: TokenSecret) -> bytes:
    # Two parts of fixed length, so that no two different pairs have the same input.
    parts = b"zkpcp/v1/pending-authorization" + secret.lookup_id() + session_token.lookup_id()
    return hashlib.sha256(parts).digest()[:_LOOKUP_BYTES]
