"""The roster: the one signed document from which alone keyrings are sealed.

It lists who belongs to a context with which public keys, the epoch, the live generation of every slot whose
generation is not 1, and the ids that were removed and never come back. The owner signs its exact bytes; parsing is
strict, so that two readers cannot see two documents. A stale roster is recognised only by a wrap that remembers a
newer version (threat-model/README.md).
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, cast

from zkpcp.errors import CorruptError

FORMAT_VERSION: Final = 1
_MEMBERS: Final = frozenset({"v", "context", "version", "epoch", "owner", "principals", "removed", "generations"})
_PRINCIPAL_MEMBERS: Final = frozenset({"id", "kem", "sig", "role"})


@dataclass(frozen=True, slots=True)
class Principal:
    """A principal with its public keys: X-Wing ``kem_public`` (1216 bytes) and Ed25519 ``sig_public`` (32 bytes)."""

    principal: str
    kem_public: bytes
    sig_public: bytes
    role: str


@dataclass(frozen=True, slots=True)
class Roster:
    """One version of the roster. ``owner`` is the Ed25519 key that has to sign it."""

    context_id: str
    version: int
    epoch: int
    owner: bytes
    principals: tuple[Principal, ...]
    removed: tuple[str, ...] = ()
    generations: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    def generation(self, slot: str) -> int:
        """The live generation of a slot; 1 until it is bumped."""
        return self.generations.get(slot, 1)

    def principal(self, principal: str) -> Principal | None:
        """The entry of a principal, None for a stranger or a removed one."""
        return next((entry for entry in self.principals if entry.principal == principal), None)


def serialize(roster: Roster) -> bytes:
    """The bytes that are signed and stored: JSON, sorted members, no white space."""
    document = {
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
        "generations": dict(roster.generations),
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def parse(data: bytes) -> Roster:
    """Read a roster; anything that ``serialize`` could not have written is a CorruptError."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptError("the roster is not JSON") from error
    try:
        roster = _read(document)
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise CorruptError("the roster does not follow its format") from error
    if serialize(roster) != data:
        raise CorruptError("the roster is not in its canonical form")
    return roster


def _read(document: object) -> Roster:
    members = _members(document, _MEMBERS)
    if members["v"] != FORMAT_VERSION:
        raise ValueError("unknown format version")
    principals = tuple(_principal(entry) for entry in cast(list[object], members["principals"]))
    generations = {str(k): int(v) for k, v in cast(dict[str, int], members["generations"]).items()}
    return Roster(
        context_id=str(members["context"]),
        version=int(cast(int, members["version"])),
        epoch=int(cast(int, members["epoch"])),
        owner=_decode(members["owner"]),
        principals=principals,
        removed=tuple(str(entry) for entry in cast(list[object], members["removed"])),
        generations=MappingProxyType(generations),
    )


def _principal(entry: object) -> Principal:
    members = _members(entry, _PRINCIPAL_MEMBERS)
    return Principal(str(members["id"]), _decode(members["kem"]), _decode(members["sig"]), str(members["role"]))


def _members(value: object, names: frozenset[str]) -> dict[str, object]:
    if not isinstance(value, dict) or set(value) != names:
        raise ValueError("unexpected members")
    return value


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: object) -> bytes:
    raw = str(text)
    return base64.urlsafe_b64decode(raw + "=" * (-len(raw) % 4))
