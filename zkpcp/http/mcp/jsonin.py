"""Which bytes are a JSON text that this server reads.

RFC 8259, narrowed to I-JSON (RFC 7493): UTF-8 only, no duplicate member names, no lone surrogates, numbers within 64
bits; and no deeper than ``DEPTH_LIMIT``. What comes out can be written back by any JSON writer. It does not know
JSON-RPC or any schema.
"""

from __future__ import annotations

import json
import math
import re
from typing import Final, NoReturn

from zkpcp.core.schemas import JsonObject, JsonValue
from zkpcp.errors import RefusedError

DEPTH_LIMIT: Final = 64
# Checked before converting, which takes quadratic time in the number of digits.
_LONGEST_INTEGER: Final = len(str(-(2**63)))

# A paired escape is a character and only a lone half is not: a hit is a reason to look, not to refuse.
_SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class NotJsonError(RefusedError):
    """The bytes are not a JSON text."""


class RefusedJsonError(RefusedError):
    """The bytes are a JSON text that two readers could take in different ways, or that is too deep."""


def parse_json(text: bytes) -> JsonValue:
    """Return the value that ``text`` spells.

    Raises ``NotJsonError`` for what breaks RFC 8259, ``RefusedJsonError`` for duplicate names, depth, surrogates and
    huge numbers.
    """
    try:
        value: JsonValue = json.loads(
            text.decode("utf-8"),
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=_constant,
        )
    except UnicodeDecodeError:
        raise NotJsonError("the body must be UTF-8") from None
    except RecursionError:
        raise RefusedJsonError("the body is nested too deeply") from None
    except ValueError:
        # From None: the decoder's message and its `doc` attribute hold the body.
        raise NotJsonError("the body must be one JSON text") from None
    # Each level costs an opening bracket, so most bodies are cleared without a walk.
    if text.count(b"[") + text.count(b"{") > DEPTH_LIMIT or _SURROGATE_ESCAPE.search(text):
        _check_depth_and_strings(value)
    return value


def _object(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise RefusedJsonError("a member name occurs twice in one object")
    return members


def _integer(digits: str) -> int:
    if len(digits) > _LONGEST_INTEGER or not -(2**63) <= int(digits) < 2**63:
        raise RefusedJsonError("an integer must fit into 64 bits")
    return int(digits)


def _float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise RefusedJsonError("a number must fit into 64 bits")
    return value


def _constant(_name: str) -> NoReturn:
    raise NotJsonError("NaN and Infinity are not JSON")


def _check_depth_and_strings(root: JsonValue) -> None:
    level: list[JsonValue] = [root]
    for _depth in range(DEPTH_LIMIT + 1):
        below: list[JsonValue] = []
        for value in level:
            if isinstance(value, str):
                _check_string(value)
            elif isinstance(value, dict):
                for name in value:
                    _check_string(name)
                below.extend(value.values())
            elif isinstance(value, list):
                below.extend(value)
        if not below:
            return
        level = below
    raise RefusedJsonError("the body is nested too deeply")


def _check_string(text: str) -> None:
    if _SURROGATE.search(text):
        raise RefusedJsonError("a string holds a lone surrogate")
