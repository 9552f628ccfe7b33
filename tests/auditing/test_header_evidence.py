"""Headers whose checksums nobody computed: nothing is said of what damage may explain before the bytes are there."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path

import google_crc32c
import pytest
from tests.support.audit_json_text import audit_json_text
from tests.support.collected import answers, bring_wanted, collect_snapshot, copy_snapshot, forget_unchecked
from tests.support.encoder import encode_batch, encode_marker, flip
from tests.support.in_process import run_stages, without_run
from tests.support.made_cases import batch, case, compared, log, segment
from tests.support.snapshots import Listed, Replica, write_pair, write_snapshot

from replica_audit.auditing.compare.alignment import Alignment
from replica_audit.cli.main import main
from replica_audit.config import Settings
from replica_audit.report.answer import build_answer
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.verdict_object import render_status_line
from replica_audit.runner.in_process import audit_all
from replica_audit.segments.batch_rows import Batches

HEADERS = ("--headers", "always")
SEVERE = ("critical", "high")
BATCHES = [encode_batch(base, 5, 0, mark=f"{base}") for base in range(0, 30, 5)]


def _with_right_checksum(batch: bytes) -> bytes:
    return batch[:17] + struct.pack(">I", google_crc32c.value(batch[21:])) + batch[21:]


def _snapshot(place: Path, leader: Sequence[bytes], follower: Sequence[bytes], **fields: object) -> Path:
    return write_pair(place, Replica(leader, **fields), Replica(follower, **fields))  # type: ignore[arg-type]


def _codes(content: dict) -> set[str]:
    return {row["code"] for row in content["findings"]} - {"CAP-UNCHECKED"}


def _follow(snapshot: Path, place: Path, *options: str) -> tuple[dict, list[dict]]:
    """The answers of the copy, and those of its headers in each round until nothing more is wanted."""
    expected = answers(copy_snapshot(snapshot, place / "copy" / "snapshot"))
    evidence = collect_snapshot(snapshot, place / "evidence", *HEADERS, *options)
    found = [answers(evidence)]
    while len(found) <= 3 and bring_wanted(snapshot, evidence, len(found)):
        found.append(answers(evidence))
    return forget_unchecked(found[-1], expected)[1], [forget_unchecked(one, expected)[0] for one in found]


def test_records_that_differ_are_told_once_their_checksums_are_known(tmp_path: Path) -> None:
    other = encode_batch(10, 5, 0, mark="another")
    snapshot = _snapshot(tmp_path / "snapshot", BATCHES, [*BATCHES[:2], other, *BATCHES[3:]])
    expected, (first, *_, last) = _follow(snapshot, tmp_path)
    assert _codes(first) == {"CAP-NOT-CAPTURED"}
    assert "DIV-CONTENT" in _codes(last) and last == expected


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("position", [*range(0, 61, 7), 22, 26, 60, 63, -1])
def test_damage_is_never_told_as_other_records(tmp_path: Path, position: int, side: int) -> None:
    damaged = [*BATCHES[:2], flip(BATCHES[2], position), *BATCHES[3:]]
    sides = [BATCHES, damaged] if side else [damaged, BATCHES]
    # Of what batches are not told apart by nothing but a checksum tells.
    is_seen = 0 <= position <= 21 or 23 <= position < 27
    expected, found = _follow(_snapshot(tmp_path / "snapshot", *sides), tmp_path)
    known = {(row["code"], row["severity"], row["broker_id"]) for row in expected["findings"]}
    for content in found:
        severe = [row for row in content["findings"] if row["severity"] in SEVERE]
        assert {(row["code"], row["severity"], row["broker_id"]) for row in severe} <= known
    assert len(found) <= 3
    assert (found[-1] == expected) is is_seen


def test_what_only_one_has_is_checked_before_it_is_called_lost(tmp_path: Path) -> None:
    sides = (Replica(BATCHES[:4], high_watermark=30), Replica(BATCHES, high_watermark=30))
    snapshot = write_pair(tmp_path / "snapshot", *sides, manifest={"quiesced": True}, clean=(1, 2))
    expected, (first, last) = _follow(snapshot, tmp_path)
    said = {row["code"]: row for row in first["findings"]}
    assert said.keys() == {"CAP-NOT-CAPTURED", "HWM-CP-ABOVE-LEO"}
    wanted, short = said["CAP-NOT-CAPTURED"], said["HWM-CP-ABOVE-LEO"]
    assert (wanted["broker_id"], wanted["start_offset"], wanted["end_offset"]) == (2, 20, 30)
    assert short["severity"] == "high"
    assert short["message"].endswith("; the records between may be on broker 2, whose logs were not compared")
    assert "REP-LEADER-SHORTER" in _codes(last) and last == expected


def _told(evidence: Path, capsys: pytest.CaptureFixture[str], command: str) -> str:
    main([command, str(evidence), "-q"])
    return " ".join(capsys.readouterr().out.split())


def test_a_log_that_waits_for_checksums_is_not_called_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is said of it is how many bytes are wanted, and the first step brings these, not a copy."""
    other = encode_batch(10, 5, 0, mark="another")
    snapshot = _snapshot(tmp_path / "snapshot", BATCHES, [*BATCHES[:2], other, *BATCHES[3:]])
    evidence = collect_snapshot(snapshot, tmp_path / "evidence", *HEADERS)
    both = len(BATCHES[2]) + len(other)
    said = _told(evidence, capsys, "show")
    for wrong in ("Nothing was compared", "*.log", "tar -czf", "not captured whole", "copy the directory"):
        assert wrong not in said
    assert (
        f"Bytes of brokers 1 and 2 that were not collected are needed for orders-0, {both} bytes in all: replica-audit show "
        f"{evidence} --wanted wanted.json names them, and capture-plan --wanted wanted.json collects only these. If broker 2 is "
        "down, do not start it until then."
    ) in said
    assert f"Broker 2 was collected without {len(other)} wanted bytes and is needed" in said
    step = (
        f"1. Bring {both} bytes of brokers 1 and 2 that were not collected, and audit again: without them it is not known "
        f"what orders-0 has. If broker 1 or 2 is down, do not start it until then. replica-audit show {evidence} --wanted wanted.json "
        f"replica-audit capture-plan --wanted wanted.json 1=LOG_DIR_OF_1 2=LOG_DIR_OF_2 --to {evidence} > bring.sh bash bring.sh"
    )
    assert step in said.replace("\\ ", "")
    planned = _told(evidence, capsys, "elect")
    assert step in planned.replace("\\ ", "") and "tar -czf" not in planned
    assert f"No plan: the cost of an election depends on {both} bytes of brokers 1 and 2" in planned
    assert bring_wanted(snapshot, evidence, 1) == both
    assert "not collected" not in _told(evidence, capsys, "show")


DAMAGED_END = [*BATCHES[:5], flip(BATCHES[5], 23)]


@pytest.mark.parametrize(
    "sides",
    [
        {1: DAMAGED_END, 2: BATCHES},
        {1: DAMAGED_END, 2: BATCHES[:5]},
        {1: BATCHES, 2: DAMAGED_END},
        {1: BATCHES[:5], 2: DAMAGED_END},
        {1: DAMAGED_END, 2: DAMAGED_END},
        {1: DAMAGED_END},
        {1: DAMAGED_END[5:]},
    ],
    ids=["leader", "follower behind", "follower", "leader behind", "both", "only replica", "only batch"],
)
@pytest.mark.parametrize("clean", [(), (1, 2)])
def test_a_log_does_not_end_where_only_an_unchecked_batch_says_so(tmp_path: Path, sides: dict, clean: tuple) -> None:
    """Its last offset is damaged: the log would end at 16777246."""
    replicas = {broker: Replica(batches, high_watermark=25, recovery_point=25) for broker, batches in sides.items()}
    manifest = {"quiesced": True} if clean else None
    listed = [Listed(1, tuple(sides), tuple(sides))]
    snapshot = write_snapshot(tmp_path / "snapshot", replicas, listed, manifest=manifest, clean=clean)
    expected, found = _follow(snapshot, tmp_path)
    assert "CAP-NOT-CAPTURED" in _codes(found[0]) and len(found) <= 3 and found[-1] == expected
    assert not [row for row in found[0]["findings"] if row["severity"] in SEVERE]
    assert all((row["log_end_offset"] or 0) <= 30 for row in found[0]["replicas"])


def test_a_cleaned_segment_whose_end_the_next_one_bears_out_is_not_asked_for(tmp_path: Path) -> None:
    cleaned = _with_right_checksum(BATCHES[1][:60] + b"\1" + BATCHES[1][61:])  # one record at five offsets
    sides = dict.fromkeys((1, 2), Replica([BATCHES[0], cleaned, *BATCHES[2:]], per_segment=2))
    listed = [Listed(1, (1, 2), (1, 2), configs={"cleanup.policy": "compact"})]
    snapshot = write_snapshot(tmp_path / "snapshot", sides, listed)
    content = answers(collect_snapshot(snapshot, tmp_path / "evidence", *HEADERS))
    assert _codes(content) == set() and [row["log_end_offset"] for row in content["replicas"]] == [30, 30]


def test_what_a_follower_has_yet_to_fetch_is_not_asked_for(tmp_path: Path) -> None:
    snapshot = _snapshot(tmp_path / "snapshot", BATCHES, BATCHES[:4], high_watermark=20)
    expected, (only,) = _follow(snapshot, tmp_path)
    assert only == expected


def test_equal_replicas_are_not_called_well_where_no_checksum_was_computed(tmp_path: Path) -> None:
    snapshot = _snapshot(tmp_path / "snapshot", BATCHES, BATCHES)
    evidence = collect_snapshot(snapshot, tmp_path / "evidence", *HEADERS)
    results = audit_all(str(evidence), Settings(quiet=True))
    said = build_answer(results, build_verdict(results, "high"))
    assert "All is well" not in said.headline
    assert (
        "Damage inside 12 of the 12 batches of brokers 1 and 2 would not be seen: only their headers were collected, and no "
        "checksums computed." in said.headline
    )
    assert [row["unchecked_batches"] for row in json.loads(audit_json_text(results))["replicas"]] == [6, 6]
    assert {(row.loaded_log_end_offset, row.recovered_log_end_offset) for row in results.replicas} == {(None, None)}
    verdict = build_verdict(results, "high")
    assert (verdict["verdict"], verdict["exit_status"], verdict["unchecked_batches"]) == ("CONSISTENT", 0, 12)
    assert render_status_line(verdict) == "OK: 1 partition, CONSISTENT; findings: 2 info; 12 batches unchecked"
    assert [row.message for row in results.findings] == [
        f"broker {broker}: the checksums of 6 of its 6 batches were not computed: damage inside them would go unseen"
        for broker in (1, 2)
    ]
    checked = audit_all(str(collect_snapshot(snapshot, tmp_path / "checked")), Settings(quiet=True))
    assert build_answer(checked, build_verdict(checked, "high")).headline.startswith("All is well")
    assert {(row.loaded_log_end_offset, row.recovered_log_end_offset) for row in checked.replicas} == {(30, 30)}
    assert render_status_line(build_verdict(checked, "high")) == "OK: 1 partition, CONSISTENT; no findings"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"leader": None, "leader_epoch": 0, "isr": []}, "nobody leads"),
        ({"leader": 1, "leader_epoch": 0}, "nothing says who is in sync"),
        (None, "nobody leads"),
    ],
)
def test_logs_that_are_not_checked_decide_nothing_where_it_is_not_certain_who_leads(
    said: dict | None, why: str, tmp_path: Path
) -> None:
    leadership = [] if said is None else [{"topic": "orders", "partition": 0, **said}]
    sides = {1: Replica(BATCHES), 2: Replica(BATCHES)}
    snapshot = write_snapshot(tmp_path / "snapshot", sides, leadership=leadership)
    content = answers(collect_snapshot(snapshot, tmp_path / "evidence", *HEADERS))
    assert [row["verdict"] for row in content["partitions"]] == ["INCONCLUSIVE"]
    found = [row for row in content["findings"] if row["code"] == "CAP-UNCHECKED"]
    assert [row["severity"] for row in found] == ["medium", "medium"]
    assert all(row["message"].endswith(f"; {why}, so a damaged log may be taken for the best one") for row in found)


def test_markers_are_whole_and_their_checksums_computed_by_the_audit(tmp_path: Path) -> None:
    marker = encode_marker(30, "COMMIT", 0, producer_id=7, producer_epoch=0)
    snapshot = _snapshot(tmp_path / "snapshot", [*BATCHES, marker, encode_batch(31, 1, 0)], [*BATCHES])
    rows = answers(collect_snapshot(snapshot, tmp_path / "evidence", *HEADERS))["replicas"]
    assert [(row["batch_count"], row["unchecked_batches"]) for row in rows] == [(8, 7), (6, 6)]
    damaged = [*BATCHES, flip(marker, -1), encode_batch(31, 1, 0)]
    snapshot = _snapshot(tmp_path / "other", damaged, damaged)
    found = answers(collect_snapshot(snapshot, tmp_path / "damaged", *HEADERS))["findings"]
    assert {(row["code"], row["broker_id"]) for row in found} >= {("LOG-CORRUPT-MID", 1), ("LOG-CORRUPT-MID", 2)}


def test_damage_names_who_has_the_records_as_far_as_that_is_known(tmp_path: Path) -> None:
    damaged = [*BATCHES[:2], flip(BATCHES[2], 20), *BATCHES[3:]]
    sides = {1: Replica(BATCHES), 2: Replica(damaged), 3: Replica(BATCHES)}
    snapshot = write_snapshot(tmp_path / "snapshot", sides, [Listed(1, (1, 2, 3), (1, 2, 3))])
    evidence = collect_snapshot(snapshot, tmp_path / "evidence", *HEADERS)
    assert bring_wanted(snapshot, evidence, 1)
    results = audit_all(str(evidence), Settings(quiet=True))
    assert "is whole" not in build_answer(results, build_verdict(results, "high")).headline
    (found,) = (row for row in answers(evidence)["findings"] if row["code"] == "LOG-CORRUPT-MID")
    assert found["message"].endswith("readable on broker 1")


@pytest.mark.parametrize(
    ("known", "is_checked"),
    [
        ([[(0, 4), (5, 9)]], True),
        ([[(0, 4)], [(5, 9)]], True),
        ([[(0, 4)]], False),
        ([[(5, 9)]], False),
        ([[(0, 2), (5, 9)]], False),
        ([[(0, 4)], [(0, 4), (5, 9, "unchecked")]], False),
        ([], False),
    ],
)
def test_offsets_are_checked_where_all_batches_at_them_are(known: list, is_checked: bool) -> None:
    """Each alignment has loaded a part of the replica's batches."""
    reference = log(1, (0, 0), end=10)
    follower = log(2, (0, 0), segments=[segment(0, 10, (0, 0), unchecked_count=1)])
    loaded = [Batches.of([batch(*one[:2])._replace(crc_unchecked=len(one) > 2) for one in part]) for part in known]
    made = case(reference, *(compared(follower, alignment=Alignment(own=part)) for part in loaded))
    assert made.is_checked(follower, 2, 8) is is_checked
    assert made.is_checked(reference, 2, 8)


def test_a_batch_with_a_wrong_length_hides_none_behind_it(tmp_path: Path) -> None:
    """The second batch's length leads to the fourth: its checksum shows it, and all bytes behind it are asked for."""
    length = struct.pack(">i", len(BATCHES[1]) + len(BATCHES[2]) - 12)
    damaged = [BATCHES[0], BATCHES[1][:8] + length + BATCHES[1][12:], *BATCHES[2:]]
    expected, found = _follow(_snapshot(tmp_path / "snapshot", BATCHES, damaged), tmp_path)
    assert _codes(found[0]) == {"CAP-NOT-CAPTURED"} and len(found) <= 3
    assert found[-1] == expected and "LOG-CORRUPT-MID" in _codes(expected)


def test_a_batch_that_became_another_sound_one_is_told_as_other_records(tmp_path: Path) -> None:
    other = _with_right_checksum(flip(BATCHES[2], -1))
    snapshot = _snapshot(tmp_path / "snapshot", BATCHES, [*BATCHES[:2], other, *BATCHES[3:]])
    expected, found = _follow(snapshot, tmp_path)
    assert found[-1] == expected and "DIV-CONTENT" in _codes(expected)


def test_a_warehouse_keeps_that_a_checksum_is_not_known(tmp_path: Path) -> None:
    other = encode_batch(10, 5, 0, mark="another")
    snapshot = _snapshot(tmp_path / "snapshot", BATCHES, [*BATCHES[:2], other, *BATCHES[3:]])
    evidence = collect_snapshot(snapshot, tmp_path / "evidence", *HEADERS)
    ran = run_stages(evidence, tmp_path / "warehouse")
    assert without_run(ran.results)["findings"] == answers(evidence)["findings"]
    rows = ran.warehouse.read_arrow("batches", ["crc_valid"])
    assert (rows.num_rows, rows["crc_valid"].null_count) == (12, 12)
    assert bring_wanted(snapshot, evidence, 1)
    found = without_run(run_stages(evidence, tmp_path / "warehouse").results)
    assert found["findings"] == answers(evidence)["findings"] and "DIV-CONTENT" in _codes(found)
