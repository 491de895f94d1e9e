"""Locking a context: every key copy but the controller's own is taken away at once, and made again when it is unlocked.

For the moment when something looks wrong (PCP §9.1, KEY-10). Locking deletes the keyrings of all grants and members and
ends every session, the one that locks included, in one transaction: a token or session together with the database opens
nothing any more. Grants, anchors and refresh tokens stay, so that no app has to ask again; it is answered ``locked``
meanwhile. Unlocking seals the keyrings anew, from the signed roster and the signed grants alone.

It does NOT help against somebody who had a copy of the database before, together with a token: that takes new keys.
"""

from __future__ import annotations

from typing import Final

from zkpcp.core.audit import Action, Outcome
from zkpcp.core.roster import CONTROLLER
from zkpcp.errors import ConflictError, CorruptError
from zkpcp.usecases.managing import record_managed
from zkpcp.usecases.roster_changes import CHANGED_MEANWHILE, require_owner, still_acts
from zkpcp.usecases.services import Services
from zkpcp.usecases.session import OpenSession
from zkpcp.vault import holders

_KEYS: Final = ("keys",)


async def lock_context(services: Services, session: OpenSession) -> None:
    """Lock the context. Raises ForbiddenError for anybody but its controller, ConflictError when it is locked."""
    require_owner(session)
    context_id = session.context.context_id
    async with services.store.write() as tx:
        await tx.contexts.roster(context_id, lock=True)
        if not await tx.contexts.set_locked(context_id, services.clock.now_ms()):
            raise ConflictError("the context is locked already")
        await tx.grants.delete_keyrings_but(context_id, "principal", session.principal)
        await tx.credentials.end_all_sessions(context_id)
        await record_managed(tx, services, session, Action.CONTEXT_LOCKED, _KEYS)


async def unlock_context(services: Services, session: OpenSession) -> int:
    """Unlock it: seal the keyrings of all members and grants anew; the number of grants that have one again.

    A grant that its principal has not signed as it stands gets none, and that is audited. Raises ForbiddenError for
    anybody but the controller, ConflictError when it is not locked or the roster is not the one this session has seen.
    """
    require_owner(session)
    keys, context_id, offer = session.keyring, session.context.context_id, session.context.offer
    async with services.store.write() as tx:
        roster = await tx.contexts.roster(context_id, lock=True)
        if roster is None or roster.version != keys.roster.version:
            raise ConflictError(CHANGED_MEANWHILE)
        if not await tx.contexts.set_locked(context_id, None):
            raise ConflictError("the context is not locked")
        for entry in keys.roster.principals:
            if entry.is_person and entry.role != CONTROLLER:
                await tx.grants.put_keyring(holders.seal_member_keyring(keys, entry.principal, offer))
        sealed = 0
        for grant in await tx.grants.list_grants(context_id):
            if not still_acts(keys.roster, grant):
                continue
            try:
                keyring = holders.reseal_grant(keys, grant, offer)
            except CorruptError:
                await record_managed(
                    tx, services, session, Action.TAMPERING_FOUND, _KEYS, outcome=Outcome.ERROR, actor=grant.actor
                )
                continue
            await tx.grants.put_keyring(keyring)
            sealed += 1
        await record_managed(tx, services, session, Action.CONTEXT_UNLOCKED, _KEYS)
    return sealed
