"""A checkpoint past its own log end: when a truncation explains it, and what it proves where none does (F.0, F.5)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support import metadata_log as write
from tests.support.scenario import Answer, audit, written, written_legacy
from tests.support.scenes import FENCE, beside, change, log, scene
from tests.support.snapshots import Replica

UNFENCE = {broker: write.registration_change(broker, -1) for broker in (1, 2, 3)}
AGAIN = {broker: write.register_broker(broker, fenced=True) for broker in (1, 2, 3)}


def is_lost(answer: Answer, broker: int = 1) -> bool:
    return bool(answer.found("HWM-CP-ABOVE-LEO", broker))


# --- a leader does not truncate itself


@pytest.mark.parametrize("per_segment", [None, 40])
@pytest.mark.parametrize("point", [None, 0, 40, 93])
@pytest.mark.parametrize("gone", [True, False])
def test_a_leader_that_always_led_was_never_cut(tmp_path: Path, point: int | None, gone: bool, per_segment) -> None:
    """Whatever its recovery point says, and whether or not it is still up."""
    brokers = {
        1: log(93, 100, recovery_point=point, per_segment=per_segment),
        2: log(100, 100, recovery_point=0),
        3: log(100, 99, recovery_point=0),
    }
    moves = [change(isr=(1,))] + ([*FENCE.values(), change(leader=-1)] if gone else [])
    answer = scene(tmp_path / "order", brokers, *moves, in_order=True)
    # Once it is down, no skew of the copies explains that the others go on past its end.
    assert is_lost(answer) and answer.verdict == ("COMMITTED_LOSS" if gone else "LATENT_CORRUPTION"), answer
    assert "no replica here has" not in answer.found("HWM-CP-ABOVE-LEO")[0]["message"]
    # Its checkpoint may be later than its log, which may be a copy of the time when it was up.
    unordered = scene(tmp_path / "any", brokers, *moves)
    assert unordered.one("HWM-CP-ABOVE-LEO", 1) == ("medium", "suspect", 93, 100)
    assert unordered.verdict == "INCONCLUSIVE", unordered


@pytest.mark.parametrize(
    ("epochs", "moves", "lost"),
    [
        # Elected again, by itself: nobody else led.
        (((0, 0), (2, 93)), (change(leader=-1), change(leader=1)), True),
        (((0, 0), (1, 93)), (change(leader=1),), True),
        # Another one led, from 93 on: it was cut to that, and elected.
        (((0, 0), (2, 93)), (change(leader=2, isr=(2,), recovering=True), change(leader=1, isr=(1, 2))), False),
        # Another one led, from 60 on: a cut would have gone there.
        (((0, 0), (1, 60), (2, 90)), (change(leader=2), change(leader=1)), True),
    ],
)
def test_a_leader_that_followed_another_may_have_been_cut_before(tmp_path: Path, epochs, moves, lost) -> None:
    brokers = {1: log(93, 100, epochs, recovery_point=93), 2: log(93, 93, epochs[:2]), 3: log(100, 99)}
    assert is_lost(scene(tmp_path, brokers, *moves)) is lost


def test_a_leader_of_a_listing_may_have_been_elected_where_its_log_ends(tmp_path: Path) -> None:
    others = {2: log(93, 93, ((0, 0), (3, 93))), 3: log(100, 100)}
    elected = audit(tmp_path / "elected", {1: log(93, 100, ((0, 0), (3, 93)), recovery_point=93), **others}, isr=(1, 2))
    assert not is_lost(elected), elected
    led = audit(tmp_path / "led", {1: log(93, 100, recovery_point=93), 2: log(93, 93), 3: log(100, 100)}, isr=(1,))
    assert is_lost(led), led


@pytest.mark.parametrize(("start", "lost"), [(80, True), (90, True), (93, False), (97, True), (100, True)])
def test_a_follower_is_cut_where_an_epoch_of_its_leader_begins(tmp_path: Path, start: int, lost: bool) -> None:
    later = log(110, 60, ((0, 0), (1, start)))
    brokers = {1: log(93, 100, recovery_point=60), 2: later, 3: later}
    moves = (change(isr=(1, 3)), FENCE[1], change(isr=(3,)), change(leader=2, isr=(2, 3), recovering=True), UNFENCE[1])
    assert is_lost(scene(tmp_path, brokers, *moves, replicas=(1, 2, 3))) is lost


@pytest.mark.parametrize(
    ("moves", "lost"),
    [
        ((FENCE[2], FENCE[3], FENCE[1], change(leader=-1), UNFENCE[1], change(leader=1, isr=(1,))), True),
        ((FENCE[2], FENCE[1], change(leader=-1), UNFENCE[1], change(leader=1, isr=(1,)), FENCE[3]), True),
        ((FENCE[1], change(leader=-1), UNFENCE[1], change(leader=1, isr=(1,)), FENCE[2], FENCE[3]), False),
        ((FENCE[2], FENCE[1], change(leader=-1), UNFENCE[1], change(leader=1, isr=(1,)), AGAIN[2]), False),
    ],
    ids=["both down before", "one down before", "down after", "registered since"],
)
def test_a_broker_that_was_down_before_an_election_was_not_cut_by_its_winner(tmp_path: Path, moves, lost) -> None:
    """Broker 1 lost its end too, and led from there on; the file of broker 2 has nothing of what was lost."""
    brokers = {
        1: log(95, 90, ((0, 0), (2, 90)), recovery_point=90),
        2: log(90, 100, recovery_point=60),
        3: log(90, 100, recovery_point=60),
    }
    answer = scene(tmp_path, brokers, change(isr=(1,)), *moves, configs={"min.insync.replicas": "2"})
    assert is_lost(answer, 2) is lost, answer


@pytest.mark.parametrize(("point", "may_be_cut"), [(40, True), (90, False)])
def test_what_only_one_broker_had_is_gone_though_a_truncation_explains_its_end(
    tmp_path: Path, point: int, may_be_cut: bool
) -> None:
    """Killed as it followed broker 2, which was elected uncleanly: that another leader began there was denied."""
    brokers = {1: log(40, 90, recovery_point=point), 2: log(60, 60, ((0, 0), (2, 40)))}
    moves = (change(isr=(1,)), change(leader=-1), change(leader=2, isr=(2,), recovering=True))
    (found,) = scene(tmp_path, brokers, *moves, replicas=(1, 2), in_order=True).found("HWM-CP-ABOVE-LEO", 1)
    assert "no replica here has the records between" in found["message"]
    (said,) = (one["text"] for one in found["evidence"] if "truncation" in one["text"])
    assert said.partition(": ")[2].startswith("perhaps" if may_be_cut else "no, recovery point 90"), said


def test_where_nothing_is_known_of_an_epoch_it_may_have_cut_anywhere(tmp_path: Path) -> None:
    """Broker 3, which is not here, led epoch 1."""
    brokers = {1: log(93, 100, recovery_point=60), 2: log(110, 60, ((0, 0), (2, 90)))}
    moves = (change(leader=3, isr=(3,), recovering=True), change(leader=2, isr=(2,), recovering=True))
    assert not is_lost(scene(tmp_path, brokers, *moves))


@pytest.mark.parametrize(
    ("epochs", "lost"),
    [
        (((2, 93),), False),
        (((2, 93), (4, 100)), False),
        # Whoever leads in epoch 4 has epoch 2 from 90 on, and cuts broker 1 there.
        (((2, 90), (4, 93)), True),
        (((2, 90),), True),
    ],
)
def test_a_leader_of_a_listing_cuts_a_log_where_the_first_later_epoch_begins(
    tmp_path: Path, epochs: tuple[tuple[int, int], ...], lost: bool
) -> None:
    brokers = {1: log(93, 100, recovery_point=60), 2: log(110, 60, ((0, 0), *epochs)), 3: log(110, 99)}
    answer = audit(tmp_path, brokers, leader=2, isr=(2,), quiesced=True)
    assert is_lost(answer) is lost, answer


@pytest.mark.parametrize(("is_clean", "confidence"), [(False, "likely"), (True, "proven")])
def test_a_mark_past_the_end_proves_what_others_have_where_nothing_cut_that_log(
    tmp_path: Path, is_clean: bool, confidence: str
) -> None:
    """A listing does not show who led meanwhile; a clean stop, which writes new checkpoints, shows that nobody cut the log."""
    brokers = {
        1: log(35, 45, recovery_point=35, clean_shutdown=is_clean),
        2: log(60, 30, ((0, 0), (1, 30))),
        3: log(50, 30),
    }
    answer = audit(tmp_path, brokers, leader=2, isr=(2,), quiesced=True)
    assert answer.one("HWM-LOSS", 3)[1] == confidence, answer


@pytest.mark.parametrize(("end", "confidence"), [(100, "proven"), (99, "likely")])
def test_a_proof_that_is_certain_stands_before_a_lost_tail_that_is_not(
    tmp_path: Path, end: int, confidence: str
) -> None:
    """Broker 3 has what broker 1 has, and its mark within its log, or past the end as that of broker 1."""
    brokers = {
        1: log(93, 100, recovery_point=60),
        2: log(110, 60, ((0, 0), (1, 60))),
        3: log(end, 100, recovery_point=60),
    }
    answer = audit(tmp_path, brokers, leader=2, isr=(2,), quiesced=True)
    assert {answer.one("HWM-LOSS", broker)[1] for broker in (1, 3)} == {confidence}, answer


@pytest.mark.parametrize("between", [2, 3])
def test_a_leader_that_had_begun_below_cut_nothing_above_in_a_later_epoch(tmp_path: Path, between: int) -> None:
    """Broker 2 leads in epoch 3, of which no record is here, as after two restarts, and has epoch 1 from 60 on; it alone, or broker 3
    between. What broker 1 still has from 60 on was committed, if it was not cut."""
    brokers = {1: log(93, 100, recovery_point=60), 2: log(110, 60, ((0, 0), (1, 60))), 3: log(100, 100)}
    moves = [change(leader=2, isr=(2,), recovering=True), change(leader=-1)]
    moves += [change(leader=between, isr=(between,), recovering=True), change(leader=2, isr=(2,), recovering=True)]
    answer = scene(tmp_path, brokers, *moves)
    assert is_lost(answer) is (between == 2)
    alone = scene(tmp_path / "alone", {one: brokers[one] for one in (1, 2)}, *moves, quiesced=True)
    assert (alone.verdict == "COMMITTED_LOSS") is (between == 2), alone


# --- what it proves


def unclean(path: Path, brokers: dict[int, Replica], *, before: tuple = (), **options) -> Answer:
    """Broker 3 was elected uncleanly, after broker 1 had been alone; everybody else is down."""
    moves = (*before, change(isr=(1,)), change(leader=-1), change(leader=3, isr=(3,), recovering=True))
    return scene(path, brokers, *moves, quiesced=True, **options)


def committed(answer: Answer) -> dict[int, int]:
    """By broker, what it holds of committed records that are lost."""
    found = dict.fromkeys((1, 2, 3), 0)
    for row in answer.tables["divergences"]:
        found[row["broker_id"]] += row["committed_records"]
    return found


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
@pytest.mark.parametrize(("end", "checkpoint", "others"), [(93, 100, 100), (92, 97, 100), (93, 100, 95), (91, 98, 98)])
def test_the_records_that_it_had_were_committed_wherever_they_are(
    tmp_path: Path, order, end: int, checkpoint: int, others: int
) -> None:
    loser, holder = order
    leader = 3
    brokers = {
        loser: log(end, checkpoint, recovery_point=60),
        holder: log(others, 70, recovery_point=60),
        leader: log(94, 90, ((0, 0), (2, 90)), recovery_point=60),
    }
    answer = unclean(tmp_path, brokers)
    whole = min(checkpoint, others) - 90
    assert committed(answer) == {loser: end - 90, holder: whole, leader: 0}, answer
    row = answer.tables["partitions"][0]
    assert (row["lost_committed"], row["verdict"]) == (whole, "COMMITTED_LOSS")
    message = answer.found("HWM-CP-ABOVE-LEO", loser)[0]["message"]
    assert ("no replica here has the records" in message) is (others < checkpoint)
    (text,) = {one["message"].partition(": ")[2] for one in answer.found("HWM-LOSS", holder)}
    assert text == (
        f"the high watermark of broker {loser}, which had the same records, reached {checkpoint}, before broker {loser} lost "
        f"its log from {end} on"
    )


@pytest.mark.parametrize("epochs", [((0, 0), (1, 93)), ((0, 0), (1, 95)), ((0, 0), (1, 85), (2, 92))])
def test_the_epoch_file_as_found_tells_of_which_epochs_they_were(tmp_path: Path, epochs) -> None:
    """Entries at or above the log end are of what was lost: records of another epoch there are not proven."""
    old, begins = epochs[0], epochs[-1][1]
    leader = log(
        94, 80, (*epochs[:-1], (len(epochs) + 1, 90)) if begins == 92 else ((0, 0), (3, 90)), recovery_point=60
    )
    before = tuple(change(leader=1) for _ in epochs[1:])
    brokers = {
        1: log(93, 100, epochs, recovery_point=60),
        2: log(100, 70, epochs[:-1] or (old,), recovery_point=60),
        3: leader,
    }
    other = unclean(tmp_path / "other", brokers, before=before)
    assert committed(other) == {1: 3, 2: max(0, begins - 90), 3: 0}, other
    assert "no replica here has the records" in other.found("HWM-CP-ABOVE-LEO", 1)[0]["message"]
    brokers[2] = log(100, 70, epochs, recovery_point=60)
    same = unclean(tmp_path / "same", brokers, before=before)
    assert committed(same) == {1: 3, 2: 10, 3: 0}, same


def test_from_an_unclean_election_on_it_proves_nothing(tmp_path: Path) -> None:
    """The checkpoint may be from before it: what has been appended since is of another lineage."""
    epochs = ((0, 0), (1, 40))
    before = (change(leader=2, isr=(2,), recovering=True), change(isr=(1, 2)))
    brokers = {
        1: log(93, 100, epochs, recovery_point=60),
        2: log(100, 70, epochs, recovery_point=60),
        3: log(94, 30, ((0, 0), (3, 35)), recovery_point=30),
    }
    answer = unclean(tmp_path, brokers, before=before)
    # Below 40 all is of epoch 0; above, the checkpoint of broker 2 itself proves.
    assert committed(answer) == {1: 35, 2: 35, 3: 0}, answer
    brokers[2] = log(100, 30, epochs, recovery_point=60)
    assert committed(unclean(tmp_path / "alone", brokers, before=before)) == {1: 5, 2: 5, 3: 0}


@pytest.mark.parametrize("source", ["topics_describe", "user"])
def test_without_a_history_only_what_was_flushed_and_is_gone_is_beyond_doubt(tmp_path: Path, source: str) -> None:
    brokers = {2: log(100, 70), 3: log(94, 90, ((0, 0), (2, 90)))}
    shared = {"leader": 3, "isr": (3,), "source": source}
    cut = audit(tmp_path / "cut", {1: log(93, 100, recovery_point=93), **brokers}, **shared)
    assert committed(cut) == {1: 0, 2: 0, 3: 0}, cut
    brokers[1] = log(93, 100, recovery_point=95)
    flushed = audit(tmp_path / "flushed", brokers, **shared, in_order=True)
    assert committed(flushed) == {1: 3, 2: 10, 3: 0}, flushed
    # Both checkpoints may be later than the log.
    unordered = audit(tmp_path / "any", brokers, **shared)
    assert committed(unordered) == {1: 0, 2: 0, 3: 0} and unordered.verdict == "INCONCLUSIVE", unordered


def test_the_lost_tail_that_followers_drop_was_committed_in_every_row(tmp_path: Path) -> None:
    brokers = {1: log(93, 100, recovery_point=93), 2: log(100, 100), 3: log(98, 90)}
    answer = audit(tmp_path, brokers, isr=(1, 2, 3), quiesced=True)
    (partition,) = answer.tables["partitions"]
    assert (partition["lost_records"], partition["lost_committed"], partition["committed_dropped"]) == (7, 7, 12), (
        answer
    )
    dropped = {(row["broker_id"], row["protocol"]): row["committed_dropped"] for row in answer.tables["truncations"]}
    assert {broker: dropped[broker, "fetch"] for broker in (2, 3)} == {2: 7, 3: 5}
    of_leader = {row["broker_id"]: row for row in answer.tables["elections"] if row["candidate_id"] == 1}
    assert {broker: of_leader[broker]["committed_dropped"] for broker in (2, 3)} == {2: 7, 3: 5}


# --- nobody leads, by a source that does not say who is down


@pytest.mark.parametrize("said", [{}, {"source": "user", "leader_epoch": 4}, {"source": "user", "leader_epoch": 5}])
@pytest.mark.parametrize("in_order", [True, False])
def test_the_last_in_sync_replica_that_others_go_past_may_have_lost_its_end(
    tmp_path: Path, said: dict, in_order: bool
) -> None:
    """It was called skew, and the partition LAGGING; or, with the epoch in which nobody leads any more, a loss for sure."""
    epochs = ((0, 0), (4, 20))
    brokers = {1: log(24, 24, epochs), 2: log(24, 24, epochs), 3: log(33, 29, epochs)}
    answer = audit(tmp_path, brokers, leader=None, isr=(2,), in_order=in_order, **said)
    assert answer.one("CAP-SKEW", 3)[0] == "medium" and answer.verdict == "INCONCLUSIVE", answer
    (told,) = answer.messages("CAP-SKEW")
    assert "broker 2 is in sync and nobody leads" in told and "or that log lost its end" in told
    assert not answer.found("HWM-LOSS") and answer.interval[1] is None
    # One of several in sync that is ahead is the reference itself.
    assert (
        audit(tmp_path / "two", brokers, leader=None, isr=(2, 3), in_order=in_order, **said).verdict != "INCONCLUSIVE"
    )
    led = audit(tmp_path / "led", brokers, leader=2, isr=(2,), in_order=in_order)
    assert led.one("CAP-SKEW", 3)[0] == "info"


def test_so_it_is_of_one_that_was_stopped(tmp_path: Path) -> None:
    brokers = {1: log(24, 24), 2: log(24, 24), 3: log(33, 29)}
    answer = audit(tmp_path, brokers, leader=None, isr=(2,), kafka_version="4.3.1")
    assert answer.one("CAP-SKEW", 3)[0] == "medium" and answer.verdict == "INCONCLUSIVE", answer
    told = answer.messages("CAP-SKEW")[0]
    assert "broker 2 was down when it was copied: that log lost its end" in told and "again" not in told
    # A listing of before it was stopped.
    assert audit(tmp_path / "led", brokers, isr=(2,), leader=2, kafka_version="4.3.1").verdict == "LAGGING"


@pytest.mark.parametrize("epoch", [3, 4, None])
def test_the_epoch_of_the_state_without_a_leader_cut_nobody(tmp_path: Path, epoch: int | None) -> None:
    """It was taken for one that began where the logs end, so that it explained both checkpoints: CONSISTENT, and nothing was committed."""
    lost = log(60, 80, ((3, 0),), recovery_point=60)
    brokers = {1: log(60, 60, ((3, 0),)), 2: lost, 3: lost}
    answer = audit(tmp_path, brokers, leader=None, isr=(1, 2), source="user", leader_epoch=epoch, in_order=True)
    assert is_lost(answer, 2) and is_lost(answer, 3) and answer.verdict == "LATENT_CORRUPTION", answer
    assert answer.interval == (60, None)


def test_a_later_epoch_without_a_leader_shows_that_another_led_in_between(tmp_path: Path) -> None:
    brokers = {one: log(60, 60, ((3, 0),)) for one in (1, 2, 3)}
    answer = audit(tmp_path, brokers, leader=None, isr=(1, 2), source="user", leader_epoch=5, in_order=True)
    assert answer.interval == (0, 60), answer


def test_a_log_of_before_there_were_epochs_may_have_lost_its_end_where_nobody_leads(tmp_path: Path) -> None:
    """That was skew of a running cluster, though nobody leads: LAGGING."""
    brokers = {one: Replica(written_legacy(0, end), epochs=None, high_watermark=55) for one, end in ((1, 60), (2, 80))}
    answer = audit(tmp_path, brokers, leader=None, isr=(1,), protocol="high-watermark")
    assert answer.verdict == "INCONCLUSIVE", answer
    assert "broker 1 is in sync and nobody leads" in answer.messages("CAP-SKEW")[0]


# --- who leads again, with nobody in between, had all that it led


#: Broker 1 leads alone, is stopped in order, stays eligible (KIP-966), and leads again in epoch 2.
ALONE = (change(isr=(1,)), change(leader=-1, isr=(), elr=(1,)), change(leader=1, isr=(1,), elr=()))
#: Broker 2 leads from offset 30 on, cleanly, and broker 1 follows it before it leads again in epoch 2.
BY_2 = (change(leader=2, isr=(2,)), change(isr=(1, 2)), change(leader=1))


@pytest.mark.parametrize(
    ("moves", "epochs", "lost"), [(ALONE, ((0, 0), (2, 30)), 20), (BY_2, ((0, 0), (1, 30), (2, 35)), 0)]
)
def test_what_a_leader_had_in_its_last_term_and_lacks_now_it_lost(
    tmp_path: Path, moves: tuple, epochs: tuple, lost: int
) -> None:
    """Its log was set aside as it started (KAFKA-16814), or its disk was another: a clean election excludes no loss then."""
    old = written(0, 50, 0, "0 ", step=1)
    brokers = {1: log(40, 30, epochs), 2: log(40, 30, epochs), 3: log(30, 30)}
    answer = scene(tmp_path, brokers, *moves, before_audit=beside(tmp_path, 1, "stray", old), quiesced=True)
    assert answer.rows("partitions")[0]["leader_epoch"] == 2
    assert sum(row["end_offset"] - row["start_offset"] for row in answer.found("DIV-EPOCH", 1)) == lost, answer


@pytest.mark.parametrize("kind", ["killed", "live"])
@pytest.mark.parametrize("apart_ms", [1000, 600_000])
@pytest.mark.parametrize("had", [90, 100])
def test_what_no_copy_has_is_lost_where_nobody_has_led_since_they_were_begun(
    tmp_path: Path, kind: str, apart_ms: int, had: int
) -> None:
    """Broker 1 led alone, went down and lost its end. Broker 3 follows nobody, but may have followed when it was copied."""

    def tell_kinds() -> None:
        (tmp_path / "broker-2" / ".kafka_cleanshutdown").touch()
        file = tmp_path / "manifest.json"
        manifest = json.loads(file.read_text())
        for one, said in zip(manifest["brokers"], ("killed", "stopped", kind), strict=True):
            one["kind"] = said
        file.write_text(json.dumps(manifest))

    brokers = {1: log(70, had), 2: log(90, 90), 3: log(80, 80)}
    moves = (change(isr=(1, 3)), change(isr=(1,)), FENCE[1], change(leader=-1, isr=()))
    answer = scene(tmp_path, brokers, *moves, in_order=True, apart_ms=apart_ms, before_audit=tell_kinds)
    is_gone = had == 100 and (kind == "killed" or apart_ms == 1000)
    (found,) = answer.found("HWM-CP-ABOVE-LEO", 1)
    assert found["severity"] == ("critical" if is_gone else "high")
    assert found["message"].endswith("no replica here has the records from 90 on") is (had == 100)
    (reason,) = {row["reason"] for row in answer.tables["elections"]} - {None}
    known = "nothing" if had == 90 else "nothing that the copies here have"
    assert reason.startswith(f"broker 2 loses {known}; "), reason


@pytest.mark.parametrize("is_there", [True, False])
def test_a_leader_without_a_segment_file_does_not_have_all_that_another_replica_lost(
    tmp_path: Path, is_there: bool
) -> None:
    """It was said to lose nothing. Broker 2 once had everything below 80."""
    brokers = {1: log(90, 60, per_segment=10), 2: log(50, 80, recovery_point=50)}

    def change_files() -> None:
        if not is_there:
            (tmp_path / "broker-1" / "orders-0" / f"{60:020d}.log").unlink()

    answer = audit(tmp_path, brokers, quiesced=True, before_audit=change_files)
    (found,) = answer.found("HWM-CP-ABOVE-LEO", 2)
    assert found["severity"] == "high"
    assert found["message"].endswith("; no replica here has offsets 60 to 69") is not is_there
    (reason,) = {row["reason"] for row in answer.tables["elections"]} - {None}
    known = "nothing" if is_there else "nothing that the copies here have"
    assert reason.startswith(f"broker 1 loses {known}; "), reason
