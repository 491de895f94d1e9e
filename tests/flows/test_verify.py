"""Checking everything that is stored: a whole context holds, and whatever a host changed is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from tests.flows.usecase_support import DEFAULT_GRANT, EVERYTHING, World, every_store
from zkpcp.core.extensions import HANDOFF
from zkpcp.errors import ForbiddenError
from zkpcp.testing import MemoryStore, _Tables
from zkpcp.usecases.forget import delete_page
from zkpcp.usecases.lock import lock_context
from zkpcp.usecases.verify import MOST_PROBLEMS, Check, verify_context

Tamper = Callable[[_Tables], None]


async def verified(world: World) -> Mapping[str, Check]:
    told: dict[str, int] = {}

    def advance(name: str, more: int) -> None:
        told[name] = told.get(name, 0) + more

    async with world.open() as session:
        checks = await verify_context(world.services, session, advance)
    assert {check.name for check in checks} - {"path tags", "earlier versions"} <= set(told)
    return {check.name: check for check in checks}


async def filled(world: World) -> World:
    await world.switch(HANDOFF)
    granted = await world.grant(*EVERYTHING, "ext.handoff:read")
    await world.grant(*DEFAULT_GRANT)
    async with world.client(granted) as client:
        await client.write("notes/boat", "under the willow")
        await client.write("notes/key", "under the mat")
        await client.write("health/knee", "it creaks", sensitivity="sensitive")
        await client.write("notes/old", "gone soon")
        old = await client.read("notes/old")
    async with world.owner() as owner:
        await delete_page(world.services, owner.who, page_id=old.id)
        await owner.patch({"name": "Ada Lovelace"})
    return world


@every_store
@pytest.mark.requirement("AUD-05")
async def test_a_context_that_nobody_tampered_with_holds(stored_world: World) -> None:
    world = await filled(stored_world)

    checks = await verified(world)

    assert [check.name for check in checks.values() if not check.holds] == []
    assert checks["pages"].looked_at == checks["path tags"].looked_at == 3
    assert checks["deleted pages"].looked_at == 1
    assert checks["profiles and their changes"].looked_at >= 2
    assert checks["roster, grants and keyrings"].looked_at == 3
    assert checks["access log"].looked_at == len(await world.entries()) - 1
    assert (await world.last_entry()).action == "context.verified"


def changed_entry(tables: _Tables) -> None:
    key = sorted(tables.entries)[2]
    row = tables.entries[key]
    tables.entries[key] = replace(row, entry=row.entry.replace(b'"ok"', b'"error"'))


def relabeled_entry(tables: _Tables) -> None:
    key = sorted(tables.entries)[2]
    tables.entries[key] = replace(tables.entries[key], action="memory_read")


def dropped_entry(tables: _Tables) -> None:
    del tables.entries[sorted(tables.entries)[3]]


def dropped_first(tables: _Tables) -> None:
    del tables.entries[min(tables.entries)]


def dropped_newest(tables: _Tables) -> None:
    del tables.entries[max(tables.entries)]


def damaged_page(tables: _Tables) -> None:
    key = next(iter(tables.pages))
    tables.pages[key] = replace(tables.pages[key], sealed=tables.pages[key].sealed[:-1] + b"\x00")


def swapped_heads(tables: _Tables) -> None:
    one, other, *_ = sorted(tables.pages)
    first, second = tables.pages[one], tables.pages[other]
    tables.pages[one], tables.pages[other] = replace(first, head=second.head), replace(second, head=first.head)


def turned_tag(tables: _Tables) -> None:
    one, other, *_ = tables.tags
    tables.tags[one] = tables.tags[other]


def damaged_deleted(tables: _Tables) -> None:
    [key] = tables.deleted
    row = tables.deleted[key]
    tables.deleted[key] = replace(row, page=replace(row.page, sealed=bytes(len(row.page.sealed))))


def dropped_profile(tables: _Tables) -> None:
    key = next(iter(tables.profiles))
    del tables.profiles[key]


def widened_grant(tables: _Tables) -> None:
    key = next(key for key, row in tables.grants.items() if row.scopes == DEFAULT_GRANT)
    tables.grants[key] = replace(tables.grants[key], scopes=EVERYTHING)


def foreign_keyring(tables: _Tables) -> None:
    key = next(key for key, row in tables.keyrings.items() if row.holder_kind == "grant")
    tables.keyrings[key] = replace(tables.keyrings[key], sealed=b"of somebody else")


@pytest.mark.requirement("AUD-05")
@pytest.mark.parametrize(
    ("tamper", "found_in"),
    [
        (changed_entry, "access log"),
        (relabeled_entry, "access log"),
        (dropped_entry, "access log"),
        (dropped_first, "access log"),
        (dropped_newest, "access log"),
        (damaged_page, "pages"),
        (swapped_heads, "pages"),
        (turned_tag, "path tags"),
        (damaged_deleted, "deleted pages"),
        (dropped_profile, "profiles and their changes"),
        (widened_grant, "roster, grants and keyrings"),
        (foreign_keyring, "roster, grants and keyrings"),
    ],
)
async def test_what_a_host_changed_is_found_and_named_without_content(
    world: World, tamper: Tamper, found_in: str
) -> None:
    await filled(world)
    # A session that remembers an entry which the host drops would not open at all.
    await world.sign_in()
    world.tamper(tamper)

    checks = await verified(world)

    wrong = [name for name, check in checks.items() if not check.holds]
    assert [name for name in wrong if name != "counted rows"] == [found_in]
    assert ("counted rows" in wrong) == (tamper in (damaged_page, swapped_heads, dropped_profile))
    problems = " ".join(checks[found_in].problems)
    assert problems
    for word in ("willow", "notes/", "knee", "Ada"):
        assert word not in problems


async def test_many_problems_are_counted_and_some_named(world: World) -> None:
    async with world.owner() as owner:
        for number in range(MOST_PROBLEMS + 5):
            await owner.write(f"notes/{number}", "text")

    def damage(tables: _Tables) -> None:
        for key, row in tables.pages.items():
            tables.pages[key] = replace(row, sealed=b"")

    world.tamper(damage)
    pages = (await verified(world))["pages"]

    assert (pages.wrong, len(pages.problems)) == (MOST_PROBLEMS + 5, MOST_PROBLEMS)


async def test_a_locked_context_can_be_verified(world: World) -> None:
    await filled(world)
    async with world.open() as session:
        await lock_context(world.services, session)
    await world.refresh()
    await world.sign_in()

    assert all(check.holds for check in (await verified(world)).values())


async def test_only_the_controller_can_verify() -> None:
    world = await World.founded(MemoryStore(), kind="team")
    bob = await world.join("bob")
    async with bob.open() as session:
        with pytest.raises(ForbiddenError):
            await verify_context(world.services, session, lambda _name, _more: None)
