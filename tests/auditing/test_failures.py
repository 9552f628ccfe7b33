"""A partition that raises is INCONCLUSIVE with its error, and every other is answered, in `show` and on executors."""

from __future__ import annotations

import json

import pytest
from tests.support.fixtures import FIXTURES
from tests.support.report_rows import attempt, finding, objects, partition, results, tables_of

from replica_audit.auditing import conclude as conclusions
from replica_audit.auditing import opened_snapshot
from replica_audit.auditing.catalogue import audit_verdict, unplaced_codes
from replica_audit.auditing.evidence import AuditOptions
from replica_audit.auditing.history import JudgedPartition, SeenFinding, ToldFinding, build_history
from replica_audit.config import Settings
from replica_audit.errors import FormatError
from replica_audit.model import TopicPartition
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_all, audit_one
from replica_audit.runner.ingested_source import TableReader
from replica_audit.runner.partition_tasks import Outlet, PartitionTask, PartitionWork, audit_partitions
from replica_audit.warehouse.ingested_rows import EVIDENCE_TABLES, EvidenceRows
from replica_audit.warehouse.table_reads import PlacedFiles

FIXTURE = FIXTURES / "diverged-unclean"
BAD = TopicPartition("ledger", 1)

ERRORS = {
    "fault": (RuntimeError("the tool\nis wrong"), "this partition could not be audited: the tool is wrong", None),
    "nameless": (AssertionError(), "this partition could not be audited: AssertionError", None),
    "format": (
        FormatError("broker-1/ledger-1/x.log", 7, "a batch", "none", "copy it again"),
        "this partition could not be audited: broker-1/ledger-1/x.log at byte 7: expected a batch, found none; copy it again",
        "broker-1/ledger-1/x.log",
    ),
    "system": (
        OSError(5, "Input/output error", "/mnt/snapshot/x.log"),
        "this partition could not be audited: Input/output error (x.log)",
        None,
    ),
}


def failing(real, error, name):
    def call(first, *rest, **named):
        if name(first) == BAD:
            raise error
        return real(first, *rest, **named)

    return call


def holds_the_failure(tables, message, path):
    (row,) = [row for row in tables["partitions"] if row["partition"] == BAD.partition and row["topic"] == BAD.topic]
    assert row["verdict"] == "INCONCLUSIVE" and row["findings"]["high"] == 1
    (told,) = [row for row in tables["findings"] if row["code"] == "CAP-NOT-AUDITED"]
    assert (told["topic"], told["partition"], told["severity"]) == ("ledger", 1, "high")
    assert told["message"] == message
    (place,) = told["evidence"]
    assert place["path"] == path and "line" in place["text"] and "Traceback" not in json.dumps(told)


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("where", ["examine", "audit"])
def test_show_answers_all_others(monkeypatch, caplog, kind, where):
    error, message, path = ERRORS[kind]
    topics = Settings(topics=("ledger",))
    before = audit_all(str(FIXTURE), topics)
    if where == "audit":
        by_evidence = failing(conclusions.conclude, error, lambda plan: plan.evidence.topic_partition)
        monkeypatch.setattr(conclusions, "conclude", by_evidence)
    else:
        by_place = failing(opened_snapshot.plan_of, error, lambda place, *_: place)
        monkeypatch.setattr(opened_snapshot, "plan_of", by_place)
    after = audit_all(str(FIXTURE), topics)
    holds_the_failure(tables_of(after), message, path)
    assert "Traceback" in caplog.text
    for table in ("partitions", "replicas", "divergences", "truncations", "high_watermarks"):
        kept = [row for row in before.rows(table) if row["partition"] != BAD.partition]
        assert [row for row in after.rows(table) if row["partition"] != BAD.partition] == kept and kept
    verdict = build_verdict(after, "high")
    assert verdict["untrusted"] == "1 partition inconclusive"
    alone = audit_one(str(FIXTURE), BAD, Settings())
    assert alone.audit["verdict"] == "INCONCLUSIVE" and build_verdict(alone, "never")["exit_status"] == 3


@pytest.mark.parametrize("kind", ERRORS)
def test_an_executor_answers_with_the_failure(monkeypatch, kind):
    """The function that Spark calls for its partitions, called here."""
    error, message, path = ERRORS[kind]

    def fail(*_arguments, **_named):
        raise error

    monkeypatch.setattr("replica_audit.auditing.opened_snapshot.plan_of", fail)
    of_attempt = {"snapshot_id": "s"}, {"ingest_id": ["i"]}
    evidence = EvidenceRows({table: PlacedFiles(table, "nowhere", {}, *of_attempt) for table in EVIDENCE_TABLES})
    reader = TableReader(AuditOptions("fetch", None, None, "cluster"), "nowhere", "nowhere", evidence, None)
    for transactions in (None, {}):
        work = PartitionWork(reader, Outlet(), transactions=transactions)
        (answer,) = audit_partitions([PartitionTask(BAD)], work)
        assert not answer.waiting
        holds_the_failure(tables_of(Results.of({}, answer.rows)), message, path)


#: Findings that belong to no partition, and the verdict of an audit whose partitions are all consistent.
UNPLACED = [
    ("META-FORK", "critical", "COMMITTED_DIVERGENCE"),
    ("CAP-UNREADABLE", "high", "INCONCLUSIVE"),
    ("META-FOREIGN-DIR", "medium", "CONSISTENT"),
    ("CHK-MISSING", "medium", "CONSISTENT"),
    ("GONE-IN-THIS-VERSION", "high", "CONSISTENT"),
]


@pytest.mark.parametrize(("code", "severity", "verdict"), UNPLACED)
def test_one_verdict_of_a_whole_audit_for_every_reader(code, severity, verdict):
    row = finding(code, severity, topic=None, number=None)
    assert audit_verdict(["CONSISTENT"], [code]) == verdict
    assert build_verdict(results([partition()], [row]), "never")["verdict"] == verdict
    run = attempt(audit_id="a", cluster_id="c", snapshot_id="s", started="1", finished="2")
    told = ToldFinding("0", "f", code, severity, None, None, None, None, "What is wrong.")
    seen = SeenFinding("c", told, [(0, severity)])
    history = build_history([run], [JudgedPartition("c", "orders", 0, [(0, "CONSISTENT")])], [seen])
    assert history.audits[0].verdict == verdict


def test_what_is_resolved_or_of_a_partition_adds_nothing_and_no_partition_is_inconclusive():
    resolved = finding("META-FORK", "critical", topic=None, number=None, status="resolved")
    fork = finding("META-FORK", "critical", topic=None, number=None)
    assert unplaced_codes(objects("findings", [resolved, finding("HWM-LOSS", "critical")])) == set()
    assert unplaced_codes(objects("findings", [resolved, fork])) == {"META-FORK"}
    assert audit_verdict([], []) == audit_verdict([], ["META-FORK"]) == "INCONCLUSIVE"
    assert audit_verdict(["COMMITTED_LOSS"], ["META-FORK"]) == "COMMITTED_LOSS"
