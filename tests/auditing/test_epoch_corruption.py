"""Bit rot in a batch's leader epoch, which no checksum covers: LOG-CRC-BLIND, and nothing is lost or diverges by it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from tests.support import metadata_log as write
from tests.support.histories import history
from tests.support.made_cases import batch, leadership, log
from tests.support.scenario import audit, written
from tests.support.snapshots import TOPIC, TOPIC_ID, Replica

from replica_audit.auditing.compare.epoch_corruption import confirm_rot, doubtful_epochs
from replica_audit.auditing.replicas.log_contents import CorruptEpoch
from replica_audit.batch_header import Batch
from replica_audit.literals import PROTOCOLS, Confidence
from replica_audit.segments.batch_rows import Batches

TWO = [*written(0, 20, 2), *written(20, 40, 3)]
EPOCHS = [(2, 0), (3, 20)]
#: What no answer about changed epochs may say.
LOSS = (
    "HWM-LOSS",
    "HWM-ABOVE-ISR-PREFIX",
    "TRN-BELOW-HW",
    "TRN-REPLAY-GAP",
    "TRN-OVER-TRUNCATE",
    "EPO-UNKNOWN-TO-LEADER",
)


def _changed(log: list[bytes], epoch: int, *offsets: int) -> list[bytes]:
    """`log` with the leader epoch of the batches at `offsets` overwritten."""
    field = epoch.to_bytes(4, "big", signed=True)
    return [batch[:12] + field + batch[16:] if int.from_bytes(batch[:8], "big") in offsets else batch for batch in log]


def _controller(*leaders: int | None, first: int = 0) -> dict[int, bytes]:
    """A metadata log whose partition was led by each of `leaders` in turn, from leader epoch `first` on; all brokers run."""
    running = [write.register_broker(broker) for broker in (1, 2, 3)]
    start = [
        *running,
        *write.new_topic(TOPIC, TOPIC_ID, (1, 2, 3), leaders[0], leader_epoch=first),
    ]
    changes = (write.change(TOPIC_ID, leader=-1 if leader is None else leader) for leader in leaders[1:])
    return {100: write.history(start, *changes)}


def _audit(path, brokers, source, **options):
    if source != "metadata_log":
        return audit(path, brokers, source=source, **options)
    return audit(path, brokers, metadata=_controller(2, 3, 2, 1), **options)


def _is_rot(answer, broker: int, protocol: str = "fetch") -> None:
    found = {row["broker_id"] for row in answer.found("LOG-CRC-BLIND")}
    assert found == {broker}, answer
    assert answer.verdict == "LATENT_CORRUPTION", answer
    assert not answer.codes("critical") and not answer.tables["divergences"], answer
    assert not [row for code in LOSS for row in answer.found(code)], answer
    cuts = [row["truncate_to"] for row in answer.tables["truncations"] if row["protocol"] == protocol]
    assert cuts == [40] * len(cuts), answer
    assert answer.interval == (40, 40)


PLACES = {
    "first batch": (0,),
    "first of its epoch": (20,),
    "last of its epoch": (15,),
    "middle": (30,),
    "last": (35,),
    "last two": (30, 35),
    "here and there": (5, 25),
    "whole log": tuple(range(0, 40, 5)),
}


@pytest.mark.parametrize("source", ["metadata_log", "topics_describe", "inferred"])
@pytest.mark.parametrize(("place", "epoch"), itertools.product(PLACES, (1, 7, 2 + 2**20)))
def test_on_any_replica(tmp_path, source, place, epoch):
    for broker in (1, 2):
        logs = {1: TWO, 2: TWO, 3: TWO} if epoch == 7 else {1: TWO, 2: TWO}
        logs[broker] = _changed(TWO, epoch, *PLACES[place])
        brokers = {one: Replica(log, epochs=EPOCHS) for one, log in logs.items()}
        answer = _audit(tmp_path / str(broker), brokers, source)
        _is_rot(answer, broker)
        assert {row["confidence"] for row in answer.found("LOG-CRC-BLIND")} == {"proven"}
        assert [answer.replica(one)["epochs"] for one in brokers] == [[[2, 0], [3, 20]]] * len(brokers)
        assert answer.tables["partitions"][0]["leader_epoch"] == 3
        assert answer.tables["partitions"][0]["reference_id"] == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(("epoch", "offset"), [(2, 20), (3, 15), (2, 35), (3, 5), (-5, 30)])
def test_an_epoch_that_the_partition_had_elsewhere(tmp_path, protocol, epoch, offset):
    """The file says which epoch wrote the offset, and so does the other replica."""
    for source in ("metadata_log", "topics_describe", "inferred"):
        brokers = {1: Replica(TWO, epochs=EPOCHS), 2: Replica(_changed(TWO, epoch, offset), epochs=EPOCHS)}
        _is_rot(_audit(tmp_path / source, brokers, source, protocol=protocol), 2, protocol)


def test_an_epoch_that_the_metadata_log_knows_from_a_later_start(tmp_path):
    """Leader 1 was elected again in epoch 5, without a record since; epoch 4 had no leader."""
    for epoch in (4, 5):
        path = tmp_path / str(epoch)
        brokers = {1: Replica(TWO, epochs=[*EPOCHS, (5, 40)]), 2: Replica(_changed(TWO, epoch, 35), epochs=EPOCHS)}
        _is_rot(audit(path, brokers, metadata=_controller(2, 2, 2, 1, None, 1)), 2)


@pytest.mark.parametrize("broker", [1, 2])
@pytest.mark.parametrize("offset", [35, 25, 15])
def test_recovery_writes_the_epoch_into_the_file_which_is_no_witness_then(tmp_path, broker, offset):
    """After an unclean stop; later batches of a smaller epoch get no entry."""
    recovered = [(2, 0), *([(3, 20)] if offset > 20 else []), (7, offset)]
    brokers = {1: Replica(TWO, epochs=EPOCHS), 2: Replica(TWO, epochs=EPOCHS)}
    brokers[broker] = Replica(_changed(TWO, 7, offset), epochs=recovered)
    answer = _audit(tmp_path / "log", brokers, "metadata_log")
    assert {row["confidence"] for row in answer.found("LOG-CRC-BLIND")} == {"proven"}
    for source in ("topics_describe", "inferred"):
        answer = audit(tmp_path / source, brokers, source=source)
        assert not answer.codes("critical"), answer
        if offset == 35:
            # Without a metadata log an election that nobody else followed looks the same.
            assert not answer.found("LOG-CRC-BLIND") and answer.verdict != "COMMITTED_LOSS", answer
            continue
        assert {row["confidence"] for row in answer.found("LOG-CRC-BLIND", broker)} == {"proven"}, answer
        assert answer.verdict == "LATENT_CORRUPTION" and not answer.tables["divergences"], answer


@pytest.mark.parametrize("broker", [1, 2])
def test_recovery_of_the_first_batch_leaves_no_other_entry(tmp_path, broker):
    brokers = {1: Replica(TWO, epochs=EPOCHS), 2: Replica(TWO, epochs=EPOCHS)}
    brokers[broker] = Replica(_changed(TWO, 7, 0), epochs=[(7, 0)])
    for source in ("metadata_log", "topics_describe", "inferred"):
        answer = _audit(tmp_path / source, brokers, source)
        assert {row["confidence"] for row in answer.found("LOG-CRC-BLIND", broker)} == {"proven"}, answer
        assert answer.verdict == "LATENT_CORRUPTION" and not answer.codes("critical"), answer


@pytest.mark.parametrize("epochs", [None, "corrupt"])
def test_without_an_epoch_file_of_its_own(tmp_path, epochs):
    file = {"orders-0/leader-epoch-checkpoint": b"nonsense"} if epochs else {}
    odd = Replica(_changed(TWO, 7, 35), epochs=None, replace=file)
    for source, confidence in (("metadata_log", "proven"), ("topics_describe", "suspect")):
        answer = _audit(tmp_path / source, {1: Replica(TWO, epochs=EPOCHS), 2: odd}, source)
        assert {row["confidence"] for row in answer.found("LOG-CRC-BLIND", 2)} == {confidence}, answer
        assert not answer.codes("critical") and answer.verdict == "LATENT_CORRUPTION", answer


@pytest.mark.parametrize("broker", [1, 2])
@pytest.mark.parametrize(("epoch", "offset"), [(1, 0), (3, 15), (3, 5)])
def test_without_an_epoch_file_of_its_own_nothing_is_hidden_by_a_changed_batch(tmp_path, broker, epoch, offset):
    brokers = {one: Replica(TWO, epochs=EPOCHS) for one in (1, 2, 3)}
    brokers[broker] = Replica(_changed(TWO, epoch, offset), epochs=None)
    for source in ("topics_describe", "inferred"):
        answer = audit(tmp_path / source, brokers, source=source)
        assert answer.found("LOG-CRC-BLIND", broker) and not answer.codes("critical"), answer


RETRY = {1: Replica([*TWO[:7], *_changed(TWO[7:], 4, 35)], epochs=[*EPOCHS, (4, 35)]), 2: Replica(TWO, epochs=EPOCHS)}


@pytest.mark.parametrize(
    ("case", "one", "two"),
    [
        ("elected", {}, {"high_watermark": 35}),
        ("both know", {}, {"epochs": [*EPOCHS, (4, 40)]}),
        ("more since", {"batches": [*RETRY[1].batches, *written(40, 50, 4)]}, {}),
        ("other bytes", {"batches": [*TWO[:7], *written(35, 40, 4, "other ")]}, {}),
    ],
)
@pytest.mark.parametrize("source", ["metadata_log", "topics_describe", "inferred"])
def test_a_producers_retry_to_a_new_leader_stays_a_divergence(tmp_path, case, one, two, source):
    """Broker 1 was elected in epoch 4 without the last batch of epoch 3, and got it again."""
    brokers = {}
    for broker, changes in ((1, one), (2, two)):
        fields = {"batches": RETRY[broker].batches, "epochs": RETRY[broker].epochs, **changes}
        brokers[broker] = Replica(**fields)
    path = tmp_path / case
    if source == "metadata_log":
        answer = audit(path, brokers, metadata=_controller(2, 2, 2, 2, 1))
    else:
        answer = audit(path, brokers, source=source, isr=(1,))
    assert not answer.found("LOG-CRC-BLIND"), answer
    # What a clean election left behind and its producer sent again is an uncommitted tail.
    code = "DIV-TAIL-PENDING" if source == "metadata_log" and case != "other bytes" else "DIV-EPOCH"
    assert answer.runs(2)[0][:5] == (code, 35, 40, 4, 3), answer


@pytest.mark.parametrize(("epoch", "length"), [(7, 40), (1, 40), (7, 35)])
def test_a_changed_last_batch_crowns_nobody(tmp_path, epoch, length):
    """Nobody says who leads, and broker 2, which is longest, alone has the changed batch."""
    brokers = {1: Replica(TWO[: length // 5], epochs=EPOCHS), 2: Replica(_changed(TWO, epoch, 35), epochs=EPOCHS)}
    answer = audit(tmp_path, brokers, source="inferred")
    row = answer.tables["partitions"][0]
    assert (row["leader_epoch"], row["reference_id"]) == (3, 1 if length == 40 else 2), answer
    assert not answer.codes("critical") and not answer.tables["divergences"], answer


def test_beside_a_real_divergence(tmp_path):
    """Broker 2 has a changed batch in what both hold and a tail that the leader has not."""
    old = [*written(0, 20, 2), *written(20, 35, 3), *written(35, 50, 3, "old ")]
    new = [*written(0, 20, 2), *written(20, 35, 3), *written(35, 45, 5)]
    for offset in (0, 15, 20, 30):
        brokers = {
            1: Replica(new, epochs=[*EPOCHS, (5, 35)]),
            2: Replica(_changed(old, 9, offset), epochs=EPOCHS, high_watermark=35),
        }
        answer = audit(tmp_path / str(offset), brokers, isr=(1,))
        assert [row["broker_id"] for row in answer.found("LOG-CRC-BLIND")] == [2], answer
        assert [run[:5] for run in answer.runs(2)] == [("DIV-EPOCH", 35, 45, 5, 3), ("DIV-EPOCH", 45, 50, None, 3)]
        assert answer.cut(2)["truncate_to"] == 35
        assert not answer.codes("critical"), answer


def test_another_replica_that_is_behind_and_one_that_retention_shortened(tmp_path):
    brokers = {
        1: Replica(TWO, epochs=EPOCHS),
        2: Replica(_changed(TWO, 7, 30), epochs=EPOCHS),
        3: Replica(TWO[:5], epochs=EPOCHS, high_watermark=20),
        4: Replica(TWO[5:], first_base_offset=25, epochs=[(3, 25)]),
    }
    answer = audit(tmp_path, brokers, isr=(1, 2))
    assert {row["broker_id"] for row in answer.found("LOG-CRC-BLIND")} == {2}, answer
    assert not answer.codes("critical") and not answer.tables["divergences"], answer
    assert answer.cut(3)["truncate_to"] == 25


def test_a_batch_changed_to_the_epoch_that_follows_it_is_told_apart_from_what_follows(tmp_path):
    """Broker 2 led in epoch 4 from 35 on, and its batch before that was changed from 3 to 4."""
    tail = written(35, 50, 4, "old ")
    broken = [*TWO[:6], *_changed(TWO[6:7], 4, 30), *tail]
    brokers = {1: Replica([*TWO[:7], *written(35, 45, 5, "new ")]), 2: Replica(broken, epochs=[*EPOCHS, (4, 35)])}
    answer = audit(tmp_path, brokers, isr=(1,))
    assert [row["start_offset"] for row in answer.found("LOG-CRC-BLIND", 2)] == [30], answer
    assert answer.runs(2)[0][:3] == ("DIV-EPOCH", 35, 45), answer


KNOWN = ((2, 0), (3, 20))
CHANGED = (*KNOWN, (7, 35))
LED, NOT_LED = leadership(leader_epoch=7), leadership(history=history())
NO_FILE, BEGUN = {"checkpoint_epochs": None}, {"checkpoint_epochs": CHANGED}
THIRD = log(3, *KNOWN, end=30)


@pytest.mark.parametrize(
    ("one", "two", "others", "said", "confidence"),
    [
        # Another replica has the epoch there, in batches or in its file.
        ({}, {}, [log(3, *CHANGED, checkpoint_epochs=None)], None, None),
        ({}, {}, [log(3, *KNOWN, end=30, checkpoint_epochs=CHANGED)], None, None),
        # Its own file denies the epoch there, and may be too old, unless it cannot be.
        ({}, {}, [THIRD], None, "proven"),
        ({}, {}, [], LED, None),
        ({}, {"killed": True}, [], LED, "proven"),
        ({}, {"clean_shutdown": True}, [], LED, "proven"),
        ({}, {}, [log(3, *KNOWN, end=30, checkpoint_epochs=(*KNOWN, (7, 40)))], LED, "proven"),
        ({}, {"checkpoint_epochs": (*KNOWN, (8, 40))}, [], LED, "proven"),
        ({"end": 38}, {}, [], None, None),
        ({"end": 38}, {"killed": True}, [], None, "proven"),
        # The other's file denies the other epoch, or neither file confirms it.
        ({"checkpoint_epochs": ((2, 0),)}, {}, [], None, None),
        (NO_FILE, {}, [], None, "proven"),
        ({}, {"checkpoint_epochs": ((2, 0), (4, 30))}, [], None, "proven"),
        (NO_FILE, {"checkpoint_epochs": ((2, 0), (4, 30))}, [], None, "likely"),
        # Its own file begins the epoch there, or is unusable.
        ({}, BEGUN, [], None, None),
        ({}, BEGUN, [], LED, None),
        ({}, BEGUN, [], NOT_LED, "proven"),
        ({}, NO_FILE, [], NOT_LED, "proven"),
        ({}, NO_FILE, [], None, "suspect"),
        ({"checkpoint_epochs": (*KNOWN, (7, 40))}, NO_FILE, [], None, "suspect"),
        ({}, NO_FILE, [], LED, None),
        (NO_FILE, NO_FILE, [], None, None),
        ({"end": 38}, BEGUN, [], NOT_LED, None),
        ({"checkpoint_epochs": (*KNOWN, (7, 40))}, BEGUN, [], NOT_LED, None),
        ({}, {"checkpoint_epochs": (*KNOWN, (7, 30))}, [], NOT_LED, None),
        # Both are suspected: the surer one is told, of equals neither.
        ({"checkpoint_epochs": ((2, 0), (4, 30))}, NO_FILE, [], NOT_LED, "proven"),
        (NO_FILE, NO_FILE, [], NOT_LED, None),
    ],
)
def test_which_of_two_copies_has_the_changed_epoch(
    one: dict[str, Any], two: dict[str, Any], others: list[Any], said: Any, confidence: Confidence | None
) -> None:
    """Broker 2 has epoch 7 from 35 on, of which its file knows nothing; broker 1 has epoch 3."""
    odd = log(2, *CHANGED, **{"checkpoint_epochs": KNOWN, **two})
    found = doubtful_epochs([log(1, *KNOWN, **one), odd, *others], said, at_rest=False)
    told = [(suspected.key[0], suspected.start_offset, suspected.confidence) for suspected in found]
    assert told == ([] if confidence is None else [(2, 35, confidence)])


@pytest.mark.parametrize(("epochs", "at_rest"), [((*KNOWN, (7, 25), (3, 30)), False), (CHANGED, True)])
def test_what_no_election_since_the_copy_explains_is_proven(epochs: tuple[tuple[int, int], ...], at_rest: bool) -> None:
    """A later batch of a smaller epoch contradicts it; a file that was copied at rest is of the same moment."""
    found = doubtful_epochs([log(1, *KNOWN), log(2, *epochs, checkpoint_epochs=KNOWN)], LED, at_rest)
    assert [(one.leader_epoch, one.confidence) for one in found] == [(7, "proven")]


SUSPECTED = CorruptEpoch((2, "b"), 30, 40, 7, 3, (1, "a"), "proven", in_file=False)
SOUND = [batch(25, 29, 1, 3), batch(30, 34, 2, 3), batch(35, 39, 3, 3), batch(40, 44, 4, 3)]
SAME = [batch(30, 34, 2, 7), batch(35, 39, 3, 7)]


@pytest.mark.parametrize(
    ("own", "other", "is_confirmed"),
    [
        (SAME, SOUND, True),
        ([batch(25, 29, 9, 3), *SAME, batch(40, 44, 9, 7)], SOUND, True),
        (SAME[:1], SOUND, True),
        ([SAME[0], batch(35, 39, 9, 7)], SOUND, False),
        ([batch(30, 39, 2, 7)], SOUND, False),
        (SAME, SOUND[:2], False),
        ([], SOUND, False),
    ],
    ids=["same", "others beside", "a hole", "another", "of other length", "other's hole", "none"],
)
def test_a_changed_epoch_is_confirmed_if_the_other_replica_has_every_batch(
    own: list[Batch], other: list[Batch], is_confirmed: bool
) -> None:
    rows = {(2, "b"): Batches.of(own).rows, (1, "a"): Batches.of(other).rows}
    assert confirm_rot([SUSPECTED], rows) == ({(2, "b"): (SUSPECTED,)} if is_confirmed else {})
