"""What stands in for time, randomness and the database in a test.

``FixedClock``, ``CountingEntropy`` and ``MemoryStore`` are verified fakes: the store passes the same contract suite as
SQLite and PostgreSQL (tests/contract). They are part of the package so that others can test against them. The store
does NOT last and does not model the engines' locks between rows: it has one writer at a time, as SQLite has.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields, replace
from itertools import count
from typing import Any, Final, get_args

from zkpcp.core import roster as rosters
from zkpcp.core.leaves import Change, Journal, Leaf, LeafKind, leaf_of
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
    tally_mark,
)
from zkpcp.errors import ConflictError, NotFoundError, UnavailableError

_MINUTE_MS: Final = 60_000
_NEVER_MS: Final = 1 << 62


class FixedClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """The instant it was set to, in milliseconds since the epoch."""
        return self._now_ms

    def advance(self, by_ms: int) -> None:
        """Let time pass."""
        self._now_ms += by_ms


class CountingEntropy:
    """Bytes that look random, are the same in every run and, from 16 bytes on, never repeat. Not for real keys."""

    def __init__(self, seed: str = "") -> None:
        self._seed = seed.encode()
        self._counter = count()

    def bytes(self, size: int) -> bytes:
        """The next ``size`` bytes."""
        return hashlib.shake_256(self._seed + next(self._counter).to_bytes(8, "big")).digest(size)


@dataclass(frozen=True, slots=True)
class _Deleted:
    """A deleted page with when it was deleted and when it goes."""

    page: PageRow
    deleted_ms: int
    purge_ms: int


@dataclass(frozen=True, slots=True)
class _Version:
    """An earlier version of a page and when it was replaced."""

    page: PageRow
    until_ms: int


@dataclass(slots=True)
class _Tables:
    """Everything that is stored, by primary key. A committed instance is never changed again."""

    contexts: dict[str, ContextRow] = field(default_factory=dict)
    rosters: dict[str, RosterRow] = field(default_factory=dict)
    wraps: dict[tuple[str, str, SeedWrapKind], SeedWrapRow] = field(default_factory=dict)
    sessions: dict[tuple[str, bytes], SessionRow] = field(default_factory=dict)
    invites: dict[tuple[str, bytes], InviteRow] = field(default_factory=dict)
    clients: dict[tuple[str, str], ClientRow] = field(default_factory=dict)
    authorizations: dict[tuple[str, bytes], AuthorizationRow] = field(default_factory=dict)
    grants: dict[tuple[str, str], GrantRow] = field(default_factory=dict)
    keyrings: dict[tuple[str, HolderKind, str, int], KeyringRow] = field(default_factory=dict)
    tokens: dict[tuple[str, bytes], TokenRow] = field(default_factory=dict)
    pages: dict[tuple[str, str], PageRow] = field(default_factory=dict)
    deleted: dict[tuple[str, str], _Deleted] = field(default_factory=dict)
    versions: dict[tuple[str, str, int], _Version] = field(default_factory=dict)
    absences: dict[tuple[str, str, int], int] = field(default_factory=dict)
    marks: dict[tuple[str, str], int] = field(default_factory=dict)
    tags: dict[tuple[str, int, bytes], str] = field(default_factory=dict)
    inbox: dict[tuple[str, str], InboxRow] = field(default_factory=dict)
    profiles: dict[tuple[str, str], ProfileRow] = field(default_factory=dict)
    changes: dict[tuple[str, str, int], ProfileChangeRow] = field(default_factory=dict)
    handoffs: dict[tuple[str, str], HandoffRow] = field(default_factory=dict)
    extensions: dict[tuple[str, str], int] = field(default_factory=dict)
    index_slots: dict[tuple[str, str], IndexSlotRow] = field(default_factory=dict)
    index_parts: dict[tuple[str, str, str], IndexPartRow] = field(default_factory=dict)
    index_places: dict[tuple[str, str], IndexPlace] = field(default_factory=dict)
    partitions: dict[tuple[str, str], PartitionRow] = field(default_factory=dict)
    proposals: dict[tuple[str, str], ProposalRow] = field(default_factory=dict)
    links: dict[tuple[str, str, int, str], KeyLinkRow] = field(default_factory=dict)
    handovers: dict[str, HandoverRow] = field(default_factory=dict)
    slot_heads: dict[tuple[str, str, int], SlotHeadRow] = field(default_factory=dict)
    remnants: dict[tuple[str, str, int, str, str, int], Leaf] = field(default_factory=dict)
    heads: dict[str, AuditHead] = field(default_factory=dict)
    entries: dict[tuple[str, int], AuditRow] = field(default_factory=dict)
    counters: dict[str, Counted] = field(default_factory=dict)

    def copy(self) -> _Tables:
        return _Tables(*(dict(getattr(self, entry.name)) for entry in fields(self)))


class _Session:
    """One transaction's tables and the rules that the engines have too."""

    def __init__(self, tables: _Tables, *, writable: bool) -> None:
        self.journal = Journal()
        self._tables = tables
        self._writable = writable
        self._failed = False
        self._open = True

    def look(self) -> _Tables:
        """The tables, to read."""
        if not self._open:
            raise RuntimeError("the transaction has ended")
        if self._failed:
            raise UnavailableError("the transaction failed before and can only be rolled back")
        return self._tables

    def change(self, context_id: str | None = None) -> _Tables:
        """The tables, to write; to add a row to ``context_id`` if it is given. Row locks are asked for here too."""
        tables = self.look()
        if not self._writable:
            raise RuntimeError("the transaction only reads")
        if context_id is not None and context_id not in tables.contexts:
            self._failed = True
            raise NotFoundError("there is no such context")
        return tables

    def lock(self, *, wanted: bool) -> _Tables:
        """The tables, to read with a lock if wanted."""
        return self.change() if wanted else self.look()

    def end(self) -> _Tables:
        """Close the transaction; its tables, to commit."""
        self._open = False
        if self._failed:
            raise UnavailableError("the transaction failed before and was rolled back")
        return self._tables

    def abandon(self) -> None:
        """Close the transaction for good."""
        self._open = False


class _Contexts:
    """Contexts and rosters in memory."""

    def __init__(self, session: _Session) -> None:
        self._session = session

    async def add(self, row: ContextRow) -> None:
        tables = self._session.change()
        if row.context_id in tables.contexts or any(row.handle == other.handle for other in tables.contexts.values()):
            raise ConflictError("the handle is taken")
        tables.contexts[row.context_id] = replace(row, extensions=(), features=())
        tables.heads[row.context_id] = AuditHead(0, bytes(32))

    async def by_handle(self, handle: str) -> ContextRow | None:
        tables = self._session.look()
        for row in tables.contexts.values():
            if row.handle == handle:
                enabled = sorted(name for context_id, name in tables.extensions if context_id == row.context_id)
                roster = tables.rosters.get(row.context_id)
                features = () if roster is None else rosters.features(rosters.parse(roster.body))
                return replace(row, extensions=tuple(enabled), features=features)
        return None

    async def locked_ms(self, context_id: str) -> int | None:
        row = self._session.look().contexts.get(context_id)
        return None if row is None else row.locked_ms

    async def set_locked(self, context_id: str, locked_ms: int | None) -> bool:
        contexts = self._session.change().contexts
        row = contexts.get(context_id)
        if row is None or (row.locked_ms is None) == (locked_ms is None):
            return False
        contexts[context_id] = replace(row, locked_ms=locked_ms)
        return True

    async def enable_extension(self, context_id: str, extension: str, enabled_ms: int) -> bool:
        extensions = self._session.change(context_id).extensions
        if (context_id, extension) in extensions:
            return False
        extensions[context_id, extension] = enabled_ms
        return True

    async def disable_extension(self, context_id: str, extension: str) -> bool:
        return self._session.change().extensions.pop((context_id, extension), None) is not None

    async def handles(self) -> Sequence[str]:
        return sorted(row.handle for row in self._session.look().contexts.values())

    async def roster(self, context_id: str, *, lock: bool = False) -> RosterRow | None:
        return self._session.lock(wanted=lock).rosters.get(context_id)

    async def put_roster(self, row: RosterRow) -> None:
        rosters.parse(row.body)
        tables = self._session.change(row.context_id)
        stored = tables.rosters.get(row.context_id)
        if row.version != (stored.version + 1 if stored else 1):
            raise ConflictError("the roster changed meanwhile")
        tables.rosters[row.context_id] = replace(row, succession=stored.succession if stored else b"")

    async def hand_over(self, context_id: str, controller: str, succession: bytes) -> None:
        tables = self._session.change(context_id)
        tables.rosters[context_id] = replace(tables.rosters[context_id], succession=succession)
        tables.contexts[context_id] = replace(tables.contexts[context_id], controller=controller)

    async def handover(self, context_id: str) -> HandoverRow | None:
        return self._session.look().handovers.get(context_id)

    async def put_handover(self, row: HandoverRow) -> None:
        self._session.change(row.context_id).handovers[row.context_id] = row

    async def delete_handover(self, context_id: str) -> bool:
        return self._session.change().handovers.pop(context_id, None) is not None


class _Credentials:
    """Seed wraps and sessions in memory."""

    def __init__(self, session: _Session) -> None:
        self._session = session

    async def wrap(self, context_id: str, principal: str, kind: SeedWrapKind) -> SeedWrapRow | None:
        return self._session.look().wraps.get((context_id, principal, kind))

    async def put_wrap(self, row: SeedWrapRow) -> None:
        self._session.change(row.context_id).wraps[row.context_id, row.principal, row.kind] = row

    async def add_session(self, row: SessionRow) -> None:
        sessions = self._session.change(row.context_id).sessions
        if (row.context_id, row.lookup_id) in sessions:
            raise ConflictError("the session exists already")
        sessions[row.context_id, row.lookup_id] = row

    async def session(self, context_id: str, lookup_id: bytes) -> SessionRow | None:
        return self._session.look().sessions.get((context_id, lookup_id))

    async def touch_session(self, context_id: str, lookup_id: bytes, seen_ms: int) -> None:
        sessions = self._session.change().sessions
        row = sessions.get((context_id, lookup_id))
        if row is not None and row.seen_ms < seen_ms:
            sessions[context_id, lookup_id] = replace(row, seen_ms=seen_ms)

    async def end_session(self, context_id: str, lookup_id: bytes) -> None:
        self._session.change().sessions.pop((context_id, lookup_id), None)

    async def end_sessions_of(self, context_id: str, principal: str) -> None:
        sessions = self._session.change().sessions
        for key, row in list(sessions.items()):
            if (row.context_id, row.principal) == (context_id, principal):
                del sessions[key]

    async def end_all_sessions(self, context_id: str) -> None:
        sessions = self._session.change().sessions
        for key, row in list(sessions.items()):
            if row.context_id == context_id:
                del sessions[key]

    async def delete_wraps(self, context_id: str, principal: str) -> None:
        wraps = self._session.change().wraps
        for key in [key for key in wraps if key[:2] == (context_id, principal)]:
            del wraps[key]

    async def end_sessions_before(self, context_id: str, now_ms: int, idle_ms: int) -> None:
        sessions = self._session.change().sessions
        for key, row in list(sessions.items()):
            if row.context_id == context_id and (row.expires_ms <= now_ms or row.seen_ms <= now_ms - idle_ms):
                del sessions[key]


class _Invites:
    """Invites in memory."""

    def __init__(self, session: _Session) -> None:
        self._session = session

    async def add(self, row: InviteRow) -> None:
        invites = self._session.change(row.context_id).invites
        if (row.context_id, row.lookup_id) in invites:
            raise ConflictError("the invite exists already")
        invites[row.context_id, row.lookup_id] = row

    async def invite(self, context_id: str, lookup_id: bytes) -> InviteRow | None:
        return self._session.look().invites.get((context_id, lookup_id))

    async def invites(self, context_id: str) -> Sequence[InviteRow]:
        rows = [row for row in self._session.look().invites.values() if row.context_id == context_id]
        return sorted(rows, key=lambda row: (row.principal, row.lookup_id))

    async def join(self, context_id: str, lookup_id: bytes, keys: JoinedKeys) -> bool:
        invites = self._session.change().invites
        row = invites.get((context_id, lookup_id))
        if row is None or row.joined is not None:
            return False
        invites[context_id, lookup_id] = replace(row, offer=b"", joined=keys)
        return True

    async def delete(self, context_id: str, lookup_id: bytes) -> None:
        self._session.change().invites.pop((context_id, lookup_id), None)

    async def sweep(self, context_id: str, now_ms: int) -> None:
        invites = self._session.change().invites
        for key, row in list(invites.items()):
            if row.context_id == context_id and row.joined is None and row.expires_ms <= now_ms:
                del invites[key]


class _Grants:
    """Grants and all that hangs on them, in memory."""

    def __init__(self, session: _Session) -> None:
        self._session = session

    async def add_client(self, row: ClientRow) -> None:
        clients = self._session.change(row.context_id).clients
        if (row.context_id, row.client_id) in clients:
            raise ConflictError("the client exists already")
        clients[row.context_id, row.client_id] = row

    async def put_client(self, row: ClientRow) -> None:
        clients = self._session.change(row.context_id).clients
        stored = clients.get((row.context_id, row.client_id), row)
        clients[row.context_id, row.client_id] = replace(row, created_ms=stored.created_ms)

    async def client(self, context_id: str, client_id: str) -> ClientRow | None:
        return self._session.look().clients.get((context_id, client_id))

    async def sweep_clients(self, context_id: str, created_before_ms: int, keep: int) -> None:
        tables = self._session.change(context_id)
        used = {(row.context_id, row.client_id) for row in tables.grants.values()}
        used |= {(row.context_id, row.client_id) for row in tables.authorizations.values()}
        unused = [
            (row.created_ms, key)
            for key, row in tables.clients.items()
            if row.context_id == context_id and row.source == "dcr" and key not in used
        ]
        newest = sorted((entry for entry in unused if entry[0] >= created_before_ms), reverse=True)[:keep]
        for entry in set(unused) - set(newest):
            del tables.clients[entry[1]]

    async def add_authorization(self, row: AuthorizationRow) -> None:
        authorizations = self._session.change(row.context_id).authorizations
        if (row.context_id, row.lookup_id) in authorizations:
            raise ConflictError("the authorization exists already")
        authorizations[row.context_id, row.lookup_id] = row

    async def authorization(self, context_id: str, lookup_id: bytes) -> AuthorizationRow | None:
        return self._session.look().authorizations.get((context_id, lookup_id))

    async def take_authorization(self, context_id: str, lookup_id: bytes) -> AuthorizationRow | None:
        return self._session.change().authorizations.pop((context_id, lookup_id), None)

    async def sweep_authorizations(self, context_id: str, now_ms: int) -> None:
        authorizations = self._session.change().authorizations
        for key, row in list(authorizations.items()):
            if row.context_id == context_id and row.expires_ms <= now_ms:
                del authorizations[key]

    async def add_grant(self, row: GrantRow, keyring: KeyringRow) -> None:
        grants = self._session.change(row.context_id).grants
        if (row.context_id, row.grant_id) in grants:
            raise ConflictError("the grant exists already")
        grants[row.context_id, row.grant_id] = row
        await self.put_keyring(keyring)

    async def grant(self, context_id: str, grant_id: str, *, lock: bool = False) -> GrantRow | None:
        return self._session.lock(wanted=lock).grants.get((context_id, grant_id))

    async def list_grants(self, context_id: str, principal: str | None = None) -> Sequence[GrantRow]:
        rows = [row for row in self._active(context_id) if principal in (None, row.principal)]
        return sorted(rows, key=lambda row: (-row.created_ms, row.grant_id))

    async def touch_grant(self, context_id: str, grant_id: str, used_ms: int) -> None:
        grants = self._session.change().grants
        row = grants.get((context_id, grant_id))
        minute_ms = used_ms - used_ms % _MINUTE_MS
        if row is not None and row.used_ms < minute_ms:
            grants[context_id, grant_id] = replace(row, used_ms=minute_ms)

    async def revoke_grant(self, context_id: str, grant_id: str) -> None:
        tables = self._session.change()
        row = tables.grants.get((context_id, grant_id))
        if row is not None:
            tables.grants[context_id, grant_id] = replace(row, status="revoked", anchor=b"")
        for key in [key for key in tables.keyrings if key[:3] == (context_id, "grant", grant_id)]:
            del tables.keyrings[key]
        for place, token in list(tables.tokens.items()):
            if (token.context_id, token.grant_id) == (context_id, grant_id):
                tables.tokens[place] = replace(token, wrapped=None)

    async def idle_grants(self, context_id: str, unused_since_ms: int) -> Sequence[str]:
        return sorted(row.grant_id for row in self._active(context_id) if row.used_ms < unused_since_ms)

    async def keyring(self, context_id: str, holder_kind: HolderKind, holder: str, epoch: int) -> KeyringRow | None:
        return self._session.look().keyrings.get((context_id, holder_kind, holder, epoch))

    async def principal_keyring(self, context_id: str, principal: str) -> KeyringRow | None:
        rows = [
            row for key, row in self._session.look().keyrings.items() if key[:3] == (context_id, "principal", principal)
        ]
        return max(rows, key=lambda row: row.epoch, default=None)

    async def delete_keyrings(self, context_id: str, holder_kind: HolderKind, holder: str) -> None:
        keyrings = self._session.change().keyrings
        for key in [key for key in keyrings if key[:3] == (context_id, holder_kind, holder)]:
            del keyrings[key]

    async def delete_keyrings_but(self, context_id: str, holder_kind: HolderKind, holder: str) -> None:
        keyrings = self._session.change().keyrings
        for key in [key for key in keyrings if key[0] == context_id and key[1:3] != (holder_kind, holder)]:
            del keyrings[key]

    async def delete_keyrings_before(self, context_id: str, epoch: int) -> None:
        keyrings = self._session.change().keyrings
        for key in [key for key in keyrings if key[0] == context_id and key[3] < epoch]:
            del keyrings[key]

    async def put_keyring(self, row: KeyringRow) -> None:
        keyrings = self._session.change(row.context_id).keyrings
        keyrings[row.context_id, row.holder_kind, row.holder, row.epoch] = row

    async def add_token(self, row: TokenRow) -> None:
        tokens = self._session.change(row.context_id).tokens
        if (row.context_id, row.lookup_id) in tokens:
            raise ConflictError("the token exists already")
        tokens[row.context_id, row.lookup_id] = row

    async def token(self, context_id: str, lookup_id: bytes, *, lock: bool = False) -> TokenRow | None:
        return self._session.lock(wanted=lock).tokens.get((context_id, lookup_id))

    async def use_token(
        self, context_id: str, lookup_id: bytes, used_ms: int, *, keep_wrap_until_ms: int | None = None
    ) -> bool:
        tokens = self._session.change().tokens
        row = tokens.get((context_id, lookup_id))
        if row is None or row.used_ms is not None:
            return False
        wrapped = row.wrapped if keep_wrap_until_ms is not None else None
        tokens[context_id, lookup_id] = replace(row, used_ms=used_ms, wrapped=wrapped, wrap_until_ms=keep_wrap_until_ms)
        return True

    async def sweep_tokens(self, context_id: str, now_ms: int, keep_used_ms: int) -> None:
        tokens = self._session.change().tokens
        for key, row in list(tokens.items()):
            if row.used_ms is None:
                over = row.kind in ("code", "access") and row.expires_ms <= now_ms
            else:
                over = row.used_ms < now_ms - keep_used_ms
            if row.context_id != context_id:
                continue
            if over:
                del tokens[key]
            elif row.wrap_until_ms is not None and row.wrap_until_ms <= now_ms:
                tokens[key] = replace(row, wrapped=None, wrap_until_ms=None)

    async def access(self, context_id: str, lookup_id: bytes) -> AccessView | None:
        tables = self._session.look()
        token = tables.tokens.get((context_id, lookup_id))
        roster = tables.rosters.get(context_id)
        if token is None or token.kind != "access" or roster is None:
            return None
        grant = tables.grants.get((context_id, token.grant_id))
        epoch = rosters.parse(roster.body).epoch
        keyring = tables.keyrings.get((context_id, "grant", token.grant_id, epoch))
        return None if grant is None else AccessView(token=token, grant=grant, keyring=keyring, roster=roster)

    def _active(self, context_id: str) -> list[GrantRow]:
        rows = self._session.look().grants.values()
        return [row for row in rows if row.context_id == context_id and row.status == "active"]


class _Pages:
    """Pages, path tags and the inbox in memory."""

    def __init__(self, session: _Session) -> None:
        self._session = session

    async def add(self, row: PageRow, tag_generation: int, tag: bytes) -> None:
        self._claim(row.context_id, tag_generation, tag, row.page_id)
        self._insert(row)

    async def replace(self, row: PageRow) -> None:
        pages = self._session.change().pages
        stored = pages.get((row.context_id, row.page_id))
        if stored is None or stored.version != row.version - 1:
            raise ConflictError("the page changed meanwhile")
        versions = self._session.change().versions
        versions[row.context_id, row.page_id, stored.version] = _Version(stored, row.updated_ms)
        pages[row.context_id, row.page_id] = row
        self._session.journal.took("pages", stored)
        self._session.journal.put("page_versions", stored, until_ms=row.updated_ms)
        self._session.journal.put("pages", row)

    async def claim(self, context_id: str, page_id: str, tag_generation: int, tag: bytes) -> None:
        tags = self._session.change(context_id).tags
        if tags.setdefault((context_id, tag_generation, tag), page_id) != page_id:
            raise ConflictError("the path is taken")

    async def by_tag(self, context_id: str, tag_generation: int, tag: bytes) -> str | None:
        return self._session.look().tags.get((context_id, tag_generation, tag))

    async def page(
        self, context_id: str, page_id: str, slots: Collection[str], now_ms: int, *, lock: bool = False
    ) -> PageRow | None:
        row = self._session.lock(wanted=lock).pages.get((context_id, page_id))
        return row if row is not None and _visible(row, slots, now_ms) else None

    async def pages(
        self, context_id: str, page_ids: Sequence[str], slots: Collection[str], now_ms: int
    ) -> Sequence[PageRow]:
        return [row for row in self._visible(context_id, slots, now_ms) if row.page_id in page_ids]

    async def heads(self, context_id: str, slots: Collection[str], now_ms: int) -> Sequence[HeadRow]:
        return [_head(row) for row in self._visible(context_id, slots, now_ms) if row.review_state == "approved"]

    async def terms(self, context_id: str, slots: Collection[str], now_ms: int) -> Sequence[TermsRow]:
        return [_terms(row) for row in self._visible(context_id, slots, now_ms) if row.review_state == "approved"]

    async def has_others(self, context_id: str, slot: str, page_id: str, now_ms: int) -> bool:
        return any(row.page_id != page_id for row in self._visible(context_id, (slot,), now_ms))

    async def tally(self, context_id: str, slots: Collection[str], now_ms: int) -> Sequence[SlotTally]:
        marks: dict[str, list[int]] = {}
        for row in self._visible(context_id, slots, now_ms):
            if row.review_state == "approved":
                marks.setdefault(row.slot, []).append(tally_mark(row.updated_ms))
        return [SlotTally(slot, len(each), sum(each)) for slot, each in marks.items()]

    async def count(self, context_id: str) -> int:
        tables = self._session.look()
        return sum(key[0] == context_id for key in (*tables.pages, *tables.inbox))

    async def add_to_inbox(self, row: InboxRow, tag_generation: int, tag: bytes) -> None:
        self._claim(row.context_id, tag_generation, tag, row.page_id)
        inbox = self._session.change().inbox
        if (row.context_id, row.page_id) in inbox:
            raise ConflictError("the inbox item exists already")
        inbox[row.context_id, row.page_id] = row

    async def inbox(self, context_id: str, slots: Collection[str], limit: int) -> Sequence[InboxRow]:
        rows = [
            row for row in self._session.look().inbox.values() if row.context_id == context_id and row.slot in slots
        ]
        return sorted(rows, key=lambda row: (row.updated_ms, row.page_id))[:limit]

    async def admit(self, row: PageRow) -> bool:
        if self._session.change().inbox.pop((row.context_id, row.page_id), None) is None:
            return False
        self._insert(row)
        return True

    async def discard_inbox(self, context_id: str, page_id: str) -> None:
        if self._session.change().inbox.pop((context_id, page_id), None) is not None:
            self._free(context_id, {page_id})

    async def delete_expired(self, context_id: str, now_ms: int) -> int:
        tables = self._session.change()
        pages = {key for key, page in tables.pages.items() if page.context_id == context_id and _expired(page, now_ms)}
        items = {key for key, item in tables.inbox.items() if item.context_id == context_id and _expired(item, now_ms)}
        for key in pages:
            tables.index_places.pop(key, None)
            gone = tables.pages.pop(key)
            self._session.journal.took("pages", gone)
            _forget(self._session, gone, gone.expires_ms or 0)
        for key in items:
            del tables.inbox[key]
        self._free(context_id, {page_id for _, page_id in pages | items})
        return len(pages) + len(items)

    async def delete(self, context_id: str, page_id: str, version: int, *, deleted_ms: int, purge_ms: int) -> None:
        tables = self._session.change()
        row = tables.pages.get((context_id, page_id))
        if row is None or row.version != version:
            raise ConflictError("the page changed meanwhile")
        del tables.pages[context_id, page_id]
        self._session.journal.took("pages", row)
        tables.deleted[context_id, page_id] = _Deleted(row, deleted_ms, purge_ms)
        self._free(context_id, {page_id})

    async def deleted(self, context_id: str, slots: Collection[str], now_ms: int, limit: int) -> Sequence[DeletedRow]:
        rows = [
            row
            for (context, _), row in self._session.look().deleted.items()
            if context == context_id and row.page.slot in slots and row.purge_ms > now_ms
        ]
        rows.sort(key=lambda row: (-row.deleted_ms, row.page.page_id))
        return [DeletedRow(_head(row.page), row.deleted_ms, row.purge_ms) for row in rows[:limit]]

    async def deleted_page(self, context_id: str, page_id: str, slots: Collection[str], now_ms: int) -> PageRow | None:
        row = self._session.lock(wanted=True).deleted.get((context_id, page_id))
        return row.page if row is not None and row.page.slot in slots and row.purge_ms > now_ms else None

    async def recover(
        self, context_id: str, page_id: str, tag_generation: int, tag: bytes, *, recovered_ms: int
    ) -> None:
        tables = self._session.change(context_id)
        if (context_id, tag_generation, tag) in tables.tags:
            raise ConflictError("the path is taken")
        row = tables.deleted.pop((context_id, page_id), None)
        if row is None:
            raise NotFoundError("there is no such deleted page")
        tables.tags[context_id, tag_generation, tag] = page_id
        self._insert(row.page)
        place = (context_id, page_id, row.deleted_ms)
        tables.absences[place] = max(row.deleted_ms, recovered_ms, tables.absences.get(place, recovered_ms))

    async def purge_deleted_beyond(self, context_id: str, most_pages: int, most_bytes: int) -> int:
        tables = self._session.change()
        deleted = tables.deleted
        mine = [(key, row) for key, row in deleted.items() if key[0] == context_id]
        mine.sort(key=lambda entry: (-entry[1].deleted_ms, entry[0]))
        size = gone = 0
        for place, (key, row) in enumerate(mine, start=1):
            size += len(row.page.sealed) + len(row.page.head) + len(row.page.terms)
            if place > most_pages or size > most_bytes:
                del deleted[key]
                _forget(self._session, row.page, row.deleted_ms)
                gone += 1
        return gone

    async def purge_deleted(self, context_id: str, now_ms: int) -> int:
        tables = self._session.change()
        gone = [key for key, row in tables.deleted.items() if key[0] == context_id and row.purge_ms <= now_ms]
        for key in gone:
            row = tables.deleted.pop(key)
            _forget(self._session, row.page, row.deleted_ms)
        return len(gone)

    def _visible(self, context_id: str, slots: Collection[str], now_ms: int) -> list[PageRow]:
        rows = self._session.look().pages.values()
        visible = [row for row in rows if row.context_id == context_id and _visible(row, slots, now_ms)]
        return sorted(visible, key=lambda row: row.page_id)

    def _claim(self, context_id: str, generation: int, tag: bytes, page_id: str) -> None:
        tags = self._session.change(context_id).tags
        if (context_id, generation, tag) in tags:
            raise ConflictError("the path is taken")
        tags[context_id, generation, tag] = page_id

    def _insert(self, row: PageRow) -> None:
        pages = self._session.change(row.context_id).pages
        if (row.context_id, row.page_id) in pages:
            raise ConflictError("the page exists already")
        pages[row.context_id, row.page_id] = row
        self._session.journal.put("pages", row)

    def _free(self, context_id: str, page_ids: set[str]) -> None:
        tables = self._session.change()
        gone = {page_id for page_id in page_ids if (context_id, page_id) not in tables.pages}
        for key in [key for key, page_id in tables.tags.items() if key[0] == context_id and page_id in gone]:
            del tables.tags[key]


class _Index:
    """Search indexes in memory."""

    def __init__(self, session: _Session) -> None:
        self._session = session

    async def turn(self, context_id: str, slot: str, generation: int) -> IndexSlotRow:
        slots = self._session.change(context_id).index_slots
        return slots.setdefault((context_id, slot), IndexSlotRow(context_id, slot, generation, 0))

    async def set_slot(self, row: IndexSlotRow) -> None:
        slots = self._session.change().index_slots
        if (row.context_id, row.slot) in slots:
            slots[row.context_id, row.slot] = row

    async def slots(self, context_id: str, slots: Collection[str]) -> Sequence[IndexSlotRow]:
        rows = self._session.look().index_slots.values()
        return [row for row in rows if row.context_id == context_id and row.slot in slots]

    async def parts(self, context_id: str, slot: str, parts: Collection[str]) -> Sequence[IndexPartRow]:
        stored = self._session.look().index_parts
        return [stored[context_id, slot, part] for part in set(parts) if (context_id, slot, part) in stored]

    async def put(self, rows: Sequence[IndexPartRow]) -> None:
        for row in rows:
            self._session.change(row.context_id).index_parts[row.context_id, row.slot, row.part] = row

    async def drop(self, context_id: str, slot: str, parts: Collection[str]) -> None:
        stored = self._session.change().index_parts
        for part in parts:
            stored.pop((context_id, slot, part), None)

    async def clear(self, context_id: str, slot: str) -> None:
        tables = self._session.change()
        for key in [key for key in tables.index_parts if key[:2] == (context_id, slot)]:
            del tables.index_parts[key]
        for page in [
            page for page, place in tables.index_places.items() if page[0] == context_id and place.slot == slot
        ]:
            del tables.index_places[page]

    async def place(self, context_id: str, page_id: str) -> IndexPlace | None:
        return self._session.look().index_places.get((context_id, page_id))

    async def set_place(self, context_id: str, page_id: str, place: IndexPlace | None) -> None:
        places = self._session.change(context_id).index_places
        if place is None:
            places.pop((context_id, page_id), None)
        else:
            places[context_id, page_id] = place


class _History:
    """Earlier versions of pages in memory."""

    def __init__(self, session: _Session) -> None:
        self._session = session

    async def terms_as_of(
        self, context_id: str, slots: Collection[str], now_ms: int, at_ms: int, limit: int
    ) -> Sequence[TermsRow]:
        return [_terms(row) for row in self._then(context_id, slots, now_ms, at_ms)[:limit]]

    async def heads_as_of(
        self, context_id: str, slots: Collection[str], now_ms: int, at_ms: int, limit: int
    ) -> Sequence[HeadRow]:
        return [_head(row) for row in self._then(context_id, slots, now_ms, at_ms)[:limit]]

    async def pages_as_of(
        self, context_id: str, page_ids: Sequence[str], slots: Collection[str], now_ms: int, at_ms: int
    ) -> Sequence[PageRow]:
        return [row for row in self._then(context_id, slots, now_ms, at_ms) if row.page_id in page_ids]

    async def first_after(
        self, context_id: str, page_id: str, slots: Collection[str], now_ms: int, at_ms: int
    ) -> PageRow | None:
        rows = [
            version.page
            for version in self._open(context_id, slots, now_ms)
            if version.page.page_id == page_id
            and version.page.review_state == "approved"
            and version.page.updated_ms > at_ms
            and not self._absent(version.page, at_ms)
        ]
        return min(rows, key=lambda row: row.version, default=None)

    async def is_complete(self, context_id: str, slots: Collection[str], now_ms: int, at_ms: int) -> bool:
        tables = self._session.look()
        if any(key[0] == context_id and key[1] in slots and end > at_ms for key, end in tables.marks.items()):
            return False
        ended = [
            row
            for row in tables.pages.values()
            if row.expires_ms is not None and at_ms < row.expires_ms <= now_ms and row.slot in slots
        ]
        deleted = [
            row.page
            for row in tables.deleted.values()
            if row.page.slot in slots
            and row.deleted_ms > at_ms
            and not self._began_after(row.page, at_ms)
            and not self._absent(row.page, at_ms)
        ]
        gone = [row for row in (*ended, *deleted) if row.updated_ms <= at_ms or row.version > 1]
        if any(row.context_id == context_id for row in gone):
            return False
        known = {row.page_id for row in self._then(context_id, slots, now_ms, at_ms)}
        return not any(
            row.updated_ms > at_ms
            and row.version > 1
            and row.page_id not in known
            and not self._began_after(row, at_ms)
            and not self._absent(row, at_ms)
            for row in self._pages(context_id, slots, now_ms)
            if row.review_state == "approved"
        )

    async def versions(
        self, context_id: str, page_id: str, slots: Collection[str], now_ms: int, limit: int
    ) -> Sequence[VersionRow]:
        kept = self._kept(context_id, page_id, slots, now_ms)
        kept.sort(key=lambda version: -version.page.version)
        return [VersionRow(_head(version.page), version.until_ms) for version in kept[:limit]]

    async def version(
        self, context_id: str, page_id: str, version: int, slots: Collection[str], now_ms: int
    ) -> PageRow | None:
        kept = self._kept(context_id, page_id, slots, now_ms)
        return next((each.page for each in kept if each.page.version == version), None)

    async def trim(self, context_id: str, page_id: str, *, keep: int, since_ms: int) -> int:
        versions = self._session.change().versions
        mine = sorted(key for key in versions if key[:2] == (context_id, page_id))
        many = set(mine[: max(0, len(mine) - keep)])
        gone = [key for key in mine if key in many or versions[key].until_ms <= since_ms]
        for key in gone:
            self._end(key)
        return len(gone)

    def _end(self, key: tuple[str, str, int]) -> None:
        ended = self._session.change().versions.pop(key)
        self._session.journal.took("page_versions", ended.page, until_ms=ended.until_ms)

    async def sweep(self, context_id: str, now_ms: int, *, keep: int, since_ms: int) -> int:
        versions = self._session.change().versions
        ended = [key for key, each in versions.items() if key[0] == context_id and _expired(each.page, now_ms)]
        for key in ended:
            self._end(key)
        pages = {key[1] for key in versions if key[0] == context_id}
        return len(ended) + sum([await self.trim(context_id, page, keep=keep, since_ms=since_ms) for page in pages])

    def _then(self, context_id: str, slots: Collection[str], now_ms: int, at_ms: int) -> list[PageRow]:
        rows = [
            version.page
            for version in self._open(context_id, slots, now_ms)
            if version.page.review_state == "approved"
            and version.page.updated_ms <= at_ms < version.until_ms
            and not self._absent(version.page, at_ms)
        ]
        return sorted(rows, key=lambda row: row.page_id)

    def _open(self, context_id: str, slots: Collection[str], now_ms: int) -> list[_Version]:
        """Every open version of approved pages; the current ones have no end."""
        pages = [row for row in self._pages(context_id, slots, now_ms) if row.review_state == "approved"]
        earlier = [each for row in pages for each in self._kept(context_id, row.page_id, slots, now_ms)]
        return [*(_Version(row, _NEVER_MS) for row in pages), *earlier]

    def _kept(self, context_id: str, page_id: str, slots: Collection[str], now_ms: int) -> list[_Version]:
        tables = self._session.look()
        row = tables.pages.get((context_id, page_id))
        if row is None or not _visible(row, slots, now_ms):
            return []
        mine = [each for key, each in tables.versions.items() if key[:2] == (context_id, page_id)]
        return [each for each in mine if _visible(each.page, slots, now_ms)]

    def _pages(self, context_id: str, slots: Collection[str], now_ms: int) -> list[PageRow]:
        rows = self._session.look().pages.values()
        return [row for row in rows if row.context_id == context_id and _visible(row, slots, now_ms)]

    def _began_after(self, row: PageRow, at_ms: int) -> bool:
        first = self._session.look().versions.get((row.context_id, row.page_id, 1))
        return first is not None and first.page.updated_ms > at_ms

    def _absent(self, row: PageRow, at_ms: int) -> bool:
        absences = self._session.look().absences.items()
        place = (row.context_id, row.page_id)
        return any(key[:2] == place and key[2] <= at_ms < until_ms for key, until_ms in absences)


class _Profiles:
    """Profiles in memory."""

    def __init__(self, session: _Session) -> None:
        self._session = session

    async def profile(self, context_id: str, namespace: str, *, lock: bool = False) -> ProfileRow | None:
        return self._session.lock(wanted=lock).profiles.get((context_id, namespace))

    async def put(self, row: ProfileRow, change: ProfileChangeRow) -> None:
        tables = self._session.change(row.context_id)
        stored = tables.profiles.get((row.context_id, row.namespace))
        place = (change.context_id, change.namespace, change.version)
        if row.version != (stored.version + 1 if stored else 1) or place in tables.changes:
            raise ConflictError("the profile changed meanwhile")
        tables.profiles[row.context_id, row.namespace] = row
        tables.changes[place] = change
        if stored is not None:
            self._session.journal.took("profiles", stored)
        self._session.journal.put("profiles", row)
        self._session.journal.put("profile_changes", change)

    async def changes(self, context_id: str, namespace: str, limit: int) -> Sequence[ProfileChangeRow]:
        rows = [row for key, row in self._session.look().changes.items() if key[:2] == (context_id, namespace)]
        return sorted(rows, key=lambda row: -row.version)[:limit]


class _Handoffs:
    """Hand-offs in memory."""

    def __init__(self, session: _Session) -> None:
        self._session = session

    async def put(self, row: HandoffRow) -> None:
        handoffs = self._session.change(row.context_id).handoffs
        stored = handoffs.get((row.context_id, row.handoff_id))
        if row.version != (stored.version + 1 if stored else 1):
            raise ConflictError("the hand-off changed meanwhile")
        handoffs[row.context_id, row.handoff_id] = row
        if stored is not None:
            self._session.journal.took("handoffs", stored)
        self._session.journal.put("handoffs", row)

    async def handoff(self, context_id: str, handoff_id: str, now_ms: int, *, lock: bool = False) -> HandoffRow | None:
        row = self._session.lock(wanted=lock).handoffs.get((context_id, handoff_id))
        return row if row is not None and row.expires_ms > now_ms else None

    async def handoffs(self, context_id: str, now_ms: int) -> Sequence[HandoffRow]:
        rows = [
            row
            for row in self._session.look().handoffs.values()
            if row.context_id == context_id and row.expires_ms > now_ms
        ]
        return sorted(rows, key=lambda row: (-row.updated_ms, row.handoff_id))

    async def count(self, context_id: str) -> int:
        return sum(row.context_id == context_id for row in self._session.look().handoffs.values())

    async def delete_expired(self, context_id: str, now_ms: int) -> int:
        handoffs = self._session.change().handoffs
        gone = [key for key, row in handoffs.items() if key[0] == context_id and row.expires_ms <= now_ms]
        for key in gone:
            self._session.journal.took("handoffs", handoffs.pop(key))
        return len(gone)


class _Partitions:
    """Names of partitions in memory."""

    def __init__(self, session: _Session) -> None:
        self._session = session

    async def put(self, row: PartitionRow) -> None:
        partitions = self._session.change(row.context_id).partitions
        stored = partitions.get((row.context_id, row.partition_id))
        if row.version != (stored.version + 1 if stored else 1):
            raise ConflictError("the partition changed meanwhile")
        partitions[row.context_id, row.partition_id] = row
        if stored is not None:
            self._session.journal.took("partitions", stored)
        self._session.journal.put("partitions", row)

    async def partitions(self, context_id: str, partition_ids: Collection[str]) -> Sequence[PartitionRow]:
        rows = self._session.look().partitions.values()
        mine = [row for row in rows if row.context_id == context_id and row.partition_id in partition_ids]
        return sorted(mine, key=lambda row: row.partition_id)


class _Proposals:
    """Proposals in memory."""

    def __init__(self, session: _Session) -> None:
        self._session = session

    async def add(self, row: ProposalRow) -> None:
        proposals = self._session.change(row.context_id).proposals
        if (row.context_id, row.proposal_id) in proposals:
            raise ConflictError("the proposal exists already")
        proposals[row.context_id, row.proposal_id] = row
        self._session.journal.put("proposals", row)

    async def replace(self, row: ProposalRow) -> None:
        proposals = self._session.change().proposals
        if (row.context_id, row.proposal_id) not in proposals:
            raise NotFoundError("there is no such proposal")
        self._session.journal.took("proposals", proposals[row.context_id, row.proposal_id])
        proposals[row.context_id, row.proposal_id] = row
        self._session.journal.put("proposals", row)

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
        rows = [
            row
            for row in self._session.look().proposals.values()
            if (row.context_id, row.state) == (context_id, state)
            and row.expires_ms > now_ms
            and (row.slot in slots or (grant_id is not None and row.grant_id == grant_id and row.slot in own_slots))
            and (row.created_ms, row.proposal_id) < (before.created_ms, before.proposal_id)
        ]
        return sorted(rows, key=lambda row: (row.created_ms, row.proposal_id), reverse=True)[:limit]

    async def proposal(
        self, context_id: str, proposal_id: str, slots: Collection[str], now_ms: int, *, lock: bool = False
    ) -> ProposalRow | None:
        row = self._session.lock(wanted=lock).proposals.get((context_id, proposal_id))
        return row if row is not None and row.expires_ms > now_ms and row.slot in slots else None

    async def waiting(self, context_id: str) -> int:
        rows = self._session.look().proposals.values()
        return sum((row.context_id, row.state) == (context_id, "proposed") for row in rows)

    async def delete(self, context_id: str, proposal_id: str) -> None:
        gone = self._session.change().proposals.pop((context_id, proposal_id), None)
        if gone is not None:
            self._session.journal.took("proposals", gone)

    async def delete_expired(self, context_id: str, now_ms: int) -> int:
        proposals = self._session.change().proposals
        gone = [key for key, row in proposals.items() if key[0] == context_id and row.expires_ms <= now_ms]
        for key in gone:
            self._session.journal.took("proposals", proposals.pop(key))
        return len(gone)


class _Rotation:
    """A change of keys in memory."""

    def __init__(self, session: _Session) -> None:
        self._session = session

    async def add_links(self, rows: Sequence[KeyLinkRow]) -> None:
        for row in rows:
            self._session.change(row.context_id).links[row.context_id, row.slot, row.generation, row.name] = row

    async def links(self, context_id: str, slots: Collection[str] | None = None) -> Sequence[KeyLinkRow]:
        links = self._session.look().links
        asked = [key for key in links if key[0] == context_id and (slots is None or key[1] in slots)]
        return [links[key] for key in sorted(asked)]

    async def namespaces(self, context_id: str) -> Sequence[str]:
        return sorted(name for owner, name in self._session.look().profiles if owner == context_id)

    async def behind(
        self, context_id: str, kind: RotatedKind, generation: int, limit: int, *, skip: int = 0
    ) -> Sequence[RotatedRow]:
        rows = _of_kind(self._session.look(), kind)
        mine = sorted(key for key, row in rows.items() if key[0] == context_id and row.generation < generation)
        return [rows[key] for key in mine[skip : skip + limit]]

    async def reseal(self, kind: RotatedKind, row: RotatedRow, before: RotatedRow) -> bool:
        tables = self._session.change()
        for key, stored in _of_kind(tables, kind).items():
            if _same_place(stored, row) and stored.generation == before.generation:
                _put_back(tables, kind, key, row)
                until_ms = tables.versions[key].until_ms if kind == "page_versions" else None
                self._session.journal.took(kind, before, until_ms=until_ms)
                self._session.journal.put(kind, row, until_ms=until_ms)
                return True
        return False

    async def untagged(self, context_id: str, generation: int, limit: int, *, skip: int = 0) -> Sequence[HeadRow]:
        tables = self._session.look()
        tagged = {page_id for (owner, of, _), page_id in tables.tags.items() if (owner, of) == (context_id, generation)}
        rows = (row for (owner, page_id), row in sorted(tables.pages.items()) if owner == context_id)
        return [_head(row) for row in rows if row.page_id not in tagged][skip : skip + limit]

    async def left(self, context_id: str, generation: int) -> Mapping[str, int]:
        tables = self._session.look()
        left = {kind: len(await self.behind(context_id, kind, generation, _NEVER_MS)) for kind in get_args(RotatedKind)}
        left["index"] = sum(
            row.context_id == context_id and row.generation < generation for row in tables.index_slots.values()
        )
        left["inbox"] = sum(
            row.context_id == context_id and row.generation < generation for row in tables.inbox.values()
        )
        left["path_tags"] = len(await self.untagged(context_id, generation, _NEVER_MS))
        return left

    async def end(self, context_id: str, generation: int) -> None:
        tables = self._session.change()
        for key in [key for key in tables.links if key[0] == context_id and key[2] < generation]:
            del tables.links[key]
        for tag in [tag for tag in tables.tags if tag[0] == context_id and tag[1] < generation]:
            del tables.tags[tag]


class _Heads:
    """Integrity heads in memory."""

    def __init__(self, session: _Session) -> None:
        self._session = session

    async def changes(self) -> list[Change]:
        return self._session.journal.take()

    async def turn(self, context_id: str, slots: Collection[str]) -> Sequence[SlotHeadRow]:
        self._session.change()
        return [row for row in await self.heads(context_id) if row.slot in slots]

    async def heads(self, context_id: str) -> Sequence[SlotHeadRow]:
        tables = self._session.look()
        mine = [row for key, row in sorted(tables.slot_heads.items(), key=lambda each: each[0]) if key[0] == context_id]
        return [
            replace(row, remnants=sum(key[:3] == (context_id, row.slot, row.generation) for key in tables.remnants))
            for row in mine
        ]

    async def put(self, rows: Sequence[SlotHeadRow]) -> None:
        for row in rows:
            heads = self._session.change(row.context_id).slot_heads
            heads[row.context_id, row.slot, row.generation] = replace(row, remnants=0)

    async def end(self, context_id: str, generation: int) -> None:
        tables = self._session.change()
        for head in [key for key in tables.slot_heads if key[0] == context_id and key[2] < generation]:
            del tables.slot_heads[head]
        for key in [key for key in tables.remnants if key[0] == context_id and key[2] < generation]:
            del tables.remnants[key]

    async def leave(self, changes: Iterable[Change]) -> None:
        for each in changes:
            if not each.is_put:
                remnants = self._session.change(each.context_id).remnants
                remnants.setdefault(_remnant(each.context_id, each.leaf), each.leaf)

    async def leave_rest(self) -> None:
        """What is not settled when the transaction ends."""
        await self.leave(self._session.journal.take())

    async def remnants(self, context_id: str, slots: Collection[str]) -> Sequence[Leaf]:
        found = sorted(self._session.look().remnants.items(), key=lambda each: each[0])
        return [leaf for key, leaf in found if key[0] == context_id and leaf.slot in slots]

    async def forget(self, context_id: str, leaves: Sequence[Leaf] | None) -> None:
        remnants = self._session.change().remnants
        gone = (
            [key for key in remnants if key[0] == context_id]
            if leaves is None
            else [_remnant(context_id, leaf) for leaf in leaves]
        )
        for key in gone:
            remnants.pop(key, None)

    async def page_versions(self, context_id: str, page_ids: Collection[str]) -> Mapping[str, int]:
        pages = self._session.look().pages
        return {each: pages[context_id, each].version for each in page_ids if (context_id, each) in pages}

    async def leaves(self, context_id: str, kind: LeafKind, limit: int, skip: int) -> Sequence[Leaf | None]:
        tables = self._session.look()
        mine = sorted(
            ((key, row) for key, row in _of_kind(tables, kind).items() if key[0] == context_id),
            key=lambda each: each[0],
        )
        return [
            leaf_of(kind, row, until_ms=tables.versions[key].until_ms if kind == "page_versions" else None)
            for key, row in mine[skip : skip + limit]
        ]


class _Audit:
    """The access log in memory."""

    def __init__(self, session: _Session) -> None:
        self._session = session

    async def head(self, context_id: str) -> AuditHead:
        heads = self._session.change().heads
        if context_id not in heads:
            raise NotFoundError("there is no such context")
        return heads[context_id]

    async def newest(self, context_id: str) -> AuditHead:
        heads = self._session.look().heads
        if context_id not in heads:
            raise NotFoundError("there is no such context")
        return heads[context_id]

    async def hash_of(self, context_id: str, seq: int) -> bytes | None:
        row = self._session.look().entries.get((context_id, seq))
        return None if row is None else row.hash

    async def append(self, row: AuditRow, roster_version: int = 0) -> None:
        tables = self._session.change()
        head = tables.heads.get(row.context_id)
        if head is None or row.seq != head.seq + 1:
            raise ConflictError("the audit entry does not follow the newest one")
        tables.heads[row.context_id] = AuditHead(row.seq, row.hash, max(head.roster_version, roster_version))
        tables.entries[row.context_id, row.seq] = row

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
        rows = [
            row
            for row in self._session.look().entries.values()
            if row.context_id == context_id
            and (before_seq is None or row.seq < before_seq)
            and (since_ms is None or row.at_ms >= since_ms)
            and action in (None, row.action)
            and (category is None or category in row.categories)
            and outcome in (None, row.outcome)
            and (partitions is None or not row.partitions or not set(row.partitions).isdisjoint(partitions))
        ]
        return sorted(rows, key=lambda row: -row.seq)[:limit]


class _Counters:
    """Windows of counted attempts in memory."""

    def __init__(self, session: _Session) -> None:
        self._session = session

    async def add(self, name: str, amount: int, *, now_ms: int, ends_ms: int) -> Counted:
        counters = self._session.change().counters
        stored = counters.get(name)
        is_open = stored is not None and stored.ends_ms > now_ms
        counters[name] = (
            Counted(stored.count + amount, stored.ends_ms) if stored and is_open else Counted(amount, ends_ms)
        )
        return counters[name]

    async def count(self, name: str, now_ms: int) -> Counted | None:
        stored = self._session.look().counters.get(name)
        return stored if stored is not None and stored.ends_ms > now_ms else None

    async def clear(self, name: str) -> None:
        self._session.change().counters.pop(name, None)

    async def sweep(self, now_ms: int) -> None:
        counters = self._session.change().counters
        for name, stored in list(counters.items()):
            if stored.ends_ms <= now_ms:
                del counters[name]


class _Transaction:
    """The repositories of one transaction; good until its block ends."""

    def __init__(self, session: _Session) -> None:
        self._session = session

    @property
    def contexts(self) -> _Contexts:
        """Contexts and rosters."""
        return _Contexts(self._session)

    @property
    def credentials(self) -> _Credentials:
        """Seed wraps and sessions."""
        return _Credentials(self._session)

    @property
    def invites(self) -> _Invites:
        """Invites that are under way."""
        return _Invites(self._session)

    @property
    def grants(self) -> _Grants:
        """Clients, authorizations, grants, keyrings, tokens."""
        return _Grants(self._session)

    @property
    def pages(self) -> _Pages:
        """Pages, path tags, the inbox."""
        return _Pages(self._session)

    @property
    def history(self) -> _History:
        """Earlier versions of pages."""
        return _History(self._session)

    @property
    def profiles(self) -> _Profiles:
        """Profiles and their change log."""
        return _Profiles(self._session)

    @property
    def handoffs(self) -> _Handoffs:
        """Hand-offs between assistants."""
        return _Handoffs(self._session)

    @property
    def index(self) -> _Index:
        """Search indexes."""
        return _Index(self._session)

    @property
    def partitions(self) -> _Partitions:
        """Names of partitions."""
        return _Partitions(self._session)

    @property
    def proposals(self) -> _Proposals:
        """What waits for a reviewer."""
        return _Proposals(self._session)

    @property
    def rotation(self) -> _Rotation:
        """What a change of keys leaves to do."""
        return _Rotation(self._session)

    @property
    def heads(self) -> _Heads:
        """Integrity heads."""
        return _Heads(self._session)

    @property
    def audit(self) -> _Audit:
        """The access log."""
        return _Audit(self._session)

    @property
    def counters(self) -> _Counters:
        """Counted attempts."""
        return _Counters(self._session)


class MemoryStore:
    """A store in memory: snapshots for readers, one writer at a time, roll-back on any exception."""

    def __init__(self) -> None:
        self._committed = _Tables()
        self._writing = asyncio.Lock()

    @asynccontextmanager
    async def read(self) -> AsyncIterator[_Transaction]:
        """A snapshot."""
        session = _Session(self._committed, writable=False)
        try:
            yield _Transaction(session)
        finally:
            session.abandon()

    @asynccontextmanager
    async def write(self) -> AsyncIterator[_Transaction]:
        """A transaction on a copy of the tables."""
        async with self._writing:
            session = _Session(self._committed.copy(), writable=True)
            try:
                tx = _Transaction(session)
                yield tx
                await tx.heads.leave_rest()
                self._committed = session.end()
            finally:
                session.abandon()

    async def close(self) -> None:
        """Nothing to close: the rows go with the object."""


def _of_kind(tables: _Tables, kind: RotatedKind) -> dict[tuple[Any, ...], RotatedRow]:
    """The rows of a table that a change of keys seals anew, by primary key."""
    if kind == "page_versions":
        return {key: version.page for key, version in tables.versions.items()}
    if kind == "deleted_pages":
        return {key: deleted.page for key, deleted in tables.deleted.items()}
    names = {"profile_changes": "changes"}
    return dict(getattr(tables, names.get(kind, kind)))


def _put_back(tables: _Tables, kind: RotatedKind, key: tuple[Any, ...], row: RotatedRow) -> None:
    if isinstance(row, PageRow) and kind == "page_versions":
        tables.versions[key] = replace(tables.versions[key], page=row)
    elif isinstance(row, PageRow) and kind == "deleted_pages":
        tables.deleted[key] = replace(tables.deleted[key], page=row)
    else:
        names = {"profile_changes": "changes"}
        getattr(tables, names.get(kind, kind))[key] = row


def _same_place(stored: RotatedRow, row: RotatedRow) -> bool:
    """Whether both are the same row, of the same version: what is sealed and its generation may differ."""
    return type(stored) is type(row) and _blank(stored) == _blank(row)


def _blank(row: RotatedRow) -> RotatedRow:
    row = replace(row, generation=0, sealed=b"")
    return replace(row, head=b"", terms=b"") if isinstance(row, PageRow) else row


def _remnant(context_id: str, leaf: Leaf) -> tuple[str, str, int, str, str, int]:
    return (context_id, leaf.slot, leaf.generation, leaf.kind, leaf.object_id, leaf.version)


def _head(row: PageRow) -> HeadRow:
    return HeadRow(
        row.page_id,
        row.slot,
        row.generation,
        row.version,
        row.review_state,
        row.updated_ms,
        row.expires_ms,
        row.head,
    )


def _terms(row: PageRow) -> TermsRow:
    return TermsRow(
        row.page_id,
        row.slot,
        row.generation,
        row.version,
        row.review_state,
        row.updated_ms,
        row.expires_ms,
        row.terms,
    )


def _forget(session: _Session, row: PageRow, end_ms: int) -> None:
    """The history of a page that is gone for good goes; until when it was there stays."""
    tables = session.change()
    place = (row.context_id, row.slot)
    tables.marks[place] = max(end_ms, tables.marks.get(place, end_ms))
    for version in [key for key in tables.versions if key[:2] == (row.context_id, row.page_id)]:
        gone = tables.versions.pop(version)
        session.journal.took("page_versions", gone.page, until_ms=gone.until_ms)
    for absence in [key for key in tables.absences if key[:2] == (row.context_id, row.page_id)]:
        del tables.absences[absence]


def _expired(row: PageRow | InboxRow, now_ms: int) -> bool:
    return row.expires_ms is not None and row.expires_ms <= now_ms


def _visible(row: PageRow, slots: Collection[str], now_ms: int) -> bool:
    return row.slot in slots and not _expired(row, now_ms)
