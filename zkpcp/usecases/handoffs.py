"""Hand-offs between a person's assistants: leaving one, finding those that are open, marking one as done (TOOL-15).

All of a context's hand-offs lie in one slot: whoever may read them reads all, and ``to`` only sorts them. Within the
slot, writing without reading is policy, as it is for pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from zkpcp.core import handoffs as handoff_format
from zkpcp.core.extensions import HANDOFF, KNOWN
from zkpcp.core.handoffs import STATUSES, Handoff, Status
from zkpcp.core.schemas import JsonValue
from zkpcp.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError, Violation
from zkpcp.usecases.access import Acting
from zkpcp.usecases.call import Call, calling
from zkpcp.usecases.services import Services
from zkpcp.vault import handoffs as sealing
from zkpcp.vault.cursors import open_cursor, seal_cursor

WRITE: Final = "handoff_write"
LIST: Final = "handoff_list"
MAX_HANDOFFS: Final = 200
"""How many hand-offs a context keeps at once: a list opens all of them."""

_STEM: Final = KNOWN[HANDOFF].stem


@dataclass(frozen=True, slots=True, repr=False)
class Listed:
    """Part of the hand-offs, and the cursor that continues them."""

    handoffs: tuple[Handoff, ...]
    next_cursor: str | None


async def leave(
    services: Services,
    acting: Acting,
    *,
    title: str | None,
    content: str | None,
    to: str | None = None,
    expires: str | None = None,
    status: str | None = None,
    sender: str,
) -> Handoff:
    """Leave a hand-off, which begins as open. Raises InvalidInputError, and ConflictError when there are too many."""
    async with calling(services, acting, WRITE, _STEM) as call:
        _require(acting, "write")
        if status not in (None, "open"):
            rule = "must be open for a new hand-off"
            raise InvalidInputError("the status is not valid", [Violation("/status", rule)])
        now_ms = services.clock.now_ms()
        draft = handoff_format.draft(title=title, content=content, to=to, expires=expires, now_ms=now_ms)
        left = Handoff(
            id=services.new_id("hdf"),
            title=draft.title,
            content=draft.content,
            to=draft.to,
            sender=sender,
            status="open",
            created_ms=now_ms,
            updated_ms=now_ms,
            expires_ms=draft.expires_ms,
        )
        async with services.store.write() as tx:
            await tx.handoffs.delete_expired(acting.context_id, now_ms)
            if await tx.handoffs.count(acting.context_id) >= MAX_HANDOFFS:
                raise ConflictError(f"there are {MAX_HANDOFFS} hand-offs already, and each stays until it expires")
            await tx.handoffs.put(sealing.seal_handoff(acting.keys, left, 1, services.entropy))
            call.object_ids.add(left.id)
            await call.record(tx)
        return left


async def set_status(
    services: Services, acting: Acting, handoff_id: str, status: str | None, *, beside: Sequence[str] = ()
) -> Handoff:
    """Mark a hand-off as done, or open again; ``beside`` names what else was sent, of which nothing can be changed.

    Raises InvalidInputError, and NotFoundError for a hand-off that is not there or has expired.
    """
    async with calling(services, acting, WRITE, _STEM) as call:
        _require(acting, "write")
        if beside:
            rule = "must be left out beside id: a hand-off is not rewritten"
            raise InvalidInputError("too much was sent", [Violation(f"/{name}", rule) for name in beside])
        new_status = _status(status)
        async with services.store.write() as tx:
            now_ms = services.clock.now_ms()
            row = await tx.handoffs.handoff(acting.context_id, handoff_id, now_ms, lock=True)
            if row is None:
                raise NotFoundError("there is no such hand-off")
            call.decrypted = True
            before = sealing.open_handoff(acting.keys, row)
            changed = replace(before, status=new_status, updated_ms=max(now_ms, row.updated_ms + 1))
            await tx.handoffs.put(sealing.seal_handoff(acting.keys, changed, row.version + 1, services.entropy))
            call.object_ids.add(changed.id)
            await call.record(tx)
        return changed


async def list_handoffs(
    services: Services,
    acting: Acting,
    *,
    to: str | None = None,
    status: str = "open",
    limit: int,
    cursor: str | None = None,
) -> Listed:
    """Hand-offs of one status, the last changed first; with ``to``, those for this assistant or for nobody special."""
    async with calling(services, acting, LIST, _STEM) as call:
        _require(acting, "read")
        wanted = _status(status)
        filters: dict[str, JsonValue] = {"to": to, "status": wanted}
        place = None if cursor is None else open_cursor(acting.keys, LIST, filters, cursor)
        async with services.store.read() as tx:
            rows = await tx.handoffs.handoffs(acting.context_id, services.clock.now_ms())
        call.decrypted = bool(rows)
        opened = [sealing.open_handoff(acting.keys, row) for row in rows]
        fitting = [each for each in opened if each.status == wanted and each.is_for(to) and _is_behind(place, each)]
        return await _shown(services, call, fitting, limit, filters)


async def _shown(
    services: Services, call: Call, fitting: Sequence[Handoff], limit: int, filters: dict[str, JsonValue]
) -> Listed:
    shown = tuple(fitting[:limit])
    next_cursor = None
    if len(fitting) > limit:
        place: JsonValue = [shown[-1].updated_ms, shown[-1].id]
        next_cursor = seal_cursor(call.acting.keys, LIST, filters, place, services.entropy)
    call.object_ids.update(each.id for each in shown)
    call.counts["handoffs"] = len(shown)
    async with services.store.write() as tx:
        await call.record(tx)
    return Listed(shown, next_cursor)


def _is_behind(place: JsonValue, handoff: Handoff) -> bool:
    """Whether a hand-off comes after a place in the order of lists: the last changed first, then by id."""
    match place:
        case [int(updated_ms), str(last_id)]:
            return (-handoff.updated_ms, handoff.id) > (-updated_ms, last_id)
        case _:
            return True


def _status(text: str | None) -> Status:
    if text is None or text not in STATUSES:
        rule = f"must be one of: {', '.join(STATUSES)}"
        raise InvalidInputError("the status is not valid", [Violation("/status", rule)])
    return cast(Status, text)


def _require(acting: Acting, right: str) -> None:
    scope = f"{_STEM}:{right}"
    if scope not in acting.scopes:
        raise ForbiddenError("hand-offs need another scope", (scope,))
