"""What an audit entry says, how entries are chained, and what of one a reader may see.

Implements PCP §7.5 (AUD-03, AUD-04, AUD-06). An entry holds ids, names of the protocol and counts; no member of it
takes content. The chain shows that an entry was changed, removed or put between others. It cannot show that the
newest ones were dropped: whoever keeps the head elsewhere can.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from zkpcp.core.instants import parse_rfc3339, to_rfc3339
from zkpcp.core.schemas import JsonObject, JsonValue, canonical_json, parse_canonical_object
from zkpcp.errors import CorruptError, InvalidInputError

HASH_BYTES: Final = 32
GENESIS: Final = bytes(HASH_BYTES)
"""What the first entry of a context follows."""

_LABEL: Final = b"zkpcp/v1/audit-chain"


class Channel(StrEnum):
    """The door an act came through."""

    MCP = "mcp"
    OAUTH = "oauth"
    MANAGEMENT = "management"
    SYSTEM = "system"


class Outcome(StrEnum):
    """How an act ended."""

    OK = "ok"
    DENIED = "denied"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    INVALID = "invalid"
    LOCKED = "locked"
    ERROR = "error"


class Action:
    """The names of acts outside the tools; a tool call's action is the tool's name."""

    CONTEXT_CREATED: Final = "context.created"
    CONTEXT_LOCKED: Final = "context.locked"
    CONTEXT_UNLOCKED: Final = "context.unlocked"
    CONTEXT_VERIFIED: Final = "context.verified"
    CLIENT_REGISTERED: Final = "client.registered"
    GRANT_CREATED: Final = "grant.created"
    GRANT_CHANGED: Final = "grant.changed"
    GRANT_REVOKED: Final = "grant.revoked"
    GRANT_EXPIRED: Final = "grant.expired"
    TOKEN_ISSUED: Final = "token.issued"
    TOKEN_REFRESHED: Final = "token.refreshed"
    TOKEN_REPLAYED: Final = "token.replayed"
    TOKEN_REFUSED: Final = "token.refused"
    SIGN_IN: Final = "sign_in"
    SIGN_OUT: Final = "sign_out"
    CREDENTIAL_CHANGED: Final = "credential.changed"
    KEY_ROTATED: Final = "key.rotated"
    KEY_RESEALED: Final = "key.resealed"
    KEY_RETIRED: Final = "key.retired"
    CONTROL_OFFERED: Final = "control.offered"
    CONTROL_WITHDRAWN: Final = "control.withdrawn"
    CONTROL_TAKEN: Final = "control.taken"
    ROWS_COUNTED: Final = "rows.counted"
    PRINCIPAL_ADDED: Final = "principal.added"
    QUARANTINE_EMPTIED: Final = "memory.quarantine_emptied"
    PRINCIPAL_INVITED: Final = "principal.invited"
    INVITE_WITHDRAWN: Final = "invite.withdrawn"
    PRINCIPAL_JOINED: Final = "principal.joined"
    PRINCIPAL_SUSPENDED: Final = "principal.suspended"
    PRINCIPAL_RESUMED: Final = "principal.resumed"
    PRINCIPAL_REMOVED: Final = "principal.removed"
    ACCESS_CHANGED: Final = "access.changed"
    PARTITION_CREATED: Final = "partition.created"
    PARTITION_CHANGED: Final = "partition.changed"
    EXTENSION_ENABLED: Final = "extension.enabled"
    EXTENSION_DISABLED: Final = "extension.disabled"
    DELETED_LISTED: Final = "memory.deleted_listed"
    INDEX_REBUILT: Final = "index.rebuilt"
    PAGE_RECOVERED: Final = "memory.recovered"
    HISTORY_LISTED: Final = "memory.history_listed"
    VERSION_READ: Final = "memory.version_read"
    VERSION_RESTORED: Final = "memory.version_restored"
    REVIEW_CHANGED: Final = "review.changed"
    REVIEW_RESOLVED: Final = "review.resolved"
    EXPORT_CREATED: Final = "export.created"
    IMPORT_COMPLETED: Final = "import.completed"
    RESTORE_COMPLETED: Final = "restore.completed"
    ERASURE_COMPLETED: Final = "erasure.completed"
    RETENTION_SWEEP: Final = "retention.sweep"
    TAMPERING_FOUND: Final = "tampering.found"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One act. ``principal`` is None where nobody was signed in; collections are sets, kept sorted."""

    id: str
    at_ms: int
    action: str
    channel: Channel
    outcome: Outcome
    principal: str | None = None
    on_behalf_of: str | None = None
    client: str | None = None
    grant: str | None = None
    categories: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    object_ids: tuple[str, ...] = ()
    decrypted: bool = False
    counts: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    duration_ms: int | None = None

    def __post_init__(self) -> None:
        for name in ("categories", "partitions", "object_ids"):
            object.__setattr__(self, name, tuple(sorted(set(getattr(self, name)))))
        object.__setattr__(self, "counts", MappingProxyType(dict(self.counts)))


def to_json(entry: Entry) -> JsonObject:
    """The entry as ``audit.entry.schema.json`` has it."""
    return {
        "id": entry.id,
        "at": to_rfc3339(entry.at_ms),
        "action": entry.action,
        "channel": entry.channel.value,
        "principal": entry.principal,
        "on_behalf_of": entry.on_behalf_of,
        "client": entry.client,
        "grant": entry.grant,
        "categories": list(entry.categories),
        "partitions": list(entry.partitions),
        "object_ids": list(entry.object_ids),
        "outcome": entry.outcome.value,
        "decrypted": entry.decrypted,
        "counts": dict(entry.counts),
        "duration_ms": entry.duration_ms,
    }


def canonical(entry: Entry) -> bytes:
    """The stored and chained form of an entry; different entries have different bytes."""
    return canonical_json(to_json(entry))


def from_json(data: bytes | bytearray | memoryview) -> Entry:
    """Read what ``canonical`` wrote; raises CorruptError for anything else."""
    value = parse_canonical_object(data, "a stored audit entry")
    entry: Entry | None = None
    # Raised after the block, so that no exception carries the stored text as its context.
    with contextlib.suppress(KeyError, ValueError, TypeError, InvalidInputError):
        entry = _read(value)
    if entry is None or canonical(entry) != data:
        raise CorruptError("a stored audit entry does not have the members it must have")
    return entry


def follow(previous_hash: bytes, entry: Entry) -> bytes:
    """The hash of ``entry`` after the entry with ``previous_hash``, or after ``GENESIS``: SHA-256, 32 bytes."""
    return follow_stored(previous_hash, canonical(entry))


def follow_stored(previous_hash: bytes, canonical_entry: bytes) -> bytes:
    """The same over the stored bytes, to walk a chain; raises CorruptError for a previous hash of a wrong length."""
    if len(previous_hash) != HASH_BYTES:
        raise CorruptError(f"an audit hash must have {HASH_BYTES} bytes")
    # Length before each part, so that no two different pairs have the same input.
    parts = (_LABEL, previous_hash, canonical_entry)
    return hashlib.sha256(b"".join(len(part).to_bytes(4, "big") + part for part in parts)).digest()


def for_reader(
    entry: Entry,
    *,
    is_controller: bool,
    readable_categories: Collection[str],
    readable_partitions: Collection[str],
) -> Entry:
    """What of ``entry`` a reader of the log may see (AUD-06).

    An entry does not say which object lies where. So once any category or partition has to go, all object ids and
    counts go as well, and an entry that names no category shows no object ids.
    """
    if is_controller:
        return entry
    categories = tuple(name for name in entry.categories if name in readable_categories)
    partitions = tuple(name for name in entry.partitions if name in readable_partitions)
    whole = categories == entry.categories and partitions == entry.partitions
    return replace(
        entry,
        categories=categories,
        partitions=partitions,
        object_ids=entry.object_ids if whole and categories else (),
        counts=entry.counts if whole else {},
    )


def _read(value: JsonObject) -> Entry:
    return Entry(
        id=_text(value["id"]),
        at_ms=parse_rfc3339(_text(value["at"])),
        action=_text(value["action"]),
        channel=Channel(_text(value["channel"])),
        outcome=Outcome(_text(value["outcome"])),
        principal=_text_or_none(value["principal"]),
        on_behalf_of=_text_or_none(value["on_behalf_of"]),
        client=_text_or_none(value["client"]),
        grant=_text_or_none(value["grant"]),
        categories=_texts(value["categories"]),
        partitions=_texts(value["partitions"]),
        object_ids=_texts(value["object_ids"]),
        decrypted=_flag(value["decrypted"]),
        counts=_counts(value["counts"]),
        duration_ms=None if value["duration_ms"] is None else _number(value["duration_ms"]),
    )


def _text(value: JsonValue) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _text_or_none(value: JsonValue) -> str | None:
    return None if value is None else _text(value)


def _texts(value: JsonValue) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError
    return tuple(_text(item) for item in value)


def _flag(value: JsonValue) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _number(value: JsonValue) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    return value


def _counts(value: JsonValue) -> dict[str, int]:
    if not isinstance(value, dict):
        raise TypeError
    return {name: _number(count) for name, count in value.items()}
