"""Rows for the contract suite: plausible defaults, every field open to change."""

# ruff: noqa: ANN401 - any field of a row can be changed, whatever its type

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from zkpcp.core import roster
from zkpcp.core.stored import (
    AuditRow,
    AuthorizationRow,
    ClientRow,
    ContextRow,
    GrantRow,
    HandoffRow,
    InboxRow,
    KeyringRow,
    PageRow,
    PartitionRow,
    ProfileChangeRow,
    ProfileRow,
    ProposalRow,
    RosterRow,
    SeedWrapRow,
    SessionRow,
    TokenRow,
)
from zkpcp.ports import Store

HERE = "context-here"
ELSEWHERE = "context-elsewhere"
NOW = 1_800_000_000_000

T = TypeVar("T")


def _with(row: T, changes: dict[str, Any]) -> T:
    return replace(row, **changes)  # type: ignore[type-var]  # every row is a dataclass


def context(**changes: Any) -> ContextRow:
    return _with(ContextRow(HERE, "here", "personal", "human:me", "human", NOW), changes)


def roster_row(version: int = 1, *, epoch: int = 1, context_id: str = HERE) -> RosterRow:
    body = roster.serialize(roster.Roster(context_id, version, epoch, b"o" * 32, ()))
    return RosterRow(context_id, version, body, b"signed")


def wrap(**changes: Any) -> SeedWrapRow:
    return _with(SeedWrapRow(HERE, "human:me", "passphrase", b"salt", 65536, 3, 1, b"wrapped", NOW), changes)


def session(**changes: Any) -> SessionRow:
    return _with(SessionRow(HERE, b"session", "human:me", NOW, NOW, NOW + 1000, b"wrapped"), changes)


def client(**changes: Any) -> ClientRow:
    uris = ("http://127.0.0.1/callback", "https://client.example/a b")
    return _with(ClientRow(HERE, "client", "Client", "dcr", uris, refreshable=True, created_ms=NOW), changes)


def authorization(**changes: Any) -> AuthorizationRow:
    row = AuthorizationRow(
        context_id=HERE,
        lookup_id=b"asked",
        client_id="client",
        redirect_uri="http://127.0.0.1/",
        state=None,
        scopes=("memory:read",),
        code_challenge="challenge",
        created_ms=NOW,
        expires_ms=NOW + 1000,
        client_name="Client",
        client_source="cimd",
        client_redirect_uris=("http://127.0.0.1/",),
        client_refreshable=True,
    )
    return _with(row, changes)


def grant(**changes: Any) -> GrantRow:
    row = GrantRow(
        context_id=HERE,
        grant_id="grant",
        principal="human:me",
        on_behalf_of=None,
        client_id="client",
        client_name="Client",
        scopes=("memory:read", "memory:write"),
        status="active",
        created_ms=NOW,
        used_ms=NOW,
        refreshable=True,
        kem_public=b"kem",
        sig_public=b"sig",
        signature=b"signed",
        anchor=b"anchor",
    )
    return _with(row, changes)


def keyring(**changes: Any) -> KeyringRow:
    return _with(KeyringRow(HERE, "grant", "grant", 1, b"sealed", b"signed"), changes)


def token(**changes: Any) -> TokenRow:
    row = TokenRow(
        HERE, b"token", "access", "grant", "client", ("memory:read",), NOW, NOW + 1000, None, b"wrapped", None, None
    )
    return _with(row, changes)


def page(**changes: Any) -> PageRow:
    row = PageRow(HERE, "page", "memory/main", 1, 1, "approved", NOW, None, b"sealed", b"head", b"terms")
    return _with(row, changes)


def item(**changes: Any) -> InboxRow:
    row = InboxRow(HERE, "item", "memory.sensitive/main", 1, "grant", NOW, None, b"sealed", b"signed")
    return _with(row, changes)


def profile(version: int = 1, **changes: Any) -> ProfileRow:
    return _with(ProfileRow(HERE, "profile.core", 1, version, NOW, b"sealed"), changes)


def change(version: int = 1, **changes: Any) -> ProfileChangeRow:
    return _with(ProfileChangeRow(HERE, "profile.core", version, NOW, "human:me", None, 1, b"members"), changes)


def handoff(version: int = 1, **changes: Any) -> HandoffRow:
    return _with(HandoffRow(HERE, "handoff", 1, version, NOW, NOW + 1000, b"sealed"), changes)


def entry(seq: int = 1, **changes: Any) -> AuditRow:
    row = AuditRow(HERE, seq, NOW + seq, "memory.read", "ok", ("memory",), b"{}", seq.to_bytes(32, "big"))
    return _with(row, changes)


async def fill(store: Store, context_id: str = HERE, handle: str = "here") -> None:
    """One row of everything: grant with keyring and tokens, page, inbox item, profile, audit entry."""
    async with store.write() as tx:
        await tx.contexts.add(context(context_id=context_id, handle=handle))
        await tx.contexts.put_roster(roster_row(context_id=context_id))
        await tx.credentials.put_wrap(wrap(context_id=context_id))
        await tx.credentials.add_session(session(context_id=context_id))
        await tx.grants.add_client(client(context_id=context_id))
        await tx.grants.add_authorization(authorization(context_id=context_id))
        await tx.grants.add_grant(grant(context_id=context_id), keyring(context_id=context_id))
        await tx.grants.put_keyring(keyring(context_id=context_id, holder_kind="principal", holder="human:me"))
        await tx.grants.add_token(token(context_id=context_id))
        await tx.pages.add(page(context_id=context_id, expires_ms=NOW + 1000), 1, b"tag of page")
        await tx.pages.add_to_inbox(item(context_id=context_id, expires_ms=NOW + 1000), 1, b"tag of item")
        await tx.pages.add(page(context_id=context_id, page_id="gone"), 1, b"tag of gone")
        await tx.pages.replace(page(context_id=context_id, page_id="gone", version=2))
        await tx.pages.delete(context_id, "gone", 2, deleted_ms=NOW - 9, purge_ms=NOW + 1000)
        await tx.pages.recover(context_id, "gone", 1, b"tag of gone", recovered_ms=NOW - 8)
        await tx.pages.delete(context_id, "gone", 2, deleted_ms=NOW, purge_ms=NOW + 1000)
        await tx.profiles.put(profile(context_id=context_id), change(context_id=context_id))
        await tx.handoffs.put(handoff(context_id=context_id))
        await tx.contexts.enable_extension(context_id, "pcp.home", NOW)
        await tx.partitions.put(PartitionRow(context_id, "prt_one", 1, 1, NOW, b"sealed"))
        await tx.audit.append(entry(context_id=context_id))
        await tx.heads.changes()  # as if they were settled


async def look(store: Store, context_id: str) -> list[object]:
    """Everything that ``fill`` put into a context, as it is now."""
    slots = ["memory/main", "memory.sensitive/main"]
    async with store.read() as tx:
        return [
            await tx.contexts.roster(context_id),
            await tx.credentials.wrap(context_id, "human:me", "passphrase"),
            await tx.credentials.session(context_id, b"session"),
            await tx.grants.client(context_id, "client"),
            await tx.grants.authorization(context_id, b"asked"),
            await tx.grants.grant(context_id, "grant"),
            await tx.grants.keyring(context_id, "grant", "grant", 1),
            await tx.grants.principal_keyring(context_id, "human:me"),
            await tx.grants.token(context_id, b"token"),
            await tx.grants.access(context_id, b"token"),
            await tx.pages.by_tag(context_id, 1, b"tag of page"),
            await tx.pages.by_tag(context_id, 1, b"tag of item"),
            await tx.pages.page(context_id, "page", slots, NOW),
            list(await tx.pages.inbox(context_id, slots, 10)),
            list(await tx.pages.deleted(context_id, slots, NOW, 10)),
            [
                at_ms
                for at_ms in range(NOW - 12, NOW)
                if not await tx.history.is_complete(context_id, slots, NOW, at_ms)
            ],
            await tx.profiles.profile(context_id, "profile.core"),
            list(await tx.profiles.changes(context_id, "profile.core", 10)),
            list(await tx.handoffs.handoffs(context_id, NOW)),
            list(await tx.partitions.partitions(context_id, ["prt_one"])),
            list(await tx.audit.entries(context_id, limit=10)),
        ]


def proposal(**changes: Any) -> ProposalRow:
    made = ProposalRow(
        HERE, "prp_one", "proposals/main", 1, "grant", "human:me", "proposed", NOW, NOW + 1000, b"sealed", b""
    )
    return _with(made, changes)
