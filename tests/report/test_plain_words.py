"""Words that no answer may have: fields that were never set, and brokers put into the middle of another phrase."""

from __future__ import annotations

import re

import pytest
from tests.support.captures import audit_whole
from tests.support.fixtures import FIXTURES
from tests.support.report_rows import finding, partition, results

from replica_audit.auditing.catalogue import CATALOGUE, code_text
from replica_audit.report.show_text import render_summary

#: Codes of input that belongs to no partition.
UNPLACED = ("CAP-UNREADABLE", "CHK-MISSING", "META-FOREIGN-DIR", "META-FORK")
UNSAID = re.compile(r"None-None|--?None\b|replica on broker \d+ end\b|\blog end, let\b")


def unbroken(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    "capture",
    ["corrupted-tail-garbage", "corrupted-hw-garbage", "corrupted-odd-dirs", "jbod-moved"],
)
def test_a_summary_of_a_capture_has_plain_words_only(capture):
    assert not UNSAID.search(unbroken(render_summary(audit_whole(FIXTURES / capture))))


@pytest.mark.parametrize("code", sorted(CATALOGUE))
def test_of_findings_with_and_without_a_place(code):
    """A code that the input, a partition and a replica have at once."""
    rows = [
        *([finding(code, "high", None, None)] if code in UNPLACED else []),
        finding(code, "high", start_offset=7, end_offset=9),
        finding(code, "high", broker_id=2, start_offset=7, end_offset=9),
    ]
    for chosen in (rows, rows[::-1], rows[-1:], rows[:1]):
        said = unbroken(render_summary(results([partition(verdict="INCONCLUSIVE")], chosen)))
        assert not UNSAID.search(said), said


def test_no_remedy_tells_to_delete_a_checkpoint():
    for code in CATALOGUE:
        assert "delete the file" not in code_text(code).remedy.lower()
    assert "DeleteRecords" in code_text("CHK-MALFORMED").remedy
