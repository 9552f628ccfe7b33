"""Past audits as a history: what appeared when, what is gone, and what was not looked at."""

from __future__ import annotations

import contextvars

import pytest
from tests.support.in_colour import in_colour
from tests.support.report_rows import attempt

from replica_audit.auditing.catalogue import audit_verdict
from replica_audit.auditing.history import JudgedPartition, SeenFinding, ToldFinding, build_history
from replica_audit.literals import VERDICTS
from replica_audit.report.history_text import render_history
from replica_audit.report.layout import WIDTH, set_text_width


def audits(*clusters):
    return [
        attempt(
            audit_id=f"{number}" * 32,
            snapshot_id=f"s{number}",
            cluster_id=cluster,
            finished=f"2026-01-0{number + 1}T00:00:00.000Z",
            table_versions={"b": 2, "a": 1},
        )
        for number, cluster in enumerate(clusters)
    ]


def partition(*verdicts, topic="orders", cluster="c"):
    return JudgedPartition(cluster, topic, 0, list(verdicts))


def found(*present, topic="orders", code="LOG-GAP", severity="medium", cluster="c"):
    then = [one if isinstance(one, tuple) else (one, severity) for one in present]
    number = None if topic is None else 0
    told = ToldFinding("0", f"{code}{topic}", code, severity, topic, number, 1, 5, "What is wrong.")
    return SeenFinding(cluster, told, then)


def test_a_finding_has_its_first_audit_and_is_gone_when_a_later_audit_looked():
    partitions = [partition((0, "CONSISTENT"), (1, "LATENT_CORRUPTION"), (2, "CONSISTENT"))]
    history = build_history(audits("c", "c", "c"), partitions, [found(1)])
    (row,) = history.findings
    assert (row.first_audit_id, row.first_seen) == ("1" * 32, "2026-01-02T00:00:00.000Z")
    assert row.gone_since == "2026-01-03T00:00:00.000Z" and row.audits == 1
    assert [audit.new for audit in history.audits] == [0, 1, 0]
    assert [audit.gone for audit in history.audits] == [0, 0, 1]
    assert [audit.findings["medium"] for audit in history.audits] == [0, 1, 0]
    assert list(history.audits[0].table_versions) == ["a", "b"]


def test_an_audit_of_other_topics_or_clusters_takes_no_finding_away():
    partitions = [
        partition((0, "LAGGING")),
        partition((1, "LAGGING"), topic="other"),
        partition((2, "LAGGING"), cluster="d"),
    ]
    history = build_history(audits("c", "c", "d"), partitions, [found(0), found(0, topic=None, code="CAP-UNREADABLE")])
    gone = {row.code: row.gone_since for row in history.findings}
    assert gone == {"LOG-GAP": None, "CAP-UNREADABLE": "2026-01-02T00:00:00.000Z"}


def test_a_finding_that_came_back_keeps_its_first_audit():
    partitions = [partition((0, "LAGGING"), (1, "LAGGING"), (2, "LAGGING"))]
    (row,) = build_history(audits("c", "c", "c"), partitions, [found(0, 2)]).findings
    assert (row.first_audit_id, row.gone_since, row.audits) == ("0" * 32, None, 2)


def test_only_changes_of_a_verdict_are_told():
    partitions = [
        partition((2, "CONSISTENT"), (0, "CONSISTENT"), (1, "LAGGING")),
        partition((0, "LAGGING"), (1, "LAGGING"), topic="same"),
    ]
    (change,) = build_history(audits("c", "c", "c"), partitions, []).changes
    assert [step.verdict for step in change.verdicts] == ["CONSISTENT", "LAGGING", "CONSISTENT"]
    assert change.topic == "orders"


def test_the_terminal_shows_all_of_it_in_its_width():
    long = "x" * 180
    partitions = [partition((0, "CONSISTENT"), (1, "WILL_LOSE_ON_TRUNCATION"), topic=long)]
    text = render_history(
        build_history(audits("c", "c"), partitions, [found(1, topic=long), found(0, code="REP-LAG", severity="info")])
    )
    lines = text.splitlines()
    assert all(len(line) <= WIDTH for line in lines)
    assert lines[0] == "Cluster c" and lines[1] == ""
    assert lines[2].split() == [
        "AUDIT",
        "FINISHED",
        "VERDICT",
        "PART",
        "CRIT",
        "HIGH",
        "MED",
        "LOW",
        "NEW",
        "RESOLVED",
    ]
    assert lines[4].split() == [
        "11111111",
        "2026-01-02",
        "00:00:00Z",
        "WILL_LOSE_ON_TRUNCATION",
        "1",
        "0",
        "0",
        "1",
        "0",
        "1",
        "0",
    ]
    assert "first seen 2026-01-02 00:00:00Z, audit 11111111; in 1 audit" in text
    assert "CONSISTENT (2026-01-01 00:00:00Z) -> WILL_LOSE_ON_TRUNCATION" in " ".join(text.split())
    assert "\x1b" not in text and "\x1b" in in_colour(render_history, build_history(audits("c"), [], []))


def test_an_audit_is_told_as_it_was_then():
    """Its counts have the severities of its day, its verdict what belongs to no partition, whatever came later."""
    partitions = [partition((0, "CONSISTENT"), (1, "LATENT_CORRUPTION")), partition((0, "LAGGING"), topic="other")]
    grown = found((0, "low"), (1, "critical"), severity="critical")
    fork = found((0, "critical"), topic=None, code="META-FORK", severity="critical")
    first, second = build_history(audits("c", "c"), partitions, [grown, fork]).audits
    assert (first.findings["low"], first.findings["critical"]) == (1, 1) and second.findings["critical"] == 1
    assert first.verdict == audit_verdict(["CONSISTENT", "LAGGING"], ["META-FORK"])
    assert VERDICTS.index(first.verdict) < VERDICTS.index("LAGGING") and second.verdict == "LATENT_CORRUPTION"


def test_of_some_topics_and_of_the_latest_audits_the_lines_of_audits_are_still_whole():
    partitions = [
        partition((0, "LAGGING"), (1, "CONSISTENT")),
        partition((0, "CONSISTENT"), (1, "LATENT_CORRUPTION"), topic="other"),
    ]
    rows = [found(0, 1), found(1, topic="other", code="LOG-CRC")]
    whole = build_history(audits("c", "c"), partitions, rows)
    some = build_history(audits("c", "c"), partitions, rows, selects=lambda topic: topic == "orders")
    assert some.audits == whole.audits and whole.audits[1].verdict == "LATENT_CORRUPTION"
    assert [row.topic for row in (*some.changes, *some.findings)] == ["orders", "orders"]
    (latest,) = build_history(audits("c", "c"), partitions, rows, limit=1).audits
    assert latest == whole.audits[1] and latest.new == 1, "what was there before is not new for not being told"


def test_what_is_gone_before_the_latest_audits_is_not_told():
    partitions = [partition((0, "LAGGING"), (1, "CONSISTENT"), (2, "CONSISTENT"))]
    rows = [found(0), found(2, code="LOG-CRC")]
    history = build_history(audits("c", "c", "c"), partitions, rows, limit=1)
    assert [row.code for row in history.findings] == ["LOG-CRC"] and not history.changes
    assert {row.code for row in build_history(audits("c", "c", "c"), partitions, rows, limit=2).findings} == {
        "LOG-CRC",
        "LOG-GAP",
    }


def test_findings_and_changes_come_worst_first():
    partitions = [
        partition((0, "CONSISTENT"), (1, "COMMITTED_LOSS"), topic="a"),
        partition((0, "CONSISTENT"), (2, "LAGGING"), topic="b"),
    ]
    rows = [
        found(2, code="REP-LAG", severity="info"),
        found(0, code="HWM-LOSS", severity="critical"),
        found(1, severity="high"),
    ]
    history = build_history(audits("c", "c", "c"), partitions, rows)
    assert [row.topic for row in history.changes] == ["a", "b"]
    assert [row.severity for row in history.findings if row.gone_since is None] == ["critical", "high", "info"]


def test_clusters_are_told_one_after_the_other_the_worst_first():
    partitions = [
        partition((0, "LAGGING"), cluster="c"),
        partition((1, "COMMITTED_LOSS"), cluster=None),
        partition((2, "CONSISTENT"), cluster="d"),
    ]
    rows = [found(0, cluster="c"), found(1, cluster=None, code="HWM-LOSS", severity="critical")]
    text = render_history(build_history(audits("c", None, "d"), partitions, rows))
    heads = [line for line in text.splitlines() if line.startswith("Cluster")]
    assert heads == ["Cluster not known: its snapshots have no cluster id", "Cluster c", "Cluster d"]
    unknown, known, other = text.split("Cluster ")[1:]
    assert "HWM-LOSS" in unknown and "LOG-GAP" in known and "critical " not in known + other
    assert all("AUDIT" in part for part in (unknown, known, other))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_history_fits_any_screen(width):
    context = contextvars.copy_context()
    partitions = [partition((0, "CONSISTENT"), (1, "WILL_LOSE_ON_TRUNCATION"), topic="x" * 180)]
    history = build_history(audits("c", "c"), partitions, [found(1, topic="x" * 180)])
    context.run(set_text_width, width)
    text = context.run(render_history, history)
    assert all(len(line) <= width for line in text.splitlines()) and "11111111" in text
