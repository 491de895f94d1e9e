"""Which URLs are client ids that name a document, what such a document must say, and where one may be fetched from.

Implements OAuth Client ID Metadata Documents as PCP §3.3 and MCP ask for them (AUTH-18, AUTH-19): the URL and the
document's ``client_id`` are compared as strings and never normalized; what the document says beyond our rules is
ignored. Narrower than the draft: no query, port 443 only, names of two labels or more, the host in lower case. It does
NOT say that a client is who it claims to be, only that whoever rules its host wrote the document.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final, Literal, NoReturn

from zkpcp.core.client_names import clean_name
from zkpcp.core.redirects import PRIVATE_USE_SCHEMES, is_registrable
from zkpcp.core.schemas import JsonObject, JsonValue
from zkpcp.errors import InvalidInputError, RefusedError, Violation

MAX_CLIENT_ID_CHARACTERS: Final = 512
MAX_DOCUMENT_BYTES: Final = 5 * 1024
MIN_LIFETIME_S: Final = 60
MAX_LIFETIME_S: Final = 24 * 3600
DEFAULT_LIFETIME_S: Final = 600

IPAddress = IPv4Address | IPv6Address

Fault = Literal[
    "address",
    "connection",
    "time",
    "status",
    "content_type",
    "size",
    "json",
    "client_id",
    "client_name",
    "client_secret",
    "token_endpoint_auth_method",
    "redirect_uris",
]

_MAX_HOST_CHARACTERS: Final = 253
_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
# The last label begins with a letter: what ends in a number (2130706433, 0177.0.0.1, 1.0x7f) is read as an IPv4 address
# by some parsers and as a name by others.
_TOP_LABEL: Final = r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])"
_PATH_CHARACTER: Final = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})"
_URL: Final = re.compile(rf"https://(?P<host>(?:{_LABEL}\.)+{_TOP_LABEL})(?::443)?(?P<path>/{_PATH_CHARACTER}+)")
_ENCODED_DOT: Final = re.compile("%2e", re.IGNORECASE)
_URL_RULE: Final = (
    f"an https URL of {MAX_CLIENT_ID_CHARACTERS} ASCII characters at most with a lower-case host name and a path; "
    "without dot segments, user, query, fragment or a port other than 443"
)

# The special-purpose registries of IANA (RFC 6890) and what is special without standing there. Written out, since
# ipaddress.is_global lets multicast, 6to4 and NAT64 forms of loopback, and cloud metadata through.
_NOT_PUBLIC_V4: Final = tuple(
    IPv4Network(block)
    for block in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "168.63.129.16/32",  # the host's own services as seen from a virtual machine on Azure
    )
)
# Everything outside leaves: loopback, mapped (::ffff:0:0/96) and translated IPv4 (64:ff9b::/96, 64:ff9b:1::/48), local,
# site-local, multicast, discard, segment routing.
_GLOBAL_UNICAST_V6: Final = IPv6Network("2000::/3")
_NOT_PUBLIC_V6: Final = tuple(
    IPv6Network(block)
    for block in (
        "2001::/23",  # Teredo, ORCHID, benchmarks and what else IANA assigned for protocols
        "2001:db8::/32",
        "2002::/16",  # 6to4: holds an IPv4 address
        "2620:4f:8000::/48",
        "3fff::/20",
    )
)


class ClientDocumentError(RefusedError):
    """The document was not to be had or breaks a rule.

    One sentence for every cause, so that nobody learns from it what this server can reach; ``fault`` is for the
    operator's log.
    """

    def __init__(self, fault: Fault) -> None:
        super().__init__("The app's description could not be read at the address that it gives as its client_id.")
        self.fault: Fault = fault


@dataclass(frozen=True, slots=True)
class ClientUrl:
    """A client id that names a document; made by ``parse_client_id`` only. ``value`` is the text as it was sent."""

    value: str
    host: str
    path: str


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer's body, and for how many seconds its sender lets it be kept; None where it does not say."""

    body: bytes
    max_age_s: int | None


@dataclass(frozen=True, slots=True)
class ClientDocument:
    """What a client says of itself. ``refreshable``: it lists the refresh grant."""

    client_id: str
    client_name: str
    redirect_uris: tuple[str, ...]
    refreshable: bool


def is_client_url(client_id: str) -> bool:
    """Whether a client id means a document; no id that this server makes does."""
    return client_id.startswith("https://")


def parse_client_id(text: str) -> ClientUrl:
    """Take a client id as the URL of a document. Raises InvalidInputError whose violation names ``client_id``."""
    match = _URL.fullmatch(text) if len(text) <= MAX_CLIENT_ID_CHARACTERS else None
    if match is None or len(match["host"]) > _MAX_HOST_CHARACTERS or _has_dot_segments(match["path"]):
        raise InvalidInputError("the client_id names no document", [Violation("client_id", _URL_RULE)])
    return ClientUrl(text, match["host"], match["path"])


def parse_document(
    client_id: ClientUrl, body: bytes, *, private_use_schemes: Collection[str] = PRIVATE_USE_SCHEMES
) -> ClientDocument:
    """Read the document that was fetched from ``client_id``. Raises ClientDocumentError.

    Redirect URIs that may not be registered are dropped, as in a registration; one at least must be left. Grant and
    response types that this server does not know are ignored: real documents list them.
    """
    members = _object_of(body)
    if members.get("client_id") != client_id.value:
        raise ClientDocumentError("client_id")
    _check_public(members)
    client_name = clean_name(members.get("client_name"))
    if not client_name:
        raise ClientDocumentError("client_name")
    uris = _list(members.get("redirect_uris"))
    fit = [uri for uri in uris if isinstance(uri, str) and is_registrable(uri, private_use_schemes)]
    if not fit:
        raise ClientDocumentError("redirect_uris")
    return ClientDocument(
        client_id=client_id.value,
        client_name=client_name,
        redirect_uris=tuple(dict.fromkeys(fit)),
        refreshable="refresh_token" in _list(members.get("grant_types")),
    )


def is_public(address: IPAddress) -> bool:
    """Whether an address belongs to the public internet and carries no other address inside.

    A network's own NAT64 prefix cannot be told from any other (RFC 6052 §2.2); who runs one must keep it from leading
    back inside.
    """
    if isinstance(address, IPv4Address):
        return not any(address in block for block in _NOT_PUBLIC_V4)
    if address.scope_id is not None or address not in _GLOBAL_UNICAST_V6:
        return False
    return not any(address in block for block in _NOT_PUBLIC_V6)


def max_age_s(cache_control: Iterable[str]) -> int | None:
    """The seconds that ``Cache-Control`` values allow (RFC 9111 §5.2.2), the fewest of several; None: not said."""
    found: list[int] = []
    for directive in ",".join(cache_control).split(","):
        name, _, argument = directive.strip().lower().partition("=")
        if name in ("no-store", "no-cache"):
            found.append(0)
        elif name == "max-age" and (digits := re.fullmatch(r'"?([0-9]+)"?', argument)):
            # Longer than any lifetime we keep to, and than Python converts gladly.
            found.append(int(digits[1]) if len(digits[1]) <= len(str(MAX_LIFETIME_S)) else MAX_LIFETIME_S)
    return min(found, default=None)


def lifetime_s(max_age: int | None) -> int:
    """For how many seconds a document is kept: as its sender says, but a minute at least and a day at most."""
    return DEFAULT_LIFETIME_S if max_age is None else min(max(max_age, MIN_LIFETIME_S), MAX_LIFETIME_S)


def _has_dot_segments(path: str) -> bool:
    return any(segment in (".", "..") for segment in _ENCODED_DOT.sub(".", path).split("/"))


def _check_public(members: JsonObject) -> None:
    """A document that everybody can read holds no secret, and its client authenticates with none."""
    if any(name.startswith("client_secret") for name in members):
        raise ClientDocumentError("client_secret")
    method = members.get("token_endpoint_auth_method", "none")
    if not isinstance(method, str) or method.startswith("client_secret"):
        raise ClientDocumentError("token_endpoint_auth_method")


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _object_of(body: bytes) -> JsonObject:
    try:
        value: JsonValue = json.loads(body.decode("utf-8"), object_pairs_hook=_without_repeats, parse_constant=_refuse)
    except (ValueError, RecursionError):
        # From None: the decoder's error carries the text.
        raise ClientDocumentError("json") from None
    if not isinstance(value, dict):
        raise ClientDocumentError("json")
    return value


def _without_repeats(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member name occurs twice")
    return members


def _refuse(_name: str) -> NoReturn:
    raise ValueError("NaN and Infinity are not JSON")
