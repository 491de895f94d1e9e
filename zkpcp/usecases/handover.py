"""Handing control of a shared context over, by the word of both sides (PCP §9.2.1, CTX-03).

1. The controller offers it to a member, with the context root sealed to that member's key.
2. The member takes it: they become the controller, the one before a member, and all keys change in that transaction, so
   that the root of before is worth nothing for what is written from then on. What was written before follows in steps.

Passphrases, recovery codes, sessions and connected apps go on working: each finds the new owner's key by the succession
that both signed. The kind of the context never changes. An offer ends after seven days, and with any change of keys.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from zkpcp.core.audit import Action
from zkpcp.core.roster import MEMBER, Roster
from zkpcp.errors import ConflictError, ForbiddenError, NotFoundError
from zkpcp.usecases.managing import record_managed
from zkpcp.usecases.roster_changes import hold_open, require_owner
from zkpcp.usecases.rotation import renew_keys
from zkpcp.usecases.services import Services
from zkpcp.usecases.session import OpenSession
from zkpcp.vault import succession

OFFER_LIFETIME_MS: Final = 7 * 24 * 3600 * 1000
_CATEGORIES: Final = ("keys",)
_NOT_HERE: Final = "there is no offer of control for you; it may have ended, and can be made again"


@dataclass(frozen=True, slots=True)
class Offered:
    """Control that is offered to somebody, until an instant."""

    principal: str
    expires_ms: int


async def offered(services: Services, session: OpenSession) -> Offered | None:
    """The offer under way, for whoever made it and for whom it was made."""
    async with services.store.read() as tx:
        row = await tx.contexts.handover(session.context.context_id)
    if row is None or not (session.is_controller or row.principal == session.principal):
        return None
    if not session.is_controller and services.clock.now_ms() >= row.expires_ms:
        return None
    return Offered(row.principal, row.expires_ms)


async def offer_control(services: Services, session: OpenSession, principal: str) -> None:
    """Offer control to a member; an earlier offer ends.

    Raises NotFoundError for no such member, ConflictError in a personal context and in one that an organization
    controls, ForbiddenError for anybody but the controller, LockedError.
    """
    require_owner(session)
    if session.context.kind == "personal":
        raise ConflictError("a personal context has one person, who controls it")
    if session.context.is_organizations:
        raise ConflictError("an organization controls this context")
    if session.keyring.roster.role(principal) != MEMBER:
        raise NotFoundError("there is no member of this id")
    now_ms = services.clock.now_ms()
    async with services.store.write() as tx:
        await hold_open(tx, session)
        until_ms = now_ms + OFFER_LIFETIME_MS
        row = succession.offer(session.keyring, principal, created_ms=now_ms, expires_ms=until_ms)
        await tx.contexts.put_handover(row)
        await record_managed(tx, services, session, Action.CONTROL_OFFERED, _CATEGORIES)


async def withdraw_offer(services: Services, session: OpenSession) -> None:
    """Withdraw the offer, and change all keys: it held the root. Raises NotFoundError, ForbiddenError, LockedError."""
    require_owner(session)
    context_id = session.context.context_id
    async with services.store.write() as tx:
        if not await tx.contexts.delete_handover(context_id):
            raise NotFoundError("no control is offered to anybody")
        await renew_keys(tx, services, session)
        await record_managed(tx, services, session, Action.CONTROL_WITHDRAWN, _CATEGORIES)


async def take_control(services: Services, session: OpenSession) -> None:
    """Take control that is offered to whoever is signed in; from then on this session is the controller's.

    Raises NotFoundError when nothing is offered to them now, LockedError, ConflictError when the context changed.
    """
    if session.is_controller:
        raise ForbiddenError("you control this context already")
    context_id = session.context.context_id
    async with services.store.write() as tx:
        await hold_open(tx, session)
        row, before = await tx.contexts.handover(context_id), await tx.contexts.roster(context_id)
        roster = session.keyring.roster
        if row is None or before is None or row.principal != session.principal or row.epoch != roster.epoch:
            raise NotFoundError(_NOT_HERE)
        if services.clock.now_ms() >= row.expires_ms or roster.role(session.principal) != MEMBER:
            raise NotFoundError(_NOT_HERE)
        step = succession.take(session.keyring, row)
        await renew_keys(tx, services, session, partial(_handed_over, principal=session.principal))
        await tx.contexts.hand_over(context_id, session.principal, before.succession + step.encode())
        await record_managed(tx, services, session, Action.CONTROL_TAKEN, _CATEGORIES)


def _handed_over(roster: Roster, *, principal: str) -> Roster:
    owner, entries = succession.hand_over(roster, principal)
    return replace(roster, owner=owner, principals=entries)
