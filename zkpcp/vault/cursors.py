"""Cursors of long lists: sealed for their holder, their list and its filters, so that no other call can use them.

A cursor names a place in the list, which may be a path: it is content, and only the holder's own key opens it.
"""

from __future__ import annotations

import base64
import binascii
import json

from zkpcp.core.schemas import JsonValue, canonical_json
from zkpcp.crypto.aead import SALT_BYTES, context_of, open_box, seal
from zkpcp.crypto.padding import pad, unpad
from zkpcp.errors import CorruptError, InvalidInputError, Violation
from zkpcp.ports import Entropy
from zkpcp.vault.keyring import OpenKeyring

_RULE = "must be a cursor that this same call, with the same other arguments and the same token, has returned"


def seal_cursor(
    keys: OpenKeyring, listing: str, filters: dict[str, JsonValue], place: JsonValue, entropy: Entropy
) -> str:
    """The cursor that continues ``listing`` with these filters behind ``place``."""
    plain = pad(canonical_json(place), floor=64)
    box = seal(keys.cursor_key(), plain, _context(keys, listing, filters), salt=entropy.bytes(SALT_BYTES))
    return base64.urlsafe_b64encode(box).rstrip(b"=").decode("ascii")


def open_cursor(keys: OpenKeyring, listing: str, filters: dict[str, JsonValue], cursor: str) -> JsonValue:
    """The place a cursor names. Raises InvalidInputError for any text that this call did not return."""
    place: JsonValue = None
    try:
        box = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        place = json.loads(bytes(unpad(open_box(keys.cursor_key(), box, _context(keys, listing, filters)))))
    except (ValueError, binascii.Error, CorruptError):
        box = b""
    if not box:
        raise InvalidInputError("the cursor does not belong to this call", [Violation("/cursor", _RULE)])
    return place


def _context(keys: OpenKeyring, listing: str, filters: dict[str, JsonValue]) -> bytes:
    fields = (keys.context_id.encode(), keys.holder.encode(), listing.encode(), canonical_json(filters))
    return context_of("cursor", *fields)
