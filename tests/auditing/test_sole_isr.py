"""A leader that was alone in the ISR: what proves that its log was committed, and what makes it likely only (F.0)."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support import metadata_log as write
from tests.support.captures import FIXTURES, audit_capture, truth
from tests.support.scenario import Answer, audit, written
from tests.support.scenes import change, scene
from tests.support.snapshots import TOPIC, Replica, make_uuid, write_partition
from tests.support.some import some

from replica_audit.config import Settings
from replica_audit.model import TopicPartition
from replica_audit.runner.in_process import audit_one

COMMON = written(0, 50, 0)
#: It led epoch 0 alone; its checkpoint is from before.
OLD = Replica([*COMMON, *written(50, 70, 0, "old ")], high_watermark=50)
NEW = Replica([*COMMON, *written(50, 60, 1, "new ")])
OTHER, OTHER_ID = "payments", make_uuid("payments topic")

FENCE_2, FENCE_3 = (write.registration_change(broker, 1) for broker in (2, 3))
UNFENCE_2 = write.registration_change(2, -1)


#: As a controller writes it: the fencing record of a broker follows the changes that it makes to partitions.
ALONE = [change(isr=(1, 2)), FENCE_3, change(isr=(1,)), FENCE_2]
ELECTED = [change(leader=2, isr=(2,), recovering=True)]
NOOP = write.config(2, OTHER, "segment.bytes", "1048576")


def led_alone(
    path: Path,
    *batches: Sequence[bytes],
    brokers: dict[int, Replica] | None = None,
    own_copy: int | None = 2,
    before: Sequence[bytes] = (),
    other_epochs: tuple[tuple[int, int], ...] | None = None,
    **options,
) -> Answer:
    """The scene of `OLD`, which has led; the controller writes `batches` after the records `before`.

    Broker 1 has a copy of the metadata log up to and with the first `own_copy` of them; None: no copy. `other_epochs`: it
    has a replica of `OTHER` too, with these entries in its leader-epoch-checkpoint.
    """

    def other() -> None:
        if other_epochs is not None:
            replica = Replica(written(0, 10, 0), other_epochs, topic=OTHER, topic_id=OTHER_ID)
            write_partition(path / "broker-1" / replica.name, replica)

    return scene(
        path,
        brokers or {1: OLD, 2: NEW, 3: NEW},
        *batches,
        seen={} if own_copy is None else {1: own_copy},
        also=[*write.new_topic(OTHER, OTHER_ID, (1, 2, 3), 2), *before],
        before_audit=other,
        **options,
    )


def committed(answer: Answer) -> int:
    row = answer.tables["partitions"][0]
    assert row["lost_records"] == 20, answer
    of_old = [run for run in answer.tables["divergences"] if run["broker_id"] == 1]
    assert sum(run["committed_records"] for run in of_old) == row["lost_committed"]
    return row["lost_committed"]


def is_likely(answer: Answer) -> bool:
    said = [row for row in answer.found("DIV-EPOCH") if "makes it likely that they were committed" in row["message"]]
    assert len(said) in (0, len(answer.found("DIV-EPOCH")))
    return bool(said)


def test_alone_with_everybody_else_fenced_is_proof(tmp_path: Path) -> None:
    answer = led_alone(tmp_path, ALONE, [NOOP], [UNFENCE_2], ELECTED)
    assert committed(answer) == 20 and answer.verdict == "COMMITTED_LOSS", answer
    losses = answer.found("HWM-LOSS")
    assert [(row["severity"], row["confidence"], row["start_offset"], row["end_offset"]) for row in losses] == [
        ("critical", "proven", 50, 60),
        ("critical", "proven", 60, 70),
    ]
    assert "broker 1 was alone in the ISR in leader epoch 0 from 2023-11-14T22:13:21.000Z on" in losses[0]["message"]
    told = " ".join(one["text"] for one in losses[0]["evidence"])
    for part in ("min.insync.replicas was 1", "its own copy of the metadata log", "fenced in the same metadata batch"):
        assert part in told
    assert {row["committed_evidence"] for row in answer.tables["divergences"]} == {
        "broker 1 was alone in the ISR in leader epoch 0 from 2023-11-14T22:13:21.000Z on"
    }


def test_what_others_have_of_its_log_is_committed_too(tmp_path: Path) -> None:
    part = Replica([*COMMON, *written(50, 65, 0, "old ")], high_watermark=10)
    brokers = {1: OLD, 2: NEW, 3: part}
    answer = led_alone(tmp_path, ALONE, [NOOP], [UNFENCE_2], ELECTED, brokers=brokers)
    assert committed(answer) == 20
    assert answer.replica(3)["lost_committed_held"] == 15


@pytest.mark.parametrize("minimum", ["2", "3"])
def test_too_few_in_sync_prove_nothing(tmp_path: Path, minimum: str) -> None:
    batches = (ALONE, [NOOP], [UNFENCE_2], ELECTED)
    answer = led_alone(tmp_path / "a", *batches, configs={"min.insync.replicas": minimum})
    assert committed(answer) == 0 and not is_likely(answer)
    # Before 3.7 the high watermark moved all the same; since then not, and not where the version is unknown.
    old = led_alone(tmp_path / "b", *batches, configs={"min.insync.replicas": minimum}, kafka_version="3.6.2")
    new = led_alone(tmp_path / "c", *batches, configs={"min.insync.replicas": minimum}, kafka_version="3.7.0")
    assert (committed(old), committed(new)) == (20, 0)


def test_before_3_6_fenced_replicas_may_have_held_the_high_watermark_back(tmp_path: Path) -> None:
    answer = led_alone(tmp_path, ALONE, [NOOP], [UNFENCE_2], ELECTED, kafka_version="3.5.1")
    assert committed(answer) == 0 and is_likely(answer)


@pytest.mark.parametrize(
    ("before", "count"),
    [
        ((), 0),
        ((write.feature("eligible.leader.replicas.version", 1),), 20),
        ((write.feature("eligible.leader.replicas.version", 0),), 0),
        ((write.config(4, "", "min.insync.replicas", "1"),), 20),
        ((write.config(4, "", "min.insync.replicas", "2"),), 0),
        ((write.config(4, "", "min.insync.replicas", "2"), write.config(4, "1", "min.insync.replicas", "1")), 20),
    ],
)
def test_the_effective_min_insync_replicas_counts(tmp_path: Path, before: tuple[bytes, ...], count: int) -> None:
    answer = led_alone(tmp_path, ALONE, [NOOP], [UNFENCE_2], ELECTED, configs={}, before=before)
    assert committed(answer) == count, answer
    assert not is_likely(answer)


@pytest.mark.parametrize(
    "middle",
    [
        [write.config(2, TOPIC, "min.insync.replicas", "2")],
        [change(isr=(1, 2))],
    ],
    ids=["raised", "grew"],
)
def test_what_changes_before_the_epoch_ends_takes_the_proof_away(tmp_path: Path, middle: list[bytes]) -> None:
    answer = led_alone(tmp_path, ALONE, middle, [NOOP], [UNFENCE_2], ELECTED, own_copy=3)
    assert committed(answer) == 0 and not is_likely(answer)


def test_alone_again_counts_from_then_on(tmp_path: Path) -> None:
    again = [change(isr=(1,)), FENCE_2]
    batches = (ALONE, [UNFENCE_2, change(isr=(1, 2))], again, [NOOP], [UNFENCE_2], ELECTED)
    assert committed(led_alone(tmp_path, *batches, own_copy=4)) == 20


@pytest.mark.parametrize(
    ("batches", "own_copy"),
    [
        # One left the ISR in a controlled way and was fenced only in a later batch.
        (([change(isr=(1, 2)), FENCE_3, change(isr=(1,))], [FENCE_2], [NOOP], [UNFENCE_2], ELECTED), 3),
        # It could know that one came back.
        ((ALONE, [UNFENCE_2], [NOOP], ELECTED), 3),
        # Its process came back since, and its copy may be of then.
        ((ALONE, [NOOP], [UNFENCE_2], ELECTED, [write.register_broker(1, fenced=True)]), 5),
    ],
    ids=["fenced-later", "unfenced-before", "came-back"],
)
def test_fencing_that_is_known_from_times_only_is_likely(tmp_path: Path, batches: tuple, own_copy: int) -> None:
    brokers = {1: replace(OLD, batches=[*COMMON, *_written_late(50, 70)]), 2: NEW, 3: NEW}
    answer = led_alone(tmp_path, *batches, own_copy=own_copy, brokers=brokers)
    assert committed(answer) == 0 and is_likely(answer), answer
    assert answer.verdict == "WILL_LOSE_ON_TRUNCATION"


def _written_late(start: int, end: int) -> list[bytes]:
    """After everything that the controller wrote."""
    from tests.support.encoder import encode_batch

    times = write.TIME_MS + 60_000
    return [encode_batch(base, 5, 0, mark=f"late{base} ", timestamp_ms=times) for base in range(start, end, 5)]


def test_nobody_fenced_is_nothing(tmp_path: Path) -> None:
    answer = led_alone(tmp_path, [change(isr=(1,))], [NOOP], ELECTED)
    assert committed(answer) == 0 and not is_likely(answer)


# --- whether the leader knew


@pytest.mark.parametrize("own_copy", [1, None])
def test_a_copy_that_ends_with_the_batch_proves_nothing(tmp_path: Path, own_copy: int | None) -> None:
    answer = led_alone(tmp_path, ALONE, [NOOP], ELECTED + [UNFENCE_2], own_copy=own_copy)
    assert committed(answer) == 0


@pytest.mark.parametrize("own_copy", [1, None])
def test_an_epoch_of_another_partition_that_came_with_it_proves_that_it_knew(
    tmp_path: Path, own_copy: int | None
) -> None:
    """Broker 1 became leader of payments-0 in the batch that left it alone in the ISR of orders-0."""
    led = write.change(OTHER_ID, leader=1, isr=(1,))
    batches = ([*ALONE, led], [NOOP], ELECTED + [UNFENCE_2])
    answer = led_alone(tmp_path / "known", *batches, own_copy=own_copy, other_epochs=((0, 0), (1, 10)))
    assert committed(answer) == 20, answer
    told = " ".join(one["text"] for row in answer.found("HWM-LOSS") for one in row["evidence"])
    assert "its leader-epoch-checkpoint of payments-0 has leader epoch 1" in told
    assert committed(led_alone(tmp_path / "unknown", *batches, own_copy=own_copy, other_epochs=((0, 0),))) == 0


def test_an_epoch_that_began_alone_is_known_by_its_own_file(tmp_path: Path) -> None:
    """Broker 1 was elected alone in epoch 1; that its file has the epoch is enough, without any copy of the log."""
    old = Replica([*COMMON, *written(50, 70, 1, "old ")], high_watermark=50)
    new = Replica([*COMMON, *written(50, 60, 2, "new ")])
    begun = [change(isr=(1, 2)), FENCE_3, change(leader=1, isr=(1,)), FENCE_2]
    batches = (begun, [NOOP], ELECTED + [UNFENCE_2])
    assert committed(led_alone(tmp_path / "a", *batches, brokers={1: old, 2: new, 3: new}, own_copy=None)) == 20
    # Nothing of the epoch, neither records nor an entry: it never led in it.
    unaware = Replica([*COMMON, *written(50, 70, 0, "old ")], high_watermark=50)
    assert committed(led_alone(tmp_path / "b", *batches, brokers={1: unaware, 2: new, 3: new}, own_copy=None)) == 0


def test_a_listing_or_a_user_proves_nothing(tmp_path: Path) -> None:
    brokers = {1: OLD, 2: NEW, 3: NEW}
    answer = audit(tmp_path, brokers, leader=2, isr=(2,), source="user", leader_epoch=1)
    assert committed(answer) == 0 and not is_likely(answer)


# --- captures


def _stale(tmp_path: Path, *remove: str) -> Path:
    """The capture with the checkpoint of broker 0 as it was before it was alone."""
    root = tmp_path / "capture"
    shutil.copytree(FIXTURES / "diverged-unclean", root)
    path = root / "broker-0" / "replication-offset-checkpoint"
    lines = path.read_text().splitlines()
    common = {"ledger 0": 34, "ledger 1": 41, "ledger 2": 50}
    lines = [
        next((f"{name} {value}" for name, value in common.items() if line.startswith(name)), line) for line in lines
    ]
    path.write_text("".join(f"{line}\n" for line in lines))
    for name in remove:
        shutil.rmtree(root / name)
    return root


def _acknowledged(partition: str) -> int:
    phases = truth("diverged-unclean")["phases"]
    return sum(
        phase["first_last_acked_failed"][partition][2] for name, phase in phases.items() if name.startswith("A only")
    )


@pytest.mark.parametrize("partition", ["ledger-0", "ledger-1", "ledger-2"])
def test_acknowledged_records_of_a_killed_leader_are_proven_committed(tmp_path: Path, partition: str) -> None:
    root = _stale(tmp_path)
    row = audit_one(str(root), TopicPartition.parse(partition), Settings()).rows("partitions")[0]
    assert (row["lost_records"], row["lost_committed"]) == (_acknowledged(partition), _acknowledged(partition))
    assert row["verdict"] == "COMMITTED_LOSS"


def test_without_its_own_copy_of_the_metadata_log_it_is_likely(tmp_path: Path) -> None:
    root = _stale(tmp_path, "broker-0/__cluster_metadata-0")
    for partition in ("ledger-0", "ledger-1", "ledger-2"):
        results = audit_one(str(root), TopicPartition.parse(partition), Settings())
        row = results.rows("partitions")[0]
        assert (row["verdict"], row["lost_committed"]) == ("WILL_LOSE_ON_TRUNCATION", 0)
        tails = [row["message"] for row in results.rows("findings") if row["code"] == "DIV-EPOCH"]
        assert tails and all("makes it likely" in tail for tail in tails)


@pytest.mark.parametrize("capture", ["diverged-multi", "diverged-multi2"])
def test_leaders_that_came_back_in_turn_are_likely(capture: str) -> None:
    for partition, results in some(audit_capture(capture).items()):
        tails = [row for row in results.rows("findings") if row["code"] == "DIV-EPOCH"]
        assert all("makes it likely" in row["message"] for row in tails)
        assert not any(row["committed"] for row in results.rows("divergences"))
        assert bool(tails) == partition.startswith("journal")


@pytest.mark.parametrize(
    "capture",
    ["elr-below-min-isr", "elr-elected", "elr-healed", "elr-leaderless", "last-replica-elr-1-alone"]
    + ["last-replica-elr-2-cut", "last-replica-standing-2-cut", "zk-2.8-diverged-unclean", "kip101-isr-3-lost"],
)
def test_what_proves_nothing_here(capture: str) -> None:
    for results in some(audit_capture(capture).values()):
        for row in results.rows("findings"):
            told = [row["message"], *(one["text"] for one in row["evidence"])]
            assert not any("alone in the ISR" in text for text in told)
