"""elect, quorum, verify, salvage, history and explain from Python: the answers of the commands, as typed tables."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow as pa
import pytest
from tests.support.collected import bring_wanted, collect_snapshot
from tests.support.fixtures import FIXTURES
from tests.support.samples import SAMPLES

import replica_audit
from replica_audit.auditing.history import AuditHistory, PastAudit, PastFinding, PastVerdict, VerdictChange
from replica_audit.cli.main import main
from replica_audit.errors import InputError, UsageError
from replica_audit.literals import SEVERITIES
from replica_audit.schema import REPORT_ROWS, FindingRow

SAMPLE = str(SAMPLES / "last-replica-standing")


@pytest.fixture
def command(capsys):
    """Status and JSON of a command."""

    def run(*words: str) -> tuple[int, dict]:
        status = main([*words, "--format", "json"])
        return status, json.loads(capsys.readouterr().out)

    return run


def test_every_table_has_typed_rows_and_is_an_arrow_table(command):
    answers = replica_audit.show(SAMPLE)
    _, told = command("show", SAMPLE)
    assert answers.tables == tuple(REPORT_ROWS)
    assert repr(answers).endswith(" COMMITTED_LOSS, 1 partition>")
    for name in answers.tables:
        table = answers[name]
        assert len(table) == len(told[name]) and all(isinstance(row, REPORT_ROWS[name]) for row in table)
        arrow = table.to_arrow()
        assert isinstance(arrow, pa.Table) and arrow.num_rows == len(table)
        assert arrow.schema.names == [column.name for column in table.columns]
    findings = answers["findings"]
    assert findings.kind is FindingRow and {row.code for row in findings} >= {"HWM-LOSS"}
    assert len(findings[:2]) == 2 and findings[:2][0] == findings[0] and "4 rows of FindingRow" in repr(findings)


def test_unknown_names_raise_with_the_one_that_is_meant():
    answers = replica_audit.show(SAMPLE)
    for ask in (lambda: answers["finding"], lambda: answers.rows("finding"), lambda: answers.arrow("finding")):
        with pytest.raises(KeyError, match=r"did you mean findings\?") as caught:
            ask()
        assert isinstance(caught.value, UsageError)
    with pytest.raises(UsageError, match=r"forms: 'json' is not one of .*; did you mean jsonl\?"):
        replica_audit.salvage(SAMPLE, "nowhere", forms=["json"])
    with pytest.raises(UsageError, match="did you mean HWM-LOSS"):
        replica_audit.explain("HWM-LOS")
    with pytest.raises(UsageError, match=r"did you mean kip-101\?"):
        replica_audit.verify(SAMPLE, SAMPLE, protocol="kip-11")


@pytest.mark.usefixtures("engines")
def test_tables_become_frames_of_pandas_and_polars():
    pandas = pytest.importorskip("pandas")
    table = replica_audit.show(SAMPLE)["partitions"]
    frame = table.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and frame["lost_committed"].tolist() == [7]
    assert str(frame["promised_dropped"].dtype) == "Int64" and frame["promised_dropped"].isna().all()
    polars = pytest.importorskip("polars")
    assert table.to_polars().select(polars.col("lost_committed").sum()).item() == 7


def test_elect_gives_the_plan_of_the_command_and_checks_it(command, tmp_path):
    found = replica_audit.elect(SAMPLE, plan=str(tmp_path / "plan.json"))
    status, told = command("elect", SAMPLE)
    assert found.exit_status == status == 0
    assert json.loads(json.dumps(found.to_dict())) == told == json.loads((tmp_path / "plan.json").read_text())
    assert {row.candidate_id for row in found["elections"]} == {1, 2} and "Elect broker 2" in str(found)
    again = replica_audit.elect(SAMPLE, check=str(tmp_path / "plan.json"))
    assert again.exit_status == 0 and not again.moved
    asked = replica_audit.elect(SAMPLE, ["orders-0"], candidate=1, up=[1], stopped_cleanly=[])
    _, told = command("elect", SAMPLE, "orders-0", "--candidate", "1", "--up", "1", "--stopped-cleanly", "")
    assert json.loads(json.dumps(asked.to_dict())) == told
    with pytest.raises(UsageError, match="orders-9 is not in"):
        replica_audit.elect(SAMPLE, ["orders-9"])


def test_quorum_gives_the_answer_of_the_command_and_checks_it(command, tmp_path):
    path = str(SAMPLES / "lost-quorum")
    found = replica_audit.quorum(path, plan=str(tmp_path / "quorum.json"))
    status, told = command("quorum", path)
    assert found.exit_status == status
    assert json.loads(json.dumps(found.to_dict())) == told == json.loads((tmp_path / "quorum.json").read_text())
    assert len(found.answer.copies) == len(told["copies"]) > 1 and "__cluster_metadata" in str(found)
    again = replica_audit.quorum(path, check=str(tmp_path / "quorum.json"))
    assert again.exit_status == 0 and not again.moved
    with pytest.raises(UsageError, match="no __cluster_metadata-0"):
        replica_audit.quorum(SAMPLE)
    for nothing in (str(tmp_path / "nowhere"), str(tmp_path / "quorum.json"), "foo://bar/x"):
        with pytest.raises(UsageError):
            replica_audit.quorum(nothing)


def test_verify_gives_the_tables_of_the_command(command):
    found = replica_audit.verify(SAMPLE, SAMPLE)
    status, told = command("verify", SAMPLE, SAMPLE)
    assert found.exit_status == status == 1 and "yet to follow" in str(found)
    for name in found.tables:
        assert [json.loads(json.dumps(row._asdict())) for row in found[name]] == told[name]


def test_salvage_writes_what_the_command_writes(command, tmp_path):
    found = replica_audit.salvage(SAMPLE, str(tmp_path / "python"), payloads=True, forms=["jsonl"])
    status, told = command("salvage", SAMPLE, "--to", str(tmp_path / "command"), "--payloads", "--form", "jsonl")
    assert found.exit_status == status == 0 and found.manifest.totals.written == 7 and "7" in str(found)
    assert json.loads(json.dumps(found.to_dict()))["totals"] == told["totals"]

    def files(name: str) -> list[str]:
        return sorted(str(path.relative_to(tmp_path / name)) for path in (tmp_path / name).rglob("*"))

    assert files("python") == files("command")
    with pytest.raises(UsageError, match="lies inside the snapshot"):
        replica_audit.salvage(SAMPLE, f"{SAMPLE}/out")


def test_history_has_tables_that_can_be_computed_with():
    counts = {severity: int(severity == "low") for severity in SEVERITIES}
    audit = PastAudit("a", None, "s", "1", "2", "0", {"findings": 3}, "LAGGING", {"LAGGING": 1}, counts, 1, 0)
    change = VerdictChange(None, "t", 0, [PastVerdict("a", "2", "LAGGING")])
    finding = PastFinding("f", "REP-LAG", "low", None, "t", 0, None, None, "m", "a", "2", "a", "2", 1, None)
    from replica_audit.api.history_tables import History

    found = History(AuditHistory([audit], [change], [finding]))
    assert found.tables == ("audits", "changes", "findings")
    assert found["audits"].to_arrow().to_pylist()[0]["findings"] == list(counts.items())
    assert found["changes"].to_arrow().to_pylist()[0]["verdicts"] == [
        {"audit_id": "a", "finished": "2", "verdict": "LAGGING"}
    ]
    assert "REP-LAG" in str(found)


def test_history_of_no_warehouse_is_an_error_with_a_sentence(tmp_path):
    with pytest.raises((UsageError, InputError), match="nowhere"):
        replica_audit.history(str(tmp_path / "nowhere"))


def test_explain_gives_text_and_object(command):
    found = replica_audit.explain("HWM-LOSS")
    assert (
        str(found).startswith("HWM-LOSS") and json.loads(json.dumps(found.content)) == command("explain", "HWM-LOSS")[1]
    )
    assert len(replica_audit.explain().content["codes"]) > 50


def test_functions_are_there_before_and_after_the_rooms_of_their_names_were_imported():
    program = (
        "import replica_audit; from replica_audit.elect import costs; import replica_audit.verify.verified_partition;"
        "from replica_audit.salvage.partition_salvage import SelectedRecords; import replica_audit.observe.planning;"
        "assert all(callable(getattr(replica_audit, name)) for name in ('elect', 'observe', 'quorum', 'verify', 'salvage')), dir(replica_audit);"
        "assert costs.__name__ == 'replica_audit.elect.costs'"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_bytes_that_are_wanted_are_written_as_the_command_writes_them(tmp_path, command):
    snapshot = collect_snapshot(SAMPLES / "diverged-unclean", tmp_path / "evidence")
    assert command("show", str(snapshot), "--wanted", str(tmp_path / "command.json"))[0] != 2
    replica_audit.show(str(snapshot), wanted=str(tmp_path / "python.json"))
    assert (tmp_path / "python.json").read_bytes() == (tmp_path / "command.json").read_bytes()
    with pytest.raises(replica_audit.UsageError, match="--wanted"):
        replica_audit.show(str(snapshot), wanted=str(snapshot / "wanted.json"))


def test_bytes_that_an_earlier_audit_wanted_are_not_asked_for_again(tmp_path, command):
    copy = FIXTURES / "corrupted-tail-garbage"
    snapshot = collect_snapshot(copy, tmp_path / "evidence")
    _, before = command("show", str(snapshot))
    (tmp_path / "before.json").write_text(json.dumps(before))
    assert bring_wanted(copy, snapshot, 1) > 0
    words = ("--baseline", str(tmp_path / "before.json"), "--wanted", str(tmp_path / "wanted.json"))
    _, after = command("show", str(snapshot), *words)
    assert any(row["code"] == "CAP-NOT-CAPTURED" and row["status"] == "resolved" for row in after["findings"])
    assert json.loads((tmp_path / "wanted.json").read_text())["wanted"] == []
