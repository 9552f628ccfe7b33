"""`observed.json`, and the listing beside it: what is not as `observe` writes it is refused by name, and the rest is audited."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.answering_brokers import write_observed

from replica_audit.config import Settings
from replica_audit.errors import FormatError
from replica_audit.runner.in_process import audit_all
from replica_audit.snapshot.observed import parse_observation
from replica_audit.snapshot.topics_describe import parse_topics_describe


def _changed(tmp_path: Path, **changes: object) -> bytes:
    content = json.loads((write_observed(tmp_path / "s") / "observed.json").read_text())
    content["replicas"][0].update(changes)
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"high_watermark": None}, "offsets of 0 or more, or a problem"),
        ({"read_from": -1}, "offsets of 0 or more, or a problem"),
        ({"broker_id": "1"}, "replicas[0].broker_id"),
        ({"broker_id": 1 << 31}, "a broker id and a partition"),
        ({"partition": -1}, "a broker id and a partition"),
        ({"topic": None}, "replicas[0].topic"),
    ],
)
def test_what_is_not_as_it_is_written_is_refused(changes: dict[str, object], told: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError) as caught:
        parse_observation(_changed(tmp_path, **changes), "observed.json")
    assert told in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"schema_version": 2}', b'{"schema_version": 1}', b"\xff"])
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match=r"observed\.json"):
        parse_observation(data, "observed.json")


def test_without_it_the_tables_are_tables(tmp_path: Path) -> None:
    snapshot = write_observed(tmp_path / "s")
    (snapshot / "observed.json").write_bytes(b"{")
    results = audit_all(str(snapshot), Settings(quiet=True))
    assert ("CAP-UNREADABLE", "observed.json") in {(row.code, row.path) for row in results.quarantine}
    assert {row.high_watermark_checkpoint for row in results.replicas} == {None}


def test_a_listing_may_tell_the_leader_epoch() -> None:
    line = "Topic: t\tPartition: 0\tLeader: 1\tLeaderEpoch: {}\tReplicas: 1,2\tIsr: 1\n"
    (leadership,) = parse_topics_describe(line.format(7), "x").leaderships
    assert (leadership.leader_id, leadership.leader_epoch) == (1, 7)
    (problem,) = parse_topics_describe(line.format("x"), "x").problems
    assert "LeaderEpoch" in str(problem)
