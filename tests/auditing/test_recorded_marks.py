"""Every line of the decision tables of `proven_below` and `recorded_marks`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.made_cases import case, compared, leadership, log

from replica_audit.auditing.compare.comparison import Comparison
from replica_audit.auditing.leadership.high_watermark_bounds import proven_below, recorded_marks
from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
from replica_audit.model import Leadership, OffsetRange
from replica_audit.protocol.election import CleanElections

LEADER = log(1, (0, 0), (2, 20), end=40)
CLEAN = CleanElections(0, ())
UNCLEAN = CleanElections(0, (2,))
#: Ends below the reference, in the epoch that the reference has there, and before that epoch began.
SHORTER = log(2, (0, 0), (2, 20), end=30)
OLDER = log(2, (0, 0), end=20)
LONGER = log(2, (0, 0), (2, 20), end=50)


@pytest.mark.parametrize(
    ("facts", "value", "offset", "as_far_as_clean"),
    [
        pytest.param(LONGER, 30, 30, 30, id="within both logs"),
        pytest.param(LONGER, 45, 40, 20, id="past the reference's end only"),
        pytest.param(SHORTER, 35, 35, 20, id="past its own end, with the reference's records"),
        pytest.param(SHORTER, 45, 40, 20, id="past both ends, with the reference's records"),
        pytest.param(OLDER, 35, 20, 20, id="past its own end, perhaps without them"),
        pytest.param(log(2, end=0, checkpoint_epochs=None), 35, 0, 0, id="past its own end, without a file"),
    ],
)
def test_a_recorded_high_watermark_proves_what_both_logs_had(
    facts: ReplicaFacts, value: int, offset: int, as_far_as_clean: int
) -> None:
    assert proven_below(LEADER, facts, value, CLEAN) == offset
    assert proven_below(LEADER, facts, value, UNCLEAN) == as_far_as_clean


def follower(high_watermark: int, **changes: Any) -> Comparison:
    known = {"common_prefix_end": 40, **changes}
    return compared(log(2, (0, 0), (2, 20), end=40, high_watermark_checkpoint=high_watermark), **known)


@pytest.mark.parametrize(
    ("leader", "item", "said", "counts"),
    [
        pytest.param(LEADER, follower(35), leadership(leader_id=3, leader_epoch=5), False, id="elected since"),
        pytest.param(LEADER, follower(35, stretches=(OffsetRange(30, 40),)), leadership(), False, id="in conflict"),
        pytest.param(LEADER, follower(0, common_prefix_end=None), leadership(), False, id="nothing in common"),
        pytest.param(log(1, end=0), follower(0, common_prefix_end=None), leadership(), True, id="empty reference"),
        pytest.param(LEADER, follower(35), leadership(), True, id="any other"),
    ],
)
def test_a_recorded_high_watermark_counts(
    leader: ReplicaFacts, item: Comparison, said: Leadership, counts: bool
) -> None:
    reference = replace(case(leader, item, said=said).reference, leader_id=said.leader_id)
    found = recorded_marks(reference, (item,), said, cleaner_bound=False, stable=None)
    assert any(one.text.startswith("checkpointed") and "broker 2" in one.text for one in found) is counts
