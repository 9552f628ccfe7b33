"""Records that an earlier audit saw and no replica holds now: HWM-GONE once, and only where nothing else explains it."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest
from tests.support.captures import audit_whole
from tests.support.fixtures import FIXTURES
from tests.support.report_rows import finding

from replica_audit.auditing import opened_snapshot
from replica_audit.auditing.comparison_plan import ComparisonPlan
from replica_audit.auditing.earlier_losses import EarlierLosses, EarlierRun, earlier_losses
from replica_audit.auditing.known_findings import compare_findings
from replica_audit.config import Settings
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_all
from replica_audit.schema import Evidence, FindingRow
from replica_audit.typed_json import from_object


def seen_by(results: Results, finished: str = "2026-11-20T10:00:00.000Z") -> list[dict]:
    """Runs of an audit as they are loaded: committed or left by an unclean election, and those reported."""
    place = lambda row: (row["topic"], row["partition"])  # noqa: E731
    partitions = {place(row): row for row in results.rows("partitions")}
    unclean = {
        (*place(row), row["broker_id"], row["start_offset"])
        for row in results.rows("findings")
        if row["code"] == "DIV-EPOCH" and row["severity"] == "high"
    }
    rows = [
        {
            "audit_id": "a" * 32,
            "finished": finished,
            "topic_id": partitions[place(row)]["topic_id"],
            "leader_epoch": partitions[place(row)]["leader_epoch"],
            "records": row["record_count"],
            **row,
        }
        for row in results.rows("divergences")
        if row["committed"] or (*place(row), row["broker_id"], row["start_offset"]) in unclean
    ]
    return rows + [row for row in results.rows("findings") if row["code"] in ("HWM-GONE", "HWM-UNSEEN")]


def losses_of(rows: list[dict]) -> EarlierLosses:
    """`EarlierLosses` loaded from `seen_by`."""
    names = {field.name for field in fields(EarlierRun)} - {"broker_ids"}
    runs = [row for row in rows if "finding_id" not in row]
    return earlier_losses(
        [EarlierRun(**{name: row[name] for name in names}, broker_ids=(row["broker_id"],)) for row in runs],
        {row["finding_id"]: [Evidence(**one) for one in row["evidence"]] for row in rows if "finding_id" in row},
    )


def audit(name: str, seen: list[dict] = (), monkeypatch=None, change=lambda evidence: evidence, **settings) -> Results:
    """The audit of a fixture after others that saw these rows."""
    if monkeypatch is None:
        return audit_all(str(FIXTURES / name), Settings(**settings)) if settings else audit_whole(FIXTURES / name)
    real = opened_snapshot.plan_of

    def with_rows(partition, *known):
        mine = [row for row in seen if (row["topic"], row["partition"]) == (partition.topic, partition.partition)]
        *others, side, options = known
        plan = real(partition, *others, side._replace(losses=losses_of(mine)), options)
        return ComparisonPlan(change(plan.evidence))

    with monkeypatch.context() as patch:
        patch.setattr(opened_snapshot, "plan_of", with_rows)
        answer = audit_all(str(FIXTURES / name), Settings(**settings))
    assert not [row["message"] for row in answer.rows("findings") if row["code"] == "CAP-NOT-AUDITED"]
    return answer


def gone(results: Results) -> list[dict]:
    return [row for row in results.rows("findings") if row["code"] == "HWM-GONE"]


PAIRS = [
    ("diverged-unclean", "diverged-healed"),
    ("kafka-3.9-diverged-unclean", "kafka-3.9-diverged-healed"),
    ("kafka-3.6-diverged-unclean", "kafka-3.6-diverged-healed"),
    ("zk-2.8-diverged-unclean", "zk-2.8-diverged-healed"),
    ("diverged-multi", "diverged-multi-healed"),
    ("last-replica-standing-2-cut", "last-replica-standing-3-healed"),
]


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_every_run_that_was_cut_is_told_once(monkeypatch, before, after):
    first = audit(before)
    rows = seen_by(first)
    lost = {(row["topic"], row["partition"], row["replica_epoch"]) for row in rows}
    assert rows
    second = audit(after, rows, monkeypatch)
    found = gone(second)
    for row in found:
        assert (row["severity"], row["confidence"], row["status"]) == ("high", "proven", "new")
        assert "2026-11-20" in row["message"] and "no replica has" in row["message"]
        assert row["evidence"][0]["kind"] == "earlier" and "a" * 32 in row["evidence"][0]["text"]
    told = {(row["topic"], row["partition"], json.loads(row["evidence"][0]["value"])["replica_epoch"]) for row in found}
    assert told == lost
    verdicts = {(row["topic"], row["partition"]): row["verdict"] for row in second.rows("partitions")}
    assert {verdicts[topic, partition] for topic, partition, _ in lost} == {"COMMITTED_LOSS"}

    # The audit after that knows it, also when the first one was removed from the warehouse; nothing else changes.
    for remembered in ([*rows, *found], found):
        third = audit(after, remembered, monkeypatch)
        assert [(row["finding_id"], row["status"]) for row in gone(third)] == [
            (row["finding_id"], "known") for row in found
        ]
        assert third.rows("partitions") == [
            {**row, "findings": now["findings"]}
            for row, now in zip(audit(after).rows("partitions"), third.rows("partitions"))
        ]


def test_the_counts_are_those_of_the_records_that_were_lost(monkeypatch):
    found = gone(audit("diverged-healed", seen_by(audit("diverged-unclean")), monkeypatch))
    (row,) = [row for row in found if row["partition"] == 0 and row["topic"] == "ledger"]
    assert row["message"] == (
        "45 committed records that broker 0 held on 2026-11-20 are gone: no replica has offsets 34 to 78 of epoch 0 any more"
    )
    assert (row["broker_id"], row["start_offset"], row["end_offset"]) == (0, 34, 79)


CONTROLS = [
    ("diverged-unclean", "diverged-unclean"),  # still there
    ("diverged-clean", "diverged-clean-healed"),  # a clean failover with acks=1
    ("diverged-healed", "diverged-healed"),  # nothing was seen
    ("diverged-healed", "diverged-unclean"),
    ("retention-passed-1-down", "retention-passed-2-back"),
    ("recreated-1-before", "recreated-2-back"),
    ("lagging", "lagging-caught-up"),
    ("healthy", "diverged-unclean"),
    ("diverged-unclean", "healthy"),  # other topics
]


@pytest.mark.parametrize(("before", "after"), CONTROLS)
def test_nothing_is_gone_where_nothing_was_lost(monkeypatch, before, after):
    assert not gone(audit(after, seen_by(audit(before)), monkeypatch))


def _rows_of_ledger_0() -> list[dict]:
    return [row for row in seen_by(audit("diverged-unclean")) if row["topic"] == "ledger" and row["partition"] == 0]


def _with_directory(evidence, **changes):
    replicas = tuple((directory._replace(**changes), segments) for directory, segments in evidence.replicas)
    return replace(evidence, replicas=replicas)


HARMLESS = {
    "another topic id": lambda evidence: _with_directory(evidence, topic_id="x" * 22),
    "no topic id": lambda evidence: _with_directory(evidence, topic_id=None),
    "retention passed": lambda evidence: _with_directory(evidence, log_start_checkpoint=79),
    "tiered": lambda evidence: replace(
        evidence, leadership=replace(evidence.leadership, configs={"remote.storage.enable": "true"})
    ),
    "compacted": lambda evidence: replace(
        evidence,
        leadership=replace(evidence.leadership, configs={**evidence.leadership.configs, "cleanup.policy": "compact"}),
    ),
    "the holder is not here": lambda evidence: replace(
        evidence, replicas=tuple(one for one in evidence.replicas if one[0].broker_id != 0)
    ),
    "another replica is not here": lambda evidence: replace(
        evidence, replicas=tuple(one for one in evidence.replicas if one[0].broker_id != 2)
    ),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_else_explains_it_is_believed(monkeypatch, name):
    rows = _rows_of_ledger_0()

    def change(evidence):
        topic_partition = evidence.topic_partition
        return (
            HARMLESS[name](evidence)
            if (topic_partition.topic, topic_partition.partition) == ("ledger", 0)
            else evidence
        )

    assert gone(audit("diverged-healed", rows, monkeypatch))
    assert not gone(audit("diverged-healed", rows, monkeypatch, change))


@pytest.mark.parametrize(("name", "absent"), [("the holder is not here", 0), ("another replica is not here", 2)])
def test_where_a_log_is_missing_they_are_not_gone_for_sure_but_told_once(monkeypatch, name, absent):
    rows = _rows_of_ledger_0()

    def change(evidence):
        is_it = (evidence.topic_partition.topic, evidence.topic_partition.partition) == ("ledger", 0)
        return HARMLESS[name](evidence) if is_it else evidence

    def unseen(results):
        return [row for row in results.rows("findings") if row["code"] == "HWM-UNSEEN"]

    second = audit("diverged-healed", rows, monkeypatch, change)
    (row,) = unseen(second)
    assert row["message"] == (
        "45 committed records that broker 0 held on 2026-11-20 are on no replica in the snapshot (offsets 34 to 78 of "
        f"epoch 0), and the log of broker {absent} is missing from it or incomplete"
    )
    assert (row["severity"], row["confidence"], row["status"]) == ("medium", "proven", "new") and not gone(second)
    verdicts = {(one["topic"], one["partition"]): one["verdict"] for one in second.rows("partitions")}
    assert verdicts["ledger", 0] == "INCONCLUSIVE"

    # The next audit knows it; one that has every log says that they are gone, as news.
    third = audit("diverged-healed", [*rows, row], monkeypatch, change)
    assert [one["status"] for one in unseen(third)] == ["known"]
    verdicts = {(one["topic"], one["partition"]): one["verdict"] for one in third.rows("partitions")}
    # Broker 2 led last and is in sync: without its log there is no answer. Broker 0 has followed since it was deposed.
    assert (verdicts["ledger", 0] == "INCONCLUSIVE") == (absent == 2) and verdicts["ledger", 0] != "COMMITTED_LOSS"
    fourth = audit("diverged-healed", [*rows, row], monkeypatch)
    assert [one["status"] for one in gone(fourth)] == ["new"] and not unseen(fourth)


def test_a_snapshot_from_before_the_loss_says_nothing(monkeypatch):
    """Audited after the other one: in its time the records were not written yet."""
    rows = [{**row, "replica_epoch": 5, "leader_epoch": 6} for row in _rows_of_ledger_0()]
    assert not gone(audit("diverged-healed", rows, monkeypatch))
    rows = [{**row, "leader_epoch": 99} for row in _rows_of_ledger_0()]
    assert not gone(audit("diverged-healed", rows, monkeypatch))


def test_retention_that_passed_a_part_leaves_the_rest(monkeypatch):
    rows = _rows_of_ledger_0()

    def change(evidence):
        return _with_directory(evidence, log_start_checkpoint=50)

    whole, part = (
        gone(audit("diverged-healed", rows, monkeypatch)),
        gone(audit("diverged-healed", rows, monkeypatch, change)),
    )
    assert part[0]["message"].startswith("up to 29 committed records that broker 0 held")
    assert part[0]["finding_id"] == whole[0]["finding_id"]


def test_two_brokers_that_held_the_same_are_one_fact():
    row = {
        "audit_id": "a", "finished": "2026-01-01", "topic_id": "t", "broker_id": 0, "start_offset": 5, "end_offset": 9,
        "replica_epoch": 1, "records": 4, "committed": False, "leader_epoch": 2,
    }  # fmt: skip
    other = {**row, "broker_id": 2, "end_offset": 7, "records": 2, "committed": True}
    newer = {**row, "audit_id": "b", "finished": "2026-01-02"}
    (run,) = losses_of([row, other]).runs
    assert (run.broker_ids, run.start_offset, run.end_offset, run.records, run.committed) == ((0, 2), 5, 9, 4, True)
    (run,) = losses_of([row, other, newer]).runs
    assert (run.audit_id, run.broker_ids) == ("b", (0,))
    touching = {**row, "start_offset": 9, "end_offset": 12, "records": 3}
    (run,) = losses_of([touching, row]).runs
    assert (run.start_offset, run.end_offset, run.records) == (5, 12, 7)
    overlapping = {**newer, "start_offset": 8, "end_offset": 12, "records": 4}
    assert [(run.start_offset, run.end_offset, run.records) for run in losses_of([overlapping, row]).runs] == [
        (5, 9, 4), (9, 12, 3),
    ]  # fmt: skip


def test_a_finding_that_is_known_without_a_baseline_stays_known():
    row = finding("HWM-GONE", "critical", "t", finding_id="f", status="known")
    assert compare_findings([from_object(FindingRow, row)], [], {("t", 0)})[0].status == "known"
    assert compare_findings([], [from_object(FindingRow, row)], {("t", 0)})[0].status == "resolved"
