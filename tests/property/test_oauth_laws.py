"""No sequence of authorize, consent, exchange, refresh, replay, revocation and waiting gives what nobody allowed.

The whole application in process, two contexts in it, beside a model of a few lines that knows what was allowed. After
every step the application has to answer as the model does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

import pytest
from httpx2 import Response
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    multiple,
    rule,
    run_state_machine_as_test,
)
from typing_extensions import override

from tests.flows.oauth_support import PASSPHRASE, OAuthServer, boxes, hidden, leaving, oauth_server
from zkpcp.core.schemas import JsonObject
from zkpcp.core.stored import TokenRow
from zkpcp.errors import NotFoundError
from zkpcp.http.limits import Rule
from zkpcp.usecases.clients import UNUSED_LIFETIME_S
from zkpcp.usecases.found import found_context
from zkpcp.usecases.grants import revoke_grant
from zkpcp.usecases.housekeeping import sweep_all
from zkpcp.usecases.session import open_session, sign_in
from zkpcp.vault.secrets import parse_token

T = TypeVar("T")

SCOPES: Final = (
    "profile.core:read",
    "memory:read",
    "memory.sensitive:read",
    "memory:write",
    "audit:read",
    "offline_access",
)
SECOND_MS: Final = 1000
CODE_MS: Final = 60 * SECOND_MS
PENDING_MS: Final = 15 * 60 * SECOND_MS
ACCESS_MS: Final = 3600 * SECOND_MS
IDLE_MS: Final = 90 * 24 * 3600 * SECOND_MS
CALLS: Final[tuple[tuple[str, str, JsonObject], ...]] = (
    ("memory_list", "memory:read", {}),
    ("memory_write", "memory:write", {"path": "notes/a", "body": "text"}),
    ("audit_list", "audit:read", {}),
)
"""A tool, the scope it needs, arguments."""

SUBSETS: Final = st.sets(st.sampled_from(SCOPES))
SIDES: Final = st.sampled_from([0, 1])
OWN: Final = st.none() | st.none() | st.none()
"""Mostly the right client and the right context."""
OTHERS: Final = st.integers(0, 9)


class Unlimited:
    """Counts nothing: limits have tests of their own."""

    async def hit(self, rule: Rule, *keys: str) -> None:
        """Let it pass."""


@dataclass(eq=False)
class App:
    """A registered client."""

    side: int
    client_id: str
    refreshable: bool
    registered_ms: int
    was_allowed: bool = False
    is_forgotten: bool = False


@dataclass(eq=False)
class Page:
    """A consent page that a person looks at."""

    app: App
    secret: str = field(repr=False)
    scopes: frozenset[str]
    asked_ms: int
    cookies: dict[str, str] = field(repr=False)
    is_answered: bool = False


@dataclass(eq=False)
class Grant:
    """What was allowed."""

    app: App
    scopes: frozenset[str]
    grant_id: str
    used_ms: int
    is_over: bool = False


@dataclass(eq=False)
class Token:
    """A code, access or refresh token that was handed out."""

    grant: Grant
    text: str = field(repr=False)
    scopes: frozenset[str]
    end_ms: int
    is_used: bool = False


@dataclass(eq=False)
class Issued:
    """What one answer of the token endpoint held."""

    access: Token
    refresh: Token | None


def with_bases(scopes: set[str] | frozenset[str]) -> frozenset[str]:
    """What is left where a scope needs another one that is not there."""
    return frozenset(scopes) if "memory:read" in scopes else frozenset(scopes) - {"memory.sensitive:read"}


class Sequences(RuleBasedStateMachine):
    """Everything that clients, the owner and time can do."""

    apps: Bundle[App] = Bundle("apps")
    pages: Bundle[Page] = Bundle("pages")
    codes: Bundle[Token] = Bundle("codes")
    issued: Bundle[Issued] = Bundle("issued")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.sides: list[OAuthServer] = []
        self.registered: list[App] = []
        self.open_pages: list[Page] = []
        self.accesses: list[Token] = []

    def run(self, work: Coroutine[object, object, T]) -> T:
        return self.runner.run(work)

    @override
    def teardown(self) -> None:
        self.runner.close()

    @property
    def now_ms(self) -> int:
        return self.sides[0].clock.now_ms()

    @initialize(target=issued, side=SIDES, asked=SUBSETS | st.just(set(SCOPES)))
    def found(self, side: int, asked: set[str]) -> Issued | MultipleResults[Issued]:
        """Two contexts, and in one of them two apps, one of which was allowed something and has its first tokens."""

        async def found() -> list[OAuthServer]:
            first = await oauth_server(whole=True, limiter=Unlimited())
            other = await found_context(first.services, handle="other", kind="personal", passphrase=PASSPHRASE)
            return [first, replace(first, context=other.context)]

        self.sides = self.run(found())
        self.register(side, refreshable=True)
        return self.connect(self.register(side, refreshable=True), asked)

    @rule(target=apps, side=SIDES, refreshable=st.booleans())
    def register(self, side: int, refreshable: bool) -> App:
        grant_types = ["authorization_code", *(["refresh_token"] if refreshable else [])]
        client_id = self.run(self.sides[side].client_id(grant_types=grant_types))
        self.forget(side)
        self.registered.append(App(side, client_id, refreshable, self.now_ms))
        return self.registered[-1]

    def forget(self, side: int) -> None:
        """A registration sweeps its context too; an app that somebody is being asked about stays."""
        asked = {page.app for page in self.open_pages if not page.is_answered and self.is_open(page)}
        for app in self.registered:
            is_old = self.now_ms - app.registered_ms > UNUSED_LIFETIME_S * 1000
            if app.side == side and is_old and not app.was_allowed and app not in asked:
                app.is_forgotten = True

    def is_open(self, page: Page) -> bool:
        return self.now_ms < page.asked_ms + PENDING_MS

    @rule(target=pages, app=apps, asked=SUBSETS)
    def ask(self, app: App, asked: set[str]) -> Page | MultipleResults[Page]:
        async def ask() -> tuple[Response, dict[str, str]]:
            server = await self.signed_in(app.side)
            return await server.ask(app.client_id, scope=" ".join(sorted(asked))), dict(server.cookies)

        page, cookies = self.run(ask())
        assert page.status_code == (400 if app.is_forgotten else 200)
        if app.is_forgotten:
            return multiple()
        shown = frozenset(boxes(page))
        if asked - {"offline_access"}:
            assert shown == (asked | {"offline_access"} if app.refreshable else asked)
        self.open_pages.append(Page(app, hidden(page, "request"), shown, self.now_ms, cookies))
        return self.open_pages[-1]

    @rule(target=codes, app=apps, asked=SUBSETS)
    def get_code(self, app: App, asked: set[str]) -> Token | MultipleResults[Token]:
        page = self.ask(app, asked)
        return self.allow(page, set(SCOPES)) if isinstance(page, Page) else multiple()

    @rule(target=issued, app=apps, asked=SUBSETS)
    def connect(self, app: App, asked: set[str]) -> Issued | MultipleResults[Issued]:
        code = self.get_code(app, asked)
        return self.exchange(code, None, None, is_right=True) if isinstance(code, Token) else multiple()

    async def signed_in(self, side: int) -> OAuthServer:
        server = self.sides[side]
        session = await sign_in(server.services, server.context, passphrase=PASSPHRASE)
        return replace(server, cookies={f"__Host-zkpcp_{server.context.handle}": session.text()})

    @rule(target=codes, page=pages, ticked=SUBSETS)
    def allow(self, page: Page, ticked: set[str]) -> Token | MultipleResults[Token]:
        allowed = with_bases(page.scopes & ticked)
        is_open = not page.is_answered and self.is_open(page)
        answer = self.answer(page, ticked, "allow")
        if not is_open:
            assert answer.status_code in (400, 404)
            return multiple()
        sent = leaving(answer).parameters
        assert ("code" in sent) == (not allowed <= {"offline_access"})
        if "code" not in sent:
            return multiple()
        page.app.was_allowed = True
        newest = self.run(self.row(page.app.side, sent["code"]))
        assert frozenset(newest.scopes) == allowed
        grant = Grant(page.app, allowed, newest.grant_id, self.now_ms)
        return Token(grant, sent["code"], allowed, self.now_ms + CODE_MS)

    @rule(page=pages)
    def decline(self, page: Page) -> None:
        before = self.run(self.sides[page.app.side].grants())
        self.answer(page, set(SCOPES), "deny")
        assert self.run(self.sides[page.app.side].grants()) == before

    def answer(self, page: Page, ticked: set[str], decision: str) -> Response:
        page.is_answered = True
        server = replace(self.sides[page.app.side], cookies=page.cookies)
        return self.run(server.send_consent(page.secret, sorted(ticked), decision))

    async def row(self, side: int, code: str) -> TokenRow:
        async with self.sides[side].store.read() as tx:
            row = await tx.grants.token(self.sides[side].context.context_id, parse_token(code, "ac").lookup_id())
        assert row is not None
        return row

    @rule(target=issued, code=codes, by=OWN | OTHERS, side=OWN | SIDES, is_right=st.integers(0, 4).map(bool))
    def exchange(
        self,
        code: Token,
        by: int | None,
        side: int | None,
        is_right: bool,
    ) -> Issued | MultipleResults[Issued]:
        app = code.grant.app if by is None else self.registered[by % len(self.registered)]
        place = app.side if side is None else side
        reply = self.run(
            self.sides[place].redeem(app.client_id, code.text, code_verifier=("v" if is_right else "w") * 43)
        )
        return self.judge(reply, code, app, place, code.scopes if is_right else None)

    @rule(target=issued, tokens=issued, by=OWN | OTHERS, side=OWN | SIDES, scopes=SUBSETS | st.just(set()))
    def refresh(
        self, tokens: Issued, by: int | None, side: int | None, scopes: set[str]
    ) -> Issued | MultipleResults[Issued]:
        token = tokens.refresh
        if token is None:
            return multiple()
        app = token.grant.app if by is None else self.registered[by % len(self.registered)]
        place = app.side if side is None else side
        changes = {"scope": " ".join(sorted(scopes))} if scopes else {}
        reply = self.run(self.sides[place].refresh(app.client_id, token.text, **changes))
        return self.judge(reply, token, app, place, (scopes or token.scopes) if scopes <= token.scopes else None)

    @rule(tokens=issued, by=OTHERS)
    def steal(self, tokens: Issued, by: int) -> None:
        self.refresh(tokens, by, None, set())

    @rule(target=issued, app=apps, by=OTHERS)
    def intercept(self, app: App, by: int) -> Issued | MultipleResults[Issued]:
        """Somebody else tries a fresh code in every wrong way before its client comes."""
        code = self.get_code(app, set(SCOPES))
        if not isinstance(code, Token):
            return multiple()
        self.exchange(code, None, None, is_right=False)
        self.exchange(code, by, None, is_right=self.registered[by % len(self.registered)] is not app)
        self.exchange(code, None, 1 - app.side, is_right=True)
        return self.exchange(code, None, None, is_right=not code.is_used)

    @rule(target=issued, app=apps, scope=st.sampled_from(["memory:read", "memory:write", "audit:read"]))
    def narrow(self, app: App, scope: str) -> Issued | MultipleResults[Issued]:
        """A client narrows an access token and goes beyond it."""
        whole = self.connect(app, set(SCOPES))
        if not isinstance(whole, Issued) or whole.refresh is None:
            return multiple()
        narrowed = self.refresh(whole, None, None, {scope})
        if isinstance(narrowed, Issued):
            for call in CALLS:
                self.check_call(narrowed.access, app.side, call)
        return narrowed

    @rule(app=apps, by_ms=st.sampled_from([PENDING_MS, PENDING_MS - SECOND_MS]))
    def answer_late(self, app: App, by_ms: int) -> None:
        page = self.ask(app, {"memory:read"})
        self.wait(by_ms)
        if isinstance(page, Page):
            self.allow(page, set(SCOPES))

    @rule(app=apps, by_ms=st.sampled_from([ACCESS_MS - SECOND_MS, ACCESS_MS, IDLE_MS - SECOND_MS, IDLE_MS]))
    def stay_away(self, app: App, by_ms: int) -> None:
        """A client comes back after a long time."""
        tokens = self.connect(app, set(SCOPES))
        self.wait(by_ms)
        if isinstance(tokens, Issued):
            self.check_call(tokens.access, app.side, CALLS[0])
            self.refresh(tokens, None, None, set())

    @rule(tokens=issued)
    def widen(self, tokens: Issued) -> None:
        self.refresh(tokens, None, None, set(SCOPES))

    @rule(app=apps, asked=SUBSETS)
    def dawdle(self, app: App, asked: set[str]) -> None:
        code = self.get_code(app, asked)
        self.wait(CODE_MS)
        if isinstance(code, Token):
            self.exchange(code, None, None, is_right=True)

    def judge(
        self, reply: Response, token: Token, app: App, place: int, scopes: Collection[str] | None
    ) -> Issued | MultipleResults[Issued]:
        """Whether a token request had to be answered as it was; ``scopes`` None where it asked for something wrong."""
        grant = token.grant
        reaches = app.side == place == grant.app.side and not app.is_forgotten
        is_idle = self.now_ms - grant.used_ms >= IDLE_MS
        is_good = reaches and app is grant.app and scopes is not None and self.now_ms < token.end_ms
        is_good = is_good and not (token.is_used or grant.is_over or is_idle)
        if reaches and (token.is_used or is_idle):
            grant.is_over = True  # a replay, whoever it comes from
            self.check_calls()
        assert (reply.status_code == 200) == is_good, reply.text
        if scopes is None or not is_good:
            return multiple()
        told = reply.json()
        token.is_used = True
        grant.used_ms = self.now_ms
        assert set(told["scope"].split()) == set(scopes)
        assert ("refresh_token" in told) == ("offline_access" in grant.scopes)
        access = Token(grant, told["access_token"], frozenset(scopes), self.now_ms + ACCESS_MS)
        self.accesses.append(access)
        if "refresh_token" not in told:
            return Issued(access, None)
        return Issued(access, Token(grant, told["refresh_token"], grant.scopes, self.now_ms + IDLE_MS))

    @rule(tokens=issued, side=SIDES, call=st.sampled_from(CALLS))
    def call(self, tokens: Issued, side: int, call: tuple[str, str, JsonObject]) -> None:
        self.check_call(tokens.access, side, call)

    def check_call(self, token: Token, side: int, call: tuple[str, str, JsonObject]) -> None:
        tool, scope, arguments = call
        grant = token.grant
        is_good = side == grant.app.side and not grant.is_over and self.now_ms < token.end_ms
        held = with_bases(token.scopes)
        reply = self.run(self.post_call(side, token.text, tool, arguments))
        assert reply.status_code == (401 if not is_good else 200 if scope in held else 403), reply.text
        if not is_good:
            assert 'error="invalid_token"' in reply.headers["www-authenticate"]
        if is_good:
            grant.used_ms = self.now_ms

    def check_calls(self) -> None:
        """Every access token there ever was, where it belongs."""
        for token in self.accesses:
            self.check_call(token, token.grant.app.side, CALLS[0])

    async def post_call(self, side: int, token: str, tool: str, arguments: JsonObject) -> Response:
        server = self.sides[side]
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        async with server.http() as http:
            return await http.post(f"{server.base}/mcp", json=message, headers={"authorization": f"Bearer {token}"})

    @rule(tokens=issued, side=SIDES, which=st.sampled_from(["access", "refresh"]))
    def disconnect(self, tokens: Issued, side: int, which: str) -> None:
        """By the client (RFC 7009); an expired access token may be forgotten already."""
        token = tokens.access if which == "access" else tokens.refresh
        if token is None or self.now_ms >= token.end_ms:
            return
        reply = self.run(self.sides[side].post("/revoke", {"token": token.text}))
        assert reply.status_code == 200
        token.grant.is_over = token.grant.is_over or side == token.grant.app.side
        self.check_calls()

    @rule(code=codes)
    def end(self, code: Token) -> None:
        """By the owner."""

        async def end() -> None:
            server = await self.signed_in(code.grant.app.side)
            [secret] = server.cookies.values()
            async with open_session(server.services, server.context, parse_token(secret, "st")) as session:
                with suppress(NotFoundError):
                    await revoke_grant(server.services, session, code.grant.grant_id)

        self.run(end())
        code.grant.is_over = True
        self.check_calls()

    @rule(by_ms=st.sampled_from([CODE_MS // 2, CODE_MS // 2, PENDING_MS, ACCESS_MS, IDLE_MS + SECOND_MS]))
    def wait(self, by_ms: int) -> None:
        self.sides[0].clock.advance(by_ms)
        self.check_calls()

    @rule()
    def sweep(self) -> None:
        self.run(sweep_all(self.sides[0].services))
        for side in (0, 1):
            self.forget(side)


@pytest.mark.requirement(
    "AUTH-12",
    "AUTH-22",
    "AUTH-24",
    "AUTH-25",
    "AUTH-28",
    "AUTH-30",
    "AUTH-31",
    "AUTH-32",
    "AUTH-33",
    "AUTH-40",
    "AUTH-45",
    "CTX-05",
)
def test_a_token_never_outlives_its_grant_nor_reaches_another_context_nor_holds_a_scope_not_consented() -> None:
    run_state_machine_as_test(Sequences, settings=settings(max_examples=30, stateful_step_count=40, deadline=None))
