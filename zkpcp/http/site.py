"""Which context a request means, and at which URLs a context is.

Implements PCP §2.2: contexts at ``<origin>/c/<handle>`` (layout ``paths``), or one context at the origin itself
(``single``). Routes are written once, relative to ``prefix``; a layout with one host name per context would answer in
``handle_of`` from the host and have an empty prefix too. It does NOT decide who may see a context.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast
from urllib.parse import urlsplit

from zkpcp.core.discovery import ContextFacts
from zkpcp.core.grants import parse_handle
from zkpcp.core.redirects import LOOPBACK_HOSTS, is_loopback
from zkpcp.core.stored import ContextRow
from zkpcp.errors import InvalidInputError
from zkpcp.ports import Store

_ANY_HANDLE = "context"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """How contexts are laid out under the public origin (scheme, host and port; no path, no trailing slash).

    ``single_handle`` is the one context of the layout ``single``. Raises InvalidInputError for an origin that cannot be
    an issuer.
    """

    origin: str
    layout: Literal["paths", "single"] = "paths"
    single_handle: str | None = None

    def __post_init__(self) -> None:
        if self.layout == "single":
            parse_handle(self.single_handle or "")
        self._facts(_ANY_HANDLE, "work", "human", self.origin)

    @property
    def is_secure(self) -> bool:
        """Whether people reach this site over https."""
        return self.origin.startswith("https://")

    @property
    def is_loopback(self) -> bool:
        """Whether the public address is this computer, which nobody else can reach."""
        return is_loopback(self.origin)

    @property
    def origins(self) -> frozenset[str]:
        """The origins whose pages are ours: the public one, and on this computer its other names."""
        if not self.is_loopback:
            return frozenset({self.origin})
        port = urlsplit(self.origin).port
        return frozenset(f"http://{name}:{port}" if port else f"http://{name}" for name in LOOPBACK_HOSTS)

    @property
    def is_multi(self) -> bool:
        """Whether this host has more than one context."""
        return self.layout == "paths"

    @property
    def prefix(self) -> str:
        """The route prefix of everything that belongs to a context."""
        return "/c/{handle}" if self.is_multi else ""

    @property
    def documentation_url(self) -> str:
        """Where people read about this server."""
        return f"{self.origin}/docs"

    @property
    def metadata_url(self) -> str:
        """The page that lists which metadata stays readable (KEY-01)."""
        return f"{self.origin}/docs/metadata"

    def base_path(self, handle: str) -> str:
        """The path of a context's base, without a trailing slash; empty for the layout ``single``."""
        return f"/c/{handle}" if self.is_multi else ""

    def base_url(self, handle: str) -> str:
        """The URL of a context's base, which is its issuer too."""
        return f"{self.origin}{self.base_path(handle)}"

    def handle_of(self, *, host: str, handle: str | None) -> str | None:
        """The handle that a request means; ``handle`` is the route's, ``host`` tells contexts apart by name."""
        del host
        return handle if self.is_multi else self.single_handle

    async def context(self, store: Store, *, host: str, handle: str | None) -> ContextRow | None:
        """The context that a request means, None where there is none."""
        named = self.handle_of(host=host, handle=handle)
        try:
            parse_handle(named or "")
        except InvalidInputError:
            return None
        async with store.read() as tx:
            return await tx.contexts.by_handle(named or "")

    def facts(self, context: ContextRow) -> ContextFacts:
        """What discovery says about a context."""
        return self._facts(
            context.handle,
            context.kind,
            context.controller_type,
            self.base_url(context.handle),
            extensions=context.extensions,
        )

    def _facts(
        self, handle: str, kind: str, controller_type: str, base_url: str, *, extensions: tuple[str, ...] = ()
    ) -> ContextFacts:
        return ContextFacts(
            handle=handle,
            kind=cast(Literal["personal", "work", "team"], kind),
            controller_type=cast(Literal["human", "org"], controller_type),
            base_url=base_url,
            documentation_url=self.documentation_url,
            metadata_url=self.metadata_url,
            features=("extensions",) if extensions else (),
            profile_extensions=extensions,
        )
