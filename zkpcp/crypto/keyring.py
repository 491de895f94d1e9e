"""The keyring: exactly the slot keys that its holder may use, in one strict binary form.

Implements schemas/formats/keyring.md. Each content has one encoding; decoding takes that one and refuses every other.
It does NOT seal or sign: the result goes through `seal.seal_to` and `sign`, bound to context, holder, epoch and scopes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar

from zkpcp.crypto.buffers import Buffer
from zkpcp.crypto.kdf import KEY_BYTES
from zkpcp.crypto.keys import SUB_KEYS, SubKey
from zkpcp.crypto.opaque import Opaque
from zkpcp.crypto.seal import PUBLIC_BYTES
from zkpcp.crypto.wipe import wipe
from zkpcp.errors import CorruptError

SlotGeneration: TypeAlias = tuple[str, int]
"""A slot's name and its generation."""

KeyAddress: TypeAlias = tuple[str, int, SubKey]
"""What a sub key is for: slot, generation, purpose."""

VERSION: Final = 0x01
MAXIMUM_SLOT_BYTES: Final = 255
MAXIMUM_ENTRIES: Final = 0xFFFF

_NUMBER_BYTES: Final = 8
_COUNT_BYTES: Final = 2
_HEAD_BYTES: Final = 2  # version, whether there is a root
_ROOT_BYTES: Final = _NUMBER_BYTES + KEY_BYTES

_Address = TypeVar("_Address")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Root(Opaque):
    """The context root of an epoch; only controllers' keyrings have one."""

    epoch: int
    key: bytearray


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class KeyringContents(Opaque):
    """Sub keys, public inbox keys and, for a controller, the root; the keyring owns every key buffer in it."""

    keys: Mapping[KeyAddress, bytearray]
    inboxes: Mapping[SlotGeneration, bytes]
    root: Root | None

    def wipe(self) -> None:
        """Overwrite every key of this keyring."""
        for key in self.keys.values():
            wipe(key)
        if self.root is not None:
            wipe(self.root.key)


def encode(contents: KeyringContents) -> bytearray:
    """Return the one encoding of these contents; the caller owns and wipes it.

    Raises `ValueError` for what no keyring may hold: a wiped key, a slot name or a key of the wrong
    size; `OverflowError` for a generation or epoch beyond 64 bits.
    """
    keys = sorted(contents.keys.items(), key=lambda item: _key_order(item[0]))
    inboxes = sorted(contents.inboxes.items(), key=lambda item: _inbox_order(item[0]))
    if max(len(keys), len(inboxes)) > MAXIMUM_ENTRIES:
        raise ValueError("a keyring has too many entries")
    # The exact size first: a bytearray that grows leaves copies of its keys behind.
    size = _HEAD_BYTES + (0 if contents.root is None else _ROOT_BYTES) + 2 * _COUNT_BYTES
    size += sum(_slot_size(slot) + _NUMBER_BYTES + 1 + KEY_BYTES for (slot, _, _), _ in keys)
    size += sum(_slot_size(slot) + _NUMBER_BYTES + PUBLIC_BYTES for (slot, _), _ in inboxes)
    writer = _Writer(size)
    try:
        _write(writer, contents.root, keys, inboxes)
    except (ValueError, OverflowError):
        wipe(writer.buf)
        raise
    return writer.buf


def decode(buf: Buffer) -> KeyringContents:
    """Return what a keyring holds, its keys copied into buffers of their own; raises CorruptError for any other bytes.

    The input stays the caller's to wipe, the result is the caller's to `wipe`.
    """
    with memoryview(buf) as view:
        reader = _Reader(view)
        try:
            return _read(reader)
        except CorruptError:
            for key in reader.keys:
                wipe(key)
            raise


def _write(
    writer: _Writer,
    root: Root | None,
    keys: Sequence[tuple[KeyAddress, bytearray]],
    inboxes: Sequence[tuple[SlotGeneration, bytes]],
) -> None:
    writer.put(bytes([VERSION, root is not None]))
    if root is not None:
        writer.number(root.epoch)
        writer.key(root.key)
    writer.count(len(keys))
    for (slot, generation, name), key in keys:
        writer.slot(slot, generation)
        writer.put(bytes([SUB_KEYS.index(name) + 1]))
        writer.key(key)
    writer.count(len(inboxes))
    for (slot, generation), public in inboxes:
        if len(public) != PUBLIC_BYTES:
            raise ValueError("an inbox key has 1216 bytes")
        writer.slot(slot, generation)
        writer.put(public)


def _read(reader: _Reader) -> KeyringContents:
    if reader.byte() != VERSION:
        raise CorruptError("a keyring has an unknown version")
    match reader.byte():
        case 0:
            root = None
        case 1:
            root = Root(reader.number(), reader.key())
        case _:
            raise CorruptError("a keyring's root flag is neither 0 nor 1")
    keys = _ascending((reader.sub_key() for _ in range(reader.count())), _key_order)
    inboxes = _ascending((reader.inbox() for _ in range(reader.count())), _inbox_order)
    reader.end()
    return KeyringContents(keys, inboxes, root)


def _ascending(
    items: Iterable[tuple[_Address, _Value]], order: Callable[[_Address], tuple[bytes, int, int]]
) -> Mapping[_Address, _Value]:
    accepted: dict[_Address, _Value] = {}
    last: _Address | None = None
    for address, value in items:
        if last is not None and order(last) >= order(address):
            raise CorruptError("a keyring is out of order or names something twice")
        accepted[address] = value
        last = address
    return MappingProxyType(accepted)


def _key_order(address: KeyAddress) -> tuple[bytes, int, int]:
    slot, generation, name = address
    return slot.encode(), generation, SUB_KEYS.index(name)


def _inbox_order(address: SlotGeneration) -> tuple[bytes, int, int]:
    slot, generation = address
    return slot.encode(), generation, 0


def _slot_size(slot: str) -> int:
    size = len(slot.encode())
    if not 0 < size <= MAXIMUM_SLOT_BYTES:
        raise ValueError("a slot name has 1 to 255 bytes")
    return 1 + size


class _Writer:
    """Fills a buffer of known size from front to back."""

    __slots__ = ("_at", "buf")

    def __init__(self, size: int) -> None:
        self.buf = bytearray(size)
        self._at = 0

    def put(self, part: Buffer) -> None:
        self.buf[self._at : self._at + len(part)] = part
        self._at += len(part)

    def number(self, value: int) -> None:
        self.put(value.to_bytes(_NUMBER_BYTES, "big"))

    def count(self, value: int) -> None:
        self.put(value.to_bytes(_COUNT_BYTES, "big"))

    def slot(self, slot: str, generation: int) -> None:
        name = slot.encode()
        self.put(bytes([len(name)]))
        self.put(name)
        self.number(generation)

    def key(self, key: bytearray) -> None:
        if len(key) != KEY_BYTES or not any(key):
            raise ValueError("a keyring holds 32-byte keys that were not wiped")
        self.put(key)


class _Reader:
    """Takes parts from front to back, and remembers the key buffers it handed out."""

    __slots__ = ("_at", "_view", "keys")

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._at = 0
        self.keys: list[bytearray] = []

    def take(self, size: int) -> memoryview:
        start, self._at = self._at, self._at + size
        if self._at > len(self._view):
            raise CorruptError("a keyring ends too early")
        return self._view[start : self._at]

    def byte(self) -> int:
        return self.take(1)[0]

    def number(self) -> int:
        return int.from_bytes(self.take(_NUMBER_BYTES), "big")

    def count(self) -> int:
        return int.from_bytes(self.take(_COUNT_BYTES), "big")

    def key(self) -> bytearray:
        key = bytearray(self.take(KEY_BYTES))
        self.keys.append(key)
        if not any(key):
            raise CorruptError("a keyring holds a key of zeros")
        return key

    def slot(self) -> SlotGeneration:
        name = bytes(self.take(self.byte()))
        if not name:
            raise CorruptError("a keyring has a slot without a name")
        try:
            return name.decode(), self.number()
        except UnicodeDecodeError:
            raise CorruptError("a keyring has a slot name that is not UTF-8") from None

    def sub_key(self) -> tuple[KeyAddress, bytearray]:
        slot, generation = self.slot()
        purpose = self.byte()
        if not 1 <= purpose <= len(SUB_KEYS):
            raise CorruptError("a keyring has a key for an unknown purpose")
        return (slot, generation, SUB_KEYS[purpose - 1]), self.key()

    def inbox(self) -> tuple[SlotGeneration, bytes]:
        return self.slot(), bytes(self.take(PUBLIC_BYTES))

    def end(self) -> None:
        if self._at != len(self._view):
            raise CorruptError("a keyring has bytes after its end")
