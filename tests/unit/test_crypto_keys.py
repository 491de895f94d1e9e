"""The hierarchy: each derivation has a place of its own, and published values come out."""

from __future__ import annotations

import itertools

import pytest

from zkpcp.crypto import kdf, keys, passphrase, profiles, recovery, seal, tokens
from zkpcp.crypto.profiles import Argon2Profile
from zkpcp.errors import InvalidInputError, TamperedError

ROOT = bytes(range(32))
SALT = bytes(16)


@pytest.mark.requirement("KEY-03")
def test_a_slot_key_differs_by_context_slot_and_generation() -> None:
    derived = [
        bytes(keys.slot_key(ROOT, context_id, slot, generation))
        for context_id, slot, generation in itertools.product(("ctx_a", "ctx_b"), ("memory/a", "memory/b"), (1, 2))
    ]

    assert len(set(derived)) == len(derived)


@pytest.mark.requirement("KEY-03")
def test_no_two_purposes_share_a_key() -> None:
    token = tokens.TokenSecret("at", bytearray(ROOT))
    derived = [bytes(keys.sub_key(ROOT, name)) for name in keys.SUB_KEYS]
    for holder in ("principal", "grant"):
        derived += [bytes(keys.kem_seed(ROOT, holder)), bytes(keys.sign_seed(ROOT, holder))]
    derived += [bytes(keys.anchor_key(ROOT)), bytes(keys.slot_key(ROOT, "", "", 0)), bytes(token.wrap_key(""))]

    assert len(set(derived)) == len(derived)
    assert token.lookup_id() not in {key[:16] for key in derived}


def test_two_kinds_of_token_with_one_secret_have_nothing_in_common() -> None:
    kinds: tuple[tokens.TokenKind, ...] = ("ac", "at", "rt", "st")
    same = [tokens.TokenSecret(kind, bytearray(ROOT)) for kind in kinds]

    assert len({token.lookup_id() for token in same}) == len(kinds)
    assert len({bytes(token.wrap_key("ctx_a")) for token in same}) == len(kinds)


@pytest.mark.requirement("AUTH-25")
def test_a_token_opens_wraps_of_its_own_context_only() -> None:
    token = tokens.TokenSecret("at", bytearray(ROOT))

    assert token.wrap_key("ctx_a") != token.wrap_key("ctx_b")


def test_a_recovery_code_opens_wraps_of_its_own_context_and_principal_only() -> None:
    code = recovery.RecoveryCode(bytearray(range(20)))
    places = itertools.product(("ctx_a", "ctx_b"), ("usr_a", "usr_b"))

    assert len({bytes(recovery.wrap_key(code, *place)) for place in places}) == 4


def test_the_public_key_of_the_x_wing_drafts_first_example_comes_out() -> None:
    # draft-connolly-cfrg-xwing-kem, appendix C: the first test vector's seed and how its public key begins.
    seed = bytes.fromhex("7f9c2ba4e88f827d616045507605853ed73b8093f6efbc88eb1a6eacfa66ef26")

    public = seal.KemPrivateKey(seed).public_bytes()

    assert public.startswith(bytes.fromhex("e2236b35a8c24b39b10aa1323a96a919"))


def test_a_key_of_the_wrong_size_is_a_mistake_of_the_program() -> None:
    for make in (lambda: keys.Key(bytearray(31)), lambda: seal.KemPrivateKey(bytes(33))):
        with pytest.raises(ValueError, match="32 bytes"):
            make()
    with pytest.raises(OverflowError):
        kdf.u64(2**64)


@pytest.mark.requirement("KEY-03")
@pytest.mark.parametrize(
    "weaker",
    [
        Argon2Profile("row", profiles.FLOOR.memory_kib - 1, 3, 1),
        Argon2Profile("row", profiles.FLOOR.memory_kib, 2, 1),
        Argon2Profile("row", profiles.FLOOR.memory_kib, 3, 0),
        Argon2Profile("row", profiles.CEILING.memory_kib + 1, 3, 1),
        Argon2Profile("row", profiles.FLOOR.memory_kib, 2**40, 1),
        Argon2Profile("row", -1, -1, -1),
        profiles.CHEAPEST,
    ],
)
def test_settings_lowered_or_blown_up_in_the_row_are_refused_before_any_work(weaker: Argon2Profile) -> None:
    with pytest.raises(TamperedError):
        passphrase.stretch(b"seven quiet boats", SALT, weaker, floor=profiles.FLOOR)


def test_both_offered_profiles_are_at_or_above_the_floor_of_64_mib() -> None:
    assert profiles.FLOOR.memory_kib == 64 * 1024
    for profile in (profiles.FLOOR, profiles.STRONG):
        assert profile.memory_kib >= profiles.FLOOR.memory_kib
        assert (profile.time_cost, profile.parallelism) == (3, 1)


def test_the_passphrase_handed_in_is_left_as_it_was_for_its_owner_to_wipe() -> None:
    owned = bytearray(b"seven quiet boats")

    passphrase.stretch(owned, SALT, profiles.CHEAPEST, floor=profiles.CHEAPEST)

    assert owned == b"seven quiet boats"


def test_case_and_outer_spaces_of_a_passphrase_count() -> None:
    written = {bytes(passphrase.passphrase_bytes(text)) for text in ("quiet boats", "Quiet boats", " quiet boats")}

    assert len(written) == 3


@pytest.mark.parametrize("text", ["seven quiet boats", "correcthorse", "drei kühle Türme"])
def test_twelve_or_more_characters_with_some_variety_are_a_passphrase(text: str) -> None:
    passphrase.check_passphrase(text)


@pytest.mark.parametrize("text", ["", "elevenchars", "aaaaaaaaaaaaaaaa", "abababababababab", "quiet\x00boats at noon"])
@pytest.mark.requirement("SEC-12")
def test_a_weak_or_unwritable_passphrase_is_refused_in_plain_words_that_do_not_repeat_it(text: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        passphrase.check_passphrase(text)

    (violation,) = caught.value.violations
    assert violation.path == "passphrase"
    assert not text or text not in caught.value.message
