"""What every use case is handed: store, clock, entropy, schemas and the documented settings that rules depend on."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from zkpcp.core.pages import Limits
from zkpcp.core.redirects import PRIVATE_USE_SCHEMES
from zkpcp.core.schemas import Schemas
from zkpcp.ports import Clock, Entropy, Store
from zkpcp.usecases.client_documents import ClientDocuments
from zkpcp.vault.secrets import Argon2Profile

PASSPHRASE_CHECKS_AT_ONCE = 2
"""Argon2id takes 64 MiB for each check: this bounds the memory an attacker can make the server use."""

DELETED_RETENTION_S = 30 * 24 * 3600
"""How long the owner can recover a deleted page (§8.10)."""

HISTORY_VERSIONS = 100
"""How many earlier versions of a page are kept."""

HISTORY_S = 730 * 24 * 3600
"""How long an earlier version is kept after it was replaced."""

MAX_DELETED_PAGES = 10_000
MAX_DELETED_BYTES = 256 * 1024 * 1024
"""How much of a context is kept for that, as it is stored; beyond it the first deleted go first."""


@dataclass(frozen=True, slots=True)
class Services:
    """The composition root makes one of these for the life of the process; it holds no key and no content.

    ``argon2`` is used for new passphrase wraps and ``argon2_floor`` is the least that a stored wrap may ask for.
    Without ``client_documents`` no client is known by a document (AUTH-18).
    """

    store: Store
    clock: Clock
    entropy: Entropy
    schemas: Schemas
    argon2: Argon2Profile
    argon2_floor: Argon2Profile
    page_limits: Limits = field(default_factory=Limits)
    max_pages: int = 200_000
    refresh_reuse_grace_s: int = 0
    redirect_schemes: frozenset[str] = PRIVATE_USE_SCHEMES
    client_documents: ClientDocuments | None = None
    deleted_retention_s: int = DELETED_RETENTION_S
    history_versions: int = HISTORY_VERSIONS
    history_s: int = HISTORY_S
    max_deleted_pages: int = MAX_DELETED_PAGES
    max_deleted_bytes: int = MAX_DELETED_BYTES
    passphrase_gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(PASSPHRASE_CHECKS_AT_ONCE))

    def new_id(self, prefix: str) -> str:
        """A fresh opaque id: ``prefix`` and 128 random bits in hexadecimal."""
        return f"{prefix}_{self.entropy.bytes(16).hex()}"

    def history_kept(self) -> tuple[int, int]:
        """How many earlier versions of a page are kept, and those that were current since when (ms)."""
        if self.history_s == 0:
            return 0, self.clock.now_ms()
        return self.history_versions, self.clock.now_ms() - self.history_s * 1000
