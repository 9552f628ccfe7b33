"""Keys of compacted logs compared in bounded memory: a bound that everything passes changes no answer."""

from __future__ import annotations

import tempfile

import numpy as np
import pytest
from tests.property.compaction import History
from tests.support.report_rows import tables_of
from tests.support.scenario import audit
from tests.support.snapshots import Replica

from replica_audit.auditing.compare import compacted
from replica_audit.auditing.compare.compacted import KEYED_DTYPE, SHELVES, KeyState, KeyStore, shelf_of, shelves_of


def _rows(count: int, seed: int = 0) -> np.ndarray:
    dice = np.random.default_rng(seed)
    rows = np.zeros(count, KEYED_DTYPE)
    rows["key"] = dice.integers(0, 1 << 64, count, dtype=np.uint64)
    rows["offset"] = np.arange(count)
    rows["producer_id"], rows["transactional"] = seed, seed % 2
    return rows


def _sorted(rows: np.ndarray) -> list[tuple]:
    return sorted(rows.tolist())


@pytest.mark.parametrize("held", [0, 3_000, 1 << 20])
def test_a_store_has_what_was_added_on_one_shelf_for_each_key(monkeypatch, held):
    monkeypatch.setattr(compacted, "HELD_BYTES", held)
    store, parts = KeyStore(), [_rows(count, seed) for seed, count in enumerate((70, 0, 500, 1))]
    for part in parts:
        store.add(part)
    assert store.is_in_file is (held < 1 << 20)
    shelves = [store.shelf(number) for number in range(SHELVES)]
    assert _sorted(np.concatenate(shelves)) == _sorted(np.concatenate(parts))
    for number, rows in enumerate(shelves):
        assert set(shelf_of(rows["key"]).tolist()) <= {number}
    bounds = [(rows["key"].min(), rows["key"].max()) for rows in shelves if len(rows)]
    assert all(low[1] < high[0] for low, high in zip(bounds, bounds[1:]))
    assert store.producers == {3}
    assert list(shelves_of([store, KeyStore()])) == (list(range(SHELVES)) if store.is_in_file else [None])


def test_states_of_other_keys_add_up():
    one = KeyState(1, 2, 3, 10, 50, (10, 12, 20, 30, 40), 1)
    other = KeyState(10, 0, 5, 5, 20, (5, 11), 0)
    assert one + other == KeyState(11, 2, 8, 5, 50, (5, 10, 11, 12, 20), 1)
    assert KeyState() + one == one


def test_a_bound_that_everything_passes_changes_no_answer(tmp_path, monkeypatch):
    told = files = 0
    real = tempfile.TemporaryFile

    def count_and_open(**named):
        nonlocal files
        files += named.get("prefix") == "replica-audit-keys-"
        return real(**named)

    monkeypatch.setattr(tempfile, "TemporaryFile", count_and_open)
    for seed in range(40):
        history = History(seed)
        brokers = {
            number: Replica([batch.encode() for batch in one.batches], first_base_offset=0, high_watermark=0)
            for number, one in history.replicas.items()
        }
        answers = []
        for held in (1 << 30, 0):
            monkeypatch.setattr(compacted, "HELD_BYTES", held)
            place = tmp_path / f"{seed}-{held}"
            answers.append(audit(place, brokers, leader=history.leader, configs={"cleanup.policy": "compact"}))
        assert tables_of(answers[0]) == tables_of(answers[1]), seed
        told += bool(answers[0].found("DIV-KEY-STATE"))
    assert told > 1
    assert files > 40
