"""A process that changes all keys of a context and kills itself at one statement, as a power cut at that point would.

Arguments: the database's URL, the handle, and at which statement (from 1) SIGKILL comes; 0: never. Prints how many
statements there were.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tests.flows.usecase_support import PASSPHRASE
from zkpcp import storage
from zkpcp.schema_files import load_schemas
from zkpcp.storage.sqlite import _SqliteDriver
from zkpcp.testing import CountingEntropy, FixedClock
from zkpcp.usecases.rotation import Rotating, begin_rotation, rotation_left
from zkpcp.usecases.services import Services
from zkpcp.usecases.session import signed_in
from zkpcp.vault.secrets import CHEAPEST


@dataclass
class Fuse:
    """Kills this process at the n-th statement: before it, or after it and before the commit."""

    at: int
    count: int = 0

    def fit(self, name: str) -> None:
        plain: Callable[..., Awaitable[Any]] = getattr(_SqliteDriver, name)

        async def counted(driver: _SqliteDriver, *arguments: Any) -> Any:  # noqa: ANN401 - passed on as it came
            self.count += 1
            if self.count == self.at and self.at % 2:
                os.kill(os.getpid(), signal.SIGKILL)
            answer = await plain(driver, *arguments)
            if self.count == self.at:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        setattr(_SqliteDriver, name, counted)


async def rotate(url: str, handle: str, now_ms: int, fuse: Fuse) -> None:
    """Begin a change of keys, or go on with it, to the end."""
    store = await storage.open_store(url)
    services = Services(
        store=store,
        clock=FixedClock(now_ms),
        entropy=CountingEntropy(f"{os.getpid()}"),
        schemas=load_schemas(),
        argon2=CHEAPEST,
        argon2_floor=CHEAPEST,
    )
    async with store.read() as tx:
        context = await tx.contexts.by_handle(handle)
    async with signed_in(services, context, passphrase=PASSPHRASE) as owner:
        for name in ("fetch_all", "execute", "execute_many"):
            fuse.fit(name)
        if not (await rotation_left(services, owner)).under_way:
            await begin_rotation(services, owner)
        rotating = Rotating(services, owner)
        while await rotating.step():
            pass
        await rotating.end()
    await store.close()


if __name__ == "__main__":
    lit = Fuse(int(sys.argv[4]))
    asyncio.run(rotate(sys.argv[1], sys.argv[2], int(sys.argv[3]), lit))
    print(lit.count)  # noqa: T201 - the answer to whoever started this process
