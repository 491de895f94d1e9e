"""Write schemas/vectors/*.json anew: `python -m tests.vectors.generate` from the project's root, run by hand.

All randomness is a SHAKE-256 stream from a fixed label, so that the same code writes the same files; a test compares.
The one exception is seal.json: HPKE encapsulation draws from the library's own generator, so that file is kept once it
exists; delete it to have it made again.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from zkpcp.core import index
from zkpcp.core.leaves import Leaf
from zkpcp.crypto import aead, blind, kdf, keyring, keys, padding, passphrase, recovery, seal, sign, tokens
from zkpcp.crypto.profiles import CHEAPEST, Argon2Profile
from zkpcp.vault import heads, seeds
from zkpcp.vault.keyring import link_place
from zkpcp.vault.succession import Step

Value: TypeAlias = str | int | bool | Sequence["Value"] | dict[str, "Value"] | None
Case: TypeAlias = dict[str, Value]

FOLDER: Final = Path(__file__).parents[2] / "schemas" / "vectors"

CONTEXT_ID: Final = "ctx_vector"


class StreamEntropy:
    """Bytes from a SHAKE-256 stream, the same in every run."""

    def __init__(self, label: str) -> None:
        self._label = label.encode()
        self._used = 0

    def bytes(self, size: int) -> bytes:
        start, self._used = self._used, self._used + size
        return hashlib.shake_256(b"zkpcp vectors\x00" + self._label).digest(self._used)[start:]


def valid(name: str, **fields: Value) -> Case:
    return {"name": name, "valid": True, **fields}


def invalid(name: str, error: str, **fields: Value) -> Case:
    return {"name": name, "valid": False, "error": error, **fields}


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x01]) + data[at + 1 :] if at >= 0 else flipped(data, len(data) + at)


def kdf_cases() -> list[Case]:
    key = StreamEntropy("kdf").bytes(32)
    lists: list[tuple[str, str, list[bytes]]] = [
        ("no fields", "example", []),
        ("one empty field", "example", [b""]),
        ("two fields", "example", [b"ab", b"c"]),
        ("the same bytes, split elsewhere", "example", [b"a", b"bc"]),
        ("another label", "example/two", [b"ab", b"c"]),
    ]
    cases = [
        valid(
            name,
            key=key.hex(),
            label=label,
            fields=[f.hex() for f in fields],
            derived=kdf.derive(key, label, *fields).hex(),
        )
        for name, label, fields in lists
    ]
    slot = keys.slot_key(key, CONTEXT_ID, "memory/main", 3)
    cases.append(
        valid(
            "a slot key",
            key=key.hex(),
            label="slot",
            fields=[b.hex() for b in (CONTEXT_ID.encode(), b"memory/main", kdf.u64(3))],
            derived=slot.hex(),
        )
    )
    cases.extend(
        valid(
            f"the {name} sub key",
            key=slot.hex(),
            label=f"sub/{name}",
            fields=[],
            derived=keys.sub_key(slot, name).hex(),
        )
        for name in keys.SUB_KEYS
    )
    for holder in ("principal", "grant"):
        cases.append(
            valid(
                f"a {holder}'s KEM seed",
                key=key.hex(),
                label=f"{holder}/kem",
                fields=[],
                derived=keys.kem_seed(key, holder).hex(),
            )
        )
        cases.append(
            valid(
                f"a {holder}'s signing seed",
                key=key.hex(),
                label=f"{holder}/sign",
                fields=[],
                derived=keys.sign_seed(key, holder).hex(),
            )
        )
    cases.append(
        valid("an anchor key", key=key.hex(), label="grant/anchor", fields=[], derived=keys.anchor_key(key).hex())
    )
    tag = blind.path_tag(key, CONTEXT_ID, 3, "style/voice.md")
    cases.append(
        valid(
            "a path tag, the first 16 bytes",
            key=key.hex(),
            label="path-tag",
            fields=[b.hex() for b in (CONTEXT_ID.encode(), kdf.u64(3), b"style/voice.md")],
            derived=tag.hex(),
        )
    )
    return cases


def box_cases() -> list[Case]:
    entropy = StreamEntropy("box")
    key = entropy.bytes(32)
    context = aead.context_of("example", CONTEXT_ID.encode(), kdf.u64(1))
    place: Case = {"key": key.hex(), "context": context.hex()}
    cases: list[Case] = []
    for name, plaintext in (("empty", b""), ("short", b"a plaintext"), ("with every byte value", bytes(range(256)))):
        salt = entropy.bytes(aead.SALT_BYTES)
        box = aead.seal(key, plaintext, context, salt=salt)
        cases.append(valid(name, **place, salt=salt.hex(), plaintext=plaintext.hex(), box=box.hex()))
    salt = entropy.bytes(aead.SALT_BYTES)
    for name, size in (
        ("one byte below a full chunk", 16383),
        ("exactly one chunk", 16384),
        ("two chunks and a part", 32769),
    ):
        box = aead.seal(key, bytes(size), context, salt=salt)
        digest = hashlib.sha256(box).hexdigest()
        cases.append(valid(name, **place, salt=salt.hex(), zeros=size, box_size=len(box), box_sha256=digest))
    box = aead.seal(key, b"a plaintext", context, salt=salt)
    other_key, other_context = flipped(key, 0), aead.context_of("example", CONTEXT_ID.encode(), kdf.u64(2))
    cases += [
        invalid("no bytes at all", "corrupt", **place, box=""),
        invalid("one byte short of the least size", "corrupt", **place, box=box[: aead.BOX_OVERHEAD - 1].hex()),
        invalid("unknown version", "corrupt", **place, box=(b"\x02" + box[1:]).hex()),
        invalid("another key", "tampered", key=other_key.hex(), context=context.hex(), box=box.hex()),
        invalid("another place", "tampered", key=key.hex(), context=other_context.hex(), box=box.hex()),
        invalid("salt changed", "tampered", **place, box=flipped(box, 1).hex()),
        invalid("commitment changed", "tampered", **place, box=flipped(box, 25).hex()),
        invalid("ciphertext changed", "tampered", **place, box=flipped(box, 57).hex()),
        invalid("tag changed", "tampered", **place, box=flipped(box, -1).hex()),
        invalid("last byte cut off", "tampered", **place, box=box[:-1].hex()),
        invalid("a byte appended", "tampered", **place, box=(box + b"\x00").hex()),
    ]
    long = aead.seal(key, bytes(16384), context, salt=salt)
    cases.append(invalid("the last chunk cut off", "corrupt", **place, box=long[:-16].hex()))
    return cases


def seal_cases() -> list[Case]:
    entropy = StreamEntropy("seal")
    seed = entropy.bytes(32)
    private = seal.KemPrivateKey(seed)
    info = kdf.lp(b"example", CONTEXT_ID.encode())
    sealed = seal.seal_to(private.public_bytes(), b"a plaintext", info)
    place: Case = {"seed": seed.hex(), "info": info.hex()}
    return [
        valid(
            "a plaintext",
            **place,
            public=private.public_bytes().hex(),
            plaintext=b"a plaintext".hex(),
            sealed=sealed.hex(),
        ),
        invalid("shorter than its fixed parts", "corrupt", **place, sealed=sealed[: seal.SEAL_OVERHEAD - 1].hex()),
        invalid("unknown algorithm", "corrupt", **place, sealed=(b"\x02" + sealed[1:]).hex()),
        invalid("another seed", "tampered", seed=flipped(seed, 0).hex(), info=info.hex(), sealed=sealed.hex()),
        invalid("another place", "tampered", seed=seed.hex(), info=flipped(info, -1).hex(), sealed=sealed.hex()),
        invalid("ML-KEM ciphertext changed", "tampered", **place, sealed=flipped(sealed, 1).hex()),
        invalid("X25519 share changed", "tampered", **place, sealed=flipped(sealed, 1 + 1088).hex()),
        invalid("ciphertext changed", "tampered", **place, sealed=flipped(sealed, 1 + 1120).hex()),
    ]


def sign_cases() -> list[Case]:
    signer = sign.SigningKey.from_seed(StreamEntropy("sign").bytes(32))
    public = signer.public_bytes()
    signature = signer.sign("example", b"ab", b"c")
    fields: list[Value] = [b"ab".hex(), b"c".hex()]
    split: list[Value] = [b"a".hex(), b"bc".hex()]
    common: Case = {"public": public.hex(), "label": "example", "fields": fields}
    stranger = sign.SigningKey.from_seed(bytes(32)).public_bytes()
    return [
        valid("two fields", seed=StreamEntropy("sign").bytes(32).hex(), **common, signature=signature.hex()),
        invalid("signature changed", "tampered", **common, signature=flipped(signature, 0).hex()),
        invalid("signature cut off", "tampered", **common, signature=signature[:-1].hex()),
        invalid(
            "another label", "tampered", public=public.hex(), label="other", fields=fields, signature=signature.hex()
        ),
        invalid(
            "fields split elsewhere",
            "tampered",
            public=public.hex(),
            label="example",
            fields=split,
            signature=signature.hex(),
        ),
        invalid(
            "another signer",
            "tampered",
            public=stranger.hex(),
            label="example",
            fields=fields,
            signature=signature.hex(),
        ),
        invalid(
            "a key of the wrong size",
            "corrupt",
            public=public[:-1].hex(),
            label="example",
            fields=fields,
            signature=signature.hex(),
        ),
    ]


def token_cases() -> list[Case]:
    entropy = StreamEntropy("token")
    cases: list[Case] = []
    kinds: tuple[tokens.TokenKind, ...] = ("ac", "at", "rt", "st")
    for kind in kinds:
        secret = entropy.bytes(tokens.SECRET_BYTES)
        token = tokens.TokenSecret(kind, bytearray(secret))
        cases.append(
            valid(
                f"a token of kind {kind}",
                kind=kind,
                secret=secret.hex(),
                text=token.text(),
                lookup_id=token.lookup_id().hex(),
                context_id=CONTEXT_ID,
                wrap_key=token.wrap_key(CONTEXT_ID).hex(),
            )
        )
    text = tokens.TokenSecret("at", bytearray(32)).text()
    for name, wrong in (
        ("empty", ""),
        ("prefix alone", "pcp_at_"),
        ("another kind", text.replace("_at_", "_rt_")),
        ("prefix in capitals", text.replace("pcp", "PCP")),
        ("a character short", text[:-1]),
        ("a character more", text + "A"),
        ("spare bits set", text[:-1] + "B"),
        ("standard base64 alphabet", text[:-2] + "+A"),
        ("padding", text + "="),
        ("a space in front", " " + text),
        ("a line break behind", text + "\n"),
        ("not ASCII", text[:-1] + "\u0410"),
    ):
        cases.append(invalid(name, "invalid_token", kind="at", text=wrong))
    return cases


def recovery_code_cases() -> list[Case]:
    secret = StreamEntropy("recovery").bytes(recovery.SECRET_BYTES)
    code = recovery.RecoveryCode(bytearray(secret))
    text = code.printable()
    key = recovery.wrap_key(code, CONTEXT_ID, "usr_vector").hex()
    zeros = recovery.RecoveryCode(bytearray(recovery.SECRET_BYTES)).printable()
    typed = {
        "as printed": text,
        "lower case": text.lower(),
        "spaces for hyphens": text.replace("-", " "),
        "nothing between": text.replace("-", ""),
        "line breaks around and inside": f"\n {text[:20]}\n{text[20:]} ",
    }
    last = "0" if text[-1] != "0" else "1"
    cases = [
        valid(
            name,
            secret=secret.hex(),
            text=form,
            printed=text,
            context_id=CONTEXT_ID,
            principal="usr_vector",
            wrap_key=key,
        )
        for name, form in typed.items()
    ]
    cases.append(valid("letters O for zeros", secret=bytes(20).hex(), text=zeros.replace("0", "O"), printed=zeros))
    cases += [
        invalid("empty", "invalid_input", text=""),
        invalid("a character short", "invalid_input", text=text[:-1]),
        invalid("a character more", "invalid_input", text=text + "0"),
        invalid("last character changed", "invalid_input", text=text[:-1] + last),
        invalid("first two groups exchanged", "invalid_input", text=text[5:10] + text[:5] + text[10:]),
        invalid("the letter U, which is in no code", "invalid_input", text="U" + text[1:]),
        invalid("a digit that is not ASCII", "invalid_input", text="\u0661" + text[1:]),
    ]
    return cases


def keyring_cases() -> list[Case]:
    entropy = StreamEntropy("keyring")
    first, second, root = (bytearray(entropy.bytes(32)) for _ in range(3))
    inbox = seal.KemPrivateKey(entropy.bytes(32)).public_bytes()
    empty = keyring.KeyringContents({}, {}, None)
    one = keyring.KeyringContents({("memory/main", 1, "rec"): first}, {}, None)
    two = keyring.KeyringContents({("memory/main", 1, "rec"): first, ("memory/main", 1, "head"): second}, {}, None)
    inboxes = keyring.KeyringContents({}, {("memory.sensitive/main", 2): inbox}, None)
    controller = keyring.KeyringContents({}, {}, keyring.Root(7, root))
    cases = [
        valid(name, contents=described(contents), encoded=keyring.encode(contents).hex())
        for name, contents in (
            ("empty", empty),
            ("one key", one),
            ("two keys", two),
            ("an inbox", inboxes),
            ("a root", controller),
        )
    ]
    pair = bytes(keyring.encode(two))
    size = (len(pair) - 6) // 2  # two entries of equal size between head and counts, head being the shorter name by id
    entry_a, entry_b = pair[4 : 4 + size], pair[4 + size : 4 + 2 * size]
    head, tail = pair[:4], pair[4 + 2 * size :]
    single = bytes(keyring.encode(one))
    wrong = {
        "no bytes at all": b"",
        "unknown version": b"\x02" + single[1:],
        "root flag neither 0 nor 1": single[:1] + b"\x02" + single[2:],
        "ends too early": single[:-1],
        "a byte after the end": single + b"\x00",
        "entries out of order": head + entry_b + entry_a + tail,
        "one address twice": head + entry_a + entry_a + tail,
        "more entries announced than there are": single[:2] + b"\xff\xff" + single[4:],
        "unknown purpose": single.replace(b"\x01" + bytes(first), b"\x08" + bytes(first)),
        "purpose zero": single.replace(b"\x01" + bytes(first), b"\x00" + bytes(first)),
        "a key of zeros": single.replace(bytes(first), bytes(32)),
        "a slot without a name": single.replace(b"\x0bmemory/main", b"\x00"),
        "a slot name that is not UTF-8": single.replace(b"memory/main", b"memory/\xffain"),
    }
    return cases + [invalid(name, "corrupt", encoded=encoded.hex()) for name, encoded in wrong.items()]


def described(contents: keyring.KeyringContents) -> Case:
    return {
        "root": None if contents.root is None else {"epoch": contents.root.epoch, "key": contents.root.key.hex()},
        "keys": [
            {"slot": slot, "generation": generation, "purpose": name, "key": key.hex()}
            for (slot, generation, name), key in contents.keys.items()
        ],
        "inboxes": [
            {"slot": slot, "generation": generation, "public": public.hex()}
            for (slot, generation), public in contents.inboxes.items()
        ],
    }


def padding_cases() -> list[Case]:
    cases: list[Case] = []
    for size, floor, powers in (
        (0, 256, False),
        (252, 256, False),
        (253, 256, False),
        (5000, 256, False),
        (5000, 256, True),
        (1, 8, False),
    ):
        padded = padding.padded_size(size, floor=floor, powers_of_two=powers)
        cases.append(valid(f"{size} bytes", size=size, floor=floor, powers_of_two=powers, padded_size=padded))
    cases.append(
        valid(
            "three bytes, as they lie",
            data=b"abc".hex(),
            floor=8,
            powers_of_two=False,
            padded=padding.pad(b"abc", floor=8).hex(),
        )
    )
    for name, wrong in (
        ("no bytes at all", b""),
        ("shorter than its length field", b"\x00\x00\x00"),
        ("length beyond the end", b"\x00\x00\x00\x05abc\x00"),
        ("length far beyond the end", b"\xff\xff\xff\xffabc\x00"),
        ("padding that is not zero", b"\x00\x00\x00\x03abc\x01"),
    ):
        cases.append(invalid(name, "corrupt", padded=wrong.hex()))
    return cases


def seed_wrap_cases() -> list[Case]:
    entropy = StreamEntropy("seed wrap")
    seed, owner, log = entropy.bytes(32), entropy.bytes(32), entropy.bytes(32)
    kinds: tuple[tuple[tokens.TokenKind, seeds.WrapKind], ...] = (
        ("ac", "code"),
        ("at", "access"),
        ("rt", "refresh"),
        ("st", "session"),
    )
    held: Case = {"seed": seed.hex(), "owner": owner.hex(), "epoch": 3, "roster_version": 9, "log": log.hex()}
    cases: list[Case] = []
    for kind, wrap_kind in kinds:
        token = tokens.new_token(kind, entropy)
        opened = seeds.OpenedSeed(keys.Key(bytearray(seed)), seeds.Memory(owner, 3, 9, log))
        asked = ("cli_vector", "https://app.example/callback", "challenge-of-the-client")
        bound = asked if kind == "ac" else ()
        wrapped = seeds.wrap_for_token(
            token, wrap_kind, CONTEXT_ID, "gr_vector", opened, entropy, bound=tuple(text.encode() for text in bound)
        )
        place: Case = {
            "kind": wrap_kind,
            "token": token.text(),
            "context_id": CONTEXT_ID,
            "holder": "gr_vector",
            "bound": list(bound),
        }
        cases.append(valid(f"behind a {wrap_kind}", **place, **held, wrapped=wrapped.hex()))
        if kind == "ac":
            cases += [
                invalid(
                    f"another {name}",
                    "tampered",
                    **{**place, "bound": [*asked[:index], "other", *asked[index + 1 :]]},
                    wrapped=wrapped.hex(),
                )
                for index, name in enumerate(("client", "redirect URI", "code challenge"))
            ]
        if kind == "at":
            stranger = tokens.new_token(kind, entropy).text()
            cases += [
                invalid("another token", "tampered", **{**place, "token": stranger}, wrapped=wrapped.hex()),
                invalid("another kind of wrap", "tampered", **{**place, "kind": "refresh"}, wrapped=wrapped.hex()),
                invalid("another context", "tampered", **{**place, "context_id": "ctx_other"}, wrapped=wrapped.hex()),
                invalid("another holder", "tampered", **{**place, "holder": "gr_other"}, wrapped=wrapped.hex()),
                invalid("a bit changed", "tampered", **place, wrapped=flipped(wrapped, 60).hex()),
                invalid("cut off", "corrupt", **place, wrapped=wrapped[:40].hex()),
            ]
    return cases


def passphrase_cases() -> list[Case]:
    salt = StreamEntropy("passphrase").bytes(passphrase.SALT_BYTES)
    small = Argon2Profile("small", memory_kib=64, time_cost=2, parallelism=1)
    settings: Case = {"memory_kib": 64, "time_cost": 2, "parallelism": 1, "salt": salt.hex()}
    cases: list[Case] = []
    for name, text in (
        ("plain words", "seven quiet boats at noon"),
        ("a composed letter", "caf\u00e9 by the harbor"),
        ("the same, decomposed", "cafe\u0301 by the harbor"),
        ("an ideographic space becomes a space", "seven\u3000quiet boats"),
    ):
        written = passphrase.passphrase_bytes(text)
        key = passphrase.stretch(written, salt, small, floor=CHEAPEST)
        cases.append(valid(name, text=text, written=written.hex(), **settings, key=key.hex()))
    cases += [
        invalid("empty", "invalid_input", text=""),
        invalid("a control character", "invalid_input", text="seven quiet\tboats"),
        invalid("longer than 1024 characters", "invalid_input", text="ab" * 513),
        invalid("memory below the floor", "tampered", text="seven quiet boats", **{**settings, "memory_kib": 32}),
        invalid("passes below the floor", "tampered", text="seven quiet boats", **{**settings, "time_cost": 1}),
        invalid("no lanes", "tampered", text="seven quiet boats", **{**settings, "parallelism": 0}),
        invalid(
            "memory to exhaust a server", "tampered", text="seven quiet boats", **{**settings, "memory_kib": 2**31}
        ),
        invalid(
            "a salt of the wrong size", "corrupt", text="seven quiet boats", **{**settings, "salt": salt[:-1].hex()}
        ),
    ]
    return cases


def blind_index_cases() -> list[Case]:
    return [*_bucket_number_cases(), *_bucket_cases(), *_delta_cases(), *_meta_cases(), *_part_cases()]


def _bucket_number_cases() -> list[Case]:
    """Cases of ``hash``: which bucket a word is in, also while buckets are being doubled."""
    sub_key = StreamEntropy("index").bytes(32)
    fields = (CONTEXT_ID.encode(), b"memory/main", kdf.u64(1), kdf.u64(0))
    key = kdf.derive(sub_key, "index-bucket", *fields)
    cases: list[Case] = []
    for name, text, level, turn, doubling in (
        ("one bucket", "boiler", 0, 0, False),
        ("eight buckets", "boiler", 3, 5, False),
        ("not split yet in this round", "boiler", 3, 0, True),
        ("split already in this round", "boiler", 3, 8, True),
        ("a pair of characters", "蜂蜜", 6, 0, False),
    ):
        hash_ = int.from_bytes(hmac.digest(key, text.encode(), "sha256")[:2], "big")
        segment = index.Segment(level=level, turn=turn, doubling=doubling)
        cases.append(
            valid(
                f"{name}: the bucket of a word",
                of="hash",
                sub_key=sub_key.hex(),
                context_id=CONTEXT_ID,
                slot="memory/main",
                generation=1,
                segment=0,
                text=text,
                level=level,
                turn=turn,
                doubling=doubling,
                hash=hash_,
                bucket=segment.bucket_of(hash_),
            )
        )
    return cases


def _bucket_cases() -> list[Case]:
    """Cases of ``bucket``: both parts of a bucket, and ``postings`` of each key as page number and count byte."""
    lists: dict[str, list[tuple[bytes, dict[int, int]]]] = {
        "an empty bucket": [],
        "one word on one page": [(b"boiler\x01", {7: 33})],
        "a word and its stem that counts otherwise": [(b"boats\x01", {3: 34}), (b"boat\x02", {3: 34, 5: 33})],
        "pages of two blocks": [(b"the\x01", {0: 33, 255: 40, 256: 33, 4095: 255})],
        "a stem that is no word's": [(b"the\x02", {1: 32})],
        "a whole block": [(b"and\x01", dict.fromkeys(range(256), 33))],
    }
    cases: list[Case] = []
    for name, keyed in lists.items():
        bucket = index.Bucket()
        for key, counts in keyed:
            bucket.change({key: list(counts.items())})
        words, postings = bucket.encode()
        shown: list[Value] = [
            {"key": key.hex(), "postings": [[number, count] for number, count in counts.items()]}
            for key, counts in keyed
        ]
        cases.append(valid(name, of="bucket", words=words.hex(), postings=postings.hex(), lists=shown))
    words, postings = b"boiler\x01", bytes.fromhex("00000004") + bytes([0, 0, 7, 33])
    for name, one, two in (
        ("a list shorter than its size", words, postings[:-1]),
        ("bytes behind the last list", words, postings + b"\x00"),
        ("more keys than sizes", words + b"\nbath\x01", postings[:4]),
        ("a size cut off", words, postings[:3]),
        ("sizes without keys", b"", postings),
        ("a list that ends inside a block", words, bytes.fromhex("00000003") + bytes([0, 0, 7])),
    ):
        cases.append(invalid(name, "corrupt", of="bucket", words=one.hex(), postings=two.hex()))
    return cases


def _delta_cases() -> list[Case]:
    """Cases of ``delta``: the entries of one part; a line is a key and its count byte, 1 to drop the posting."""
    first = index.Entry(12, 7, array("H", [0x0102, 0xFF00]), b"\nboiler\x01\x21\nbath\x01\x22")
    dropping = index.Entry(13, 7, array("H", [0x0102]), b"\nboiler\x01\x01")
    none = index.Entry(14, 0, array("H"), b"")
    cases: list[Case] = []
    for name, entries in (
        ("no entry", []),
        ("two words of one page", [first]),
        ("a posting that is dropped again", [first, dropping]),
        ("an entry without lines", [none, dropping]),
    ):
        shown: list[Value] = [
            {"write": entry.seq, "page": entry.number, "hashes": list(entry.hashes), "lines": entry.lines.hex()}
            for entry in entries
        ]
        data = b"".join(entry.encode() for entry in entries)
        cases.append(valid(f"delta: {name}", of="delta", data=data.hex(), entries=shown))
    data = first.encode()
    for name, cut in (
        ("header cut off", data[:17]),
        ("hashes cut off", data[:19]),
        ("lines cut off", data[:-1]),
        ("a byte behind the last entry", data + b"\x00"),
    ):
        cases.append(invalid(f"delta: {name}", "corrupt", of="delta", data=cut.hex()))
    return cases


def _meta_cases() -> list[Case]:
    """Cases of ``meta``: what holds for a segment."""
    grown = index.Segment(
        seq=300,
        level=1,
        turn=1,
        doubling=True,
        lengths=array("I", [120, 0, 70_000]),
        marks=array("I", [1_065_151_889, 0, 4_294_967_295]),
        states=bytearray([1, 0, 2]),
        expires={2: 1_900_000_000_000},
        dying={1: 299},
        buckets={3: 298, 4: 300, 5: 300},
        heads={0: 300},
        delta={74: 299, 75: 300},
    )
    cases: list[Case] = []
    for name, segment in (("a new segment", index.Segment()), ("a segment between two rounds", grown)):
        facts: Case = {
            "writes": segment.seq,
            "level": segment.level,
            "turn": segment.turn,
            "doubling": segment.doubling,
            "states": list(segment.states),
            "lengths": list(segment.lengths),
            "marks": list(segment.marks),
        }
        for table in ("expires", "dying", "buckets", "heads", "delta"):
            facts[table] = [[key, value] for key, value in sorted(getattr(segment, table).items())]
        cases.append(valid(f"meta: {name}", of="meta", data=segment.encode().hex(), facts=facts))
    data = grown.encode()
    for name, wrong in (
        ("empty", b""),
        ("unknown version", data.replace(b"[1,", b"[2,", 1)),
        ("a state without a length", data + b"\x01"),
        ("not an array", b"{}\n"),
        ("a table missing", b"[1,0,0,0,0,[],[],[],[]]\n"),
        ("a table that has no pairs", b"[1,0,0,0,0,[1],[],[],[],[]]\n"),
        ("not UTF-8", b"\xff\n"),
    ):
        cases.append(invalid(f"meta: {name}", "corrupt", of="meta", data=wrong.hex()))
    return cases


def _part_cases() -> list[Case]:
    """Cases of ``part``: a sealed part, which opens at its place and for its stamp alone."""
    entropy = StreamEntropy("index part")
    key, data = entropy.bytes(32), b"boiler\x01"
    place: Case = {
        "key": key.hex(),
        "context_id": CONTEXT_ID,
        "slot": "memory/main",
        "generation": 1,
        "part": "0/words/1",
        "stamp": 9,
    }
    context = index_part_context(place)
    plain = padding.pad(data, floor=index.ladder(len(data) + 4), powers_of_two=False)
    box = aead.seal(key, plain, context, salt=entropy.bytes(aead.SALT_BYTES)).hex()
    cases = [valid("a part", of="part", **place, padded_size=len(plain), data=data.hex(), box=box)]
    for name, changed in (
        ("another write's stamp", {"stamp": 8}),
        ("another bucket's name", {"part": "0/words/2"}),
        ("another kind's name", {"part": "0/postings/1"}),
        ("another segment's name", {"part": "1/words/1"}),
        ("another slot", {"slot": "memory/main/sensitive"}),
        ("another generation", {"generation": 2}),
        ("another context", {"context_id": "ctx_other"}),
    ):
        fields: Case = {**place, **changed}
        cases.append(invalid(f"part: {name}", "tampered", of="part", **fields, box=box))
    return cases


def index_part_context(case: Case) -> bytes:
    """What a part of the search index is bound to."""
    return aead.context_of(
        "index/part",
        str(case["context_id"]).encode(),
        str(case["slot"]).encode(),
        kdf.u64(int(str(case["generation"]))),
        str(case["part"]).encode(),
        kdf.u64(int(str(case["stamp"]))),
    )


def key_link_cases() -> list[Case]:
    """A link opens under the key of the next generation, for its own slot, generation and purpose."""
    entropy = StreamEntropy("key-link")
    older, newer, salt = entropy.bytes(32), entropy.bytes(32), entropy.bytes(aead.SALT_BYTES)
    place: Case = {"context_id": CONTEXT_ID, "slot": "memory/main", "generation": 3, "purpose": "rec"}
    with keys.Key(kdf.derive(newer, "link")) as key:
        link = aead.seal(key.view(), older, link_place(CONTEXT_ID, "memory/main", 3, "rec"), salt=salt)
    opened: Case = {"newer": newer.hex(), "link": link.hex()}
    return [
        valid("a link", **place, **opened, salt=salt.hex(), older=older.hex()),
        invalid("under another slot", "tampered", **{**place, "slot": "memory.sensitive/main"}, **opened),
        invalid("of another generation", "tampered", **{**place, "generation": 2}, **opened),
        invalid("of another purpose", "tampered", **{**place, "purpose": "head"}, **opened),
        invalid("of another context", "tampered", **{**place, "context_id": "ctx_other"}, **opened),
        invalid("with the older key", "tampered", **place, newer=older.hex(), link=link.hex()),
        invalid("one byte changed", "tampered", **place, newer=newer.hex(), link=flipped(link, -1).hex()),
    ]


def succession_cases() -> list[Case]:
    """Two steps, from one owner to a second and on to a third; what is remembered decides which are followed."""
    entropy = StreamEntropy("succession")
    owners = [sign.SigningKey.from_seed(entropy.bytes(32)) for _ in range(3)]
    steps = []
    for epoch, (earlier, later) in ((2, owners[:2]), (5, owners[1:])):
        fields = (CONTEXT_ID.encode(), earlier.public_bytes(), later.public_bytes(), kdf.u64(epoch))
        signatures = earlier.sign("succession/offered", *fields), later.sign("succession/taken", *fields)
        steps.append(Step(earlier.public_bytes(), later.public_bytes(), epoch, *signatures).encode())
    whole = b"".join(steps)
    keys_of = [owner.public_bytes().hex() for owner in owners]

    def case(name: str, steps: bytes, owner: str, epoch: int, now: str) -> Case:
        return valid(name, context_id=CONTEXT_ID, steps=steps.hex(), owner=owner, epoch=epoch, now=now)

    def refused(name: str, steps: bytes, context_id: str = CONTEXT_ID) -> Case:
        return invalid(name, "tampered", context_id=context_id, steps=steps.hex(), owner=keys_of[0], epoch=1)

    return [
        case("no step", b"", keys_of[0], 1, keys_of[0]),
        case("both steps", whole, keys_of[0], 1, keys_of[2]),
        case("remembered in the last epoch of the first owner", whole, keys_of[0], 2, keys_of[2]),
        case("remembered after the step", whole, keys_of[0], 3, keys_of[0]),
        case("from the second owner on", whole, keys_of[1], 3, keys_of[2]),
        case("the second step alone", steps[1], keys_of[0], 1, keys_of[0]),
        refused("a step of another context", whole, "ctx_other"),
        refused("the signature of the earlier owner changed", flipped(steps[0], 72)),
        refused("the signature of the later owner changed", flipped(steps[0], -1)),
        refused("another epoch", flipped(steps[0], 71)),
        refused("another later owner", steps[0][:32] + steps[1][32:64] + steps[0][64:]),
        refused("a byte less", whole[:-1]),
    ]


def integrity_head_cases() -> list[Case]:
    """Leaves of rows of each kind, their sum, and the head that seals it in its place."""
    entropy = StreamEntropy("integrity-head")
    key, salt = entropy.bytes(32), entropy.bytes(aead.SALT_BYTES)
    rows: list[Case] = [
        {"kind": "pages", "id": "pg_1", "version": 3, "expires_ms": None, "until_ms": None},
        {"kind": "pages", "id": "pg_2", "version": 1, "expires_ms": 1_800_000_000_000, "until_ms": None},
        {"kind": "page_versions", "id": "pg_1", "version": 2, "expires_ms": None, "until_ms": 1_700_000_000_000},
    ]
    head = heads.SlotSum(sequence=4, entry=17)
    cases: list[Case] = []
    for row in rows:
        row["digest"] = entropy.bytes(32).hex()
        value = heads.value_of(key, leaf_of_case(row))
        head = head.with_leaf(value)
        cases.append(valid(f"a leaf of {row['kind']}", key=key.hex(), **row, leaf=value.to_bytes(32, "big").hex()))
    place: Case = {"context_id": CONTEXT_ID, "slot": "memory/main", "generation": 3}
    with keys.Key(kdf.derive(key, "integrity/head")) as own:
        box = aead.seal(own.view(), heads.encode(head), heads.head_place(CONTEXT_ID, "memory/main", 3), salt=salt)
        short = aead.seal(own.view(), bytes(55), heads.head_place(CONTEXT_ID, "memory/main", 3), salt=salt)
    sums: Case = {"sequence": 4, "entry": 17, "count": 3, "sum": head.total.to_bytes(32, "big").hex()}
    opened: Case = {"key": key.hex(), "head": box.hex()}
    return [
        *cases,
        valid("a head of these three", **place, **opened, salt=salt.hex(), **sums),
        invalid("a head of another slot", "tampered", **{**place, "slot": "memory.sensitive/main"}, **opened),
        invalid("a head of another generation", "tampered", **{**place, "generation": 2}, **opened),
        invalid("a head of another context", "tampered", **{**place, "context_id": "ctx_other"}, **opened),
        invalid("one byte changed", "tampered", **place, key=key.hex(), head=flipped(box, -1).hex()),
        invalid("a head of another length", "corrupt", **place, key=key.hex(), head=short.hex()),
    ]


def leaf_of_case(case: Case) -> Leaf:
    """The leaf that a case is about; its slot and generation are in the key already."""
    found: dict[str, Any] = {name: case[name] for name in ("kind", "version", "expires_ms", "until_ms")}
    return Leaf("", 0, object_id=str(case["id"]), digest=bytes.fromhex(str(case["digest"])), **found)


FILES: Final[dict[str, tuple[str, Callable[[], list[Case]]]]] = {
    "kdf": ("README.md", kdf_cases),
    "box": ("box.md", box_cases),
    "seal": ("keyring.md", seal_cases),
    "sign": ("README.md", sign_cases),
    "token": ("token.md", token_cases),
    "recovery-code": ("recovery-code.md", recovery_code_cases),
    "keyring": ("keyring.md", keyring_cases),
    "padding": ("README.md", padding_cases),
    "seed-wrap": ("seed-wrap.md", seed_wrap_cases),
    "passphrase": ("seed-wrap.md", passphrase_cases),
    "key-link": ("key-link.md", key_link_cases),
    "succession": ("succession.md", succession_cases),
    "integrity-head": ("integrity-head.md", integrity_head_cases),
    "blind-index": ("blind-index.md", blind_index_cases),
}
RANDOMIZED: Final = frozenset({"seal"})


def rendered(name: str) -> str:
    """Return the text of one vector file."""
    page, cases = FILES[name]
    return json.dumps({"format": f"../formats/{page}", "cases": cases()}, indent=1, ensure_ascii=True) + "\n"


def main() -> None:
    for name in FILES:
        path = FOLDER / f"{name}.json"
        if name not in RANDOMIZED or not path.exists():
            path.write_text(rendered(name))


if __name__ == "__main__":
    main()
