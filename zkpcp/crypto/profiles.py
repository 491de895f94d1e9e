"""How costly a guess at a passphrase is made: the named Argon2id settings.

FLOOR is RFC 9106 §4's second recommended option with one lane instead of four. It does NOT make a weak passphrase
strong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zkpcp.crypto.kdf import u64


@dataclass(frozen=True, slots=True)
class Argon2Profile:
    """Argon2id settings: memory in KiB, passes over it, and lanes. Public: they lie beside the wrap."""

    name: str
    memory_kib: int
    time_cost: int
    parallelism: int

    def fields(self) -> tuple[bytes, bytes, bytes]:
        """Return the settings as fields to bind a wrap to; the name is left out, it decides nothing."""
        return u64(self.memory_kib), u64(self.time_cost), u64(self.parallelism)


FLOOR: Final = Argon2Profile("floor", memory_kib=64 * 1024, time_cost=3, parallelism=1)
STRONG: Final = Argon2Profile("strong", memory_kib=256 * 1024, time_cost=3, parallelism=1)
CHEAPEST: Final = Argon2Profile("cheapest", memory_kib=8, time_cost=1, parallelism=1)
"""Only for testing: the least that Argon2 accepts."""

CEILING: Final = Argon2Profile("ceiling", memory_kib=1024 * 1024, time_cost=10, parallelism=4)
"""More than this in a stored row is refused: it would only serve to exhaust the server."""
