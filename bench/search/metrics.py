"""How good a ranking is: recall and nDCG of its first ten, with every right page worth the same."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

CUT: Final = 10


@dataclass(frozen=True, slots=True)
class Quality:
    """Means over the questions of a set."""

    recall: float
    ndcg: float


def recall(found: Sequence[str], right: Collection[str]) -> float:
    """The share of the right pages that stand among the first ten."""
    return len(set(found[:CUT]) & set(right)) / len(set(right))


def ndcg(found: Sequence[str], right: Collection[str]) -> float:
    """1 for the right pages on top, less the further down they stand, 0 for none among the first ten."""
    wanted = set(right)
    gain = sum(_discount(place) for place, path in enumerate(dict.fromkeys(found[:CUT])) if path in wanted)
    return gain / sum(_discount(place) for place in range(min(len(wanted), CUT)))


def mean(pairs: Sequence[tuple[Sequence[str], Collection[str]]]) -> Quality:
    """Over many questions: what was found, and what is right."""
    return Quality(
        fmean(recall(found, right) for found, right in pairs), fmean(ndcg(found, right) for found, right in pairs)
    )


def _discount(place: int) -> float:
    return 1 / math.log2(place + 2)
