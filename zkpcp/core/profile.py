"""How a profile changes, and how it is stored.

Implements PCP §4 (PROF-01, PROF-02, PROF-03, PROF-05, PROF-08) and RFC 7396. A profile is a JSON object that its
published schema allows, or nothing at all. Who may change it is ``policy``'s question, and the change log is the use
case's. A time zone is one of the IANA database; that a language tag exists is not checked, only its form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from zkpcp.core import extensions
from zkpcp.core.instants import to_rfc3339
from zkpcp.core.schemas import JsonObject, JsonValue, Schemas, canonical_json, parse_canonical_object, pointer
from zkpcp.core.time_zones import NAMES
from zkpcp.errors import InvalidInputError, Violation

PCP_VERSION: Final = "0.3"
MAX_DEPTH: Final = 32
"""How deep a patch may nest; the schemas need 4."""

SCHEMA_NAMES: Final[Mapping[str, str]] = {"profile.core": "0.3/profile.core", "profile.team": "0.3/profile.team"}
"""The namespaces of the core protocol and their schemas. An extension's has a schema of its name, or is refused."""

RECOMMENDED: Final[Mapping[str, tuple[str, ...]]] = {
    "profile.core": ("preferred_name", "languages", "timezone", "communication", "work", "ai_instructions"),
    "profile.team": ("purpose", "members", "glossary", "conventions", "ai_instructions"),
}
"""Members that assistants make the most of: an owner is told which of them are empty."""

_SERVER_MEMBERS: Final = frozenset({"pcp_version", "updated"})


@dataclass(frozen=True, slots=True, repr=False)
class Updated:
    """The profile after a patch, None when nothing is left of it, and JSON pointers to the members that differ now."""

    profile: JsonObject | None
    changed: tuple[str, ...]


def merge_patch(target: JsonValue, patch: JsonValue) -> JsonValue:
    """Apply a merge patch (RFC 7396 §2); neither argument is changed."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for member, value in patch.items():
        if value is None:
            merged.pop(member, None)
        else:
            merged[member] = merge_patch(merged.get(member), value)
    return merged


def update(namespace: str, current: JsonObject | None, patch: JsonValue, *, now_ms: int, schemas: Schemas) -> Updated:
    """Patch a profile and set the members that are the server's: ``pcp_version`` and ``updated``.

    What a patch says about those two is ignored, so that a client may send back what it read. A patch that leaves
    none of the client's members leaves no profile (PROF-05). Raises InvalidInputError: an unknown namespace, a patch
    that is no object, or a result that the schema forbids.
    """
    schema = schema_name(namespace, schemas)
    if not isinstance(patch, dict):
        raise InvalidInputError("patch must be an object", [Violation("", "must be an object")])
    if not _is_shallow(patch):
        raise InvalidInputError(
            "patch nests too deep", [Violation("", f"must not nest deeper than {MAX_DEPTH} levels")]
        )
    before = _of_client(current or {})
    after = merge_patch(before, _of_client(patch))
    if not isinstance(after, dict) or not after:
        return Updated(None, tuple(pointer(member) for member in sorted(before)))
    profile: JsonObject = {"pcp_version": PCP_VERSION, **after, "updated": to_rfc3339(now_ms)}
    violations = schemas.violations(schema, profile) or _unknown_zone(before, after)
    if violations:
        raise InvalidInputError("the patched profile would not be valid", violations)
    return Updated(profile, _changed(before, after))


def sent_members(patch: JsonValue) -> tuple[str, ...]:
    """JSON pointers to the client's members that a patch names, whatever is stored."""
    return tuple(pointer(member) for member in sorted(_of_client(patch))) if isinstance(patch, dict) else ()


def schema_name(namespace: str, schemas: Schemas) -> str:
    """The schema of a namespace; raises InvalidInputError where none is published (PROF-08)."""
    name = SCHEMA_NAMES.get(namespace) or extensions.schema_name(namespace)
    if name not in schemas.names:
        raise InvalidInputError(
            "namespace has no published schema here", [Violation("/namespace", "must have a published schema")]
        )
    return name


def empty_recommended(namespace: str, profile: JsonObject | None) -> tuple[str, ...]:
    """Which of the recommended members a profile lacks."""
    return tuple(member for member in RECOMMENDED.get(namespace, ()) if member not in (profile or {}))


def serialize(profile: JsonObject) -> bytes:
    """The one stored form of a profile: canonical JSON."""
    return canonical_json(profile)


def parse_stored(data: bytes | bytearray | memoryview) -> JsonObject:
    """Read what ``serialize`` wrote; raises CorruptError for anything else."""
    return parse_canonical_object(data, "a stored profile")


def _of_client(profile: JsonObject) -> JsonObject:
    return {member: value for member, value in profile.items() if member not in _SERVER_MEMBERS}


def _unknown_zone(before: JsonObject, after: JsonObject) -> tuple[Violation, ...]:
    # Only a new one: what was good when it was set must not stand in the way of other changes.
    zone = after.get("timezone")
    if zone is None or zone == before.get("timezone") or zone in NAMES:
        return ()
    return (Violation("/timezone", "must be a time zone of the IANA database, such as Europe/Lisbon"),)


def _changed(before: JsonObject, after: JsonObject) -> tuple[str, ...]:
    # Compared as JSON: to Python, true equals 1.
    members = sorted(before.keys() | after.keys())
    return tuple(
        pointer(member)
        for member in members
        if (member in before) != (member in after) or canonical_json(before[member]) != canonical_json(after[member])
    )


def _is_shallow(value: JsonValue) -> bool:
    level: list[JsonValue] = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return True
    return False


def _children(value: JsonValue) -> list[JsonValue]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
