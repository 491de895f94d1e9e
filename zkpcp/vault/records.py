"""Sealing and opening what a context stores: pages, profiles, change logs, inbox items; and the blind path tags.

Implements schemas/formats/sealed-record.md and inbox.md. A sealed record is bound to its place: context, slot,
generation, id, version, and every piece of readable metadata that decides about access. The place is taken from the
query and the row is checked against it, so a row moved, swapped or relabelled does not open (TamperedError). Lengths
are padded before sealing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol, TypeAlias

from zkpcp.core import pages as page_format
from zkpcp.core import profile as profile_format
from zkpcp.core.pages import Head, Page
from zkpcp.core.paths import PagePath, parse_path
from zkpcp.core.schemas import JsonObject
from zkpcp.core.slots import (
    PATHS,
    SubKeyName,
    SubKeyRef,
    is_sensitive,
    memory_slot,
    profile_slot,
    proposals_slot,
)
from zkpcp.core.stored import GrantRow, HeadRow, InboxRow, PageRow, ProfileChangeRow, ProfileRow, ProposalRow, TermsRow
from zkpcp.crypto import blind
from zkpcp.crypto.aead import SALT_BYTES, context_of, open_box, seal
from zkpcp.crypto.kdf import lp, u64
from zkpcp.crypto.padding import pad, unpad
from zkpcp.crypto.seal import open_sealed, seal_to
from zkpcp.crypto.sign import verify
from zkpcp.crypto.wipe import wipe
from zkpcp.errors import CorruptError, InvalidInputError, TamperedError
from zkpcp.ports import Entropy
from zkpcp.vault.holders import verified_grant
from zkpcp.vault.keyring import OpenKeyring

APPROVED: Final = "approved"
_LENGTH_BYTES: Final = 4
_INSTANT_BYTES: Final = 8

Part: TypeAlias = Literal["rec", "head", "terms"]


class Placed(Protocol):
    """What every row of a page says about its place."""

    @property
    def page_id(self) -> str: ...
    @property
    def slot(self) -> str: ...
    @property
    def generation(self) -> int: ...
    @property
    def version(self) -> int: ...
    @property
    def review_state(self) -> str: ...
    @property
    def updated_ms(self) -> int: ...
    @property
    def expires_ms(self) -> int | None: ...


@dataclass(frozen=True, slots=True, repr=False)
class InboxItem:
    """An opened and verified inbox item: the page and its encoded term vector."""

    page: Page
    terms: bytes


@dataclass(frozen=True, slots=True, repr=False)
class Proposal:
    """An opened proposal: the page as it would be, and the ``updated`` of the page that it was made from, if any."""

    page: Page
    base_ms: int | None


def slot_of(page: Page) -> str:
    """The slot a page is sealed in."""
    return memory_slot(page.partition, sensitive=page.is_sensitive)


def path_tag(keys: OpenKeyring, path: PagePath) -> tuple[int, bytes]:
    """The tag by which a path is found, with its generation; the same for paths that differ only in case (MEM-02).

    Of several generations it is the oldest: while the keys are being changed that one alone is complete.
    """
    return next(iter(path_tags(keys, path)))


def path_tags(keys: OpenKeyring, path: PagePath) -> Iterator[tuple[int, bytes]]:
    """The tag of a path for each generation that is in use, the oldest first: a page at this path claims them all."""
    for generation in keys.roster.generations:
        key = keys.key(PATHS, generation, "tag")
        yield generation, blind.path_tag(key, keys.context_id, generation, path.folded)


def seal_page(keys: OpenKeyring, page: Page, version: int, terms: bytes, entropy: Entropy) -> PageRow:
    """Seal a page, its head and its term vector into a row. ``terms`` is the encoded vector of ``core.terms``."""
    slot = slot_of(page)
    row = PageRow(
        context_id=keys.context_id,
        page_id=page.id,
        slot=slot,
        generation=keys.roster.generation,
        version=version,
        review_state=APPROVED,
        updated_ms=page.updated_ms,
        expires_ms=page.expires_ms,
        sealed=b"",
        head=b"",
        terms=b"",
    )
    head = page_format.encode_head(page_format.head_of(page))
    return PageRow(
        row.context_id,
        row.page_id,
        row.slot,
        row.generation,
        row.version,
        row.review_state,
        row.updated_ms,
        row.expires_ms,
        sealed=_sealed(keys, row, "rec", _file(page), entropy),
        head=_sealed(keys, row, "head", head, entropy),
        terms=_sealed(keys, row, "terms", terms, entropy),
    )


def open_page(keys: OpenKeyring, row: PageRow) -> Page:
    """Open a page. Raises TamperedError when the row is not what was sealed for this place."""
    with _opened(keys, row, "rec", row.sealed) as plain:
        page = _page(plain)
    _check_place(page, row)
    return page


def check_path(page: Page, path: PagePath) -> None:
    """Raise TamperedError when a path's tag has led to a page of another path: only a changed tag row does that."""
    if page.path.folded != path.folded:
        raise TamperedError("a path tag leads to another page")


def open_head(keys: OpenKeyring, row: HeadRow | PageRow) -> Head:
    """Open a page's head. Raises TamperedError."""
    with _opened(keys, row, "head", row.head) as plain:
        head = page_format.decode_head(plain)
    if head.id != row.page_id:
        raise TamperedError("a page head belongs to another page")
    return head


def has_head(keys: OpenKeyring, row: HeadRow | PageRow, head: Head) -> bool:
    """Whether a row holds this very head; cheaper than to read it. Raises TamperedError."""
    with _opened(keys, row, "head", row.head) as plain:
        return plain == page_format.encode_head(head)


@contextmanager
def open_terms(keys: OpenKeyring, row: TermsRow | PageRow) -> Iterator[bytes]:
    """Open a page's encoded term vector for the length of a block. Raises TamperedError."""
    with _opened(keys, row, "terms", row.terms) as plain:
        # bytes.find is what makes the scan fast, and it needs bytes; wiped on free with the block's other temporaries.
        yield bytes(plain)


def seal_to_inbox(keys: OpenKeyring, page: Page, terms: bytes, *, grant_id: str) -> InboxRow:
    """Seal a sensitive page that its writer may not read: to the slot's inbox key, signed by the grant (MEM-22)."""
    slot = slot_of(page)
    generation, public = keys.inbox_public(slot)
    info = _inbox_info(keys.context_id, slot, generation, page.id, grant_id, page.updated_ms, page.expires_ms)
    plain = pad(lp(_file(page), terms), powers_of_two=True)
    try:
        sealed = seal_to(public, plain, info)
    finally:
        wipe(plain)
    return InboxRow(
        context_id=keys.context_id,
        page_id=page.id,
        slot=slot,
        generation=generation,
        grant_id=grant_id,
        updated_ms=page.updated_ms,
        expires_ms=page.expires_ms,
        sealed=sealed,
        signature=keys.sign("inbox", info, sealed),
    )


def open_inbox(keys: OpenKeyring, row: InboxRow, grant: GrantRow) -> InboxItem:
    """Verify an inbox item against roster and grant, and open it.

    Raises TamperedError for one that its grant did not sign or that names another author: it never enters memory.
    """
    verified_grant(grant, keys.roster)
    if grant.grant_id != row.grant_id:
        raise TamperedError("an inbox item names another grant")
    info = _inbox_info(
        keys.context_id, row.slot, row.generation, row.page_id, row.grant_id, row.updated_ms, row.expires_ms
    )
    verify(grant.sig_public, row.signature, "inbox", info, row.sealed)
    plain = open_sealed(keys.inbox_private(row.slot, row.generation), row.sealed, info)
    try:
        file, terms = _two_fields(unpad(plain))
        item = InboxItem(_page(file), bytes(terms))
    finally:
        wipe(plain)
    if item.page.id != row.page_id or slot_of(item.page) != row.slot:
        raise TamperedError("an inbox item holds another page")
    source = item.page.source
    author = (source["principal"], source["client"], source.get("on_behalf_of"))
    if author != (grant.principal, grant.client_id, grant.on_behalf_of):
        raise TamperedError("an inbox item names another author than its grant")
    return item


def proposal_slot(page: Page) -> str:
    """The slot a proposal is sealed in: a sensitive page's own, so that no other key opens it."""
    return slot_of(page) if page.is_sensitive else proposals_slot(page.partition)


def seal_proposal(keys: OpenKeyring, row: ProposalRow, proposal: Proposal, entropy: Entropy) -> ProposalRow:
    """Seal a proposal for the place that ``row`` names; its slot, generation, content and signature are set here.

    Whoever lacks the sensitive slot seals to its inbox and signs, as with a page (MEM-22).
    """
    slot = proposal_slot(proposal.page)
    placed = replace(row, slot=slot, generation=keys.roster.generation, sealed=b"", signature=b"")
    base = b"" if proposal.base_ms is None else u64(proposal.base_ms)
    plain = pad(lp(base, _file(proposal.page)), powers_of_two=is_sensitive(slot))
    try:
        if is_sensitive(slot) and not keys.holds(SubKeyRef(slot, "rec")):
            _, public = keys.inbox_public(slot)
            info = proposal_place(placed)
            sealed = seal_to(public, plain, info)
            return replace(placed, sealed=sealed, signature=keys.sign("proposal", info, sealed))
        key = keys.key(slot, placed.generation, "rec")
        box = seal(key, plain, proposal_place(placed), salt=entropy.bytes(SALT_BYTES))
        return replace(placed, sealed=box)
    finally:
        wipe(plain)


def open_proposal(keys: OpenKeyring, row: ProposalRow, grant: GrantRow | None) -> Proposal:
    """Open a proposal; ``grant`` is that of ``row.grant_id``, by which one in quarantine is verified.

    One that a signed-in member made names no grant, and is verified by the member's own key. Raises TamperedError for
    one that was moved, relabelled, or not signed by whom it names.
    """
    if row.context_id != keys.context_id:
        raise TamperedError("a proposal belongs to another context")
    context = proposal_place(row)
    if row.signature:
        plain = _opened_from_quarantine(keys, row, grant, context)
    else:
        plain = open_box(keys.key(row.slot, row.generation, "rec"), row.sealed, context)
    try:
        base, file = _two_fields(unpad(plain))
        if len(base) not in (0, _INSTANT_BYTES):
            raise CorruptError("a proposal does not say what it was made from")
        proposal = Proposal(_page(file), int.from_bytes(base, "big") if len(base) else None)
    finally:
        wipe(plain)
    source = proposal.page.source
    if proposal_slot(proposal.page) != row.slot or source["principal"] != row.principal:
        raise TamperedError("a proposal holds another page or names another author")
    if row.signature and grant is not None:
        author = (source["principal"], source["client"], source.get("on_behalf_of"))
        if author != (grant.principal, grant.client_id, grant.on_behalf_of):
            raise TamperedError("a proposal names another author than its grant")
    return proposal


def _opened_from_quarantine(keys: OpenKeyring, row: ProposalRow, grant: GrantRow | None, context: bytes) -> bytearray:
    verify(_signer(keys, row, grant), row.signature, "proposal", context, row.sealed)
    return open_sealed(keys.inbox_private(row.slot, row.generation), row.sealed, context)


def _signer(keys: OpenKeyring, row: ProposalRow, grant: GrantRow | None) -> bytes:
    """The public key of whoever has to have signed a proposal in quarantine."""
    if row.grant_id is None:
        author = keys.roster.principal(row.principal)
        if author is None or not author.is_person:
            raise TamperedError("a proposal names an author who does not belong here")
        return author.sig_public
    if grant is None or grant.grant_id != row.grant_id:
        raise TamperedError("a proposal names a grant that is not there")
    verified_grant(grant, keys.roster)
    return grant.sig_public


def seal_profile(
    keys: OpenKeyring, namespace: str, profile: JsonObject | None, version: int, updated_ms: int, entropy: Entropy
) -> ProfileRow:
    """Seal a profile; None (an empty profile) is sealed as no bytes, so that its absence shows nothing."""
    slot = profile_slot(namespace)
    generation, key = keys.live_key(slot, "rec")
    plain = pad(b"" if profile is None else profile_format.serialize(profile))
    context = profile_place(keys.context_id, slot, generation, "profile", version, updated_ms)
    try:
        sealed = seal(key, plain, context, salt=entropy.bytes(SALT_BYTES))
    finally:
        wipe(plain)
    return ProfileRow(keys.context_id, namespace, generation, version, updated_ms, sealed)


def open_profile(keys: OpenKeyring, namespace: str, row: ProfileRow) -> JsonObject | None:
    """Open a profile; None when it is empty. Raises TamperedError."""
    slot = profile_slot(namespace)
    context = profile_place(keys.context_id, slot, row.generation, "profile", row.version, row.updated_ms)
    plain = open_box(keys.key(slot, row.generation, "rec"), row.sealed, context)
    try:
        data = unpad(plain)
        return profile_format.parse_stored(data) if len(data) else None
    finally:
        wipe(plain)


def seal_change(
    keys: OpenKeyring,
    row: ProfileRow,
    members: tuple[str, ...],
    *,
    principal: str,
    client: str | None,
    entropy: Entropy,
) -> ProfileChangeRow:
    """Seal the change-log entry that goes with a new version of a profile: who and when readable, which members not."""
    slot = profile_slot(row.namespace)
    plain = pad(json.dumps(members, separators=(",", ":")).encode())
    who = (principal, client)
    context = profile_place(keys.context_id, slot, row.generation, "change", row.version, row.updated_ms, who)
    try:
        sealed = seal(keys.key(slot, row.generation, "rec"), plain, context, salt=entropy.bytes(SALT_BYTES))
    finally:
        wipe(plain)
    return ProfileChangeRow(
        row.context_id, row.namespace, row.version, row.updated_ms, principal, client, row.generation, sealed
    )


def open_change(keys: OpenKeyring, row: ProfileChangeRow) -> tuple[str, ...]:
    """The members (JSON pointers) that a change touched. Raises TamperedError."""
    slot = profile_slot(row.namespace)
    who = (row.principal, row.client)
    context = profile_place(keys.context_id, slot, row.generation, "change", row.version, row.at_ms, who)
    plain = open_box(keys.key(slot, row.generation, "rec"), row.sealed, context)
    try:
        return tuple(str(member) for member in json.loads(bytes(unpad(plain))))
    finally:
        wipe(plain)


def _file(page: Page) -> bytes:
    """The path and the stored file: the path is not part of the file, but must not be lost or swapped."""
    return lp(page.path.value.encode()) + page_format.serialize(page)


def _page(plain: memoryview) -> Page:
    if len(plain) < _LENGTH_BYTES:
        raise CorruptError("a stored page is too short")
    end = _LENGTH_BYTES + int.from_bytes(plain[:_LENGTH_BYTES], "big")
    try:
        path = parse_path(bytes(plain[_LENGTH_BYTES:end]).decode("ascii"))
    except (UnicodeDecodeError, InvalidInputError):
        path = None
    if path is None:
        raise CorruptError("a stored page's path breaks the grammar")
    return page_format.parse_stored(path, plain[end:])


def _two_fields(plain: memoryview) -> tuple[memoryview, memoryview]:
    end = _LENGTH_BYTES + int.from_bytes(plain[:_LENGTH_BYTES], "big")
    second = end + _LENGTH_BYTES
    if second > len(plain) or second + int.from_bytes(plain[end:second], "big") != len(plain):
        raise CorruptError("an inbox item does not hold a page and its terms")
    return plain[_LENGTH_BYTES:end], plain[second:]


def _check_place(page: Page, row: PageRow) -> None:
    """The readable copies of these must be what the page itself says."""
    if (page.id, slot_of(page), page.updated_ms, page.expires_ms) != (
        row.page_id,
        row.slot,
        row.updated_ms,
        row.expires_ms,
    ):
        raise TamperedError("a page's readable metadata is not its own")


def _sealed(keys: OpenKeyring, row: Placed, part: Part, data: bytes, entropy: Entropy) -> bytes:
    plain = pad(data, powers_of_two=is_sensitive(row.slot))
    try:
        return seal(
            keys.key(row.slot, row.generation, part),
            plain,
            page_place(keys.context_id, row, part),
            salt=entropy.bytes(SALT_BYTES),
        )
    finally:
        wipe(plain)


@contextmanager
def _opened(keys: OpenKeyring, row: Placed, part: Part, box: bytes) -> Iterator[memoryview]:
    name: SubKeyName = part
    plain = open_box(keys.key(row.slot, row.generation, name), box, page_place(keys.context_id, row, part))
    try:
        yield unpad(plain)
    finally:
        wipe(plain)


def page_place(context_id: str, row: Placed, part: Part) -> bytes:
    """What a sealed part of a page is bound to."""
    return context_of(
        f"page/{part}",
        context_id.encode(),
        row.slot.encode(),
        u64(row.generation),
        row.page_id.encode(),
        u64(row.version),
        row.review_state.encode(),
        u64(row.updated_ms),
        _optional(row.expires_ms),
    )


def _inbox_info(
    context_id: str, slot: str, generation: int, page_id: str, grant_id: str, updated_ms: int, expires_ms: int | None
) -> bytes:
    return lp(
        b"inbox",
        context_id.encode(),
        slot.encode(),
        u64(generation),
        page_id.encode(),
        grant_id.encode(),
        u64(updated_ms),
        _optional(expires_ms),
    )


def proposal_place(row: ProposalRow) -> bytes:
    """What a sealed proposal is bound to."""
    return context_of(
        "proposal",
        row.context_id.encode(),
        row.slot.encode(),
        u64(row.generation),
        row.proposal_id.encode(),
        (row.grant_id or "").encode(),
        row.principal.encode(),
        row.state.encode(),
        u64(row.created_ms),
        u64(row.expires_ms),
    )


def profile_place(
    context_id: str,
    slot: str,
    generation: int,
    what: str,
    version: int,
    updated_ms: int,
    who: tuple[str, str | None] | None = None,
) -> bytes:
    """What a sealed profile, or a change of one by somebody, is bound to."""
    fields = [context_id.encode(), slot.encode(), u64(generation), u64(version), u64(updated_ms)]
    if who is not None:
        principal, client = who
        fields += [principal.encode(), b"" if client is None else client.encode()]
    return context_of(f"profile/{what}", *fields)


def _optional(instant_ms: int | None) -> bytes:
    """An absent instant is no bytes, which no instant is. Instants before 1970 are stored as 0 in the binding."""
    return b"" if instant_ms is None else u64(max(0, instant_ms))
