"""What counts as a buffer here: the one alias that every signature of this package uses.

It says nothing about who owns the bytes: results are the caller's to wipe, arguments stay the caller's.
"""

from __future__ import annotations

from typing import TypeAlias

# collections.abc.Buffer exists from Python 3.12 on; the union also keeps numpy-like buffers with other item sizes out.
Buffer: TypeAlias = bytes | bytearray | memoryview
