"""Turns values into pages: Jinja templates of this package, escaped, compiled once when the server starts.

Every answer leaves with the headers of ``headers.page_headers``. Nothing is cached on disk, and a template that asks
for a value it was not given is an error, not a blank. Pages work without a script; there is none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from importlib.resources import files
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from starlette.responses import HTMLResponse, Response

from zkpcp.core.redirects import is_loopback, redirect_host
from zkpcp.core.stored import ContextRow
from zkpcp.http.pages.consent import NAME_SOURCES, ConsentFacts
from zkpcp.http.pages.headers import FORM_REFERRER, LEAVING_REFERRER, page_headers

_PACKAGE: Final = "zkpcp.http.pages"
_STATIC: Final[Mapping[str, str]] = {"zkpcp.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml"}
_STATIC_CACHE: Final = "public, max-age=3600"


@dataclass(frozen=True, slots=True)
class Link:
    """An entry of the navigation."""

    href: str
    text: str


@dataclass(frozen=True, slots=True)
class Nav:
    """What stands on top of a signed-in page; ``here`` is the link of the page itself."""

    base_path: str
    handle: str
    form_token: str
    here: str

    @property
    def links(self) -> tuple[Link, ...]:
        """The signed-in pages."""
        return (
            Link(f"{self.base_path}/", "Home"),
            Link(f"{self.base_path}/profile", "Profile"),
            Link(f"{self.base_path}/pages", "Memory"),
            Link(f"{self.base_path}/review", "Review"),
            Link(f"{self.base_path}/log", "Access log"),
        )


@dataclass(frozen=True, slots=True)
class Moment:
    """An instant for people and for programs, in UTC."""

    text: str
    machine: str

    @classmethod
    def of(cls, at_ms: int) -> Moment:
        """From milliseconds since the epoch."""
        at = datetime.fromtimestamp(at_ms // 1000, UTC)
        return cls(at.strftime("%Y-%m-%d %H:%M UTC"), at.strftime("%Y-%m-%dT%H:%M:%SZ"))


class Pages:
    """The compiled templates of one server; ``secure`` means that it is on https."""

    def __init__(self, *, secure: bool) -> None:
        self._secure = secure
        self._static = {name: files(_PACKAGE).joinpath("static", name).read_bytes() for name in _STATIC}
        environment = Environment(
            loader=PackageLoader(_PACKAGE),
            autoescape=True,
            undefined=StrictUndefined,
            auto_reload=False,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.globals.update(
            {"stylesheet": self._static_url("zkpcp.css"), "icon": self._static_url("icon.svg"), "nav": None}
        )
        self._templates: dict[str, Template] = {
            name: environment.get_template(name) for name in environment.list_templates(extensions=["html"])
        }

    def page(
        self, name: str, *, status: int = HTTPStatus.OK, referrer: str = FORM_REFERRER, **values: object
    ) -> HTMLResponse:
        """The page made of a template and its values."""
        body = self._templates[f"{name}.html"].render(values)
        return HTMLResponse(body, status, page_headers(secure=self._secure, referrer=referrer))

    def consent_page(self, view: ConsentFacts) -> HTMLResponse:
        """The page on which a person allows or refuses an app."""
        return self.page("consent", view=view, name_source=NAME_SOURCES[view.client_name_source])

    def redirect_page(self, url: str) -> HTMLResponse:
        """A page that sends the browser on to a client's redirect URI.

        A redirect in answer to a form would be stopped by ``form-action 'self'``, at once or at a later hop. ``url``
        is one of the client's registered ones; a scheme that runs script never gets here.
        """
        target, local = redirect_host(url), is_loopback(url)
        return self.page("redirect", referrer=LEAVING_REFERRER, url=url, target=target, local=local)

    def error_page(
        self, status: int, title: str, text: str, next_step: str = "", *, incident: str = ""
    ) -> HTMLResponse:
        """A page that says what went wrong and what to do, and never repeats what was sent."""
        return self.page("error", status=status, heading=title, text=text, next_step=next_step, incident=incident)

    def static_file(self, name: str) -> Response | None:
        """A stylesheet or icon, or None."""
        if name not in self._static:
            return None
        headers = page_headers(secure=self._secure) | {"Cache-Control": _STATIC_CACHE}
        return Response(self._static[name], media_type=_STATIC[name], headers=headers)

    def _static_url(self, name: str) -> str:
        # The digest makes a browser fetch a changed file at once although it may keep the old one for an hour.
        return f"/static/{name}?{hashlib.sha256(self._static[name]).hexdigest()[:8]}"


def nav_for(context: ContextRow, base_path: str, form_token: str, here: str) -> Nav:
    """The navigation of a signed-in page; ``here`` is its path below the base."""
    return Nav(base_path, context.handle, form_token, f"{base_path}{here}")


def as_sentence(text: str) -> str:
    """An error's message as a person reads it: with a capital at its start and a full stop at its end."""
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."
