"""Who may open what: founding a context, opening a principal's or a grant's keyring, making a grant.

Two levels of signatures (PCP §9.1): the owner signs the roster and the principals' keyrings; each principal signs the
rows and keyrings of its own grants. HPKE does not authenticate its sender, so what opens counts only with these
signatures, and the anchor, written once under a key that only the token's holder has, pins whose they must be.

It cannot recognise a complete old state of the database beyond what a wrap remembers (``seeds.Memory``).
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from types import MappingProxyType

from zkpcp.core import roster as roster_format
from zkpcp.core.roster import AGENT, CONTROLLER, MEMBER, Principal, Roster
from zkpcp.core.scopes import Offer, effective, join, known_scopes, scopes_of_role
from zkpcp.core.slots import Slice, counted_names, slice_for
from zkpcp.core.stored import GrantRow, HolderKind, KeyringRow, RosterRow
from zkpcp.crypto import keyring as keyring_format
from zkpcp.crypto.aead import SALT_BYTES, context_of, open_box, seal
from zkpcp.crypto.kdf import KEY_BYTES, derive, lp, u64
from zkpcp.crypto.keyring import KeyringContents, Root
from zkpcp.crypto.keys import Holder, Key, anchor_key, kem_seed, sign_seed
from zkpcp.crypto.seal import KemPrivateKey, open_sealed, seal_to
from zkpcp.crypto.sign import SigningKey, verify
from zkpcp.crypto.wipe import wipe
from zkpcp.errors import TamperedError
from zkpcp.ports import Entropy
from zkpcp.vault import succession
from zkpcp.vault.keyring import OpenKeyring
from zkpcp.vault.seeds import Memory, OpenedSeed

FIRST_EPOCH = 1
_ANCHOR_BYTES = 32 + 8


@dataclass(frozen=True, slots=True)
class Founding:
    """A new context's rows, and the controller's seed, which the caller wraps and then wipes."""

    roster: RosterRow
    keyring: KeyringRow
    opened: OpenedSeed


@dataclass(frozen=True, slots=True)
class NewGrant:
    """A new grant's rows, and its seed, which the caller wraps for a token and then wipes."""

    row: GrantRow
    keyring: KeyringRow
    opened: OpenedSeed


def new_seed(entropy: Entropy) -> Key:
    """A fresh 32-byte seed."""
    return Key(bytearray(entropy.bytes(KEY_BYTES)))


def found(context_id: str, controller: str, entropy: Entropy) -> Founding:
    """Make the controller's seed, the first context root, roster and controller keyring."""
    seed = new_seed(entropy)
    kem, signing = _key_pairs(seed, "principal")
    owner = signing.public_bytes()
    roster = Roster(
        context_id=context_id,
        version=1,
        epoch=FIRST_EPOCH,
        owner=owner,
        principals=(Principal(controller, kem.public_bytes(), owner, CONTROLLER),),
        counted=MappingProxyType(dict.fromkeys(counted_names(), FIRST_EPOCH)),
    )
    contents = KeyringContents(keys={}, inboxes={}, root=Root(FIRST_EPOCH, bytearray(entropy.bytes(KEY_BYTES))))
    try:
        keyring = _sealed_keyring(contents, roster, "principal", controller, kem.public_bytes(), signing)
    finally:
        contents.wipe()
    return Founding(sign_roster(roster, signing), keyring, OpenedSeed(seed, Memory.of(roster)))


def sign_roster(roster: Roster, owner: SigningKey | OpenKeyring) -> RosterRow:
    """The roster's exact bytes with the owner's signature."""
    body = roster_format.serialize(roster)
    return RosterRow(roster.context_id, roster.version, body, owner.sign("roster", body))


def verified_roster(row: RosterRow, memory: Memory) -> Roster:
    """Check a roster row against what the caller's wrap remembers: owner, signature, context, version, epoch.

    Nothing is read from a body that the remembered owner, or who followed it by the word of both, did not sign.
    """
    owner = succession.follow(row.succession, row.context_id, memory.owner, memory.epoch)
    verify(owner, row.signature, "roster", row.body)
    roster = roster_format.parse(row.body)
    replace(memory, owner=owner).check(roster)
    if roster.context_id != row.context_id or roster.version != row.version:
        raise TamperedError("the roster belongs to another place")
    return roster


def open_principal(principal: str, opened: OpenedSeed, roster_row: RosterRow, keyring_row: KeyringRow) -> OpenKeyring:
    """Open a principal's keyring. The caller keeps ``opened`` and wipes it.

    1. The roster is signed by the owner whom the wrap remembers, and not older than it remembers.
    2. The principal is in the roster with the very keys that its seed gives.
    3. The keyring is signed by the owner, for this principal and the roster's epoch, and opens.
    """
    kem, signing = _key_pairs(opened.seed, "principal")
    roster = verified_roster(roster_row, opened.memory)
    entry = roster.principal(principal)
    if entry is None or entry.kem_public != kem.public_bytes() or entry.sig_public != signing.public_bytes():
        raise TamperedError("the roster lists other keys for this principal")
    if not entry.is_person:
        raise TamperedError("this principal has no keys now")
    contents = _opened_keyring(keyring_row, roster, "principal", principal, kem, (roster.owner,))
    return OpenKeyring(
        roster.context_id,
        principal,
        roster,
        signing=signing,
        cursor_key=_cursor_key(opened.seed),
        contents=contents,
        kem=kem,
        log_mark=opened.memory.log,
    )


def make_grant(
    owner: OpenKeyring,
    *,
    grant: GrantRow,
    offer: Offer,
    entropy: Entropy,
) -> NewGrant:
    """Fill in keys, signature and anchor of a grant that its principal has approved, and seal its sliced keyring.

    ``owner`` is the consenting principal's open keyring; ``grant`` carries everything but keys; ``offer`` is
    the context's.
    """
    seed = new_seed(entropy)
    kem, signing = _key_pairs(seed, "grant")
    unsigned = replace(grant, kem_public=kem.public_bytes(), sig_public=signing.public_bytes())
    row = replace(
        unsigned,
        signature=owner.sign("grant", *_grant_fields(unsigned)),
        anchor=_sealed_anchor(seed, unsigned, owner.roster, entropy),
    )
    return NewGrant(row, _grant_keyring(owner, row, offer), OpenedSeed(seed, Memory.of(owner.roster)))


def reseal_grant(owner: OpenKeyring, grant: GrantRow, offer: Offer) -> KeyringRow:
    """A grant's keyring made anew by the owner, as scopes and access lists are now; its holder needs to do nothing.

    Raises TamperedError for a grant that its principal has not signed: nothing is sealed to a key of somebody else.
    """
    return _grant_keyring(owner, grant, offer)


def open_grant(grant: GrantRow, opened: OpenedSeed, roster_row: RosterRow, keyring_row: KeyringRow) -> OpenKeyring:
    """Open a grant's keyring. The caller keeps ``opened`` and wipes it.

    1. The anchor opens under the grant's seed, for this context, grant and its scopes: it names the owner.
    2. The roster is signed by that owner and not older than the wrap remembers or than the anchor's epoch.
    3. The grant's row is signed by its principal, who is in the roster, and lists the keys that the seed gives.
    4. The keyring is signed by that principal or the owner, for this grant and the roster's epoch, and opens.
    """
    owner, first_epoch = _opened_anchor(opened.seed, grant)
    roster = verified_roster(roster_row, opened.memory)
    if succession.follow(roster_row.succession, grant.context_id, owner, first_epoch) != roster.owner:
        raise TamperedError("anchor and token wrap name different owners")
    if roster.epoch < first_epoch:
        raise TamperedError("the roster is older than the grant")
    kem, signing = _key_pairs(opened.seed, "grant")
    signer = verified_grant(grant, roster)
    if grant.kem_public != kem.public_bytes() or grant.sig_public != signing.public_bytes():
        raise TamperedError("the grant lists other keys than its own")
    signers = (signer.sig_public, roster.owner)
    contents = _opened_keyring(keyring_row, roster, "grant", grant.grant_id, kem, signers)
    return OpenKeyring(
        roster.context_id,
        grant.grant_id,
        roster,
        signing=signing,
        cursor_key=_cursor_key(opened.seed),
        contents=contents,
        log_mark=opened.memory.log,
    )


def verified_grant(grant: GrantRow, roster: Roster) -> Principal:
    """The roster entry of whoever signed this grant's row: its principal, or the person whom an agent acts for.

    Raises TamperedError, also when one of the two is not in the roster any more or is suspended (SCOPE-06).
    """
    signer = signed_grant(grant, roster)
    if not signer.is_person:
        raise TamperedError("the grant's principal is suspended")
    return signer


def signed_grant(grant: GrantRow, roster: Roster) -> Principal:
    """The same, of a suspended person too: their grants stay, and open nothing until that ends."""
    signer = roster.principal(grant.on_behalf_of or grant.principal)
    if signer is None or signer.role == AGENT or grant.context_id != roster.context_id:
        raise TamperedError("the grant's principal is not in the roster")
    agent = roster.principal(grant.principal)
    if grant.on_behalf_of is not None and (agent is None or agent.role != AGENT):
        raise TamperedError("the grant's agent is not in the roster")
    verify(signer.sig_public, grant.signature, "grant", *_grant_fields(grant))
    return signer


def new_member(principal: str, seed: Key) -> Principal:
    """A newcomer's entry of the roster, with the public keys of the seed."""
    kem, signing = _key_pairs(seed, "principal")
    return Principal(principal, kem.public_bytes(), signing.public_bytes(), MEMBER)


def seal_member_keyring(owner: OpenKeyring, principal: str, offer: Offer) -> KeyringRow:
    """A member's keyring by the roster as it is: what the access lists open, and never the root.

    The entry of the roster is the owner's own word for the public key. Raises TamperedError when there is none.
    """
    entry = owner.roster.principal(principal)
    if entry is None or not entry.is_person or entry.role == CONTROLLER:
        raise TamperedError("there is no such member in the roster")
    scopes = effective(known_scopes(offer), offer) & scopes_of_role(entry.role, offer)
    contents = _slice(owner, slice_for(scopes, owner.roster.rights(principal), writes_wait=owner.roster.writes_wait))
    try:
        return _sealed_keyring(contents, owner.roster, "principal", principal, entry.kem_public, owner)
    finally:
        contents.wipe()


def seal_owner_keyring(owner: OpenKeyring) -> KeyringRow:
    """The controller's own keyring by the roster as it is, with the context root."""
    entry = owner.roster.principal(owner.holder)
    if entry is None or entry.role != CONTROLLER:
        raise TamperedError("the roster does not list whoever controls the context")
    with owner.own_contents() as contents:
        return _sealed_keyring(contents, owner.roster, "principal", owner.holder, entry.kem_public, owner)


def _grant_keyring(keys: OpenKeyring, grant: GrantRow, offer: Offer) -> KeyringRow:
    rights = keys.roster.acting_rights(grant.principal, grant.on_behalf_of)
    signer = verified_grant(grant, keys.roster)
    scopes = effective(grant.scopes, offer) & scopes_of_role(signer.role, offer)
    contents = _slice(keys, slice_for(scopes, rights, writes_wait=keys.roster.writes_wait))
    try:
        return _sealed_keyring(contents, keys.roster, "grant", grant.grant_id, grant.kem_public, keys)
    finally:
        contents.wipe()


def _key_pairs(seed: Key, holder: Holder) -> tuple[KemPrivateKey, SigningKey]:
    with Key(kem_seed(seed.view(), holder)) as kem, Key(sign_seed(seed.view(), holder)) as sig:
        return KemPrivateKey(kem.view()), SigningKey.from_seed(sig.view())


def _cursor_key(seed: Key) -> Key:
    return Key(derive(seed.view(), "cursor"))


def _slice(owner: OpenKeyring, wanted: Slice) -> KeyringContents:
    keys = {}
    for ref in wanted.sub_keys:
        generation, key = owner.live_key(ref.slot, ref.name)
        copy = bytearray(KEY_BYTES)
        copy[:] = key
        keys[ref.slot, generation, ref.name] = copy
    inboxes = {}
    for slot in wanted.inboxes:
        generation, public = owner.inbox_public(slot)
        inboxes[slot, generation] = public
    return KeyringContents(keys=keys, inboxes=inboxes, root=None)


def _sealed_keyring(
    contents: KeyringContents,
    roster: Roster,
    kind: HolderKind,
    holder: str,
    public: bytes,
    signer: SigningKey | OpenKeyring,
) -> KeyringRow:
    plain = keyring_format.encode(contents)
    place = _keyring_place(roster, kind, holder)
    try:
        sealed = seal_to(public, plain, lp(b"keyring", *place))
    finally:
        wipe(plain)
    signature = signer.sign("keyring", *place, hashlib.sha256(sealed).digest())
    return KeyringRow(roster.context_id, kind, holder, roster.epoch, sealed, signature)


def check_keyring(row: KeyringRow, roster: Roster, kind: HolderKind, holder: str, signers: Iterable[bytes]) -> None:
    """Raise TamperedError unless one of these has signed the keyring, for this holder and epoch; opens nothing."""
    digest = hashlib.sha256(row.sealed).digest()
    _signed_by_one_of(signers, row.signature, "keyring", *_keyring_place(roster, kind, holder), digest)


def _opened_keyring(
    row: KeyringRow, roster: Roster, kind: HolderKind, holder: str, private: KemPrivateKey, signers: Iterable[bytes]
) -> KeyringContents:
    place = _keyring_place(roster, kind, holder)
    check_keyring(row, roster, kind, holder, signers)
    plain = open_sealed(private, row.sealed, lp(b"keyring", *place))
    try:
        return keyring_format.decode(plain)
    finally:
        wipe(plain)


def _signed_by_one_of(signers: Iterable[bytes], signature: bytes, label: str, *fields: bytes) -> None:
    for signer in signers:
        # No failure is kept in a variable: it would hold this frame and those above it until the next collection.
        with contextlib.suppress(TamperedError):
            return verify(signer, signature, label, *fields)
    raise TamperedError("nobody who may sign this has signed it")


def _keyring_place(roster: Roster, kind: HolderKind, holder: str) -> tuple[bytes, ...]:
    return roster.context_id.encode(), kind.encode(), holder.encode(), u64(roster.epoch)


def _grant_fields(grant: GrantRow) -> tuple[bytes, ...]:
    return (
        grant.context_id.encode(),
        grant.grant_id.encode(),
        grant.principal.encode(),
        (grant.on_behalf_of or "").encode(),
        grant.client_id.encode(),
        grant.client_name.encode(),
        join(grant.scopes).encode(),
        u64(grant.created_ms),
        grant.kem_public,
        grant.sig_public,
    )


def _anchor_context(grant: GrantRow) -> bytes:
    return context_of("anchor", grant.context_id.encode(), grant.grant_id.encode(), join(grant.scopes).encode())


def _sealed_anchor(seed: Key, grant: GrantRow, roster: Roster, entropy: Entropy) -> bytes:
    with Key(anchor_key(seed.view())) as key:
        payload = roster.owner + u64(roster.epoch)
        return seal(key.view(), payload, _anchor_context(grant), salt=entropy.bytes(SALT_BYTES))


def _opened_anchor(seed: Key, grant: GrantRow) -> tuple[bytes, int]:
    with Key(anchor_key(seed.view())) as key:
        payload = bytes(open_box(key.view(), grant.anchor, _anchor_context(grant)))
    if len(payload) != _ANCHOR_BYTES:
        raise TamperedError("an anchor has the wrong length")
    return payload[:32], int.from_bytes(payload[32:], "big")
