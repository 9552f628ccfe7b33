"""Plans that elect a coordinator of transactions (docs/semantics.md H22)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.elect.clusters import Part, outline, results_of

from replica_audit.elect.election_plan import plan_elections


def test_a_coordinator_of_transactions_is_elected_once_other_partitions_have_leaders() -> None:
    """4.3.1: a coordinator that came up alone took the partitions of a transaction in PrepareCommit for deleted; it hung, and the 14
    records that its client was told of were never seen."""

    def starts(topic: str, up: Sequence[int] = ()) -> list[tuple[int, ...]]:
        parts = [Part(topic, (1, 2), None, (1,), choice=1), Part("tx", (3,), None, (3,), choice=3, calm=True)]
        results = results_of(parts, "4.3.1", "metadata_log")
        found = replace(results, partitions=[row._replace(lost_records=0) for row in results.partitions])
        plan = plan_elections(found, up=up, stopped_cleanly=())
        first = next(step for step in plan.steps if step.action == "start" and step.brokers == (1,))
        assert any("transactions that were about to end" in one for one in first.before) == topic.startswith("__")
        return [brokers for action, brokers in outline(plan) if action == "start"]

    assert starts("__transaction_state") == [(3,), (1,), (2,)]
    assert starts("orders") == [(1,), (2,), (3,)]
    assert starts("__transaction_state", up=(3,)) == [(1,), (2,)]
