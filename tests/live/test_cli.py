"""The commands as a person meets them: what they teach, what they refuse and how, and what they leave on the disk."""

from __future__ import annotations

import json
import stat

import pytest
from typer.testing import CliRunner

from tests.live.conftest import ServerMaker
from tests.live.owner import PASSPHRASE
from tests.support.server import RunningServer
from zkpcp.cli.commands import app

NEW_PASSPHRASE = "eleven wrens in the hedge"


@pytest.fixture
def folder(make_server: ServerMaker) -> RunningServer:
    """A server that is not started: settings and commands over one data directory."""
    return make_server()


def init(server: RunningServer, *more: str) -> dict[str, str]:
    done = server.command("init", "--handle", "me", "--passphrase-stdin", "--json", *more, stdin=f"{PASSPHRASE}\n")
    assert done.returncode == 0, done.stderr
    answer: dict[str, str] = json.loads(done.stdout)
    return answer


def help_of(*command: str) -> str:
    result = CliRunner(env={"TERMINAL_WIDTH": "200", "COLUMNS": "200"}).invoke(app, [*command, "--help"])
    assert result.exit_code == 0
    return " ".join(result.output.split())


def test_help_says_how_to_begin_and_what_comes_next() -> None:
    assert "zkpcp serve" in help_of()
    assert "zkpcp init --handle me" in help_of()
    assert "never an argument" in help_of()
    assert "ZKPCP_PUBLIC_URL" in help_of("serve")
    assert "https" in help_of("serve")
    assert "The recovery code is the only way back in" in help_of("init")
    assert "grant revoke" in help_of("grant", "create")
    assert "grant list" in help_of("grant", "revoke")
    assert "recovery code" in help_of("recover")


@pytest.mark.parametrize("command", [("init", "--handle", "me"), ("grant", "create", "--client", "x"), ("recover",)])
def test_a_passphrase_is_never_taken_from_an_argument(command: tuple[str, ...]) -> None:
    named = CliRunner().invoke(app, [*command, f"--passphrase={PASSPHRASE}"])
    placed = CliRunner().invoke(app, [*command, PASSPHRASE])

    assert (named.exit_code, placed.exit_code) == (2, 2)
    assert "--passphrase" not in help_of(*command[:1]).replace("--passphrase-stdin", "")


@pytest.mark.requirement("KEY-13")
def test_set_up_gives_the_address_and_the_recovery_code_and_says_what_loss_means(folder: RunningServer) -> None:
    made = init(folder, "--kind", "work", "--name", "Ada Example")
    again = folder.command("init", "--handle", "me", "--passphrase-stdin", stdin=f"{PASSPHRASE}\n")
    short = folder.command("init", "--handle", "you", "--passphrase-stdin", stdin="too short\n")

    assert made["mcp_url"] == f"{folder.origin}/c/me/mcp"
    assert len(made["recovery_code"].split("-")) == 9
    assert "Nobody can restore" in made["warning"]
    assert again.returncode == 1
    assert "this handle exists already; choose another handle" in again.stderr
    assert again.stdout == ""
    assert short.returncode == 1
    assert "at least 12 characters" in short.stderr
    assert "too short" not in short.stderr


def test_the_data_is_closed_to_other_users_of_the_machine(folder: RunningServer) -> None:
    init(folder)
    folder.start()

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder.data_dir, *folder.data_dir.iterdir())}

    assert modes == {"data": 0o700, "zkpcp.db": 0o600, "zkpcp.db-wal": 0o600, "zkpcp.db-shm": 0o600}


@pytest.mark.requirement("KEY-11", "KEY-12")
def test_the_recovery_code_sets_a_new_passphrase_and_the_old_one_fails(folder: RunningServer) -> None:
    code = init(folder)["recovery_code"]
    list_grants = ("grant", "list", "--passphrase-stdin", "--json")

    wrong_code = folder.command("recover", "--handle", "me", "--stdin", stdin=f"{code[:-1]}!\n{NEW_PASSPHRASE}\n")
    recovered = folder.command("recover", "--handle", "me", "--stdin", stdin=f"{code}\n{NEW_PASSPHRASE}\n")
    old = folder.command(*list_grants, stdin=f"{PASSPHRASE}\n")
    new = folder.command(*list_grants, stdin=f"{NEW_PASSPHRASE}\n")

    assert wrong_code.returncode == 1
    assert "recovery code" in wrong_code.stderr
    assert recovered.returncode == 0
    assert "the old one no longer works" in recovered.stderr
    assert (old.returncode, old.stdout, old.stderr) == (1, "", "account and passphrase do not fit together\n")
    assert (new.returncode, json.loads(new.stdout)) == (0, {"grants": []})


@pytest.mark.requirement("AUTH-05")
@pytest.mark.parametrize("name", ["memory.example", "127.0.0.1.example"])
def test_a_public_address_without_https_refuses_to_start(make_server: ServerMaker, name: str) -> None:
    server = make_server(more={"ZKPCP_PUBLIC_URL": f"http://{name}"})

    done = server.command("serve")

    assert done.returncode == 2
    assert "ZKPCP_PUBLIC_URL must be https: only a loopback address may use http" in done.stderr
    assert name not in done.stderr
    assert done.stdout == ""
    assert not server.data_dir.exists()


def test_a_database_that_is_none_is_named_by_its_rule_and_nothing_else_is_used_instead(
    make_server: ServerMaker,
) -> None:
    server = make_server("mysql://root:secret@127.0.0.1/zkpcp")

    done = server.command("init", "--handle", "me", "--passphrase-stdin", stdin=f"{PASSPHRASE}\n")

    assert done.returncode == 2
    assert "sqlite:///absolute/path.db or postgresql://host/name" in done.stderr
    assert "secret" not in done.stderr
    assert not (server.data_dir / "zkpcp.db").exists()


@pytest.mark.requirement("KEY-12")
def test_all_keys_are_changed_by_one_command_and_a_client_goes_on(folder: RunningServer) -> None:
    init(folder)
    token = ("grant", "create", "--client", "me", "--passphrase-stdin", "--json")
    made = folder.command(*token, stdin=f"{PASSPHRASE}\n")
    assert made.returncode == 0, made.stderr

    wrong = folder.command("rotate", "--passphrase-stdin", stdin="not the passphrase\n")
    once = folder.command("rotate", "--passphrase-stdin", stdin=f"{PASSPHRASE}\n")
    again = folder.command("rotate", "--passphrase-stdin", stdin=f"{PASSPHRASE}\n")
    verified = folder.command("verify", "--passphrase-stdin", stdin=f"{PASSPHRASE}\n")

    assert wrong.returncode == 1
    assert (once.returncode, again.returncode) == (0, 0), once.stderr
    assert "All keys are changed" in once.stdout + once.stderr
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert PASSPHRASE not in once.stdout + once.stderr
    assert "does not help against a copy" in help_of("rotate")


@pytest.mark.parametrize("kind", ["personal", "work", "team"])
def test_a_program_is_connected_to_a_context_of_any_kind_without_naming_scopes(
    folder: RunningServer, kind: str
) -> None:
    init(folder, "--kind", kind)

    made = folder.command("grant", "create", "--client", "me", "--passphrase-stdin", "--json", stdin=f"{PASSPHRASE}\n")

    assert made.returncode == 0, made.stderr
    assert {"memory:read", "memory:write", "offline_access"} <= set(json.loads(made.stdout)["scope"].split())
