"""Seed wraps: how a secret that the host does not store opens the seed of a principal or a grant.

Implements schemas/formats/seed-wrap.md. The secret is a passphrase, a recovery code, or the secret part of a session
token, code, access or refresh token; each has its own small wrap of the same seed (U1). Inside the wrap, next to the
seed, stands what its holder last saw: owner key, epoch, roster version, and the newest entry of the access log. A
database that shows another owner or an older state is refused. A passphrase or recovery wrap remembers only the moment
it was made, and nothing of the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from zkpcp.core.roster import Roster
from zkpcp.core.stored import AuditHead, SeedWrapRow
from zkpcp.crypto.aead import SALT_BYTES, context_of, open_box, seal
from zkpcp.crypto.buffers import Buffer
from zkpcp.crypto.kdf import KEY_BYTES, derive, u64
from zkpcp.crypto.keys import Key
from zkpcp.crypto.opaque import Opaque
from zkpcp.crypto.passphrase import SALT_BYTES as PASSPHRASE_SALT_BYTES
from zkpcp.crypto.passphrase import stretch
from zkpcp.crypto.profiles import Argon2Profile
from zkpcp.crypto.recovery import RecoveryCode
from zkpcp.crypto.recovery import wrap_key as recovery_key
from zkpcp.crypto.tokens import TokenSecret
from zkpcp.crypto.wipe import wipe
from zkpcp.errors import TamperedError
from zkpcp.ports import Entropy

NO_MARK: Final = bytes(32)
"""What a wrap remembers of the access log that was made where the log was not looked at."""

_OWNER_BYTES: Final = 32
_MARK_BYTES: Final = 32
_HASH_BYTES: Final = 24
_U64_BYTES: Final = 8
_PAYLOAD_BYTES: Final = KEY_BYTES + _OWNER_BYTES + 2 * _U64_BYTES + _MARK_BYTES

WrapKind: TypeAlias = Literal["passphrase", "recovery", "session", "code", "access", "refresh"]


@dataclass(frozen=True, slots=True)
class Memory:
    """What the holder of a wrap last saw: the owner's Ed25519 key, epoch, roster version, and the end of the log.

    ``log``: the number of the newest entry (8 bytes) and the first 24 bytes of its hash; zeros where nobody looked.
    """

    owner: bytes
    epoch: int
    roster_version: int
    log: bytes = NO_MARK

    @classmethod
    def of(cls, roster: Roster, newest: AuditHead | None = None) -> Memory:
        """What there is to remember of this roster, and of the newest entry of the access log."""
        return cls(roster.owner, roster.epoch, roster.version, NO_MARK if newest is None else log_mark(newest))

    def check(self, roster: Roster) -> None:
        """Raise TamperedError when the database shows an older state than this, or another owner."""
        if roster.owner != self.owner:
            raise TamperedError("the roster has another owner than this wrap remembers")
        if roster.epoch < self.epoch or roster.version < self.roster_version:
            raise TamperedError("the database shows an older state than this wrap remembers")


def log_mark(entry: AuditHead) -> bytes:
    """What a wrap remembers of an entry of the access log, the newest of its time."""
    return u64(entry.seq) + entry.hash[:_HASH_BYTES]


def marked_entry(mark: bytes) -> int:
    """The number of the entry that a mark is about."""
    return int.from_bytes(mark[:_U64_BYTES], "big")


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class OpenedSeed(Opaque):
    """A seed for the length of one request, and what its wrap remembers; whoever opened it wipes the seed."""

    seed: Key
    memory: Memory


def code_binding(client_id: str, redirect_uri: str, code_challenge: str) -> tuple[bytes, ...]:
    """What a code's wrap is bound to: a code row that names another client, place or challenge opens nothing."""
    return (client_id.encode(), redirect_uri.encode(), code_challenge.encode())


def wrap_for_token(
    token: TokenSecret,
    kind: WrapKind,
    context_id: str,
    holder: str,
    opened: OpenedSeed,
    entropy: Entropy,
    *,
    bound: tuple[bytes, ...] = (),
) -> bytes:
    """Seal a seed for the holder of a session token, code, access or refresh token."""
    with Key(token.wrap_key(context_id)) as key:
        return _wrap(key.view(), opened, _context(kind, context_id, holder, bound=bound), entropy)


def unwrap_with_token(
    token: TokenSecret, kind: WrapKind, context_id: str, holder: str, wrapped: bytes, *, bound: tuple[bytes, ...] = ()
) -> OpenedSeed:
    """Open the wrap that belongs to a token. Raises TamperedError."""
    with Key(token.wrap_key(context_id)) as key:
        return _unwrap(key.view(), wrapped, _context(kind, context_id, holder, bound=bound))


def wrap_with_passphrase(
    passphrase: Buffer,
    context_id: str,
    principal: str,
    opened: OpenedSeed,
    *,
    argon2: Argon2Profile,
    now_ms: int,
    entropy: Entropy,
) -> SeedWrapRow:
    """Seal a principal's seed under a passphrase. Slow on purpose: call it in a worker thread."""
    salt = entropy.bytes(PASSPHRASE_SALT_BYTES)
    with _passphrase_key(passphrase, salt, argon2, argon2, context_id, principal) as key:
        wrapped = _wrap(key.view(), opened, _context("passphrase", context_id, principal, argon2, salt), entropy)
    settings = (argon2.memory_kib, argon2.time_cost, argon2.parallelism)
    return SeedWrapRow(context_id, principal, "passphrase", salt, *settings, wrapped, now_ms)


def unwrap_with_passphrase(passphrase: Buffer, row: SeedWrapRow, *, floor: Argon2Profile) -> OpenedSeed:
    """Open a principal's seed. Slow on purpose: call it in a worker thread.

    Raises TamperedError for a wrong passphrase, and for settings below ``floor`` before any work is done.
    """
    argon2 = Argon2Profile("stored", row.memory_kib, row.time_cost, row.parallelism)
    with _passphrase_key(passphrase, row.salt, argon2, floor, row.context_id, row.principal) as key:
        return _unwrap(key.view(), row.wrapped, _context("passphrase", row.context_id, row.principal, argon2, row.salt))


def wrap_with_recovery_code(
    code: RecoveryCode, context_id: str, principal: str, opened: OpenedSeed, *, now_ms: int, entropy: Entropy
) -> SeedWrapRow:
    """Seal a principal's seed under the recovery code: the person's own second secret, not escrow (KEY-11)."""
    with Key(recovery_key(code, context_id, principal)) as key:
        wrapped = _wrap(key.view(), opened, _context("recovery", context_id, principal), entropy)
    return SeedWrapRow(context_id, principal, "recovery", b"", 0, 0, 0, wrapped, now_ms)


def unwrap_with_recovery_code(code: RecoveryCode, row: SeedWrapRow) -> OpenedSeed:
    """Open a principal's seed with the recovery code. Raises TamperedError."""
    with Key(recovery_key(code, row.context_id, row.principal)) as key:
        return _unwrap(key.view(), row.wrapped, _context("recovery", row.context_id, row.principal))


def _passphrase_key(
    passphrase: Buffer, salt: bytes, argon2: Argon2Profile, floor: Argon2Profile, context_id: str, principal: str
) -> Key:
    """The wrap key of a passphrase, distinct for each context and principal (CTX-05)."""
    with Key(stretch(passphrase, salt, argon2, floor=floor)) as stretched:
        return Key(derive(stretched.view(), "passphrase-wrap", context_id.encode(), principal.encode()))


def _context(
    kind: WrapKind,
    context_id: str,
    holder: str,
    argon2: Argon2Profile | None = None,
    salt: bytes = b"",
    *,
    bound: tuple[bytes, ...] = (),
) -> bytes:
    """What a wrap is bound to; a passphrase wrap also to its Argon2 settings, so that a row cannot lower them."""
    settings = argon2.fields() if argon2 is not None else ()
    return context_of("seed-wrap", kind.encode(), context_id.encode(), holder.encode(), *settings, salt, *bound)


def _wrap(key: Buffer, opened: OpenedSeed, context: bytes, entropy: Entropy) -> bytes:
    memory = opened.memory
    payload = bytearray(_PAYLOAD_BYTES)
    payload[:KEY_BYTES] = opened.seed.view()
    payload[KEY_BYTES:] = b"".join((memory.owner, u64(memory.epoch), u64(memory.roster_version), memory.log))
    try:
        return seal(key, payload, context, salt=entropy.bytes(SALT_BYTES))
    finally:
        wipe(payload)


def _unwrap(key: Buffer, wrapped: bytes, context: bytes) -> OpenedSeed:
    payload = open_box(key, wrapped, context)
    try:
        if len(payload) != _PAYLOAD_BYTES:
            raise TamperedError("a seed wrap has the wrong length")
        seed = bytearray(KEY_BYTES)
        seed[:] = memoryview(payload)[:KEY_BYTES]
        rest = bytes(memoryview(payload)[KEY_BYTES:])
    finally:
        wipe(payload)
    owner, epoch, version = rest[:32], int.from_bytes(rest[32:40], "big"), int.from_bytes(rest[40:48], "big")
    return OpenedSeed(Key(seed), Memory(owner, epoch, version, rest[48:]))
