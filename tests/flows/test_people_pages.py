"""The pages of people and of joining, in process: from the invite to the newcomer's first page."""

from __future__ import annotations

import re
from dataclasses import replace

import httpx2
import pytest

from tests.flows.test_pages import browsing, error_at, form_token, owner, recovery_code, set_up
from tests.flows.test_partition_pages import CLIENT, PENDING
from tests.support.page_server import NoLimiter, PageServer, page_server
from zkpcp.core.roster import MEMBER
from zkpcp.http.oauth.views import consent_view

BOBS = "six otters by the mill"
BASE = "/c/ada"


def team_server() -> PageServer:
    return page_server(limiter=NoLimiter())


async def invite(browser: httpx2.AsyncClient, name: str = "bob") -> str:
    token = form_token((await browser.get(f"{BASE}/people")).text)
    data = {"form_token": token, "name": name, "right": ["main read", "main write"]}
    shown = await browser.post(f"{BASE}/people/invite", data=data)
    assert shown.status_code == 200
    link = re.search(r'value="(http[^"]+/join#[^"]+)"', shown.text)
    assert link is not None
    return link[1]


async def join(browser: httpx2.AsyncClient, code: str, **changes: str) -> httpx2.Response:
    data = {"code": code, "passphrase": BOBS, "passphrase_again": BOBS, "understood": "yes"}
    return await browser.post(f"{BASE}/join", data=data | changes)


async def sign_in(browser: httpx2.AsyncClient, passphrase: str, account: str = "") -> httpx2.Response:
    return await browser.post(f"{BASE}/sign-in", data={"passphrase": passphrase, "account": account})


@pytest.mark.requirement("KEY-10", "KEY-13", "AUD-05")
async def test_somebody_is_invited_joins_waits_and_is_let_in_by_the_controllers_sign_in() -> None:
    server = team_server()
    async with browsing(server) as ada, browsing(server, "192.0.2.2") as bob:
        await set_up(ada, kind="team")
        link = await invite(ada)
        code = link.partition("#")[2]
        form = await bob.get(f"{BASE}/join")
        welcome = await join(bob, link)
        waiting = await sign_in(bob, BOBS, "bob")
        again = await ada.get(f"{BASE}/log")
        await sign_in(ada, "four plain words here")
        inside = await sign_in(bob, BOBS, "Bob")
        home = await bob.get(f"{BASE}/")
        pages = [(await bob.get(f"{BASE}{path}")).status_code for path in ("/pages", "/partitions", "/profile", "/log")]
        closed = await bob.get(f"{BASE}/people")

    assert (form.status_code, welcome.status_code) == (200, 200)
    assert len(recovery_code(welcome.text)) == 44
    assert code not in welcome.text + again.text + str(welcome.headers)
    assert waiting.status_code == 403
    assert "when the controller of this context signs in next" in waiting.text
    assert (inside.status_code, home.status_code, closed.status_code) == (303, 200, 403)
    assert pages == [200] * 4
    assert "People and agents" not in home.text
    assert "Turn on" not in home.text


async def test_what_is_wrong_with_joining_is_said_at_its_field_and_a_used_invite_once() -> None:
    server = team_server()
    async with browsing(server) as ada, browsing(server, "192.0.2.2") as bob:
        await set_up(ada, kind="team")
        link = await invite(ada)
        wrong = {
            "code": await join(bob, link[:-3]),
            "passphrase": await join(bob, link, passphrase="short", passphrase_again="short"),
            "passphrase_again": await join(bob, link, passphrase_again="other"),
            "understood": await join(bob, link, understood=""),
        }
        await join(bob, link)
        used = await join(bob, link)
        unknown = await bob.post(
            "/c/nobody/join",
            data={"code": link, "passphrase": BOBS, "passphrase_again": BOBS, "understood": "yes"},
        )

    for field, answer in wrong.items():
        assert answer.status_code == 400
        assert error_at(answer.text, field)
        assert BOBS not in answer.text
    assert (used.status_code, unknown.status_code) == (400, 400)
    assert used.text.replace("ada", "nobody") == unknown.text


@pytest.mark.requirement("CTX-07")
async def test_the_controller_suspends_lets_in_again_and_removes_only_when_sure() -> None:
    server = team_server()
    async with browsing(server) as ada, browsing(server, "192.0.2.2") as bob:
        await set_up(ada, kind="team")
        await join(bob, await invite(ada))
        token = form_token((await ada.get(f"{BASE}/people")).text)
        here = {"form_token": token, "principal": "human:bob"}
        await ada.post(f"{BASE}/people/suspend", data=here)
        suspended = await sign_in(bob, BOBS, "bob")
        await ada.post(f"{BASE}/people/resume", data=here)
        resumed = await sign_in(bob, BOBS, "bob")
        unsure = await ada.post(f"{BASE}/people/remove", data=here)
        kept = await bob.get(f"{BASE}/")
        gone = await ada.post(f"{BASE}/people/remove", data=here | {"sure": "yes"})
        after = await bob.get(f"{BASE}/")
        never = await ada.post(f"{BASE}/people/invite", data={"form_token": token, "name": "bob"})

    assert "suspended" in suspended.text
    assert (resumed.status_code, unsure.status_code, kept.status_code) == (303, 400, 200)
    assert (gone.status_code, after.status_code) == (303, 303)
    assert "/sign-in" in after.headers["location"]
    assert never.status_code == 400
    assert "now or before" in never.text


@pytest.mark.requirement("CTX-03")
async def test_control_is_offered_on_one_page_and_taken_on_another_only_when_sure() -> None:
    server = team_server()
    async with browsing(server) as ada, browsing(server, "192.0.2.2") as bob:
        await set_up(ada, kind="team")
        await join(bob, await invite(ada))
        token = form_token((await ada.get(f"{BASE}/people")).text)
        await sign_in(bob, BOBS, "bob")
        nothing = await bob.get(f"{BASE}/control")
        here = {"form_token": token, "principal": "human:bob"}
        unsure = await ada.post(f"{BASE}/people/offer", data=here)
        quiet = (await bob.get(f"{BASE}/")).text
        await ada.post(f"{BASE}/people/offer", data=here | {"sure": "yes"})
        waiting, told = (await ada.get(f"{BASE}/people")).text, (await bob.get(f"{BASE}/")).text
        form = await bob.get(f"{BASE}/control")
        foreign = await bob.post(f"{BASE}/control", data={"form_token": token, "sure": "yes"})
        mine = {"form_token": form_token(form.text)}
        still_unsure = await bob.post(f"{BASE}/control", data=mine)
        taken = await bob.post(f"{BASE}/control", data=mine | {"sure": "yes"})
        finished = await bob.get(taken.headers["location"])
        managed, closed = await bob.get(f"{BASE}/people"), await ada.get(f"{BASE}/people")
        pages = [(await ada.get(f"{BASE}{path}")).status_code for path in ("/", "/pages", "/log")]

    assert (nothing.status_code, unsure.status_code, still_unsure.status_code) == (404, 400, 400)
    assert "offers you control" not in quiet
    assert "offers you control" in told
    assert "Control is offered to" in waiting
    assert foreign.status_code == 403
    assert (taken.status_code, finished.status_code) == (303, 200)
    assert "All keys are changed" in finished.text
    assert (managed.status_code, closed.status_code, pages) == (200, 403, [200, 200, 200])


@pytest.mark.requirement("CTX-03")
async def test_an_offer_of_control_is_withdrawn_and_the_keys_change() -> None:
    server = team_server()
    async with browsing(server) as ada, browsing(server, "192.0.2.2") as bob:
        await set_up(ada, kind="team")
        await join(bob, await invite(ada))
        token = form_token((await ada.get(f"{BASE}/people")).text)
        await ada.post(f"{BASE}/people/offer", data={"form_token": token, "principal": "human:bob", "sure": "yes"})
        withdrawn = await ada.post(f"{BASE}/people/withdraw-offer", data={"form_token": token})
        again = await ada.post(f"{BASE}/people/withdraw-offer", data={"form_token": token})
        await sign_in(bob, BOBS, "bob")
        gone = await bob.get(f"{BASE}/control")

    assert (withdrawn.status_code, again.status_code, gone.status_code) == (303, 404, 404)
    assert "/keys" in withdrawn.headers["location"]
    async with owner(server) as session:
        assert session.keyring.roster.generation == 2


async def test_an_invite_is_withdrawn_and_an_agent_is_added_with_what_is_ticked() -> None:
    server = team_server()
    async with browsing(server) as ada, browsing(server, "192.0.2.2") as bob:
        await set_up(ada, kind="team")
        link = await invite(ada)
        token = form_token((await ada.get(f"{BASE}/people")).text)
        await ada.post(f"{BASE}/people/withdraw", data={"form_token": token, "principal": "human:bob"})
        withdrawn = await join(bob, link)
        await ada.post(f"{BASE}/people/agent", data={"form_token": token, "name": "Scout", "right": "main read"})
        listed = (await ada.get(f"{BASE}/people")).text
        bad = await ada.post(f"{BASE}/people/agent", data={"form_token": token, "name": "a b"})

    assert (withdrawn.status_code, bad.status_code) == (400, 400)
    assert "agent:scout" in listed
    async with owner(server) as session:
        assert session.keyring.roster.rights("agent:scout") == {"main": {"read"}}


async def test_a_personal_context_offers_agents_and_no_invites() -> None:
    server = team_server()
    async with browsing(server) as ada:
        await set_up(ada)
        page = (await ada.get(f"{BASE}/people")).text
        refused = await ada.post(f"{BASE}/people/invite", data={"form_token": form_token(page), "name": "bob"})

    assert "Invite somebody" not in page
    assert "Add an agent" in page
    assert refused.status_code == 400


@pytest.mark.requirement("AUTH-39", "SCOPE-06")
async def test_consent_offers_what_is_the_persons_to_give_and_names_the_agents() -> None:
    server = team_server()
    async with browsing(server) as ada:
        await set_up(ada, kind="team")
    async with owner(server) as session:
        asked = ("profile.team:read", "profile.team:write", "memory:read")
        pending = replace(PENDING, scopes=asked)
        view = consent_view(
            session.context,
            CLIENT,
            pending,
            account="human:bob",
            role=MEMBER,
            agents=["agent:scout"],
            request_secret="s",
            action_url="/x",
        )

    shown = bytes(server.web.pages.consent_page(view).body).decode()
    assert [item.scope for item in view.items] == ["profile.team:read", "memory:read"]
    assert 'name="agent" value="agent:scout"' in shown
