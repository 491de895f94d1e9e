"""What the database holds, column by column, in plain words.

The page on readable metadata (KEY-01) is generated from this, and a test compares it with the real database: a column
that is missing here fails. "Sealed" and "wrapped" mean ciphertext whose key is not stored; everything else is readable
to whoever reads the database.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_CONTEXT: Final = "the opaque, random id of the context the row belongs to"
_LOOKUP: Final = "a one-way image of a secret that is not stored; finds the row"
_CREATED: Final = "when it was made (ms since 1970)"
_EXPIRES: Final = "when it ends (ms since 1970); empty: never"
_SLOT: Final = "the key slot that opens it: category and opaque partition id"
_GENERATION: Final = "the generation of the slot's keys"
_PAGE: Final = "the opaque, random id of the page"
_SCOPES: Final = "the scopes that were granted"
_SIGNATURE: Final = "signature over the row's content"


def _table(columns: dict[str, str]) -> Mapping[str, str]:
    return MappingProxyType({"context_id": _CONTEXT, **columns})


TABLES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "contexts": _table(
            {
                "handle": "the public name in URLs",
                "kind": "personal, work or team",
                "controller": "the principal id of the controller",
                "controller_type": "whether the controller is a person or an organization",
                "created_ms": _CREATED,
                "locked_ms": "when the owner locked the context; empty: it is open",
            }
        ),
        "rosters": _table(
            {
                "version": "counts the changes of the roster",
                "epoch": "counts the changes of the context's root key",
                "body": (
                    "principal ids, roles, public keys, removed ids, slot generations, access lists by opaque "
                    "partition ids: readable and signed"
                ),
                "signature": "the owner's signature over the body",
                "features": "which optional features follow from the body",
                "succession": "how one owner's public key followed another, signed by both",
            }
        ),
        "handovers": _table(
            {
                "principal": "to whom control is offered",
                "epoch": "counts the changes of the context's root key",
                "created_ms": "when it was offered",
                "expires_ms": "until when it can be taken",
                "offered": "the owner's signature that control goes to this principal's key",
                "sealed": "sealed: the context root, to the public key of that principal",
                "signature": "the owner's signature over the offer",
            }
        ),
        "seed_wraps": _table(
            {
                "principal": "whose seed it is",
                "kind": "passphrase or recovery code",
                "salt": "random salt of the key derivation",
                "memory_kib": "Argon2id memory",
                "time_cost": "Argon2id passes",
                "parallelism": "Argon2id lanes",
                "wrapped": "the principal's seed, wrapped under the passphrase or recovery code",
                "created_ms": _CREATED,
            }
        ),
        "sessions": _table(
            {
                "lookup_id": _LOOKUP,
                "principal": "who signed in",
                "created_ms": "when the person signed in (ms since 1970)",
                "seen_ms": "when the session was last used (ms since 1970)",
                "expires_ms": "when it ends whatever happens (ms since 1970)",
                "wrapped": "the principal's seed, wrapped under the session's secret",
            }
        ),
        "invites": _table(
            {
                "lookup_id": _LOOKUP,
                "principal": "who is invited",
                "created_ms": _CREATED,
                "expires_ms": "until when the invite is good (ms since 1970)",
                "offer": "sealed: the owner's key and the context's state, for whoever has the code; empty once used",
                "kept": "sealed: the invite's code and the first access list, for the controller",
                "joined_ms": "when somebody joined by it (ms since 1970); empty: nobody yet",
                "kem_public": "the newcomer's public key that keyrings are sealed to",
                "sig_public": "the newcomer's public key that verifies what they sign",
                "mac": "binds both keys to the invite's code",
            }
        ),
        "clients": _table(
            {
                "client_id": "the client's OAuth id",
                "name": "the client's name",
                "source": "where the name comes from: the client, its document, the operator or the owner",
                "redirect_uris": "where the client may be sent after consent",
                "refreshable": "whether it may receive refresh tokens",
                "created_ms": _CREATED,
            }
        ),
        "authorizations": _table(
            {
                "lookup_id": _LOOKUP,
                "client_id": "the client that asks",
                "redirect_uri": "where it wants to be answered",
                "state": "the client's own opaque value, returned to it",
                "scopes": "the scopes it asks for",
                "code_challenge": "its PKCE challenge",
                "created_ms": _CREATED,
                "expires_ms": "when the question lapses (ms since 1970)",
                "client_name": "the client's name as it is shown",
                "client_source": "where that name comes from",
                "client_redirect_uris": "where the client may be sent after consent",
                "client_refreshable": "whether it may receive refresh tokens",
            }
        ),
        "grants": _table(
            {
                "grant_id": "the opaque, random id of the grant",
                "principal": "who acts through it",
                "on_behalf_of": "for whom an agent acts; empty: for itself",
                "client_id": "the client that holds it",
                "client_name": "the client's name at the time of consent",
                "scopes": _SCOPES,
                "status": "active or revoked",
                "created_ms": _CREATED,
                "used_ms": "the minute of the last use (ms since 1970)",
                "refreshable": "whether it lives on through refresh tokens",
                "kem_public": "public key its keyrings are sealed to",
                "sig_public": "public key that verifies what it signs",
                "signature": "the consenting principal's signature over the grant",
                "anchor": "sealed: what the grant remembers of its context; empty once revoked",
            }
        ),
        "keyrings": _table(
            {
                "holder_kind": "whether a principal or a grant holds it",
                "holder": "the principal or grant",
                "epoch": "the epoch of the keys inside",
                "sealed": "the keyring, sealed to its holder's public key",
                "signature": "the signature of whoever sealed it",
            }
        ),
        "key_links": _table(
            {
                "slot": _SLOT,
                "generation": "the generation of the key inside",
                "name": "what that key is for",
                "sealed": "sealed: a key of an earlier generation, under the next one; gone when all is sealed anew",
            }
        ),
        "tokens": _table(
            {
                "lookup_id": _LOOKUP,
                "kind": "code, access token or refresh token",
                "grant_id": "the grant it belongs to",
                "client_id": "the client it was given to",
                "scopes": _SCOPES,
                "created_ms": _CREATED,
                "expires_ms": "when it ends (ms since 1970)",
                "used_ms": "when a code or refresh token was used up (ms since 1970)",
                "wrapped": "the grant's seed, wrapped under the token; empty once used up or revoked",
                "redirect_uri": "where a code was sent",
                "code_challenge": "the PKCE challenge behind a code",
                "wrap_until_ms": "until when a used refresh token's wrap is kept (ms since 1970); empty: it is not",
            }
        ),
        "pages": _table(
            {
                "page_id": _PAGE,
                "slot": _SLOT,
                "generation": _GENERATION,
                "version": "counts the page's changes",
                "review_state": "approved, proposed or rejected",
                "updated_ms": "when it was last written (ms since 1970)",
                "expires_ms": _EXPIRES,
                "head": "sealed: title, path, tags and what else a listing shows; its padded length is readable",
                "terms": "sealed: the search terms; its padded length is readable",
                "sealed": "sealed: the page itself; its padded length is readable",
            }
        ),
        "deleted_pages": _table(
            {
                "page_id": _PAGE,
                "slot": _SLOT,
                "generation": _GENERATION,
                "version": "counts the page's changes",
                "review_state": "approved, proposed or rejected",
                "updated_ms": "when it was last written (ms since 1970)",
                "expires_ms": _EXPIRES,
                "head": "sealed: title, path, tags and what else a listing shows; its padded length is readable",
                "terms": "sealed: the search terms; its padded length is readable",
                "sealed": "sealed: the page itself; its padded length is readable",
                "deleted_ms": "when it was deleted (ms since 1970)",
                "purge_ms": "until when its owner can recover it (ms since 1970)",
            }
        ),
        "page_versions": _table(
            {
                "page_id": _PAGE,
                "version": "which of the page's changes made it",
                "slot": _SLOT,
                "generation": _GENERATION,
                "review_state": "approved, proposed or rejected",
                "updated_ms": "when it was written (ms since 1970)",
                "until_ms": "when it was replaced (ms since 1970)",
                "expires_ms": _EXPIRES,
                "head": "sealed: title, path, tags and what else a listing shows; its padded length is readable",
                "terms": "sealed: the search terms; its padded length is readable",
                "sealed": "sealed: the page as it was; its padded length is readable",
            }
        ),
        "page_absences": _table(
            {
                "page_id": _PAGE,
                "from_ms": "when the page was deleted (ms since 1970)",
                "until_ms": "when its owner put it back (ms since 1970)",
            }
        ),
        "history_marks": _table(
            {
                "slot": "a key slot: category and opaque partition id",
                "through_ms": "until when pages of the slot that are gone for good were there (ms since 1970)",
            }
        ),
        "path_tags": _table(
            {
                "generation": "the generation of the key that made the tag",
                "tag": "a blind tag of the page's path: equal for equal paths, meaningless without the key",
                "page_id": _PAGE,
            }
        ),
        "inbox": _table(
            {
                "page_id": _PAGE,
                "slot": _SLOT,
                "generation": _GENERATION,
                "grant_id": "the grant that wrote it",
                "updated_ms": "when it was written (ms since 1970)",
                "expires_ms": _EXPIRES,
                "sealed": "sealed: a sensitive page that waits for its owner; its padded length is readable",
                "signature": "the grant's signature over the item",
            }
        ),
        "index_slots": _table(
            {
                "slot": _SLOT,
                "generation": _GENERATION,
                "segments": "how many segments the slot's search index has: one for each 4,096 pages",
            }
        ),
        "index_parts": _table(
            {
                "slot": _SLOT,
                "part": "which part of the slot's search index it is: segment, kind and number",
                "stamp": "which write to the segment made the part",
                "sealed": "sealed: words, postings, page heads or lengths; its padded length is readable",
            }
        ),
        "index_places": _table(
            {
                "page_id": _PAGE,
                "slot": _SLOT,
                "segment": "in which segment of the search index the page is",
                "number": "the page's number there, given by the order of arrival",
            }
        ),
        "profiles": _table(
            {
                "namespace": "which part of the profile",
                "generation": _GENERATION,
                "version": "counts the changes of this namespace",
                "updated_ms": "when it was last written (ms since 1970)",
                "sealed": "sealed: the content of the namespace; its padded length is readable",
            }
        ),
        "profile_changes": _table(
            {
                "namespace": "which part of the profile",
                "version": "the version the change led to",
                "at_ms": "when it happened (ms since 1970)",
                "principal": "who made it",
                "client": "through which client; empty: none",
                "generation": _GENERATION,
                "sealed": "sealed: which members changed",
            }
        ),
        "enabled_extensions": _table(
            {
                "extension": "which extension the owner has enabled",
                "enabled_ms": "when (ms since 1970)",
            }
        ),
        "handoffs": _table(
            {
                "handoff_id": "the opaque, random id of the hand-off",
                "generation": _GENERATION,
                "version": "counts the hand-off's changes",
                "updated_ms": "when it was last written (ms since 1970)",
                "expires_ms": "when it ends (ms since 1970)",
                "sealed": "sealed: title, text, from and to whom, whether it is done; its padded length is readable",
            }
        ),
        "partitions": _table(
            {
                "partition_id": "the opaque, random id of the partition",
                "generation": _GENERATION,
                "version": "counts the changes of the name",
                "updated_ms": "when the name was last changed (ms since 1970)",
                "sealed": "sealed: name and description; its padded length is readable",
            }
        ),
        "proposals": _table(
            {
                "proposal_id": "the opaque, random id of the proposal",
                "slot": _SLOT,
                "generation": _GENERATION,
                "grant_id": "through which grant it was made; empty: on the management pages",
                "principal": "who made it",
                "state": "proposed or rejected",
                "created_ms": "when it was made (ms since 1970)",
                "expires_ms": "when it ends by itself (ms since 1970)",
                "sealed": "sealed: the proposed page and what it was made from; its padded length is readable",
                "signature": "the grant's, while only holders of the sensitive slot can open it; else empty",
            }
        ),
        "slot_heads": _table(
            {
                "slot": _SLOT,
                "generation": _GENERATION,
                "sealed": "sealed: how many rows the slot has, their sum, and how often it was changed",
            }
        ),
        "head_remnants": _table(
            {
                "slot": _SLOT,
                "generation": _GENERATION,
                "kind": "which kind of row is gone, by its table",
                "object_id": "the opaque id of the row that is gone",
                "version": "its version",
                "expires_ms": "its end (ms since 1970); empty: it had none",
                "until_ms": "for an earlier version of a page: when it was replaced (ms since 1970); else empty",
                "digest": "a hash of what was sealed in it, until the sum of the slot is made without it",
            }
        ),
        "audit_heads": _table(
            {
                "seq": "the number of the newest audit entry",
                "hash": "the hash of the newest audit entry",
                "roster_version": "the newest roster by which an entry was written",
            }
        ),
        "audit_entries": _table(
            {
                "seq": "the entry's place in the chain",
                "at_ms": "when it happened (ms since 1970)",
                "action": "what was done",
                "outcome": "how it ended",
                "categories": "which categories of content it touched",
                "entry": "the entry: who, through which client and grant, what, how many; never content",
                "hash": "links the entry to the one before",
                "partitions": "which partitions it touched, by opaque ids",
            }
        ),
        # Of no context, and empty unless attempts are counted in the database.
        "rate_limits": MappingProxyType(
            {
                "name": "a hash of who is counted and for what (address, account, app or grant); guesses can be tested",
                "hits": "how many attempts there were",
                "ends_ms": "when counting starts anew (ms since 1970); the row goes within an hour after",
            }
        ),
    }
)
