"""The names of partitions keep their promises on every engine, and so do what a roster brings and the log's filter."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest

from tests.contract.rows import HERE, NOW, context, entry
from zkpcp.core import roster
from zkpcp.core.access import ALL_RIGHTS, AccessLists
from zkpcp.core.roster import AGENT, Principal, Roster
from zkpcp.core.stored import PartitionRow, RosterRow
from zkpcp.errors import ConflictError
from zkpcp.ports import Store


def partition(version: int = 1, **changes: str) -> PartitionRow:
    return replace(PartitionRow(HERE, "prt_one", 1, version, NOW, b"sealed"), **changes)  # type: ignore[arg-type]  # by name


async def test_partitions_come_by_id_and_only_those_that_are_asked_for(store: Store) -> None:
    async with store.write() as tx:
        await tx.contexts.add(context())
        await tx.contexts.add(context(context_id="another", handle="another"))
        for row in (partition(partition_id="prt_two"), partition(), partition(context_id="another")):
            await tx.partitions.put(row)

    async with store.read() as tx:
        wanted = await tx.partitions.partitions(HERE, ["prt_two", "prt_one", "prt_three"])
        assert list(wanted) == [partition(), partition(partition_id="prt_two")]
        assert list(await tx.partitions.partitions(HERE, ["prt_two"])) == [partition(partition_id="prt_two")]
        assert list(await tx.partitions.partitions(HERE, [])) == []


async def test_a_name_changes_one_version_at_a_time(store: Store) -> None:
    async with store.write() as tx:
        await tx.contexts.add(context())
        await tx.partitions.put(partition())
        await tx.partitions.put(replace(partition(2), sealed=b"anew"))
        for late in (partition(), partition(2), partition(4)):
            with pytest.raises(ConflictError):
                await tx.partitions.put(late)

    async with store.read() as tx:
        assert list(await tx.partitions.partitions(HERE, ["prt_one"])) == [replace(partition(2), sealed=b"anew")]


async def test_the_features_of_a_context_follow_from_its_roster(store: Store) -> None:
    everybody = MappingProxyType({"human:me": ALL_RIGHTS})
    lists: AccessLists = {"main": everybody, "prt_one": everybody}
    agent = Principal("agent:scout", b"", b"", AGENT)
    seen = []
    async with store.write() as tx:
        await tx.contexts.add(context(features=("not.by.adding",)))
    for version, (access, principals) in enumerate((({}, ()), (lists, ()), (lists, (agent,)), ({}, (agent,))), 1):
        body = roster.serialize(Roster(HERE, version, 1, b"o" * 32, principals, access=access))
        async with store.write() as tx:
            await tx.contexts.put_roster(RosterRow(HERE, version, body, b"signed"))
        async with store.read() as tx:
            found = await tx.contexts.by_handle("here")
        seen.append(None if found is None else found.features)

    assert seen == [(), ("partitions",), ("partitions", "delegation"), ("delegation",)]


@pytest.mark.requirement("AUD-06", "MEM-13")
async def test_the_log_leaves_out_what_touched_closed_partitions_alone(store: Store) -> None:
    touched: tuple[tuple[str, ...], ...] = ((), ("main",), ("prt_one",), ("main", "prt_one"), ("any",))
    async with store.write() as tx:
        await tx.contexts.add(context())
        for seq, partitions in enumerate(touched, 1):
            await tx.audit.append(entry(seq, partitions=partitions))

    async with store.read() as tx:

        async def seen(partitions: list[str] | None, limit: int = 10) -> list[int]:
            return [row.seq for row in await tx.audit.entries(HERE, limit=limit, partitions=partitions)]

        assert await seen(None) == [5, 4, 3, 2, 1]
        assert await seen(["main"]) == [4, 2, 1]
        assert await seen(["prt_one", "main"]) == [4, 3, 2, 1]
        assert await seen([]) == [1]
        assert await seen(["main"], limit=2) == [4, 2]
        assert [row.partitions for row in await tx.audit.entries(HERE, limit=2)] == [("any",), ("main", "prt_one")]
