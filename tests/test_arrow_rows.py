"""Arrow arrays made of buffers are those that pyarrow makes of the same values, and pandas is not imported for them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import cloudpickle
from tests.support.fixtures import FIXTURES
from tests.support.observations import random_observations
from tests.support.second_hand import write_table
from tests.support.spread import Pickling

from replica_audit.arrow_rows import arrow_to_rows, numbers_to_arrow, rows_to_arrow, value_to_arrow, values_to_arrow
from replica_audit.auditing import detailed_partitions
from replica_audit.config import Settings
from replica_audit.progress import Progress
from replica_audit.report.report_files import write_report
from replica_audit.row_classes import to_dict
from replica_audit.runner.ingest import ingest
from replica_audit.runner.ingested_source import audit
from replica_audit.snapshot.replica_progress import LISTS, PROGRESS_SCHEMA
from replica_audit.text import render_time
from replica_audit.warehouse.delta_tables import Warehouse
from replica_audit.warehouse.left_parts import LeftParts

_TEXT = st.text(st.characters(codec="utf-8"), max_size=5)
_PLAIN: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.string(), _TEXT),
    (pa.bool_(), st.booleans()),
    *(
        (kind, st.integers(-(1 << kind.bit_width - 1), (1 << kind.bit_width - 1) - 1))
        for kind in (pa.int8(), pa.int16())
    ),
    *(
        (kind, st.integers(-(1 << kind.bit_width - 1), (1 << kind.bit_width - 1) - 1))
        for kind in (pa.int32(), pa.int64())
    ),
]


class _Both(NamedTuple):
    a: Any
    b: Any


def _as_dicts(value: Any) -> Any:
    if isinstance(value, _Both):
        return {name: _as_dicts(one) for name, one in value._asdict().items()}
    if isinstance(value, dict):
        return {name: _as_dicts(one) for name, one in value.items()}
    return list(map(_as_dicts, value)) if isinstance(value, list) else value


def _nested(depth: int) -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]]:
    """Types, each with its values."""
    plain = st.sampled_from(_PLAIN)
    if not depth:
        return plain
    inner = _nested(depth - 1)
    lists = inner.map(lambda one: (pa.list_(one[0]), st.lists(st.none() | one[1], max_size=3)))
    maps = inner.map(lambda one: (pa.map_(pa.string(), one[0]), st.dictionaries(_TEXT, st.none() | one[1], max_size=3)))
    structures = st.tuples(inner, inner).map(
        lambda both: (
            pa.struct([("a", both[0][0]), ("b", both[1][0])]),
            st.builds(_Both, st.none() | both[0][1], st.none() | both[1][1]),
        )
    )
    return plain | lists | maps | structures


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_values_of_every_type_are_as_pyarrow_has_them(data: st.DataObject) -> None:
    kind, values = data.draw(_nested(2))
    rows = data.draw(st.lists(st.none() | values, max_size=10))
    found = values_to_arrow(rows, kind)
    found.validate(full=True)
    plain = _as_dicts(rows)
    assert found.equals(pa.array(plain, kind))
    assert [value_to_arrow(row, kind) for row in rows] == [pa.scalar(row, kind) for row in plain]


class _File(NamedTuple):
    state: str
    path: str | None


class _Directory(NamedTuple):
    name: str
    file: _File | None


def test_equal_structs_of_rows_are_one_object() -> None:
    rows = [_Directory(str(n), None if n == 2 else _File("present", "" if n < 4 else None)) for n in range(6)]
    kind = pa.schema([("name", pa.string()), ("file", pa.struct([("state", pa.string()), ("path", pa.string())]))])
    found = list(arrow_to_rows(rows_to_arrow(rows, kind), _Directory))
    assert found == rows
    assert found[0].file is found[1].file is found[3].file
    assert found[4].file is found[5].file


@pytest.mark.parametrize("width", ["?", "i1", "i2", "i4", "i8"])
def test_numbers_are_as_pyarrow_has_them(width: str) -> None:
    rows = np.zeros(20, [("other", "i8"), ("one", width)])
    rows["one"] = np.arange(20) - 7
    for absent in (None, rows["one"] % 3 == 0):
        found = numbers_to_arrow(rows["one"], absent)
        found.validate(full=True)
        assert found.equals(pa.array(rows["one"], mask=absent))


@pytest.mark.parametrize(
    ("value", "kind"),
    [(1.5, pa.int64()), (True, pa.int32()), ("1", pa.int8()), (300, pa.int8()), (1, pa.bool_()), (1, pa.string())],
)
def test_what_a_column_cannot_hold_is_refused(value: Any, kind: pa.DataType) -> None:
    with pytest.raises((TypeError, OverflowError, AttributeError)):
        values_to_arrow([value], kind)


def test_a_scan_task_does_not_import_pandas(tmp_path: Path) -> None:
    """Which takes a worker longer than the task."""
    sample = Path(__file__).parents[1] / "data" / "samples" / "last-replica-standing"
    program = (
        "import sys\n"
        "from replica_audit.snapshot.opening import open_snapshot\n"
        "from replica_audit.runner.scanning import SCANNED_TABLES, scan_task\n"
        "from replica_audit.runner.task_planning import SegmentWork\n"
        f"snapshot, inventory = open_snapshot({str(sample)!r}, (), None)\n"
        "works = [SegmentWork(file) for file in inventory.segments]\n"
        f"places = dict.fromkeys(SCANNED_TABLES, {str(tmp_path)!r})\n"
        "part = scan_task(snapshot, works, places, {'cluster_id': 'c', 'ingest_id': '1'})\n"
        "assert part.files['batches'].row_count and 'pandas' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_an_audit_with_observations_does_not_import_pandas(form: str, tmp_path: Path) -> None:
    """Which takes as long as the rest of `show`."""
    snapshot = shutil.copytree(FIXTURES / "diverged-unclean", tmp_path / "snapshot")
    rows = [row | {"topic": "ledger"} for row in random_observations(0, 1)]
    types = {field.name: field.type for field in PROGRESS_SCHEMA if form != "csv" or field.name not in LISTS}
    if form == "csv":
        texts = {name: " ".join(map(str, rows[0].get(name) or ())) for name in LISTS}
        rows = [{**row, **texts, "time": render_time(row.pop("time_ms"))} for row in rows]
    write_table(snapshot / f"replica_progress.{form}", rows, types)
    program = (
        "import sys\n"
        "from replica_audit.config import Settings\n"
        "from replica_audit.runner.in_process import audit_all\n"
        f"found = audit_all({str(snapshot)!r}, Settings(topics=('ledger',)))\n"
        "assert found.table('high_watermark_timeline') and 'pandas' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class _Keeping(Pickling):
    """Keeps what it would send to a task."""

    def __init__(self, place: Path) -> None:
        super().__init__()
        self._place = place

    def map(self, tasks: Sequence[Any], work: Any, ended: Any = None) -> list[Any]:
        for task in tasks:
            name = f"{len(list(self._place.iterdir()))}.task"
            (self._place / name).write_bytes(cloudpickle.dumps((work, task)))
        return super().map(tasks, work, ended)


def test_no_task_of_an_audit_no_driver_and_no_report_imports_pandas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which takes 0.3 seconds of each worker and of the driver, and 40 MB."""
    for name in ("WHOLE", "DETAILED", "NAMED"):
        monkeypatch.setattr(detailed_partitions, name, 0)
    # Tasks are run again below, one of which reads the part that another left.
    monkeypatch.setattr(LeftParts, "discard", lambda parts: None)
    sample = Path(__file__).parents[1] / "data" / "samples" / "last-replica-standing"
    (tmp_path / "tasks").mkdir()
    place, chosen = str(tmp_path / "warehouse"), Settings(driver_rows=1)
    executor = _Keeping(tmp_path / "tasks")
    ingest(executor, Warehouse(place), str(sample), chosen, Progress())
    write_report(audit(executor, Warehouse(place), None, chosen, Progress()), str(tmp_path / "report"), "high")
    assert len(list((tmp_path / "tasks").iterdir())) == 4, (
        "a scan, the partition, its lines with costs and sums, its decisions"
    )
    program = (
        "import pickle, sys, traceback\n"
        "from pathlib import Path\n"
        "asked = []\n"
        "class Noting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'pandas':\n"
        "            asked.append(''.join(traceback.format_stack()))\n"
        "sys.meta_path.insert(0, Noting())\n"
        f"for path in sorted(Path({str(tmp_path / 'tasks')!r}).iterdir()):\n"
        "    work, task = pickle.loads(path.read_bytes())\n"
        "    assert list(work(task))\n"
        "from replica_audit.auditing import detailed_partitions\n"
        "detailed_partitions.WHOLE = detailed_partitions.DETAILED = detailed_partitions.NAMED = 0\n"
        "from replica_audit.report.report_files import write_report\n"
        "from replica_audit.warehouse.answer_tables import load_results\n"
        "from replica_audit.warehouse.delta_tables import Warehouse\n"
        f"write_report(load_results(Warehouse({place!r}), None, 'high'), {str(tmp_path / 'again')!r}, 'high')\n"
        "from replica_audit.progress import Progress\n"
        "from replica_audit.config import Settings\n"
        "from replica_audit.runner.executor import InProcess\n"
        "from replica_audit.runner.ingest import ingest\n"
        "from replica_audit.runner.ingested_source import audit\n"
        f"ingest(InProcess(), Warehouse({place!r}), {str(sample)!r}, Settings(full=True), Progress())\n"
        f"audit(InProcess(), Warehouse({place!r}), None, Settings(driver_rows=1), Progress())\n"
        "assert not asked, asked[0]\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class _Lists(NamedTuple):
    isr: list[int] | None
    epochs: list[list[int]]
    shares: list[_Both]
    configs: dict[str, str]


def test_equal_lists_and_maps_of_rows_are_one_object() -> None:
    """A driver holds the rows of many partitions: most of them have the same few."""
    rows = [
        _Lists([1, 2], [[0, 0]], [_Both(1, "log")], {"b": "2", "a": "1"}),
        _Lists(None, [], [], {}),
        _Lists([1, 2], [], [_Both(1, "log")], {}),
        _Lists([2, 1], [[0, 0]], [_Both(1, "log"), _Both(1, "log")], {"a": "1", "b": "2"}),
    ]
    pairs = pa.struct([("a", pa.int64()), ("b", pa.string())])
    kinds = [
        pa.list_(pa.int64()),
        pa.list_(pa.list_(pa.int64())),
        pa.list_(pairs),
        pa.map_(pa.string(), pa.string()),
    ]
    table = rows_to_arrow(rows, pa.schema(list(zip(_Lists._fields, kinds, strict=True))))
    # Without its first row the columns begin inside their buffers.
    assert list(arrow_to_rows(table.slice(1), _Lists)) == rows[1:]
    first, second, third, last = found = list(arrow_to_rows(table, _Lists))
    assert found == rows
    assert first.isr is third.isr and first.epochs is last.epochs and second.epochs is third.epochs
    assert first.shares is third.shares and last.shares[0] is last.shares[1]
    assert first.configs is last.configs and second.configs is third.configs
    # What callers get of a row is theirs.
    to_dict(first)["configs"]["a"] = "3"
    assert last.configs == {"a": "1", "b": "2"}
