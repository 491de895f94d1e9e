"""The first schema. Every table and every primary key is led by context_id, so that it can be sharded on it.

``rate_limits`` alone belongs to no context: it counts attempts, by what they came from.

``contexts`` alone has a further unique key, the handle: on a sharded database it would be a reference table. Foreign
keys point only there, and delete what belongs to an erased context. Text sorts by bytes on both engines.
"""

from __future__ import annotations

from typing import TypeAlias

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_BYTES = sa.LargeBinary()
_NUMBER = sa.BigInteger()

_Column: TypeAlias = sa.Column[str] | sa.Column[bytes] | sa.Column[int] | sa.Column[bool]


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, _TEXT, nullable=nullable)


def _bytes(name: str, *, nullable: bool = False) -> sa.Column[bytes]:
    return sa.Column(name, _BYTES, nullable=nullable)


def _number(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, _NUMBER, nullable=nullable)


def _flag(name: str) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean(), nullable=False)


def _create(
    table: str,
    key: tuple[str, ...],
    *columns: _Column,
    compact: bool = False,
) -> None:
    """A table of a context. ``compact``: rows are small, so SQLite keeps them inside the key's tree."""
    op.create_table(
        table,
        _text("context_id"),
        *columns,
        sa.PrimaryKeyConstraint("context_id", *key),
        sa.ForeignKeyConstraint(["context_id"], ["contexts.context_id"], ondelete="CASCADE"),
        sqlite_with_rowid=not compact,
    )


def upgrade() -> None:
    """Create every table and index."""
    _contexts()
    _credentials()
    _grants()
    _pages()
    _profiles()
    _extensions()
    _audit()
    _rate_limits()


def _contexts() -> None:
    op.create_table(
        "contexts",
        _text("context_id"),
        _text("handle"),
        _text("kind"),
        _text("controller"),
        _text("controller_type"),
        _number("created_ms"),
        _number("locked_ms", nullable=True),
        sa.PrimaryKeyConstraint("context_id"),
        sa.UniqueConstraint("handle"),
    )
    _create("rosters", (), _number("version"), _number("epoch"), _bytes("body"), _bytes("signature"))


def _credentials() -> None:
    _create(
        "seed_wraps",
        ("principal", "kind"),
        _text("principal"),
        _text("kind"),
        _bytes("salt"),
        _number("memory_kib"),
        _number("time_cost"),
        _number("parallelism"),
        _bytes("wrapped"),
        _number("created_ms"),
        compact=True,
    )
    _create(
        "sessions",
        ("lookup_id",),
        _bytes("lookup_id"),
        _text("principal"),
        _number("created_ms"),
        _number("seen_ms"),
        _number("expires_ms"),
        _bytes("wrapped"),
        compact=True,
    )


def _grants() -> None:
    _create(
        "clients",
        ("client_id",),
        _text("client_id"),
        _text("name"),
        _text("source"),
        _text("redirect_uris"),
        _flag("refreshable"),
        _number("created_ms"),
    )
    _create(
        "authorizations",
        ("lookup_id",),
        _bytes("lookup_id"),
        _text("client_id"),
        _text("redirect_uri"),
        _text("state", nullable=True),
        _text("scopes"),
        _text("code_challenge"),
        _number("created_ms"),
        _number("expires_ms"),
        _text("client_name"),
        _text("client_source"),
        _text("client_redirect_uris"),
        _flag("client_refreshable"),
    )
    _create(
        "grants",
        ("grant_id",),
        _text("grant_id"),
        _text("principal"),
        _text("on_behalf_of", nullable=True),
        _text("client_id"),
        _text("client_name"),
        _text("scopes"),
        _text("status"),
        _number("created_ms"),
        _number("used_ms"),
        _flag("refreshable"),
        _bytes("kem_public"),
        _bytes("sig_public"),
        _bytes("signature"),
        _bytes("anchor"),
    )
    op.create_index("grants_by_status", "grants", ["context_id", "status", "created_ms"])
    _create(
        "keyrings",
        ("holder_kind", "holder", "epoch"),
        _text("holder_kind"),
        _text("holder"),
        _number("epoch"),
        _bytes("sealed"),
        _bytes("signature"),
    )
    _create(
        "tokens",
        ("lookup_id",),
        _bytes("lookup_id"),
        _text("kind"),
        _text("grant_id"),
        _text("client_id"),
        _text("scopes"),
        _number("created_ms"),
        _number("expires_ms"),
        _number("used_ms", nullable=True),
        _bytes("wrapped", nullable=True),
        _text("redirect_uri", nullable=True),
        _text("code_challenge", nullable=True),
        _number("wrap_until_ms", nullable=True),
        compact=True,
    )
    op.create_index("tokens_by_grant", "tokens", ["context_id", "grant_id"])


def _page_columns() -> tuple[_Column, ...]:
    return (
        _text("page_id"),
        _text("slot"),
        _number("generation"),
        _number("version"),
        _text("review_state"),
        _number("updated_ms"),
        _number("expires_ms", nullable=True),
        # Listings read the head, searches the terms: they stand before the page itself, which SQLite then skips.
        _bytes("head"),
        _bytes("terms"),
        _bytes("sealed"),
    )


def _pages() -> None:
    _create("pages", ("page_id",), *_page_columns())
    _expiry_index("pages")
    # A table of their own: no query over pages can return a deleted one by forgetting a condition (ERA-07).
    _create("deleted_pages", ("page_id",), *_page_columns(), _number("deleted_ms"), _number("purge_ms"))
    op.create_index("deleted_pages_by_time", "deleted_pages", ["context_id", "deleted_ms", "page_id"])
    op.create_index("deleted_pages_by_end", "deleted_pages", ["context_id", "purge_ms"])
    _create(
        "path_tags",
        ("generation", "tag"),
        _number("generation"),
        _bytes("tag"),
        _text("page_id"),
        compact=True,
    )
    op.create_index("path_tags_by_page", "path_tags", ["context_id", "page_id"])
    _create(
        "inbox",
        ("page_id",),
        _text("page_id"),
        _text("slot"),
        _number("generation"),
        _text("grant_id"),
        _number("updated_ms"),
        _number("expires_ms", nullable=True),
        _bytes("sealed"),
        _bytes("signature"),
    )
    op.create_index("inbox_by_age", "inbox", ["context_id", "updated_ms", "page_id"])
    _expiry_index("inbox")
    if op.get_context().dialect.name == "postgresql":
        # Ciphertext does not shrink: spare every write the attempt.
        parts = ("head", "terms", "sealed")
        for table, columns in (("pages", parts), ("deleted_pages", parts), ("inbox", ("sealed",))):
            for column in columns:
                op.execute(f"alter table {table} alter column {column} set storage external")


def _expiry_index(table: str) -> None:
    some = sa.text("expires_ms is not null")
    op.create_index(f"{table}_by_expiry", table, ["context_id", "expires_ms"], sqlite_where=some, postgresql_where=some)


def _profiles() -> None:
    _create(
        "profiles",
        ("namespace",),
        _text("namespace"),
        _number("generation"),
        _number("version"),
        _number("updated_ms"),
        _bytes("sealed"),
    )
    _create(
        "profile_changes",
        ("namespace", "version"),
        _text("namespace"),
        _number("version"),
        _number("at_ms"),
        _text("principal"),
        _text("client", nullable=True),
        _number("generation"),
        _bytes("sealed"),
    )


def _extensions() -> None:
    _create("enabled_extensions", ("extension",), _text("extension"), _number("enabled_ms"), compact=True)
    _create(
        "handoffs",
        ("handoff_id",),
        _text("handoff_id"),
        _number("generation"),
        _number("version"),
        _number("updated_ms"),
        _number("expires_ms"),
        _bytes("sealed"),
    )


def _audit() -> None:
    _create("audit_heads", (), _number("seq"), _bytes("hash"), compact=True)
    _create(
        "audit_entries",
        ("seq",),
        _number("seq"),
        _number("at_ms"),
        _text("action"),
        _text("outcome"),
        _text("categories"),
        _bytes("entry"),
        _bytes("hash"),
    )


def _rate_limits() -> None:
    op.create_table(
        "rate_limits",
        _text("name"),
        _number("hits"),
        _number("ends_ms"),
        sa.PrimaryKeyConstraint("name"),
        sqlite_with_rowid=False,
    )
    op.create_index("rate_limits_by_end", "rate_limits", ["ends_ms"])
    if op.get_context().dialect.name == "postgresql":
        # Worth nothing after a crash, and no copy of it should stand in the write-ahead log or on a replica.
        op.execute("alter table rate_limits set unlogged")
