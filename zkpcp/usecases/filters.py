"""Which pages a search or a listing considers: by path, type, tags, lifecycle and partition (MEM-18)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from zkpcp.core import terms as term_format
from zkpcp.core.pages import Head
from zkpcp.core.paths import parse_prefix
from zkpcp.core.schemas import JsonValue
from zkpcp.core.slots import partition_of
from zkpcp.usecases.partition_names import PartitionNames


@dataclass(frozen=True, slots=True, repr=False)
class Filters:
    """Which pages to consider; None and empty mean no restriction."""

    prefix: str = ""
    prefix_field: str = "/prefix"
    type: str | None = None
    tags: tuple[str, ...] = ()
    include_stale: bool = True
    include_archived: bool = False
    partition: str | None = None

    def check(self) -> None:
        """Raise InvalidInputError for a prefix that no path can have; ``prefix_field`` is what the violation names."""
        parse_prefix(self.prefix, self.prefix_field)

    def admit(self, head: Head) -> bool:
        """Whether a page passes."""
        return (
            head.path.has_prefix(self.prefix)
            and (self.type is None or head.type == self.type)
            and set(self.tags) <= set(head.tags)
            and (self.include_archived or head.lifecycle != "archived")
            and (self.include_stale or head.lifecycle != "stale")
        )

    def slots(self, open_slots: Collection[str], names: PartitionNames) -> frozenset[str]:
        """Those of the open slots that are asked for. Raises InvalidInputError for a partition that is not open."""
        if self.partition is None:
            return frozenset(open_slots)
        wanted = names.id_of(self.partition, "/partition")
        return frozenset(slot for slot in open_slots if partition_of(slot) == wanted)

    def terms(self) -> list[str]:
        """Terms that every page which passes has."""
        folders = self.prefix.split("/")[:-1]
        type_terms = [] if self.type is None else [term_format.type_term(self.type)]
        made = [*map(term_format.tag_term, self.tags), *type_terms, *map(term_format.path_term, folders)]
        return [term for term in made if not term.endswith(":")]

    def as_json(self) -> dict[str, JsonValue]:
        """What a cursor is bound to."""
        return {
            "prefix": self.prefix,
            "type": self.type,
            "tags": [*sorted(self.tags)],
            "stale": self.include_stale,
            "archived": self.include_archived,
            **({} if self.partition is None else {"partition": self.partition}),
        }
