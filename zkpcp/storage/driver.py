"""What the repositories need from an engine.

Three ways to run a named statement, and the rules both engines share: a reading transaction refuses writes and row
locks, a transaction in which a statement failed can only roll back, and nothing runs after its end. It does NOT
promise isolation; the engines' own files do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from itertools import product
from types import UnionType
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

from zkpcp.errors import CorruptError, UnavailableError
from zkpcp.storage.statements import Statement

Value: TypeAlias = str | int | bytes | bool | list[str] | None
# Column values come untyped from both engines; the dataclass a row is spread into names their types.
Row: TypeAlias = Sequence[Any]

T = TypeVar("T")

# What retention leaves out of a page's place when it lies before 1970 may be negative; nothing else may.
_MAY_BE_NEGATIVE: Final = frozenset({"expires_ms"})


class Driver(Protocol):
    """Runs named statements inside one transaction. Arguments are ``$1``, ``$2``, … in order."""

    async def fetch_one(self, statement: Statement, *arguments: Value) -> Row | None:
        """The only row, or None."""
        ...

    async def fetch_all(self, statement: Statement, *arguments: Value) -> Sequence[Row]:
        """All rows."""
        ...

    async def execute(self, statement: Statement, *arguments: Value) -> int:
        """The number of rows changed."""
        ...

    async def execute_many(self, statement: Statement, rows: Sequence[Sequence[Value]]) -> None:
        """Run it once for each row of arguments, in one round trip."""
        ...


class Gate:
    """The state of one transaction that both engines ask before a statement."""

    __slots__ = ("erased", "failed", "open", "writable")

    def __init__(self, *, writable: bool) -> None:
        self.writable = writable
        self.open = True
        self.failed = False
        self.erased = False

    def admit(self, statement: Statement) -> None:
        """Refuse what must not run now. RuntimeError names a mistake in our own code, not a state of the store."""
        if not self.open:
            raise RuntimeError("the transaction has ended")
        if statement.writes and not self.writable:
            raise RuntimeError("the transaction only reads")
        if self.failed:
            raise UnavailableError("the transaction failed before and can only be rolled back")
        self.erased = self.erased or statement.erases

    def require_intact(self) -> None:
        """Refuse to commit after a failed statement: PostgreSQL would roll back without a word."""
        if self.failed:
            raise UnavailableError("the transaction failed before and was rolled back")


def pack(strings: Iterable[str]) -> str:
    """Several strings in one text column, as a JSON array."""
    return json.dumps(list(strings), ensure_ascii=True, separators=(",", ":"))


def unpack(text: str) -> tuple[str, ...]:
    """The inverse of ``pack``. Raises CorruptError."""
    try:
        strings = json.loads(text)
    except (ValueError, TypeError) as error:
        raise CorruptError("a stored list is not JSON") from error
    if not isinstance(strings, list) or not all(isinstance(entry, str) for entry in strings):
        raise CorruptError("a stored list does not hold strings")
    return tuple(strings)


def spread(kind: type[T]) -> Callable[[Row], T]:
    """The way from a row to a value whose members the query names in their order.

    Raises CorruptError for a row that this program cannot have written: SQLite gives types to values and not to
    columns, so a host can store text as a key, or a version below zero.
    """
    hints = get_type_hints(kind)
    names = [member.name for member in fields(kind)]  # type: ignore[arg-type]  # every kind is a row of core.stored
    every_type = [_types(hints[name]) for name in names]
    numbers = tuple(at for at, name in enumerate(names) if int in every_type[at] and name not in _MAY_BE_NEGATIVE)
    # By the length of a row: members with a default, which come last, may be left out.
    allowed = {size: frozenset(product(*every_type[:size])) for size in range(1, len(names) + 1)}

    def make(row: Row) -> T:
        if tuple(map(type, row)) not in allowed.get(len(row), ()):
            raise CorruptError("a stored row holds a value of another type than its column's")
        for at in numbers:
            if at < len(row) and row[at] is not None and row[at] < 0:
                raise CorruptError("a stored row holds a number below zero")
        return kind(*row)

    return make


def _types(hint: object) -> tuple[type, ...]:
    """The types of the values that fit an annotation, without what the containers hold."""
    origin = get_origin(hint)
    if origin is UnionType:
        return tuple(each for member in get_args(hint) for each in _types(member))
    if origin is Literal:
        return tuple({type(each) for each in get_args(hint)})
    if isinstance(origin, type):
        return (origin,)
    if not isinstance(hint, type):
        raise TypeError("a member of a row has an annotation that is not understood")
    return (hint,)


def one(make: Callable[[Row], T], row: Row | None) -> T | None:
    """The row as a value, None for no row."""
    return None if row is None else make(row)
