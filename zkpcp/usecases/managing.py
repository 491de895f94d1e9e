"""The entry of what somebody who is signed in did on the management surface (AUD-05)."""

from __future__ import annotations

from collections.abc import Collection

from zkpcp.core.audit import Channel, Outcome
from zkpcp.core.grants import Actor
from zkpcp.ports import Transaction
from zkpcp.usecases.audit_log import record
from zkpcp.usecases.heads import settle
from zkpcp.usecases.services import Services
from zkpcp.usecases.session import OpenSession


async def record_managed(
    tx: Transaction,
    services: Services,
    session: OpenSession,
    action: str,
    categories: Collection[str],
    *,
    outcome: Outcome = Outcome.OK,
    actor: Actor | None = None,
    partitions: Collection[str] = (),
    decrypted: bool = False,
) -> None:
    """Append the entry; it names whoever is signed in, unless ``actor`` is somebody whom the act found.

    What was changed is settled in the integrity heads before it.
    """
    head = await settle(tx, services, session.keyring, ahead=1)
    await record(
        tx,
        services,
        session.context.context_id,
        action=action,
        channel=Channel.MANAGEMENT,
        outcome=outcome,
        actor=actor or session.actor,
        categories=categories,
        partitions=partitions,
        decrypted=decrypted,
        roster_version=session.keyring.roster.version,
        head=head,
    )
