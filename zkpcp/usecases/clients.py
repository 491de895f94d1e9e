"""Registering an OAuth client, by itself (RFC 7591) or by whoever runs the server (AUTH-17, AUTH-20).

Public clients only: no secret is ever made. What real clients send beyond that is ignored, or registered as what we do;
the reply says what was registered (RFC 7591 §3.2.1). A client's name is its own claim, nobody has checked it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zkpcp.core.audit import Action, Channel
from zkpcp.core.client_names import clean_name
from zkpcp.core.redirects import is_registrable, redirect_host
from zkpcp.core.schemas import JsonObject, JsonValue
from zkpcp.core.stored import ClientRow, ContextRow
from zkpcp.errors import InvalidInputError, Violation
from zkpcp.ports import Transaction
from zkpcp.usecases.audit_log import record
from zkpcp.usecases.services import Services

MAX_REDIRECT_URIS: Final = 20
UNUSED_LIFETIME_S: Final = 30 * 24 * 3600
"""How long a client that registered itself waits for its first grant; after that it has to register again."""
MOST_UNUSED: Final = 1000
"""Beyond as many such clients in a context the oldest go, so that a flood of registrations does not fill the disk."""
REDIRECT_URIS: Final = "redirect_uris"
_URI: Final = "https URI, http URI on localhost, 127.0.0.1 or [::1], or URI of a listed app scheme"


async def register(services: Services, context: ContextRow, metadata: JsonObject) -> ClientRow:
    """Register a client from its metadata.

    Raises InvalidInputError when no redirect URI is left that this server may use; its violation names
    ``redirect_uris``.
    """
    uris = _redirect_uris(metadata.get(REDIRECT_URIS), services.redirect_schemes)
    grant_types = metadata.get("grant_types")
    client = ClientRow(
        context_id=context.context_id,
        client_id=services.new_id("dcr"),
        name=clean_name(metadata.get("client_name")) or clean_name(redirect_host(uris[0])) or "app",
        source="dcr",
        redirect_uris=uris,
        refreshable=isinstance(grant_types, list) and "refresh_token" in grant_types,
        created_ms=services.clock.now_ms(),
    )
    await _add(services, client, Channel.OAUTH)
    return client


async def add_client(services: Services, context: ContextRow, *, name: str, redirect_uris: Sequence[str]) -> ClientRow:
    """Register a client beforehand, for an app that asks for a client id instead of registering itself.

    Raises InvalidInputError for a name that shows nothing, and for any redirect URI that cannot be registered: here
    nobody is served by leaving one out.
    """
    shown = clean_name(name)
    if not shown:
        raise InvalidInputError("the client needs a name", [Violation("client_name", "must show something")])
    fit = _redirect_uris(list(redirect_uris), services.redirect_schemes)
    if len(fit) != len(set(redirect_uris)):
        raise InvalidInputError(
            "a redirect URI cannot be registered", [Violation(REDIRECT_URIS, f"each must be an {_URI}")]
        )
    client = ClientRow(
        context_id=context.context_id,
        client_id=services.new_id("pre"),
        name=shown,
        source="operator",
        redirect_uris=fit,
        refreshable=True,
        created_ms=services.clock.now_ms(),
    )
    await _add(services, client, Channel.MANAGEMENT)
    return client


async def sweep_unused(tx: Transaction, services: Services, context_id: str) -> None:
    """Delete clients that registered themselves and never got a grant.

    One with a grant, even an ended one, stays, and so does one that a person is being asked about.
    """
    now_ms = services.clock.now_ms()
    await tx.grants.sweep_authorizations(context_id, now_ms)
    oldest_ms = now_ms - UNUSED_LIFETIME_S * 1000
    await tx.grants.sweep_clients(context_id, oldest_ms, MOST_UNUSED)


async def _add(services: Services, client: ClientRow, channel: Channel) -> None:
    async with services.store.write() as tx:
        await tx.grants.add_client(client)
        await sweep_unused(tx, services, client.context_id)
        await record(
            tx,
            services,
            client.context_id,
            action=Action.CLIENT_REGISTERED,
            channel=channel,
            categories=("grants",),
            object_ids=(client.client_id,),
        )


def _redirect_uris(value: JsonValue, schemes: frozenset[str]) -> tuple[str, ...]:
    # Unfit ones are dropped: several clients register a handful at once and use one; one refused would lose them all.
    listed = value if isinstance(value, list) else []
    uris = [uri for uri in listed if isinstance(uri, str) and is_registrable(uri, schemes)]
    if not uris:
        raise InvalidInputError("no redirect URI can be registered", [Violation(REDIRECT_URIS, f"at least one {_URI}")])
    if len(uris) > MAX_REDIRECT_URIS:
        rule = f"{MAX_REDIRECT_URIS} at most"
        raise InvalidInputError("too many redirect URIs", [Violation(REDIRECT_URIS, rule)])
    return tuple(dict.fromkeys(uris))
