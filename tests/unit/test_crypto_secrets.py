"""Secrets print nothing, are never pickled or copied, and are gone once wiped."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest

from zkpcp.crypto import aead, kdf, keyring, keys, recovery, seal, sign, tokens, wipe
from zkpcp.crypto.entropy import Entropy, SystemEntropy
from zkpcp.crypto.opaque import Opaque
from zkpcp.errors import CorruptError, TamperedError

CANARY = bytes(range(0x41, 0x61))  # printable, so that any leak would show in a repr


class FixedEntropy:
    """Hands out the canary's first bytes."""

    def bytes(self, size: int) -> bytes:
        return bytes(bytearray(CANARY)[:size])


SECRETS: list[Callable[[], Opaque]] = [
    lambda: keys.Key(bytearray(CANARY)),
    lambda: tokens.new_token("at", FixedEntropy()),
    lambda: recovery.new_code(FixedEntropy()),
    lambda: seal.KemPrivateKey(CANARY),
    lambda: sign.SigningKey.from_seed(CANARY),
    lambda: keyring.Root(1, bytearray(CANARY)),
    lambda: keyring.KeyringContents({("memory/main", 1, "rec"): bytearray(CANARY)}, {}, None),
]


@pytest.mark.parametrize("make", SECRETS)
@pytest.mark.requirement("AUTH-35", "SEC-12")
def test_a_secret_prints_its_type_and_nothing_else(make: Callable[[], Opaque]) -> None:
    secret = make()

    for printed in (repr(secret), str(secret), f"{secret}", f"{[secret]!s}", repr({"field": secret})):
        assert f"<{type(secret).__name__}>" in printed
        assert "ABC" not in printed
        assert CANARY.hex()[:8] not in printed


@pytest.mark.parametrize("make", SECRETS)
@pytest.mark.requirement("AUTH-35")
def test_a_secret_refuses_to_be_pickled_and_copied(make: Callable[[], Opaque]) -> None:
    secret = make()

    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError):
            pickle.dumps(secret, protocol)
    for duplicate in (copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            duplicate(secret)


@pytest.mark.parametrize("make", SECRETS)
def test_a_secret_has_no_dictionary_of_fields_to_look_into(make: Callable[[], Opaque]) -> None:
    with pytest.raises(TypeError):
        vars(make())


def test_secrets_with_the_same_bytes_are_equal_and_have_no_hash() -> None:
    for make in SECRETS[:3]:
        assert make() == make()
        with pytest.raises(TypeError):
            hash(make())

    assert keys.Key(bytearray(CANARY)) != keys.Key(bytearray(32))
    assert tokens.new_token("at", FixedEntropy()) != tokens.new_token("rt", FixedEntropy())
    assert keys.Key(bytearray(CANARY)) != CANARY


@pytest.mark.requirement("KEY-04")
def test_a_wiped_key_is_zeros_and_can_no_longer_be_used() -> None:
    owned = bytearray(CANARY)

    with keys.Key(owned) as key:
        assert key.view() == CANARY

    assert owned == bytes(32)
    with pytest.raises(ValueError, match="wiped"):
        key.view()
    assert key != keys.Key(bytearray(32))


@pytest.mark.requirement("KEY-04")
def test_a_key_is_wiped_when_its_block_is_left_by_an_exception() -> None:
    owned = bytearray(CANARY)

    with pytest.raises(CorruptError), keys.Key(owned):
        raise CorruptError("an example")

    assert owned == bytes(32)


@pytest.mark.requirement("KEY-04")
def test_a_wiped_token_is_zeros_and_can_no_longer_be_used() -> None:
    owned = bytearray(CANARY)
    token = tokens.TokenSecret("at", owned)

    token.wipe()

    assert owned == bytes(32)
    for use in (token.text, token.lookup_id, lambda: token.wrap_key("ctx_example")):
        with pytest.raises(ValueError, match="wiped"):
            use()


@pytest.mark.requirement("KEY-04")
def test_everything_opened_can_be_overwritten_by_its_owner() -> None:
    private = seal.KemPrivateKey(CANARY)
    box = aead.seal(CANARY, b"a plaintext", b"", salt=bytes(24))
    sealed = seal.seal_to(private.public_bytes(), b"a plaintext", b"")
    opened = [aead.open_box(CANARY, box, b""), seal.open_sealed(private, sealed, b""), kdf.derive(CANARY, "example")]

    for owned in opened:
        wipe.wipe(owned)

    assert all(not any(owned) for owned in opened)
    assert len(opened[0]) == len(b"a plaintext")


@pytest.mark.requirement("KEY-04")
def test_a_keyring_is_wiped_as_a_whole_and_owns_its_keys() -> None:
    contents = keyring.KeyringContents(
        {("memory/main", 1, "rec"): bytearray(CANARY)}, {}, keyring.Root(1, bytearray(CANARY))
    )
    encoded = keyring.encode(contents)
    decoded = keyring.decode(encoded)

    wipe.wipe(encoded)
    assert decoded.keys["memory/main", 1, "rec"] == CANARY
    decoded.wipe()

    assert decoded.root is not None
    assert not any(decoded.root.key)
    assert not any(decoded.keys["memory/main", 1, "rec"])
    assert contents.keys["memory/main", 1, "rec"] == CANARY


def test_a_wiped_key_is_not_put_into_a_keyring() -> None:
    with pytest.raises(ValueError, match="wiped"):
        keyring.encode(keyring.KeyringContents({("memory/main", 1, "rec"): bytearray(32)}, {}, None))


@pytest.mark.requirement("KEY-04")
def test_a_fresh_library_result_is_overwritten_and_a_shared_one_is_left_alone() -> None:
    fresh = kdf.lp(b"fresh", b"result")
    assert wipe.wipe_bytes(fresh)
    assert fresh == bytes(len(fresh))

    shared = kdf.lp(b"shared", b"result")
    holders = [shared, shared]
    assert not wipe.wipe_bytes(shared)
    assert holders[0] == kdf.lp(b"shared", b"result")


def test_empty_and_single_bytes_which_python_shares_are_never_overwritten() -> None:
    for value in (b"", b"A"):
        again = bytes(bytearray(value))
        assert not wipe.wipe_bytes(again)
    assert bytes(bytearray(b"A")) == b"\x41"


@pytest.mark.requirement("KEY-04")
def test_the_stack_can_be_cleared_on_this_image() -> None:
    assert wipe.STACK_ZERO_AVAILABLE
    wipe.stack_zero()


@pytest.mark.requirement("SEC-12")
def test_a_failed_open_says_nothing_of_key_context_or_content() -> None:
    box = bytearray(aead.seal(CANARY, b"ABC plaintext", b"ABC context", salt=bytes(24)))
    box[-1] ^= 1

    for context in (b"ABC context", b"ABC elsewhere"):
        with pytest.raises(TamperedError) as caught:
            aead.open_box(CANARY, box, context)
        assert "ABC" not in str(caught.value)
        # The library's own exception must not travel along either.
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_the_systems_entropy_gives_as_many_bytes_as_asked_for_and_never_the_same() -> None:
    entropy: Entropy = SystemEntropy()

    drawn = {entropy.bytes(32) for _ in range(10)}

    assert len(drawn) == 10
    assert {len(value) for value in drawn} == {32}
