"""Real partitions that were damaged by hand: the code that fits the damage, on the broker that has it, and no other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.captures import CAPTURES, audit_capture, told, truth
from tests.support.damage import DAMAGE
from tests.support.report_rows import tables_of

from replica_audit.literals import PUT_ASIDE

#: What is worth an `info` only.
NOTED = {"epoch-beyond-log-end": "EPO-CACHE-STALE", "tail-zeros": "LOG-TAIL-ZERO"}

#: Log end that the damaged broker had after a real start of 4.3.1 (full recovery, no other broker up).
RECOVERED = json.loads((Path(__file__).parent / "recovered.json").read_text(encoding="utf-8"))

#: The broker emptied a whole segment, since its index could not be rebuilt (KAFKA-3919); which batches are indexed depends
#: on settings that are not in the files, so `load_log` leaves the log as it is.
UNINDEXABLE = {"corrupted-batch-baseoffset-changed": 114}


def test_every_damaged_capture_has_its_line():
    assert {f"corrupted-{name}" for name in DAMAGE} == {name for name in CAPTURES if name.startswith("corrupted-")}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_gives_the_codes_that_fit_it_and_no_other(damage):
    results = audit_capture(f"corrupted-{damage}")["codecs-1"]
    verdict, codes = DAMAGE[damage]
    found = [row for row in results.rows("findings") if row["severity"] != "info"]
    assert {row["code"] for row in found} == codes, told(results)
    assert results.rows("partitions")[0]["verdict"] == verdict, told(results)
    if damage in NOTED:
        assert NOTED[damage] in {row["code"] for row in results.rows("findings")}


@pytest.mark.parametrize("damage", sorted(set(DAMAGE) - {"same-broker-id"}))
def test_the_undamaged_broker_is_accused_of_nothing(damage):
    capture = f"corrupted-{damage}"
    results, said = audit_capture(capture)["codecs-1"], truth(capture)
    accused = {row["broker_id"] for row in results.rows("findings")} - {None}
    assert accused <= {said["damaged_broker"]}, told(results)
    assert results.rows("partitions")[0]["reference_id"] == said["good_broker"]


@pytest.mark.parametrize("damage", ["flip-crc", "flip-payload", "batch-codec-7", "batch-count-huge"])
def test_damage_that_the_other_replica_can_repair_is_no_divergence(damage):
    tables = tables_of(audit_capture(f"corrupted-{damage}")["codecs-1"])
    assert tables["divergences"] == []
    assert {row["truncate_to"] for row in tables["truncations"] if row["protocol"] != "high-watermark"} == {114}


def test_a_recovery_is_known_for_most_damage():
    assert len(RECOVERED) >= 50
    assert set(RECOVERED) <= set(CAPTURES)
    assert len(set(RECOVERED.values())) >= 5


@pytest.mark.parametrize("capture", RECOVERED)
def test_a_full_recovery_leaves_what_a_real_broker_left(capture):
    copies = audit_capture(capture)["codecs-1"].rows("replicas")
    rows = [row for row in copies if row["role"] not in PUT_ASIDE]
    broker = truth(capture)["damaged_broker"]
    left = UNINDEXABLE.get(capture, RECOVERED[capture])
    assert [row["recovered_log_end_offset"] for row in rows if row["broker_id"] == broker] == [left]
