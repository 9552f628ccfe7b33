"""LOG-* and CAP-MISSING-SEGMENT: the damage that raises each, and the nearest thing that does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.encoder import encode_batch, flip
from tests.support.scenario import audit, written
from tests.support.snapshots import Replica

WHOLE = written(0, 30, 0)


def _one(tmp_path, broker: Replica, **options):
    return audit(tmp_path, {1: Replica(WHOLE), 2: broker}, **options)


def test_intact_logs_have_no_finding_at_all(tmp_path):
    answer = _one(tmp_path, Replica(WHOLE, per_segment=2))
    assert answer.tables["findings"] == []
    assert answer.verdict == "CONSISTENT"


def test_a_flipped_byte_in_the_middle_names_what_a_restart_would_destroy(tmp_path):
    broker = Replica([*WHOLE[:2], flip(WHOLE[2]), *WHOLE[3:]], recovery_point=0)
    answer = _one(tmp_path, broker)
    assert answer.one("LOG-CORRUPT-MID", 2) == ("high", "proven", 10, 15)
    assert answer.one("DIV-CORRUPT", 2) == ("high", "proven", 10, 15)
    assert answer.verdict == "LATENT_CORRUPTION"
    (found,) = answer.found("LOG-CORRUPT-MID")
    assert "destroys 15 offsets" in found["message"]
    assert "readable on broker 1" in found["message"]
    assert found["evidence"][0]["position"] == len(WHOLE[0]) + len(WHOLE[1])
    assert (answer.replica(2)["loaded_log_end_offset"], answer.replica(2)["recovered_log_end_offset"]) == (10, 10)
    assert answer.runs(2) == []


@pytest.mark.parametrize("options", [{"clean_shutdown": True, "recovery_point": 0}, {"recovery_point": 20}])
def test_after_a_clean_stop_or_below_the_recovery_point_a_start_does_not_notice(tmp_path, options):
    # Three segments, so that the damaged one lies wholly below the recovery point.
    answer = _one(tmp_path, Replica([*WHOLE[:1], flip(WHOLE[1]), *WHOLE[2:]], per_segment=2, **options))
    (found,) = answer.found("LOG-CORRUPT-MID", 2)
    assert "the next start does not check it" in found["message"]
    assert answer.replica(2)["loaded_log_end_offset"] == 30
    assert answer.replica(2)["recovered_log_end_offset"] == 5


def test_both_sides_damaged_alike_have_nobody_to_repair_from(tmp_path):
    damaged = [*WHOLE[:2], flip(WHOLE[2]), *WHOLE[3:]]
    answer = audit(tmp_path, {1: Replica(damaged), 2: Replica(damaged)})
    assert {row["broker_id"] for row in answer.found("LOG-CORRUPT-MID")} == {1, 2}
    assert not answer.found("DIV-CORRUPT")
    assert all("readable on no other replica here" in row["message"] for row in answer.found("LOG-CORRUPT-MID"))


def test_damage_at_the_end_of_a_segment_is_no_missing_segment(tmp_path):
    answer = _one(tmp_path, Replica([*WHOLE[:2], flip(WHOLE[2]), *WHOLE[3:]], per_segment=3))
    assert answer.one("LOG-CORRUPT-MID", 2)[2:] == (10, 15)
    assert answer.codes() == {"LOG-CORRUPT-MID", "DIV-CORRUPT"}, answer


@pytest.mark.parametrize(
    ("tail", "code", "severity", "after_clean_stop", "verdict"),
    [
        (written(30, 35, 0)[0][:50], "LOG-TAIL-PARTIAL", "low", "medium", "CONSISTENT"),
        (written(30, 35, 0)[0][:5], "LOG-TAIL-PARTIAL", "low", "medium", "CONSISTENT"),
        (bytes(4096), "LOG-TAIL-ZERO", "info", "medium", "CONSISTENT"),
        (bytes(range(1, 200)), "LOG-TAIL-GARBAGE", "medium", "medium", "LATENT_CORRUPTION"),
        (flip(written(30, 35, 0)[0]), "LOG-TAIL-GARBAGE", "medium", "medium", "LATENT_CORRUPTION"),
    ],
    ids=["torn", "torn-in-header", "zeros", "garbage", "bad-checksum"],
)
@pytest.mark.parametrize("clean", [False, True])
def test_bytes_after_the_last_batch(tmp_path, tail, code, severity, after_clean_stop, verdict, clean):
    answer = _one(tmp_path, Replica(WHOLE, tail=tail, clean_shutdown=clean))
    assert answer.one(code, 2)[0] == (after_clean_stop if clean else severity)
    assert {row["code"] for row in answer.tables["findings"]} == {code}, answer
    assert answer.verdict == verdict


def test_a_batch_twice_is_a_duplicate_and_one_that_reaches_back_a_regression(tmp_path):
    twice = _one(tmp_path / "twice", Replica([*WHOLE[:3], WHOLE[2], *WHOLE[3:]]))
    assert twice.one("LOG-OFFSET-DUPLICATE", 2) == ("high", "proven", 10, 15)
    assert twice.verdict == "LATENT_CORRUPTION"
    back = _one(tmp_path / "back", Replica([*WHOLE[:3], *written(12, 17, 0), *WHOLE[4:]]))
    assert back.one("LOG-OFFSET-REGRESSION", 2)[2:] == (12, 17)


def test_a_batch_four_times_is_one_finding_with_the_evidence_of_all(tmp_path):
    answer = _one(tmp_path, Replica([*WHOLE[:3], WHOLE[2], WHOLE[2], WHOLE[2], *WHOLE[3:]]))
    assert answer.codes() == {"LOG-OFFSET-DUPLICATE"}
    (found,) = answer.found("LOG-OFFSET-DUPLICATE", 2)
    positions = [383 + place * len(WHOLE[2]) for place in range(3)]
    assert [evidence["position"] for evidence in found["evidence"]] == positions
    assert found["message"].endswith("(3 times)")


@pytest.mark.parametrize(
    ("protocol", "confidence"), [("fetch", "proven"), ("kip-279", "proven"), ("kip-101", "likely")]
)
def test_a_leader_epoch_below_the_one_before(tmp_path, protocol, confidence):
    """Before KIP-279 a follower could keep what its leader never had, and go on with earlier epochs."""
    batches = [*written(0, 10, 0), *written(10, 20, 3), *written(20, 30, 1)]
    answer = audit(tmp_path, {1: Replica(batches), 2: Replica(batches)}, protocol=protocol, in_order=True)
    told = {(row["broker_id"], row["confidence"]) for row in answer.found("LOG-EPOCH-REGRESSION")}
    assert told == {(1, confidence), (2, confidence)}
    assert answer.verdict == "LATENT_CORRUPTION"


def test_a_gap_on_both_sides_is_a_gap_and_no_divergence(tmp_path):
    holed = [*WHOLE[:2], *WHOLE[3:]]
    answer = audit(tmp_path, {1: Replica(holed), 2: Replica(holed)})
    assert answer.one("LOG-GAP", 2) == ("medium", "proven", 10, 15)
    assert answer.runs(2) == []


def test_a_gap_on_both_sides_between_two_segments_is_no_missing_file(tmp_path):
    """It was CAP-MISSING-SEGMENT, each said to have records there by the other."""
    holed = Replica([*WHOLE[:2], *WHOLE[3:]], per_segment=2)
    answer = audit(tmp_path, {1: holed, 2: holed})
    assert {row["broker_id"] for row in answer.found("LOG-GAP")} == {1, 2}, answer
    assert not answer.found("CAP-MISSING-SEGMENT")
    partly = audit(tmp_path / "partly", {1: holed, 2: replace(holed, batches=[*WHOLE[:2], *written(13, 25, 0)])})
    assert partly.one("CAP-MISSING-SEGMENT", 1)[2:] == (10, 15)
    assert partly.one("LOG-GAP", 2)[2:] == (10, 13)


@pytest.mark.parametrize(("cleaned_to", "severity"), [(20, "info"), (5, "medium")])
def test_a_gap_is_compaction_only_below_the_cleaner_checkpoint(tmp_path, cleaned_to, severity):
    holed = [*WHOLE[:2], *WHOLE[3:]]
    brokers = {1: Replica(holed, cleaned_to=cleaned_to), 2: Replica(holed, clean_shutdown=True)}
    answer = audit(tmp_path, brokers, configs={"cleanup.policy": "compact"}, in_order=True)
    assert answer.one("LOG-GAP", 1)[0] == severity


def test_a_gap_alone_is_no_evidence_of_compaction(tmp_path):
    answer = _one(tmp_path, Replica([*WHOLE[:2], *WHOLE[3:]]))
    assert answer.replica(2)["compacted"] is False
    assert answer.one("LOG-GAP", 2)[0] == "medium"
    assert answer.one("DIV-HIDDEN", 2) == ("critical", "proven", 10, 15)


def test_a_log_start_inside_a_batch_and_one_above_segments_are_no_gaps(tmp_path):
    answer = audit(tmp_path, {1: Replica(WHOLE, log_start=13, per_segment=2), 2: Replica(WHOLE[2:], log_start=13)})
    assert answer.tables["findings"] == []


def test_a_first_batch_below_the_name_of_its_file(tmp_path):
    answer = _one(tmp_path, Replica(WHOLE, first_base_offset=4))
    assert answer.one("LOG-SEGMENT-NAME", 2)[0] == "medium"


def test_counts_that_cannot_be(tmp_path):
    odd = encode_batch(10, 5, 0, mark="10 ", record_count=9)
    answer = _one(tmp_path, Replica([*WHOLE[:2], odd, *WHOLE[3:]]))
    assert answer.one("LOG-FIELD", 2)[:3] == ("medium", "proven", 10)


def test_a_producers_sequence_twice_and_a_sequence_that_goes_on(tmp_path):
    def logged(second: int) -> list[bytes]:
        shared = {"producer_id": 9, "producer_epoch": 0}
        first = encode_batch(0, 5, 0, base_sequence=0, mark="a", **shared)
        return [first, encode_batch(5, 5, 0, base_sequence=second, mark="b", **shared)]

    twice = audit(tmp_path / "twice", {1: Replica(logged(0)), 2: Replica(logged(0))})
    assert twice.one("LOG-PRODUCER-DUPLICATE", 2)[0] == "medium"
    assert twice.verdict == "CONSISTENT"
    assert audit(tmp_path / "once", {1: Replica(logged(5)), 2: Replica(logged(5))}).rows("findings") == []


@pytest.mark.parametrize(("topic", "told"), [("__consumer_offsets", set()), ("orders", {1, 2})])
def test_offsets_that_are_committed_in_transactions_all_have_sequence_0(tmp_path, topic, told):
    """The group coordinator gives each commit of a transactional producer sequence 0, and its appends are not checked."""
    shared = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    log = [encode_batch(base, 1, 0, mark=f"{base} ", **shared) for base in range(3)]
    answer = audit(tmp_path, {1: Replica(log), 2: Replica(log)}, topic=topic)
    assert {row["broker_id"] for row in answer.found("LOG-PRODUCER-DUPLICATE")} == told, answer


@pytest.mark.parametrize(("deleted", "told"), [(10, set()), (12, set()), (9, {1, 2}), (5, {1, 2})])
def test_a_producer_that_began_anew_after_its_records_were_deleted(tmp_path, deleted, told):
    """Up to 2.4 UNKNOWN_PRODUCER_ID made it count from 0 under the same id and epoch; retention of broker 2 runs later."""

    def logged(*sequences: int) -> list[bytes]:
        numbered = zip(range(0, 5 * len(sequences), 5), sequences, strict=True)
        shared = {"producer_id": 9, "producer_epoch": 0}
        return [
            encode_batch(base, 5, 0, base_sequence=sequence, mark=f"{base} ", **shared) for base, sequence in numbered
        ]

    log = logged(0, 5, 0, 5, 10)
    leader = Replica(log[deleted // 5 :], log_start=deleted, epochs=[(0, deleted)])
    answer = audit(tmp_path / "anew", {1: leader, 2: Replica(log)})
    assert {row["broker_id"] for row in answer.found("LOG-PRODUCER-DUPLICATE")} == told, answer
    twice = logged(0, 5, 0, 5, 5)
    answer = audit(tmp_path / "twice", {1: Replica(twice[2:], log_start=10), 2: Replica(twice)})
    assert {row["broker_id"] for row in answer.found("LOG-PRODUCER-DUPLICATE")} == {1, 2}, (
        "a sequence inside the new count"
    )


@pytest.mark.parametrize(
    ("begins", "quiesced", "told"),
    [(10, None, set()), (0, None, {1, 2}), (10, True, {1, 2})],
    ids=["copied later", "whole", "at rest"],
)
def test_a_producer_that_began_anew_where_the_log_start_moved_while_it_was_copied(tmp_path, begins, quiesced, told):
    """The epoch file is cut there before log-start-offset-checkpoint is written."""
    shared = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0}
    old, new = (encode_batch(base, 5, epoch, mark=f"{base} ", **shared) for base, epoch in ((5, 0), (10, 2)))
    log = [*written(0, 5, 0), old, new]
    epochs = [(2, 10)] if begins else [(0, 0), (2, 10)]
    answer = audit(tmp_path, dict.fromkeys((1, 2), Replica(log, epochs=epochs)), quiesced=quiesced)
    assert {row["broker_id"] for row in answer.found("LOG-PRODUCER-DUPLICATE")} == told, answer


@pytest.mark.parametrize("kept", [0, 2])
def test_a_log_file_that_is_not_there_leaves_the_answer_open(tmp_path, kept):
    gone = f"{kept * 5:020d}.log"
    answer = _one(tmp_path, Replica(WHOLE, per_segment=2, remove=[gone]))
    assert answer.one("CAP-MISSING-SEGMENT", 2)[2:] == (kept * 5, kept * 5 + 10)
    assert answer.verdict == "INCONCLUSIVE"
    assert answer.runs(2) == [], "what is missing from the copy is no divergence"


def test_the_newest_log_file_alone_is_missing(tmp_path):
    answer = _one(
        tmp_path, Replica(WHOLE, high_watermark=15, recovery_point=0, per_segment=2, remove=[f"{20:020d}.log"])
    )
    assert answer.one("CAP-MISSING-SEGMENT", 2)[2:] == (20, None)
    assert answer.verdict == "INCONCLUSIVE"


@pytest.mark.parametrize("broker", [1, 2])
def test_a_magic_byte_that_only_one_side_has(tmp_path, broker):
    odd = WHOLE[2][:16] + b"\x09" + WHOLE[2][17:]
    brokers = {1: Replica(WHOLE), 2: Replica(WHOLE)}
    brokers[broker] = Replica([*WHOLE[:2], odd, *WHOLE[3:]])
    answer = audit(tmp_path, brokers)
    assert answer.one("LOG-CRC-BLIND", broker)[:3] == ("high", "proven", 10)
    assert answer.runs(2) == []
    assert answer.verdict == "LATENT_CORRUPTION"


def test_a_magic_byte_that_both_sides_have_is_of_a_later_version(tmp_path):
    later = [*WHOLE[:2], WHOLE[2][:16] + b"\x03" + WHOLE[2][17:], *WHOLE[3:]]
    answer = audit(tmp_path, {1: Replica(later), 2: Replica(later)})
    assert answer.codes() == {"LOG-FIELD"}


def test_a_header_field_outside_the_checksum_that_was_changed(tmp_path):
    changed = WHOLE[2][: 8 + 4] + (7).to_bytes(4, "big") + WHOLE[2][16:]
    answer = _one(tmp_path, Replica([*WHOLE[:2], changed, *WHOLE[3:]]))
    assert answer.one("LOG-CRC-BLIND", 2)[:3] == ("high", "proven", 10)
    assert answer.runs(2) == []


def test_a_retry_with_equal_bytes_after_a_fail_over_is_a_divergence_and_not_a_changed_header(tmp_path):
    retried = b"".join([WHOLE[3][:12], (1).to_bytes(4, "big"), WHOLE[3][16:]])
    answer = audit(
        tmp_path,
        {1: Replica([*WHOLE[:3], retried], high_watermark=15), 2: Replica(WHOLE[:4], high_watermark=15)},
        isr=(1,),
    )
    assert not answer.found("LOG-CRC-BLIND"), answer
    assert answer.runs(2) == [("DIV-EPOCH", 15, 20, 1, 0, False)]


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("end", [35, 40, 45], ids=["a gap", "no gap", "an overlap"])
def test_segments_of_an_older_copy_over_which_this_one_was_made_are_not_proven_damage(tmp_path, end, in_order):
    """The broker cut its log at 30 and removed the segment of 40; who copied it before still has that."""
    shared, old = written(0, 30, 0), b"".join(written(40, 60, 0))
    left = Replica(
        [*shared, *written(30, end, 2, "new ")],
        per_segment=100,
        high_watermark=30,
        replace={f"orders-0/{40:020d}.log": old},
    )
    answer = audit(tmp_path, {1: Replica([*shared, *written(30, 60, 2, "new ")]), 2: left}, in_order=in_order)
    for code in ("LOG-EPOCH-REGRESSION", "DIV-HIDDEN", "TRN-REPLAY-GAP"):
        assert answer.one(code, 2)[1] == ("proven" if in_order else "likely"), answer
        (message,) = answer.messages(code)
        assert ("into an empty one" in message) is not in_order
