"""The first look: profile and the most useful pages within a size, and what was left out (TOOL-11).

It never fails for a missing scope: what a scope would open is named instead, with the scopes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from zkpcp.core.extensions import extension_of
from zkpcp.core.pages import Head, Page
from zkpcp.core.schemas import JsonObject, canonical_json
from zkpcp.core.slots import category_of
from zkpcp.errors import TamperedError
from zkpcp.usecases.access import Acting
from zkpcp.usecases.call import Call, calling
from zkpcp.usecases.handoffs import LIST as HANDOFFS
from zkpcp.usecases.inbox import admit_waiting
from zkpcp.usecases.profile import own_namespace
from zkpcp.usecases.recall import directory
from zkpcp.usecases.services import Services
from zkpcp.vault import records

ACTION = "context_brief"
MOST_PAGES = 25
_SMALLEST_PART = 200


@dataclass(frozen=True, slots=True, repr=False)
class BriefPage:
    """A page, or its beginning where ``cut``."""

    head: Head
    text: str
    cut: bool


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something that is not in the brief, and the scopes that would open it (none: it is only a matter of size)."""

    what: str
    required_scopes: tuple[str, ...] = ()


@dataclass(slots=True, repr=False)
class Brief:
    """What a client should know first."""

    kind: str
    controller: str
    profile: JsonObject | None = None
    pages: list[BriefPage] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)


async def brief(services: Services, acting: Acting, *, max_chars: int) -> Brief:
    """Profile and pages, at most ``max_chars`` characters of content: validated and recently changed pages first."""
    async with calling(services, acting, ACTION) as call:
        context = acting.context
        result = Brief(context.kind, context.controller)
        room = max_chars - await _add_profile(services, call, result, max_chars)
        if "memory:read" in acting.scopes:
            call.categories.add("memory")
            await admit_waiting(call)
            await _add_pages(services, call, result, room)
        _name_closed(acting, result)
        async with services.store.write() as tx:
            await call.record(tx)
        return result


async def _add_profile(services: Services, call: Call, result: Brief, room: int) -> int:
    acting = call.acting
    namespace = own_namespace(acting.context.kind)
    if f"{namespace}:read" not in acting.scopes:
        result.left_out.append(LeftOut("the profile", (f"{namespace}:read",)))
        return 0
    call.categories.add(namespace)
    async with services.store.read() as tx:
        row = await tx.profiles.profile(acting.context_id, namespace)
    if row is None:
        return 0
    call.decrypted = True
    profile = records.open_profile(acting.keys, namespace, row)
    if profile is None:
        return 0
    size = len(canonical_json(profile).decode())
    if size > room:
        result.left_out.append(LeftOut("the profile, which is longer than max_chars: use profile_get"))
        return 0
    result.profile = profile
    return size


async def _add_pages(services: Services, call: Call, result: Brief, room: int) -> None:
    acting, now_ms = call.acting, services.clock.now_ms()
    async with services.store.read() as tx:
        heads = await directory(tx, call)
        wanted = _best_first([head for head in heads if head.lifecycle not in ("archived", "stale")], now_ms)
        ids = [head.id for head in wanted[:MOST_PAGES]]
        found = await tx.pages.pages(acting.context_id, ids, acting.readable_slots(), now_ms)
    pages = {row.page_id: records.open_page(acting.keys, row) for row in found}
    if pages.keys() != set(ids):
        raise TamperedError("the directory and the pages do not agree")
    call.categories.update(category_of(row.slot) for row in found)
    for head in wanted:
        page = pages.get(head.id)
        if page is None or room < min(_SMALLEST_PART, len(page.body)):
            break
        taken = _part(page, head, room)
        result.pages.append(taken)
        room -= len(taken.text)
    missing = len(heads) - len(result.pages)
    if missing:
        result.left_out.append(LeftOut(f"{missing} more pages: use memory_search or memory_list"))
    call.object_ids.update(entry.head.id for entry in result.pages)
    call.counts["pages"] = len(result.pages)


def _part(page: Page, head: Head, room: int) -> BriefPage:
    return BriefPage(head, page.body[:room], cut=len(page.body) > room)


def _best_first(heads: Sequence[Head], now_ms: int) -> list[Head]:
    """Pages that hold now before others, reviewed before unreviewed, then the newest."""
    superseded = {target for head in heads for target in head.supersedes}
    return sorted(
        heads,
        key=lambda head: (
            head.path.value in superseded,
            not head.is_current(now_ms),
            head.lifecycle != "validated",
            -head.updated_ms,
            head.id,
        ),
    )


def _name_closed(acting: Acting, result: Brief) -> None:
    # Named by scope alone, whether or not there is anything behind it: its absence would tell (MEM-13, SCOPE-02).
    if "memory:read" not in acting.scopes:
        result.left_out.append(LeftOut("memory pages", ("memory:read",)))
    elif "memory.sensitive:read" not in acting.scopes:
        result.left_out.append(LeftOut("pages marked sensitive, if any", ("memory:read", "memory.sensitive:read")))
    for extension in map(extension_of, acting.context.extensions):
        how = f"profile_get with namespace {extension.id}" if extension.is_profile else HANDOFFS
        scope = f"{extension.stem}:read"
        what = f"{extension.title.lower()}, if any"
        result.left_out.append(LeftOut(f"{what}: use {how}") if scope in acting.scopes else LeftOut(what, (scope,)))
