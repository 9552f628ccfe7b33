"""States audited one after another, each as a snapshot of its own, and what was wrong with the answers."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.exhaustive.partition import BROKERS, State
from tests.exhaustive.truth import Rows, Wrong, wrong_answers
from tests.exhaustive.written_snapshots import TOPIC, write_snapshot
from tests.support.in_memory import in_memory
from tests.support.report_rows import tables_of

from replica_audit.config import Settings
from replica_audit.model import TopicPartition
from replica_audit.runner.in_process import audit_all


class Failure(NamedTuple):
    """A wrong answer, and the state that it was given of."""

    state: State
    quiesced: bool | None
    wrong: Wrong
    verdict: str


class Asked(NamedTuple):
    """Outcome of asking about many states."""

    audits: int
    verdicts: Counter[str]
    wrong: Counter[tuple[str, str]]
    """Audits by question and kind of the wrong answer."""
    nearest: dict[tuple[str, str], Failure]
    """Of each of these the one that the fewest events lead to."""

    def __add__(self, other: Asked) -> Asked:  # type: ignore[override]
        nearest = dict(self.nearest)
        for name, failure in other.nearest.items():
            if name not in nearest or len(failure.state.story) < len(nearest[name].state.story):
                nearest[name] = failure
        return Asked(self.audits + other.audits, self.verdicts + other.verdicts, self.wrong + other.wrong, nearest)


def ask(states: Iterable[tuple[State, bool | None]]) -> Asked:
    """Audit each state; with it stands what the manifest says of the cluster's rest."""
    audits, verdicts, wrong, nearest = 0, Counter[str](), Counter[tuple[str, str]](), {}
    with tempfile.TemporaryDirectory(dir=in_memory()) as root:
        for state, quiesced in states:
            rows = audit(state, Path(root) / "snapshot", quiesced=quiesced)
            verdict = rows["partitions"][0]["verdict"]
            audits += 1
            verdicts[verdict] += 1
            for name, item in {(one.question, one.kind): one for one in wrong_answers(state, rows)}.items():
                wrong[name] += 1
                if name not in nearest or len(state.story) < len(nearest[name].state.story):
                    nearest[name] = Failure(state, quiesced, item, verdict)
    return Asked(audits, verdicts, wrong, nearest)


def audit(state: State, path: Path, *, quiesced: bool | None) -> Rows:
    """The rows of the audit of a state, whose snapshot is at `path` in place of any other there."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    write_snapshot(state, path, quiesced=quiesced)
    return tables_of(audit_all(str(path), Settings(), asked=[TopicPartition(TOPIC, 0)]))


def narrate(failure: Failure) -> str:
    """A failure for people: the answer, the events, and what lies on the disks."""
    state = failure.state
    lines = [
        f"{failure.wrong.question}: {failure.wrong.kind}",
        f"  {failure.verdict}; {failure.wrong.text}",
        f"  min.insync.replicas {state.min_isr}, ELR {'on' if state.elr_on else 'off'}, quiesced {failure.quiesced}",
        *(f"  - {event}" for event in state.story),
        f"  leader {state.leader} epoch {state.epoch} isr {state.isr} elr {state.elr} last known {state.last_known}",
    ]
    for broker in BROKERS:
        one = state.replicas[broker]
        batches = " ".join(f"{batch.base}@{batch.epoch}" for batch in one.batches)
        lines.append(
            f"  broker {broker} {one.status}: batches {batches or 'none'}, epochs {one.epochs}, end {one.end}, "
            f"hw {one.mark}, recovery point {one.recovery_point}, log start {one.start_mark}"
        )
    return "\n".join(lines)
