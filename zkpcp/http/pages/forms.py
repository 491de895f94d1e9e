"""What a browser's form says, where it may lead afterwards, and the token that ties a form to a session.

Only ``application/x-www-form-urlencoded`` is read, and from memory: a multipart reader may put a passphrase into a
temporary file. Implements the token part of AUTH-41; the origin part is ``headers.check_same_origin``.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qs

from starlette.requests import Request

from zkpcp.errors import ForbiddenError, InvalidInputError, TooLargeError
from zkpcp.vault.secrets import TokenSecret

MAX_FORM_BYTES: Final = 64 * 1024
MAX_FIELDS: Final = 100
MAX_NEXT_CHARACTERS: Final = 4096
CSRF_FIELD: Final = "form_token"

_FORM_TYPE: Final = "application/x-www-form-urlencoded"
# A path of RFC 3986 characters, then a query as browsers send it; no backslash (to them a slash), no fragment.
_LOCAL_PATH: Final = re.compile(r"/[A-Za-z0-9\-._~!$&'()*+,;=:@%/]*(?:\?[!-\"$-\[\]-~]*)?")


@dataclass(frozen=True, slots=True)
class Form:
    """A form's fields; ``repr`` shows none of them."""

    fields: Mapping[str, Sequence[str]] = field(repr=False)

    def one(self, name: str) -> str:
        """The value of a field, empty when it is missing. Raises InvalidInputError when it is repeated."""
        values = self.fields.get(name, ())
        if len(values) > 1:
            raise InvalidInputError("a form field is repeated")
        return values[0] if values else ""

    def all(self, name: str) -> tuple[str, ...]:
        """Every value of a field, as of check boxes."""
        return tuple(self.fields.get(name, ()))


async def read_form(request: Request) -> Form:
    """Read a form. Raises InvalidInputError or TooLargeError."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != _FORM_TYPE:
        raise InvalidInputError("a form has to be sent as application/x-www-form-urlencoded")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM_BYTES:
            raise TooLargeError("the form is too large")
    try:
        text = body.decode("ascii")
        fields = parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except ValueError:
        fields = None
    if fields is None:  # raised outside the handler, so that no exception carries the form as its context
        raise InvalidInputError("the form cannot be read")
    return Form(fields)


def local_path(text: str, base_path: str) -> str | None:
    """``text`` when it is a path under ``base_path`` on this origin, else None: where a sign-in may lead."""
    if len(text) > MAX_NEXT_CHARACTERS or _LOCAL_PATH.fullmatch(text) is None or text.startswith("//"):
        return None
    path = text.partition("?")[0]
    if any(segment.lower().replace("%2e", ".") in (".", "..") for segment in path.split("/")):
        return None
    if not path.startswith(f"{base_path}/"):
        return None
    return text


def form_token(token: TokenSecret) -> str:
    """What a form of this session carries. Nobody can compute it who does not know the session; it opens nothing."""
    return hashlib.sha256(b"zkpcp/v1/form\x00" + token.lookup_id()).hexdigest()[:32]


def check_form_token(form: Form, token: TokenSecret) -> None:
    """Raise ForbiddenError unless the form was made for this session."""
    sent = form.one(CSRF_FIELD).encode("utf-8", "replace")
    if not hmac.compare_digest(sent, form_token(token).encode()):
        raise ForbiddenError("this form belongs to another sign-in; go back, reload the page and try again")
