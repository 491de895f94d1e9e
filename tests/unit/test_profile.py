"""A profile changes by merge patch, or not at all."""

from __future__ import annotations

import copy

import pytest

from zkpcp.core import profile
from zkpcp.core.schemas import JsonObject, JsonValue, Schemas
from zkpcp.errors import CorruptError, InvalidInputError, Violation
from zkpcp.schema_files import load_schemas

NOW_MS = 1_772_000_000_123
NOW = "2026-02-25T06:13:20.123Z"
SECRET = "MARKER-4711"


@pytest.fixture(scope="module")
def schemas() -> Schemas:
    return load_schemas()


def patched(schemas: Schemas, current: JsonObject | None, patch: JsonValue) -> profile.Updated:
    return profile.update("profile.core", current, patch, now_ms=NOW_MS, schemas=schemas)


def refused(schemas: Schemas, patch: JsonValue, namespace: str = "profile.core") -> tuple[Violation, ...]:
    with pytest.raises(InvalidInputError) as caught:
        profile.update(
            namespace, {"pcp_version": "0.3", "name": "Ada", "updated": NOW}, patch, now_ms=1, schemas=schemas
        )
    return caught.value.violations


@pytest.mark.requirement("PROF-01", "PROF-04")
def test_a_first_patch_makes_a_valid_profile_with_the_members_of_the_server(schemas: Schemas) -> None:
    full: JsonObject = {
        "name": "Ada Okonkwo",
        "preferred_name": "Ada",
        "pronouns": "she/her",
        "languages": [{"code": "de-CH", "proficiency": "native", "contexts": ["family"]}, {"code": "en"}],
        "locale": "de-CH",
        "timezone": "America/Argentina/Ushuaia",
        "location": {"city": "Bern", "country": "CH"},
        "communication": {"tone": "plain", "verbosity": "concise", "formatting": "no tables"},
        "work": {"role": "engineer", "organization": "Aare Works", "field": "bridges", "context": "site visits"},
        "interests": ["bees"],
        "ai_instructions": "Ask before assuming.",
    }

    updated = patched(schemas, None, full)

    assert updated.profile == {"pcp_version": "0.3", **full, "updated": NOW}
    assert schemas.violations("0.3/profile.core", updated.profile) == ()
    assert updated.changed == tuple(sorted(f"/{member}" for member in full))


@pytest.mark.requirement("PROF-02")
def test_a_team_profile_has_its_own_schema(schemas: Schemas) -> None:
    patch: JsonObject = {
        "name": "Bridges",
        "members": [{"principal": "human:ada", "role": "lead"}],
        "glossary": [{"term": "span", "meaning": "what lies between two piers"}],
    }

    updated = profile.update("profile.team", None, patch, now_ms=NOW_MS, schemas=schemas)

    assert updated.profile is not None
    assert schemas.violations("0.3/profile.team", updated.profile) == ()
    assert refused(schemas, {"members": [{"principal": "Ada"}]}, "profile.team")[0].path == "/members/0/principal"


@pytest.mark.requirement("PROF-03")
@pytest.mark.parametrize(
    ("patch", "path"),
    [
        ({"name": None, "locale": "en"}, "/name"),
        ({"name": ""}, "/name"),
        ({"name": 7}, "/name"),
        ({"nickname": SECRET}, ""),
        ({"locale": f"en_{SECRET}"}, "/locale"),
        ({"timezone": "../etc/passwd"}, "/timezone"),
        ({"location": {"country": "ch"}}, "/location/country"),
        ({"location": {"street": SECRET}}, "/location"),
        ({"languages": [{"code": "en", "proficiency": SECRET}]}, "/languages/0/proficiency"),
        ({"languages": [{"proficiency": "native"}]}, "/languages/0/code"),
        ({"communication": {"verbosity": SECRET}}, "/communication/verbosity"),
        ({"interests": ["bees", None]}, "/interests/1"),
        ({"interests": [SECRET] * 257}, "/interests"),
        ({"ai_instructions": "x" * 32_769}, "/ai_instructions"),
        ({"work": {"role": "\ud800"}}, ""),
        ([SECRET], ""),
        (SECRET, ""),
    ],
)
def test_an_invalid_result_names_the_field_and_the_rule_but_no_value(
    schemas: Schemas, patch: JsonValue, path: str
) -> None:
    violations = refused(schemas, patch)

    assert path in {violation.path for violation in violations}
    assert all(violation.message and SECRET not in f"{violation.path}{violation.message}" for violation in violations)


def test_rules_are_said_in_plain_words(schemas: Schemas) -> None:
    patch: JsonObject = {
        "name": 7,
        "nickname": "x",
        "timezone": "Bern Time",
        "communication": {"verbosity": "loud"},
        "pronouns": "x" * 65,
    }

    rules = {violation.path: violation.message for violation in refused(schemas, patch)}

    assert rules["/name"] == "must be a text"
    assert rules["/communication/verbosity"] == "must be one of: minimal, concise, balanced, detailed"
    assert rules["/pronouns"] == "must have at most 64 characters"
    assert rules["/timezone"].startswith("must be an IANA time zone name")
    assert rules[""].startswith("has a member it must not have; its members are: pcp_version, name,")


@pytest.mark.requirement("PROF-03")
def test_an_invalid_patch_leaves_the_stored_profile_as_it_was(schemas: Schemas) -> None:
    current: JsonObject = {"pcp_version": "0.3", "name": "Ada", "location": {"city": "Bern"}, "updated": NOW}
    before = copy.deepcopy(current)

    with pytest.raises(InvalidInputError):
        patched(schemas, current, {"location": {"city": None, "country": "Switzerland"}, "name": "Eve"})

    assert current == before


@pytest.mark.requirement("PROF-05")
def test_a_profile_without_members_of_the_client_is_no_profile(schemas: Schemas) -> None:
    current: JsonObject = {"pcp_version": "0.3", "name": "Ada", "locale": "en", "updated": NOW}

    assert patched(schemas, current, {"name": None, "locale": None}) == profile.Updated(None, ("/locale", "/name"))
    assert patched(schemas, None, {}) == profile.Updated(None, ())
    assert patched(schemas, None, {"updated": NOW, "pcp_version": "0.3"}).profile is None


def test_a_client_may_send_back_what_it_read(schemas: Schemas) -> None:
    current: JsonObject = {"pcp_version": "0.3", "name": "Ada", "updated": "2020-01-01T00:00:00.000Z"}

    updated = patched(schemas, current, {**current, "pcp_version": "9", "updated": None})

    assert updated.profile == {"pcp_version": "0.3", "name": "Ada", "updated": NOW}
    assert updated.changed == ()


def test_only_members_that_differ_are_changed(schemas: Schemas) -> None:
    current: JsonObject = {"pcp_version": "0.3", "name": "Ada", "interests": ["bees"], "locale": "en", "updated": NOW}

    updated = patched(
        schemas, current, {"name": "Ada", "interests": ["bees", "maps"], "locale": None, "pronouns": None}
    )

    assert updated.changed == ("/interests", "/locale")


@pytest.mark.requirement("PROF-08")
@pytest.mark.parametrize(
    "namespace", ["pcp.core", "pcp.unheard", "com.example.pets", "profile", "profile.core ", "", "0.3/profile.core"]
)
def test_a_namespace_without_a_published_schema_takes_no_data(schemas: Schemas, namespace: str) -> None:
    assert [violation.path for violation in refused(schemas, {"name": "x"}, namespace)] == ["/namespace"]


def test_a_patch_may_not_nest_without_end(schemas: Schemas) -> None:
    deep: JsonValue = "x"
    for _ in range(100_000):
        deep = {"work": deep}

    assert "nest" in refused(schemas, deep)[0].message


@pytest.mark.parametrize(
    "data", [b"", b"null", b"[]", b'{"name": "Ada"}', b'{"a":1,"a":2}', b'{"a":NaN}', b"\xff", b"[" * 100_000]
)
def test_stored_bytes_in_another_form_are_damage(data: bytes) -> None:
    with pytest.raises(CorruptError):
        profile.parse_stored(data)
