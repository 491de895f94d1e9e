"""The partitions that a caller knows, by name: what is closed to them has no name here (MEM-13).

A page keeps its partition's id, so renaming one changes no page and disturbs no write that is under way. Ids become
names where pages leave the use cases, and names become ids where they come in; a name that is closed to the caller gets
the same answer as one that there is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from zkpcp.core.access import Right
from zkpcp.core.pages import MAIN_PARTITION, Draft, Head, Page, in_partition
from zkpcp.core.partitions import MAIN, Partition
from zkpcp.core.slots import SubKeyRef, directory_slot
from zkpcp.errors import ForbiddenError, InvalidInputError, Violation
from zkpcp.ports import Transaction
from zkpcp.usecases.access import Acting
from zkpcp.usecases.call import Call
from zkpcp.vault import partitions as sealing

FIELD = "/frontmatter/partition"
_CLOSED = "must be the name of a partition that is open to you"


@dataclass(frozen=True, slots=True, repr=False)
class PartitionNames:
    """The partitions in which a caller has any right, by id."""

    by_id: Mapping[str, Partition]

    def name_of(self, partition_id: str) -> str:
        """The present name; the id of one whose name is missing from the store."""
        known = self.by_id.get(partition_id)
        return partition_id if known is None else known.name

    def id_of(self, name: str, field: str = FIELD) -> str:
        """The id behind a name. Raises InvalidInputError, the same for a closed partition and for none."""
        for partition in self.by_id.values():
            if partition.name == name:
                return partition.id
        raise InvalidInputError("there is no such partition open to you", [Violation(field, _CLOSED)])

    def page(self, page: Page) -> Page:
        """The page with its partition's name in place of the id."""
        if page.partition == MAIN_PARTITION:
            return page
        return in_partition(page, self.name_of(page.partition))

    def head(self, head: Head) -> Head:
        """A head with its partition's name in place of the id."""
        return head if head.partition == MAIN_PARTITION else replace(head, partition=self.name_of(head.partition))

    def heads(self, heads: Iterable[Head]) -> tuple[Head, ...]:
        """Heads with their partitions' names in place of the ids."""
        return tuple(map(self.head, heads))

    def draft(self, draft: Draft) -> Draft:
        """The draft with a partition's id in place of the name. Raises InvalidInputError."""
        keys = draft.frontmatter
        if keys is None or "partition" not in keys:
            return draft
        given = MappingProxyType({**keys, "partition": self.id_of(str(keys["partition"]))})
        return replace(draft, frontmatter=given)


_ONLY_MAIN = PartitionNames(MappingProxyType({MAIN_PARTITION: MAIN}))


async def partition_names(tx: Transaction, call: Call) -> PartitionNames:
    """The directory as this caller may see it; an act that opens a name of it has opened something."""
    acting = call.acting
    if not acting.context.is_partitioned and len(acting.keys.roster.partitions) == 1:
        return _ONLY_MAIN
    # Rights without a scope that opens the partition give no key to its name.
    mine = {each for each in acting.rights if acting.keys.holds(SubKeyRef(directory_slot(each), "rec"))}
    rows = await tx.partitions.partitions(acting.context_id, mine)
    opened = {row.partition_id: sealing.open_partition(acting.keys, row) for row in rows if row.partition_id in mine}
    if MAIN_PARTITION in acting.rights:
        opened[MAIN_PARTITION] = MAIN
    call.decrypted = call.decrypted or any(each != MAIN_PARTITION for each in opened)
    return PartitionNames(MappingProxyType(opened))


def default_partition(acting: Acting, right: Right = "write") -> str:
    """Where a page goes that names no partition: to ``main`` if it is open, else to the only one there is.

    Raises InvalidInputError when there are several, ForbiddenError when there is none.
    """
    open_ones = acting.partitions_with(right)
    if MAIN_PARTITION in open_ones:
        return MAIN_PARTITION
    if not open_ones:
        raise ForbiddenError("no partition is open to you for writing")
    if len(open_ones) > 1:
        raise InvalidInputError("several partitions are open to you", [Violation(FIELD, "must name one of them")])
    return next(iter(open_ones))


def require_right(acting: Acting, right: Right, partition: str) -> None:
    """Raise ForbiddenError unless the access lists give this right in a partition that the caller knows."""
    if not acting.may(right, partition):
        raise ForbiddenError(f"the right to {right} in this partition is not yours; its controller can give it")
