"""Directories of topics that the metadata log has deleted: told as that, and led by nobody."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.auditing.scenario import TOPIC, TOPIC_ID, Broker, audit, written
from tests.support import metadata_log as write
from tests.support.logdirs import make_uuid

from replica_audit.snapshot.discovery import discover
from replica_audit.snapshot.storage import Snapshot

ALIKE = {number: Broker(written(0, 20, 0)) for number in (1, 2)}
ANOTHER_ID = make_uuid("another life")


def controller(path: Path, *later: bytes, topic_id: str = TOPIC_ID) -> Callable[[], None]:
    """The topic with two partitions, and what came later, ten seconds apart."""

    def written_down() -> None:
        begin = [write.topic(TOPIC, topic_id)]
        begin += [write.partition(topic_id, (1, 2), 1, number=number) for number in (0, 1)]
        log = write.leader_change(0, 100, (100,)) + write.batch(1, begin)
        for number, one in enumerate(later):
            log += write.batch(4 + number, [one], time_ms=write.TIME_MS + 10_000 * (number + 1))
        write.write_metadata_log(path, "controller-100", 100, {0: log})

    return written_down


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("quiesced", [None, True])
def test_nobody_leads_a_topic_that_was_deleted(tmp_path, stopped, quiesced):
    brokers = {one: Broker(written(0, 20, 0), clean_shutdown=stopped) for one in (1, 2)}
    made = controller(tmp_path, write.remove_topic(TOPIC_ID))
    answer = audit(tmp_path, brokers, source="inferred", quiesced=quiesced, before_audit=made)
    row = answer.tables["partitions"][0]
    assert (row["leader_id"], row["isr"], row["under_replicated"]) == (None, None, None)
    assert answer.one("META-NO-LEADER")[:2] == ("info", "proven")
    (told,) = answer.found("META-NO-LEADER")
    assert told["message"].startswith(
        "the topic was deleted at 2023-11-14T22:13:30.000Z by record 4 of the metadata log"
    )
    assert answer.codes("info") == {"META-NO-LEADER"}, answer
    assert not answer.tables["elections"]


def test_the_name_may_be_taken_again(tmp_path):
    """Then what is left is of another topic id than the present topic's."""
    again = [write.topic(TOPIC, ANOTHER_ID), write.partition(ANOTHER_ID, (1, 2), 2)]
    made = controller(tmp_path, write.remove_topic(TOPIC_ID), *again)
    answer = audit(
        tmp_path, {**ALIKE, 3: Broker(written(0, 9, 0), topic_id=ANOTHER_ID)}, source="inferred", before_audit=made
    )
    assert not answer.found("META-NO-LEADER") and answer.found("META-TOPICID-MISMATCH", 1), answer


def test_a_deletion_that_no_majority_holds_did_not_happen(tmp_path):
    def controllers() -> None:
        begin = [write.topic(TOPIC, TOPIC_ID), write.partition(TOPIC_ID, (1, 2), 1)]
        log = write.leader_change(0, 100, (100, 101, 102)) + write.batch(1, begin)
        for node, more in ((100, write.batch(3, [write.remove_topic(TOPIC_ID)])), (101, b""), (102, b"")):
            write.write_metadata_log(tmp_path, f"controller-{node}", node, {0: log + more})

    answer = audit(tmp_path, ALIKE, source="inferred", before_audit=controllers)
    assert answer.tables["partitions"][0]["leader_id"] == 1 and not answer.found("META-NO-LEADER")


def test_a_deleted_topic_of_which_nothing_is_left_is_not_told(tmp_path):
    audit(
        tmp_path, {1: Broker([], topic_id=ANOTHER_ID)}, source="inferred",
        before_audit=controller(tmp_path, write.remove_topic(TOPIC_ID)),
    )  # fmt: skip
    assert discover(Snapshot.open(str(tmp_path))).leaderships == ()
