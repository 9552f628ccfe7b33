"""A checkpoint file names a partition whose directory is missing: what its high watermark proves, and when it does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.fixtures import FIXTURES
from tests.support.less import without

from replica_audit.config import Settings
from replica_audit.model import TopicPartition
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_all, audit_one

MARKS = Path("broker-0/replication-offset-checkpoint")


def _part(tmp_path: Path, capture: str = "diverged-unclean", **left_out) -> Path:
    """A capture without the directory of ledger-1 on broker 0, which led it and was killed."""
    place = without(FIXTURES / capture, tmp_path / "part", **left_out)
    gone = place / "broker-0" / "ledger-1"
    for file in gone.iterdir():
        file.unlink()
    gone.rmdir()
    return place


def _answer(place: Path) -> Results:
    return audit_one(str(place), TopicPartition("ledger", 1), Settings())


def _lost(place: Path) -> tuple:
    answer = _answer(place)
    (row,) = answer.rows("partitions")
    losses = [one for one in answer.rows("findings") if one["code"] == "HWM-LOSS"]
    return row["verdict"], row["lost_committed"], row["lost_at_least"], len(losses)


def test_a_mark_of_a_broker_that_was_fenced_before_the_election_proves_a_loss(tmp_path: Path) -> None:
    place = _part(tmp_path)
    assert _lost(place) == ("COMMITTED_LOSS", 17, True, 1)
    (found,) = [one for one in _answer(place).rows("findings") if one["code"] == "HWM-LOSS"]
    assert (found["broker_id"], found["start_offset"], found["end_offset"]) == (0, 41, 58)
    (whole,) = audit_one(
        str(FIXTURES / "diverged-unclean"), TopicPartition("ledger", 1), Settings()
    ).rows("partitions")  # fmt: skip
    assert whole["lost_committed"] == 17


def test_every_partition_of_the_broker_counts(tmp_path: Path) -> None:
    place = _part(tmp_path, names=("ledger-0", "ledger-2"))
    for partition in ("ledger-0", "ledger-2"):
        for broker_id in (1, 2):
            target = place / f"broker-{broker_id}" / partition
            target.mkdir()
            for file in (FIXTURES / "diverged-unclean" / f"broker-{broker_id}" / partition).iterdir():
                (target / file.name).write_bytes(file.read_bytes())
    lost = {
        (row["topic"], row["partition"]): row["lost_committed"]
        for row in audit_all(str(place), Settings()).rows("partitions")
    }
    assert [lost["ledger", number] for number in range(3)] == [45, 17, 22]


@pytest.mark.parametrize(
    "names",
    [("controller", "__cluster_metadata-0"), ("controller", "__cluster_metadata-0", "kafka-topics-describe.txt")],
    ids=["a listing only", "nothing says who leads"],
)
def test_without_the_metadata_log_it_proves_nothing(tmp_path: Path, names: tuple[str, ...]) -> None:
    assert _lost(_part(tmp_path, names=names)) == ("INCONCLUSIVE", None, None, 0)


def test_a_mark_below_the_election_proves_nothing(tmp_path: Path) -> None:
    place = _part(tmp_path)
    text = (place / MARKS).read_text()
    assert "ledger 1 58" in text
    (place / MARKS).unlink()
    (place / MARKS).write_text(text.replace("ledger 1 58", "ledger 1 41"))
    assert _lost(place) == ("INCONCLUSIVE", None, None, 0)


def test_a_copy_on_another_disk_is_what_counts(tmp_path: Path) -> None:
    place = _part(tmp_path)
    other = place / "broker-0" / "disk-b"
    (other / "ledger-1").mkdir(parents=True)
    source = FIXTURES / "diverged-unclean" / "broker-0"
    for name in ("meta.properties", *(f"ledger-1/{file.name}" for file in (source / "ledger-1").iterdir())):
        (other / name).write_bytes((source / name).read_bytes())
    answer = _answer(place)
    assert all("checkpoint file of broker 0" not in one["message"] for one in answer.rows("findings"))
    assert [row["log_dir"] for row in answer.rows("replicas") if row["broker_id"] == 0] == ["broker-0/disk-b"]


def test_a_broker_that_followed_since_proves_nothing(tmp_path: Path) -> None:
    verdict, lost, _, losses = _lost(_part(tmp_path, "diverged-healed"))
    assert (verdict, losses) != ("COMMITTED_LOSS", 1) and not lost and losses == 0
