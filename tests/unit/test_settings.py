"""Settings that contradict each other, or what has to hold, stop the server before it starts."""

from __future__ import annotations

import pytest

from zkpcp.bootstrap import site_of
from zkpcp.config import load_settings
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
