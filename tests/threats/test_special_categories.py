"""Special categories lie under keys of their own: no other scope opens them, whatever else is stolen with it."""

from __future__ import annotations

import pytest

from tests.flows.usecase_support import EVERYTHING, World, each_store
from tests.threats.test_stolen_token import everything_derived
from zkpcp.core.extensions import KNOWN
from zkpcp.core.stored import ProfileRow
from zkpcp.crypto.aead import context_of, open_box
from zkpcp.crypto.kdf import u64
from zkpcp.errors import TamperedError
from zkpcp.vault import records
from zkpcp.vault.keyring import MissingKeyError

SPECIAL = ("pcp.health", "pcp.residency")
CANARY = "zebrafinch"


def opens(key: bytes, row: ProfileRow) -> bool:
    place = (row.context_id.encode(), row.namespace.encode(), u64(1), u64(row.version), u64(row.updated_ms))
    try:
        open_box(key, row.sealed, context_of("profile/profile", *place))
    except TamperedError:
        return False
    return True


async def filled(world: World) -> dict[str, ProfileRow]:
    """A world with something in each special category; the stored rows."""
    await world.switch(*KNOWN)
    async with world.owner() as owner:
        await owner.patch({"emergency_notes": CANARY}, "pcp.health")
        await owner.patch({"notes": CANARY}, "pcp.residency")
    rows = {}
    async with world.store.read() as tx:
        for namespace in SPECIAL:
            row = await tx.profiles.profile(world.context_id, namespace)
            assert row is not None
            rows[namespace] = row
    return rows


@each_store
@pytest.mark.requirement("PROF-09", "KEY-05")
async def test_a_special_category_is_stored_as_ciphertext_only(stored_world: World) -> None:
    rows = await filled(stored_world)

    async with stored_world.store.read() as tx:
        for namespace, row in rows.items():
            changes = await tx.profiles.changes(stored_world.context_id, namespace, 10)
            stored = b"".join((row.sealed, *(change.sealed for change in changes)))
            assert CANARY.encode() not in stored
            assert b"notes" not in stored
    assert not [row for row in await stored_world.audit_rows() if CANARY.encode() in row.entry]


@pytest.mark.requirement("PROF-10", "SCOPE-02")
@pytest.mark.parametrize("namespace", SPECIAL)
async def test_no_key_of_a_grant_without_its_scope_opens_a_special_category(world: World, namespace: str) -> None:
    row = (await filled(world))[namespace]
    others = [f"{each.stem}:{right}" for each in KNOWN.values() if each.id != namespace for right in ("read", "write")]
    assert len(others) == 2 * (len(KNOWN) - 1)
    granted = await world.grant(*EVERYTHING, *others)

    async with world.client(granted) as client:
        assert {"handoff", "pcp.home", "profile.core"} <= {slot for slot, _, _ in client.who.keys._contents.keys}
        candidates = set(everything_derived(client.who.keys))
        with pytest.raises(MissingKeyError):
            records.open_profile(client.who.keys, namespace, row)
    async with world.owner() as owner:
        assert opens(bytes(owner.who.keys.live_key(namespace, "rec")[1]), row)  # the search itself works
    assert not any(opens(key, row) for key in candidates)


@pytest.mark.requirement("PROF-10")
async def test_the_scope_of_a_special_category_opens_it_and_nothing_else(world: World) -> None:
    rows = await filled(world)
    granted = await world.grant("profile.health:read")

    async with world.client(granted) as client:
        assert {slot for slot, _, _ in client.who.keys._contents.keys} == {"pcp.health"}
        opened = records.open_profile(client.who.keys, "pcp.health", rows["pcp.health"])
        with pytest.raises(MissingKeyError):
            records.open_profile(client.who.keys, "pcp.residency", rows["pcp.residency"])

    assert opened is not None
    assert opened["emergency_notes"] == CANARY
