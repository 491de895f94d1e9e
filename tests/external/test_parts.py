"""The parts of the conformance run that could make it pass by mistake."""

from __future__ import annotations

import pytest
import yaml  # type: ignore[import-untyped]  # the package ships no types

from tests.external.bearer_proxy import Rewrite
from tests.external.browser import Page
from tests.external.install import HERE
from tests.external.suite import REVISIONS, Check, judge

PASSES = Check("tools-list:names", "SUCCESS", "")
FAILS = Check("prompts-list:prompts-list", "FAILURE", "no prompts")
WARNS = Check("sse:streams", "WARNING", "no streams")


def test_what_fails_outside_the_baseline_is_a_problem() -> None:
    assert judge("suite", [PASSES, FAILS], frozenset(), 1).problems == ("prompts-list:prompts-list: no prompts",)
    assert judge("suite", [PASSES, WARNS], frozenset(), 0).problems == ("sse:streams: no streams",)


def test_what_fails_inside_the_baseline_is_none() -> None:
    finding = judge("suite", [PASSES, FAILS], frozenset({FAILS.name}), 0)
    assert finding.passed
    assert finding.baselined == (FAILS.name,)


@pytest.mark.parametrize("entry", [PASSES.name, "gone:gone"])
def test_a_baseline_entry_that_does_not_fail_is_a_problem(entry: str) -> None:
    assert not judge("suite", [PASSES], frozenset({entry}), 0).passed


def test_a_run_without_a_passing_check_or_with_a_bad_end_is_a_problem() -> None:
    assert not judge("suite", [], frozenset(), 0).passed
    assert not judge("suite", [PASSES], frozenset(), 124).passed


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_group_of_a_baseline_begins_with_its_reason(revision: str) -> None:
    text = (HERE / f"baseline-{revision}.yml").read_text(encoding="utf-8")
    entries = yaml.safe_load(text)["server"]
    assert len(set(entries)) == len(entries)
    assert all(":" in entry for entry in entries)
    groups = text.partition("server:\n")[2].split("\n\n")
    assert all(group.startswith("  # ") for group in groups)


def test_the_proxy_changes_the_token_the_connection_and_its_own_port_only() -> None:
    rewrite = Rewrite(own_port=4000, server_port=5000, token="t0ken")
    head = (
        b"POST /c/me/mcp?x=:4000 HTTP/1.1\r\nHost: 127.0.0.1:4000\r\nORIGIN:  http://evil.example:4000\r\n"
        b"authorization: Bearer other\r\nX-Odd:\tvalue :4000 \r\nConnection: keep-alive\r\n\r\n"
    )
    assert rewrite.head(head) == (
        b"POST /c/me/mcp?x=:4000 HTTP/1.1\r\nHost: 127.0.0.1:5000\r\nORIGIN:  http://evil.example:5000\r\n"
        b"X-Odd:\tvalue :4000 \r\nAuthorization: Bearer t0ken\r\nConnection: close\r\n\r\n"
    )


def test_the_browser_sends_what_is_ticked_and_no_button() -> None:
    page = Page(
        '<form method="post" action="/consent"><input type="hidden" name="request" value="a&amp;b">'
        '<input type="checkbox" name="scope" value="one" checked><input type="checkbox" name="scope" value="two">'
        '<button name="decision" value="deny">No</button></form>'
    )
    form = page.form_with("decision")
    assert form is not None
    assert (form.action, form.fields) == ("/consent", [("request", "a&b"), ("scope", "one")])
