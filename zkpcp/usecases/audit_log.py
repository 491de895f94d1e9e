"""Writing the access log: an entry follows the newest one, in the transaction of the act it records (AUD-05, U5).

Take it last in a transaction: the head of the chain stays locked until the end. If it cannot be written, the exception
rolls the act back with it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from zkpcp.core import audit
from zkpcp.core.audit import Channel, Entry, Outcome
from zkpcp.core.grants import Actor
from zkpcp.core.stored import AuditHead, AuditRow, ContextRow
from zkpcp.errors import ChangedKeysError
from zkpcp.ports import Transaction
from zkpcp.usecases.services import Services

ANY_PARTITION: Final = "any"
"""Stands for partitions that nobody without a key can name; no access list has it, so it is closed to every reader."""

_NO_COUNTS: Mapping[str, int] = MappingProxyType({})


async def record(
    tx: Transaction,
    services: Services,
    context_id: str,
    *,
    action: str,
    channel: Channel,
    outcome: Outcome = Outcome.OK,
    actor: Actor | None = None,
    categories: Collection[str] = (),
    partitions: Collection[str] = (),
    object_ids: Collection[str] = (),
    decrypted: bool = False,
    counts: Mapping[str, int] = _NO_COUNTS,
    started_ms: int | None = None,
    roster_version: int = 0,
    head: AuditHead | None = None,
) -> Entry:
    """Append one entry; ``started_ms`` gives its duration. Ids only: never a title, path, query or value (AUD-04).

    ``roster_version``: by which roster its author's keyring was opened, for an act that sealed or opened something.
    ``head``: the newest place in the chain, where this transaction has asked for it already.
    Raises ChangedKeysError when there has been a newer one since, so that nothing is kept under keys, or answered by
    rights, that somebody has lost meanwhile.
    """
    now_ms = services.clock.now_ms()
    entry = Entry(
        id=services.new_id("aud"),
        at_ms=now_ms,
        action=action,
        channel=channel,
        outcome=outcome,
        principal=actor.principal if actor else None,
        on_behalf_of=actor.on_behalf_of if actor else None,
        client=actor.client if actor else None,
        grant=actor.grant_id if actor else None,
        categories=tuple(categories),
        partitions=tuple(partitions),
        object_ids=tuple(object_ids),
        decrypted=decrypted,
        counts=counts,
        duration_ms=None if started_ms is None else max(0, now_ms - started_ms),
    )
    head = head or await tx.audit.head(context_id)
    if roster_version:
        _check_version(head, roster_version)
    canonical = audit.canonical(entry)
    row = AuditRow(
        context_id=context_id,
        seq=head.seq + 1,
        at_ms=now_ms,
        action=action,
        outcome=outcome.value,
        categories=entry.categories,
        entry=canonical,
        hash=audit.follow_stored(head.hash, canonical),
        partitions=entry.partitions,
    )
    await tx.audit.append(row, roster_version)
    return entry


async def require_current(tx: Transaction, context_id: str, roster_version: int) -> None:
    """The check of ``record`` for a change without an entry of its own, last thing in its transaction."""
    _check_version(await tx.audit.head(context_id), roster_version)


def _check_version(head: AuditHead, roster_version: int) -> None:
    # Every change of the roster ends with an entry, and every other change waits for the head: of the two, one is
    # first. Comparing here costs no query of its own.
    if head.roster_version > roster_version:
        raise ChangedKeysError


def swept_partitions(context: ContextRow) -> tuple[str, ...]:
    """What the entry of a sweep says: with several partitions it would tell that something ended in a closed one."""
    return (ANY_PARTITION,) if context.is_partitioned else ()
