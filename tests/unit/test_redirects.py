"""Which redirect URIs may be registered, and when a requested one is a registered one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkpcp.core.redirects import (
    MAX_URI_CHARACTERS,
    is_canonical_resource,
    is_loopback,
    is_registrable,
    matches,
    redirect_host,
    with_parameters,
)

MCP_URL = "https://pcp.example/c/ada/mcp"
ports = st.integers(1, 65535)
hosts = st.sampled_from(["localhost", "127.0.0.1", "[::1]"])
paths = st.sampled_from(["", "/", "/callback", "/callback/", "/a/b?x=1"])
loopback_uris = st.builds(
    lambda host, port, path: f"http://{host}{port}{path}", hosts, ports.map(lambda p: f":{p}") | st.just(""), paths
)
registrable_uris = loopback_uris | st.sampled_from(
    ["https://app.example/cb", "https://app.example:8443/cb?x=1", "cursor://anysphere.cursor-mcp/oauth/callback"]
)


@pytest.mark.requirement("AUTH-20")
@pytest.mark.parametrize(
    "uri",
    [
        "https://claude.ai/api/mcp/auth_callback",
        "https://app.example",
        "https://app.example:8443/cb?tenant=1",
        "http://localhost/callback",
        "http://localhost:8787/callback",
        "http://127.0.0.1:33418/",
        "http://[::1]:5000/cb",
        "cursor://anysphere.cursor-mcp/oauth/callback",
    ],
)
def test_what_real_clients_register_is_registrable(uri: str) -> None:
    assert is_registrable(uri)


@pytest.mark.requirement("AUTH-20")
@pytest.mark.parametrize(
    "uri",
    [
        "",
        "/callback",
        "callback",
        "//app.example/cb",
        "http://app.example/cb",
        "http://localhost.app.example/cb",
        "http://127.0.0.2/cb",
        "http://127.1/cb",
        "http://2130706433/cb",
        "http://0.0.0.0/cb",
        "http://[::]/cb",
        "http://[::ffff:127.0.0.1]/cb",
        "http://127.0.0.1@app.example/cb",
        "https://user@app.example/cb",
        "https://user:word@app.example/cb",
        "https://app.example/cb#part",
        "https://app.example/c b",
        "https://app.example/\tcb",
        "https://app.example/cb\n",
        "https://app.example\\@evil.example/cb",
        "https://app.example/\x00",
        "https://bücher.example/cb",
        "https://app.example:0/cb",
        "https://app.example:65536/cb",
        "https://app.example:port/cb",
        "https:///cb",
        "https:app.example/cb",
        "HTTPS://app.example/cb",
        "javascript:alert(1)",
        "javascript://app.example/%0aalert(1)",
        "data:text/html,x",
        "file:///etc/hosts",
        "blob:https://app.example/1",
        "about:blank",
        "vbscript:x",
        "com.example.app:/cb",
        "cursor://user@host/cb",
        "https://app.example/" + "a" * MAX_URI_CHARACTERS,
    ],
)
def test_what_could_lead_elsewhere_is_not_registrable(uri: str) -> None:
    assert not is_registrable(uri)


@pytest.mark.requirement("AUTH-20")
@pytest.mark.parametrize("scheme", ["javascript", "data", "file", "blob", "about", "vbscript", "http"])
def test_no_list_of_app_schemes_makes_a_dangerous_scheme_registrable(scheme: str) -> None:
    assert not is_registrable(f"{scheme}://app.example/cb", {scheme})


@given(st.text())
def test_any_text_is_judged(text: str) -> None:
    assert isinstance(is_registrable(text), bool)
    assert isinstance(matches("http://localhost/cb", text), bool)
    assert isinstance(is_canonical_resource(text, MCP_URL), bool)


@pytest.mark.requirement("AUTH-22")
@given(registrable_uris)
def test_a_registered_uri_matches_itself(uri: str) -> None:
    assert is_registrable(uri)
    assert matches(uri, uri)


@pytest.mark.requirement("AUTH-22")
@given(hosts, paths, ports, ports | st.none())
def test_on_loopback_any_port_matches(host: str, path: str, requested: int, registered: int | None) -> None:
    port = "" if registered is None else f":{registered}"
    assert matches(f"http://{host}{port}{path}", f"http://{host}:{requested}{path}")


@pytest.mark.requirement("AUTH-22")
@given(loopback_uris, loopback_uris)
def test_on_loopback_only_the_port_is_free(left: str, right: str) -> None:
    def without_port(uri: str) -> str:
        host = redirect_host(uri)
        bare = host[: host.index("]") + 1] if host.startswith("[") else host.partition(":")[0]
        return uri.replace(host, bare, 1)

    assert matches(left, right) == (without_port(left) == without_port(right))


@pytest.mark.requirement("AUTH-22")
@pytest.mark.parametrize(
    ("registered", "requested"),
    [
        ("https://app.example/cb", "https://app.example/cb/"),
        ("https://app.example/cb", "https://app.example/CB"),
        ("https://app.example/cb", "https://APP.example/cb"),
        ("https://app.example/cb", "https://app.example:443/cb"),
        ("https://app.example/cb", "https://app.example/x/../cb"),
        ("https://app.example/cb", "https://app.example/cb?x=1"),
        ("https://app.example/cb", "https://app.example/cb#"),
        ("https://localhost/cb", "https://localhost:8443/cb"),
        ("http://localhost/cb", "http://127.0.0.1/cb"),
        ("http://localhost/cb", "http://localhost:99999/cb"),
        ("http://localhost/cb", "http://localhost:1@evil.example/cb"),
        ("http://localhost/cb", "http://localhost.evil.example/cb"),
        ("http://localhost/cb", "HTTP://localhost/cb"),
        ("cursor://host/cb", "cursor://host:1/cb"),
    ],
)
def test_what_only_looks_like_a_registered_uri_does_not_match(registered: str, requested: str) -> None:
    assert not matches(registered, requested)


@pytest.mark.requirement("AUTH-24")
@pytest.mark.parametrize(
    "value", [MCP_URL, MCP_URL + "/", "HTTPS://pcp.example/c/ada/mcp", "https://PCP.Example/c/ada/mcp"]
)
def test_a_resource_may_differ_in_the_case_of_its_host_and_one_slash(value: str) -> None:
    assert is_canonical_resource(value, MCP_URL)


@pytest.mark.requirement("AUTH-24")
@pytest.mark.parametrize(
    "value",
    [
        "",
        "https://pcp.example",
        "https://pcp.example/",
        "https://pcp.example/c/ada",
        "https://pcp.example/c/Ada/mcp",
        "https://pcp.example/c/bob/mcp",
        "https://pcp.example/c/ada/mcp//",
        "https://pcp.example/c/ada/mcp?x=1",
        "https://pcp.example/c/ada/mcp#",
        "http://pcp.example/c/ada/mcp",
        "https://evil.example/c/ada/mcp",
        "pcp.example/c/ada/mcp",
    ],
)
def test_any_other_resource_is_another_resource(value: str) -> None:
    assert not is_canonical_resource(value, MCP_URL)


def test_parameters_are_added_and_the_uri_stays_as_it_is() -> None:
    added = [("code", "a b"), ("iss", "https://pcp.example")]
    query = "code=a+b&iss=https%3A%2F%2Fpcp.example"

    assert with_parameters("https://app.example/cb", added) == f"https://app.example/cb?{query}"
    assert with_parameters("https://app.example/cb?a=b%20c", added) == f"https://app.example/cb?a=b%20c&{query}"
    assert with_parameters("https://app.example/cb?", added) == f"https://app.example/cb?{query}"


def test_a_person_is_shown_the_host_that_gets_the_answer() -> None:
    assert redirect_host("https://app.example:8443/cb?x=1") == "app.example:8443"
    assert redirect_host("https://app.example?x=/") == "app.example"
    assert redirect_host("com.example.app:/cb") == "com.example.app:"
    assert is_loopback("http://[::1]:80/cb")
    assert not is_loopback("https://localhost/cb")
