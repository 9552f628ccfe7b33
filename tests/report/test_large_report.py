"""The report of an audit with more partitions than its files tell in detail."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.support.audit_json_text import audit_json_text
from tests.support.large_audit import audit_models, large_results
from tests.support.page_content import Page, page_of
from tests.support.report_rows import REPORT_FILES, finding, objects, partition, results, row
from tests.support.samples import SAMPLES

from replica_audit.auditing import detailed_partitions
from replica_audit.auditing.known_findings import read_baseline
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.literals import VERDICTS
from replica_audit.report.facts.by_partition import partition_ranges
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.page import content, document
from replica_audit.report.page.document import render_page
from replica_audit.report.report_files import LINES, write_report
from replica_audit.results import Results


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detailed_partitions, "WHOLE", 5)
    monkeypatch.setattr(detailed_partitions, "DETAILED", 3)


def audited(count: int) -> Results:
    """The last partition lost records, the first has a grave finding, the others of topic a none."""
    rows = [partition("a", number) for number in range(count - 2)]
    grave = {"critical": 0, "high": 1, "medium": 0, "low": 0, "info": 0}
    rows += [partition("b", 7, findings=grave), partition("b", 9, "COMMITTED_LOSS", lost_records=4, lost_committed=4)]
    found = [
        finding("HWM-LOSS", "critical", "b", 9, finding_id="e" * 16),
        finding("REP-LAG", "high", "b", 7, finding_id="0" * 16),
    ]
    found += [finding("REP-LAG", "info", "a", number, finding_id=f"{number:016x}") for number in range(1, count - 2)]
    found.append(finding("META-FORK", "high", None, None, finding_id="f" * 16))
    replicas = [
        row("replicas", topic=one["topic"], partition=one["partition"], broker_id=1, role="leader") for one in rows
    ]
    return results(rows, found, replicas=replicas)


def lines(directory: Path) -> Iterator[dict]:
    with gzip.open(directory / LINES, "rt") as stream:
        yield from map(json.loads, stream)


def test_all_is_in_the_lines_and_the_worst_are_in_the_other_files(tmp_path: Path) -> None:
    found = audited(8)
    write_report(found, str(tmp_path), "high")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted((*REPORT_FILES, LINES))
    whole, told = json.loads(audit_json_text(found)), list(lines(tmp_path))
    assert told[0]["audit"] == whole["audit"] and [one["code"] for one in told[0]["findings"]] == ["META-FORK"]
    places = [(one["partitions"][0]["topic"], one["partitions"][0]["partition"]) for one in told[1:]]
    assert places == [*(("a", number) for number in range(6)), ("b", 7), ("b", 9)]
    for table in ("partitions", "replicas", "findings", "decisions", "steps"):
        key = lambda one: json.dumps(one, sort_keys=True)  # noqa: E731
        assert sorted((one for line in told for one in line.get(table, ())), key=key) == sorted(whole[table], key=key)
    worst = json.loads((tmp_path / "audit.json").read_text())
    assert worst["partitions_elsewhere"] == {"count": 5, "file": LINES}
    assert [(one["topic"], one["partition"]) for one in worst["partitions"]] == [("a", 0), ("b", 7), ("b", 9)]
    assert {one["topic"] for one in worst["findings"]} == {None, "b"} and len(worst["replicas"]) == 3
    assert json.loads((tmp_path / "verdict.json").read_text())["partitions"]["CONSISTENT"] == 7


def test_steps_and_quarantine_have_a_bound_and_say_where_the_rest_is(tmp_path: Path) -> None:
    found = audited(8)
    found.findings[2:5] = [one._replace(code="LOG-CORRUPT-MID", severity="high") for one in found.findings[2:5]]
    refused = [row("quarantine", path=f"{number}.log", code="INPUT-IGNORED") for number in range(5)]
    found = replace(found, quarantine=objects("quarantine", refused))
    write_report(found, str(tmp_path), "high")
    worst, first = json.loads((tmp_path / "audit.json").read_text()), next(lines(tmp_path))
    assert worst["quarantine_elsewhere"] == {"count": 2, "file": LINES} and len(worst["quarantine"]) == 3
    assert len(first["quarantine"]) == 5
    places = [
        [(one["topic"], one["partition"]) for step in each["steps"] for one in step["partitions"]]
        for each in (worst, first)
    ]
    assert len(worst["steps"]) == len(first["steps"]) and len(places[1]) > len(places[0])
    told = {(one["topic"], one["partition"]) for one in worst["partitions"]}
    assert places[0] == [place for place in places[1] if place in told]
    cut = sum(
        one["partitions"] != other["partitions"] for one, other in zip(worst["steps"], first["steps"], strict=True)
    )
    assert worst["steps_elsewhere"] == {"count": cut, "file": LINES}


def test_the_same_answers_give_the_same_bytes_and_a_smaller_audit_leaves_no_lines(tmp_path: Path) -> None:
    write_report(audited(8), str(tmp_path), "high")
    first = (tmp_path / LINES).read_bytes()
    write_report(audited(8), str(tmp_path), "high")
    assert (tmp_path / LINES).read_bytes() == first
    write_report(audited(5), str(tmp_path), "high")
    assert not (tmp_path / LINES).exists()
    assert "partitions_elsewhere" not in json.loads((tmp_path / "audit.json").read_text())


def test_the_page_has_details_of_the_worst_and_lists_the_others() -> None:
    frame, pieces = page_of(audited(8)).unpack()
    assert frame["count"] == 3 and len(pieces) == 1 and len(pieces[0]["story"]) == 3
    assert frame["others"] == [{"verdict": "CONSISTENT", "count": 5, "topics": [["a", "1-5"]], "unlisted": 0}]


def test_the_list_on_the_page_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "OTHERS_LIMIT", 3)
    found = audited(8)
    (one,) = content.build_others(found, detailed_partitions.detailed(found.partitions))
    assert one == {"verdict": "CONSISTENT", "count": 5, "topics": [], "unlisted": 5}


def test_a_page_that_would_weigh_too_much_has_fewer_partitions_in_detail(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gravest of them; the others it lists, and says in which file they are."""
    monkeypatch.setattr(detailed_partitions, "WHOLE", 10_000)
    models = (
        audit_models((str(SAMPLES / name), "orders-0") for name in some) for some in (("zombie",), ("isr-minimum",))
    )
    found = large_results(600, *models, 0.9)
    verdict = build_verdict(found, "high")
    page = render_page(found, verdict)
    frame, pieces = Page(page).unpack()
    assert frame["count"] == 600 and not frame["others"] and frame["whole"] == "audit.json"
    assert len(page.encode()) < document.PAGE_BYTES == 5_000_000
    limit = len(page.encode()) * 2 // 3
    monkeypatch.setattr(document, "PAGE_BYTES", limit)
    page = render_page(found, verdict)
    frame, pieces = Page(page).unpack()
    assert limit // 2 < len(page.encode()) < limit
    assert 0 < frame["count"] == sum(len(piece["story"]) for piece in pieces) < 600
    assert frame["count"] + sum(one["count"] for one in frame["others"]) == 600 and frame["whole"] == "audit.json"
    shown = detailed_partitions.detailed(found.partitions, frame["count"])
    assert max(VERDICTS.index(one.verdict) for one in shown) <= VERDICTS.index(frame["others"][0]["verdict"])
    monkeypatch.setattr(document, "PAGE_BYTES", 1)
    assert page_of(found).unpack()[0]["count"] == 0, "nothing is left to leave out"


def test_cases_of_partitions_without_details_are_one_for_each_topic(tmp_path: Path) -> None:
    found = audited(8)
    found.findings[2] = found.findings[2]._replace(severity="high")
    write_report(found, str(tmp_path), "high")
    cases = {case.get("name"): case for case in ElementTree.parse(tmp_path / "junit.xml").iter("testcase")}
    assert cases.keys() == {"input", "a-0", "b-7", "b-9", "a, 5 partitions CONSISTENT"}
    assert cases["a, 5 partitions CONSISTENT"].find("failure") is not None


def test_lines_are_a_baseline_and_what_has_the_worst_only_is_none(tmp_path: Path) -> None:
    found = audited(8)
    write_report(found, str(tmp_path), "high")
    known = read_baseline(Settings(baseline=str(tmp_path / LINES)))
    assert {row["status"] for row in known.compare(found).rows("findings")} == {"known"}
    assert known.earlier is not None and known.earlier.verdicts["b", 9] == "COMMITTED_LOSS"
    with pytest.raises(UsageError, match=r"worst partitions only: give audit\.jsonl\.gz"):
        read_baseline(Settings(baseline=str(tmp_path / "audit.json")))
    (tmp_path / LINES).write_bytes((tmp_path / LINES).read_bytes()[:-20])
    with pytest.raises(UsageError, match="baseline"):
        read_baseline(Settings(baseline=str(tmp_path / LINES)))


def test_ranges_join_neighbours_and_come_worst_verdict_first() -> None:
    rows = [partition("a", number) for number in (0, 1, 2, 5, 7, 8)] + [partition("b", 3, "LAGGING")]
    assert [tuple(one) for one in partition_ranges(objects("partitions", rows))] == [
        ("LAGGING", "b", "3", 1),
        ("CONSISTENT", "a", "0-2,5,7-8", 6),
    ]
