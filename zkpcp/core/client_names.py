"""How a client's name may stand on a page.

A name is the client's own claim and nobody has checked it (AUTH-20, PCP §3.6): this only keeps it from drawing anything
but itself. It does NOT stop a client from calling itself like another.
"""

from __future__ import annotations

import unicodedata
from typing import Final

from zkpcp.core.schemas import JsonValue

MAX_NAME_CHARACTERS: Final = 100


def clean_name(value: JsonValue) -> str:
    """A name as a page may show it: no control, format or unassigned characters, single blanks, 100 characters at most.

    Format characters go too: with them a name can be shown in another order than it is written. Empty for what is no
    text.
    """
    if not isinstance(value, str):
        return ""
    visible = (" " if c.isspace() else c for c in value if c.isspace() or unicodedata.category(c)[0] != "C")
    return " ".join("".join(visible).split())[:MAX_NAME_CHARACTERS].strip()
