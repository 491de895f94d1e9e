"""From an authorization request to a person's answer."""

from __future__ import annotations

import html
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.flows.oauth_support import (
    HANDLE,
    ORIGIN,
    PASSPHRASE,
    REDIRECT_URI,
    boxes,
    challenge,
    hidden,
    leaving,
    oauth_server,
)
from zkpcp.core.audit import Action, Outcome
from zkpcp.core.grants import PENDING_AUTHORIZATION_S
from zkpcp.core.scopes import known_scopes
from zkpcp.testing import MemoryStore
from zkpcp.usecases.housekeeping import sweep
from zkpcp.usecases.session import sign_in

SENSITIVE = "memory.sensitive:read"


@pytest.mark.requirement("AUTH-39")
async def test_the_page_shows_who_asks_for_what_and_who_answers() -> None:
    server = await oauth_server()
    client_id = await server.client_id(client_name="Ex <b>ample")

    page = await server.ask(client_id, scope="profile.core:read memory:read")

    assert page.status_code == 200
    for shown in ("Ex &lt;b&gt;ample", "app.example", HANDLE, "personal", "human:owner", "Nobody has checked"):
        assert shown in page.text
    assert "<b>ample" not in page.text
    assert boxes(page) == {"profile.core:read": True, "memory:read": True}
    known, (asked, others) = known_scopes(server.context.offer), page.text.split("Not requested")
    for scope in ("profile.core:read", "memory:read"):
        assert html.escape(known[scope].sentence) in asked
    sensitive = [info.sentence for info in known.values() if info.sensitive]
    assert sensitive
    assert all(html.escape(sentence) in others for sentence in sensitive)
    # Under user custody: what both answers do to keys, and what they cannot do.
    for meaning in ("makes keys for this app that open exactly what is ticked", "deletes the app's keys at once"):
        assert meaning in others
    assert "cannot be taken back" in others


@pytest.mark.requirement("AUTH-39")
async def test_every_scope_there_is_has_a_sentence_and_a_box_of_its_own_on_the_page() -> None:
    server = await oauth_server()
    known = known_scopes(server.context.offer)

    page = await server.ask(await server.client_id(), scope=" ".join(known))

    assert set(boxes(page)) == set(known)
    assert len({info.sentence for info in known.values()}) == len(known)
    for info in known.values():
        assert html.escape(info.sentence) in page.text
        assert boxes(page)[info.name] is not info.sensitive
    assert "Not requested" not in page.text


@pytest.mark.requirement("AUTH-39")
async def test_the_page_of_a_work_context_names_its_kind_and_who_controls_it() -> None:
    server = await oauth_server(kind="work")

    page = await server.ask(await server.client_id())

    assert "a work context controlled by <code>human:owner</code>" in page.text


@pytest.mark.requirement("AUTH-39")
async def test_a_sensitive_scope_is_not_ticked_beforehand() -> None:
    server = await oauth_server()

    page = await server.ask(await server.client_id(), scope=f"memory:read {SENSITIVE}")

    assert boxes(page) == {"memory:read": True, SENSITIVE: False}


@pytest.mark.requirement("AUTH-41")
async def test_the_page_can_be_neither_framed_nor_kept() -> None:
    server = await oauth_server()

    page = await server.ask(await server.client_id())

    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert page.headers["x-frame-options"] == "DENY"
    assert page.headers["cache-control"] == "no-store"


@pytest.mark.requirement("AUTH-34", "AUTH-40")
async def test_approval_sends_a_code_with_state_and_issuer_to_the_client() -> None:
    server = await oauth_server()

    answer = await server.decide(await server.ask(await server.client_id()))

    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    left = leaving(answer)
    assert left.url.startswith(f"{REDIRECT_URI}?")
    assert left.parameters["state"] == "st-1"
    assert left.parameters["iss"] == server.base
    assert left.parameters["code"].startswith("pcp_ac_")
    assert [grant.scopes for grant in await server.grants()] == [("profile.core:read", "memory:read", "offline_access")]
    assert Action.GRANT_CREATED in await server.actions()


@pytest.mark.requirement("AUTH-34", "AUTH-40")
async def test_a_refusal_gives_nothing_and_says_so_to_the_client() -> None:
    server = await oauth_server()

    answer = await server.decide(await server.ask(await server.client_id()), "deny")

    left = leaving(answer)
    assert left.parameters == {
        "error": "access_denied",
        "error_description": "the request was declined",
        "state": "st-1",
        "iss": server.base,
    }
    assert await server.grants() == []
    assert (await server.entries())[-1].outcome is Outcome.DENIED


@pytest.mark.requirement("AUTH-39")
async def test_a_declined_scope_is_not_granted() -> None:
    server = await oauth_server()
    page = await server.ask(await server.client_id(), scope="profile.core:read memory:read memory:write offline_access")

    await server.decide(page, untick=["memory:write", "offline_access"])

    [grant] = await server.grants()
    assert grant.scopes == ("profile.core:read", "memory:read")
    assert not grant.refreshable


@pytest.mark.requirement("AUTH-39")
async def test_a_scope_that_was_not_asked_for_cannot_be_ticked_into_a_grant() -> None:
    server = await oauth_server()
    page = await server.ask(await server.client_id(), scope="memory:read")

    await server.send_consent(hidden(page, "request"), ["memory:read", "memory:write", SENSITIVE, "bogus"])

    assert [grant.scopes for grant in await server.grants()] == [("memory:read",)]


@pytest.mark.requirement("AUTH-39", "AUTH-40")
@pytest.mark.parametrize("left_over", [[], ["offline_access"], [SENSITIVE], [SENSITIVE, "offline_access"]])
async def test_when_nothing_that_opens_anything_stays_ticked_access_is_denied(left_over: list[str]) -> None:
    server = await oauth_server()
    page = await server.ask(await server.client_id(), scope=f"memory:read {SENSITIVE} offline_access")

    answer = await server.send_consent(hidden(page, "request"), left_over)

    assert leaving(answer).parameters["error"] == "access_denied"
    assert await server.grants() == []


@pytest.mark.requirement("AUTH-40", "AUTH-41")
async def test_a_request_is_answered_once() -> None:
    server = await oauth_server()
    page = await server.ask(await server.client_id())
    await server.decide(page)

    for decision in ("allow", "deny"):
        again = await server.decide(page, decision)
        assert again.status_code == 404
        assert "location" not in again.headers
    assert len(await server.grants()) == 1


@pytest.mark.requirement("AUTH-40", "AUTH-41")
async def test_a_request_belongs_to_the_session_that_saw_it() -> None:
    server = await oauth_server()
    page = await server.ask(await server.client_id())
    other = await sign_in(server.services, server.context, passphrase=PASSPHRASE)

    answer = await server.decide(page, cookie=f"__Host-zkpcp_{HANDLE}={other.text()}")

    assert answer.status_code == 404
    assert await server.grants() == []


@pytest.mark.requirement("AUTH-40")
async def test_a_request_waits_a_quarter_of_an_hour_and_no_longer() -> None:
    server = await oauth_server()
    page = await server.ask(await server.client_id())

    server.clock.advance(PENDING_AUTHORIZATION_S * 1000 - 60_000)
    keep_alive = await server.ask(await server.client_id())
    server.clock.advance(60_000)

    assert (await server.decide(page)).status_code == 404
    assert (await server.decide(keep_alive)).status_code == 200


@pytest.mark.requirement("AUTH-41")
@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "none"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": f"{ORIGIN}.evil.example", "sec_fetch_site": "same-origin"},
    ],
)
async def test_a_form_of_another_site_is_not_an_answer(headers: dict[str, str]) -> None:
    server = await oauth_server()
    page = await server.ask(await server.client_id())

    answer = await server.decide(page, **headers)

    assert answer.status_code == 403
    assert await server.grants() == []


@pytest.mark.requirement("AUTH-41")
@pytest.mark.parametrize("secret", ["", "x", "pcp_ac_" + "A" * 43])
async def test_a_form_without_the_pages_secret_is_not_an_answer(secret: str) -> None:
    server = await oauth_server()
    await server.ask(await server.client_id())

    answer = await server.send_consent(secret, ["memory:read"])

    assert answer.status_code in (400, 404)
    assert await server.grants() == []


@pytest.mark.requirement("AUTH-40")
async def test_connecting_again_asks_again_and_makes_another_grant() -> None:
    server = await oauth_server()
    client_id = await server.client_id()
    await server.tokens(client_id)

    page = await server.ask(client_id)

    assert boxes(page)
    await server.decide(page)
    assert len(await server.grants()) == 2


async def test_somebody_who_is_not_signed_in_signs_in_and_comes_back_to_the_same_request() -> None:
    server = await oauth_server()
    url = server.authorize_url(await server.client_id())

    async with server.http() as browser:
        sent_away = await browser.get(url)
        assert sent_away.status_code == 303
        back = parse_qs(urlsplit(sent_away.headers["location"]).query)["next"][0]
        assert f"{ORIGIN}{back}" == url
        form = await browser.get(sent_away.headers["location"])
        came_back = await browser.post(
            f"{server.base}/sign-in",
            data={"passphrase": PASSPHRASE, "next": hidden(form, "next")},
            headers={"origin": ORIGIN, "sec-fetch-site": "same-origin"},
        )
        assert came_back.status_code == 303
        page = await browser.get(came_back.headers["location"])

    assert boxes(page) == {"profile.core:read": True, "memory:read": True, "offline_access": True}


async def test_no_secret_of_the_page_stands_in_a_url() -> None:
    server = await oauth_server()
    page = await server.ask(await server.client_id())

    assert hidden(page, "request") not in str(page.url)
    assert page.history == []
    assert page.text.count(hidden(page, "request")) == 1


@pytest.mark.requirement("AUTH-22")
@pytest.mark.parametrize(
    "changes",
    [
        {"client_id": "dcr_unknown"},
        {"client_id": None},
        {"redirect_uri": None},
        {"redirect_uri": "https://evil.example/callback"},
        {"redirect_uri": f"{REDIRECT_URI}/"},
        {"redirect_uri": "javascript:alert(1)"},
    ],
)
async def test_nothing_is_redirected_before_client_and_redirect_are_trusted(changes: dict[str, str | None]) -> None:
    server = await oauth_server()
    client_id = await server.client_id()

    answer = await server.get(server.authorize_url(client_id, **changes), signed_in=True)

    assert answer.status_code == 400
    assert "location" not in answer.headers
    assert "evil.example" not in answer.text


@pytest.mark.requirement("AUTH-21", "AUTH-24", "AUTH-34")
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"code_challenge": "ä" * 43}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"response_type": None}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_mode": "fragment"}, "invalid_request"),
        ({"resource": "https://evil.example/mcp"}, "invalid_target"),
        ({"resource": f"{ORIGIN}/"}, "invalid_target"),
        ({"resource": f"{ORIGIN}/c/bob/mcp"}, "invalid_target"),
    ],
)
async def test_other_errors_go_to_the_client_with_state_and_issuer(changes: dict[str, str | None], error: str) -> None:
    server = await oauth_server()

    answer = await server.get(server.authorize_url(await server.client_id(), **changes))

    assert answer.status_code == 302
    left = leaving(answer)
    assert left.url.startswith(f"{REDIRECT_URI}?")
    assert left.parameters["error"] == error
    assert left.parameters["state"] == "st-1"
    assert left.parameters["iss"] == server.base
    assert left.parameters["error_description"].isascii()


@pytest.mark.requirement("AUTH-21", "AUTH-24")
@pytest.mark.parametrize(
    ("name", "error"),
    [("scope", "invalid_request"), ("code_challenge", "invalid_request"), ("resource", "invalid_target")],
)
async def test_a_repeated_parameter_is_refused(name: str, error: str) -> None:
    server = await oauth_server()
    url = server.authorize_url(await server.client_id())
    value = {"scope": "memory:read", "code_challenge": challenge("w" * 43), "resource": f"{server.base}/mcp"}[name]

    answer = await server.get(f"{url}&{name}={value}")

    assert leaving(answer).parameters["error"] == error


@pytest.mark.requirement("AUTH-22")
async def test_a_repeated_redirect_uri_is_trusted_in_neither_copy() -> None:
    server = await oauth_server()
    url = server.authorize_url(await server.client_id())

    answer = await server.get(f"{url}&redirect_uri={REDIRECT_URI}")

    assert answer.status_code == 400


@pytest.mark.requirement("AUTH-24")
@pytest.mark.parametrize("resource", [None, "HTTPS://PCP.EXAMPLE/c/lovelace/mcp", f"{ORIGIN}/c/lovelace/mcp/"])
async def test_a_resource_that_means_this_context_or_none_is_accepted(resource: str | None) -> None:
    server = await oauth_server()

    assert boxes(await server.ask(await server.client_id(), resource=resource))


@pytest.mark.requirement("AUTH-22")
async def test_a_loopback_client_gets_its_answer_at_the_port_it_listens_on() -> None:
    server = await oauth_server()
    client_id = await server.client_id(redirect_uris=["http://localhost/callback"])

    page = await server.ask(client_id, redirect_uri="http://localhost:49152/callback")

    assert "localhost:49152" in page.text
    assert leaving(await server.decide(page)).url.startswith("http://localhost:49152/callback?")


@pytest.mark.requirement("AUTH-40")
async def test_a_request_that_nobody_answers_is_gone_with_the_sweep_after_its_end() -> None:
    server = await oauth_server()
    store = server.store
    assert isinstance(store, MemoryStore)
    await server.ask(await server.client_id())
    await sweep(server.services, server.context)
    assert len(store._committed.authorizations) == 1

    server.clock.advance(PENDING_AUTHORIZATION_S * 1000)
    await sweep(server.services, server.context)

    assert store._committed.authorizations == {}
