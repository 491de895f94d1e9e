"""How a path is found by equality without being readable: the blind path tag (KEY-06).

A tag is a 16-byte derivation, new in each context and generation. It does NOT hide that two rows are equal, and whoever
holds the tag key together with the database can test guesses of path names.
"""

from __future__ import annotations

from typing import Final

from zkpcp.crypto.buffers import Buffer
from zkpcp.crypto.kdf import derive, u64

TAG_BYTES: Final = 16


def path_tag(key: Buffer, context_id: str, generation: int, folded_path: str) -> bytes:
    """Return the 16-byte tag of a path that the caller has case-folded; it is stored, so it is not a secret."""
    tag = derive(key, "path-tag", context_id.encode(), u64(generation), folded_path.encode())
    return bytes(tag[:TAG_BYTES])
