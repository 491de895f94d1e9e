"""The requests that clients in use are known to send each end in a grant.

The shapes are put together from public reports about these clients; none of the clients was run. Where a client gets
something wrong, the wrong thing is in here: that is what has to work.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from tests.flows.oauth_support import OAuthServer, boxes, leaving, oauth_server
from zkpcp.core.client_documents import ClientDocumentError, ClientUrl, Fetched
from zkpcp.core.schemas import JsonObject
from zkpcp.http.site import Layout

DEFAULT = ("profile.core:read", "memory:read", "memory:write", "offline_access")
READING = ("profile.core:read", "memory:read", "offline_access")

CLAUDE_DOCUMENT = "https://claude.ai/oauth/mcp-oauth-client-metadata"
CLAUDE_CODE_DOCUMENT = "https://claude.ai/oauth/claude-code-client-metadata"
VS_CODE_DOCUMENT = "https://vscode.dev/oauth/client-metadata.json"
CLAUDE_CALLBACK = "https://claude.ai/api/mcp/auth_callback"
CURSOR_CALLBACKS = [
    "cursor://anysphere.cursor-mcp/oauth/callback",
    "https://www.cursor.com/agents/mcp/oauth/callback",
    "http://localhost:8787/callback",
]
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"

DOCUMENTS: Mapping[str, JsonObject] = {
    CLAUDE_DOCUMENT: {
        "client_id": CLAUDE_DOCUMENT,
        "client_name": "Claude",
        "redirect_uris": [CLAUDE_CALLBACK, "https://claude.com/api/mcp/auth_callback"],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    },
    CLAUDE_CODE_DOCUMENT: {
        "client_id": CLAUDE_CODE_DOCUMENT,
        "client_name": "Claude Code",
        "redirect_uris": ["http://localhost/callback", "http://127.0.0.1/callback"],
        "grant_types": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_method": "none",
    },
    VS_CODE_DOCUMENT: {
        "client_id": VS_CODE_DOCUMENT,
        "client_name": "Visual Studio Code",
        "grant_types": ["authorization_code", "refresh_token", DEVICE_GRANT],
        "response_types": ["code"],
        "redirect_uris": [
            "http://127.0.0.1:33418/",
            "http://127.0.0.1/",
            "https://vscode.dev/redirect",
            "https://insiders.vscode.dev/redirect",
        ],
        "token_endpoint_auth_method": "none",
        "application_type": "native",
    },
}


class Internet:
    """Where the documents are."""

    async def fetch(self, url: ClientUrl) -> Fetched:
        if url.value not in DOCUMENTS:
            raise ClientDocumentError("status")
        return Fetched(json.dumps(DOCUMENTS[url.value]).encode(), None)


@dataclass(frozen=True)
class Shape:
    """What a client sends: its registration or document, and what is particular in its authorization request."""

    says: str
    redirect_uri: str
    document: str | None = None
    registers: Mapping[str, object] = field(default_factory=dict)
    asks: Mapping[str, str | None] = field(default_factory=dict)
    token: Mapping[str, str] = field(default_factory=dict)
    resource: str | None = "{base}/mcp"
    granted: tuple[str, ...] = READING


SHAPES = (
    Shape(
        "claude.ai asks for the scopes of the challenge and to stay connected, with its document",
        CLAUDE_CALLBACK,
        document=CLAUDE_DOCUMENT,
        asks={"scope": "profile.core:read memory:read memory:write offline_access", "prompt": "consent"},
        granted=DEFAULT,
    ),
    Shape(
        "claude.ai begins its scope with a blank and asks for nothing but to stay connected",
        CLAUDE_CALLBACK,
        registers={"client_name": "Claude", "redirect_uris": [CLAUDE_CALLBACK], "scope": "claudeai"},
        asks={"scope": " offline_access"},
        granted=DEFAULT,
    ),
    Shape(
        "claude.ai asks for a scope of its own that nobody else knows",
        "https://claude.com/api/mcp/auth_callback",
        registers={
            "client_name": "Claude",
            "redirect_uris": [CLAUDE_CALLBACK, "https://claude.com/api/mcp/auth_callback"],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "scope": "claudeai",
        },
        asks={"scope": "claudeai"},
        granted=DEFAULT,
    ),
    Shape(
        "Claude Code has loopback addresses without a port in its document and listens on one",
        "http://localhost:49731/callback",
        document=CLAUDE_CODE_DOCUMENT,
        asks={"scope": None},
        granted=DEFAULT,
    ),
    Shape(
        "Claude Code registers, adds offline_access to what the metadata names, and asks at the numeric address",
        "http://127.0.0.1:61000/callback",
        registers={
            "client_name": "Claude Code (zkpcp)",
            "redirect_uris": ["http://localhost:54545/callback", "http://127.0.0.1:54545/callback"],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        },
        asks={"scope": "memory:read profile.core:read offline_access"},
    ),
    Shape(
        "ChatGPT has an address of its own for each connector and sends the resource in both requests",
        "https://chatgpt.com/connector/oauth/AbC123_-xyz",
        registers={
            "client_name": "ChatGPT",
            "redirect_uris": ["https://chatgpt.com/connector/oauth/AbC123_-xyz"],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "client_secret_post",
        },
        asks={"scope": "memory:read profile.core:read"},
        token={"resource": "{base}/mcp"},
    ),
    Shape(
        "ChatGPT uses its older address and states that are long",
        "https://chatgpt.com/connector_platform_oauth_redirect",
        registers={
            "client_name": "ChatGPT",
            "redirect_uris": ["https://chatgpt.com/connector_platform_oauth_redirect"],
            "grant_types": ["authorization_code", "refresh_token"],
        },
        asks={"scope": "memory:read profile.core:read", "state": "oauth_s_" + "0123456789abcdef" * 60},
    ),
    *(
        Shape(
            f"Cursor registers three addresses at once and uses {uri}",
            uri,
            registers={
                "client_name": "Cursor",
                "redirect_uris": CURSOR_CALLBACKS,
                "grant_types": ["authorization_code", "refresh_token"],
                "response_types": ["code"],
                "token_endpoint_auth_method": "none",
                "application_type": "web",
            },
            asks={"scope": "memory:read profile.core:read"},
        )
        for uri in CURSOR_CALLBACKS
    ),
    Shape(
        "VS Code lists the device grant in its document and its address ends in a slash on another port",
        "http://127.0.0.1:50123/",
        document=VS_CODE_DOCUMENT,
        asks={"scope": "memory:read profile.core:read"},
    ),
    Shape(
        "VS Code goes back by its web page",
        "https://vscode.dev/redirect",
        document=VS_CODE_DOCUMENT,
        asks={"scope": "memory:read profile.core:read", "resource": "{base}/mcp/"},
    ),
    Shape(
        "VS Code registers with a grant that is not offered here",
        "http://127.0.0.1:33418/",
        registers={
            "client_name": "Visual Studio Code",
            "client_uri": "https://code.visualstudio.com",
            "redirect_uris": ["http://127.0.0.1:33418/", "http://127.0.0.1/", "https://vscode.dev/redirect"],
            "grant_types": ["authorization_code", "refresh_token", DEVICE_GRANT],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "application_type": "native",
        },
        asks={"scope": "memory:read profile.core:read"},
    ),
    Shape(
        "MCP Inspector in a browser asks with an empty scope and an empty client secret",
        "http://localhost:6274/oauth/callback",
        registers={
            "client_name": "MCP Inspector",
            "client_uri": "https://github.com/modelcontextprotocol/inspector",
            "redirect_uris": ["http://localhost:6274/oauth/callback"],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "scope": "",
        },
        asks={"scope": ""},
        token={"client_secret": ""},
        granted=DEFAULT,
    ),
    Shape(
        "MCP Inspector in a terminal listens on the numeric address",
        "http://127.0.0.1:6276/oauth/callback",
        registers={
            "client_name": "MCP Inspector",
            "redirect_uris": ["http://127.0.0.1:6276/oauth/callback"],
            "grant_types": ["authorization_code", "refresh_token"],
            "application_type": "native",
        },
        asks={"scope": "profile.core:read memory:read"},
    ),
    Shape(
        "an older client knows no resource parameter",
        "http://localhost:3334/oauth/callback",
        registers={"redirect_uris": ["http://localhost:3334/oauth/callback"], "grant_types": ["refresh_token"]},
        asks={"scope": "profile.core:read memory:read"},
        resource=None,
    ),
    Shape(
        "the TypeScript library writes scheme and host as a URL object does, and asks to consent",
        "http://localhost:8090/callback",
        registers={"redirect_uris": ["http://localhost:8090/callback"], "client_name": "Typed"},
        asks={"scope": "profile.core:read memory:read offline_access", "prompt": "consent"},
        token={"resource": "{base}/mcp"},
    ),
)


@pytest.mark.requirement("AUTH-17", "AUTH-18", "AUTH-20", "AUTH-22", "AUTH-24", "AUTH-34", "AUTH-40")
@pytest.mark.parametrize("layout", ["paths", "hosts"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.says)
async def test_what_this_client_sends_ends_in_a_grant(shape: Shape, layout: Layout) -> None:
    server = await oauth_server(layout=layout, documents=Internet())
    client_id = shape.document or await registered(server, shape)

    asked = {"redirect_uri": shape.redirect_uri, "resource": shape.resource, **shape.asks}
    page = await server.ask(client_id, **{name: filled(server, value) for name, value in asked.items()})
    assert tuple(boxes(page)) == shape.granted
    sent = leaving(await server.decide(page))
    form = {name: filled(server, value) or "" for name, value in shape.token.items()}
    code = sent.parameters["code"]
    reply = await server.redeem(client_id, code, redirect_uri=shape.redirect_uri, **form)

    assert sent.url.startswith(f"{shape.redirect_uri}?")
    assert sent.parameters["iss"] == server.base
    assert reply.status_code == 200, reply.text
    tokens = reply.json()
    assert tokens["scope"] == " ".join(shape.granted)
    [grant] = await server.grants()
    assert grant.scopes == shape.granted
    renewed = await server.refresh(client_id, tokens["refresh_token"], **form)
    assert renewed.status_code == 200


async def registered(server: OAuthServer, shape: Shape) -> str:
    reply = await server.register(**shape.registers)
    assert reply.status_code == 201, reply.text
    answer = reply.json()
    assert shape.redirect_uri in answer["redirect_uris"] or shape.redirect_uri.startswith("http://")
    assert "client_secret" not in answer
    assert answer["token_endpoint_auth_method"] == "none"
    return str(answer["client_id"])


def filled(server: OAuthServer, value: str | None) -> str | None:
    return value.replace("{base}", server.base) if value is not None else None


@pytest.mark.requirement("AUTH-17", "AUTH-22")
async def test_a_client_that_guesses_endpoints_at_the_origin_gets_in_where_there_is_one_context() -> None:
    server = await oauth_server(layout="single")
    origin = server.site.origin
    async with server.http() as http:
        reply = await http.post(f"{origin}/register", json={"redirect_uris": [CLAUDE_CALLBACK]})
    client_id = reply.json()["client_id"]

    url = server.authorize_url(client_id, redirect_uri=CLAUDE_CALLBACK, scope=" offline_access")
    assert url.startswith(f"{origin}/authorize?")
    sent = leaving(await server.decide(await server.get(url, signed_in=True)))
    form = {
        "grant_type": "authorization_code",
        "client_id": client_id,
        "code": sent.parameters["code"],
        "redirect_uri": CLAUDE_CALLBACK,
        "code_verifier": "v" * 43,
    }
    async with server.http() as http:
        assert (await http.post(f"{origin}/token", data=form)).status_code == 200


@pytest.mark.requirement("AUTH-15")
@pytest.mark.parametrize("layout", ["paths", "single", "hosts"])
async def test_a_client_in_a_browser_may_ask_everywhere_it_has_to(layout: Layout) -> None:
    server = await oauth_server(layout=layout, whole=True)
    origin = "http://localhost:6274"
    path = server.base.removeprefix(server.origin)
    for method, url in (
        ("GET", f"{server.origin}/.well-known/oauth-protected-resource{path}/mcp"),
        ("GET", f"{server.origin}/.well-known/oauth-authorization-server{path}"),
        ("POST", f"{server.base}/register"),
        ("POST", f"{server.base}/token"),
        ("POST", f"{server.base}/revoke"),
    ):
        asked = {
            "origin": origin,
            "access-control-request-method": method,
            "access-control-request-headers": "content-type,mcp-protocol-version",
        }
        async with server.http() as http:
            answer = await http.options(url, headers=asked)
        assert answer.status_code == 204, url
        assert answer.headers["access-control-allow-origin"] == "*"
        assert method in answer.headers["access-control-allow-methods"]
        allowed = answer.headers["access-control-allow-headers"].lower()
        assert {"content-type", "mcp-protocol-version"} <= set(allowed.split(", "))


@pytest.mark.requirement("AUTH-14")
@pytest.mark.parametrize("layout", ["paths", "single", "hosts"])
async def test_discovery_does_not_mind_the_header_of_a_protocol_version(layout: Layout) -> None:
    server = await oauth_server(layout=layout)
    path = server.base.removeprefix(server.origin)

    for name in (f"oauth-authorization-server{path}", f"oauth-protected-resource{path}/mcp"):
        url = f"{server.origin}/.well-known/{name}"
        for version in ("2025-06-18", "2025-11-25", "2026-07-28", "nonsense"):
            answer = await server.get(url, mcp_protocol_version=version)
            assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
