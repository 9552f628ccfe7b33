"""Copies that neither lead nor follow: -future, -stray, -delete, a second disk."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.encoder import encode_batch, encode_marker
from tests.support.report_rows import answers_of
from tests.support.scenario import Answer, asked_costs, audit, written
from tests.support.scenes import COMMON, NEW, OLD, UNCLEAN_TO_2, UNIQUE, beside, change, scene
from tests.support.snapshots import TOPIC, Replica, make_uuid, manifest_text, write_manifest

from replica_audit.elect.election_plan import plan_elections

#: How a copy lies beside the replicas, and its role in the answers.
PLACES = ("future", "stray", "delete", "duplicate")


def with_copy(path: Path, place: str, batches: list[bytes] = OLD, broker: int = 1, **options) -> Answer:
    """Broker 2 was elected uncleanly after broker 1, of which nothing is left but a copy beside."""
    return both(path, {2: NEW, 3: NEW}, beside(path, broker, place, batches, **options))


def both(path: Path, brokers: dict[int, Replica], write: Callable[[], None], moves=UNCLEAN_TO_2) -> Answer:
    # `scene` writes its metadata log before the audit; the copy has to be there before.
    write()
    return scene(path, brokers, *moves)


def needed(answer: Answer) -> dict[int, str]:
    """Brokers whose replica is not here and may hold more, with the reason."""
    return {row["broker_id"]: row["needed"] for row in answer.tables["captures"] if row["needed"]}


def rows_beside(answer: Answer) -> list[tuple]:
    rows = [row for row in answer.tables["replicas"] if row["role"] in PLACES]
    return [(row["broker_id"], row["role"], row["lost_held"], row["lost_only_here"]) for row in rows]


@pytest.mark.parametrize("place", ["future", "stray", "delete"])
def test_records_of_a_copy_that_kafka_put_aside_are_held(tmp_path: Path, place: str) -> None:
    answer = with_copy(tmp_path, place)
    assert rows_beside(answer) == [(1, place, 6, 6)]
    (partition,) = answer.tables["partitions"]
    assert (partition["lost_records"], answer.verdict) == (6, "WILL_LOSE_ON_TRUNCATION")
    assert answer.one("DIV-EPOCH", 1) == ("high", "proven", 50, 56)
    assert f"{TOPIC}-0.{UNIQUE}-{place} of broker 1 has 6 records of epoch 0 at offsets 50 to 55" in str(answer)
    assert "no replica here has the records" not in str(answer)
    # A copy of a move is behind the log that it is a copy of, which is not here.
    assert needed(answer) == ({1: "led_before_unclean"} if place == "future" else {})
    for row in answer.tables["elections"]:
        assert (row["lost_records"], row["lost_possible"]) == (6, 6)
        (copy,) = row["beside"]
        assert (copy["broker_id"], copy["start_offset"], copy["end_offset"], copy["lost_held"]) == (1, 50, 56, 6)


def test_a_second_disk_is_held_too(tmp_path: Path) -> None:
    answer = both(tmp_path, {1: NEW, 2: NEW, 3: NEW}, beside(tmp_path, 1, "duplicate", OLD))
    assert rows_beside(answer) == [(1, "duplicate", 6, 6)], answer
    assert answer.tables["partitions"][0]["lost_records"] == 6
    assert answer.one("DIV-EPOCH", 1)[2:] == (50, 56)


def test_what_a_replica_holds_as_well_is_counted_once(tmp_path: Path) -> None:
    answer = both(tmp_path, {1: Replica(OLD, high_watermark=55), 2: NEW}, beside(tmp_path, 3, "stray", OLD))
    (partition,) = answer.tables["partitions"]
    assert (partition["lost_records"], partition["lost_committed"]) == (6, 5)
    assert rows_beside(answer) == [(3, "stray", 6, 0)]
    assert answer.found("HWM-LOSS", 3)
    held = {row["broker_id"]: row["lost_committed_held"] for row in answer.tables["replicas"]}
    assert held[1] == held[3] == 5


lacking_nothing = pytest.mark.parametrize(
    "batches",
    [[*COMMON, *written(50, 60, 1, "new ")], COMMON, COMMON[:-2], [*COMMON, *written(50, 55, 1, "new ")]],
    ids=["equal", "older", "shorter", "behind"],
)


@pytest.mark.parametrize("place", ["stray", "delete"])
@lacking_nothing
def test_a_copy_that_lacks_nothing_is_nothing_to_tell(tmp_path: Path, place: str, batches: list[bytes]) -> None:
    answer = with_copy(tmp_path, place, batches)
    assert rows_beside(answer) == [(1, place, 0, 0)]
    assert not answer.found("DIV-EPOCH") and answer.verdict in ("CONSISTENT", "LAGGING"), answer
    assert answer.tables["partitions"][0]["lost_records"] == 0


@lacking_nothing
def test_a_copy_of_a_move_says_nothing_of_the_log_that_it_is_behind(tmp_path: Path, batches: list[bytes]) -> None:
    answer = with_copy(tmp_path, "future", batches)
    assert needed(answer) == {1: "led_before_unclean"} and answer.verdict == "INCONCLUSIVE", answer
    assert answer.tables["partitions"][0]["lost_records"] is None
    moving = tmp_path / "moving"
    moving.mkdir()
    both_logs = both(
        moving, {1: Replica(COMMON, high_watermark=50), 2: NEW, 3: NEW}, beside(moving, 1, "future", batches)
    )
    assert not needed(both_logs) and both_logs.rows("partitions")[0]["lost_records"] == 0, both_logs


@pytest.mark.parametrize("place", ["future", "stray", "delete"])
@pytest.mark.parametrize(
    ("isr", "leader", "reason"),
    [((2, 3), 1, "leads"), ((1, 2), -1, "isr"), ((2, 3), 2, None)],
    ids=["leads", "in sync, and nobody leads", "left the ISR"],
)
def test_whoever_leads_or_is_in_sync_has_another_log_than_what_was_put_aside(
    tmp_path: Path, place: str, isr: tuple[int, ...], leader: int, reason: str | None
) -> None:
    old = Replica(COMMON, high_watermark=50)
    answer = both(tmp_path, {2: old, 3: old}, beside(tmp_path, 1, place, COMMON), [change(leader=leader, isr=isr)])
    assert needed(answer) == ({} if reason is None else {1: reason}), answer
    assert (answer.verdict == "INCONCLUSIVE") == (reason is not None)


@pytest.mark.parametrize("topic_id", [make_uuid("another"), None])
def test_a_copy_of_another_topic_of_that_name_is_left_out(tmp_path: Path, topic_id: str | None) -> None:
    answer = with_copy(tmp_path, "stray", topic_id=topic_id)
    # The broker led before the unclean election, and no log of it is here.
    assert rows_beside(answer) == [] and answer.tables["partitions"][0]["lost_records"] is None


def test_what_a_clean_election_left_behind_is_not_lost(tmp_path: Path) -> None:
    write = beside(tmp_path, 1, "stray", OLD)
    answer = both(tmp_path, {2: NEW, 3: NEW}, write, [change(leader=2, isr=(2, 3))])
    assert answer.tables["partitions"][0]["lost_records"] == 0 and not answer.found("DIV-EPOCH"), answer


def test_records_below_the_leaders_log_start_are_not_lost(tmp_path: Path) -> None:
    purged = Replica([*written(60, 70, 1, "new ")], high_watermark=60, log_start=60, first_base_offset=60)
    answer = both(tmp_path, {2: purged, 3: purged}, beside(tmp_path, 1, "stray", OLD))
    assert answer.tables["partitions"][0]["lost_records"] == 0 and not answer.found("DIV-EPOCH"), answer


@pytest.mark.parametrize(
    ("quiesced", "kinds", "lost"),
    [
        (True, (), 6),
        (None, (), 0),
        (None, ("live",), 0),
        (None, ("killed",), 6),
        (None, ("killed", "killed"), 6),
        (None, ("killed", "live"), 0),
        (None, ("live", "killed"), 0),
    ],
)
@pytest.mark.parametrize("checkpoint", [50, 56])
def test_a_future_copy_that_is_longer_than_its_log_shows_a_lost_tail(
    tmp_path: Path, quiesced: bool | None, kinds: tuple[str, ...], lost: int, checkpoint: int
) -> None:
    """As long as the two were copied at one moment, or while their broker was down: a move goes on in a running broker."""
    whole = [*COMMON, *written(50, 56, 0)]
    beside(tmp_path, 1, "future", whole)()
    leader = Replica(COMMON, high_watermark=checkpoint, recovery_point=40)

    def manifest() -> None:
        dirs = zip(("broker-1", "broker-1/b"), kinds)
        said = [json.loads(manifest_text({1: name}, quiesced=quiesced, kind=kind)) for name, kind in dirs]
        if said:
            said[0]["brokers"] = [one for each in said for one in each["brokers"]]
            (tmp_path / "manifest.json").write_text(json.dumps(said[0]))

    answer = audit(tmp_path, {1: leader, 2: Replica(COMMON)}, quiesced=quiesced, isr=(1, 2), before_audit=manifest)
    (partition,) = answer.tables["partitions"]
    assert partition["lost_records"] == lost, answer
    if lost:
        assert partition["lost_committed"] == checkpoint - 50
        code = "HWM-LOSS" if checkpoint > 50 else "REP-LEADER-SHORTER"
        assert answer.found(code)[0]["message"].endswith("it is cut to the current log when the broker starts")
        (own,) = [row for row in answer.tables["elections"] if row["candidate_id"] == row["broker_id"] == 1]
        assert (own["lost_records"], own["lost_committed"]) == (6, checkpoint - 50)
        assert [(one["start_offset"], one["lost_held"]) for one in own["beside"]] == [(50, 6)]
        assert "no replica here has" not in str(answer)


@pytest.mark.parametrize(("kind", "lost"), [("killed", 6), ("live", 0)])
@pytest.mark.parametrize("place", ["future", "stray", "delete"])
@pytest.mark.parametrize("checkpoint", [50, 56])
def test_a_copy_that_goes_past_the_end_of_a_leader_that_was_down_shows_a_lost_tail(
    tmp_path: Path, kind: str, lost: int, place: str, checkpoint: int
) -> None:
    """Nobody else has led since: the records were on its log. A leader that is up may have written them by now."""
    beside(tmp_path, 2, place, [*COMMON, *written(50, 56, 0)])()
    leader = Replica(COMMON, high_watermark=checkpoint, recovery_point=40)
    write_manifest(tmp_path, {1: kind, 2: kind})
    answer = audit(tmp_path, {1: leader, 2: Replica(COMMON)}, source="user", leader_epoch=0, isr=(1,))
    assert answer.tables["partitions"][0]["lost_records"] == lost, answer
    if lost:
        code = "HWM-LOSS" if checkpoint > 50 else "REP-LEADER-SHORTER"
        assert answer.found(code, 2), answer
        (own,) = [row for row in answer.tables["elections"] if row["candidate_id"] == row["broker_id"] == 1]
        assert (own["lost_records"], own["lost_committed"]) == (6, checkpoint - 50)
        assert [(one["start_offset"], one["lost_held"]) for one in own["beside"]] == [(50, 6)]


@pytest.mark.parametrize("kind", ["live", None])
@pytest.mark.parametrize(("place", "severity"), [("stray", "medium"), ("delete", "info")])
def test_a_copy_that_goes_past_the_end_of_a_running_leader_is_told(
    tmp_path: Path, kind: str | None, place: str, severity: str
) -> None:
    """A broker sets a stray aside as it starts, and wrote what it has before; a directory that is deleted was written a minute ago."""
    beside(tmp_path, 2, place, [*COMMON, *written(50, 56, 0)])()
    if kind is not None:
        write_manifest(tmp_path, {1: kind, 2: kind})
    answer = audit(tmp_path, {1: Replica(COMMON), 2: Replica(COMMON)}, source="user", leader_epoch=0, isr=(1,))
    assert answer.verdict == ("INCONCLUSIVE" if place == "stray" else "CONSISTENT"), answer
    (told,) = answer.found("CAP-SKEW", 2)
    assert (told["severity"], told["start_offset"], told["end_offset"]) == (severity, 50, 56), told
    assert f"-{place} of broker 2 has offsets 50 to 55, past the end of broker 1 at 50" in told["message"], told
    assert asked_costs(tmp_path)[1] == ((6, 0, 6) if place == "stray" else (0, 0, 0))


@pytest.mark.parametrize("place", ["stray", "delete"])
def test_a_copy_that_ends_where_its_leader_does_is_not_told(tmp_path: Path, place: str) -> None:
    beside(tmp_path, 2, place, COMMON)()
    answer = audit(tmp_path, {1: Replica(COMMON), 2: Replica(COMMON)}, source="user", leader_epoch=0, isr=(1,))
    assert answer.verdict == "CONSISTENT" and not answer.found("CAP-SKEW"), answer


@pytest.mark.parametrize("goes_on", [True, False])
@pytest.mark.parametrize("outcome", ["COMMIT", "ABORT"])
@pytest.mark.parametrize("place", ["future", "stray", "delete"])
def test_a_transaction_whose_marker_only_a_copy_has_is_not_aborted(
    tmp_path: Path, place: str, outcome: str, goes_on: bool
) -> None:
    def data(base: int, epoch: int, leader_epoch: int) -> bytes:
        named = {"producer_id": 7, "producer_epoch": epoch, "base_sequence": 0, "transactional": True}
        return encode_batch(base, 5, leader_epoch, mark=f"{base} ", **named)

    begun = [*COMMON, data(50, 0, 0)]
    old = [*begun, encode_marker(55, outcome, 0, producer_id=7, producer_epoch=1)]
    # Where the producer goes on under the new leader, the first transaction hangs there.
    new = Replica([*begun, data(55, 1, 1) if goes_on else encode_batch(55, 5, 1)], high_watermark=55)
    for batches, is_held in ((old, True), (begun, False)):
        path = tmp_path / str(is_held)
        path.mkdir()
        answer = both(path, {2: new, 3: new}, beside(path, 1, place, batches))
        assert bool(answer.found("TXN-HANGING", 2)) == goes_on, answer
        assert bool(answer.found("TXN-MARKER-LOST", 1)) == is_held, answer
        plan = plan_elections(answers_of({}, answer.tables))
        is_open = place == "future"  # of the log that is behind nothing is known
        assert any(step.action == "end_transaction" for step in plan.steps) == (goes_on and not is_held and not is_open)
        assert [one.chosen.cut_transactions for one in plan.decisions] == [int(is_held)] * (is_held or is_open)


def test_copies_are_in_no_answer_on_who_is_in_sync_or_behind(tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    bare = scene(tmp_path / "bare", {2: NEW, 3: NEW}, *UNCLEAN_TO_2)
    answer = with_copy(tmp_path / "with", "stray", COMMON[:-2])
    for table in ("high_watermarks", "truncations", "divergences", "group_offsets"):
        assert answer.tables[table] == bare.tables[table]
    assert [row["max_lag_records"] for row in answer.tables["partitions"]] == [0]
