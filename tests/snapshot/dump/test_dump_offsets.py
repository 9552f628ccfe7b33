"""Offsets below 0 in text of kafka-dump-log: no log has them, and the rest of the text is read all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.report_rows import tables_of

from replica_audit.config import Settings
from replica_audit.model import TopicPartition
from replica_audit.runner.in_process import audit_one

BATCH = (
    "baseOffset: {base} lastOffset: {last} count: 5 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 "
    "partitionLeaderEpoch: 0 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty "
    "position: {position} CreateTime: 1795414410122 size: 173 magic: 2 compresscodec: none crc: 556827262 isvalid: true\n"
)


def _audit(path: Path, *lines: tuple[int, int]) -> dict[str, list[dict]]:
    folder = path / "broker-1" / "t-0"
    folder.mkdir(parents=True)
    text = "".join(BATCH.format(base=base, last=last, position=173 * at) for at, (base, last) in enumerate(lines))
    head = "Dumping /k/t-0/00000000000000000000.log\nLog starting offset: 0\n"
    (folder / "00000000000000000000.dump.txt").write_text(head + text)
    return tables_of(audit_one(str(path), TopicPartition("t", 0), Settings()))


@pytest.mark.parametrize("bad", [(-5, -1), (-9223372036854775808, -1), (-1, 3)])
@pytest.mark.parametrize("at", [0, 1])
def test_an_offset_below_0_is_in_quarantine(tmp_path: Path, bad: tuple[int, int], at: int) -> None:
    lines = [(0, 4), (5, 9)]
    lines.insert(at, bad)
    tables = _audit(tmp_path, *lines)
    (row,) = tables["quarantine"]
    assert row["position"] == 173 * at and "an offset below 0" in row["reason"]
    assert [row["log_end_offset"] for row in tables["replicas"]] in ([10], [None])
    assert "CAP-NOT-AUDITED" not in {row["code"] for row in tables["findings"]}


def test_offsets_from_0_on_are_not(tmp_path: Path) -> None:
    tables = _audit(tmp_path, (0, 4), (5, 9))
    assert tables["quarantine"] == []
