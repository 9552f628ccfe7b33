"""No plan is made on logs whose checksums were never computed: a damaged one may seem to lose the least."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.collected import answers, collect_snapshot, copy_snapshot
from tests.support.encoder import encode_batch, flip
from tests.support.report_rows import finding, results
from tests.support.snapshots import Listed, Replica, write_snapshot

from replica_audit.cli.main import main
from replica_audit.elect.cost_matrix import Matrix

HEADERS = ("--headers", "always")
BATCHES = [encode_batch(base, 5, 0, mark=f"{base}") for base in range(0, 30, 5)]
NOBODY = Listed(None, (1, 2), ())


#: The log of broker 1; that of broker 2.
DAMAGED = {
    "the last batch, which only one has": ([*BATCHES[:5], flip(BATCHES[5], 70)], BATCHES[:5]),
    "where the last batch ends": ([*BATCHES[:5], flip(BATCHES[5], 23)], BATCHES[:5]),
    "a batch in the middle": ([*BATCHES[:2], flip(BATCHES[2], 70), *BATCHES[3:]], BATCHES),
}


def _write(path: Path, logs: tuple[list[bytes], list[bytes]], listed: Listed) -> Path:
    return write_snapshot(path, {broker: Replica(log) for broker, log in enumerate(logs, 1)}, [listed])


@pytest.mark.parametrize("logs", DAMAGED.values(), ids=DAMAGED)
def test_no_plan_rests_on_headers_alone(
    logs: tuple[list[bytes], list[bytes]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot = _write(tmp_path / "snapshot", logs, NOBODY)
    evidence = collect_snapshot(snapshot, tmp_path / "evidence", *HEADERS)
    assert main(["elect", str(evidence), "-q"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "No plan: the checksums of batches of brokers 1 and 2 were not computed, so the cost of an election is not known: "
        "collect them again without --headers, or copy the log directories of all replicas (capture-plan), and run elect on the copies"
    ) in said
    assert "loses nothing" not in said and "kafka-leader-election" not in said
    found = answers(evidence)
    assert [row["verdict"] for row in found["partitions"]] == ["INCONCLUSIVE"]
    unchecked = [row for row in found["findings"] if row["code"] == "CAP-UNCHECKED"]
    assert [(row["broker_id"], row["severity"]) for row in unchecked] == [(1, "medium"), (2, "medium")]
    for whole in (
        copy_snapshot(snapshot, tmp_path / "copy" / "s"),
        collect_snapshot(snapshot, tmp_path / "v", "--raw"),
    ):
        assert main(["elect", str(whole), "-q"]) == 0
        assert "Elect broker 2" in capsys.readouterr().out
        assert "CAP-UNCHECKED" not in {row["code"] for row in answers(whole)["findings"]}


def test_one_log_that_is_not_checked_is_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot = _write(tmp_path / "snapshot", DAMAGED["a batch in the middle"], NOBODY)
    mixed = collect_snapshot(snapshot, tmp_path / "mixed")
    headers = collect_snapshot(snapshot, tmp_path / "headers", *HEADERS)
    (headers / "evidence-1.tar").replace(mixed / "evidence-1.tar")
    assert main(["elect", str(mixed), "-q"]) == 1
    assert "the checksums of batches of broker 1 were" in " ".join(capsys.readouterr().out.split())


def test_a_log_that_leads_goes_on_leading(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing has to be decided, and none is asked for."""
    snapshot = _write(tmp_path / "snapshot", (BATCHES, BATCHES), Listed(1, (1, 2), (1, 2)))
    evidence = collect_snapshot(snapshot, tmp_path / "evidence", *HEADERS)
    found = answers(evidence)
    assert [row["verdict"] for row in found["partitions"]] == ["CONSISTENT"]
    assert [(row["code"], row["severity"]) for row in found["findings"]] == [("CAP-UNCHECKED", "info")] * 2
    assert main(["elect", str(evidence), "-q"]) == 0
    assert "No plan" not in capsys.readouterr().out


@pytest.mark.parametrize("code", ["CAP-ABOVE-HW", "CAP-UNCHECKED"])
def test_what_a_baseline_resolved_leaves_no_log_unseen(code: str) -> None:
    told = [finding(code, "medium", broker_id=1, status=status) for status in ("resolved", "new")]
    assert not Matrix(results(findings=told[:1])).unseen
    assert [*Matrix(results(findings=told)).unseen["orders", 0].values()] == [[1]]
