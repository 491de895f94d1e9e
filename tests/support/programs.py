"""Where the programs are that the tests start and do not bring: the servers of PostgreSQL and Redis, and Chromium."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

_POSTGRES_PROGRAMS = ("initdb", "pg_ctl", "postgres", "psql")
_CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_postgres() -> Path | None:
    """The folder with PostgreSQL's server programs, or None; Debian keeps them off PATH, one folder per version."""
    on_path = shutil.which("initdb")
    by_version = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda bin_: _version(bin_.parent), reverse=True)
    candidates = [*by_version, *([Path(on_path).resolve().parent] if on_path else [])]
    return next((bin_ for bin_ in candidates if all((bin_ / name).exists() for name in _POSTGRES_PROGRAMS)), None)


def find_chromium() -> Path | None:
    """The browser's program, or None."""
    found = next(filter(None, map(shutil.which, _CHROMIUM_NAMES)), None)
    return Path(found) if found else None


def find_redis() -> Path | None:
    """The program that is Redis's server when it is called so; Debian's redis-tools has it and starts no service."""
    found = next(filter(None, map(shutil.which, ("redis-server", "redis-check-rdb"))), None)
    return Path(found) if found else None


def missing(what: str, debian_package: str) -> NoReturn:
    """Skip the test with the remedy in the reason; under CI, where a skipped test would go unseen, fail it."""
    reason = f"{what} is not installed (on Debian: apt-get install {debian_package})"
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def _version(folder: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in folder.name.split(".") if part.isdigit())
