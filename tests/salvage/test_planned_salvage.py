"""`salvage --plan`: exactly what the chosen leaders of a plan lose, by the cost matrix, and nothing that they hold."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.captures import audit_whole
from tests.support.encoder import Record, encode_batch, make_records
from tests.support.fixtures import ATTACKS, FIXTURES
from tests.support.led_by_first import COMMON, HEX, LEADER, led_by_first, replica
from tests.support.salvaged_captures import PRODUCED
from tests.support.snapshots import Replica

from replica_audit.cli.main import main
from replica_audit.config import Settings
from replica_audit.elect.election_plan import plan_elections
from replica_audit.elect.plan_model import parse_plan, plan_object
from replica_audit.salvage.partition_salvage import Choices
from replica_audit.salvage.snapshot_salvage import PlannedLeaders, SalvageSearch

#: Nothing was lost in the others, or they take long to read.
LOSSY = [name for name in PRODUCED if not name.startswith(("old-", "retention", "jbod", "healthy", "lagging"))]


def planned(snapshot: Path, *options: str) -> Path:
    """The plan.json that `elect` writes of a snapshot."""
    target = snapshot.parent / f"plan-{len(list(snapshot.parent.iterdir()))}.json"
    assert main(["elect", str(snapshot), *options, "--plan", str(target), "--quiet"]) in (0, 1)
    return target


def salvaged(snapshot: Path, plan: Path, *options: str, status: int = 0) -> dict[str, Any]:
    """The manifest of `salvage --plan`."""
    target = snapshot.parent / f"out-{len(list(snapshot.parent.iterdir()))}"
    command = ["salvage", str(snapshot), "--plan", str(plan), "--to", str(target), "--quiet", *options]
    assert main(command) == status
    return json.loads((target / "manifest.json").read_text())


def _places(manifest: dict[str, Any]) -> list[tuple[int | None, int]]:
    return [(row["leader_epoch"], row["offset"]) for row in manifest["records"]]


#: Those that have segments of every leader, and of one cluster.
ATTACKED = [
    f"{path.parent.name}/{path.name}"
    for path in sorted(ATTACKS.glob("*/*"))
    if path.is_dir() and not path.parent.name.startswith(("08-", "12-"))
]


@pytest.mark.parametrize("capture", LOSSY)
def test_every_candidate_gives_as_many_as_the_matrix_says(capture: str) -> None:
    agree(FIXTURES / capture)


def test_a_header_that_was_changed_on_a_disk_makes_no_other_records() -> None:
    agree(FIXTURES / "corrupted-batch-baseoffset-changed")


@pytest.mark.parametrize("attack", ATTACKED)
def test_every_candidate_of_an_attack_gives_as_many_as_the_matrix_says(attack: str) -> None:
    agree(ATTACKS / attack)


def agree(snapshot: Path) -> dict[tuple[str, int, int], int]:
    """How many records each candidate of a snapshot lacks, salvaged as the matrix counts them."""
    # Of a transaction that is open or aborted nothing is salvaged unless it is asked for; the matrix counts its records.
    choices, lacked = Choices(include_aborted=True), {}
    results = audit_whole(snapshot)
    plan = json.loads(json.dumps(plan_object(plan_elections(results))))
    rows = {(row["topic"], row["partition"], row["candidate_id"]): row for row in results.rows("elections")}
    for one in plan["decisions"]:
        one["procedure"] = "election"
    for number in range(max((len(one["candidates"]) for one in plan["decisions"]), default=0)):
        for one in plan["decisions"]:
            one["candidate_id"] = one["candidates"][min(number, len(one["candidates"]) - 1)]["candidate_id"]
        found = SalvageSearch(str(snapshot), Settings(), choices, PlannedLeaders(parse_plan(plan), "")).find()
        assert len(found.partitions) + len(found.internal) == len(plan["decisions"])
        for partition in found.partitions:
            place = partition.audit.evidence.topic_partition
            assert not place.topic.startswith("__")
            assert partition.planned is not None and partition.finds is not None
            costs = rows[place.topic, place.partition, partition.planned.candidate_id]
            # Hidden are those that another log keeps, where no consumer sees them: the candidate lacks them as well.
            expected = costs["lost_records"] + costs["hidden_records"]
            assert (len(partition.finds.selection.rows), partition.planned.chosen.lost_records) == (
                expected,
                costs["lost_records"],
            ), (place, costs["candidate_id"])
            proven = int(partition.finds.proven.sum())
            assert costs["lost_committed"] <= proven <= costs["lost_committed"] + costs["hidden_records"]
            lacked[place.topic, place.partition, costs["candidate_id"]] = expected
    return lacked


def test_the_present_leaders_records_are_taken_where_another_one_is_chosen(tmp_path: Path) -> None:
    follower = replica([*COMMON, encode_batch(10, 8, 0, mark="old")], ((0, 0),))
    snapshot = led_by_first(tmp_path / "s", LEADER, follower)
    manifest = salvaged(snapshot, planned(snapshot, "orders-0", "--candidate", "2"))
    assert _places(manifest) == [(1, offset) for offset in range(10, 15)]
    (row,) = manifest["partitions"]
    assert (row["leader_id"], row["candidate_id"], row["reference_id"], row["planned_loss"]) == (1, 2, 2, 5)
    assert row["log_end_offset"] == 18
    manifest = salvaged(snapshot, planned(snapshot, "orders-0", "--candidate", "1"))
    assert _places(manifest) == [(0, offset) for offset in range(10, 18)]


def test_a_third_one_that_is_chosen_loses_what_both_others_have(tmp_path: Path) -> None:
    second = replica([*COMMON, encode_batch(10, 3, 0, mark="two")], ((0, 0),))
    snapshot = led_by_first(tmp_path / "s", LEADER, second, replica(COMMON, ((0, 0),)))
    manifest = salvaged(snapshot, planned(snapshot, "orders-0", "--candidate", "3"))
    assert _places(manifest) == [(0, 10), (0, 11), (0, 12), *((1, offset) for offset in range(10, 15))]


def test_a_tail_of_the_present_epoch_is_lost_under_a_shorter_one(tmp_path: Path) -> None:
    leader = replica([*COMMON, encode_batch(10, 5, 0, mark="tail")], ((0, 0),))
    snapshot = led_by_first(tmp_path / "s", leader, replica(COMMON, ((0, 0),)))
    plan = planned(snapshot, "orders-0", "--candidate", "2")
    assert _places(salvaged(snapshot, plan)) == [(0, offset) for offset in range(10, 15)]


def with_copy_aside(path: Path, kind: str) -> Path:
    """The leader's records and two more in a directory that Kafka has put aside; a follower with a tail of its own."""
    aside = replica(
        [*COMMON, encode_batch(10, 5, 1, mark="leader"), encode_batch(15, 2, 1, mark="more")],
        ((1, 10),),
        suffix=f".{HEX}-{kind}",
    )
    second = replica([*COMMON, encode_batch(10, 3, 0, mark="two")], ((0, 0),))
    return led_by_first(path, LEADER, second, aside=[aside])


@pytest.mark.parametrize("kind", ["stray", "delete", "future"])
def test_what_is_put_aside_counts_for_a_plan_too(kind: str, tmp_path: Path) -> None:
    snapshot = with_copy_aside(tmp_path / "s", kind)
    manifest = salvaged(snapshot, planned(snapshot, "orders-0", "--candidate", "2"))
    assert _places(manifest) == [(1, offset) for offset in range(10, 17)]
    assert [copy["records"] for copy in manifest["partitions"][0]["copies"]] == [5, 2]


def test_records_below_a_holders_log_start_are_deleted_ones(tmp_path: Path) -> None:
    follower = replica([*COMMON, encode_batch(10, 8, 0, mark="old")], ((0, 0),), log_start=14)
    snapshot = led_by_first(tmp_path / "s", LEADER, follower)
    manifest = salvaged(snapshot, planned(snapshot, "orders-0", "--candidate", "1"))
    assert _places(manifest) == [(0, offset) for offset in range(14, 18)]
    assert manifest["partitions"][0]["left_out"] == {"below_log_start": 4}


def test_records_below_a_log_start_that_the_plans_leader_never_had_are_salvaged(tmp_path: Path) -> None:
    """The present leader's, of an epoch later than any that the chosen log had by then."""
    first = replica([*COMMON, encode_batch(10, 5, 2, mark="one")], ((0, 0), (2, 10)))
    former = replica([*COMMON, encode_batch(10, 20, 1, mark="two")], ((1, 17),), log_start=17)
    snapshot = led_by_first(tmp_path / "s", first, former)
    manifest = salvaged(snapshot, planned(snapshot, "orders-0", "--candidate", "2"))
    assert _places(manifest) == [(2, offset) for offset in range(10, 15)]
    assert {row["reason"] for row in manifest["records"]} == {"other_epoch"}
    assert manifest["partitions"][0]["planned_loss"] == 5


def test_only_the_partitions_of_the_plan_are_looked_into(tmp_path: Path) -> None:
    snapshot = FIXTURES / "diverged-unclean"
    plan = planned_of(snapshot, tmp_path, "ledger-1")
    manifest = salvaged_to(snapshot, plan, tmp_path / "out")
    assert [(row["topic"], row["partition"]) for row in manifest["partitions"]] == [("ledger", 1)]
    assert manifest["totals"]["records"] == 17


def planned_of(snapshot: Path, directory: Path, *options: str) -> Path:
    """The plan of a snapshot that nothing is written beside."""
    assert main(["elect", str(snapshot), *options, "--plan", str(directory / "plan.json"), "--quiet"]) == 0
    return directory / "plan.json"


def salvaged_to(snapshot: Path, plan: Path, target: Path) -> dict[str, Any]:
    assert main(["salvage", str(snapshot), "--plan", str(plan), "--to", str(target), "--quiet"]) == 0
    return json.loads((target / "manifest.json").read_text())


def test_the_manifest_names_the_plan_and_without_one_it_names_none(tmp_path: Path) -> None:
    snapshot = led_by_first(tmp_path / "s", LEADER, replica([*COMMON, encode_batch(10, 8, 0)], ((0, 0),)))
    plan = planned(snapshot, "orders-0")
    assert salvaged(snapshot, plan)["plan"] == {"sha256": hashlib.sha256(plan.read_bytes()).hexdigest()}
    assert main(["salvage", str(snapshot), "--to", str(tmp_path / "o"), "--quiet"]) == 0
    assert json.loads((tmp_path / "o" / "manifest.json").read_text())["plan"] is None


def test_a_plan_of_another_snapshot_is_refused(tmp_path: Path, capsys: Any) -> None:
    follower = replica([*COMMON, encode_batch(10, 8, 0, mark="old")], ((0, 0),))
    plan = planned(led_by_first(tmp_path / "s", LEADER, follower), "orders-0")
    later = led_by_first(tmp_path / "later", LEADER, replica([*COMMON, encode_batch(10, 9, 0, mark="old")], ((0, 0),)))
    capsys.readouterr()
    command = ["salvage", str(later), "--plan", str(plan), "--to", str(tmp_path / "out"), "--payloads"]
    assert main(command) == 2
    told = capsys.readouterr().err
    assert "made from another snapshot: the log end of orders-0 on broker 2 is not the same" in told
    assert not (tmp_path / "out").exists()


def test_a_plan_whose_partition_is_not_there_is_refused(tmp_path: Path, capsys: Any) -> None:
    follower = replica([*COMMON, encode_batch(10, 8, 0, mark="old")], ((0, 0),))
    plan = planned(led_by_first(tmp_path / "s", LEADER, follower), "orders-0")
    command = ["salvage", str(FIXTURES / "diverged-unclean"), "--plan", str(plan), "--to", str(tmp_path / "out")]
    assert main(command) == 2
    assert "made from another snapshot: it is of another cluster, and" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "{}", '{"rests_on": [], "steps": []}', "[1]"])
def test_what_is_no_plan_is_refused(content: str, tmp_path: Path, capsys: Any) -> None:
    snapshot, plan = led_by_first(tmp_path / "s", LEADER), tmp_path / "plan.json"
    plan.write_text(content)
    assert main(["salvage", str(snapshot), "--plan", str(plan), "--to", str(tmp_path / "out")]) == 2
    assert "--plan" in capsys.readouterr().err


def test_deleted_records_are_not_salvaged_though_their_bytes_are_there(tmp_path: Path) -> None:
    snapshot = ATTACKS / "05-purged-follower-truncation" / "real-before"
    assert main(["salvage", str(snapshot), "--to", str(tmp_path / "out"), "--quiet"]) == 0
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert {row["topic"]: row["records"] for row in manifest["partitions"]} == {"dr": 0, "ds": 20, "dt": 40}


def test_the_words_name_the_plans_leader_and_what_it_does_not_count(tmp_path: Path, capsys: Any) -> None:
    snapshot = with_copy_aside(tmp_path / "s", "stray")
    plan = planned(snapshot, "orders-0", "--candidate", "2")
    capsys.readouterr()
    assert main(["salvage", str(snapshot), "--plan", str(plan), "--to", str(tmp_path / "out")]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "7 records of 1 partition are in a copy and not in the log of the leader that the plan chose (1" in told
    planned_loss = json.loads((tmp_path / "out/manifest.json").read_text())["partitions"][0]["planned_loss"]
    assert (f"The plan counts {planned_loss} records as lost; the others are in copies that the plan" in told) == (
        planned_loss < 7
    )


def test_nothing_to_take_out_of_a_plan_that_loses_nothing(tmp_path: Path, capsys: Any) -> None:
    snapshot = led_by_first(tmp_path / "s", LEADER, LEADER)
    plan = planned(snapshot, "orders-0")
    capsys.readouterr()
    assert main(["salvage", str(snapshot), "--plan", str(plan), "--to", str(tmp_path / "out")]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "No copy in the snapshot holds a record that is not in the log of the leader that the plan chose" in told


def test_of_a_choice_that_no_step_brings_about_nothing_is_taken(tmp_path: Path, capsys: Any) -> None:
    follower = replica([*COMMON, encode_batch(10, 8, 0, mark="old")], ((0, 0),))
    snapshot = led_by_first(tmp_path / "s", LEADER, follower)
    plan = planned(snapshot, "orders-0", "--candidate", "2")
    content = json.loads(plan.read_text())
    content["decisions"][0]["procedure"] = "unplanned"
    plan.write_text(json.dumps(content))
    capsys.readouterr()
    assert main(["salvage", str(snapshot), "--plan", str(plan), "--to", str(tmp_path / "out")]) == 0
    assert "For orders-0 the plan has no steps" in capsys.readouterr().out
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert (manifest["partitions"], manifest["partitions_without_steps"]) == ([], ["orders-0"])


@pytest.mark.parametrize("kind", ["stray", "future", "delete"])
def test_what_is_put_aside_is_counted_as_in_the_matrix(kind: str, tmp_path: Path) -> None:
    aside = replica([*COMMON, encode_batch(10, 4, 0, mark="aside")], ((0, 0),), suffix=f".{HEX}-{kind}")
    leader = replace(LEADER, high_watermark=15)
    snapshot = led_by_first(tmp_path / "s", leader, replica(COMMON, ((0, 0),)), aside=[aside])
    plan = planned(snapshot, "orders-0", "--candidate", "2")
    (decision,) = json.loads(plan.read_text())["decisions"]
    (chosen,) = (one for one in decision["candidates"] if one["candidate_id"] == 2)
    (row,) = salvaged(snapshot, plan)["partitions"]
    assert (row["records"], row["committed"]) == (chosen["lost_records"], chosen["lost_committed"]) == (9, 5)


def _longer_than_the_leader(suffix: str) -> Replica:
    """A copy beside its replica that has what the leader has, and two records more."""
    tail = [encode_batch(10, 5, 1, mark="leader"), encode_batch(15, 2, 1, mark="more")]
    return replica([*COMMON, *tail], ((1, 10),), suffix=suffix)


def _lacked(snapshot: Path) -> dict[int, int]:
    return {candidate: number for (_, _, candidate), number in agree(snapshot).items()}


@pytest.mark.parametrize(("kind", "lacked"), [("stray", 5), ("delete", 3), ("future", 3)])
def test_past_the_leaders_end_a_copy_that_was_in_use_counts_under_another_leader_only(
    kind: str, lacked: int, tmp_path: Path
) -> None:
    snapshot = with_copy_aside(tmp_path / "s", kind)
    # The leader may have written the two since it was copied: they are its own. A stray was left before.
    assert _lacked(snapshot) == {1: lacked, 2: 7}


def test_what_a_future_copy_has_of_a_lost_tail_is_lacking_whoever_leads(tmp_path: Path) -> None:
    aside = _longer_than_the_leader(f".{HEX}-future")
    second = replica([*COMMON, encode_batch(10, 3, 0, mark="two")], ((0, 0),))
    snapshot = led_by_first(tmp_path / "s", LEADER, second, aside=[aside], quiesced=True)
    assert _lacked(snapshot) == {1: 5, 2: 7}


def test_a_leader_whose_checkpoint_lies_past_its_end_may_have_lost_the_tail_of_a_copy(tmp_path: Path) -> None:
    aside = _longer_than_the_leader(f".{HEX}-stray")
    second = replica([*COMMON, encode_batch(10, 3, 0, mark="two")], ((0, 0),))
    leader = replace(LEADER, recovery_point=17)
    snapshot = led_by_first(tmp_path / "s", leader, second, aside=[aside])
    assert _lacked(snapshot) == {1: 5, 2: 7}


def test_another_record_of_the_same_epoch_is_lacking_on_either_side(tmp_path: Path) -> None:
    records = make_records(5, "one")
    other = (*records[:2], Record(b"k2", b"other"), *records[3:])
    leader = replica([*COMMON, encode_batch(10, records, 0)], ((0, 0),), high_watermark=15)
    follower = replica([*COMMON, encode_batch(10, other, 0)], ((0, 0),), high_watermark=15)
    assert _lacked(led_by_first(tmp_path / "s", leader, follower)) == {1: 1, 2: 1}


@pytest.mark.parametrize("equal", [True, False])
def test_two_followers_with_other_records_than_the_leader(equal: bool, tmp_path: Path) -> None:
    leader = replica([*COMMON, encode_batch(10, 5, 0, mark="one")], ((0, 0),), high_watermark=15)
    others = [
        replica([*COMMON, encode_batch(10, 5, 0, mark=mark)], ((0, 0),), high_watermark=15)
        for mark in ("two", "two" if equal else "three")
    ]
    lacked = _lacked(led_by_first(tmp_path / "s", leader, *others))
    assert lacked == ({1: 5, 2: 5, 3: 5} if equal else {1: 10, 2: 10, 3: 10})


@pytest.mark.parametrize("stamped", [False, True])
def test_what_was_sent_again_is_lacking_nowhere(stamped: bool, tmp_path: Path) -> None:
    sent = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0, "log_append_time": stamped}
    later = {"timestamp_ms": 1_700_000_900_000} if stamped else {}
    again = encode_batch(11, 3, 1, mark="sent", **sent, **later)
    leader = replica([*COMMON, encode_batch(10, 1, 1, mark="leader"), again], ((0, 0), (1, 10)))
    follower = replica([*COMMON, encode_batch(10, 3, 0, mark="sent", **sent)], ((0, 0),))
    assert _lacked(led_by_first(tmp_path / "s", leader, follower)) == {1: 0, 2: 1}
