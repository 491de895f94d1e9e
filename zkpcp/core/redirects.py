"""Which redirect URIs a client may register, and whether a requested one is a registered one.

Implements RFC 6749 §3.1.2, RFC 8252 §7 and §8.3 and PCP §3.3, §3.4 (AUTH-20, AUTH-22), and the comparison of
``resource`` values (RFC 8707, AUTH-24). Everything is done on the strings as they were sent: two parsers that
normalize differently are how redirects leak codes. It does NOT know which client a URI belongs to.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final
from urllib.parse import urlencode

MAX_URI_CHARACTERS: Final = 2048
PRIVATE_USE_SCHEMES: Final = frozenset({"cursor"})
"""Schemes of desktop apps that cannot listen on a port; MCP asks for https or loopback, so this list is kept short."""

_NEVER: Final = frozenset({"javascript", "data", "file", "blob", "about", "vbscript", "http", "https"})
LOOPBACK_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})

# Printable ASCII without what RFC 3986 leaves out of every URI (blank, quotes, angle and curly brackets, backslash, …)
# and without "#": a redirect URI has no fragment (RFC 6749 §3.1.2).
_URI: Final = re.compile(r"[a-z][a-z0-9+.-]*:[A-Za-z0-9._~:/?\[\]@!$&'()*+,;=%-]+")
_WEB: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?(?P<rest>(?:[/?].*)?)"
)
_RESOURCE: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://[^/?#]+)(.*)", re.DOTALL)


def is_listable(scheme: str) -> bool:
    """Whether an operator may list this scheme: one that no browser runs or opens itself, and not the web's own."""
    return re.fullmatch(r"[a-z][a-z0-9+.-]*", scheme) is not None and scheme not in _NEVER


def is_registrable(uri: str, private_use_schemes: Collection[str] = PRIVATE_USE_SCHEMES) -> bool:
    """Whether a client may register this URI: https, http on loopback with any port, or a listed private-use scheme.

    No fragment, no userinfo, no control or non-ASCII character, at most ``MAX_URI_CHARACTERS``. Schemes that a browser
    runs or opens itself are refused even when they are on the list.
    """
    if len(uri) > MAX_URI_CHARACTERS or _URI.fullmatch(uri) is None:
        return False
    scheme, _, rest = uri.partition(":")
    if scheme in private_use_schemes and scheme not in _NEVER:
        return "@" not in _authority(rest)
    match = _WEB.fullmatch(uri)
    if match is None or not _is_port(match["port"]):
        return False
    return scheme == "https" or match["host"] in LOOPBACK_HOSTS


def is_loopback(uri: str) -> bool:
    """Whether the URI leads to a program on the person's own computer over http."""
    match = _WEB.fullmatch(uri)
    return match is not None and match["scheme"] == "http" and match["host"] in LOOPBACK_HOSTS


def matches(registered: str, requested: str) -> bool:
    """Whether ``requested`` is ``registered``: the same string, or on loopback the same but for the port.

    That is RFC 8252 §7.3. The three loopback hosts are three different hosts, and the path is exact: ``/`` and no path
    differ.
    """
    if registered == requested:
        return True
    if not (is_loopback(registered) and is_loopback(requested) and is_registrable(requested)):
        return False
    left, right = _WEB.fullmatch(registered), _WEB.fullmatch(requested)
    if left is None or right is None:
        return False
    return (left["host"], left["rest"]) == (right["host"], right["rest"])


def redirect_host(uri: str) -> str:
    """What a person is shown of a redirect URI: its host and port; for a private-use URI without a host, its scheme."""
    scheme, _, rest = uri.partition(":")
    return _authority(rest) or f"{scheme}:"


def with_parameters(uri: str, parameters: Iterable[tuple[str, str]]) -> str:
    """Add query parameters and keep the URI as registered otherwise, its own query included (RFC 6749 §3.1.2)."""
    separator = ("" if uri.endswith(("?", "&")) else "&") if "?" in uri else "?"
    return uri + separator + urlencode(list(parameters))


def is_canonical_resource(value: str, mcp_url: str) -> bool:
    """Whether a ``resource`` value means this MCP URL: scheme and host in any case, one trailing slash tolerated."""
    match = _RESOURCE.fullmatch(value)
    if match is None:
        return False
    return match[1].lower() + match[2].removesuffix("/") == mcp_url


def _authority(rest: str) -> str:
    return re.split(r"[/?]", rest[2:], maxsplit=1)[0] if rest.startswith("//") else ""


def _is_port(port: str | None) -> bool:
    return port is None or 1 <= int(port) <= 65535  # noqa: PLR2004  # the range of TCP ports
