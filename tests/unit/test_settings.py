"""Settings that contradict each other, or what has to hold, stop the server before it starts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkpcp.bootstrap import site_of
from zkpcp.config import Settings, load_settings
from zkpcp.errors import UnavailableError


@pytest.mark.requirement("AUTH-05")
@pytest.mark.parametrize("url", ["http://memory.example", "http://192.0.2.1:8765", "ftp://memory.example", "memory"])
@pytest.mark.parametrize("layout", ["paths", "hosts"])
def test_a_public_address_is_https_unless_it_is_this_computer(url: str, layout: str) -> None:
    with pytest.raises(UnavailableError, match="ZKPCP_PUBLIC_URL"):
        load_settings(public_url=url, layout=layout)


def test_every_layout_makes_its_site() -> None:
    assert site_of(load_settings()).base_url("me") == "http://127.0.0.1:8765/c/me"
    single = load_settings(layout="single", single_handle="me", public_url="https://me.example")
    assert site_of(single).base_url("me") == "https://me.example"
    hosts = load_settings(layout="hosts", public_url="https://Memory.example:8443")
    assert site_of(hosts).base_url("me") == "https://me.memory.example:8443"
    here = load_settings(layout="hosts", public_url="http://localhost:8765")
    assert site_of(here).base_url("me") == "http://me.localhost:8765"
    assert site_of(load_settings()).client_documents
    assert not site_of(load_settings(client_documents=False)).client_documents


@pytest.mark.parametrize(
    "url", ["", "http://127.0.0.1:8765", "https://192.0.2.7", "https://[2001:db8::a]", "https://x.7"]
)
def test_host_names_for_contexts_need_a_name_to_stand_below(url: str) -> None:
    with pytest.raises(UnavailableError, match="layout hosts"):
        load_settings(layout="hosts", public_url=url)


@pytest.mark.requirement("AUTH-20")
@pytest.mark.parametrize("scheme", ["javascript", "data", "http", "https", "file", "Cursor", "", "a b", "cursor:"])
def test_no_scheme_that_a_browser_runs_can_be_listed(scheme: str) -> None:
    with pytest.raises(UnavailableError, match="ZKPCP_REDIRECT_SCHEMES"):
        load_settings(redirect_schemes=("cursor", scheme))


@pytest.mark.parametrize("limits", ["memory", "database", "redis://:p@h:1/0", "rediss://h:1", "valkey://h:1"])
def test_attempts_are_counted_in_one_of_these_places(limits: str) -> None:
    assert "p@h" not in repr(load_settings(limits=limits))


@pytest.mark.parametrize("limits", ["", "disk", "memcached://h:1", "http://h"])
def test_attempts_are_counted_nowhere_else(limits: str) -> None:
    with pytest.raises(UnavailableError, match="ZKPCP_LIMITS"):
        load_settings(limits=limits)


SETTINGS = tuple(f"ZKPCP_{name.upper()}" for name in Settings.model_fields)
# The environment takes no NUL and no lone surrogate.
WORDS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=40)


@pytest.mark.parametrize("name", ["ZKPCP_ALLOWED_ORIGINS", "ZKPCP_REDIRECT_SCHEMES"])
@pytest.mark.parametrize("value", ["http://localhost:6274", "[", '{"a": 1}', "3", '"one"', "[" * 5000])
def test_a_list_that_is_not_json_is_named_with_what_it_has_to_be(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)

    with pytest.raises(UnavailableError, match=f"{name}: must be a JSON list"):
        load_settings()


def test_a_list_in_json_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZKPCP_ALLOWED_ORIGINS", '["http://localhost:6274", "https://a.example"]')

    assert load_settings().allowed_origins == ("http://localhost:6274", "https://a.example")


@pytest.mark.parametrize("name", SETTINGS)
@given(value=WORDS | st.from_regex(r"[\[{\"0-9-][\[\]{}\",:a-z0-9.-]{0,20}", fullmatch=True))
def test_whatever_a_setting_says_the_answer_is_a_value_or_the_name_and_the_rule(name: str, value: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(name, value)
        try:
            load_settings()
            said = None
        except UnavailableError as error:
            said = error.message
    assert said is None or ("ZKPCP_" in said and (len(value) < 4 or value not in said))
