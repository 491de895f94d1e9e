"""What an authorization request asks for, or why it is refused and whether the client may be told by redirect.

Implements RFC 6749 §4.1.1 and §4.1.2.1, RFC 7636 §4.3 with S256 only, RFC 8707 §2 and PCP §3.4 (AUTH-21, AUTH-22,
AUTH-24). Until client and redirect URI are known to belong together nothing is redirected. Nothing is granted here: a
person decides.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Literal

from zkpcp.core.oauth_params import RESOURCE, Params
from zkpcp.core.redirects import is_canonical_resource, matches
from zkpcp.core.scopes import OFFLINE_ACCESS, Offer, canonical, default_grant, parse_scopes
from zkpcp.core.stored import ClientRow

_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")  # SHA-256 in base64url (RFC 7636 §4.2)
_STATE: Final = re.compile(r"[\x20-\x7e]{1,2048}")  # VSCHAR (RFC 6749 appendix A.5); the length is ours

AuthorizeError = Literal["invalid_request", "unsupported_response_type", "invalid_target", "access_denied"]


@dataclass(frozen=True, slots=True)
class AuthorizeRequest:
    """A request that may be put before a person. ``scopes`` are known ones, in canonical order."""

    client_id: str
    redirect_uri: str
    state: str | None = field(repr=False)
    scopes: tuple[str, ...]
    code_challenge: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Untrusted:
    """Client or redirect URI is not known: the person is told on our own page and nothing is redirected."""

    reason: str


@dataclass(frozen=True, slots=True)
class Denied:
    """The client is told at its redirect URI."""

    redirect_uri: str
    state: str | None = field(repr=False)
    error: AuthorizeError
    description: str


def read_authorize(
    params: Params, client: ClientRow | None, *, offer: Offer, mcp_url: str
) -> AuthorizeRequest | Untrusted | Denied:
    """Judge a request; ``client`` is the row of its ``client_id``, None where there is none."""
    redirect_uri = params.one("redirect_uri")
    if client is None:
        return Untrusted("This app is not registered here.")
    if redirect_uri is None or not any(matches(known, redirect_uri) for known in client.redirect_uris):
        return Untrusted("The address to return to is not one that this app registered.")
    state = params.one("state")
    challenge = params.one("code_challenge")
    refusal = _refusal(params, state, challenge, mcp_url)
    if refusal is not None or challenge is None:
        error, description = refusal or ("invalid_request", "code_challenge is missing")
        return Denied(redirect_uri, state if _is_state(state) else None, error, description)
    scopes = requested_scopes(params.one("scope"), offer, refreshable=client.refreshable)
    return AuthorizeRequest(client.client_id, redirect_uri, state, scopes, challenge)


def requested_scopes(text: str | None, offer: Offer, *, refreshable: bool) -> tuple[str, ...]:
    """The scopes to put before the person.

    Unknown ones are dropped. Where no scope over data is left, the default grant is asked for. ``refreshable``: the
    client registered the refresh grant, so staying connected is asked as well.
    """
    asked = parse_scopes(text, offer)
    if set(asked) <= {OFFLINE_ACCESS}:
        return default_grant(offer.kind)
    return canonical((*asked, OFFLINE_ACCESS), offer) if refreshable else asked


def is_resource_refused(params: Params, mcp_url: str) -> bool:
    """Whether ``resource`` names another resource than this context's, or several; none means this one."""
    resources = params.all(RESOURCE)
    return len(resources) > 1 or any(not is_canonical_resource(value, mcp_url) for value in resources)


def _refusal(
    params: Params, state: str | None, challenge: str | None, mcp_url: str
) -> tuple[AuthorizeError, str] | None:
    if params.repeats:
        return "invalid_request", "a parameter is repeated"
    if not _is_state(state):
        return "invalid_request", "state must be printable ASCII, 2048 characters at most"
    if (response_type := params.one("response_type")) != "code":
        error: AuthorizeError = "unsupported_response_type" if response_type else "invalid_request"
        return error, "response_type must be code"
    if params.one("response_mode") not in (None, "query"):
        return "invalid_request", "response_mode must be query"
    if challenge is None or params.one("code_challenge_method") != "S256":
        return "invalid_request", "PKCE is required: code_challenge with code_challenge_method S256"
    if _CHALLENGE.fullmatch(challenge) is None:
        return "invalid_request", "code_challenge must be 43 characters of base64url"
    if is_resource_refused(params, mcp_url):
        return "invalid_target", "resource must be the MCP URL of this context, once"
    return None


def _is_state(state: str | None) -> bool:
    return state is None or _STATE.fullmatch(state) is not None
