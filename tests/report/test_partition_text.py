"""The story of a partition, sentence by sentence, from audits of the samples."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.fixtures import FIXTURES
from tests.support.report_rows import finding, objects, partition, results, row
from tests.support.samples import SAMPLES
from tests.support.some import some

from replica_audit.config import Settings
from replica_audit.literals import LEADERSHIP_SOURCES
from replica_audit.model import TopicPartition
from replica_audit.report.facts.by_partition import rows_by_partition
from replica_audit.report.partition_story import CHANGE_LIMIT, tell_history, tell_story
from replica_audit.report.sentences import plain_text
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_one
from replica_audit.text import name_source


def story(found: Results, protocol: str | None = None) -> list[str]:
    ((place, rows),) = rows_by_partition(found)
    return [plain_text(sentence) for sentence in tell_story(place, rows, protocol or found.protocol)]


def of_sample(name: str, place: str, **settings: str) -> list[str]:
    return story(audit_one(str(SAMPLES / name), TopicPartition.parse(place), Settings(**settings)))


def test_every_source_of_leadership_has_its_words() -> None:
    assert all(map(name_source, (*LEADERSHIP_SOURCES, "inferred")))


def test_a_lost_tail_is_told_from_the_leader_to_the_cut() -> None:
    assert of_sample("last-replica-standing", "orders-0") == [
        "Broker 1 leads in leader epoch 5 (the listing of the topics says so); in sync: 1.",
        "Broker 2 has records of epoch 4 at offsets 93 to 99; the log of broker 1 ends at 93; the fetch protocol cuts the log "
        "at 93. There are 7 records, written 2023-11-14 from 22:18:53.000 to 22:18:55.004 UTC; they were committed: its own "
        "high watermark reached 100.",
        "The high watermark is exactly 93: checkpointed high watermark 93 of broker 1 and log end 93 of broker 1, "
        "the reference.",
        "When broker 2 follows, broker 1 answers that epoch 4 ends at 93, and it cuts its log at 93: offsets 93 to 99 go "
        "with it, committed records among them.",
    ]


def test_protocols_that_would_leave_a_difference_are_told() -> None:
    told = of_sample("kip279-1-before", "kip279-0")
    assert told[-2:] == [
        "Under high-watermark, broker 0 would keep all of its log, and the difference at 12 would stay, unseen by Kafka.",
        "Under kip-101, broker 0 would be cut at 17, and the difference at 12 would stay, unseen by Kafka.",
    ]
    assert (
        "When broker 0 follows, broker 1 answers that epoch 1 ends at 17, then that epoch 0 ends at 12, and it cuts its log "
        "at 12: " in told[-3]
    )


def test_the_protocol_of_the_audit_is_the_one_that_is_told() -> None:
    told = of_sample("kip279-1-before", "kip279-0", protocol="kip-101")
    assert any("ends at 17, and it cuts its log at 17" in sentence for sentence in told)
    cut = "the kip-101 protocol cuts the log at 17, inside a batch that is removed whole, which leaves a hole"
    assert any(cut in sentence for sentence in told)


@pytest.mark.parametrize(
    ("capture", "place", "said"),
    [
        (
            "diverged-healed",
            "ledger-0",
            "At 2026-11-21T09:01:14.307Z broker 1 took over from broker 0 uncleanly, in leader epoch 1 (only broker 0 was in "
            "sync); it leads from offset 34; it may have lost records, and these files cannot tell: no replica here still "
            "holds any that it left behind.",
        ),
        (
            "corrupted-batch-missing",
            "codecs-1",
            "Broker 2 has nothing at offsets 80 to 83, where broker 0 has records of epoch 0; the fetch protocol keeps "
            "everything below 114, so this stays.",
        ),
    ],
)
def test_what_a_finding_says_is_said_in_its_words(capture: str, place: str, said: str) -> None:
    assert said in story(audit_one(str(FIXTURES / capture), TopicPartition.parse(place), Settings()))


def test_a_difference_that_nothing_proves_committed_says_so() -> None:
    told = of_sample("zombie", "orders-0")
    assert (
        "where broker 1 has other records of epoch 1" in told[1]
        and "nothing proves that they were committed." in told[1]
    )
    assert "the fetch protocol keeps everything below 60, so this stays" in told[1]


@pytest.mark.parametrize("place", ["ledger-0", "ledger-1", "ledger-2", "__consumer_offsets-0"])
def test_every_sentence_is_one_and_stress_is_never_empty(place: str) -> None:
    found = audit_one(str(SAMPLES / "diverged-unclean"), TopicPartition.parse(place), Settings())
    ((partition_row, rows),) = rows_by_partition(found)
    for sentence in some(tell_story(partition_row, rows, "fetch")):
        text = plain_text(sentence)
        assert text[0].isupper() and text.endswith(".") and "  " not in text and "None" not in text, text
        assert all(sentence[1::2])


def test_nobody_leading_and_nothing_comparable_are_told() -> None:
    told = story(results([partition(leader_id=None, reference_id=2, leader_epoch=3, isr=[])]))
    assert told == [
        "Nobody leads: nothing can be written or read; in sync: none.",
    ]
    assert story(results([partition(leader_id=None, reference_id=None)])) == [
        "The snapshot has no replica of this partition that could be read."
    ]


def states(*changes: dict) -> list[Any]:
    base = {"source": "metadata_log", "isr": [0, 1, 2], "elr": [], "leader_id": 0, "leader_epoch": 0}
    rows = [
        row("partition_states", **{**base, **change, "time_ms": 1000 * number, "entry": number})
        for number, change in enumerate(changes)
    ]
    return objects("partition_states", rows)


def test_changes_of_leader_and_of_the_replicas_in_sync_are_told_with_their_time() -> None:
    told = tell_history(
        states({}, {"isr": [0]}, {"isr": [], "leader_id": None}, {"isr": [1], "leader_id": 1, "leader_epoch": 1})
    )
    assert [plain_text(sentence) for sentence in told] == [
        "At 1970-01-01T00:00:01.000Z brokers 1 and 2 left the replicas in sync; in sync: 0.",
        "At 1970-01-01T00:00:02.000Z broker 0 stopped leading and nobody led; in sync: none.",
        "At 1970-01-01T00:00:03.000Z broker 1 became leader in epoch 1, uncleanly: nobody was in sync or eligible; "
        "in sync: 1.",
    ]


def test_a_leader_from_outside_is_told_to_be_unclean_and_one_of_the_eligible_is_not() -> None:
    first = {"isr": [0], "elr": [2]}
    unclean, clean = ({"isr": [number], "leader_id": number, "leader_epoch": 1} for number in (1, 2))
    assert "uncleanly: only brokers 0 and 2 were in sync or eligible" in plain_text(
        next(tell_history(states(first, unclean)))
    )
    assert "uncleanly" not in plain_text(next(tell_history(states(first, clean))))


def test_who_is_eligible_when_nobody_leads_is_told() -> None:
    told = tell_history(states({}, {"isr": [], "elr": [1, 2], "leader_id": None}))
    assert plain_text(next(told)).endswith("nobody led; in sync: none; eligible: 1 and 2.")


def test_of_a_long_history_the_end_is_told() -> None:
    told = list(tell_history(states(*({"leader_id": number} for number in range(CHANGE_LIMIT + 4)))))
    assert len(told) == CHANGE_LIMIT + 1 and told[0] == (
        "3 earlier changes of leader or of the replicas in sync are left out here.",
    )


def test_a_listing_without_a_time_is_no_history() -> None:
    listing = row("partition_states", source="topics_describe", isr=[1])
    assert list(tell_history(objects("partition_states", [listing] * 2))) == []


@pytest.mark.parametrize("is_doubted", [False, True])
def test_what_is_in_doubt_is_not_said_to_be_as_it_should_be(is_doubted: bool) -> None:
    replicas = [
        row("replicas", topic="orders", partition=0, broker_id=broker, log_dir=f"broker-{broker}", role=role,
            log_start_offset=0, log_end_offset=9, record_count=9)
        for broker, role in ((1, "leader"), (2, "compared"))
    ]  # fmt: skip
    doubt = [finding("CAP-SECOND-HAND", "medium", broker_id=2)] if is_doubted else []
    told = story(results([partition()], [finding("DIV-PRESENCE", "info", broker_id=2), *doubt], replicas=replicas))
    assert any("which is as it should be" in sentence for sentence in told) is not is_doubted
