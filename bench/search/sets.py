"""What is searched to see how good search is: sets of pages with questions and the pages that answer them.

A folder of JSON files, one for each set, is an argument; none is part of this project. The small set below is, so that
the question can be asked without them: it shows that the programs work, and too little to compare engines by.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.inside import Text
from zkpcp.core.pages import draft
from zkpcp.errors import ZkpcpError

_LEFT_OUT: Final = frozenset({"adversarial"})
"""Questions that have no answer in the pages."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the paths of the pages that answer it; ``twins`` say just what the page they lead to says."""

    text: str
    right: frozenset[str]
    twins: Mapping[str, str] = field(default_factory=dict)

    def read(self, found: Sequence[str]) -> list[str]:
        """What was found, with a twin taken for the page it equals."""
        return list(dict.fromkeys(self.twins.get(path, path) for path in found))


@dataclass(frozen=True, slots=True)
class TestSet:
    """Pages and questions; all pages of a set are searched together."""

    name: str
    language: str
    pages: tuple[Text, ...]
    questions: tuple[Question, ...]


def read_sets(folder: Path) -> Iterator[TestSet]:
    """The sets of a folder by name.

    A file has ``name``, ``lang``, ``pages`` (``path``, ``body``, ``frontmatter``) and ``questions`` (``question``,
    ``gold``, ``gold_equiv``, ``stratum``). A page counts with path,
    title, type, tags and body; questions without an answer are left out.
    """
    for path in sorted(folder.glob("*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        pages = tuple(_page(page) for page in data["pages"])
        questions = tuple(
            Question(
                each["question"],
                frozenset(each["gold"]),
                {twin: path for path, twins in each.get("gold_equiv", {}).items() for twin in twins},
            )
            for each in data["questions"]
            if each["gold"] and each.get("stratum") not in _LEFT_OUT
        )
        yield TestSet(data["name"], data["lang"], pages, questions)


def own_set() -> TestSet:
    """The set that is always there."""
    pages = tuple(Text(path, body, title) for path, title, body in _OWN_PAGES)
    return TestSet("own", "en", pages, tuple(Question(text, frozenset(right)) for text, right in _OWN_QUESTIONS))


def _page(page: Mapping[str, object]) -> Text:
    keys = page["frontmatter"]
    assert isinstance(keys, dict)
    text = Text(
        str(page["path"]),
        str(page["body"]),
        str(keys.get("title", "")),
        tuple(map(str, keys.get("tags") or ())),
        str(keys["type"]) if keys.get("type") else None,
    )
    return text if _is_acceptable(text) else Text(text.path, text.body, text.title)


def _is_acceptable(text: Text) -> bool:
    try:
        draft(text.path, text.body, text.frontmatter())
    except ZkpcpError:
        return False
    return True


_OWN_PAGES: Final = (
    (
        "home/boiler",
        "Boiler",
        "The boiler was serviced in March by Okafor and Sons. Its pressure should stand at 1.4 bar.",
    ),
    (
        "home/roof",
        "Roof repairs",
        "Three slates were replaced after the storm. The roofer gave a guarantee of ten years.",
    ),
    ("garden/apples", "Apple trees", "Prune the apple trees in late winter. The Bramley needs a pollinating partner."),
    ("garden/beans", "Runner beans", "Sow the beans in May, once the nights are mild; they climb two meters."),
    (
        "travel/lisbon",
        "Lisbon in spring",
        "We stayed near the Alfama and took the tram up the hill. The ferry to Cacilhas is cheap.",
    ),
    (
        "travel/trains",
        "Trains through the Alps",
        "Seats on the night train to Vienna must be booked; the bicycle goes in the last car.",
    ),
    (
        "health/back",
        "Back pain",
        "Swimming twice a week helped more than the pills. The physiotherapist is on Mill Lane.",
    ),
    ("health/teeth", "Dentist", "The next check-up is due in October. The left molar has a crown."),
    ("people/ines", "Ines", "Ines plays the cello, is allergic to walnuts and was born on a ferry."),
    ("people/tomas", "Tomas", "Tomas keeps bees and sells honey at the market on Saturdays."),
    (
        "work/report",
        "Quarterly report",
        "Figures are due on the fifth working day. Priya checks the tables for the auditors.",
    ),
    ("work/printer", "Printer", "When the printer reports error E-204, take the drum out and wipe its contacts."),
    ("food/bread", "Sourdough", "Feed the starter the evening before; bake for forty minutes with steam."),
    ("food/honey-cake", "Honey cake", "Six eggs, a jar of dark honey, cinnamon. Rest it for a day before cutting."),
    ("music/cello", "Cello strings", "The A string wears out first. Strings are changed every nine months."),
    ("money/insurance", "House insurance", "The policy covers storm and water; the excess is 300. It renews in June."),
)
_OWN_QUESTIONS: Final = (
    ("Who serviced the boiler?", ("home/boiler",)),
    ("What pressure does the boiler need?", ("home/boiler",)),
    ("How long is the guarantee on the roof?", ("home/roof",)),
    ("When should I prune apples?", ("garden/apples",)),
    ("sowing beans", ("garden/beans",)),
    ("Which ferry did we take in Lisbon?", ("travel/lisbon",)),
    ("booking seats on night trains", ("travel/trains",)),
    ("What helps against pains in my back?", ("health/back",)),
    ("crowned molar", ("health/teeth",)),
    ("Who is allergic to walnuts?", ("people/ines",)),
    ("Where does Tomas sell his honey?", ("people/tomas",)),
    ("error E-204", ("work/printer",)),
    ("Who checks the figures for the auditor?", ("work/report",)),
    ("baking bread with a starter", ("food/bread",)),
    ("how many eggs for the honey cake", ("food/honey-cake",)),
    ("changing a cello string", ("music/cello",)),
    ("Does the insurance pay for storms?", ("money/insurance",)),
    ("honey", ("food/honey-cake", "people/tomas")),
    ("storm damage", ("home/roof", "money/insurance")),
)
