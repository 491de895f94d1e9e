"""The measurements' own parts: the made-up pages are the same everywhere, and the programs run to their end."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from bench.__main__ import main
from bench.corpus import BODY_BYTES, page, query
from bench.scene import quantile
from zkpcp.core.pages import draft


def test_pages_are_the_same_on_every_machine() -> None:
    text = "".join(repr(page(number)) + query(number, 10) for number in range(10))

    # Figures of two revisions compare only while this holds.
    assert (
        hashlib.sha256(text.encode()).hexdigest() == "2a48b6b0c4af1034397a2d8172fc78dd725533610d98e42e5a235ff2e11d7aed"
    )


def test_another_edition_is_another_text_at_the_same_path() -> None:
    first, second = page(41), page(41, edition=1)

    assert first.path == second.path
    assert first.body != second.body


def test_pages_are_acceptable_distinct_and_of_the_announced_size() -> None:
    pages = [page(number) for number in range(200)]

    for each in pages:
        arguments = each.arguments()
        assert (
            draft(each.path, each.body, {"title": each.title, "tags": list(each.tags)}).path.value == arguments["path"]
        )
    assert len({each.path for each in pages}) == len(pages)
    mean = sum(len(each.body.encode()) for each in pages) / len(pages)
    assert 0.9 * BODY_BYTES < mean < 1.1 * BODY_BYTES


def test_a_query_names_words_of_a_page_that_is_there() -> None:
    titles = {word for number in range(20) for word in page(number).title.split()}

    assert all(set(query(number, 20).split()[1:]) <= titles for number in range(50))


def test_a_quantile_is_a_value_that_was_measured() -> None:
    values = [float(value) for value in range(1, 101)]

    assert (quantile(values, 0.5), quantile(values, 0.99), quantile([7.0], 0.99)) == (50.0, 99.0, 7.0)


def test_a_smoke_run_measures_every_kind_of_call(tmp_path: Path) -> None:
    output = tmp_path / "bench.json"

    main(["--smoke", "--only", "http", "--output", str(output)])

    figures = json.loads(output.read_text(encoding="utf-8"))["http"]
    assert {(figure["kind"], figure["connections"]) for figure in figures} == {
        (kind, connections) for kind in ("echo", "read", "write", "search") for connections in (1, 8)
    }
    assert all(figure["per_s"] > 0 and 0 < figure["p50_ms"] <= figure["p99_ms"] for figure in figures)
