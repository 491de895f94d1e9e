"""Changing the roster, and in the same transaction the keyrings of everybody whose rights changed with it.

Only the owner signs the roster (PCP §9.1). A change that leaves nobody able to read a partition is refused: its pages
could never be opened again by anybody whose access list says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from zkpcp.core.access import nobody_reads
from zkpcp.core.roster import CONTROLLER, Roster
from zkpcp.core.scopes import Offer
from zkpcp.core.stored import GrantRow
from zkpcp.errors import ConflictError, ForbiddenError, InvalidInputError, LockedError, Violation
from zkpcp.ports import Transaction
from zkpcp.usecases.session import OpenSession
from zkpcp.vault import holders
from zkpcp.vault.keyring import OpenKeyring

_LOCKED = "this context is locked; unlock it on its home page first"
CHANGED_MEANWHILE = "the context changed meanwhile; try again"
_READERS = "must leave somebody who can read the partition"


async def change_roster(tx: Transaction, session: OpenSession, change: Callable[[Roster], Roster]) -> Roster:
    """Sign the next version of the roster, store it, and reseal the keyrings that it makes larger or smaller.

    Raises ForbiddenError for anybody but the owner, LockedError while the context is locked, ConflictError when the
    roster is not the one that this session has seen, InvalidInputError for access lists that leave a partition to
    nobody.
    """
    keys, context_id = session.keyring, session.context.context_id
    before = keys.roster
    after = await next_roster(tx, session, change)
    await tx.contexts.put_roster(holders.sign_roster(after, keys))
    # From here on this session signs and seals by the new roster; the caller ends with the transaction if it fails.
    keys.adopt(after)
    offer = replace(session.context.offer, review=after.review != "off")
    anew = before.review != after.review
    for entry in after.principals:
        changed = before.principal(entry.principal) != entry or before.rights(entry.principal) != after.rights(
            entry.principal
        )
        if (anew or changed) and entry.is_person and entry.role != CONTROLLER:
            await tx.grants.put_keyring(holders.seal_member_keyring(keys, entry.principal, offer))
    for grant in await tx.grants.list_grants(context_id):
        was, now = (
            (each.role(grant.on_behalf_of or grant.principal), each.acting_rights(grant.principal, grant.on_behalf_of))
            for each in (before, after)
        )
        if (anew or was != now) and still_acts(after, grant):
            await tx.grants.put_keyring(holders.reseal_grant(keys, grant, offer))
    return after


async def seal_members(tx: Transaction, keys: OpenKeyring, offer: Offer) -> None:
    """Seal the keyring of every member anew, by the roster as it is and what the context offers."""
    for entry in keys.roster.principals:
        if entry.is_person and entry.role != CONTROLLER:
            await tx.grants.put_keyring(holders.seal_member_keyring(keys, entry.principal, offer))


async def next_roster(tx: Transaction, session: OpenSession, change: Callable[[Roster], Roster]) -> Roster:
    """The roster as it is to be signed, while nobody else can change it. Raises as ``change_roster`` does."""
    before = session.keyring.roster
    require_owner(session)
    await hold_open(tx, session)
    after = replace(change(before), version=before.version + 1)
    readers = [entry.principal for entry in after.principals if entry.is_person]
    if nobody_reads(after.access, readers):
        raise InvalidInputError("the access list is not valid", [Violation("access", _READERS)])
    return after


async def hold_open(tx: Transaction, session: OpenSession) -> None:
    """Keep the roster as this session has seen it, and the context unlocked, until the transaction ends.

    For whatever seals keys. Raises LockedError while the context is locked, ConflictError when the roster has changed.
    """
    stored = await tx.contexts.roster(session.context.context_id, lock=True)
    if await tx.contexts.locked_ms(session.context.context_id) is not None:
        raise LockedError(_LOCKED)
    if stored is None or stored.version != session.keyring.roster.version:
        raise ConflictError(CHANGED_MEANWHILE)


def still_acts(roster: Roster, grant: GrantRow) -> bool:
    """Whether a grant lives on: its person has not been suspended or removed, nor its agent removed."""
    signer = roster.principal(grant.on_behalf_of or grant.principal)
    return signer is not None and signer.is_person and roster.principal(grant.principal) is not None


def require_owner(session: OpenSession) -> None:
    """Raise ForbiddenError for anybody but the owner, whose key signs the roster."""
    if not session.is_controller:
        raise ForbiddenError("only the controller of this context can do this")
