"""What the checkers meet: a server as people start it, two contexts set up by the command line, a token of each.

The server runs on an embedded database in a scratch folder and ends with the block; so do its tokens.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.external.browser import write_state
from tests.external.programs import ConformanceError
from tests.support.server import RunningServer
from zkpcp.core.scopes import Offer, known_scopes

PASSPHRASE: Final = "seven herons over the weir"


@dataclass(frozen=True, slots=True)
class Context:
    """One context and a grant of everything in it."""

    handle: str
    mcp_url: str
    token: str = field(repr=False)

    @property
    def base_url(self) -> str:
        """The issuer; endpoints lie below it."""
        return self.mcp_url.removesuffix("/mcp")


@dataclass(frozen=True, slots=True)
class Scene:
    """A running server with the context under test and another one."""

    server: RunningServer
    folder: Path
    mine: Context
    other: Context

    @property
    def browser_state(self) -> Path:
        """The STATE file of the owner's browser."""
        return self.folder / "browser.json"


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    """Set the scene in an empty folder."""
    server = RunningServer(folder, real_command=True)
    server.start()
    try:
        made = Scene(server, folder, _context(server, "me"), _context(server, "other"))
        write_state(made.browser_state, PASSPHRASE)
        yield made
    finally:
        server.stop()


def _context(server: RunningServer, handle: str) -> Context:
    _command(server, "init", "--handle", handle, "--name", "Ada Example")
    scopes = " ".join(known_scopes(Offer("personal")))
    made = _command(server, "grant", "create", "--handle", handle, "--client", "a checker", "--scope", scopes)
    return Context(handle, str(made["mcp_url"]), str(made["access_token"]))


def _command(server: RunningServer, *arguments: str) -> dict[str, object]:
    ran = server.command(*arguments, "--passphrase-stdin", "--json", stdin=f"{PASSPHRASE}\n")
    if ran.returncode != 0:
        raise ConformanceError(f"zkpcp {arguments[0]} ended with {ran.returncode}: {ran.stderr[-500:]}")
    answer: dict[str, object] = json.loads(ran.stdout)
    return answer
