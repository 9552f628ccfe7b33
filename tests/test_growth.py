"""Twice the partitions take twice the steps: counted for every function, in everything that is done with a snapshot.

What C does in one step is not seen here (a search through a list of tuples, say); benchmarks/growing.py measures it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.support.cloned_capture import clone_capture
from tests.support.fixtures import FIXTURES
from tests.support.remote_log import copied, leader, with_remote
from tests.support.remote_stores import plain_path, segment_id, write_listing
from tests.support.snapshots import TOPIC
from tests.support.step_count import Steps, count_steps

from replica_audit.cli.main import main
from replica_audit.config import Settings
from replica_audit.progress import Progress
from replica_audit.report.report_files import write_report
from replica_audit.runner.executor import InProcess
from replica_audit.runner.in_process import audit_all
from replica_audit.runner.ingest import ingest
from replica_audit.runner.ingested_source import audit
from replica_audit.snapshot.remote_log_metadata import COPY_FINISHED, DELETE_FINISHED
from replica_audit.warehouse.delta_tables import Warehouse

#: A capture and a later one of the same cluster: leaders alone in the ISR; transactions whose coordinator is asked. How many
#: copies of every topic there are beside itself: first as many that there are about ten partitions, then twice as many.
PAIRS = [
    ("last-replica-elr-2-cut", "last-replica-elr-3-healed", (1, 3)),
    ("txn-failover-1-unclean", "txn-failover-2-healed", (0, 1)),
]


def _steps(before: Path, after: Path, place: Path) -> Iterator[tuple[str, Steps]]:
    """Operations on the two snapshots, and their steps."""
    plan = place / "plan.json"

    def command(*arguments: object) -> Callable[[], int]:
        return lambda: main([*map(str, arguments), "--quiet"])

    yield "show", count_steps(command("show", before))
    yield "elect", count_steps(command("elect", before, "--plan", plan))
    yield "elect --check", count_steps(command("elect", before, "--check", plan))
    yield "salvage", count_steps(command("salvage", before, "--plan", plan, "--payloads", "--to", place / "salvaged"))
    yield "verify", count_steps(command("verify", before, after, "--plan", plan))
    results = audit_all(str(before), Settings())
    yield "report", count_steps(lambda: write_report(results, str(place / "report"), "high"))
    here, warehouse, silent = InProcess(), Warehouse(str(place / "warehouse")), Progress()
    found: list[str] = []
    yield "ingest", count_steps(lambda: found.append(ingest(here, warehouse, str(before), Settings(), silent)))
    yield "audit", count_steps(lambda: audit(here, warehouse, found[0], Settings(), silent))


@pytest.mark.parametrize(("before", "after", "each"), PAIRS)
def test_twice_the_partitions_take_twice_the_steps(
    before: str, after: str, each: tuple[int, int], tmp_path: Path
) -> None:
    counted = []
    for copies in each:
        place = tmp_path / str(copies)
        for capture in (before, after):
            clone_capture(FIXTURES / capture, place / capture, copies)
        counted.append(dict(_steps(place / before, place / after, place)))
    few, many = counted
    assert few.keys() == many.keys()
    for name in many:
        assert 1.5 < many[name].total() / few[name].total() <= 2.1, name
        grown = {
            where: (few[name][where], steps)
            for where, steps in many[name].items()
            # A search by halves in a few dozen places has some more steps; once for each pair is four times as many.
            if steps > 2.3 * few[name][where] + 70
        }
        assert not grown, (name, grown)


@pytest.mark.parametrize("listed", [None, "2100-01-01T00:00:00Z"])
def test_twice_the_segments_in_remote_storage_take_twice_the_steps(tmp_path: Path, listed: str | None) -> None:
    """Of a third of them the store has no object, a third is larger there, each ninth is contradictory, and the older half deleted."""
    counted = []
    for number in (150, 300):
        place = tmp_path / str(number)
        spans = [(one, one + 1, (0, one if one % 9 else one + 5)) for one in range(number)]
        objects = [(plain_path(segment_id(*span), span[0]), 100 + span[0] % 3) for span in spans if span[0] % 3 != 1]
        segments = [
            copied(
                *span, at=(span[0] + 1, span[0] + 1), state=DELETE_FINISHED if 2 * span[0] < number else COPY_FINISHED
            )
            for span in spans
        ]
        leads = leader((0, 0), start=number, end=number + 20)
        with_remote(place, leads, *segments, then=partial(write_listing, place, *objects, listed=listed))
        counted.append(count_steps(lambda place=place: audit_all(str(place), Settings(topics=(TOPIC,)))))
    few, many = counted
    grown = {where: (few[where], steps) for where, steps in many.items() if steps > 2.6 * few[where] + 50}
    assert not grown, grown
