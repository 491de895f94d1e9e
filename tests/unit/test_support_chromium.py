"""The tests' own browser does what its users rely on."""

from __future__ import annotations

from playwright.async_api import Browser, Page


async def test_a_page_shows_its_title(page: Page) -> None:
    await page.goto("data:text/html,<title>a page of our own</title>")

    assert await page.title() == "a page of our own"


async def test_two_people_share_no_cookies(chromium: Browser) -> None:
    ada, ben = await chromium.new_context(), await chromium.new_context()

    await ada.add_cookies([{"name": "n", "value": "1", "url": "http://127.0.0.1/"}])

    assert len(await ada.cookies()) == 1
    assert await ben.cookies() == []
