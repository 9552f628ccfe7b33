"""accept.yaml: what is accepted does not count until its day has passed, and then counts again, beside a baseline too."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest
from tests.support.report_rows import finding, objects, results

from replica_audit.auditing.accepted_findings import parse_acceptances, with_acceptances
from replica_audit.auditing.known_findings import Baseline
from replica_audit.cli.main import main
from replica_audit.errors import UsageError
from replica_audit.row_classes import to_dict
from replica_audit.schema import FindingRow

SAMPLE = Path(__file__).parents[2] / "data" / "samples" / "last-replica-standing"
ENTRY = {"finding": "0123456789abcdef", "reason": "rebuilt on\nMonday", "until": date(2026, 12, 31)}


def _row(**more) -> FindingRow:
    (row,) = objects("findings", [finding("LOG-GAP", "low", **{"finding_id": "0123456789abcdef", **more})])
    return row


def _accepted(*entries: dict):
    return parse_acceptances({"accepted": list(entries)}, "accept.yaml")


def test_it_is_known_up_to_its_last_day_and_new_after_that() -> None:
    accepted = _accepted(ENTRY)
    (row,) = with_acceptances([_row()], accepted, date(2026, 12, 31))
    assert (row.status, row.evidence[0].text) == ("known", "accepted until 2026-12-31: rebuilt on Monday")
    assert with_acceptances([row], accepted, date(2026, 12, 31)) == [row]
    (over,) = with_acceptances([_row(status="known")], accepted, date(2027, 1, 1))
    assert over.status == "new"
    assert over.evidence[0].text == "was accepted until 2026-12-31, which is over: rebuilt on Monday"


def test_others_and_resolved_ones_stay_as_they_are() -> None:
    rows = [_row(finding_id="f" * 16), _row(status="resolved")]
    assert with_acceptances(rows, _accepted(ENTRY), date(2026, 1, 1)) == rows
    assert Baseline(accepted=_accepted(ENTRY)).unused(results(findings=list(map(to_dict, rows)))) == [ENTRY["finding"]]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"accept": []}, "expected accepted, found accept"),
        ({}, "expected accepted, found nothing; to accept none, write accepted: []"),
        ({"accepted": {"a": 1}}, "expected a list"),
        (
            {"accepted": [{**ENTRY, "who": "me"}]},
            "accepted[0]: expected finding, reason and until, found finding, reason, until, who",
        ),
        ({"accepted": [{**ENTRY, "finding": "HWM-LOSS"}]}, "16 hexadecimal digits"),
        ({"accepted": [{**ENTRY, "reason": " "}]}, "reason: expected a text"),
        ({"accepted": [{**ENTRY, "until": "soon"}]}, "expected a date such as 2026-12-31, found 'soon'"),
        ({"accepted": [ENTRY, ENTRY]}, "is accepted twice"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(content: dict, said: str) -> None:
    with pytest.raises(UsageError, match="accept.yaml") as told:
        parse_acceptances(content, "accept.yaml")
    assert said in str(told.value)


def test_of_an_empty_list_nothing_is_accepted() -> None:
    assert parse_acceptances({"accepted": []}, "accept.yaml") == ()
    assert parse_acceptances({"accepted": None}, "accept.yaml") == ()


def _findings(capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, dict]:
    status = main(["show", str(SAMPLE), "--format", "json", "--quiet", *more])
    return status, json.loads(capsys.readouterr().out)


def test_accepted_findings_do_not_fail_an_audit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, found = _findings(capsys)
    assert status == 1
    file, baseline = tmp_path / "accept.yaml", tmp_path / "audit.json"
    baseline.write_text(json.dumps(found))
    entries = [
        f'  - {{finding: "{row["finding_id"]}", reason: known, until: 2999-01-01}}\n' for row in found["findings"]
    ]
    file.write_text("accepted:\n" + "".join(entries))
    status, accepted = _findings(capsys, "--accept", str(file))
    assert (status, {row["status"] for row in accepted["findings"]}) == (0, {"known"})
    assert accepted["verdict"]["known_findings"] == len(entries)
    file.write_text(file.read_text().replace("2999", "1999", 1))
    status, again = _findings(capsys, "--accept", str(file), "--baseline", str(baseline))
    assert [row["status"] for row in again["findings"]].count("new") == 1
    file.write_text('accepted:\n  - {finding: "ffffffffffffffff", reason: x, until: 2999-01-01}\n')
    assert main(["show", str(SAMPLE), "--accept", str(file), "--quiet"]) == 1
    assert "ffffffffffffffff" in capsys.readouterr().err


def test_a_finding_is_explained_from_the_audit_that_has_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, found = _findings(capsys)
    (tmp_path / "audit.json").write_text(json.dumps(found))
    (loss,) = (row for row in found["findings"] if row["code"] == "HWM-LOSS")
    assert main(["explain", loss["finding_id"], "--report", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert loss["finding_id"] in out and "broker-2/replication-offset-checkpoint" in out
    # What to do is what the plan says, in its own words.
    plan = out[out.index("In the plan of this audit") : out.index("HWM-LOSS  Committed records")]
    told = [step["text"] for step in json.loads((tmp_path / "audit.json").read_text())["steps"] if step["partitions"]]
    assert told and all(" ".join(text.split()) in " ".join(plan.split()) for text in told)
    assert "HWM-LOSS  Committed records are not in the leader's log" in out
    assert main(["explain", loss["finding_id"], "--report", str(tmp_path), "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["finding"], told["code"]["code"]) == (loss, "HWM-LOSS")
    assert main(["explain", "f" * 16, "--report", str(tmp_path), "--warehouse", str(tmp_path / "none")]) == 2
    assert "f" * 16 in capsys.readouterr().err
