"""Which client ids name a document, what it must say, which addresses are public, how long a document is kept."""

from __future__ import annotations

import json
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

import httpcore2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkpcp.core.client_documents import (
    MAX_CLIENT_ID_CHARACTERS,
    ClientDocumentError,
    ClientUrl,
    IPAddress,
    is_client_url,
    is_public,
    lifetime_s,
    max_age_s,
    parse_client_id,
    parse_document,
)
from zkpcp.core.schemas import JsonObject, JsonValue
from zkpcp.errors import InvalidInputError

CLIENT_ID = "https://app.example/oauth/client.json"
URL = parse_client_id(CLIENT_ID)
DOCUMENT: JsonObject = {
    "client_id": CLIENT_ID,
    "client_name": "Notes",
    "redirect_uris": ["https://app.example/callback", "http://127.0.0.1/callback"],
}
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


def body(**changes: JsonValue) -> bytes:
    return json.dumps({**DOCUMENT, **changes}).encode()


def without(member: str) -> bytes:
    return json.dumps({name: value for name, value in DOCUMENT.items() if name != member}).encode()


def fault(text: bytes, url: ClientUrl = URL) -> str:
    with pytest.raises(ClientDocumentError) as caught:
        parse_document(url, text)
    return caught.value.fault


@pytest.mark.requirement("AUTH-18")
@pytest.mark.parametrize(
    "text",
    [
        "https://claude.ai/oauth/mcp-oauth-client-metadata",
        "https://vscode.dev/oauth/client-metadata.json",
        "https://app.example:443/client.json",
        "https://xn--bcher-kva.example/a//b/%C3%BC/",
        "https://a.b.c.d.example/...",
        "https://app.example/a@b",
    ],
)
def test_the_url_of_a_document_is_a_client_id_and_stays_as_it_was_sent(text: str) -> None:
    url = parse_client_id(text)

    assert url.value == text
    assert is_client_url(text)


@pytest.mark.requirement("AUTH-19")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "dcr_00112233445566778899aabbccddeeff",
        "http://app.example/client.json",
        "HTTPS://app.example/client.json",
        "https:/app.example/client.json",
        "https:app.example/client.json",
        "https://app.example",
        "https://app.example/",
        "https://app.example/a/../b",
        "https://app.example/./b",
        "https://app.example/a/..",
        "https://app.example/a/%2E%2e/b",
        "https://app.example/a/.%2e",
        "https://app.example/a?b=c",
        "https://app.example/a?",
        "https://app.example/a#b",
        "https://app.example/a#",
        "https://user@app.example/a",
        "https://user:secret@app.example/a",
        "https://@app.example/a",
        "https://app.example:8443/a",
        "https://app.example:80/a",
        "https://app.example:0443/a",
        "https://app.example:/a",
        "https://APP.example/a",
        "https://app.example./a",
        "https://.example/a",
        "https://app..example/a",
        "https://-app.example/a",
        "https://app_1.example/a",
        "https://localhost/a",
        "https://intranet/a",
        "https://127.0.0.1/a",
        "https://127.1/a",
        "https://2130706433/a",
        "https://0177.0.0.1/a",
        "https://0x7f.0.0.1/a",
        "https://1.0x7f000001/a",
        "https://app.1/a",
        "https://[::1]/a",
        "https://[::ffff:127.0.0.1]/a",
        "https://[fe80::1%25eth0]/a",
        "https://127.0.0.1\\@app.example/a",
        "https://app.example\\a",
        "https://app.example/a\\b",
        "https://app.example/a b",
        "https://app.example/a\n",
        " https://app.example/a",
        "https://app.example/%",
        "https://app.example/%zz",
        "https://app.example/ä",
        "https://äpp.example/a",
        "https://ⓐpp.example/a",
        "https://127。0。0。1/a",
        "https://app.example/" + "a" * MAX_CLIENT_ID_CHARACTERS,
        "https://" + "a." * 130 + "example/a",
    ],
)
def test_what_two_parsers_could_read_differently_is_no_client_id(text: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_client_id(text)

    assert [violation.path for violation in caught.value.violations] == ["client_id"]
    assert not text or text not in str(caught.value)


@pytest.mark.requirement("AUTH-19")
@given(
    st.text(max_size=40)
    | st.text("./:@#?%[]\\ 0177abcxA2e-", max_size=30).map(lambda rest: "https://" + rest)
    | st.text("./%2eEa", max_size=12).map(lambda path: "https://app.example/" + path)
)
def test_every_text_is_refused_or_read_as_other_parsers_read_it(text: str) -> None:
    try:
        url = parse_client_id(text)
    except InvalidInputError:
        return

    split = urlsplit(text)
    other = httpcore2.URL(text)
    assert (split.scheme, split.hostname, split.path) == ("https", url.host, url.path)
    assert (split.username, split.query, split.fragment) == (None, "", "")
    assert (other.scheme, other.host, other.target) == (b"https", url.host.encode(), url.path.encode())


@pytest.mark.requirement("AUTH-18")
def test_a_document_says_who_the_client_is_and_where_it_may_be_sent() -> None:
    document = parse_document(URL, body(grant_types=["authorization_code", "refresh_token"]))

    assert document.client_id == CLIENT_ID
    assert document.client_name == "Notes"
    assert document.redirect_uris == ("https://app.example/callback", "http://127.0.0.1/callback")
    assert document.refreshable


@pytest.mark.requirement("AUTH-18")
def test_what_a_document_says_beyond_our_rules_is_ignored() -> None:
    document = parse_document(
        URL,
        body(
            grant_types=["authorization_code", "urn:ietf:params:oauth:grant-type:device_code", 7],
            response_types=["code", "token"],
            token_endpoint_auth_method="none",
            application_type="native",
            logo_uri="https://app.example/logo.png",
            jwks={"keys": []},
        ),
    )

    assert document == parse_document(URL, body())
    assert not document.refreshable


@pytest.mark.requirement("AUTH-19")
def test_redirect_uris_outside_policy_are_dropped_and_one_must_be_left() -> None:
    unfit: list[JsonValue] = ["javascript:alert(1)", "http://evil.example/cb", "https://app.example/#x", 7, None]

    document = parse_document(URL, body(redirect_uris=[*unfit, "cursor://app/cb", "cursor://app/cb"]))

    assert document.redirect_uris == ("cursor://app/cb",)
    assert fault(body(redirect_uris=unfit)) == "redirect_uris"
    with pytest.raises(ClientDocumentError):
        parse_document(URL, body(redirect_uris=["cursor://app/cb"]), private_use_schemes=())


@pytest.mark.requirement("AUTH-19")
@pytest.mark.parametrize(
    "other",
    [
        "https://app.example/oauth/client.json/",
        "https://app.example:443/oauth/client.json",
        "https://app.example/oauth/Client.json",
        "https://app.example/oauth/client%2Ejson",
        "https://evil.example/oauth/client.json",
        "",
        None,
        7,
        [CLIENT_ID],
    ],
)
def test_a_document_that_names_another_client_id_is_refused(other: JsonValue) -> None:
    assert fault(body(client_id=other)) == "client_id"


@pytest.mark.requirement("AUTH-19")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (without("client_id"), "client_id"),
        (without("client_name"), "client_name"),
        (without("redirect_uris"), "redirect_uris"),
        (body(client_name=""), "client_name"),
        (body(client_name=["Notes"]), "client_name"),
        (body(client_name="\u202e\u0000\u200b \n"), "client_name"),
        (body(redirect_uris=[]), "redirect_uris"),
        (body(redirect_uris="https://app.example/callback"), "redirect_uris"),
        (body(client_secret=""), "client_secret"),
        (body(client_secret_expires_at=0), "client_secret"),
        (body(token_endpoint_auth_method="client_secret_basic"), "token_endpoint_auth_method"),
        (body(token_endpoint_auth_method="client_secret_post"), "token_endpoint_auth_method"),
        (body(token_endpoint_auth_method="client_secret_jwt"), "token_endpoint_auth_method"),
        (body(token_endpoint_auth_method=None), "token_endpoint_auth_method"),
    ],
)
def test_a_document_that_lacks_a_member_or_holds_a_secret_is_refused(text: bytes, expected: str) -> None:
    assert fault(text) == expected


@pytest.mark.requirement("AUTH-19")
@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"null",
        b"[]",
        b"\xff\xfe{}",
        b"\xef\xbb\xbf" + body(),
        body()[:-1],
        body() + b"{}",
        body()[:-1] + b', "client_name": "Bank"}',
        body()[:-1] + b', "x": {"a": 1, "a": 2}}',
        body()[:-1] + b', "x": NaN}',
        body()[:-1] + b', "x": ' + b"9" * 5000 + b"}",
        b"[" * 5000,
        b"\x1f\x8b\x08\x00",
    ],
)
def test_what_is_no_strict_json_object_is_no_document(text: bytes) -> None:
    assert fault(text) == "json"


@pytest.mark.requirement("AUTH-19")
def test_a_name_with_control_and_direction_characters_is_shown_without_them() -> None:
    document = parse_document(URL, body(client_name=" No\u202etes\x00\r\n\x1b[31m\ud800   App "))

    assert document.client_name == "Notes [31m App"


@pytest.mark.requirement("AUTH-19")
@given(
    st.binary(max_size=200)
    | st.dictionaries(st.sampled_from([*DOCUMENT, "grant_types", "x"]), json_values).map(
        lambda changes: body(**changes)
    )
)
def test_all_bytes_are_a_document_or_refused(text: bytes) -> None:
    try:
        document = parse_document(URL, text)
    except ClientDocumentError:
        return

    assert document.client_id == CLIENT_ID
    assert document.redirect_uris
    assert document.client_name.isprintable()


@pytest.mark.requirement("AUTH-19")
def test_every_cause_has_the_same_sentence() -> None:
    assert str(ClientDocumentError("address")) == str(ClientDocumentError("connection")) != ""


@pytest.mark.requirement("AUTH-19")
@pytest.mark.parametrize(
    "text",
    [
        "0.0.0.0",  # noqa: S104  # nobody binds to it here
        "10.0.0.1",
        "100.64.0.1",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.255.254",
        "168.63.129.16",
        "169.254.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.0.192",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:8.8.8.8",
        "::ffff:0:7f00:1",
        "64:ff9b::7f00:1",
        "64:ff9b::808:808",
        "64:ff9b:1::7f00:1",
        "100::1",
        "2001::1",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "2001:2::1",
        "2001:10::1",
        "2001:db8::1",
        "2002:7f00:1::1",
        "2002:808:808::1",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fe80::1%eth0",
        "2606:4700::1%eth0",
        "fec0::1",
        "ff02::1",
        "ff0e::1",
    ],
)
def test_an_address_for_a_special_purpose_is_not_public(text: str) -> None:
    assert not is_public(ip_address(text))


@pytest.mark.requirement("AUTH-19")
@pytest.mark.parametrize(
    "text", ["1.1.1.1", "8.8.8.8", "172.15.0.1", "172.32.0.1", "223.255.255.255", "2606:4700::1111", "2a00:1450::1"]
)
def test_an_address_of_the_internet_is_public(text: str) -> None:
    assert is_public(ip_address(text))


@pytest.mark.requirement("AUTH-19")
@given(st.ip_addresses())
def test_what_the_standard_library_calls_special_is_never_public(address: IPAddress) -> None:
    special = not address.is_global or address.is_multicast or address.is_reserved or address.is_link_local

    assert not (special and is_public(address))


@pytest.mark.requirement("AUTH-19")
@given(
    st.ip_addresses(v=4),
    st.sampled_from(["::", "::ffff:0:0", "::ffff:0:0:0", "64:ff9b::", "64:ff9b:1::", "2002::"]),
)
def test_an_ipv4_address_in_an_ipv6_form_is_never_public(inner: IPv4Address, prefix: str) -> None:
    shift = 80 if prefix == "2002::" else 0

    assert not is_public(IPv6Address(int(IPv6Address(prefix)) | int(inner) << shift))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], None),
        (["public"], None),
        (["max-age=300"], 300),
        (["Public, Max-Age=300"], 300),
        (['max-age="300"'], 300),
        (["max-age=300", "max-age=200"], 200),
        (["max-age=300, no-cache"], 0),
        (["no-store"], 0),
        (["max-age=" + "9" * 5000], 86_400),
        (["max-age=-1", "max-age=", "max-age=1.5", "max-age=²", "max-age", "s-maxage=7"], None),
    ],
)
def test_the_sender_says_for_how_long_a_document_may_be_kept(values: list[str], expected: int | None) -> None:
    assert max_age_s(values) == expected


@given(st.none() | st.integers(0, 10**6))
def test_a_document_is_kept_for_a_minute_at_least_and_a_day_at_most(max_age: int | None) -> None:
    lifetime = lifetime_s(max_age)

    assert 60 <= lifetime <= 86_400
    assert max_age is None or not 60 <= max_age <= 86_400 or lifetime == max_age
