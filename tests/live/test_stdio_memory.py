"""What ``zkpcp stdio`` still holds in memory between calls: no passphrase, no key, no text of a call or of a page.

As for the server (``test_memory_after_request``), another process reads all its writable memory. The program holds its
two tokens for as long as it lives; they are looked for as texts, which they are only for the length of a call.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.live.byte_search import forms
from tests.live.owner import EXTENDED, EXTENSIONS, Connection, connected
from tests.live.process_memory import writable_memory
from tests.live.test_canaries import Words, invented_word, through_every_tool, through_the_extensions
from tests.live.test_memory_after_request import remnants_in
from tests.live.test_stdio import AT_TERMINAL, Home, called, ended, exchanged
from tests.support.server import RunningServer
from zkpcp.bootstrap import prepare_database, running_services
from zkpcp.core.slots import SubKeyName, memory_slot
from zkpcp.usecases.session import open_session, sign_in, sign_out

BURSTS: Final = 1
_TOKEN: Final = re.compile(rb"pcp_[a-z]{2}_[A-Za-z0-9_-]{43}")
_KEYS: Final[tuple[tuple[str, SubKeyName], ...]] = (
    (memory_slot("main", sensitive=False), "rec"),
    (memory_slot("main", sensitive=True), "rec"),
    ("profile.core", "rec"),
    ("pcp.health", "rec"),
)


@dataclass(frozen=True)
class Local:
    """A running ``zkpcp stdio`` behind a terminal, as a client of the tools."""

    process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        """The program itself: the child of the one that types for it."""
        parent = self.process.pid
        return int(Path(f"/proc/{parent}/task/{parent}/children").read_text().split()[0])

    async def call(self, name: str, arguments: Mapping[str, object]) -> dict[str, Any]:
        (answer,) = exchanged(self.process, called(name, arguments))
        assert "error" not in answer, answer["error"]["code"]
        result: dict[str, Any] = answer["result"]
        return result


@pytest.fixture
def computer(tmp_path: Path) -> RunningServer:
    """A data directory of real cost; no server runs."""
    made = RunningServer(tmp_path, real_command=True)
    prepare_database(made.settings())
    return made


@pytest.fixture
def started() -> Iterator[list[Home]]:
    homes: list[Home] = []
    yield homes
    for home in homes:
        for process in home.started:
            process.kill()
            process.communicate()


def local(home: Home, passphrase: str) -> Local:
    environment = home.with_terminal(passphrase, ZKPCP_WIPE_ON_FREE="true")
    made = Local(home.start(environment, *AT_TERMINAL, *home.arguments(scope=EXTENDED)))
    exchanged(made.process, _DISCOVER)
    try:
        next(writable_memory(made.pid))
    except (PermissionError, FileNotFoundError):
        pytest.skip("reading another process's memory needs Linux, and root or CAP_SYS_PTRACE")
    return made


_META: Final = "io.modelcontextprotocol/"
_DISCOVER: Final = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "server/discover",
        "params": {"_meta": {f"{_META}protocolVersion": "2026-07-28", f"{_META}clientCapabilities": {}}},
    }
).encode()


async def keys_of(computer: RunningServer, connection: Connection, words: Words) -> dict[str, bytes]:
    """The keys that the calls need, as the owner derives them in this process."""
    async with running_services(computer.settings()) as services:
        async with services.store.read() as tx:
            context = await tx.contexts.by_handle(connection.handle)
        assert context is not None
        token = await sign_in(services, context, passphrase=words.passphrase)
        async with open_session(services, context, token) as owner:
            keys = {f"key {name} of {slot}": bytes(owner.keyring.live_key(slot, name)[1]) for slot, name in _KEYS}
        await sign_out(services, context, token)
    return keys


@pytest.mark.requirement("KEY-04", "AUTH-43")
async def test_a_local_program_holds_no_text_and_no_key_between_calls(
    computer: RunningServer, started: list[Home]
) -> None:
    words = Words(invented_word("over stdio"), "")
    connection = await connected(
        computer, name=f"{words.secret} founder", passphrase=words.passphrase, extensions=EXTENSIONS
    )
    home = Home(computer, connection.handle)
    started.append(home)
    program = local(home, words.passphrase)
    unwanted = {f"word ({form})": value for form, value in forms(words.secret.encode()).items()}
    unwanted |= await keys_of(computer, connection, words)

    assert remnants_in(program.pid, unwanted) == []  # the passphrase holds the word
    for _ in range(BURSTS):
        await through_every_tool(program, words.secret)
        await through_the_extensions(program, words.secret)
        exchanged(program.process, _DISCOVER)
        assert remnants_in(program.pid, unwanted) == []
        assert [part.address for part in writable_memory(program.pid) if _TOKEN.search(part.data)] == []
    assert ended(program.process)[0] == 0


async def test_the_search_finds_what_a_local_program_has_half_read(
    computer: RunningServer, started: list[Home]
) -> None:
    words = Words(invented_word("half read"), "")
    connection = await connected(computer, passphrase=words.passphrase, extensions=EXTENSIONS)
    home = Home(computer, connection.handle)
    started.append(home)
    program = local(home, words.passphrase)
    line = called("memory_search", {"query": words.secret}) + b"\n"
    word = {"word": words.secret.encode()}
    assert program.process.stdin is not None
    assert program.process.stdout is not None
    cut = line.index(words.secret.encode()) + len(words.secret)

    program.process.stdin.write(line[:cut])
    program.process.stdin.flush()
    held = [remnants_in(program.pid, word) for _ in range(50)]
    program.process.stdin.write(line[cut:])
    program.process.stdin.flush()
    assert "result" in json.loads(program.process.stdout.readline())
    exchanged(program.process, _DISCOVER)

    assert any(held)
    assert remnants_in(program.pid, {"data folder": str(computer.data_dir).encode()}) != []
    assert remnants_in(program.pid, word) == []
