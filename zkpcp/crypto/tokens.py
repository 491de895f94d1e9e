"""The secret inside a code or token: what the host looks up by, and what it never stores (AUTH-35, KEY-03).

`pcp_<kind>_` and 256 random bits; two independent derivations, one to find the row, one to open the wrap in it;
schemas/formats/token.md. It does NOT know whether a token is known, expired or revoked.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from typing import Final, Literal, TypeAlias

from typing_extensions import override

from zkpcp.crypto.entropy import Entropy
from zkpcp.crypto.kdf import derive
from zkpcp.crypto.opaque import Opaque
from zkpcp.crypto.wipe import wipe, wipe_bytes
from zkpcp.errors import InvalidTokenError

TokenKind: TypeAlias = Literal["ac", "at", "rt", "st"]
"""Authorization code, access token, refresh token, session token."""

SECRET_BYTES: Final = 32
LOOKUP_ID_BYTES: Final = 16

_ENCODED_CHARACTERS: Final = 43  # 32 bytes in base64url (RFC 4648 §5) without padding


class TokenSecret(Opaque):
    """A token's 32 secret bytes and its kind; `text` is the only way to read it."""

    __slots__ = ("_kind", "_live", "_secret")

    __hash__ = None  # type: ignore[assignment]  # a hash of a secret would be a fingerprint of it

    def __init__(self, kind: TokenKind, owned: bytearray) -> None:
        """Take ownership of the secret bytes."""
        if len(owned) != SECRET_BYTES:
            raise ValueError("a token has 32 secret bytes")
        self._kind: TokenKind = kind
        self._secret = owned
        self._live = True

    @property
    def kind(self) -> TokenKind:
        """What the token is for."""
        return self._kind

    def text(self) -> str:
        """Return the token as it is handed to its holder, once."""
        return _prefix(self._kind) + base64.urlsafe_b64encode(self._live_secret()).rstrip(b"=").decode("ascii")

    def lookup_id(self) -> bytes:
        """Return the 16 bytes by which the host finds the token; they say nothing about the secret."""
        derived = derive(self._live_secret(), "token/lookup", self._kind.encode())
        lookup_id = bytes(derived[:LOOKUP_ID_BYTES])
        wipe(derived)
        return lookup_id

    def wrap_key(self, context_id: str) -> bytearray:
        """Derive the key of the seed wrap behind this token; the caller owns and wipes it."""
        return derive(self._live_secret(), "token/wrap", self._kind.encode(), context_id.encode())

    def wipe(self) -> None:
        """Overwrite the secret; every other use then raises `ValueError`."""
        self._live = False
        wipe(self._secret)

    @override
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TokenSecret):
            return NotImplemented
        same_secret = hmac.compare_digest(self._secret, other._secret)
        return same_secret and self._kind == other._kind and self._live and other._live

    def _live_secret(self) -> bytearray:
        if not self._live:
            raise ValueError("this token was wiped")
        return self._secret


def new_token(kind: TokenKind, entropy: Entropy) -> TokenSecret:
    """Return a fresh token of this kind."""
    drawn = entropy.bytes(SECRET_BYTES)
    token = TokenSecret(kind, bytearray(drawn))
    wipe_bytes(drawn)
    return token


def parse_token(text: str, kind: TokenKind) -> TokenSecret:
    """Return the token that a client presented as one of this kind; raises InvalidTokenError for anything else."""
    prefix = _prefix(kind)
    encoded = text[len(prefix) :]
    if not text.startswith(prefix) or len(encoded) != _ENCODED_CHARACTERS or not encoded.isascii():
        raise _invalid()
    try:
        decoded = base64.b64decode(encoded + "=", altchars=b"-_", validate=True)
    except binascii.Error:
        raise _invalid() from None
    if len(decoded) != SECRET_BYTES:
        raise _invalid()
    token = TokenSecret(kind, bytearray(decoded))
    wipe_bytes(decoded)
    # The last character carries two spare bits; only one of its four spellings is the token (and + or / are not of it).
    if not hmac.compare_digest(token.text().encode(), text.encode()):
        token.wipe()
        raise _invalid()
    return token


def _prefix(kind: TokenKind) -> str:
    return f"pcp_{kind}_"


def _invalid() -> InvalidTokenError:
    return InvalidTokenError("the token is not one of this server's")
