"""A host that writes into the sensitive inbox itself: it knows the public key, and still nothing enters memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.flows.usecase_support import DEFAULT_GRANT, Granted, Hand, World, each_store
from zkpcp.core import pages as page_format
from zkpcp.core.audit import Outcome
from zkpcp.core.pages import Author, Page
from zkpcp.core.stored import InboxRow
from zkpcp.crypto.kdf import lp
from zkpcp.crypto.padding import pad
from zkpcp.crypto.seal import seal_to
from zkpcp.crypto.sign import SigningKey
from zkpcp.errors import NotFoundError
from zkpcp.usecases.remember import encoded_terms
from zkpcp.vault import records

STYLE = "Short sentences, no adjectives."
ATTACKER = SigningKey.from_seed(bytes(range(32)))


async def waiting(world: World, granted: Granted, path: str = "style/letters") -> InboxRow:
    """An item that waits in the inbox as its writer left it."""
    async with world.client(granted) as client:
        written = await client.write(path, STYLE)
    async with world.store.read() as tx:
        (row,) = await tx.pages.inbox(world.context_id, ("memory.sensitive/main",), 1)
    assert row.page_id == written.page_id
    return row


def unsigned(row: InboxRow) -> InboxRow:
    return replace(row, signature=bytes(64))


def signed_by_a_stranger(row: InboxRow) -> InboxRow:
    return replace(row, signature=ATTACKER.sign("inbox", row.sealed))


def under_another_page_id(row: InboxRow) -> InboxRow:
    return replace(row, page_id="pg_" + "0" * 32)


def without_its_retention(row: InboxRow) -> InboxRow:
    return replace(row, expires_ms=4_000_000_000_000)


def with_another_date(row: InboxRow) -> InboxRow:
    return replace(row, updated_ms=row.updated_ms + 1)


def of_another_generation(row: InboxRow) -> InboxRow:
    return replace(row, generation=2)


def with_a_changed_byte(row: InboxRow) -> InboxRow:
    return replace(row, sealed=row.sealed[:-1] + bytes([row.sealed[-1] ^ 1]))


def of_an_unknown_grant(row: InboxRow) -> InboxRow:
    return replace(row, grant_id="gr_" + "0" * 32)


def empty(row: InboxRow) -> InboxRow:
    return replace(row, sealed=b"", signature=b"")


FORGERIES = (
    unsigned,
    signed_by_a_stranger,
    under_another_page_id,
    without_its_retention,
    with_another_date,
    of_another_generation,
    with_a_changed_byte,
    of_an_unknown_grant,
    empty,
)


async def refused_and_logged(world: World, *page_ids: str) -> None:
    """The owner's next look works, shows nothing of the item, and one entry says what was thrown away."""
    async with world.owner() as owner:
        listed = await owner.paths()
        for page_id in page_ids:
            with pytest.raises(NotFoundError):
                await owner.read(page_id=page_id)
    found = [entry for entry in await world.entries() if entry.action == "tampering.found"]
    assert listed == []
    assert [(entry.outcome, entry.categories, entry.object_ids) for entry in found] == [
        (Outcome.ERROR, ("memory.sensitive",), page_ids)
    ]


@pytest.mark.parametrize("forge", FORGERIES, ids=[forge.__name__ for forge in FORGERIES])
@pytest.mark.requirement("MEM-22")
async def test_an_item_that_its_grant_did_not_sign_as_it_stands_is_discarded(
    world: World, forge: Callable[[InboxRow], InboxRow]
) -> None:
    granted = await world.grant(*DEFAULT_GRANT)
    row = await waiting(world, granted)
    forged = forge(row)
    world.tamper(lambda tables: tables.inbox.update({(world.context_id, forged.page_id): forged}))
    if forged.page_id != row.page_id:
        world.tamper(lambda tables: tables.inbox.pop((world.context_id, row.page_id)))

    await refused_and_logged(world, forged.page_id)


async def test_an_item_signed_by_another_grant_is_discarded(world: World) -> None:
    granted = await world.grant(*DEFAULT_GRANT)
    other = await world.grant(*DEFAULT_GRANT)
    row = await waiting(world, granted)
    forged = replace(row, grant_id=other.grant_id)
    world.tamper(lambda tables: tables.inbox.update({(world.context_id, row.page_id): forged}))

    await refused_and_logged(world, row.page_id)


def sealed_by(hand: Hand, page: Page) -> InboxRow:
    """An item as a grant's own keys make it: what a host can do that holds a token besides the database."""
    return records.seal_to_inbox(hand.who.keys, page, encoded_terms(page), grant_id=hand.who.actor.grant_id or "")


async def test_a_grant_cannot_sign_for_another_author(world: World) -> None:
    granted = await world.grant(*DEFAULT_GRANT, client_id="cli_mallory")
    row = await waiting(world, granted)
    draft = page_format.draft("style/letters", STYLE, None)
    async with world.client(granted) as client:
        for author in (Author("human:eve", "cli_mallory"), Author(world.context.controller, "cli_trusted")):
            page = page_format.create(draft, page_id=row.page_id, now_ms=row.updated_ms, author=author)
            forged = sealed_by(client, page)
            world.tamper(lambda tables, forged=forged: tables.inbox.update({(world.context_id, row.page_id): forged}))  # type: ignore[misc]  # bound at once
            async with world.owner() as owner:
                assert await owner.paths() == []
            assert (await world.last_entry()).action == "memory_list"
            assert (await world.entries())[-2].action == "tampering.found"


async def test_a_grant_cannot_sign_one_page_under_the_id_of_another(world: World) -> None:
    granted = await world.grant(*DEFAULT_GRANT)
    row = await waiting(world, granted)
    author = Author(world.context.controller, "cli_quill")
    page = page_format.create(
        page_format.draft("style/letters", STYLE, None), page_id="pg_other", now_ms=row.updated_ms, author=author
    )
    async with world.client(granted) as client:
        keys = client.who.keys
        _, public = keys.inbox_public(row.slot)
        info = records._inbox_info(
            world.context_id, row.slot, 1, row.page_id, granted.grant_id, row.updated_ms, row.expires_ms
        )
        sealed = seal_to(public, pad(lp(records._file(page), encoded_terms(page)), powers_of_two=True), info)
        forged = replace(row, sealed=sealed, signature=keys.sign("inbox", info, sealed))
    world.tamper(lambda tables: tables.inbox.update({(world.context_id, row.page_id): forged}))

    await refused_and_logged(world, row.page_id)


@each_store
async def test_an_item_shown_again_after_its_admission_changes_nothing(stored_world: World) -> None:
    granted = await stored_world.grant(*DEFAULT_GRANT)
    row = await waiting(stored_world, granted)
    async with stored_world.owner() as owner:
        await owner.write("style/letters", "Long sentences.")
        before = await owner.read("style/letters")
    async with stored_world.store.write() as tx:
        await tx.pages.add_to_inbox(row, 1, b"any other path's")

    async with stored_world.owner() as owner:
        assert await owner.paths() == ["style/letters"]
        after = await owner.read("style/letters")

    assert (after.body, after.updated) == (before.body, before.updated)
    refused = [entry for entry in await stored_world.entries() if entry.action == "tampering.found"]
    assert [entry.object_ids for entry in refused] == [(row.page_id,)]
    async with stored_world.store.read() as tx:
        assert await tx.pages.inbox(stored_world.context_id, ("memory.sensitive/main",), 9) == []


@each_store
async def test_a_forged_item_under_a_pages_id_does_not_take_the_page_its_path(stored_world: World) -> None:
    granted = await stored_world.grant(*DEFAULT_GRANT)
    row = await waiting(stored_world, granted)
    async with stored_world.owner() as owner:
        await owner.paths()
    async with stored_world.store.write() as tx:
        await tx.pages.add_to_inbox(unsigned(row), 1, b"any other path's")

    async with stored_world.owner() as owner:
        await owner.paths()
        assert (await owner.read("style/letters")).body == STYLE


async def test_forged_items_do_not_keep_true_ones_out(world: World) -> None:
    granted = await world.grant(*DEFAULT_GRANT)
    row = await waiting(world, granted)
    forged = {(world.context_id, f"pg_{number:032}"): replace(row, page_id=f"pg_{number:032}") for number in range(5)}
    world.tamper(lambda tables: tables.inbox.update(forged))

    async with world.owner() as owner:
        assert await owner.paths() == ["style/letters"]
    refused = [entry for entry in await world.entries() if entry.action == "tampering.found"]
    assert [len(entry.object_ids) for entry in refused] == [5]
