"""A log start past the end of another log, as DeleteRecords and retention leave it: what the other lacks is said (F.5)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.made_cases import case, compared, divergent
from tests.support.made_cases import log as facts_of
from tests.support.scenario import audit, written
from tests.support.scenes import log
from tests.support.snapshots import Replica
from tests.support.step_count import count_steps


@pytest.mark.parametrize(("leader", "other"), [(1, 2), (2, 1)])
@pytest.mark.parametrize("start", [41, 50, 60])
def test_what_a_follower_never_gets_is_said(tmp_path: Path, leader: int, other: int, start: int) -> None:
    brokers = {leader: log(60, 60, log_start=start), other: log(40, 40)}
    answer = audit(tmp_path, brokers, leader=leader, isr=(leader,))
    (row,) = answer.found("REP-LAG", other)
    gone = "offset 40" if start == 41 else f"offsets 40 to {start - 1}"
    assert row["message"].endswith(f"which begins at {start}, so that broker {other} never gets {gone}"), row["message"]
    assert (row["start_offset"], row["end_offset"]) == (40, 60)
    assert answer.found("TRN-FULL", other) and answer.tables["partitions"][0]["lost_records"] == 0


@pytest.mark.parametrize("start", [0, 30, 40])
def test_a_follower_that_reaches_the_log_start_only_lags(tmp_path: Path, start: int) -> None:
    answer = audit(tmp_path, {1: log(60, 60, log_start=start), 2: log(40, 40)}, isr=(1,))
    assert "never gets" not in answer.found("REP-LAG", 2)[0]["message"]


@pytest.mark.parametrize("start", [50, 60])
def test_a_member_of_the_isr_that_ends_below_it_lacks_what_is_committed(tmp_path: Path, start: int) -> None:
    """A log start is at most the high watermark, whatever the checkpoint says."""
    brokers = {1: log(60, 40, log_start=start), 2: log(40, 40)}
    answer = audit(tmp_path, brokers, quiesced=True)
    assert answer.one("REP-ISR-SHORT", 2) == ("high", "likely", 40, start), answer
    assert answer.verdict == "WILL_LOSE_ON_TRUNCATION"


def test_what_was_deleted_since_is_not_called_gone(tmp_path: Path) -> None:
    answer = audit(tmp_path, {1: log(60, 60, log_start=50), 2: log(40, 45)}, isr=(1,), quiesced=True)
    message = answer.found("HWM-CP-ABOVE-LEO", 2)[0]["message"]
    assert "its log ends at 40; the records between have been deleted since: broker 1 begins at 50" in message
    kept = audit(tmp_path / "kept", {1: log(60, 60, log_start=43), 2: log(40, 45)}, isr=(1,), quiesced=True)
    assert "begins at 43" not in kept.found("HWM-CP-ABOVE-LEO", 2)[0]["message"]


@pytest.mark.parametrize(("mark", "told"), [(48, False), (50, False), (53, True)])
def test_a_checkpoint_below_its_own_log_start_shows_no_lost_tail(tmp_path: Path, mark: int, told: bool) -> None:
    """The log lost its end, but nothing of that up to the log start had not been deleted already."""
    brokers = {1: log(45, mark, log_start=50), 2: Replica([], first_base_offset=50, high_watermark=50)}
    answer = audit(tmp_path, brokers, isr=(1,), quiesced=True)
    assert bool(answer.found("HWM-CP-ABOVE-LEO", 1)) is told, answer
    assert (answer.verdict == "COMMITTED_LOSS") is told


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("per_segment", [None, 2])
def test_a_follower_that_was_cut_at_a_log_start_inside_its_batch_has_nothing_missing(
    tmp_path: Path, in_order: bool, per_segment: int | None
) -> None:
    """Offsets 28 and 29 went with its batch 28 to 31, and the leader's log begins at 30 since; no checkpoint says so yet."""
    cut = [*written(18, 28, 2), *written(30, 40, 6)]
    whole = [*written(18, 28, 2), *written(28, 30, 6), *cut[2:]]
    options = {"high_watermark": 30, "epochs": [(6, 30)]}
    brokers = {1: Replica(whole, **options), 2: Replica(cut, per_segment=per_segment, **options)}
    answer = audit(tmp_path / "since", brokers, in_order=in_order)
    assert answer.verdict == "CONSISTENT" and not answer.codes("low"), answer
    options["epochs"] = [(2, 18), (6, 28)]
    brokers = {1: Replica(whole, **options), 2: Replica(cut, per_segment=per_segment, **options)}
    assert audit(tmp_path / "not", brokers, in_order=in_order).verdict != "CONSISTENT"


@pytest.mark.parametrize(("start", "told"), [(30, True), (31, False), (32, True)])
def test_a_log_that_ends_below_its_own_start_was_cut_at_that_where_a_later_epoch_begins(
    tmp_path: Path, start: int, told: bool
) -> None:
    """The batch across offset 31 went whole. From there on the log goes on, as one that was cut at its end does."""
    leader = log(60, 60, ((0, 0), (1, 31)))
    cut = Replica(leader.batches[:30], epochs=(), high_watermark=40, recovery_point=0, log_start=start)
    answer = audit(tmp_path, {1: leader, 2: cut}, isr=(1,), quiesced=True)
    assert bool(answer.found("HWM-CP-ABOVE-LEO", 2)) is told, answer


@pytest.mark.parametrize(
    ("batches", "told"),
    [
        (written(0, 40, 0, "old ", step=5), []),
        # The log was cut where that batch ends, or had it and lost it.
        (written(0, 40, 0, "old ", step=2), ["proven"]),
        # Records of another leader were never in that log.
        (written(0, 40, 1, "old ", step=5), ["likely"]),
        ([], ["likely"]),
        # What lies between the end and that batch is missing, too.
        ([*written(0, 31, 0, "old ", step=31), *written(31, 40, 0, "old ")], ["proven"]),
    ],
    ids=[
        "across the mark",
        "up to the mark",
        "of another epoch",
        "nobody has any",
        "across the mark, from above the end",
    ],
)
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_log_that_was_cut_inside_a_batch_below_a_log_start_is_not_damaged(
    tmp_path: Path, batches: list[bytes], told: list[str], is_clean: bool
) -> None:
    """All of that batch goes, but the log ends at the cut, and its broker writes that as both marks when it stops (A.9). Of a broker that
    was killed, perhaps as it cut its log, the recovery point was damage all the same."""
    leader = Replica(written(32, 60, 5), epochs=((5, 32),), high_watermark=60, first_base_offset=32)
    marks = {"high_watermark": 32, "recovery_point": 32, "clean_shutdown": is_clean}
    brokers = {1: leader, 2: Replica(written(0, 30, 0, "old ", step=5), **marks), 3: Replica(batches)}
    answer = audit(tmp_path, brokers, isr=(1,), quiesced=True)
    for code in ("HWM-CP-ABOVE-LEO", "HWM-RP-ABOVE-LEO"):
        found = answer.found(code, 2)
        assert [one["confidence"] for one in found if one["severity"] != "info"] == (
            told if is_clean else ["likely"] * len(told)
        ), answer
    (tmp_path / "kept").mkdir()
    leader = Replica(written(0, 60, 5), high_watermark=60)
    kept = audit(tmp_path / "kept", brokers | {1: leader}, isr=(1,), quiesced=True)
    assert kept.found("HWM-RP-ABOVE-LEO", 2)[0]["severity"] == "high", kept


def test_twice_the_runs_of_records_are_looked_up_among_twice_the_runs_in_twice_the_steps() -> None:
    def steps(count: int) -> int:
        runs = [divergent()._replace(start_offset=at, end_offset=at + 3) for at in range(0, 5 * count, 5)]
        made = case(facts_of(1, (2, 0)), compared(facts_of(2, (1, 0)), *runs))
        (item,) = made.comparisons
        return count_steps(lambda: [made.why_only_likely(item, run) for run in runs]).total()

    assert 1.5 < steps(400) / steps(200) < 2.3


@pytest.mark.parametrize(
    ("epoch", "tail", "is_missing"),
    [(3, [], True), (0, written(30, 40, 1, "old "), True), (0, written(30, 40, 2), False)],
    ids=["never there", "perhaps never there", "deleted"],
)
def test_a_segment_below_a_log_start_is_missing_where_the_log_is_of_another_history(
    tmp_path: Path, epoch: int, tail: list[bytes], is_missing: bool
) -> None:
    whole = [*written(0, 30, epoch), *tail]
    leader = Replica(written(30, 40, 2), epochs=[(2, 30)], high_watermark=30, first_base_offset=30)
    brokers = {1: leader, 2: Replica([*whole[:2], *whole[4:]], per_segment=2), 3: Replica(whole)}
    found = audit(tmp_path, brokers, isr=(1,)).found("CAP-MISSING-SEGMENT", 2)
    assert [(row["start_offset"], row["end_offset"]) for row in found] == [(10, 20)] * is_missing
