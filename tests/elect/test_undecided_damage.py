"""Files that are damaged or of another moment than the log are not said to be damaged, and still are copied before a start."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.scenario import audit, written
from tests.support.snapshots import Replica

from replica_audit.config import Settings
from replica_audit.elect.election_plan import plan_elections
from replica_audit.runner.in_process import audit_all

_LOG = written(0, 40, 0)


@pytest.mark.parametrize(("in_order", "said"), [(False, "may be damaged"), (True, "are damaged")])
@pytest.mark.parametrize("up", [None, (2,)])
def test_an_empty_epoch_file_may_be_of_another_moment(
    in_order: bool, said: str, up: tuple[int, ...] | None, tmp_path: Path
) -> None:
    """Broker 2 has the only log that is whole; where only it is up, the controller elects it by itself."""
    brokers = {1: Replica(written(0, 20, 0), high_watermark=20), 2: Replica(_LOG, epochs=())}
    audit(tmp_path, brokers, leader=1 if up else None, in_order=in_order)
    (decision,) = plan_elections(audit_all(str(tmp_path), Settings(), up=up), up=up).decisions
    assert decision.candidate_id == 2
    assert f"The files of broker 2 {said} (EPO-FILE-CORRUPT): copy them before its next start" in decision.reason
