"""A change of all keys that is killed at points chosen at random goes on and ends, and nothing is lost on the way.

``ZKPCP_ROTATION_PAGES`` and ``ZKPCP_ROTATION_KILLS`` make it larger: 2,000 and 50 take some minutes.
"""

from __future__ import annotations

import os
import random  # noqa: TID251 - seeded: the same points in every run
import signal
import subprocess
import sys
from typing import Final

import pytest

from tests.flows.usecase_support import EVERYTHING, World
from zkpcp import storage
from zkpcp.core.roster import parse
from zkpcp.usecases.forget import delete_page

PAGES: Final = int(os.environ.get("ZKPCP_ROTATION_PAGES", "120"))  # noqa: TID251 - made larger by hand
KILLS: Final = int(os.environ.get("ZKPCP_ROTATION_KILLS", "6"))  # noqa: TID251 - made larger by hand


def body(number: int) -> str:
    return f"berth {number} on the quay, seen from the weir\n" * (1 + number % 7)


async def fill(world: World) -> None:
    async with world.owner() as owner:
        for number in range(PAGES):
            sensitive = {"sensitivity": "sensitive"} if number % 5 == 0 else {}
            await owner.write(f"berths/{number:04}", body(number), **sensitive)
        for number in range(0, PAGES, 10):
            await owner.write(f"berths/{number:04}", body(number) + "repainted\n")
        gone = await owner.write("berths/gone", "sunk in the storm")
        await delete_page(world.services, owner.who, path="berths/gone", expected_updated=gone.updated)
        await owner.patch({"name": "Ada Reed"})


def rotate(url: str, world: World, at: int) -> subprocess.CompletedProcess[str]:
    arguments = [url, world.context.handle, str(world.clock.now_ms()), str(at)]
    command = [sys.executable, "-m", "tests.live.rotating", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.requirement("KEY-12")
async def test_a_change_of_keys_survives_being_killed_anywhere(world_sqlite: str) -> None:
    chosen = random.Random(PAGES)  # noqa: S311 - chooses where to fail, not a key
    store = await storage.open_store(world_sqlite)
    world = await World.founded(store)
    await fill(world)
    granted = await world.grant(*EVERYTHING)
    statements = PAGES * 4  # about as many as one whole change of keys takes
    for number in range(KILLS):
        await store.close()
        done = rotate(world_sqlite, world, chosen.randint(1, statements // KILLS * 2))
        store = await storage.open_store(world_sqlite)
        world = world.with_store(store)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        async with world.client(granted) as client:
            some = chosen.randrange(0, PAGES)
            assert (await client.read(f"berths/{some:04}")).body.startswith(body(some))
            await client.write(f"between/{number:03}", "written between two kills")
    await store.close()
    assert rotate(world_sqlite, world, 0).returncode == 0
    store = await storage.open_store(world_sqlite)
    world = world.with_store(store)

    async with world.client(granted) as client:
        for number in range(PAGES):
            text = body(number) + ("repainted\n" if number % 10 == 0 else "")
            assert (await client.read(f"berths/{number:04}")).body == text
        assert len(await client.found("kills")) == KILLS
    async with store.read() as tx:
        row = await tx.contexts.roster(world.context_id)
        assert row is not None
        roster = parse(row.body)
        assert (roster.epoch > 1, roster.oldest) == (True, None)
        assert not await tx.rotation.links(world.context_id)
        assert sum((await tx.rotation.left(world.context_id, roster.epoch)).values()) == 0
    await store.close()
