"""The pages in Chromium, without script: set-up to sign-out, by mouse and by keyboard, narrow and wide, light and dark.

Screenshots are written when ``ZKPCP_SHOTS`` names a folder.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from fastapi import FastAPI
from playwright.async_api import Browser, ConsoleMessage, Error, Page
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from tests.support.page_server import (
    ConsentExample,
    ConsentScopeExample,
    NoLimiter,
    PageServer,
    add_test_routes,
    free_port,
    listening,
    page_server,
    screenshot_folder,
)
from zkpcp.core.schemas import JsonValue
from zkpcp.core.scopes import Offer, known_scopes
from zkpcp.usecases.access import acting_as
from zkpcp.usecases.extensions import set_extension
from zkpcp.usecases.forget import delete_page
from zkpcp.usecases.grants import create_grant
from zkpcp.usecases.profile import update_profile
from zkpcp.usecases.remember import write_page
from zkpcp.usecases.review import propose_page, set_review
from zkpcp.usecases.session import open_session, sign_in

PASSPHRASE = "four plain words here"
NARROW = {"width": 360, "height": 740}
WIDE = {"width": 1200, "height": 800}
LONG = "a_word_that_does_not_break_" * 2

ASKED = (
    "profile.core:read", "memory:read", "memory:write", "memory.sensitive:read", "offline_access"
)  # fmt: skip


@dataclass(frozen=True)
class Visit:
    """A person at a running server, and what the browser complained about meanwhile."""

    server: PageServer
    page: Page
    complaints: list[str]
    called_back: list[str]

    async def open(self, path: str) -> None:
        await self.page.goto(self.server.origin + path)

    async def set_up(self, kind: str = "Me") -> None:
        await self.open("/set-up")
        await self.page.get_by_role("radio", name=kind, exact=False).first.check()
        await self.page.get_by_label("Handle").fill("ada")
        await self.page.get_by_label("Your name").fill("Ada Example")
        await self.page.get_by_label("Passphrase", exact=True).fill(PASSPHRASE)
        await self.page.get_by_label("The same passphrase again").fill(PASSPHRASE)
        await self.page.get_by_label("Nobody can restore").check()
        await self.page.get_by_role("button", name="Set up").click()
        await self.page.get_by_role("heading", name="recovery code").wait_for()

    async def shot(self, name: str) -> None:
        if folder := screenshot_folder():
            await self.page.screenshot(path=folder / f"{name}.png", full_page=True)


@asynccontextmanager
async def visiting(chromium: Browser, **screen: object) -> AsyncIterator[Visit]:
    """A person with a fresh browser at a fresh server; its consent page answers to a loopback client."""
    port, client_port = free_port(), free_port()
    server = page_server(f"http://127.0.0.1:{port}", limiter=NoLimiter())
    scopes = known_scopes(Offer("personal"))
    consent = ConsentExample(
        client_name="Example Notes",
        items=[
            ConsentScopeExample(name, scopes[name].sentence, not scopes[name].sensitive, scopes[name].sensitive)
            for name in ASKED
        ],
        not_requested=[scopes["memory.sensitive:write"].sentence],
        redirect_host=f"127.0.0.1:{client_port}",
    )
    add_test_routes(server, consent, f"http://127.0.0.1:{client_port}/callback?code=pcp_ac_example&state=1")
    called_back: list[str] = []
    context = await chromium.new_context(java_script_enabled=False, **screen)  # type: ignore[arg-type]  # screen settings
    page = await context.new_page()
    complaints: list[str] = []
    # What the client's own page lacks (an icon) is not our concern.
    page.on("console", lambda message: complaints.extend(_text(message, server.origin)))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    async with listening(server.app, port), listening(_client(called_back), client_port):
        try:
            yield Visit(server, page, complaints, called_back)
        finally:
            await context.close()


def _text(message: ConsoleMessage, origin: str) -> list[str]:
    return [f"{message.type}: {message.text}"] if message.location["url"].startswith(origin) else []


def _client(called_back: list[str]) -> FastAPI:
    """An OAuth client on this computer: notes how it is called back, and by which page."""
    app = FastAPI()

    async def callback(request: Request) -> Response:
        called_back.append(f"{request.url.query} referer={request.headers.get('referer')}")
        return PlainTextResponse("connected")

    app.add_api_route("/callback", callback, response_model=None)
    return app


async def fits(page: Page) -> bool:
    """Whether nothing sticks out to the right. Read from the layout, since the pages run without script."""
    session = await page.context.new_cdp_session(page)
    metrics = await session.send("Page.getLayoutMetrics")
    return int(metrics["cssContentSize"]["width"]) <= int(metrics["cssLayoutViewport"]["clientWidth"])


async def focused(page: Page) -> str:
    """The name of what has the focus, by the accessibility tree."""
    session = await page.context.new_cdp_session(page)
    tree = await session.send("Accessibility.getFullAXTree")
    for node in tree["nodes"]:
        for prop in node.get("properties", ()):
            if prop["name"] == "focused" and prop["value"].get("value") and node["role"]["value"] != "RootWebArea":
                return f"{node['role']['value']} {node['name']['value']}"
    return ""


async def fill_the_context(server: PageServer) -> None:
    """Give Ada connected apps, extensions, a profile with long words, a memory page and a deleted one."""
    services = server.web.services
    async with services.store.read() as tx:
        context = await tx.contexts.by_handle("ada")
    assert context is not None
    token = await sign_in(services, context, passphrase=PASSPHRASE)
    async with open_session(services, context, token) as session:
        for extension in ("pcp.health", "pcp.home", "zkpcp.handoff"):
            await set_extension(services, session, extension, enabled=True)
    async with services.store.read() as tx:
        context = await tx.contexts.by_handle("ada")
    assert context is not None
    async with open_session(services, context, token) as session:
        owner = acting_as(session)
        await create_grant(services, session, client_name="My backup script", scopes="memory:read offline_access")
        everything = " ".join(known_scopes(context.offer))
        await create_grant(services, session, client_name=f"An app with a name {'without_end' * 4}", scopes=everything)
        for number in (20, 30):
            body = "# Walks\n\n" + "A long line of words. " * number
            await write_page(services, owner, path="notes/walks", body=body)
        await write_page(services, owner, path=f"notes/{LONG}", body=f"# {LONG}\n\n{LONG}")
        await write_page(services, owner, path=f"old/{LONG}", body="gone", frontmatter={"sensitivity": "sensitive"})
        await delete_page(services, owner, path=f"old/{LONG}")
        patch: JsonValue = {
            "languages": [{"code": "pt", "proficiency": "native"}, {"code": "de"}],
            "timezone": "America/Argentina/ComodRivadavia",
            "interests": [LONG, "weirs"],
            "ai_instructions": "Answer in short sentences. " * 20,
        }
        await update_profile(services, owner, patch=patch)
        conditions: JsonValue = [{"name": "hay fever", "since": "2020-04-01", "notes": "pollen " * 40}]
        await update_profile(services, owner, patch={"conditions": conditions}, namespace="pcp.health")
    async with open_session(services, context, token) as session:
        await set_review(services, session, "proposals")
    async with services.store.read() as tx:
        context = await tx.contexts.by_handle("ada")
    assert context is not None
    async with open_session(services, context, token) as session:
        proposer = acting_as(session)
        for path in ("notes/walks", f"notes/new-{LONG}"):
            await propose_page(services, proposer, path=path, body=f"# {LONG}\n\nShorter, and {LONG}.\n")


@pytest.mark.requirement("KEY-13")
async def test_a_person_sets_up_signs_out_and_in_again(chromium: Browser) -> None:
    async with visiting(chromium) as visit:
        page = visit.page
        await visit.set_up()
        code = await page.locator("#recovery-code").inner_text()
        await page.get_by_role("link", name="I have written it down").click()
        await page.get_by_role("heading", name="Your context").wait_for()
        home = await page.content()
        await visit.open("/c/ada/")
        await page.get_by_role("button", name="Sign out").click()
        await page.get_by_label("Passphrase").fill("not these words")
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_role("alert").wait_for()
        refused = await page.get_by_role("alert").inner_text()
        await page.get_by_label("Passphrase").fill(PASSPHRASE)
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_role("heading", name="Your context").wait_for()

    groups = "".join(code.split()).split("-")
    assert [len(group) for group in groups] == [4] * 9
    assert groups[0] not in home
    assert "did not work" in refused
    # Chromium reports the status of the refused sign-in, and of the pages themselves nothing at all.
    assert [text for text in visit.complaints if "403" not in text] == []


@pytest.mark.requirement("KEY-13")
async def test_going_back_does_not_show_the_recovery_code_again(chromium: Browser) -> None:
    async with visiting(chromium) as visit:
        await visit.set_up()
        await visit.page.get_by_role("link", name="I have written it down").click()
        await visit.page.get_by_role("heading", name="Your context").wait_for()

        with pytest.raises(Error, match="ERR_CACHE_MISS"):  # the browser has no copy and asks to send the form again
            await visit.page.go_back()


async def test_everything_can_be_done_by_keyboard(chromium: Browser) -> None:
    async with visiting(chromium) as visit:
        keys = visit.page.keyboard
        await visit.open("/set-up")
        first = await focused(visit.page)
        for text in ("ada", "Ada Example"):
            await keys.type(text)
            await keys.press("Tab")
        await keys.press("ArrowDown")
        work = await focused(visit.page)
        await keys.press("Tab")
        for text in (PASSPHRASE, PASSPHRASE):
            await keys.type(text)
            await keys.press("Tab")
        await keys.press("Space")
        await keys.press("Enter")
        await visit.page.get_by_role("heading", name="recovery code").wait_for()
        await keys.press("Tab")
        skip = await focused(visit.page)
        await keys.press("Enter")
        await keys.press("Tab")
        onward = await focused(visit.page)
        await keys.press("Enter")
        await visit.page.get_by_text("A work context").wait_for()

    assert first == "textbox Handle"
    assert work.startswith("radio My work")
    assert skip == "link Skip to the content"
    assert onward == "link I have written it down"


async def test_an_earlier_version_is_put_back_by_keyboard(chromium: Browser) -> None:
    async with visiting(chromium) as visit:
        keys = visit.page.keyboard
        await visit.set_up()
        await fill_the_context(visit.server)
        await visit.open("/c/ada/pages")
        await visit.page.get_by_role("link", name="Walks").click()
        await visit.page.get_by_role("link", name="Earlier versions").focus()
        await keys.press("Enter")
        await visit.page.get_by_role("link", name="Version 1: Walks").focus()
        await keys.press("Tab")
        button = await focused(visit.page)
        await keys.press("Enter")
        await visit.page.get_by_role("link", name="Earlier versions").click()
        await visit.page.get_by_role("link", name="Version 3: Walks").wait_for()

    assert button == "button Put version 1 back"
    assert visit.complaints == []


async def test_an_error_is_announced_with_its_field_and_typed_text_stays(chromium: Browser) -> None:
    async with visiting(chromium) as visit:
        page = visit.page
        await visit.open("/set-up")
        await page.get_by_label("Handle").fill("-ada")
        await page.get_by_label("Your name").fill("Ada Example")
        await page.get_by_label("Passphrase", exact=True).fill(PASSPHRASE)
        await page.get_by_label("The same passphrase again").fill(PASSPHRASE)
        await page.get_by_label("Nobody can restore").check()
        await page.get_by_role("button", name="Set up").click()
        await page.get_by_role("alert").wait_for()
        handle = page.get_by_label("Handle")
        described_by = await handle.get_attribute("aria-describedby")
        await visit.shot("set-up-error")

        assert described_by == "handle-hint handle-error"
        assert "a to z" in await page.locator("#handle-error").inner_text()
        assert await handle.input_value() == "-ada"
        assert await page.get_by_label("Your name").input_value() == "Ada Example"
        assert await page.get_by_label("Passphrase", exact=True).input_value() == ""


@pytest.mark.requirement("AUTH-41", "SEC-03")
async def test_a_decision_reaches_a_loopback_client_under_the_strict_policy(chromium: Browser) -> None:
    async with visiting(chromium) as visit:
        await visit.open("/example/consent")
        await visit.page.get_by_label("Create and change memory pages").uncheck()
        await visit.page.get_by_role("button", name="Allow", exact=True).click()
        await visit.page.get_by_text("connected").wait_for()

    assert visit.called_back == ["code=pcp_ac_example&state=1 referer=None"]
    assert visit.complaints == []


async def test_both_buttons_of_the_consent_page_have_the_same_size(chromium: Browser) -> None:
    async with visiting(chromium, viewport=NARROW) as visit:
        await visit.open("/example/consent")
        boxes = [await button.bounding_box() for button in await visit.page.locator(".equal button").all()]

    sizes = {(round(box["width"]), round(box["height"])) for box in boxes if box is not None}
    assert len(boxes) == 2
    assert len(sizes) == 1


@pytest.mark.parametrize(
    ("name", "screen"),
    [
        ("narrow-light", {"viewport": NARROW, "color_scheme": "light"}),
        ("narrow-dark", {"viewport": NARROW, "color_scheme": "dark"}),
        ("wide-light", {"viewport": WIDE, "color_scheme": "light"}),
        ("wide-dark", {"viewport": WIDE, "color_scheme": "dark"}),
    ],
)
async def test_every_page_fits_its_screen_and_loads_what_it_asks_for(
    chromium: Browser, name: str, screen: dict[str, object]
) -> None:
    async with visiting(chromium, **screen) as visit:
        failed: list[str] = []
        # A browser drops its request for the icon when it is sent on quickly; nothing was refused then.
        visit.page.on(
            "requestfailed",
            lambda request: failed.append(request.url) if request.failure != "net::ERR_ABORTED" else None,
        )
        await visit.open("/set-up")
        await visit.shot(f"{name}-set-up")
        await visit.set_up()
        await visit.shot(f"{name}-recovery-code")
        too_wide = [] if await fits(visit.page) else ["/set-up"]
        await fill_the_context(visit.server)
        await visit.open("/c/ada/pages")
        page_link = await visit.page.get_by_role("link", name="Walks").get_attribute("href")
        await visit.open("/c/ada/review")
        proposal_links = await visit.page.locator("main a[href*='/review/']").all()
        proposed = [await link.get_attribute("href") or "" for link in proposal_links]
        assert len(proposed) == 2
        for path in (
            "/",
            "/c/ada/",
            "/c/ada/pages",
            page_link or "",
            f"{page_link}/history",
            f"{page_link}/history/1",
            "/c/ada/profile",
            "/c/ada/review",
            *proposed,
            "/c/ada/deleted",
            "/c/ada/log",
            "/c/ada/keys",
            "/c/ada/sign-in",
            "/c/ada/recover",
            "/docs/metadata",
            "/example/consent",
        ):
            await visit.open(path)
            await visit.shot(f"{name}-{path.strip('/').replace('/', '-')[:24] or 'root'}")
            if not await fits(visit.page):
                too_wide.append(path)

    assert too_wide == []
    assert failed == []
    assert visit.complaints == []


@pytest.mark.parametrize("screen", [{"viewport": NARROW}, {"viewport": WIDE, "color_scheme": "dark"}])
@pytest.mark.requirement("CTX-07", "AUTH-39")
async def test_a_team_invites_divides_its_memory_and_removes_without_a_script(  # noqa: PLR0915 - one way through all
    chromium: Browser, screen: dict[str, object]
) -> None:
    async with visiting(chromium, **screen) as visit:
        page, name = visit.page, "narrow" if screen["viewport"] is NARROW else "wide"
        too_wide: list[str] = []

        async def look(what: str) -> None:
            await visit.shot(f"people-{name}-{what}")
            if not await fits(page):
                too_wide.append(what)

        await visit.set_up("A team")
        await visit.open("/c/ada/partitions")
        await page.get_by_label("Name", exact=True).fill("garden")
        await page.get_by_label("What it is for").last.fill(
            "Beds, seeds, and a long description that has to wrap. " * 3
        )
        await page.get_by_role("button", name="Make the partition").click()
        await page.get_by_role("heading", name="garden").wait_for()
        await visit.open("/c/ada/people")
        await page.get_by_label("Their account name here").fill("bob.of-a.rather_long-name")
        await look("invite-form")
        await page.get_by_role("button", name="Make an invite").click()
        link = await page.get_by_label("The link").input_value()
        await look("invited")
        await visit.open("/c/ada/people")
        await page.get_by_label("Name of the agent").fill("scout")
        await page.get_by_role("button", name="Add the agent").click()
        await page.get_by_role("heading", name="agent:scout").wait_for()
        await page.get_by_role("button", name="Sign out").click()

        await page.goto(link)
        await look("join")
        await page.get_by_label("Invite code").fill(link)
        await page.get_by_label("Passphrase", exact=True).fill("six otters by the mill")
        await page.get_by_label("The same passphrase again").fill("six otters by the mill")
        await page.get_by_label("Nobody can restore").check()
        await page.get_by_role("button", name="Join").click()
        await page.get_by_role("heading", name="Write down your recovery code").wait_for()
        await look("joined")
        await visit.open("/c/ada/sign-in")
        await page.get_by_label("Account name").fill("bob.of-a.rather_long-name")
        await page.get_by_label("Passphrase").fill("six otters by the mill")
        await page.get_by_role("button", name="Sign in").click()
        waiting = await page.get_by_role("alert").inner_text()
        await look("waiting")
        await page.get_by_label("Account name").fill("")
        await page.get_by_label("Passphrase").fill(PASSPHRASE)
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_role("heading", name="Your context").wait_for()
        await look("home")
        await visit.open("/c/ada/partitions")
        await page.get_by_role("group", name="human:bob").last.get_by_label("read").check()
        await page.get_by_role("button", name="Save who may do what in garden").click()
        await page.get_by_text("Rename or describe").click()
        await look("partitions")
        ticked = await page.get_by_role("group", name="human:bob").last.get_by_label("read").is_checked()
        await visit.open("/c/ada/people")
        await page.get_by_text("Hand control over to human:bob").first.click()
        await look("hand-over")
        await page.locator("details[open]").get_by_label("They will decide").check()
        await page.locator("details[open]").get_by_role("button").click()
        await page.get_by_role("heading", name="Control is offered to").wait_for()
        await look("control-offered")
        await page.get_by_text("Remove human:bob").first.click()
        await look("people")
        await page.locator("details[open]").get_by_label("Remove for good").check()
        await page.locator("details[open]").get_by_role("button").click()
        await page.get_by_text("All keys are changed.").wait_for()
        await look("keys-changed")
        await visit.open("/c/ada/people")
        await page.get_by_role("heading", name="agent:scout").wait_for()
        left = await page.get_by_role("heading", level=2).all_inner_texts()

    assert "signs in next" in waiting
    assert ticked
    assert not any("bob" in text for text in left)
    assert too_wide == []
    assert [text for text in visit.complaints if "403" not in text] == []
