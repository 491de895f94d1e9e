"""How the search terms of many pages become a few encrypted blobs that grow, change and are read a little at a time.

Implements the index of PCP §5.5 (KEY-06, MEM-20): schemas/formats/blind-index.md. A segment is the index of up to
``PAGES_PER_SEGMENT`` pages of one slot. Its parts are sealed one by one: ``meta`` (what holds for the whole), ``heads``
(the directory, some pages each), ``words`` and ``postings`` (one pair for each bucket) and ``delta`` (what was written
lately). A term's bucket is the first bits of a keyed hash, which the caller gives.

A write goes to the delta and compacts the next bucket in turn, never the ones it touches: which parts change says which
turn it is, and nothing about words. A bucket of a growing segment is split when its turn comes. An edit or a deletion
is a list of postings to change or to drop, so what a search counts is exact at any time. Pure: no key, no storage.
"""

from __future__ import annotations

import json
import struct
import sys
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Final

from zkpcp.core import terms as term_format
from zkpcp.errors import CorruptError

PAGES_PER_SEGMENT: Final = 4096
PAGES_PER_BUCKET: Final = 64
"""A segment whose pages outnumber it times the buckets gets twice as many; a bucket then has some 60 KB."""
PAGES_PER_HEADS: Final = 32
ENTRIES_PER_DELTA: Final = 4
HASH_BITS: Final = 16
FEWEST_READ: Final = 8
"""The fewest buckets of a segment that a search reads, if there are so many."""

_FREE: Final = 0
_LIVE: Final = 1
_ASKED: Final = 2
_DYING: Final = 3
_DROPPED: Final = 0x01
_BREAK: Final = b"\n"
_BYTE: Final = tuple(bytes((number,)) for number in range(256))
_COUNTS: Final = bytes(max(0, number - term_format.FIRST_COUNT_BYTE) for number in range(256))
"""The count that each count byte means."""
_ENTRY: Final = struct.Struct(">QHII")
_VERSION: Final = 1

Hash = Callable[[bytes], int]
"""A keyed hash of a term's text, ``HASH_BITS`` long."""
Counts = dict[int, int]
"""Page numbers with a count each."""


@dataclass(slots=True, repr=False)
class Segment:
    """What holds for a whole segment. ``seq`` counts its writes, and stamps each part with the write that made it.

    ``buckets``, ``heads`` and ``delta`` hold the stamp of each part that there is. ``doubling``: buckets before
    ``turn`` have been split in this round. ``dying`` are pages whose postings have to be dropped without being named.
    """

    seq: int = 0
    level: int = 0
    turn: int = 0
    doubling: bool = False
    lengths: array[int] = field(default_factory=lambda: array("I"))
    marks: array[int] = field(default_factory=lambda: array("I"))
    states: bytearray = field(default_factory=bytearray)
    expires: dict[int, int] = field(default_factory=dict)
    dying: dict[int, int] = field(default_factory=dict)
    buckets: dict[int, int] = field(default_factory=lambda: {1: 0})
    heads: dict[int, int] = field(default_factory=dict)
    delta: dict[int, int] = field(default_factory=dict)

    def free_number(self) -> int | None:
        """A number that no page has; None when the segment is full."""
        number = self.states.find(_FREE)
        if number >= 0:
            return number
        return len(self.states) if len(self.states) < PAGES_PER_SEGMENT else None

    def is_live(self, number: int) -> bool:
        """Whether a page has this number."""
        return number < len(self.states) and self.states[number] in (_LIVE, _ASKED)

    def asked(self) -> list[int]:
        """The pages whose head ranking has to ask."""
        return [number for number, state in enumerate(self.states) if state == _ASKED] if _ASKED in self.states else []

    def expired(self, now_ms: int) -> frozenset[int]:
        """Pages past their end that no write has noticed yet."""
        return frozenset(number for number, end_ms in self.expires.items() if end_ms <= now_ms)

    def hidden(self, now_ms: int) -> frozenset[int]:
        """Pages that have expired, or will be dropped: they are in no answer and no statistic."""
        return self.expired(now_ms) | self.dying.keys()

    def size(self, now_ms: int) -> tuple[int, int]:
        """How many pages there are and the sum of their lengths."""
        gone = self.expired(now_ms)
        pages = self.states.count(_LIVE) + self.states.count(_ASKED) - len(gone)
        return pages, sum(self.lengths) - sum(self.lengths[number] for number in gone)

    def tally(self, now_ms: int) -> tuple[int, int]:
        """How many pages there are and the sum of their marks: what the store must count in the pages' own table."""
        gone = self.expired(now_ms)
        pages = self.states.count(_LIVE) + self.states.count(_ASKED) - len(gone)
        return pages, sum(self.marks) - sum(self.marks[number] for number in gone)

    def bucket_of(self, hash_: int) -> int:
        """The bucket of a hash: 2^level + its first ``level`` bits."""
        number = hash_ >> (HASH_BITS - self.level)
        if self.doubling and number < self.turn:
            return (2 << self.level) + (hash_ >> (HASH_BITS - self.level - 1))
        return (1 << self.level) + number

    def stamp_of(self, part: str) -> int:
        """The stamp a part must bear. Raises CorruptError for a part that is not there."""
        kind, _, number = part.partition("/")
        stamps = {"words": self.buckets, "postings": self.buckets, "heads": self.heads, "delta": self.delta}[kind]
        if int(number) not in stamps:
            raise CorruptError("the search index lacks a part")
        return stamps[int(number)]

    def encode(self) -> bytes:
        """The meta part: a JSON line, then for each page number a state, a length and a mark."""
        facts = [
            _VERSION,
            self.seq,
            self.level,
            self.turn,
            int(self.doubling),
            *([*map(list, sorted(each.items()))] for each in self._tables()),
        ]
        return b"".join(
            (
                json.dumps(facts, separators=(",", ":")).encode(),
                _BREAK,
                self.states,
                _big_endian(self.lengths),
                _big_endian(self.marks),
            )
        )

    def _tables(self) -> tuple[dict[int, int], ...]:
        return self.expires, self.dying, self.buckets, self.heads, self.delta


def decode_segment(data: bytes) -> Segment:
    """Read a meta part. Raises CorruptError."""
    try:
        line, _, rest = data.partition(_BREAK)
        version, seq, level, turn, doubling, *tables = json.loads(line)
        expires, dying, buckets, heads, delta = map(dict, tables)
        count, odd = divmod(len(rest), 9)
    except (ValueError, TypeError, RecursionError):
        raise CorruptError("the search index has a part that cannot be read") from None
    if version != _VERSION or odd:
        raise CorruptError("the search index has a part that cannot be read")
    return Segment(
        seq,
        level,
        turn,
        bool(doubling),
        _numbers("I", rest[count : 5 * count]),
        _numbers("I", rest[5 * count :]),
        bytearray(rest[:count]),
        expires,
        dying,
        buckets,
        heads,
        delta,
    )


@dataclass(frozen=True, slots=True, repr=False)
class Entry:
    """One write to the delta: postings of one page to set, or to drop. ``hashes`` go with the lines, sorted."""

    seq: int
    number: int
    hashes: array[int]
    lines: bytes

    def within(self, first: int, beyond: int) -> list[bytes]:
        """The lines whose hashes lie from ``first`` to before ``beyond``."""
        low, high = bisect_left(self.hashes, first), bisect_left(self.hashes, beyond)
        return self.lines.split(_BREAK, high + 1)[low + 1 : high + 1] if low < high else []

    def encode(self) -> bytes:
        """Header, hashes, and each line behind a line break."""
        return b"".join(
            (
                _ENTRY.pack(self.seq, self.number, len(self.hashes), len(self.lines)),
                _big_endian(self.hashes),
                self.lines,
            )
        )


def decode_entries(data: bytes) -> list[Entry]:
    """Read a delta part. Raises CorruptError."""
    entries: list[Entry] = []
    at = 0
    while at < len(data):
        try:
            seq, number, count, size = _ENTRY.unpack_from(data, at)
        except struct.error:
            raise CorruptError("the search index has a part that is cut off") from None
        at += _ENTRY.size
        middle, end = at + 2 * count, at + 2 * count + size
        if end > len(data):
            raise CorruptError("the search index has a part that is cut off")
        entries.append(Entry(seq, number, _numbers("H", data[at:middle]), data[middle:end]))
        at = end
    return entries


@dataclass(slots=True, repr=False)
class Bucket:
    """The lists of postings of some terms: ``keys`` (text and kind), the size of each list, and the lists."""

    keys: list[bytes] = field(default_factory=list)
    sizes: array[int] = field(default_factory=lambda: array("I"))
    lists: bytes = b""

    def change(self, changes: Mapping[bytes, Iterable[tuple[int, int]]]) -> None:
        """Set or drop postings: for each key, page numbers with a count byte in the order they were written."""
        places = dict(zip(self.keys, range(len(self.keys)), strict=True))
        ends = list(accumulate(self.sizes, initial=0))
        pieces: list[bytes] = []
        added: list[bytes] = []
        done = 0
        for place, key in sorted((places[key], key) for key in changes if key in places):
            changed = _changed(self.lists[ends[place] : ends[place + 1]], changes[key])
            pieces += (self.lists[done : ends[place]], changed)
            done = ends[place + 1]
            self.sizes[place] = len(changed)
        for key in changes.keys() - places.keys():
            made = _changed(b"", changes[key])
            if made:
                added.append(made)
                self.keys.append(key)
                self.sizes.append(len(made))
        self.lists = b"".join((*pieces, self.lists[done:], *added))
        self._drop_empty()

    def forget(self, numbers: Iterable[int]) -> None:
        """Drop every posting of these pages, whatever they said."""
        self._rebuild(
            [(key, _changed(each, [(number, _DROPPED) for number in numbers])) for key, each in self._items()]
        )
        self._drop_empty()

    def split(self, is_high: Callable[[bytes], bool]) -> tuple[Bucket, Bucket]:
        """Two buckets, by the text of each key."""
        halves: tuple[list[tuple[bytes, bytes]], list[tuple[bytes, bytes]]] = ([], [])
        for key, each in self._items():
            halves[is_high(key[:-1])].append((key, each))
        made = (Bucket(), Bucket())
        for bucket, items in zip(made, halves, strict=True):
            bucket._rebuild(items)  # noqa: SLF001 - its own kind
        return made

    def encode(self) -> tuple[bytes, bytes]:
        """The words part and the postings part."""
        return _BREAK.join(self.keys), b"".join((_big_endian(self.sizes), self.lists))

    def _items(self) -> Iterator[tuple[bytes, bytes]]:
        ends = accumulate(self.sizes, initial=0)
        return ((key, self.lists[low:high]) for key, (low, high) in zip(self.keys, pairwise(ends), strict=True))

    def _rebuild(self, items: Iterable[tuple[bytes, bytes]]) -> None:
        kept = list(items)
        self.keys = [key for key, _ in kept]
        self.sizes = array("I", [len(each) for _, each in kept])
        self.lists = b"".join([each for _, each in kept])

    def _drop_empty(self) -> None:
        if 0 in self.sizes:
            for place in [place for place, size in enumerate(self.sizes) if not size][::-1]:
                del self.keys[place]
                del self.sizes[place]


def decode_bucket(words: bytes, postings: bytes) -> Bucket:
    """Read both parts of a bucket. Raises CorruptError."""
    keys = words.split(_BREAK) if words else []
    sizes = _numbers("I", postings[: 4 * len(keys)])
    lists = postings[4 * len(keys) :]
    if len(sizes) != len(keys) or sum(sizes) != len(lists):
        raise CorruptError("the search index has a bucket whose halves do not fit")
    return Bucket(keys, sizes, lists)


@dataclass(frozen=True, slots=True, repr=False)
class Indexed:
    """A page as the index is to know it: its encoded term vector, its encoded head, and when it ends.

    ``mark``: what the store counts for it (``core.stored.tally_mark``). ``asked``: its life lowers its score or relates
    it to other pages, so that ranking has to look into its head.
    """

    terms: bytes
    head: bytes
    mark: int
    expires_ms: int | None
    asked: bool


class Writer:
    """Changes to one segment. Load what ``needs`` names before each ``write``, then store ``parts``."""

    __slots__ = ("_buckets", "_changed", "_entries", "_gone", "_hash", "_heads", "_pages_per_bucket", "segment")

    def __init__(self, segment: Segment, hash_: Hash, pages_per_bucket: int = PAGES_PER_BUCKET) -> None:
        self.segment = segment
        self._hash = hash_
        self._pages_per_bucket = pages_per_bucket
        self._entries: dict[int, list[Entry]] = {}
        self._buckets: dict[int, Bucket] = {}
        self._heads: dict[int, list[bytes]] = {}
        self._changed: set[str] = set()
        self._gone: set[str] = set()
        if not segment.seq:
            self._buckets[1] = Bucket()

    def needs(self, number: int, now_ms: int) -> list[str]:
        """The parts to load before the page with this number is written."""
        segment = self.segment
        bucket = (1 << segment.level) + segment.turn
        chunks = {touched // PAGES_PER_HEADS for touched in (number, *segment.expired(now_ms))}
        heads = [f"heads/{chunk}" for chunk in sorted(chunks & segment.heads.keys() - self._heads.keys())]
        deltas = [f"delta/{place}" for place in segment.delta if place not in self._entries]
        pair = [] if bucket in self._buckets else [f"words/{bucket}", f"postings/{bucket}"]
        return [*heads, *deltas, *pair]

    def load(self, parts: Mapping[str, bytes]) -> None:
        """Take what ``needs`` named. Raises CorruptError."""
        for part, data in parts.items():
            kind, _, name = part.partition("/")
            if kind == "heads":
                self._heads[int(name)] = data.split(_BREAK)
            elif kind == "delta":
                self._entries[int(name)] = decode_entries(data)
            elif kind == "words":
                self._buckets[int(name)] = decode_bucket(data, parts[f"postings/{name}"])

    def head(self, number: int) -> bytes:
        """The head of the page with this number, empty if there is none."""
        lines = self._heads.get(number // PAGES_PER_HEADS, [])
        return lines[number % PAGES_PER_HEADS] if number % PAGES_PER_HEADS < len(lines) else b""

    def write(self, number: int, old: bytes | None, new: Indexed | None, now_ms: int) -> None:
        """Index a page anew (``old`` is None), change it, or remove it (``new`` is None); compact what is next.

        ``old`` is the encoded term vector it was indexed with.
        """
        segment = self.segment
        segment.seq += 1
        self._expire(now_ms, number)
        self._set_page(number, new)
        lines = _changes(old, None if new is None else new.terms)
        if lines:
            self._append(number, lines)
        self._compact()
        self._retire()

    def parts(self) -> dict[str, bytes]:
        """Every part that changed, without ``meta``."""
        made: dict[str, bytes] = {}
        for part in sorted(self._changed - self._gone):
            kind, _, name = part.partition("/")
            place = int(name)
            if kind == "heads":
                made[part] = _BREAK.join(self._heads[place])
            elif kind == "delta":
                made[part] = b"".join(entry.encode() for entry in self._entries[place])
            else:
                made[f"words/{place}"], made[f"postings/{place}"] = self._buckets[place].encode()
        return made

    def gone(self) -> list[str]:
        """Parts that are no longer needed, if they were ever stored."""
        return sorted(self._gone)

    def _set_page(self, number: int, new: Indexed | None) -> None:
        segment = self.segment
        if number == len(segment.states):
            segment.states.append(_FREE)
            segment.lengths.append(0)
            segment.marks.append(0)
        state = _FREE if new is None else _ASKED if new.asked else _LIVE
        segment.states[number] = state
        segment.lengths[number] = 0 if new is None else term_format.length_of(new.terms)
        segment.marks[number] = 0 if new is None else new.mark
        segment.expires.pop(number, None)
        if new is not None and new.expires_ms is not None:
            segment.expires[number] = new.expires_ms
        self._set_head(number, b"" if new is None else new.head)

    def _set_head(self, number: int, head: bytes) -> None:
        chunk, line = divmod(number, PAGES_PER_HEADS)
        lines = self._heads.setdefault(chunk, [])
        lines.extend([b""] * (line + 1 - len(lines)))
        lines[line] = head
        self.segment.heads[chunk] = self.segment.seq
        self._changed.add(f"heads/{chunk}")

    def _expire(self, now_ms: int, written: int) -> None:
        """Pages past their end may have been swept with their term vectors: drop them bucket by bucket, unnamed."""
        segment = self.segment
        for number in segment.expired(now_ms) - {written}:
            del segment.expires[number]
            self._set_head(number, b"")
            segment.states[number] = _DYING
            segment.lengths[number] = segment.marks[number] = 0
            segment.dying[number] = segment.seq

    def _append(self, number: int, lines: list[bytes]) -> None:
        segment = self.segment
        texts = {line[:-2] for line in lines}
        hashes = dict(zip(texts, map(self._hash, texts), strict=True))
        hashed = sorted((hashes[line[:-2]], line) for line in lines)
        entry = Entry(
            segment.seq,
            number,
            array("H", [hash_ for hash_, _ in hashed]),
            b"".join(_BREAK + line for _, line in hashed),
        )
        place = segment.seq // ENTRIES_PER_DELTA
        self._entries.setdefault(place, []).append(entry)
        segment.delta[place] = segment.seq
        self._changed.add(f"delta/{place}")
        self._gone.discard(f"delta/{place}")

    def _compact(self) -> None:
        segment = self.segment
        place = (1 << segment.level) + segment.turn
        if segment.turn == 0:
            pages = len(segment.states) - segment.states.count(_FREE)
            segment.doubling = pages > self._pages_per_bucket << segment.level and segment.level < HASH_BITS
        bucket, since = self._buckets.pop(place), segment.buckets.pop(place)
        self._merge(bucket, place, since)
        halves = self._split(bucket, place) if segment.doubling else {place: bucket}
        for name, half in halves.items():
            self._buckets[name] = half
            segment.buckets[name] = segment.seq
            self._changed.add(f"postings/{name}")
            self._gone.difference_update((f"words/{name}", f"postings/{name}"))
        if segment.doubling:
            self._gone.update((f"words/{place}", f"postings/{place}"))
        segment.turn += 1
        if segment.turn == 1 << segment.level:
            segment.turn = 0
            segment.level += segment.doubling
            segment.doubling = False

    def _merge(self, bucket: Bucket, place: int, since: int) -> None:
        dying = {number for number, seq in self.segment.dying.items() if seq > since}
        if dying:
            bucket.forget(dying)
        bits = HASH_BITS - self.segment.level
        first = (place - (1 << self.segment.level)) << bits
        changes: dict[bytes, list[tuple[int, int]]] = {}
        beyond = first + (1 << bits)
        for entry in self._since(since):
            number = entry.number
            for line in entry.within(first, beyond):
                key = line[:-1]
                if key in changes:
                    changes[key].append((number, line[-1]))
                else:
                    changes[key] = [(number, line[-1])]
        bucket.change(changes)

    def _since(self, since: int) -> Iterator[Entry]:
        for place in sorted(self._entries):
            for entry in self._entries[place]:
                # What a page said before it expired must not come back after its postings were dropped.
                if entry.seq > since and entry.seq >= self.segment.dying.get(entry.number, 0):
                    yield entry

    def _split(self, bucket: Bucket, place: int) -> dict[int, Bucket]:
        bits = HASH_BITS - self.segment.level - 1
        low, high = bucket.split(lambda text: (self._hash(text) >> bits) & 1 == 1)
        return {2 * place: low, 2 * place + 1: high}

    def _retire(self) -> None:
        """Forget delta parts that every bucket has, and let numbers of dropped pages be used again."""
        segment = self.segment
        merged = min(segment.buckets.values())
        for place in [place for place, stamp in segment.delta.items() if stamp <= merged]:
            del segment.delta[place]
            del self._entries[place]
            self._gone.add(f"delta/{place}")
        for number in [number for number, seq in segment.dying.items() if seq <= merged]:
            del segment.dying[number]
            segment.states[number] = _FREE


class Reader:
    """What a search asks one segment."""

    __slots__ = ("_hash", "segment")

    def __init__(self, segment: Segment, hash_: Hash) -> None:
        self.segment = segment
        self._hash = hash_

    def needs(self, terms: Iterable[str]) -> list[str]:
        """The parts to load for these terms: the delta, and always a number of buckets that is a power of two.

        Which others are added hangs on the terms alone: the same query reads the same parts.
        """
        texts = sorted({term_format.key_of(term)[:-1] for term in terms})
        wanted = {self.segment.bucket_of(self._hash(text)) for text in texts}
        count = min(max(FEWEST_READ, 1 << (len(wanted) - 1).bit_length()), len(self.segment.buckets))
        others = [place for place in self.segment.buckets if place not in wanted]
        others.sort(key=lambda place: self._hash(b"\x00".join([*texts, b"", b"%d" % place])))
        read = sorted([*wanted, *others[: count - len(wanted)]])
        deltas = [f"delta/{place}" for place in self.segment.delta]
        return [*deltas, *(f"{kind}/{place}" for place in read for kind in ("words", "postings"))]

    def opens(self, terms: Iterable[str]) -> list[str]:
        """Those of the parts it reads for these terms that are worth opening."""
        texts = {term_format.key_of(term)[:-1] for term in terms}
        wanted = {self.segment.bucket_of(self._hash(text)) for text in texts}
        deltas = [f"delta/{place}" for place in self.segment.delta]
        return [*deltas, *(f"{kind}/{place}" for place in wanted for kind in ("words", "postings"))]

    def counts(self, terms: Iterable[str], parts: Mapping[str, bytes], now_ms: int) -> dict[str, Counts]:
        """For each term, its count in every page that holds it. ``parts`` gives what ``needs`` named."""
        hidden = self.segment.hidden(now_ms)
        entries = self.entries(parts)
        halves: dict[int, tuple[bytes, array[int]]] = {}
        lists: dict[bytes, Counts] = {}
        found: dict[str, Counts] = {}
        for term in terms:
            key = term_format.key_of(term)
            counts = self._list(key, parts, entries, lists, halves)
            if key[-1] == term_format.STEM_KIND:
                # A vector leaves a stem's line out where the word itself has the same count.
                exact = self._list(key[:-1] + bytes([term_format.EXACT_KIND]), parts, entries, lists, halves)
                counts = {**exact, **counts} if exact and counts else exact or counts
            if counts and max(counts) >= len(self.segment.states):
                raise CorruptError("the search index names a page that is not there")
            if 0 in counts.values() or not hidden.isdisjoint(counts):
                counts = {number: count for number, count in counts.items() if count and number not in hidden}
            found[term] = counts
        return found

    def entries(self, parts: Mapping[str, bytes]) -> list[Entry]:
        """The whole delta in order."""
        return [entry for place in sorted(self.segment.delta) for entry in decode_entries(parts[f"delta/{place}"])]

    def vocabulary(self, parts: Mapping[str, bytes]) -> Iterator[bytes]:
        """Blocks of lines, each a text and a byte for its kind, behind a line break: all words parts and the delta."""
        for place in self.segment.buckets:
            yield _BREAK + parts[f"words/{place}"] + _BREAK
        for entry in self.entries(parts):
            yield _BREAK.join([b"", *(line[:-1] for line in entry.lines[1:].split(_BREAK)), b""])

    def _list(
        self,
        key: bytes,
        parts: Mapping[str, bytes],
        entries: list[Entry],
        known: dict[bytes, Counts],
        halves: dict[int, tuple[bytes, array[int]]],
    ) -> Counts:
        if key in known:
            return known[key]
        place = self.segment.bucket_of(self._hash(key[:-1]))
        if place not in halves:
            halves[place] = _halves(parts[f"words/{place}"], parts[f"postings/{place}"])
        counts = _find_list(*halves[place], parts[f"postings/{place}"], key)
        since = self.segment.buckets[place]
        needle = _BREAK + key
        for entry in entries:
            if entry.seq <= since or entry.seq < self.segment.dying.get(entry.number, 0):
                continue
            at = entry.lines.find(needle)
            if at >= 0:
                count = entry.lines[at + len(needle)]
                if count == _DROPPED:
                    counts.pop(entry.number, None)
                else:
                    counts[entry.number] = count - term_format.FIRST_COUNT_BYTE
        known[key] = counts
        return counts


def all_words(segment: Segment) -> list[str]:
    """The parts that hold the whole vocabulary."""
    return [*(f"delta/{place}" for place in segment.delta), *(f"words/{place}" for place in segment.buckets)]


def heads_part(number: int) -> tuple[str, int]:
    """The part with a page's head, and the line there."""
    chunk, line = divmod(number, PAGES_PER_HEADS)
    return f"heads/{chunk}", line


def lines_of_heads(data: bytes) -> list[bytes]:
    """The heads in a part, empty where no page is."""
    return data.split(_BREAK)


def ladder(size: int) -> int:
    """The size a part is padded to: eight steps to each doubling, from 1 KiB on."""
    step = 1 << max(7, (max(size, 1) - 1).bit_length() - 4)
    return max(1024, -(-size // step) * step)


def _changes(old: bytes | None, new: bytes | None) -> list[bytes]:
    """The lines to set, and, for keys that are gone, lines that drop them."""
    before, after = (set() if blob is None else set(term_format.lines_of(blob)) for blob in (old, new))
    kept = {line[:-1] for line in after}
    dropped = [line[:-1] + bytes([_DROPPED]) for line in before if line[:-1] not in kept]
    return [*(after - before), *dropped]


def _halves(words: bytes, postings: bytes) -> tuple[bytes, array[int]]:
    """The keys of a bucket with a line break on both sides of each, and the sizes of their lists."""
    keys = words.count(_BREAK) + 1 if words else 0
    sizes = _numbers("I", postings[: 4 * keys])
    if len(sizes) != keys:
        raise CorruptError("the search index has a bucket whose halves do not fit")
    return _BREAK + words + _BREAK, sizes


def _find_list(block: bytes, sizes: array[int], postings: bytes, key: bytes) -> Counts:
    """One list without reading the others, with counts instead of their bytes."""
    at = block.find(_BREAK + key + _BREAK)
    if at < 0:
        return {}
    nth = block.count(_BREAK, 0, at)
    start = 4 * len(sizes) + sum(sizes[:nth])
    return _decoded(postings[start : start + sizes[nth]], _COUNTS)


def _changed(data: bytes, changes: Iterable[tuple[int, int]]) -> bytes:
    """A list with some postings set or dropped.

    A list is a run of blocks, one for each 256 page numbers that has any: number div 256, how many follow less 1,
    each number mod 256, each count. So one posting is found and changed without reading the others.
    """
    byte = _BYTE
    for number, count in changes:
        high, low = number >> 8, number & 0xFF
        at, size = 0, len(data)
        while at < size and data[at] < high:
            at += 4 + 2 * data[at + 1]
        if at >= size or data[at] != high:
            if count != _DROPPED:
                data = b"".join((data[:at], byte[high], b"\x00", byte[low], byte[count], data[at:]))
            continue
        many = data[at + 1] + 1
        place = bisect_left(data, low, at + 2, at + 2 + many)
        there = place < at + 2 + many and data[place] == low
        if there and count != _DROPPED:
            data = b"".join((data[: place + many], byte[count], data[place + many + 1 :]))
        elif there and many == 1:
            data = data[:at] + data[at + 4 :]
        elif there:
            rest = data[place + 1 : place + many], data[place + many + 1 :]
            data = b"".join((data[: at + 1], byte[many - 2], data[at + 2 : place], *rest))
        elif count != _DROPPED:
            rest = data[place : place + many], data[place + many :]
            data = b"".join(
                (data[: at + 1], byte[many], data[at + 2 : place], byte[low], rest[0], byte[count], rest[1])
            )
    return data


def decode_list(data: bytes) -> Counts:
    """The page numbers and count bytes of a list. Raises CorruptError."""
    return _decoded(data, None)


def _decoded(data: bytes, table: bytes | None) -> Counts:
    counts: Counts = {}
    at = 0
    while at < len(data):
        middle = at + 3 + data[at + 1] if at + 1 < len(data) else len(data)
        end = 2 * middle - at - 2
        if end > len(data):
            raise CorruptError("the search index has a list that is cut off")
        base = data[at] << 8
        counts.update(
            zip([base + low for low in data[at + 2 : middle]], data[middle:end].translate(table), strict=True)
        )
        at = end
    return counts


def _numbers(kind: str, data: bytes) -> array[int]:
    numbers = array(kind)
    if len(data) % numbers.itemsize:
        raise CorruptError("the search index has a part that is cut off")
    numbers.frombytes(data)
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers


def _big_endian(numbers: array[int]) -> bytes:
    if sys.byteorder == "little":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()
