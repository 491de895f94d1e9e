"""Apps that ask for a client id: the operator registers them, and they still have to ask."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.flows.oauth_support import REDIRECT_URI, leaving, oauth_server
from zkpcp.cli.commands import app
from zkpcp.errors import InvalidInputError
from zkpcp.usecases.clients import add_client


@pytest.mark.requirement("AUTH-17", "AUTH-39", "AUTH-40")
async def test_an_app_that_was_registered_beforehand_asks_like_any_other() -> None:
    server = await oauth_server()
    client = await add_client(server.services, server.context, name="Notes Tool", redirect_uris=[REDIRECT_URI])
    assert await server.grants() == []

    page = await server.ask(client.client_id)

    assert "registered by whoever runs this server" in page.text
    code = leaving(await server.decide(page)).parameters["code"]
    assert (await server.redeem(client.client_id, code)).status_code == 200
    assert "client.registered" in await server.actions()


@pytest.mark.requirement("AUTH-20")
@pytest.mark.parametrize(
    ("name", "uris"),
    [
        ("", [REDIRECT_URI]),
        ("\u202e", [REDIRECT_URI]),
        ("Tool", []),
        ("Tool", ["javascript:alert(1)"]),
        ("Tool", [REDIRECT_URI, "http://app.example/callback"]),
        ("Tool", [f"https://app.example/{number}" for number in range(21)]),
    ],
)
async def test_what_cannot_be_registered_is_refused_whole(name: str, uris: list[str]) -> None:
    server = await oauth_server()

    with pytest.raises(InvalidInputError):
        await add_client(server.services, server.context, name=name, redirect_uris=uris)


@pytest.mark.requirement("AUTH-17")
def test_the_command_prints_an_id_and_no_secret(tmp_path: Path) -> None:
    environment = {"ZKPCP_DATA_DIR": str(tmp_path)}
    secret = "a rather long passphrase\n"
    run = CliRunner().invoke

    none = run(app, ["client", "add", "--name", "Tool", "--redirect-uri", REDIRECT_URI], env=environment)
    assert none.exit_code == 1
    made = run(app, ["init", "--handle", "me", "--name", "Me", "--passphrase-stdin"], input=secret, env=environment)
    assert made.exit_code == 0, made.output
    added = run(app, ["client", "add", "--name", "Tool", "--redirect-uri", REDIRECT_URI, "--json"], env=environment)

    answer = json.loads(added.stdout)
    assert answer["client_id"].startswith("pre_")
    assert answer["mcp_url"] == "http://127.0.0.1:8765/c/me/mcp"
    assert set(answer) == {"client_id", "mcp_url", "issuer"}
    wrong = run(app, ["client", "add", "--name", "Tool", "--redirect-uri", "http://x.example/"], env=environment)
    assert wrong.exit_code == 1
