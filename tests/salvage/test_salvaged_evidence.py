"""Salvage from evidence: what it has no bytes of is neither taken for kept nor for lost."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.support.collected import bring, collect_snapshot, copy_snapshot
from tests.support.encoder import encode_batch
from tests.support.fixtures import FIXTURES
from tests.support.snapshots import Listed, Replica, write_pair, write_snapshot

from replica_audit.cli.main import main

FIRST = encode_batch(0, 3, 0)
#: Offset 3 is in both logs, 4 is not the same.
LEADER = [FIRST, encode_batch(3, 1, 0), encode_batch(4, 1, 0, mark="other")]
FOLLOWER = [FIRST, encode_batch(3, 2, 0)]


def _snapshot(place: Path, **fields: object) -> Path:
    return write_pair(place, Replica(LEADER, **fields), Replica(FOLLOWER, **fields))  # type: ignore[arg-type]


def _salvage(snapshot: Path, to: Path) -> tuple[int, dict]:
    status = main(["salvage", str(snapshot), "-q", "--to", str(to)])
    return status, json.loads((to / "manifest.json").read_text())


def _mixed(snapshot: Path, place: Path, collected: int) -> Path:
    """Evidence of one broker, a copy of the other."""
    evidence = collect_snapshot(snapshot, place)
    other = 3 - collected
    (evidence / f"evidence-{other}.tar").unlink()
    shutil.copytree(snapshot / f"broker-{other}", evidence / f"broker-{other}")
    return evidence


@pytest.mark.parametrize("collected", [1, 2])
def test_records_that_are_not_captured_are_not_told_from_those_of_the_leader(tmp_path: Path, collected: int) -> None:
    snapshot = _snapshot(tmp_path / "snapshot")
    assert _salvage(snapshot, tmp_path / "of-copies")[1]["totals"]["expected"] == 1
    status, manifest = _salvage(_mixed(snapshot, tmp_path / "mixed", collected), tmp_path / "of-evidence")
    assert status != 0
    assert manifest["totals"]["records"] == 0
    assert {one["broker_id"] for one in manifest["unread"]} == {collected}
    assert all("not part of the evidence" in one["reason"] for one in manifest["unread"])


def test_a_leader_of_which_bytes_lack_is_not_called_a_text(tmp_path: Path) -> None:
    snapshot = write_pair(tmp_path / "snapshot", Replica([FIRST], tail=b"\x07" * 50), Replica(FOLLOWER))
    _, manifest = _salvage(collect_snapshot(snapshot, tmp_path / "evidence"), tmp_path / "salvage")
    said = json.dumps(manifest)
    assert "known from evidence, which lacks bytes of it" in said and "text or table" not in said


def test_values_are_not_called_the_latest_where_the_leader_may_have_later_ones(tmp_path: Path) -> None:
    sides = {
        1: Replica([FIRST, encode_batch(6, 3, 2)], cleaned_to=3),
        2: Replica([FIRST, encode_batch(3, 3, 1)], cleaned_to=3),
    }
    compact = {"cleanup.policy": "compact"}
    snapshot = write_snapshot(tmp_path / "snapshot", sides, [Listed(1, (1, 2), (1, 2), configs=compact)])
    assert _salvage(snapshot, tmp_path / "of-copies")[1]["totals"]["records"] == 3
    status, manifest = _salvage(_mixed(snapshot, tmp_path / "mixed", 1), tmp_path / "of-evidence")
    assert status != 0 and manifest["totals"]["records"] == 0
    assert "later values of the same keys" in manifest["partitions"][0]["problem"]


def _payloads(directory: Path) -> dict[str, bytes]:
    """The records that were written, and what is counted of them."""
    written = {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    }
    manifest = json.loads((directory / "manifest.json").read_text())
    return {**written, "totals": json.dumps(manifest["totals"]).encode()}


@pytest.mark.parametrize("headers", ["never", "always"])
@pytest.mark.parametrize(
    "name",
    ["diverged-unclean", "txn-failover-1-unclean", "compacted-skewed-1", "old-upgraded", "corrupted-tail-torn"],
)
def test_payloads_are_those_of_copies_once_what_is_wanted_was_brought(tmp_path: Path, name: str, headers: str) -> None:
    copy = copy_snapshot(FIXTURES / name, tmp_path / "copy" / "snapshot")
    evidence = collect_snapshot(FIXTURES / name, tmp_path / "evidence" / "snapshot", "--headers", headers)
    expected = main(["salvage", str(copy), "-q", "--payloads", "--to", str(tmp_path / "expected")])
    for number in range(5):
        to, wanted = tmp_path / f"salvaged-{number}", tmp_path / f"wanted-{number}.json"
        status = main(["salvage", str(evidence), "-q", "--payloads", "--to", str(to), "--wanted", str(wanted)])
        if not bring(FIXTURES / name, evidence, wanted, number):
            break
    assert status == expected and _payloads(to) == _payloads(tmp_path / "expected")


def test_of_a_leader_whose_batches_nobody_checked_it_is_said_that_damage_is_not_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evidence = collect_snapshot(FIXTURES / "healthy", tmp_path / "evidence", "--headers", "always")
    _, manifest = _salvage(evidence, tmp_path / "to")
    number = sum(one["unchecked_batches"] or 0 for one in manifest["partitions"])
    said = " ".join(capsys.readouterr().out.split())
    assert number > 1
    assert f"Damage inside {number} batches of these logs, whose checksums were not computed, would go unseen." in said


def test_the_list_is_not_written_into_the_snapshot(tmp_path: Path) -> None:
    snapshot = _snapshot(tmp_path / "snapshot")
    given = ["salvage", str(snapshot), "--to", str(tmp_path / "to"), "--wanted", str(snapshot / "wanted.json")]
    assert main(given) == 2 and not (tmp_path / "to").exists()


def test_nothing_is_salvaged_where_the_list_cannot_be_written(tmp_path: Path) -> None:
    snapshot = _snapshot(tmp_path / "snapshot")
    given = ["salvage", str(snapshot), "--to", str(tmp_path / "to"), "--wanted", str(tmp_path / "nowhere" / "x.json")]
    assert main(given) == 2 and not (tmp_path / "to").exists()
