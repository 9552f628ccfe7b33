"""An audit of more partitions than are told in detail, read from its tables: every file is that of all rows, and few rows are held."""

from __future__ import annotations

import gzip
import json
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.answering_brokers import AnsweringBrokers, batches_of, in_sync
from tests.support.audit_json_text import audit_json_text
from tests.support.cloned_capture import clone_capture
from tests.support.collected import collect_snapshot
from tests.support.fixtures import FIXTURES
from tests.support.held_objects import count_held, only_new_objects
from tests.support.in_process import Ran, run_stages
from tests.support.long_logs import write_long_logs
from tests.support.new_disks import write_new_disks
from tests.support.scenario import written
from tests.support.snapshots import Listed, Replica, write_snapshot

from replica_audit.auditing import detailed_partitions
from replica_audit.auditing.detailed_partitions import told_places
from replica_audit.auditing.known_findings import read_baseline
from replica_audit.cli.main import main
from replica_audit.config import Settings
from replica_audit.elect import cost_matrix
from replica_audit.elect.cost_matrix import Matrix
from replica_audit.elect.election_plan import advise
from replica_audit.elect.plan_model import Candidate, plan_object
from replica_audit.observe.planning import Asked, plan_observation
from replica_audit.report import markdown, show_text
from replica_audit.report.facts import conditions
from replica_audit.report.report_files import write_report
from replica_audit.report.whole_files import LINES
from replica_audit.results import KnownState, PartitionRows, Results, place_of
from replica_audit.row_classes import to_dict
from replica_audit.runner.in_process import audit_all
from replica_audit.schema import FACT_TABLES, REPORT_TABLES, ElectionRow, PartitionStateRow, ReportRows
from replica_audit.spark.quality_run import local_tables
from replica_audit.warehouse import answer_parts, table_reads
from replica_audit.warehouse.answer_tables import load_results
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.table_reads import PlacedFiles


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detailed_partitions, "DETAILED", 2)
    monkeypatch.setattr(detailed_partitions, "NAMED", 3)
    monkeypatch.setattr(show_text, "PARTITION_LIMIT", 2)
    monkeypatch.setattr(answer_parts, "STRETCH", 3)
    monkeypatch.setattr(table_reads, "ROWS_AT_ONCE", 20)


def whole_and_told(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> tuple[Results, Results]:
    """The latest audit with all of its rows, and with those that are told; from then on its report is bounded."""
    whole = load_results(ran.warehouse, None, "high")
    assert whole.stored is None
    monkeypatch.setattr(detailed_partitions, "WHOLE", 2)
    return whole, load_results(ran.warehouse, None, "high")


def everything(results: Results, directory: Path) -> Mapping[str, object]:
    """Everything reported on an audit, by name; its report is at `directory` while it is read."""
    write_report(results, str(directory), "high")
    files = {path.name: path.read_bytes() for path in directory.iterdir()}
    shutil.rmtree(directory)
    files[LINES] = gzip.decompress(files[LINES])
    plan = json.dumps(plan_object(advise(results)))
    return {
        **files,
        "terminal": show_text.render_summary(results),
        "plan": plan,
        "json": audit_json_text(results),
    }


def check_alike(whole: Results, told: Results, place: Path) -> None:
    assert told.stored is not None
    # At one place, since metrics name it.
    expected, found = everything(whole, place / "report"), everything(told, place / "report")
    assert found.keys() == expected.keys()
    for name in expected:
        assert found[name] == expected[name], name


#: Of many partitions, in every situation that a report tells of all of them together.
CAPTURES = [
    "compacted-skewed-1",
    "corrupted-middle-zeros",
    "diverged-multi2",
    "healthy",
    "jbod-moving",
    "last-replica-elr-2-cut",
    "live-copy",
    "quorum3-3-uncommitted",
    "retention-passed-1-down",
    "tiered-3-last-tiered",
    "txn-failover-1-unclean",
]


@pytest.mark.parametrize("capture", CAPTURES)
def test_every_number_is_that_of_all_rows(
    capture: str, run_of: Callable[[Path], Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_alike(*whole_and_told(run_of(FIXTURES / capture), monkeypatch), tmp_path)


def test_other_disks_of_partitions_without_details_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detailed_partitions, "DETAILED", 1)
    monkeypatch.setattr(detailed_partitions, "NAMED", 0)
    snapshot = write_new_disks(tmp_path / "disks")
    whole, told = whole_and_told(run_stages(snapshot, tmp_path / "warehouse"), monkeypatch)
    check_alike(whole, told, tmp_path)
    shown, found = (plan_object(advise(one)) for one in (audit_all(str(snapshot), Settings()), told))
    assert len(told.partitions) == 3 and found["steps"] == shown["steps"]
    before = [text for one in found["steps"] if one["action"] == "start" for text in one["before"]]
    for name in ("broker-1-new", "broker-1-less", "broker-2-new", "broker-2-less"):
        assert any(f"with {name} instead" in one for one in before), (name, before)


def test_partitions_without_a_leader_are_counted_whichever_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone_capture(FIXTURES / "elr-leaderless", tmp_path / "clone", 4)
    check_alike(*whole_and_told(run_stages(tmp_path / "clone", tmp_path / "warehouse"), monkeypatch), tmp_path)


def test_ends_of_logs_that_no_copy_has_are_in_the_plan_whichever_partitions_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each partition nobody knows what an election costs (C.2, "Files in any order")."""
    of_each = [Replica(written(0, 30, 0), partition=number, high_watermark=40) for number in range(6)]
    listed = [Listed(None, (1, 2), (1, 2), partition=number) for number in range(6)]
    write_snapshot(tmp_path / "copied", {1: of_each, 2: of_each}, listed)
    whole, told = whole_and_told(run_stages(tmp_path / "copied", tmp_path / "warehouse"), monkeypatch)
    plan = advise(told)
    assert len(plan.conflicts) == 6 and not plan.decisions
    assert [len(step.partitions) for step in plan.steps if step.action == "capture"] == [6]
    check_alike(whole, told, tmp_path)


def test_bytes_to_bring_are_in_the_plan_whichever_partitions_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = [Replica(written(0, 10, 0), partition=number) for number in range(6)]
    torn = [Replica(written(0, 5, 0), partition=number, tail=b"\x07" * 50) for number in range(6)]
    write_snapshot(tmp_path / "copied", {1: whole, 2: torn})
    evidence = collect_snapshot(tmp_path / "copied", tmp_path / "evidence")
    whole_rows, told = whole_and_told(run_stages(evidence, tmp_path / "warehouse"), monkeypatch)
    assert len(Matrix(told).wanted) == 6
    check_alike(whole_rows, told, tmp_path)


def test_a_baseline_is_compared_with_all_rows(
    written_by_tasks: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, told = whole_and_told(written_by_tasks, monkeypatch)
    write_report(whole, str(tmp_path / "before"), "high")
    text = gzip.decompress((tmp_path / "before" / LINES).read_bytes()).decode()
    ids = sorted({row.finding_id for row in whole.findings})
    for number, finding_id in enumerate(ids[::3]):
        # It was another finding, which is resolved now.
        text = text.replace(finding_id, f"{number:016x}")
    (tmp_path / LINES).write_bytes(gzip.compress(text.encode()))
    known = read_baseline(Settings(baseline=str(tmp_path / LINES)))
    compared = known.compare(told)
    assert {row.status for row in compared.findings} == {"new", "known", "resolved"}
    check_alike(known.compare(whole), compared, tmp_path)


def test_quality_is_checked_over_all_rows(written_by_tasks: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, told = whole_and_told(written_by_tasks, monkeypatch)
    tables = {*FACT_TABLES, "findings", "quarantine", "partitions", "replicas"}
    expected, found = local_tables(whole, {}, tables), local_tables(told, {}, tables)
    assert told.stored is not None and expected["replica_facts"].num_rows > 4
    for table in tables:
        rows, others = (one[table].to_pylist() for one in (expected, found))
        assert sorted(map(str, others)) == sorted(map(str, rows)), table


def test_any_finding_is_explained(
    written_by_tasks: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, told = whole_and_told(written_by_tasks, monkeypatch)
    write_report(told, str(tmp_path / "report"), "high")
    worst = json.loads((tmp_path / "report" / "audit.json").read_text())["findings"]
    elsewhere = {row.finding_id for row in whole.findings} - {row["finding_id"] for row in worst}
    row = next(row for row in whole.findings if row.finding_id in elsewhere and row.evidence)
    for place in (
        ["--report", tmp_path / "report"],
        ["--report", tmp_path, "--warehouse", written_by_tasks.warehouse.name],
    ):
        assert main([*map(str, ["explain", row.finding_id, *place, "--format", "json"])]) == 0
        assert json.loads(capsys.readouterr().out)["finding"] == json.loads(json.dumps(to_dict(row)))


def test_twice_the_calm_partitions_are_no_more_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a partition without details only its row of `partitions` and its findings are held."""
    held = []
    for partitions in (9, 18):
        write_long_logs(tmp_path / str(partitions), 1, partitions)
        ran = run_stages(tmp_path / str(partitions), tmp_path / f"w{partitions}", driver_rows=1)
        monkeypatch.setattr(detailed_partitions, "WHOLE", 2)
        told = load_results(ran.warehouse, None, "high")
        assert len(told.partitions) == partitions
        assert max(len(part.replicas) for part in told.parts()) == 2 * answer_parts.STRETCH
        more = ("partitions", "findings")
        held.append({table: len(told.table(table)) for table in REPORT_TABLES if table not in more})
    # One row of each broker says whether it was stopped; which one, follows from the names of files.
    assert all(abs(held[1][table] - number) <= 2 for table, number in held[0].items()) and held[0]["replicas"] > 0


def test_equal_states_of_partitions_without_details_are_one_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_reads, "ROWS_AT_ONCE", 1000)
    monkeypatch.setattr(detailed_partitions, "WHOLE", 2)
    held = []
    for partitions in (9, 18):
        place = tmp_path / str(partitions)
        copies = [Replica(written(0, 10, 0), partition=number, high_watermark=10) for number in range(partitions)]
        listed = [Listed(1 + number % 2, (1, 2), (1, 2), partition=number) for number in range(partitions)]
        write_snapshot(place / "copied", {1: copies, 2: copies}, listed)
        run_stages(place / "copied", place / "warehouse", driver_rows=1)
        with only_new_objects():
            told = load_results(Warehouse(str(place / "warehouse")), None, "high")
            held.append((count_held(PartitionStateRow), count_held(KnownState)))
        assert len(told.further.places) == partitions - held[-1][0] > 0
        assert {place: state.leader_id for place, state in told.states()} == {
            place_of(row): row.leader_id for row in told.partitions
        }
    assert held[0] == held[1] and held[0][1] < 5, held


def test_of_a_history_the_last_states_are_held_however_many_rows_are_read_at_a_time(
    run_of: Callable[[Path], Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = run_of(FIXTURES / "last-replica-elr-2-cut")
    whole, told = whole_and_told(ran, monkeypatch)
    monkeypatch.setattr(table_reads, "ROWS_AT_ONCE", 1000)
    assert [*told.states()] == [*load_results(ran.warehouse, None, "high").states()]
    assert 0 < len(told.further.states) < len([*told.states()]) < len(whole.partition_states)


def test_costs_of_partitions_without_details_are_held_packed(
    written_by_tasks: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As rows there are those of the partitions that were looked at last, one for each candidate."""
    whole, told = whole_and_told(written_by_tasks, monkeypatch)
    costs, cuts = Matrix(whole).rows, Matrix(whole).cuts
    del whole
    told = replace(told, elections=[])
    packed = Matrix(told).rows
    assert dict(packed) == costs and len(packed) == len(costs) > answer_parts.STRETCH
    assert dict(Matrix(told).cuts) == cuts and all(
        set(of_place) <= of_place[one].keys() for of_place in cuts.values() for one in of_place
    )

    parts = (part.elections for part in told.parts(("elections",)))
    most = max(sum(row.broker_id == row.candidate_id for row in rows) for rows in parts)
    with only_new_objects():
        packed = Matrix(told).rows
        for place in packed:
            assert packed[place] and count_held(ElectionRow) <= most


def test_a_report_makes_equal_decisions_once_and_opens_packed_costs_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are grouped by partition only where they are told in detail, and in the table of summary.md."""
    monkeypatch.setattr(detailed_partitions, "WHOLE", 2)
    monkeypatch.setattr(markdown, "PARTITION_LIMIT", 3)
    opened: list[tuple[bytes, type]] = []
    unpack = cost_matrix.unpack_rows
    monkeypatch.setattr(cost_matrix, "unpack_rows", lambda *given: (opened.append(given), unpack(*given))[1])
    held, passes = [], []
    for copies in (1, 3):
        clone_capture(FIXTURES / "elr-leaderless", tmp_path / f"{copies}", copies)
        ran = run_stages(tmp_path / f"{copies}", tmp_path / f"w{copies}", driver_rows=1)
        told = load_results(ran.warehouse, None, "high")
        opened.clear()
        with only_new_objects():
            write_report(told, str(tmp_path / f"r{copies}"), "high")
            assert "_placed" not in vars(told)
            assert len(advise(told).decisions) > copies
            held.append((count_held(Candidate), count_held(PartitionRows)))
        passes.append({kind: max(Counter(one for one in opened if one[1] is kind).values()) for _, kind in opened})
        names = [one for step in advise(told).steps for one in step.partitions]
        assert len({*map(id, names)}) == len({*names}) < len(names)
        # Names of audited partitions are held once, and those of whose assignment nothing tells are counted.
        assert all(one is other for one, other in zip(told.partition_of, told.stored.places, strict=True))
    assert held[0] == held[1] and min(held[0]) > 0, held
    assert passes[0] == passes[1] and passes[0][ElectionRow] <= 2 and max(passes[0].values()) <= 6, passes


def test_replicas_of_partitions_with_something_to_decide_come_with_their_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No row is held for twice as many that hold what the leader lacks, nor for those who wrote it."""
    monkeypatch.setattr(detailed_partitions, "WHOLE", 2)
    monkeypatch.setattr(detailed_partitions, "NAMED", 2)
    held, holding, writers, written = [], [], [], []
    for copies in (1, 3):
        clone_capture(FIXTURES / "diverged-multi", tmp_path / f"{copies}", copies)
        ran = run_stages(tmp_path / f"{copies}", tmp_path / f"w{copies}", driver_rows=1)
        told = load_results(ran.warehouse, None, "high")
        held.append(len(told.replicas))
        holding.append(len([*Matrix(told).holding()]))
        writers.append(len(told.lost_producers))
        written.append(sum(len(part.lost_producers) for part in told.parts()))
    # One row of each broker says whether it was stopped; which one, follows from the names of files.
    assert abs(held[1] - held[0]) <= 2 and 0 < 2 * holding[0] == holding[1], (held, holding)
    assert writers[0] == writers[1] and 0 < 2 * written[0] <= written[1], (writers, written)


def test_what_nobody_has_seen_is_known_of_all_and_no_finding_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [("orders", number) for number in range(5)]
    copies = in_sync(batches_of(0, 0, 0, 1))
    cluster, asked = AnsweringBrokers(dict.fromkeys(places, copies), dict.fromkeys(places, 1)), Asked(last=5)
    plan = plan_observation(cluster.client(), asked)
    cluster.observe(tmp_path / "snapshot", asked, plan=plan)
    whole, told = whole_and_told(run_stages(tmp_path / "snapshot", tmp_path / "warehouse"), monkeypatch)
    expected, read, tables_read = Matrix(whole).unseen, answer_parts.read_part, set()

    def recorded(
        files: Mapping[str, PlacedFiles], stretch: answer_parts.Stretch, tables: Collection[str]
    ) -> ReportRows:
        tables_read.update(tables)
        return read(files, stretch, tables)

    monkeypatch.setattr(answer_parts, "read_part", recorded)
    assert told.stored is not None
    assert Matrix(told).unseen == expected and list(expected) == places
    assert tables_read == {"elections", "replicas"}


def test_rows_of_elections_are_those_of_partitions_in_detail(
    written_by_tasks: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detailed_partitions, "DETAILED", 1)
    monkeypatch.setattr(detailed_partitions, "NAMED", 1)
    whole, told = whole_and_told(written_by_tasks, monkeypatch)
    places = told_places(told.partitions)
    assert told.elections == [row for row in whole.elections if place_of(row) in places]
    assert 0 < len(told.elections) < len(whole.elections)


def test_records_of_compacted_topics_are_put_back_beside_later_values_whichever_partitions_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A salvaged value must not replace a later one of its key; of topics that keep every record none is left out."""
    for policy, skips in (("compact", True), ("delete", False)):
        place = tmp_path / policy
        batches = [*written(0, 20, 0), *written(20, 30, 1, "other")]
        leader = [Replica(batches, partition=number, high_watermark=30) for number in range(6)]
        other = [Replica(written(0, 40, 0), partition=number, high_watermark=40) for number in range(6)]
        configs = {"cleanup.policy": policy}
        listed = [Listed(1, (1, 2), (1,), partition=number, configs=configs) for number in range(6)]
        said = {"quiesced": True, "kind": "killed"}
        write_snapshot(place / "copied", {1: leader, 2: other}, listed, manifest=said)
        with monkeypatch.context() as patch:
            whole, told = whole_and_told(run_stages(place / "copied", place / "warehouse"), patch)
            commands = [
                [one for step in advise(found).steps if step.action == "restore" for one in step.commands]
                for found in (whole, told)
            ]
        assert commands[0] == commands[1] and len(commands[0]) == 2
        assert all(("--skip-superseded" in command) is skips for command in commands[0])


def test_of_partitions_whose_assignment_nothing_tells_few_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_parts, "STRETCH", 100)
    monkeypatch.setattr(conditions, "NAMED", 5)
    for partitions in (9, 18):
        place = tmp_path / str(partitions)
        copies = [Replica(written(0, 10, 0), partition=number, high_watermark=10) for number in range(partitions)]
        write_snapshot(place / "copied", {1: copies, 2: copies})
        with monkeypatch.context() as patch:
            whole, told = whole_and_told(run_stages(place / "copied", place / "warehouse"), patch)
            compared = conditions.whole_audit(told).conditions.compared
            assert len(compared.unassigned) == 5 and compared.unassigned_count == partitions
            check_alike(whole, told, place)
