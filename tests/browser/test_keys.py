"""Changing all keys in Chromium, without script: the page goes on by itself until the earlier keys are gone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Browser

from tests.browser.test_pages import NARROW, PASSPHRASE, WIDE, Visit, fits, visiting
from tests.support.page_server import PageServer
from zkpcp.usecases.access import acting_as
from zkpcp.usecases.remember import write_page
from zkpcp.usecases.rotation import begin_rotation
from zkpcp.usecases.session import OpenSession, open_session, sign_in

PAGES = 30


@asynccontextmanager
async def owner_of(server: PageServer) -> AsyncIterator[OpenSession]:
    services = server.web.services
    async with services.store.read() as tx:
        context = await tx.contexts.by_handle("ada")
    assert context is not None
    token = await sign_in(services, context, passphrase=PASSPHRASE)
    async with open_session(services, context, token) as session:
        yield session


async def fill(server: PageServer) -> None:
    async with owner_of(server) as session:
        for number in range(PAGES):
            await write_page(server.web.services, acting_as(session), path=f"notes/{number}", body=f"note {number}")


async def change_all_keys(visit: Visit) -> None:
    await visit.page.get_by_label("Yes, change all keys now").check()
    await visit.page.get_by_role("button", name="Change all keys").click()


@pytest.mark.parametrize("screen", [{"viewport": NARROW}, {"viewport": WIDE, "color_scheme": "dark"}])
@pytest.mark.requirement("KEY-12")
async def test_all_keys_are_changed_while_the_page_is_open(chromium: Browser, screen: dict[str, object]) -> None:
    name = "narrow" if screen["viewport"] is NARROW else "wide"
    async with visiting(chromium, **screen) as visit:
        await visit.set_up()
        await fill(visit.server)
        await visit.open("/c/ada/")
        await visit.page.get_by_role("link", name="change all keys").click()
        await visit.shot(f"keys-{name}-before")
        assert await fits(visit.page)
        await change_all_keys(visit)
        await visit.page.get_by_text("All keys are changed.").wait_for()
        await visit.shot(f"keys-{name}-after")
        assert await fits(visit.page)
        await visit.open("/c/ada/pages")
        assert await visit.page.get_by_role("link", name="29").count() == 1
        await visit.page.get_by_role("link", name="29").click()
        assert "note 29" in await visit.page.locator("pre").inner_text()
    assert visit.complaints == []


@pytest.mark.requirement("KEY-12")
async def test_a_change_that_was_left_half_way_is_on_the_home_page_and_goes_on(chromium: Browser) -> None:
    async with visiting(chromium, viewport=NARROW) as visit:
        await visit.set_up()
        await fill(visit.server)
        async with owner_of(visit.server) as session:
            # Somebody who closes the browser at once: the change has begun, and nothing goes on.
            await begin_rotation(visit.server.web.services, session)
        await visit.open("/c/ada/keys")
        await visit.page.get_by_role("progressbar").wait_for()
        await visit.shot("keys-half-way")
        assert await fits(visit.page)
        await visit.open("/c/ada/")
        await visit.shot("keys-half-way-home")
        await visit.page.get_by_role("link", name="Go on with it").click()
        await visit.page.get_by_text("All keys are changed.").wait_for()
    assert visit.complaints == []
