"""A Chromium of one test's own, driven by Playwright in the test's event loop.

The program is the system's, never one that Playwright downloads. A start takes under a second; in exchange nothing,
neither cookies nor a stuck page, reaches the next test, and no browser is bound to another loop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, Page, async_playwright

from tests.support.programs import find_chromium, missing

_ARGUMENTS = (
    "--no-sandbox",  # containers without user namespaces, and root; the only pages are the tests' own
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture
async def chromium() -> AsyncIterator[Browser]:
    """A running browser; ``await chromium.new_context()`` is a person's own set of cookies."""
    program = find_chromium()
    if program is None:
        missing("Chromium", "chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=_ARGUMENTS)
        try:
            yield browser
        finally:
            await browser.close()


@pytest.fixture
async def page(chromium: Browser) -> AsyncIterator[Page]:
    """An empty page of a person who has not been here before."""
    context = await chromium.new_context()
    try:
        yield await context.new_page()
    finally:
        await context.close()
