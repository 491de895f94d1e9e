"""The open keyring: the keys one request may use, owned by a ``with`` block and overwritten on leaving it (U2).

A grant's keyring holds exactly the sub keys of its slice. A controller's holds the context root, from which every sub
key is derived on demand. A row's slot and generation choose exactly one key: there is no trial decryption.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from zkpcp.core.roster import Roster
from zkpcp.core.slots import SubKeyName, SubKeyRef, is_sensitive, memory_slot, partition_of
from zkpcp.crypto.kdf import derive, u64
from zkpcp.crypto.keyring import KeyringContents
from zkpcp.crypto.keys import Key, slot_key, sub_key
from zkpcp.crypto.opaque import Opaque
from zkpcp.crypto.seal import KemPrivateKey
from zkpcp.crypto.sign import SigningKey
from zkpcp.crypto.wipe import stack_zero, wipe
from zkpcp.errors import TamperedError


class MissingKeyError(TamperedError):
    """The keyring lacks a key that policy says it has, or that a row claims to be sealed under."""


class OpenKeyring(Opaque):
    """Keys, signing key and roster of one caller for the length of one request."""

    __slots__ = ("_bucket_keys", "_contents", "_cursor_key", "_derived", "_signing", "context_id", "holder", "roster")

    def __init__(
        self,
        context_id: str,
        holder: str,
        roster: Roster,
        *,
        signing: SigningKey,
        cursor_key: Key,
        contents: KeyringContents,
    ) -> None:
        self.context_id = context_id
        self.holder = holder
        self.roster = roster
        self._signing = signing
        self._cursor_key = cursor_key
        self._contents = contents
        self._derived: dict[tuple[str, int, SubKeyName], Key] = {}
        self._bucket_keys: dict[tuple[str, int, int], Key] = {}

    def adopt(self, roster: Roster) -> None:
        """Go on by a newer roster, which the owner has just signed with this keyring."""
        self.roster = roster

    @property
    def is_controller(self) -> bool:
        """Whether the context root is in this keyring."""
        return self._contents.root is not None

    def holds(self, ref: SubKeyRef) -> bool:
        """Whether the live generation of a sub key is here."""
        return self.is_controller or (ref.slot, self.roster.generation(ref.slot), ref.name) in self._contents.keys

    def readable_slots(self) -> frozenset[str]:
        """The memory slots whose pages open with this keyring; for a controller those of every partition."""
        if self.is_controller:
            partitions = self.roster.partitions
            return frozenset(memory_slot(each, sensitive=flag) for each in partitions for flag in (False, True))
        return frozenset(
            slot
            for slot, generation, name in self._contents.keys
            if name == "rec" and partition_of(slot) and generation == self.roster.generation(slot)
        )

    def key(self, slot: str, generation: int, name: SubKeyName) -> memoryview:
        """One sub key. Raises MissingKeyError when it is not in this keyring."""
        held = self._contents.keys.get((slot, generation, name))
        if held is not None:
            return memoryview(held)
        if self._contents.root is None:
            raise MissingKeyError("the keyring lacks the key of this slot")
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

    def live_key(self, slot: str, name: SubKeyName) -> tuple[int, memoryview]:
        """The live generation of a slot and its sub key."""
        generation = self.roster.generation(slot)
        return generation, self.key(slot, generation, name)

    def inbox_public(self, slot: str) -> tuple[int, bytes]:
        """The live generation of a sensitive slot and the public key of its inbox."""
        generation = self.roster.generation(slot)
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
        root = self._contents.root
        if root is None:
            raise MissingKeyError("the keyring lacks the context root")
        slot_bytes = slot_key(root.key, self.context_id, slot, generation)
        try:
            return Key(sub_key(slot_bytes, name))
        finally:
            wipe(slot_bytes)
