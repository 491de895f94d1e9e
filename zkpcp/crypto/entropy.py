"""Where random bytes come from: the caller, through this protocol; in the running server, the operating system.

The protocol has the same shape as the Entropy port of the application, stated again because this package and the ports
are independent siblings in the layer contract. It does NOT judge the quality of what it is handed.
"""

from __future__ import annotations

import os
from typing import Protocol


class Entropy(Protocol):
    """A source of uniformly random bytes."""

    def bytes(self, size: int) -> bytes:
        """Return `size` fresh random bytes."""
        ...


class SystemEntropy:
    """The operating system's generator (getrandom on Linux), chosen in the composition root."""

    def bytes(self, size: int) -> bytes:
        """Return `size` fresh random bytes; blocks only before the system's generator is first seeded."""
        return os.urandom(size)
