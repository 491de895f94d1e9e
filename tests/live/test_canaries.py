"""Distinctive words go in through every tool, field and page, and are then looked for in all that the server leaves.

Files: the database with its log and index, PostgreSQL's whole data directory after a checkpoint, temporary files, and
what the process said. Metadata that stays readable (KEY-01) is the control: a client's name has to be found.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import httpx2
import orjson
import pytest

from tests.live.byte_search import files_below, forms, found_in, occurrences
from tests.live.clients import bare_client, call_headers
from tests.live.conftest import ServerMaker
from tests.live.owner import EVERYTHING, EXTENDED, EXTENSIONS, Connection, connected
from tests.support.postgres import running_postgres
from tests.support.server import RunningServer
from zkpcp.bootstrap import running_services
from zkpcp.core.extensions import KNOWN
from zkpcp.core.schemas import JsonValue
from zkpcp.crypto.tokens import parse_token
from zkpcp.schema_files import load_schemas

_OF_THE_SERVER: Final = ("pcp_version", "updated")
_PATTERNED: Final = ("2026-03-31", "PT", "EUR")
"""Values for the texts of the schemas that are bound to a pattern; the word is tried first."""
_ALPHABET: Final = "bdfghjklmnprtvwxz"


def invented_word(label: str) -> str:
    """Twenty letters that stand nowhere else, in lower case: terms and folded paths keep them as they are."""
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in noise(label, 20))


def noise(label: str, size: int) -> bytes:
    """Bytes without a pattern, the same ones in every run."""
    return hashlib.shake_256(label.encode()).digest(size)


@dataclass(frozen=True)
class Words:
    """What is written: ``secret`` must be found nowhere, ``control`` is metadata."""

    secret: str
    control: str

    @property
    def passphrase(self) -> str:
        return f"{self.secret} and more words"


class ToolClient(Protocol):
    """Whatever calls tools."""

    async def call(self, name: str, arguments: Mapping[str, object]) -> dict[str, Any]:
        """The result of a tool call."""
        ...


async def through_every_tool(client: ToolClient, secret: str) -> None:
    """Every field of every tool that takes a text, in calls that work and in calls that are refused."""
    keys = {
        "title": f"{secret} title",
        "tags": [secret],
        "x_note": {secret: [f"{secret} value"]},
        "source": {"origin": "chat", "session": secret},
        "derived_from": [f"notes/{secret}"],
        "relations": [{"rel": "about", "target": f"people/{secret}"}],
    }
    page = {"path": f"notes/{secret}", "body": f"# {secret}\n\nbody with {secret}\n" * 40, "frontmatter": keys}
    work: tuple[tuple[str, dict[str, Any]], ...] = (
        ("memory_write", page),
        ("memory_write", {**page, "path": f"style/{secret}", "frontmatter": {**keys, "sensitivity": "sensitive"}}),
        ("memory_write", {"path": f"notes/{secret}", "body": f"---\ntitle: {secret}\n---\nreplaced {secret}"}),
        ("memory_search", {"query": f"{secret} title", "tags": [secret], "path_prefix": f"notes/{secret}"}),
        ("memory_search", {"query": secret, "limit": 1}),
        ("memory_list", {"prefix": f"notes/{secret}", "tags": [secret]}),
        ("memory_read", {"path": f"notes/{secret}"}),
        ("memory_read", {"path": f"notes/{secret}", "as_of": "2999-01-01"}),
        ("profile_update", {"patch": profile_of(secret)}),
        ("profile_get", {}),
        ("context_brief", {}),
    )
    for name, arguments in work:
        result = await client.call(name, arguments)
        assert result["isError"] is False, (name, result["structuredContent"])
    refused: tuple[tuple[str, dict[str, Any]], ...] = (
        ("memory_write", {"path": f"../{secret}", "body": secret}),
        ("memory_write", {"path": f"notes/{secret}", "body": secret, "expected_updated": "2020-01-01T00:00:00Z"}),
        ("memory_write", {"path": f"notes/{secret}", "body": secret, "expected_updated": secret}),
        ("memory_write", {"path": "a", "body": f"---\n{secret}: [\n---\n{secret}"}),
        ("memory_write", {"path": "a", "body": secret, "frontmatter": {secret: secret}}),
        ("memory_write", {"path": "a", "body": secret, secret: secret}),
        ("memory_write", {"path": "a", "body": f"{secret}\0"}),
        ("memory_read", {"path": f"missing/{secret}"}),
        ("memory_read", {"id": secret}),
        ("memory_list", {"cursor": secret}),
        ("memory_search", {"query": secret, "cursor": secret}),
        ("memory_search", {"query": secret, "as_of": secret}),
        ("profile_update", {"patch": {"name": {secret: secret}}}),
        ("profile_update", {"patch": {secret: secret}, "namespace": "profile.core"}),
        ("profile_update", {"patch": {"name": secret}, "namespace": secret}),
        ("profile_get", {"namespaces": [secret]}),
        ("audit_list", {"action": secret, "category": secret, "since": "2020-01-01"}),
        ("audit_list", {"since": secret}),
    )
    for name, arguments in refused:
        result = await client.call(name, arguments)
        assert not result["isError"] or secret not in orjson.dumps(result).decode(), name


def profile_of(secret: str) -> dict[str, Any]:
    return {
        "name": f"{secret} name",
        "preferred_name": secret,
        "pronouns": secret,
        "location": {"city": secret},
        "communication": {"tone": secret, "formatting": secret},
        "work": {"role": secret, "organization": secret, "field": secret, "context": secret},
        "interests": [secret],
        "ai_instructions": f"remember {secret}",
    }


async def through_the_extensions(client: ToolClient, secret: str) -> None:
    """Every free text of every extension's profile, hand-offs, a page that is deleted; and what is refused of these."""
    schemas = load_schemas()
    work: list[tuple[str, dict[str, Any]]] = [
        ("profile_update", {"namespace": name, "patch": filled(schemas.raw(f"extensions/{name}"), secret)})
        for name in KNOWN
        if name.startswith("pcp.")
    ]
    work += [
        ("profile_get", {}),
        ("profile_get", {"namespaces": ["pcp.health"]}),
        ("handoff_write", {"title": secret, "content": f"next: {secret}", "to": secret}),
        ("handoff_list", {"to": secret}),
        ("handoff_list", {}),
        ("memory_write", {"path": f"gone/{secret}", "body": f"deleted {secret}", "frontmatter": {"title": secret}}),
        ("memory_delete", {"path": f"gone/{secret}"}),
    ]
    for name, arguments in work:
        result = await client.call(name, arguments)
        assert result["isError"] is False, (name, arguments.get("namespace"), result["structuredContent"]["error"])
    refused: tuple[tuple[str, dict[str, Any]], ...] = (
        ("profile_update", {"namespace": "pcp.health", "patch": {"conditions": [{secret: secret}]}}),
        ("profile_update", {"namespace": "pcp.health", "patch": {secret: {secret: [secret]}}}),
        ("profile_update", {"namespace": f"pcp.{secret}", "patch": {"x": secret}}),
        ("profile_update", {"namespace": "pcp.home", "patch": secret}),
        ("handoff_write", {"title": secret * 20, "content": secret, "expires": secret}),
        ("handoff_write", {"title": f"{secret}\n", "content": "", "to": f"{secret}\0"}),
        ("handoff_write", {"id": secret, "status": secret}),
        ("handoff_write", {"id": secret, "status": "done"}),
        ("handoff_list", {"status": secret}),
        ("handoff_list", {"cursor": secret}),
        ("memory_delete", {"path": f"gone/{secret}"}),
        ("memory_delete", {"id": secret, "expected_updated": secret}),
        ("memory_delete", {"path": secret, "id": secret}),
        ("memory_delete", {secret: secret}),
    )
    for name, arguments in refused:
        result = await client.call(name, arguments)
        assert result["isError"] is True, name
        assert secret not in orjson.dumps(result).decode(), name


def filled(schema: Mapping[str, Any], secret: str) -> JsonValue:
    """A value that a schema allows, with the word in every text that may be any."""
    if "enum" in schema or "const" in schema:
        value: JsonValue = schema["const"] if "const" in schema else schema["enum"][0]
        return value
    if schema["type"] == "object":
        members = schema.get("properties", {})
        return {name: filled(member, secret) for name, member in members.items() if name not in _OF_THE_SERVER}
    if schema["type"] == "array":
        return [filled(schema["items"], secret)]
    if schema["type"] == "string":
        fitting = [text for text in (secret, *_PATTERNED) if re.search(schema.get("pattern", ""), text)]
        return fitting[0]
    return True if schema["type"] == "boolean" else 1


async def past_the_tools(connection: Connection, secret: str) -> None:
    """Requests that end before a tool runs, and URLs, headers and tokens that hold the word."""
    headers = call_headers(connection.access_token, "memory_read")
    async with httpx2.AsyncClient(timeout=60) as http:
        for body in (f'{{"{secret}": ', f'{{"jsonrpc": "2.0", "id": 1, "method": "{secret}"}}', f'"{secret}"'):
            await http.post(connection.mcp_url, content=body, headers=headers)
        await http.post(connection.mcp_url, content=b"{}", headers={**headers, "authorization": f"Bearer {secret}"})
        token = f"pcp_at_{secret}{'A' * (43 - len(secret))}"
        await http.post(connection.mcp_url, content=b"{}", headers={**headers, "authorization": f"Bearer {token}"})
        for header in ("mcp-name", "mcp-session-id", "user-agent", "origin", "mcp-method"):
            await http.post(connection.mcp_url, content=b"{}", headers={**headers, header: secret})
        for path in (f"?access_token={secret}", f"/{secret}", f"/../{secret}"):
            await http.get(f"{connection.mcp_url}{path}", headers={"authorization": f"Bearer {secret}"})
        origin = connection.mcp_url.partition("/c/")[0]
        for path in (f"/c/{secret}/mcp", f"/{secret}?q={secret}", f"/.well-known/{secret}", f"/static/{secret}"):
            await http.get(f"{origin}{path}")
        for grant in ("refresh_token", "authorization_code", secret):
            form = dict.fromkeys(("client_id", "refresh_token", "code", "redirect_uri", "code_verifier"), secret)
            await http.post(f"{connection.base_url}/token", data={**form, "grant_type": grant})
        await http.post(f"{connection.base_url}/revoke", data={"token": secret})
        registered = {"client_name": "x", "redirect_uris": ["https://app.example/cb"], "scope": "memory:read"}
        for more in ({secret: secret}, {"contacts": [secret], "software_id": secret, "jwks": {secret: secret}}):
            await http.post(f"{connection.base_url}/register", json={**registered, **more})
        bad: tuple[dict[str, Any], ...] = ({"redirect_uris": [secret]}, {"grant_types": [secret]}, {"scope": secret})
        for less in bad:
            await http.post(f"{connection.base_url}/register", json={**registered, **less})
        await http.get(f"{connection.base_url}/authorize", params={"client_id": secret, "state": secret})


async def through_the_pages(connection: Connection, words: Words) -> str:
    """Sign in wrong and right, look at the pages, fail at set-up and recovery; the session's token."""
    origin = connection.mcp_url.partition("/c/")[0]
    async with httpx2.AsyncClient(base_url=origin, headers={"origin": origin}, timeout=60) as http:
        base = f"/c/{connection.handle}"
        wrong = await http.post(
            f"{base}/sign-in", data={"passphrase": f"{words.secret} is wrong", "next": words.secret}
        )
        setup = {"handle": f"{words.secret}!", "name": words.secret, "kind": words.secret}
        await http.post("/set-up", data={**setup, "passphrase": words.secret, "passphrase_again": "another"})
        await http.post(
            f"{base}/recover",
            data={"recovery_code": words.secret, "passphrase": words.passphrase, "passphrase_again": words.passphrase},
        )
        right = await http.post(f"{base}/sign-in", data={"passphrase": words.passphrase})
        pages = [await http.get(f"{base}{path}") for path in ("/", "/pages", "/log", "/profile", "/deleted")]
        await submitted_forms(http, base, words.secret, pages[4].text)
        session = next(cookie.value for cookie in http.cookies.jar if cookie.value)
    assert wrong.status_code == 403
    assert right.status_code == 303
    assert all(page.status_code == 200 for page in pages)
    assert all(words.secret in pages[number].text for number in (1, 3, 4))
    return session


async def submitted_forms(http: httpx2.AsyncClient, base: str, secret: str, deleted: str) -> None:
    """The forms of the pages, as they are meant and as they are not; the deleted page is back afterwards."""
    fields = dict(re.findall(r'name="(form_token|page_id)" value="([^"]*)"', deleted))
    token = {"form_token": html.unescape(fields["form_token"])}
    recovered = await http.post(f"{base}/deleted", data={**token, "page_id": fields["page_id"]})
    assert recovered.status_code == 303
    assert secret in (await http.get(recovered.headers["location"])).text
    refused = (
        ("/deleted", {**token, "page_id": secret}),
        ("/deleted", {**token, secret: secret}),
        ("/deleted", {"form_token": secret, "page_id": secret}),
        ("/extensions", {**token, "extension": secret, "turn": "on"}),
        ("/extensions", {**token, "extension": secret, "turn": secret}),
        ("/disconnect", {**token, "grant_id": secret, secret: secret}),
        ("/sign-in", {secret: secret}),
        ("/sign-in", {"passphrase": f"{secret}\0", "next": f"//{secret}.example/"}),
        ("/sign-in", {"passphrase": secret * 200}),
        ("/sign-out", {"form_token": secret}),
    )
    for path, form in refused:
        reply = await http.post(f"{base}{path}", data=form)
        assert reply.status_code >= 400, path
    for path in (f"/pages/{secret}", f"/pages?cursor={secret}&prefix={secret}", f"/log?cursor={secret}", f"/{secret}"):
        await http.get(f"{base}{path}", headers={"referer": f"https://{secret}.example/", "cookie": f"{secret}=1"})
    for media_type in (secret, "multipart/form-data; boundary=" + secret, "application/x-www-form-urlencoded"):
        await http.post(f"{base}/sign-in", content=f"%zz{secret}\xff".encode(), headers={"content-type": media_type})
    for origin in (f"https://{secret}.example", "null"):
        await http.post(f"{base}/sign-in", data={"passphrase": secret}, headers={"origin": origin})


async def everything(server: RunningServer, words: Words) -> dict[str, bytes]:
    """All of it against a running server, and what must not be found afterwards: the word, and each secret's bytes."""
    connection = await connected(
        server,
        name=f"{words.secret} founder",
        passphrase=words.passphrase,
        client_name=words.control,
        scopes=EXTENDED,
        extensions=EXTENSIONS,
    )
    narrow = EVERYTHING.replace("memory.sensitive:read memory.sensitive:write ", "")
    other = await connected(server, passphrase=words.passphrase, scopes=narrow, client_name=words.control)
    async with bare_client(connection.mcp_url, connection.access_token) as client:
        await through_every_tool(client, words.secret)
        await through_the_extensions(client, words.secret)
    async with bare_client(other.mcp_url, other.access_token) as client:
        # Without the slot, a sensitive page waits in the inbox.
        waiting = await client.call("memory_write", {"path": f"style/{words.secret}", "body": f"inbox {words.secret}"})
        assert waiting["isError"] is False
    await past_the_tools(connection, words.secret)
    session = await through_the_pages(connection, words)
    renewed = await _refreshed(connection)
    tokens = {
        "access token": connection.access_token,
        "refresh token": connection.refresh_token,
        "second access token": renewed["access_token"],
        "second refresh token": renewed["refresh_token"],
        "session token": session,
    }
    named = {name: token.encode() for name, token in tokens.items()}
    for name, token in tokens.items():
        named[f"bytes of the {name}"] = secret_bytes(token)
    code = connection.recovery_code
    return {
        "word": words.secret.encode(),
        "recovery code": code.encode(),
        "recovery code without hyphens": code.replace("-", "").encode(),
        **named,
    }


def secret_bytes(token: str) -> bytes:
    secret = parse_token(token, token[4:6])  # type: ignore[arg-type]  # the kind stands in the token
    return bytes(secret._live_secret())


async def _refreshed(connection: Connection) -> dict[str, str]:
    form = {
        "grant_type": "refresh_token",
        "client_id": connection.client_id,
        "refresh_token": connection.refresh_token,
    }
    async with httpx2.AsyncClient(timeout=60) as http:
        reply = await http.post(f"{connection.base_url}/token", data=form)
    assert reply.status_code == 200
    answer: dict[str, str] = reply.json()
    return answer


async def assert_log_is_clean(server: RunningServer, secret: str) -> None:
    """Audit entries as they are stored: they are readable, so they are looked at by themselves too (AUD-04)."""
    async with running_services(server.settings()) as services, services.store.read() as tx:
        for handle in await tx.contexts.handles():
            context = await tx.contexts.by_handle(handle)
            assert context is not None
            rows = await tx.audit.entries(context.context_id, limit=10_000)
            assert rows
            assert not any(secret.encode() in row.entry for row in rows)


@pytest.mark.requirement("KEY-05", "KEY-06", "AUTH-35", "AUD-04", "SEC-12", "MEM-20")
async def test_no_word_of_a_context_is_in_the_files_of_sqlite_or_in_the_logs(make_server: ServerMaker) -> None:
    words = Words(invented_word("secret"), invented_word("control"))
    server = make_server(real_command=True)
    server.start()

    unwanted = await everything(server, words)
    while_running = found_in(files_below(server.folder), unwanted)
    control = found_in(files_below(server.folder), {"control": words.control.encode()})
    await assert_log_is_clean(server, words.secret)
    server.stop()

    assert while_running == []
    assert found_in(files_below(server.folder), unwanted) == []
    assert {name for name, _, _ in control} & {"zkpcp.db", "zkpcp.db-wal"}
    assert_logs_are_searched(server)


@pytest.mark.requirement("KEY-05", "KEY-06", "AUTH-35", "AUD-04", "SEC-12", "MEM-20")
async def test_no_word_of_a_context_is_in_the_data_directory_of_postgresql_or_in_the_logs(
    make_server: ServerMaker,
) -> None:
    words = Words(invented_word("secret"), invented_word("control"))
    with running_postgres() as database:
        server = make_server(database.fresh_database(), real_command=True)
        server.start()

        unwanted = await everything(server, words)
        await assert_log_is_clean(server, words.secret)
        server.stop()
        database.execute("CHECKPOINT")
        found = found_in(files_below(database.folder, server.folder), unwanted)
        places = [
            path
            for path, data in files_below(database.folder)
            if occurrences(data, {"control": words.control.encode()})
        ]

    assert found == []
    assert {path.parent.name for path in places} >= {"pg_wal"}
    assert any(path.parent.parent.name == "base" for path in places)
    assert_logs_are_searched(server)


def assert_logs_are_searched(server: RunningServer) -> None:
    """The server's own words are found where it says them, and standard error was written at all."""
    [hit] = found_in(files_below(server.folder), {"greeting": f"zkpcp serves {server.origin}".encode()})
    assert hit[0] == "stdout.log"
    assert {path.name for path, _ in files_below(server.folder)} >= {"stdout.log", "stderr.log"}


@pytest.mark.parametrize(
    "write_down",
    [
        str.encode,
        lambda text: text.encode("utf-16-le"),
        lambda text: text.encode("utf-16-be"),
        lambda text: text.encode().hex().encode(),
        lambda text: text.encode().hex().upper().encode(),
        *(lambda text, shift=shift: base64.b64encode(b"x" * shift + text.encode() + b"y") for shift in range(3)),
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress, zlib.compress])
def test_the_search_finds_a_planted_word_in_every_form(
    write_down: Callable[[str], bytes], pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    word = invented_word("planted")
    (tmp_path / "file").write_bytes(noise("before", 1000) + pack(write_down(word)) + noise("after", 1000))

    assert {hit[:2] for hit in found_in(files_below(tmp_path), {"word": word.encode()})} == {("file", "word")}
    assert found_in(files_below(tmp_path), {"other": invented_word("other").encode()}) == []


def test_bytes_that_are_no_text_are_looked_for_too() -> None:
    key = bytes([255]) + noise("key", 31)

    assert "UTF-16LE" not in forms(key)
    assert {form for _, form in occurrences(b"..." + base64.b64encode(key), {"key": key})} >= {"base64 at 0"}
