"""Who wrote what is lost: producers by batch headers, their transactional ids by the coordinator's log."""

from __future__ import annotations

from tests.support.captures import audit_whole
from tests.support.fixtures import FIXTURES

CAPTURE = FIXTURES / "txn-failover-1-unclean"


def test_producers_of_lost_records_are_named_with_their_transactional_ids() -> None:
    rows = audit_whole(CAPTURE).rows("lost_producers")
    named = [row for row in rows if row["transactional"]]
    assert [(row["topic"], row["partition"], row["broker_id"]) for row in named] == [("wallet", 1, 0)]
    assert named[0]["transactional_id"] and named[0]["transaction_state"]
    plain = [row for row in rows if row["topic"] == "wallet" and row["producer_id"] is None]
    assert plain and {row["transactional_id"] for row in plain} == {None}
    assert {row["topic"] for row in rows if row["producer_id"] is not None} >= {"idem", "wallet"}


def test_their_records_add_up_to_what_each_broker_holds_of_the_loss() -> None:
    results = audit_whole(CAPTURE)
    held = {
        (row["topic"], row["partition"], row["broker_id"]): row["lost_held"]
        for row in results.rows("replicas")
        if row["lost_held"]
    }
    told: dict[tuple, int] = {}
    for row in results.rows("lost_producers"):
        place = row["topic"], row["partition"], row["broker_id"]
        told[place] = told.get(place, 0) + row["record_count"]
        assert row["first_timestamp_ms"] <= row["last_timestamp_ms"]
        assert row["start_offset"] < row["end_offset"]
    assert told == held
