"""Partitions: which there are for whom, and the controller's ways to make, rename and open them (PCP §5.3, §7.3).

A context begins with one partition, ``main``; making a second one turns the feature on. From then on access lists
count, and who is not on one learns nothing of the partition (MEM-13, SCOPE-04). A partition cannot be deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Final

from zkpcp.core.access import (
    ALL_RIGHTS,
    MAX_PARTITIONS,
    RIGHTS,
    AccessLists,
    Right,
    parse_description,
    parse_partition_name,
    with_rights,
)
from zkpcp.core.audit import Action
from zkpcp.core.partitions import MAIN, Partition
from zkpcp.core.roster import Roster
from zkpcp.core.slots import MAIN_PARTITION
from zkpcp.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError, Violation
from zkpcp.ports import Transaction
from zkpcp.usecases.access import Acting, acting_as
from zkpcp.usecases.call import calling
from zkpcp.usecases.heads import begin_partition
from zkpcp.usecases.managing import record_managed
from zkpcp.usecases.partition_names import partition_names
from zkpcp.usecases.roster_changes import change_roster, require_owner
from zkpcp.usecases.services import Services
from zkpcp.usecases.session import OpenSession
from zkpcp.vault import partitions as sealing

LIST = "partition_list"
SCOPE_OF: Mapping[Right, str] = MappingProxyType(
    {"read": "memory:read", "write": "memory:write", "propose": "memory:propose", "review": "review:read"}
)
"""The scope without which a right is of no use to a client."""

_CATEGORIES: Final = ("memory", "keys")


@dataclass(frozen=True, slots=True, repr=False)
class OpenPartition:
    """A partition as one caller has it."""

    partition: Partition
    rights: tuple[Right, ...]


@dataclass(frozen=True, slots=True, repr=False)
class ListedPartition:
    """A partition with its access list, for whoever manages it: principal to rights, everybody who belongs named."""

    partition: Partition
    access: Mapping[str, frozenset[Right]]


async def list_partitions(services: Services, acting: Acting) -> tuple[OpenPartition, ...]:
    """The partitions that are open to a caller, by name, with what its scopes leave of the rights."""
    async with calling(services, acting, LIST, "memory") as call:
        if "memory:read" not in acting.scopes:
            raise ForbiddenError("listing partitions needs another scope", ("memory:read",))
        async with services.store.read() as tx:
            known = (await partition_names(tx, call)).by_id
        rights = {each: _usable(acting, acting.rights.get(each, ())) for each in known}
        found = [OpenPartition(known[each], held) for each, held in rights.items() if held]
        call.partitions.update(each.partition.id for each in found)
        call.counts["partitions"] = len(found)
        async with services.store.write() as tx:
            await call.record(tx)
        return tuple(sorted(found, key=_by_name))


async def own_partitions(services: Services, session: OpenSession) -> tuple[OpenPartition, ...]:
    """The partitions that are open to the person who is signed in, whatever an app may do there (AUTH-39)."""
    acting = acting_as(session)
    async with calling(services, acting, LIST, "memory") as call:
        async with services.store.read() as tx:
            known = (await partition_names(tx, call)).by_id
        call.partitions.update(known)
        async with services.store.write() as tx:
            await call.record(tx)
    found = (OpenPartition(known[each], _in_order(rights)) for each, rights in acting.rights.items() if each in known)
    return tuple(sorted(found, key=_by_name))


async def managed_partitions(services: Services, session: OpenSession) -> tuple[ListedPartition, ...]:
    """Every partition with its access list. Raises ForbiddenError for anybody but the controller."""
    require_owner(session)
    async with calling(services, acting_as(session), LIST, "memory") as call:
        async with services.store.read() as tx:
            names = await _all_names(tx, session)
        call.decrypted = len(names) > 1
        call.partitions.update(names)
        async with services.store.write() as tx:
            await call.record(tx)
    roster = session.keyring.roster
    people = [entry.principal for entry in roster.principals]
    return tuple(
        ListedPartition(
            names.get(each, Partition(each, each)),
            MappingProxyType({name: roster.rights(name).get(each, frozenset()) for name in people}),
        )
        for each in sorted(roster.partitions, key=lambda each: (each != MAIN_PARTITION, _name(names, each)))
    )


async def create_partition(services: Services, session: OpenSession, *, name: str, description: str = "") -> str:
    """Make a partition that is open to its maker alone; its id.

    Raises InvalidInputError for a name or description that breaks its rule, ConflictError when the name is taken or
    there are too many, ForbiddenError for anybody but the controller.
    """
    partition = Partition(
        services.new_id("prt"), parse_partition_name(name.strip().lower()), parse_description(description)
    )
    async with services.store.write() as tx:
        require_owner(session)
        await tx.contexts.roster(session.context.context_id, lock=True)
        await _require_free(tx, session, partition)
        await change_roster(tx, session, partial(_with_partition, partition_id=partition.id, maker=session.principal))
        await begin_partition(tx, services, session.keyring, partition.id)
        await _put(tx, services, session, partition, 1, Action.PARTITION_CREATED)
    return partition.id


async def describe_partition(
    services: Services, session: OpenSession, partition_id: str, *, name: str, description: str
) -> None:
    """Give a partition another name or description; its pages stay as they are.

    Raises NotFoundError for one that is not there or has no entry (``main``), and as ``create_partition`` does.
    """
    partition = Partition(partition_id, parse_partition_name(name.strip().lower()), parse_description(description))
    async with services.store.write() as tx:
        require_owner(session)
        await tx.contexts.roster(session.context.context_id, lock=True)
        rows = await tx.partitions.partitions(session.context.context_id, [partition_id])
        if not rows or partition_id not in session.keyring.roster.partitions:
            raise NotFoundError("there is no such partition")
        await _require_free(tx, session, partition)
        await _put(tx, services, session, partition, rows[0].version + 1, Action.PARTITION_CHANGED)


async def set_access(
    services: Services, session: OpenSession, partition_id: str, access: Mapping[str, frozenset[Right]]
) -> None:
    """Replace a partition's access list; keyrings follow at once, smaller ones too.

    Raises NotFoundError for no such partition, InvalidInputError for somebody who does not belong to the context and
    for a list that leaves nobody who can read, ConflictError while there is one partition only: its list would be the
    context's own.
    """
    roster = session.keyring.roster
    require_owner(session)
    if partition_id not in roster.partitions:
        raise NotFoundError("there is no such partition")
    if not roster.access:
        raise ConflictError("access lists come with the second partition or the second person")
    if any(roster.principal(name) is None for name in access):
        raise InvalidInputError("the access list is not valid", [Violation("access", "must name people who belong")])
    async with services.store.write() as tx:
        await change_roster(tx, session, partial(_with_access, partition_id=partition_id, access=access))
        await record_managed(tx, services, session, Action.ACCESS_CHANGED, _CATEGORIES, partitions=(partition_id,))


def explicit(roster: Roster) -> AccessLists:
    """The access lists as they are; where there are none yet, everybody who belongs is on that of ``main``."""
    if roster.access:
        return roster.access
    everybody = {entry.principal: ALL_RIGHTS for entry in roster.principals}
    return MappingProxyType({MAIN_PARTITION: MappingProxyType(everybody)})


def _with_partition(roster: Roster, *, partition_id: str, maker: str) -> Roster:
    return replace(roster, access=with_rights(explicit(roster), partition_id, maker, ALL_RIGHTS))


def _with_access(roster: Roster, *, partition_id: str, access: Mapping[str, frozenset[Right]]) -> Roster:
    lists: AccessLists = MappingProxyType({**explicit(roster), partition_id: MappingProxyType({})})
    for principal, rights in access.items():
        lists = with_rights(lists, partition_id, principal, rights)
    return replace(roster, access=lists)


async def _require_free(tx: Transaction, session: OpenSession, partition: Partition) -> None:
    names = await _all_names(tx, session)
    if any(other.name == partition.name and other.id != partition.id for other in names.values()):
        raise ConflictError("another partition has this name; choose another one")
    if partition.id not in names and len(names) >= MAX_PARTITIONS:
        raise ConflictError(f"a context has at most {MAX_PARTITIONS} partitions")


async def _all_names(tx: Transaction, session: OpenSession) -> Mapping[str, Partition]:
    keys = session.keyring
    rows = await tx.partitions.partitions(session.context.context_id, keys.roster.partitions)
    return {row.partition_id: sealing.open_partition(keys, row) for row in rows} | {MAIN_PARTITION: MAIN}


async def _put(
    tx: Transaction, services: Services, session: OpenSession, partition: Partition, version: int, action: str
) -> None:
    now_ms = services.clock.now_ms()
    await tx.partitions.put(sealing.seal_partition(session.keyring, partition, version, now_ms, services.entropy))
    await record_managed(tx, services, session, action, _CATEGORIES, partitions=(partition.id,), decrypted=True)


def _usable(acting: Acting, rights: frozenset[Right] | tuple[()]) -> tuple[Right, ...]:
    return tuple(right for right in RIGHTS if right in rights and SCOPE_OF[right] in acting.scopes)


def _in_order(rights: frozenset[Right]) -> tuple[Right, ...]:
    return tuple(right for right in RIGHTS if right in rights)


def _name(names: Mapping[str, Partition], partition_id: str) -> str:
    return names[partition_id].name if partition_id in names else partition_id


def _by_name(item: OpenPartition) -> tuple[bool, str]:
    return item.partition.id != MAIN_PARTITION, item.partition.name
