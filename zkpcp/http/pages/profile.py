"""What the owner sees of the profile: each member, who set it last, and which recommended ones are empty (PROF-04).

Read-only: a profile is changed by the apps that may.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from zkpcp.core.extensions import extension_of
from zkpcp.core.schemas import JsonValue
from zkpcp.http.pages.render import Moment
from zkpcp.http.pages.web import Web, signed_in
from zkpcp.usecases.profile import CORE, TEAM
from zkpcp.usecases.provenance import Known, Member, known_about

_TITLES = {CORE: "Profile", TEAM: "Team profile"}


@dataclass(frozen=True, slots=True, repr=False)
class ShownMember:
    """A member in words; ``at`` is None where its origin is not known."""

    name: str
    text: str
    by: str
    at: Moment | None


@dataclass(frozen=True, slots=True, repr=False)
class Section:
    """A namespace in words."""

    title: str
    namespace: str
    members: tuple[ShownMember, ...]
    empty: str


async def show(web: Web, request: Request) -> Response:
    """The page."""
    async with signed_in(web, request, "/profile") as owner:
        sections = [_section(known) for known in await known_about(web.services, owner.acting)]
        return web.pages.page("profile", nav=owner.nav, sections=sections)


def _section(known: Known) -> Section:
    title = _TITLES.get(known.namespace) or extension_of(known.namespace).title
    members = tuple(_shown(member) for member in known.members)
    return Section(title, known.namespace, members, ", ".join(_words(name) for name in known.empty))


def _shown(member: Member) -> ShownMember:
    origin = member.origin
    by = "" if origin is None else f"{origin.principal} through {origin.client or 'this site'}"
    return ShownMember(
        _words(member.name), _text(member.value), by, None if origin is None else Moment.of(origin.at_ms)
    )


def _words(name: str) -> str:
    return name.replace("_", " ")


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
