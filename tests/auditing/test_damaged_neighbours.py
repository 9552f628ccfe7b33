"""Damage stays where it is: the exit status that follows from it, and a sound partition beside it that is audited in full."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.support.captures import FIXTURES, audit_capture, told
from tests.support.damage import DAMAGE

from replica_audit.config import Settings
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_all

DAMAGED, NEIGHBOUR = "codecs-1", "codecs-7"
#: Files of the log dir that speak of all its partitions: harm to them is harm to both.
SHARED = ("hw-", "same-broker-id")


def _with_neighbour(capture: Path, target: Path) -> Path:
    """The capture, with its sound replica of the partition as another partition on both brokers."""
    shutil.copytree(capture, target)
    sound = FIXTURES / "healthy"
    for log_dir in sorted(path for path in target.glob("broker-*")):
        shutil.copytree(sound / log_dir.name / DAMAGED, log_dir / NEIGHBOUR)
    return target


def _rows(results: Results) -> dict[str, Any]:
    """Rows of the neighbour, without ids."""
    found = {}
    for table in (
        "partitions",
        "replicas",
        "high_watermarks",
        "divergences",
        "truncations",
        "findings",
    ):
        rows = [row for row in results.rows(table) if (row["topic"], row["partition"]) == ("codecs", 7)]
        found[table] = [{name: value for name, value in row.items() if name != "finding_id"} for row in rows]
    return json.loads(json.dumps(found, default=str))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("neighbour") / "sound"
    return _rows(audit_all(str(_with_neighbour(FIXTURES / "corrupted-index-missing", path)), Settings()))


@pytest.mark.parametrize("damage", [name for name in DAMAGE if not name.startswith(SHARED)])
def test_a_sound_partition_beside_the_damage_is_audited_in_full(
    damage: str, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    results = audit_all(str(_with_neighbour(FIXTURES / f"corrupted-{damage}", tmp_path / "snapshot")), Settings())
    assert undisturbed["partitions"] and len(undisturbed["replicas"]) == 2
    assert _rows(results) == undisturbed


#: Worth an alarm (`high` or worse) by what the damage does: everything but what a start of Kafka mends or never had, and
#: what only makes the partition impossible to judge.
UNJUDGED = {
    *("epoch-empty", "hw-beyond-log-end", "last-log-empty", "tail-torn", "tail-torn-5-bytes", "tail-torn-in-header"),
    *("segment-missing-first", "segment-missing-middle", "topic-id-differs"),
}
MENDED = {
    *("epoch-beyond-log-end", "epoch-crlf", "epoch-no-final-newline"),
    *("hw-empty", "hw-missing", "hw-no-entry"),
    *("index-garbage", "index-missing", "index-odd-size", "timeindex-missing"),
    *("odd-dirs", "same-broker-id", "tail-garbage", "tail-zeros"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_the_exit_status_follows_from_the_damage(damage: str) -> None:
    results = audit_capture(f"corrupted-{damage}")["codecs-1"]
    expected = 3 if damage in UNJUDGED else 0 if damage in MENDED else 1
    assert build_verdict(results, "high")["exit_status"] == expected, told(results)
