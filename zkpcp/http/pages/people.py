"""Who belongs to a context: the controller's page to invite people, add agents, suspend and remove (CTX-07).

An invite's code stands in the body of one answer and nowhere else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from zkpcp.core.access import RIGHTS, Right, parse_rights
from zkpcp.core.roster import AGENT, CONTROLLER, MEMBER, SUSPENDED, Principal
from zkpcp.errors import ConflictError, InvalidInputError, NotFoundError
from zkpcp.http.pages.forms import Form
from zkpcp.http.pages.keys import GOING_ON
from zkpcp.http.pages.partitions import IN_WORDS, in_words
from zkpcp.http.pages.render import Moment
from zkpcp.http.pages.web import SignedIn, Web, posted, see_other, signed_in
from zkpcp.usecases import handover, principals
from zkpcp.usecases.partitions import managed_partitions
from zkpcp.usecases.services import Services
from zkpcp.usecases.session import OpenSession

HERE: Final = "/people"
CONTROL: Final = "/control"
CODE_ROWS: Final = 3
_ROLES: Final[Mapping[str, str]] = {
    CONTROLLER: "controller",
    MEMBER: "member",
    SUSPENDED: "suspended",
    AGENT: "agent: acts for people, with no more than their rights",
}
_FIRST_RIGHTS: Final = frozenset({"read", "write", "propose"})

Act = Callable[[Services, OpenSession, str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class PersonCard:
    """Somebody who belongs."""

    principal: str
    role: str
    is_controller: bool
    is_suspended: bool
    is_agent: bool


@dataclass(frozen=True, slots=True)
class InviteCard:
    """An invite that is under way."""

    principal: str
    joined: bool
    until: Moment


@dataclass(frozen=True, slots=True)
class OfferCard:
    """An offer of control that is under way."""

    principal: str
    until: Moment


@dataclass(frozen=True, slots=True)
class RightBox:
    """A check box of the invite's form: a right in a partition."""

    value: str
    label: str
    ticked: bool


@dataclass(frozen=True, slots=True, repr=False)
class RightRow:
    """The rights in one partition."""

    name: str
    boxes: tuple[RightBox, ...]


async def show(web: Web, request: Request) -> Response:
    """The page."""
    async with signed_in(web, request, HERE) as person:
        await principals.admit_joined(web.services, person.session)
        return await _page(web, person)


async def invite(web: Web, request: Request) -> Response:
    """Make an invite and show its code."""
    form = await posted(web, request)
    async with signed_in(web, request, HERE, form) as person:
        principal = f"human:{form.one('name').strip().lower()}"
        try:
            invited = await principals.invite(web.services, person.session, principal=principal, rights=_ticked(form))
        except (ConflictError, InvalidInputError) as error:
            return await _page(web, person, in_words(error))
        base_url = web.site.base_url(person.place.handle)
        text = invited.code.printable()
        invited.code.wipe()
        return web.pages.page(
            "invited",
            nav=person.nav,
            principal=invited.principal,
            rows=code_rows(text),
            link=f"{base_url}/join#{text}",
            until=Moment.of(invited.expires_ms),
        )


async def add_agent(web: Web, request: Request) -> Response:
    """Let an agent act for people."""
    form = await posted(web, request)
    async with signed_in(web, request, HERE, form) as person:
        agent = f"agent:{form.one('name').strip().lower()}"
        try:
            await principals.add_agent(web.services, person.session, agent=agent, rights=_ticked(form))
        except (ConflictError, InvalidInputError) as error:
            return await _page(web, person, in_words(error))
        return see_other(web, f"{person.place.base_path}{HERE}")


async def withdraw(web: Web, request: Request) -> Response:
    """End an invite."""
    return await _do(web, request, principals.withdraw_invite)


async def suspend(web: Web, request: Request) -> Response:
    """Suspend a member."""
    return await _do(web, request, principals.suspend)


async def resume(web: Web, request: Request) -> Response:
    """End a suspension."""
    return await _do(web, request, principals.resume)


async def remove(web: Web, request: Request) -> Response:
    """Remove somebody for good, once that is confirmed; then on to the change of keys that begins with it."""
    return await _do(web, request, principals.remove, confirm=True, go_on=GOING_ON)


async def offer(web: Web, request: Request) -> Response:
    """Offer control to a member, once that is confirmed."""
    return await _do(web, request, handover.offer_control, confirm=True)


async def withdraw_offer(web: Web, request: Request) -> Response:
    """Withdraw the offer of control; on to the change of keys that begins with it."""

    async def act(services: Services, session: OpenSession, _principal: str) -> None:
        await handover.withdraw_offer(services, session)

    return await _do(web, request, act, go_on=GOING_ON)


async def show_offer(web: Web, request: Request) -> Response:
    """The member's page: what it means to take control, and the form to do it."""
    async with signed_in(web, request, CONTROL) as person:
        return await _offer_page(web, person)


async def take(web: Web, request: Request) -> Response:
    """Take control, once that is confirmed; on to the change of keys that begins with it."""
    form = await posted(web, request)
    async with signed_in(web, request, CONTROL, form) as person:
        if form.one("sure") != "yes":
            return await _offer_page(web, person, "Please confirm that you take control.")
        await handover.take_control(web.services, person.session)
        return see_other(web, f"{person.place.base_path}{GOING_ON}")


async def _offer_page(web: Web, person: SignedIn, message: str = "") -> Response:
    found = await handover.offered(web.services, person.session)
    if found is None or person.session.is_controller:
        raise NotFoundError("no control is offered to you here; the offer may have ended, and can be made again")
    return web.pages.page(
        "control",
        status=HTTPStatus.BAD_REQUEST if message else HTTPStatus.OK,
        nav=person.nav,
        until=Moment.of(found.expires_ms),
        message=message,
    )


async def _do(web: Web, request: Request, act: Act, *, confirm: bool = False, go_on: str = HERE) -> Response:
    form = await posted(web, request)
    async with signed_in(web, request, HERE, form) as person:
        if confirm and form.one("sure") != "yes":
            return await _page(web, person, "Please tick the box to confirm it.")
        try:
            await act(web.services, person.session, form.one("principal"))
        except (ConflictError, InvalidInputError) as error:
            return await _page(web, person, in_words(error))
        return see_other(web, f"{person.place.base_path}{go_on}")


async def _page(web: Web, person: SignedIn, message: str = "") -> Response:
    found = await principals.everybody(web.services, person.session)
    partitions = await managed_partitions(web.services, person.session)
    control = await handover.offered(web.services, person.session)
    return web.pages.page(
        "people",
        status=HTTPStatus.BAD_REQUEST if message else HTTPStatus.OK,
        nav=person.nav,
        kind=person.session.context.kind,
        can_offer=not person.session.context.is_organizations,
        offered=None if control is None else OfferCard(control.principal, Moment.of(control.expires_ms)),
        people=[_card(each) for each in found.principals],
        invites=[InviteCard(each.principal, each.joined, Moment.of(each.expires_ms)) for each in found.invites],
        rights=[_row(each.partition.id, each.partition.name, first=not at) for at, each in enumerate(partitions)],
        message=message,
    )


def code_rows(text: str) -> list[list[str]]:
    """A printable code in groups, by the lines it is shown in."""
    groups = text.split("-")
    size = len(groups) // CODE_ROWS
    return [groups[start : start + size] for start in range(0, len(groups), size)]


def _card(entry: Principal) -> PersonCard:
    role = entry.role
    return PersonCard(entry.principal, _ROLES.get(role, role), role == CONTROLLER, role == SUSPENDED, role == AGENT)


def _row(partition_id: str, name: str, *, first: bool) -> RightRow:
    return RightRow(
        name,
        tuple(
            RightBox(f"{partition_id} {right}", IN_WORDS[right], first and right in _FIRST_RIGHTS) for right in RIGHTS
        ),
    )


def _ticked(form: Form) -> Mapping[str, frozenset[Right]]:
    named: dict[str, set[str]] = {}
    for value in form.all("right"):
        partition, _, right = value.partition(" ")
        named.setdefault(partition, set()).add(right)
    return {partition: parse_rights(rights) for partition, rights in named.items()}
