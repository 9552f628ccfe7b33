"""A follower that was not cut, one that was cut too far, and a committed loss, told from each other and from peace."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.captures import FIXTURES
from tests.support.encoder import encode_batch
from tests.support.snapshots import Replica, write_snapshot

from replica_audit.cli.main import main
from replica_audit.config import Settings
from replica_audit.errors import InputError
from replica_audit.verify.two_snapshots import verify_snapshots


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


#: Broker 2 led epoch 0 to 20, of which broker 1 had 15; broker 1 leads epoch 1 from there.
FORKED = {1: [(0, 10), (0, 5), (1, 5)], 2: [(0, 10), (0, 5), (0, 5)]}


@pytest.fixture
def forked(tmp_path: Path) -> Callable[..., Any]:
    def verify(logs: dict[int, list[tuple[int, int]]], isr: list[int], mark: int = 15, **more: Any):
        _write(tmp_path / "before", FORKED, 1, [1], marks={1: 15, 2: mark})
        _write(tmp_path / "after", logs, 1, isr, **more)
        return verify_snapshots(str(tmp_path / "before"), str(tmp_path / "after"), Settings())

    return verify


def _said(found: Any, broker: int) -> tuple:
    (row,) = (row for row in found.verifications if row.broker_id == broker)
    return row.verdict, row.kept_to, row.expected


def test_a_follower_that_was_cut_where_it_should_be_is_correct(forked: Callable[..., Any]) -> None:
    found = forked({1: FORKED[1], 2: FORKED[1]}, [1, 2])
    assert _said(found, 2) == ("correct", 15, 15)
    assert found.exit_status == 0
    assert [(row.start_offset, row.end_offset, row.committed) for row in found.gone_records] == [(15, 20, "no")]


def test_one_that_is_cut_and_has_not_fetched_the_rest_is_correct_too(forked: Callable[..., Any]) -> None:
    assert _said(forked({1: FORKED[1], 2: [(0, 10), (0, 5)]}, [1]), 2) == ("correct", 15, 15)


def test_a_follower_that_was_not_cut_though_it_joined_the_isr(forked: Callable[..., Any]) -> None:
    found = forked({1: FORKED[1], 2: FORKED[2]}, [1, 2])
    assert _said(found, 2) == ("under_truncated", 20, 15)
    assert found.exit_status == 1


def test_a_follower_that_went_on_from_its_own_end(forked: Callable[..., Any]) -> None:
    found = forked({1: [*FORKED[1], (1, 5)], 2: [*FORKED[2], (1, 5)]}, [1])
    assert _said(found, 2) == ("under_truncated", 20, 15)


def test_a_follower_that_is_still_down_has_not_followed_yet(forked: Callable[..., Any]) -> None:
    found = forked({1: FORKED[1], 2: FORKED[2]}, [1])
    assert _said(found, 2) == ("not_yet", 20, 15)
    assert found.exit_status == 1
    assert not found.gone_records


def test_a_follower_that_was_cut_too_far(forked: Callable[..., Any]) -> None:
    found = forked({1: FORKED[1], 2: [(0, 10)]}, [1])
    assert _said(found, 2) == ("over_truncated", 10, 15)
    assert found.exit_status == 1


def test_a_cut_that_costs_committed_records(forked: Callable[..., Any]) -> None:
    found = forked({1: FORKED[1], 2: FORKED[1]}, [1, 2], mark=18)
    assert _said(found, 2) == ("lost_committed", 15, 15)
    told = [(row.start_offset, row.end_offset, row.committed) for row in found.gone_records]
    assert told == [(15, 18, "proven"), (18, 20, "no")]
    assert [row.lost_committed for row in found.verifications] == [0, 3]


def test_a_leader_that_lost_its_own_tail(tmp_path: Path) -> None:
    _write(tmp_path / "before", {1: [(0, 10), (0, 5)], 2: [(0, 10), (0, 5)]}, 1, [1, 2])
    _write(tmp_path / "after", {1: [(0, 10)], 2: [(0, 10)]}, 1, [1, 2])
    found = verify_snapshots(str(tmp_path / "before"), str(tmp_path / "after"), Settings())
    assert [_said(found, broker) for broker in (1, 2)] == [("lost_committed", 10, 10)] * 2
    assert [(row.start_offset, row.end_offset, row.committed) for row in found.gone_records] == [(10, 15, "proven")]


def test_retention_and_new_records_are_no_loss(tmp_path: Path) -> None:
    _write(tmp_path / "before", {1: [(0, 10), (0, 5)], 2: [(0, 10)]}, 1, [1, 2], marks={1: 10, 2: 10})
    later = {"starts": {1: 10, 2: 10}}
    _write(tmp_path / "after", {1: [(0, 5), (0, 9)], 2: [(0, 5), (0, 9)]}, 1, [1, 2], **later)
    found = verify_snapshots(str(tmp_path / "before"), str(tmp_path / "after"), Settings())
    assert {row.verdict for row in found.verifications} == {"correct"}
    assert (found.exit_status, found.gone_records) == (0, ())


def test_a_log_that_is_not_in_the_later_snapshot_may_hold_what_nobody_else_does(tmp_path: Path) -> None:
    _write(tmp_path / "before", FORKED, 1, [1], marks={1: 15, 2: 18})
    _write(tmp_path / "after", {1: FORKED[1]}, 1, [1])
    found = verify_snapshots(str(tmp_path / "before"), str(tmp_path / "after"), Settings())
    assert _said(found, 2) == ("not_yet", None, None)
    assert [row.may_hold for row in found.gone_records] == [[2], [2]]


def test_a_log_that_cannot_be_read_is_said_and_is_3(tmp_path: Path) -> None:
    _write(tmp_path / "before", {1: [(0, 10)], 2: [(0, 10)]}, 1, [1, 2])
    _write(tmp_path / "after", {1: [(0, 10)], 2: [(0, 10)]}, 1, [1, 2])
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
        "CRITICAL: 9 replicas of 3 partitions, 3 lost_committed; committed records on no replica now: 84"
    )
    assert main(["verify", *pair, "--topic", "ledger", "--format", "json", "--quiet"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["status"], answer["exit_status"], len(answer["verifications"])) == ("CRITICAL", 1, 9)
    assert main(["verify", str(FIXTURES / "lagging"), str(FIXTURES / "lagging-caught-up"), "--quiet"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("OK: 11 replicas of 4 partitions kept exactly")
    assert main(["verify", pair[0]]) == 2
    assert "two snapshots are needed" in capsys.readouterr().err
