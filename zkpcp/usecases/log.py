"""Reading the access log (AUD-02, AUD-06): newest first; reading it is itself audited."""

from __future__ import annotations

from dataclasses import dataclass

from zkpcp.core import audit
from zkpcp.core.audit import Entry
from zkpcp.core.instants import parse_date_or_instant, read_field
from zkpcp.core.schemas import JsonValue
from zkpcp.errors import ForbiddenError
from zkpcp.usecases.access import Acting
from zkpcp.usecases.call import calling
from zkpcp.usecases.services import Services
from zkpcp.vault.cursors import open_cursor, seal_cursor

ACTION = "audit_list"
_OPEN_CATEGORIES = frozenset({"audit", "keys", "grants", "principals"})
"""Categories of acts that say nothing about content; any reader of the log may see them."""


@dataclass(frozen=True, slots=True)
class LogFilters:
    """Which entries to show; None means no restriction."""

    since: str | None = None
    action: str | None = None
    category: str | None = None
    outcome: str | None = None

    def as_json(self) -> dict[str, JsonValue]:
        """What a cursor is bound to."""
        return {"since": self.since, "action": self.action, "category": self.category, "outcome": self.outcome}


@dataclass(frozen=True, slots=True)
class Entries:
    """Part of the log, and the cursor that continues it."""

    entries: tuple[Entry, ...]
    next_cursor: str | None


async def list_entries(
    services: Services, acting: Acting, *, filters: LogFilters, limit: int, cursor: str | None = None
) -> Entries:
    """Entries of the access log, newest first. Raises InvalidInputError for a foreign cursor or a bad ``since``."""
    async with calling(services, acting, ACTION, "audit") as call:
        if "audit:read" not in acting.scopes:
            raise ForbiddenError("reading the access log needs another scope", ("audit:read",))
        before = open_cursor(acting.keys, ACTION, filters.as_json(), cursor) if cursor is not None else None
        since = read_field("since", filters.since, parse_date_or_instant, "a date or instant")
        async with services.store.read() as tx:
            rows = await tx.audit.entries(
                acting.context_id,
                limit=limit + 1,
                before_seq=before if isinstance(before, int) else None,
                since_ms=None if since is None else since.first_ms,
                action=filters.action,
                category=filters.category,
                outcome=filters.outcome,
                partitions=_open_partitions(acting),
            )
        if not _may_filter_by(acting, filters.category):
            rows = ()
        shown = rows[:limit]
        next_cursor = (
            seal_cursor(acting.keys, ACTION, filters.as_json(), shown[-1].seq, services.entropy)
            if len(rows) > limit
            else None
        )
        call.counts["entries"] = len(shown)
        async with services.store.write() as tx:
            await call.record(tx)
        return Entries(tuple(_for_reader(acting, audit.from_json(row.entry)) for row in shown), next_cursor)


def _may_filter_by(acting: Acting, category: str | None) -> bool:
    # Entries lose the categories a reader may not see; finding them by such a category would give it back (AUD-06).
    return category is None or acting.keys.is_controller or category in readable_categories(acting.scopes)


def _for_reader(acting: Acting, entry: Entry) -> Entry:
    return audit.for_reader(
        entry,
        is_controller=acting.keys.is_controller,
        readable_categories=readable_categories(acting.scopes),
        readable_partitions=acting.partitions_with("read") if "memory:read" in acting.scopes else (),
    )


def _open_partitions(acting: Acting) -> frozenset[str] | None:
    # That something was done in a closed partition, and when, is part of what is closed (MEM-13).
    if acting.keys.is_controller or not acting.context.is_partitioned:
        return None
    return frozenset(acting.rights)


def readable_categories(scopes: frozenset[str]) -> frozenset[str]:
    """The audit categories whose entries a caller with these scopes may see whole."""
    return _OPEN_CATEGORIES | {scope.removesuffix(":read") for scope in scopes if scope.endswith(":read")}
