"""Who belongs to a context: inviting people, letting agents act, suspending and removing (PCP §9.1, §9.2.4; CTX-07).

1. The controller invites somebody by a one-time code, which goes to them outside this server.
2. The newcomer joins with it (``usecases.joining``): their keys are made there, authenticated by the code.
3. The controller's next sign-in checks them, signs them into the roster and seals their keyring (``admit_joined``).

A personal context has one person; agents can act for them (CTX-01, CTX-08). Removing somebody deletes everything that
opens for them, in one transaction; their id never comes back. What they have read or kept is theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Final

from zkpcp.core.access import AccessLists, Right, Rights, with_rights, without
from zkpcp.core.audit import Action, Channel, Outcome
from zkpcp.core.grants import Actor, parse_principal
from zkpcp.core.roster import AGENT, CONTROLLER, MEMBER, SUSPENDED, Principal, Roster
from zkpcp.core.slots import memory_slot
from zkpcp.core.stored import GrantRow, InviteRow
from zkpcp.errors import ConflictError, CorruptError, ForbiddenError, InvalidInputError, NotFoundError, Violation
from zkpcp.ports import Transaction
from zkpcp.usecases.access import acting_as
from zkpcp.usecases.call import calling
from zkpcp.usecases.grants import end_grant
from zkpcp.usecases.inbox import admit_waiting
from zkpcp.usecases.managing import record_managed
from zkpcp.usecases.partitions import explicit
from zkpcp.usecases.proposals import settle_quarantined
from zkpcp.usecases.roster_changes import change_roster, require_owner
from zkpcp.usecases.rotation import renew_keys
from zkpcp.usecases.services import Services
from zkpcp.usecases.session import OpenSession
from zkpcp.vault import invites
from zkpcp.vault.secrets import RecoveryCode, new_recovery_code

INVITE_LIFETIME_S: Final = 7 * 24 * 3600
MAX_PRINCIPALS: Final = 200
_CATEGORIES: Final = ("principals", "keys")
_ALONE: Final = "a personal context has one person; set up a team context to share one"


@dataclass(frozen=True, slots=True)
class Invited:
    """An invite that was just made; its code is shown once."""

    principal: str
    code: RecoveryCode
    expires_ms: int


@dataclass(frozen=True, slots=True)
class PendingInvite:
    """An invite that is under way; ``joined``: it waits for the controller's next sign-in."""

    lookup_id: bytes
    principal: str
    expires_ms: int
    joined: bool


@dataclass(frozen=True, slots=True)
class Belonging:
    """Everybody who belongs, and the invites that are under way."""

    principals: tuple[Principal, ...]
    invites: tuple[PendingInvite, ...]


async def everybody(services: Services, session: OpenSession) -> Belonging:
    """Who belongs to the context. Raises ForbiddenError for anybody but the controller."""
    require_owner(session)
    async with services.store.read() as tx:
        rows = await tx.invites.invites(session.context.context_id)
    now_ms = services.clock.now_ms()
    pending = [
        PendingInvite(row.lookup_id, row.principal, row.expires_ms, row.joined is not None)
        for row in rows
        if row.joined is not None or row.expires_ms > now_ms
    ]
    return Belonging(session.keyring.roster.principals, tuple(pending))


async def invite(services: Services, session: OpenSession, *, principal: str, rights: Rights) -> Invited:
    """Invite somebody as ``human:<id>`` with these rights; an earlier invite for the same id ends.

    Raises InvalidInputError for an id that is no person's, was used before or belongs to somebody, and for rights in a
    partition that there is not; ConflictError in a personal context or when somebody has joined by that id already.
    """
    require_owner(session)
    if session.context.kind == "personal":
        raise ConflictError(_ALONE)
    _check_new(session, principal, "human:")
    _check_rights(session, rights)
    context_id, now_ms = session.context.context_id, services.clock.now_ms()
    code = new_recovery_code(services.entropy)
    row = invites.seal_invite(
        session.keyring,
        code,
        principal=principal,
        rights=rights,
        created_ms=now_ms,
        expires_ms=now_ms + INVITE_LIFETIME_S * 1000,
        entropy=services.entropy,
    )
    async with services.store.write() as tx:
        await tx.contexts.roster(context_id, lock=True)
        for earlier in await tx.invites.invites(context_id):
            if earlier.principal == principal:
                if earlier.joined is not None:
                    raise ConflictError("somebody has joined by this id already")
                await tx.invites.delete(context_id, earlier.lookup_id)
        await tx.invites.add(row)
        await record_managed(tx, services, session, Action.PRINCIPAL_INVITED, _CATEGORIES)
    return Invited(principal, code, row.expires_ms)


async def withdraw_invite(services: Services, session: OpenSession, principal: str) -> None:
    """End an invite, also when somebody has joined by it and not been let in yet. Raises NotFoundError."""
    require_owner(session)
    context_id = session.context.context_id
    async with services.store.write() as tx:
        mine = [row for row in await tx.invites.invites(context_id) if row.principal == principal]
        if not mine:
            raise NotFoundError("there is no such invite")
        for row in mine:
            await _end_invite(tx, row)
        await record_managed(tx, services, session, Action.INVITE_WITHDRAWN, _CATEGORIES)


async def admit_joined(services: Services, session: OpenSession) -> tuple[str, ...]:
    """Let in everybody who has joined by an invite since; their ids. Does nothing for anybody but the controller.

    Keys that do not come from whoever had the invite's code are refused, and that is audited: no keyring is ever sealed
    to them.
    """
    if not session.is_controller:
        return ()
    if session.context.locked_ms is not None:
        return ()  # they would be sealed keys; they wait until it is unlocked
    context_id = session.context.context_id
    async with services.store.read() as tx:
        waiting = [row for row in await tx.invites.invites(context_id) if row.joined is not None]
    admitted = []
    for row in waiting:
        async with services.store.write() as tx:
            if await _admit(tx, services, session, row):
                admitted.append(row.principal)
    return tuple(admitted)


async def add_agent(services: Services, session: OpenSession, *, agent: str, rights: Rights) -> None:
    """Let ``agent:<name>`` act for people of this context, with at most these rights of theirs.

    It owns no keys: its grants are made by the people whom it acts for (SCOPE-06). Raises as ``invite`` does.
    """
    require_owner(session)
    _check_new(session, agent, "agent:")
    _check_rights(session, rights)
    async with services.store.write() as tx:
        entry = Principal(agent, b"", b"", AGENT)
        await change_roster(tx, session, partial(_with_principal, entry=entry, rights=rights))
        await record_managed(tx, services, session, Action.PRINCIPAL_ADDED, _CATEGORIES)


async def suspend(services: Services, session: OpenSession, principal: str) -> None:
    """End a member's sessions and take every key away, until ``resume``; their grants answer ``locked`` meanwhile.

    What they left in quarantine is let in before, while their signature still counts. Raises NotFoundError for no such
    member, InvalidInputError when nobody else could read a partition.
    """
    _require_role(session, principal, MEMBER)
    await _admit_quarantined(services, session)
    context_id = session.context.context_id
    async with services.store.write() as tx:
        await change_roster(tx, session, partial(_with_role, principal=principal, role=SUSPENDED))
        await tx.credentials.end_sessions_of(context_id, principal)
        await tx.grants.delete_keyrings(context_id, "principal", principal)
        for grant in await _grants_of(tx, context_id, principal):
            await tx.grants.delete_keyrings(context_id, "grant", grant.grant_id)
        await record_managed(tx, services, session, Action.PRINCIPAL_SUSPENDED, _CATEGORIES)


async def resume(services: Services, session: OpenSession, principal: str) -> None:
    """Give a suspended member back what they had. Raises NotFoundError for no such suspended member."""
    _require_role(session, principal, SUSPENDED)
    async with services.store.write() as tx:
        await change_roster(tx, session, partial(_with_role, principal=principal, role=MEMBER))
        await record_managed(tx, services, session, Action.PRINCIPAL_RESUMED, _CATEGORIES)


async def remove(services: Services, session: OpenSession, principal: str) -> None:
    """Remove a member or an agent for good: wraps, keyring, sessions, grants and delegations, in one transaction.

    All keys change with it, so that nothing written afterwards opens with what they kept; what was written before
    follows in the steps of ``usecases.rotation``.

    What they left in quarantine is let in before, while their signature still counts. Raises NotFoundError for nobody
    of that id, InvalidInputError when nobody else could read a partition.
    """
    _require_role(session, principal, MEMBER, SUSPENDED, AGENT)
    await _admit_quarantined(services, session)
    context_id = session.context.context_id
    async with services.store.write() as tx:
        for grant in await _grants_of(tx, context_id, principal):
            actor = Actor(session.principal, grant.client_id, grant.grant_id)
            await end_grant(tx, services, grant, Action.GRANT_REVOKED, Channel.MANAGEMENT, actor)
        await renew_keys(tx, services, session, partial(_without_principal, principal=principal))
        await tx.credentials.end_sessions_of(context_id, principal)
        await tx.credentials.delete_wraps(context_id, principal)
        await tx.grants.delete_keyrings(context_id, "principal", principal)
        await record_managed(tx, services, session, Action.PRINCIPAL_REMOVED, _CATEGORIES)


async def _admit(tx: Transaction, services: Services, session: OpenSession, row: InviteRow) -> bool:
    context_id = session.context.context_id
    if await tx.invites.invite(context_id, row.lookup_id) != row:
        return False
    try:
        entry, rights = invites.newcomer(session.keyring, row)
    except CorruptError:
        entry, rights = None, MappingProxyType({})
    roster = session.keyring.roster
    if entry is None or roster.principal(entry.principal) is not None or entry.principal in roster.removed:
        await _end_invite(tx, row)
        await record_managed(tx, services, session, Action.TAMPERING_FOUND, _CATEGORIES, outcome=Outcome.ERROR)
        return False
    # A partition may have gone from the list of what there is since; the rights in the others hold.
    known = {each: held for each, held in rights.items() if each in roster.partitions}
    await change_roster(tx, session, partial(_with_principal, entry=entry, rights=known))
    await tx.invites.delete(context_id, row.lookup_id)
    await record_managed(tx, services, session, Action.PRINCIPAL_ADDED, _CATEGORIES)
    return True


async def _admit_quarantined(services: Services, session: OpenSession) -> None:
    async with calling(services, acting_as(session), Action.QUARANTINE_EMPTIED, "memory.sensitive") as call:
        slots = [memory_slot(each, sensitive=True) for each in call.acting.keys.roster.partitions]
        while await admit_waiting(call, slots):
            pass
        await settle_quarantined(call)
        async with services.store.write() as tx:
            await call.record(tx)


async def _end_invite(tx: Transaction, row: InviteRow) -> None:
    await tx.invites.delete(row.context_id, row.lookup_id)
    if row.joined is not None:
        await tx.credentials.delete_wraps(row.context_id, row.principal)


async def _grants_of(tx: Transaction, context_id: str, principal: str) -> Sequence[GrantRow]:
    grants = await tx.grants.list_grants(context_id)
    return [grant for grant in grants if principal in (grant.principal, grant.on_behalf_of)]


def _with_principal(roster: Roster, *, entry: Principal, rights: Rights) -> Roster:
    lists: AccessLists = explicit(roster)
    for partition, held in rights.items():
        lists = with_rights(lists, partition, entry.principal, held)
    return replace(roster, principals=(*roster.principals, entry), access=lists)


def _with_role(roster: Roster, *, principal: str, role: str) -> Roster:
    entries = (replace(each, role=role) if each.principal == principal else each for each in roster.principals)
    return replace(roster, principals=tuple(entries), access=explicit(roster))


def _without_principal(roster: Roster, *, principal: str) -> Roster:
    return replace(
        roster,
        principals=tuple(each for each in roster.principals if each.principal != principal),
        removed=(*roster.removed, principal),
        access=without(explicit(roster), principal),
    )


def _check_new(session: OpenSession, principal: str, prefix: str) -> None:
    parse_principal(principal)
    roster = session.keyring.roster
    if not principal.startswith(prefix):
        raise InvalidInputError("the principal is not valid", [Violation("principal", f"must be {prefix}<id>")])
    if roster.principal(principal) is not None or principal in roster.removed:
        rule = "must not belong to anybody, now or before"
        raise InvalidInputError("the principal is not valid", [Violation("principal", rule)])
    if len(roster.principals) >= MAX_PRINCIPALS:
        raise ConflictError(f"a context has at most {MAX_PRINCIPALS} people and agents")


def _check_rights(session: OpenSession, rights: Mapping[str, frozenset[Right]]) -> None:
    if not set(rights) <= set(session.keyring.roster.partitions):
        rule = "must be in partitions of this context"
        raise InvalidInputError("the rights are not valid", [Violation("rights", rule)])


def _require_role(session: OpenSession, principal: str, *roles: str) -> None:
    require_owner(session)
    role = session.keyring.roster.role(principal)
    if role == CONTROLLER:
        raise ForbiddenError("the controller of a context cannot be suspended or removed")
    if role not in roles:
        raise NotFoundError("there is nobody of this id and state")
