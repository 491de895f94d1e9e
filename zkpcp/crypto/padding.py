"""How a length is blurred before sealing: Padmé, or powers of two for sensitive slots.

Padmé (Nikitin et al., PETS 2019, "Reducing Metadata Leakage from Encrypted Files") keeps about log log n bits of a
length, at less than 12 % more bytes. It does NOT hide how many things there are, or when they change.
"""

from __future__ import annotations

from typing import Final

from zkpcp.crypto.buffers import Buffer
from zkpcp.errors import CorruptError

_LENGTH_BYTES: Final = 4


def padded_size(size: int, *, floor: int = 256, powers_of_two: bool = False) -> int:
    """Return the padded size of `size` bytes of data, the 4 length bytes included."""
    total = max(size + _LENGTH_BYTES, floor)
    if powers_of_two:
        return 1 << (total - 1).bit_length()
    exponent = total.bit_length() - 1
    zero_bits = exponent - exponent.bit_length()
    mask = (1 << zero_bits) - 1
    return (total + mask) & ~mask


def pad(data: Buffer, *, floor: int = 256, powers_of_two: bool = False) -> bytearray:
    """Return length ‖ data ‖ zeros, at least `floor` bytes long; the caller owns and wipes it."""
    size = len(data)
    padded = bytearray(padded_size(size, floor=floor, powers_of_two=powers_of_two))
    padded[:_LENGTH_BYTES] = size.to_bytes(_LENGTH_BYTES, "big")
    padded[_LENGTH_BYTES : _LENGTH_BYTES + size] = data
    return padded


def unpad(buf: bytearray | memoryview) -> memoryview:
    """Return the data inside as a view of the same buffer; raises CorruptError when length or zeros do not fit."""
    view = memoryview(buf)
    if len(view) < _LENGTH_BYTES:
        raise CorruptError("padded data is shorter than its length field")
    end = _LENGTH_BYTES + int.from_bytes(view[:_LENGTH_BYTES], "big")
    if end > len(view):
        raise CorruptError("padded data is shorter than its length says")
    if view[end:] != bytes(len(view) - end):
        raise CorruptError("padding has bytes other than zero")
    return view[_LENGTH_BYTES:end]
