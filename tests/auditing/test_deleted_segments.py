"""`.deleted` segments: a copy beside the replicas that Kafka deletes within a minute (F.0)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support import metadata_log as write
from tests.support.captures import EXPECTED, FIXTURES
from tests.support.collected import answers, bring_wanted, collect_snapshot, copy_snapshot
from tests.support.encoder import encode_batch
from tests.support.new_disks import add_disk
from tests.support.scenario import Answer, audit, written
from tests.support.scenes import COMMON, NEW, OLD, UNCLEAN_TO_2, beside, change, scene
from tests.support.snapshots import TOPIC, Listed, Replica, write_snapshot
from tests.support.some import some

from replica_audit.auditing.finding import wanted_ranges
from replica_audit.config import Settings
from replica_audit.elect.election_plan import advise
from replica_audit.report.answer import build_answer
from replica_audit.report.facts.losses import find_holders
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_all

#: What the old leader has cut: [50, 56) of epoch 0, where the present one has epoch 1.
CUT = OLD[len(COMMON) :]
HEALED = (*UNCLEAN_TO_2, change(isr=(1, 2, 3)))


def with_deleted(broker: Replica, *segments: Sequence[bytes]) -> Replica:
    """The broker with `.deleted` segments in its directory of the partition."""
    files = {
        f"{TOPIC}-0/{int.from_bytes(batches[0][:8], 'big'):020d}.log.deleted": b"".join(batches) for batches in segments
    }
    return replace(broker, replace={**broker.replace, **files})


def healed(path: Path, *segments: Sequence[bytes], moves=HEALED, new: Replica = NEW, others=(2, 3)) -> Answer:
    """Broker 2 was elected after broker 1, which has followed it since."""
    return scene(path, {1: with_deleted(new, *segments), **dict.fromkeys(others, new)}, *moves)


def deleted_rows(answer: Answer) -> list[tuple]:
    rows = [row for row in answer.tables["replicas"] if row["role"] == "deleted_segments"]
    return [(row["broker_id"], row["log_dir"], row["lost_held"], row["lost_only_here"]) for row in rows]


def judged(path: Path) -> tuple[Results, str, str]:
    """Results, exit status, headline and following sentences for the snapshot at `path`."""
    results = audit_all(str(path), Settings())
    verdict = build_verdict(results, "high")
    answer = build_answer(results, verdict)
    text = " ".join([answer.headline, *("".join(map(str, line)) for line in answer.more)])
    return results, verdict["status"], text


def test_what_only_deleted_segments_hold_is_lost_and_named_without_a_verdict(tmp_path: Path) -> None:
    answer = healed(tmp_path, CUT)
    assert deleted_rows(answer) == [(1, f"broker-1/{TOPIC}-0/*.deleted", 6, 6)]
    assert (answer.verdict, answer.tables["partitions"][0]["lost_records"]) == ("CONSISTENT", 6)
    assert answer.one("DIV-EPOCH", 1) == ("info", "proven", 50, 56)
    assert f"broker-1/{TOPIC}-0/*.deleted of broker 1 has 6 records of epoch 0 at offsets 50 to 55" in str(answer)
    election = answer.found("META-UNCLEAN-ELECTION")[0]
    assert (
        election["severity"] == "info" and f"{TOPIC}-0/*.deleted of broker 1 still has 6 records" in election["message"]
    )
    _, status, text = judged(tmp_path)
    assert status == "OK" and "All is well" not in text
    assert (
        f"6 lost records of {TOPIC}-0 are only in files that Kafka is about to delete (*.deleted), in broker-1/{TOPIC}-0; "
        "nothing proves that they were committed."
    ) in text


def test_they_keep_nothing_whoever_leads(tmp_path: Path) -> None:
    answer = healed(tmp_path, CUT)
    for row in some(answer.tables["elections"]):
        assert (row["lost_records"], row["lost_committed"], row["lost_possible"]) == (6, 0, 6)
        (copy,) = row["beside"]
        assert (copy["broker_id"], copy["start_offset"], copy["end_offset"], copy["lost_held"]) == (1, 50, 56, 6)


def test_of_a_broker_that_was_killed_while_it_was_cut_they_fill_the_hole(tmp_path: Path) -> None:
    """X, 3.9.1: as it is cut, the segments above are renamed one after the other, the lowest first."""
    higher = encode_batch(56, 4, 0, mark="old")
    index = {f"{TOPIC}-0/{50:020d}.index": b""}
    left = Replica([*COMMON, higher], high_watermark=50, per_segment=1, replace=index)
    answer = scene(tmp_path, {1: with_deleted(left, CUT), 2: NEW, 3: NEW}, *UNCLEAN_TO_2)
    own = next(row for row in answer.tables["elections"] if row["candidate_id"] == 1)
    assert [(one["start_offset"], one["end_offset"], one["lost_held"]) for one in own["beside"]] == [(50, 56, 6)]
    (missing,) = answer.messages("CAP-MISSING-SEGMENT")
    assert missing == (
        f"broker 1: a segment file with offsets 50 to 55 is missing, and broker-1/{TOPIC}-0/*.deleted of broker 1 has them: Kafka is about to "
        "delete these files"
    )


def test_where_one_of_them_is_missing_too_they_are_not_said_to_fill_the_hole(tmp_path: Path) -> None:
    first, last, higher = (encode_batch(base, 2, 0, mark="old") for base in (50, 54, 56))
    index = {f"{TOPIC}-0/{50:020d}.index": b""}
    left = Replica([*COMMON, higher], high_watermark=50, per_segment=1, replace=index)
    answer = scene(tmp_path, {1: with_deleted(left, [first], [last]), 2: NEW, 3: NEW}, *UNCLEAN_TO_2)
    assert not any("has them" in message for message in answer.messages("CAP-MISSING-SEGMENT")), answer


@pytest.mark.parametrize(("fenced", "when"), [(-1, "now"), (1, "before the broker is started")])
def test_the_plan_copies_them_first_and_salvages_them(tmp_path: Path, fenced: int, when: str) -> None:
    healed(tmp_path, CUT, moves=(*HEALED, write.registration_change(1, fenced)))
    plan = advise(judged(tmp_path)[0])
    copy, salvage = plan.steps[:2]
    assert (copy.action, copy.brokers, copy.snapshot) == ("copy", (1,), (f"broker-1/{TOPIC}-0/*.deleted",))
    assert copy.commands == (f"tar -czf broker-1.tgz -C LOG_DIR_OF_1 -- ./{TOPIC}-0",)
    assert f"Copy {TOPIC}-0 of broker 1 {when}:" in copy.text
    assert salvage.action == "salvage" and "--plan plan.json" in salvage.commands[-1]
    assert not {"start", "stop", "elect"} & {step.action for step in plan.steps}


def test_the_copy_names_the_disk_that_has_them(tmp_path: Path) -> None:
    """Not the partition's directory, in which tar would find none of its name."""
    healed(tmp_path, CUT)
    empty = add_disk(tmp_path)
    copy = advise(judged(tmp_path)[0]).steps[0]
    assert copy.action == "copy" and "./orders-0" in copy.commands[0]
    assert (
        f"LOG_DIR_OF_1 means here what the snapshot has as broker-1, wherever it is mounted, not {empty}, which is empty"
        in copy.text
    )


def test_a_replica_that_has_them_too_is_copied_as_if_nobody_else_had(tmp_path: Path) -> None:
    """The others go within a minute."""
    answer = scene(tmp_path, {1: Replica(OLD, high_watermark=50), 2: NEW, 3: with_deleted(NEW, CUT)}, *UNCLEAN_TO_2)
    (own,) = [row for row in answer.tables["elections"] if row["candidate_id"] == row["broker_id"] == 1]
    assert own["only_here"] == 6
    assert any(step.action == "copy" and 1 in step.brokers for step in advise(judged(tmp_path)[0]).steps)


def test_committed_ones_are_a_loss(tmp_path: Path) -> None:
    """By a checkpoint of another copy that has the same records."""
    beside(tmp_path, 3, "stray", OLD[:-1])()
    holder = Replica(OLD[:-1], high_watermark=55)
    brokers = {1: with_deleted(NEW, CUT), 2: NEW, 3: holder}
    answer = scene(tmp_path, brokers, *UNCLEAN_TO_2)
    assert answer.verdict == "COMMITTED_LOSS"
    (own,) = [row for row in answer.found("HWM-LOSS", 1)]
    assert "; Kafka is about to delete these files; likely, not proven: " in own["message"]
    assert deleted_rows(answer) == [(1, f"broker-1/{TOPIC}-0/*.deleted", 6, 1)]
    assert "1 lost record of" in judged(tmp_path)[2]


@pytest.mark.parametrize(
    "segments",
    [
        [COMMON[:4]],
        [[*COMMON, *written(50, 60, 1, "new ")]],
        [written(50, 60, 1, "new ")],
        [COMMON[2:4], COMMON[8:], written(55, 60, 1, "new ")],
    ],
    ids=["the beginning", "all", "the end", "parts"],
)
def test_segments_that_the_leader_has_too_are_nothing_to_tell(tmp_path: Path, segments: list[list[bytes]]) -> None:
    (tmp_path / "bare").mkdir()
    bare, answer = healed(tmp_path / "bare"), healed(tmp_path / "with", *segments)
    assert [row[2:] for row in deleted_rows(answer)] == [(0, 0)]
    for table in ("partitions", "findings", "high_watermarks", "truncations", "divergences", "elections", "captures"):
        assert answer.tables[table] == bare.tables[table], table


def test_what_a_clean_election_left_behind_was_cut_rightly(tmp_path: Path) -> None:
    moves = [change(leader=2, isr=(2, 3)), change(isr=(1, 2, 3))]
    answer = healed(tmp_path, CUT, moves=moves)
    assert answer.tables["partitions"][0]["lost_records"] == 0 and not answer.found("DIV-EPOCH"), answer
    assert "about to delete" not in judged(tmp_path)[2]


def test_segments_that_retention_removed_are_no_loss(tmp_path: Path) -> None:
    purged = Replica([*written(60, 70, 1, "new ")], high_watermark=60, log_start=60, first_base_offset=60)
    answer = healed(tmp_path, COMMON, CUT, new=purged)
    assert answer.tables["partitions"][0]["lost_records"] == 0 and not answer.found("DIV-EPOCH"), answer


#: [0, 80) of epoch 0, five records a batch; the new leader has [0, 50) of it.
LED = [*COMMON, *written(50, 80, 0, "old ")]


def expired(path: Path, batches: Sequence[bytes], *segments: Sequence[bytes], start: int, **log) -> Answer:
    """The old leader has deleted what lies below `start`, which is above the fork, and goes on with `batches`."""
    old = Replica(batches, high_watermark=max(start, 75), log_start=start, first_base_offset=start, **log)
    return scene(path, {1: with_deleted(old, *segments), 2: NEW, 3: NEW}, *UNCLEAN_TO_2)


@pytest.mark.parametrize("start", [70, 80])
@pytest.mark.parametrize("before", [0, 40, 50, 60])
def test_what_the_old_leaders_retention_deleted_before_the_election_is_no_loss(
    tmp_path: Path, start: int, before: int
) -> None:
    """It lies above the new leader's log start. With nothing left of it, the log's epoch file goes on at its start."""
    rest, deleted = LED[start // 5 :], LED[before // 5 : start // 5]
    answer = expired(tmp_path, rest, deleted, start=start, epochs=((0, start),))
    (row,) = answer.tables["partitions"]
    assert (row["lost_records"], deleted_rows(answer)[0][2:]) == (80 - start, (0, 0)), answer
    assert not any(one["start_offset"] < start for one in answer.found("HWM-LOSS", 1)), answer


@pytest.mark.parametrize(
    ("batches", "segments", "epochs"),
    [
        (written(70, 80, 1, "new "), [LED[14:]], ((1, 70),)),
        ((), [LED[14:]], ()),
        ((), [LED[14:]], ((1, 70),)),
        (written(70, 80, 1, "new "), [[*COMMON[8:], *written(50, 60, 0, "old ")]], ((1, 70),)),
        (written(70, 80, 1, "new "), [LED[10:12], written(65, 70, 1, "new ")], ((1, 70),)),
        (written(70, 80, 1, "new "), [LED[10:14], written(60, 70, 1, "new ")], ((1, 70),)),
    ],
    ids=["followed anew", "emptied", "elected empty", "cut and begun anew", "not consecutive", "cut, then expired"],
)
def test_what_a_truncation_cut_is_a_loss_wherever_the_log_begins_now(
    tmp_path: Path, batches: Sequence[bytes], segments: list[list[bytes]], epochs: tuple
) -> None:
    answer = expired(tmp_path, batches, *segments, start=70, epochs=epochs)
    assert deleted_rows(answer)[0][2] > 0, answer


@pytest.mark.parametrize(
    ("said", "start"),
    [
        ({"source": "user", "leader_epoch": 1}, 70),
        ({"source": "topics_describe", "configs": {"remote.storage.enable": "true"}}, 0),
    ],
    ids=["by nobody's word", "tiered"],
)
def test_what_may_only_have_left_the_disk_for_remote_storage_is_held(tmp_path: Path, said: dict, start: int) -> None:
    """Unless the topic is known not to be tiered; broker 2's log shows neither where its configs are unknown."""
    old = Replica(LED[14:], ((0, start),), high_watermark=75, log_start=start, first_base_offset=70)
    new = replace(NEW, batches=NEW.batches[4:], epochs=((0, 10), (1, 50)), log_start=10)
    answer = audit(tmp_path, {1: with_deleted(old, LED[10:14]), 2: new}, leader=2, isr=(2,), **said)
    assert deleted_rows(answer)[0][2] == 20, answer


def test_two_that_hold_the_same_are_counted_once(tmp_path: Path) -> None:
    holding = with_deleted(NEW, CUT)
    answer = scene(tmp_path, {1: holding, 2: NEW, 3: holding}, *HEALED)
    assert [row[2:] for row in deleted_rows(answer)] == [(6, 0), (6, 0)]
    assert answer.tables["partitions"][0]["lost_records"] == 6
    assert "6 lost records of" in judged(tmp_path)[2]


def test_segments_that_overlap_are_counted_once(tmp_path: Path) -> None:
    """Cut twice, in segments that began elsewhere after the first time."""
    again = written(52, 58, 0, "late ", step=1)
    answer = healed(tmp_path, written(50, 56, 0, "late ", step=1), again)
    assert answer.tables["partitions"][0]["lost_records"] == 8, answer


def test_a_broker_is_not_captured_by_them(tmp_path: Path) -> None:
    """They show what was cut, not what the log had."""
    answer = scene(
        tmp_path, {1: replace(with_deleted(NEW, CUT), remove=[f"{0:020d}.log"]), 2: NEW, 3: NEW}, *UNCLEAN_TO_2
    )
    rows = {row["broker_id"]: row for row in answer.tables["captures"]}
    assert rows[1]["state"] != "whole" and rows[1]["needed"] is not None, rows[1]
    assert answer.verdict in ("INCONCLUSIVE", "COMMITTED_LOSS")


def test_damaged_ones_move_no_verdict(tmp_path: Path) -> None:
    """And are named: they may have held records."""
    answer = healed(tmp_path, [CUT[0], b"not a batch" * 10])
    assert answer.verdict == "CONSISTENT", answer
    assert answer.tables["partitions"][0]["lost_records"] == 5
    (row,) = judged(tmp_path)[0].rows("quarantine")
    assert row["path"].endswith(".log.deleted")


@pytest.mark.parametrize(
    ("capture", "lost"),
    [
        ("kafka-3.9-diverged-healed", {"ledger-0": 2, "ledger-2": 30}),
        ("kafka-3.6-diverged-healed", {"ledger-1": 20}),
        ("zk-2.8-diverged-healed", {"ledger-0": 8, "ledger-1": 21, "ledger-2": 23}),
        ("healthy", {}),
        ("compacted-skewed-1", {}),
        ("retention-skewed", {}),
        ("retention-passed-1-down", {}),
    ],
)
def test_captures_with_deleted_segments(capture: str, lost: dict[str, int]) -> None:
    """What their salvage takes out is what is told; verdicts are the expected ones, since nothing proves the rest committed."""
    results, status, text = judged(FIXTURES / capture)
    assert any(row["role"] == "deleted_segments" for row in results.rows("replicas"))
    rows = {f"{row['topic']}-{row['partition']}": row for row in results.rows("partitions")}
    assert {name: row["lost_records"] for name, row in rows.items() if row["lost_records"]} == lost
    for name, answer in EXPECTED.get(capture, {}).items():
        assert rows[name]["verdict"] == answer["verdict"], name
    assert status == "OK"
    assert ("about to delete" in text) == bool(lost) and (not lost or "All is well" not in text)
    assert sum(one.records for one in find_holders(results).values()) == sum(lost.values())


@pytest.mark.parametrize("other", ["stray", "duplicate"])
@pytest.mark.parametrize("held", [6, 3])
def test_a_broker_with_two_copies_of_them_holds_each_once(tmp_path: Path, other: str, held: int) -> None:
    """In its replica and in a copy beside it; no other broker has any."""
    beside(tmp_path, 1, other, [*COMMON, *written(50, 50 + held, 0, "old ", step=1)])()
    old = Replica([*COMMON, *written(50, 56, 0, "old ", step=1)], high_watermark=50)
    answer = scene(tmp_path, {1: old, 2: NEW, 3: NEW}, *UNCLEAN_TO_2)
    (row,) = answer.tables["partitions"]
    assert row["lost_records"] == 6
    assert row["holders"] == [{"broker_id": 1, "records": 6, "committed": 0, "only_here": 6, "committed_only_here": 0}]
    copies = [one for one in answer.tables["replicas"] if one["lost_held"]]
    assert sorted((one["lost_held"], one["lost_only_here"]) for one in copies) == sorted([(6, 6 - held), (held, 0)])
    (holder,) = find_holders(judged(tmp_path)[0]).values()
    assert holder == (1, 1, 6, 0, 6, 0)


def test_copies_of_one_broker_that_hold_different_records_add_up(tmp_path: Path) -> None:
    beside(tmp_path, 1, "stray", [*COMMON, *written(50, 53, 0, "old ", step=1)])()
    answer = healed(tmp_path, written(53, 56, 0, "old ", step=1))
    assert [
        (one["broker_id"], one["records"], one["only_here"]) for one in answer.tables["partitions"][0]["holders"]
    ] == [(1, 6, 6)]


def test_records_of_overlapping_segments_are_read_from_the_file_that_has_them(tmp_path: Path) -> None:
    """The first reaches into the second, as after two cuts: by its offsets a batch may be in either."""
    batches = [encode_batch(base, 5, 0) for base in range(0, 20, 5)]
    long = [*batches[:2], encode_batch(10, 5, 0, mark="other")]
    short = [encode_batch(5, 5, 0, mark="another"), batches[2]]
    sides = {1: with_deleted(Replica(batches), long, short), 2: Replica(batches)}
    snapshot = write_snapshot(tmp_path / "snapshot", sides, [Listed(2, (1, 2), (1, 2))])
    evidence = collect_snapshot(snapshot, tmp_path / "evidence")
    wanted = wanted_ranges(item for row in audit_all(str(evidence), Settings()).findings for item in row.evidence)
    of_one = [one for one in wanted if one[0].endswith(".deleted")]
    folder = f"broker-1/{TOPIC}-0"
    assert of_one == [
        (f"{folder}/{0:020d}.log.deleted", len(long[0]), sum(map(len, long))),
        (f"{folder}/{5:020d}.log.deleted", 0, sum(map(len, short))),
    ]
    assert bring_wanted(snapshot, evidence, 1) == sum(end - start for _, start, end in wanted)
    assert answers(evidence)["findings"] == answers(copy_snapshot(snapshot, tmp_path / "copy" / "snapshot"))["findings"]


@pytest.mark.parametrize(
    ("deleted", "held"),
    [
        ([(0, 60)], True),
        ([(40, 60)], True),
        ([(0, 50), (50, 60)], True),
        ([(0, 55)], False),
        ([(45, 60)], False),
        ([(0, 45), (50, 60)], False),
        ([], False),
    ],
)
@pytest.mark.parametrize("epochs", [((1, 0),), None], ids=["epoch file", "none"])
def test_what_a_log_went_past_is_not_gone_while_its_deleted_segments_have_it(
    tmp_path: Path, epochs, deleted: list[tuple[int, int]], held: bool
) -> None:
    """Broker 1, which leads, lost [40, 60), which had been committed; retention of broker 2 has passed that."""
    leader = Replica(written(0, 40, 1), epochs, high_watermark=60, recovery_point=40)
    other = with_deleted(Replica(written(60, 70, 1), high_watermark=60), *(written(*part, 1) for part in deleted))
    answer = audit(tmp_path, {1: leader, 2: other}, leader=1, isr=(1,), quiesced=True)
    (row,) = answer.found("HWM-CP-ABOVE-LEO", 1)
    assert row["severity"] == ("high" if held else "critical"), row
    only_there = f"only in broker-2/{TOPIC}-0/*.deleted of broker 2: Kafka is about to delete these files"
    assert row["message"].endswith(only_there) is bool(deleted), row["message"]
    told = ("; the records between are only in" in row["message"], "no replica here has" in row["message"])
    assert told == (held, not held), row["message"]


@pytest.mark.parametrize("between", [45, 50, 55])
def test_a_log_and_its_deleted_segments_may_have_it_together(tmp_path: Path, between: int) -> None:
    leader = Replica(written(0, 40, 1), high_watermark=60, recovery_point=40)
    other = with_deleted(Replica(written(between, 60, 1), high_watermark=60), written(0, between, 1))
    answer = audit(tmp_path, {1: leader, 2: other}, leader=1, isr=(1,), quiesced=True)
    assert answer.one("HWM-CP-ABOVE-LEO", 1)[0] == "high", answer


def test_deleted_segments_of_another_leader_have_nothing_of_it(tmp_path: Path) -> None:
    leader = Replica(written(0, 40, 1), high_watermark=60, recovery_point=40)
    old = [*written(0, 30, 0), *written(30, 60, 0, "old ")]
    other = with_deleted(Replica(written(60, 70, 1), high_watermark=60), old)
    answer = audit(tmp_path, {1: leader, 2: other}, leader=1, isr=(1,), quiesced=True)
    assert "no replica here has the records between" in answer.found("HWM-CP-ABOVE-LEO", 1)[0]["message"]
