"""What an audit reads of records, beyond the headers of their batches."""

from __future__ import annotations

import pytest

from replica_audit.auditing.compare.record_comparison import RecordComparison


def note_reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, bool]]:
    """A list that gets (broker, base offset, only some keys) of every batch whose records are read."""
    found: list[tuple[int, int, bool]] = []
    rows = RecordComparison.rows

    def noted(self, facts, batches, keys=None):
        batches = list(batches)
        found.extend((facts.broker_id, batch.base_offset, keys is not None) for batch in batches)
        return rows(self, facts, batches, keys)

    monkeypatch.setattr(RecordComparison, "rows", noted)
    return found
