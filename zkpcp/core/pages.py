"""What a memory page is: made from a client's draft, updated, and kept as one file.

Implements PCP §5.2, §5.2.2 to §5.2.4 and §5.7 (MEM-04 to MEM-07, MEM-09, MEM-10, MEM-21, MEM-22). The stored file is
``---``, the frontmatter in its one form, ``---`` and the body byte for byte; the first block is always ours, so a body
may begin with ``---`` itself. Decisions where the protocol is silent:

- ``partition`` is written when the client gave it or when it is not ``main``.
- ``source`` names the author of this version: each write stamps its principal and client anew.
- A key whose value is null says nothing, as if it were absent.
- With explicit frontmatter a body may begin with a ``---`` line, unless another one closes it to a block.

It does not decide who may write, and it does not find the stored page: that is for policy and the use case.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, cast

from zkpcp.core import frontmatter as yaml_block
from zkpcp.core import page_keys
from zkpcp.core.frontmatter import YamlValue
from zkpcp.core.instants import parse_date_or_instant, parse_rfc3339, to_rfc3339
from zkpcp.core.paths import PagePath, parse_path
from zkpcp.errors import ConflictError, CorruptError, InvalidInputError, TooLargeError, Violation

MAIN_PARTITION: Final = "main"

_NOT_TEXT: Final = re.compile("[\x00\ud800-\udfff]")
# A byte order mark in front of a block belongs to the block: editors put it there, and it would hide the frontmatter.
_OPENING: Final = re.compile("\ufeff?---[ \t]*(?:\r\n?|\n|\\Z)")
_CLOSING: Final = re.compile("(?:(?<=\n)|(?<=\r))---[ \t]*(?:\r\n?|\n|\\Z)")
# CommonMark §4.2 and §4.5: a first-level ATX heading, or the line that opens or closes fenced code.
_HEADING_OR_FENCE: Final = re.compile(
    r"^ {0,3}(?:#[ \t]+(?P<text>.*)|(?P<fence>`{3,}|~{3,})(?P<info>.*))", re.MULTILINE
)
_CLOSING_HASHES: Final = re.compile(r"(?:^|[ \t])#+[ \t]*$")

_HEAD_JSON: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_HEAD_VERSION: Final = 1
_HEAD_FIELDS: Final = 14


@dataclass(frozen=True, slots=True)
class Limits:
    """The documented sizes above which a page is refused, in bytes of UTF-8."""

    body_bytes: int = 1024 * 1024
    frontmatter_bytes: int = yaml_block.MAX_BYTES


_DEFAULT_LIMITS: Final = Limits()


@dataclass(frozen=True, slots=True, repr=False)
class Draft:
    """What a client wants to write: a path, its own frontmatter keys (None: it said nothing about them) and a body."""

    path: PagePath
    frontmatter: Mapping[str, YamlValue] | None
    body: str


@dataclass(frozen=True, slots=True)
class Author:
    """Who writes: a principal, through an OAuth client, possibly on behalf of another principal."""

    principal: str
    client: str
    on_behalf_of: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Page:
    """A whole page, made by ``create``, ``update``, ``parse_stored`` and ``in_partition`` only.

    Nothing inside it is ever changed.
    """

    path: PagePath
    frontmatter: Mapping[str, YamlValue]
    body: str

    @property
    def id(self) -> str:
        """The page's stable id, which the server gave it."""
        return cast(str, self.frontmatter["id"])

    @property
    def title(self) -> str:
        """The title, never empty."""
        return cast(str, self.frontmatter["title"])

    @property
    def type(self) -> str | None:
        """``episodic``, ``semantic`` or ``procedural``, if the client said."""
        return cast(str | None, self.frontmatter.get("type"))

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags as the client wrote them."""
        return tuple(cast(list[str], self.frontmatter.get("tags", ())))

    @property
    def sensitivity(self) -> str:
        """``normal`` or ``sensitive``; absent means normal."""
        return cast(str, self.frontmatter.get("sensitivity", "normal"))

    @property
    def is_sensitive(self) -> bool:
        """Whether reading takes memory.sensitive:read."""
        return self.sensitivity == "sensitive"

    @property
    def partition(self) -> str:
        """The partition's name; absent means ``main``."""
        return cast(str, self.frontmatter.get("partition", MAIN_PARTITION))

    @property
    def lifecycle(self) -> str:
        """``active``, ``validated``, ``stale`` or ``archived``; absent means active."""
        return cast(str, self.frontmatter.get("lifecycle", "active"))

    @property
    def valid_from(self) -> str | None:
        """The date or instant as the client wrote it."""
        return cast(str | None, self.frontmatter.get("valid_from"))

    @property
    def valid_until(self) -> str | None:
        """The date or instant as the client wrote it."""
        return cast(str | None, self.frontmatter.get("valid_until"))

    @property
    def expires_ms(self) -> int | None:
        """When the page's retention ends, if it does."""
        expires = cast(str | None, self.frontmatter.get("expires"))
        return None if expires is None else parse_rfc3339(expires)

    @property
    def updated(self) -> str:
        """The version of the page, as ``expected_updated`` names it."""
        return cast(str, self.frontmatter["updated"])

    @property
    def updated_ms(self) -> int:
        """``updated`` as an instant."""
        return parse_rfc3339(self.updated)

    @property
    def recorded_at_ms(self) -> int:
        """When the page was created here."""
        return parse_rfc3339(cast(str, self.frontmatter["recorded_at"]))

    @property
    def source(self) -> Mapping[str, YamlValue]:
        """Where this version comes from and who wrote it."""
        return cast(Mapping[str, YamlValue], self.frontmatter["source"])

    @property
    def supersedes(self) -> tuple[str, ...]:
        """The paths that this page says it supersedes."""
        relations = cast(list[Mapping[str, str]], self.frontmatter.get("relations", ()))
        return tuple([relation["target"] for relation in relations if relation["rel"] == "supersedes"])

    def plain_frontmatter(self) -> dict[str, YamlValue]:
        """A copy of the outermost mapping, for JSON writers that know only dicts."""
        return dict(self.frontmatter)


@dataclass(frozen=True, slots=True, repr=False)
class Head:
    """The part of a page by which it is listed, filtered and ranked; it stands in the sealed page head."""

    path: PagePath
    id: str
    title: str
    type: str | None
    tags: tuple[str, ...]
    lifecycle: str
    valid_from: str | None
    valid_until: str | None
    updated_ms: int
    expires_ms: int | None
    sensitivity: str
    partition: str
    supersedes: tuple[str, ...]

    def is_expired(self, now_ms: int) -> bool:
        """Whether its retention has ended: such a page is never returned (MEM-18)."""
        return self.expires_ms is not None and self.expires_ms <= now_ms

    def is_current(self, now_ms: int) -> bool:
        """Whether ``now_ms`` lies in its validity; a bare date counts as that whole day in UTC (MEM-11)."""
        if self.valid_from is not None and now_ms < parse_date_or_instant(self.valid_from).first_ms:
            return False
        return self.valid_until is None or now_ms <= parse_date_or_instant(self.valid_until).last_ms


def draft(path: str, body: str, frontmatter: Mapping[str, object] | None, limits: Limits = _DEFAULT_LIMITS) -> Draft:
    """Take what a client sent as a draft; without ``frontmatter``, a block at the start of ``body`` is it (MEM-05).

    Raises InvalidInputError with violations for ``path``, ``body`` or ``frontmatter``, and TooLargeError.
    """
    page_path = parse_path(path, "/path")
    if len(body) > limits.body_bytes + limits.frontmatter_bytes:
        raise TooLargeError(f"body must have at most {limits.body_bytes} bytes")
    if _NOT_TEXT.search(body) is not None:
        raise _invalid("/body", "must not contain NUL or lone surrogates")
    if frontmatter is None:
        keys, body = _split_block(body, limits)
    else:
        if _has_whole_block(body):
            raise _invalid("/body", "must not begin with a frontmatter block when frontmatter is given")
        keys = yaml_block.checked(frontmatter)
    if len(body.encode()) > limits.body_bytes:
        raise TooLargeError(f"body must have at most {limits.body_bytes} bytes")
    if keys is None:
        return Draft(page_path, None, body)
    keys = page_keys.client_keys(keys)
    if len(yaml_block.dump(keys).encode()) > limits.frontmatter_bytes:
        raise TooLargeError(f"frontmatter must have at most {limits.frontmatter_bytes} bytes")
    return Draft(page_path, MappingProxyType(keys), body)


def create(draft: Draft, *, page_id: str, now_ms: int, author: Author, default_partition: str = MAIN_PARTITION) -> Page:
    """Make a new page; without a title it takes its first heading's, else its path's last segment.

    Under ``style/`` it is sensitive unless the client says otherwise (MEM-21). Raises InvalidInputError when a value
    the server hands in cannot be stored.
    """
    keys = dict(draft.frontmatter or {})
    keys.setdefault("title", _first_heading(draft.body) or draft.path.segments[-1])
    if draft.path.is_style:
        keys.setdefault("sensitivity", "sensitive")
    if default_partition != MAIN_PARTITION:
        keys.setdefault("partition", default_partition)
    now = to_rfc3339(now_ms)
    stamps: dict[str, YamlValue] = {"id": page_id, "recorded_at": now, "updated": now}
    return _page(draft, keys, stamps, author)


def update(stored: Page, draft: Draft, *, now_ms: int, author: Author) -> Page:
    """Make the next version of a page.

    Title, sensitivity and partition stay unless given (MEM-06); the client's other keys are replaced as a set when
    there is frontmatter, and stay when there is none. ``updated`` always grows. ``review`` stays: it is the reviewer's
    to change. Raises ConflictError when the paths differ, if only in case (MEM-02).
    """
    if draft.path != stored.path:
        raise ConflictError("a page whose path differs only in case exists")
    if draft.frontmatter is None:
        keys = page_keys.client_part(stored.frontmatter)
        keys["source"] = stored.source
    else:
        keys = dict(draft.frontmatter)
        for key in ("title", "sensitivity", "partition"):
            if key in stored.frontmatter:
                keys.setdefault(key, stored.frontmatter[key])
    stamps = {key: stored.frontmatter[key] for key in ("id", "recorded_at", "review") if key in stored.frontmatter}
    stamps["updated"] = to_rfc3339(max(now_ms, stored.updated_ms + 1))
    return _page(draft, keys, stamps, author)


def is_sensitivity_change(stored: Page, draft: Draft) -> bool:
    """Whether the draft would make a sensitive page normal, or a normal one sensitive."""
    given = (draft.frontmatter or {}).get("sensitivity")
    return given is not None and given != stored.sensitivity


def needs_sensitive_write(stored: Page | None, draft: Draft) -> bool:
    """Whether a write takes memory.sensitive:write: creating never does (MEM-22), changing may (MEM-07)."""
    return stored is not None and (stored.is_sensitive or is_sensitivity_change(stored, draft))


def serialize(page: Page) -> bytes:
    """Write a page as its one stored file."""
    return f"---\n{yaml_block.dump(page.frontmatter)}---\n{page.body}".encode()


def parse_stored(path: PagePath, data: bytes | bytearray | memoryview) -> Page:
    """Read what ``serialize`` wrote, and nothing else; raises CorruptError."""
    text = _utf8(data)
    if text is None or "\0" in text or not text.startswith("---\n"):
        raise CorruptError("a stored page is not a page file")
    end = text.find("\n---\n", 3)
    if end < 0:
        raise CorruptError("a stored page is not a page file")
    keys = yaml_block.load(text[4 : end + 1])
    if not _is_stored(keys):
        raise CorruptError("a stored page's frontmatter breaks the rules of its schema")
    return Page(path, MappingProxyType(keys), text[end + 5 :])


def with_review(page: Page, review: Mapping[str, YamlValue]) -> Page:
    """The page with the server's word on its review (MEM-16)."""
    keys = yaml_block.checked({**page.frontmatter, "review": dict(review)})
    page_keys.require_stored(keys)
    return Page(page.path, MappingProxyType(keys), page.body)


def in_partition(page: Page, partition: str) -> Page:
    """The page with another value for ``partition``: kept pages have its id there, pages that people see its name."""
    return Page(page.path, MappingProxyType({**page.frontmatter, "partition": partition}), page.body)


def head_of(page: Page) -> Head:
    """The head of a page."""
    return Head(
        path=page.path,
        id=page.id,
        title=page.title,
        type=page.type,
        tags=page.tags,
        lifecycle=page.lifecycle,
        valid_from=page.valid_from,
        valid_until=page.valid_until,
        updated_ms=page.updated_ms,
        expires_ms=page.expires_ms,
        sensitivity=page.sensitivity,
        partition=page.partition,
        supersedes=page.supersedes,
    )


def encode_head(head: Head) -> bytes:
    """Write a head as a JSON array: a format version, then the fields of ``Head`` in their order."""
    fields = [
        _HEAD_VERSION,
        head.path.value,
        head.id,
        head.title,
        head.type,
        head.tags,
        head.lifecycle,
        head.valid_from,
        head.valid_until,
        head.updated_ms,
        head.expires_ms,
        head.sensitivity,
        head.partition,
        head.supersedes,
    ]
    return _HEAD_JSON.encode(fields).encode()


def path_in_head(head: bytes) -> bytes:
    """The path in an encoded head, without reading the rest: paths are ASCII and hold no quotation mark."""
    return head.split(b'"', 2)[1]


def decode_head(data: bytes | bytearray | memoryview) -> Head:
    """Read what ``encode_head`` wrote; raises CorruptError."""
    head = _head(_json_array(data))
    if head is None:
        raise CorruptError("a stored page head does not have its form")
    return head


def _invalid(field: str, rule: str) -> InvalidInputError:
    return InvalidInputError("not a valid page", [Violation(field, rule)])


def _has_whole_block(body: str) -> bool:
    opening = _OPENING.match(body)
    return opening is not None and _CLOSING.search(body, opening.end()) is not None


def _split_block(body: str, limits: Limits) -> tuple[dict[str, YamlValue] | None, str]:
    opening = _OPENING.match(body)
    if opening is None:
        return None, body
    closing = _CLOSING.search(body, opening.end())
    if closing is None:
        raise _invalid("/body", "a frontmatter block that begins with --- must end with a line ---")
    block = body[opening.end() : closing.start()]
    return yaml_block.parse(block, max_bytes=limits.frontmatter_bytes), body[closing.end() :]


def _first_heading(body: str) -> str | None:
    fence = ""
    for match in _HEADING_OR_FENCE.finditer(body):
        marker = match["fence"]
        if marker is None:
            title = _CLOSING_HASHES.sub("", match["text"].rstrip()).strip()[: page_keys.MAX_TITLE_CHARS].rstrip()
            if title and not fence:
                return title
        elif not fence:
            if marker[0] == "~" or "`" not in match["info"]:
                fence = marker
        elif marker.startswith(fence) and not match["info"].strip():
            fence = ""
    return None


def _page(draft: Draft, keys: dict[str, YamlValue], stamps: Mapping[str, YamlValue], author: Author) -> Page:
    given = cast(Mapping[str, YamlValue], keys.get("source", {}))
    source = page_keys.client_source(given)
    source["principal"] = author.principal
    source["client"] = author.client
    if author.on_behalf_of is not None:
        source["on_behalf_of"] = author.on_behalf_of
    whole = yaml_block.checked({**keys, **stamps, "source": source})
    page_keys.require_stored(whole)
    return Page(draft.path, MappingProxyType(whole), draft.body)


def _is_stored(keys: Mapping[str, YamlValue]) -> bool:
    try:
        page_keys.require_stored(keys)
    except InvalidInputError:
        return False
    return True


def _utf8(data: bytes | bytearray | memoryview) -> str | None:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:  # dropped here: it would carry the bytes along
        return None


def _json_array(data: bytes | bytearray | memoryview) -> list[object] | None:
    text = _utf8(data)
    if text is None:
        return None
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return fields if type(fields) is list else None


def _head(fields: list[object] | None) -> Head | None:
    if fields is None or len(fields) != _HEAD_FIELDS or type(fields[0]) is not int or fields[0] != _HEAD_VERSION:
        return None
    match fields[1:]:
        case [
            str(path),
            str(page_id),
            str(title),
            (None | str()) as type_,
            list(tags),
            str(lifecycle),
            (None | str()) as valid_from,
            (None | str()) as valid_until,
            int(updated_ms),
            (None | int()) as expires_ms,
            str(sensitivity),
            str(partition),
            list(supersedes),
        ]:
            pass
        case _:
            return None
    if (
        isinstance(updated_ms, bool)
        or isinstance(expires_ms, bool)
        or sensitivity not in page_keys.SENSITIVITIES
        or lifecycle not in page_keys.LIFECYCLES
        or not {*map(type, tags), *map(type, supersedes)} <= {str}
    ):
        return None
    try:
        for moment in (valid_from, valid_until):
            if moment is not None:
                parse_date_or_instant(moment)
        page_path = parse_path(path, "/path")
    except InvalidInputError:
        return None
    return Head(
        path=page_path,
        id=page_id,
        title=title,
        type=type_,
        tags=tuple(tags),
        lifecycle=lifecycle,
        valid_from=valid_from,
        valid_until=valid_until,
        updated_ms=updated_ms,
        expires_ms=expires_ms,
        sensitivity=sensitivity,
        partition=partition,
        supersedes=tuple(supersedes),
    )
