"""What a context and its authorization server say about themselves, and at which URLs.

Implements PCP §2 (DISC-01 to DISC-07, DISC-09 to DISC-12, DISC-14), RFC 9728, RFC 8414 and RFC 9207. Builders only:
routing, 404 for unknown contexts (DISC-08) and caching are the HTTP layer's. Nothing here is personal but the handle
in the URLs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlsplit

from zkpcp.core.schemas import JsonObject
from zkpcp.errors import InvalidInputError, Violation

PCP_VERSION: Final = "0.3"
FEATURES: Final = (
    "review",
    "partitions",
    "delegation",
    "extensions",
    "export_create",
    "erase_request",
    "connections",
)
_HANDLE: Final = re.compile(r"[a-z0-9][a-z0-9-]{1,62}")
# Lower case and without a default port, a query or a trailing slash: clients compare issuers byte by byte (RFC 8414
# §3.3).
_BASE_URL: Final = re.compile(
    r"(https?)://(?:[a-z0-9.-]+|\[[0-9a-f:.]+\])(?::([1-9][0-9]{0,4}))?(?:/c/[a-z0-9][a-z0-9-]{1,62})?"
)
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextFacts:
    """What discovery needs to know about one context; raises InvalidInputError for facts that cannot be published.

    ``base_url`` is an origin, or an origin and ``/c/<handle>`` on a host of many contexts. ``export`` is true only
    where the commitments of §8.1 hold (DISC-05); without it ``conformance`` must be empty (DISC-14).
    """

    handle: str
    kind: Literal["personal", "work", "team"]
    controller_type: Literal["human", "org"]
    base_url: str
    documentation_url: str
    metadata_url: str
    features: tuple[str, ...] = ()
    profile_extensions: tuple[str, ...] = ()
    connections: tuple[str, ...] = ()
    conformance: tuple[str, ...] = ()
    export: bool = False
    client_id_metadata_documents: bool = False

    def __post_init__(self) -> None:
        violations = list(_broken_rules(self))
        if violations:
            raise InvalidInputError("these facts cannot be published", violations)


def base(facts: ContextFacts) -> str:
    """The context base, without a trailing slash; it is also the issuer (PCP §3)."""
    return facts.base_url


def mcp_url(facts: ContextFacts) -> str:
    """The MCP endpoint, which is the protected resource's identifier (DISC-09)."""
    return f"{facts.base_url}/mcp"


def context_document_url(facts: ContextFacts) -> str:
    """Where the context document is (DISC-01)."""
    return f"{facts.base_url}/.well-known/pcp.json"


def prm_url(facts: ContextFacts) -> str:
    """Where the protected resource metadata is: the well-known part goes between host and path (RFC 9728 §3.1)."""
    return _well_known(mcp_url(facts), "oauth-protected-resource")


def as_metadata_url(facts: ContextFacts) -> str:
    """Where the authorization server metadata is (RFC 8414 §3.1)."""
    return _well_known(base(facts), "oauth-authorization-server")


def context_document(facts: ContextFacts) -> JsonObject:
    """The context document of PCP §2.3, valid against ``discovery.schema.json``."""
    return {
        "pcp_version": PCP_VERSION,
        "kind": facts.kind,
        "controller_type": facts.controller_type,
        "mcp_endpoint": mcp_url(facts),
        "resource_metadata": prm_url(facts),
        "authorization_server": base(facts),
        "profile_extensions": list(facts.profile_extensions),
        "connections": list(facts.connections),
        "features": [name for name in FEATURES if name in facts.features],
        "export": facts.export,
        "encryption": {
            "at_rest": True,
            "custody": "user",
            "readable_by": [*(["org"] if facts.controller_type == "org" else []), "principals", "grants"],
            "metadata": facts.metadata_url,
        },
        "conformance": list(facts.conformance),
        "documentation": facts.documentation_url,
    }


def root_document(*, context_url_template: str, documentation_url: str) -> JsonObject:
    """The root document of a host of many contexts; it names none of them (DISC-07)."""
    return {
        "pcp_version": PCP_VERSION,
        "multi_context": True,
        "context_url_template": context_url_template,
        "documentation": documentation_url,
    }


def protected_resource_metadata(facts: ContextFacts, scopes: Iterable[str]) -> JsonObject:
    """The resource's metadata (RFC 9728 §2); ``scopes`` is the default grant without ``offline_access`` (AUTH-07)."""
    return {
        "resource": mcp_url(facts),
        "authorization_servers": [base(facts)],
        "scopes_supported": list(scopes),
        "bearer_methods_supported": ["header"],
        "resource_documentation": facts.documentation_url,
    }


def authorization_server_metadata(facts: ContextFacts, scopes: Iterable[str] = ()) -> JsonObject:
    """The authorization server's metadata (RFC 8414 §2, RFC 9207 §3): public clients, PKCE with S256, nothing else.

    ``scopes`` is what the resource metadata names; ``offline_access`` is added, which belongs here alone.
    """
    issuer = base(facts)
    return {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/authorize",
        "token_endpoint": f"{issuer}/token",
        "registration_endpoint": f"{issuer}/register",
        "revocation_endpoint": f"{issuer}/revoke",
        "scopes_supported": [*scopes, "offline_access"],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": facts.client_id_metadata_documents,
        "service_documentation": facts.documentation_url,
    }


def _well_known(url: str, name: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/.well-known/{name}{parts.path}"


def _broken_rules(facts: ContextFacts) -> Iterable[Violation]:
    if _HANDLE.fullmatch(facts.handle) is None:
        yield Violation("handle", "must be 2 to 63 lower-case letters, digits or hyphens and not start with a hyphen")
    match = _BASE_URL.fullmatch(facts.base_url)
    if match is None or match[2] == _DEFAULT_PORTS[match[1]]:
        rule = "must be an http(s) origin in lower case without its default port, alone or with /c/ and the handle"
        yield Violation("base_url", rule)
    elif "/c/" in facts.base_url and not facts.base_url.endswith(f"/c/{facts.handle}"):
        yield Violation("base_url", "must end with the handle")
    if facts.kind == "personal" and facts.controller_type != "human":
        yield Violation("controller_type", "must be human for a personal context")
    if not set(facts.features) <= set(FEATURES):
        yield Violation("features", f"must be among: {', '.join(FEATURES)}")
    if facts.conformance and not facts.export:
        yield Violation("conformance", "must be empty unless export is true")
