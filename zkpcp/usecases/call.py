"""The record of one act: what it touched, and exactly one audit entry for it, also when it fails (AUD-05, U5).

The use case writes the entry itself, in the transaction of its change, by ``Call.record``. What this adds is the
failing path: an act that raises before it was recorded gets its entry with the outcome, and then the error goes on. So
does an act whose client has left in the middle of it, and one that the store let down, if the store takes the entry. An
act that ends without an entry is a bug and raises.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from zkpcp.core.audit import Action, Channel, Outcome
from zkpcp.core.grants import Actor
from zkpcp.core.slots import partition_of
from zkpcp.errors import (
    ChangedKeysError,
    ConflictError,
    CorruptError,
    ForbiddenError,
    LockedError,
    NotFoundError,
    RefusedError,
    UnavailableError,
)
from zkpcp.ports import Transaction
from zkpcp.usecases.access import Acting
from zkpcp.usecases.audit_log import record
from zkpcp.usecases.heads import settle
from zkpcp.usecases.services import Services

_OUTCOMES: tuple[tuple[type[RefusedError], Outcome], ...] = (
    (NotFoundError, Outcome.NOT_FOUND),
    (ForbiddenError, Outcome.DENIED),
    (ConflictError, Outcome.CONFLICT),
    (LockedError, Outcome.LOCKED),
)


@dataclass(slots=True)
class Call:
    """One act in progress; ``categories``, ``partitions``, ``object_ids``, ``counts`` say what its entry will."""

    services: Services
    acting: Acting
    action: str
    started_ms: int
    categories: set[str] = field(default_factory=set)
    partitions: set[str] = field(default_factory=set)
    object_ids: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)
    decrypted: bool = False
    recorded: bool = False

    def looks_into(self, slots: Iterable[str]) -> None:
        """Note the partitions of memory slots that this act works on."""
        if self.acting.context.is_partitioned:
            self.partitions.update(filter(None, map(partition_of, slots)))

    async def record(self, tx: Transaction, outcome: Outcome = Outcome.OK) -> None:
        """Write the entry, last thing in the transaction, and note the grant's use (kept to the minute).

        What was changed is settled in the integrity heads before it.
        """
        head = await settle(tx, self.services, self.acting.keys, ahead=1)
        grant_id = self.acting.actor.grant_id
        if grant_id is not None:
            await tx.grants.touch_grant(self.acting.context_id, grant_id, self.services.clock.now_ms())
        await record(
            tx,
            self.services,
            self.acting.context_id,
            action=self.action,
            channel=self.acting.channel,
            outcome=outcome,
            actor=self.acting.actor,
            categories=self.categories,
            partitions=self.partitions,
            object_ids=self.object_ids,
            decrypted=self.decrypted,
            counts=self.counts,
            started_ms=self.started_ms,
            # A failed act returned nothing and kept nothing: its entry is written whatever has changed.
            roster_version=self.acting.keys.roster.version if outcome is Outcome.OK else 0,
            head=head,
        )
        self.recorded = True


@asynccontextmanager
async def calling(services: Services, acting: Acting, action: str, *categories: str) -> AsyncIterator[Call]:
    """Run an act that records itself; a failing one is recorded here, in a transaction of its own."""
    call = Call(services, acting, action, services.clock.now_ms(), set(categories))
    try:
        yield call
    except RefusedError as error:
        await _record_failure(call, outcome_of(error))
        raise
    except CorruptError:
        await _record_failure(call, Outcome.ERROR, action=Action.TAMPERING_FOUND)
        raise
    except (UnavailableError, asyncio.CancelledError):
        if not call.recorded:
            # What cannot be recorded either keeps the first error: nothing was returned.
            with suppress(UnavailableError):
                await _record_failure(call, Outcome.ERROR)
        raise
    if not call.recorded:
        raise RuntimeError("an act ended without its audit entry")


def outcome_of(error: RefusedError) -> Outcome:
    """How the access log names a refusal."""
    return next((outcome for kind, outcome in _OUTCOMES if isinstance(error, kind)), Outcome.INVALID)


async def _record_failure(call: Call, outcome: Outcome, *, action: str | None = None) -> None:
    """Record it. Raises ChangedKeysError where keys or rights changed since the call began.

    What such a call did not find, or could not open, says nothing: it looked by what no longer holds.
    """
    # What the failed act had found stays out: whether an object exists is not told through the log either.
    call.object_ids.clear()
    call.partitions.clear()
    call.counts.clear()
    async with call.services.store.write() as tx:
        head = await tx.audit.head(call.acting.context_id)
        has_changed = head.roster_version > call.acting.keys.roster.version
        if not has_changed:
            call.action = action or call.action
        await call.record(tx, Outcome.CONFLICT if has_changed else outcome)
    if has_changed:
        raise ChangedKeysError from None


async def record_refusal(
    services: Services, context_id: str, actor: Actor, action: str, outcome: Outcome, channel: Channel
) -> None:
    """The entry of a call refused before anything was opened: by its form, its scopes, or a key that is away."""
    async with services.store.write() as tx:
        await record(
            tx,
            services,
            context_id,
            action=action,
            channel=channel,
            outcome=outcome,
            actor=actor,
            categories=(),
        )
