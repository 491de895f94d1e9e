"""The secrets that people and clients present, as the outer layers may use them: opaque, and wiped after use.

Use cases and the HTTP layer take these from here, so that only the vault reaches into ``zkpcp.crypto``.
"""

from __future__ import annotations

from zkpcp.crypto.passphrase import check_passphrase, passphrase_bytes
from zkpcp.crypto.profiles import CHEAPEST, FLOOR, STRONG, Argon2Profile
from zkpcp.crypto.recovery import RecoveryCode, invite_lookup_id
from zkpcp.crypto.recovery import new_code as new_recovery_code
from zkpcp.crypto.recovery import parse_code as parse_recovery_code
from zkpcp.crypto.tokens import TokenSecret, new_token, parse_token
from zkpcp.crypto.wipe import wipe

__all__ = [
    "CHEAPEST",
    "FLOOR",
    "STRONG",
    "Argon2Profile",
    "RecoveryCode",
    "TokenSecret",
    "check_passphrase",
    "invite_lookup_id",
    "new_recovery_code",
    "new_token",
    "parse_recovery_code",
    "parse_token",
    "passphrase_bytes",
    "wipe",
]
