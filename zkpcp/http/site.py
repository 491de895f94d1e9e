"""Which context a request means, and at which URLs a context is.

Implements PCP §2.2. Three layouts: contexts at ``<origin>/c/<handle>`` (``paths``), one context at the origin itself
(``single``), and each context on a host name of its own below the origin's (``hosts``), so that browsers keep contexts
apart. Routes are written once, relative to ``prefix``. It does NOT decide who may see a context.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, cast
from urllib.parse import urlsplit

from zkpcp.core.discovery import ContextFacts
from zkpcp.core.grants import parse_handle
from zkpcp.core.redirects import LOOPBACK_HOSTS, is_loopback
from zkpcp.core.stored import ContextRow
from zkpcp.errors import InvalidInputError, Violation
from zkpcp.ports import Store

Layout = Literal["paths", "single", "hosts"]

_ANY_HANDLE = "context"
# A label of a host name (RFC 1123 §2.1) that shows what it is: "xn--" labels are shown as other letters.
_HOST_LABEL: Final = re.compile(r"(?!xn--)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_NAME: Final = re.compile(r"[a-z0-9.-]*[a-z]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """How contexts are laid out under the public origin (scheme, host and port; no path, no trailing slash).

    ``single_handle`` is the one context of the layout ``single``; ``client_documents``: clients may be known by a
    document (AUTH-18). Raises InvalidInputError for an origin that cannot be an issuer or has no names below it.
    """

    origin: str
    layout: Layout = "paths"
    single_handle: str | None = None
    client_documents: bool = False

    def __post_init__(self) -> None:
        if self.layout == "single":
            parse_handle(self.single_handle or "")
        if self.layout == "hosts" and _NAME.fullmatch(urlsplit(self.origin).hostname or "") is None:
            raise InvalidInputError("an address has no host names below it", [Violation("origin", "must be a name")])
        self._facts(_ANY_HANDLE, "work", "human", self.base_url(_ANY_HANDLE if self.is_multi else ""))

    @property
    def is_secure(self) -> bool:
        """Whether people reach this site over https."""
        return self.origin.startswith("https://")

    @property
    def is_loopback(self) -> bool:
        """Whether the public address is this computer, which nobody else can reach."""
        return is_loopback(self.origin)

    @property
    def is_multi(self) -> bool:
        """Whether this host may have more than one context."""
        return self.layout != "single"

    @property
    def prefix(self) -> str:
        """The route prefix of everything that belongs to a context."""
        return "/c/{handle}" if self.layout == "paths" else ""

    @property
    def documentation_url(self) -> str:
        """Where people read about this server."""
        return f"{self.origin}/docs"

    @property
    def metadata_url(self) -> str:
        """The page that lists which metadata stays readable (KEY-01)."""
        return f"{self.origin}/docs/metadata"

    @property
    def context_url_template(self) -> str:
        """The base of a context with its handle left open (DISC-07)."""
        return self.base_url("{context}")

    def base_path(self, handle: str) -> str:
        """The path of a context's base, without a trailing slash; empty where a context has an origin of its own."""
        return f"/c/{handle}" if self.layout == "paths" else ""

    def base_url(self, handle: str) -> str:
        """The URL of a context's base, which is its issuer too."""
        if self.layout == "hosts":
            scheme, _, netloc = self.origin.partition("://")
            return f"{scheme}://{handle}.{netloc}"
        return f"{self.origin}{self.base_path(handle)}"

    def is_root(self, host: str) -> bool:
        """Whether a Host is the server's own and not a context's; only ``hosts`` tells them apart."""
        return self.layout == "hosts" and self._netloc(host) == self._netloc(urlsplit(self.origin).netloc)

    def origins_at(self, host: str) -> frozenset[str]:
        """The origins whose pages are ours to a request with this Host; on this computer its other names too."""
        if self.layout == "hosts":
            if self.is_root(host):
                return frozenset({self.origin})
            handle = self.handle_of(host=host, handle=None)
            return frozenset() if handle is None else frozenset({self.base_url(handle)})
        if not self.is_loopback:
            return frozenset({self.origin})
        port = urlsplit(self.origin).port
        return frozenset(f"http://{name}:{port}" if port else f"http://{name}" for name in LOOPBACK_HOSTS)

    def is_served(self, host: str) -> bool:
        """Whether a Host is one of ours."""
        return self._netloc(host) in {self._netloc(urlsplit(origin).netloc) for origin in self.origins_at(host)}

    def handle_of(self, *, host: str, handle: str | None) -> str | None:
        """The handle that a request means; ``handle`` is the route's, ``host`` tells contexts apart by name."""
        if self.layout == "hosts":
            label, _, parent = self._netloc(host).partition(".")
            is_ours = parent == self._netloc(urlsplit(self.origin).netloc)
            return label if is_ours and _HOST_LABEL.fullmatch(label) else None
        return self.single_handle if self.layout == "single" else handle

    def check_handle(self, handle: str) -> None:
        """Raise InvalidInputError for a handle that no context can be reached by in this layout."""
        if self.layout == "hosts" and _HOST_LABEL.fullmatch(handle) is None:
            rule = "must not end with a hyphen or start with xn--: it is part of a host name here"
            raise InvalidInputError("the handle cannot be a host name", [Violation("handle", rule)])

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
            features=context.features,
        )

    def _netloc(self, host: str) -> str:
        """A Host as it is compared: in lower case, without the scheme's own port."""
        return host.lower().removesuffix(":443" if self.is_secure else ":80")

    def _facts(
        self,
        handle: str,
        kind: str,
        controller_type: str,
        base_url: str,
        *,
        extensions: tuple[str, ...] = (),
        features: tuple[str, ...] = (),
    ) -> ContextFacts:
        return ContextFacts(
            handle=handle,
            kind=cast(Literal["personal", "work", "team"], kind),
            controller_type=cast(Literal["human", "org"], controller_type),
            base_url=base_url,
            documentation_url=self.documentation_url,
            metadata_url=self.metadata_url,
            features=(*(("extensions",) if extensions else ()), *features),
            profile_extensions=extensions,
            client_id_metadata_documents=self.client_documents,
        )
