"""Great Expectations is optional: without it an audit says so in one sentence and goes on, and `quality` ends with 4."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from replica_audit.cli.main import main
from replica_audit.config import Settings
from replica_audit.results import Results
from replica_audit.spark.quality_stage import QualityStage, QualityUnavailable, quality_stage


@pytest.fixture
def without_package(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "great_expectations" else found(name))


def test_without_the_package_there_is_no_stage_and_one_sentence(without_package):
    told: list[str] = []
    with quality_stage(Settings(), told.append) as stage:
        assert stage is None
    assert told == ["great_expectations is not installed where the driver runs: quality is not checked"]


def test_a_package_that_cannot_be_imported_is_told_when_it_is_needed(monkeypatch):
    monkeypatch.setitem(sys.modules, "replica_audit.quality.checkpoint", None)
    monkeypatch.setattr("replica_audit.spark.quality_run.count_segments", lambda *_: {})
    stage = QualityStage(Settings(), print)
    with pytest.raises(QualityUnavailable, match="great_expectations cannot be imported .*: quality is not checked"):
        stage.check(None, Results({"snapshot_id": "s"}))
    stage.close()


def test_the_command_quality_ends_with_an_error(without_package, tmp_path, capsys):
    assert main(["quality", "--warehouse", str(tmp_path / "warehouse"), "--report", str(tmp_path / "report")]) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert "great_expectations is not installed" in line
