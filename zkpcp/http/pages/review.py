"""Review on the management surface: whether writes wait, what waits, and approving or rejecting it (PCP §5.4).

Addresses hold a proposal's opaque id, never a path or title.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from zkpcp.core.access import parse_review_mode
from zkpcp.core.pages import serialize
from zkpcp.errors import ConflictError, ForbiddenError, InvalidInputError
from zkpcp.http.pages.partitions import in_words
from zkpcp.http.pages.render import Moment
from zkpcp.http.pages.web import SignedIn, Web, posted, see_other, signed_in
from zkpcp.usecases.review import approve, compare, list_proposals, reject, set_review

HERE: Final = "/review"
_MODES: Final = (
    ("off", "Nothing: apps write, and there are no proposals."),
    ("proposals", "Proposals: apps that may only propose can do so; the others write."),
    ("all-app-writes-wait", "Everything that apps write; they delete nothing."),
)


@dataclass(frozen=True, slots=True, repr=False)
class Line:
    """A proposal in the list."""

    href: str
    path: str
    title: str
    sensitive: bool
    author: str
    made: Moment


async def show(web: Web, request: Request) -> Response:
    """The list, and for the controller the choice."""
    async with signed_in(web, request, HERE) as person:
        found = await list_proposals(web.services, person.acting)
        return web.pages.page(
            "review",
            nav=person.nav,
            manages=person.session.is_controller,
            mode=person.session.keyring.roster.review,
            modes=_MODES,
            lines=[
                Line(
                    f"{person.place.base_path}{HERE}/{item.proposal_id}",
                    item.page.path.value,
                    item.page.title,
                    item.page.is_sensitive,
                    str(item.page.source["principal"]),
                    Moment.of(item.created_ms),
                )
                for item in found.proposals
            ],
        )


async def switch(web: Web, request: Request) -> Response:
    """Say what waits for review."""
    form = await posted(web, request)
    async with signed_in(web, request, HERE, form) as person:
        try:
            mode = parse_review_mode(form.one("mode"))
        except ValueError:
            raise InvalidInputError("the form does not say what waits for review") from None
        await set_review(web.services, person.session, mode)
        return see_other(web, f"{person.place.base_path}{HERE}")


async def show_proposal(web: Web, request: Request) -> Response:
    """A proposal beside the page as it is now."""
    async with signed_in(web, request, HERE) as person:
        return await _proposal(web, person, request.path_params["proposal_id"])


async def resolve(web: Web, request: Request) -> Response:
    """Approve it, approve what the reviewer made of it, or reject it."""
    form = await posted(web, request)
    async with signed_in(web, request, HERE, form) as person:
        proposal_id, act = request.path_params["proposal_id"], form.one("act")
        try:
            if act == "reject":
                await reject(web.services, person.acting, proposal_id)
            else:
                # Browsers send every line's end as CR LF.
                edited = form.one("text").replace("\r\n", "\n") if act == "edit" else None
                await approve(web.services, person.acting, proposal_id, seen_updated=form.one("current"), edited=edited)
        except (ConflictError, ForbiddenError, InvalidInputError) as error:
            return await _proposal(web, person, proposal_id, in_words(error))
        return see_other(web, f"{person.place.base_path}{HERE}")


async def _proposal(web: Web, person: SignedIn, proposal_id: str, message: str = "") -> Response:
    seen = await compare(web.services, person.acting, proposal_id)
    return web.pages.page(
        "proposal",
        status=HTTPStatus.CONFLICT if message else HTTPStatus.OK,
        nav=person.nav,
        here=f"{person.place.base_path}{HERE}/{proposal_id}",
        back=f"{person.place.base_path}{HERE}",
        path=seen.proposal.page.path.value,
        author=str(seen.proposal.page.source["principal"]),
        made=Moment.of(seen.proposal.created_ms),
        text=serialize(seen.proposal.page).decode(),
        current=None if seen.current is None else serialize(seen.current).decode(),
        current_updated="" if seen.current is None else seen.current.updated,
        stale=seen.is_stale,
        message=message,
    )
