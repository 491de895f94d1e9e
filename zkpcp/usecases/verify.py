"""Checking everything that is stored in a context: what its owner, and an auditor beside them, can see for themselves.

Each check reads all rows of its kind and opens or verifies them with the owner's keys: the chain of the access log, the
signatures of roster, grants and keyrings, every page, deleted page, path tag, profile, hand-off and proposal in the
place where it lies. What is told are counts and opaque ids, never content.

Last, the rows of every slot are held against its integrity head. It does NOT see deleted pages or pages in quarantine
that were dropped, nor an older state of everything, log included, that is consistent in itself. It says nothing about
the program that runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from zkpcp.core import audit
from zkpcp.core.audit import Action
from zkpcp.core.pages import head_of
from zkpcp.core.slots import memory_slot, proposals_slot
from zkpcp.core.stored import AuditHead, AuditRow, HeadRow, PageRow
from zkpcp.errors import CorruptError
from zkpcp.ports import Transaction
from zkpcp.usecases.access import Acting, acting_as
from zkpcp.usecases.call import Call, calling
from zkpcp.usecases.counting import written_slot, wrong_sums
from zkpcp.usecases.profile import namespaces_of
from zkpcp.usecases.proposals import every_proposal
from zkpcp.usecases.roster_changes import require_owner, still_acts
from zkpcp.usecases.services import Services
from zkpcp.usecases.session import OpenSession
from zkpcp.vault import handoffs, holders, records

Advance = Callable[[str, int], None]

_AT_ONCE: Final = 200
"""Rows that are read together."""
MOST_PROBLEMS: Final = 20
"""How many of a check's problems are named; all are counted."""
_MOST_VERSIONS: Final = 100_000
_MOST_DELETED: Final = 100_000
_MOST_CHANGES: Final = 100_000


@dataclass(slots=True)
class Check:
    """One check: what it is about, which claim it belongs to, how much was looked at, and what was wrong."""

    name: str
    claim: str
    looked_at: int = 0
    wrong: int = 0
    problems: list[str] = field(default_factory=list)
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether nothing was wrong."""
        return not self.wrong

    @contextmanager
    def looking_at(self, what: str) -> Iterator[None]:
        """Count one thing, and note it as wrong where it turns out to be damaged inside the block."""
        self.looked_at += 1
        try:
            yield
        except CorruptError as error:
            self.fail(f"{what}: {error.message}")

    def fail(self, problem: str) -> None:
        """Note something that is wrong; ``problem`` holds opaque ids at most."""
        self.wrong += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem)


async def verify_context(services: Services, session: OpenSession, advance: Advance) -> tuple[Check, ...]:
    """Check everything; ``advance`` is told the name of a check and how much more was looked at.

    Raises ForbiddenError for anybody but the controller. The act itself is audited.
    """
    require_owner(session)
    async with calling(services, acting_as(session), Action.CONTEXT_VERIFIED, "memory", "keys") as call:
        written: dict[str, int] = {}
        checks = [
            await _access_log(services, call, advance, written),
            await _grants(services, session, advance),
            *await _pages(services, call, advance),
            await _deleted(services, call, advance),
            await _profiles(services, call, advance),
            await _handoffs(services, call, advance),
            await _proposals(services, call, advance),
            await _counted_rows(services, call, advance, written),
        ]
        call.decrypted = True
        call.counts.update(looked_at=sum(each.looked_at for each in checks), wrong=sum(each.wrong for each in checks))
        async with services.store.write() as tx:
            await call.record(tx)
        return tuple(checks)


async def _access_log(services: Services, call: Call, advance: Advance, written: dict[str, int]) -> Check:
    """From the newest entry down to the first: each follows the one before it, and none is missing between.

    ``written`` is filled with the newest entry that says a slot was written to, by slot.
    """
    check = Check("access log", "U5")
    context_id = call.acting.context_id
    async with services.store.write() as tx:
        head = await tx.audit.head(context_id)
    above: AuditHead | AuditRow = head
    before: int | None = None
    while True:
        async with services.store.read() as tx:
            rows = await tx.audit.entries(context_id, limit=_AT_ONCE, before_seq=before)
        rows = [row for row in rows if row.seq <= head.seq]  # written since
        if not rows:
            break
        for row in rows:
            _check_link(check, above, row)
            above = row
            slot = written_slot(row)
            if slot is not None:
                written.setdefault(slot, row.seq)
        before = rows[-1].seq
        check.looked_at += len(rows)
        advance(check.name, len(rows))
    if isinstance(above, AuditRow):
        _check_first(check, above)
    elif head.seq:
        check.fail(f"all {head.seq} entries are missing")
    return check


def _check_link(check: Check, above: AuditHead | AuditRow, row: AuditRow) -> None:
    if isinstance(above, AuditHead):
        if (row.seq, row.hash) != (above.seq, above.hash):
            check.fail(f"the newest entry is {row.seq}, and not the one that the chain ends with, {above.seq}")
        return
    if row.seq != above.seq - 1:
        check.fail(f"entries between {row.seq} and {above.seq} are missing")
    elif not _follows(row.hash, above):
        check.fail(f"entry {above.seq} does not follow the one before it")


def _check_first(check: Check, row: AuditRow) -> None:
    if row.seq != 1:
        check.fail(f"entries before {row.seq} are missing")
    elif not _follows(audit.GENESIS, row):
        check.fail("the first entry is not what the chain begins with")


def _follows(previous: bytes, row: AuditRow) -> bool:
    try:
        entry = audit.from_json(row.entry)
        return audit.follow(previous, entry) == row.hash and (entry.at_ms, entry.action, entry.outcome.value) == (
            row.at_ms,
            row.action,
            row.outcome,
        )
    except CorruptError:
        return False


async def _grants(services: Services, session: OpenSession, advance: Advance) -> Check:
    """The roster was verified when the session was opened; here every grant and keyring is held against it."""
    check = Check("roster, grants and keyrings", "U1")
    roster, context_id = session.keyring.roster, session.context.context_id
    async with services.store.read() as tx:
        grants = await tx.grants.list_grants(context_id)
        for grant in grants:
            keyring = await tx.grants.keyring(context_id, "grant", grant.grant_id, roster.epoch)
            try:
                signer = holders.verified_grant(grant, roster) if still_acts(roster, grant) else None
                if keyring is not None and signer is not None:
                    holders.check_keyring(keyring, roster, "grant", grant.grant_id, (signer.sig_public, roster.owner))
            except CorruptError as error:
                check.fail(f"{grant.grant_id}: {error.message}")
        for entry in roster.principals:
            keyring = await tx.grants.keyring(context_id, "principal", entry.principal, roster.epoch)
            try:
                if keyring is not None:
                    holders.check_keyring(keyring, roster, "principal", entry.principal, (roster.owner,))
            except CorruptError as error:
                check.fail(f"{entry.principal}: {error.message}")
    check.looked_at = len(grants) + len(roster.principals)
    advance(check.name, check.looked_at)
    return check


async def _pages(services: Services, call: Call, advance: Advance) -> tuple[Check, Check, Check]:
    pages, tags, earlier = Check("pages", "U3"), Check("path tags", "U4"), Check("earlier versions", "U3")
    slots = _memory_slots(call.acting)
    async with services.store.read() as tx:
        heads = await tx.pages.heads(call.acting.context_id, slots, services.clock.now_ms())
    for first in range(0, len(heads), _AT_ONCE):
        part = heads[first : first + _AT_ONCE]
        async with services.store.read() as tx:
            ids = [head.page_id for head in part]
            rows = await tx.pages.pages(call.acting.context_id, ids, slots, services.clock.now_ms())
            by_id = {row.page_id: row for row in rows}
            for head in part:
                row = by_id.get(head.page_id)
                if row is not None:  # else it was deleted meanwhile
                    await _page(tx, call.acting, head, row, pages, tags)
                    await _versions(tx, call.acting, row.page_id, services.clock.now_ms(), earlier)
        advance(pages.name, len(part))
    return pages, tags, earlier


async def _page(tx: Transaction, acting: Acting, head: HeadRow, row: PageRow, pages: Check, tags: Check) -> None:
    pages.looked_at += 1
    try:
        page = records.open_page(acting.keys, row)
        opened = records.open_head(acting.keys, head)
        with records.open_terms(acting.keys, row):
            pass
    except CorruptError as error:
        pages.fail(f"{row.page_id}: {error.message}")
        return
    if head.version == row.version and opened != head_of(page):
        pages.fail(f"{row.page_id}: its head is not that of the page")
    tags.looked_at += 1
    if await tx.pages.by_tag(acting.context_id, *records.path_tag(acting.keys, page.path)) != page.id:
        tags.fail(f"{page.id}: its path does not lead to it")


async def _versions(tx: Transaction, acting: Acting, page_id: str, now_ms: int, check: Check) -> None:
    slots = _memory_slots(acting)
    for kept in await tx.history.versions(acting.context_id, page_id, slots, now_ms, _MOST_VERSIONS):
        number = kept.head.version
        row = await tx.history.version(acting.context_id, page_id, number, slots, now_ms)
        with check.looking_at(f"{page_id}: version {number}"):
            if row is None or records.open_page(acting.keys, row).id != page_id or row.version != number:
                check.fail(f"{page_id}: version {number} is not there")
            records.open_head(acting.keys, kept.head)


async def _deleted(services: Services, call: Call, advance: Advance) -> Check:
    check = Check("deleted pages", "U3")
    acting, now_ms = call.acting, services.clock.now_ms()
    slots = _memory_slots(acting)
    async with services.store.read() as tx:
        listed = await tx.pages.deleted(acting.context_id, slots, now_ms, _MOST_DELETED)
    for entry in listed:
        async with services.store.write() as tx:
            row = await tx.pages.deleted_page(acting.context_id, entry.head.page_id, slots, now_ms)
        if row is None:
            continue
        with check.looking_at(row.page_id):
            records.open_head(acting.keys, entry.head)
            records.open_page(acting.keys, row)
    advance(check.name, check.looked_at)
    return check


async def _profiles(services: Services, call: Call, advance: Advance) -> Check:
    check = Check("profiles and their changes", "U3")
    acting = call.acting
    for namespace in namespaces_of(acting.context.offer):
        async with services.store.read() as tx:
            row = await tx.profiles.profile(acting.context_id, namespace)
            changes = await tx.profiles.changes(acting.context_id, namespace, _MOST_CHANGES)
        try:
            if row is not None:
                check.looked_at += 1
                records.open_profile(acting.keys, namespace, row)
            for change in changes:
                check.looked_at += 1
                records.open_change(acting.keys, change)
        except CorruptError as error:
            check.fail(f"{namespace}: {error.message}")
        newest = max((change.version for change in changes), default=0)
        if newest != (0 if row is None else row.version):
            check.fail(f"{namespace}: its newest change is not the one that it shows")
    advance(check.name, check.looked_at)
    return check


async def _handoffs(services: Services, call: Call, advance: Advance) -> Check:
    check = Check("hand-offs", "U3")
    acting = call.acting
    async with services.store.read() as tx:
        rows = await tx.handoffs.handoffs(acting.context_id, services.clock.now_ms())
    for row in rows:
        with check.looking_at(row.handoff_id):
            handoffs.open_handoff(acting.keys, row)
    advance(check.name, check.looked_at)
    return check


async def _proposals(services: Services, call: Call, advance: Advance) -> Check:
    check = Check("proposals", "U3")
    acting = call.acting
    slots = [*_memory_slots(acting), *map(proposals_slot, acting.keys.roster.partitions)]
    async with services.store.read() as tx:
        rows = await every_proposal(tx, acting.context_id, slots, services.clock.now_ms())
        for row in rows:
            grant = None if row.grant_id is None else await tx.grants.grant(acting.context_id, row.grant_id)
            with check.looking_at(row.proposal_id):
                records.open_proposal(acting.keys, row, grant)
    advance(check.name, check.looked_at)
    return check


async def _counted_rows(services: Services, call: Call, advance: Advance, written: Mapping[str, int]) -> Check:
    """Each slot has the rows that were counted in it, and no others."""
    check = Check("counted rows", "U3")

    def looked_at(more: int) -> None:
        check.looked_at += more
        advance(check.name, more)

    async with services.store.read() as tx:
        for problem in await wrong_sums(tx, services, call.acting.keys, written, looked_at):
            check.fail(problem)
    if not call.acting.keys.roster.counted:
        check.note = "rows are not counted yet: `zkpcp verify --count` begins with it, and so does a change of keys"
    advance(check.name, 0)
    return check


def _memory_slots(acting: Acting) -> Sequence[str]:
    """Every memory slot there is: the root opens all of them, whatever the access lists show of them elsewhere."""
    return [
        memory_slot(partition, sensitive=sensitive)
        for partition in acting.keys.roster.partitions
        for sensitive in (False, True)
    ]
