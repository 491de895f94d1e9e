"""What SQLite promises beyond the common contract: closed files, forgotten bytes, quiet errors."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.rows import HERE, NOW, context, fill, grant, keyring, page, session, token, wrap
from zkpcp import storage
from zkpcp.errors import CorruptError, UnavailableError
from zkpcp.storage import sqlite as engine
from zkpcp.storage.sqlite import SqliteStore, open_sqlite


@pytest.fixture
def path(sqlite_url: str) -> Path:
    return Path(sqlite_url.removeprefix("sqlite://"))


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    opened = await open_sqlite(path)
    yield opened
    await opened.close()


def _bytes_on_disk(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(path.parent.glob(path.name + "*")))


def _secret(name: str) -> bytes:
    return f"<<{name}>>".encode() * 40


@pytest.mark.requirement("KEY-08")
async def test_a_copy_of_the_files_taken_after_a_revocation_holds_no_byte_of_its_keys(
    store: SqliteStore, path: Path
) -> None:
    gone = [_secret(name) for name in ("anchor", "keyring", "wrap")]
    async with store.write() as tx:
        await tx.contexts.add(context())
        await tx.grants.add_grant(grant(anchor=gone[0]), keyring(sealed=gone[1]))
        await tx.grants.add_token(token(wrapped=gone[2]))
        await tx.grants.add_grant(grant(grant_id="other", anchor=_secret("kept")), keyring(holder="other"))
    assert all(secret in _bytes_on_disk(path) for secret in gone)

    async with store.write() as tx:
        await tx.grants.revoke_grant(HERE, "grant")

    left = _bytes_on_disk(path)
    assert [secret for secret in gone if secret[:16] in left] == []
    assert _secret("kept") in left


@pytest.mark.requirement("KEY-12")
async def test_replaced_and_ended_wraps_leave_no_byte(store: SqliteStore, path: Path) -> None:
    async with store.write() as tx:
        await tx.contexts.add(context())
        await tx.credentials.put_wrap(wrap(wrapped=_secret("old wrap")))
        await tx.credentials.add_session(session(wrapped=_secret("session")))
        await tx.grants.add_token(token(kind="code", wrapped=_secret("code")))
    async with store.write() as tx:
        await tx.credentials.put_wrap(wrap(wrapped=_secret("new wrap")))
        await tx.credentials.end_session(HERE, b"session")
        await tx.grants.use_token(HERE, b"token", NOW)

    left = _bytes_on_disk(path)
    assert [name for name in ("old wrap", "session", "code") if _secret(name)[:16] in left] == []
    assert _secret("new wrap") in left


async def test_a_log_that_a_reader_still_needs_is_emptied_after_a_later_commit(store: SqliteStore, path: Path) -> None:
    row = grant(anchor=_secret("anchor"))
    async with store.write() as tx:
        await tx.contexts.add(context())
        await tx.grants.add_grant(row, keyring())
    async with store.read() as reader:
        await reader.pages.count(HERE)
        async with store.write() as tx:
            await tx.grants.revoke_grant(HERE, "grant")
        assert not await store.checkpoint()
        assert row.anchor in _bytes_on_disk(path)
        assert await reader.grants.grant(HERE, "grant") == row

    async with store.write() as tx:
        await tx.pages.add(page(page_id="new"), 1, b"new")

    assert row.anchor not in _bytes_on_disk(path)
    assert await store.checkpoint()


async def test_the_files_are_closed_to_other_users(tmp_path: Path) -> None:
    path = tmp_path / "made" / "zkpcp.db"
    await asyncio.to_thread(storage.migrate, f"sqlite://{path}")
    path.chmod(0o644)
    store = await open_sqlite(path)
    await fill(store)

    modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    await store.close()

    assert modes == {"zkpcp.db": 0o600, "zkpcp.db-wal": 0o600, "zkpcp.db-shm": 0o600}
    assert path.parent.stat().st_mode & 0o777 == 0o700


async def test_closing_leaves_one_file_that_holds_everything(sqlite_url: str, path: Path) -> None:
    store = await storage.open_store(sqlite_url)
    await fill(store)
    await store.close()

    assert [file.name for file in path.parent.iterdir()] == [path.name]
    again = await storage.open_store(sqlite_url)
    async with again.read() as tx:
        assert await tx.pages.count(HERE) == 2
    await again.close()


async def test_connections_are_set_up_to_last_to_forget_and_to_wait(store: SqliteStore) -> None:
    settings = {}
    for name in ("journal_mode", "synchronous", "secure_delete", "foreign_keys", "busy_timeout", "temp_store"):
        rows = list(await store._writer.execute_fetchall(f"pragma {name}"))
        settings[name] = rows[0][0]

    assert settings == {
        "journal_mode": "wal",
        "synchronous": 2,
        "secure_delete": 1,
        "foreign_keys": 1,
        "busy_timeout": 5000,
        "temp_store": 2,
    }


async def test_a_reading_connection_could_not_write_if_it_tried(store: SqliteStore) -> None:
    await fill(store)
    async with store.read() as tx:
        await tx.pages.count(HERE)
        reader = tx._driver._connection  # type: ignore[attr-defined]  # past the driver, on purpose
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            await reader.execute("delete from contexts")


async def test_a_file_that_another_process_keeps_busy_is_unavailable(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine._Writer, "settings", (*engine._Writer.settings, "pragma busy_timeout = 10"))
    store = await open_sqlite(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("begin immediate")

    with pytest.raises(UnavailableError, match="busy"):
        async with store.write() as tx:
            await tx.contexts.add(context())
    async with store.read() as reader:
        assert await reader.contexts.handles() == []

    other.execute("rollback")
    other.close()
    async with store.write() as tx:
        await tx.contexts.add(context())
    await store.close()


@pytest.fixture
def damaged(path: Path) -> Path:
    path.write_bytes(b"no database" * 1000)
    return path


async def test_a_damaged_file_is_an_error_of_ours(damaged: Path, sqlite_url: str) -> None:
    with pytest.raises(UnavailableError):
        await storage.open_store(sqlite_url)
    with pytest.raises(CorruptError):
        await open_sqlite(damaged)


@pytest.fixture
def no_folder(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.touch()
    return path


async def test_a_folder_that_cannot_be_made_is_unavailable(no_folder: Path) -> None:
    with pytest.raises(UnavailableError):
        await open_sqlite(no_folder / "zkpcp.db")


async def test_the_driver_logs_no_argument(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        store = await open_sqlite(path)
        async with store.write() as tx:
            await tx.contexts.add(context(controller="canary"))
        await store.close()

    assert "canary" not in caplog.text
