"""The page of partitions in process: what its owner does there, what everybody else sees, and what consent says."""

from __future__ import annotations

import re

import pytest

from tests.flows.test_pages import browsing, form_token, owner, set_up
from tests.support.page_server import NoLimiter, PageServer, page_server
from zkpcp.core.access import RIGHTS
from zkpcp.core.stored import AuthorizationRow, ClientRow
from zkpcp.http.oauth.views import consent_view
from zkpcp.usecases.partitions import managed_partitions, own_partitions


async def lists_of(server: PageServer) -> dict[str, tuple[str, set[str]]]:
    async with owner(server) as session:
        found = await managed_partitions(server.web.services, session)
    return {each.partition.name: (each.partition.description, set(each.access["human:owner"])) for each in found}


@pytest.mark.requirement("AUD-05")
async def test_the_owner_makes_renames_and_opens_a_partition() -> None:
    server = page_server(limiter=NoLimiter())
    async with browsing(server) as browser:
        await set_up(browser)
        empty = (await browser.get("/c/ada/partitions")).text
        token = form_token(empty)
        made = await browser.post(
            "/c/ada/partitions", data={"form_token": token, "name": "Garden", "description": "What grows."}
        )
        page = (await browser.get("/c/ada/partitions")).text
        partition = re.search(r'name="partition" value="(prt_[0-9a-f]{32})"', page)
        assert partition is not None
        here = {"form_token": token, "partition": partition[1]}
        renamed = await browser.post("/c/ada/partitions/describe", data=here | {"name": "beds", "description": ""})
        narrowed = await browser.post(
            "/c/ada/partitions/access", data=here | {"right": ["human:owner read", "human:owner review"]}
        )

    assert "may</legend>" not in empty
    assert [answer.status_code for answer in (made, renamed, narrowed)] == [303, 303, 303]
    assert "What grows." in page
    assert await lists_of(server) == {
        "main": ("", set(RIGHTS)),
        "beds": ("", {"read", "review"}),
    }


async def test_what_is_wrong_is_said_on_the_page_and_nothing_changes() -> None:
    server = page_server(limiter=NoLimiter())
    async with browsing(server) as browser:
        await set_up(browser)
        token = form_token((await browser.get("/c/ada/partitions")).text)
        here = {"form_token": token}
        await browser.post("/c/ada/partitions", data=here | {"name": "garden"})
        before = await lists_of(server)
        wrong = [
            await browser.post("/c/ada/partitions", data=here | {"name": "gar den"}),
            await browser.post("/c/ada/partitions", data=here | {"name": "garden"}),
            await browser.post("/c/ada/partitions/access", data=here | {"partition": "main"}),
            await browser.post("/c/ada/partitions/access", data=here | {"partition": "main", "right": ["x fly"]}),
        ]
        other = await browser.post("/c/ada/partitions", data={"form_token": "0" * 64, "name": "more"})
        missing = await browser.post("/c/ada/partitions/describe", data=here | {"partition": "main", "name": "home"})

    assert [answer.status_code for answer in wrong] == [400] * 4
    assert all('role="alert"' in answer.text for answer in wrong)
    assert "leave somebody who can read" in wrong[2].text
    assert (other.status_code, missing.status_code) == (403, 404)
    assert await lists_of(server) == before


@pytest.mark.requirement("AUTH-39")
async def test_consent_names_the_partitions_that_are_open_to_the_person() -> None:
    server = page_server(limiter=NoLimiter())
    async with browsing(server) as browser:
        await set_up(browser)
        token = form_token((await browser.get("/c/ada/partitions")).text)
        await browser.post("/c/ada/partitions", data={"form_token": token, "name": "garden"})
    async with owner(server) as session:
        view = consent_view(
            session.context,
            CLIENT,
            PENDING,
            account="human:owner",
            partitions=await own_partitions(server.web.services, session),
            request_secret="s",
            action_url="/x",
        )

    shown = server.web.pages.consent_page(view).body
    assert b"main: read, write, propose, review" in bytes(shown)
    assert b"garden: read, write, propose, review" in bytes(shown)


CLIENT = ClientRow("ctx", "cli", "Quill", "dcr", ("http://127.0.0.1/",), refreshable=True, created_ms=0)
PENDING = AuthorizationRow(
    context_id="ctx",
    lookup_id=b"",
    client_id="cli",
    redirect_uri="http://127.0.0.1/",
    state=None,
    scopes=("memory:read",),
    code_challenge="",
    created_ms=0,
    expires_ms=0,
    client_name="Quill",
    client_source="dcr",
    client_redirect_uris=("http://127.0.0.1/",),
    client_refreshable=True,
)
