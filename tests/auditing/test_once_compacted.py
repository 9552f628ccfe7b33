"""Records removed by cleaners stay removed when the policy changes, also on followers; other gaps are holes."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from tests.support import metadata_log as write
from tests.support.encoder import Record, encode_batch
from tests.support.scenario import audit, written
from tests.support.snapshots import TOPIC, TOPIC_ID, Listed, Replica, write_manifest, write_snapshot

from replica_audit.config import Settings
from replica_audit.runner.in_process import audit_all

DELETE, COMPACT = {"cleanup.policy": "delete"}, {"cleanup.policy": "compact"}
FULL = written(0, 60, 2)
SPARSE = encode_batch(15, 2, 2, mark="15 ", last_offset_delta=4)
#: Of FULL: cleaned up to 30, some batches gone and one thinned.
CLEANED = [FULL[0], FULL[2], SPARSE, *FULL[5:]]
#: The same without a thinned batch: only checkpoints and the policy show the cleaner.
GONE = [FULL[0], FULL[2], *FULL[5:]]


def _without(log: list[bytes], *starts: int) -> list[bytes]:
    return [batch for batch in log if int.from_bytes(batch[:8], "big") not in starts]


@pytest.mark.parametrize("configs", [DELETE, {"retention.ms": "1"}, {}, COMPACT])
@pytest.mark.parametrize("log", [CLEANED, GONE], ids=["thinned", "gone"])
@pytest.mark.parametrize("leader", [1, 2, 3])
def test_replicas_of_a_topic_that_was_compacted_once(tmp_path, configs, log, leader):
    """1 was cleaned, 2 never, 3 fetched from 1; whoever leads."""
    brokers = {1: Replica(log, cleaned_to=30), 2: Replica(FULL), 3: Replica(log)}
    answer = audit(tmp_path, brokers, leader=leader, configs=configs)
    assert answer.codes("medium") == set(), answer
    assert answer.verdict == "CONSISTENT"
    assert all(answer.replica(broker)["compacted"] for broker in brokers)
    assert [answer.replica(broker)["unexplained_gaps"] for broker in brokers] == [0, 0, 0]


@pytest.mark.parametrize("own", [None, 0, 12, 15])
@pytest.mark.parametrize("leader", [1, 2])
def test_gaps_that_came_from_a_leader_that_had_cleaned(tmp_path, own, leader):
    """The leader has cleaned on since: the follower's gaps are among its own."""
    further = _without(GONE, 20, 25)
    for name, theirs, cleaned in (("same", GONE, 30), ("further", further, 50)):
        brokers = {1: Replica(theirs, cleaned_to=cleaned), 2: Replica(GONE, cleaned_to=own)}
        answer = audit(tmp_path / name, brokers, leader=leader, configs=COMPACT)
        assert answer.codes("low") == set(), answer
        assert {row["severity"] for row in answer.found("LOG-GAP", 2)} == {"info"}


def _controller(*policies: str | None) -> dict[int, bytes]:
    """A metadata log in which the topic's policy was each of `policies` in turn; None takes the config away."""
    start = write.new_topic(TOPIC, TOPIC_ID, (1, 2), 1, isr=(1, 2), leader_epoch=2)
    return {100: write.history(start, *(write.config(2, TOPIC, "cleanup.policy", policy) for policy in policies))}


@pytest.mark.parametrize("policies", [("compact", "delete"), ("delete", "compact,delete", "delete"), ("compact", None)])
def test_the_history_of_the_policy_counts(tmp_path, policies):
    """Nothing else shows it: the cleaner's checkpoints were lost, and no batch is thinned."""
    brokers = {1: Replica(GONE), 2: Replica(FULL)}
    answer = audit(tmp_path / "was", brokers, metadata=_controller(*policies))
    assert answer.codes("medium") == set(), answer
    answer = audit(tmp_path / "never", brokers, metadata=_controller("delete"))
    assert answer.replica(1)["unexplained_gaps"] == 2
    assert answer.codes("critical") >= {"DIV-HIDDEN"}, answer


HOLES = [(40,), (45, 50), (30,)]


@pytest.mark.parametrize("configs", [DELETE, {"retention.ms": "1"}, {}, COMPACT])
@pytest.mark.parametrize(("holes", "holed"), itertools.product(HOLES, (1, 2)))
def test_a_hole_above_every_cleaner_is_no_compaction(tmp_path, configs, holes, holed):
    """Nor can one have gone on since: the brokers were stopped, or no cleaner works on the topic any more."""
    logs = {1: CLEANED, 2: CLEANED}
    logs[holed] = _without(CLEANED, *holes)
    brokers = {1: Replica(logs[1], cleaned_to=30), 2: Replica(logs[2], cleaned_to=12), 3: Replica(CLEANED)}
    if configs in ({}, COMPACT):
        brokers = {broker: replace(one, clean_shutdown=True) for broker, one in brokers.items()}
    answer = audit(tmp_path, brokers, configs=configs, in_order=True)
    others = (2, 3) if holed == 1 else (2,)
    for broker in others:
        found = [row for row in answer.found("DIV-PRESENCE", broker) if row["severity"] == "high"]
        assert [(row["start_offset"], row["end_offset"]) for row in found] == [(holes[0], holes[-1] + 5)], answer
    assert answer.verdict == "COMMITTED_DIVERGENCE"
    assert answer.replica(holed)["unexplained_gaps"] == 1
    gaps = [row for row in answer.found("LOG-GAP", holed) if row["severity"] == "medium"]
    assert [(row["start_offset"], row["end_offset"]) for row in gaps] == [(holes[0], holes[-1] + 5)], answer


def test_a_hole_that_another_cleaner_passed_but_nobody_shares(tmp_path):
    """Broker 2 has records at 25 that the leader's cleaner would have kept: broker 3 lost them, above its own cleaner."""
    brokers = {1: Replica(GONE, cleaned_to=30), 2: Replica(GONE), 3: Replica(_without(GONE, 25))}
    answer = audit(tmp_path, brokers, configs=DELETE)
    assert answer.runs(3) == [("DIV-PRESENCE", 25, 30, 2, None, False)], answer
    assert not answer.runs(2)
    assert answer.verdict == "COMMITTED_DIVERGENCE"


@pytest.mark.parametrize("clean", [True, False])
def test_a_running_cleaner_may_have_gone_on_after_its_checkpoint_was_copied(tmp_path, clean):
    """Not in the active segment, not where the log dir was at rest, and not where the policy is `delete` by now."""
    log = _without(GONE, 40)
    brokers = {
        1: Replica(GONE, cleaned_to=30, per_segment=3, clean_shutdown=clean),
        2: Replica(log, cleaned_to=30, per_segment=3, clean_shutdown=clean),
    }
    answer = audit(tmp_path / "compact", brokers, configs=COMPACT)
    assert bool(answer.runs(2)) is clean, answer
    assert answer.replica(2)["unexplained_gaps"] == 1
    (hole,) = (row for row in answer.found("LOG-GAP", 2) if row["start_offset"] == 40)
    assert hole["severity"] == ("medium" if clean else "low")
    assert audit(tmp_path / "delete", brokers, configs=DELETE).runs(2), "no cleaner works on it any more"


@pytest.mark.parametrize("holed", [1, 2])
@pytest.mark.parametrize(
    ("began", "kind", "configs", "is_hole"),
    [
        (10, "live", COMPACT, False),
        (12, "live", COMPACT, False),
        (14, "live", COMPACT, True),  # when the other had been copied, it still had the records
        (10, "stopped", COMPACT, True),
        (10, "live", DELETE, True),
        (10, "live", {}, False),
    ],
)
def test_a_replica_may_have_fetched_what_another_cleaned_after_its_copy(tmp_path, holed, began, kind, configs, is_hole):
    """Its gap is in the one segment, which its own cleaner never touches; the other's copy still has the records."""
    whole = 3 - holed
    log = Replica(GONE, cleaned_to=30)
    brokers = {whole: log, holed: replace(log, batches=_without(GONE, 40))}
    snapshot = write_snapshot(tmp_path, brokers, [Listed(1, (1, 2), (1, 2), configs=configs)])
    copied = [
        {"broker_id": one, "log_dir": f"broker-{one}", "kind": kind}
        | {"started": f"2023-11-14T22:30:{start}Z", "finished": f"2023-11-14T22:30:{start + 1}Z"}
        for one, start in ((holed, 10), (whole, began))
    ]
    write_manifest(snapshot, brokers=copied)
    found = [row for row in audit_all(str(snapshot), Settings(quiet=True)).findings if row.start_offset == 40]
    assert ("DIV-PRESENCE" in {row.code for row in found if row.confidence == "proven"}) == is_hole, found
    (gap,) = (row for row in found if row.code == "LOG-GAP")
    assert (gap.broker_id, gap.severity) == (holed, "medium" if is_hole else "low")
    assert is_hole or all(row.severity in ("info", "low") for row in found), found


def test_many_gaps_of_one_segment_are_inherited_too(tmp_path):
    """Summaries list a hundred gaps of a segment and count the others."""
    log = [encode_batch(offset, 1, 0, mark=f"{offset} ") for offset in (*range(0, 500, 2), *range(500, 520))]
    longer = [*log, encode_batch(520, 1, 0)]
    for name, theirs in (("same", log), ("longer", longer)):
        brokers = {1: Replica(theirs, cleaned_to=500), 2: Replica(log, cleaned_to=100, high_watermark=500)}
        answer = audit(tmp_path / name, brokers, configs=DELETE)
        assert answer.codes("low") == set(), answer
    holed = [batch for batch in longer if int.from_bytes(batch[:8], "big") != 510]
    answer = audit(tmp_path / "hole", {1: Replica(longer, cleaned_to=500), 2: Replica(holed)}, configs=DELETE)
    assert answer.runs(2) == [("DIV-PRESENCE", 510, 511, 0, None, False)], answer


@pytest.mark.parametrize(("kind", "severe"), [("live", False), ("stopped", True), (None, True)])
@pytest.mark.parametrize("is_whole", [True, False], ids=["a segment", "some batches"])
def test_what_a_cleaner_of_a_live_broker_took_away_meanwhile_is_no_alarm(tmp_path, kind, severe, is_whole):
    """Its checkpoint is of before: it may have gone on up to the active segment."""
    full = [encode_batch(base, [Record(b"k", b"%d" % base)], 0) for base in range(12)]
    cleaned = Replica(_without(full, 4), cleaned_to=2, per_segment=3, clean_shutdown=kind == "stopped")
    if is_whole:
        names = tuple(f"{2:020d}.{suffix}" for suffix in ("log", "index", "timeindex"))
        cleaned = replace(cleaned, batches=full, per_segment=2, remove=names)
    brokers = {1: Replica(full, per_segment=2), 2: cleaned}
    snapshot = write_snapshot(tmp_path / "snapshot", brokers, [Listed(1, (1, 2), (1, 2), configs=COMPACT)])
    if kind is not None:
        write_manifest(snapshot, dict.fromkeys(brokers, kind))
    found = audit_all(str(snapshot), Settings(quiet=True)).findings
    codes = {row.code: row.severity for row in found if row.broker_id == 2}
    if is_whole:
        assert ("CAP-MISSING-SEGMENT" in codes) == severe and (codes.get("LOG-GAP") == "low") == (not severe), codes
    else:
        assert codes.get("LOG-GAP") == ("medium" if kind == "stopped" else "low"), codes
    assert severe or not [row for row in found if row.severity not in ("info", "low")], found


def test_a_latest_value_that_a_live_replica_lacks_is_told_all_the_same(tmp_path):
    full = [encode_batch(base, [Record(b"%d" % base, b"v")], 0) for base in range(12)]
    brokers = {1: Replica(full, per_segment=3), 2: Replica(_without(full, 4), cleaned_to=2, per_segment=3)}
    answer = audit(tmp_path, brokers, configs=COMPACT, in_order=True)
    assert answer.one("LOG-GAP", 2)[0] == "low"
    assert [row["severity"] for row in answer.found("DIV-KEY-STATE", 2)] == ["high"], answer


@pytest.mark.parametrize("in_order", [True, False])
def test_the_newest_segment_of_files_in_any_order_may_have_been_cleaned(tmp_path, in_order):
    """Listed while it was active, and copied after newer ones had begun, so that the cleaner came to it (X: 4.3.1)."""
    full = [encode_batch(base, [Record(b"%d" % (base % 9), b"v")], 0) for base in range(12)]
    brokers = {
        1: Replica(full, per_segment=3, clean_shutdown=True),
        2: Replica(_without(full, 1, 2), cleaned_to=1, per_segment=12),
    }
    answer = audit(tmp_path, brokers, configs=COMPACT, in_order=in_order)
    assert (answer.verdict == "COMMITTED_DIVERGENCE") == in_order, answer
    assert bool(answer.found("TRN-REPLAY-GAP", 2)) == in_order
    assert (answer.codes("medium") == set()) != in_order


@pytest.mark.parametrize("in_order", [True, False])
def test_a_merged_segment_beside_one_that_it_replaced(tmp_path, in_order):
    """The first file was copied after the cleaner had merged both, the second before."""
    full = [encode_batch(base, [Record(b"%d" % base, b"v")], 0) for base in range(12)]
    brokers = {one: Replica(full, per_segment=3) for one in (1, 2)}
    merged = b"".join(full[:6])
    first = tmp_path / "broker-2" / "orders-0" / f"{0:020d}.log"
    answer = audit(
        tmp_path, brokers, configs=COMPACT, in_order=in_order, before_audit=lambda: first.write_bytes(merged) and None
    )
    (row,) = answer.found("LOG-OFFSET-REGRESSION", 2)
    assert (row["severity"], row["confidence"]) == (("high", "proven") if in_order else ("medium", "suspect"))
    assert answer.verdict == ("LATENT_CORRUPTION" if in_order else "INCONCLUSIVE")
