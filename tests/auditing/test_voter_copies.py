"""Controllers in the matrix of captures: named by the voters of the metadata log, captured or not."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest
from tests.support import metadata_log as write
from tests.support.audit_json_text import audit_json_text
from tests.support.captures import audit_whole
from tests.support.controllers import BEGINNING, VOTERS, first_batches
from tests.support.fixtures import FIXTURES
from tests.support.less import without

from replica_audit.auditing.snapshot_id import inventory_lines
from replica_audit.config import Settings
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.markdown import render_markdown
from replica_audit.report.page.document import render_page
from replica_audit.report.show_text import render_summary
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_all
from replica_audit.schema import VoterCopy
from replica_audit.snapshot.discovery import discover
from replica_audit.snapshot.storage import Snapshot


def of_voters(results: Results) -> list[tuple]:
    rows = [row for row in results.rows("captures") if row["topic"] == "__cluster_metadata"]
    assert all(row["named_by"] == ["voters"] and row["needed"] is None and row["partition"] == 0 for row in rows)
    return [(row["broker_id"], row["log_dir"], row["state"], row["missing"]) for row in rows]


def texts(results: Results) -> dict[str, str]:
    """Text of each form of the report, as one line."""
    verdict = build_verdict(results, "high")
    forms = {
        "show": render_summary(results),
        "summary.md": render_markdown(results, verdict),
        "page": render_page(results, verdict),
    }
    return {name: " ".join(text.replace("\\", "").split()) for name, text in forms.items()}


@pytest.mark.parametrize("capture", ["healthy", "quorum3-2-healed", "kafka-3.6-diverged-unclean"])
def test_voters_that_are_here_are_rows_and_nothing_is_said(capture: str) -> None:
    results = audit_whole(FIXTURES / capture)
    found = of_voters(results)
    assert found and all(state == "whole" and log_dir and not missing for _, log_dir, state, missing in found)
    assert all("ontroller 1" not in text and "ontrollers 1" not in text for text in texts(results).values())


@pytest.mark.parametrize(
    ("capture", "directories", "absent", "said"),
    [
        ("quorum3-1-unclean", ["controller-101"], [101], "Controller 101 was not captured"),
        (
            "quorum3-2-healed",
            ["controller-100", "controller-102"],
            [100, 102],
            "Controllers 100 and 102 were not captured",
        ),
        ("healthy", ["controller"], [100], "Controller 100 was not captured"),
        ("last-replica-standing-2-cut", ["controller"], [100], "Controller 100 was not captured"),
        ("kafka-3.9-diverged-unclean", ["controller"], [100], "Controller 100 was not captured"),
    ],
)
def test_a_controller_that_was_not_captured_is_one_line_and_no_verdict(
    tmp_path: Path, capture: str, directories: list[str], absent: list[int], said: str
) -> None:
    whole = audit_whole(FIXTURES / capture)
    part = audit_all(str(without(FIXTURES / capture, tmp_path / "part", names=directories)), Settings())
    named = [row for row in of_voters(part) if row[2] != "whole"]
    assert named == [(node, None, "named", ["directory"]) for node in absent]
    assert len(of_voters(part)) == len(of_voters(whole))
    assert build_verdict(part, "high")["exit_status"] == build_verdict(whole, "high")["exit_status"]
    verdicts = [(row["topic"], row["partition"], row["verdict"]) for row in part.rows("partitions")]
    assert verdicts == [(row["topic"], row["partition"], row["verdict"]) for row in whole.rows("partitions")]
    assert all(f"{said}: " in text and "__cluster_metadata-0" in text for text in texts(part).values())
    assert '"named_by":["voters"]' in audit_json_text(part).replace(" ", "").replace("\n", "")


def test_a_controller_without_its_metadata_log_is_absent(tmp_path: Path) -> None:
    place = without(FIXTURES / "quorum3-2-healed", tmp_path / "part")
    shutil.rmtree(place / "controller-102" / "__cluster_metadata-0")
    assert of_voters(audit_all(str(place), Settings()))[-1] == (102, None, "absent", ["directory"])


def test_a_controllers_log_that_cannot_be_read_is_captured_in_part(tmp_path: Path) -> None:
    place = shutil.copytree(FIXTURES / "quorum3-2-healed", tmp_path / "part")
    log = min((place / "controller-102" / "__cluster_metadata-0").glob("*.log"))
    content = bytearray(log.read_bytes())
    content[200:216] = bytes(16)
    log.write_bytes(content)
    node, _, state, missing = of_voters(audit_all(str(place), Settings()))[-1]
    assert (node, state, missing) == (102, "partial", [log.name])


def _voters(path: Path) -> tuple[VoterCopy, ...]:
    return discover(Snapshot.open(str(path))).voters


def _kraft_voters(*ids: int) -> bytes:
    listed = b"".join(
        struct.pack(">i", node) + bytes(16) + write.uvarint(1) + struct.pack(">hh", 0, 1) + b"\x00" + b"\x00"
        for node in ids
    )
    return struct.pack(">h", 0) + write.uvarint(len(ids) + 1) + listed + b"\x00"


def test_voters_are_named_by_the_log_else_by_quorum_state_else_by_a_snapshot(tmp_path: Path) -> None:
    logs = {"log": first_batches(), "state": write.batch(0, BEGINNING)}
    by_log, by_state = (
        write.write_metadata_log(tmp_path / name, 100, write.MetadataLog({0: log}, voters=(100, 7)))
        for name, log in logs.items()
    )
    with_voters = (
        write.control(0, write.SNAPSHOT_HEADER, struct.pack(">hq", 0, write.TIME_MS) + write.tags())
        + write.control(1, write.KRAFT_VOTERS, _kraft_voters(100, 9))
        + write.batch(2, BEGINNING)
        + write.control(4, write.SNAPSHOT_FOOTER, struct.pack(">h", 0) + write.tags())
    )
    by_snapshot = write.write_metadata_log(tmp_path / "snapshot", 100, write.MetadataLog({}, {(5, 1): with_voters}))
    assert [one.node_id for one in _voters(by_log.parents[1])] == list(VOTERS)
    assert [one.node_id for one in _voters(by_state.parents[1])] == [7, 100]
    assert [(one.node_id, one.state) for one in _voters(by_snapshot.parents[1])] == [(9, "named"), (100, "whole")]


def test_only_a_snapshot_that_lacks_a_voter_gets_another_id(tmp_path: Path) -> None:
    def says(path: Path) -> bool:
        return any(line.startswith('["voters"') for line in inventory_lines(discover(Snapshot.open(str(path)))))

    assert not says(FIXTURES / "quorum3-2-healed")
    assert says(without(FIXTURES / "quorum3-2-healed", tmp_path / "part", names=["controller-100"]))
