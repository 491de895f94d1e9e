"""Where contexts and their rosters are kept.

Implements ``ports.Contexts``. The roster's epoch is stored beside its bytes for the join in ``Grants.access``, and the
features it brings for discovery; both are taken from the bytes themselves, so they cannot differ.
Signatures are not checked here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zkpcp.core import roster
from zkpcp.core.stored import ContextRow, HandoverRow, RosterRow
from zkpcp.errors import ConflictError
from zkpcp.storage.driver import Driver, one, pack, spread, unpack
from zkpcp.storage.statements import load

_SQL = load("contexts")

_context = spread(ContextRow)
_roster = spread(RosterRow)
_handover = spread(HandoverRow)


class SqlContexts:
    """Contexts and rosters in SQL."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def add(self, row: ContextRow) -> None:
        """Insert the context with an empty audit chain. Raises ConflictError when the handle is taken."""
        added = await self._driver.execute(
            _SQL["add"],
            row.context_id,
            row.handle,
            row.kind,
            row.controller,
            row.controller_type,
            row.created_ms,
            row.locked_ms,
        )
        if not added:
            raise ConflictError("the handle is taken")
        await self._driver.execute(_SQL["add_audit_head"], row.context_id, 0, bytes(32))

    async def by_handle(self, handle: str) -> ContextRow | None:
        """The context with this public name."""
        rows = await self._driver.fetch_all(_SQL["by_handle"], handle)
        if not rows:
            return None
        extensions = tuple(row[-1] for row in rows if row[-1] is not None)
        *members, features, _ = rows[0]
        brought = () if features is None else unpack(features)
        return replace(_context(members), extensions=extensions, features=brought)

    async def handles(self) -> Sequence[str]:
        """All handles, sorted."""
        return [row[0] for row in await self._driver.fetch_all(_SQL["handles"])]

    async def locked_ms(self, context_id: str) -> int | None:
        """When it was locked."""
        row = await self._driver.fetch_one(_SQL["locked_ms"], context_id)
        return None if row is None or row[0] is None else int(row[0])

    async def set_locked(self, context_id: str, locked_ms: int | None) -> bool:
        """Lock or unlock it; False when it was so already."""
        if locked_ms is None:
            return bool(await self._driver.execute(_SQL["unlock"], context_id))
        return bool(await self._driver.execute(_SQL["lock"], context_id, locked_ms))

    async def enable_extension(self, context_id: str, extension: str, enabled_ms: int) -> bool:
        """Enable it; False when it was enabled already."""
        return bool(await self._driver.execute(_SQL["enable_extension"], context_id, extension, enabled_ms))

    async def disable_extension(self, context_id: str, extension: str) -> bool:
        """Disable it and keep its data; False when it was not enabled."""
        return bool(await self._driver.execute(_SQL["disable_extension"], context_id, extension))

    async def roster(self, context_id: str, *, lock: bool = False) -> RosterRow | None:
        """The current roster."""
        return one(_roster, await self._driver.fetch_one(_SQL["roster_locked" if lock else "roster"], context_id))

    async def put_roster(self, row: RosterRow) -> None:
        """Replace the roster. Raises ConflictError unless the version follows, CorruptError when it does not parse."""
        parsed = roster.parse(row.body)
        features = pack(roster.features(parsed))
        members = (row.context_id, row.version, parsed.epoch, row.body, row.signature, features)
        if row.version == 1:
            changed = await self._driver.execute(_SQL["first_roster"], *members)
        else:
            changed = await self._driver.execute(_SQL["next_roster"], *members, row.version - 1)
        if not changed:
            raise ConflictError("the roster changed meanwhile")

    async def hand_over(self, context_id: str, controller: str, succession: bytes) -> None:
        """Name another controller and store how the owner's key followed."""
        await self._driver.execute(_SQL["set_succession"], context_id, succession)
        await self._driver.execute(_SQL["set_controller"], context_id, controller)

    async def handover(self, context_id: str) -> HandoverRow | None:
        """The offer of control, if there is one."""
        return one(_handover, await self._driver.fetch_one(_SQL["handover"], context_id))

    async def put_handover(self, row: HandoverRow) -> None:
        """Store an offer in place of an earlier one."""
        members = (row.principal, row.epoch, row.created_ms, row.expires_ms, row.offered, row.sealed, row.signature)
        await self._driver.execute(_SQL["put_handover"], row.context_id, *members)

    async def delete_handover(self, context_id: str) -> bool:
        """End the offer; False when there is none."""
        return bool(await self._driver.execute(_SQL["delete_handover"], context_id))
