"""The owner's home page: how to connect an app, which apps are connected and how to end that, extensions (AUD-01)."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from zkpcp.core.scopes import Offer, known_scopes
from zkpcp.core.stored import GrantRow
from zkpcp.errors import InvalidInputError
from zkpcp.http.pages.render import Moment
from zkpcp.http.pages.web import Web, posted, see_other, signed_in
from zkpcp.usecases.extensions import choices
from zkpcp.usecases.grants import list_grants, revoke_grant
from zkpcp.usecases.handover import offered
from zkpcp.usecases.lock import lock_context, unlock_context


@dataclass(frozen=True, slots=True)
class HowTo:
    """One line on connecting a client."""

    name: str
    before: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class ConnectedApp:
    """A grant in words; ``who`` acts through it, where that is not simply whoever looks at the page."""

    grant_id: str
    client_name: str
    sentences: tuple[str, ...]
    created: Moment
    used: Moment
    who: str


_SETTINGS: Final = (
    HowTo("Claude", "Settings, Connectors, Add custom connector: paste the address."),
    HowTo(
        "ChatGPT",
        "Settings, Apps and connectors, Advanced: turn on developer mode; then Create, and paste the address.",
    ),
    HowTo("Cursor", "Settings, Tools and MCP, New MCP server: a server with this address as its “url”."),
    HowTo("VS Code", "Command palette, “MCP: Add Server”, HTTP: paste the address."),
)
_NEEDS_PUBLIC: Final = " It runs elsewhere, so it cannot reach an address that exists only on this computer."


def how_to_connect(handle: str, mcp_url: str, *, is_loopback: bool) -> tuple[HowTo, ...]:
    """One line for each client that people ask about; claude.ai and ChatGPT connect from their own servers."""
    name = f"zkpcp-{handle}"
    code = HowTo("Claude Code", "In a terminal:", f"claude mcp add --transport http {name} {shlex.quote(mcp_url)}")
    inspector = HowTo(
        "MCP Inspector",
        "In a terminal; choose Streamable HTTP and paste the address:",
        "npx @modelcontextprotocol/inspector",
    )
    remote = ("Claude", "ChatGPT")
    settings = tuple(
        HowTo(item.name, item.before + _NEEDS_PUBLIC) if is_loopback and item.name in remote else item
        for item in _SETTINGS
    )
    return (code, *settings, inspector)


async def show(web: Web, request: Request) -> Response:
    """The home page."""
    async with signed_in(web, request, "/") as owner:
        grants = await list_grants(web.services, owner.session)
        context = owner.session.context
        mcp_url = web.mcp_url(context.handle)
        return web.pages.page(
            "home",
            nav=owner.nav,
            kind=context.kind,
            manages=owner.session.is_controller,
            organizations=context.is_organizations,
            locked=None if context.locked_ms is None else Moment.of(context.locked_ms),
            control_offered=not owner.session.is_controller and await offered(web.services, owner.session) is not None,
            changing_keys=owner.session.keyring.roster.oldest is not None,
            controller=context.controller,
            mcp_url=mcp_url,
            how_to=how_to_connect(context.handle, mcp_url, is_loopback=web.site.is_loopback),
            extensions=choices(web.services, owner.session),
            grants=[_in_words(grant, context.offer, owner.session.principal) for grant in grants],
        )


async def disconnect(web: Web, request: Request) -> Response:
    """End one grant and show the rest."""
    form = await posted(web, request)
    async with signed_in(web, request, "/", form) as owner:
        await revoke_grant(web.services, owner.session, form.one("grant_id"))
        return see_other(web, f"{owner.place.base_path}/")


async def lock(web: Web, request: Request) -> Response:
    """Lock the context, once that is confirmed. Nobody is signed in afterwards."""
    form = await posted(web, request)
    async with signed_in(web, request, "/", form) as owner:
        if form.one("sure") != "yes":
            raise InvalidInputError("please tick the box to confirm that the context is to be locked")
        await lock_context(web.services, owner.session)
        return see_other(web, f"{owner.place.base_path}/sign-in")


async def unlock(web: Web, request: Request) -> Response:
    """Unlock it."""
    form = await posted(web, request)
    async with signed_in(web, request, "/", form) as owner:
        await unlock_context(web.services, owner.session)
        return see_other(web, f"{owner.place.base_path}/")


def _in_words(grant: GrantRow, offer: Offer, me: str) -> ConnectedApp:
    known = known_scopes(offer)
    # A scope of an extension that is off counts for nothing, until the extension is turned on again.
    sentences = tuple(known[scope].sentence if scope in known else f"{scope} (turned off)" for scope in grant.scopes)
    return ConnectedApp(
        grant.grant_id,
        grant.client_name,
        sentences,
        Moment.of(grant.created_ms),
        Moment.of(grant.used_ms),
        _who(grant, me),
    )


def _who(grant: GrantRow, me: str) -> str:
    if grant.on_behalf_of is not None:
        return f"{grant.principal}, for {grant.on_behalf_of}"
    return "" if grant.principal == me else grant.principal
