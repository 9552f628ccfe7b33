"""Truncations that really happened: the replay on the capture before, compared with broker log lines and files afterwards."""

from __future__ import annotations

import re

import pytest
from tests.support.captures import CAPTURES, FIXTURES, audit_capture, batch_keys, truth
from tests.support.report_rows import tables_of
from tests.support.some import some

#: (before, after, generation of the protocol that the brokers ran).
PAIRS = (
    ("diverged-unclean", "diverged-healed-running", "fetch"),
    ("diverged-unclean", "diverged-healed", "fetch"),
    ("diverged-multi", "diverged-multi-healed", "fetch"),
    ("diverged-multi2", "diverged-multi2-healed", "fetch"),
    ("diverged-clean", "diverged-clean-healed", "fetch"),
    ("elr-elected", "elr-healed", "fetch"),
    ("lagging", "lagging-caught-up", "fetch"),
    ("last-replica-standing-2-cut", "last-replica-standing-3-healed", "fetch"),
    ("last-replica-elr-2-cut", "last-replica-elr-3-healed", "fetch"),
    ("quorum3-1-unclean", "quorum3-2-healed", "fetch"),
    ("txn-failover-1-unclean", "txn-failover-2-healed", "fetch"),
    ("kafka-3.9-diverged-unclean", "kafka-3.9-diverged-healed", "fetch"),
    ("kafka-3.6-diverged-unclean", "kafka-3.6-diverged-healed", "fetch"),
    ("zk-2.8-diverged-unclean", "zk-2.8-diverged-healed", "fetch"),
    ("zk-2.8-diverged-unclean", "zk-2.8-diverged-healed", "kip-279"),
    ("kip279-1-before", "kip279-2-healed", "kip-101"),
    ("kip101-isr-3-lost", "kip101-isr-4-healed", "high-watermark"),
    ("old-silent-1-before", "old-silent-2-healed", "high-watermark"),
)
#: Those of protocols that leave differences behind.
OLD_PAIRS = PAIRS[-3:]

_CUT = re.compile(
    r"(?:Log partition=(?P<partition>\S+), dir=\S+\] Truncating to offset |Truncating log (?P<old>\S+) to offset )(?P<offset>\d+)"
)


def _cuts(before: str, after: str) -> dict[tuple[str, int], int]:
    """Last offset that each broker's log said it cut a partition to, between two captures."""
    earlier, later = truth(before)["truncation_log_lines"], truth(after)["truncation_log_lines"]
    found = {}
    for broker, lines in later.items():
        known = set(earlier.get(broker, ()))
        for line in lines:
            match = _CUT.search(line)
            if match and line not in known and broker.startswith("broker-"):
                name = match["partition"] or match["old"]
                found[name, int(broker.removeprefix("broker-"))] = int(match["offset"])
    return found


def _replays(capture: str, protocol: str) -> list[tuple[str, dict, int]]:
    """(partition, its truncation under a protocol, the follower's log end) where the partition had a leader."""
    found = []
    for partition, results in audit_capture(capture).items():
        tables = tables_of(results)
        ends = {row["broker_id"]: row["log_end_offset"] for row in tables["replicas"]}
        if tables["partitions"][0]["leader_id"] is None or partition.startswith("__"):
            continue
        rows = [row for row in tables["truncations"] if row["protocol"] == protocol]
        found += [(partition, row, ends[row["broker_id"]]) for row in rows]
    return found


def test_the_pairs_are_there():
    assert {name for pair in PAIRS for name in pair[:2]} <= set(CAPTURES)


@pytest.mark.parametrize(("before", "after", "protocol"), PAIRS)
def test_followers_cut_where_the_replay_says(before, after, protocol):
    said = _cuts(before, after)
    replays = _replays(before, protocol)
    assert replays
    replayed = {(name, row["broker_id"]): (row["truncate_to"], end) for name, row, end in replays}
    for place, cut in said.items():
        if place[0].startswith("__") or place not in replayed:
            continue
        assert replayed[place][0] == cut, place
    for place, (cut, end) in replayed.items():
        if cut < end:
            assert place in said, f"{place}: nothing in the log of a cut at {cut}"


@pytest.mark.parametrize(("before", "after", "protocol"), PAIRS)
def test_followers_kept_the_batches_that_the_replay_says(before, after, protocol):
    for partition, row, end in some(_replays(before, protocol)):
        broker = f"broker-{row['broker_id']}"
        old = batch_keys(FIXTURES / before / broker, partition)
        new = batch_keys(FIXTURES / after / broker, partition)
        kept = [key for key in old if key[1] < row["truncate_to"]]
        assert new[: len(kept)] == kept, (partition, broker)
        if row["truncate_to"] < end:
            dropped = [key for key in old if key[1] >= row["truncate_to"]]
            assert sum(key[4] for key in dropped) == row["dropped_bytes"]
            assert dropped
            if protocol in ("kip-279", "fetch"):
                assert not set(dropped) & set(new), f"{partition} {broker} still has what should have been cut"


@pytest.mark.parametrize(("before", "after", "protocol"), [pair for pair in PAIRS if pair[2] in ("kip-279", "fetch")])
def test_since_kip_279_the_follower_ends_as_a_copy_of_the_leader(before, after, protocol):
    leaders = {
        partition: results.rows("partitions")[0]["leader_id"] for partition, results in audit_capture(after).items()
    }
    for partition, row, _ in some(_replays(before, protocol)):
        if leaders[partition] is None:
            continue
        follower = batch_keys(FIXTURES / after / f"broker-{row['broker_id']}", partition)
        leader = batch_keys(FIXTURES / after / f"broker-{leaders[partition]}", partition)
        # A broker that is still down, or behind, has less; nobody has anything else.
        assert leader[: len(follower)] == follower, (partition, row["broker_id"])
        assert row["truncate_to"] == row["common_prefix_end"]


def test_the_old_protocols_left_what_the_replay_leaves():
    for before, after, protocol in OLD_PAIRS:
        for partition, row, _ in some(_replays(before, protocol)):
            remaining = [
                run["start_offset"]
                for run in audit_capture(after)[partition].rows("divergences")
                if run["broker_id"] == row["broker_id"]
            ]
            survives = row["truncate_to"] > row["common_prefix_end"]
            assert bool(remaining) == survives, (partition, row["broker_id"])
            if survives:
                assert remaining == [row["common_prefix_end"]]


@pytest.mark.parametrize("partition", ["passed-0", "passed-1"])
def test_a_follower_that_retention_passed_starts_anew_at_the_leaders_log_start(partition):
    tables = tables_of(audit_capture("retention-passed-1-down")[partition])
    row = next(row for row in tables["truncations"] if (row["broker_id"], row["protocol"]) == (2, "fetch"))
    assert row["reason"] == "full_truncate"
    assert row["common_prefix_end"] is None
    starts = {row["broker_id"]: row["log_start_offset"] for row in tables["replicas"]}
    assert row["truncate_to"] == starts[row["leader_id"]]
    lines = [
        line
        for line in truth("retention-passed-2-back")["truncation_log_lines"]["broker-2"]
        if f"fetch offset for partition {partition} " in line
    ]
    assert lines and lines[-1].split("start offset ")[1].split()[0] == str(row["truncate_to"])
    back = {row["broker_id"]: row for row in audit_capture("retention-passed-2-back")[partition].rows("replicas")}
    assert back[2]["log_start_offset"] == row["truncate_to"]
