"""Searching bytes for a word in every form in which a program might have written it down.

Forms: UTF-8, UTF-16 in both orders, UTF-32 (as a process keeps some texts), hexadecimal in both cases, base64 and
base64url at each of their three alignments; and each of these inside gzip or zlib streams.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

_GZIP: Final = b"\x1f\x8b\x08"
_ZLIB: Final = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
_INFLATE_BYTES: Final = 1 << 20  # of each stream, so that a bomb is none
_LEAST: Final = 16  # bytes that make a form distinctive among random ones


def forms(word: bytes) -> Mapping[str, bytes]:
    """Each form of a word by its name; a text is its UTF-8."""
    found = {"as it is": word, "hex": word.hex().encode(), "HEX": word.hex().upper().encode()}
    for offset in range(3):
        # Characters that depend on the neighbors are left out at both ends.
        text = base64.b64encode(bytes(offset) + word)
        inner = text[-(-offset * 8 // 6) : (offset + len(word)) * 8 // 6]
        found[f"base64 at {offset}"] = inner
        found[f"base64url at {offset}"] = inner.translate(bytes.maketrans(b"+/", b"-_"))
    try:
        decoded = word.decode()
    except UnicodeDecodeError:
        return found
    wide = ("UTF-16LE", "UTF-16BE", "UTF-32LE")
    return {**found, **{name: decoded.encode(name) for name in wide}}


def occurrences(data: bytes, words: Mapping[str, bytes]) -> set[tuple[str, str]]:
    """Which words stand in the data, each with the name of its form."""
    looked_for = [(name, form, value) for name, word in words.items() for form, value in forms(word).items()]
    assert all(len(value) >= _LEAST for _, _, value in looked_for), "a word is too short to be distinctive"
    found = {(name, form) for name, form, value in looked_for if value in data}
    for inner in _streams(data):
        found |= {(name, f"{form}, compressed") for name, form, value in looked_for if value in inner}
    return found


def files_below(*folders: Path) -> Iterator[tuple[Path, bytes]]:
    """Every regular file with what is in it; one that is gone meanwhile is left out."""
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                try:
                    yield path, path.read_bytes()
                except FileNotFoundError:
                    continue


def found_in(files: Iterable[tuple[Path, bytes]], words: Mapping[str, bytes]) -> list[tuple[str, str, str]]:
    """File name, word and form of everything that is found."""
    return sorted((path.name, *hit) for path, data in files for hit in occurrences(data, words))


def _streams(data: bytes) -> Iterator[bytes]:
    for magic in (_GZIP, *_ZLIB):
        at = data.find(magic)
        while at >= 0:
            window = 47 if magic == _GZIP else zlib.MAX_WBITS
            try:
                inner = zlib.decompressobj(window).decompress(data[at : at + _INFLATE_BYTES], _INFLATE_BYTES)
            except zlib.error:
                inner = b""
            if inner:
                yield inner
            at = data.find(magic, at + 1)
