"""A token stolen together with the whole database opens its grant's slice and nothing beside it (U1, U2, U6)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from itertools import product

import pytest

from tests.flows.usecase_support import DEFAULT_GRANT, EVERYTHING, Granted, Hand, World, each_store
from zkpcp.core.scopes import Offer, effective
from zkpcp.core.slots import is_sensitive, slice_for
from zkpcp.core.stored import PageRow, ProfileRow
from zkpcp.crypto.aead import context_of, open_box
from zkpcp.crypto.kdf import derive, u64
from zkpcp.crypto.keys import SUB_KEYS, sub_key
from zkpcp.errors import CorruptError, InvalidTokenError, NotFoundError, TamperedError
from zkpcp.usecases.access import acting, authenticate
from zkpcp.vault import holders, records, seeds
from zkpcp.vault.keyring import MissingKeyError, OpenKeyring
from zkpcp.vault.records import Part
from zkpcp.vault.secrets import parse_token
from zkpcp.vault.seeds import OpenedSeed

SECRET = "the willow by the weir"


async def full_world(world: World) -> dict[str, PageRow]:
    """A normal and a sensitive page and a profile; their rows by path."""
    async with world.owner() as owner:
        await owner.patch({"name": SECRET})
        paths = {
            "notes/tree": (await owner.write("notes/tree", SECRET)).page_id,
            "health/tree": (await owner.write("health/tree", SECRET, sensitivity="sensitive")).page_id,
        }
    slots = ("memory/main", "memory.sensitive/main")
    async with world.store.read() as tx:
        rows = await tx.pages.pages(world.context_id, [*paths.values()], slots, 0)
    by_id = {row.page_id: row for row in rows}
    return {path: by_id[page_id] for path, page_id in paths.items()}


def everything_derived(keys: OpenKeyring) -> Iterator[bytes]:
    """Every key in a keyring, its cursor key, and what the key schedule makes of each."""
    held = [bytes(keys.cursor_key()), *(bytes(key) for key in keys._contents.keys.values())]
    slots = ("memory/main", "memory.sensitive/main", "profile.core", "paths", "controller", "pcp.health", "handoff")
    for key in held:
        yield key
        yield from (bytes(sub_key(key, name)) for name in SUB_KEYS)
        for slot, generation in product(slots, (0, 1, 2)):
            slot_key = derive(key, "slot", keys.context_id.encode(), slot.encode(), u64(generation))
            yield bytes(slot_key)
            yield from (bytes(sub_key(slot_key, name)) for name in SUB_KEYS)
        yield from (bytes(derive(key, label)) for label in ("grant/anchor", "grant/kem", "principal/kem", "cursor"))


def opens(key: bytes, row: PageRow, context_id: str) -> bool:
    parts: tuple[tuple[Part, bytes], ...] = (("rec", row.sealed), ("head", row.head), ("terms", row.terms))
    for part, box in parts:
        try:
            open_box(key, box, records.page_place(context_id, row, part))
        except TamperedError:
            continue
        return True
    return False


@pytest.mark.requirement("KEY-03", "SCOPE-02")
async def test_a_token_without_the_sensitive_scope_opens_no_sensitive_page_with_any_key_it_gives(world: World) -> None:
    rows = await full_world(world)
    granted = await world.grant(*DEFAULT_GRANT)

    async with world.client(granted) as client:
        keys = client.who.keys
        assert not [slot for slot, _, _ in keys._contents.keys if is_sensitive(slot)]
        assert keys._contents.root is None
        candidates = set(everything_derived(keys))
        with pytest.raises(MissingKeyError):
            records.open_page(keys, rows["health/tree"])
        with pytest.raises(MissingKeyError):
            keys.inbox_private("memory.sensitive/main", 1)

    assert len(candidates) > 1000
    assert any(opens(key, rows["notes/tree"], world.context_id) for key in candidates)  # the search itself works
    assert not any(opens(key, rows["health/tree"], world.context_id) for key in candidates)


@pytest.mark.requirement("KEY-03")
async def test_a_token_without_the_profile_scope_opens_no_profile_with_any_key_it_gives(world: World) -> None:
    await full_world(world)
    granted = await world.grant("memory:read", "memory:write", "memory.sensitive:read", "memory.sensitive:write")
    row = world.tables().profiles[world.context_id, "profile.core"]

    def profile_opens(key: bytes, row: ProfileRow) -> bool:
        place = (world.context_id.encode(), b"profile.core", u64(1), u64(row.version), u64(row.updated_ms))
        try:
            open_box(key, row.sealed, context_of("profile/profile", *place))
        except TamperedError:
            return False
        return True

    async with world.client(granted) as client:
        assert "profile.core" not in {slot for slot, _, _ in client.who.keys._contents.keys}
        candidates = set(everything_derived(client.who.keys))
        with pytest.raises(MissingKeyError):
            records.open_profile(client.who.keys, "profile.core", row)
    async with world.owner() as owner:
        assert profile_opens(bytes(owner.who.keys.live_key("profile.core", "rec")[1]), row)
    assert not any(profile_opens(key, row) for key in candidates)


@pytest.mark.requirement("KEY-03")
async def test_a_keyring_holds_what_its_scopes_open_and_nothing_else(world: World) -> None:
    for scopes in (
        (),
        ("profile.core:read",),
        ("memory:write",),
        ("memory.sensitive:read",),
        ("memory:write", "memory.sensitive:read"),
        DEFAULT_GRANT,
        EVERYTHING,
    ):
        granted = await world.grant(*scopes)
        wanted = slice_for(effective(scopes, Offer("personal")))
        async with world.client(granted) as client:
            contents = client.who.keys._contents
            assert {(slot, name) for slot, _, name in contents.keys} == {
                (ref.slot, ref.name) for ref in wanted.sub_keys
            }
            assert {slot for slot, _ in contents.inboxes} == wanted.inboxes
            assert contents.root is None


@each_store
@pytest.mark.requirement("KEY-08")
async def test_after_a_revocation_the_old_token_opens_nothing_of_a_copy_of_the_database(stored_world: World) -> None:
    granted = await stored_world.grant(*EVERYTHING)
    async with stored_world.store.write() as tx:
        await tx.grants.revoke_grant(stored_world.context_id, granted.grant_id)

    with pytest.raises(InvalidTokenError):
        await authenticate(stored_world.services, stored_world.context, granted.token)
    async with stored_world.store.read() as tx:
        token = await tx.grants.token(stored_world.context_id, granted.lookup_id)
        grant = await tx.grants.grant(stored_world.context_id, granted.grant_id)
        keyring = await tx.grants.keyring(stored_world.context_id, "grant", granted.grant_id, 1)
    assert token is not None
    assert grant is not None
    assert (token.wrapped, grant.anchor, grant.status, keyring) == (None, b"", "revoked", None)


@pytest.mark.requirement("KEY-08")
async def test_a_host_that_undoes_a_revocation_has_nothing_left_to_open(world: World) -> None:
    granted = await world.grant(*EVERYTHING)
    async with world.store.write() as tx:
        await tx.grants.revoke_grant(world.context_id, granted.grant_id)
    copy = world.tables().copy()
    rows = [row for table in fields(copy) for row in getattr(copy, table.name).values() if is_dataclass(row)]
    values = [getattr(row, member.name) for row in rows for member in fields(row)]
    blobs = [value for value in values if isinstance(value, bytes) and value]

    opened = 0
    for blob in blobs:
        for kind, holder in product(("access", "refresh", "code", "session"), (granted.grant_id, "human:owner")):
            try:
                seeds.unwrap_with_token(parse_token(granted.token, "at"), kind, world.context_id, holder, blob)  # type: ignore[arg-type]  # one of the kinds
            except CorruptError:
                continue
            opened += 1

    assert len(blobs) > 10
    assert opened == 0


@pytest.mark.requirement("KEY-03")
async def test_every_wrap_opens_with_its_own_secret_and_no_other(world: World) -> None:
    tokens = [await world.grant(*DEFAULT_GRANT) for _ in range(3)]
    rows = {granted.grant_id: world.tables().tokens[world.context_id, granted.lookup_id] for granted in tokens}

    def opened(secret: Granted, wrap: Granted) -> bool:
        try:
            seeds.unwrap_with_token(
                parse_token(secret.token, "at"),
                "access",
                world.context_id,
                wrap.grant_id,
                rows[wrap.grant_id].wrapped or b"",
            )
        except TamperedError:
            return False
        return True

    assert [[opened(secret, wrap) for wrap in tokens] for secret in tokens] == [
        [True, False, False],
        [False, True, False],
        [False, False, True],
    ]


@pytest.mark.requirement("KEY-03", "KEY-05")
async def test_no_stored_row_holds_a_key_a_secret_or_a_word_of_content(world: World) -> None:
    rows = await full_world(world)
    granted = await world.grant(*EVERYTHING)
    secrets = [parse_token(granted.token, "at")._secret, world.session._secret]
    async with world.client(granted) as client, world.owner() as owner:
        held: list[bytes] = [bytes(key) for key in client.who.keys._contents.keys.values()]
        root = owner.who.keys._contents.root
        assert root is not None
        held += [bytes(root.key), bytes(client.who.keys.cursor_key()), *(bytes(secret) for secret in secrets)]
    stored = repr(world.tables()).encode("latin-1", "replace")
    raw = b"\n".join(value for row in rows.values() for value in (row.sealed, row.head, row.terms))

    windows = {key[start : start + 16] for key in held for start in range(0, 17, 4)}
    # repr shows bytes as escapes: the same escapes of a key would be in it.
    assert not [window for window in windows if window in raw or repr(window)[2:-1].encode() in stored]
    for word in (SECRET, "willow", "notes/tree", "health/", granted.token):
        assert word.encode() not in stored
        assert word.encode() not in raw


class Watched:
    """The seeds that were opened, so that a test can see what is left of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seeds: list[OpenedSeed] = []
        real = seeds.unwrap_with_token

        def watched(*arguments: object) -> OpenedSeed:
            opened = real(*arguments)  # type: ignore[arg-type]  # passed on as they came
            self.seeds.append(opened)
            return opened

        monkeypatch.setattr(seeds, "unwrap_with_token", watched)


def buffers(hand: Hand) -> list[bytearray]:
    keys = hand.who.keys
    contents = keys._contents
    derived = [key._buf for key in keys._derived.values()]
    roots = [] if contents.root is None else [contents.root.key]
    return [*contents.keys.values(), keys._cursor_key._buf, *derived, *roots]


@pytest.mark.requirement("KEY-04")
async def test_every_key_is_zero_once_a_call_is_over(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await full_world(world)
    granted = await world.grant(*EVERYTHING)
    watched = Watched(monkeypatch)
    held: list[bytearray] = []

    async with world.client(granted) as client:
        await client.read("health/tree")
        held += buffers(client)

    async def failing() -> None:
        async with world.client(granted) as client:
            held.extend(buffers(client))
            await client.read("nowhere")

    with pytest.raises(NotFoundError):
        await failing()
    async with world.owner() as owner:
        await owner.read("notes/tree")
        held += buffers(owner)
        assert all(any(buffer) for buffer in held[-3:])

    assert len(held) > 20
    assert not [buffer for buffer in held if any(buffer)]
    assert len(watched.seeds) == 3
    assert not [opened for opened in watched.seeds if any(opened.seed._buf)]
    with pytest.raises(ValueError, match="wiped"):
        watched.seeds[0].seed.view()


@pytest.mark.requirement("KEY-04")
async def test_every_key_is_zero_after_a_refusal_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    granted = await world.grant(*EVERYTHING)
    caller = await world.caller(granted)
    watched = Watched(monkeypatch)

    def refuse(*_: object) -> OpenKeyring:
        raise TamperedError("a keyring that does not open")

    monkeypatch.setattr(holders, "open_grant", refuse)
    with pytest.raises(InvalidTokenError):
        async with acting(world.services, caller):
            pytest.fail("a refused grant opened")

    assert len(watched.seeds) == 1
    assert not any(watched.seeds[0].seed._buf)
    assert not any(caller.token._secret)


async def test_what_holds_keys_prints_none_of_them(world: World) -> None:
    granted = await world.grant(*EVERYTHING)
    caller = await world.caller(granted)

    async with acting(world.services, caller) as who:
        shown = f"{who!r} {caller!r} {who.keys!r} {caller.token!r} {world.session!r}"
        assert not [key for key in who.keys._contents.keys.values() if re.escape(repr(bytes(key))[2:12]) in shown]

    assert "pcp_at_" not in shown
    assert "bytearray" not in shown
    assert holders.new_seed(world.services.entropy).__repr__() == "<Key>"
