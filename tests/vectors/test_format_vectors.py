"""Every vector in schemas/vectors holds: valid cases give their values, invalid ones fail the way they are flagged."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Iterator
from itertools import accumulate, pairwise
from typing import Any, Final, TypeAlias

import pytest

from tests.vectors.generate import FILES, FOLDER, RANDOMIZED, described, index_part_context, leaf_of_case, rendered
from zkpcp import errors
from zkpcp.core import index
from zkpcp.crypto import aead, kdf, keyring, keys, padding, passphrase, recovery, seal, sign, tokens
from zkpcp.crypto.profiles import Argon2Profile
from zkpcp.vault import heads, seeds
from zkpcp.vault.keyring import link_place
from zkpcp.vault.succession import follow

# The cases of each file have fields of their own; the runner of the file knows them.
Case: TypeAlias = dict[str, Any]

ERRORS: Final[dict[str, type[errors.ZkpcpError]]] = {
    "corrupt": errors.CorruptError,
    "tampered": errors.TamperedError,
    "invalid_input": errors.InvalidInputError,
    "invalid_token": errors.InvalidTokenError,
}

VECTOR_FLOOR: Final = Argon2Profile("vectors", memory_kib=64, time_cost=2, parallelism=1)


def run_kdf(case: Case) -> None:
    derived = kdf.derive(bytes.fromhex(case["key"]), case["label"], *map(bytes.fromhex, case["fields"]))
    expected = bytes.fromhex(case["derived"])
    assert derived[: len(expected)] == expected


def run_box(case: Case) -> None:
    key, context = bytes.fromhex(case["key"]), bytes.fromhex(case["context"])
    if "zeros" in case:
        box = aead.seal(key, bytes(case["zeros"]), context, salt=bytes.fromhex(case["salt"]))
        assert (len(box), hashlib.sha256(box).hexdigest()) == (case["box_size"], case["box_sha256"])
        assert aead.open_box(key, box, context) == bytes(case["zeros"])
        return
    opened = aead.open_box(key, bytes.fromhex(case["box"]), context)
    assert opened.hex() == case["plaintext"]
    assert aead.seal(key, opened, context, salt=bytes.fromhex(case["salt"])).hex() == case["box"]


def run_seal(case: Case) -> None:
    private = seal.KemPrivateKey(bytes.fromhex(case["seed"]))
    opened = seal.open_sealed(private, bytes.fromhex(case["sealed"]), bytes.fromhex(case["info"]))
    assert private.public_bytes().hex() == case["public"]
    assert opened.hex() == case["plaintext"]


def run_sign(case: Case) -> None:
    fields = [bytes.fromhex(field) for field in case["fields"]]
    sign.verify(bytes.fromhex(case["public"]), bytes.fromhex(case["signature"]), case["label"], *fields)
    signer = sign.SigningKey.from_seed(bytes.fromhex(case["seed"]))
    assert signer.sign(case["label"], *fields).hex() == case["signature"]


def run_token(case: Case) -> None:
    token = tokens.parse_token(case["text"], case["kind"])
    assert token == tokens.TokenSecret(case["kind"], bytearray.fromhex(case["secret"]))
    assert token.text() == case["text"]
    assert token.lookup_id().hex() == case["lookup_id"]
    assert token.wrap_key(case["context_id"]).hex() == case["wrap_key"]


def run_recovery_code(case: Case) -> None:
    code = recovery.parse_code(case["text"])
    assert code == recovery.RecoveryCode(bytearray.fromhex(case["secret"]))
    assert code.printable() == case["printed"]
    if "wrap_key" in case:
        assert recovery.wrap_key(code, case["context_id"], case["principal"]).hex() == case["wrap_key"]


def run_keyring(case: Case) -> None:
    contents = keyring.decode(bytes.fromhex(case["encoded"]))
    found, expected = described(contents), case["contents"]
    assert (found["root"], found["inboxes"]) == (expected["root"], expected["inboxes"])
    assert sorted(map(str, found["keys"])) == sorted(map(str, expected["keys"]))  # type: ignore[arg-type]  # a list of keys
    assert keyring.encode(contents).hex() == case["encoded"]


def run_padding(case: Case) -> None:
    if "size" in case:
        padded = padding.pad(bytes(case["size"]), floor=case["floor"], powers_of_two=case["powers_of_two"])
        assert len(padded) == case["padded_size"]
        return
    padded = bytearray.fromhex(case["padded"])
    data = padding.unpad(padded)
    assert data.hex() == case["data"]
    assert padding.pad(data, floor=case["floor"], powers_of_two=case["powers_of_two"]) == padded


def run_seed_wrap(case: Case) -> None:
    kinds: dict[str, tokens.TokenKind] = {"pcp_ac_": "ac", "pcp_at_": "at", "pcp_rt_": "rt", "pcp_st_": "st"}
    token = tokens.parse_token(case["token"], kinds[case["token"][:7]])
    wrapped = bytes.fromhex(case["wrapped"])
    bound = tuple(text.encode() for text in case["bound"])
    opened = seeds.unwrap_with_token(token, case["kind"], case["context_id"], case["holder"], wrapped, bound=bound)
    memory = opened.memory
    assert opened.seed.view().hex() == case["seed"]
    assert (memory.owner.hex(), memory.log.hex()) == (case["owner"], case["log"])
    assert (memory.epoch, memory.roster_version) == (case["epoch"], case["roster_version"])


def run_passphrase(case: Case) -> None:
    written = passphrase.passphrase_bytes(case["text"])
    profile = Argon2Profile("row", case["memory_kib"], case["time_cost"], case["parallelism"])
    key = passphrase.stretch(written, bytes.fromhex(case["salt"]), profile, floor=VECTOR_FLOOR)
    assert (written.hex(), key.hex()) == (case["written"], case["key"])


def run_blind_index(case: Case) -> None:
    {
        "hash": _run_hash,
        "bucket": _run_bucket,
        "delta": _run_delta,
        "meta": _run_meta,
        "part": _run_part,
    }[case["of"]](case)


def _run_hash(case: Case) -> None:
    fields = (case["context_id"].encode(), case["slot"].encode(), kdf.u64(case["generation"]), kdf.u64(case["segment"]))
    key = kdf.derive(bytes.fromhex(case["sub_key"]), "index-bucket", *fields)
    hash_ = int.from_bytes(hmac.digest(key, case["text"].encode(), "sha256")[:2], "big")
    segment = index.Segment(level=case["level"], turn=case["turn"], doubling=case["doubling"])
    assert (hash_, segment.bucket_of(hash_)) == (case["hash"], case["bucket"])


def _run_bucket(case: Case) -> None:
    bucket = index.decode_bucket(bytes.fromhex(case["words"]), bytes.fromhex(case["postings"]))
    ends = [*accumulate(bucket.sizes, initial=0)]
    found = [
        {"key": key.hex(), "postings": [[*pair] for pair in index.decode_list(bucket.lists[low:high]).items()]}
        for key, (low, high) in zip(bucket.keys, pairwise(ends), strict=True)
    ]
    assert found == case["lists"]
    assert [each.hex() for each in bucket.encode()] == [case["words"], case["postings"]]


def _run_delta(case: Case) -> None:
    entries = index.decode_entries(bytes.fromhex(case["data"]))
    found = [
        {"write": entry.seq, "page": entry.number, "hashes": [*entry.hashes], "lines": entry.lines.hex()}
        for entry in entries
    ]
    assert found == case["entries"]
    assert b"".join(entry.encode() for entry in entries).hex() == case["data"]


def _run_meta(case: Case) -> None:
    segment, facts = index.decode_segment(bytes.fromhex(case["data"])), case["facts"]
    assert (segment.seq, segment.level, segment.turn, segment.doubling) == tuple(
        facts[name] for name in ("writes", "level", "turn", "doubling")
    )
    for column in ("states", "lengths", "marks"):
        assert [*getattr(segment, column)] == facts[column]
    for table in ("expires", "dying", "buckets", "heads", "delta"):
        assert getattr(segment, table) == dict(facts[table])
    assert segment.encode().hex() == case["data"]


def _run_part(case: Case) -> None:
    plain = aead.open_box(bytes.fromhex(case["key"]), bytes.fromhex(case["box"]), index_part_context(case))
    assert len(plain) == case["padded_size"]
    assert padding.unpad(plain).hex() == case["data"]


def run_key_link(case: Case) -> None:
    place = link_place(case["context_id"], case["slot"], case["generation"], case["purpose"])
    with keys.Key(kdf.derive(bytes.fromhex(case["newer"]), "link")) as key:
        opened = aead.open_box(key.view(), bytes.fromhex(case["link"]), place)
        assert opened.hex() == case["older"]
        assert aead.seal(key.view(), opened, place, salt=bytes.fromhex(case["salt"])).hex() == case["link"]


def run_succession(case: Case) -> None:
    steps, owner = bytes.fromhex(case["steps"]), bytes.fromhex(case["owner"])
    assert follow(steps, case["context_id"], owner, case["epoch"]).hex() == case["now"]


def run_integrity_head(case: Case) -> None:
    key = bytes.fromhex(case["key"])
    if "leaf" in case:
        assert heads.value_of(key, leaf_of_case(case)).to_bytes(32, "big").hex() == case["leaf"]
        return
    place = heads.head_place(case["context_id"], case["slot"], case["generation"])
    with keys.Key(kdf.derive(key, "integrity/head")) as own:
        plain = aead.open_box(own.view(), bytes.fromhex(case["head"]), place)
        head = heads.decode(plain)
        assert aead.seal(own.view(), heads.encode(head), place, salt=bytes.fromhex(case["salt"])).hex() == case["head"]
    assert head == heads.SlotSum(case["sequence"], case["entry"], case["count"], int(case["sum"], 16))


RUNNERS: Final[dict[str, Callable[[Case], None]]] = {
    "kdf": run_kdf,
    "box": run_box,
    "key-link": run_key_link,
    "succession": run_succession,
    "integrity-head": run_integrity_head,
    "seal": run_seal,
    "sign": run_sign,
    "token": run_token,
    "recovery-code": run_recovery_code,
    "keyring": run_keyring,
    "padding": run_padding,
    "seed-wrap": run_seed_wrap,
    "passphrase": run_passphrase,
    "blind-index": run_blind_index,
}


def all_cases() -> Iterator[object]:
    for name in FILES:
        for case in json.loads((FOLDER / f"{name}.json").read_text())["cases"]:
            yield pytest.param(name, case, id=f"{name}: {case['name']}")


@pytest.mark.requirement("KEY-03")
@pytest.mark.parametrize(("name", "case"), list(all_cases()))
def test_a_vector_holds(name: str, case: Case) -> None:
    if case["valid"]:
        RUNNERS[name](case)
        return

    with pytest.raises(ERRORS[case["error"]]) as caught:
        RUNNERS[name](case)

    assert type(caught.value) is ERRORS[case["error"]]


@pytest.mark.parametrize("name", sorted(FILES.keys() - RANDOMIZED))
def test_the_generator_writes_what_is_committed(name: str) -> None:
    assert (FOLDER / f"{name}.json").read_text() == rendered(name)
