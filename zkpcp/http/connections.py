"""How long a stranger may take to send a request: connections that are silent or slow are closed.

One clock runs from the moment a connection is made, or a further request on it begins, until the request has arrived
whole. When it runs out, the client gets 408 (RFC 9110 §15.5.9) unless it was answered already, and the connection is
closed, so that idle connections neither use up the server's places nor hold back its end. It does not bound how long an
answer takes, nor how slowly a client reads it: uvicorn's flow control keeps such an answer out of memory. It counts for
each connection alone: how many there may be at once is the server's limit.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Final

from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from zkpcp.core.schemas import canonical_json

ARRIVAL_S: Final = 30
"""How long a request may take to arrive, header and body: the largest body at 1.4 Mbit/s."""

_BODY: Final = canonical_json(
    {"error": "request_timeout", "error_description": f"the request did not arrive within {ARRIVAL_S} seconds"}
)
_ANSWER: Final = (
    f"HTTP/1.1 {HTTPStatus.REQUEST_TIMEOUT.value} {HTTPStatus.REQUEST_TIMEOUT.phrase}\r\n"
    f"content-type: application/json\r\ncontent-length: {len(_BODY)}\r\n"
    "cache-control: no-store\r\nconnection: close\r\n\r\n"
).encode() + _BODY


class PromptHttp(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 protocol with a clock on the arrival of each request."""

    arrival_s: float = ARRIVAL_S
    _clock: asyncio.TimerHandle | None = None
    _cycle_before: RequestResponseCycle | None = None

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Start the clock of the first request."""
        super().connection_made(transport)
        self._start_clock()

    @override
    def data_received(self, data: bytes) -> None:
        """Start the clock where nothing is being answered: blank lines end the wait for a request and begin none."""
        if self._clock is None and _is_answered(self.cycle):
            self._start_clock()
        super().data_received(data)

    @override
    def on_message_begin(self) -> None:
        """Start the clock anew: a request begins."""
        self._start_clock()
        super().on_message_begin()

    @override
    def on_message_complete(self) -> None:
        """Stop the clock: the request is here."""
        self._stop_clock()
        super().on_message_complete()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock: nobody is there."""
        self._stop_clock()
        super().connection_lost(exc)

    @override
    def shutdown(self) -> None:
        """End the connection when the process ends: at once where a request has not arrived yet."""
        super().shutdown()
        if self._clock is not None:
            self._close()

    def _start_clock(self) -> None:
        self._stop_clock()
        self._cycle_before = self.cycle
        self._clock = self.loop.call_later(self.arrival_s, self._close)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _close(self) -> None:
        if self.transport.is_closing():
            return
        if self._is_unanswered():
            self.transport.write(_ANSWER)
        self.transport.close()

    def _is_unanswered(self) -> bool:
        """Whether an answer to the request that did not arrive would stand in no other answer's place."""
        if self.pipeline:
            return False
        # A cycle begins where the header ends: until then the last one is of the request before.
        if self.cycle is self._cycle_before:
            return _is_answered(self.cycle)
        return not self.cycle.response_started


def _is_answered(cycle: RequestResponseCycle | None) -> bool:
    return cycle is None or cycle.response_complete
