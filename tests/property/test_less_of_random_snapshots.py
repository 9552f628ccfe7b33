"""From captures of real losses brokers are taken away: the answer on what is left may know less, and is never surer."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
from tests.support.captures import audit_whole
from tests.support.fixtures import CAPTURES, FIXTURES
from tests.support.less import holders, lost_places, too_sure, without
from tests.support.some import some

from replica_audit.config import Settings
from replica_audit.errors import InputError
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_all


def whole(capture: str) -> Results:
    return audit_whole(FIXTURES / capture)


#: Written down, so that nothing is audited to collect the tests.
LOSING = [
    "diverged-unclean",
    "kafka-3.6-diverged-unclean",
    "kafka-3.9-diverged-unclean",
    "kip101-isr-3-lost",
    "kip101-isr-4-healed",
    "kip279-1-before",
    "last-replica-elr-2-cut",
    "last-replica-standing-2-cut",
    "old-silent-1-before",
    "quorum3-1-unclean",
    "txn-failover-1-unclean",
    "zk-2.8-diverged-unclean",
]


def test_these_captures_lost_committed_records_that_somebody_holds() -> None:
    assert [name for name in CAPTURES if not name.startswith("corrupted") and lost_places(whole(name))] == LOSING
    assert all(holders(whole(capture)) for capture in LOSING)


@pytest.mark.parametrize("capture", LOSING)
def test_without_the_brokers_that_hold_the_lost_records_there_is_no_answer(capture: str, tmp_path: Path) -> None:
    part = audit_all(str(without(FIXTURES / capture, tmp_path / "part", brokers=holders(whole(capture)))), Settings())
    assert list(too_sure(whole(capture), part)) == []
    verdicts = {(row["topic"], row["partition"]): row["verdict"] for row in part.rows("partitions")}
    assert not {verdicts[place] for place in lost_places(whole(capture))} & {"CONSISTENT", "LAGGING"}


@pytest.mark.parametrize("capture", LOSING)
def test_without_any_brokers_the_answer_is_never_surer(capture: str, tmp_path: Path) -> None:
    brokers = sorted({row["broker_id"] for row in whole(capture).rows("replicas")})
    for count in range(1, len(brokers)):
        for gone in some(combinations(brokers, count)):
            name = "-".join(map(str, gone))
            part = audit_all(str(without(FIXTURES / capture, tmp_path / name, brokers=gone)), Settings())
            assert list(too_sure(whole(capture), part)) == [], f"without brokers {name}"


#: Who leads and who was in sync, wherever that lies.
LEADERSHIP = ("controller", "__cluster_metadata-0", "kafka-topics-describe.txt", "zookeeper.json", "leadership.json")


@pytest.mark.parametrize("capture", LOSING)
def test_one_copy_without_leadership_is_not_consistent(capture: str, tmp_path: Path) -> None:
    brokers = sorted({row["broker_id"] for row in whole(capture).rows("replicas")})
    for kept in some(brokers):
        place = tmp_path / str(kept)
        gone = [broker_id for broker_id in brokers if broker_id != kept]
        try:
            part = audit_all(str(without(FIXTURES / capture, place, brokers=gone, names=LEADERSHIP)), Settings())
        except InputError:
            continue  # the broker has no partition
        assert {row["verdict"] for row in part.rows("partitions")}.isdisjoint({"CONSISTENT", "LAGGING"}), kept
        assert all(row["lost_records"] != 0 for row in part.rows("partitions")), kept
