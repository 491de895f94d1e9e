"""The owner's pages, in process: who sees what, what every answer carries, and what an error gives away."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from urllib.parse import urljoin, urlsplit

import httpx2
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import HTTPConnection

from tests.support.page_server import (
    ConsentExample,
    ConsentScopeExample,
    NoLimiter,
    PageServer,
    add_failing_routes,
    add_test_routes,
    page_server,
)
from zkpcp.core.grants import SESSION_IDLE_S
from zkpcp.errors import RateLimitedError
from zkpcp.http.limits import MemoryLimiter, Rule, address_key
from zkpcp.http.pages.cookies import cookie_name
from zkpcp.http.pages.forms import local_path
from zkpcp.storage.schema import TABLES
from zkpcp.testing import FixedClock
from zkpcp.usecases.access import acting_as
from zkpcp.usecases.forget import delete_page
from zkpcp.usecases.grants import create_grant
from zkpcp.usecases.profile import get_profiles
from zkpcp.usecases.remember import write_page
from zkpcp.usecases.session import OpenSession, open_session, sign_in

PASSPHRASE = "four plain words here"
SET_UP = {
    "handle": "ada",
    "name": "Ada Example",
    "kind": "personal",
    "passphrase": PASSPHRASE,
    "passphrase_again": PASSPHRASE,
    "understood": "yes",
}


EXAMPLE = ConsentExample(
    client_name='Tool <i>"x"</i>',
    items=(
        ConsentScopeExample("memory:read", "Search, list and read memory pages."),
        ConsentScopeExample("memory.sensitive:read", "Read pages marked sensitive.", preticked=False, sensitive=True),
    ),
    not_requested=("Change pages marked sensitive.",),
)


@asynccontextmanager
async def browsing(server: PageServer, address: str = "192.0.2.1") -> AsyncIterator[httpx2.AsyncClient]:
    """A browser that sends forms from the server's own pages."""
    transport = httpx2.ASGITransport(app=server.app, client=(address, 50_000))
    headers = {"origin": server.origin, "sec-fetch-site": "same-origin", "accept": "text/html"}
    async with httpx2.AsyncClient(transport=transport, base_url=server.origin, headers=headers) as browser:
        yield browser


async def set_up(browser: httpx2.AsyncClient, **changes: str) -> httpx2.Response:
    return await browser.post("/set-up", data=SET_UP | changes)


@asynccontextmanager
async def owner(server: PageServer) -> AsyncIterator[OpenSession]:
    """Ada, signed in beside the browser."""
    services = server.web.services
    async with services.store.read() as tx:
        context = await tx.contexts.by_handle("ada")
    token = await sign_in(services, context, passphrase=PASSPHRASE)
    assert context is not None
    async with open_session(services, context, token) as session:
        yield session


def recovery_code(page: str) -> str:
    block = re.search(r'id="recovery-code".*?</p>', page, re.DOTALL)
    assert block is not None
    return "-".join(re.findall(r"<span>([0-9A-Z]{4})</span>", block[0]))


def form_token(page: str) -> str:
    match = re.search(r'name="form_token" value="([0-9a-f]+)"', page)
    assert match is not None
    return match[1]


def error_at(page: str, field: str) -> str:
    match = re.search(rf'id="{field}-error">(.*?)</p>', page)
    assert match is not None, f"no error at {field}"
    return unescape(match[1])


# ------------------------------------------------------------------------------------------------------------- set-up


async def test_the_root_of_an_empty_server_leads_to_set_up() -> None:
    async with browsing(page_server()) as browser:
        answer = await browser.get("/")

        assert (answer.status_code, answer.headers["location"]) == (303, "/set-up")


@pytest.mark.requirement("KEY-13")
async def test_set_up_says_that_nobody_can_restore_lost_keys_and_has_it_confirmed() -> None:
    server = page_server()
    async with browsing(server) as browser:
        form = await browser.get("/set-up")
        unconfirmed = await set_up(browser, understood="")

    assert "Nobody can restore my data" in form.text
    assert unconfirmed.status_code == 400
    assert "confirm" in error_at(unconfirmed.text, "understood")
    async with server.store.read() as tx:
        assert await tx.contexts.handles() == []


async def test_set_up_signs_the_owner_in_and_keeps_the_name_in_the_profile() -> None:
    server = page_server()
    async with browsing(server) as browser:
        answer = await set_up(browser)
        home = await browser.get("/c/ada/")

    assert (answer.status_code, home.status_code) == (200, 200)
    async with owner(server) as session:
        profiles = await get_profiles(server.web.services, acting_as(session))
    assert (profiles.by_namespace["profile.core"] or {})["name"] == "Ada Example"


@pytest.mark.requirement("KEY-13", "KEY-11")
async def test_the_recovery_code_is_shown_once_and_sets_a_new_passphrase() -> None:
    server = page_server(limiter=NoLimiter())
    async with browsing(server) as browser:
        shown = await set_up(browser)
        code = recovery_code(shown.text)
        again = [await browser.get(path) for path in ("/set-up", "/c/ada/", "/c/ada/log", "/c/ada/recover")]
        browser.cookies.clear()
        new = {
            "recovery_code": code.lower(),
            "passphrase": "quite other words",
            "passphrase_again": "quite other words",
        }
        recovered = await browser.post("/c/ada/recover", data=new)
        old = await browser.post("/c/ada/sign-in", data={"passphrase": PASSPHRASE})

    assert len(code) == 44
    assert shown.headers["cache-control"] == "no-store"
    assert code not in str(shown.headers)
    assert not any(code in answer.text or code[:9] in answer.text for answer in again)
    assert (recovered.status_code, old.status_code) == (303, 403)


async def test_what_was_typed_stays_and_secrets_do_not() -> None:
    async with browsing(page_server()) as browser:
        answer = await set_up(browser, passphrase_again="something else entirely", name='A "quoted" <name>')

    assert 'value="ada"' in answer.text
    assert 'value="A &#34;quoted&#34; &lt;name&gt;"' in answer.text
    assert PASSPHRASE not in answer.text
    assert "something else entirely" not in answer.text
    assert "not the same" in error_at(answer.text, "passphrase_again")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("handle", "-a"),
        ("handle", "x" * 64),
        ("name", ""),
        ("name", "x" * 257),
        ("kind", "club"),
        ("passphrase", "short"),
    ],
)
async def test_a_broken_rule_is_named_at_its_field(field: str, value: str) -> None:
    changes = {field: value} | ({"passphrase_again": value} if field == "passphrase" else {})
    async with browsing(page_server()) as browser:
        answer = await set_up(browser, **changes)

        assert answer.status_code == 400
        assert error_at(answer.text, field)


async def test_a_taken_handle_is_refused() -> None:
    async with browsing(page_server()) as browser:
        await set_up(browser)
        answer = await set_up(browser)

        assert "taken" in error_at(answer.text, "handle")


async def test_on_a_public_server_set_up_needs_the_printed_code_and_only_once() -> None:
    server = page_server("https://context.example", set_up_code="printed-at-the-start")
    async with browsing(server) as browser:
        without = await set_up(browser)
        wrong = await set_up(browser, set_up_code="guessed")
        right = await set_up(browser, set_up_code=" printed-at-the-start ")
        second = await set_up(browser, set_up_code="printed-at-the-start", handle="eve")

    assert [answer.status_code for answer in (without, wrong, right, second)] == [400, 400, 200, 400]


async def test_a_public_server_without_a_code_sets_nothing_up() -> None:
    async with browsing(page_server("https://context.example")) as browser:
        assert (await set_up(browser, set_up_code="")).status_code == 400


async def test_a_server_for_one_context_has_no_set_up_once_it_has_it() -> None:
    async with browsing(page_server(single_handle="ada")) as browser:
        first = await browser.get("/")
        made = await set_up(browser)
        home = await browser.get("/")
        later = [await browser.get("/set-up"), await set_up(browser)]

    assert first.headers["location"] == "/set-up"
    assert (made.status_code, home.status_code) == (200, 200)
    assert [answer.status_code for answer in later] == [404, 404]


async def test_the_root_of_a_server_with_contexts_names_none_of_them() -> None:
    async with browsing(page_server()) as browser:
        await set_up(browser, handle="ada-lovely")
        root = await browser.get("/")

    assert root.status_code == 200
    assert "ada-lovely" not in root.text


# ----------------------------------------------------------------------------------------------------------- sessions


async def test_a_wrong_passphrase_and_an_unknown_context_get_the_same_answer() -> None:
    async with browsing(page_server(limiter=NoLimiter())) as browser:
        await set_up(browser)
        browser.cookies.clear()
        wrong = await browser.post("/c/ada/sign-in", data={"passphrase": "not these words"})
        unknown = await browser.post("/c/eve/sign-in", data={"passphrase": "not these words"})

    assert wrong.status_code == unknown.status_code == 403
    assert wrong.text.replace("ada", "…") == unknown.text.replace("eve", "…")
    assert "set-cookie" not in wrong.headers


async def test_signing_in_leads_back_and_signing_out_ends_it() -> None:
    server = page_server()
    async with browsing(server) as browser:
        await set_up(browser)
        browser.cookies.clear()
        asked = await browser.get("/c/ada/log?cursor=x")
        form = await browser.get(asked.headers["location"])
        signed_in = await browser.post("/c/ada/sign-in", data={"passphrase": PASSPHRASE, "next": "/c/ada/log?cursor=x"})
        cookies = dict(browser.cookies)
        home = await browser.get("/c/ada/")
        signed_out = await browser.post("/c/ada/sign-out", data={"form_token": form_token(home.text)})
        browser.cookies.update(cookies)
        stolen = await browser.get("/c/ada/")

    assert asked.headers["location"] == "/c/ada/sign-in?next=%2Fc%2Fada%2Flog%3Fcursor%3Dx"
    assert 'name="next" value="/c/ada/log?cursor=x"' in form.text
    assert signed_in.headers["location"] == "/c/ada/log?cursor=x"
    assert home.status_code == 200
    assert "Max-Age=0" in signed_out.headers["set-cookie"]
    assert stolen.headers["location"].startswith("/c/ada/sign-in")


async def test_the_base_without_its_slash_leads_to_the_home_page() -> None:
    async with browsing(page_server()) as browser:
        assert (await browser.get("/c/ada")).headers["location"] == "/c/ada/"


async def test_an_idle_session_ends() -> None:
    server = page_server()
    async with browsing(server) as browser:
        await set_up(browser)
        server.clock.advance(SESSION_IDLE_S * 1000)
        answer = await browser.get("/c/ada/")

        assert answer.headers["location"].startswith("/c/ada/sign-in")


async def test_the_session_of_one_context_opens_no_other() -> None:
    server = page_server()
    async with browsing(server) as browser:
        await set_up(browser)
        mine = browser.cookies[cookie_name("ada", secure=False)]
        browser.cookies.clear()
        await set_up(browser, handle="eve")
        browser.cookies.clear()
        browser.cookies[cookie_name("eve", secure=False)] = mine
        answer = await browser.get("/c/eve/")

        assert answer.headers["location"].startswith("/c/eve/sign-in")


async def test_the_cookie_is_tied_to_its_host_on_https() -> None:
    server = page_server("https://context.example", set_up_code="c")
    async with browsing(server) as browser:
        cookie = (await set_up(browser, set_up_code="c")).headers["set-cookie"]

    assert cookie.startswith("__Host-zkpcp_ada=pcp_st_")
    assert {"HttpOnly", "Secure", "Path=/", "SameSite=lax"} <= set(cookie.split("; "))
    assert "Domain" not in cookie


@pytest.mark.requirement("SEC-01", "SEC-02")
async def test_guessing_is_slowed_for_the_account_and_address_and_for_nobody_else() -> None:
    server = page_server()
    async with browsing(server) as attacker, browsing(server, "198.51.100.7") as owner:
        await set_up(owner)
        guesses = [await attacker.post("/c/ada/sign-in", data={"passphrase": "a wrong guess"}) for _ in range(12)]
        mine = await owner.post("/c/ada/sign-in", data={"passphrase": PASSPHRASE})

    refused = guesses[-1]
    assert guesses[0].status_code == 403
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["retry-after"]) <= 3600
    assert "Too many attempts" in refused.text
    assert mine.status_code == 303


@pytest.mark.requirement("SEC-01")
async def test_a_limit_counts_each_set_of_keys_by_itself() -> None:
    limiter, rule = MemoryLimiter(FixedClock(0)), Rule("example", 1, 3600 * 24 * 365)

    await limiter.hit(rule, "a", "b")
    await limiter.hit(rule, "ab", "")
    await limiter.hit(rule, "a/b")

    with pytest.raises(RateLimitedError):
        await limiter.hit(rule, "a", "b")


@pytest.mark.parametrize(
    ("host", "key"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("nonsense", "unknown"),
    ],
)
def test_addresses_are_counted_by_subscriber(host: str, key: str) -> None:
    assert address_key(HTTPConnection({"type": "http", "client": (host, 1), "headers": []})) == key


# ------------------------------------------------------------------------------------------------ where a form may lead


@given(st.text(alphabet="/\\.:@%2eEc?#a\t\n-", max_size=30))
def test_a_sign_in_never_leads_to_another_site_or_out_of_the_context(text: str) -> None:
    path = local_path(text, "/c/ada")

    if path is not None:
        joined = urlsplit(urljoin("https://context.example/c/ada/sign-in", path))
        assert joined.netloc == "context.example"
        assert joined.path.startswith("/c/ada/")


def test_a_sign_in_leads_back_to_an_authorization_request_as_a_client_sends_it() -> None:
    path = '/c/ada/authorize?redirect_uri=http://[::1]:7/cb&scope=%20memory:read&state={"a"|1}'

    assert local_path(path, "/c/ada") == path


@pytest.mark.parametrize(
    "text", ["", "//evil.example", "/\\evil.example", "https://evil.example/c/ada/", "/c/eve/", "/c/ada/%2e%2E/eve/"]
)
def test_these_are_no_places_to_go_after_signing_in(text: str) -> None:
    assert local_path(text, "/c/ada") is None


# ------------------------------------------------------------------------------------------- headers and forged forms


@pytest.mark.requirement("SEC-03", "AUTH-41")
async def test_every_page_says_no_framing_no_foreign_content_no_storing() -> None:
    server = page_server()
    add_failing_routes(server)
    add_test_routes(server, EXAMPLE, "http://127.0.0.1:1/callback?code=x")
    paths = [
        "/set-up", "/", "/docs", "/docs/metadata", "/c/ada/", "/c/ada/sign-in", "/c/ada/recover", "/c/ada/pages",
        "/c/ada/log", "/example/consent", "/no/such/page", "/c/ada/pages/none", "/fail/page/unexpected",
    ]  # fmt: skip
    async with browsing(server) as browser:
        answers = [await set_up(browser)] + [await browser.get(path) for path in paths]
        answers.append(await browser.post("/example/decide"))

    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "form-action 'self'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "style=" not in answer.text
        assert "<script" not in answer.text
        assert "strict-transport-security" not in answer.headers


@pytest.mark.requirement("SEC-03")
async def test_https_is_remembered_by_the_browser() -> None:
    async with browsing(page_server("https://context.example")) as browser:
        assert "max-age" in (await browser.get("/docs")).headers["strict-transport-security"]


@pytest.mark.requirement("AUTH-41")
@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "same-origin", "origin": "null"},
        {"sec-fetch-site": "same-origin", "host": "rebound.example"},
    ],
)
async def test_a_form_from_elsewhere_changes_nothing(headers: dict[str, str]) -> None:
    server = page_server()
    async with browsing(server) as browser:
        answer = await browser.post("/set-up", data=SET_UP, headers=headers)

        assert answer.status_code == 403
    async with server.store.read() as tx:
        assert await tx.contexts.handles() == []


@pytest.mark.requirement("AUTH-41")
@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 403), ({"origin": "https://evil.example"}, 403), ({"origin": "http://localhost:8000"}, 200)],
)
async def test_a_browser_without_fetch_metadata_has_to_name_our_origin(headers: dict[str, str], status: int) -> None:
    server = page_server()
    transport = httpx2.ASGITransport(app=server.app)
    async with httpx2.AsyncClient(transport=transport, base_url=server.origin, headers=headers) as browser:
        assert (await set_up(browser)).status_code == status


@pytest.mark.requirement("AUTH-41")
@pytest.mark.parametrize("path", ["/c/ada/disconnect", "/c/ada/sign-out"])
async def test_a_form_of_another_session_is_refused(path: str) -> None:
    async with browsing(page_server()) as browser:
        await set_up(browser)

        assert (await browser.post(path, data={"form_token": "0" * 32, "grant_id": "grt_x"})).status_code == 403
        assert (await browser.get("/c/ada/")).status_code == 200


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        ("application/json", b"{}", 400),
        ("multipart/form-data; boundary=x", b"--x--", 400),
        ("application/x-www-form-urlencoded", b"a=%ff", 400),
        ("application/x-www-form-urlencoded", b"handle=a&handle=b", 400),
        ("application/x-www-form-urlencoded", b"&".join([b"a=b"] * 200), 400),
        ("application/x-www-form-urlencoded", b"a=" + b"b" * 70_000, 413),
    ],
)
async def test_bytes_that_are_no_form_are_refused_quietly(content_type: str, body: bytes, status: int) -> None:
    async with browsing(page_server()) as browser:
        answer = await browser.post("/set-up", content=body, headers={"content-type": content_type})

        assert answer.status_code == status


# --------------------------------------------------------------------------------------------------------- the pages


@pytest.mark.requirement("AUD-01")
async def test_the_home_page_lists_grants_and_ends_one() -> None:
    server = page_server()
    async with browsing(server) as browser:
        await set_up(browser)
        async with owner(server) as session:
            made = await create_grant(server.web.services, session, client_name="My <script>", scopes="memory:read")
        before = await browser.get("/c/ada/")
        ended = await browser.post(
            "/c/ada/disconnect", data={"form_token": form_token(before.text), "grant_id": made.grant_id}
        )
        after = await browser.get("/c/ada/")

    assert "My &lt;script&gt;" in before.text
    assert made.grant_id in before.text
    assert "Search, list and read memory pages" in before.text
    assert ended.headers["location"] == "/c/ada/"
    assert made.grant_id not in after.text


async def test_the_owner_reads_memory_pages_as_text() -> None:
    server = page_server()
    async with browsing(server) as browser:
        await set_up(browser)
        async with owner(server) as session:
            await write_page(
                server.web.services, acting_as(session), path="notes/walks", body="# Walks & <b>hills</b>\n"
            )
        listed = await browser.get("/c/ada/pages")
        link = re.search(r'href="(/c/ada/pages/[^"?]+)"', listed.text)
        assert link is not None
        page = await browser.get(link[1])

    assert "notes" not in link[1]
    assert "Walks &amp; &lt;b&gt;hills&lt;/b&gt;" in page.text
    assert "<b>hills" not in page.text


async def test_the_log_shows_acts() -> None:
    async with browsing(page_server()) as browser:
        await set_up(browser)
        log = await browser.get("/c/ada/log")

        assert "context.created" in log.text
        assert "sign_in" in log.text


@pytest.mark.requirement("KEY-01")
async def test_the_metadata_page_names_every_column_of_the_database() -> None:
    async with browsing(page_server()) as browser:
        page = unescape((await browser.get("/docs/metadata")).text)

    for name, columns in TABLES.items():
        assert name in page
        for column, meaning in columns.items():
            assert column in page
            assert meaning in page


# -------------------------------------------------------------------------------------------------- consent, redirect


@pytest.mark.requirement("AUTH-39")
async def test_the_consent_page_says_who_asks_for_what_in_which_context() -> None:
    server = page_server()
    add_test_routes(server, EXAMPLE, "http://127.0.0.1:1/callback")
    async with browsing(server) as browser:
        page = (await browser.get("/example/consent")).text

    boxes = re.findall(r'<input type="checkbox" name="scope" value="([^"]+)"( checked)?', page)
    assert boxes == [("memory:read", " checked"), ("memory.sensitive:read", "")]
    assert "Tool &lt;i&gt;&#34;x&#34;&lt;/i&gt;" in page
    for text in (
        "given by the app itself", "127.0.0.1:33418", "An app on this computer", "personal context", "human:owner",
        "Not requested", "Change pages marked sensitive.", "Allowing", "Disconnecting", 'value="one-time"',
    ):  # fmt: skip
        assert text in page


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://localhost:7/cb?code=a&state=%22b", "localhost:7"),
        ("https://app.example/cb", "app.example"),
        ("cursor://x/cb", "x"),
    ],
)
async def test_the_redirect_page_leads_to_exactly_that_address(url: str, target: str) -> None:
    answer = page_server().web.pages.redirect_page(url)
    page = bytes(answer.body).decode()

    assert answer.status_code == 200
    assert answer.headers["referrer-policy"] == "no-referrer"
    refresh, link = re.search(r'content="0;url=([^"]*)"', page), re.search(r'<a href="([^"]*)" rel', page)
    assert refresh is not None
    assert link is not None
    assert unescape(refresh[1]) == unescape(link[1]) == url
    assert f"<strong>{target}</strong>" in page
    assert ("close this tab" in page) == url.startswith("http://")


# -------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.requirement("SEC-12")
@pytest.mark.parametrize("form", ["page", "json"])
@pytest.mark.parametrize(("kind", "status"), [("unexpected", 500), ("damage", 500), ("away", 503)])
async def test_a_failure_gives_away_a_number_and_nothing_else(form: str, kind: str, status: int) -> None:
    server = page_server()
    add_failing_routes(server)
    async with browsing(server) as browser:
        with structlog.testing.capture_logs() as lines:
            answer = await browser.get(f"/fail/{form}/{kind}")

    assert answer.status_code == status
    assert answer.headers["content-type"].startswith("text/html" if form == "page" else "application/json")
    assert "secret word" not in answer.text + str(lines)
    if status == 500:
        assert lines[0]["incident"] in answer.text
        assert set(lines[0]) == {"incident", "error", "event", "log_level"}


async def test_an_unknown_address_is_json_to_programs_and_below_well_known() -> None:
    async with browsing(page_server()) as browser:
        answers = [
            await browser.get("/nothing", headers={"accept": "*/*"}),
            await browser.get("/.well-known/nothing"),
            await browser.get("/nothing"),
        ]

    kinds = [answer.headers["content-type"].partition(";")[0] for answer in answers]
    assert [answer.status_code for answer in answers] == [404, 404, 404]
    assert kinds == ["application/json", "application/json", "text/html"]


@pytest.mark.requirement("ERA-07")
async def test_the_owner_puts_a_deleted_page_back() -> None:
    server = page_server()
    async with browsing(server) as browser:
        await set_up(browser)
        async with owner(server) as session:
            who = acting_as(session)
            await write_page(server.web.services, who, path="notes/tea", body="two spoons of assam")
            await delete_page(server.web.services, who, path="notes/tea")
        assert "Tea" not in (await browser.get("/c/ada/pages")).text
        listed = await browser.get("/c/ada/deleted")
        page_id = re.findall(r'name="page_id" value="([^"]+)"', listed.text)[0]
        answer = {"form_token": form_token(listed.text), "page_id": page_id}
        back = await browser.post("/c/ada/deleted", data=answer)
        shown = await browser.get(back.headers["location"])

    assert "two spoons of assam" in shown.text


@pytest.mark.requirement("AUTH-41")
async def test_the_owner_looks_at_earlier_versions_and_puts_one_back() -> None:
    server = page_server()
    async with browsing(server) as browser:
        await set_up(browser)
        async with owner(server) as session:
            who = acting_as(session)
            written = [
                await write_page(server.web.services, who, path="notes/tea", body=body)
                for body in ("two spoons of assam", "one spoon of darjeeling", "no tea at all")
            ]
        page = f"/c/ada/pages/{written[0].page_id}"
        links = re.findall(r'href="([^"]+)"', (await browser.get(page)).text)
        listed = await browser.get(f"{page}/history")
        shown = await browser.get(f"{page}/history/1")
        missing = [await browser.get(f"{page}/history/{number}") for number in ("3", "0", "x", "99999999999")]
        answer = {"form_token": form_token(listed.text), "number": "1", "current": "3"}
        refused = await browser.post(f"{page}/history", data=answer | {"form_token": "0" * 64})
        unclear = await browser.post(f"{page}/history", data=answer | {"current": ""})
        back = await browser.post(f"{page}/history", data=answer)
        again = await browser.post(f"{page}/history", data=answer)
        newest = await browser.get(back.headers["location"])
        after = await browser.get(f"{page}/history")

    assert f"{page}/history" in links
    # Addresses hold ids and numbers, never a title or path.
    assert "tea" not in " ".join(re.findall(r'(?:href|action)="([^"]+)"', listed.text + shown.text))
    assert re.findall(r'<li value="(\d)">', listed.text) == ["3", "2", "1"]
    assert re.findall(r'aria-label="Put version (\d) back"', listed.text) == ["2", "1"]
    assert "two spoons of assam" in shown.text
    assert [answer.status_code for answer in missing] == [404] * 4
    assert [refused.status_code, unclear.status_code, back.status_code, again.status_code] == [403, 400, 303, 409]
    assert "two spoons of assam" in newest.text
    assert re.findall(r'<li value="(\d)">', after.text) == ["4", "3", "2", "1"]


async def test_a_page_without_earlier_versions_says_so() -> None:
    server = page_server()
    async with browsing(server) as browser:
        await set_up(browser)
        async with owner(server) as session:
            written = await write_page(server.web.services, acting_as(session), path="notes/tea", body="none")
        listed = await browser.get(f"/c/ada/pages/{written.page_id}/history")
        missing = await browser.get("/c/ada/pages/pg_nobody/history")

    assert "No earlier version of this page is kept." in listed.text
    assert missing.status_code == 404


async def test_the_owner_has_the_search_index_made_again() -> None:
    server = page_server()
    async with browsing(server) as browser:
        await set_up(browser)
        async with owner(server) as session:
            await write_page(server.web.services, acting_as(session), path="notes/tea", body="two spoons of assam")
        listed = await browser.get("/c/ada/pages")
        refused = await browser.post("/c/ada/pages", data={"form_token": "x"})
        made = await browser.post("/c/ada/pages", data={"form_token": form_token(listed.text)})
        entries = (await browser.get("/c/ada/log")).text

    assert refused.status_code == 403
    assert made.status_code == 303
    assert "index" in entries
