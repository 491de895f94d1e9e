"""What is made of an authorization request before anybody is asked."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkpcp.core.authorize import AuthorizeRequest, Denied, Untrusted, read_authorize, requested_scopes
from zkpcp.core.oauth_params import Params
from zkpcp.core.scopes import OFFLINE_ACCESS, Offer, default_grant, known_scopes
from zkpcp.core.stored import ClientRow
from zkpcp.errors import InvalidInputError

MCP_URL = "https://pcp.example/c/ada/mcp"
CLIENT = ClientRow("ctx", "dcr_1", "App", "dcr", ("https://app.example/cb",), refreshable=False, created_ms=0)
RIGHT = {
    "response_type": "code",
    "client_id": "dcr_1",
    "redirect_uri": "https://app.example/cb",
    "scope": "memory:read",
    "state": "s",
    "code_challenge": "c" * 43,
    "code_challenge_method": "S256",
    "resource": MCP_URL,
}
TEXT = st.characters(codec="utf-8", exclude_characters="\0")
values = st.sampled_from([*RIGHT.values(), "", "plain", "token", "https://evil.example/cb"]) | st.text(max_size=50)
pairs = st.lists(st.tuples(st.sampled_from([*RIGHT, "response_mode", "prompt"]), values), max_size=12)


def read(params: Params, client: ClientRow | None = CLIENT) -> AuthorizeRequest | Untrusted | Denied:
    return read_authorize(params, client, offer=Offer("personal"), mcp_url=MCP_URL)


def test_a_right_request_is_read() -> None:
    assert read(Params(RIGHT.items())) == AuthorizeRequest(
        "dcr_1", "https://app.example/cb", "s", ("memory:read",), "c" * 43
    )


@pytest.mark.requirement("AUTH-21", "AUTH-22", "AUTH-24")
@given(pairs, st.booleans())
def test_whatever_is_sent_a_request_goes_on_only_with_pkce_and_a_registered_redirect(
    sent: list[tuple[str, str]], start_right: bool
) -> None:
    params = Params([*(RIGHT.items() if start_right else ()), *sent])

    match read(params):
        case AuthorizeRequest() as request:
            assert request.redirect_uri in CLIENT.redirect_uris
            assert len(request.code_challenge) == 43
            assert params.one("code_challenge_method") == "S256"
            assert not params.repeats
            assert params.all("resource") in ((), (MCP_URL,))
            assert set(request.scopes) <= set(known_scopes(Offer("personal")))
        case Denied() as denied:
            assert denied.redirect_uri in CLIENT.redirect_uris
        case Untrusted():
            assert params.one("redirect_uri") not in CLIENT.redirect_uris


@given(st.binary(max_size=200))
def test_any_bytes_are_parameters_or_a_typed_refusal(raw: bytes) -> None:
    try:
        params = Params.parse(raw)
    except InvalidInputError:
        return
    assert isinstance(read(params), Untrusted | Denied | AuthorizeRequest)


@pytest.mark.parametrize("raw", [b"code=%ff-secret", b"code=secret%00", b"secret%00=code"])
def test_parameters_that_cannot_be_read_are_not_in_the_exception(raw: bytes) -> None:
    with pytest.raises(InvalidInputError) as caught:
        Params.parse(raw)

    assert caught.value.__context__ is None
    assert "secret" not in str(caught.value)


@given(st.dictionaries(st.text(TEXT, max_size=8), st.text(TEXT, min_size=1, max_size=20), max_size=8))
def test_parameters_are_read_as_they_were_written(sent: dict[str, str]) -> None:
    params = Params.parse(urlencode(sent).encode())

    assert all(params.one(name) == value for name, value in sent.items())
    assert not any(value in repr(params) for value in sent.values() if len(value) > 8)


def test_a_client_that_asks_for_nothing_known_asks_for_the_default_grant() -> None:
    for text in (None, "", "  ", "claudeai", " offline_access"):
        assert requested_scopes(text, Offer("personal"), refreshable=False) == default_grant("personal")


def test_unknown_scopes_and_stray_blanks_are_dropped() -> None:
    asked = requested_scopes(" memory:read  claudeai\nprofile.core:read ", Offer("personal"), refreshable=False)

    assert asked == ("profile.core:read", "memory:read")


def test_a_client_with_the_refresh_grant_asks_to_stay_connected() -> None:
    assert requested_scopes("memory:read", Offer("personal"), refreshable=True) == ("memory:read", OFFLINE_ACCESS)
    assert requested_scopes("memory:read", Offer("personal"), refreshable=False) == ("memory:read",)
