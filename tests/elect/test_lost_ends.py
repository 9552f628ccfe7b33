"""What a choice loses where nothing shows how far the log of a broker that was killed had come."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support import metadata_log as write
from tests.support.new_disks import BEHIND
from tests.support.scenario import written
from tests.support.snapshots import TOPIC, TOPIC_ID, Replica, write_snapshot

from replica_audit.config import Settings
from replica_audit.elect.election_plan import plan_elections
from replica_audit.runner.in_process import audit_all


@pytest.mark.parametrize("damage", [None, "0\n3\norders 0 ", ""])
def test_of_a_broker_that_was_killed_without_a_checkpoint_not_all_is_known(tmp_path: Path, damage: str | None) -> None:
    """4.3.1: alone in sync it was killed, and lost three acknowledged records and its checkpoint; the plan said that it loses nothing."""
    begin = (
        write.topic(TOPIC, TOPIC_ID),
        *(write.register_broker(one) for one in (1, 2, 3)),
        write.partition(TOPIC_ID, (1, 2, 3), 1),
    )
    gone = [write.change(TOPIC_ID, isr=(1,)), write.change(TOPIC_ID, leader=-1)]
    gone += [write.registration_change(one, 1) for one in (1, 2, 3)]
    logs = {1: Replica(written(0, 20, 0), high_watermark=20), 2: BEHIND, 3: BEHIND}
    write_snapshot(tmp_path, logs, metadata={100: write.history(begin, gone)})
    if damage is not None:
        (tmp_path / "broker-1" / "replication-offset-checkpoint").write_text(damage)
    (decision,) = plan_elections(audit_all(str(tmp_path), Settings())).decisions
    told = "broker 1 loses nothing that the copies here have" in decision.reason
    assert decision.candidate_id == 1 and told is (damage is not None), decision.reason
