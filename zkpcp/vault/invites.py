"""Invites: how a newcomer and the controller know each other's keys although the host stands between them.

Implements schemas/formats/invite.md (PCP §9.1). The code goes from person to person and is stored nowhere in the clear.
Behind it stand the offer, which names the owner's key to the newcomer, and the MAC by which the controller knows the
newcomer's keys. Whoever has the code first is the one who joins: it does NOT say who that is.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from zkpcp.core.access import Rights, parse_rights
from zkpcp.core.roster import MEMBER, Principal
from zkpcp.core.slots import CONTROLLER
from zkpcp.core.stored import InviteRow, JoinedKeys
from zkpcp.crypto import recovery
from zkpcp.crypto.aead import SALT_BYTES, context_of, open_box, seal
from zkpcp.crypto.kdf import derive, u64
from zkpcp.crypto.keys import Key
from zkpcp.crypto.padding import pad, unpad
from zkpcp.crypto.recovery import RecoveryCode
from zkpcp.crypto.wipe import wipe
from zkpcp.errors import InvalidInputError, TamperedError
from zkpcp.ports import Entropy
from zkpcp.vault.keyring import OpenKeyring
from zkpcp.vault.seeds import Memory

_OWNER_BYTES: Final = 32
_OFFER_BYTES: Final = _OWNER_BYTES + 16


@dataclass(frozen=True, slots=True, repr=False)
class KeptInvite:
    """What the controller keeps of an invite: its code, which the caller wipes, and the rights it brings."""

    code: RecoveryCode
    rights: Rights


def seal_invite(
    keys: OpenKeyring,
    code: RecoveryCode,
    *,
    principal: str,
    rights: Rights,
    created_ms: int,
    expires_ms: int,
    entropy: Entropy,
) -> InviteRow:
    """Make the row of an invite: an offer under its code, and code and rights under the controller's own key."""
    context_id, lookup_id = keys.context_id, recovery.invite_lookup_id(code, keys.context_id)
    place = _place(context_id, lookup_id, principal, expires_ms)
    with _key(code, context_id, principal, "offer") as key:
        offer = keys.roster.owner + u64(keys.roster.epoch) + u64(keys.roster.version)
        sealed = seal(key.view(), offer, context_of("invite/offer", *place), salt=entropy.bytes(SALT_BYTES))
    row = InviteRow(context_id, lookup_id, principal, created_ms, expires_ms, sealed, b"")
    return seal_kept(keys, row, KeptInvite(code, rights), entropy)


def seal_kept(keys: OpenKeyring, row: InviteRow, kept: KeptInvite, entropy: Entropy) -> InviteRow:
    """The invite with what the controller keeps of it under the live key; the row names no generation."""
    place = _place(keys.context_id, row.lookup_id, row.principal, row.expires_ms)
    rights = {each: sorted(held) for each, held in kept.rights.items()}
    plain = pad(json.dumps([kept.code.printable(), rights]).encode())
    try:
        generation, own = keys.live_key(CONTROLLER, "rec")
        box = seal(own, plain, context_of("invite/kept", u64(generation), *place), salt=entropy.bytes(SALT_BYTES))
    finally:
        wipe(plain)
    return replace(row, kept=box)


def open_offer(code: RecoveryCode, row: InviteRow) -> Memory:
    """What a newcomer has to remember: the owner's key and how far the context had come. Raises TamperedError."""
    place = _place(row.context_id, row.lookup_id, row.principal, row.expires_ms)
    with _key(code, row.context_id, row.principal, "offer") as key:
        offer = bytes(open_box(key.view(), row.offer, context_of("invite/offer", *place)))
    if len(offer) != _OFFER_BYTES:
        raise TamperedError("an invite's offer has the wrong length")
    rest = offer[_OWNER_BYTES:]
    return Memory(offer[:_OWNER_BYTES], int.from_bytes(rest[:8], "big"), int.from_bytes(rest[8:], "big"))


def joined_keys(code: RecoveryCode, row: InviteRow, entry: Principal, joined_ms: int) -> JoinedKeys:
    """A newcomer's public keys, authenticated by the code."""
    mac = _mac(code, row, entry.kem_public, entry.sig_public)
    return JoinedKeys(joined_ms, entry.kem_public, entry.sig_public, mac)


def open_kept(keys: OpenKeyring, row: InviteRow) -> KeptInvite:
    """What the controller kept of an invite. Raises TamperedError."""
    place = _place(keys.context_id, row.lookup_id, row.principal, row.expires_ms)
    generation, own = keys.live_key(CONTROLLER, "rec")
    plain = open_box(own, row.kept, context_of("invite/kept", u64(generation), *place))
    try:
        kept = _kept(bytes(unpad(plain)))
    finally:
        wipe(plain)
    if kept is None:
        raise TamperedError("an invite does not hold what was kept in it")
    return kept


def newcomer(keys: OpenKeyring, row: InviteRow) -> tuple[Principal, Rights]:
    """The entry of the roster for somebody who has joined, and their rights.

    Raises TamperedError for keys that do not come from whoever had the code: nothing is ever sealed to them.
    """
    if row.joined is None:
        raise TamperedError("nobody has joined by this invite")
    kept = open_kept(keys, row)
    try:
        expected = _mac(kept.code, row, row.joined.kem_public, row.joined.sig_public)
    finally:
        kept.code.wipe()
    if not hmac.compare_digest(expected, row.joined.mac):
        raise TamperedError("a newcomer's keys do not come from whoever had the invite")
    return Principal(row.principal, row.joined.kem_public, row.joined.sig_public, MEMBER), kept.rights


def _kept(data: bytes) -> KeptInvite | None:
    try:
        text, rights = json.loads(data)
        named: Mapping[str, list[str]] = rights
        held = {each: parse_rights(names) for each, names in named.items()}
        return KeptInvite(recovery.parse_code(text), MappingProxyType(held))
    except (ValueError, TypeError, AttributeError, InvalidInputError):
        return None


def _key(code: RecoveryCode, context_id: str, principal: str, use: str) -> Key:
    with Key(recovery.invite_key(code, context_id, principal)) as key:
        return Key(derive(key.view(), f"invite/{use}"))


def _mac(code: RecoveryCode, row: InviteRow, kem_public: bytes, sig_public: bytes) -> bytes:
    with _key(code, row.context_id, row.principal, "mac") as key:
        return bytes(derive(key.view(), "invite/keys", row.lookup_id, kem_public, sig_public))


def _place(context_id: str, lookup_id: bytes, principal: str, expires_ms: int) -> tuple[bytes, ...]:
    return context_id.encode(), lookup_id, principal.encode(), u64(expires_ms)
