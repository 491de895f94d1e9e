"""What an audit entry holds, and what of it a reader sees."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zkpcp.core import audit
from zkpcp.core.audit import Action, Channel, Entry, Outcome
from zkpcp.core.schemas import Schemas
from zkpcp.errors import CorruptError
from zkpcp.schema_files import load_schemas

ENTRY = Entry(
    id="a1",
    at_ms=1_772_000_000_123,
    action="memory_read",
    channel=Channel.MCP,
    outcome=Outcome.OK,
    principal="human:ada",
    client="dcr_9",
    grant="g1",
    categories=("memory", "memory.sensitive"),
    partitions=("p2", "p1"),
    object_ids=("o1",),
    decrypted=True,
    counts={"pages": 1},
    duration_ms=4,
)


@pytest.fixture(scope="module")
def schemas() -> Schemas:
    return load_schemas()


@pytest.mark.requirement("AUD-03")
def test_an_entry_is_written_as_its_schema_has_it(schemas: Schemas) -> None:
    document = audit.to_json(ENTRY)

    assert schemas.violations("0.3/audit.entry", document) == ()
    assert document["at"] == "2026-02-25T06:13:20.123Z"
    assert document["partitions"] == ["p1", "p2"]


@pytest.mark.requirement("AUD-03")
def test_an_entry_of_nobody_is_valid_too(schemas: Schemas) -> None:
    sweep = Entry(id="a2", at_ms=0, action=Action.RETENTION_SWEEP, channel=Channel.SYSTEM, outcome=Outcome.OK)

    assert schemas.violations("0.3/audit.entry", audit.to_json(sweep)) == ()


@pytest.mark.requirement("AUD-03")
def test_every_named_action_fits_the_schema(schemas: Schemas) -> None:
    actions = [value for name, value in vars(Action).items() if name.isupper()]

    assert len(actions) == len(set(actions)) > 0
    for action in actions:
        assert schemas.violations("0.3/audit.entry", audit.to_json(replace(ENTRY, action=action))) == ()


@pytest.mark.requirement("AUD-04")
@pytest.mark.parametrize(
    "changes",
    [
        {"action": "memory_read: Tax letter 2025"},
        {"object_ids": ("finances/tax.md",)},
        {"object_ids": ("Tax letter",)},
        {"partitions": ("Family matters",)},
        {"categories": ("the query was tax",)},
        {"counts": {"pages about tax": 1}},
        {"grant": "a grant"},
        {"client": "Ada's notebook, the blue one"},
    ],
)
def test_no_member_takes_content(schemas: Schemas, changes: dict[str, object]) -> None:
    entry = replace(ENTRY, **changes)  # type: ignore[arg-type]  # each example names one member

    assert schemas.violations("0.3/audit.entry", audit.to_json(entry))


@pytest.mark.requirement("AUD-06")
def test_the_controller_sees_an_entry_whole() -> None:
    assert audit.for_reader(ENTRY, is_controller=True, readable_categories=(), readable_partitions=()) == ENTRY


@pytest.mark.requirement("AUD-06")
@pytest.mark.parametrize(
    ("categories", "partitions"),
    [(("memory",), ("p1", "p2")), (("memory", "memory.sensitive"), ("p1",)), ((), ())],
)
def test_a_reader_learns_no_ids_of_what_it_may_not_read(
    categories: tuple[str, ...], partitions: tuple[str, ...]
) -> None:
    seen = audit.for_reader(ENTRY, is_controller=False, readable_categories=categories, readable_partitions=partitions)

    assert seen.categories == tuple(sorted(categories))
    assert seen.partitions == tuple(sorted(partitions))
    assert seen.object_ids == ()
    assert seen.counts == {}
    assert seen.id == ENTRY.id


@pytest.mark.requirement("AUD-06")
def test_a_reader_of_everything_an_entry_touches_sees_its_ids() -> None:
    seen = audit.for_reader(
        ENTRY,
        is_controller=False,
        readable_categories={"memory", "memory.sensitive", "profile.core"},
        readable_partitions={"p1", "p2", "p3"},
    )

    assert seen == ENTRY


@pytest.mark.requirement("AUD-06")
def test_an_entry_that_names_no_category_shows_no_ids() -> None:
    entry = replace(ENTRY, categories=(), partitions=())

    seen = audit.for_reader(entry, is_controller=False, readable_categories=("memory",), readable_partitions=("p1",))

    assert seen.object_ids == ()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"null",
        audit.canonical(ENTRY)[:-1],
        audit.canonical(ENTRY).replace(b'"ok"', b'"fine"'),
        audit.canonical(ENTRY).replace(b'"counts":{"pages":1}', b'"counts":{"pages":true}'),
        audit.canonical(ENTRY).replace(b'["p1","p2"]', b'["p2","p1"]'),
        audit.canonical(ENTRY).replace(b".123Z", b".123456Z"),
        audit.canonical(ENTRY).replace(b'{"action"', b'{"a":0,"action"'),
        audit.canonical(ENTRY) + b" ",
    ],
)
def test_a_stored_entry_in_another_form_is_damage(data: bytes) -> None:
    with pytest.raises(CorruptError):
        audit.from_json(data)


def test_a_hash_of_a_wrong_length_is_not_followed() -> None:
    with pytest.raises(CorruptError):
        audit.follow(bytes(31), ENTRY)
