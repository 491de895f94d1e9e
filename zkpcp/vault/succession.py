"""How one owner's key follows another: whoever remembers the earlier one goes on by the later (PCP §9.1, CTX-03).

Implements schemas/formats/succession.md. Every wrap and anchor names the owner whose signature it trusts. When control
is handed over, both sides sign one step: the earlier owner, to whom it goes; the later one, that it is taken. A host
can neither make a step nor leave one out without being noticed: a roster that the remembered owner or its successor has
not signed is refused.

It does NOT tell whoever has seen nothing since that the earlier owner, with the host's help, goes on in another branch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from zkpcp.core.roster import CONTROLLER, MEMBER, Principal, Roster
from zkpcp.core.stored import HandoverRow
from zkpcp.crypto import keyring as keyring_format
from zkpcp.crypto.kdf import lp, u64
from zkpcp.crypto.seal import seal_to
from zkpcp.crypto.sign import verify
from zkpcp.crypto.wipe import wipe
from zkpcp.errors import TamperedError
from zkpcp.vault.keyring import OpenKeyring

_KEY_BYTES: Final = 32
_SIGNATURE_BYTES: Final = 64
_STEP_BYTES: Final = 2 * _KEY_BYTES + 8 + 2 * _SIGNATURE_BYTES


@dataclass(frozen=True, slots=True)
class Step:
    """One succession: ``epoch`` is the last one of the earlier owner."""

    earlier: bytes
    later: bytes
    epoch: int
    offered: bytes
    taken: bytes

    def check(self, context_id: str) -> None:
        """Raise TamperedError unless both sides have signed it."""
        fields = _fields(context_id, self.earlier, self.later, self.epoch)
        verify(self.earlier, self.offered, "succession/offered", *fields)
        verify(self.later, self.taken, "succession/taken", *fields)

    def encode(self) -> bytes:
        """The step as it is stored."""
        return self.earlier + self.later + u64(self.epoch) + self.offered + self.taken


def follow(steps: bytes, context_id: str, owner: bytes, epoch: int) -> bytes:
    """The owner's key now, for whoever remembers ``owner`` at ``epoch``. Raises TamperedError for a forged step."""
    for step in _decoded(steps):
        if step.earlier == owner and step.epoch >= epoch:
            step.check(context_id)
            owner, epoch = step.later, step.epoch + 1
    return owner


def offer(owner: OpenKeyring, principal: str, *, created_ms: int, expires_ms: int) -> HandoverRow:
    """Offer control to a member: the signed word that it goes to them, and the context root, sealed to their key.

    Raises TamperedError when there is no such member in the roster.
    """
    entry = owner.roster.principal(principal)
    if entry is None or entry.role != MEMBER:
        raise TamperedError("there is no such member in the roster")
    roster = owner.roster
    with owner.own_contents() as contents:
        plain = keyring_format.encode(contents)
    try:
        sealed = seal_to(entry.kem_public, plain, _place(roster, principal, expires_ms))
    finally:
        wipe(plain)
    offered = owner.sign(
        "succession/offered", *_fields(roster.context_id, roster.owner, entry.sig_public, roster.epoch)
    )
    row = HandoverRow(roster.context_id, principal, roster.epoch, created_ms, expires_ms, offered, sealed, b"")
    return _signed(row, owner)


def take(member: OpenKeyring, row: HandoverRow) -> Step:
    """Take control that was offered to this member: from here on the keyring holds the context root.

    The roster still names the earlier owner; the caller signs the next one with ``hand_over``. Raises TamperedError for
    an offer that the owner has not made, to somebody else, or in an earlier epoch.
    """
    roster = member.roster
    entry = roster.principal(member.holder)
    if entry is None or (row.context_id, row.principal, row.epoch) != (roster.context_id, member.holder, roster.epoch):
        raise TamperedError("the offer is for somebody else or from before the keys were changed")
    verify(roster.owner, row.signature, "handover", *_row_fields(row))
    fields = _fields(roster.context_id, roster.owner, entry.sig_public, row.epoch)
    step = Step(roster.owner, entry.sig_public, row.epoch, row.offered, member.sign("succession/taken", *fields))
    step.check(roster.context_id)
    member.take_root(row.sealed, _place(roster, row.principal, row.expires_ms))
    return step


def hand_over(roster: Roster, principal: str) -> tuple[bytes, tuple[Principal, ...]]:
    """The next owner's key, and everybody with the roles exchanged: the earlier controller becomes a member."""
    roles = {entry.principal: MEMBER if entry.role == CONTROLLER else entry.role for entry in roster.principals}
    roles[principal] = CONTROLLER
    entries = tuple(replace(entry, role=roles[entry.principal]) for entry in roster.principals)
    owner = next(each.sig_public for each in entries if each.principal == principal)
    return owner, entries


def _decoded(steps: bytes) -> Iterator[Step]:
    if len(steps) % _STEP_BYTES:
        raise TamperedError("the succession of owners has the wrong length")
    for at in range(0, len(steps), _STEP_BYTES):
        part = steps[at : at + _STEP_BYTES]
        keys, rest = part[: 2 * _KEY_BYTES], part[2 * _KEY_BYTES + 8 :]
        epoch = int.from_bytes(part[2 * _KEY_BYTES : 2 * _KEY_BYTES + 8], "big")
        yield Step(keys[:_KEY_BYTES], keys[_KEY_BYTES:], epoch, rest[:_SIGNATURE_BYTES], rest[_SIGNATURE_BYTES:])


def _fields(context_id: str, earlier: bytes, later: bytes, epoch: int) -> tuple[bytes, ...]:
    return context_id.encode(), earlier, later, u64(epoch)


def _place(roster: Roster, principal: str, expires_ms: int) -> bytes:
    return lp(b"handover", roster.context_id.encode(), principal.encode(), u64(roster.epoch), u64(expires_ms))


def _row_fields(row: HandoverRow) -> tuple[bytes, ...]:
    return (
        row.context_id.encode(),
        row.principal.encode(),
        u64(row.epoch),
        u64(row.created_ms),
        u64(row.expires_ms),
        row.offered,
        hashlib.sha256(row.sealed).digest(),
    )


def _signed(row: HandoverRow, owner: OpenKeyring) -> HandoverRow:
    return replace(row, signature=owner.sign("handover", *_row_fields(row)))
