"""`show` on the sample directories: the expected answers, without Spark, in text that fits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.samples import TEXTBOOK, write_cluster

from replica_audit.auditing import opened_snapshot
from replica_audit.cli.main import main
from replica_audit.config import Settings
from replica_audit.literals import VERDICTS
from replica_audit.model import TopicPartition
from replica_audit.report.layout import WIDTH
from replica_audit.runner.in_process import audit_all, audit_one
from replica_audit.schema import REPORT_TABLES
from replica_audit.snapshot import opening, replica_progress

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


def _shown(arguments: list[str], capsys: Any) -> dict[str, Any]:
    main(["show", *arguments, "--format", "json"])
    return json.loads(capsys.readouterr().out)


def test_the_triage_has_the_rows_of_every_partition(tmp_path: Path) -> None:
    write_cluster(tmp_path, 2)
    triage = audit_all(str(tmp_path), Settings())
    names = [TopicPartition(row["topic"], row["partition"]) for row in triage.rows("partitions")]
    assert sorted(names) == sorted(TopicPartition(name, number) for name in TEXTBOOK for number in (0, 1))
    single = [audit_one(str(tmp_path), name, Settings()) for name in names]
    for table in REPORT_TABLES:
        one_by_one = [json.dumps(row) for results in single for row in results.rows(table)]
        assert sorted(one_by_one) == sorted(json.dumps(row) for row in triage.rows(table)), table
    assert triage.audit["inputs"]["replicas"] == len(triage.rows("replicas")) > len(names)
    assert triage.audit["inputs"]["segments"] == sum(one.audit["inputs"]["segments"] for one in single)


@pytest.mark.parametrize("capture", ["diverged-unclean", "consumable-prefix"])
def test_the_triage_is_headline_first_step_table_and_status(capture: str, capsys: Any) -> None:
    status = main(["show", str(SAMPLES / capture)])
    lines = capsys.readouterr().out.splitlines()
    expected = json.loads((SAMPLES / capture / "expected.json").read_text())
    headed = next(number for number, line in enumerate(lines) if line.startswith("TOPIC "))
    assert lines[0].startswith(f"Snapshot {capture}") and lines[2].endswith(".")
    # A replica that lags is told and nothing has to be done about it.
    assert ("Do first" in lines[3:headed]) == (capture == "diverged-unclean")
    assert any(line.startswith("1. ") for line in lines[3:headed]) == (capture == "diverged-unclean")
    assert {name.rpartition("-")[0] for name in expected["partitions"]} <= {
        line.split()[0] for line in lines[headed:] if line
    }
    assert status == expected["exit_status"] and lines[-1].split(":")[0] in ("OK", "WARNING", "CRITICAL")


def test_the_triage_reads_what_all_partitions_share_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_cluster(tmp_path, 3)
    log = tmp_path / "logs" / "broker-1" / "server.log"
    log.parent.mkdir(parents=True)
    log.write_text("[2023-11-14 22:13:20,000] INFO started (kafka.server.KafkaServer)\n")
    rows = [
        {"topic": "zombie", "partition": number, "time_ms": 1, "broker_id": 1, "leader_id": 1} for number in range(3)
    ]
    (tmp_path / "replica_progress.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    calls: list[str] = []
    for module, name in (
        (opening, "discover"),
        (opened_snapshot, "read_broker_log"),
        (replica_progress, "read_progress"),
    ):
        function = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, f=function, n=name: calls.append(n) or f(*given))
    triage = audit_all(str(tmp_path), Settings())
    assert sorted(calls) == ["discover", "read_broker_log", "read_progress"]
    assert {row["partition"] for row in triage.rows("high_watermark_timeline")} == {0, 1, 2}
    assert triage.audit["inputs"]["observations"] == 3


def test_topics_limit_the_triage(capsys: Any, tmp_path: Path) -> None:
    write_cluster(tmp_path, 1, ("zombie", "fast-failover", "isr-minimum"))
    shown = _shown([str(tmp_path), "--topic", "z*", "--topic", "fast-*"], capsys)
    assert {row["topic"] for row in shown["partitions"]} == {"zombie", "fast-failover"}
    assert main(["show", str(tmp_path), "--topic", "nothing"]) == 2
    assert "nothing matches no topic" in capsys.readouterr().err


@pytest.mark.parametrize("partition", [[], ["zombie-0"]])
def test_what_belongs_to_no_partition_is_told(partition: list[str], capsys: Any, tmp_path: Path) -> None:
    """A log dir without a broker id may hold a replica of any partition: the answers are not to be trusted whole."""
    write_cluster(tmp_path, 1, ("isr-minimum", "zombie"))
    before = _shown([str(tmp_path), *partition], capsys)
    (tmp_path / "broker-2").rename(tmp_path / "copy")
    meta = tmp_path / "copy" / "meta.properties"
    meta.write_text("".join(line for line in meta.read_text().splitlines(True) if "node.id" not in line))
    shown = _shown([str(tmp_path), *partition, "--fail-on", "never"], capsys)
    unplaced = [row for row in shown["findings"] if row["topic"] is None]
    assert [(row["code"], row["severity"]) for row in unplaced] == [("CAP-UNREADABLE", "high")]
    assert [row["code"] for row in before["findings"] if row["topic"] is None] == []
    assert shown["verdict"]["exit_status"] == 3 and "unreadable" in shown["verdict"]["untrusted"]
    main(["show", str(tmp_path), *partition])
    assert "copy" in capsys.readouterr().out


def test_damage_in_another_partitions_directory_is_not_told_of_this_one(capsys: Any, tmp_path: Path) -> None:
    write_cluster(tmp_path, 1, ("isr-minimum", "zombie"))
    loop = tmp_path / "broker-1" / "isr-minimum-0" / "loop"
    loop.symlink_to(loop.parent)
    whole = _shown([str(tmp_path)], capsys)
    assert [row["code"] for row in whole["findings"] if row["topic"] is None] == ["CAP-UNREADABLE"]
    assert "CAP-UNREADABLE" not in [row["code"] for row in _shown([str(tmp_path), "zombie-0"], capsys)["findings"]]


def test_one_brokers_log_dir_is_audited_alone_with_a_note_on_what_to_give(capsys):
    assert main(["show", str(SAMPLES / "last-replica-standing" / "broker-2"), "--fail-on", "never"]) in (0, 3)
    out, err = capsys.readouterr()
    assert "orders" in out and "is the log dir of one broker, which is audited alone" in err
    assert "give the directory that contains the log dirs of all brokers" in " ".join(err.split())


def test_an_archive_is_named_with_what_to_give_instead(tmp_path, capsys):
    archive = tmp_path / "snapshot.tar"
    archive.write_bytes(b"x")
    assert main(["show", str(archive)]) == 2
    assert "is an archive: unpack it, and give the directory that comes out of it" in " ".join(
        capsys.readouterr().err.split()
    )
