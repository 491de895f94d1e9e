"""How a client's metadata document is fetched without becoming a way into the operator's network.

Implements the transport side of AUTH-19: one look-up of the name, every address of its answer public, then a dial by
number, so that a second answer is never asked for; TLS verified for the name; port 443; no redirect, proxy, cookie or
retry; ``200`` and JSON only; size and time bounded as a whole. It does NOT read the document, count attempts or keep
anything, and it cannot work through a proxy that resolves names itself.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Final

import anyio
import httpcore2
from typing_extensions import override

from zkpcp.core.client_documents import (
    MAX_DOCUMENT_BYTES,
    ClientDocumentError,
    ClientUrl,
    Fetched,
    IPAddress,
    is_public,
    max_age_s,
)

PORT: Final = 443
TIMEOUT_S: Final = 5.0
_OK: Final = 200
_MAX_DIALS: Final = 3
_MAX_LOOKUPS_AT_ONCE: Final = 4
_JSON_TYPE: Final = re.compile(r"application/(?:json|[a-z0-9!#$&^_.+-]+\+json)")
_HEADERS: Final = (
    ("Accept", "application/json"),
    ("Accept-Encoding", "identity"),  # the size limit counts what comes over the wire
    ("User-Agent", "zkpcp"),
    ("Connection", "close"),
)

Resolve = Callable[[str], Awaitable[Sequence[IPAddress]]]
Allow = Callable[[IPAddress], bool]
SocketOption = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]


class SystemResolver:
    """The operating system's look-up, on threads of its own.

    A name whose servers never answer holds a thread for longer than a fetch may take; it must not be one that the rest
    of the process waits for.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_MAX_LOOKUPS_AT_ONCE, thread_name_prefix="client-document-look-up")

    async def __call__(self, host: str) -> Sequence[IPAddress]:
        """Every address of a name, in the order to try them; raises OSError where there is none."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, _look_up, host)


class PublicFetcher:
    """Fetches documents from public addresses; one instance serves the process.

    ``ssl_context`` must verify certificates and host names; the default trusts the system's store. ``resolve``,
    ``allow`` and ``network`` are for tests and development: no setting reaches them.
    """

    def __init__(
        self,
        *,
        ssl_context: ssl.SSLContext | None = None,
        resolve: Resolve | None = None,
        allow: Allow = is_public,
        network: httpcore2.AsyncNetworkBackend | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._ssl_context = ssl_context or ssl.create_default_context()
        self._backend = _PublicOnly(resolve or SystemResolver(), allow, network or httpcore2.AnyIOBackend())
        self._timeout_s = timeout_s

    async def fetch(self, url: ClientUrl) -> Fetched:
        """The document's bytes, ``MAX_DOCUMENT_BYTES`` at most. Raises ClientDocumentError, whatever goes wrong."""
        try:
            # In all: look-up, dial, TLS, head and body. A limit for each read would let a slow sender go on for ever.
            with anyio.fail_after(self._timeout_s):
                return await self._fetch(url)
        # From None: the causes name addresses.
        except (TimeoutError, httpcore2.TimeoutException):
            raise ClientDocumentError("time") from None
        except (httpcore2.NetworkError, httpcore2.ProtocolError, OSError):
            raise ClientDocumentError("connection") from None

    async def _fetch(self, url: ClientUrl) -> Fetched:
        # The parts as they were parsed: no second parser gets to see the URL as text.
        parts = httpcore2.URL(scheme="https", host=url.host, port=PORT, target=url.path)
        headers = [("Host", url.host), *_HEADERS]
        # A pool for one request: a connection that is kept would outlive the look-up that allowed it.
        async with (
            httpcore2.AsyncConnectionPool(ssl_context=self._ssl_context, network_backend=self._backend) as pool,
            pool.stream("GET", parts, headers=headers) as response,
        ):
            if response.status != _OK:
                raise ClientDocumentError("status")
            if not _is_json(_values(response, b"content-type")):
                raise ClientDocumentError("content_type")
            return Fetched(await _read(response), max_age_s(_values(response, b"cache-control")))


class _PublicOnly(httpcore2.AsyncNetworkBackend):
    """Dials names only by an allowed address; everything else that a backend can do stays undone."""

    def __init__(self, resolve: Resolve, allow: Allow, network: httpcore2.AsyncNetworkBackend) -> None:
        self._resolve = resolve
        self._allow = allow
        self._network = network

    @override
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        addresses = await self._resolve(host)
        # All of them: an answer that mixes public and private addresses is how a name is rebound.
        if port != PORT or not addresses or not all(self._allow(address) for address in addresses):
            raise ClientDocumentError("address")
        for address in addresses[:_MAX_DIALS]:
            try:
                return await self._network.connect_tcp(str(address), port, timeout, local_address, socket_options)
            except httpcore2.ConnectError:
                continue  # a host without IPv6 still reaches the IPv4 address of the same answer
        raise ClientDocumentError("connection")


def _look_up(host: str) -> Sequence[IPAddress]:
    answer = socket.getaddrinfo(host, PORT, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [ip_address(str(address[0])) for _family, _type, _protocol, _name, address in answer]


def _values(response: httpcore2.Response, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in response.headers if key.lower() == name]


def _is_json(content_types: Sequence[str]) -> bool:
    if len(content_types) != 1:
        return False
    media_type = content_types[0].partition(";")[0].strip(" \t").lower()
    return _JSON_TYPE.fullmatch(media_type) is not None


async def _read(response: httpcore2.Response) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_stream():
        body += chunk
        if len(body) > MAX_DOCUMENT_BYTES:
            raise ClientDocumentError("size")
    return bytes(body)
