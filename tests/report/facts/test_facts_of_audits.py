"""Facts from the rows of an audit: each kind of agreement, difference, truncation, leadership and outcome, by rows alone."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.report_rows import finding, objects, orders_row, partition, results, row

from replica_audit.model import OffsetRange
from replica_audit.report.facts.by_partition import is_failing, new_findings, rows_by_partition, worst_first
from replica_audit.report.facts.cluster_events import find_changes
from replica_audit.report.facts.losses import loss_at
from replica_audit.report.facts.outcome import Outcome, find_outcome
from replica_audit.report.partition_story import find_untold, tell_story
from replica_audit.report.sentences import plain_text
from replica_audit.results import PartitionRows, present
from replica_audit.schema import LostHolder


def replica(broker: int, start: int = 0, end: int = 10, role: str = "compared", **values: Any) -> dict[str, Any]:
    place = {"topic": "orders", "partition": 0, "broker_id": broker, "role": role}
    return row("replicas", **place, log_start_offset=start, log_end_offset=end, record_count=end - start, **values)


def rows_of(**tables: list) -> PartitionRows:
    """The rows of one partition with these tables."""
    ((_, rows),) = rows_by_partition(results(**tables))
    return rows


LEADER = replica(1, role="leader", is_leader=True)


def story(values: dict[str, Any] | None = None, protocol: str = "fetch", **tables: list) -> list[str]:
    """The story of a partition with these tables; `values` are columns of its row."""
    (place,) = objects("partitions", [partition(**(values or {}))])
    return [plain_text(one) for one in tell_story(place, rows_of(**tables), protocol)][1:]


@pytest.mark.parametrize(
    ("others", "told"),
    [
        ([], ["Only broker 1 has files here; it holds offsets 0 to 9."]),
        ([replica(2), replica(3)],
         ["Brokers 2 and 3 hold the same records as the leader (broker 1), up to log end 10."]),
        ([replica(2), replica(3, start=4)],
         ["Broker 2 holds the same records as the leader (broker 1), up to log end 10.",
          "Broker 3 holds the same records as the leader (broker 1) from 4 on, up to log end 10."]),
        ([replica(2, end=7)],
         ["Broker 2 holds the same records as the leader (broker 1), but ends 3 offsets earlier, at 7."]),
        ([replica(2, end=12)],
         ["Broker 2 agrees with the leader (broker 1) and goes on 2 offsets further, to 12: it was copied later, or the "
          "leader (broker 1) lost its tail."]),
        ([replica(2, start=4, end=4)],
         ["Broker 2 is empty and ends at 4, 6 offsets before the end of the leader (broker 1)."]),
        ([replica(2, start=10, end=12)],
         ["Broker 2 holds offsets 10 to 11, and the leader (broker 1) offsets 0 to 9: no offset is on both."]),
        ([replica(2, role="foreign"), replica(3, role="duplicate"), replica(4, role="set_aside")],
         ["Broker 2 holds a copy that belongs to another topic of this name (topic id -); it was not compared.",
          "Broker 3 has a second copy in -, which was not used.",
          "What broker 4 holds is not known: what there is of its log could not be compared."]),
    ],
)  # fmt: skip
def test_how_replicas_stand_beside_the_reference(others: list, told: list[str]) -> None:
    assert story(replicas=[LEADER, *others]) == told


def test_a_replica_that_differs_or_may_hold_anything_agrees_with_nobody() -> None:
    replicas = [LEADER, replica(2), replica(3), replica(4)]
    found = [
        finding("DIV-CONTENT", "high", broker_id=2),
        finding("LOG-CRC-BLIND", "high", broker_id=3),
        finding("DIV-PRESENCE", "info", broker_id=4),
    ]
    agreement = [one for one in story(replicas=replicas, findings=found) if "leader (broker 1)" in one]
    assert len(agreement) == 1 and agreement[0].startswith("Broker 4 and the leader (broker 1) were cleaned")


def test_what_a_baseline_resolved_says_nothing_of_the_replicas_of_now() -> None:
    codes = ("DIV-CONTENT", "LOG-CRC-BLIND", "REP-LEADER-SHORTER", "META-NO-LEADER")
    found = [finding(code, "info" if "META" in code else "high", broker_id=2, status="resolved") for code in codes]
    (one,) = story(replicas=[LEADER, replica(2)], findings=found)
    assert "holds the same records" in one
    (one,) = story(replicas=[LEADER, replica(2, end=12)], findings=found)
    assert one.endswith("it was copied later, or the leader (broker 1) lost its tail.")
    nobody, *_ = tell_story(
        objects("partitions", [partition(leader_id=None)])[0], rows_of(replicas=[LEADER], findings=found), "fetch"
    )
    assert "nothing can be written or read" in plain_text(nobody)


def test_the_end_of_a_longer_log_is_lost_where_a_finding_says_so() -> None:
    told = story(replicas=[LEADER, replica(2, end=12)], findings=[finding("REP-LEADER-SHORTER", "high")])
    assert told[0].endswith("to 12: the leader (broker 1) lost its tail.")


def run(start: int, end: int, epochs: tuple[int | None, int | None], code: str = "DIV-EPOCH", count: int = 1) -> dict:
    place = {"topic": "orders", "partition": 0, "broker_id": 2, "reference_id": 1, "code": code}
    replica_epoch, leader_epoch = epochs
    return row("divergences", **place, start_offset=start, end_offset=end, replica_epoch=replica_epoch,
               leader_epoch=leader_epoch, record_count=count)  # fmt: skip


def test_a_run_has_the_finding_of_its_code_and_place() -> None:
    place = {"broker_id": 2, "start_offset": 2}
    own, loss, other = (
        finding(code, "high", message=code, **place) for code in ("DIV-EPOCH", "HWM-LOSS", "DIV-HIDDEN")
    )
    elsewhere = [finding("DIV-EPOCH", "high", **{**place, name: 3}) for name in place]
    told = story(
        findings=[*elsewhere, loss, other, own],
        divergences=[run(2, 5, (3, 4)), run(7, 9, (3, 4))],
    )
    assert [one for one in told if "There is" in one] == [
        "DIV-EPOCH. There is 1 record; nothing proves that it was committed."
    ]


def test_a_truncation_keeps_what_differs_above_the_common_prefix() -> None:
    cut = {"topic": "orders", "partition": 0, "broker_id": 2, "common_prefix_end": 4, "steps": ()}
    cuts = [
        row("truncations", **cut, protocol="fetch", truncate_to=6, dropped_records=4),
        row("truncations", **cut, protocol="high-watermark", truncate_to=3, dropped_records=7),
        row("truncations", **cut, protocol="kip-101", truncate_to=8, dropped_records=2),
    ]
    told = story(replicas=[LEADER, replica(2)], truncations=cuts)
    assert told[1:] == [
        "When broker 2 follows, it cuts its log at 6: offsets 6 to 9 go with it.",
        "Under high-watermark, broker 2 would be cut at 3.",
        "Under kip-101, broker 2 would be cut at 8, and the difference at 4 would stay, unseen by Kafka.",
    ]
    assert len(story(protocol="kip-279", replicas=[LEADER, replica(2)], truncations=cuts)) == 1


def state(entry: int, leader: int | None, isr: list[int], elr: tuple[int, ...] = ()) -> dict[str, Any]:
    place = {"topic": "orders", "partition": 0, "source": "metadata_log", "entry": entry, "time_ms": entry}
    return row("partition_states", **place, leader_id=leader, isr=isr, elr=list(elr), leader_epoch=entry)


def test_a_copy_that_was_made_later_is_not_said_to_be_cut() -> None:
    cut = row("truncations", topic="orders", partition=0, broker_id=2, common_prefix_end=10, steps=(), protocol="fetch",
              truncate_to=10, dropped_records=2)  # fmt: skip
    given = {"replicas": [LEADER, replica(2, end=12)], "truncations": [cut]}
    later = finding("CAP-SKEW", "info", broker_id=2)
    said = "When broker 2 follows, it cuts its log at 10: offsets 10 to 11 go with it."
    assert said in story(**given) and said not in story(**given, findings=[later])
    assert said in story(**given, findings=[later], divergences=[run(10, 12, (3, 4))])


@pytest.mark.parametrize(
    ("records", "committed", "said"),
    [
        (1, 0, "There is 1 record; it, the marker of a transaction, was committed: E."),
        (2, 0, "There are 2 records; only markers of transactions among them were committed: E."),
        (2, 1, "There are 2 records; 1 of them was committed: E."),
        (2, 2, "There are 2 records; they were committed: E."),
    ],
)
def test_a_marker_is_no_committed_record(records: int, committed: int, said: str) -> None:
    differs = {
        **run(2, 2 + records, (3, 4), count=records),
        "committed": True,
        "committed_records": committed,
        "committed_evidence": "E",
    }
    own = finding("DIV-EPOCH", "high", message="DIV-EPOCH", broker_id=2, start_offset=2)
    assert f"DIV-EPOCH. {said}" in story(findings=[own], divergences=[differs])


def test_an_election_is_unclean_where_nobody_entitled_it() -> None:
    states = [state(0, 1, [1, 2]), state(1, 1, [1]), state(2, None, [1]), state(3, 2, [2]), state(4, 2, [2, 3])]
    changes = find_changes(objects("partition_states", states))
    assert [one.kind for one in changes] == ["isr_changed", "nobody_led", "became_uncleanly", "isr_changed"]
    assert (changes[0].left, changes[2].entitled, changes[3].joined) == ((2,), (1,), (3,))
    (eligible,) = find_changes(objects("partition_states", [state(0, None, [1], elr=(2,)), state(1, 2, [2])]))
    assert eligible.kind == "became_leader"
    said, *uncommitted = find_changes(
        objects(
            "partition_states",
            [
                state(0, 1, [1, 2]),
                state(1, 2, [2]) | {"recovering": True},
                state(2, 3, [3]) | {"uncommitted": True},
            ],
        )
    )
    assert said.kind == "became_uncleanly" and not uncommitted, "the controller says so itself"


@pytest.mark.parametrize(
    ("values", "source", "told"),
    [
        ({}, "metadata_log", ["Broker 1 leads in leader epoch 3 (the metadata log says so)"]),
        ({}, "inferred", ["Broker 1 is taken for the leader in leader epoch 3"]),
        ({"reference_id": 2}, "user",
         ["Broker 1 leads", "The other replicas are compared with broker 2: it has records of a later leader epoch."]),
        ({"leader_id": 9, "reference_id": 2}, "user",
         ["Broker 9 leads", "The other replicas are compared with broker 2: the snapshot has no files of the leader."]),
        ({"leader_id": None, "reference_id": 2}, "metadata_log",
         ["Nobody leads: nothing can be written or read", "The other replicas are compared with broker 2, whose log is"]),
        ({"reference_id": None}, "metadata_log", ["The snapshot has no replica of this partition that could be read."]),
    ],
)  # fmt: skip
def test_who_leads_and_who_stands_in_for_a_leader(values: dict, source: str, told: list[str]) -> None:
    marks = [orders_row("high_watermarks", leadership_source=source)]
    (place,) = objects("partitions", [partition(**{"leader_epoch": 3, **values})])
    rows = rows_of(replicas=[LEADER, replica(2)], high_watermarks=marks)
    said = [plain_text(one) for one in tell_story(place, rows, "fetch")]
    assert [one[: len(begin)] for one, begin in zip(said, told)] == told
    assert sum("are compared with" in one for one in said) == len(told) - 1


def outcome(partitions: list, findings: list | None = None, untrusted: str | None = None, **tables: list) -> Outcome:
    found = find_outcome(results(partitions, findings, **tables), untrusted, "CONSISTENT")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("verdict", "values", "code", "kind"),
    [
        ("COMMITTED_LOSS", {"lost_records": 4, "lost_committed": 3}, "HWM-LOSS", "lost"),
        ("COMMITTED_LOSS", {"lost_records": 4, "lost_committed": 3, "leader_id": None}, "HWM-LOSS", "lost_leaderless"),
        ("COMMITTED_LOSS", {"lost_records": 0}, "HWM-GONE", "gone_since"),
        ("COMMITTED_LOSS", {"lost_records": None}, "HWM-LOSS", "lost_uncounted"),
        ("WILL_LOSE_ON_TRUNCATION", {"lost_records": 2, "lost_committed": 0}, "TRN-LOSS", "perhaps"),
        ("WILL_LOSE_ON_TRUNCATION", {}, "REP-ISR-SHORT", "isr_short"),
        ("WILL_LOSE_ON_TRUNCATION", {}, "TRN-LOSS", "will_lose"),
        ("UNCOMMITTED_DIVERGENCE", {"lost_records": 0}, "DIV-CONTENT", "left_behind"),
        ("UNCOMMITTED_DIVERGENCE", {"lost_records": 0}, "DIV-EPOCH", "none_lacked"),
        ("UNCOMMITTED_DIVERGENCE", {}, "DIV-EPOCH", "unproven"),
        ("UNCOMMITTED_DIVERGENCE", {"lost_records": 0, "leader_id": None}, "DIV-CONTENT", "unproven"),
        ("UNCOMMITTED_DIVERGENCE", {"lost_records": 0, "leader_id": None}, "DIV-EPOCH", "unproven"),
        ("COMMITTED_DIVERGENCE", {}, "DIV-CONTENT", "differ"),
        ("LATENT_CORRUPTION", {}, "LOG-BAD-CRC", "damaged"),
        ("LATENT_CORRUPTION", {}, "OF-A-LATER-VERSION", "damaged"),
        ("INCONCLUSIVE", {}, "CAP-UNREADABLE", "undecided"),
    ],
)
def test_what_an_audit_comes_to(verdict: str, values: dict, code: str, kind: str) -> None:
    found = outcome([partition(verdict=verdict, **values)], [finding(code, "high")])
    assert (found.kind, found.worst, found.affected) == (kind, verdict, 1)


@pytest.mark.parametrize(("severity", "kind"), [("critical", "gone_for_good"), ("high", "perhaps")])
def test_records_past_the_end_of_a_log_are_gone_only_if_no_other_log_has_them(severity: str, kind: str) -> None:
    rows = [partition(verdict="COMMITTED_LOSS", lost_records=8, lost_committed=0)]
    found = outcome(rows, [finding("REP-LEADER-SHORTER", "high"), finding("HWM-CP-ABOVE-LEO", severity, broker_id=3)])
    assert (found.kind, found.affected) == (kind, 1)
    counted = [*rows, partition(number=1, verdict="COMMITTED_LOSS", lost_records=4, lost_committed=4)]
    losses = [finding("HWM-CP-ABOVE-LEO", severity, broker_id=3), finding("HWM-LOSS", "critical", number=1)]
    assert outcome(counted, losses).gone == ((("orders", 0),) if severity == "critical" else ())


@pytest.mark.parametrize(("time", "kind"), [(1_700_000_000_000, "none_lacked"), (None, "equal_content")])
def test_equal_records_are_what_producers_sent_only_where_they_have_equal_times(time: int | None, kind: str) -> None:
    runs = [{**run(2, 8, (3, 4)), "code": "DIV-EPOCH", "first_timestamp_ms": time}]
    rows = [partition(verdict="UNCOMMITTED_DIVERGENCE", lost_records=0)]
    assert outcome(rows, [finding("DIV-EPOCH", "medium")], divergences=runs).kind == kind


def test_peace_is_for_audits_that_could_read_everything() -> None:
    calm = [partition(lost_records=0, lost_committed=0)]
    assert (outcome(calm).kind, outcome(calm).tone) == ("peace", "good")
    assert (outcome(calm, untrusted="an input").kind, outcome(calm, untrusted="an input").tone) == ("agree", "unknown")
    loud = outcome(calm, [finding("REP-ISR-SHORT", "medium")])
    assert (loud.kind, loud.tone, loud.cases[0].finding.code) == ("agree", "warn", "REP-ISR-SHORT")
    assert find_outcome(results([]), None, "INCONCLUSIVE") is None


def test_an_outcome_is_worked_out_once() -> None:
    """The page and the summary ask for the same; with another premise it is another."""
    calm = results([partition(lost_records=0, lost_committed=0)])
    found = find_outcome(calm, None, "CONSISTENT")
    assert find_outcome(calm, None, "CONSISTENT") is found
    other = find_outcome(calm, "an input", "CONSISTENT")
    assert other is not None and other.kind == "agree" and find_outcome(calm, None, "CONSISTENT") is found


def test_a_loss_names_those_who_have_all_of_it_or_each_a_part() -> None:
    lost = {"lost_records": 6, "lost_committed": 0}
    held = [[LostHolder(2, of_2, 0, 0, 0)._asdict(), LostHolder(3, 2, 0, 0, 0)._asdict()] for of_2 in (6, 4)]
    whole, shared = objects("partitions", [partition(**lost, holders=one) for one in held])
    run_lost = {**run(2, 8, (3, 4)), "lost_records": 6, "lost_committed": 0, "promised_records": 4}
    runs = objects("divergences", [run_lost])
    found = loss_at(whole, runs)
    assert found is not None
    assert (found.brokers, found.in_parts, found.ranges, found.promised) == ((2,), False, (OffsetRange(2, 8),), 4)
    parts = loss_at(shared, runs)
    assert parts is not None and (parts.brokers, parts.in_parts) == ((2, 3), True)
    assert loss_at(whole, []) is None


def test_which_findings_are_shown() -> None:
    made = [finding("LOG-CRC", "high", status=one) for one in ("new", "known", "resolved")]
    new, known, resolved, quiet = objects("findings", [*made, finding("LOG-CRC", "low")])
    assert present([new, known, resolved]) == [new, known]
    assert new_findings([quiet, known, new]) == [new, quiet]
    assert [is_failing(one, "high") for one in (new, known, quiet)] == [True, False, False]


def evidence(kind: str, value: str | None = None) -> dict[str, Any]:
    return {"kind": kind, "text": "", "broker_id": None, "path": None, "position": None, "value": value}


REPLAYED = [evidence("replay", "fetch")]
UNCLEAN = [state(0, 2, [2]), state(1, 1, [1])]
RUN = orders_row("divergences", broker_id=2, start_offset=4, end_offset=8, code="DIV-EPOCH", committed=True)


@pytest.mark.parametrize(
    ("code", "values", "told"),
    [
        ("DIV-EPOCH", {"broker_id": 2, "start_offset": 4, "end_offset": 8, "evidence": REPLAYED}, True),
        ("HWM-LOSS", {"broker_id": 2, "start_offset": 4, "end_offset": 6}, True),
        # On a copy beside the replicas, whose records are no row of `divergences`.
        ("DIV-EPOCH", {"broker_id": 3, "start_offset": 4, "end_offset": 8}, False),
        ("HWM-LOSS", {"broker_id": 2, "start_offset": 8, "end_offset": 9}, False),
        # Another fact about the same records.
        ("DIV-CORRUPT", {"broker_id": 2, "start_offset": 4, "end_offset": 8}, False),
        ("TRN-BELOW-HW", {"broker_id": 2, "start_offset": 2, "end_offset": 6, "evidence": REPLAYED}, True),
        ("TRN-REPLAY-GAP", {"broker_id": 2, "start_offset": 2, "end_offset": 4, "evidence": REPLAYED}, False),
        ("TRN-REPLAY-GAP", {"broker_id": 3, "start_offset": 4, "end_offset": 8, "evidence": REPLAYED}, False),
        # What becomes of the log is said by nothing else.
        ("TRN-MID-BATCH", {"broker_id": 2, "start_offset": 4, "evidence": REPLAYED}, False),
        ("TRN-BELOW-HW", {"broker_id": 2, "start_offset": 2, "end_offset": 6, "evidence": [evidence("log")]}, False),
        ("GRP-PAST-END", {"evidence": [evidence("group")]}, True),
        ("META-NO-LEADER", {}, True),
        ("META-UNCLEAN-ELECTION", {"evidence": [evidence("leadership", "1")]}, True),
        ("META-UNCLEAN-ELECTION", {"evidence": [evidence("leadership", "0")]}, False),
        ("META-UNCLEAN-ELECTION", {"evidence": [evidence("log")]}, False),
    ],
)
def test_a_finding_is_in_the_story_unless_a_sentence_reports_it(code: str, values: dict[str, Any], told: bool) -> None:
    rows = rows_of(findings=[finding(code, "high", **values)], divergences=[RUN], partition_states=UNCLEAN)
    assert find_untold(rows) is not told


def test_low_findings_are_in_the_story_where_files_are_missing() -> None:
    gone = finding("LOG-GAP", "high", status="resolved")
    rows = rows_of(findings=[finding("LOG-GAP", "low"), finding("CAP-MISSING-REPLICA", "info"), gone])
    assert [row.code for row in find_untold(rows)] == ["CAP-MISSING-REPLICA"]


def test_unclean_elections_come_in_their_order() -> None:
    chosen = {10: 1, 9: 2, 11: 0}
    rows = [
        finding("META-UNCLEAN-ELECTION", "high", broker_id=broker, evidence=[evidence("leadership", str(epoch))])
        for epoch, broker in chosen.items()
    ]
    assert [row.broker_id for row in worst_first(results([partition()], findings=rows).findings)] == [2, 1, 0]
