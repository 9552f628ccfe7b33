"""A follower that was not cut, one that was cut too far, and a committed loss, told from each other and from peace."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.support.captures import FIXTURES
from tests.support.encoder import encode_batch
from tests.support.snapshots import Replica, write_snapshot

from replica_audit.cli.main import main
from replica_audit.config import Settings
from replica_audit.errors import InputError
from replica_audit.report.verify_text import render_verification
from replica_audit.verify.verification import verify_snapshots


def _write(path: Path, logs: dict[int, list[tuple[int, int]]], leader: int, isr: list[int], **more: Any) -> None:
    """Logs by broker as (leader epoch, records) of one batch after the other."""
    written = {}
    for broker, parts in logs.items():
        offset, batches, epochs = more.get("starts", {}).get(broker, 0), [], []
        start = offset
        for epoch, count in parts:
            batches.append(encode_batch(offset, count, epoch, mark=f"{epoch}-{offset}"))
            if not epochs or epochs[-1][0] != epoch:
                epochs.append((epoch, offset))
            offset += count
        mark = more.get("marks", {}).get(broker, offset)
        written[broker] = Replica(batches, epochs, high_watermark=mark, topic_id=None, first_base_offset=start)
    epoch = max(part[0] for parts in logs.values() for part in parts)
    said = {"topic": "orders", "partition": 0, "leader": leader, "leader_epoch": epoch, "isr": isr}
    write_snapshot(path, written, leadership=[said], manifest={"quiesced": True})


def _verify(path: Path, before: tuple, after: tuple) -> Any:
    """The verification of two snapshots, each given as logs, ISR and what `_write` takes besides; broker 1 leads both."""
    for name, (logs, isr, more) in (("before", before), ("after", after)):
        _write(path / name, logs, 1, isr, **more)
    return verify_snapshots(str(path / "before"), str(path / "after"), Settings())


#: Broker 2 led epoch 0 to 20, of which broker 1 had 15; broker 1 leads epoch 1 from there.
LEADER = [(0, 10), (0, 5), (1, 5)]
OLD = [(0, 10), (0, 5), (0, 5)]


def forked(mark: int = 15) -> tuple:
    return {1: LEADER, 2: OLD}, [1], {"marks": {1: 15, 2: mark}}


#: Before, after, (verdict, kept to, expected) of broker 2, exit status, ranges that no replica holds now.
CASES = {
    "cut where it should be": (
        forked(), ({1: LEADER, 2: LEADER}, [1, 2], {}), ("correct", 15, 15), 0, [(15, 20, "no")],
    ),
    "cut, and has not fetched the rest": (
        forked(), ({1: LEADER, 2: OLD[:2]}, [1], {}), ("correct", 15, 15), 0, [(15, 20, "no")],
    ),
    "not cut, though it joined the ISR": (
        forked(), ({1: LEADER, 2: OLD}, [1, 2], {}), ("under_truncated", 20, 15), 1, [],
    ),
    "went on from its own end": (
        forked(), ({1: [*LEADER, (1, 5)], 2: [*OLD, (1, 5)]}, [1], {}), ("under_truncated", 20, 15), 1, [],
    ),
    "still down, and has not followed": (
        forked(), ({1: LEADER, 2: OLD}, [1], {}), ("not_yet", 20, 15), 1, [],
    ),
    "cut too far": (
        forked(), ({1: LEADER, 2: OLD[:1]}, [1], {}), ("over_truncated", 10, 15), 1, [(15, 20, "no")],
    ),
    "cut, and committed records with it": (
        forked(18), ({1: LEADER, 2: LEADER}, [1, 2], {}), ("lost_committed", 15, 15), 1, [(15, 18, "proven"), (18, 20, "no")],
    ),
    "followed a leader that lost its tail": (
        ({1: OLD[:2], 2: OLD[:2]}, [1, 2], {}), ({1: OLD[:1], 2: OLD[:1]}, [1, 2], {}), ("lost_committed", 10, 10), 1,
        [(10, 15, "proven")],
    ),
    "retention, and new records": (
        ({1: OLD[:2], 2: OLD[:1]}, [1, 2], {"marks": {1: 10, 2: 10}}),
        ({1: [(0, 5), (0, 9)], 2: [(0, 5), (0, 9)]}, [1, 2], {"starts": {1: 10, 2: 10}}),
        ("correct", 10, 10), 0, [],
    ),
    "not in the later snapshot": (
        forked(18), ({1: LEADER}, [1], {}), ("not_yet", None, None), 1, [(15, 18, "proven"), (18, 20, "no")],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after", "said", "status", "gone"), CASES.values(), ids=CASES)
def test_what_became_of_a_follower(
    tmp_path: Path, before: tuple, after: tuple, said: tuple, status: int, gone: list[tuple]
) -> None:
    found = _verify(tmp_path, before, after)
    (row,) = (row for row in found.verifications if row.broker_id == 2)
    assert (row.verdict, row.kept_to, row.expected) == said
    assert found.exit_status == status
    assert [(one.start_offset, one.end_offset, one.committed) for one in found.gone_records] == gone
    # A log that is not in the later snapshot may hold what nobody else does.
    assert {tuple(one.may_hold) for one in found.gone_records} <= ({(2,)} if row.kept_to is None else {()})
    proven = sum(end - start for start, end, committed in gone if committed == "proven")
    assert row.lost_committed in (None, proven)


def test_a_leader_that_lost_its_own_tail_is_told_like_its_followers(tmp_path: Path) -> None:
    before, after, said, *_ = CASES["followed a leader that lost its tail"]
    found = _verify(tmp_path, before, after)
    assert [(row.verdict, row.kept_to, row.expected) for row in found.verifications] == [said] * 2


def test_a_log_that_cannot_be_read_is_said_and_is_3(tmp_path: Path) -> None:
    for name in ("before", "after"):
        _write(tmp_path / name, {1: [(0, 10)], 2: [(0, 10)]}, 1, [1, 2])
    (log,) = (tmp_path / "after" / "broker-2" / "orders-0").glob("*.log")
    log.unlink()
    found = verify_snapshots(str(tmp_path / "before"), str(tmp_path / "after"), Settings())
    assert found.exit_status == 3
    assert ["broker 2" in row.reason for row in found.not_verified] == [True]


def test_a_capture_whose_healed_log_is_put_back_was_not_cut(tmp_path: Path) -> None:
    """The same of a real cluster: diverged-healed with the log that broker 0 had before."""
    shutil.copytree(FIXTURES / "diverged-healed", tmp_path / "after")
    shutil.rmtree(tmp_path / "after" / "broker-0" / "ledger-0")
    shutil.copytree(
        FIXTURES / "diverged-unclean" / "broker-0" / "ledger-0", tmp_path / "after" / "broker-0" / "ledger-0"
    )
    found = verify_snapshots(str(FIXTURES / "diverged-unclean"), str(tmp_path / "after"), Settings(topics=("ledger",)))
    told = {(row.partition, row.broker_id): row.verdict for row in found.verifications if row.broker_id == 0}
    assert told == {(0, 0): "under_truncated", (1, 0): "lost_committed", (2, 0): "lost_committed"}


def test_snapshots_of_two_clusters_are_refused() -> None:
    with pytest.raises(InputError, match="one cluster"):
        verify_snapshots(str(FIXTURES / "lagging"), str(FIXTURES / "elr-healed"), Settings())


def test_the_command_says_it_in_text_and_json_and_by_its_status(capsys: pytest.CaptureFixture[str]) -> None:
    pair = [str(FIXTURES / name) for name in ("diverged-unclean", "diverged-healed")]
    assert main(["verify", *pair, "--topic", "ledger", "--quiet"]) == 1
    out = capsys.readouterr().out
    assert "ledger-1 [41, 58): 17 committed records of epoch 1, held by broker 0" in out
    assert out.splitlines()[-1] == (
        "CRITICAL: 9 replicas of 3 partitions, 3 lost committed records; committed records on no replica now: 84"
    )
    assert main(["verify", *pair, "--topic", "ledger", "--format", "json", "--quiet"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["status"], answer["exit_status"], len(answer["verifications"])) == ("CRITICAL", 1, 9)
    assert main(["verify", str(FIXTURES / "lagging"), str(FIXTURES / "lagging-caught-up"), "--quiet"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("OK: 11 replicas of 4 partitions kept exactly")
    assert main(["verify", pair[0]]) == 2
    assert "two snapshots are needed" in capsys.readouterr().err
    assert main(["verify", pair[0], f"{pair[0]}/", "--quiet"]) == 1
    assert "BEFORE and AFTER are the same snapshot: nothing can have happened in between" in capsys.readouterr().err


def _copied(path: Path, logs: dict[int, list[tuple[int, int]]], minute: int) -> str:
    """A snapshot of `logs` that was copied within a second of that minute; broker 1 leads."""
    _write(path, logs, 1, [1, 2])
    text = (path / "manifest.json").read_text()
    (path / "manifest.json").write_text(text.replace("T22:30:", f"T22:{minute}:"))
    return str(path)


@pytest.mark.parametrize(
    ("before", "after", "went_back"),
    [
        ({1: LEADER, 2: OLD}, {1: LEADER, 2: LEADER}, 0),
        ({1: LEADER, 2: LEADER}, {1: LEADER, 2: OLD}, 1),  # in one epoch no follower gets older records again
        ({1: LEADER, 2: LEADER}, {1: LEADER, 2: LEADER[:2]}, 0),  # it may have lost its end in a crash
        ({1: LEADER, 2: LEADER}, {1: OLD, 2: OLD}, 1),
        ({1: LEADER, 2: LEADER}, {1: OLD}, 0),  # the other log may know a later epoch
        ({1: LEADER, 2: LEADER}, {1: [*LEADER[:2], (2, 5)], 2: OLD}, 0),
    ],
)
def test_without_a_metadata_log_leader_epochs_tell_snapshots_that_were_swapped(
    before: dict, after: dict, went_back: int, tmp_path: Path
) -> None:
    found = verify_snapshots(_copied(tmp_path / "a", before, 30), _copied(tmp_path / "b", after, 30), Settings())
    assert found.inputs["went_back"] == went_back
    assert ("went back to an older state" in " ".join(render_verification(found).split())) == bool(went_back)


def test_an_epoch_that_only_one_of_the_snapshots_is_told_says_nothing_of_their_order(tmp_path: Path) -> None:
    """The controllers, or leadership.json, count epochs in which nobody led, or nothing was written."""
    pair = [_copied(tmp_path / name, {1: LEADER, 2: LEADER}, 30) for name in "ab"]
    said = json.loads((tmp_path / "a/leadership.json").read_text())
    (tmp_path / "a/leadership.json").write_text(json.dumps([one | {"leader_epoch": 7} for one in said]))
    (tmp_path / "b/leadership.json").unlink()
    assert verify_snapshots(*pair, Settings()).inputs["went_back"] == 0


@pytest.mark.parametrize(("minutes", "swapped"), [((31, 30), True), ((30, 31), False), ((30, 30), False)])
def test_times_of_the_manifests_tell_snapshots_that_were_swapped(
    minutes: tuple[int, int], swapped: bool, tmp_path: Path
) -> None:
    first, second = (_copied(tmp_path / str(n), {1: LEADER, 2: LEADER}, minute) for n, minute in enumerate(minutes))
    found = verify_snapshots(first, second, Settings())
    assert found.inputs["copied_first"] == swapped
    assert (
        "the second snapshot was copied before the first" in " ".join(render_verification(found).split())
    ) == swapped
