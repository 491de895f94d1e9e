"""Access lists: what each principal may do in each partition, and what is left of it for an agent of theirs.

Implements PCP §7.3 and §7.4 (SCOPE-04, SCOPE-06): once there are lists, whoever is not on one has no right in that
partition. The lists stand in the signed roster, by opaque partition ids, so that a host can neither widen them nor hand
out keys beyond them. It decides on partitions alone; scopes come on top (``usecases.access``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, get_args

from zkpcp.core.slots import MAIN_PARTITION
from zkpcp.errors import InvalidInputError, Violation

Right = Literal["read", "write", "propose", "review"]
ReviewMode = Literal["off", "proposals", "all-app-writes-wait"]
RIGHTS: Final[tuple[Right, ...]] = get_args(Right)
REVIEW_MODES: Final[tuple[ReviewMode, ...]] = get_args(ReviewMode)
ALL_RIGHTS: Final[frozenset[Right]] = frozenset(RIGHTS)

Rights: TypeAlias = Mapping[str, frozenset[Right]]
"""Partition id to what somebody may do there; a partition without a right in it is not there."""
AccessLists: TypeAlias = Mapping[str, Mapping[str, frozenset[Right]]]
"""Partition id to principal to rights. Empty: there is only ``main``, and every principal may do everything in it."""

EVERYTHING_IN_MAIN: Final[Rights] = MappingProxyType({MAIN_PARTITION: ALL_RIGHTS})
NO_LISTS: Final[AccessLists] = MappingProxyType({})

MAX_PARTITIONS: Final = 100
MAX_DESCRIPTION: Final = 500
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


def rights_in(lists: AccessLists, principal: str) -> Rights:
    """What a principal who belongs to the context may do, by partition; default deny (SCOPE-04)."""
    if not lists:
        return EVERYTHING_IN_MAIN
    mine = {partition: people[principal] for partition, people in lists.items() if people.get(principal)}
    return MappingProxyType(mine)


def both(first: Rights, second: Rights) -> Rights:
    """What two principals may both do (SCOPE-06)."""
    shared = {partition: rights & second[partition] for partition, rights in first.items() if partition in second}
    return MappingProxyType({partition: rights for partition, rights in shared.items() if rights})


def with_rights(lists: AccessLists, partition: str, principal: str, rights: Iterable[Right]) -> AccessLists:
    """The lists with a principal's rights in one partition replaced; none takes the principal off that list."""
    people = {name: held for name, held in lists.get(partition, {}).items() if name != principal}
    given = frozenset(rights)
    if given:
        people[principal] = given
    return MappingProxyType({**lists, partition: MappingProxyType(people)})


def without(lists: AccessLists, principal: str) -> AccessLists:
    """The lists without a principal."""
    return MappingProxyType(
        {
            partition: MappingProxyType({name: rights for name, rights in people.items() if name != principal})
            for partition, people in lists.items()
        }
    )


def nobody_reads(lists: AccessLists, readers: Collection[str]) -> tuple[str, ...]:
    """The partitions that none of these principals may read: nobody could ever open them again."""
    return tuple(
        partition
        for partition, people in sorted(lists.items())
        if not any("read" in rights for name, rights in people.items() if name in readers)
    )


def parse_rights(names: Iterable[str]) -> frozenset[Right]:
    """Rights by their names. Raises InvalidInputError."""
    given = frozenset(names)
    known = frozenset(right for right in RIGHTS if right in given)
    if len(known) != len(given):
        raise InvalidInputError("the rights are not valid", [Violation("rights", f"must be among {', '.join(RIGHTS)}")])
    return known


def parse_review_mode(text: str) -> ReviewMode:
    """Whether a context has review (§5.4): not, for what is proposed, or for all that apps write. Raises ValueError."""
    for mode in REVIEW_MODES:
        if mode == text:
            return mode
    raise ValueError("unknown mode of review")


def parse_partition_name(text: str) -> str:
    """A new partition's name (PCP §5.3). Raises InvalidInputError."""
    if _NAME.fullmatch(text) is None or text == MAIN_PARTITION:
        rule = "1 to 64 of the characters a-z 0-9 _ -, beginning with a letter or digit, and not main"
        raise InvalidInputError("the name is not valid", [Violation("name", rule)])
    return text


def parse_description(text: str) -> str:
    """One line on what a partition is for; it may be empty. Raises InvalidInputError."""
    line = " ".join(text.split())
    if len(line) > MAX_DESCRIPTION or "\0" in line or any("\ud800" <= each <= "\udfff" for each in line):
        rule = f"must have at most {MAX_DESCRIPTION} characters"
        raise InvalidInputError("the description is not valid", [Violation("description", rule)])
    return line
