"""Laws of the vault: a record opens in its own place and nowhere else, and a slice holds what its scopes open."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Final, Literal

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from zkpcp.core import pages as page_format
from zkpcp.core import roster as rosters
from zkpcp.core.instants import to_rfc3339
from zkpcp.core.pages import Author, Page
from zkpcp.core.paths import SEGMENT_PATTERN, parse_path
from zkpcp.core.schemas import JsonObject, JsonValue
from zkpcp.core.scopes import Offer, effective, known_scopes
from zkpcp.core.slots import is_sensitive, slice_for
from zkpcp.core.stored import GrantRow, HeadRow, PageRow, TermsRow
from zkpcp.crypto.keyring import KeyringContents
from zkpcp.errors import CorruptError, InvalidInputError, TamperedError
from zkpcp.testing import CountingEntropy
from zkpcp.vault import cursors, holders, records
from zkpcp.vault.keyring import MissingKeyError, OpenKeyring

NOW_MS: Final = 1_800_000_000_000
CONTEXT: Final = "ctx_here"
OWNER: Final = "human:owner"
ENTROPY: Final = CountingEntropy("vault laws")
FOUNDING: Final = holders.found(CONTEXT, OWNER, ENTROPY)
SCOPES: Final = tuple(known_scopes(Offer("personal")))
_ids: Final = count(1)

bodies = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=400).filter(
    lambda body: not body.lstrip("\ufeff").startswith("---")
)
paths = st.lists(st.from_regex(SEGMENT_PATTERN, fullmatch=True), min_size=1, max_size=3).map("/".join)
expiries = st.none() | st.integers(NOW_MS + 1, NOW_MS * 2)
scope_sets = st.sets(st.sampled_from(SCOPES))
json_values: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8"), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@contextmanager
def owner_keys() -> Iterator[OpenKeyring]:
    with holders.open_principal(OWNER, FOUNDING.opened, FOUNDING.roster, FOUNDING.keyring) as keys:
        yield keys


@contextmanager
def grant_keys(scopes: set[str]) -> Iterator[OpenKeyring]:
    wanted = GrantRow(
        CONTEXT, f"gr_{next(_ids)}", OWNER, None, "cli", "Quill", tuple(sorted(scopes)), "active", NOW_MS, NOW_MS,
        refreshable=False, kem_public=b"", sig_public=b"", signature=b"", anchor=b"",
    )  # fmt: skip
    with owner_keys() as owner:
        made = holders.make_grant(owner, grant=wanted, offer=Offer("personal"), entropy=ENTROPY)
    with holders.open_grant(made.row, made.opened, FOUNDING.roster, made.keyring) as keys:
        yield keys


def page_of(path: str, body: str, *, sensitive: bool, expires_ms: int | None = None) -> Page:
    keys: dict[str, object] = {"sensitivity": "sensitive" if sensitive else "normal"}
    if expires_ms is not None:
        keys["expires"] = to_rfc3339(expires_ms)
    draft = page_format.draft(path, body, keys)
    return page_format.create(draft, page_id=f"pg_{next(_ids)}", now_ms=NOW_MS, author=Author(OWNER, "cli"))


def head_row(row: PageRow) -> HeadRow:
    place = (row.page_id, row.slot, row.generation, row.version, row.review_state, row.updated_ms, row.expires_ms)
    return HeadRow(*place, row.head)


def terms_row(row: PageRow) -> TermsRow:
    place = (row.page_id, row.slot, row.generation, row.version, row.review_state, row.updated_ms, row.expires_ms)
    return TermsRow(*place, row.terms)


@given(paths, bodies, st.booleans(), expiries, st.integers(1, 2**40), st.binary(max_size=300))
@settings(max_examples=40)
@pytest.mark.requirement("KEY-05")
def test_what_is_sealed_for_a_place_opens_there(
    path: str, body: str, sensitive: bool, expires_ms: int | None, version: int, terms: bytes
) -> None:
    page = page_of(path, body, sensitive=sensitive, expires_ms=expires_ms)

    with owner_keys() as keys:
        row = records.seal_page(keys, page, version, terms, ENTROPY)
        opened = records.open_page(keys, row)
        head = records.open_head(keys, head_row(row))
        with records.open_terms(keys, terms_row(row)) as blob:
            assert blob == terms

    assert page_format.serialize(opened) == page_format.serialize(page)
    assert (opened.path, head) == (page.path, page_format.head_of(page))
    assert is_sensitive(row.slot) == sensitive


MUTATIONS: Final = {
    "slot": st.sampled_from(["memory/main", "memory.sensitive/main", "memory/other", "memory", "paths", ""]),
    "generation": st.integers(0, 2**63),
    "page_id": st.text(st.characters(codec="ascii"), max_size=12),
    "version": st.integers(0, 2**63),
    "review_state": st.sampled_from(["approved", "proposed", "rejected", ""]),
    "updated_ms": st.integers(0, 2**62),
    "expires_ms": st.none() | st.integers(0, 2**62),
}


@given(st.data(), bodies, st.booleans(), expiries, st.sampled_from(sorted(MUTATIONS)))
@settings(max_examples=120)
@pytest.mark.requirement("KEY-05")
def test_a_record_with_one_member_of_its_place_changed_does_not_open(
    data: st.DataObject, body: str, sensitive: bool, expires_ms: int | None, member: str
) -> None:
    page = page_of("notes/a", body, sensitive=sensitive, expires_ms=expires_ms)
    with owner_keys() as keys:
        row = records.seal_page(keys, page, 3, b"terms", ENTROPY)
        value = data.draw(MUTATIONS[member])
        assume(value != getattr(row, member))
        moved = replace(row, **{member: value})  # type: ignore[arg-type]  # drawn for that member

        with pytest.raises(TamperedError):
            records.open_page(keys, moved)
        with pytest.raises(TamperedError):
            records.open_head(keys, head_row(moved))
        with pytest.raises(TamperedError), records.open_terms(keys, terms_row(moved)):
            pytest.fail("terms opened in another place")


@given(bodies, st.booleans())
@settings(max_examples=10)
def test_a_page_sealed_for_another_pages_row_is_refused_by_its_own_word(body: str, sensitive: bool) -> None:
    page = page_of("notes/a", body, sensitive=sensitive)
    others = [page_of("notes/a", body, sensitive=sensitive), page_of("notes/b", body, sensitive=not sensitive)]
    with owner_keys() as keys:
        row = records.seal_page(keys, page, 1, b"", ENTROPY)
        for other in others:
            with pytest.raises(TamperedError):
                records.open_page(
                    keys, replace(row, sealed=records._sealed(keys, row, "rec", records._file(other), ENTROPY))
                )


@given(bodies)
@settings(max_examples=10)
@pytest.mark.requirement("CTX-05")
def test_a_record_does_not_open_in_another_context(body: str) -> None:
    page = page_of("notes/a", body, sensitive=False)
    with owner_keys() as keys:
        row = records.seal_page(keys, page, 1, b"", ENTROPY)

        # A server that mistook one context for the other would ask with the same keys and another id.
        keys.context_id = "ctx_there"
        with pytest.raises(TamperedError):
            records.open_page(keys, row)


@given(bodies, st.integers(0, 10**6), st.integers(1, 255), st.sampled_from(["sealed", "head", "terms"]))
@settings(max_examples=80)
def test_a_record_with_any_bit_changed_does_not_open(
    body: str, at: int, bits: int, part: Literal["sealed", "head", "terms"]
) -> None:
    page = page_of("notes/a", body, sensitive=False)
    with owner_keys() as keys:
        row = records.seal_page(keys, page, 1, b"terms", ENTROPY)
        box = bytearray(getattr(row, part))
        box[at % len(box)] ^= bits
        changed = replace(row, **{part: bytes(box)})  # type: ignore[arg-type]  # one of three members of bytes

        with pytest.raises(CorruptError):
            _open(keys, changed, part)


@given(st.binary(max_size=2000), st.sampled_from(["sealed", "head", "terms"]))
@settings(max_examples=60)
def test_any_bytes_in_a_record_are_a_typed_error(data: bytes, part: Literal["sealed", "head", "terms"]) -> None:
    page = page_of("notes/a", "", sensitive=False)
    with owner_keys() as keys:
        row = records.seal_page(keys, page, 1, b"terms", ENTROPY)
        changed = replace(row, **{part: data})  # type: ignore[arg-type]  # one of three members of bytes

        with pytest.raises(CorruptError):
            _open(keys, changed, part)


def _open(keys: OpenKeyring, row: PageRow, part: Literal["sealed", "head", "terms"]) -> None:
    match part:
        case "sealed":
            records.open_page(keys, row)
        case "head":
            records.open_head(keys, head_row(row))
        case "terms":
            with records.open_terms(keys, terms_row(row)):
                pass


@given(st.none() | st.dictionaries(st.text(max_size=8), json_values, min_size=1, max_size=4), st.integers(1, 2**40))
@settings(max_examples=30)
@pytest.mark.requirement("PROF-05")
def test_a_profile_opens_to_what_was_sealed_and_an_empty_one_looks_like_a_short_one(
    profile: JsonObject | None, version: int
) -> None:
    with owner_keys() as keys:
        row = records.seal_profile(keys, "profile.core", profile, version, NOW_MS, ENTROPY)
        short = records.seal_profile(keys, "profile.core", {"a": 1}, version, NOW_MS, ENTROPY)

        assert records.open_profile(keys, "profile.core", row) == profile
        with pytest.raises(TamperedError):
            records.open_profile(keys, "profile.team", row)
        with pytest.raises(TamperedError):
            records.open_profile(keys, "profile.core", replace(row, version=version + 1))
    if profile is None:
        assert len(row.sealed) == len(short.sealed)


@given(scope_sets)
@example(set())
@example({"memory:read", "memory:write", "memory.sensitive:read"})
@settings(max_examples=100)
@pytest.mark.requirement("KEY-03", "SCOPE-01", "SCOPE-02")
def test_a_slice_holds_no_sensitive_key_without_a_sensitive_scope_and_its_base(scopes: set[str]) -> None:
    held = slice_for(effective(scopes, Offer("personal")))
    sensitive = {ref.name for ref in held.sub_keys if is_sensitive(ref.slot)}
    allowed = {"memory:read", "memory.sensitive:read"} <= scopes or {
        "memory:write",
        "memory.sensitive:write",
    } <= scopes

    assert bool(sensitive) == allowed
    assert slice_for(scopes) == held  # the rule stands in the slice itself, not only in what it is handed
    assert held.slots <= {"profile.core", "paths", "memory/main", "memory.sensitive/main"}
    assert ("profile.core" in held.slots) == bool(scopes & {"profile.core:read", "profile.core:write"})
    assert ("memory/main" in held.slots) == bool(scopes & {"memory:read", "memory:write"})
    assert slice_for(effective(scopes, Offer("personal")), {}).slots <= {"profile.core", "paths"}


@given(scope_sets)
@settings(max_examples=15)
@pytest.mark.requirement("KEY-03")
def test_a_grants_keyring_is_its_slice_and_misses_every_other_key(scopes: set[str]) -> None:
    wanted = slice_for(effective(scopes, Offer("personal")))
    normal, sensitive = page_of("a", "text", sensitive=False), page_of("b", "text", sensitive=True)
    with owner_keys() as owner:
        rows = [records.seal_page(owner, page, 1, b"", ENTROPY) for page in (normal, sensitive)]
        profile = records.seal_profile(owner, "profile.core", {"a": 1}, 1, NOW_MS, ENTROPY)

    with grant_keys(scopes) as keys:
        contents: KeyringContents = keys._contents
        assert {(slot, name) for slot, _, name in contents.keys} == {(ref.slot, ref.name) for ref in wanted.sub_keys}
        for row in rows:
            if row.slot in wanted.slots:
                records.open_page(keys, row)
            else:
                with pytest.raises(MissingKeyError):
                    records.open_page(keys, row)
        if "profile.core" not in wanted.slots:
            with pytest.raises(MissingKeyError):
                records.open_profile(keys, "profile.core", profile)
        with pytest.raises(MissingKeyError):
            keys.key("controller", 1, "rec")


@given(paths, paths)
@settings(max_examples=60)
@pytest.mark.requirement("MEM-02")
def test_two_paths_have_one_tag_exactly_if_they_differ_at_most_in_case(first: str, second: str) -> None:
    with owner_keys() as keys:
        tags = [records.path_tag(keys, parse_path(path)) for path in (first, second, first.swapcase())]

    assert (tags[0] == tags[1]) == (first.lower() == second.lower())
    assert tags[0] == tags[2]


@given(json_values, st.dictionaries(st.text(max_size=6), json_values, max_size=3), st.text(max_size=120))
@settings(max_examples=60)
def test_a_cursor_opens_for_its_call_and_any_other_text_is_refused(
    place: JsonValue, filters: JsonObject, garbage: str
) -> None:
    with owner_keys() as keys:
        cursor = cursors.seal_cursor(keys, "memory_list", filters, place, ENTROPY)

        assert cursors.open_cursor(keys, "memory_list", filters, cursor) == place
        for listing, bound, text in (
            ("memory_search", filters, cursor),
            ("memory_list", {**filters, "more": 1}, cursor),
            ("memory_list", filters, garbage),
            ("memory_list", filters, cursor[:-1]),
        ):
            with pytest.raises(InvalidInputError):
                cursors.open_cursor(keys, listing, bound, text)


@given(st.integers(0, 10**6), st.integers(1, 255))
@settings(max_examples=80)
@pytest.mark.requirement("KEY-03")
def test_a_roster_with_any_bit_changed_is_refused(at: int, bits: int) -> None:
    body = bytearray(FOUNDING.roster.body)
    body[at % len(body)] ^= bits

    with pytest.raises(CorruptError):
        holders.verified_roster(replace(FOUNDING.roster, body=bytes(body)), FOUNDING.opened.memory)


@given(st.integers(1, 2**40), st.integers(1, 2**40), st.integers(1, 2**40), st.integers(1, 2**40))
@settings(max_examples=60)
def test_a_wrap_takes_no_state_older_than_it_remembers(epoch: int, version: int, seen_epoch: int, seen: int) -> None:
    roster = replace(rosters.parse(FOUNDING.roster.body), epoch=epoch, version=version)
    memory = replace(FOUNDING.opened.memory, epoch=seen_epoch, roster_version=seen)

    if epoch >= seen_epoch and version >= seen:
        memory.check(roster)
    else:
        with pytest.raises(TamperedError):
            memory.check(roster)
    with pytest.raises(TamperedError):
        replace(memory, owner=bytes(32)).check(roster)


_json: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_roster_members: st.SearchStrategy[object] = st.fixed_dictionaries(
    {
        "v": st.just(1) | _json,
        "context": _json,
        "version": _json,
        "epoch": _json,
        "owner": _json,
        "principals": st.lists(
            st.fixed_dictionaries(dict.fromkeys(("id", "kem", "sig", "role"), _json)) | _json, max_size=2
        )
        | _json,
        "removed": _json,
        "generations": st.dictionaries(st.text(max_size=4), _json, max_size=2) | _json,
    }
)


@given(document=_json | _roster_members, canonical=st.booleans())
def test_any_json_gives_a_roster_or_is_corrupt(document: object, canonical: bool) -> None:
    data = json.dumps(document, sort_keys=canonical, separators=(",", ":") if canonical else None).encode()
    try:
        roster = rosters.parse(data)
    except CorruptError:
        return
    assert rosters.serialize(roster) == data


@pytest.mark.parametrize("member", ["context", "version", "owner", "principals", "removed", "generations"])
@pytest.mark.parametrize("value", ["[" * 900 + "]" * 900, "1e999", "[1]", '{"a":{}}', '"\\ud800"', "null"])
def test_a_roster_with_a_member_of_another_kind_is_corrupt(member: str, value: str) -> None:
    members = {**json.loads(FOUNDING.roster.body), member: "here"}
    data = json.dumps(members, sort_keys=True, separators=(",", ":")).replace('"here"', value)
    with pytest.raises(CorruptError):
        rosters.parse(data.encode())
