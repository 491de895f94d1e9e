"""What every page tells the browser not to do, and how a form's origin is checked.

Implements SEC-03 and AUTH-41. ``form-action 'self'`` holds for every page, because the answer to a form is a page of
ours, never a redirect to a client (browsers check each hop). Form pages have the referrer policy ``same-origin``: under
``no-referrer`` browsers send ``Origin: null`` with the form. It does NOT tell contexts apart that share an origin.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

from zkpcp.errors import ForbiddenError

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HSTS: Final = "max-age=31536000"

FORM_REFERRER: Final = "same-origin"
LEAVING_REFERRER: Final = "no-referrer"

_PAGE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Content-Security-Policy": CONTENT_SECURITY_POLICY,
        "X-Frame-Options": "DENY",
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        # No Cross-Origin-Opener-Policy: an app that asks for access in a pop-up waits on window.opener, which that
        # header would cut for good, also on the app's own page afterwards. Framing is refused; an opener reads nothing.
        "Cross-Origin-Resource-Policy": "same-origin",
    }
)


class CrossSiteError(ForbiddenError):
    """A form came from somewhere else than our own pages."""


def page_headers(*, secure: bool, referrer: str = FORM_REFERRER) -> dict[str, str]:
    """The headers of a page; ``secure`` (https) adds HSTS."""
    headers = {**_PAGE, "Referrer-Policy": referrer}
    if secure:
        headers["Strict-Transport-Security"] = _HSTS
    return headers


def check_same_origin(request: Request, origins: Collection[str]) -> None:
    """Raise CrossSiteError unless a page of one of ``origins`` (``scheme://host[:port]``) sent this form.

    ``Host`` has to be one of them too: to the browser, a name that was re-bound to this address is the same origin.
    """
    if request.headers.get("host", "").lower() not in {urlsplit(origin).netloc for origin in origins}:
        raise CrossSiteError("this address is not one of this server's own")
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if site is not None and site != "same-origin":
        raise CrossSiteError("this form was not sent from a page of this server")
    # Without Sec-Fetch-Site (older browsers, plain http) the origin has to be there and has to be ours.
    if (site is None or origin is not None) and origin not in origins:
        raise CrossSiteError("this form was not sent from a page of this server")
