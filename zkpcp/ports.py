"""What the use cases need from outside, as protocols: time, randomness, clients' documents, storage.

Storage hands out rows of ``core.stored``. Every method takes ``context_id`` first and touches no other context
(SEC-09); ``Counters`` alone knows no context. A ``Transaction`` is atomic: leaving its block normally commits, leaving
it by an exception rolls back. ``zkpcp.testing`` holds verified fakes; one contract suite runs on them, SQLite and
PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from zkpcp.core.client_documents import ClientUrl, Fetched
from zkpcp.core.leaves import Change, Leaf, LeafKind
from zkpcp.core.stored import (
    AccessView,
    AuditHead,
    AuditRow,
    AuthorizationRow,
    ClientRow,
    ContextRow,
    Counted,
    DeletedRow,
    GrantRow,
    HandoffRow,
    HandoverRow,
    HeadRow,
    HolderKind,
    InboxRow,
    IndexPartRow,
    IndexPlace,
    IndexSlotRow,
    InviteRow,
    JoinedKeys,
    KeyLinkRow,
    KeyringRow,
    PageRow,
    PartitionRow,
    ProfileChangeRow,
    ProfileRow,
    ProposalPlace,
    ProposalRow,
    ProposalState,
    RosterRow,
    RotatedKind,
    RotatedRow,
    SeedWrapKind,
    SeedWrapRow,
    SessionRow,
    SlotHeadRow,
    SlotTally,
    TermsRow,
    TokenRow,
    VersionRow,
)


class Clock(Protocol):
    """The current time."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""
        ...


class Entropy(Protocol):
    """Unpredictable bytes."""

    def bytes(self, size: int) -> bytes:
        """``size`` fresh random bytes."""
        ...


class ClientDocumentFetcher(Protocol):
    """The way to clients' metadata documents (AUTH-19)."""

    async def fetch(self, url: ClientUrl) -> Fetched:
        """One document's bytes, from a public address only. Raises ClientDocumentError, whatever goes wrong."""
        ...


class Contexts(Protocol):
    """Contexts and what the owner signs about them."""

    async def add(self, row: ContextRow) -> None:
        """Add a context without extensions. Raises ConflictError when the handle is taken."""
        ...

    async def by_handle(self, handle: str) -> ContextRow | None: ...

    async def enable_extension(self, context_id: str, extension: str, enabled_ms: int) -> bool:
        """Enable it; False when it was enabled already (PROF-07)."""
        ...

    async def disable_extension(self, context_id: str, extension: str) -> bool:
        """Disable it and keep its data; False when it was not enabled."""
        ...

    async def locked_ms(self, context_id: str) -> int | None:
        """When the context was locked; None while it is open. In a write transaction after ``roster(lock=True)``."""
        ...

    async def set_locked(self, context_id: str, locked_ms: int | None) -> bool:
        """Lock it at an instant, or unlock it (None); False when it was so already."""
        ...

    async def handles(self) -> Sequence[str]:
        """All handles, sorted. Only the command line and the root page of a single-context server ask."""
        ...

    async def roster(self, context_id: str, *, lock: bool = False) -> RosterRow | None:
        """``lock`` keeps other transactions from changing the roster until this one ends."""
        ...

    async def put_roster(self, row: RosterRow) -> None:
        """Replace the roster. Raises ConflictError unless ``row.version`` is the stored one plus 1 (the first is 1).

        ``row.succession`` is not looked at: only ``hand_over`` changes it.
        """
        ...

    async def hand_over(self, context_id: str, controller: str, succession: bytes) -> None:
        """Name another controller, and store how the owner's key followed (CTX-03)."""
        ...

    async def handover(self, context_id: str) -> HandoverRow | None:
        """The offer of control that is under way."""
        ...

    async def put_handover(self, row: HandoverRow) -> None:
        """Store an offer; it replaces an earlier one."""
        ...

    async def delete_handover(self, context_id: str) -> bool:
        """End the offer; False when there is none."""
        ...


class Credentials(Protocol):
    """Wraps of principals' seeds and the sessions opened with them."""

    async def wrap(self, context_id: str, principal: str, kind: SeedWrapKind) -> SeedWrapRow | None: ...

    async def put_wrap(self, row: SeedWrapRow) -> None:
        """Insert, or replace the wrap of the same principal and kind (KEY-12: the old one is gone)."""
        ...

    async def add_session(self, row: SessionRow) -> None: ...

    async def session(self, context_id: str, lookup_id: bytes) -> SessionRow | None: ...

    async def touch_session(self, context_id: str, lookup_id: bytes, seen_ms: int) -> None: ...

    async def end_session(self, context_id: str, lookup_id: bytes) -> None: ...

    async def end_sessions_of(self, context_id: str, principal: str) -> None:
        """Delete every session of a principal."""
        ...

    async def end_all_sessions(self, context_id: str) -> None:
        """Delete every session of the context."""
        ...

    async def delete_wraps(self, context_id: str, principal: str) -> None:
        """Delete every wrap of a principal's seed (KEY-08)."""
        ...

    async def end_sessions_before(self, context_id: str, now_ms: int, idle_ms: int) -> None:
        """Delete sessions past their absolute or idle end."""
        ...


class Invites(Protocol):
    """Invites that are under way."""

    async def add(self, row: InviteRow) -> None: ...

    async def invite(self, context_id: str, lookup_id: bytes) -> InviteRow | None: ...

    async def invites(self, context_id: str) -> Sequence[InviteRow]:
        """All, by principal."""
        ...

    async def join(self, context_id: str, lookup_id: bytes, keys: JoinedKeys) -> bool:
        """Keep the newcomer's keys, delete the offer; False when it was used before: exactly one caller gets True."""
        ...

    async def delete(self, context_id: str, lookup_id: bytes) -> None: ...

    async def sweep(self, context_id: str, now_ms: int) -> None:
        """Delete those that expired before anybody joined by them."""
        ...


class Grants(Protocol):
    """Clients, pending authorizations, grants, keyrings and tokens."""

    async def add_client(self, row: ClientRow) -> None: ...

    async def put_client(self, row: ClientRow) -> None:
        """Insert, or replace what the client says of itself; the instant of the first time stays (AUTH-18)."""
        ...

    async def client(self, context_id: str, client_id: str) -> ClientRow | None: ...

    async def sweep_clients(self, context_id: str, created_before_ms: int, keep: int) -> None:
        """Delete clients that registered themselves (``dcr``), never got a grant and have no pending authorization.

        Those from before ``created_before_ms``, and of the others all but the newest ``keep``.
        """
        ...

    async def add_authorization(self, row: AuthorizationRow) -> None: ...

    async def authorization(self, context_id: str, lookup_id: bytes) -> AuthorizationRow | None: ...

    async def take_authorization(self, context_id: str, lookup_id: bytes) -> AuthorizationRow | None:
        """Delete and return it: one taker wins."""
        ...

    async def sweep_authorizations(self, context_id: str, now_ms: int) -> None:
        """Delete those that have expired."""
        ...

    async def add_grant(self, row: GrantRow, keyring: KeyringRow) -> None: ...

    async def grant(self, context_id: str, grant_id: str, *, lock: bool = False) -> GrantRow | None:
        """``lock`` keeps other transactions from changing the grant until this one ends."""
        ...

    async def list_grants(self, context_id: str, principal: str | None = None) -> Sequence[GrantRow]:
        """Active grants, newest first."""
        ...

    async def touch_grant(self, context_id: str, grant_id: str, used_ms: int) -> None: ...

    async def revoke_grant(self, context_id: str, grant_id: str) -> None:
        """Mark revoked; delete keyrings, anchor and every token's wrap in one go (U6). Look-up ids of tokens stay."""
        ...

    async def idle_grants(self, context_id: str, unused_since_ms: int) -> Sequence[str]:
        """Ids of active grants last used before ``unused_since_ms`` (AUTH-45)."""
        ...

    async def keyring(self, context_id: str, holder_kind: HolderKind, holder: str, epoch: int) -> KeyringRow | None: ...

    async def principal_keyring(self, context_id: str, principal: str) -> KeyringRow | None:
        """The principal's keyring of the newest epoch."""
        ...

    async def delete_keyrings(self, context_id: str, holder_kind: HolderKind, holder: str) -> None:
        """Delete a holder's keyrings of every epoch (KEY-08)."""
        ...

    async def delete_keyrings_but(self, context_id: str, holder_kind: HolderKind, holder: str) -> None:
        """Delete the keyrings of every other holder, of every epoch (KEY-08)."""
        ...

    async def delete_keyrings_before(self, context_id: str, epoch: int) -> None:
        """Delete every keyring of an earlier epoch (KEY-12)."""
        ...

    async def put_keyring(self, row: KeyringRow) -> None: ...

    async def add_token(self, row: TokenRow) -> None: ...

    async def token(self, context_id: str, lookup_id: bytes, *, lock: bool = False) -> TokenRow | None: ...

    async def use_token(
        self, context_id: str, lookup_id: bytes, used_ms: int, *, keep_wrap_until_ms: int | None = None
    ) -> bool:
        """Mark used and delete its wrap, or leave the wrap to the first sweep after ``keep_wrap_until_ms``.

        False when it was used before: exactly one caller gets True.
        """
        ...

    async def sweep_tokens(self, context_id: str, now_ms: int, keep_used_ms: int) -> None:
        """Delete expired access tokens and codes, wraps that were kept, and look-up ids used ``keep_used_ms`` ago."""
        ...

    async def access(self, context_id: str, lookup_id: bytes) -> AccessView | None:
        """One query for a call's access token with its grant, keyring of the roster's epoch, and roster."""
        ...


class Pages(Protocol):
    """Sealed pages, their blind path tags, and the sensitive inbox.

    ``slots`` are the slots the caller holds: the filter stands in the query (SCOPE-05).
    """

    async def add(self, row: PageRow, tag_generation: int, tag: bytes) -> None:
        """Insert page and path tag. Raises ConflictError when the tag is taken (MEM-02, MEM-08)."""
        ...

    async def replace(self, row: PageRow) -> None:
        """Update in place; the stored version goes into the page's history, as it is.

        Raises ConflictError unless it is ``row.version - 1``.
        """
        ...

    async def claim(self, context_id: str, page_id: str, tag_generation: int, tag: bytes) -> None:
        """Give a page or inbox item a path tag of one more generation; it may have it already.

        Raises ConflictError when something else has it.
        """
        ...

    async def by_tag(self, context_id: str, tag_generation: int, tag: bytes) -> str | None:
        """The id of the page (or inbox item) at a path tag, whoever may read it."""
        ...

    async def page(
        self, context_id: str, page_id: str, slots: Collection[str], now_ms: int, *, lock: bool = False
    ) -> PageRow | None:
        """A page that is in one of ``slots`` and not expired."""
        ...

    async def pages(
        self, context_id: str, page_ids: Sequence[str], slots: Collection[str], now_ms: int
    ) -> Sequence[PageRow]: ...

    async def heads(self, context_id: str, slots: Collection[str], now_ms: int) -> Sequence[HeadRow]:
        """Heads of every approved, unexpired page in ``slots``, by page id."""
        ...

    async def terms(self, context_id: str, slots: Collection[str], now_ms: int) -> Sequence[TermsRow]:
        """Term vectors of every approved, unexpired page in ``slots``, by page id."""
        ...

    async def has_others(self, context_id: str, slot: str, page_id: str, now_ms: int) -> bool:
        """Whether a slot has an unexpired page besides this one."""
        ...

    async def tally(self, context_id: str, slots: Collection[str], now_ms: int) -> Sequence[SlotTally]:
        """Those of ``slots`` that have approved, unexpired pages, counted."""
        ...

    async def count(self, context_id: str) -> int: ...

    async def add_to_inbox(self, row: InboxRow, tag_generation: int, tag: bytes) -> None:
        """Insert item and path tag. Raises ConflictError when the tag is taken."""
        ...

    async def inbox(self, context_id: str, slots: Collection[str], limit: int) -> Sequence[InboxRow]:
        """The oldest items waiting in the inboxes of these slots."""
        ...

    async def admit(self, row: PageRow) -> bool:
        """Turn the inbox item with ``row.page_id`` into this page; False when another request did it first."""
        ...

    async def discard_inbox(self, context_id: str, page_id: str) -> None:
        """Delete an item that fails verification, and its path tag."""
        ...

    async def delete_expired(self, context_id: str, now_ms: int) -> int:
        """Delete pages and inbox items past ``expires`` with their path tags and histories; their number (ERA-08)."""
        ...

    async def delete(self, context_id: str, page_id: str, version: int, *, deleted_ms: int, purge_ms: int) -> None:
        """Take a page out of everything and free its path; the row is kept, unchanged, until ``purge_ms``.

        Raises ConflictError unless ``version`` is the stored one.
        """
        ...

    async def deleted(self, context_id: str, slots: Collection[str], now_ms: int, limit: int) -> Sequence[DeletedRow]:
        """Deleted pages in ``slots`` that can still be recovered, the last deleted first."""
        ...

    async def deleted_page(self, context_id: str, page_id: str, slots: Collection[str], now_ms: int) -> PageRow | None:
        """One of them as it was, locked until this transaction ends."""
        ...

    async def recover(
        self, context_id: str, page_id: str, tag_generation: int, tag: bytes, *, recovered_ms: int
    ) -> None:
        """Put a deleted page back, unchanged, at this path tag, and note when it was away.

        Raises ConflictError when the tag is taken, NotFoundError when there is no such deleted page.
        """
        ...

    async def purge_deleted(self, context_id: str, now_ms: int) -> int:
        """Delete for good, with its history, what was deleted and is past its ``purge_ms``; the number (ERA-07)."""
        ...

    async def purge_deleted_beyond(self, context_id: str, most_pages: int, most_bytes: int) -> int:
        """Delete the first deleted, with their histories, until so many pages and sealed bytes are left; the number."""
        ...


class History(Protocol):
    """Earlier versions of pages, sealed as they were; ``Pages.replace`` keeps them.

    A version is open to whoever holds its own slot **and** the slot that its page is in now, while neither of the two
    has expired: the stricter decides. Deleted pages are never part of an answer.
    """

    async def terms_as_of(
        self, context_id: str, slots: Collection[str], now_ms: int, at_ms: int, limit: int
    ) -> Sequence[TermsRow]:
        """Term vectors of the approved versions that were current at ``at_ms``, by page id."""
        ...

    async def heads_as_of(
        self, context_id: str, slots: Collection[str], now_ms: int, at_ms: int, limit: int
    ) -> Sequence[HeadRow]:
        """Heads of the same versions, in the same order."""
        ...

    async def pages_as_of(
        self, context_id: str, page_ids: Sequence[str], slots: Collection[str], now_ms: int, at_ms: int
    ) -> Sequence[PageRow]:
        """Those of the same versions that belong to these pages."""
        ...

    async def first_after(
        self, context_id: str, page_id: str, slots: Collection[str], now_ms: int, at_ms: int
    ) -> PageRow | None:
        """The earliest version kept of those that came after ``at_ms``; None for a page that was deleted then."""
        ...

    async def is_complete(self, context_id: str, slots: Collection[str], now_ms: int, at_ms: int) -> bool:
        """Whether ``terms_as_of`` can lack nothing that was current at ``at_ms`` in pages of these slots."""
        ...

    async def versions(
        self, context_id: str, page_id: str, slots: Collection[str], now_ms: int, limit: int
    ) -> Sequence[VersionRow]:
        """Earlier versions of a page, the newest first."""
        ...

    async def version(
        self, context_id: str, page_id: str, version: int, slots: Collection[str], now_ms: int
    ) -> PageRow | None:
        """One of them."""
        ...

    async def trim(self, context_id: str, page_id: str, *, keep: int, since_ms: int) -> int:
        """Keep of one page the newest ``keep`` that were current after ``since_ms``; the number deleted."""
        ...

    async def sweep(self, context_id: str, now_ms: int, *, keep: int, since_ms: int) -> int:
        """The same for all pages; versions past an end of their own go too (ERA-08)."""
        ...


class Index(Protocol):
    """The sealed parts of each slot's search index, and where in it each page is."""

    async def turn(self, context_id: str, slot: str, generation: int) -> IndexSlotRow:
        """The index of a slot, made if there is none, and locked until this transaction ends.

        Whoever writes to two slots asks for them in the order of their names.
        """
        ...

    async def set_slot(self, row: IndexSlotRow) -> None:
        """Note how many segments there are, and for which generation."""
        ...

    async def slots(self, context_id: str, slots: Collection[str]) -> Sequence[IndexSlotRow]:
        """Those of these slots that have an index."""
        ...

    async def parts(self, context_id: str, slot: str, parts: Collection[str]) -> Sequence[IndexPartRow]:
        """Those of these parts that there are, in any order."""
        ...

    async def put(self, rows: Sequence[IndexPartRow]) -> None:
        """Insert or replace parts."""
        ...

    async def drop(self, context_id: str, slot: str, parts: Collection[str]) -> None:
        """Delete those of these parts that there are."""
        ...

    async def clear(self, context_id: str, slot: str) -> None:
        """Delete every part of a slot's index and every place in it."""
        ...

    async def place(self, context_id: str, page_id: str) -> IndexPlace | None:
        """Where a page is; a page that was swept is nowhere."""
        ...

    async def set_place(self, context_id: str, page_id: str, place: IndexPlace | None) -> None:
        """Note where a page is; None: nowhere."""
        ...


class Rotation(Protocol):
    """What a change of keys leaves to do: links to older keys, and rows that are sealed under them."""

    async def add_links(self, rows: Sequence[KeyLinkRow]) -> None: ...

    async def links(self, context_id: str, slots: Collection[str] | None = None) -> Sequence[KeyLinkRow]:
        """Those of these slots, by default all."""
        ...

    async def namespaces(self, context_id: str) -> Sequence[str]:
        """The profile namespaces that have content, also of extensions that are not enabled now."""
        ...

    async def behind(
        self, context_id: str, kind: RotatedKind, generation: int, limit: int, *, skip: int = 0
    ) -> Sequence[RotatedRow]:
        """The first rows of a kind whose generation is below this one, in the order of their ids, expired ones too.

        ``skip``: how many to pass over.
        """
        ...

    async def reseal(self, kind: RotatedKind, row: RotatedRow, before: RotatedRow) -> bool:
        """Put a row in the place of the one it was made from; False when somebody changed that first."""
        ...

    async def untagged(self, context_id: str, generation: int, limit: int, *, skip: int = 0) -> Sequence[HeadRow]:
        """The first pages that have no path tag of this generation yet, by page id, expired ones too."""
        ...

    async def left(self, context_id: str, generation: int) -> Mapping[str, int]:
        """How many rows are still behind this generation: by kind, ``inbox`` and ``path_tags`` included."""
        ...

    async def end(self, context_id: str, generation: int) -> None:
        """Delete the links to, and the path tags of, every generation below this one."""
        ...


class Heads(Protocol):
    """Integrity heads of slots, and what this transaction did to the rows that they count.

    What it took and nobody settled is kept, at its end, as remnants: rows that a later request takes off the sum.
    """

    async def changes(self) -> list[Change]:
        """What this transaction has put and taken since it was last asked."""
        ...

    async def turn(self, context_id: str, slots: Collection[str]) -> Sequence[SlotHeadRow]:
        """The heads of these slots, of every generation, locked until this transaction ends."""
        ...

    async def heads(self, context_id: str) -> Sequence[SlotHeadRow]:
        """All heads, by slot and generation."""
        ...

    async def put(self, rows: Sequence[SlotHeadRow]) -> None:
        """Insert or replace heads."""
        ...

    async def end(self, context_id: str, generation: int) -> None:
        """Delete heads and remnants of every generation below this one."""
        ...

    async def leave(self, changes: Iterable[Change]) -> None:
        """Keep those of these rows that were taken as remnants."""
        ...

    async def remnants(self, context_id: str, slots: Collection[str]) -> Sequence[Leaf]:
        """What waits to be taken off the heads of these slots."""
        ...

    async def forget(self, context_id: str, leaves: Sequence[Leaf] | None) -> None:
        """Delete these remnants; None: every one of the context."""
        ...

    async def page_versions(self, context_id: str, page_ids: Collection[str]) -> Mapping[str, int]:
        """At which version those of these pages are that there are, expired ones too."""
        ...

    async def leaves(self, context_id: str, kind: LeafKind, limit: int, skip: int) -> Sequence[Leaf | None]:
        """A leaf for each stored row of a kind, expired or not, by id; None for one that is not counted.

        ``skip``: how many rows to pass over.
        """
        ...


class Profiles(Protocol):
    """Sealed profile namespaces and their change log."""

    async def profile(self, context_id: str, namespace: str, *, lock: bool = False) -> ProfileRow | None: ...

    async def put(self, row: ProfileRow, change: ProfileChangeRow) -> None:
        """Insert version 1, or replace version n by n + 1. Raises ConflictError when another writer was first."""
        ...

    async def changes(self, context_id: str, namespace: str, limit: int) -> Sequence[ProfileChangeRow]:
        """Newest first."""
        ...


class Proposals(Protocol):
    """Sealed proposals; which of them a caller sees is decided in the query (MEM-15)."""

    async def add(self, row: ProposalRow) -> None: ...

    async def replace(self, row: ProposalRow) -> None:
        """The same proposal sealed anew. Raises NotFoundError."""
        ...

    async def proposals(
        self,
        context_id: str,
        state: ProposalState,
        now_ms: int,
        *,
        slots: Collection[str],
        grant_id: str | None,
        own_slots: Collection[str],
        before: ProposalPlace,
        limit: int,
    ) -> Sequence[ProposalRow]:
        """Unexpired ones behind a place, the newest first: all in ``slots``, the grant's own in ``own_slots``."""
        ...

    async def proposal(
        self, context_id: str, proposal_id: str, slots: Collection[str], now_ms: int, *, lock: bool = False
    ) -> ProposalRow | None:
        """One in these slots that has not expired."""
        ...

    async def waiting(self, context_id: str) -> int:
        """How many wait, expired ones included."""
        ...

    async def delete(self, context_id: str, proposal_id: str) -> None: ...

    async def delete_expired(self, context_id: str, now_ms: int) -> int:
        """Delete what has expired; the number (ERA-08)."""
        ...


class Handoffs(Protocol):
    """Sealed hand-offs between assistants; a context has few."""

    async def put(self, row: HandoffRow) -> None:
        """Insert version 1, or replace version n by n + 1. Raises ConflictError when another writer was first."""
        ...

    async def handoff(self, context_id: str, handoff_id: str, now_ms: int, *, lock: bool = False) -> HandoffRow | None:
        """One that has not expired."""
        ...

    async def handoffs(self, context_id: str, now_ms: int) -> Sequence[HandoffRow]:
        """All that have not expired, the last changed first."""
        ...

    async def count(self, context_id: str) -> int:
        """How many there are, expired ones included."""
        ...

    async def delete_expired(self, context_id: str, now_ms: int) -> int:
        """Delete what has expired; the number (ERA-08)."""
        ...


class Partitions(Protocol):
    """Sealed names and descriptions of partitions. Which there are, and who may do what, stands in the roster."""

    async def put(self, row: PartitionRow) -> None:
        """Insert version 1, or replace version n by n + 1. Raises ConflictError when another writer was first."""
        ...

    async def partitions(self, context_id: str, partition_ids: Collection[str]) -> Sequence[PartitionRow]:
        """Those of these partitions that have a name, by id."""
        ...


class Audit(Protocol):
    """The access log, append-only and hash-chained."""

    async def head(self, context_id: str) -> AuditHead:
        """The newest place in the chain, locked until this transaction ends: no two entries follow the same one."""
        ...

    async def newest(self, context_id: str) -> AuditHead:
        """The same without the lock: others may append meanwhile. Raises NotFoundError."""
        ...

    async def hash_of(self, context_id: str, seq: int) -> bytes | None:
        """The hash of one entry; None where there is none."""
        ...

    async def append(self, row: AuditRow, roster_version: int = 0) -> None:
        """Append the entry, and note by which roster it was written; a later one stays noted."""
        ...

    async def entries(
        self,
        context_id: str,
        *,
        limit: int,
        before_seq: int | None = None,
        since_ms: int | None = None,
        action: str | None = None,
        category: str | None = None,
        outcome: str | None = None,
        partitions: Collection[str] | None = None,
    ) -> Sequence[AuditRow]:
        """Newest first, strictly below ``before_seq``.

        With ``partitions`` only entries that touched none at all, or one of these (MEM-13).
        """
        ...


class Counters(Protocol):
    """How often something was tried. Belongs to no context; a name tells nothing of what is counted (SEC-01)."""

    async def add(self, name: str, amount: int, *, now_ms: int, ends_ms: int) -> Counted:
        """Count in the window that is open at ``now_ms``; the first of a window opens it until ``ends_ms``."""
        ...

    async def count(self, name: str, now_ms: int) -> Counted | None:
        """What the window that is open at ``now_ms`` counts."""
        ...

    async def clear(self, name: str) -> None: ...

    async def sweep(self, now_ms: int) -> None:
        """Delete the windows that have ended."""
        ...


class Transaction(Protocol):
    """One atomic look at, or change of, the store."""

    @property
    def contexts(self) -> Contexts: ...
    @property
    def credentials(self) -> Credentials: ...
    @property
    def invites(self) -> Invites: ...
    @property
    def grants(self) -> Grants: ...
    @property
    def pages(self) -> Pages: ...
    @property
    def history(self) -> History: ...
    @property
    def profiles(self) -> Profiles: ...
    @property
    def handoffs(self) -> Handoffs: ...
    @property
    def index(self) -> Index: ...
    @property
    def partitions(self) -> Partitions: ...
    @property
    def proposals(self) -> Proposals: ...
    @property
    def rotation(self) -> Rotation: ...
    @property
    def heads(self) -> Heads: ...
    @property
    def audit(self) -> Audit: ...
    @property
    def counters(self) -> Counters: ...


class Store(Protocol):
    """One storage engine. A failing backend raises UnavailableError, never falls back to another."""

    def read(self) -> AbstractAsyncContextManager[Transaction]:
        """A consistent snapshot; writing through it is an error."""
        ...

    def write(self) -> AbstractAsyncContextManager[Transaction]:
        """A transaction that may write. On SQLite one at a time; on PostgreSQL rows are locked as methods say."""
        ...

    async def close(self) -> None: ...
