"""Setting a context up: what exists afterwards, and what is refused (KEY-03, KEY-13)."""

from __future__ import annotations

import pytest

from tests.flows.usecase_support import NOW_MS, PASSPHRASE, World, every_store
from zkpcp.core.audit import Outcome
from zkpcp.errors import ConflictError, InvalidInputError
from zkpcp.testing import MemoryStore
from zkpcp.usecases.found import found_context


@every_store
@pytest.mark.requirement("KEY-03", "AUD-05")
async def test_a_new_context_is_empty_and_opens_for_its_owner_alone(stored_world: World) -> None:
    async with stored_world.store.read() as tx:
        roster = await tx.contexts.roster(stored_world.context_id)
        keyring = await tx.grants.principal_keyring(stored_world.context_id, "human:owner")
        wraps = [
            await tx.credentials.wrap(stored_world.context_id, "human:owner", "passphrase"),
            await tx.credentials.wrap(stored_world.context_id, "human:owner", "recovery"),
        ]
    async with stored_world.owner() as owner:
        assert owner.who.keys.is_controller
        root = owner.who.keys._contents.root
        assert root is not None
        stored = b"".join(row.wrapped for row in wraps if row is not None)
        assert roster is not None
        assert keyring is not None
        for kept in (stored, roster.body, keyring.sealed):
            assert bytes(root.key) not in kept
            assert PASSPHRASE.encode() not in kept
        assert await owner.paths() == []
        assert (await owner.profiles()).by_namespace == {"profile.core": None}

    created, signed_in = (await stored_world.entries())[:2]
    assert (created.action, signed_in.action) == ("context.created", "sign_in")
    assert (created.at_ms, created.outcome, created.categories) == (NOW_MS, Outcome.OK, ("keys",))


async def test_a_handle_is_taken_once(world: World) -> None:
    with pytest.raises(ConflictError):
        await found_context(world.services, handle=world.context.handle, kind="work", passphrase=PASSPHRASE)

    assert len(await world.entries()) == 2
    assert len(world.tables().contexts) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("handle", "A"),
        ("handle", "-ada"),
        ("handle", "../ada"),
        ("kind", "secret"),
        ("passphrase", "short"),
        ("passphrase", "aaaaaaaaaaaaaaaa"),
        ("passphrase", "with a \x00 inside it"),
        ("principal", "ada"),
        ("principal", "human:"),
        ("principal", "org:mill.example"),
        ("principal", "agent:quill"),
    ],
)
async def test_a_set_up_that_breaks_a_rule_names_the_field_and_leaves_nothing(field: str, value: str) -> None:
    store = MemoryStore()
    world = await World.founded(store)
    asked = {"handle": "bea", "kind": "personal", "passphrase": PASSPHRASE, "principal": "human:bea"} | {field: value}

    with pytest.raises(InvalidInputError) as refused:
        await found_context(world.services, **asked)

    assert [violation.path for violation in refused.value.violations] == [field]
    assert len(value) < 3 or value not in str(refused.value)
    assert len(world.tables().contexts) == 1


@pytest.mark.requirement("CTX-05")
async def test_two_contexts_of_one_person_and_passphrase_share_no_key(world: World) -> None:
    other = await World.founded(world.store, handle="bea")
    held: list[set[bytes]] = []

    for each in (world, other):
        async with each.open() as session:
            keys = session.keyring
            root = keys._contents.root
            assert root is not None
            sub_keys = {bytes(keys.live_key("memory/main", name)[1]) for name in ("rec", "head", "terms")}
            held.append({bytes(root.key), bytes(keys.cursor_key()), keys.roster.owner, *sub_keys})

    assert len(held[0]) == len(held[1]) == 6
    assert held[0].isdisjoint(held[1])
