"""The parameters of an OAuth request, each sent at most once.

Implements RFC 6749 §3.1 and §3.2: a parameter without a value counts as omitted, and a repeated one is an error. Two
readers that pick different copies are how a check is passed by one value and the act done with another. ``resource``
alone may repeat (RFC 8707 §2) and is judged apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import parse_qsl

from zkpcp.errors import InvalidInputError

RESOURCE: Final = "resource"
MAX_PARAMETERS: Final = 64


class Params:
    """Names and values; it prints no value, since some are codes and tokens."""

    __slots__ = ("_values",)

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            self._values.setdefault(name, []).append(value)

    @classmethod
    def parse(cls, raw: bytes) -> Params:
        """Read a query string or a form body: percent-encoded UTF-8 without NUL. Raises InvalidInputError.

        No parameter of OAuth may hold a NUL (RFC 6749 appendix A), and PostgreSQL cannot be asked about one.
        """
        try:
            pairs = parse_qsl(
                raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS
            )
        except ValueError:
            pairs = None
        if pairs is not None and any("\0" in part for pair in pairs for part in pair):
            pairs = None
        if pairs is None:  # raised out here, so that no exception carries the text as its context
            raise InvalidInputError("the parameters must be form-encoded UTF-8 without NUL")
        return cls(pairs)

    def one(self, name: str) -> str | None:
        """The value; None when the parameter is absent, empty or repeated."""
        values = self._values.get(name, [])
        return (values[0] or None) if len(values) == 1 else None

    def all(self, name: str) -> tuple[str, ...]:
        """Every value that is not empty, in order."""
        return tuple(value for value in self._values.get(name, []) if value)

    @property
    def repeats(self) -> bool:
        """Whether any parameter but ``resource`` was sent more than once."""
        return any(len(values) > 1 for name, values in self._values.items() if name != RESOURCE)
