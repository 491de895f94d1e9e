"""Extensions: their names, their published schemas, and what an operator may register (PCP §4.6)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import jsonschema_rs
import pytest

from zkpcp.core import profile
from zkpcp.core.extensions import HANDOFF, KNOWN, Extension, available, extension_of, schema_name, slot_of_stem, stem_of
from zkpcp.core.schemas import JsonObject, JsonValue, Schemas
from zkpcp.core.scopes import Offer, default_grant, effective, known_scopes, scopes_supported
from zkpcp.core.slots import slice_for
from zkpcp.errors import InvalidInputError, UnavailableError
from zkpcp.schema_files import load_schemas

PUBLISHED = [extension for extension in KNOWN.values() if extension.is_profile]
NOW_MS = 1_800_000_000_000
PETS = "com.example.pets"
PETS_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"pcp_version": {}, "updated": {}, "pets": {"type": "array", "items": {"type": "string"}}},
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def schemas() -> Schemas:
    return load_schemas()


def objects(schema: JsonValue) -> Iterator[JsonObject]:
    """Every object schema in a schema."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for member in schema.values():
            yield from objects(member)
    elif isinstance(schema, list):
        for member in schema:
            yield from objects(member)


# ------------------------------------------------------------------------------------------------------------ schemas


@pytest.mark.requirement("PROF-08")
@pytest.mark.parametrize("extension", PUBLISHED, ids=lambda extension: extension.id)
def test_each_namespace_has_a_published_closed_schema(schemas: Schemas, extension: Extension) -> None:
    schema = schemas.raw(schema_name(extension.id))

    jsonschema_rs.meta.validate(schema)
    assert (schema["$schema"], schema["title"]) == ("https://json-schema.org/draft/2020-12/schema", extension.id)
    assert all(part["additionalProperties"] is False for part in objects(schema))
    assert "$ref" not in json.dumps(schema)
    for credential in ("password", "pin", "iban", "account_number", "card", "secret", "token", "ssn"):
        assert not [part for part in objects(schema) if credential in part["properties"]]  # type: ignore[operator]  # each has properties


def test_the_schemas_mark_the_special_categories_that_consent_pages_leave_unticked(schemas: Schemas) -> None:
    marked = {each.id for each in PUBLISHED if schemas.raw(schema_name(each.id)).get("x-special-category") is True}

    assert marked == {each.id for each in PUBLISHED if each.special} == {"pcp.health", "pcp.residency"}


@pytest.mark.parametrize(
    ("namespace", "good", "bad"),
    [
        ("pcp.health", {"blood_type": "0-", "allergies": [{"substance": "nuts"}]}, {"blood_type": "C"}),
        ("pcp.residency", {"citizenships": [{"country": "CH"}]}, {"citizenships": [{"country": "Switzerland"}]}),
        ("pcp.legal", {"documents": [{"kind": "will", "reference": "with the notary"}]}, {"documents": [{}]}),
        ("pcp.family", {"occasions": [{"what": "wedding", "on": "--06-01"}]}, {"occasions": [{"what": "wedding"}]}),
        ("pcp.finance", {"currency": "CHF", "goals": [{"what": "a boat"}]}, {"iban": "CH00"}),
        ("pcp.home", {"routines": [{"what": "water the plants"}]}, {"routines": "water the plants"}),
    ],
)
@pytest.mark.requirement("PROF-03", "PROF-05")
def test_an_extension_is_patched_as_the_profile_is(
    schemas: Schemas, namespace: str, good: JsonObject, bad: JsonObject
) -> None:
    made = profile.update(namespace, None, good, now_ms=NOW_MS, schemas=schemas).profile

    assert made == {"pcp_version": "0.3", **good, "updated": "2027-01-15T08:00:00.000Z"}
    with pytest.raises(InvalidInputError):
        profile.update(namespace, made, bad, now_ms=NOW_MS, schemas=schemas)
    nothing: JsonObject = dict.fromkeys(good)
    assert profile.update(namespace, made, nothing, now_ms=NOW_MS, schemas=schemas).profile is None


# -------------------------------------------------------------------------------------------------------------- names


@pytest.mark.requirement("PROF-06", "PROF-10")
@pytest.mark.parametrize("extension_id", [*KNOWN, PETS, "org.core", "com.health"])
def test_an_extension_has_scopes_and_a_slot_that_nothing_else_has(extension_id: str) -> None:
    everything = Offer("personal", tuple(sorted({*KNOWN, PETS, "org.core", "com.health"})))
    extension = extension_of(extension_id)
    own = {f"{extension.stem}:read", f"{extension.stem}:write"}

    assert slot_of_stem(extension.stem) == extension.slot
    for scope in own:
        assert slice_for([scope]).slots == {extension.slot}
    others = effective(known_scopes(everything), everything) - own
    assert extension.slot not in slice_for(others).slots
    assert own <= known_scopes(everything).keys()


@pytest.mark.requirement("PROF-07")
def test_the_scopes_of_an_extension_that_is_off_count_for_nothing() -> None:
    held = ("profile.core:read", "profile.home:read", "profile.health:read", "ext.handoff:write")

    assert effective(held, Offer("personal")) == {"profile.core:read"}
    assert effective(held, Offer("personal", ("pcp.home",))) == {"profile.core:read", "profile.home:read"}
    assert effective(held, Offer("work", (HANDOFF,))) == {"profile.core:read", "ext.handoff:write"}


def test_no_extension_is_part_of_the_default_grant_and_special_ones_are_sensitive() -> None:
    known = known_scopes(Offer("personal", tuple(sorted((*KNOWN, PETS)))))
    names = (*default_grant("personal"), *scopes_supported("personal"))
    sensitive = {name.rpartition(":")[0] for name, info in known.items() if info.sensitive}

    assert not [name for name in names if name.startswith(("profile.h", "ext."))]
    assert sensitive == {"profile.health", "profile.residency", f"profile.{PETS}", "memory.sensitive"}
    assert len({info.sentence for info in known.values()}) == len(known)


def test_the_scopes_of_a_namespace_follow_from_its_name() -> None:
    assert [stem_of(name) for name in ("profile.core", "profile.team", "pcp.health", PETS)] == [
        "profile.core",
        "profile.team",
        "profile.health",
        f"profile.{PETS}",
    ]


# ------------------------------------------------------------------------------------------------------- registration


def folder(tmp_path: Path, name: str, schema: JsonValue) -> Path:
    tmp_path.joinpath(f"{name}.schema.json").write_text(json.dumps(schema))
    tmp_path.joinpath("notes.txt").write_text("not a schema")
    return tmp_path


def test_a_registered_schema_makes_a_namespace_available(tmp_path: Path) -> None:
    schemas = load_schemas(folder(tmp_path, PETS, PETS_SCHEMA))

    offered = [extension.id for extension in available(schemas.names)]
    assert offered == [*KNOWN, PETS]
    assert [extension.id for extension in available(load_schemas().names)] == [*KNOWN]
    made = profile.update(PETS, None, {"pets": ["Tilly"]}, now_ms=NOW_MS, schemas=schemas).profile
    assert made is not None
    with pytest.raises(InvalidInputError):
        profile.update(PETS, made, {"fish": 1}, now_ms=NOW_MS, schemas=schemas)


@pytest.mark.requirement("PROF-08")
@pytest.mark.parametrize(
    "name", ["pcp.pets", "zkpcp.pets", "profile.core", "pets", "Com.example", "a..b", "x." + "y" * 60]
)
def test_no_schema_can_be_registered_under_a_name_of_ours_or_of_another_form(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnavailableError, match="reverse of a domain"):
        load_schemas(folder(tmp_path, name, PETS_SCHEMA))


@pytest.mark.parametrize(
    ("schema", "rule"),
    [
        ([], "JSON object"),
        ({"type": "array"}, "describe an object"),
        (PETS_SCHEMA | {"additionalProperties": True}, "additionalProperties"),
        (PETS_SCHEMA | {"properties": {"pets": {}}}, "pcp_version"),
        (PETS_SCHEMA | {"allOf": [{"$ref": "https://example.com/pets.json"}]}, "another document"),
        (PETS_SCHEMA | {"required": 7}, "draft 2020-12"),
    ],
)
def test_a_schema_that_breaks_a_rule_stops_the_server_and_names_the_rule(
    tmp_path: Path, schema: JsonValue, rule: str
) -> None:
    with pytest.raises(UnavailableError, match=rule) as refused:
        load_schemas(folder(tmp_path, PETS, schema))

    assert PETS in refused.value.message
    assert "example.com/pets.json" not in refused.value.message


def test_a_folder_that_is_not_there_stops_the_server(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="cannot be read"):
        load_schemas(tmp_path / "nowhere")
