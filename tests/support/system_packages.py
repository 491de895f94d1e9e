"""Install what the tests need from the system, where it is missing: `python -m tests.support.system_packages`.

Exits with 0 in any case: a test whose program is missing says so itself.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from tests.support.programs import find_chromium, find_postgres, find_redis


def main() -> None:
    """Look, install, look again, and say what remains missing."""
    wanted = _missing_packages()
    if not wanted:
        return
    apt_get = _apt_get()
    if apt_get is not None:
        _say(f"Installing for the tests: {', '.join(wanted)}")
        _install(apt_get, wanted)
        wanted = _missing_packages()
    for package, what in wanted.items():
        _say(f"Missing: {package}. {what} are skipped (in CI they fail). On Debian: apt-get install {package}")


def _missing_packages() -> dict[str, str]:
    found = {
        "postgresql": ("Tests on a PostgreSQL server", find_postgres()),
        "chromium": ("Tests in a browser", find_chromium()),
        "redis-tools": ("Tests with a Redis server", find_redis()),
    }
    return {package: what for package, (what, program) in found.items() if program is None}


def _apt_get() -> list[str] | None:
    """The command that installs packages without asking for a password, or None."""
    if shutil.which("apt-get") is None:
        return None
    if os.geteuid() == 0:
        return ["apt-get"]
    if (
        shutil.which("sudo")
        and subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0
    ):
        return ["sudo", "-n", "apt-get"]
    return None


def _install(apt_get: list[str], packages: dict[str, str]) -> None:
    quiet = ["-qq", "-o", "Dpkg::Use-Pty=0"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
        done = subprocess.run(
            [*apt_get, *quiet, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            _say(f"apt-get {arguments[0]} failed:\n{done.stdout[-2000:]}")
            return


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
