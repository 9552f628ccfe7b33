"""EPO-*: epoch files against batches, and lineages against the leader's."""

from __future__ import annotations

import pytest
from tests.support.scenario import audit, written
from tests.support.snapshots import Replica

LOG = [*written(0, 20, 0), *written(20, 40, 2)]


def _one(tmp_path, broker: Replica, **options):
    return audit(tmp_path, {1: Replica(LOG), 2: broker}, **options)


@pytest.mark.parametrize("content", [b"0\n3\n0 0\n2 20\n", b"1\n2\n0 0\n2 20\n", b"nonsense", b"0\n1\n-1 0\n"])
def test_a_file_on_which_a_broker_refuses_to_start(tmp_path, content):
    answer = _one(tmp_path, Replica(LOG, replace={"orders-0/leader-epoch-checkpoint": content}))
    assert answer.one("EPO-FILE-CORRUPT", 2)[:2] == ("high", "proven")
    assert answer.verdict == "LATENT_CORRUPTION"
    assert answer.replica(2)["checkpoint_epochs"] is None


def test_an_empty_file_is_wrong_beside_epochs_and_right_beside_an_empty_log(tmp_path):
    assert _one(tmp_path / "wrong", Replica(LOG, epochs=[])).one("EPO-FILE-CORRUPT", 2)[0] == "high"
    right = audit(tmp_path / "right", {1: Replica([], epochs=[(0, 0)]), 2: Replica([], epochs=[])})
    assert right.tables["findings"] == []


def test_an_epoch_of_the_batches_that_the_file_lacks(tmp_path):
    middle = [*LOG, *written(40, 50, 5)]
    brokers = {1: Replica(middle), 2: Replica(middle, epochs=[(0, 0), (5, 40)])}
    answer = audit(tmp_path, brokers)
    assert answer.one("EPO-CACHE-MISSING", 2)[:3] == ("high", "proven", 20)
    assert answer.verdict == "LATENT_CORRUPTION"


@pytest.mark.parametrize(("quiesced", "severity"), [(None, "info"), (True, "high")])
def test_a_file_that_lacks_only_the_newest_epoch_may_have_been_copied_first(tmp_path, quiesced, severity):
    answer = _one(tmp_path, Replica(LOG, epochs=[(0, 0)]), quiesced=quiesced)
    assert answer.one("EPO-CACHE-MISSING", 2)[0] == severity
    assert answer.verdict == ("LATENT_CORRUPTION" if quiesced else "CONSISTENT")


@pytest.mark.parametrize(("quiesced", "severity"), [(None, "info"), (True, "high")])
def test_a_leader_that_wrote_nothing_may_have_been_followed_while_it_was_copied(tmp_path, quiesced, severity):
    """Elected in epoch 1 at 20 as its file was copied; in epoch 2, at the same offset, before its segments were."""
    answer = _one(tmp_path, Replica(LOG, epochs=[(0, 0), (1, 20)]), quiesced=quiesced)
    assert answer.one("EPO-CACHE-MISSING", 2)[0] == severity
    assert answer.verdict == ("LATENT_CORRUPTION" if quiesced else "CONSISTENT")


@pytest.mark.parametrize("epochs", [[(0, 0), (2, 20), (3, 40)], [(0, 0), (2, 20), (5, 40)]])
def test_a_last_epoch_without_records_is_healthy(tmp_path, epochs):
    assert _one(tmp_path, Replica(LOG, epochs=epochs)).tables["findings"] == []


def test_two_epochs_at_one_offset_are_not_what_a_broker_writes(tmp_path):
    assert _one(tmp_path, Replica(LOG, epochs=[(0, 0), (1, 20), (2, 20)])).codes() == {"EPO-NON-MONOTONIC"}


def test_entries_past_the_log_end_are_stale(tmp_path):
    answer = _one(tmp_path, Replica(LOG, epochs=[(0, 0), (2, 20), (6, 999_999)]))
    assert answer.one("EPO-CACHE-STALE", 2)[0] == "info"
    assert answer.verdict == "CONSISTENT"


def test_a_damaged_file_does_not_win_the_inferred_leadership(tmp_path):
    answer = _one(tmp_path, Replica(LOG, epochs=[(0, 0), (2, 20), (6, 999_999)]), source="inferred")
    assert answer.tables["partitions"][0]["reference_id"] == 1
    assert answer.tables["partitions"][0]["leader_epoch"] == 2


def test_a_file_that_goes_back(tmp_path):
    answer = _one(tmp_path, Replica(LOG, epochs=[(0, 0), (2, 20), (1, 30)]))
    assert answer.one("EPO-NON-MONOTONIC", 2)[:3] == ("medium", "proven", 30)


def test_a_file_cut_by_retention_lacks_nothing(tmp_path):
    brokers = {1: Replica(LOG), 2: Replica(LOG[5:], epochs=[(2, 25)], first_base_offset=25)}
    assert audit(tmp_path, brokers).tables["findings"] == []


def test_one_epoch_with_two_starts_inside_both_logs(tmp_path):
    other = [*written(0, 25, 0), *written(25, 40, 2)]
    answer = audit(tmp_path, {1: Replica(LOG), 2: Replica(other)})
    assert answer.one("EPO-START-MISMATCH", 2) == ("high", "proven", 20, 25)
    # The checkpoint 40 lies above the run, where the logs agree again: it proves nothing about it.
    assert answer.runs(2) == [("DIV-HIDDEN", 20, 25, 2, 0, False)]
    assert answer.verdict == "COMMITTED_DIVERGENCE"


def test_the_first_retained_entry_is_no_start(tmp_path):
    brokers = {1: Replica(LOG), 2: Replica(LOG[2:], first_base_offset=10)}
    answer = audit(tmp_path, brokers)
    assert not answer.found("EPO-START-MISMATCH")
    assert answer.tables["findings"] == []


@pytest.mark.parametrize("damaged", [1, 2])
@pytest.mark.parametrize("base", [18, 22, 1020])
def test_a_changed_base_offset_where_an_epoch_begins_is_damage_and_no_other_start(tmp_path, damaged, base):
    moved = [*LOG[:4], base.to_bytes(8, "big") + LOG[4][8:], *LOG[5:]]
    brokers = {1: Replica(LOG), 2: Replica(LOG), damaged: Replica(moved, epochs=[(0, 0), (2, 20)])}
    answer = audit(tmp_path, brokers)
    assert answer.one("LOG-CRC-BLIND", damaged)[2:] == (20, 25)
    assert not answer.found("EPO-START-MISMATCH"), answer
    assert answer.verdict == "LATENT_CORRUPTION"


def test_an_epoch_that_the_leader_never_had(tmp_path):
    in_tail = [*written(0, 20, 0), *written(20, 30, 1)]
    answer = audit(tmp_path / "tail", {1: Replica(LOG), 2: Replica(in_tail, high_watermark=20)}, isr=(1,))
    assert answer.one("EPO-UNKNOWN-TO-LEADER", 2)[0] == "info"
    below = [*written(0, 10, 0), *written(10, 20, 1), *written(20, 40, 2)]
    answer = audit(tmp_path / "below", {1: Replica(LOG), 2: Replica(below)})
    assert answer.one("EPO-UNKNOWN-TO-LEADER", 2)[0] == "medium"
    assert answer.verdict == "COMMITTED_DIVERGENCE"


def test_batches_of_an_epoch_that_leadership_does_not_know(tmp_path):
    """On the leader, leadership is stale where no skew explains it; on a replica that is out of sync nothing follows."""
    answer = _one(tmp_path / "live", Replica(LOG), source="user", leader_epoch=1)
    assert answer.one("EPO-AHEAD-OF-METADATA", 2)[0] == "info"
    assert answer.verdict == "CONSISTENT"
    answer = _one(tmp_path / "at rest", Replica(LOG), source="user", leader_epoch=1, quiesced=True)
    assert answer.one("META-STALE", 1)[0] == "high" and not answer.found("EPO-AHEAD-OF-METADATA"), answer
    assert answer.verdict == "INCONCLUSIVE"
    old = {1: Replica(LOG[:4]), 2: Replica(LOG)}
    for quiesced, severity in ((None, "info"), (True, "medium")):
        answer = audit(tmp_path / f"out {quiesced}", old, source="user", leader_epoch=1, quiesced=quiesced, isr=(1,))
        assert answer.one("EPO-AHEAD-OF-METADATA", 2)[0] == severity, answer
        assert not answer.found("META-STALE"), answer


def test_leadership_older_than_the_leaders_records_hides_no_conflict(tmp_path):
    old = [*written(0, 20, 0), *written(20, 50, 1, "old ")]
    brokers = {1: Replica(LOG, high_watermark=20), 2: Replica(old, high_watermark=45)}
    answer = audit(tmp_path, brokers, isr=(1,), source="user", leader_epoch=1)
    assert answer.runs(2)[-1][:3] == ("DIV-EPOCH", 40, 50), answer
    assert answer.verdict == "COMMITTED_LOSS"


def test_leadership_that_knows_the_epoch_or_none(tmp_path):
    for name, epoch in (("same", 2), ("later", 3), ("none", None)):
        answer = _one(tmp_path / name, Replica(LOG), source="user", leader_epoch=epoch, quiesced=True)
        assert not answer.found("EPO-AHEAD-OF-METADATA")
