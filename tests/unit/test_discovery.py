"""What a context says about itself, single and among many."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from authlib.oauth2.rfc8414 import AuthorizationServerMetadata, get_well_known_url

from zkpcp.core import discovery
from zkpcp.core.discovery import ContextFacts
from zkpcp.core.schemas import Schemas
from zkpcp.errors import InvalidInputError
from zkpcp.schema_files import load_schemas

SINGLE = ContextFacts(
    handle="ada",
    kind="personal",
    controller_type="human",
    base_url="https://pcp.example",
    documentation_url="https://pcp.example/docs",
    metadata_url="https://pcp.example/metadata",
)
MULTI = replace(SINGLE, base_url="https://pcp.example/c/ada")
LOCAL = replace(SINGLE, base_url="http://127.0.0.1:8787")
WORK = replace(SINGLE, kind="work", controller_type="org", features=("erase_request", "review"))


@pytest.fixture(scope="module")
def schemas() -> Schemas:
    return load_schemas()


@pytest.mark.requirement("DISC-02", "DISC-03", "DISC-04", "DISC-12")
@pytest.mark.parametrize("facts", [SINGLE, MULTI, LOCAL, WORK])
def test_a_context_document_is_valid(schemas: Schemas, facts: ContextFacts) -> None:
    document = discovery.context_document(facts)

    assert schemas.violations("0.3/discovery", document) == ()
    assert document["pcp_version"] == "0.3"
    assert document["controller_type"] == facts.controller_type
    assert "sse_endpoint" not in document


@pytest.mark.requirement("DISC-02")
def test_the_discovery_schema_is_closed(schemas: Schemas) -> None:
    document = discovery.context_document(SINGLE)

    assert schemas.violations("0.3/discovery", {**document, "owner": "Ada"})
    assert schemas.violations("0.3/discovery", {**document, "controller_type": "org"})
    assert schemas.violations("0.3/discovery", {**document, "conformance": ["P"]})


@pytest.mark.requirement("DISC-09", "DISC-10", "DISC-11")
@pytest.mark.parametrize("facts", [SINGLE, MULTI, LOCAL])
def test_context_document_and_metadata_name_each_other(facts: ContextFacts) -> None:
    document = discovery.context_document(facts)
    resource = discovery.protected_resource_metadata(facts, ["memory:read"])
    server = discovery.authorization_server_metadata(facts, ["memory:read"])

    assert document["mcp_endpoint"] == resource["resource"] == discovery.mcp_url(facts)
    assert document["resource_metadata"] == discovery.prm_url(facts)
    assert resource["authorization_servers"] == [document["authorization_server"]]
    assert server["issuer"] == document["authorization_server"] == discovery.base(facts)


@pytest.mark.requirement("DISC-01")
def test_well_known_urls_of_a_single_context_stand_at_the_origin() -> None:
    assert discovery.context_document_url(SINGLE) == "https://pcp.example/.well-known/pcp.json"
    assert discovery.prm_url(SINGLE) == "https://pcp.example/.well-known/oauth-protected-resource/mcp"
    assert discovery.as_metadata_url(SINGLE) == "https://pcp.example/.well-known/oauth-authorization-server"


@pytest.mark.requirement("DISC-01")
def test_well_known_urls_of_one_among_many_keep_its_path() -> None:
    assert discovery.context_document_url(MULTI) == "https://pcp.example/c/ada/.well-known/pcp.json"
    assert discovery.prm_url(MULTI) == "https://pcp.example/.well-known/oauth-protected-resource/c/ada/mcp"
    assert discovery.as_metadata_url(MULTI) == "https://pcp.example/.well-known/oauth-authorization-server/c/ada"


@pytest.mark.parametrize("facts", [SINGLE, MULTI])
def test_an_independent_reader_accepts_the_authorization_server_metadata(facts: ContextFacts) -> None:
    metadata = discovery.authorization_server_metadata(facts, ["memory:read"])

    AuthorizationServerMetadata(metadata).validate()  # type: ignore[no-untyped-call]  # authlib annotates in part
    url = get_well_known_url(metadata["issuer"], external=True)  # type: ignore[no-untyped-call]  # authlib, as above
    assert url == discovery.as_metadata_url(facts)
    assert metadata["token_endpoint_auth_methods_supported"] == ["none"]
    assert metadata["code_challenge_methods_supported"] == ["S256"]
    assert metadata["authorization_response_iss_parameter_supported"] is True


def test_offline_access_is_named_by_the_authorization_server_alone() -> None:
    assert discovery.authorization_server_metadata(SINGLE, ["memory:read"])["scopes_supported"] == [
        "memory:read",
        "offline_access",
    ]
    assert discovery.protected_resource_metadata(SINGLE, ["memory:read"])["scopes_supported"] == ["memory:read"]


@pytest.mark.requirement("DISC-07")
def test_a_host_of_many_contexts_names_none_of_them() -> None:
    root = discovery.root_document(
        context_url_template="https://pcp.example/c/{context}", documentation_url="https://pcp.example/docs"
    )

    assert root == {
        "pcp_version": "0.3",
        "multi_context": True,
        "context_url_template": "https://pcp.example/c/{context}",
        "documentation": "https://pcp.example/docs",
    }


@pytest.mark.requirement("DISC-06")
def test_the_handle_shows_in_urls_only() -> None:
    document = discovery.context_document(MULTI)

    rest = {name: value for name, value in document.items() if not str(value).startswith("https://")}
    assert '"ada' not in json.dumps(rest)


@pytest.mark.requirement("DISC-05", "DISC-14")
def test_nothing_is_claimed_without_export() -> None:
    assert discovery.context_document(SINGLE)["export"] is False
    assert discovery.context_document(SINGLE)["conformance"] == []
    with pytest.raises(InvalidInputError):
        replace(SINGLE, conformance=("P",))


def test_an_organization_that_controls_a_context_is_named_among_its_readers() -> None:
    encryption = discovery.context_document(WORK)["encryption"]

    assert isinstance(encryption, dict)
    assert encryption["readable_by"] == ["org", "principals", "grants"]


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("handle", "Ada"),
        ("handle", "a/b"),
        ("base_url", "https://pcp.example/"),
        ("base_url", "https://PCP.example"),
        ("base_url", "https://pcp.example:443"),
        ("base_url", "ftp://pcp.example"),
        ("base_url", "https://user@pcp.example"),
        ("base_url", "https://pcp.example/c/eve"),
        ("base_url", "https://pcp.example/other"),
        ("base_url", "https://pcp.example?x"),
        ("controller_type", "org"),
        ("features", ("telepathy",)),
    ],
)
def test_facts_that_clients_could_not_compare_are_refused(member: str, value: object) -> None:
    with pytest.raises(InvalidInputError) as caught:
        replace(SINGLE, **{member: value})  # type: ignore[arg-type]  # the wrong type is part of the example

    assert [violation.path for violation in caught.value.violations] == [member]
