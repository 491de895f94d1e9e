"""What storage keeps, as values: ciphertext, look-up ids and the readable metadata of KEY-01. Never a key.

Instants are integers, milliseconds since the epoch (UTC). Sealed fields are opaque bytes here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from zkpcp.core.grants import Actor, GrantStatus
from zkpcp.core.scopes import Offer
from zkpcp.core.slots import SubKeyName

HolderKind = Literal["principal", "grant"]
TokenKind = Literal["code", "access", "refresh"]
FIRST_PERSON: Final = "human:owner"
"""Who sets a context up is this principal unless they say otherwise."""
SeedWrapKind = Literal["passphrase", "recovery"]


@dataclass(frozen=True, slots=True)
class ContextRow:
    """A context. ``context_id`` is opaque and random; ``handle`` is its public name.

    ``extensions`` are the ids of the enabled ones, sorted; ``features`` those that its roster brings.
    """

    context_id: str
    handle: str
    kind: str
    controller: str
    controller_type: str
    created_ms: int
    locked_ms: int | None = None
    extensions: tuple[str, ...] = ()
    features: tuple[str, ...] = ()

    @property
    def is_partitioned(self) -> bool:
        """Whether there is more than the one partition."""
        return "partitions" in self.features

    @property
    def owner(self) -> str:
        """The person whose key signs the roster: the controller, or whoever set it up for an organization."""
        return FIRST_PERSON if self.is_organizations else self.controller

    @property
    def is_organizations(self) -> bool:
        """Whether an organization controls it, and so can read it (CTX-02)."""
        return self.controller_type == "org"

    @property
    def offer(self) -> Offer:
        """What the context has to grant."""
        return Offer(self.kind, self.extensions, review="review" in self.features)


@dataclass(frozen=True, slots=True)
class RosterRow:
    """The current roster: its exact signed bytes, and how its owner followed the earlier ones."""

    context_id: str
    version: int
    body: bytes
    signature: bytes
    succession: bytes = b""


@dataclass(frozen=True, slots=True)
class HandoverRow:
    """Control that is offered to a member and not taken yet: ``offered`` is one side of the succession."""

    context_id: str
    principal: str
    epoch: int
    created_ms: int
    expires_ms: int
    offered: bytes
    sealed: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class SeedWrapRow:
    """A principal's seed under a passphrase or a recovery code. The Argon2 parameters are 0 for a recovery wrap."""

    context_id: str
    principal: str
    kind: SeedWrapKind
    salt: bytes
    memory_kib: int
    time_cost: int
    parallelism: int
    wrapped: bytes
    created_ms: int


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A signed-in browser or command line: the seed under the session's secret, which is not stored."""

    context_id: str
    lookup_id: bytes
    principal: str
    created_ms: int
    seen_ms: int
    expires_ms: int
    wrapped: bytes


@dataclass(frozen=True, slots=True)
class ClientRow:
    """A client. ``source``: where its name comes from.

    ``dcr``: the client itself; ``cimd``: the document that its id names; ``operator``: whoever runs the server;
    ``owner``; ``local`` (stdio).
    """

    context_id: str
    client_id: str
    name: str
    source: str
    redirect_uris: tuple[str, ...]
    refreshable: bool
    created_ms: int


@dataclass(frozen=True, slots=True)
class AuthorizationRow:
    """A pending authorization: what a consent page asks about, the client as it is shown there.

    ``lookup_id`` is derived from two secrets, the one in the page's form and the session's.
    """

    context_id: str
    lookup_id: bytes
    client_id: str
    redirect_uri: str
    state: str | None
    scopes: tuple[str, ...]
    code_challenge: str
    created_ms: int
    expires_ms: int
    client_name: str
    client_source: str
    client_redirect_uris: tuple[str, ...]
    client_refreshable: bool


@dataclass(frozen=True, slots=True)
class GrantRow:
    """A grant with its public keys, signed by the consenting principal. ``anchor`` is empty once it is revoked."""

    context_id: str
    grant_id: str
    principal: str
    on_behalf_of: str | None
    client_id: str
    client_name: str
    scopes: tuple[str, ...]
    status: GrantStatus
    created_ms: int
    used_ms: int
    refreshable: bool
    kem_public: bytes
    sig_public: bytes
    signature: bytes
    anchor: bytes

    @property
    def actor(self) -> Actor:
        """Who acts when a client uses this grant's tokens."""
        return Actor(self.principal, self.client_id, self.grant_id, self.on_behalf_of)


@dataclass(frozen=True, slots=True)
class KeyringRow:
    """A keyring, sealed to its holder's public key; signed by the owner for a principal, by that one for a grant."""

    context_id: str
    holder_kind: HolderKind
    holder: str
    epoch: int
    sealed: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class KeyLinkRow:
    """A sub key of an earlier generation, sealed under the next one of the same slot and purpose."""

    context_id: str
    slot: str
    generation: int
    name: SubKeyName
    sealed: bytes


@dataclass(frozen=True, slots=True)
class SlotHeadRow:
    """The integrity head of a slot at one generation. ``remnants``: how many rows wait to be taken off its sum."""

    context_id: str
    slot: str
    generation: int
    sealed: bytes
    remnants: int = 0


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A code, access or refresh token by its look-up id. ``wrapped`` (the grant seed) is None once it is used up.

    ``redirect_uri`` and ``code_challenge`` are set for codes only, ``wrap_until_ms`` for a used refresh token whose
    wrap is kept a while longer.
    """

    context_id: str
    lookup_id: bytes
    kind: TokenKind
    grant_id: str
    client_id: str
    scopes: tuple[str, ...]
    created_ms: int
    expires_ms: int
    used_ms: int | None
    wrapped: bytes | None
    redirect_uri: str | None = None
    code_challenge: str | None = None
    wrap_until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Counted:
    """How often something was counted in a window that ends at ``ends_ms``."""

    count: int
    ends_ms: int


@dataclass(frozen=True, slots=True)
class AccessView:
    """All that one call needs to open its keyring, read in one query. ``keyring``: None while no copy is sealed."""

    token: TokenRow
    grant: GrantRow
    keyring: KeyringRow | None
    roster: RosterRow


@dataclass(frozen=True, slots=True)
class PageRow:
    """A sealed page. ``sealed`` is the stored file, ``head`` the listing entry, ``terms`` the term vector."""

    context_id: str
    page_id: str
    slot: str
    generation: int
    version: int
    review_state: str
    updated_ms: int
    expires_ms: int | None
    sealed: bytes
    head: bytes
    terms: bytes


@dataclass(frozen=True, slots=True)
class HeadRow:
    """The parts of a page that a listing needs."""

    page_id: str
    slot: str
    generation: int
    version: int
    review_state: str
    updated_ms: int
    expires_ms: int | None
    head: bytes


@dataclass(frozen=True, slots=True)
class DeletedRow:
    """A deleted page in its owner's list: the head as it was, when it was deleted, and when it goes for good."""

    head: HeadRow
    deleted_ms: int
    purge_ms: int


@dataclass(frozen=True, slots=True)
class VersionRow:
    """An earlier version in a page's history: its head, and when it was replaced."""

    head: HeadRow
    until_ms: int


@dataclass(frozen=True, slots=True)
class TermsRow:
    """The parts of a page that a search scans."""

    page_id: str
    slot: str
    generation: int
    version: int
    review_state: str
    updated_ms: int
    expires_ms: int | None
    terms: bytes


@dataclass(frozen=True, slots=True)
class SlotTally:
    """How many approved, unexpired pages a slot has, and the sum of ``tally_mark`` of each."""

    slot: str
    pages: int
    marks: int


def tally_mark(updated_ms: int) -> int:
    """What a page adds to its slot's tally: the last 32 bits of its ``updated``."""
    return updated_ms % (1 << 32)


@dataclass(frozen=True, slots=True)
class IndexSlotRow:
    """The search index of one slot: for which generation of its keys, and how many segments it has."""

    context_id: str
    slot: str
    generation: int
    segments: int


@dataclass(frozen=True, slots=True)
class IndexPartRow:
    """One sealed part of a search index. ``part`` is its name, ``stamp`` the write to its segment that made it."""

    context_id: str
    slot: str
    part: str
    stamp: int
    sealed: bytes


@dataclass(frozen=True, slots=True)
class IndexPlace:
    """Where in the search index a page is."""

    slot: str
    segment: int
    number: int


@dataclass(frozen=True, slots=True)
class InboxRow:
    """A sensitive page in quarantine: sealed to the slot's inbox by one who may not read it, signed by the grant."""

    context_id: str
    page_id: str
    slot: str
    generation: int
    grant_id: str
    updated_ms: int
    expires_ms: int | None
    sealed: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """A sealed profile namespace."""

    context_id: str
    namespace: str
    generation: int
    version: int
    updated_ms: int
    sealed: bytes


@dataclass(frozen=True, slots=True)
class ProfileChangeRow:
    """One entry of a profile's change log (PROF-04): who and when in the clear, which members sealed."""

    context_id: str
    namespace: str
    version: int
    at_ms: int
    principal: str
    client: str | None
    generation: int
    sealed: bytes


@dataclass(frozen=True, slots=True)
class HandoffRow:
    """A sealed hand-off between assistants. Title, text, from whom, to whom and whether it is done are inside."""

    context_id: str
    handoff_id: str
    generation: int
    version: int
    updated_ms: int
    expires_ms: int
    sealed: bytes


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """A partition's sealed name and description; that there is such a partition says the roster."""

    context_id: str
    partition_id: str
    generation: int
    version: int
    updated_ms: int
    sealed: bytes


ProposalState: TypeAlias = Literal["proposed", "rejected"]


@dataclass(frozen=True, slots=True)
class ProposalRow:
    """A sealed proposal. ``signature`` is empty but for one that its author may not read (MEM-22)."""

    context_id: str
    proposal_id: str
    slot: str
    generation: int
    grant_id: str | None
    principal: str
    state: ProposalState
    created_ms: int
    expires_ms: int
    sealed: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class ProposalPlace:
    """A place in the list of proposals, the newest first; the default is its beginning."""

    created_ms: int = 2**63 - 1
    proposal_id: str = ""


RotatedKind: TypeAlias = Literal[
    "pages", "page_versions", "deleted_pages", "profiles", "profile_changes", "handoffs", "partitions", "proposals"
]
"""The kinds of rows that a change of keys seals anew one by one, by their tables."""

RotatedRow: TypeAlias = PageRow | ProfileRow | ProfileChangeRow | HandoffRow | PartitionRow | ProposalRow


@dataclass(frozen=True, slots=True)
class JoinedKeys:
    """The public keys of somebody who has joined by an invite, with a MAC under the invite's secret."""

    joined_ms: int
    kem_public: bytes
    sig_public: bytes
    mac: bytes


@dataclass(frozen=True, slots=True)
class InviteRow:
    """An invite. ``offer`` opens with its code, ``kept`` with the controller's keys; ``joined`` once it was used."""

    context_id: str
    lookup_id: bytes
    principal: str
    created_ms: int
    expires_ms: int
    offer: bytes
    kept: bytes
    joined: JoinedKeys | None = None


@dataclass(frozen=True, slots=True)
class AuditRow:
    """An audit entry as canonical JSON with its place in the hash chain; the other members repeat it for filters."""

    context_id: str
    seq: int
    at_ms: int
    action: str
    outcome: str
    categories: tuple[str, ...]
    entry: bytes
    hash: bytes
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AuditHead:
    """The newest place in a context's audit chain; ``seq`` 0 and 32 zero bytes before the first entry.

    ``roster_version``: the newest roster by which an entry was written.
    """

    seq: int
    hash: bytes
    roster_version: int = 0
