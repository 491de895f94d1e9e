"""How bytes are overwritten once they are no longer needed (KEY-04).

`wipe` is exact for buffers we own. `wipe_bytes` and `stack_zero` are best effort, for what libraries leave behind:
CPython only, and what they achieve is measured on the running image, not promised.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from collections.abc import Callable
from typing import Final

# Deep enough for the frames of OpenSSL and libargon2, far below any thread's stack with glibc (8 MiB).
_STACK_BYTES: Final = 64 * 1024

# One reference from the caller's variable, one from our parameter, one from getrefcount's own argument.
_SOLE_OWNER_REFERENCES: Final = 3

_IS_CPYTHON: Final = sys.implementation.name == "cpython"


def wipe(buf: bytearray | memoryview) -> None:
    """Overwrite the buffer with zeros in place; its length stays."""
    buf[:] = bytes(len(buf))


def wipe_bytes(b: bytes) -> bool:
    """Overwrite a `bytes` that a library has just returned, and tell whether it was done.

    Only for fresh library results held in one local variable: never a literal, a slice, or something passed in. What
    anybody else may also hold (more references than its sole owner's) is left alone, as is everything off CPython.
    """
    # CPython keeps one shared object for the empty and each one-byte value, whatever its reference count says.
    if not _IS_CPYTHON or len(b) <= 1 or sys.getrefcount(b) > _SOLE_OWNER_REFERENCES:
        return False
    # The payload is the last field of the object; __basicsize__ counts one payload byte (the terminating zero).
    ctypes.memset(id(b) + bytes.__basicsize__ - 1, 0, len(b))
    return True


def _find_stackzero() -> Callable[[int], None] | None:
    # PyNaCl's extension module carries libsodium; it exports the function but offers no binding for it.
    module = importlib.util.find_spec("nacl._sodium")
    if module is None or module.origin is None:
        return None
    try:
        function = ctypes.CDLL(module.origin).sodium_stackzero
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_size_t]
    function.restype = None

    def call(size: int) -> None:
        function(size)

    return call


_stackzero: Final = _find_stackzero()

STACK_ZERO_AVAILABLE: Final[bool] = _stackzero is not None
"""False where libsodium's symbol cannot be reached (another build of PyNaCl); `stack_zero` then does nothing."""


def stack_zero() -> None:
    """Overwrite 64 KiB of this thread's unused C stack, where libraries leave key material."""
    if _stackzero is not None:
        _stackzero(_STACK_BYTES)
