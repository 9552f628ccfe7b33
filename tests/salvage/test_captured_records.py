"""Salvage of the captures: exactly the acknowledged records that a leader lacks and any copy still holds, values included."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.fixtures import FIXTURES
from tests.support.salvaged_captures import PRODUCED, acknowledged, copies_of, is_compacted, records_of, short_hash

from replica_audit.config import Settings
from replica_audit.salvage.partition_salvage import Choices
from replica_audit.salvage.snapshot_salvage import SalvageSearch
from replica_audit.salvage.written_salvage import Forms, write_salvage

#: Nothing was lost in these, as in others that are quicker to read.
_LARGE = (
    "healthy",
    "old-formats",
    "old-upgraded",
    "retention",
    "jbod",
    "lagging",
    "compacted-skewed-1",
    "tiered-1",
    "tiered-3",
)
_QUICK = [name for name in PRODUCED if not name.startswith(_LARGE)]


def _salvage(capture: str, target: Path, forms: tuple[str, ...] = ("jsonl",)) -> dict[str, Any]:
    opened = SalvageSearch(str(FIXTURES / capture), Settings(), choices := Choices(payloads=True))
    write_salvage(opened.find(), opened.reader, choices, Forms(forms), target)
    return json.loads((target / "manifest.json").read_text())


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _value(line: dict[str, Any]) -> bytes | None:
    return None if line["value"] is None else base64.b64decode(line["value"])


@pytest.mark.parametrize("capture", _QUICK)
def test_what_the_leader_lacks_is_given_back(capture: str, tmp_path: Path) -> None:
    head = _salvage(capture, tmp_path / "out")
    compared = 0
    for row in head["partitions"]:
        name = f"{row['topic']}-{row['partition']}"
        if is_compacted(capture, row["topic"]):
            assert row["records"] == 0, name
            continue
        copies = copies_of(capture, name, row["topic_id"])
        (leader,) = [one["path"] for one in _reference(capture, name, row["reference_id"])]
        had = records_of(FIXTURES / capture / leader)
        # Below its own files the leader's records are in the remote tier, or retention has deleted them.
        start = min((int(path.stem) for path in (FIXTURES / capture / leader).glob("*.log")), default=0)
        start = max(row["log_start_offset"], start)
        held = {record for path in copies for record in records_of(path)}
        expected = {one for one in acknowledged(capture)[name] if one in held - had and one[0] >= start}
        if capture == "live-copy":
            # The brokers were at work: whether the leader has what was copied of a follower later, nobody can tell.
            assert row["left_out"].get("ahead", 0) >= len(expected)
            expected = set()
        lines = _lines(tmp_path / "out" / name / "records.jsonl")
        given = [(line["offset"], short_hash(_value(line))) for line in lines]
        assert sorted(given, key=str) == sorted(expected, key=str), name
        compared += len(given)
    assert head["totals"]["written"] == head["totals"]["expected"] == compared
    assert [row for row in head["unread"] if row["records"] is not None] == []


def _reference(capture: str, name: str, broker_id: int) -> list[dict[str, str]]:
    paths = [path for path in (FIXTURES / capture).rglob(name) if path.is_dir()]
    own = [path for path in paths if f"broker-{broker_id}" in path.relative_to(FIXTURES / capture).parts]
    return [{"path": str(path.relative_to(FIXTURES / capture))} for path in own]


def test_much_was_given_back() -> None:
    lossy = [name for name in _QUICK if "unclean" in name or "-cut" in name or name.endswith("-lost")]
    assert len(lossy) >= 9


def test_records_are_in_the_order_in_which_they_were_written(tmp_path: Path) -> None:
    head = _salvage("diverged-multi", tmp_path / "out")
    places = [
        (row["topic"], row["partition"], row["leader_epoch"], row["offset"]) for row in _manifest(tmp_path / "out")
    ]
    assert places == sorted(places)
    assert len(places) == len(set(places)) == head["totals"]["written"] == 93
    # Three brokers led alone: the tails of two are lacking, and some offsets are in both.
    assert max(len(row["epochs"]) for row in head["partitions"]) >= 2


def _manifest(target: Path) -> list[dict[str, Any]]:
    return json.loads((target / "manifest.json").read_text())["records"]


def test_a_record_that_two_copies_hold_has_one_source(tmp_path: Path) -> None:
    _salvage("last-replica-standing-2-cut", tmp_path / "out")
    rows = _manifest(tmp_path / "out")
    assert {row["copy"] for row in rows} == {0}
    assert {tuple(row["also_in"]) for row in rows} == {(1,)}


def test_deleted_segments_are_a_source(tmp_path: Path) -> None:
    head = _salvage("zk-2.8-diverged-healed", tmp_path / "out")
    kinds = {copy["kind"] for row in head["partitions"] for copy in row["copies"] if copy["records"]}
    assert kinds == {"deleted_segments"}
    assert head["totals"]["written"] == 52


def test_a_topic_that_was_deleted_and_created_again_gives_nothing(tmp_path: Path) -> None:
    head = _salvage("recreated-2-back", tmp_path / "out")
    assert head["totals"]["records"] == 0
    paths = [one["path"] for row in head["partitions"] for one in row["other_topics"]]
    assert any("-delete" in path for path in paths) and any("-stray" in path for path in paths)


def test_committed_transactions_are_given_back_without_their_markers(tmp_path: Path) -> None:
    head = _salvage("txn-failover-1-unclean", tmp_path / "out")
    rows = [row for row in _manifest(tmp_path / "out") if row["topic"] == "wallet"]
    assert {row["transaction"] for row in rows} == {"none", "committed"}
    left = {
        row["partition"]: row["left_out"] for row in head["partitions"] if row["topic"] == "wallet" and row["records"]
    }
    assert left == {0: {"control": 1}, 1: {"control": 1}}
