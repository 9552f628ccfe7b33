"""What is worked out once: replays of truncation, cuts under candidates, batches and epoch files of equal copies, log dirs of a broker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.support.scenario import audit, written
from tests.support.snapshots import Replica
from tests.support.some import some

from replica_audit.auditing.compare import replays
from replica_audit.auditing.compare.loaded_batches import LoadedBatches
from replica_audit.auditing.leadership.capture_times import CaptureTimes
from replica_audit.auditing.replicas.log_contents import CorruptEpoch
from replica_audit.literals import PROTOCOLS
from replica_audit.segments.record_batch import BATCH_DTYPE
from replica_audit.snapshot.checkpoints import parse_epoch_checkpoint
from replica_audit.snapshot.inventory import CopiedLogDir


def test_each_replay_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader, an equal follower, and one that has other records of a deposed leader."""
    made = []
    replay = replays.replay

    def counted(*given: Any) -> object:
        made.append(given)
        return replay(*given)

    monkeypatch.setattr(replays, "replay", counted)
    common = written(0, 20, 0)
    led = Replica([*common, *written(20, 40, 1)], high_watermark=20)
    left = Replica([*common, *written(20, 40, 0, "left")], high_watermark=20)
    answer = audit(tmp_path, {1: led, 2: led, 3: left}, isr=[1, 2])
    candidates = {row["candidate_id"] for row in answer.rows("elections")}
    assert candidates == {1, 2, 3}, answer
    by_logs = 2 * len(PROTOCOLS)
    by_files = 2
    under_candidates = len(candidates) * 2
    assert len(made) == by_logs + by_files + under_candidates


def _rows(places: Sequence[tuple[int, int]]) -> np.ndarray:
    """Batches of epoch 0 from the first to the last offset of each place."""
    rows = np.zeros(len(places), BATCH_DTYPE)
    rows["base_offset"], rows["last_offset"] = zip(*places, strict=True)
    rows["magic"], rows["crc_valid"], rows["record_count"], rows["crc"] = 2, True, 5, rows["base_offset"]
    return rows


def _facts(broker: int, *rot: CorruptEpoch) -> Any:
    return SimpleNamespace(key=(broker, "data"), rot=rot)


def test_equal_copies_share_their_batches() -> None:
    rows = _rows([(base, base + 4) for base in range(0, 50, 5)])
    other = rows.copy()
    other["crc"][3] += 1
    loaded = LoadedBatches.of({(1, "data"): rows, (2, "data"): rows.copy(), (3, "data"): other})
    assert LoadedBatches.of(loaded) is loaded
    assert loaded[1, "data"] is loaded[2, "data"] is not loaded[3, "data"]
    one, two, three, four = (loaded.batches_of(_facts(broker), {0}) for broker in (1, 2, 3, 4))
    assert one is two is loaded.batches_of(_facts(1), [0])
    assert three.rows.tolist() == other.tolist()
    assert len(four) == len(loaded.batches_of(_facts(1), {1})) == 0


def test_changed_epochs_are_restored_in_batches_and_rows() -> None:
    rows = _rows([(base, base + 4) for base in range(0, 20, 5)])
    rows["leader_epoch"][2] = 7
    rot = CorruptEpoch((1, "data"), 10, 15, 7, 0, (2, "data"), "proven", False)
    loaded = LoadedBatches({(1, "data"): rows})
    assert loaded.batches_of(_facts(1), {0}).epochs.tolist() == [0, 0, 7, 0]
    assert loaded.batches_of(_facts(1, rot), {0}).epochs.tolist() == [0, 0, 0, 0]
    assert loaded.rows_of(_facts(1, rot))["leader_epoch"].tolist() == [0, 0, 0, 0]
    assert rows["leader_epoch"].tolist() == [0, 0, 7, 0]


def _logs() -> Iterator[np.ndarray]:
    """Batches in order of base offset, some of which overlap."""
    dice = np.random.default_rng(7)
    for _ in range(200):
        bases = np.sort(dice.integers(0, 60, dice.integers(1, 20)))
        yield _rows([(base, base + int(dice.integers(0, 12))) for base in bases.tolist()])


def test_batches_above_an_offset_are_those_that_reach_it() -> None:
    for rows in some(_logs()):
        batches = LoadedBatches({(1, "data"): rows}).batches_of(_facts(1), {0})
        for offset in range(75):
            expected = [one for one in rows.tolist() if one[list(rows.dtype.names).index("last_offset")] >= offset]
            assert batches.above(offset).rows.tolist() == expected
            assert batches.above(offset) is batches.above(offset)


def test_equal_epoch_files_are_parsed_once() -> None:
    texts = [f"0\n2\n0 0\n1 {start}\n".encode() for start in (6, 6, 7)]
    one, two, three = (parse_epoch_checkpoint(text, f"broker-{number}") for number, text in enumerate(texts))
    assert one is two and three == ((0, 0), (1, 7))
    long = b"0\n2000\n" + b"".join(b"%d %d\n" % (epoch, epoch) for epoch in range(2000))
    assert parse_epoch_checkpoint(long, "a") == parse_epoch_checkpoint(long, "b")
    assert parse_epoch_checkpoint(long, "a") is not parse_epoch_checkpoint(long, "b")


class _Counted(tuple[CopiedLogDir, ...]):
    """Log dirs that count how often all of them are gone through."""

    rounds = 0

    def __iter__(self) -> Iterator[CopiedLogDir]:
        self.rounds += 1
        return super().__iter__()


def test_what_brokers_did_is_found_without_the_log_dirs_of_others() -> None:
    """A manifest names each log dir of a cluster, and each replica is looked up in it."""
    copies = _Counted(CopiedLogDir(broker, f"broker-{broker}/a", 5, 6, "killed") for broker in range(50))
    times = CaptureTimes(copies)
    for broker in range(50):
        place = broker, f"broker-{broker}/a"
        assert times.was_killed(*place) and not times.was_live(*place) and times.of_log_dir(*place) == (5, 6)
        assert not times.is_superseded(*place, "orders-0")
    assert copies.rounds == 1
