"""A loopback proxy that adds an access token, for checkers that can send none.

It passes bytes on as they come. Of a request's head it changes three things: ``Authorization`` is set, ``Connection``
is ``close`` (one request per connection), and in ``Host`` and ``Origin`` the proxy's own port becomes the server's, so
that a probe with a foreign host or origin still is one. It listens on 127.0.0.1 only, and ends with its block.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import Final, cast

from typing_extensions import override

MAX_HEAD_BYTES: Final = 64 * 1024
CONNECTION_LIFETIME_S: Final = 60.0
_CHUNK_BYTES: Final = 65536
_END_OF_HEAD: Final = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Rewrite:
    """How the head of a request changes."""

    own_port: int
    server_port: int
    token: str = field(repr=False)

    def head(self, head: bytes) -> bytes:
        """The head to send on; ends with the empty line, as it came."""
        first, *lines = head.removesuffix(_END_OF_HEAD).split(b"\r\n")
        kept = [self._line(line) for line in lines if not line.lower().startswith((b"authorization:", b"connection:"))]
        added = [b"Authorization: Bearer " + self.token.encode("ascii"), b"Connection: close"]
        return b"\r\n".join([first, *kept, *added]) + _END_OF_HEAD

    def _line(self, line: bytes) -> bytes:
        if not line.lower().startswith((b"host:", b"origin:")):
            return line
        return re.sub(rb":%d(?=\s*$)" % self.own_port, b":%d" % self.server_port, line)


class _Proxy(ThreadingTCPServer):
    daemon_threads = True
    # The checkers start many requests at once.
    request_queue_size = 128
    rewrite: Rewrite


class _Connection(BaseRequestHandler):
    """One request and its answer."""

    @override
    def handle(self) -> None:
        client: socket.socket = self.request
        client.settimeout(CONNECTION_LIFETIME_S)
        rewrite = cast("_Proxy", self.server).rewrite
        try:
            head, rest = _read_head(client)
            with socket.create_connection(("127.0.0.1", rewrite.server_port), CONNECTION_LIFETIME_S) as server:
                server.sendall(rewrite.head(head) + rest)
                Thread(target=_pass_on, args=(client, server), daemon=True).start()
                _pass_on(server, client)
        except OSError:
            return  # either side has gone; the other sees its connection end


def _read_head(client: socket.socket) -> tuple[bytes, bytes]:
    received = b""
    while _END_OF_HEAD not in received:
        chunk = client.recv(_CHUNK_BYTES)
        if not chunk or len(received) > MAX_HEAD_BYTES:
            raise ConnectionAbortedError
        received += chunk
    head, end, rest = received.partition(_END_OF_HEAD)
    return head + end, rest


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    try:
        while chunk := source.recv(_CHUNK_BYTES):
            target.sendall(chunk)
    except OSError:
        return  # closed by the other direction


@contextmanager
def bearer_proxy(server_port: int, token: str) -> Iterator[int]:
    """Listen until the block ends; yields the port."""
    with _Proxy(("127.0.0.1", 0), _Connection) as proxy:
        port: int = proxy.server_address[1]
        proxy.rewrite = Rewrite(port, server_port, token)
        listening = Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        listening.start()
        try:
            yield port
        finally:
            proxy.shutdown()
            listening.join()
