"""The scope grammar: which scopes exist, what each means in plain words, and what a set of them amounts to.

Implements PCP §3 and §7.1 (SCOPE-01): no ``:write`` implies a ``:read``, and a qualifier needs its base scope.
An extension's scopes exist where it is enabled (PROF-07): a grant keeps what it was granted, and while the extension is
off that counts for nothing. It does not decide about objects; ``policy`` does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from zkpcp.core.extensions import Extension, extension_of

OFFLINE_ACCESS: Final = "offline_access"


@dataclass(frozen=True, slots=True)
class ScopeInfo:
    """One scope: its ``sentence`` completes "This app may …", its ``category`` is the audit category (§7)."""

    name: str
    sentence: str
    category: str
    sensitive: bool = False
    base: str | None = None


@dataclass(frozen=True, slots=True)
class Offer:
    """What a context has to grant: by its kind, the ids of its enabled extensions, and whether it has review."""

    kind: str
    extensions: tuple[str, ...] = ()
    review: bool = False


_PERSONAL: Final = (
    ScopeInfo(
        "profile.core:read",
        "Read your profile: name, languages, location, work, interests, how you like to be answered.",
        "profile.core",
    ),
    ScopeInfo("profile.core:write", "Change your profile.", "profile.core"),
)
_TEAM: Final = (
    ScopeInfo(
        "profile.team:read",
        "Read the team profile: purpose, members, glossary, conventions.",
        "profile.team",
    ),
    ScopeInfo("profile.team:write", "Change the team profile.", "profile.team"),
)
_MEMORY: Final = (
    ScopeInfo("memory:read", "Search, list and read memory pages that are not marked sensitive.", "memory"),
    ScopeInfo(
        "memory:write",
        "Create and change memory pages. It can also add new sensitive pages, but not read them.",
        "memory",
    ),
    ScopeInfo(
        "memory.sensitive:read",
        "Read memory pages marked sensitive, such as health, money, relationships and your writing style.",
        "memory.sensitive",
        sensitive=True,
        base="memory:read",
    ),
    ScopeInfo(
        "memory.sensitive:write",
        "Change pages marked sensitive, and mark pages as sensitive or not sensitive.",
        "memory.sensitive",
        sensitive=True,
        base="memory:write",
    ),
    ScopeInfo("audit:read", "See the access log: who did what and when, without any content.", "audit"),
)
_REVIEW: Final = (
    ScopeInfo("memory:propose", "Propose memory pages and changes, which count once somebody approves them.", "memory"),
    ScopeInfo("review:read", "Read what is proposed and what was rejected, sensitive pages left out.", "memory"),
)
_STAY: Final = ScopeInfo(
    OFFLINE_ACCESS, "Stay connected: renew its access by itself until you disconnect it.", "grants"
)


def known_scopes(offer: Offer) -> dict[str, ScopeInfo]:
    """Every scope that this context can grant, in the order consent pages show them."""
    profile = _TEAM if offer.kind == "team" else _PERSONAL
    extensions = [info for name in offer.extensions for info in _of_extension(extension_of(name))]
    return {info.name: info for info in (*profile, *extensions, *_MEMORY, *(_REVIEW if offer.review else ()), _STAY)}


def scopes_of_role(role: str, offer: Offer) -> frozenset[str]:
    """What somebody of this role can do or pass on to an app; the access lists narrow it further.

    Whoever controls the context does everything; others leave its profile and its extensions' profiles to them.
    """
    every = known_scopes(offer)
    if role == "controller":
        return frozenset(every)
    return frozenset(name for name in every if not (name.startswith("profile.") and name.endswith(":write")))


def default_grant(kind: str) -> tuple[str, ...]:
    """The scopes of a grant that asks for none (PCP §3): the default grant, with ``offline_access``."""
    profile = "profile.team:read" if kind == "team" else "profile.core:read"
    return (profile, "memory:read", "memory:write", OFFLINE_ACCESS)


def scopes_supported(kind: str) -> tuple[str, ...]:
    """What the resource metadata and the 401 challenge name: the default grant without ``offline_access`` (AUTH-07)."""
    return tuple(scope for scope in default_grant(kind) if scope != OFFLINE_ACCESS)


def parse_scopes(text: str | None, offer: Offer) -> tuple[str, ...]:
    """Read a scope parameter: split on white space, drop unknown ones, keep the known ones in canonical order.

    An empty answer means that nothing known was asked for. Never fails: real clients send unknown scopes and stray
    blanks, and what was not granted is named in the token response (RFC 6749 §3.3).
    """
    asked = set((text or "").split())
    return canonical(asked, offer)


def canonical(scopes: Iterable[str], offer: Offer) -> tuple[str, ...]:
    """The known ones among ``scopes``, once each, in the order of ``known_scopes``."""
    wanted = set(scopes)
    return tuple(name for name in known_scopes(offer) if name in wanted)


def effective(scopes: Iterable[str], offer: Offer) -> frozenset[str]:
    """What a token with these scopes may use: a qualifier without its base scope counts for nothing (SCOPE-01)."""
    held = set(scopes)
    known = known_scopes(offer)
    return frozenset(name for name in held if name in known and (known[name].base is None or known[name].base in held))


def join(scopes: Iterable[str]) -> str:
    """The wire form: one blank between scopes (RFC 6749 §3.3)."""
    return " ".join(scopes)


def _of_extension(extension: Extension) -> tuple[ScopeInfo, ScopeInfo]:
    stem, special = extension.stem, extension.special
    return (
        ScopeInfo(f"{stem}:read", extension.read, stem, sensitive=special),
        ScopeInfo(f"{stem}:write", extension.write, stem, sensitive=special),
    )
