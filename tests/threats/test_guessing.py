"""Guessing at a passphrase: no answer tells an account from none, and no row makes a guess cheap."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.flows.usecase_support import PASSPHRASE, World
from zkpcp.core.audit import Outcome
from zkpcp.core.stored import SeedWrapRow
from zkpcp.crypto import passphrase as passphrases
from zkpcp.errors import SignInError
from zkpcp.testing import MemoryStore
from zkpcp.usecases.session import sign_in
from zkpcp.vault.secrets import Argon2Profile

SETTINGS = Argon2Profile("test", memory_kib=64, time_cost=2, parallelism=1)


class CountedArgon2:
    """The real library, noting what each run was asked to cost."""

    def __init__(self, library: object) -> None:
        self._library = library
        self.runs: list[tuple[int, int, int]] = []

    def argon2_hash(self, time_cost: int, memory_kib: int, parallelism: int, *rest: object) -> int:
        self.runs.append((memory_kib, time_cost, parallelism))
        status: int = self._library.argon2_hash(time_cost, memory_kib, parallelism, *rest)  # type: ignore[attr-defined]  # cffi
        return status

    def __getattr__(self, name: str) -> object:
        return getattr(self._library, name)


@pytest.fixture
def argon2(monkeypatch: pytest.MonkeyPatch) -> CountedArgon2:
    counted = CountedArgon2(passphrases.argon2)  # type: ignore[attr-defined]  # cffi, imported there
    monkeypatch.setattr(passphrases, "argon2", counted)
    return counted


@pytest.fixture
async def world() -> World:
    return await World.founded(MemoryStore(), argon2=SETTINGS)


async def refusal(world: World, argon2: CountedArgon2, **asked: object) -> tuple[str, str, list[tuple[int, int, int]]]:
    """The type and text of a refused sign-in, and the work it took."""
    argon2.runs.clear()
    given = {"context": world.context, "passphrase": PASSPHRASE, "principal": None} | asked
    with pytest.raises(SignInError) as refused:
        await sign_in(
            world.services,
            given["context"],  # type: ignore[arg-type]  # the cases name the arguments
            passphrase=str(given["passphrase"]),
            principal=given["principal"],  # type: ignore[arg-type]  # likewise
        )
    assert refused.value.__cause__ is None
    return type(refused.value).__name__, str(refused.value), [*argon2.runs]


async def test_a_wrong_passphrase_and_an_unknown_account_are_one_answer_after_the_same_work(
    world: World, argon2: CountedArgon2
) -> None:
    answers = [
        await refusal(world, argon2, passphrase="another passphrase"),
        await refusal(world, argon2, principal="human:nobody"),
        await refusal(world, argon2, context=None),
        await refusal(world, argon2, passphrase=""),
        await refusal(world, argon2, passphrase="\x00" * 20),
        await refusal(world, argon2, passphrase="x" * 5000),
        await refusal(world, argon2, context=None, passphrase="\ud800"),
    ]

    assert answers[0] == ("SignInError", "account and passphrase do not fit together", [(64, 2, 1)])
    assert len(set(map(str, answers))) == 1


@pytest.mark.requirement("AUD-05")
async def test_a_refused_sign_in_is_logged_where_there_is_a_log(world: World, argon2: CountedArgon2) -> None:
    before = len(await world.entries())

    await refusal(world, argon2, passphrase="another passphrase")
    await refusal(world, argon2, principal="human:nobody")
    await refusal(world, argon2, context=None)

    known, unknown = (await world.entries())[before:]
    assert (known.action, known.outcome, known.principal) == ("sign_in", Outcome.DENIED, "human:owner")
    # A name that somebody typed may be anything, and is not written down.
    assert (unknown.action, unknown.outcome, unknown.principal) == ("sign_in", Outcome.DENIED, None)


@pytest.mark.parametrize(
    "changes",
    [
        {"memory_kib": 8},
        {"time_cost": 1},
        {"memory_kib": 0, "time_cost": 0, "parallelism": 0},
        {"memory_kib": 8 * 1024 * 1024},
        {"time_cost": 1000},
        {"parallelism": 64},
    ],
)
@pytest.mark.requirement("KEY-03")
async def test_settings_outside_the_bounds_are_refused_before_any_work(
    world: World, argon2: CountedArgon2, changes: dict[str, int]
) -> None:
    key = (world.context_id, "human:owner", "passphrase")

    def lower(row: SeedWrapRow) -> SeedWrapRow:
        return replace(row, **changes)  # type: ignore[arg-type]  # members that are whole numbers

    world.tamper(lambda tables: tables.wraps.update({key: lower(tables.wraps[key])}))  # type: ignore[index,dict-item]  # a literal kind

    name, text, work = await refusal(world, argon2)

    assert (name, text, work) == ("SignInError", "account and passphrase do not fit together", [])
    assert (await world.last_entry()).outcome is Outcome.DENIED


@pytest.mark.parametrize(
    "changes",
    [{"memory_kib": 128}, {"time_cost": 3}, {"parallelism": 2}, {"salt": b"s" * 16}, {"principal": "human:eve"}],
)
async def test_settings_that_are_not_the_true_ones_open_nothing(
    world: World, argon2: CountedArgon2, changes: dict[str, object]
) -> None:
    key = (world.context_id, "human:owner", "passphrase")
    true = world.tables().wraps[key]  # type: ignore[index]  # a literal kind
    false = replace(true, **changes)  # type: ignore[arg-type]  # the cases name members of the row
    world.tamper(lambda tables: tables.wraps.update({key: false}))  # type: ignore[dict-item]  # a literal kind

    name, _, work = await refusal(world, argon2)

    assert (name, len(work)) == ("SignInError", 1)
    world.tamper(lambda tables: tables.wraps.update({key: true}))  # type: ignore[dict-item]  # a literal kind
    await sign_in(world.services, world.context, passphrase=PASSPHRASE)


@pytest.mark.requirement("CTX-05")
async def test_the_wrap_of_another_context_opens_nothing_here_though_the_passphrase_is_the_same(
    world: World, argon2: CountedArgon2
) -> None:
    other = await World.founded(world.store, handle="bea", argon2=SETTINGS)
    for kind in ("passphrase", "recovery"):
        row = world.tables().wraps[other.context_id, "human:owner", kind]
        foreign = replace(row, context_id=world.context_id, kind="passphrase")
        key = (world.context_id, "human:owner", "passphrase")
        world.tamper(lambda tables, key=key, foreign=foreign: tables.wraps.update({key: foreign}))  # type: ignore[misc]  # bound at once

        name, _, _ = await refusal(world, argon2)

        assert name == "SignInError"
