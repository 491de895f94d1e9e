"""What ends by itself: pages past their retention, deleted pages, idle grants; also after a long downtime (ERA-08)."""

from __future__ import annotations

import pytest

from tests.flows.usecase_support import HOUR_MS, NOW_MS, World, every_store
from zkpcp.core.instants import to_rfc3339
from zkpcp.errors import InvalidTokenError
from zkpcp.usecases.forget import delete_page, list_deleted
from zkpcp.usecases.housekeeping import sweep_all

DAY_MS = 24 * HOUR_MS
WRITER = ("memory:read", "memory:write")


@every_store
@pytest.mark.requirement("ERA-08", "ERA-07")
async def test_a_sweep_deletes_what_is_past_its_retention_and_says_so(stored_world: World) -> None:
    granted = await stored_world.grant(*WRITER)
    async with stored_world.client(granted) as client:
        await client.write("notes/brief", "gone soon", expires=to_rfc3339(NOW_MS + HOUR_MS))
        await client.write("notes/long", "stays")
    before = len(await stored_world.entries())

    await sweep_all(stored_world.services)
    assert len(await stored_world.entries()) == before

    # Ten days of downtime: the first sweep after it does all that was due.
    stored_world.clock.advance(10 * DAY_MS)
    await sweep_all(stored_world.services)

    entries = await stored_world.entries()
    swept = [entry for entry in entries[before:] if entry.action == "retention.sweep"]
    assert [dict(entry.counts) for entry in swept] == [{"pages": 1}]
    async with stored_world.store.read() as tx:
        assert await tx.pages.count(stored_world.context_id) == 1


@every_store
async def test_a_deleted_page_is_gone_for_good_after_thirty_days(stored_world: World) -> None:
    granted = await stored_world.grant(*WRITER)
    async with stored_world.client(granted) as client:
        await client.write("notes/tea", "two spoons")
        await delete_page(client.services, client.who, path="notes/tea")

    stored_world.clock.advance(31 * DAY_MS)
    await sweep_all(stored_world.services)
    await stored_world.sign_in()

    async with stored_world.owner() as owner:
        assert list(await list_deleted(owner.services, owner.who)) == []
    counts = [dict(entry.counts) for entry in await stored_world.entries() if entry.action == "retention.sweep"]
    assert counts == [{"deleted_pages": 1}]


@every_store
@pytest.mark.requirement("AUTH-45")
async def test_a_grant_unused_for_ninety_days_ends(stored_world: World) -> None:
    granted = await stored_world.grant(*WRITER)

    stored_world.clock.advance(91 * DAY_MS)
    await sweep_all(stored_world.services)

    with pytest.raises(InvalidTokenError):
        async with stored_world.client(granted):
            pass
    async with stored_world.store.read() as tx:
        assert list(await tx.grants.list_grants(stored_world.context_id)) == []
