"""What a context is for and who controls it: fixed from the start, said to whoever uses it, kept apart from others."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from tests.flows.support_mcp import call
from tests.flows.test_pages import browsing, error_at, set_up
from tests.flows.test_partition_pages import CLIENT, PENDING
from tests.flows.tools_support import endpoint_of
from tests.flows.usecase_support import EVERYTHING, PASSPHRASE, World, each_store
from tests.support.page_server import NoLimiter, page_server
from zkpcp.core.discovery import context_document
from zkpcp.core.schemas import JsonObject
from zkpcp.errors import ConflictError, InvalidInputError
from zkpcp.http.oauth.views import consent_view
from zkpcp.http.site import Site
from zkpcp.testing import MemoryStore
from zkpcp.usecases import principals
from zkpcp.usecases.found import found_context
from zkpcp.usecases.session import open_session, sign_in

NOTE = "can read everything in"


@each_store
@pytest.mark.requirement("CTX-01")
async def test_no_organization_controls_or_joins_a_personal_context(stored_world: World) -> None:
    for kind, principal, organization in (
        ("personal", "human:owner", "acme.example"),
        ("work", "human:ada", "acme.example"),
        ("work", "human:owner", "Acme"),
        ("work", "org:acme.example", None),
        ("personal", "org:acme.example", None),
    ):
        with pytest.raises(InvalidInputError):
            await found_context(
                stored_world.services,
                handle="another",
                kind=kind,
                passphrase=PASSPHRASE,
                principal=principal,
                organization=organization,
            )
    async with stored_world.open() as session:
        for principal in ("org:acme.example", "human:bob"):
            with pytest.raises((InvalidInputError, ConflictError)):
                await principals.invite(stored_world.services, session, principal=principal, rights={})
        with pytest.raises(InvalidInputError):
            await principals.add_agent(stored_world.services, session, agent="org:acme.example", rights={})
        assert [entry.role for entry in session.keyring.roster.principals] == ["controller"]


@each_store
@pytest.mark.requirement("CTX-02")
async def test_an_organizations_context_says_who_can_read_it_and_its_first_person_runs_it(stored_world: World) -> None:
    services = stored_world.services
    founded = await found_context(
        services,
        handle=f"{stored_world.context.handle}-at-work",
        kind="work",
        passphrase=PASSPHRASE,
        organization="acme.example",
    )
    context = founded.context
    token = await sign_in(services, context, passphrase=PASSPHRASE)
    async with open_session(services, context, token) as session:
        await principals.invite(services, session, principal="human:bob", rights={})
        view = consent_view(
            session.context, CLIENT, PENDING, account=session.principal, request_secret="s", action_url="/x"
        )
    facts = context_document(Site(origin="https://pcp.test").facts(context))

    assert (context.controller, context.controller_type, session.principal) == (
        "org:acme.example",
        "org",
        "human:owner",
    )
    assert (facts["controller_type"], view.readable_by_organization) == ("org", True)
    assert facts["encryption"]["readable_by"] == ["org", "principals", "grants"]  # type: ignore[index,call-overload]  # JSON


@pytest.mark.requirement("CTX-02")
async def test_a_person_is_told_that_the_organization_can_read_it_wherever_they_come_in() -> None:
    server = page_server(limiter=NoLimiter())
    async with browsing(server) as browser:
        form = await browser.get("/set-up")
        wrong = await set_up(browser, organization="acme.example")
        await set_up(browser, kind="work", organization="acme.example")
        pages = [(await browser.get(f"/c/ada{path}")).text for path in ("/", "/join", "/sign-in")]
        await set_up(browser, handle="eve", kind="work")
        others = [(await browser.get(f"/c/eve{path}")).text for path in ("/join", "/sign-in")]
    async with server.store.read() as tx:
        context = await tx.contexts.by_handle("ada")
    assert context is not None
    view = consent_view(context, CLIENT, PENDING, account="human:owner", request_secret="s", action_url="/x")
    consent = bytes(server.web.pages.consent_page(view).body).decode()

    assert "personal context" in error_at(wrong.text, "organization")
    for text in (form.text, *pages, consent):
        assert NOTE in text
    for text in (*pages, consent):
        assert "org:acme.example" in text
    assert not any(NOTE in text for text in others)


@pytest.mark.requirement("CTX-03")
async def test_a_contexts_kind_is_written_once_and_its_controller_by_a_handover_alone(world: World) -> None:
    statements = [
        statement
        for path in files("zkpcp.storage").joinpath("queries").iterdir()
        for statement in re.sub(r"--.*", "", path.read_text("utf-8")).split("\n\n")
        if re.search(r"\b(into|update)\s+contexts\b", statement)
    ]

    assert [re.findall(r"\b(kind|controller|controller_type)\b", each) for each in statements if "insert" in each] == [
        ["kind", "controller", "controller_type"]
    ]
    later = [re.findall(r"\b(kind|controller|controller_type)\b", each) for each in statements if "insert" not in each]
    assert [names for names in later if names] == [["controller"]]
    with pytest.raises(ConflictError):
        await found_context(world.services, handle=world.context.handle, kind="team", passphrase=PASSPHRASE)


@pytest.mark.requirement("CTX-06")
async def test_nothing_of_another_context_of_the_same_person_shows_in_any_page() -> None:
    server = page_server(limiter=NoLimiter())
    paths = ("/", "/people", "/partitions", "/profile", "/pages", "/log", "/deleted", "/sign-in", "/recover", "/join")
    async with browsing(server) as browser:
        await set_up(browser)
        await set_up(browser, handle="otherhandle", kind="team", name="Canary Collective")
        shown = [(await browser.get(f"/c/ada{path}")).text for path in paths]
    async with server.store.read() as tx:
        other = await tx.contexts.by_handle("otherhandle")
    assert other is not None

    assert all("Ada" in text or "ada" in text for text in shown)
    for text in shown:
        for secret in ("otherhandle", "Canary", other.context_id):
            assert secret not in text


@pytest.mark.requirement("CTX-06")
async def test_nothing_of_another_context_of_the_same_person_shows_in_any_tool() -> None:
    store = MemoryStore()
    ada, other = await World.founded(store), await World.founded(store, handle="otherhandle", kind="team")
    await other.partition("canary-partition")
    async with other.owner() as owner:
        await owner.write("canary/page", "canary text", partition="canary-partition")
    granted = await ada.grant(*EVERYTHING)
    calls: tuple[tuple[str, JsonObject], ...] = (
        ("context_brief", {}),
        ("memory_list", {}),
        ("memory_search", {"query": "text"}),
        ("memory_read", {"path": "canary/page"}),
        ("profile_get", {}),
        ("memory_write", {"path": "canary/page", "body": "mine"}),
        ("memory_write", {"path": "x", "body": "y", "frontmatter": {"partition": "canary-partition"}}),
        ("audit_list", {"limit": 50}),
    )

    replies = [await call(endpoint_of(ada), "modern", *each, token=granted.token) for each in calls]

    assert b'"created":true' in replies[5].body
    for reply in replies:
        for secret in ("otherhandle", "canary text", other.context_id):
            assert secret not in reply.body.decode()
