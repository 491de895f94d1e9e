"""A browser without a screen: opens an authorization URL, signs the owner in, allows what is ticked.

It reads the pages as a browser does (forms, redirects, the page that leads back to the app), keeps cookies, and sends
``Origin`` with every form. As a program it stands in for the person's browser (``BROWSER``):

    python -m tests.external.browser STATE URL            follow to the end, so that the app gets its answer
    python -m tests.external.browser STATE URL --print    print where the app is answered, and leave it at that

STATE is a JSON file with the owner's passphrase and, afterwards, the cookies: a person signs in once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import urlencode, urljoin, urlsplit

import httpx2
from typing_extensions import override

MAX_PAGES: Final = 8
"""An answer takes three pages: sign in, consent, back to the app."""
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class BrowserError(Exception):
    """The pages did not lead back to the app."""


@dataclass(slots=True)
class Form:
    """A form as it would be sent: every field but buttons, and of check boxes those that are ticked."""

    action: str
    method: str
    fields: list[tuple[str, str]] = field(default_factory=list)
    names: set[str] = field(default_factory=set)


class Page(HTMLParser):
    """What of a page leads on: its forms, and where it goes by itself."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.goes_to: str | None = None
        self.feed(text)

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append(Form(values.get("action", ""), values.get("method", "get").lower()))
        elif tag in ("input", "button") and self.forms and "name" in values:
            self._add_field(tag, values)
        elif tag == "meta" and values.get("http-equiv", "").lower() == "refresh":
            self.goes_to = values.get("content", "").partition("url=")[2] or None

    def form_with(self, name: str) -> Form | None:
        """The form that has a field or button of this name."""
        return next((form for form in self.forms if name in form.names), None)

    def _add_field(self, tag: str, values: dict[str, str]) -> None:
        form = self.forms[-1]
        form.names.add(values["name"])
        if tag == "button" or (values.get("type") == "checkbox" and "checked" not in values):
            return
        form.fields.append((values["name"], values.get("value", "")))


class Browser:
    """One person's browser at one server."""

    def __init__(self, http: httpx2.Client, passphrase: str) -> None:
        self._http = http
        self._passphrase = passphrase

    def approve(self, url: str) -> str:
        """Open an authorization URL and allow what is ticked; returns where the app is answered, unopened."""
        own = _origin(url)
        reply = self._http.get(url)
        for _ in range(MAX_PAGES):
            there = _next(reply)
            if there is None:
                reply = self._submit(reply)
            elif _origin(there) != own:
                return there
            else:
                reply = self._http.get(there)
        raise BrowserError("the pages lead in a circle")

    def deliver(self, url: str) -> None:
        """Open the app's own address."""
        self._http.get(url)

    def _submit(self, reply: httpx2.Response) -> httpx2.Response:
        page = Page(reply.text)
        if (form := page.form_with("passphrase")) is not None:
            filled = [(name, self._passphrase if name == "passphrase" else value) for name, value in form.fields]
        elif (form := page.form_with("decision")) is not None:
            filled = [*form.fields, ("decision", "allow")]
        else:
            raise BrowserError(f"a page with status {reply.status_code} has no form that leads on")
        here = str(reply.url)
        headers = {"origin": _origin(here), "content-type": "application/x-www-form-urlencoded"}
        return self._http.post(urljoin(here, form.action), content=urlencode(filled), headers=headers)


def _next(reply: httpx2.Response) -> str | None:
    """Where an answer leads by itself."""
    if reply.status_code in _REDIRECTS:
        return urljoin(str(reply.url), reply.headers["location"])
    if reply.status_code != 200:
        raise BrowserError(f"an error page, status {reply.status_code}")
    return Page(reply.text).goes_to


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


@contextmanager
def browser(passphrase: str, cookies: dict[str, str] | None = None) -> Iterator[Browser]:
    """A browser that starts with these cookies."""
    with httpx2.Client(cookies=cookies or {}, follow_redirects=False, trust_env=False, timeout=30) as http:
        yield Browser(http, passphrase)


def write_state(path: Path, passphrase: str) -> None:
    """Make a STATE file."""
    path.touch(mode=0o600)
    path.write_text(json.dumps({"passphrase": passphrase, "cookies": {}}), encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Approve one authorization."""
    state_path, url = Path(arguments[0]), arguments[1]
    state = json.loads(state_path.read_text(encoding="utf-8"))
    with httpx2.Client(cookies=state["cookies"], follow_redirects=False, trust_env=False, timeout=30) as http:
        here = Browser(http, state["passphrase"])
        answer = here.approve(url)
        state["cookies"] = dict(http.cookies.items())
        state_path.write_text(json.dumps(state), encoding="utf-8")
        if "--print" in arguments:
            sys.stdout.write(f"{answer}\n")
        else:
            here.deliver(answer)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
