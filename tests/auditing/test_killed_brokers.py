"""A broker that was killed recovers its log before it follows: what that cuts is part of where its log ends then."""

from __future__ import annotations

import pytest
from tests.support.encoder import flip
from tests.support.scenario import audit, written
from tests.support.snapshots import Replica, write_manifest

from replica_audit.literals import PROTOCOLS

LOG = written(0, 80, 0)


def _rotten(at: int, log=LOG) -> list[bytes]:
    """`log` with a changed byte in the records of the batch at offset `at`."""
    return [batch if int.from_bytes(batch[:8], "big") != at else flip(batch) for batch in log]


def _audit(path, brokers, kinds, **options):
    write_manifest(path, kinds, quiesced=True)
    return audit(path, brokers, **options)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("per_segment", [None, 4])
def test_recovery_cuts_at_the_first_bad_batch_above_the_recovery_point(tmp_path, protocol, per_segment):
    brokers = {1: Replica(LOG), 2: Replica(_rotten(50), recovery_point=40, per_segment=per_segment)}
    answer = _audit(tmp_path, brokers, {1: "live", 2: "killed"}, isr=(1,), protocol=protocol)
    row = answer.cut(2, protocol)
    assert (row["truncate_to"], row["reason"], row["dropped_records"]) == (50, "recovery", 30), answer
    found = answer.one("TRN-OVER-TRUNCATE", 2)
    assert found == ("low", "proven", 50, 80)
    assert answer.replica(2)["log_end_offset"] == 80 and answer.replica(2)["common_prefix_end"] == 80
    assert answer.interval == (80, 80)
    assert answer.verdict == "LATENT_CORRUPTION"


@pytest.mark.parametrize(
    ("kind", "broker"),
    [
        ("live", {"recovery_point": 40}),
        ("stopped", {"recovery_point": 40, "clean_shutdown": True}),
        ("killed", {"recovery_point": 70, "per_segment": 4}),
        ("killed", {"recovery_point": 40, "clean_shutdown": True}),
    ],
)
def test_nothing_is_cut_where_no_recovery_looks(tmp_path, kind, broker):
    """A broker that runs, that was stopped cleanly, or whose bad batch lies in a segment below the recovery point."""
    answer = _audit(tmp_path, {1: Replica(LOG), 2: Replica(_rotten(50), **broker)}, {1: "live", 2: kind})
    assert (answer.cut(2)["truncate_to"], answer.cut(2)["reason"]) == (80, "none"), answer


def test_a_torn_tail_goes_too_and_the_protocol_cuts_further_where_the_logs_part(tmp_path):
    old = [*written(0, 60, 0), *written(60, 80, 0, "old ")]
    brokers = {
        1: Replica([*written(0, 60, 0), *written(60, 70, 2)]),
        2: Replica(_rotten(75, old), recovery_point=0, high_watermark=60),
        3: Replica(_rotten(55, old), recovery_point=0, high_watermark=55),
    }
    answer = _audit(tmp_path, brokers, dict.fromkeys(brokers, "killed"), isr=(1,))
    assert (answer.cut(2)["truncate_to"], answer.cut(2)["reason"]) == (60, "epoch_match"), answer
    assert (answer.cut(3)["truncate_to"], answer.cut(3)["reason"]) == (55, "recovery"), answer
    assert answer.cut(3)["dropped_records"] == 25


def test_the_reference_is_taken_as_found(tmp_path):
    brokers = {1: Replica(_rotten(50), recovery_point=0), 2: Replica(LOG)}
    answer = _audit(tmp_path, brokers, {1: "killed", 2: "killed"})
    assert answer.cut(2)["truncate_to"] == 80, answer
