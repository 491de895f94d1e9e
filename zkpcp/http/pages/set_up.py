"""Setting up a context in the browser, and the one showing of its recovery code (KEY-13).

The code stands in the body of one answer and nowhere else: no URL, cookie, log or row has it. Reloading the page sends
the form again, and the handle is taken by then.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from zkpcp.errors import ConflictError, InvalidInputError, NotFoundError, ZkpcpError
from zkpcp.http.limits import SET_UP_ADDRESS, address_key
from zkpcp.http.pages.forms import Form
from zkpcp.http.pages.render import as_sentence
from zkpcp.http.pages.web import Web, posted, start_session
from zkpcp.usecases.found import Founded, found_context
from zkpcp.usecases.session import sign_in

MAX_NAME_CHARACTERS: Final = 256
_CODE_ROWS: Final = 3


@dataclass(frozen=True, slots=True)
class KindChoice:
    """A kind of context and what it is for."""

    name: str
    label: str
    sentence: str


KIND_CHOICES: Final = (
    KindChoice("personal", "Me", "What AI apps should know about you as a person. It stays yours alone."),
    KindChoice("work", "My work", "What they should know about you at work, kept apart from your private life."),
    KindChoice("team", "A team", "What a group shares: its purpose, its words, how it works."),
)


@dataclass(frozen=True, slots=True)
class SetUpForm:
    """What was typed into the set-up form; the secrets are not shown again when something is wrong."""

    handle: str
    name: str = field(repr=False)
    kind: str
    understood: bool
    passphrase: str = field(repr=False)
    passphrase_again: str = field(repr=False)
    code: str = field(repr=False)
    organization: str = ""


_EMPTY: Final = SetUpForm("", "", "personal", understood=False, passphrase="", passphrase_again="", code="")
_NO_ERRORS: Final[Mapping[str, str]] = {}


async def show(web: Web, request: Request) -> Response:
    """The set-up form."""
    await _check_open(web, request)
    return _form_page(web, _EMPTY)


async def submit(web: Web, request: Request) -> Response:
    """Set a context up, sign its owner in, and show the recovery code."""
    form = await posted(web, request)
    await _check_open(web, request)
    await web.limiter.hit(SET_UP_ADDRESS, address_key(request))
    typed = _read(web, form)
    errors = _errors(web, typed)
    if errors:
        return _form_page(web, typed, errors)
    try:
        web.site.check_handle(typed.handle)
        with web.door.closing():
            founded = await found_context(
                web.services,
                handle=typed.handle,
                kind=typed.kind,
                passphrase=typed.passphrase,
                name=typed.name,
                organization=typed.organization or None,
            )
    except ConflictError:
        return _form_page(web, typed, {"handle": "This handle is taken already. Choose another one."})
    except InvalidInputError as error:
        return _form_page(
            web, typed, {item.path: as_sentence(item.message) for item in error.violations}, error.message
        )
    return await _welcome(web, request, typed, founded)


async def _welcome(web: Web, request: Request, typed: SetUpForm, founded: Founded) -> Response:
    context, code = founded.context, founded.recovery_code
    groups = code.printable().split("-")
    code.wipe()
    # With a host name for each context the home page has another origin: to that one the person signs in there.
    is_here = not web.site.is_root(request.headers.get("host", ""))
    size = len(groups) // _CODE_ROWS
    answer = web.pages.page(
        "recovery_code",
        rows=[groups[start : start + size] for start in range(0, len(groups), size)],
        handle=context.handle,
        home=f"{web.site.base_path(context.handle) if is_here else web.site.base_url(context.handle)}/",
        base_url=web.site.base_url(context.handle),
    )
    if is_here:
        # The code is shown here and never again: whatever fails now must not take it along. The person then signs in.
        with suppress(ZkpcpError):
            token = await sign_in(web.services, context, passphrase=typed.passphrase)
            await start_session(web, answer, context, token)
    return answer


async def _check_open(web: Web, request: Request) -> None:
    """A server for one context has no set-up once it has it; a context's own host name never has one."""
    if web.site.layout == "hosts" and not web.site.is_root(request.headers.get("host", "")):
        raise NotFoundError("there is nothing at this address")
    if web.site.is_multi:
        return
    async with web.services.store.read() as tx:
        if await tx.contexts.handles():
            raise NotFoundError("this server is set up already")


def _read(web: Web, form: Form) -> SetUpForm:
    return SetUpForm(
        handle=web.site.single_handle or form.one("handle").strip().lower(),
        name=" ".join(form.one("name").split()),
        kind=form.one("kind"),
        understood=form.one("understood") == "yes",
        passphrase=form.one("passphrase"),
        passphrase_again=form.one("passphrase_again"),
        code=form.one("set_up_code"),
        organization=form.one("organization").strip().lower(),
    )


def _errors(web: Web, typed: SetUpForm) -> dict[str, str]:
    """What can be said before the passphrase is stretched; the rules of handle and passphrase are the use case's."""
    checks = {
        "set_up_code": (web.door.opens(typed.code), "This is not the set-up code, or it was used already."),
        "handle": (bool(typed.handle), "Choose a handle."),
        "name": (_is_name(typed.name), f"Give a name of at most {MAX_NAME_CHARACTERS} characters."),
        "kind": (typed.kind in {choice.name for choice in KIND_CHOICES}, "Choose one of these."),
        "passphrase": (bool(typed.passphrase), "Choose a passphrase."),
        "passphrase_again": (typed.passphrase == typed.passphrase_again, "The two passphrases are not the same."),
        "understood": (typed.understood, "Please confirm that you have understood this."),
    }
    return {name: message for name, (passed, message) in checks.items() if not passed}


def _is_name(text: str) -> bool:
    shown = all(unicodedata.category(character) not in ("Cc", "Cs") for character in text)
    return 0 < len(text) <= MAX_NAME_CHARACTERS and shown


def _form_page(web: Web, typed: SetUpForm, errors: Mapping[str, str] = _NO_ERRORS, message: str = "") -> Response:
    return web.pages.page(
        "set_up",
        status=HTTPStatus.BAD_REQUEST if errors else HTTPStatus.OK,
        closed=web.door.needs_code,
        fixed_handle=web.site.single_handle,
        typed=typed,
        kinds=KIND_CHOICES,
        errors=errors,
        message="" if errors else message,
    )
