"""Tiering of a topic whose configs no source has: known by its traces, or undecided, and the consequences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.made_cases import checkpoint_file, directory, segment
from tests.support.remote_log import TIERED, WHOLE, leader, with_remote
from tests.support.scenario import Answer, audit, written
from tests.support.snapshots import TOPIC, Replica

from replica_audit.auditing.evidence import PartitionEvidence
from replica_audit.config import Settings
from replica_audit.elect.election_plan import plan_elections
from replica_audit.model import TopicPartition
from replica_audit.runner.in_process import audit_all

SAID: tuple[dict[str, Any], ...] = ({"source": "user", "leader_epoch": 1}, {"source": "inferred"})
#: The log begins at 10, its files at 100; epoch 1 was elected at 60.
MOVED = leader((0, 10), (1, 60), log_start=10)
#: Of the history that epoch 1 left at 60; its own high watermark shows that all of it was committed.
OTHER = Replica(written(0, 80, 0), high_watermark=80)
CHECKPOINT = "log-start-offset-checkpoint"
EPOCHS = "leader-epoch-checkpoint"


def shown(path: Path, leads: Replica, other: Replica = OTHER, *, without: str | None = None, **said: Any) -> Answer:
    """An audit of a snapshot that says nothing of configs and segments; `without` is a file that was not copied."""

    def remove() -> None:
        for found in path.glob(f"broker-1/**/{without}") if without is not None else ():
            found.unlink()

    return audit(path, {1: leads, 2: other}, isr=(1,), before_audit=remove, **(said or SAID[0]))


NOT_COPIED = {"log_start_file": checkpoint_file(1, "log_start_file", "not_given")}
STOPPED = {"clean_shutdown": True, "recovery_point_checkpoint": 120}
EARLIER, ALIKE = ((0, 10), (1, 60)), ((1, 100),)


@pytest.mark.parametrize(
    ("start", "epochs", "epoch", "fields", "tiered"),
    [
        (None, EARLIER, 1, {}, False),
        (None, ALIKE, 1, NOT_COPIED, False),
        (None, EARLIER, 1, NOT_COPIED, None),
        (100, EARLIER, 1, {}, False),
        (10, ALIKE, 1, STOPPED, True),
        (10, ALIKE, 1, {**STOPPED, "index_bases": (60,)}, False),
        (0, EARLIER, 1, {}, True),
        (0, None, -1, {}, True),
        (0, ALIKE, 1, {}, False),
        (10, EARLIER, 1, {}, None),
        (10, None, 1, {}, None),
        (10, None, -1, {}, False),
    ],
)
def test_what_one_copy_shows(
    start: int | None, epochs: tuple | None, epoch: int, fields: dict[str, Any], tiered: bool | None
) -> None:
    """Every line of the table of `_shows_tiering`; the files begin at 100."""
    copy = directory(log_start_checkpoint=start, checkpoint_epochs=epochs, **fields)
    files = (segment(100, 120, (epoch, 100)),)
    assert PartitionEvidence(TopicPartition(TOPIC, 0), ((copy, files),)).tiering is tiered


def lost(answer: Answer) -> list[tuple[int | None, int | None]]:
    return [(row["start_offset"], row["end_offset"]) for row in answer.found("HWM-LOSS")]


@pytest.mark.parametrize(
    ("leads", "without"),
    [
        (replace(MOVED, clean_shutdown=True), None),
        (replace(MOVED, clean_shutdown=True), EPOCHS),
        (replace(MOVED, log_start=0, epochs=((0, 0), (1, 60))), None),
    ],
    ids=["stopped cleanly", "stopped cleanly, without epochs", "a start of 0"],
)
def test_what_shows_a_tiered_topic(tmp_path: Path, leads: Replica, without: str | None) -> None:
    answer = shown(tmp_path, leads, without=without)
    assert answer.replica(1)["log_start_offset"] == leads.log_start and not answer.found("TIER-UNKNOWN")
    assert answer.replica(1)["local_start_offset"] == 100
    if without is None:
        assert lost(answer) == [(60, 80)] and answer.verdict == "COMMITTED_LOSS"


@pytest.mark.parametrize(
    ("leads", "without", "start"),
    [
        (MOVED, None, 10),
        (replace(MOVED, log_start=30), None, 30),
        (MOVED, CHECKPOINT, 10),
        (replace(MOVED, clean_shutdown=True, recovery_point=110), None, 10),
    ],
    ids=["neither", "a start behind that of the epochs", "the checkpoint was not copied", "a flag of after the start"],
)
@pytest.mark.parametrize("said", SAID, ids=["leadership.json", "nothing"])
def test_what_is_of_another_history_below_the_files_is_undecided(
    tmp_path: Path, leads: Replica, without: str | None, start: int, said: dict[str, Any]
) -> None:
    """Tiered, 20 committed records are lost as broker 2 follows; else retention has deleted what replaced them."""
    answer = shown(tmp_path, leads, without=without, **said)
    assert answer.one("TIER-UNKNOWN", 2) == ("high", "suspect", 60, 80), answer
    assert answer.verdict == "INCONCLUSIVE" and not lost(answer)
    (row,) = answer.found("TIER-UNKNOWN")
    assert (
        f"it is not known whether offsets {start} to 99 of the log of broker 1 are in remote storage" in row["message"]
    )
    assert not answer.found("EPO-CACHE-STALE")
    plan = plan_elections(audit_all(str(tmp_path), Settings(topics=(TOPIC,))))
    (copy,) = [step for step in plan.steps if step.action == "copy" and 2 in step.brokers]
    assert "if the leader's log goes on in remote storage" in copy.text
    assert "Losses below offset 100 are not counted" in plan.decisions[0].reason


def test_a_first_segment_that_was_not_copied_is_no_sign_of_it(tmp_path: Path) -> None:
    """Its index shows that the log has it; a start inside it is no start in remote storage."""
    stopped = replace(MOVED, clean_shutdown=True)

    def leave_an_index() -> None:
        (tmp_path / "broker-1" / f"{TOPIC}-0" / f"{10:020}.index").write_bytes(b"")

    answer = audit(tmp_path, {1: stopped, 2: OTHER}, isr=(1,), before_audit=leave_an_index, **SAID[0])
    assert answer.one("TIER-UNKNOWN", 2)[2:] == (60, 80) and answer.found("CAP-MISSING-SEGMENT"), answer
    assert answer.verdict == "INCONCLUSIVE" and not lost(answer)


def test_with_the_configs_it_is_decided(tmp_path: Path) -> None:
    answer = audit(tmp_path / "tiered", {1: MOVED, 2: OTHER}, isr=(1,), configs=TIERED)
    assert lost(answer) == [(60, 80)] and answer.verdict == "COMMITTED_LOSS"
    answer = audit(tmp_path / "off", {1: MOVED, 2: OTHER}, isr=(1,), configs={"remote.storage.enable": "false"})
    assert not lost(answer) and answer.verdict == "LAGGING"
    for found in (tmp_path / "tiered", tmp_path / "off"):
        assert not [row for row in audit_all(str(found), Settings()).findings if row.code == "TIER-UNKNOWN"]


def test_with_the_segments_it_is_decided(tmp_path: Path) -> None:
    answer = with_remote(tmp_path, MOVED, *WHOLE, other=OTHER, **SAID[0])
    assert lost(answer) == [(60, 80)] and not answer.found("TIER-UNKNOWN")


@pytest.mark.parametrize(
    "other",
    [
        MOVED,
        Replica([*written(0, 60, 0), *written(60, 120, 1)], epochs=((0, 0), (1, 60)), high_watermark=120),
        Replica([*written(0, 60, 0), *written(60, 80, 1)], epochs=((0, 0), (1, 60)), high_watermark=80),
    ],
    ids=["as it is", "one with all of it", "one that is behind"],
)
def test_where_nobody_has_another_history_there_it_is_said_and_no_more(tmp_path: Path, other: Replica) -> None:
    answer = shown(tmp_path, MOVED, other)
    assert answer.one("TIER-UNKNOWN") == ("info", "suspect", 10, 100), answer
    assert not lost(answer) and answer.verdict != "INCONCLUSIVE"


@pytest.mark.parametrize(
    "leads",
    [
        Replica(written(100, 120, 1), epochs=((1, 100),), log_start=105, first_base_offset=100),
        Replica(written(100, 120, 1), epochs=((1, 100),), first_base_offset=100),
        Replica(written(100, 120, 1), epochs=((0, 10), (1, 60)), first_base_offset=100),
        Replica(written(100, 120, 1), epochs=((1, 100),), log_start=10, first_base_offset=100),
    ],
    ids=["inside the first file", "retention", "an old epoch file, and no start", "an old start"],
)
def test_what_retention_and_deletions_leave_is_no_sign_of_it(tmp_path: Path, leads: Replica) -> None:
    answer = shown(tmp_path, leads)
    assert not answer.found("TIER-UNKNOWN") and not lost(answer), answer
    assert answer.replica(1)["log_start_offset"] == max(100, leads.log_start or 0)


def test_a_tiered_log_whose_checkpoint_was_not_copied_begins_with_its_epochs(tmp_path: Path) -> None:
    answer = shown(tmp_path, MOVED, without=CHECKPOINT, configs=TIERED)
    assert answer.replica(1)["log_start_offset"] == 10 and lost(answer) == [(60, 80)], answer
