"""Every byte of every capture is in a batch or in a row of quarantine, and every partition has its verdict."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.support.captures import CAPTURES, FIXTURES, audit_whole
from tests.support.scanned import batches_of, scan_file

from replica_audit.auditing.audit_results import account_for_input, check_answered
from replica_audit.config import Settings
from replica_audit.errors import EngineError
from replica_audit.runner.in_process import audit_all
from replica_audit.schema import InputRow
from replica_audit.snapshot.opening import open_snapshot


@pytest.mark.parametrize("capture", CAPTURES)
def test_bytes_seen_are_batches_and_quarantine_and_padding(capture: str) -> None:
    place = FIXTURES / capture
    _, inventory = open_snapshot(str(place), (), None)
    results = audit_whole(place)
    quarantine = results.rows("quarantine")
    outside: Counter[str] = Counter()
    for row in quarantine:
        if row["code"].startswith("LOG-"):
            outside[row["path"]] += row["length"]
    unread = {row["path"] for row in quarantine if row["code"] == "CAP-UNREADABLE" and row["position"] is None}
    seen = batches = 0
    for file in inventory.all_segments:
        on_disk = (place / file.path).read_bytes()
        in_batches = sum(batches_of(scan_file(place / file.path))["size"].tolist())
        assert file.path in unread or len(on_disk) == in_batches + outside[file.path], file.path
        seen, batches = seen + len(on_disk), batches + in_batches
    inputs = results.audit["inputs"]
    assert inputs["size_bytes"] == seen
    assert inputs["quarantined_bytes"] + inputs["padding_bytes"] == seen - batches
    places = {(one.topic, one.partition) for one in inventory.replicas}
    assert {(row["topic"], row["partition"]) for row in results.rows("partitions")} >= places


def test_there_is_something_to_account_for() -> None:
    found = [
        audit_whole(FIXTURES / name).audit["inputs"] for name in ("corrupted-middle-zeros", "corrupted-tail-zeros")
    ]
    assert found[0]["quarantined_bytes"] > 0 and found[1]["padding_bytes"] > 0


def test_only_stretches_of_segments_count() -> None:
    found = (("LOG-TAIL-ZERO", 5), ("LOG-CORRUPT-MID", 7), ("INPUT-IGNORED", 11), ("CAP-UNREADABLE", None))
    blank = InputRow._make([None] * len(InputRow._fields))
    rows = [blank._replace(code=code, length=length) for code, length in found]
    assert account_for_input(rows) == {"quarantined_bytes": 7, "padding_bytes": 5}


def test_an_audit_with_a_partition_less_than_was_discovered_ends_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    check_answered(("a", "b"), 2)
    with pytest.raises(EngineError, match="2 partitions were discovered and 1 have a verdict"):
        check_answered(("a", "b"), 1)
    monkeypatch.setattr("replica_audit.runner.audit_stage.audit_partitions", lambda *_, **__: [])
    with pytest.raises(EngineError, match="have a verdict"):
        audit_all(str(FIXTURES / "healthy"), Settings())
