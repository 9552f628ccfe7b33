"""Files that are damaged or of another moment than the log are not said to be damaged, and still are copied before a start."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.scenario import audit, written
from tests.support.snapshots import Replica, write_log_dir

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


@pytest.mark.parametrize(("given", "code"), [((1,), "CAP-MISSING-REPLICA"), ((1, 2), "CAP-MISSING-SEGMENT")])
def test_without_a_plan_the_steps_say_what_to_copy_again(given: tuple[int, ...], code: str, tmp_path: Path) -> None:
    """Nothing says who is assigned: the only step besides copies completes the snapshot."""
    for broker in given:
        write_log_dir(tmp_path / f"broker-{broker}", broker, [Replica(_LOG, per_segment=1, high_watermark=40)])
    for path in sorted((tmp_path / "broker-2" / "orders-0").glob("*.log"))[1:2]:
        path.unlink()
    plan = plan_elections(audit_all(str(tmp_path), Settings()))
    assert [one.procedure for one in plan.decisions] == ["unplanned"]
    assert code in plan.steps[-1].text and {step.action for step in plan.steps} == {"copy", "mend"}
