"""What is not called peace, though no finding of medium or more stands against it."""

from __future__ import annotations

from pathlib import Path

from tests.auditing.scenario import Broker, audit, written

from replica_audit.answering.verdict import build_verdict
from replica_audit.config import Settings
from replica_audit.local.audit import audit_all
from replica_audit.reporting.answers.answer import build_answer


def headline(path: Path, brokers: dict[int, Broker], isr: tuple[int, ...] = (1,)) -> str:
    audit(path, brokers, leader=1, isr=isr)
    found = audit_all(str(path), Settings())
    return build_answer(found, build_verdict(found, "high")).headline


def test_a_checkpoint_past_the_leaders_end_is_no_peace(tmp_path: Path) -> None:
    full = Broker(written(0, 50, 0, step=1), high_watermark=50)
    said = headline(tmp_path / "ahead", {1: Broker([]), 2: full, 3: full})
    assert "All is well" not in said and "Nothing is lost" not in said, said
    assert headline(tmp_path / "level", {1: full, 2: full, 3: full}, (1, 2, 3)).startswith("All is well")
