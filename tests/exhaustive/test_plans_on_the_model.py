"""Some of the plans that `make test-exhaustive` carries out on the model."""

from __future__ import annotations

import pytest
from tests.exhaustive.plans import KINDS, MOVING, clusters, narrate, try_plans

#: Of each kind, by how many partitions they have at most: more partitions take longer.
COUNTS = {1: 15, 3: 7}


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_that_is_carried_out_loses_nothing_that_it_does_not_name(kind):
    trials = try_plans(clusters(kind, 20, COUNTS[max(KINDS[kind].partitions)]), 20)
    assert not (wrong := [narrate(trial) for trial in trials if trial.wrong]), "\n\n".join(wrong)
    assert any(step.action in MOVING for trial in trials for step in trial.plan.steps)
