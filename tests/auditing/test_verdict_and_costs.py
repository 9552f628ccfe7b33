"""The verdict is as grave as what keeping the present leader may cost (F.8), on every capture, attack and state of the model."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.exhaustive.states import reachable, walks
from tests.exhaustive.written_snapshots import write_snapshot
from tests.support.captures import SNAPSHOTS, audited, whole
from tests.support.fixtures import ATTACKS
from tests.support.less import rows_of, too_calm, without

#: States of up to three events, every so manieth; what `make test-exhaustive` asks of all states is in tests/exhaustive.
EVERY = 29


@pytest.mark.parametrize("snapshot", SNAPSHOTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_snapshots_verdicts_are_no_calmer_than_its_costs(snapshot: Path) -> None:
    assert list(too_calm(whole(snapshot))) == []


@pytest.mark.parametrize("quiesced", [None, True])
def test_a_states_verdict_is_no_calmer_than_its_costs(tmp_path: Path, quiesced: bool | None) -> None:
    states = [*reachable(3)[::EVERY], *walks(7, 6, 10)]
    assert len(states) > 50
    for number, state in enumerate(states):
        write_snapshot(state, tmp_path / str(number), quiesced=quiesced)
        results = audited(tmp_path / str(number))
        assert results is not None
        assert list(too_calm(results)) == [], state.story


@pytest.mark.parametrize("names", [["zookeeper.json"], ["zookeeper.json", "replication-offset-checkpoint"]])
def test_a_later_leaders_records_outside_the_isr_leave_the_verdict_open(tmp_path: Path, names: list[str]) -> None:
    """The listing says broker 1, which was elected without them: or it is older than the logs."""
    attack = ATTACKS / "10-quiesced-tail-of-later-epoch" / "real-zookeeper"
    part = audited(without(attack, tmp_path / "part", names=names))
    assert part is not None
    (row,) = rows_of(part, "partitions")["pp", 1]
    assert row["verdict"] == "INCONCLUSIVE"
    told = {(one["code"], one["severity"]) for one in rows_of(part, "findings")["pp", 1]}
    assert ("CAP-SKEW", "medium") in told
