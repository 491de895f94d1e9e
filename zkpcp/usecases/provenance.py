"""What the owner sees of a profile: each member, and who set it last (PROF-04).

Read from the change log, which is sealed as the profile is. A member that was set before the last ``MOST_CHANGES``
changes shows without an origin. Looking is an act as any other: audited.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from zkpcp.core.extensions import stem_of
from zkpcp.core.profile import empty_recommended
from zkpcp.core.schemas import JsonValue, pointer
from zkpcp.core.stored import ProfileChangeRow
from zkpcp.ports import Transaction
from zkpcp.usecases.access import Acting
from zkpcp.usecases.call import calling
from zkpcp.usecases.profile import GET, namespaces_of
from zkpcp.usecases.services import Services
from zkpcp.vault import records

MOST_CHANGES: Final = 1000
_SERVERS_OWN: Final = ("pcp_version", "updated")


@dataclass(frozen=True, slots=True)
class Origin:
    """Who set a member, when, and through which client: its name, or its id when it is gone; None without one."""

    principal: str
    client: str | None
    at_ms: int


@dataclass(frozen=True, slots=True, repr=False)
class Member:
    """One member of a profile."""

    name: str
    value: JsonValue
    origin: Origin | None


@dataclass(frozen=True, slots=True, repr=False)
class Known:
    """A namespace with its members, and the recommended ones that are empty."""

    namespace: str
    members: tuple[Member, ...]
    empty: tuple[str, ...]


async def known_about(services: Services, acting: Acting) -> tuple[Known, ...]:
    """Every namespace of the context's profile that is on, with the origin of each member."""
    async with calling(services, acting, GET) as call:
        async with services.store.read() as tx:
            found = [await _known(tx, acting, namespace) for namespace in namespaces_of(acting.context.offer)]
        call.categories.update(stem_of(each.namespace) for each in found)
        call.decrypted = any(each.members for each in found)
        async with services.store.write() as tx:
            await call.record(tx)
        return tuple(found)


async def _known(tx: Transaction, acting: Acting, namespace: str) -> Known:
    row = await tx.profiles.profile(acting.context_id, namespace)
    profile = None if row is None else records.open_profile(acting.keys, namespace, row)
    changes = await tx.profiles.changes(acting.context_id, namespace, MOST_CHANGES) if profile else ()
    origins = _origins(acting, changes)
    names = {change.client: await _client_name(tx, acting, change.client) for change in set(origins.values())}
    members = []
    for name, value in (profile or {}).items():
        if name in _SERVERS_OWN:
            continue
        change = origins.get(pointer(name))
        origin = None if change is None else Origin(change.principal, names[change.client], change.at_ms)
        members.append(Member(name, value, origin))
    return Known(namespace, tuple(members), empty_recommended(namespace, profile))


def _origins(acting: Acting, changes: Sequence[ProfileChangeRow]) -> dict[str, ProfileChangeRow]:
    """The newest change of each member, by its pointer."""
    newest: dict[str, ProfileChangeRow] = {}
    for change in changes:
        for member in records.open_change(acting.keys, change):
            newest.setdefault(member, change)
    return newest


async def _client_name(tx: Transaction, acting: Acting, client_id: str | None) -> str | None:
    if client_id is None:
        return None
    client = await tx.grants.client(acting.context_id, client_id)
    return client_id if client is None else client.name
