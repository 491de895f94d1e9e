"""The roster: the one signed document from which alone keyrings are sealed.

It lists who belongs to a context with which public keys, the epoch, the ids that were removed and never come back, and,
once there are any, the access lists (§7.3), which name every partition there is; whether writes wait for review (§5.4);
while the keys are being changed, how old those may be that rows are still sealed under; and whose rows are counted.
The owner signs its exact bytes; parsing is strict, so that two readers cannot see two documents. A stale roster is
recognised only by a wrap that remembers a newer version (threat-model/README.md).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, cast

from zkpcp.core.access import (
    NO_LISTS,
    RIGHTS,
    AccessLists,
    ReviewMode,
    Right,
    Rights,
    both,
    parse_review_mode,
    rights_in,
)
from zkpcp.core.slots import MAIN_PARTITION, counted_name
from zkpcp.errors import CorruptError

FORMAT_VERSION: Final = 1
CONTROLLER: Final = "controller"
MEMBER: Final = "member"
SUSPENDED: Final = "suspended"
AGENT: Final = "agent"
_MEMBERS: Final = frozenset({"v", "context", "version", "epoch", "owner", "principals", "removed", "generations"})
_OPTIONAL: Final = frozenset({"access", "counted", "oldest", "review"})
"""Absent where it would be empty, so that a roster without any of them has the bytes it always had."""
_PRINCIPAL_MEMBERS: Final = frozenset({"id", "kem", "sig", "role"})


@dataclass(frozen=True, slots=True)
class Principal:
    """A principal with its public keys: X-Wing ``kem_public`` (1216 bytes) and Ed25519 ``sig_public`` (32 bytes).

    An agent has none: it acts by grants that people make for it. A suspended one keeps them and has no right.
    """

    principal: str
    kem_public: bytes
    sig_public: bytes
    role: str

    @property
    def is_person(self) -> bool:
        """Whether it signs in and holds keys of its own now."""
        return self.role in (CONTROLLER, MEMBER)


@dataclass(frozen=True, slots=True)
class Roster:
    """One version of the roster. ``owner`` is the Ed25519 key that has to sign it.

    ``oldest``: the first generation that rows may still have while the keys are being changed; None otherwise.
    ``counted``: in which slots, by ``counted_name``, rows are counted by integrity heads, and from which generation on.
    """

    context_id: str
    version: int
    epoch: int
    owner: bytes
    principals: tuple[Principal, ...]
    removed: tuple[str, ...] = ()
    access: AccessLists = field(default_factory=lambda: NO_LISTS)
    review: ReviewMode = "off"
    oldest: int | None = None
    counted: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def generation(self) -> int:
        """The live generation of every slot: a new root is a new generation of all keys."""
        return self.epoch

    @property
    def generations(self) -> range:
        """The generations that rows can have, the oldest first."""
        return range(self.epoch if self.oldest is None else self.oldest, self.epoch + 1)

    def principal(self, principal: str) -> Principal | None:
        """The entry of a principal, None for a stranger or a removed one."""
        return next((entry for entry in self.principals if entry.principal == principal), None)

    @property
    def partitions(self) -> tuple[str, ...]:
        """The ids of all partitions, ``main`` first."""
        return (MAIN_PARTITION, *sorted(self.access.keys() - {MAIN_PARTITION}))

    def counts(self, slot: str, generation: int) -> bool:
        """Whether there is an integrity head of a slot at a generation."""
        first = self.counted.get(counted_name(slot))
        return first is not None and first <= generation

    @property
    def writes_wait(self) -> bool:
        """Whether all that apps write waits for a reviewer (MEM-14)."""
        return self.review == "all-app-writes-wait"

    def role(self, principal: str) -> str:
        """The role of a principal; empty for a stranger."""
        entry = self.principal(principal)
        return "" if entry is None else entry.role

    def rights(self, principal: str) -> Rights:
        """What a principal may do in which partition; nothing for a stranger, a removed or a suspended one."""
        entry = self.principal(principal)
        return {} if entry is None or entry.role == SUSPENDED else rights_in(self.access, principal)

    def acting_rights(self, principal: str, on_behalf_of: str | None) -> Rights:
        """What whoever acts may do: for somebody else, only what both may (SCOPE-06)."""
        own = self.rights(principal)
        return own if on_behalf_of is None else both(own, self.rights(on_behalf_of))


def serialize(roster: Roster) -> bytes:
    """The bytes that are signed and stored: JSON, sorted members, no white space."""
    document: dict[str, object] = {
        "v": FORMAT_VERSION,
        "context": roster.context_id,
        "version": roster.version,
        "epoch": roster.epoch,
        "owner": _encode(roster.owner),
        "principals": [
            {"id": p.principal, "kem": _encode(p.kem_public), "sig": _encode(p.sig_public), "role": p.role}
            for p in roster.principals
        ],
        "removed": list(roster.removed),
        "generations": {},  # once meant for slots whose keys change alone
    }
    if roster.access:
        document["access"] = {
            partition: {name: [right for right in RIGHTS if right in rights] for name, rights in people.items()}
            for partition, people in roster.access.items()
        }
    if roster.review != "off":
        document["review"] = roster.review
    if roster.oldest is not None:
        document["oldest"] = roster.oldest
    if roster.counted:
        document["counted"] = dict(roster.counted)
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def parse(data: bytes) -> Roster:
    """Read a roster; anything that ``serialize`` could not have written is a CorruptError."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptError("the roster is not JSON") from error
    try:
        roster = _read(document)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise CorruptError("the roster does not follow its format") from error
    if serialize(roster) != data:
        raise CorruptError("the roster is not in its canonical form")
    return roster


def _read(document: object) -> Roster:
    members = _members(document, _MEMBERS, _OPTIONAL)
    if members["v"] != FORMAT_VERSION:
        raise ValueError("unknown format version")
    principals = tuple(_principal(entry) for entry in cast(list[object], members["principals"]))
    epoch = int(cast(int, members["epoch"]))
    oldest = int(cast(int, members["oldest"])) if "oldest" in members else None
    if members["generations"] != {} or (oldest is not None and not 1 <= oldest < epoch):
        raise ValueError("unknown generations")
    counted = {_text(name): int(first) for name, first in cast(dict[str, int], members.get("counted", {})).items()}
    if not all(1 <= first <= epoch for first in counted.values()):
        raise ValueError("unknown generations")
    return Roster(
        context_id=_text(members["context"]),
        version=int(cast(int, members["version"])),
        epoch=epoch,
        owner=_decode(members["owner"]),
        principals=principals,
        removed=tuple(_text(entry) for entry in cast(list[object], members["removed"])),
        access=_access(members.get("access", {})),
        review=parse_review_mode(_text(members.get("review", "off"))),
        oldest=oldest,
        counted=MappingProxyType(counted),
    )


def features(roster: Roster) -> tuple[str, ...]:
    """The optional features (§2.3) that a context uses by what stands in its roster."""
    found = {
        "partitions": len(roster.partitions) > 1,
        "review": roster.review != "off",
        "delegation": any(entry.role == AGENT for entry in roster.principals),
    }
    return tuple(name for name, has in found.items() if has)


def _access(value: object) -> AccessLists:
    lists = cast(dict[str, dict[str, list[Right]]], value)
    return MappingProxyType(
        {
            partition: MappingProxyType({name: frozenset(rights) for name, rights in people.items()})
            for partition, people in lists.items()
        }
    )


def _principal(entry: object) -> Principal:
    members = _members(entry, _PRINCIPAL_MEMBERS)
    return Principal(_text(members["id"]), _decode(members["kem"]), _decode(members["sig"]), _text(members["role"]))


def _members(value: object, names: frozenset[str], optional: frozenset[str] = frozenset()) -> dict[str, object]:
    if not isinstance(value, dict) or not names <= set(value) <= names | optional:
        raise ValueError("unexpected members")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    value.encode()  # a lone surrogate stands in no text
    return value


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: object) -> bytes:
    raw = _text(text)
    return base64.urlsafe_b64decode(raw + "=" * (-len(raw) % 4))
