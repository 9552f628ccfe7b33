"""META-*: no leader, an unknown ISR, directories of another topic or cluster, in the words that are read."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support import metadata_log as write
from tests.support.scenario import Answer, audit, written
from tests.support.snapshots import TOPIC, TOPIC_ID, Replica, make_uuid

from replica_audit.auditing.findings import meta
from replica_audit.auditing.findings.meta import META_FOREIGN_DIR, META_FORK, META_NO_LEADER, META_STALE
from replica_audit.schema import QuarantineRow

LOG = written(0, 30, 2)
OLD_ID = make_uuid("first life")


def considered(answer: Answer, code: str) -> list[str]:
    return [one["text"] for row in answer.found(code) for one in row["evidence"] if one["kind"] == "considered"]


def test_who_is_compared_with_where_nobody_leads(tmp_path: Path) -> None:
    answer = audit(tmp_path, {1: Replica(LOG), 2: Replica(LOG)}, leader=None)
    assert answer.messages("META-NO-LEADER") == [
        "no leader; the others are compared with broker 1, and cuts are shown as if it were elected"
    ]
    assert not answer.found("META-ISR-UNKNOWN")


def test_where_nobody_leads_since_a_log_dir_is_offline_that_is_said(tmp_path: Path) -> None:
    dirs = [make_uuid(name) for name in ("a of 1", "b of 1", "of 2")]
    begin = write.new_topic(TOPIC, TOPIC_ID, (1, 2), 1, directories=dirs[1:])
    begin += [write.register_broker(broker, log_dirs=dirs) for broker in (1, 2)]
    left = [write.registration_change(1, log_dirs=dirs[:1]), write.change(TOPIC_ID, leader=-1, isr=(1,))]
    answer = audit(tmp_path, {1: Replica(LOG), 2: Replica(LOG)}, metadata={100: write.history(begin, *left)})
    (message,) = answer.messages("META-NO-LEADER")
    assert message.startswith(
        "no leader, and broker 1 is not elected: its log directory with it is offline; the others"
    )
    assert not answer.found("META-DIR-OFFLINE")


_DIRS = [make_uuid(name) for name in ("a of 1", "b of 1", "of 2")]


def _failed(tmp_path: Path, replicas: tuple[int, ...] = (1, 2), left: int = 1, **change: object) -> Answer:
    """Broker 2 leads; broker 1 has the partition on its second log dir, and its first `left` are online."""
    begin = write.new_topic(TOPIC, TOPIC_ID, replicas, 2, isr=(2,), directories=_DIRS[1:])
    begin += [write.register_broker(broker, log_dirs=_DIRS) for broker in (1, 2)]
    changes = [write.registration_change(1, log_dirs=_DIRS[:left])]
    changes += [write.change(TOPIC_ID, **change)] if change else []
    return audit(tmp_path, {1: Replica(LOG), 2: Replica(LOG)}, metadata={100: write.history(begin, *changes)})


_TOLD = (
    "the log directory of broker 1 that has it is offline: that replica does not catch up until the directory is back in "
    "place and the broker has been restarted"
)


@pytest.mark.parametrize(
    ("change", "more"),
    [
        ({}, ""),
        ({"adding": (1,)}, "; until then the reassignment that adds broker 1 does not complete"),
        (
            {"removing": (1,)},
            "; the reassignment that removes broker 1 completes without it, and its copy stays there, as -stray once the broker starts with it",
        ),
    ],
    ids=["assigned", "added", "removed"],
)
def test_a_log_dir_that_is_offline_beside_a_leader_is_told(change: dict, more: str, tmp_path: Path) -> None:
    """Of a replica that a reassignment adds nothing else says that it is not in sync."""
    answer = _failed(tmp_path, **change)
    assert answer.messages("META-DIR-OFFLINE") == [_TOLD + more]
    assert {row["severity"] for row in answer.found("META-DIR-OFFLINE", 1)} == {"low"}


def test_log_dirs_that_are_online_are_not_told(tmp_path: Path) -> None:
    assert not _failed(tmp_path, left=3).found("META-DIR-OFFLINE")


@pytest.mark.parametrize(
    ("mark", "bound"),
    [
        (20, "only the log end of broker 1 bounds the high watermark from above"),
        (35, "no log end bounds the high watermark from above"),
    ],
    ids=["known end", "lost tail"],
)
def test_what_bounds_the_high_watermark_where_the_isr_is_not_known(tmp_path: Path, mark: int, bound: str) -> None:
    answer = audit(tmp_path, {1: Replica(LOG, high_watermark=mark)}, source="inferred")
    assert answer.messages("META-ISR-UNKNOWN") == [
        f"nothing says who is in sync (leadership: inferred from the logs); {bound}"
    ]
    assert not answer.found("META-NO-LEADER")


@pytest.mark.parametrize(
    ("source", "severity", "verdict", "why"),
    [
        (
            "topics_describe",
            "info",
            "CONSISTENT",
            f"yes, the listing of the topics names {TOPIC_ID}; Kafka sets such a directory aside as -stray",
        ),
        ("user", "medium", "INCONCLUSIVE", "possible, nothing says which id is the present one"),
        ("inferred", "medium", "INCONCLUSIVE", "possible, nothing says which id is the present one"),
    ],
)
def test_a_directory_of_another_topic_id_is_in_doubt_until_something_names_the_present_one(
    tmp_path: Path, source: str, severity: str, verdict: str, why: str
) -> None:
    brokers = {1: Replica(LOG), 2: Replica(written(0, 9, 1, "first life "), topic_id=OLD_ID)}
    answer = audit(tmp_path, brokers, source=source, isr=(1,), replicas=(1,))
    assert answer.messages("META-TOPICID-MISMATCH") == [
        f"broker 2: broker-2/orders-0 has topic id {OLD_ID}, the others have {TOPIC_ID}; not compared"
    ]
    assert answer.one("META-TOPICID-MISMATCH", 2)[0] == severity
    assert considered(answer, "META-TOPICID-MISMATCH") == [f"topic re-created: {why}"]
    assert answer.verdict == verdict


@pytest.mark.parametrize("leader", [1, 2])
def test_without_a_named_id_the_present_topic_is_that_of_the_leader_s_directory(tmp_path: Path, leader: int) -> None:
    """Brokers that were down, or whose disk was offline, as the topic was created anew keep the earlier one, and may be more."""
    old = Replica(written(0, 50, 1, "first life "), topic_id=OLD_ID)
    new = Replica(LOG)
    brokers = {1: new, 2: old, 3: old} if leader == 1 else {1: new, 2: new, 3: old}
    answer = audit(tmp_path, brokers, leader=leader, source="user", isr=(leader,), replicas=(1, 2, 3))
    assert answer.tables["partitions"][0]["reference_id"] == leader
    assert all(f"the others have {TOPIC_ID}" in said for said in answer.messages("META-TOPICID-MISMATCH")), answer


@pytest.mark.parametrize(
    ("code", "found"),
    [
        (META_FOREIGN_DIR.code, META_FOREIGN_DIR.code),
        (META_FORK.code, META_FORK.code),
        (META_STALE.code, META_STALE.code),
        (META_NO_LEADER.code, None),
        ("CAP-UNREADABLE", None),
        ("INPUT-IGNORED", None),
    ],
)
def test_of_input_that_is_set_aside_identity_is_told_of_directories_and_metadata_logs(
    code: str, found: str | None
) -> None:
    row = QuarantineRow(1, None, None, "broker-1/meta.properties", None, None, code, "why")
    made = meta.of_input(row)
    assert (None if made is None else (made.code, made.message)) == (
        None if found is None else (found, "broker-1/meta.properties: why")
    )
