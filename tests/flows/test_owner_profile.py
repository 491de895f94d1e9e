"""What the owner sees and switches in the browser: extensions, and who set what in the profile."""

from __future__ import annotations

import re
from html import unescape

import httpx2
import pytest

from tests.flows.test_pages import browsing, form_token, owner, set_up
from tests.flows.usecase_support import MINUTE_MS, World
from tests.support.page_server import PageServer, page_server
from zkpcp.core.extensions import KNOWN
from zkpcp.core.stored import ContextRow
from zkpcp.usecases.access import acting_as
from zkpcp.usecases.grants import create_grant
from zkpcp.usecases.profile import update_profile
from zkpcp.usecases.provenance import known_about


async def context_of(server: PageServer) -> ContextRow:
    async with server.store.read() as tx:
        context = await tx.contexts.by_handle("ada")
    assert context is not None
    return context


async def turn(browser: httpx2.AsyncClient, extension: str, to: str, **changes: str) -> httpx2.Response:
    home = (await browser.get("/c/ada/")).text
    form = {"form_token": form_token(home), "extension": extension, "turn": to}
    return await browser.post("/c/ada/extensions", data=form | changes)


@pytest.mark.requirement("PROF-07")
async def test_the_home_page_has_a_switch_for_each_extension_and_says_what_it_is_for() -> None:
    server = page_server()
    async with browsing(server) as browser:
        await set_up(browser)
        before = unescape((await browser.get("/c/ada/")).text)
        on = await turn(browser, "pcp.health", "on")
        after = (await browser.get("/c/ada/")).text
        enabled = (await context_of(server)).extensions
        off = await turn(browser, "pcp.health", "off")

    for extension in KNOWN.values():
        assert extension.purpose in before
        assert f'aria-label="Turn on {extension.title}"' in before
    assert "Turn off" not in before
    assert (on.status_code, on.headers["location"]) == (303, "/c/ada/#extensions")
    assert 'aria-label="Turn off Health"' in after
    assert (enabled, off.status_code, (await context_of(server)).extensions) == (("pcp.health",), 303, ())


@pytest.mark.requirement("AUTH-41")
async def test_no_other_page_and_no_stale_form_turns_an_extension_on() -> None:
    server = page_server()
    async with browsing(server) as browser:
        await set_up(browser)
        foreign = await turn(browser, "pcp.health", "on", form_token="0" * 32)
        unclear = await turn(browser, "pcp.health", "maybe")
        unknown = await turn(browser, "pcp.pets", "on")
        browser.headers["origin"] = "https://evil.example"
        browser.headers["sec-fetch-site"] = "cross-site"
        crossed = await turn(browser, "pcp.health", "on")

    assert [answer.status_code for answer in (foreign, unclear, unknown, crossed)] == [403, 400, 404, 403]
    assert (await context_of(server)).extensions == ()


async def test_a_connected_app_shows_what_it_may_while_an_extension_is_off() -> None:
    server = page_server()
    async with browsing(server) as browser:
        await set_up(browser)
        await turn(browser, "pcp.home", "on")
        async with owner(server) as session:
            await create_grant(server.web.services, session, client_name="Quill", scopes="profile.home:read")
        on = (await browser.get("/c/ada/")).text
        await turn(browser, "pcp.home", "off")
        off = (await browser.get("/c/ada/")).text

    assert KNOWN["pcp.home"].read in unescape(on)
    assert "<li>profile.home:read (turned off)</li>" in off


@pytest.mark.requirement("PROF-04")
async def test_the_profile_page_says_who_set_each_member_last_and_which_recommended_ones_are_empty() -> None:
    server = page_server()
    async with browsing(server) as browser:
        await set_up(browser)
        await turn(browser, "pcp.home", "on")
        async with owner(server) as session:
            for namespace, patch in ((None, {"pronouns": "<she>"}), ("pcp.home", {"notes": "the key is with Bo"})):
                await update_profile(server.web.services, acting_as(session), patch={**patch}, namespace=namespace)
        page = await browser.get("/c/ada/profile")

    assert page.status_code == 200
    text = unescape(re.sub(r"<[^>]*>", " ", page.text))
    assert "&lt;she&gt;" in page.text
    for part in ("Ada Example", "the key is with Bo", "set by human:owner through this site", "pcp.home"):
        assert part in text
    assert "Recommended, and empty: preferred name, languages, timezone, communication, work, ai instructions." in text
    async with browsing(server) as stranger:
        assert (await stranger.get("/c/ada/profile")).status_code == 303


@pytest.mark.requirement("PROF-04", "AUD-05")
async def test_the_newest_change_of_a_member_is_its_origin_and_looking_is_logged(world: World) -> None:
    first = await world.grant("profile.core:write", client_id="cli_first")
    async with world.client(first) as client:
        await client.patch({"name": "Ada", "interests": ["herons"], "work": {"role": "keeper"}})
    world.clock.advance(MINUTE_MS)
    async with world.owner() as hand:
        await hand.patch({"interests": None, "name": "Ada Reed"})
        (known,) = await known_about(world.services, hand.who)
    entry = await world.last_entry()

    origins = {member.name: (member.origin.client, member.origin.at_ms) for member in known.members if member.origin}
    now_ms = world.clock.now_ms()
    assert origins == {"name": (None, now_ms), "work": ("cli_first", now_ms - MINUTE_MS)}
    assert known.empty == ("preferred_name", "languages", "timezone", "communication", "ai_instructions")
    assert (entry.action, entry.channel.value, entry.categories, entry.decrypted) == (
        "profile_get",
        "management",
        ("profile.core",),
        True,
    )
