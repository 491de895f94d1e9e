"""Registering an OAuth client that introduces itself (RFC 7591, AUTH-17, AUTH-20).

Public clients only: no secret is ever made. What real clients send beyond that is ignored, or registered as what we do;
the reply says what was registered (RFC 7591 §3.2.1). A client's name is its own claim, nobody has checked it.
"""

from __future__ import annotations

import unicodedata
from typing import Final

from zkpcp.core.audit import Action, Channel
from zkpcp.core.redirects import is_registrable, redirect_host
from zkpcp.core.schemas import JsonObject, JsonValue
from zkpcp.core.stored import ClientRow, ContextRow
from zkpcp.errors import InvalidInputError, Violation
from zkpcp.usecases.audit_log import record
from zkpcp.usecases.services import Services

MAX_NAME_CHARACTERS: Final = 100
MAX_REDIRECT_URIS: Final = 20
REDIRECT_URIS: Final = "redirect_uris"


async def register(services: Services, context: ContextRow, metadata: JsonObject) -> ClientRow:
    """Register a client from its metadata.

    Raises InvalidInputError when no redirect URI is left that this server may use; its violation names
    ``redirect_uris``.
    """
    uris = _redirect_uris(metadata.get(REDIRECT_URIS))
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
    async with services.store.write() as tx:
        await tx.grants.add_client(client)
        await record(
            tx,
            services,
            context.context_id,
            action=Action.CLIENT_REGISTERED,
            channel=Channel.OAUTH,
            categories=("grants",),
            object_ids=(client.client_id,),
        )
    return client


def clean_name(value: JsonValue) -> str:
    """A name as a page may show it: no control, format or unassigned characters, single blanks, 100 characters at most.

    Format characters go too: with them a name can be shown in another order than it is written. Empty for what is no
    text.
    """
    if not isinstance(value, str):
        return ""
    visible = (" " if c.isspace() else c for c in value if c.isspace() or unicodedata.category(c)[0] != "C")
    return " ".join("".join(visible).split())[:MAX_NAME_CHARACTERS].strip()


def _redirect_uris(value: JsonValue) -> tuple[str, ...]:
    # Unfit ones are dropped: several clients register a handful at once and use one; one refused would lose them all.
    uris = [uri for uri in value if isinstance(uri, str) and is_registrable(uri)] if isinstance(value, list) else []
    if not uris:
        rule = "at least one https URI, http URI on localhost, 127.0.0.1 or [::1], or URI of a listed app scheme"
        raise InvalidInputError("no redirect URI can be registered", [Violation(REDIRECT_URIS, rule)])
    if len(uris) > MAX_REDIRECT_URIS:
        rule = f"{MAX_REDIRECT_URIS} at most"
        raise InvalidInputError("too many redirect URIs", [Violation(REDIRECT_URIS, rule)])
    return tuple(dict.fromkeys(uris))
