"""Setting up: who may where the server can be reached by others, how often, and what a failure leaves behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.flows.test_pages import browsing, recovery_code, set_up
from tests.support.page_server import NoLimiter, page_server
from zkpcp.cli import server as serve_command
from zkpcp.cli.terminal import database_for_people
from zkpcp.config import load_settings
from zkpcp.errors import UnavailableError
from zkpcp.http.pages import set_up as set_up_page

CODE = "ABCDEFGHIJKLMNOP"


@pytest.mark.parametrize(("host", "asks"), [("0.0.0.0", True), ("::", True), ("127.0.0.1", False)])  # noqa: S104 - not bound
@pytest.mark.requirement("SEC-05")
def test_a_server_that_listens_to_others_asks_for_the_code_whatever_it_is_called(
    host: str, asks: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    codes: list[str | None] = []

    async def noted(_: object, *, set_up_code: str | None) -> None:
        codes.append(set_up_code)

    monkeypatch.setenv("ZKPCP_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(serve_command, "run_server", noted)
    monkeypatch.setattr(serve_command, "prepare_database_apart", lambda _: None)
    monkeypatch.setattr(serve_command, "forbid_dumps", lambda: None)

    serve_command.serve(host=host)

    assert [code is not None for code in codes] == [asks]


async def test_a_loopback_address_with_a_code_is_no_way_round_it() -> None:
    async with browsing(page_server(set_up_code=CODE, limiter=NoLimiter())) as browser:
        without = await set_up(browser)
        right = await set_up(browser, set_up_code=CODE)

        assert (without.status_code, right.status_code) == (400, 200)


@pytest.mark.requirement("SEC-05")
async def test_one_code_sets_up_one_context_though_many_use_it_at_once() -> None:
    server = page_server("https://memory.example", set_up_code=CODE, limiter=NoLimiter())
    async with browsing(server) as browser:
        answers = await asyncio.gather(*(set_up(browser, handle=f"ada{n}", set_up_code=CODE) for n in range(4)))

        async with server.store.read() as tx:
            handles = await tx.contexts.handles()
    assert sorted(answer.status_code for answer in answers) == [200, 400, 400, 400]
    assert len(handles) == 1


async def test_a_code_whose_set_up_failed_is_still_good() -> None:
    server = page_server("https://memory.example", set_up_code=CODE, limiter=NoLimiter())
    async with browsing(server) as browser:
        weak = await set_up(browser, set_up_code=CODE, passphrase="short", passphrase_again="short")
        good = await set_up(browser, set_up_code=CODE)

        assert (weak.status_code, good.status_code) == (400, 200)
        assert "recovery-code" not in weak.text
        assert recovery_code(good.text)


@pytest.mark.requirement("KEY-13")
async def test_the_recovery_code_is_shown_though_signing_in_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object, **__: object) -> None:
        raise UnavailableError("the database is busy")

    monkeypatch.setattr(set_up_page, "sign_in", away)
    async with browsing(page_server(limiter=NoLimiter())) as browser:
        answer = await set_up(browser)

        assert answer.status_code == 200
        assert len(recovery_code(answer.text)) == 44
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:willow@db.example/zkpcp",
        "postgresql:///zkpcp?host=db.example&user=ada&password=willow",
        "postgresql://ada:wil%40low@db.example/zkpcp?password=willow",
    ],
)
@pytest.mark.requirement("SEC-12")
def test_what_is_printed_of_the_database_holds_no_password(url: str) -> None:
    shown = database_for_people(load_settings(database_url=url))

    assert "low" not in shown
    assert shown.startswith("postgresql://")
