"""README and docs: their commands are run and print what they show, and their tables are complete."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.archives import read_directory
from tests.support.planted import write_small
from tests.support.remote_stores import plain_path, put
from tests.support.snapshots import TOPIC_ID, make_uuid

from replica_audit.auditing.catalogue import CATALOGUE
from replica_audit.bronze_tables import BRONZE_TABLES
from replica_audit.cli.commands import COMMANDS
from replica_audit.config import FAIL_LEVELS
from replica_audit.errors import EngineError, InputError, UsageError
from replica_audit.literals import PROTOCOLS, SEVERITIES, VERDICTS
from replica_audit.schema import REPORT_TABLES
from replica_audit.snapshot.remote_store import open_remote_store, read_listings
from replica_audit.snapshot.storage import Snapshot
from replica_audit.text import now_ms

ROOT = Path(__file__).parents[1]
#: In the order in which a reader would type their examples; the first leaves the audit that the others look at.
PAGES = ("README.md", "docs/capture.md", "docs/evidence.md", "docs/reference.md", "docs/operations.md")
TEXTS = {name: (ROOT / name).read_text(encoding="utf-8") for name in PAGES}
TEXT = "\n".join(TEXTS.values())

_BLOCK = re.compile(
    r"^(?:<!-- (?P<note>[^\n]*) -->\n)?```(?P<language>\w*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL
)

#: What differs from run to run, and how the README writes it.
_IDS = ((re.compile(r"\bAudit [0-9a-f]{32} of snapshot [0-9a-f]{32}\b"), "Audit <audit-id> of snapshot <snapshot-id>"),)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the comment above it, its text, and the page and line where it begins."""

    language: str
    note: str
    body: str
    place: str

    @property
    def is_run(self) -> bool:
        return not self.note.startswith("not run: ")


BLOCKS = [
    Block(found["language"], found["note"] or "", found["body"], f"{name}:{text[: found.start('body')].count(chr(10))}")
    for name, text in TEXTS.items()
    for found in _BLOCK.finditer(text)
]
CONSOLES = [block for block in BLOCKS if block.language == "console"]


def steps(block: Block) -> list[tuple[str, list[str]]]:
    """(command, lines shown below it) of a console block; a line that ends in a backslash goes on."""
    found: list[tuple[str, list[str]]] = []
    continued = False
    for line in block.body.splitlines():
        if continued:
            found[-1] = (found[-1][0] + "\n" + line, [])
        elif line.startswith("$ "):
            found.append((line[2:], []))
        else:
            assert found, f"{block.place}: output before the first command"
            found[-1][1].append(line)
        continued = line.endswith("\\")
    return found


def matches(shown: list[str], printed: str) -> bool:
    """True if `printed` is what is shown; a line `...` matches any lines."""
    for pattern, text in _IDS:
        printed = pattern.sub(text, printed)
    parts = [r"(?:[^\n]*\n)*?" if line == "..." else re.escape(line) + r"\n" for line in shown]
    return re.fullmatch("".join(parts), printed) is not None


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A directory that looks like the clone, in which what the commands write does no harm."""
    directory = tmp_path_factory.mktemp("clone")
    for name in ("conf", "data", "docs", "jobs", "README.md"):
        (directory / name).symlink_to(ROOT / name)
    scripts = directory / ".venv" / "bin"
    scripts.mkdir(parents=True)
    for name in ("python", "replica-audit"):
        (scripts / name).write_text(f'#!/bin/sh\nexec "{Path(sys.executable).parent / name}" "$@"\n')
        (scripts / name).chmod(0o755)
    return directory


def test_shell_commands_are_in_blocks_that_are_run_or_say_why_not():
    assert {block.language for block in BLOCKS} == {"console", "bash", "json", "python", "sql", "properties", "yaml"}
    assert all(steps(block) for block in CONSOLES)
    assert len([block for block in CONSOLES if block.is_run]) >= 6
    for block in BLOCKS:
        if block.note:
            assert re.fullmatch(r"not run: .{10,}|variables: [A-Z ]+", block.note), f"{block.place}: {block.note}"


@pytest.mark.spark
def test_the_commands_print_what_is_shown(clone):
    """All console blocks in one shell, one after the other, as a reader would type them."""
    commands = [(block.place, *step) for block in CONSOLES if block.is_run for step in steps(block)]
    mark = "--- end of step"
    script = "".join(f"{command}\nstatus=$?\nprintf '%s\\n' '{mark}'\n(exit $status)\n" for _, command, _ in commands)
    foreign = ("REPLICA_AUDIT_", "SPARK_", "PYSPARK_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
    ran = subprocess.run(
        ["bash", "-c", script],
        cwd=clone, env=kept, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    printed = ran.stdout.split(f"{mark}\n")
    assert len(printed) == len(commands) + 1, ran.stderr
    for (place, command, shown), text in zip(commands, printed, strict=False):
        assert matches(shown, text), f"{place}: {command} printed\n{text}\n{ran.stderr[-2000:]}"
        assert all(len(row) <= 100 for row in text.splitlines()), command


RECIPES = [block for block in BLOCKS if re.fullmatch("variables:.* FROM TO", block.note)]


@pytest.mark.parametrize("recipe", RECIPES, ids=[block.note for block in RECIPES])
def test_the_copying_recipes_copy_everything_in_order(recipe, tmp_path):
    source = write_small(tmp_path / "source", ("orders", ".dotted", "with space")) / "broker-1"
    (source / ".kafka_cleanshutdown").write_text("{}")
    (source / "__cluster_metadata-0").mkdir()
    for name in (f"{0:020d}.log", "leader-epoch-checkpoint", "quorum-state"):
        (source / "__cluster_metadata-0" / name).write_text("metadata")
    (source / "orders-0" / f"{5:020d}.log").write_text("newer")
    target = tmp_path / "a copy" / "broker-1"
    listed = recipe.body.replace("tar --create", f"tee -a '{tmp_path}/order' | tar --create")
    pods = tmp_path / "bin" / "kubectl"
    pods.parent.mkdir()
    pods.write_text('#!/bin/bash\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n')
    pods.chmod(0o755)
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", listed],
        env={**os.environ, "FROM": str(source), "TO": str(target), "PATH": f"{pods.parent}:{os.environ['PATH']}"},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")

    assert read_directory(target) == read_directory(source)
    order = [name.removeprefix("./") for name in (tmp_path / "order").read_text().split("\0") if name]
    assert sorted(order) == sorted(read_directory(source)), "a file was copied twice or not at all"

    def stage(name):
        if name.startswith("__cluster_metadata-0/"):
            return 4
        if "/" not in name:
            return 0
        return 3 if name.endswith("leader-epoch-checkpoint") else 2 if name.endswith(".log") else 1

    assert [stage(name) for name in order] == sorted(stage(name) for name in order)
    assert order.index(f"orders-0/{0:020d}.log") < order.index(f"orders-0/{5:020d}.log")


def test_the_listing_of_a_store_is_read_as_the_store_itself(tmp_path):
    (recipe,) = (block for block in BLOCKS if block.note == "variables: STORE TO")
    store, snapshot = tmp_path / "a store", tmp_path / "snapshot"
    for start, kind, size in ((0, "log", 100), (0, "index", 8), (40, "log", 200)):
        put(store, plain_path(make_uuid(f"segment {start}"), start, kind), b"x" * size)
    snapshot.mkdir()
    places = {"STORE": str(store), "TO": str(snapshot)}
    subprocess.run(["bash", "-euo", "pipefail", "-c", recipe.body], env={**os.environ, **places}, check=True)
    listed, unread = read_listings(Snapshot.open(snapshot))
    found = open_remote_store(str(store))
    # A listing does not say since when a file is where it is.
    known = {place: tuple(one._replace(placed_ms=None) for one in there) for place, there in found.objects.items()}
    assert not unread and listed.objects == known and len(listed.objects[TOPIC_ID, 0]) == 2
    assert abs(listed.listed_ms - now_ms()) < 60_000


def test_examples_of_files_are_read_by_their_parsers():
    from replica_audit.snapshot.leadership_sources import parse_leadership
    from replica_audit.snapshot.manifest import parse_manifest

    leadership, manifest = (block.body for block in BLOCKS if block.language == "json")
    assert parse_leadership(leadership, "leadership.json")[0].leader_id == 1
    assert parse_manifest(manifest, "manifest.json").quiesced is True
    assert isinstance(json.loads(manifest), dict)


@pytest.mark.spark
def test_the_query_finds_what_the_first_audit_found(spark, tmp_path):
    from replica_audit.config import Settings
    from replica_audit.progress import Progress
    from replica_audit.spark.pipeline import run_audit, run_ingest

    (query,) = [block.body for block in BLOCKS if block.language == "sql" and block.is_run]
    assert query.count("replica-audit-warehouse/") == 2
    settings, silent = Settings(warehouse=str(tmp_path), quiet=True), Progress()
    snapshot_id = run_ingest(spark, str(ROOT / "data" / "samples" / "last-replica-standing"), settings, silent)
    run_audit(spark, snapshot_id, settings, silent)
    rows = spark.sql(query.replace("replica-audit-warehouse", str(tmp_path))).collect()
    assert [(row.topic, row.partition, row.code) for row in rows] == [
        ("orders", 0, "HWM-LOSS"), ("orders", 0, "TRN-BELOW-HW"),
    ]  # fmt: skip
    assert rows[0].message.startswith("7 committed records")


def test_properties_for_airflow_are_those_of_spark_submit():
    (properties,) = [block.body for block in BLOCKS if block.language == "properties"]
    name, python = properties.split()
    commands = " ".join(block.body for block in BLOCKS if block.language == "console")
    place = Path(python).parents[1]
    assert f"--conf {name}={python} " in commands and f"tar -xzf - -C {place}" in commands


def test_every_code_is_listed_and_reported_somewhere():
    listed = re.findall(r"\b([A-Z]{3,4}(?:-[A-Z]+)+)\b", "\n".join(_rows("family")))
    assert sorted(listed) == sorted(CATALOGUE)
    sources = (ROOT / "lib").rglob("*.py")
    reported = {code for path in sources for code in re.findall(r'"([A-Z]{3,4}(?:-[A-Z]+)+)"', path.read_text())}
    assert set(CATALOGUE) <= reported


def test_verdicts_severities_statuses_protocols_commands_and_tables_are_told():
    assert [row.split("|")[1].strip() for row in _rows("verdict")] == list(VERDICTS)
    assert all(f"`{name}`" in TEXT for name in (*SEVERITIES, *FAIL_LEVELS, *PROTOCOLS))
    statuses = [row.split("|")[1].strip() for row in _rows("exit status")]
    assert statuses == ["0", "1", "2", "3", "4", "129, 130, 143"]
    assert (UsageError.exit_status, InputError.exit_status, EngineError.exit_status) == (2, 3, 4)
    commands = "\n".join(_rows("command"))
    assert all(re.search(rf"(replica-audit |`){name}\b", commands) for name in COMMANDS)
    from replica_audit.runner.observation_files import TIMELINE_TABLE
    from replica_audit.warehouse.answer_tables import REPORTED_TABLES

    told = set(re.findall(r"`(\w+)`", "".join(row.split("|")[1] for row in _rows("table"))))
    assert told == {*BRONZE_TABLES, *REPORTED_TABLES, TIMELINE_TABLE, "quality", "audits"}
    assert set(REPORTED_TABLES) <= set(REPORT_TABLES)


def test_options_that_are_named_exist():
    from replica_audit.cli.parser import build_parser

    help_text = "".join(
        action.choices[name].format_help()
        for action in build_parser()._subparsers._group_actions
        for name in action.choices
    )
    own = {option for row in _rows("option") for option in re.findall(r"--[a-z-]+", row.split("|")[1])}
    own |= set(re.findall(r"replica-audit [^\n`]*?(--[a-z-]+)", TEXT))
    assert len(own) >= 8
    assert [option for option in sorted(own) if option not in help_text + build_parser().format_help()] == []


def test_the_python_example_finds_the_lost_records():
    (example,) = [block.body for block in BLOCKS if block.language == "python" and block.place.startswith("README")]
    ran = subprocess.run([sys.executable, "-c", example], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout) == (0, "orders 2 93 100 7\n"), ran.stderr


def test_the_readme_is_short_enough_for_somebody_in_an_incident():
    assert len(TEXTS["README.md"].split()) <= 1_500


def _rows(first_heading: str) -> list[str]:
    """Rows of the table whose first heading is this one."""
    found = re.findall(rf"^\| {re.escape(first_heading)} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", TEXT, re.MULTILINE)
    assert len(found) == 1, f"{len(found)} tables with the heading {first_heading}"
    return found[0].splitlines()
