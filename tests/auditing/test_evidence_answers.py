"""Evidence gives the answers of the copies that it stands for, or says what it would need for them."""

from __future__ import annotations

import io
import json
import shutil
from functools import cache
from pathlib import Path

import pytest
from tests.support.archives import unpack
from tests.support.audit_json_text import audit_json_text
from tests.support.captures import audit_whole
from tests.support.collected import (
    answers,
    audited,
    bring_wanted,
    collect_into,
    collect_snapshot,
    copy_snapshot,
    forget_unchecked,
    leaves_bytes_out,
    log_dirs_of,
)
from tests.support.encoder import encode_batch
from tests.support.fixtures import ATTACKS, CAPTURES, FIXTURES
from tests.support.in_process import run_stages, without_run
from tests.support.snapshots import Replica, write_pair, write_snapshot

from replica_audit.cli.main import main
from replica_audit.config import Settings
from replica_audit.runner.in_process import audit_all

SEVERE = ("critical", "high")
#: What headers alone leave open.
UNKNOWN = ("CAP-NOT-CAPTURED", "CAP-UNCHECKED")
#: Damage, a torn tail, old formats, compaction, transactions, tiers, several disks, loss.
SOME = (
    "corrupted-flip-payload",
    "corrupted-tail-torn",
    "old-upgraded",
    "compacted-skewed-1",
    "txn-failover-1-unclean",
    "tiered-1",
    "jbod-moving",
    "diverged-unclean",
)
#: Those by headers alone: damage within a batch, too.
SOME_BY_HEADERS = (*SOME, "corrupted-flip-crc", "corrupted-batch-length-off-by-one")
_ATTACKS = sorted(
    path.relative_to(ATTACKS).as_posix()
    for path in (*ATTACKS.iterdir(), *ATTACKS.glob("*/*"))
    if path.is_dir() and any(path.glob("broker-*"))
)


def _snapshots() -> list[Path]:
    return [*(FIXTURES / name for name in CAPTURES), *(ATTACKS / name for name in _ATTACKS)]


def _collectable(path: Path) -> bool:
    return bool(log_dirs_of(path))


def _findings(content: dict) -> set[tuple]:
    names = ("code", "severity", "topic", "partition", "broker_id", "start_offset")
    return {tuple(row[name] for name in names) for row in content["findings"] if row["code"] not in UNKNOWN}


def _is_found_by(found: dict, expected: dict) -> bool:
    """True if copies show all that evidence does; what a loss makes severe may be less where the loss is not known yet."""
    every = _findings(expected)
    weaker = {(code, *place[:2]) for code, _, *place in every}
    return all(
        row in every or (row[1] not in SEVERE and (row[0], *row[2:4]) in weaker and row[0] == "META-UNCLEAN-ELECTION")
        for row in _findings(found)
    )


@cache
def _copied(snapshot: Path) -> dict:
    """The answers of the copies that evidence stands for."""
    return answers(snapshot, audit_whole(snapshot))


def _check(snapshot: Path, place: Path, *headers: str) -> tuple[int, set[str]]:
    """Collect a snapshot with and without bytes that belong to no sound batch: rounds that it took to have the answers of its copy
    with them, and codes of findings that only checksums tell.
    """
    evidence = collect_snapshot(snapshot, place / "plain" / "evidence" / "snapshot", *headers)
    results = audited(evidence)
    content = answers(evidence, results)
    _check_without_raw(snapshot, content, is_by_headers=bool(headers))
    # Where there are no such bytes, as in most, both are the same.
    if leaves_bytes_out(evidence):
        evidence = collect_snapshot(snapshot, place / "evidence" / "snapshot", "--raw", *headers)
        results = audited(evidence)
        content = answers(evidence, results)
    copy = _copied(snapshot)
    for rounds in range(3):
        found, expected = forget_unchecked(content, copy)
        assert _is_found_by(found, expected), snapshot
        if found == expected:
            return rounds, set()
        if not bring_wanted(snapshot, evidence, rounds, results):
            break
        results = audited(evidence)
        content = answers(evidence, results)
    only = {row[0] for row in _findings(expected) - _findings(found)}
    assert headers and only and "CAP-NOT-CAPTURED" not in {row["code"] for row in found["findings"]}, snapshot
    return rounds, only


def _check_without_raw(snapshot: Path, collected: dict, *, is_by_headers: bool) -> None:
    """Nothing is found that copies do not show, and what hides the rest is named."""
    copy = _copied(snapshot)
    assert _is_found_by(collected, copy), snapshot
    verdicts = {(row["topic"], row["partition"]): row["verdict"] for row in copy["partitions"]}
    lacking = {(row["topic"], row["partition"]) for row in collected["findings"] if row["code"] in UNKNOWN}
    for row in collected["partitions"]:
        at = row["topic"], row["partition"]
        is_damaged = is_by_headers and verdicts[at] == "LATENT_CORRUPTION" and snapshot.name in ONLY_CHECKSUMS_TELL
        assert row["verdict"] == verdicts[at] or (row["verdict"] == "INCONCLUSIVE" and at in lacking) or is_damaged, (
            snapshot,
            at,
        )


@pytest.mark.parametrize("name", SOME)
def test_a_capture_collected_answers_as_its_copy(name: str, tmp_path: Path) -> None:
    rounds, only = _check(FIXTURES / name, tmp_path)
    assert rounds <= 2 and not only


#: Captures with a damaged payload below a header that all replicas have, and what is not found there by headers alone.
ONLY_CHECKSUMS_TELL = {
    "corrupted-flip-payload": {"DIV-CORRUPT", "LOG-CORRUPT-MID"},
    "killed-and-corrupt": {"DIV-CORRUPT", "LOG-CORRUPT-MID", "TRN-OVER-TRUNCATE"},
}


@pytest.mark.parametrize("name", SOME_BY_HEADERS)
def test_a_capture_known_by_headers_alone_answers_as_its_copy(name: str, tmp_path: Path) -> None:
    rounds, only = _check(FIXTURES / name, tmp_path, "--headers", "always")
    assert rounds <= 2 and only == ONLY_CHECKSUMS_TELL.get(name, set())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("headers", "others"), [((), SOME), (("--headers", "always"), SOME_BY_HEADERS)], ids=["with bytes", "headers alone"]
)
def test_every_other_capture_and_attack_collected_answers_as_its_copy(
    tmp_path: Path, headers: tuple[str, ...], others: tuple[str, ...]
) -> None:
    """`others` have a test of their own. Of the rest every second is collected in one way and every second in the other:
    they differ in what is kept of a batch, not in what is told of the files around it."""
    collectable = [path for path in _snapshots() if _collectable(path)]
    assert len(collectable) > 140
    for number, snapshot in enumerate(collectable[bool(headers) :: 2]):
        if snapshot.name in others:
            continue
        rounds, only = _check(snapshot, tmp_path / str(number), *headers)
        assert rounds <= 2 and only == (ONLY_CHECKSUMS_TELL.get(snapshot.name, set()) if headers else set()), snapshot


def _differing(place: Path) -> Path:
    """Two replicas with a batch of the same offsets and other records, of which nothing is known but the headers."""
    sides = (Replica([encode_batch(0, 3, 0), encode_batch(3, 5, 0, mark=mark)]) for mark in ("one", "two"))
    return write_pair(place, *sides)


def test_records_that_differ_are_wanted_before_anything_is_said(tmp_path: Path) -> None:
    snapshot = _differing(tmp_path / "snapshot")
    evidence = collect_snapshot(snapshot, tmp_path / "evidence")
    found = answers(evidence)["findings"]
    assert {row["code"] for row in found} == {"CAP-NOT-CAPTURED"}
    assert {row["broker_id"] for row in found} == {1, 2}
    size = len(encode_batch(3, 5, 0, mark="one"))
    assert bring_wanted(snapshot, evidence, 1) == 2 * size
    codes = {row["code"] for row in answers(evidence)["findings"]}
    assert "DIV-CONTENT" in codes and "CAP-NOT-CAPTURED" not in codes


def test_bytes_that_changed_before_they_were_brought_are_not_used(tmp_path: Path) -> None:
    snapshot = _differing(tmp_path / "snapshot")
    evidence = collect_snapshot(snapshot, tmp_path / "evidence")
    log = snapshot / "broker-2" / "orders-0" / "00000000000000000000.log"
    with log.open("r+b") as file:
        file.seek(-2, io.SEEK_END)
        file.write(b"!!")
    assert bring_wanted(snapshot, evidence, 1)
    found = [row for row in answers(evidence)["findings"] if row["code"] == "CAP-NOT-CAPTURED"]
    assert [row["broker_id"] for row in found] == [2]


def test_a_tail_that_was_brought_after_the_log_was_cut_is_not_joined_to_it(tmp_path: Path) -> None:
    batches = [encode_batch(base, 3, 0) for base in (0, 3, 6, 9)]
    torn = Replica(batches[:3], tail=batches[3][:-9])
    snapshot = write_pair(tmp_path / "snapshot", Replica(batches), torn)
    evidence = collect_snapshot(snapshot, tmp_path / "evidence")
    log = snapshot / "broker-2" / "orders-0" / "00000000000000000000.log"
    with log.open("r+b") as file:
        file.truncate(len(batches[0]))
        file.seek(0, io.SEEK_END)
        file.write(encode_batch(3, 7, 1) + encode_batch(10, 7, 1) + encode_batch(17, 7, 1))
    assert bring_wanted(snapshot, evidence, 1)
    assert {row["code"] for row in answers(evidence)["findings"]} == {"CAP-NOT-CAPTURED"}


def test_a_damaged_log_without_its_bytes_is_compared_with_nothing(tmp_path: Path) -> None:
    sound = Replica([encode_batch(0, 3, 0), encode_batch(3, 3, 0)])
    torn = Replica([encode_batch(0, 3, 0)], tail=b"\x07" * 50)
    snapshot = write_pair(tmp_path / "snapshot", sound, torn)
    evidence = collect_snapshot(snapshot, tmp_path / "evidence")
    assert [(row["code"], row["severity"], row["broker_id"]) for row in answers(evidence)["findings"]] == [
        ("CAP-NOT-CAPTURED", "medium", 2)
    ]
    assert bring_wanted(snapshot, evidence, 1) == 50
    assert "LOG-TAIL-GARBAGE" in {row["code"] for row in answers(evidence)["findings"]}


def test_a_leader_without_its_last_bytes_is_not_called_a_listing_that_was_cut_short(tmp_path: Path) -> None:
    sound = Replica([encode_batch(0, 3, 0), encode_batch(3, 3, 0)])
    torn = Replica([encode_batch(0, 3, 0)], tail=b"\x07" * 50, high_watermark=6)
    snapshot = write_pair(tmp_path / "snapshot", torn, sound)
    found = answers(collect_snapshot(snapshot, tmp_path / "evidence"))["findings"]
    (said,) = (row["message"] for row in found if row["code"] == "CAP-SECOND-HAND")
    assert "not part of the evidence" in said and "listing" not in said


def test_records_are_not_called_gone_while_a_log_that_may_have_them_is_not_known(tmp_path: Path) -> None:
    batches = [encode_batch(base, 3, 0) for base in (0, 3, 6)]
    sides = (Replica(batches[:1], high_watermark=9), Replica(batches, tail=b"\x07" * 50, high_watermark=9))
    snapshot = write_pair(tmp_path / "snapshot", *sides, manifest={"quiesced": True}, clean=(1, 2))
    evidence = collect_snapshot(snapshot, tmp_path / "evidence")
    (found,) = (row for row in answers(evidence)["findings"] if row["code"] == "HWM-CP-ABOVE-LEO")
    assert found["severity"] == "high" and "may be on broker 2, whose logs were not compared" in found["message"]
    assert bring_wanted(snapshot, evidence, 1)
    assert answers(evidence)["findings"] == answers(copy_snapshot(snapshot, tmp_path / "copy" / "snapshot"))["findings"]


def test_a_listing_is_not_older_than_logs_for_epochs_that_its_leader_may_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rest = [encode_batch(3, 3, 0), encode_batch(6, 3, 1)]
    epochs = [(0, 0), (1, 6)]
    damaged = Replica([encode_batch(0, 3, 0)], tail=b"\x07" * 40 + b"".join(rest), high_watermark=9, epochs=epochs)
    snapshot = write_pair(tmp_path / "snapshot", damaged, Replica([encode_batch(0, 3, 0), *rest]))
    evidence = collect_snapshot(snapshot, tmp_path / "evidence")
    content = answers(evidence)
    assert {row["code"] for row in content["findings"]} <= {"CAP-NOT-CAPTURED", "CAP-SECOND-HAND"}
    assert [row["leader_id"] for row in content["partitions"]] == [1]
    assert main(["elect", str(evidence), "-q"]) != 0
    said = " ".join(capsys.readouterr().out.split())
    size = len(damaged.tail)
    assert f"No plan: the cost of an election depends on {size} bytes of broker 1 that were not collected" in said
    assert "would lose the least" not in said


def test_evidence_of_one_broker_stands_among_copies_of_others(tmp_path: Path) -> None:
    snapshot = FIXTURES / "diverged-unclean"
    copy = copy_snapshot(snapshot, tmp_path / "copy" / "snapshot")
    mixed = copy_snapshot(snapshot, tmp_path / "mixed" / "snapshot")
    collected = collect_snapshot(snapshot, tmp_path / "collected", "--raw")
    for path in sorted((mixed / "broker-1").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (mixed / "broker-1").rmdir()
    number = next(at for at, (_, path) in enumerate(log_dirs_of(snapshot) or (), 1) if path == "broker-1")
    (collected / f"evidence-{number}.tar").rename(mixed / "evidence-1.tar")
    assert answers(mixed) == answers(copy)


def test_an_archive_that_was_unpacked_answers_the_same(tmp_path: Path) -> None:
    snapshot = write_snapshot(tmp_path / "snapshot", {1: Replica([encode_batch(0, 3, 0)], tail=b"\0" * 9)})
    packed = collect_snapshot(snapshot, tmp_path / "packed", "--raw")
    expected = answers(packed)
    unpack(packed / "evidence-1.tar", packed)
    (packed / "evidence-1.tar").unlink()
    assert answers(packed) == expected
    assert "LOG-TAIL-ZERO" in {row["code"] for row in expected["findings"]}


def test_a_run_has_the_answers_of_show_and_knows_what_it_has_ingested(tmp_path: Path) -> None:
    evidence = collect_snapshot(FIXTURES / "diverged-unclean", tmp_path / "evidence")
    ran = run_stages(evidence, tmp_path / "warehouse")
    content = without_run(ran.results)
    shown = answers(evidence)
    assert content["findings"] == shown["findings"] and content["partitions"] == shown["partitions"]
    again = collect_snapshot(FIXTURES / "diverged-unclean", tmp_path / "again")
    assert without_run(run_stages(again, tmp_path / "warehouse").results)["partitions"] == content["partitions"]


def test_a_run_takes_what_was_brought_after_it(tmp_path: Path) -> None:
    sound = Replica([encode_batch(0, 3, 0), encode_batch(3, 3, 0)])
    torn = Replica([encode_batch(0, 3, 0)], tail=b"\x07" * 50)
    snapshot = write_pair(tmp_path / "snapshot", sound, torn)
    evidence = collect_snapshot(snapshot, tmp_path / "evidence")
    assert (
        answers(evidence)["findings"] == without_run(run_stages(evidence, tmp_path / "warehouse").results)["findings"]
    )
    assert bring_wanted(snapshot, evidence, 1)
    found = without_run(run_stages(evidence, tmp_path / "warehouse").results)
    assert found["findings"] == answers(evidence)["findings"]
    assert "LOG-TAIL-GARBAGE" in {row["code"] for row in found["findings"]}


def test_a_copy_of_a_log_dir_that_was_collected_does_not_count(tmp_path: Path) -> None:
    replica = Replica([encode_batch(0, 3, 0)])
    snapshot = write_pair(tmp_path / "snapshot", replica, replica)
    evidence = collect_snapshot(snapshot, tmp_path / "evidence")
    expected = answers(evidence)
    later = Replica([encode_batch(2, 9, 4)], clean_shutdown=True)
    moved = Replica([encode_batch(0, 3, 0)], topic="moved")
    write_snapshot(tmp_path / "later", {1: [later, moved]})
    shutil.copytree(tmp_path / "later" / "broker-1", evidence / "broker-1")
    found = answers(evidence)
    for one in (expected, found):
        one["quarantine"] = [row for row in one["quarantine"] if row["code"] != "INPUT-IGNORED"]
        one.pop("inventory", None)
    assert found["findings"] == expected["findings"] and found["replicas"] == expected["replicas"]


def test_a_topic_that_one_broker_was_not_asked_for_is_not_missing_there(tmp_path: Path) -> None:
    replicas = [Replica([encode_batch(0, 3, 0)], topic=topic) for topic in ("a", "b", "c")]
    snapshot = write_snapshot(tmp_path / "snapshot", {1: replicas, 2: replicas})
    evidence = tmp_path / "evidence"
    evidence.mkdir()
    for broker_id, left_out in ((1, "a"), (2, "b")):
        topics = [part for topic in "abc" if topic != left_out for part in ("--topic", topic)]
        collect_into(
            evidence / f"evidence-{broker_id}.tar", "--log-dir", str(snapshot / f"broker-{broker_id}"), *topics
        )
    for asked in ((), ("a", "c")):
        content = json.loads(audit_json_text(audit_all(str(evidence), Settings(quiet=True, topics=asked))))
        assert [row["topic"] for row in content["partitions"]] == ["c"]
        assert any("collected for different topics" in row["reason"] for row in content["quarantine"])
