"""A run that ends at any commit or at any time leaves nothing that a later run reads: its tables are those of an undisturbed run,
and what the dead one left can be swept away."""

from __future__ import annotations

import os
import random
import shutil
import time
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

import pytest
from tests.faults.stages import KILLED, die_in_time, run_and_copy, run_stages
from tests.support.fixtures import FIXTURES
from tests.support.stored_rows import stored

from replica_audit.bronze_tables import BRONZE_TABLES
from replica_audit.errors import InputError
from replica_audit.schema import REPORT_TABLES
from replica_audit.warehouse.attempts import finished_attempts, own_rows
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.retention import sweep
from replica_audit.warehouse.table_layout import columns_of

#: Columns that differ from run to run.
_OF_THE_RUN = {"ingest_id", "audit_id", "batch_file", "batch_row", "last_changes", "location"}


def _end(processes: BaseContext, target: Any, *arguments: Any) -> int | None:
    process = processes.Process(target=target, args=arguments)
    process.start()
    process.join(120)
    return process.exitcode


def _answers(warehouse: Warehouse) -> dict[str, list[dict[str, Any]]]:
    """Rows that readers find, i.e. those of finished attempts, in every table."""
    (ingest,) = finished_attempts(warehouse, "ingest")
    audit = finished_attempts(warehouse, "audit")[-1]
    found = {}
    for tables, ids in (
        (BRONZE_TABLES, own_rows(ingest)),
        (set(REPORT_TABLES) - set(BRONZE_TABLES), {"audit_id": audit.audit_id}),
    ):
        for table in sorted(tables):
            names = [column.name for column in columns_of(table) if column.name not in _OF_THE_RUN]
            with suppress(InputError):  # there is no such table
                found[table] = sorted(map(repr, stored(warehouse, table, names, **ids)))
    return found


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A capture whose files nobody else links: tables have when a file was last changed, and a link is a change."""
    return str(shutil.copytree(FIXTURES / "diverged-unclean", tmp_path_factory.mktemp("capture") / "diverged-unclean"))


@pytest.fixture(scope="module")
def undisturbed(snapshot: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    place = tmp_path_factory.mktemp("undisturbed")
    run_stages(snapshot, str(place))
    answers = _answers(Warehouse(str(place)))
    assert answers["findings"] and answers["batches"]
    return answers


def _check(snapshot: str, place: Path, undisturbed: dict[str, list[dict[str, Any]]]) -> None:
    run_stages(snapshot, str(place))
    warehouse = Warehouse(str(place))
    assert _answers(warehouse) == undisturbed
    sweep(warehouse, before=datetime.now(timezone.utc) + timedelta(minutes=1))
    assert _answers(warehouse) == undisturbed
    owners = {row.ingest_id for row in finished_attempts(warehouse, "ingest")}
    for table in BRONZE_TABLES:
        if table in undisturbed:
            assert {row["ingest_id"] for row in stored(warehouse, table, ("ingest_id",))} <= owners, table


@pytest.mark.slow
def test_ended_before_and_after_commits(
    snapshot: str, undisturbed: dict[str, list[dict[str, Any]]], tmp_path: Path
) -> None:
    (tmp_path / "warehouse").mkdir()
    run_and_copy(snapshot, str(tmp_path / "warehouse"), tmp_path / "copies")
    _check(snapshot, tmp_path / "warehouse", undisturbed)
    points = sorted((tmp_path / "copies").iterdir(), key=lambda path: int(path.name.partition("-")[0]))
    assert len(points) > 70
    # Before and after what makes an attempt count; of the others, whose rows nobody may read until then, one in 17, before and
    # after in turns. KILL_POINTS=all tries every one.
    deciding = [path for path in points if path.name.endswith("-audits")]
    assert len(deciding) == 2 * len(("table", "ingest", "audit"))
    others = [path for path in points if path not in deciding]
    for place in points if os.environ.get("KILL_POINTS") == "all" else (*deciding, *others[::17]):
        _check(snapshot, place, undisturbed)


@pytest.mark.slow
def test_killed_at_random_times(
    processes: BaseContext, snapshot: str, undisturbed: dict[str, list[dict[str, Any]]], tmp_path: Path
) -> None:
    began = time.monotonic()
    assert _end(processes, run_stages, snapshot, str(tmp_path / "timed")) == 0
    lasts, chance = time.monotonic() - began, random.Random(20)
    place, killed = tmp_path / "again and again", 0
    for _ in range(12):
        killed += _end(processes, die_in_time, snapshot, str(place), chance.uniform(0.2, 0.9) * lasts) == KILLED
    assert killed
    # Whatever runs were through, the first finished ingest counts, and the last finished audit.
    assert _end(processes, run_stages, snapshot, str(place)) == 0
    assert _answers(Warehouse(str(place))) == undisturbed
