"""Which replica is the reference: every line of the table of `choose_reference`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.histories import history
from tests.support.made_cases import case, leadership, log
from tests.support.scenario import Answer, audit, written
from tests.support.scenes import change, scene
from tests.support.snapshots import Replica

from replica_audit.auditing.replicas.reference import choose_reference

LONG, SHORT = Replica(written(0, 60, 0)), Replica(written(0, 50, 0))
LATER = Replica([*written(0, 40, 0), *written(40, 45, 2, "later ")])
#: By the line of the table: brokers, and what says who leads.
LINES = {
    "its copies": ({1: SHORT, 2: LONG}, {"leader": 1}),
    "those that know a later epoch": (
        {1: LATER, 2: LONG},
        {"source": "user", "leader": 2, "leader_epoch": 0, "isr": (1, 2)},
    ),
    "these": ({1: SHORT, 2: LONG}, {"leader": 9, "isr": (9, 1), "replicas": (1, 2, 9)}),
    "all": ({1: SHORT, 2: LONG, 3: LONG}, {"leader": 9, "isr": (9,), "replicas": (1, 2, 3, 9)}),
}
EXPECTED = {"its copies": 1, "those that know a later epoch": 1, "these": 1, "all": 2}


def reference(answer: Answer) -> int:
    return answer.tables["partitions"][0]["reference_id"]


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_the_table(tmp_path: Path, line: str) -> None:
    brokers, options = LINES[line]
    assert reference(audit(tmp_path, brokers, **options)) == EXPECTED[line]


@pytest.mark.parametrize(("isr", "found"), [((1, 2), 1), ((2,), 2)], ids=["could lead again", "left the ISR"])
def test_where_nobody_leads_the_last_leader_counts_if_it_could_lead_again(
    tmp_path: Path, isr: tuple[int, ...], found: int
) -> None:
    answer = scene(tmp_path, {1: SHORT, 2: LONG}, change(leader=-1, isr=isr), replicas=(1, 2))
    assert reference(answer) == found


def test_of_equal_ones_the_greatest_epoch_wins_then_the_end_then_the_lowest_id(tmp_path: Path) -> None:
    nobody = {"source": "inferred"}
    assert reference(audit(tmp_path / "epoch", {1: LONG, 2: LATER}, **nobody)) == 2
    assert reference(audit(tmp_path / "end", {1: SHORT, 2: LONG}, **nobody)) == 2
    assert reference(audit(tmp_path / "id", {1: LONG, 2: LONG}, **nobody)) == 1


def test_the_table_has_the_lines_that_are_tried() -> None:
    assert choose_reference.__doc__ is not None
    lines = [line.split("|")[2].strip() for line in choose_reference.__doc__.splitlines() if line.lstrip()[:1] == "|"]
    assert lines[2:] == ["its copies", "those that know a later epoch", "its copies", "these", "all"]


@pytest.mark.parametrize("is_unclean", [True, False])
def test_elections_since_the_log_count_though_its_epoch_file_is_later(is_unclean: bool) -> None:
    """The file has the epoch in which its broker leads again; what the log lacks may have been left behind before that."""
    terms = history({"leader_id": 2, "recovering": is_unclean}, {"leader_id": 1, "recovering": False})
    early = log(1, (0, 0), end=20, checkpoint_epochs=((0, 0), (1, 15), (2, 18)))
    made = case(early, said=leadership(), history=terms, predates=True)
    assert made.reference.may_lack_others is is_unclean
