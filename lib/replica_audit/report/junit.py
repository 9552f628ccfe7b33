"""junit.xml: a suite for each topic and a test case for each partition, so that a CI system shows failures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from xml.etree import ElementTree

from replica_audit.literals import Verdict
from replica_audit.report.facts.by_partition import detailed_partitions, is_failing, other_partitions, worst_first
from replica_audit.report.facts.losses import is_likely
from replica_audit.report.facts.verdict import is_undecided
from replica_audit.report.finding_text import render_headline
from replica_audit.report.layout import clean, render_committed, render_lost
from replica_audit.report.verdict_object import VerdictObject
from replica_audit.results import Results, by_place, place_of, present
from replica_audit.schema import FindingRow, PartitionRow, QualityRow
from replica_audit.text import count

#: Maximum number of findings in a case; audit.json has all.
FINDING_LIMIT = 50


def render_junit(results: Results, verdict: VerdictObject) -> str:
    """Render junit.xml: new findings at or above `--fail-on` fail their partition, INCONCLUSIVE is an error, other findings are
    the case's output.

    In a large audit the partitions not shown in detail have one case for each topic and verdict. Findings of no partition are
    cases of the suite "snapshot", quality expectations of the suite "quality".
    """
    findings = {place: present(rows) for place, rows in by_place(results.findings).items()}
    suites: dict[str, list[ElementTree.Element]] = {}
    for row in sorted(detailed_partitions(results), key=place_of):
        name = clean(row.topic)
        case = _case(
            name,
            f"{name}-{row.partition}",
            row.verdict,
            found := findings.pop(place_of(row), []),
            verdict,
            _lost(row, found),
        )
        suites.setdefault(name, []).append(case)
    for (topic, judged), rows in _alike(results).items():
        name = clean(topic)
        found = [finding for row in rows for finding in findings.pop(place_of(row), ())]
        title = f"{name}, {count(len(rows), 'partition')} {judged}"
        suites.setdefault(name, []).append(_case(name, title, judged, found, verdict))
    # The remaining findings belong to no audited partition.
    unplaced = [row for rows in findings.values() for row in rows]
    whole = _case("snapshot", "input", "INCONCLUSIVE" if verdict["untrusted"] and not suites else "", unplaced, verdict)
    checks = [_check(row, verdict) for row in results.quality]
    root = ElementTree.Element("testsuites", name="replica-audit")
    for name, cases in [("snapshot", [whole]), *([("quality", checks)] if checks else []), *suites.items()]:
        suite = ElementTree.SubElement(root, "testsuite", {"name": name, **_counts(cases)})
        # The JUnit schema requires a time without a zone.
        suite.set("timestamp", results.audit["finished"][:19])
        suite.extend(cases)
    every = [case for suite in root for case in suite]
    for key, value in _counts(every).items():
        root.set(key, value)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _alike(results: Results) -> dict[tuple[str, Verdict], list[PartitionRow]]:
    """Partitions not shown in detail, by topic and verdict."""
    found: dict[tuple[str, Verdict], list[PartitionRow]] = defaultdict(list)
    for row in other_partitions(results, detailed_partitions(results)):
        found[row.topic, row.verdict].append(row)
    return found


def _case(
    suite: str, name: str, judged: str, findings: Sequence[FindingRow], verdict: VerdictObject, lost: str = ""
) -> ElementTree.Element:
    case = ElementTree.Element("testcase", classname=f"replica-audit.{suite}", name=name, time="0")
    ranked = worst_first(findings)
    failing = [row for row in ranked if is_failing(row, verdict["fail_on"])]
    others = [row for row in ranked if not is_failing(row, verdict["fail_on"])]
    if failing:
        message = f"{judged or 'finding'}: {clean(failing[0].message)}"
        child = ElementTree.SubElement(case, "failure", type=failing[0].code, message=message)
        child.text = lost + _tell(failing)
        lost = ""
    elif is_undecided(judged):
        child = ElementTree.SubElement(
            case, "error", type="INCONCLUSIVE", message=clean(verdict["untrusted"] or "inconclusive")
        )
        child.text = lost + _tell(others) or "nothing could be read"
        others = []
        lost = ""
    if others or lost:
        ElementTree.SubElement(case, "system-out").text = lost + _tell(others)
    return case


def _lost(row: PartitionRow, found: Sequence[FindingRow]) -> str:
    """A line with the partition's losses; "" if none is known."""
    if not row.lost_records:
        return ""
    return f"lost_records {render_lost(row, row.lost_records)}, lost_committed {render_committed(row, is_likely=is_likely(row, found))}\n"


def _check(row: QualityRow, verdict: VerdictObject) -> ElementTree.Element:
    case = ElementTree.Element(
        "testcase", classname=f"replica-audit.quality.{clean(row.suite)}", name=clean(row.name), time="0"
    )
    text = clean(row.error or row.description or row.expectation)
    failing = "\n".join(clean(place) for place in row.failing or ())
    if row.error is not None:
        ElementTree.SubElement(case, "error", type=row.severity, message=text)
    elif is_failing(row, verdict["fail_on"]):
        ElementTree.SubElement(case, "failure", type=row.severity, message=text).text = failing
    elif not row.success:
        ElementTree.SubElement(
            case, "system-out"
        ).text = f"{row.severity}, {row.status or 'not met'}: {text}\n{failing}"
    return case


def _tell(findings: Sequence[FindingRow]) -> str:
    lines = []
    for row in findings[:FINDING_LIMIT]:
        lines += [render_headline(row), f"  {clean(row.message)}"]
    if len(findings) > FINDING_LIMIT:
        lines.append(f"and {len(findings) - FINDING_LIMIT} more (see audit.json)")
    return "\n".join(lines)


def _counts(cases: Sequence[ElementTree.Element]) -> dict[str, str]:
    return {
        "tests": str(len(cases)),
        "failures": str(sum(case.find("failure") is not None for case in cases)),
        "errors": str(sum(case.find("error") is not None for case in cases)),
        "skipped": "0",
        "time": "0",
    }
