"""META-UNCLEAN-ELECTION: a made case for each line of the table at `meta._unclean`."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.made_cases import LINEAGE, batch, case, compared, divergent, found, leadership, log

from replica_audit.auditing.compare.divergence_cause import Cause
from replica_audit.auditing.compare.remote_states import OtherHistory, RemoteFacts
from replica_audit.auditing.compare.remote_storage import RemoteOrphan
from replica_audit.auditing.finding import Finding
from replica_audit.auditing.findings import meta
from replica_audit.model import PartitionState
from replica_audit.protocol.election import elections
from replica_audit.snapshot.log_dir_names import deleted_in


def state(number: int, leader_id: int | None, epoch: int, isr: tuple[int, ...]) -> PartitionState:
    """State with brokers 1 and 2."""
    occasion = "changed" if number else "created"
    return PartitionState(
        number, number, occasion, leader_id, epoch, number, isr, (), (), (1, 2), (), (), (), False, {}
    )


#: Broker 1 led alone and went; broker 2 was elected in epoch 2, from offset 20 on.
HISTORY = (state(0, 1, 0, (1, 2)), state(1, 1, 0, (1,)), state(2, None, 1, (1,)), state(3, 2, 2, (2,)))
(ELECTION,) = elections(HISTORY)
LEFT = divergent(
    replica=0, cause=Cause(ELECTION, clean=False, promised_records=None, elections=(ELECTION,)), batches=[batch(30, 39)]
)
#: The log of broker 1 as it was when it went.
AT_THE_END = log(1, (0, 0), end=20, high_watermark_checkpoint=20, clean_shutdown=True, was_down=True)
AS_IT_WAS = compared(AT_THE_END, common_prefix_end=20)
ABOUT_TO_GO = compared(log(1, (0, 0), log_dir=deleted_in("broker-1/orders-0")), LEFT)
ORPHAN = RemoteOrphan(20, 30, 0, ("a segment",))


def elected(*comparisons: Any, fenced: tuple[int, ...] = (1,), **changes: Any) -> Finding:
    """The finding of the election of broker 2, the reference."""
    said = leadership(leader_id=2, isr=(2,), history=HISTORY, fenced=fenced)
    (told,) = found(meta.judge(case(log(2, *LINEAGE), *comparisons, said=said, **changes)), "META-UNCLEAN-ELECTION")
    return told


FOLLOWED = compared(log(1, *LINEAGE), common_prefix_end=40)
STILL = "broker 1 still has 10 records from 30 on (none proven committed); broker 2 has none of them"


@pytest.mark.parametrize(
    ("comparisons", "changes", "severity", "verdict", "told"),
    [
        ([compared(log(1, (0, 0)), LEFT)], {}, "high", "WILL_LOSE_ON_TRUNCATION", STILL),
        ([FOLLOWED], {"beside": (ABOUT_TO_GO,)}, "info", None, "it may have lost more, and these files cannot tell"),
        ([AS_IT_WAS], {}, "info", None, "it lost nothing: broker 1, which led before, has followed nobody"),
        (
            [FOLLOWED],
            {"remote": RemoteFacts(other=OtherHistory((ORPHAN,)))},
            "info",
            None,
            "it lost records: by __remote_log_metadata remote storage still has segments",
        ),
        ([FOLLOWED], {}, "info", None, "it may have lost records, and these files cannot tell"),
    ],
    ids=["to be cut", "about to go", "as it was", "remote storage", "nothing"],
)
def test_what_is_here_of_what_an_unclean_election_left_behind(
    comparisons: list[Any], changes: dict[str, Any], severity: str, verdict: str | None, told: str
) -> None:
    one = elected(*comparisons, **changes)
    assert (one.severity, one.verdict, one.broker_id, one.start_offset) == (severity, verdict, 2, 20)
    assert told in one.message
    assert one.message.startswith("at 1970-01-01T00:00:00.003Z broker 2 took over from broker 1 uncleanly")


@pytest.mark.parametrize(
    ("comparison", "fenced"),
    [
        (AS_IT_WAS, ()),
        (compared(log(1, (0, 0), end=20, high_watermark_checkpoint=30), common_prefix_end=20), (1,)),
        (compared(AT_THE_END, common_prefix_end=10), (1,)),
        (FOLLOWED, (1,)),
    ],
    ids=["up", "end lost", "other records", "followed since"],
)
def test_what_does_not_show_that_nothing_was_lost(comparison: Any, fenced: tuple[int, ...]) -> None:
    assert "it may have lost records" in elected(comparison, fenced=fenced).message


def test_a_clean_election_has_no_finding() -> None:
    history = (state(0, 1, 0, (1, 2)), state(1, 2, 2, (2,)))
    made = case(log(2, *LINEAGE), FOLLOWED, said=leadership(leader_id=2, isr=(2,), history=history))
    assert not found(meta.judge(made), "META-UNCLEAN-ELECTION")
