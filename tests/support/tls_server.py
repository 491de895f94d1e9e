"""A TLS server on loopback with a throw-away certificate authority, for tests of what goes out over https.

It speaks no more HTTP than one request head; what it answers is the test's script, byte by byte.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

_VALID_FROM = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
_VALID_UNTIL = dt.datetime(2120, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Authority:
    """Signs certificates for host names; ``trusting`` is a client that believes it and nobody else."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def new(cls) -> Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("throw-away authority")
        certificate = (
            _builder(name, name, key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(key, certificate)

    def trusting(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=self.certificate.public_bytes(serialization.Encoding.PEM).decode())
        return context

    def serving(self, hosts: Sequence[str], folder: Path) -> ssl.SSLContext:
        """A server's context with a certificate for ``hosts``; OpenSSL reads it from a file in ``folder``."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
        certificate = (
            _builder(_name("throw-away server"), self.certificate.subject, key)
            .add_extension(names, critical=False)
            .sign(self.key, hashes.SHA256())
        )
        file = folder / "server.pem"
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context


@dataclass
class TlsServer:
    """A running server: its port, the request heads it got and the names it was asked for in the handshake."""

    port: int
    heads: list[str] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)


@asynccontextmanager
async def serve_tls(context: ssl.SSLContext, answer: Answer) -> AsyncIterator[TlsServer]:
    """Serve ``answer`` to each request; leaving ends the connections, whatever they are doing."""
    server = TlsServer(0)
    running: set[asyncio.Task[None]] = set()

    def note_name(_ssl: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> None:
        server.names.append(name)

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server.heads.append((await reader.readuntil(b"\r\n\r\n")).decode("ascii"))
            await answer(reader, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client left: it has seen enough
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(converse(reader, writer))
        running.add(task)
        task.add_done_callback(running.discard)

    context.sni_callback = note_name
    listener = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for task in tuple(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await listener.wait_closed()


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_VALID_FROM)
        .not_valid_after(_VALID_UNTIL)
    )
