"""`verify` on every pair of captures of real clusters, against what the brokers' own logs and files say."""

from __future__ import annotations

import re
from functools import cache

import pytest
from tests.support.captures import CAPTURES, FIXTURES, batch_keys, truth
from tests.support.scanned import batches_of, scan_file
from tests.support.some import some

from replica_audit.config import Settings
from replica_audit.report.verify_text import render_verification
from replica_audit.verify.verification import Verification, verify_snapshots

FETCH = (
    ("diverged-unclean", "diverged-healed-running"),
    ("diverged-unclean", "diverged-healed"),
    ("diverged-multi", "diverged-multi-healed"),
    ("diverged-multi2", "diverged-multi2-healed"),
    ("diverged-clean", "diverged-clean-healed"),
    ("elr-elected", "elr-healed"),
    ("elr-below-min-isr", "elr-leaderless"),
    ("elr-leaderless", "elr-elected"),
    ("lagging", "lagging-caught-up"),
    ("recreated-1-before", "recreated-2-back"),
    ("jbod-moving", "jbod-moved"),
    ("jbod-killed", "jbod-moved"),
    ("last-replica-standing-1-alone", "last-replica-standing-2-cut"),
    ("last-replica-standing-2-cut", "last-replica-standing-3-healed"),
    ("last-replica-elr-1-alone", "last-replica-elr-2-cut"),
    ("last-replica-elr-2-cut", "last-replica-elr-3-healed"),
    ("reassigned-1-moving", "reassigned-2-done"),
    ("reassigned-2-done", "reassigned-3-back"),
    ("retention-passed-1-down", "retention-passed-2-back"),
    ("quorum3-1-unclean", "quorum3-2-healed"),
    ("quorum3-3-uncommitted", "quorum3-4-back"),
    ("txn-failover-1-unclean", "txn-failover-2-healed"),
    ("kafka-3.9-diverged-unclean", "kafka-3.9-diverged-healed"),
    ("kafka-3.6-diverged-unclean", "kafka-3.6-diverged-healed"),
    ("zk-2.8-diverged-unclean", "zk-2.8-diverged-healed"),
    ("compacted-skewed-1", "compacted-skewed-2"),
    ("tiered-1", "tiered-2-follower"),
    ("tiered-2-follower", "tiered-3-last-tiered"),
)
OLD = (
    ("kip101-isr-1-before", "kip101-isr-2-truncated", "high-watermark"),
    ("kip101-isr-2-truncated", "kip101-isr-3-lost", "high-watermark"),
    ("kip101-isr-3-lost", "kip101-isr-4-healed", "high-watermark"),
    ("kip101-restart-1-before", "kip101-restart-2-truncated", "high-watermark"),
    ("kip101-restart-2-truncated", "kip101-restart-3-lost", "high-watermark"),
    ("old-silent-1-before", "old-silent-2-healed", "high-watermark"),
    ("kip279-1-before", "kip279-2-healed", "kip-101"),
)
PAIRS = (*((*pair, "fetch") for pair in FETCH), *OLD)
COMPACTED = ("compacted-skewed-1", "compacted-skewed-2")

#: Where a follower was cut or began anew, in the words of all versions; a start names the offset that the log begins at.
_CUT = re.compile(
    r"(?:Log partition=(?P<name>\S+), dir=\S+\] Truncating to offset |Truncating log (?P<old>\S+) to offset "
    r"|reset fetch offset for partition (?P<anew>\S+) from \d+ to the current leader's start offset )(?P<offset>\d+)"
)


#: What a broker cut away at its own high watermark and fetched again from a leader that had the very same records: the
#: files alone cannot tell that from keeping them. By capture and place: where it cut, and up to where it is the same.
FETCHED_AGAIN = {"kip101-restart-3-lost": {("kip101r-0", 0): (0, 6)}}


@cache
def verified(before: str, after: str, protocol: str) -> Verification:
    return verify_snapshots(str(FIXTURES / before), str(FIXTURES / after), Settings(protocol=protocol))


def _said(before: str, after: str) -> dict[tuple[str, int], int]:
    """The least offset that each broker's own log said between the two that it cut a partition to."""
    earlier, later = truth(before)["truncation_log_lines"], truth(after)["truncation_log_lines"]
    found: dict[tuple[str, int], int] = {}
    for broker, lines in later.items():
        for line in lines:
            match = _CUT.search(line)
            if match and line not in set(earlier.get(broker, ())) and broker.startswith("broker-"):
                place = match["name"] or match["old"] or match["anew"], int(broker.removeprefix("broker-"))
                found[place] = min(int(match["offset"]), found.get(place, 1 << 62))
    return found


def _by_place(found: Verification) -> dict[tuple[str, int], dict]:
    return {(f"{row.topic}-{row.partition}", row.broker_id): row for row in found.verifications}


def test_the_pairs_are_there() -> None:
    assert {name for pair in PAIRS for name in pair[:2]} <= set(CAPTURES)


@pytest.mark.parametrize(("before", "after", "protocol"), PAIRS)
def test_partitions_go_back_only_the_wrong_way_round(before: str, after: str, protocol: str) -> None:
    text = "went back to an older state: name the earlier snapshot first"
    found = verified(before, after, protocol)
    assert found.inputs["went_back"] == 0 and text not in " ".join(render_verification(found).split())
    # Of the second no source has a metadata log.
    if before in ("retention-passed-1-down", "zk-2.8-diverged-unclean"):
        swapped = verified(after, before, protocol)
        assert swapped.inputs["went_back"] > 0 and text in " ".join(render_verification(swapped).split())


@pytest.mark.parametrize(("before", "after", "protocol"), PAIRS)
def test_what_was_kept_equals_the_brokers_own_lines(before: str, after: str, protocol: str) -> None:
    rows, said = _by_place(verified(before, after, protocol)), _said(before, after)
    for place, offset in said.items():
        if place in rows and place not in FETCHED_AGAIN.get(after, {}):
            row = rows[place]
            # A log that is passed by retention begins anew above its end; a cut above the end cuts nothing.
            anew = row.kept_to > row.end_before
            assert row.kept_to == (offset if anew else min(offset, row.end_before)), place
    for place, (cut, end) in FETCHED_AGAIN.get(after, {}).items():
        assert (said[place], rows[place].kept_to, rows[place].expected) == (cut, end, end), place
    for place, row in some(rows.items()):
        leads = row.leader_id == row.broker_id
        # The captures last-replica-*-2-cut were cut by the scenario, as a power failure would, and not by a broker.
        if row.kept_to is not None and row.kept_to < row.end_before and not (leads and "-2-cut" in after):
            assert place in said, f"{place}: nothing in the broker's log of a cut at {row.kept_to}"


@pytest.mark.parametrize(("before", "after", "protocol"), [pair for pair in PAIRS if pair[:2] != COMPACTED])
def test_records_on_no_replica_now_are_those_of_batches_that_are_in_no_file(
    before: str, after: str, protocol: str
) -> None:
    found = verified(before, after, protocol)
    for topic, partition in some(sorted({(row.topic, row.partition) for row in found.verifications})):
        name = f"{topic}-{partition}"
        told = sum(row.record_count for row in found.gone_records if (row.topic, row.partition) == (topic, partition))
        brokers = [row for row in found.verifications if (row.topic, row.partition) == (topic, partition)]
        now = {key for path in (FIXTURES / after).glob("broker-*") for key in _keys(path, name)}
        start = min((key[0] for key in _keys(FIXTURES / after / f"broker-{brokers[0].leader_id}", name)), default=None)
        lost = {
            key: count
            for row in brokers
            for key, count in _counted(FIXTURES / before / f"broker-{row.broker_id}", name).items()
            if key not in now and start is not None and key[1] >= start
        }
        assert told == sum(lost.values()), name


def _keys(broker, name: str) -> list[tuple]:
    dirs = [path for path in (broker / name, *broker.glob(f"*/{name}")) if path.is_dir()]
    return [key for path in dirs for key in batch_keys(path.parent, name)]


def _counted(broker, name: str) -> dict[tuple, int]:
    found = {}
    for path in sorted(broker.glob(f"**/{name}/*.log")):
        rows = batches_of(scan_file(path))
        rows = rows[rows["attributes"] & 0x20 == 0]
        columns = ("base_offset", "last_offset", "leader_epoch", "crc", "size")
        keys = zip(*(rows[column].tolist() for column in columns), strict=True)
        found.update(zip(keys, rows["record_count"].tolist(), strict=True))
    return found


def test_what_a_leader_alone_in_the_isr_took_was_committed_and_is_nowhere() -> None:
    """Each record of these phases was acknowledged by a leader that was its own ISR."""
    alone = [row for row in truth("diverged-unclean")["produced"] if row[3].startswith("A only")]
    for after in ("diverged-healed-running", "diverged-healed"):
        rows = verified("diverged-unclean", after, "fetch").gone_records
        assert {row.committed for row in rows} == {"proven"}
        told = {(row.partition, offset) for row in rows for offset in range(row.start_offset, row.end_offset)}
        assert told == {(row[1], row[2]) for row in alone}


def test_what_a_clean_election_left_behind_was_not_committed() -> None:
    for before, after in (("diverged-clean", "diverged-clean-healed"), ("elr-elected", "elr-healed")):
        rows = verified(before, after, "fetch").gone_records
        assert {row.committed for row in rows} == {"no"}


SOUND = (
    "lagging-caught-up", "jbod-moved", "reassigned-2-done", "reassigned-3-back", "retention-passed-2-back", "quorum3-4-back",
    "recreated-2-back", "compacted-skewed-2", "tiered-2-follower", "tiered-3-last-tiered", "elr-healed", "diverged-clean-healed",
    "diverged-multi-healed", "diverged-multi2-healed",
)  # fmt: skip


@pytest.mark.parametrize(("before", "after", "protocol"), [pair for pair in PAIRS if pair[1] in SOUND])
def test_retention_moves_cleaners_and_correct_cuts_are_no_loss(before: str, after: str, protocol: str) -> None:
    found = verified(before, after, protocol)
    assert {row.verdict for row in found.verifications} == {"correct"}
    assert found.exit_status == 0, found.not_verified


def test_a_topic_that_was_deleted_is_said_to_be_and_is_no_loss() -> None:
    found = verified("recreated-1-before", "recreated-2-back", "fetch")
    assert [(row.topic, row.partition, row.expected) for row in found.not_verified] == [("orders", 2, True)]


LOSSES = (
    ("diverged-unclean", "diverged-healed"),
    ("quorum3-1-unclean", "quorum3-2-healed"),
    ("last-replica-standing-1-alone", "last-replica-standing-2-cut"),
    ("last-replica-standing-2-cut", "last-replica-standing-3-healed"),
)


@pytest.mark.parametrize(("before", "after"), LOSSES)
def test_a_committed_loss_is_told_of_the_replica_that_it_was_cut_from(before: str, after: str) -> None:
    found = verified(before, after, "fetch")
    lost = [row for row in found.verifications if row.verdict == "lost_committed"]
    assert lost and all(row.lost_committed == row.lost_records > 0 for row in lost)
    assert found.exit_status == 1


def test_a_follower_that_is_down_has_not_followed_yet() -> None:
    rows = _by_place(verified("elr-leaderless", "elr-elected", "fetch"))
    assert {place: row.verdict for place, row in rows.items() if row.verdict != "correct"} == {
        ("accounts-0", 0): "not_yet",
        ("accounts-1", 0): "not_yet",
    }
    assert (rows["accounts-0", 0].kept_to, rows["accounts-0", 0].expected) == (59, 46)


def test_what_the_old_protocols_left_uncut_is_told() -> None:
    isr = _by_place(verified("kip101-isr-3-lost", "kip101-isr-4-healed", "high-watermark"))
    assert (isr["kip101-0", 0].verdict, isr["kip101-0", 0].kept_to, isr["kip101-0", 0].expected) == (
        "under_truncated",
        23,
        19,
    )
    assert (isr["kip101-0", 2].verdict, isr["kip101-0", 2].lost_committed) == ("lost_committed", 4)
    hole = _by_place(verified("kip279-1-before", "kip279-2-healed", "kip-101"))
    assert [(row.kept_to, row.expected, row.verdict) for place, row in sorted(hole.items()) if place[1] == 0] == [
        (17, 12, "under_truncated"),
        (13, 8, "under_truncated"),
    ]


def test_records_that_every_in_sync_replica_held_may_have_been_committed() -> None:
    """kip101-restart: acknowledged with acks=all at 6 to 12, and no high watermark of the files had come that far."""
    found = verify_snapshots(
        str(FIXTURES / "kip101-restart-1-before"),
        str(FIXTURES / "kip101-restart-3-lost"),
        Settings(protocol="high-watermark"),
    )
    (gone,) = found.gone_records
    assert (gone.start_offset, gone.end_offset, gone.record_count, gone.committed) == (6, 13, 7, "possible")
    acknowledged = [row[2] for row in truth("kip101-restart-3-lost")["produced"] if row[5] == "all" and row[6] is None]
    assert set(range(6, 13)) <= set(acknowledged)
    assert found.exit_status == 1
