"""Extensions: which there are, what each is for, and how its names follow from its id.

Implements PCP §4.6 and §6.5 (PROF-06 to PROF-10, TOOL-15). An extension's id is what discovery names: for one of the
profile its namespace. From the id follow the stem of its scopes, which is its audit category too, and its key slot, so
that no scope but its own opens it. Which extensions a context has is its owner's choice (``ContextRow.extensions``).

A namespace of somebody else's is named by the reverse of their domain and has the schema that the operator registered.
Nobody here has judged what it holds, so it counts as special.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from zkpcp.core.schemas import JsonObject, JsonValue

HANDOFF: Final = "zkpcp.handoff"
"""The extension id of hand-offs between assistants."""

SCHEMAS: Final = "extensions/"
"""What the names of the schemas of profile extensions begin with."""

_PROFILE: Final = "profile."
_PUBLIC: Final = "pcp."
_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?"
# 56 characters: with "profile." before it a namespace still fits into a category of the access log.
_REVERSE_DNS: Final = re.compile(rf"(?=.{{3,56}}\Z){_LABEL}(?:\.{_LABEL})+")
_OURS: Final = frozenset({"pcp", "zkpcp", "profile", "memory", "ext", "conn"})
"""First labels that nobody else's namespace may have: those of the protocol, of slots and of scopes."""


@dataclass(frozen=True, slots=True)
class Extension:
    """One extension. ``stem``: its scopes without ``:read`` or ``:write``.

    ``title`` and ``purpose`` are for its owner; ``read`` and ``write`` complete "This app may …". ``special``: of a
    special category, so that no consent page ticks it beforehand.
    """

    id: str
    stem: str
    slot: str
    title: str
    purpose: str
    read: str
    write: str
    special: bool

    @property
    def is_profile(self) -> bool:
        """Whether it is a namespace of the profile; the others have tools of their own."""
        return self.stem.startswith(_PROFILE)


def _profile(name: str, title: str, holds: str, *, special: bool = False) -> Extension:
    namespace = f"{_PUBLIC}{name}"
    return Extension(
        id=namespace,
        stem=f"{_PROFILE}{name}",
        slot=namespace,
        title=title,
        purpose=f"Keeps {holds}.",
        read=f"Read your {title.lower()} profile: {holds}.",
        write=f"Change your {title.lower()} profile.",
        special=special,
    )


KNOWN: Final[Mapping[str, Extension]] = MappingProxyType(
    {
        extension.id: extension
        for extension in (
            _profile(
                "health",
                "Health",
                "blood type, allergies, conditions, medications, who treats you, notes for an emergency",
                special=True,
            ),
            _profile(
                "residency",
                "Residency",
                "citizenships, where you live, permits, tax residence, where documents are kept",
                special=True,
            ),
            _profile("legal", "Legal", "your lawyers, mandates, and where contracts and wills are kept"),
            _profile("family", "Family", "the people close to you, whom to call in an emergency, pets, dates"),
            _profile("finance", "Finance", "banks, insurances and advisers by reference, goals; no account numbers"),
            _profile("home", "Home", "where you live, who lives there, equipment, services, how the household runs"),
            Extension(
                id=HANDOFF,
                stem="ext.handoff",
                slot="handoff",
                title="Hand-offs",
                purpose="Lets your assistants leave each other notes on unfinished work.",
                read="Read the notes that your assistants leave each other about unfinished work.",
                write="Leave notes about unfinished work for your other assistants, and mark them as done.",
                special=False,
            ),
        )
    }
)
"""The extensions of this server, by id. Each of the profile has its schema in ``schemas/extensions``."""


def extension_of(extension_id: str) -> Extension:
    """The extension of an id: a known one, or by its names a namespace of somebody else's."""
    known = KNOWN.get(extension_id)
    if known is not None:
        return known
    return Extension(
        id=extension_id,
        stem=f"{_PROFILE}{extension_id}",
        slot=extension_id,
        title=extension_id,
        purpose="A part of your profile that somebody else has defined; your operator has registered it.",
        read=f"Read what the extension {extension_id} keeps about you.",
        write=f"Change what the extension {extension_id} keeps about you.",
        special=True,
    )


def stem_of(namespace: str) -> str:
    """What the scopes of a profile namespace begin with: ``profile.core`` for itself, ``profile.health``."""
    return namespace if namespace.startswith(_PROFILE) else extension_of(namespace).stem


def slot_of_stem(stem: str) -> str | None:
    """The key slot behind a scope's stem, None for a stem that belongs to neither the profile nor an extension."""
    own = next((extension for extension in KNOWN.values() if extension.stem == stem), None)
    if own is not None:
        return own.slot
    if stem in ("profile.core", "profile.team"):
        return stem
    return stem.removeprefix(_PROFILE) if stem.startswith(_PROFILE) else None


def schema_name(namespace: str) -> str:
    """The name of the schema of a profile extension."""
    return f"{SCHEMAS}{namespace}"


def available(schema_names: Iterable[str]) -> tuple[Extension, ...]:
    """What an owner can enable where these schemas are: ours, then the registered ones by name."""
    registered = {name.removeprefix(SCHEMAS) for name in schema_names if name.startswith(SCHEMAS)}
    ours = [extension for extension in KNOWN.values() if not extension.is_profile or extension.id in registered]
    return (*ours, *(extension_of(namespace) for namespace in sorted(registered - KNOWN.keys())))


def broken_registration_rules(namespace: str, schema: JsonObject) -> Iterator[str]:
    """Which rules a schema for somebody else's namespace breaks, in words that hold nothing of it."""
    if _REVERSE_DNS.fullmatch(namespace) is None or namespace.split(".", maxsplit=1)[0] in _OURS:
        yield "must be named by the reverse of a domain: lower case, 56 characters at most, no name of ours"
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, dict):
        yield "must describe an object by its properties"
    elif not {"pcp_version", "updated"} <= properties.keys():
        yield "must allow the members pcp_version and updated, which the server sets"
    if schema.get("additionalProperties") is not False:
        yield "must set additionalProperties to false"
    if any(not reference.startswith("#") for reference in _references(schema)):
        yield "must not refer to another document"


def _references(value: JsonValue) -> Iterator[str]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        if key in ("$ref", "$dynamicRef"):
            yield str(member)
        yield from _references(member)
