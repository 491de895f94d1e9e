"""How a secret object keeps quiet: it prints its type, and refuses to be pickled or copied (SEC-12, AUTH-35).

It does NOT hide the secret from code that asks for it on purpose; each subclass has one named way out for that.
"""

from __future__ import annotations

from typing import NoReturn, SupportsIndex

from typing_extensions import override


class Opaque:
    """Base of every secret type: no content in `repr`, `str` or `format`; pickle and copy raise `TypeError`."""

    __slots__ = ()

    @override
    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    @override
    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        # copy.copy and copy.deepcopy come through here as well, so a secret has no second, forgotten life.
        raise TypeError(f"{type(self).__name__} is a secret and can be neither pickled nor copied")
