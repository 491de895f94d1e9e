"""Reading and changing profiles (PROF-01 to PROF-06): a merge patch either gives a valid profile or changes nothing.

A context has one profile of its kind and, for each enabled extension of the profile, a namespace with scopes of its
own. A disabled namespace is as one that does not exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zkpcp.core import profile as profile_format
from zkpcp.core.extensions import extension_of, stem_of
from zkpcp.core.instants import to_rfc3339
from zkpcp.core.schemas import JsonObject, JsonValue
from zkpcp.core.scopes import Offer
from zkpcp.core.stored import ProfileRow
from zkpcp.errors import ForbiddenError, InvalidInputError, Violation
from zkpcp.usecases.access import Acting
from zkpcp.usecases.call import calling
from zkpcp.usecases.services import Services
from zkpcp.vault import records

GET = "profile_get"
UPDATE = "profile_update"
CORE = "profile.core"
TEAM = "profile.team"


@dataclass(frozen=True, slots=True, repr=False)
class Profiles:
    """The profiles a caller may read; a namespace it may not read is not in ``readable``, an empty one is None."""

    readable: tuple[str, ...]
    by_namespace: dict[str, JsonObject | None]


@dataclass(frozen=True, slots=True, repr=False)
class Changed:
    """The namespace, its profile after a patch, when, and JSON pointers to the members that differ now.

    ``profile`` is None when it is empty, and for a caller who may write but not read it (SCOPE-01); for that one the
    members are those of its patch, so that a patch tells nothing of what was there.
    """

    namespace: str
    profile: JsonObject | None
    updated: str
    members: tuple[str, ...]


def own_namespace(kind: str) -> str:
    """A context's own profile: a team has a team profile, everybody else a profile of a person."""
    return TEAM if kind == "team" else CORE


def namespaces_of(offer: Offer) -> tuple[str, ...]:
    """The profile namespaces of a context: its own, then those of the enabled extensions."""
    return (own_namespace(offer.kind), *(name for name in offer.extensions if extension_of(name).is_profile))


async def get_profiles(services: Services, acting: Acting, namespaces: Sequence[str] | None = None) -> Profiles:
    """The asked-for profiles, all readable ones by default.

    Raises InvalidInputError for an unknown namespace, ForbiddenError when none of the asked-for ones is readable.
    """
    async with calling(services, acting, GET) as call:
        known = namespaces_of(acting.context.offer)
        asked = known if namespaces is None else _known(namespaces, known, "/namespaces")
        readable = tuple(name for name in asked if f"{stem_of(name)}:read" in acting.scopes)
        if not readable:
            wanted = known[:1] if namespaces is None else asked
            needed = tuple(f"{stem_of(name)}:read" for name in wanted)
            raise ForbiddenError("reading the profile needs another scope", needed)
        call.categories.update(stem_of(name) for name in readable)
        async with services.store.read() as tx:
            rows = {name: await tx.profiles.profile(acting.context_id, name) for name in readable}
        call.decrypted = any(row is not None for row in rows.values())
        found = {name: _opened(acting, name, row) for name, row in rows.items()}
        async with services.store.write() as tx:
            await call.record(tx)
        return Profiles(readable, found)


async def update_profile(
    services: Services, acting: Acting, *, patch: JsonValue, namespace: str | None = None
) -> Changed:
    """Apply an RFC 7396 merge patch, and note in the change log who touched which members (PROF-04).

    Raises InvalidInputError with violations; then nothing was changed.
    """
    async with calling(services, acting, UPDATE) as call:
        name = _target(acting, namespace)
        stem = stem_of(name)
        call.categories.add(stem)
        if f"{stem}:write" not in acting.scopes:
            raise ForbiddenError("changing the profile needs another scope", (f"{stem}:write",))
        async with services.store.write() as tx:
            row = await tx.profiles.profile(acting.context_id, name, lock=True)
            call.decrypted = row is not None
            before = _opened(acting, name, row)
            now_ms = services.clock.now_ms()
            updated_ms = now_ms if row is None else max(now_ms, row.updated_ms + 1)
            result = profile_format.update(name, before, patch, now_ms=updated_ms, schemas=services.schemas)
            version = 1 if row is None else row.version + 1
            sealed = records.seal_profile(acting.keys, name, result.profile, version, updated_ms, services.entropy)
            change = records.seal_change(
                acting.keys,
                sealed,
                result.changed,
                principal=acting.actor.principal,
                client=acting.actor.client,
                entropy=services.entropy,
            )
            await tx.profiles.put(sealed, change)
            readable = f"{stem}:read" in acting.scopes
            members = result.changed if readable else profile_format.sent_members(patch)
            # The log too: a client may have the right to read it.
            call.counts["members"] = len(members)
            await call.record(tx)
        return Changed(name, result.profile if readable else None, to_rfc3339(updated_ms), members)


def _opened(acting: Acting, namespace: str, row: ProfileRow | None) -> JsonObject | None:
    return None if row is None else records.open_profile(acting.keys, namespace, row)


def _target(acting: Acting, namespace: str | None) -> str:
    known = namespaces_of(acting.context.offer)
    return known[0] if namespace is None else _known((namespace,), known, "/namespace")[0]


def _known(namespaces: Sequence[str], known: tuple[str, ...], field: str) -> tuple[str, ...]:
    if not namespaces or any(name not in known for name in namespaces):
        rule = f"must be one of: {', '.join(known)}"
        raise InvalidInputError("the namespace does not exist in this context", [Violation(field, rule)])
    return tuple(dict.fromkeys(namespaces))
