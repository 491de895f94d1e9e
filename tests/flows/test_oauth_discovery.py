"""The well-known documents as clients find them."""

from __future__ import annotations

import pytest

from tests.flows.oauth_support import HANDLE, ORIGIN, SCHEMAS, OAuthServer, oauth_server
from zkpcp.http.site import Layout

LAYOUTS = pytest.mark.parametrize("layout", ["paths", "single", "hosts"])


def documents(server: OAuthServer) -> dict[str, str]:
    """The URL of each document of the context, by name."""
    origin = server.origin
    path = server.base.removeprefix(origin)
    return {
        "context": f"{server.base}/.well-known/pcp.json",
        "resource": f"{origin}/.well-known/oauth-protected-resource{path}/mcp",
        "server": f"{origin}/.well-known/oauth-authorization-server{path}",
        "openid": f"{origin}/.well-known/openid-configuration{path}",
        "openid-behind": f"{server.base}/.well-known/openid-configuration",
        "server-behind": f"{server.base}/.well-known/oauth-authorization-server",
    }


@pytest.mark.requirement("AUTH-14", "AUTH-15")
@LAYOUTS
async def test_every_document_is_plain_json_for_anybody(layout: Layout) -> None:
    server = await oauth_server(layout=layout)

    for url in documents(server).values():
        answer = await server.get(url)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "max-age" in answer.headers["cache-control"]
        assert (await server.get(url, if_none_match=answer.headers["etag"])).status_code == 304


@pytest.mark.requirement("DISC-01", "DISC-02", "DISC-03", "DISC-04", "DISC-12")
@LAYOUTS
async def test_the_context_document_is_at_the_base_and_follows_its_schema(layout: Layout) -> None:
    server = await oauth_server(layout=layout)

    document = (await server.get(documents(server)["context"])).json()

    assert SCHEMAS.violations("0.3/discovery", document) == ()
    assert document["pcp_version"] == "0.3"
    assert document["controller_type"] == "human"
    assert "sse_endpoint" not in document


@pytest.mark.requirement("DISC-06")
@pytest.mark.parametrize("layout", ["paths", "hosts"])
async def test_the_documents_hold_nothing_personal_but_the_urls(layout: Layout) -> None:
    server = await oauth_server(layout=layout)

    for url in documents(server).values():
        text = (await server.get(url)).text
        assert server.context.context_id not in text
        assert server.context.controller not in text
        assert HANDLE not in text.replace(server.base, "").replace(f"/c/{HANDLE}", "")


@pytest.mark.requirement("DISC-09", "DISC-10", "DISC-11", "AUTH-07", "AUTH-08", "AUTH-13", "AUTH-34")
@LAYOUTS
async def test_the_documents_agree_with_each_other(layout: Layout) -> None:
    server = await oauth_server(layout=layout)
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
async def test_the_openid_probes_get_the_same_document(layout: Layout) -> None:
    server = await oauth_server(layout=layout)
    urls = documents(server)

    bodies = {(await server.get(urls[name])).content for name in urls if name not in ("context", "resource")}

    assert len(bodies) == 1


@pytest.mark.requirement("DISC-07", "AUTH-09")
@pytest.mark.parametrize(
    ("layout", "template"), [("paths", f"{ORIGIN}/c/{{context}}"), ("hosts", "https://{context}.pcp.example")]
)
async def test_the_root_of_a_host_of_many_names_no_context(layout: Layout, template: str) -> None:
    server = await oauth_server(layout=layout)

    document = (await server.get(f"{ORIGIN}/.well-known/pcp.json")).json()

    assert document["multi_context"] is True
    assert document["context_url_template"] == template
    assert template.replace("{context}", HANDLE) == server.base
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


@pytest.mark.requirement("AUTH-16")
@pytest.mark.parametrize(
    "path",
    [
        "/.well-known",
        "/.well-known/nothing",
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-authorization-server/mcp",
        "/.well-known/oauth-protected-resource/c/lovelace/mcp",
        "/c/lovelace/.well-known/pcp.json",
    ],
)
async def test_a_host_of_one_context_has_its_documents_at_their_places_and_no_other(path: str) -> None:
    server = await oauth_server(layout="single")

    answer = await server.get(f"{ORIGIN}{path}", accept="text/html")

    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.requirement("DISC-04")
@pytest.mark.parametrize("kind", ["personal", "work", "team"])
async def test_every_kind_of_context_says_who_controls_it(kind: str) -> None:
    server = await oauth_server(kind=kind)

    document = (await server.get(documents(server)["context"])).json()

    assert SCHEMAS.violations("0.3/discovery", document) == ()
    assert (document["kind"], document["controller_type"]) == (kind, "human")


@pytest.mark.requirement("DISC-08", "AUTH-09", "AUTH-14", "AUTH-16")
@pytest.mark.parametrize(
    "url",
    [
        "https://nobody.pcp.example/.well-known/pcp.json",
        "https://nobody.pcp.example/.well-known/oauth-authorization-server",
        "https://nobody.pcp.example/.well-known/oauth-protected-resource/mcp",
        "https://a.lovelace.pcp.example/.well-known/pcp.json",
        "https://lovelace.pcp.example.evil.example/.well-known/pcp.json",
        "https://xlovelace.pcp.example/.well-known/pcp.json",
        "https://lovelace.other.example/.well-known/pcp.json",
        "https://lovelace.pcp.example:8443/.well-known/pcp.json",
        "https://pcp.example:8443/.well-known/pcp.json",
        "https://lovelace.pcp.example/.well-known/oauth-protected-resource",
        "https://lovelace.pcp.example/.well-known/oauth-protected-resource/c/lovelace/mcp",
        "https://lovelace.pcp.example/c/lovelace/.well-known/pcp.json",
        "https://lovelace.pcp.example/mcp/.well-known/openid-configuration",
        "https://pcp.example/c/lovelace/.well-known/pcp.json",
        "https://pcp.example/.well-known/oauth-protected-resource/mcp",
    ],
)
async def test_a_name_of_no_context_and_a_path_of_none_are_a_404_in_json(url: str) -> None:
    server = await oauth_server(layout="hosts")

    answer = await server.get(url)

    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("host", ["LOVELACE.PCP.EXAMPLE", "lovelace.pcp.example:443"])
async def test_a_host_means_the_same_in_any_case_and_with_its_own_port(host: str) -> None:
    server = await oauth_server(layout="hosts")

    document = (await server.get(f"{server.base}/.well-known/pcp.json", host=host)).json()

    assert document["mcp_endpoint"] == f"{server.base}/mcp"


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
