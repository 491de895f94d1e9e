"""Access lists and the roster that carries them: laws."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkpcp.core import roster as roster_format
from zkpcp.core.access import (
    RIGHTS,
    AccessLists,
    both,
    nobody_reads,
    parse_description,
    parse_partition_name,
    parse_rights,
    rights_in,
    with_rights,
    without,
)
from zkpcp.core.roster import AGENT, MEMBER, SUSPENDED, Principal, Roster
from zkpcp.core.slots import is_sensitive, partition_of, slice_for
from zkpcp.errors import CorruptError, InvalidInputError

PEOPLE = ("human:ada", "human:bob", "agent:scout")
PARTITIONS = ("main", "prt_one", "prt_two")

rights = st.frozensets(st.sampled_from(RIGHTS))
lists = st.dictionaries(st.sampled_from(PARTITIONS), st.dictionaries(st.sampled_from(PEOPLE), rights), min_size=1)
scopes = st.sets(
    st.sampled_from(
        ["memory:read", "memory:write", "memory.sensitive:read", "memory.sensitive:write", "profile.core:read"]
    )
)


def roster_with(access: AccessLists, *, bob: str = MEMBER) -> Roster:
    principals = (
        Principal("human:ada", b"k", b"s", "controller"),
        Principal("human:bob", b"k", b"s", bob),
        Principal("agent:scout", b"", b"", AGENT),
    )
    return Roster("ctx", 1, 1, b"o" * 32, principals, access=access)


@given(lists, st.sampled_from(PEOPLE))
@pytest.mark.requirement("SCOPE-04")
def test_once_there_are_lists_nobody_has_a_right_that_none_gives(access: AccessLists, who: str) -> None:
    mine = rights_in(access, who)

    assert all(mine[each] == access[each][who] for each in mine)
    assert all(not access[each].get(who) for each in access if each not in mine)
    assert rights_in(access, "human:stranger") == {}


@given(lists, st.sampled_from(PEOPLE), st.sampled_from(PEOPLE))
@pytest.mark.requirement("SCOPE-06")
def test_for_somebody_else_one_may_what_both_may(access: AccessLists, one: str, other: str) -> None:
    roster = roster_with(access)
    shared = roster.acting_rights(one, other)

    assert shared == both(rights_in(access, other), rights_in(access, one))
    assert all(held and held <= access[each].get(name, set()) for each, held in shared.items() for name in (one, other))


@given(lists)
def test_a_suspended_principal_and_a_stranger_have_no_right(access: AccessLists) -> None:
    assert roster_with(access, bob=SUSPENDED).rights("human:bob") == {}
    assert roster_with(access).rights("human:eve") == {}
    assert roster_with({}, bob=SUSPENDED).rights("human:bob") == {}


@given(lists)
def test_a_roster_reads_back_with_its_lists_and_without_any_has_its_old_bytes(access: AccessLists) -> None:
    roster = roster_with(access)
    body = roster_format.serialize(roster)

    assert roster_format.parse(body) == roster
    assert b'"access"' not in roster_format.serialize(replace(roster, access=MappingProxyType({})))


@pytest.mark.parametrize(
    "bad", ["[]", '{"main":[]}', '{"main":{"human:ada":["fly"]}}', '{"main":{"human:ada":"read"}}', "{}"]
)
def test_a_roster_with_other_lists_than_ours_is_refused(bad: str) -> None:
    body = roster_format.serialize(roster_with({"main": {"human:ada": frozenset(RIGHTS)}}))
    start = body.index(b'"access":') + len(b'"access":')
    end = body.index(b',"context"')

    with pytest.raises(CorruptError):
        roster_format.parse(body[:start] + bad.encode() + body[end:])


@given(lists, st.sampled_from(PARTITIONS), st.sampled_from(PEOPLE), rights)
def test_a_change_touches_one_person_in_one_partition(access: AccessLists, where: str, who: str, given: object) -> None:
    assert isinstance(given, frozenset)
    after = with_rights(access, where, who, given)

    assert after[where].get(who, frozenset()) == given
    rest = {
        each: {name: held for name, held in people.items() if (each, name) != (where, who)}
        for each, people in after.items()
    }
    assert rest == {
        each: {name: held for name, held in access.get(each, {}).items() if (each, name) != (where, who)}
        for each in after
    }
    assert rights_in(without(after, who), who) == {}


@given(lists, st.sets(st.sampled_from(PEOPLE)))
def test_a_partition_is_nobodys_exactly_if_no_reader_is_on_its_list(access: AccessLists, readers: set[str]) -> None:
    orphaned = set(nobody_reads(access, readers))

    assert orphaned == {
        each for each in access if not any("read" in rights_in(access, name).get(each, ()) for name in readers)
    }


@given(lists, st.sampled_from(PEOPLE), scopes)
@pytest.mark.requirement("SCOPE-04", "KEY-03")
def test_a_slice_has_keys_of_no_partition_beyond_scopes_and_rights(
    access: AccessLists, who: str, held: set[str]
) -> None:
    mine = rights_in(access, who)

    for ref in slice_for(held, mine).sub_keys:
        partition = partition_of(ref.slot)
        if partition is not None:
            usable = {right for right in ("read", "write") if f"memory:{right}" in held and right in mine[partition]}
            assert usable
            assert not is_sensitive(ref.slot) or {f"memory.sensitive:{right}" for right in usable} & held


def test_names_descriptions_and_rights_follow_their_rules() -> None:
    assert parse_partition_name("garden-2_x") == "garden-2_x"
    assert parse_description("  two\n lines ") == "two lines"
    assert parse_rights(["write", "read"]) == {"read", "write"}
    for parse, bad in ((parse_partition_name, "Main"), (parse_description, "\ud800"), (parse_rights, ["fly"])):
        with pytest.raises(InvalidInputError):
            parse(bad)  # type: ignore[arg-type]  # each with its own argument
