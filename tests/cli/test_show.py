"""`show` on the sample directories: the expected answers, without Spark, in text that fits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replica_audit.auditing.catalogue import VERDICTS
from replica_audit.cli.main import main
from replica_audit.reporting.layout import WIDTH

SAMPLES = Path(__file__).parents[2] / "data" / "samples"
PARTITIONS = [
    (path.parent.name, name)
    for path in sorted(SAMPLES.glob("*/expected.json"))
    for name in json.loads(path.read_text())["partitions"]
]


def test_there_are_samples() -> None:
    assert len({sample for sample, _ in PARTITIONS}) >= 11


@pytest.mark.parametrize(("sample", "name"), PARTITIONS)
def test_a_sample_is_shown_with_its_expected_answer(sample: str, name: str, capsys: Any) -> None:
    expected = json.loads((SAMPLES / sample / "expected.json").read_text())["partitions"][name]
    status = main(["show", str(SAMPLES / sample), name, "--format", "json"])
    answer = json.loads(capsys.readouterr().out)
    (partition,) = answer["partitions"]
    assert (partition["verdict"], partition["leader_id"]) == (expected["verdict"], expected["leader_id"])
    assert [partition["hw_lower"], partition["hw_upper"]] == expected["high_watermark"]
    for broker, ranges in expected["divergences"].items():
        rows = [row for row in answer["divergences"] if row["broker_id"] == int(broker)]
        assert [[row["start_offset"], row["end_offset"]] for row in rows] == ranges
    for broker, kept in expected["truncate_to"].items():
        rows = [row for row in answer["truncations"] if row["broker_id"] == int(broker)]
        assert {row["protocol"]: row["truncate_to"] for row in rows} == kept
    assert status == answer["verdict"]["exit_status"]

    assert main(["show", str(SAMPLES / sample), name]) == status
    out = capsys.readouterr().out
    assert out.startswith(f"{name}  {expected['verdict']}\n")
    assert [line for line in out.splitlines() if len(line) > WIDTH] == []
    assert VERDICTS.index(partition["verdict"]) < VERDICTS.index("LAGGING") or status == 0


def test_a_partition_that_is_not_there_is_2(capsys: Any) -> None:
    assert main(["show", str(SAMPLES / "zombie"), "orders-99"]) == 2
    assert "orders-99" in capsys.readouterr().err


def test_show_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["show", str(SAMPLES / "zombie"), "orders-0"]) == 1
    assert list(tmp_path.iterdir()) == []
