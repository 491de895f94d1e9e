import dataclasses
from collections.abc import Mapping

import pytest

from zkpcp.core import pages
from zkpcp.core.pages import Author, Head, Limits, Page
from zkpcp.core.paths import parse_path
from zkpcp.errors import ConflictError, CorruptError, InvalidInputError, TooLargeError

NOW_MS = 1_769_852_000_123
NOW = "2026-01-31T09:33:20.123Z"
ANNA = Author("human:anna", "client-1")
AGENT = Author("agent:scribe", "client-2", on_behalf_of="human:anna")


def new(path: str = "notes/a", body: str = "text", frontmatter: Mapping[str, object] | None = None) -> Page:
    return pages.create(pages.draft(path, body, frontmatter), page_id="p-1", now_ms=NOW_MS, author=ANNA)


def change(stored: Page, body: str = "new text", frontmatter: Mapping[str, object] | None = None) -> Page:
    draft = pages.draft(stored.path.value, body, frontmatter)
    return pages.update(stored, draft, now_ms=NOW_MS + 1000, author=AGENT)


def broken(frontmatter: Mapping[str, object]) -> list[str]:
    with pytest.raises(InvalidInputError) as refusal:
        pages.draft("notes/a", "text", frontmatter)
    return [violation.path for violation in refusal.value.violations]


# ------------------------------------------------------------------------------------------------------------ drafts


@pytest.mark.requirement("MEM-05")
@pytest.mark.parametrize(
    ("body", "rest"),
    [
        ("---\ntype: semantic\n---\nrest\n", "rest\n"),
        ("---\r\ntype: semantic\r\n---\r\nrest\r\n", "rest\r\n"),
        ("---\rtype: semantic\r---\rrest", "rest"),
        ("\ufeff---\ntype: semantic\n---\n\ufeffrest", "\ufeffrest"),
        ("--- \t\ntype: semantic\n---  \n\n  rest  ", "\n  rest  "),
        ("---\ntype: semantic\n---", ""),
        ("---\ntype: semantic\n---\n---\nx: y\n---\n", "---\nx: y\n---\n"),
    ],
)
def test_a_block_at_the_start_of_the_body_is_the_frontmatter(body: str, rest: str) -> None:
    draft = pages.draft("notes/a", body, None)

    assert draft.frontmatter == {"type": "semantic"}
    assert draft.body == rest


@pytest.mark.requirement("MEM-05")
@pytest.mark.parametrize("body", ["", "text", "----\na: b\n---\n", " ---\na: b\n---\n", "\n---\na: b\n---\n", "-- -\n"])
def test_a_body_without_a_block_is_all_text(body: str) -> None:
    draft = pages.draft("notes/a", body, None)

    assert draft.frontmatter is None
    assert draft.body == body


@pytest.mark.requirement("MEM-05")
def test_an_empty_block_is_frontmatter_that_says_nothing() -> None:
    draft = pages.draft("notes/a", "---\n---\ntext", None)

    assert draft.frontmatter == {}
    assert draft.body == "text"


@pytest.mark.requirement("MEM-05")
@pytest.mark.parametrize(
    "body",
    [
        "---",
        "---\n",
        "---\ntitle: a\n",
        "---\ntitle: a\n--- \x0b\n",
        "---\n- a list\n---\ntext",
        "---\ntitle: [\n---\ntext",
        "---\ntitle: a\ntitle: b\n---\ntext",
        "---\nunknown: a\n---\ntext",
        "---\n\nbetween two rules\n\n---\n",
    ],
)
def test_a_broken_block_is_refused_and_never_taken_as_text(body: str) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        pages.draft("notes/a", body, None)

    assert refusal.value.violations


@pytest.mark.requirement("MEM-05")
@pytest.mark.parametrize("body", ["---\ntype: semantic\n---\ntext", "\ufeff---\r\n---", "---\n[broken\n---\n"])
@pytest.mark.parametrize("frontmatter", [{}, {"type": "semantic"}])
def test_frontmatter_and_a_block_together_are_refused(body: str, frontmatter: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        pages.draft("notes/a", body, frontmatter)

    assert [violation.path for violation in refusal.value.violations] == ["/body"]


@pytest.mark.parametrize("body", ["---\n\nAfter a rule.\n", "---", "---\n"])
def test_with_explicit_frontmatter_a_body_may_begin_with_a_rule(body: str) -> None:
    page = new(body=body, frontmatter={"type": "semantic"})

    assert pages.parse_stored(page.path, pages.serialize(page)) == page
    assert page.body == body


@pytest.mark.parametrize("body", ["a\x00b", "\ud800", "a\udfffb"])
def test_a_body_that_is_not_text_is_refused(body: str) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        pages.draft("notes/a", body, None)

    assert [violation.path for violation in refusal.value.violations] == ["/body"]


def test_a_body_above_its_limit_is_too_large() -> None:
    limits = Limits(body_bytes=10, frontmatter_bytes=100)

    assert pages.draft("a", "é" * 5, None, limits).body == "é" * 5
    assert pages.draft("a", "---\ntype: semantic\n---\n" + "é" * 5, None, limits).body == "é" * 5
    for body in ("é" * 6, "x" * 11, "x" * 10_000, "---\n---\n" + "x" * 11):
        with pytest.raises(TooLargeError):
            pages.draft("a", body, None, limits)
    with pytest.raises(TooLargeError):
        pages.draft("a", "x" * (2 * 1024 * 1024), None)


def test_frontmatter_above_its_limit_is_too_large_however_it_comes() -> None:
    many = ["a"] * 20_000  # 40 KiB as a client may write it, 100 KiB as it is stored

    with pytest.raises(TooLargeError):
        pages.draft("a", "text", {"x_a": many})
    with pytest.raises(TooLargeError):
        pages.draft("a", "---\nx_a: [" + ",".join(many) + "]\n---\ntext", None)
    with pytest.raises(TooLargeError):
        pages.draft("a", "---\nx_a: " + "a" * 70_000 + "\n---\ntext", None)


@pytest.mark.requirement("MEM-01")
def test_a_draft_for_an_invalid_path_names_the_path() -> None:
    with pytest.raises(InvalidInputError) as refusal:
        pages.draft("../a", "text", None)

    assert [violation.path for violation in refusal.value.violations] == ["/path"]


@pytest.mark.parametrize(
    ("frontmatter", "at"),
    [
        ({"title": ""}, "/frontmatter/title"),
        ({"title": "a" * 513}, "/frontmatter/title"),
        ({"title": 5}, "/frontmatter/title"),
        ({"type": "Semantic"}, "/frontmatter/type"),
        ({"tags": "one"}, "/frontmatter/tags"),
        ({"tags": ["a"] * 65}, "/frontmatter/tags"),
        ({"tags": ["a", ""]}, "/frontmatter/tags/1"),
        ({"tags": ["a" * 65]}, "/frontmatter/tags/0"),
        ({"sensitivity": "secret"}, "/frontmatter/sensitivity"),
        ({"sensitivity": True}, "/frontmatter/sensitivity"),
        ({"partition": "Main"}, "/frontmatter/partition"),
        ({"partition": "a" * 65}, "/frontmatter/partition"),
        ({"lifecycle": "deleted"}, "/frontmatter/lifecycle"),
        ({"confidence": 1.01}, "/frontmatter/confidence"),
        ({"confidence": True}, "/frontmatter/confidence"),
        ({"importance": -1}, "/frontmatter/importance"),
        ({"importance": "1"}, "/frontmatter/importance"),
        ({"valid_from": "2026-02-30"}, "/frontmatter/valid_from"),
        ({"valid_until": 2026}, "/frontmatter/valid_until"),
        ({"expires": "2026-02-03"}, "/frontmatter/expires"),
        ({"source": "chat"}, "/frontmatter/source"),
        ({"source": {"origin": "phone"}}, "/frontmatter/source/origin"),
        ({"source": {"secret": 1}}, "/frontmatter/source/*"),
        ({"derived_from": ["a", "../b"]}, "/frontmatter/derived_from/1"),
        ({"derived_from": [1]}, "/frontmatter/derived_from/0"),
        ({"relations": [{"target": "a"}]}, "/frontmatter/relations/0/rel"),
        ({"relations": [{"rel": "about"}]}, "/frontmatter/relations/0/target"),
        ({"relations": [{"rel": "likes", "target": "a"}]}, "/frontmatter/relations/0/rel"),
        ({"relations": [{"rel": "about", "target": "a", "confidence": 2}]}, "/frontmatter/relations/0/confidence"),
        ({"relations": [{"rel": "about", "target": "a", "secret": 2}]}, "/frontmatter/relations/0/*"),
        ({"secret": 1}, "/frontmatter/*"),
        ({"secret": None}, "/frontmatter/*"),
        ({"X_a": 1}, "/frontmatter/*"),
    ],
)
def test_a_broken_rule_is_named_with_its_field(frontmatter: dict[str, object], at: str) -> None:
    assert broken(frontmatter) == [at]


def test_a_refusal_names_neither_values_nor_foreign_keys() -> None:
    with pytest.raises(InvalidInputError) as refusal:
        pages.draft("a", "secret", {"title": {"secret": 1}, "secret": 1, "tags": [["secret"]], "expires": "secret"})

    assert len(refusal.value.violations) == 4
    assert "secret" not in str([refusal.value.message, *refusal.value.violations])


def test_a_thousand_broken_rules_make_a_short_answer() -> None:
    assert len(broken({"derived_from": ["../a"] * 1000})) == 32


def test_a_null_says_nothing() -> None:
    draft = pages.draft("a", "text", {"title": None, "tags": None, "source": {"origin": None}, "x_a": None})

    assert draft.frontmatter == {"x_a": None}


# ------------------------------------------------------------------------------------------------------------ create


@pytest.mark.requirement("MEM-04", "MEM-10")
def test_a_new_page_is_stamped_by_the_server() -> None:
    page = new(frontmatter={"source": {"origin": "chat", "session": "s"}})

    assert page.id == "p-1"
    assert page.frontmatter["recorded_at"] == page.updated == NOW
    assert page.updated_ms == page.recorded_at_ms == NOW_MS
    assert page.source == {"origin": "chat", "session": "s", "principal": "human:anna", "client": "client-1"}


@pytest.mark.requirement("MEM-09")
def test_what_the_client_says_about_server_keys_is_ignored() -> None:
    claims = {
        "id": "mine",
        "recorded_at": "1999-01-01T00:00:00.000Z",
        "updated": ["not even an instant"],
        "review": {"state": "approved"},
        "source": {"principal": "human:eve", "on_behalf_of": {}, "client": 5, "basis": "observed"},
    }

    created = new(frontmatter=claims)
    updated = change(created, frontmatter={**claims, "title": "other"})

    assert created.frontmatter.keys() == {"id", "title", "source", "recorded_at", "updated"}
    assert created.id == updated.id == "p-1"
    assert created.source == {"principal": "human:anna", "client": "client-1", "basis": "observed"}
    assert updated.source == {
        "principal": "agent:scribe",
        "on_behalf_of": "human:anna",
        "client": "client-2",
        "basis": "observed",
    }
    assert updated.recorded_at_ms == NOW_MS
    assert "review" not in updated.frontmatter


@pytest.mark.parametrize(
    ("body", "title"),
    [
        ("# Boiler\ntext", "Boiler"),
        ("intro\n\n  #\tBoiler ##  \n# Second", "Boiler"),
        ("## Smaller\n#NoSpace\n    # Code\n# Boiler\r\n", "Boiler"),
        ("```sh\n# comment\n~~~\n# comment\n```\n# Boiler", "Boiler"),
        ("~~~\n# comment\n~~~~ \n# Boiler", "Boiler"),
        ("````\n```\n# comment\n````\n# Boiler", "Boiler"),
        ("``` inline ``` code\n# Boiler", "Boiler"),
        ("#  \n# ##\n# Boiler # 9", "Boiler # 9"),
        ("# " + "a" * 600, "a" * 512),
        ("```\n# never closed", "today"),
        ("no heading", "today"),
        ("", "today"),
    ],
)
def test_without_a_title_the_first_heading_is_it_else_the_last_segment(body: str, title: str) -> None:
    assert new("notes/today", body).title == title
    assert new("notes/today", body, {"title": "Given"}).title == "Given"


@pytest.mark.requirement("MEM-21")
def test_a_page_created_under_style_is_sensitive_unless_it_says_otherwise() -> None:
    assert new("style/tone").frontmatter["sensitivity"] == "sensitive"
    assert new("style/tone", frontmatter={"title": "Tone"}).frontmatter["sensitivity"] == "sensitive"
    assert new("style/tone", frontmatter={"sensitivity": None}).frontmatter["sensitivity"] == "sensitive"
    assert new("style/tone", frontmatter={"sensitivity": "normal"}).frontmatter["sensitivity"] == "normal"
    assert "sensitivity" not in new("notes/style").frontmatter
    assert b'\nsensitivity: "sensitive"\n' in pages.serialize(new("style/tone"))


def test_the_partition_is_written_when_given_or_not_main() -> None:
    plain = pages.draft("a", "text", None)
    given = pages.draft("a", "text", {"partition": "main"})

    def partition(draft: pages.Draft, default: str) -> tuple[str, object]:
        page = pages.create(draft, page_id="p", now_ms=NOW_MS, author=ANNA, default_partition=default)
        return page.partition, page.frontmatter.get("partition")

    assert partition(plain, "main") == ("main", None)
    assert partition(given, "main") == ("main", "main")
    assert partition(plain, "family") == ("family", "family")
    assert partition(given, "family") == ("main", "main")


@pytest.mark.parametrize(
    ("page_id", "author", "partition"),
    [
        ("", ANNA, "main"),
        ("a/b", ANNA, "main"),
        ("p", Author("", "c"), "main"),
        ("p", Author("a", "\ud800"), "main"),
        ("p", ANNA, "A"),
    ],
)
def test_what_could_not_be_stored_is_refused_before_it_is_a_page(page_id: str, author: Author, partition: str) -> None:
    draft = pages.draft("a", "text", None)

    with pytest.raises(InvalidInputError):
        pages.create(draft, page_id=page_id, now_ms=NOW_MS, author=author, default_partition=partition)


# ------------------------------------------------------------------------------------------------------------ update


@pytest.mark.requirement("MEM-06")
def test_an_update_keeps_title_sensitivity_and_partition_unless_given() -> None:
    stored = new(frontmatter={"title": "Old", "sensitivity": "sensitive", "partition": "family", "type": "semantic"})

    kept = change(stored, "# New heading", {"tags": ["a"]})
    given = change(stored, frontmatter={"title": "New", "sensitivity": "normal", "partition": "main"})

    assert (kept.title, kept.sensitivity, kept.partition) == ("Old", "sensitive", "family")
    assert (given.title, given.sensitivity, given.partition) == ("New", "normal", "main")


@pytest.mark.requirement("MEM-06")
def test_the_other_client_keys_are_replaced_as_a_set_or_kept_as_a_set() -> None:
    stored = new(frontmatter={"type": "semantic", "tags": ["a"], "x_a": 1, "source": {"origin": "import"}})

    replaced = change(stored, frontmatter={"confidence": 1})
    emptied = change(stored, frontmatter={})
    kept = change(stored)

    assert replaced.frontmatter.keys() == {"id", "title", "confidence", "source", "recorded_at", "updated"}
    assert emptied.frontmatter.keys() == {"id", "title", "source", "recorded_at", "updated"}
    assert kept.frontmatter.keys() == stored.frontmatter.keys()
    assert kept.frontmatter["x_a"] == 1
    assert kept.source["origin"] == "import"
    assert "origin" not in replaced.source


@pytest.mark.parametrize("later_ms", [-1_000_000, -1, 0, 1, 5000])
def test_updated_grows_with_every_version_whatever_the_clock_does(later_ms: int) -> None:
    stored = new()
    draft = pages.draft("notes/a", "text", None)

    page = pages.update(stored, draft, now_ms=NOW_MS + later_ms, author=ANNA)

    assert page.updated_ms == max(NOW_MS + later_ms, NOW_MS + 1)
    assert (page.id, page.recorded_at_ms) == (stored.id, stored.recorded_at_ms)


@pytest.mark.requirement("MEM-02")
def test_a_path_that_differs_only_in_case_is_another_page_s() -> None:
    with pytest.raises(ConflictError):
        pages.update(new("notes/a"), pages.draft("Notes/a", "text", None), now_ms=NOW_MS, author=ANNA)


@pytest.mark.requirement("MEM-07", "MEM-22")
def test_creating_a_sensitive_page_takes_no_right_that_changing_one_takes() -> None:
    normal, sensitive = new(), new(frontmatter={"sensitivity": "sensitive"})
    silent, hiding, showing = (
        pages.draft("notes/a", "text", frontmatter)
        for frontmatter in (None, {"sensitivity": "sensitive"}, {"sensitivity": "normal"})
    )

    assert not any(pages.needs_sensitive_write(None, draft) for draft in (silent, hiding, showing))
    assert [pages.needs_sensitive_write(normal, draft) for draft in (silent, hiding, showing)] == [False, True, False]
    assert all(pages.needs_sensitive_write(sensitive, draft) for draft in (silent, hiding, showing))
    assert [pages.is_sensitivity_change(sensitive, draft) for draft in (silent, hiding, showing)] == [
        False,
        False,
        True,
    ]


def test_a_review_stays_with_the_page_it_is_about() -> None:
    stored = new()
    review = '{"state": "approved", "verified": [{"at": "2026-01-31T09:33:20.123Z", "by": "human:anna"}]}'
    data = pages.serialize(stored).replace(b"---\ntext", f"review: {review}\n---\ntext".encode())
    reviewed = pages.parse_stored(stored.path, data)

    assert change(reviewed, frontmatter={}).frontmatter["review"] == reviewed.frontmatter["review"]


# ------------------------------------------------------------------------------------------------------- stored form


def test_the_stored_file_is_frontmatter_and_the_body_byte_for_byte() -> None:
    page = new(body="\ufeff# Boiler \r\n---\nno final newline  ", frontmatter={"tags": ["#home"]})

    assert (
        pages.serialize(page)
        == (
            '---\nid: "p-1"\ntitle: "a"\ntags: ["#home"]\nsource: {"client": "client-1", "principal": "human:anna"}\n'
            f'recorded_at: "{NOW}"\nupdated: "{NOW}"\n---\n\ufeff# Boiler \r\n---\nno final newline  '
        ).encode()
    )


def stored_with(old: str, changed: str) -> bytes:
    text = pages.serialize(new()).decode()
    assert old in text
    return text.replace(old, changed, 1).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"---\n",
        b"---\n---\ntext",
        b"text",
        b"\xff\xfe",
        pages.serialize(new())[:-9],
        b"\xef\xbb\xbf" + pages.serialize(new()),
        pages.serialize(new()).replace(b"\n", b"\r\n"),
        pages.serialize(new()) + b"\x00",
        pages.serialize(new()) + b"\xff",
        stored_with('id: "p-1"\n', ""),
        stored_with('title: "a"\n', ""),
        stored_with('title: "a"', "title: a"),
        stored_with('title: "a"', 'title: ""'),
        stored_with('title: "a"', 'title: "a"\ntitle: "a"'),
        stored_with('title: "a"', 'title: "a"\nsecret: 1'),
        stored_with('title: "a"', 'title: "a"\ntags: null'),
        stored_with(f'updated: "{NOW}"', 'updated: "2026-01-31T09:33:20Z"'),
        stored_with(f'updated: "{NOW}"', 'updated: "2026-01-31T11:33:20.123+02:00"'),
        stored_with('"client": "client-1", ', ""),
        stored_with("source: ", "source: &a "),
    ],
)
def test_bytes_that_were_never_serialized_are_damage(data: bytes) -> None:
    with pytest.raises(CorruptError) as damage:
        pages.parse_stored(parse_path("notes/a"), data)

    assert damage.value.__context__ is None


def test_values_show_nothing_of_their_content() -> None:
    page = new("secret/path", "secret", {"title": "secret"})
    draft = pages.draft("secret/path", "secret", {"title": "secret"})

    assert not any("secret" in repr(value) for value in (page, draft, pages.head_of(page)))


# ------------------------------------------------------------------------------------------------------------- heads


def test_a_head_holds_what_listing_and_ranking_need() -> None:
    page = new(
        "home/boiler",
        frontmatter={
            "title": "Boiler",
            "type": "procedural",
            "tags": ["home"],
            "lifecycle": "validated",
            "valid_from": "2026-01-01",
            "expires": "2030-01-01T00:00:00+01:00",
            "relations": [{"rel": "supersedes", "target": "home/old"}, {"rel": "about", "target": "home/heat"}],
        },
    )

    head = pages.head_of(page)

    assert head == Head(
        path=parse_path("home/boiler"),
        id="p-1",
        title="Boiler",
        type="procedural",
        tags=("home",),
        lifecycle="validated",
        valid_from="2026-01-01",
        valid_until=None,
        updated_ms=NOW_MS,
        expires_ms=1_893_452_400_000,
        sensitivity="normal",
        partition="main",
        supersedes=("home/old",),
    )
    assert pages.decode_head(pages.encode_head(head)) == head


def test_a_head_knows_when_its_page_is_current_and_when_it_has_expired() -> None:
    head = dataclasses.replace(
        pages.head_of(new()), valid_from="2026-01-31T00:00:00+01:00", valid_until="2026-01-31", expires_ms=NOW_MS
    )
    first_ms, last_ms = 1_769_814_000_000, 1_769_903_999_999

    assert [head.is_current(at) for at in (first_ms - 1, first_ms, last_ms, last_ms + 1)] == [False, True, True, False]
    assert [head.is_expired(NOW_MS + later) for later in (-1, 0, 1)] == [False, True, True]
    assert pages.head_of(new()).is_current(0)
    assert not pages.head_of(new()).is_expired(2**60)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'[1,"a","p","t",null,[],"active",null,null,5,null,"normal","main"]',
        b'[2,"a","p","t",null,[],"active",null,null,5,null,"normal","main",[]]',
        b'[true,"a","p","t",null,[],"active",null,null,5,null,"normal","main",[]]',
        b'[1,"../a","p","t",null,[],"active",null,null,5,null,"normal","main",[]]',
        b'[1,"a","p","t",null,[1],"active",null,null,5,null,"normal","main",[]]',
        b'[1,"a","p","t",null,[],"gone",null,null,5,null,"normal","main",[]]',
        b'[1,"a","p","t",null,[],"active","soon",null,5,null,"normal","main",[]]',
        b'[1,"a","p","t",null,[],"active",null,null,true,null,"normal","main",[]]',
        b'[1,"a","p","t",null,[],"active",null,null,5.0,null,"normal","main",[]]',
        b'[1,"a","p","t",null,[],"active",null,null,5,false,"normal","main",[]]',
        b'[1,"a","p","t",null,[],"active",null,null,5,null,"open","main",[]]',
        b'[1,"a","p","t",null,[],"active",null,null,5,null,"normal","main",[null]]',
        b'[1,"a","p","t",null,[],"active",null,null,' + b"9" * 5000 + b',null,"normal","main",[]]',
    ],
)
def test_bytes_that_are_no_head_are_damage(data: bytes) -> None:
    with pytest.raises(CorruptError) as damage:
        pages.decode_head(data)

    assert damage.value.__context__ is None
