"""The partitions of memory: which there are, what they are for, and who may do what in them (PCP §5.3, §7.3).

The controller makes, names and opens them; everybody else sees the ones that are open to them, and nothing of others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from zkpcp.core.access import RIGHTS, Right, parse_rights
from zkpcp.core.slots import MAIN_PARTITION
from zkpcp.errors import ConflictError, InvalidInputError, RefusedError
from zkpcp.http.pages.forms import Form
from zkpcp.http.pages.render import as_sentence
from zkpcp.http.pages.web import SignedIn, Web, posted, see_other, signed_in
from zkpcp.usecases.partitions import (
    create_partition,
    describe_partition,
    managed_partitions,
    own_partitions,
    set_access,
)

HERE: Final = "/partitions"
IN_WORDS: Final[Mapping[Right, str]] = {
    "read": "read",
    "write": "write",
    "propose": "propose changes",
    "review": "review proposals",
}


@dataclass(frozen=True, slots=True)
class Box:
    """A check box: one right of one person."""

    value: str
    label: str
    ticked: bool


@dataclass(frozen=True, slots=True)
class Person:
    """A line of an access list."""

    principal: str
    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Card:
    """A partition on the page; ``people`` only for its controller."""

    partition_id: str
    name: str
    description: str
    renamable: bool
    may: str
    people: tuple[Person, ...]


async def show(web: Web, request: Request) -> Response:
    """The list."""
    async with signed_in(web, request, HERE) as person:
        return await _page(web, person)


async def create(web: Web, request: Request) -> Response:
    """Make one."""
    return await _do(
        web,
        request,
        lambda person, form: create_partition(
            web.services, person.session, name=form.one("name"), description=form.one("description")
        ),
    )


async def describe(web: Web, request: Request) -> Response:
    """Rename one, or say anew what it is for."""
    return await _do(
        web,
        request,
        lambda person, form: describe_partition(
            web.services,
            person.session,
            form.one("partition"),
            name=form.one("name"),
            description=form.one("description"),
        ),
    )


async def access(web: Web, request: Request) -> Response:
    """Replace one's access list."""
    return await _do(
        web,
        request,
        lambda person, form: set_access(web.services, person.session, form.one("partition"), _ticked(form)),
    )


async def _do(web: Web, request: Request, act: Callable[[SignedIn, Form], Awaitable[object]]) -> Response:
    form = await posted(web, request)
    async with signed_in(web, request, HERE, form) as person:
        try:
            await act(person, form)
        except (ConflictError, InvalidInputError) as error:
            return await _page(web, person, in_words(error))
        return see_other(web, f"{person.place.base_path}{HERE}")


async def _page(web: Web, person: SignedIn, message: str = "") -> Response:
    manages = person.session.is_controller
    return web.pages.page(
        "partitions",
        status=HTTPStatus.BAD_REQUEST if message else HTTPStatus.OK,
        nav=person.nav,
        manages=manages,
        has_lists=bool(person.session.keyring.roster.access),
        cards=await (_managed if manages else _own)(web, person),
        message=message,
    )


async def _managed(web: Web, person: SignedIn) -> list[Card]:
    return [
        Card(
            item.partition.id,
            item.partition.name,
            item.partition.description,
            renamable=item.partition.id != MAIN_PARTITION,
            may="",
            people=tuple(Person(name, _boxes(name, rights)) for name, rights in item.access.items()),
        )
        for item in await managed_partitions(web.services, person.session)
    ]


async def _own(web: Web, person: SignedIn) -> list[Card]:
    return [
        Card(
            item.partition.id,
            item.partition.name,
            item.partition.description,
            renamable=False,
            may=", ".join(IN_WORDS[right] for right in item.rights),
            people=(),
        )
        for item in await own_partitions(web.services, person.session)
    ]


def _boxes(principal: str, rights: frozenset[Right]) -> tuple[Box, ...]:
    return tuple(Box(f"{principal} {right}", IN_WORDS[right], right in rights) for right in RIGHTS)


def _ticked(form: Form) -> Mapping[str, frozenset[Right]]:
    named: dict[str, set[str]] = {}
    for value in form.all("right"):
        principal, _, right = value.partition(" ")
        named.setdefault(principal, set()).add(right)
    return {principal: parse_rights(rights) for principal, rights in named.items()}


def in_words(error: RefusedError) -> str:
    """A refusal as a sentence with its rules; it holds nothing of what was sent."""
    rules = [item.message for item in error.violations] if isinstance(error, InvalidInputError) else []
    text = ": ".join((error.message, *rules))
    return as_sentence(text)
