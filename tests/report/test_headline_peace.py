"""Audits that are not called peaceful although no finding of medium or more stands against it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support import metadata_log as write
from tests.support import scenes
from tests.support.controllers import TOPIC_ID
from tests.support.metadata_log import MetadataLog
from tests.support.report_rows import orders_row, partition, results
from tests.support.scenario import audit, written, written_legacy
from tests.support.snapshots import Replica, write_manifest, write_snapshot
from tests.support.some import some

from replica_audit.config import Settings
from replica_audit.report.answer import build_answer
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.markdown import render_markdown
from replica_audit.report.page.document import render_page
from replica_audit.report.show_text import render_summary
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_all


def headline(path: Path, brokers: dict[int, Replica], isr: tuple[int, ...] = (1,)) -> str:
    audit(path, brokers, leader=1, isr=isr)
    found = audit_all(str(path), Settings())
    return build_answer(found, build_verdict(found, "high")).headline


def test_a_checkpoint_past_the_leaders_end_is_no_peace(tmp_path: Path) -> None:
    full = Replica(written(0, 50, 0, step=1), high_watermark=50)
    said = headline(tmp_path / "ahead", {1: Replica([]), 2: full, 3: full})
    assert "All is well" not in said and "Nothing is lost" not in said, said
    assert headline(tmp_path / "level", {1: full, 2: full, 3: full}, (1, 2, 3)).startswith("All is well")


@pytest.mark.parametrize(
    ("voters", "blank", "told"),
    [
        (
            (100,),
            (100,),
            "Controller 100 has no metadata log to vote with, and without it there is no majority: start no",
        ),
        ((100, 101, 102), (100, 101), "Controllers 100 and 101 have no metadata log to vote with, and without them"),
        ((100, 101, 102), (100,), None),
        ((100,), (), None),
    ],
)
def test_controllers_that_lost_their_disks_are_no_peace(
    voters: tuple[int, ...], blank: tuple[int, ...], told: str | None, tmp_path: Path
) -> None:
    log = write.history(write.new_topic("t", TOPIC_ID, (1, 2), 1), voters=voters)
    copies = {node: MetadataLog({0: b"" if node in blank else log}, voters=voters) for node in (*voters, 1, 2)}
    replica = Replica(written(0, 50, 0), topic="t", topic_id=TOPIC_ID)
    write_snapshot(tmp_path, {1: replica, 2: replica}, metadata=copies, clean=(1, 2))
    found = audit_all(str(tmp_path), Settings())
    answer = build_answer(found, build_verdict(found, "high"))
    assert (answer.tone == "good") is answer.headline.startswith("All is well") is (told is None)
    assert told is None or told in answer.headline


@pytest.mark.parametrize(("kind", "told"), [("live", False), ("image", False), ("killed", True)])
def test_what_a_start_cuts_of_an_old_log_is_told_of_brokers_that_are_down(
    tmp_path: Path, kind: str, *, told: bool
) -> None:
    old = written_legacy(0, 50)
    brokers = {1: Replica(old, epochs=None), 2: Replica(old, epochs=None, high_watermark=40)}
    write_manifest(tmp_path, dict.fromkeys(brokers, kind))
    audit(tmp_path, brokers)
    found = audit_all(str(tmp_path), Settings())
    said = build_answer(found, build_verdict(found, "high")).headline
    assert ("When broker 2 starts, it cuts committed records off its log" in said) == told, said


FULL = Replica(written(0, 50, 0))


def forms(found: Results) -> list[str]:
    """The reports as text in one line each, without markup."""
    verdict = build_verdict(found, "high")
    rendered = render_summary(found), render_markdown(found, verdict), render_page(found, verdict)
    return [" ".join(re.sub(r"<[^>]*>|\\", "", text).split()) for text in rendered]


@pytest.mark.parametrize("copies", [2, 3])
@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("quiesced", [None, True])
@pytest.mark.parametrize("source", ["inferred", "user"])
def test_copies_that_agree_are_no_peace_where_no_source_says_how_many_there_are(
    tmp_path: Path, source: str, quiesced: bool | None, clean: bool, copies: int
) -> None:
    """Neither a manifest nor who leads tells which replicas there are; no alarm either."""
    brokers = {one: Replica(FULL.batches, clean_shutdown=clean) for one in range(1, copies + 1)}
    audit(tmp_path, brokers, source=source, quiesced=quiesced)
    found = audit_all(str(tmp_path), Settings())
    verdict = build_verdict(found, "high")
    assert (verdict["verdict"], verdict["status"], verdict["exit_status"]) == ("CONSISTENT", "OK", 0)
    answer = build_answer(found, verdict)
    assert answer.tone == "warn" and answer.headline.startswith("The captured replicas agree in the only partition.")
    for text in some(forms(found)):
        assert "All is well" not in text and "Nothing is lost" not in text
        assert f"No source says which replicas of orders-0 exist: {copies} copies were compared" in text.replace(
            "\\", ""
        )
    assert all("assignment" not in row["named_by"] for row in found.rows("captures"))


def test_a_listing_that_leaves_a_topic_out_is_peace_for_the_other_only(tmp_path: Path) -> None:
    audit(tmp_path / "a", {1: FULL, 2: FULL}, topic="listed")
    audit(tmp_path / "b", {1: FULL, 2: FULL, 3: FULL}, topic="unlisted", source="inferred")
    audit(tmp_path / "c", {1: FULL, 2: FULL}, topic="unlisted-too", source="inferred")
    both = tmp_path / "both"
    both.mkdir()
    for number in (1, 2, 3):
        for place in ("c", "a", "b"):
            log_dir = tmp_path / place / f"broker-{number}"
            for path in sorted(log_dir.rglob("*")) if log_dir.is_dir() else ():
                target = both / f"broker-{number}" / path.relative_to(log_dir)
                if path.is_file():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(path.read_bytes())
    (both / "kafka-topics-describe.txt").write_bytes((tmp_path / "a" / "kafka-topics-describe.txt").read_bytes())
    for text in some(forms(audit_all(str(both), Settings()))):
        assert "All is well" not in text
        said = "No source says which replicas of unlisted-0 and unlisted-too-0 exist: 2 to 3 copies were compared"
        assert said in text
    audit(tmp_path / "peace", {1: FULL, 2: FULL})
    assert all("All is well" in text for text in forms(audit_all(str(tmp_path / "peace"), Settings())))


#: (states after the first, what was lost, replicas), and whether the last replica in sync may have lost its end in a crash.
RETURNS: tuple[tuple[list[dict], int, tuple[int, ...], bool], ...] = (
    ([{"isr": [1]}, {"leader_id": None}, {"leader_id": 1}], 0, (1, 2, 3), True),
    ([{"leader_id": None, "isr": [2]}, {"leader_id": 2}, {"isr": [2, 1, 3]}], 0, (1, 2, 3), True),
    # Told already, with numbers.
    ([{"isr": [1]}, {"leader_id": None}, {"leader_id": 1}], 7, (1, 2, 3), False),
    ([{"isr": [1]}, {"leader_id": None, "leader_stopped": True}, {"leader_id": 1}], 0, (1, 2, 3), False),
    # Eligible leader replicas were stopped in order (KIP-966).
    ([{"isr": [], "elr": [1], "leader_id": None}, {"leader_id": 1, "isr": [1], "elr": []}], 0, (1, 2, 3), False),
    ([{"isr": [2, 3], "leader_id": 2}], 0, (1, 2, 3), False),
    # Nobody else could have had more, and it is said that there is one replica.
    ([{"leader_id": None, "isr": [1]}, {"leader_id": 1}], 0, (1,), False),
)


@pytest.mark.parametrize(("later", "lost", "replicas", "in_doubt"), RETURNS)
def test_where_the_last_in_sync_replica_may_have_crashed_there_is_no_peace(
    later: list[dict], lost: int, replicas: tuple[int, ...], in_doubt: bool
) -> None:
    state = {
        "leader_id": 1,
        "leader_epoch": 0,
        "isr": list(replicas),
        "elr": [],
        "last_known_elr": [],
        "occasion": "created",
    }
    states = []
    for entry, change in enumerate([{}, *later]):
        epoch = state["leader_epoch"] + ("leader_id" in change)
        state = {**state, **change, "leader_epoch": epoch}
        fixed = {"source": "metadata_log", "replicas": list(replicas), "entry": entry, "time_ms": entry, "uncommitted": False,
                 "metadata_offset": entry, "partition_epoch": entry, "recovering": False}  # fmt: skip
        states.append(orders_row("partition_states", **{**state, **fixed}))
    found = results([partition(lost_records=lost)], partition_states=states)
    answer = build_answer(found, build_verdict(found, "high"))
    assert ("dropped out without a controlled shutdown" in answer.headline) == in_doubt, answer.headline
    assert not in_doubt or (answer.tone == "warn" and "All is well" not in answer.headline)
    # No alarm either.
    assert build_verdict(found, "high")["exit_status"] == 0


def test_committed_records_that_an_absent_leader_may_have_are_said_first(tmp_path: Path) -> None:
    """What a broker holds of them is deleted when it follows, whether or not the leader has them."""
    own = written(0, 50, 0)
    one = Replica([*own, *written(50, 60, 0, "old ")], high_watermark=60)
    two = Replica([*own, *written(50, 70, 1, "new ")], high_watermark=50)
    audit(tmp_path, {1: one, 2: two}, leader=3, isr=(3,), replicas=(1, 2, 3))
    found = audit_all(str(tmp_path), Settings())
    assert [row.verdict for row in found.partitions] == ["INCONCLUSIVE"]
    said = build_answer(found, build_verdict(found, "high")).headline
    start = "At least 10 committed records are missing from the log that the others are compared with in the only partition; "
    assert said.startswith(start + "broker 1 still has them. Broker 3 was not captured"), said


def test_so_they_are_where_files_are_damaged_as_well(tmp_path: Path) -> None:
    own = written(0, 50, 0)
    one = Replica([*own, *written(50, 60, 0, "old ")], high_watermark=60)
    two = Replica([*own, *written(50, 70, 1, "new ")], high_watermark=50)
    audit(tmp_path, {1: one, 2: replace(two, epochs=())}, leader=3, isr=(3,), replicas=(1, 2, 3), quiesced=True)
    found = audit_all(str(tmp_path), Settings())
    assert [row.verdict for row in found.partitions] == ["LATENT_CORRUPTION"]
    said = build_answer(found, build_verdict(found, "high")).headline
    start = "At least 10 committed records are missing from the log that the others are compared with in the only partition; "
    assert said.startswith(f"{start}broker 1 still has them. Files of broker 2 are damaged or contradict each other"), (
        said
    )


def test_committed_records_that_a_leader_may_have_fetched_since_are_not_missing_from_it(tmp_path: Path) -> None:
    """It was elected cleanly after its log was copied; only that copy is known to lack them."""
    one = Replica([*written(0, 45, 0), *written(45, 60, 0, "old ")], high_watermark=45)
    two = Replica([*written(0, 45, 0), *written(45, 55, 1, "new ")], high_watermark=55)
    scenes.scene(tmp_path, {1: one, 2: two, 3: two}, scenes.change(leader=2), scenes.change(leader=1))
    found = audit_all(str(tmp_path), Settings())
    assert [row.verdict for row in found.partitions] == ["INCONCLUSIVE"]
    said = build_answer(found, build_verdict(found, "high")).headline
    assert said.startswith("10 committed records are missing from the log that the others are compared with"), said
