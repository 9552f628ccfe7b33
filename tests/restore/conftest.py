"""One salvage for the tests of this room: 25 records of orders-0 and 5 of orders-1."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.lost_records import write_lost_records

from replica_audit.restore.salvaged_records import SalvagedRecords


@pytest.fixture(scope="session")
def salvage_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory; nothing in it may be changed."""
    return write_lost_records(tmp_path_factory.mktemp("lost"), {0: 25, 1: 5})


@pytest.fixture
def records(salvage_directory: Path) -> SalvagedRecords:
    return SalvagedRecords(salvage_directory)
