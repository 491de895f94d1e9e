"""The well-known documents as clients find them."""

from __future__ import annotations

import pytest

from tests.flows.oauth_support import HANDLE, ORIGIN, SCHEMAS, OAuthServer, oauth_server

LAYOUTS = pytest.mark.parametrize("single", [False, True], ids=["paths", "single"])


def documents(server: OAuthServer) -> dict[str, str]:
    """The URL of each document of the context, by name."""
    path = server.base.removeprefix(ORIGIN)
    return {
        "context": f"{server.base}/.well-known/pcp.json",
        "resource": f"{ORIGIN}/.well-known/oauth-protected-resource{path}/mcp",
        "server": f"{ORIGIN}/.well-known/oauth-authorization-server{path}",
        "openid": f"{ORIGIN}/.well-known/openid-configuration{path}",
        "openid-behind": f"{server.base}/.well-known/openid-configuration",
        "server-behind": f"{server.base}/.well-known/oauth-authorization-server",
    }


@pytest.mark.requirement("AUTH-14", "AUTH-15")
@LAYOUTS
async def test_every_document_is_plain_json_for_anybody(single: bool) -> None:
    server = await oauth_server(single=single)

    for url in documents(server).values():
        answer = await server.get(url)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "max-age" in answer.headers["cache-control"]
        assert (await server.get(url, if_none_match=answer.headers["etag"])).status_code == 304


@pytest.mark.requirement("DISC-01", "DISC-02", "DISC-03", "DISC-04", "DISC-12")
@LAYOUTS
async def test_the_context_document_is_at_the_base_and_follows_its_schema(single: bool) -> None:
    server = await oauth_server(single=single)

    document = (await server.get(documents(server)["context"])).json()

    assert SCHEMAS.violations("0.3/discovery", document) == ()
    assert document["pcp_version"] == "0.3"
    assert document["controller_type"] == "human"
    assert "sse_endpoint" not in document


@pytest.mark.requirement("DISC-06")
async def test_the_documents_hold_nothing_personal_but_the_urls() -> None:
    server = await oauth_server()

    for url in documents(server).values():
        text = (await server.get(url)).text
        assert server.context.context_id not in text
        assert server.context.controller not in text
        assert HANDLE not in text.replace(f"/c/{HANDLE}", "")


@pytest.mark.requirement("DISC-09", "DISC-10", "DISC-11", "AUTH-07", "AUTH-08", "AUTH-13", "AUTH-34")
@LAYOUTS
async def test_the_documents_agree_with_each_other(single: bool) -> None:
    server = await oauth_server(single=single)
    context = (await server.get(documents(server)["context"])).json()

    resource = (await server.get(context["resource_metadata"])).json()
    [issuer] = resource["authorization_servers"]
    metadata = (await server.get(documents(server)["server"])).json()

    assert context["resource_metadata"] == documents(server)["resource"]
    assert resource["resource"] == context["mcp_endpoint"] == f"{server.base}/mcp"
    assert issuer == context["authorization_server"] == metadata["issuer"] == server.base
    assert resource["scopes_supported"] == ["profile.core:read", "memory:read", "memory:write"]
    assert resource["bearer_methods_supported"] == ["header"]
    assert metadata["code_challenge_methods_supported"] == ["S256"]
    assert "none" in metadata["token_endpoint_auth_methods_supported"]
    assert metadata["authorization_response_iss_parameter_supported"] is True
    for name in ("authorization", "token", "registration", "revocation"):
        assert metadata[f"{name}_endpoint"].startswith(f"{server.base}/")


@pytest.mark.requirement("AUTH-13")
@LAYOUTS
async def test_the_openid_probes_get_the_same_document(single: bool) -> None:
    server = await oauth_server(single=single)
    urls = documents(server)

    bodies = {(await server.get(urls[name])).content for name in urls if name not in ("context", "resource")}

    assert len(bodies) == 1


@pytest.mark.requirement("DISC-07", "AUTH-09")
async def test_the_root_of_a_host_of_many_names_no_context() -> None:
    server = await oauth_server()

    document = (await server.get(f"{ORIGIN}/.well-known/pcp.json")).json()

    assert document["multi_context"] is True
    assert document["context_url_template"] == f"{ORIGIN}/c/{{context}}"
    assert set(document) == {"pcp_version", "multi_context", "context_url_template", "documentation"}
    for name in ("oauth-protected-resource", "oauth-authorization-server", "openid-configuration"):
        assert (await server.get(f"{ORIGIN}/.well-known/{name}")).status_code == 404


@pytest.mark.requirement("DISC-08", "AUTH-14", "AUTH-16")
@pytest.mark.parametrize(
    "path",
    [
        "/c/nobody/.well-known/pcp.json",
        "/c/Lovelace/.well-known/pcp.json",
        "/c/%00/.well-known/pcp.json",
        "/c/love%2Flace/.well-known/pcp.json",
        "/c/nobody/.well-known/openid-configuration",
        "/.well-known/oauth-authorization-server/c/nobody",
        "/.well-known/oauth-protected-resource/c/nobody/mcp",
        "/.well-known/oauth-protected-resource/c/lovelace",
        "/.well-known/oauth-protected-resource/c/lovelace/mcp/",
        "/.well-known/oauth-authorization-server/c/lovelace/mcp",
        "/.well-known/pcp.json/",
        "/.well-known/",
        "/.well-known",
        "/.well-known/security.txt",
        "/c/lovelace/.well-known/nothing",
        "/c/lovelace/.well-known/",
        "/c/lovelace/mcp/.well-known/openid-configuration",
    ],
)
async def test_what_is_not_there_is_a_404_in_json(path: str) -> None:
    server = await oauth_server()

    answer = await server.get(f"{ORIGIN}{path}", accept="text/html")

    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/json"
    assert "error" in answer.json()


@pytest.mark.requirement("AUTH-15")
async def test_a_page_of_another_origin_may_ask_with_the_header_of_its_protocol_version() -> None:
    server = await oauth_server()

    async with server.http() as http:
        for url in documents(server).values():
            answer = await http.options(
                url,
                headers={
                    "origin": "https://inspector.example",
                    "access-control-request-method": "GET",
                    "access-control-request-headers": "mcp-protocol-version",
                },
            )
            assert answer.status_code == 204
            assert answer.headers["access-control-allow-origin"] == "*"
            assert "mcp-protocol-version" in answer.headers["access-control-allow-headers"].lower()
