"""Laws of merge patches, profiles and audit entries."""

from __future__ import annotations

import contextlib
import copy
import json
from dataclasses import replace
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # a second reader, used in tests only
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zkpcp.core import audit, profile
from zkpcp.core.audit import Channel, Entry, Outcome
from zkpcp.core.schemas import JsonObject, JsonValue, canonical_json
from zkpcp.errors import CorruptError, InvalidInputError
from zkpcp.schema_files import load_schemas

SCHEMAS = load_schemas()
MEMBERS = [*SCHEMAS.raw("0.3/profile.core")["properties"], "nickname"]  # type: ignore[misc]  # an object

texts = st.text(max_size=12)
json_values: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
core_patches: st.SearchStrategy[JsonValue] = st.dictionaries(
    st.sampled_from([str(member) for member in MEMBERS]), st.none() | texts | json_values, max_size=6
)
ids = st.from_regex(r"[A-Za-z0-9_-]{1,12}", fullmatch=True)
names = st.from_regex(r"[a-z][a-z0-9_.]{0,12}", fullmatch=True)
principals = st.none() | st.builds("{}:{}".format, st.sampled_from(["human", "agent", "service", "org"]), names)
entries = st.builds(
    Entry,
    id=ids,
    at_ms=st.integers(-62_135_596_800_000, 253_402_300_799_999),
    action=names,
    channel=st.sampled_from(Channel),
    outcome=st.sampled_from(Outcome),
    principal=principals,
    on_behalf_of=principals,
    client=st.none() | st.from_regex(r"[!-~]{1,12}", fullmatch=True),
    grant=st.none() | ids,
    categories=st.lists(names, max_size=3).map(tuple),
    partitions=st.lists(ids, max_size=3).map(tuple),
    object_ids=st.lists(ids, max_size=3).map(tuple),
    decrypted=st.booleans(),
    counts=st.dictionaries(st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True), st.integers(0, 2**40), max_size=3),
    duration_ms=st.none() | st.integers(0, 2**40),
)


# The examples of RFC 7396, appendix A, in its order: target, patch, result.
RFC_7396_EXAMPLES: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.requirement("PROF-03")
@pytest.mark.parametrize(("target", "patch", "result"), RFC_7396_EXAMPLES)
def test_a_merge_patch_does_what_the_rfc_shows(target: JsonValue, patch: JsonValue, result: JsonValue) -> None:
    assert profile.merge_patch(target, patch) == result


@pytest.mark.requirement("PROF-03")
@given(json_values, json_values)
def test_a_merge_patch_twice_is_a_merge_patch_once_and_changes_no_argument(target: JsonValue, patch: JsonValue) -> None:
    kept = copy.deepcopy((target, patch))

    once = profile.merge_patch(target, patch)

    assert profile.merge_patch(once, patch) == once
    assert (target, patch) == kept


@pytest.mark.requirement("PROF-01", "PROF-03", "PROF-05")
@given(st.none() | st.just({"pcp_version": "0.3", "name": "Ada", "updated": "x"}), json_values | core_patches)
def test_any_json_as_a_patch_gives_a_valid_profile_or_none_or_a_refusal(
    current: JsonObject | None, patch: JsonValue
) -> None:
    with contextlib.suppress(InvalidInputError):
        updated = profile.update("profile.core", current, patch, now_ms=0, schemas=SCHEMAS)
        if updated.profile is None:
            return
        jsonschema.Draft202012Validator(SCHEMAS.raw("0.3/profile.core")).validate(updated.profile)
        assert profile.parse_stored(profile.serialize(updated.profile)) == updated.profile


@settings(max_examples=50)
@given(st.dictionaries(texts, json_values, max_size=4))
def test_serializing_is_a_fixed_point(value: JsonObject) -> None:
    data = profile.serialize(value)

    assert profile.serialize(profile.parse_stored(data)) == data
    assert json.loads(data) == value


@given(st.binary(max_size=40))
def test_any_bytes_are_a_profile_or_damage(data: bytes) -> None:
    with contextlib.suppress(CorruptError):
        assert canonical_json(profile.parse_stored(data)) == data


@pytest.mark.requirement("AUD-03")
@given(entries)
def test_an_entry_survives_storage_and_validates(entry: Entry) -> None:
    stored = audit.canonical(entry)

    assert audit.from_json(stored) == entry
    jsonschema.Draft202012Validator(SCHEMAS.raw("0.3/audit.entry")).validate(json.loads(stored))
    assert SCHEMAS.violations("0.3/audit.entry", audit.to_json(entry)) == ()


@given(entries, entries, st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32))
def test_different_entries_and_different_pasts_have_different_hashes(
    one: Entry, other: Entry, past: bytes, other_past: bytes
) -> None:
    assert (audit.canonical(one) == audit.canonical(other)) == (one == other)
    assert (audit.follow(past, one) == audit.follow(other_past, other)) == ((past, one) == (other_past, other))


@given(st.lists(entries, min_size=2, max_size=5), st.data())
def test_a_chain_shows_a_change_a_gap_and_a_swap(chain: list[Entry], data: st.DataObject) -> None:
    def head(items: list[Entry]) -> bytes:
        digest = audit.GENESIS
        for item in items:
            digest = audit.follow(digest, item)
        return digest

    at = data.draw(st.integers(0, len(chain) - 2))
    changed = [*chain[:at], replace(chain[at], decrypted=not chain[at].decrypted), *chain[at + 1 :]]
    shortened = chain[:at] + chain[at + 1 :]
    swapped = [*chain[:at], chain[at + 1], chain[at], *chain[at + 2 :]]

    assert head(changed) != head(chain)
    assert head(shortened) != head(chain)
    assert (head(swapped) == head(chain)) == (chain[at] == chain[at + 1])


@given(st.binary(max_size=60))
def test_any_bytes_are_an_entry_or_damage(data: bytes) -> None:
    with pytest.raises(CorruptError):
        audit.from_json(data)


@pytest.mark.requirement("AUD-06")
@given(entries, st.frozensets(names), st.frozensets(ids))
def test_what_a_reader_sees_of_an_entry_is_never_more_than_it_may_read(
    entry: Entry, categories: frozenset[str], partitions: frozenset[str]
) -> None:
    seen = audit.for_reader(entry, is_controller=False, readable_categories=categories, readable_partitions=partitions)

    assert categories.issuperset(seen.categories)
    assert partitions.issuperset(seen.partitions)
    assert seen.object_ids in ((), entry.object_ids)
    assert not seen.object_ids or (seen.categories, seen.partitions) == (entry.categories, entry.partitions)
