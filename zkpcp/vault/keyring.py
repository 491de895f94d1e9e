"""The open keyring: the keys one request may use, owned by a ``with`` block and overwritten on leaving it (U2).

A grant's keyring holds exactly the sub keys of its slice. A controller's holds the context root, from which every sub
key is derived on demand. A row's slot and generation choose exactly one key: there is no trial decryption.

While the keys are being changed, older ones are reached through links: an older sub key sealed under the newer one of
the same slot and purpose, so that a slice reaches its own past and nothing beside it (schemas/formats/key-link.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from zkpcp.core.roster import Roster
from zkpcp.core.slots import SubKeyName, SubKeyRef, is_sensitive, memory_slot, partition_of
from zkpcp.core.stored import KeyLinkRow
from zkpcp.crypto import keyring as keyring_format
from zkpcp.crypto.aead import SALT_BYTES, context_of, open_box, seal
from zkpcp.crypto.kdf import KEY_BYTES, derive, u64
from zkpcp.crypto.keyring import KeyringContents, Root
from zkpcp.crypto.keys import Key, slot_key, sub_key
from zkpcp.crypto.opaque import Opaque
from zkpcp.crypto.seal import KemPrivateKey, open_sealed
from zkpcp.crypto.sign import SigningKey
from zkpcp.crypto.wipe import stack_zero, wipe
from zkpcp.errors import TamperedError
from zkpcp.ports import Entropy


class MissingKeyError(TamperedError):
    """The keyring lacks a key that policy says it has, or that a row claims to be sealed under."""


def link_place(context_id: str, slot: str, generation: int, name: SubKeyName) -> bytes:
    """What the link to a sub key of a generation is bound to (schemas/formats/key-link.md)."""
    return context_of("key-link", context_id.encode(), slot.encode(), u64(generation), name.encode())


class OpenKeyring(Opaque):
    """Keys, signing key and roster of one caller for the length of one request."""

    __slots__ = (
        "_bucket_keys",
        "_contents",
        "_cursor_key",
        "_derived",
        "_kem",
        "_links",
        "_signing",
        "context_id",
        "holder",
        "log_mark",
        "roster",
    )

    def __init__(
        self,
        context_id: str,
        holder: str,
        roster: Roster,
        *,
        signing: SigningKey,
        cursor_key: Key,
        contents: KeyringContents,
        kem: KemPrivateKey | None = None,
        log_mark: bytes = b"",
    ) -> None:
        self.context_id = context_id
        self.holder = holder
        self.roster = roster
        self._signing = signing
        self._cursor_key = cursor_key
        self._contents = contents
        self._kem = kem
        self.log_mark = log_mark
        self._derived: dict[tuple[str, int, SubKeyName], Key] = {}
        self._bucket_keys: dict[tuple[str, int, int], Key] = {}
        self._links: dict[tuple[str, int, SubKeyName], bytes] = {}

    def adopt(self, roster: Roster) -> None:
        """Go on by a newer roster, which the owner has just signed with this keyring."""
        self.roster = roster

    def take_root(self, sealed: bytes, info: bytes) -> None:
        """Take in the context root, which was sealed to this holder. Raises TamperedError when there is none in it."""
        if self._kem is None:
            raise MissingKeyError("nothing is sealed to the holder of this keyring")
        plain = open_sealed(self._kem, sealed, info)
        try:
            contents = keyring_format.decode(plain)
        finally:
            wipe(plain)
        if contents.root is None or contents.root.epoch != self.roster.epoch:
            contents.wipe()
            raise MissingKeyError("what is sealed to the holder of this keyring has no root of this epoch")
        spent, self._contents = self._contents, contents
        spent.wipe()

    @property
    def slots(self) -> frozenset[str]:
        """The slots of which this keyring holds a sub key itself; none for a controller, who derives them."""
        return frozenset(slot for slot, _, _ in self._contents.keys)

    def link(self, rows: Iterable[KeyLinkRow]) -> None:
        """Take in the links to older keys, which are opened when a row asks for one."""
        for row in rows:
            self._links[row.slot, row.generation, row.name] = row.sealed

    def renew(self, roster: Roster, refs: Iterable[SubKeyRef], entropy: Entropy) -> list[KeyLinkRow]:
        """Go on by a roster of the next generation with a fresh root, and link the live sub keys ``refs`` to it.

        For the controller, who signs that roster. The root before it is overwritten: from here on older keys come from
        the links alone.
        """
        before = self.roster.generation
        if not self.is_controller or roster.generation != before + 1:
            raise MissingKeyError("only a controller's keyring goes on to the next generation")
        older = [(ref, self.key(ref.slot, before, ref.name)) for ref in refs]
        spent, self.roster = self._contents, roster
        fresh = Root(roster.epoch, bytearray(entropy.bytes(KEY_BYTES)))
        self._contents = KeyringContents(keys={}, inboxes={}, root=fresh)
        spent.wipe()
        return [self._linked(ref, before, key, entropy) for ref, key in older]

    @contextmanager
    def own_contents(self) -> Iterator[KeyringContents]:
        """What a controller's own keyring holds, to be sealed again; the keys stay this keyring's."""
        if not self.is_controller:
            raise MissingKeyError("only a controller's keyring holds the context root")
        yield self._contents

    @property
    def is_controller(self) -> bool:
        """Whether the context root is in this keyring."""
        return self._contents.root is not None

    def holds(self, ref: SubKeyRef) -> bool:
        """Whether the live generation of a sub key is here."""
        return self.is_controller or (ref.slot, self.roster.generation, ref.name) in self._contents.keys

    def readable_slots(self) -> frozenset[str]:
        """The memory slots whose pages open with this keyring; for a controller those of every partition."""
        if self.is_controller:
            partitions = self.roster.partitions
            return frozenset(memory_slot(each, sensitive=flag) for each in partitions for flag in (False, True))
        return frozenset(
            slot
            for slot, generation, name in self._contents.keys
            if name == "rec" and partition_of(slot) and generation == self.roster.generation
        )

    def key(self, slot: str, generation: int, name: SubKeyName) -> memoryview:
        """One sub key. Raises MissingKeyError when it is not in this keyring."""
        held = self._contents.keys.get((slot, generation, name))
        if held is not None:
            return memoryview(held)
        derived = self._derived.get((slot, generation, name))
        if derived is None:
            derived = self._derive(slot, generation, name)
            self._derived[slot, generation, name] = derived
        return derived.view()

    def bucket_key(self, slot: str, generation: int, segment: int) -> memoryview:
        """The key that spreads a segment's words over its buckets. Raises MissingKeyError."""
        held = self._bucket_keys.get((slot, generation, segment))
        if held is None:
            place = (self.context_id.encode(), slot.encode(), u64(generation), u64(segment))
            held = Key(derive(self.key(slot, generation, "terms"), "index-bucket", *place))
            self._bucket_keys[slot, generation, segment] = held
        return held.view()

    def integrity_key(self, slot: str, generation: int) -> memoryview:
        """The key by which the rows of a slot are counted. Raises MissingKeyError.

        Memory slots have a sub key for it; elsewhere it is derived from ``rec``, which is all that an app holds there.
        """
        if partition_of(slot) is not None:
            return self.key(slot, generation, "integrity")
        held = self._derived.get((slot, generation, "integrity"))
        if held is None:
            held = Key(derive(self.key(slot, generation, "rec"), "integrity"))
            self._derived[slot, generation, "integrity"] = held
        return held.view()

    def can_count(self, slot: str) -> bool:
        """Whether this keyring holds the key by which the rows of a slot are counted."""
        return self.holds(SubKeyRef(slot, "rec" if partition_of(slot) is None else "integrity"))

    def live_key(self, slot: str, name: SubKeyName) -> tuple[int, memoryview]:
        """The live generation of a slot and its sub key."""
        generation = self.roster.generation
        return generation, self.key(slot, generation, name)

    def inbox_public(self, slot: str) -> tuple[int, bytes]:
        """The live generation of a sensitive slot and the public key of its inbox."""
        generation = self.roster.generation
        held = self._contents.inboxes.get((slot, generation))
        if held is not None:
            return generation, held
        return generation, self.inbox_private(slot, generation).public_bytes()

    def inbox_private(self, slot: str, generation: int) -> KemPrivateKey:
        """The private half of a sensitive slot's inbox."""
        if not is_sensitive(slot):
            raise MissingKeyError("only sensitive slots have an inbox")
        return KemPrivateKey(self.key(slot, generation, "inbox"))

    def sign(self, label: str, *fields: bytes) -> bytes:
        """Sign as the holder of this keyring."""
        return self._signing.sign(label, *fields)

    def cursor_key(self) -> memoryview:
        """The key that only this holder has, for the cursors it is given."""
        return self._cursor_key.view()

    def close(self) -> None:
        """Overwrite every key; the keyring opens nothing afterwards."""
        self._cursor_key.wipe()
        for derived in self._derived.values():
            derived.wipe()
        self._derived.clear()
        for bucket_key in self._bucket_keys.values():
            bucket_key.wipe()
        self._bucket_keys.clear()
        self._contents.wipe()
        stack_zero()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _derive(self, slot: str, generation: int, name: SubKeyName) -> Key:
        if generation < self.roster.generation:
            return self._older(slot, generation, name)
        root = self._contents.root
        if root is None or generation > self.roster.generation:
            raise MissingKeyError("the keyring lacks the key of this slot")
        slot_bytes = slot_key(root.key, self.context_id, slot, generation)
        try:
            return Key(sub_key(slot_bytes, name))
        finally:
            wipe(slot_bytes)

    def _older(self, slot: str, generation: int, name: SubKeyName) -> Key:
        """A key from before: its link opens with the next newer one, up to the live one, which this keyring holds."""
        sealed = self._links.get((slot, generation, name))
        if sealed is None:
            raise MissingKeyError("the keyring lacks the key of this slot")
        with Key(derive(self.key(slot, generation + 1, name), "link")) as key:
            return Key(open_box(key.view(), sealed, link_place(self.context_id, slot, generation, name)))

    def _linked(self, ref: SubKeyRef, generation: int, key: memoryview, entropy: Entropy) -> KeyLinkRow:
        context = link_place(self.context_id, ref.slot, generation, ref.name)
        with Key(derive(self.key(ref.slot, generation + 1, ref.name), "link")) as own:
            sealed = seal(own.view(), key, context, salt=entropy.bytes(SALT_BYTES))
        self._links[ref.slot, generation, ref.name] = sealed
        return KeyLinkRow(self.context_id, ref.slot, generation, ref.name, sealed)
