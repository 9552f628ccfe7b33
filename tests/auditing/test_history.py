"""Past audits as a history: what appeared when, what is gone, and what was not looked at."""

from __future__ import annotations

from replica_audit.auditing.history import build_history
from replica_audit.reporting.audit_history import render_history
from replica_audit.reporting.layout import WIDTH


def audits(*clusters):
    return [
        {"audit_id": f"{number}" * 32, "snapshot_id": f"s{number}", "cluster_id": cluster, "started": None,
         "finished": f"2026-01-0{number + 1}T00:00:00.000Z", "tool_version": "1", "table_versions": {"b": 2, "a": 1}}
        for number, cluster in enumerate(clusters)
    ]  # fmt: skip


def partition(*verdicts, topic="orders", cluster="c"):
    return {"cluster_id": cluster, "topic": topic, "partition": 0, "verdicts": list(verdicts)}


def found(*present, topic="orders", code="LOG-GAP", severity="medium", cluster="c"):
    return {
        "cluster_id": cluster, "finding_id": f"{code}{topic}", "code": code, "severity": severity, "topic": topic,
        "partition": None if topic is None else 0, "broker_id": 1, "start_offset": 5, "message": "What is wrong.", "present": list(present),
    }  # fmt: skip


def test_a_finding_has_its_first_audit_and_is_gone_when_a_later_audit_looked():
    partitions = [partition((0, "CONSISTENT"), (1, "LATENT_CORRUPTION"), (2, "CONSISTENT"))]
    history = build_history(audits("c", "c", "c"), partitions, [found(1)])
    (row,) = history.findings
    assert (row["first_audit_id"], row["first_seen"]) == ("1" * 32, "2026-01-02T00:00:00.000Z")
    assert row["gone_since"] == "2026-01-03T00:00:00.000Z" and row["audits"] == 1
    assert [audit["new"] for audit in history.audits] == [0, 1, 0]
    assert [audit["gone"] for audit in history.audits] == [0, 0, 1]
    assert [audit["findings"]["medium"] for audit in history.audits] == [0, 1, 0]
    assert list(history.audits[0]["table_versions"]) == ["a", "b"]


def test_an_audit_of_other_topics_or_clusters_takes_no_finding_away():
    partitions = [
        partition((0, "LAGGING")),
        partition((1, "LAGGING"), topic="other"),
        partition((2, "LAGGING"), cluster="d"),
    ]
    history = build_history(audits("c", "c", "d"), partitions, [found(0), found(0, topic=None, code="CAP-UNREADABLE")])
    gone = {row["code"]: row["gone_since"] for row in history.findings}
    assert gone == {"LOG-GAP": None, "CAP-UNREADABLE": "2026-01-02T00:00:00.000Z"}


def test_a_finding_that_came_back_keeps_its_first_audit():
    partitions = [partition((0, "LAGGING"), (1, "LAGGING"), (2, "LAGGING"))]
    (row,) = build_history(audits("c", "c", "c"), partitions, [found(0, 2)]).findings
    assert (row["first_audit_id"], row["gone_since"], row["audits"]) == ("0" * 32, None, 2)


def test_only_changes_of_a_verdict_are_told():
    partitions = [
        partition((2, "CONSISTENT"), (0, "CONSISTENT"), (1, "LAGGING")),
        partition((0, "LAGGING"), (1, "LAGGING"), topic="same"),
    ]
    (change,) = build_history(audits("c", "c", "c"), partitions, []).changes
    assert [step["verdict"] for step in change["verdicts"]] == ["CONSISTENT", "LAGGING", "CONSISTENT"]
    assert change["topic"] == "orders"


def test_the_terminal_shows_all_of_it_in_its_width():
    long = "x" * 180
    partitions = [partition((0, "CONSISTENT"), (1, "WILL_LOSE_ON_TRUNCATION"), topic=long)]
    text = render_history(
        build_history(audits("c", "c"), partitions, [found(1, topic=long), found(0, code="REP-LAG", severity="info")])
    )
    lines = text.splitlines()
    assert all(len(line) <= WIDTH for line in lines)
    assert lines[0].split() == [
        "AUDIT",
        "FINISHED",
        "VERDICT",
        "PART",
        "CRIT",
        "HIGH",
        "MED",
        "LOW",
        "INFO",
        "NEW",
        "GONE",
    ]
    assert lines[2].split() == [
        "11111111",
        "2026-01-02",
        "00:00:00Z",
        "WILL_LOSE_ON_TRUNCATION",
        "1",
        "0",
        "0",
        "1",
        "0",
        "0",
        "1",
        "0",
    ]
    assert "first seen 2026-01-02 00:00:00Z, audit 11111111; in 1 audit" in text
    assert "CONSISTENT (2026-01-01 00:00:00Z) -> WILL_LOSE_ON_TRUNCATION" in " ".join(text.split())
    assert "\x1b" not in text and "\x1b" in render_history(build_history(audits("c"), [], []), colour=True)


def test_two_clusters_have_a_column():
    text = render_history(build_history(audits("c", None), [], []))
    assert "CLUSTER" in text.splitlines()[0]
