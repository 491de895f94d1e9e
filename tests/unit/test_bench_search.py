"""What measures search: known rankings get the figures they deserve, and every engine answers the small set."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.inside import Text
from bench.search import quality
from bench.search.metrics import mean, ndcg, recall
from bench.search.rivals import Fts5, plain_bm25
from bench.search.sets import Question, own_set, read_sets


def test_recall_is_the_share_of_right_pages_among_the_first_ten() -> None:
    found = [f"p{number}" for number in range(20)]

    assert recall(found, {"p0"}) == 1
    assert recall(found, {"p9", "p10"}) == 0.5
    assert recall([], {"p0"}) == 0


def test_ndcg_is_one_for_right_pages_on_top_and_less_further_down() -> None:
    assert ndcg(["a", "b", "c"], {"a", "b"}) == 1
    assert ndcg(["b", "a", "c"], {"a", "b"}) == 1
    assert ndcg(["c", "a"], {"a"}) == pytest.approx(1 / math.log2(3))
    assert ndcg(["a", "c", "b"], {"a", "b"}) == pytest.approx(1.5 / (1 + 1 / math.log2(3)))
    assert ndcg(["a", "a"], {"a"}) == 1
    assert ndcg([*"bcdefghijk", "a"], {"a"}) == 0


def test_a_mean_counts_every_question_alike() -> None:
    found = mean([(["a"], {"a"}), (["b"], {"a"})])

    assert (found.recall, found.ndcg) == (0.5, 0.5)


def test_a_twin_counts_as_the_page_it_equals_and_once() -> None:
    question = Question("which", frozenset({"a"}), {"copy-of-a": "a"})

    assert question.read(["x", "copy-of-a", "a"]) == ["x", "a"]


def test_the_plaintext_engines_find_what_says_the_word() -> None:
    pages = [Text("one", "The boats lie here."), Text("two", "Nothing of it."), Text("three", "一只猫坐在垫子上")]
    bm25, fts5 = plain_bm25(pages, "en"), Fts5(pages)

    assert bm25("a boat")[0] == fts5.search("a boat")[0] == "one"
    assert list(bm25("猫坐")) == ["three"]
    assert fts5.search("?!") == []
    fts5.close()


def test_ours_answers_the_small_set_at_least_as_well_as_plain_bm25() -> None:
    ours, bm25, _ = quality.measure(own_set(), None, lambda _: None)

    assert (ours.engine, bm25.engine) == (quality.OURS, quality.BM25)
    assert ours.quality.recall >= bm25.quality.recall - quality.ALLOWANCE
    assert ours.quality.ndcg >= bm25.quality.ndcg - quality.ALLOWANCE


def test_a_set_is_read_from_a_file_without_its_unanswerable_questions(tmp_path: Path) -> None:
    page = {"path": "a", "body": "text", "frontmatter": {"title": "A", "tags": ["x"], "type": "semantic"}}
    questions = [
        {"question": "one?", "gold": ["a"], "stratum": "qa", "gold_equiv": {"a": ["b"]}},
        {"question": "two?", "gold": [], "stratum": "negative"},
        {"question": "three?", "gold": ["a"], "stratum": "adversarial"},
    ]
    data = {"name": "tiny", "lang": "en", "pages": [page], "questions": questions}
    (tmp_path / "tiny.json").write_text(json.dumps(data))

    [tiny] = read_sets(tmp_path)

    assert tiny.pages == (Text("a", "text", "A", ("x",), "semantic"),)
    assert tiny.questions == (Question("one?", frozenset({"a"}), {"b": "a"}),)


def test_a_small_run_times_search_and_writes_its_figures(tmp_path: Path) -> None:
    output = tmp_path / "search.json"

    main(["search", "--only", "time", "--pages", "30", "--output", str(output)])

    [figure] = json.loads(output.read_text())["time"]
    assert figure["pages"] == 30
    assert figure["ours"]["cpu_ms"] > 0
    assert figure["fts5"]["cpu_ms"] > 0
    assert figure["index_bytes"] > 0
    assert figure["read_rows"] > 0


def test_growth_is_measured_for_each_call_at_each_size(tmp_path: Path) -> None:
    output = tmp_path / "growth.json"

    main(["growth", "--engine", "sqlite", "--pages", "30", "--pages", "40", "--output", str(output)])

    figures = json.loads(output.read_text())["sqlite"]
    assert {figure["pages"] for figure in figures} == {30, 40}
    assert len({figure["call"] for figure in figures}) == 5
    assert all(0 < figure["clock_ms"] <= figure["worst_ms"] for figure in figures)
