"""Where sealed proposals are kept until somebody resolves them, and for a while after they were rejected.

Implements ``ports.Proposals``. Who may see which is in the query: a reviewer's slots, and a grant's own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from zkpcp.core.leaves import Journal
from zkpcp.core.stored import ProposalPlace, ProposalRow, ProposalState
from zkpcp.errors import ConflictError, NotFoundError
from zkpcp.storage.driver import Driver, Row, one, spread
from zkpcp.storage.statements import load

_SQL = load("proposals")
_proposal = spread(ProposalRow)


class SqlProposals:
    """Proposals in SQL."""

    def __init__(self, driver: Driver, journal: Journal) -> None:
        self._driver = driver
        self._journal = journal

    async def add(self, row: ProposalRow) -> None:
        """Insert a proposal. Raises ConflictError when its id is taken."""
        if not await self._driver.execute(_SQL["add"], *_members(row)):
            raise ConflictError("the proposal exists already")
        self._journal.put("proposals", row)

    async def replace(self, row: ProposalRow) -> None:
        """The same proposal sealed anew. Raises NotFoundError."""
        stored = await self._driver.fetch_one(_SQL["stored"], row.context_id, row.proposal_id)
        if stored is None or not await self._driver.execute(_SQL["replace"], *_members(row)):
            raise NotFoundError("there is no such proposal")
        self._journal.took("proposals", _proposal(stored))
        self._journal.put("proposals", row)

    async def proposals(
        self,
        context_id: str,
        state: ProposalState,
        now_ms: int,
        *,
        slots: Collection[str],
        grant_id: str | None,
        own_slots: Collection[str],
        before: ProposalPlace,
        limit: int,
    ) -> Sequence[ProposalRow]:
        """The newest first: those in ``slots``, and those of the grant in ``own_slots``."""
        own = (grant_id or "", list(own_slots) if grant_id else [])
        rows = await self._driver.fetch_all(
            _SQL["proposals"],
            context_id,
            state,
            now_ms,
            list(slots),
            *own,
            before.created_ms,
            before.proposal_id,
            limit,
        )
        return [_proposal(row) for row in rows]

    async def proposal(
        self, context_id: str, proposal_id: str, slots: Collection[str], now_ms: int, *, lock: bool = False
    ) -> ProposalRow | None:
        """One in these slots that has not expired."""
        statement = _SQL["proposal_locked" if lock else "proposal"]
        return one(_proposal, await self._driver.fetch_one(statement, context_id, proposal_id, now_ms, list(slots)))

    async def waiting(self, context_id: str) -> int:
        """How many wait, expired ones included."""
        row = await self._driver.fetch_one(_SQL["waiting"], context_id)
        return 0 if row is None else int(row[0])

    async def delete(self, context_id: str, proposal_id: str) -> None:
        """Delete one; one that is gone already is no error."""
        self._took(await self._driver.fetch_all(_SQL["delete"], context_id, proposal_id))

    async def delete_expired(self, context_id: str, now_ms: int) -> int:
        """Delete what has expired; the number."""
        return self._took(await self._driver.fetch_all(_SQL["delete_expired"], context_id, now_ms))

    def _took(self, rows: Sequence[Row]) -> int:
        for row in rows:
            self._journal.took("proposals", _proposal(row))
        return len(rows)


def _members(row: ProposalRow) -> tuple[str | int | bytes | None, ...]:
    return (
        row.context_id,
        row.proposal_id,
        row.slot,
        row.generation,
        row.grant_id,
        row.principal,
        row.state,
        row.created_ms,
        row.expires_ms,
        row.sealed,
        row.signature,
    )
