"""The attacks are real: they read row postings, and the same attacks read next to nothing from rows in turn."""

from __future__ import annotations

import random  # noqa: TID251 - seeded, the same in every run
from pathlib import Path

import pytest

from bench.inside import founded, migrated
from bench.leakage import attack, experiments
from bench.leakage.attack import Observation, observed
from bench.leakage.chat import Chat, note
from bench.leakage.observe import Watch, buckets_only, judged, keyed, row_postings

TOPICS = [[f"t{topic}w{word}" for word in range(6)] for topic in range(8)]


def events(seed: int, count: int = 1_500) -> list[frozenset[str]]:
    """A language of 48 words, each as frequent as its topic and its place there say."""
    draw = random.Random(seed)  # noqa: S311 - made-up events, no secret
    return [
        frozenset(
            word
            for topic in draw.choices(TOPICS, [0.75**number for number in range(8)], k=2)
            for place, word in enumerate(topic)
            if draw.random() < 0.9 / (1 + place) ** 0.7
        )
        for _ in range(count)
    ]


def disguised(words: list[frozenset[str]]) -> Observation:
    return observed([{keyed(word) for word in each} for each in words])


def in_turn(words: list[frozenset[str]], rows: int) -> Observation:
    """What is seen when each event changes the next row, whatever it says."""
    return observed([{keyed(f"row {number % rows}")} for number in range(len(words))])


def test_words_that_go_together_betray_row_postings_and_not_rows_in_turn() -> None:
    mine, similar = events(1), observed(events(2))
    targets = observed(mine).most_seen(attack.TARGETS)

    def share(target: Observation) -> float:
        guesses = attack.by_cooccurrence(target, similar)
        return attack.named(guesses, lambda row, word: row == keyed(word), targets)

    assert len(targets) == 48
    assert share(disguised(mine)) > 0.5
    assert share(in_turn(mine, 48)) == 0


def test_an_attack_on_nothing_names_nothing() -> None:
    assert attack.by_cooccurrence(observed([]), observed(events(2))) == {}


def test_every_word_has_a_code_of_its_own_spread_over_the_pages() -> None:
    words = [f"w{number}" for number in range(2_000)]

    codes = attack.codes_of(words, 20)

    assert len(set(codes.values())) == len(codes) == 2_000
    assert {code.bit_count() for code in codes.values()} == {attack.CODE_WEIGHT}
    lengths = [sum(code >> page & 1 for code in codes.values()) for page in range(20)]
    assert max(lengths) < 2 * min(lengths) + 400


def test_injected_pages_betray_row_postings_and_not_rows_in_turn() -> None:
    mine = events(1, 200)
    codes = attack.codes_of(sorted({word for topic in TOPICS for word in topic}), 12)
    injected = [frozenset(word for word, code in codes.items() if code >> page & 1) for page in range(12)]
    everything, own, others = [*injected, *mine], range(12), range(12, 212)

    def share(target: Observation) -> float:
        guesses = attack.by_injection(target, own, codes)
        right = {row: word for row, word in guesses.items() if row == keyed(word)}
        return attack.pairs_named(right, target, everything, others)

    assert share(disguised(everything)) == 1
    assert share(in_turn(everything, 16)) == 0


def test_linking_tells_pairs_apart_only_by_rows_in_common() -> None:
    seen = observed([{"a", "b"}, {"a", "b"}, {"c"}, {"d"}])
    pairs, linked = [(0, 1), (0, 2), (1, 3), (2, 3)], [True, False, False, False]

    assert attack.linking(seen, pairs, linked) == 1
    assert attack.linking(observed([{"x"}] * 4), pairs, linked) == 0.5


@pytest.mark.parametrize(
    ("scores", "labels", "area"),
    [
        ([0.1, 0.9], [False, True], 1),
        ([0.9, 0.1], [False, True], 0),
        ([0.5, 0.5, 0.5], [False, True, True], 0.5),
        ([0.1, 0.4, 0.35, 0.8], [False, False, True, True], 0.75),
        ([1.0], [True], 0.5),
    ],
)
def test_the_area_under_the_curve(scores: list[float], labels: list[bool], area: float) -> None:
    assert attack.area(scores, labels) == area


def test_a_corpus_is_the_same_in_every_run_and_its_halves_differ() -> None:
    one, again, other = Chat().notes("mine", 20), Chat().notes("mine", 20), Chat().notes("similar", 20)

    assert one == again
    assert all(mine.words != theirs.words for mine, theirs in zip(one, other, strict=True))
    assert row_postings(one).most_seen(1) == [keyed(observed([each.words for each in one]).most_seen(1)[0])]


async def test_the_host_of_a_database_sees_which_rows_a_write_changed(sqlite_folder: Path) -> None:
    watch = Watch(sqlite_folder / "context.db")
    async with founded(sqlite_folder) as inside:
        for number in range(3):
            await inside.write(note(f"notes/{number}", ["boiler", "willow"]).text)
            watch.look()
        async with judged(inside) as holds:
            assert holds("0/postings/1", "boiler")
            assert not holds("0/heads/0", "boiler")

    assert all("0/meta" in changed for changed in watch.changed)
    assert buckets_only(watch.changed).seen == {"0/postings/1": 0b111}


async def test_what_a_page_says_does_not_show_in_which_rows_its_write_changes(two_folders: tuple[Path, Path]) -> None:
    figures = await experiments.same_for_other_words(*two_folders, 80, lambda _: None)

    assert figures[0].value == 1


@pytest.fixture
def sqlite_folder(tmp_path: Path) -> Path:
    return migrated(tmp_path / "one").parent


@pytest.fixture
def two_folders(tmp_path: Path, sqlite_folder: Path) -> tuple[Path, Path]:
    return sqlite_folder, migrated(tmp_path / "two").parent
