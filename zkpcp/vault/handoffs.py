"""Sealing and opening hand-offs between assistants.

Implements schemas/formats/sealed-record.md for the slot ``handoff``: a row is bound to its context, generation, id,
version, and the times that decide about its order and its end. Whoever holds the slot can seal as well as open.
"""

from __future__ import annotations

from zkpcp.core import handoffs as handoff_format
from zkpcp.core.extensions import HANDOFF, KNOWN
from zkpcp.core.handoffs import Handoff
from zkpcp.core.stored import HandoffRow
from zkpcp.crypto.aead import SALT_BYTES, context_of, open_box, seal
from zkpcp.crypto.kdf import u64
from zkpcp.crypto.padding import pad, unpad
from zkpcp.crypto.wipe import wipe
from zkpcp.errors import TamperedError
from zkpcp.ports import Entropy
from zkpcp.vault.keyring import OpenKeyring

SLOT = KNOWN[HANDOFF].slot


def seal_handoff(keys: OpenKeyring, handoff: Handoff, version: int, entropy: Entropy) -> HandoffRow:
    """Seal a hand-off into the row of its ``version``, which counts from 1."""
    generation, key = keys.live_key(SLOT, "rec")
    place = handoff_place(keys.context_id, generation, handoff.id, version, handoff.updated_ms, handoff.expires_ms)
    plain = pad(handoff_format.serialize(handoff))
    try:
        sealed = seal(key, plain, place, salt=entropy.bytes(SALT_BYTES))
    finally:
        wipe(plain)
    return HandoffRow(keys.context_id, handoff.id, generation, version, handoff.updated_ms, handoff.expires_ms, sealed)


def open_handoff(keys: OpenKeyring, row: HandoffRow) -> Handoff:
    """Open a hand-off. Raises TamperedError when the row is not what was sealed for this place."""
    place = handoff_place(keys.context_id, row.generation, row.handoff_id, row.version, row.updated_ms, row.expires_ms)
    plain = open_box(keys.key(SLOT, row.generation, "rec"), row.sealed, place)
    try:
        handoff = handoff_format.parse_stored(unpad(plain))
    finally:
        wipe(plain)
    if (handoff.id, handoff.updated_ms, handoff.expires_ms) != (row.handoff_id, row.updated_ms, row.expires_ms):
        raise TamperedError("a hand-off's readable metadata is not its own")
    return handoff


def handoff_place(
    context_id: str, generation: int, handoff_id: str, version: int, updated_ms: int, expires_ms: int
) -> bytes:
    """What a sealed row is bound to."""
    return context_of(
        "handoff",
        context_id.encode(),
        SLOT.encode(),
        u64(generation),
        handoff_id.encode(),
        u64(version),
        u64(updated_ms),
        u64(expires_ms),
    )
