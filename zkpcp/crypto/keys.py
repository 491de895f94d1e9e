"""Which key is derived from which: the one place that spells the labels of the hierarchy (PCP §9.1, KEY-03).

context root → slot key → sub keys; principal or grant seed → key pairs and anchor. Each step is one-way: a slot key
says nothing about the root or another slot. It does NOT decide who may hold which key.
"""

from __future__ import annotations

import hmac
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias

from typing_extensions import override

from zkpcp.crypto.buffers import Buffer
from zkpcp.crypto.kdf import KEY_BYTES, derive, u64
from zkpcp.crypto.opaque import Opaque
from zkpcp.crypto.wipe import wipe

SubKey: TypeAlias = Literal["rec", "head", "terms", "link", "integrity", "inbox", "tag"]
"""A slot's purposes: records, list heads, term vectors, links to older keys, integrity, inbox seed, path tags."""

SUB_KEYS: Final[tuple[SubKey, ...]] = ("rec", "head", "terms", "link", "integrity", "inbox", "tag")

Holder: TypeAlias = Literal["principal", "grant"]
"""Whose seed it is; a grant's key pair never equals a principal's, even if their seeds were the same."""


class Key(Opaque):
    """A 32-byte key in a buffer of its own, zeroed by `wipe` or on leaving the `with` block."""

    __slots__ = ("_buf", "_live")

    __hash__ = None  # type: ignore[assignment]  # a hash of a key would be a fingerprint of it

    def __init__(self, owned: bytearray) -> None:
        """Take ownership of the buffer: the caller keeps no other use of it."""
        if len(owned) != KEY_BYTES:
            raise ValueError("a key has 32 bytes")
        self._buf = owned
        self._live = True

    def view(self) -> memoryview:
        """Return the key's bytes without a copy; raises `ValueError` after `wipe`, so that zeros never act as a key."""
        if not self._live:
            raise ValueError("this key was wiped")
        return memoryview(self._buf)

    def wipe(self) -> None:
        """Overwrite the key; calling it again does no harm."""
        self._live = False
        wipe(self._buf)

    @override
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Key):
            return NotImplemented
        return self._live and other._live and hmac.compare_digest(self._buf, other._buf)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wipe()


def slot_key(root: Buffer, context_id: str, slot: str, generation: int) -> bytearray:
    """Derive the key of one slot at one generation from the context root of an epoch."""
    return derive(root, "slot", context_id.encode(), slot.encode(), u64(generation))


def sub_key(slot_key: Buffer, name: SubKey) -> bytearray:
    """Derive the key that a slot uses for one purpose; `inbox` is the seed of an X-Wing key pair."""
    return derive(slot_key, f"sub/{name}")


def kem_seed(seed: Buffer, holder: Holder) -> bytearray:
    """Derive the seed of the holder's X-Wing key pair."""
    return derive(seed, f"{holder}/kem")


def sign_seed(seed: Buffer, holder: Holder) -> bytearray:
    """Derive the seed of the holder's Ed25519 key pair."""
    return derive(seed, f"{holder}/sign")


def anchor_key(grant_seed: Buffer) -> bytearray:
    """Derive the key of the anchor, the Box that pins whose signature a grant believes."""
    return derive(grant_seed, "grant/anchor")
