"""The Markdown says what the code does: names, links, commands, settings, lifetimes, columns.

``python tests/unit/test_docs.py`` writes the table of columns in threat-model/metadata.md anew.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from zkpcp.cli.commands import app
from zkpcp.config import Settings
from zkpcp.core import grants
from zkpcp.core.discovery import ContextFacts, context_document
from zkpcp.http.mcp.tools.catalog import tool_catalog
from zkpcp.schema_files import load_schemas
from zkpcp.storage.schema import TABLES
from zkpcp.testing import CountingEntropy, FixedClock, MemoryStore
from zkpcp.usecases.services import Services
from zkpcp.vault.secrets import CHEAPEST

ROOT: Final = Path(__file__).resolve().parents[2]
THREATS: Final = ROOT / "threat-model"
METADATA: Final = THREATS / "metadata.md"
README: Final = (ROOT / "README.md").read_text("utf-8")
PAGES: Final = sorted(
    path
    for pattern in ("*.md", "threat-model/**/*.md", "schemas/**/*.md", "bench/**/*.md")
    for path in ROOT.glob(pattern)
)
CITING: Final = [ROOT / "README.md", *sorted(THREATS.rglob("*.md"))]
BOUNDARIES: Final = [THREATS / f"{name}.md" for name in ("storage", "oauth", "mcp", "browser")]

BEGIN, END = "<!-- begin: tables -->\n", "<!-- end: tables -->\n"
# By the name of the column. Any other counts as readable, so that a new one is never called safe by accident.
CIPHERTEXT: Final = frozenset({"wrapped", "sealed", "head", "terms", "anchor"})
KEYED_IMAGES: Final = frozenset({"lookup_id", "tag"})

_CITED: Final = re.compile(r"`((?:zkpcp|tests|schemas|bench)/[\w./-]+)(?:(::?)(\w+))?`")
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}


def without_code(text: str) -> str:
    return re.sub(r"```.*?```", "", re.sub(r"^    .*$", "", text, flags=re.MULTILINE), flags=re.DOTALL)


@cache
def anchors(path: Path) -> frozenset[str]:
    headings = re.findall(r"^#+ (.+)$", without_code(path.read_text("utf-8")), flags=re.MULTILINE)
    return frozenset(re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings)


@cache
def names_in(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text("utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))


def kept_as(column: str) -> str:
    if column in CIPHERTEXT:
        return "ciphertext"
    return "keyed image" if column in KEYED_IMAGES else "**readable**"


def tables_page() -> str:
    lines: list[str] = []
    for table, columns in TABLES.items():
        lines += [f"### `{table}`", "", "| column | kept as | what it is |", "|---|---|---|"]
        lines += [f"| `{name}` | {kept_as(name)} | {meaning} |" for name, meaning in columns.items()]
        lines.append("")
    return "\n".join(lines)


def rendered_metadata() -> str:
    text = METADATA.read_text("utf-8")
    return text[: text.index(BEGIN) + len(BEGIN)] + "\n" + tables_page() + "\n" + text[text.index(END) :]


def duration_s(text: str) -> int:
    found = re.match(r"(\d+) (second|minute|hour|day)", text)
    assert found is not None, text
    return int(found[1]) * _SECONDS[found[2]]


def table_of(section: str) -> dict[str, str]:
    """The first two columns of the first table below a heading of the README."""
    below = README.split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in below.splitlines() if line[:1] == "|"]
    return {row[0].strip("`"): row[1] for row in rows[2:]}


def written_default(name: str, default: object) -> str:
    if name == "data_dir":
        return "`~/.local/share/zkpcp`"
    if isinstance(default, bool):
        return f"`{default}`".lower()
    if isinstance(default, tuple):
        return f"`{json.dumps(default)}`"
    return {"": "empty", "None": "none"}.get(str(default), f"`{default}`")


def commands() -> Iterator[list[str]]:
    for match in re.finditer(r"(?:^    (?:ZKPCP_\w+=\S+ )?|`)zkpcp (\w[^`\n]*)", README, flags=re.MULTILINE):
        yield match[1].split()


# ------------------------------------------------------------------------------------------------- links and citations


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading_that_are_there(page: Path) -> None:
    for target in _LINK.findall(without_code(page.read_text("utf-8"))):
        if target.startswith(("https://", "http://")):
            continue
        name, _, anchor = target.partition("#")
        linked = (page.parent / name).resolve() if name else page
        assert linked.is_file(), target
        assert not anchor or anchor in anchors(linked), target


@pytest.mark.parametrize("page", CITING, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_function_and_test_that_is_cited_exists(page: Path) -> None:
    for file, _, name in _CITED.findall(page.read_text("utf-8")):
        path = ROOT / file
        assert path.exists(), file
        assert not name or name in names_in(path), f"{file}:{name}"


def test_every_threat_has_a_number_of_its_own_and_a_test() -> None:
    numbers: Counter[str] = Counter()
    for page in BOUNDARIES:
        for threat in page.read_text("utf-8").split("\n## ")[1:]:
            number = re.match(r"T-\d\d ", threat)
            assert number is not None, threat[:40]
            numbers[number[0]] += 1
            assert re.search(r"\*Test\.\* `tests/[\w/]+\.py::test_\w+`", threat), number[0]

    assert numbers.most_common(1)[0][1] == 1


# ------------------------------------------------------------------------------------------------------------- custody


@pytest.mark.requirement("KEY-01")
def test_every_column_of_the_database_is_in_the_page_on_metadata() -> None:
    assert METADATA.read_text("utf-8") == rendered_metadata(), "run: python tests/unit/test_docs.py"


@pytest.mark.requirement("KEY-01")
def test_only_what_is_sealed_or_wrapped_is_called_ciphertext() -> None:
    for columns in TABLES.values():
        for name, meaning in columns.items():
            if kept_as(name) == "ciphertext":
                assert re.search(r"\b(sealed|wrapped)\b", meaning), name


@pytest.mark.requirement("KEY-01")
def test_the_custody_that_is_declared_is_the_one_that_is_described() -> None:
    facts = ContextFacts(
        handle="ada",
        kind="personal",
        controller_type="human",
        base_url="https://pcp.example/c/ada",
        documentation_url="https://pcp.example/docs",
        metadata_url="https://pcp.example/docs/metadata",
    )

    encryption = context_document(facts)["encryption"]

    assert isinstance(encryption, dict)
    assert (encryption["custody"], encryption["readable_by"]) == ("user", ["principals", "grants"])
    assert "user custody" in README
    assert sum(bool(re.match(r"u[1-6]-(?!to-)", heading)) for heading in anchors(THREATS / "claims.md")) == 6


@pytest.mark.requirement("KEY-15")
def test_what_is_not_protected_stands_first_and_the_readme_leads_there() -> None:
    page = (THREATS / "README.md").read_text("utf-8")
    first = page.split("\n## ")[1]

    assert first.startswith("What it does not protect against\n")
    assert "threat-model/README.md#what-it-does-not-protect-against" in README.split("\n## ", 1)[0]
    for subject in (
        "changed code",
        "during a request",
        "What an app was allowed to read",
        "access patterns",
        "weak passphrase",
        "Roll-back",
        "Denial of service",
        "Metadata",
        "TLS terminators",
        "CPython",
    ):
        assert subject in first, subject


# ---------------------------------------------------------------------------------------------------------- the README


@pytest.mark.requirement("AUTH-45")
def test_the_lifetimes_in_the_readme_are_those_of_the_code() -> None:
    documented = {what: duration_s(lasts) for what, lasts in table_of("Lifetimes").items()}

    assert documented == {
        "authorization code": grants.CODE_LIFETIME_S,
        "request on the consent page": grants.PENDING_AUTHORIZATION_S,
        "access token": grants.ACCESS_LIFETIME_S,
        "refresh token": grants.GRANT_IDLE_LIFETIME_S,
        "grant without use": grants.GRANT_IDLE_LIFETIME_S,
        "session without use": grants.SESSION_IDLE_S,
        "session in all": grants.SESSION_LIFETIME_S,
    }
    assert documented["grant without use"] <= 90 * 86_400


def test_the_readme_lists_every_setting_with_its_default_and_no_other() -> None:
    expected = {
        f"ZKPCP_{name.upper()}": written_default(name, field.default) for name, field in Settings.model_fields.items()
    }

    assert table_of("Settings") == expected
    assert set(re.findall(r"ZKPCP_[A-Z_]+", README)) == set(expected)


def test_every_command_in_the_readme_exists_with_its_options() -> None:
    found = list(commands())
    for words in found:
        named: list[str] = []
        while len(named) < 2 and len(words) > len(named) and re.fullmatch(r"[a-z]+", words[len(named)]):
            named.append(words[len(named)])
        help_text = CliRunner().invoke(app, [*named, "--help"])
        assert help_text.exit_code == 0, named
        for option in (word for word in words if word.startswith("--")):
            assert option in help_text.output, (named, option)

    assert {tuple(words[:1]) for words in found} >= {("init",), ("serve",), ("recover",), ("grant",)}


def test_every_make_target_in_the_readme_exists() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for target in re.findall(r"(?:^    |`)make ([a-z]+)", README, flags=re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_the_readme_lists_the_tools_that_are_served() -> None:
    services = Services(
        store=MemoryStore(),
        clock=FixedClock(0),
        entropy=CountingEntropy(),
        schemas=load_schemas(),
        argon2=CHEAPEST,
        argon2_floor=CHEAPEST,
    )
    served = {tool["name"] for tool in tool_catalog(services).listing(None) if isinstance(tool, dict)}

    assert set(table_of("Tools")) == served


def test_the_map_in_the_readme_names_every_part_of_the_package() -> None:
    block = README.split("\n## Map\n", 1)[1]
    parts = {
        path.name + ("/" if path.is_dir() else "")
        for path in (ROOT / "zkpcp").iterdir()
        if not path.name.startswith(("_", "."))
    }

    assert parts <= set(re.findall(r"^      ([\w.]+/?) ", block.split("    zkpcp/\n", 1)[1], flags=re.MULTILINE))


if __name__ == "__main__":
    METADATA.write_text(rendered_metadata(), "utf-8")
