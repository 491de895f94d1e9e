"""Whether a request to a server on this computer names this computer (SEC-06, PCP §9.4).

A web page under a name that was re-bound to a loopback address sends that name as its Host, and to its browser the two
are one origin. Only names are compared: which port people use may differ where one is forwarded to another. It does NOT
replace the checks of Origin; a server with a public address knows its Hosts elsewhere. Names below ``localhost`` are
this computer to every browser (RFC 6761 §6.3); they are served where each context has one.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_LOCAL: Final = re.compile(rb"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
_BELOW: Final = re.compile(rb"([a-z0-9-]{1,63}\.)?localhost(:[0-9]{1,5})?", re.IGNORECASE)


class LocalHostsOnly:
    """Middleware that refuses every request but those whose one Host is a name of this computer."""

    def __init__(self, app: ASGIApp, *, names_below: bool = False) -> None:
        self._app = app
        self._hosts = _BELOW if names_below else _LOCAL

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve or refuse."""
        if scope["type"] == "http" and not self._is_local(scope):
            error = {"code": "misdirected", "message": "the Host is not served here"}
            refusal = JSONResponse({"error": error}, HTTPStatus.MISDIRECTED_REQUEST, {"Cache-Control": "no-store"})
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is_local(self, scope: Scope) -> bool:
        hosts = [value for name, value in scope["headers"] if name.lower() == b"host"]
        return len(hosts) == 1 and self._hosts.fullmatch(hosts[0]) is not None
