"""Writing a page: create or replace it, in the slot that its partition and sensitivity decide.

Implements MEM-02, MEM-05 to MEM-09, MEM-12, MEM-21, MEM-22: moving a page needs write in both partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zkpcp.core import pages as page_format
from zkpcp.core import terms as term_format
from zkpcp.core.audit import Action, Channel
from zkpcp.core.frontmatter import YamlValue
from zkpcp.core.instants import parse_rfc3339, read_field
from zkpcp.core.pages import Author, Draft, Page
from zkpcp.core.slots import SubKeyRef, category_of
from zkpcp.core.stored import PageRow
from zkpcp.errors import ConflictError, ForbiddenError, InvalidInputError, TooLargeError, Violation
from zkpcp.ports import Transaction
from zkpcp.usecases.access import Acting
from zkpcp.usecases.audit_log import record, swept_partitions
from zkpcp.usecases.call import Call, calling
from zkpcp.usecases.history import trim_history
from zkpcp.usecases.inbox import admit_waiting
from zkpcp.usecases.indexing import index_page
from zkpcp.usecases.partition_names import default_partition, partition_names, require_right
from zkpcp.usecases.proposals import store_proposal, writes_wait
from zkpcp.usecases.services import Services
from zkpcp.vault import records

ACTION = "memory_write"
CHANGED = "the page changed meanwhile: read it again and repeat the change on what you find"
_OCCUPIED = "a page that this connection cannot change is at this path; choose another path"


@dataclass(frozen=True, slots=True, repr=False)
class Written:
    """What a write did. ``updated`` is the instant to send as ``expected_updated`` with the next change.

    With a ``proposal_id`` nothing was written: it waits for review, and there is no page id or instant yet (MEM-14).
    """

    path: str
    page_id: str
    updated: str
    created: bool
    proposal_id: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Approved:
    """What an approved page is stamped with: its author, not the reviewer, and the review itself (MEM-16)."""

    author: Author
    review: Mapping[str, YamlValue]


async def write_page(
    services: Services,
    acting: Acting,
    *,
    path: str,
    body: str,
    frontmatter: Mapping[str, object] | None = None,
    expected_updated: str | None = None,
) -> Written:
    """Create the page at ``path``, or replace it.

    Raises InvalidInputError, TooLargeError, ConflictError (stale ``expected_updated``, or a page the caller cannot
    read is there, MEM-08) and ForbiddenError (changing a sensitive page needs memory.sensitive:write, MEM-07).
    """
    async with calling(services, acting, ACTION, "memory") as call:
        if "memory:write" not in acting.scopes:
            raise ForbiddenError("writing pages needs another scope", ("memory:write",))
        draft, expected_ms = read_draft(services, path, body, frontmatter, expected_updated)
        # What this caller may read is no occupied path to it, also while it waits in quarantine.
        await admit_waiting(call)
        async with services.store.write() as tx:
            draft = (await partition_names(tx, call)).draft(draft)
            if writes_wait(acting):
                waiting = await store_proposal(tx, call, draft, expected_ms, author_of(acting), "write")
                await call.record(tx)
                return Written(draft.path.value, "", "", created=False, proposal_id=waiting)
            stored = await page_at(tx, call, draft)
            if stored is None:
                page = await create_page(tx, call, draft, expected_ms)
            else:
                page = await replace_page(tx, call, draft, stored, expected_ms)
            call.object_ids.add(page.id)
            call.categories.add(category_of(records.slot_of(page)))
            call.looks_into([records.slot_of(page)])
            await call.record(tx)
        return Written(page.path.value, page.id, page.updated, created=stored is None)


def author_of(acting: Acting) -> Author:
    """The author that the server stamps into a page (MEM-09)."""
    actor = acting.actor
    return Author(actor.principal, actor.client or "zkpcp", actor.on_behalf_of)


def encoded_terms(page: Page) -> bytes:
    """The page's term vector in its stored form."""
    vector = term_format.terms_of_page(page.title, page.tags, page.type, page.path.value, page.body)
    return term_format.encode(vector)


async def page_at(tx: Transaction, call: Call, draft: Draft) -> PageRow | None:
    """The page at the draft's path as the caller may see it; None when the path is free."""
    acting, services = call.acting, call.services
    now_ms = services.clock.now_ms()
    generation, tag = records.path_tag(acting.keys, draft.path)
    page_id = await tx.pages.by_tag(acting.context_id, generation, tag)
    if page_id is None:
        return None
    row = await tx.pages.page(acting.context_id, page_id, acting.readable_slots(), now_ms, lock=True)
    if row is not None:
        return row
    if await is_free(tx, call, generation, tag):
        return None
    raise ConflictError(_OCCUPIED)


async def is_free(tx: Transaction, call: Call, generation: int, tag: bytes) -> bool:
    """Whether nothing is at a path; what is past its retention holds its path until it is swept, which is done here."""
    acting, services = call.acting, call.services
    if await tx.pages.by_tag(acting.context_id, generation, tag) is None:
        return True
    swept = await tx.pages.delete_expired(acting.context_id, services.clock.now_ms())
    if swept:
        await record(
            tx,
            services,
            acting.context_id,
            action=Action.RETENTION_SWEEP,
            channel=Channel.SYSTEM,
            categories=("memory",),
            partitions=swept_partitions(acting.context),
            counts={"pages": swept},
        )
    return await tx.pages.by_tag(acting.context_id, generation, tag) is None


async def create_page(
    tx: Transaction,
    call: Call,
    draft: Draft,
    expected_ms: int | None,
    *,
    partition: str | None = None,
    approved: Approved | None = None,
) -> Page:
    """Make a page at a path that is free, in ``partition`` if the draft names none. Raises as ``write_page`` does."""
    acting, services = call.acting, call.services
    if expected_ms is not None:
        raise ConflictError("there is no page at this path any more")
    if await tx.pages.count(acting.context_id) >= services.max_pages:
        raise TooLargeError(f"this context holds its limit of {services.max_pages} pages")
    partition = str((draft.frontmatter or {}).get("partition") or partition or default_partition(acting))
    require_right(acting, "write", partition)
    page = page_format.create(
        draft,
        page_id=services.new_id("pg"),
        now_ms=services.clock.now_ms(),
        author=author_of(acting) if approved is None else approved.author,
        default_partition=partition,
    )
    page = page if approved is None else page_format.with_review(page, approved.review)
    terms = encoded_terms(page)
    (generation, tag), *newer = records.path_tags(acting.keys, page.path)
    if acting.keys.holds(SubKeyRef(records.slot_of(page), "rec")):
        row = records.seal_page(acting.keys, page, 1, terms, services.entropy)
        await tx.pages.add(row, generation, tag)
        await index_page(tx, services, acting, page.id, after=page, terms=terms)
    else:
        grant_id = acting.actor.grant_id or ""
        item = records.seal_to_inbox(acting.keys, page, terms, grant_id=grant_id)
        await tx.pages.add_to_inbox(item, generation, tag)
    for generation, tag in newer:
        await tx.pages.claim(acting.context_id, page.id, generation, tag)
    return page


async def replace_page(
    tx: Transaction,
    call: Call,
    draft: Draft,
    row: PageRow,
    expected_ms: int | None,
    *,
    approved: Approved | None = None,
) -> Page:
    """Make the next version of a page; the stored one goes into its history. Raises as ``write_page`` does."""
    acting, services = call.acting, call.services
    call.decrypted = True
    stored = records.open_page(acting.keys, row)
    records.check_path(stored, draft.path)
    call.looks_into([row.slot])
    require_right(acting, "write", stored.partition)
    if expected_ms is not None and expected_ms != stored.updated_ms:
        raise ConflictError(CHANGED)
    if page_format.needs_sensitive_write(stored, draft) and "memory.sensitive:write" not in acting.scopes:
        raise ForbiddenError(
            "changing a sensitive page, or whether a page is sensitive, needs another scope",
            ("memory:write", "memory.sensitive:write"),
        )
    author = author_of(acting) if approved is None else approved.author
    page = page_format.update(stored, draft, now_ms=services.clock.now_ms(), author=author)
    page = page if approved is None else page_format.with_review(page, approved.review)
    require_right(acting, "write", page.partition)
    terms = encoded_terms(page)
    await tx.pages.replace(records.seal_page(acting.keys, page, row.version + 1, terms, services.entropy))
    await index_page(tx, services, acting, page.id, before=row, after=page, terms=terms)
    await trim_history(tx, services, acting.context_id, page.id)
    return page


def read_draft(
    services: Services, path: str, body: str, frontmatter: Mapping[str, object] | None, expected_updated: str | None
) -> tuple[Draft, int | None]:
    """What a client wants a page to be, and which version it has seen. Raises InvalidInputError, TooLargeError."""
    draft = page_format.draft(path, body, frontmatter, services.page_limits)
    check_draft(draft, now_ms=services.clock.now_ms())
    return draft, parse_expected(expected_updated)


def check_draft(draft: Draft, *, now_ms: int) -> None:
    """Raise InvalidInputError for a page that would be gone at once."""
    expires = (draft.frontmatter or {}).get("expires")
    if isinstance(expires, str) and parse_rfc3339(expires) <= now_ms:
        raise InvalidInputError("the page would be gone at once", [Violation("/frontmatter/expires", "must lie ahead")])


def parse_expected(text: str | None) -> int | None:
    """The instant in ``expected_updated``. Raises InvalidInputError."""
    return read_field("expected_updated", text, parse_rfc3339, "an instant")
