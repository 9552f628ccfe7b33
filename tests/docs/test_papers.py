"""The pages: sections that code cites exist, links lead somewhere, and the tables of codes and rooms are the code's."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.code_tables import PAGES, with_code_tables
from tests.docs.reference_tables import REFERENCE, with_tables
from tests.support.fixtures import ATTACKS
from tests.support.imports import LIBRARY, ONLY_IN, STEPS

from replica_audit.auditing.catalogue import CATALOGUE, FAMILIES
from replica_audit.literals import SEVERITIES, VERDICTS
from replica_audit.report.explain_text import SECTIONS
from replica_audit.snapshot import log_dir_names

ROOT = Path(__file__).parents[2]
ARCHITECTURE = ROOT / "docs" / "architecture.md"
SEMANTICS = (ROOT / "docs" / "semantics.md").read_text(encoding="utf-8")

_LEFT_OUT = {".git", ".venv", ".venv-airflow", "build", "replica-audit-report", "replica-audit-warehouse"}
_CODE = re.compile(r"\b[A-Z]{3,4}(?:-[A-Z]+)+\b")
_SECTION = re.compile(r"\b([A-H])\.(\d+)\b")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def pages() -> Iterator[Path]:
    # What is left out is not entered: another process may be moving a directory there.
    for directory, below, names in os.walk(ROOT):
        below[:] = sorted({*below} - _LEFT_OUT)
        yield from (Path(directory, name) for name in sorted(names) if name.endswith(".md"))


def slugs(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = _FENCED.sub("", path.read_text(encoding="utf-8"))
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in _HEADING.findall(text))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in plain}


def sections() -> set[str]:
    found = (re.match(r"([A-H](?:\.\d+)?)[. ]", heading) for heading in _HEADING.findall(SEMANTICS))
    return {match[1] for match in found if match}


def cited() -> Iterator[tuple[Path, str]]:
    """(file, section) wherever a comment, docstring or text of the code names one."""
    for room in ("lib", "tests", "jobs", "benchmarks"):
        for path in sorted((ROOT / room).rglob("*.py")):
            for found in _SECTION.finditer(path.read_text(encoding="utf-8")):
                yield path, found[0]


def test_the_tables_of_tables_and_columns_are_those_of_the_classes():
    text = REFERENCE.read_text(encoding="utf-8")
    assert with_tables(text) == text, "python -m tests.docs.reference_tables"


def test_every_section_that_is_cited_exists():
    known = sections()
    assert {"A", "B", "C", "D", "E", "F", "G", "H"} <= known
    wrong = [f"{path.relative_to(ROOT)}: {section}" for path, section in cited() if section not in known]
    assert wrong == []
    assert {"A.9", "C.2", "F.0"} <= {*_sections_in(SEMANTICS), *(section for _, section in cited())}
    assert [section for section in _sections_in(SEMANTICS) if section not in known] == []


def _sections_in(text: str) -> list[str]:
    return [found[0] for found in _SECTION.finditer(text)]


@pytest.mark.parametrize("page", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = _FENCED.sub("", page.read_text(encoding="utf-8"))
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        if not re.match(r"[a-z]+:", target) and not (file.exists() and (not anchor or anchor in slugs(file))):
            wrong.append(target)
    assert wrong == []


@pytest.mark.parametrize("page", PAGES)
def test_the_tables_of_codes_are_those_of_the_catalogue(page):
    text = page.read_text(encoding="utf-8")
    assert with_code_tables(text) == text, "python -m tests.docs.code_tables"


def test_each_finding_has_one_row_with_its_severities_and_verdicts():
    found = re.findall(r"^\| ([A-Z]{3,4}(?:-[A-Z]+)+) \|([^|]*)\|([^|]*)\|", SEMANTICS, re.MULTILINE)
    assert sorted(name for name, *_ in found) == sorted(CATALOGUE)
    for name, severity, verdict in found:
        code = CATALOGUE[name]
        assert {word for word in SEVERITIES if re.search(rf"\b{word}\b", severity)} == set(code.severities), name
        assert {word for word in VERDICTS if re.search(rf"\b{word}\b", verdict)} == set(code.verdicts), name


def test_the_rule_book_names_no_code_that_findings_do_not_have():
    named = {code for code in _CODE.findall(SEMANTICS) if code.split("-")[0] in FAMILIES}
    assert sorted(named - set(CATALOGUE)) == []


def modules_named(page: Path) -> list[str]:
    rooms = "|".join(room for room in STEPS if room not in ("", "jobs"))
    return re.findall(rf"`((?:{rooms})/[\w/]+\.py)`", page.read_text(encoding="utf-8"))


def test_modules_and_files_that_pages_name_exist():
    for page in (ROOT / "docs").glob("*.md"):
        assert [name for name in modules_named(page) if not (LIBRARY / name).is_file()] == [], page.name
        named = re.findall(r"`((?:tests|lib|conf|jobs|data)/[\w./*-]+)`", page.read_text(encoding="utf-8"))
        archived = {f"tests/attacks/{path.relative_to(ATTACKS)}" for path in ATTACKS.glob("*")}
        assert [name for name in named if name not in archived and not list(ROOT.glob(name))] == [], page.name
    assert len(modules_named(ARCHITECTURE)) > 20


def test_each_kind_of_file_is_on_the_way_to_its_module():
    text = ARCHITECTURE.read_text(encoding="utf-8")
    text = text[text.index("## From file to module") : text.index("## Changing it")]
    rows = re.findall(r"^\| (`.*?) \| (.*) \|$", text, re.MULTILINE)
    told = {name for files, _ in rows for name in re.findall(r"`([^`]+)`", files)}
    kinds = {*log_dir_names.LOG_DIR_FILES, *log_dir_names.PARTITION_FILES, str(log_dir_names.METADATA_PARTITION)}
    kinds |= {
        f"*.{suffix}"
        for suffix in (*log_dir_names.SEGMENT_SUFFIXES, *log_dir_names.SEGMENT_STATES, "checkpoint", "tmp")
    }
    assert sorted(kinds - told) == []


def test_rooms_and_steps_are_those_that_imports_are_held_to():
    text = ARCHITECTURE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\d) \| .* \|(.*)\|$", text, re.MULTILINE)
    steps = {room: step for room, step in STEPS.items() if room not in ("", "jobs")}
    assert {room: int(step) for room, step, _ in rows} == steps
    special = {(room, package) for room, _, cell in rows for package in re.findall(r"`(\w+)`", cell)}
    assert special == {(room, package) for package, rooms in ONLY_IN.items() for room in rooms}


def test_every_module_that_the_architecture_names_is_there():
    named = set(re.findall(r"`([a-z_]+(?:/[a-z_]+)+\.(?:py|js))`", ARCHITECTURE.read_text(encoding="utf-8")))
    assert len(named) > 40
    places = (ROOT / "lib" / "replica_audit", ROOT)
    assert not [name for name in sorted(named) if not any((place / name).is_file() for place in places)]


def test_every_test_that_the_fault_matrix_names_is_there():
    named = re.findall(r"`(tests/[\w/]+(?:\.py)?)`", (ROOT / "docs" / "faults.md").read_text(encoding="utf-8"))
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_explanations_name_the_section_that_has_the_rule():
    text = (ROOT / "docs" / "semantics.md").read_text(encoding="utf-8")
    codes_of = {
        re.sub(r"[^\w\- ]", "", part.partition("\n")[0].lower()).replace(" ", "-"): set(
            re.findall(r"^\| ([A-Z-]+) \|", part, re.M)
        )
        for part in re.split(r"^## ", text, flags=re.MULTILINE)
    }
    for code in CATALOGUE.values():
        page, _, anchor = SECTIONS[code.family].partition("#")
        assert page == "docs/semantics.md" and code.code in codes_of[anchor], code.code
