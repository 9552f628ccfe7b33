"""What the manifest's times and kinds say of the copies: each condition decides once for and once against."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.made_cases import leadership, log

from replica_audit.auditing.leadership.capture_times import CaptureTimes, CopiedState
from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
from replica_audit.snapshot.inventory import CopiedLogDir

PARTITION = "orders-0"
NO_TIMES: dict[str, Any] = {"started_ms": None, "finished_ms": None}


def copied(broker: int = 1, **changes: Any) -> CopiedLogDir:
    """The log dir of a running broker, copied from second 10 to 20."""
    return CopiedLogDir(broker, f"broker-{broker}", 10_000, 20_000, "live")._replace(**changes)


def times(*copies: CopiedLogDir) -> CaptureTimes:
    return CaptureTimes(copies)


def facts(broker: int = 1, **changes: Any) -> ReplicaFacts:
    return log(broker, (0, 0), end=40, **changes)


@pytest.mark.parametrize(
    ("broker", "partition", "was"), [(1, PARTITION, True), (2, PARTITION, False), (1, "other-0", False)]
)
def test_what_was_collected_again(broker: int, partition: str, was: bool) -> None:
    known = times(copied(partitions=(PARTITION,)), copied(2))
    assert known.was_collected_again(broker, partition) is was


COLLECTED = copied(is_evidence=True)
LONGER = copied(2, is_evidence=True, started_ms=5_000, finished_ms=30_000)


@pytest.mark.parametrize(
    ("second", "within"),
    [
        (LONGER, (5_000, 30_000)),
        (LONGER._replace(is_evidence=False), None),
        (LONGER._replace(kind="stopped"), None),
        (LONGER._replace(started_ms=None), None),
        (LONGER._replace(finished_ms=None), None),
        (LONGER._replace(log_dir="elsewhere"), None),
    ],
)
def test_within_which_time_log_dirs_were_collected(second: CopiedLogDir, within: tuple[int, int] | None) -> None:
    """Broker 3, which nobody asks for, has a log dir that was collected much later."""
    known = times(COLLECTED, second, copied(3, is_evidence=True, started_ms=1, finished_ms=99_000))
    assert known.collected_within({(1, "broker-1"), (2, "broker-2")}) == within
    assert known.collected_within(()) is None
    if second.log_dir == "broker-2":
        assert known.first_collected({1, 2}, PARTITION) == within
    assert known.first_collected({1, 4}, PARTITION) is None
    again = CaptureTimes((*known.copies, copied(1, is_evidence=True, log_dir="again", partitions=(PARTITION,))))
    assert again.first_collected({1, 2}, PARTITION) is None


@pytest.mark.parametrize(
    ("own", "again", "is_superseded"),
    [
        ({}, {}, True),
        ({}, {"started_ms": 10_000}, False),
        ({}, {"started_ms": None}, False),
        ({"started_ms": None}, {}, True),
        ({"started_ms": None}, {"started_ms": None}, False),
        ({"is_evidence": False}, {}, False),
        ({"log_dir": "elsewhere"}, {}, False),
        ({}, {"partitions": ("other-0",)}, False),
        ({}, {"broker_id": 2}, False),
    ],
)
def test_a_partition_that_was_collected_again_later(
    own: dict[str, Any], again: dict[str, Any], is_superseded: bool
) -> None:
    later = copied(is_evidence=True, log_dir="again", started_ms=15_000, partitions=(PARTITION,))
    known = times(COLLECTED._replace(**own), later._replace(**again))
    assert known.is_superseded(1, "broker-1", PARTITION) is is_superseded


@pytest.mark.parametrize(
    ("kinds", "was_live"), [((), False), (("live",), True), (("live", "image"), True), (("live", "killed"), False)]
)
def test_a_broker_ran_if_nothing_of_it_was_stopped(kinds: tuple[str, ...], was_live: bool) -> None:
    assert times(*(copied(kind=kind) for kind in kinds)).was_live(1, "broker-1") is was_live


@pytest.mark.parametrize(
    ("own", "other", "instead", "has_left"),
    [(None, "live", ["disk-2"], True), (None, None, ["disk-2"], False), ("live", "live", [], False)],
)
def test_a_broker_may_run_with_an_empty_disk_in_place_of_this_one(
    own: Any, other: Any, instead: list[str], has_left: bool
) -> None:
    known = CaptureTimes((copied(kind=own), copied(log_dir="disk-2", kind=other)), {"disk-2": 1, "disk-3": 2})
    assert known.perhaps_instead(1, "broker-1") == instead
    assert known.has_left(1, "broker-1") is has_left


FENCED = leadership(source="metadata_log", fenced=(1,))
DOWN = leadership(source="metadata_log", fenced=(1,), down_when_copied=(1,))
AS_STOPPED: dict[str, Any] = {"clean_shutdown": True, "recovery_point_checkpoint": 40}


@pytest.mark.parametrize(
    ("kind", "said", "changes", "state"),
    [
        ("stopped", None, {}, "down"),
        ("killed", None, {}, "down"),
        ("live", FENCED, {}, "up"),
        ("image", FENCED, {}, "up"),
        (None, None, {}, "up"),
        (None, leadership(), {}, "up"),
        (None, leadership(source="metadata_log", fenced=(2,)), {}, "up"),
        (None, FENCED, {}, "undecided"),
        (None, FENCED, AS_STOPPED, "down"),
        (None, FENCED, {"clean_shutdown": True}, "undecided"),
        (None, DOWN, {}, "down"),
        ("live", DOWN, {}, "up"),
        # A clean stop leaves the recovery point at the log end.
        (None, DOWN, {"recovery_point_checkpoint": 39}, "down"),
        (None, DOWN, {"clean_shutdown": True}, "down"),
        (None, DOWN, AS_STOPPED, "down"),
        (None, DOWN, AS_STOPPED | {"recovery_point_checkpoint": 41}, "down"),
        (None, DOWN, AS_STOPPED | {"recovery_point_checkpoint": 39}, "undecided"),
        ("stopped", DOWN, AS_STOPPED | {"recovery_point_checkpoint": 39}, "down"),
    ],
)
def test_how_a_broker_was_when_it_was_copied(kind: Any, said: Any, changes: dict[str, Any], state: CopiedState) -> None:
    known = times(copied(kind=kind, **NO_TIMES))
    assert known.state_when_copied(facts(**changes), said) == state
    assert known.was_down(facts(**changes), said) is (state == "down")


def test_a_broker_that_was_stopped_before_its_copy_began_was_down() -> None:
    """The metadata log, which was copied last, has nothing from after the begin."""
    unflushed = facts(**AS_STOPPED | {"recovery_point_checkpoint": 39})
    assert times(copied(kind=None)).state_when_copied(unflushed, DOWN) == "down"


@pytest.mark.parametrize(
    ("entry", "changes", "in_any_order"),
    [
        ({}, {}, False),
        (NO_TIMES, {}, True),
        ({"kind": "image"}, {}, True),
        ({"kind": None, "is_unseen": True}, {}, True),
        (NO_TIMES, {"was_down": True}, False),
        (NO_TIMES, AS_STOPPED, False),
    ],
)
def test_files_that_may_be_of_moments_in_any_order(
    entry: dict[str, Any], changes: dict[str, Any], in_any_order: bool
) -> None:
    one = facts(**changes)
    assert times(copied(**entry)).are_in_any_order(one, was_down=one.was_down) is in_any_order


@pytest.mark.parametrize(
    ("entries", "was_down", "is_untold"),
    [
        ([{"kind": None}], False, True),
        ([{}], False, False),
        ([{"kind": None, "is_unseen": True}], False, False),
        ([{"kind": None, "is_evidence": True}], False, False),
        ([{"kind": None}], True, False),
        ([{"kind": None, **NO_TIMES}], False, False),
        ([], False, False),
    ],
)
def test_an_image_that_nobody_tells_of(entries: list[dict[str, Any]], was_down: bool, is_untold: bool) -> None:
    known = times(*(copied(**one) for one in entries))
    assert known.may_be_untold_image(facts(was_down=was_down)) is is_untold


IMAGE: dict[str, Any] = {"kind": "image"}
UNSEEN: dict[str, Any] = {"kind": None, "is_unseen": True}


@pytest.mark.parametrize(
    ("entry", "other", "was_down", "is_later", "may_be_later"),
    [
        # By more than clocks differ, 2 s, after the other had ended.
        ({"started_ms": 22_000}, {}, False, True, False),
        ({"started_ms": 21_999}, {}, False, False, False),
        ({"started_ms": 30_000} | IMAGE, {}, False, False, False),
        ({"started_ms": 30_000} | UNSEEN, {}, False, False, True),
        ({"started_ms": 21_999} | UNSEEN, {}, False, False, False),
        ({"started_ms": 30_000, "finished_ms": None}, {}, False, False, False),
        ({"started_ms": 30_000}, NO_TIMES, False, False, False),
        # By the controller's clock it has to be 1 s later, too.
        ({"started_ms": 30_000, "ahead_ms": 9_000}, {"ahead_ms": 0}, False, True, False),
        ({"started_ms": 30_000, "ahead_ms": 9_001}, {"ahead_ms": 0}, False, False, False),
        ({"started_ms": 30_000, "ahead_ms": 9_001}, {"ahead_ms": 1}, False, True, False),
        ({"started_ms": 30_000, "ahead_ms": 9_001}, {}, False, True, False),
        ({"started_ms": 30_000}, {"ahead_ms": -50_000}, False, True, False),
        ({"started_ms": 30_000, "ahead_ms": 9_001}, {"ahead_ms": 0}, True, True, False),
        # By the controller's clock alone.
        ({"started_ms": 12_000, "ahead_ms": -10_000}, {"ahead_ms": 0}, False, False, True),
        ({"started_ms": 11_999, "ahead_ms": -10_000}, {"ahead_ms": 0}, False, False, False),
        ({"started_ms": 11_000, "ahead_ms": -10_000}, {"ahead_ms": 1_000}, False, False, True),
        ({"started_ms": 21_999, "ahead_ms": -2_000}, {"ahead_ms": 0}, False, False, False),
        ({"started_ms": 12_000, "ahead_ms": -10_000}, {"ahead_ms": 2_001}, False, False, False),
        ({"started_ms": 12_000, "ahead_ms": -10_000}, {"ahead_ms": 0}, True, False, False),
        ({"started_ms": 12_000, "ahead_ms": -10_000}, {}, False, False, False),
        ({"started_ms": 12_000}, {"ahead_ms": 0}, False, False, False),
        ({"ahead_ms": -10_000} | NO_TIMES, {"ahead_ms": 0}, False, False, False),
        ({"started_ms": 12_000, "ahead_ms": -10_000}, {"ahead_ms": 0} | NO_TIMES, False, False, False),
        ({"started_ms": 40_000, "ahead_ms": -10_000}, {"ahead_ms": 0}, False, True, False),
    ],
)
def test_a_copy_that_was_begun_after_another_had_ended(
    entry: dict[str, Any], other: dict[str, Any], was_down: bool, is_later: bool, may_be_later: bool
) -> None:
    known, one = times(copied(**entry), copied(2, **other)), facts(was_down=was_down)
    assert known.is_later(one, facts(2)) is is_later
    assert known.may_be_later(one, facts(2)) is may_be_later


@pytest.mark.parametrize(
    ("entry", "time_ms", "was_down", "is_later"),
    [
        ({}, 8_000, False, True),
        ({}, 8_001, False, False),
        (IMAGE, 8_000, False, False),
        (NO_TIMES, 8_000, False, False),
        ({"ahead_ms": 1_001}, 8_000, False, False),
        ({"ahead_ms": 1_001}, 8_000, True, True),
    ],
)
def test_a_copy_that_was_begun_after_a_time_of_the_controller(
    entry: dict[str, Any], time_ms: int, was_down: bool, is_later: bool
) -> None:
    assert times(copied(**entry)).began_later(facts(was_down=was_down), time_ms) is is_later


@pytest.mark.parametrize(
    ("entry", "is_older"),
    [({}, True), (NO_TIMES, False), (NO_TIMES | {"kind": "stopped"}, True), (NO_TIMES | {"kind": None}, False)],
)
def test_a_flag_of_a_clean_stop_that_is_older_than_the_copy(entry: dict[str, Any], is_older: bool) -> None:
    assert times(copied(**entry)).is_flag_older(facts().directory, 40, None) is is_older


@pytest.mark.parametrize(
    ("entry", "changes", "may"),
    [
        (None, {"was_down": True}, True),
        (None, {}, False),
        (None, {"was_down": True, "killed": True}, False),
        ({"kind": None}, {"was_down": True}, False),
        (NO_TIMES | {"kind": "stopped"}, {"was_down": True}, False),
    ],
)
def test_a_broker_that_may_have_gone_down_as_it_was_copied(
    entry: dict[str, Any] | None, changes: dict[str, Any], may: bool
) -> None:
    assert times(*([] if entry is None else [copied(**entry)])).may_have_gone_down(facts(**changes)) is may


@pytest.mark.parametrize(
    ("entry", "own", "until_ms", "is_after"),
    [
        ({"started_ms": 22_000}, {}, 22_000, True),
        ({"started_ms": 21_999}, {}, 21_999, False),
        ({"started_ms": 22_000, "kind": "stopped"}, {}, None, False),
        ({"started_ms": None}, {}, None, False),
        ({"started_ms": 22_000}, NO_TIMES, 22_000, False),
        ({"started_ms": 22_000, "ahead_ms": 1_001}, {"ahead_ms": 0}, 22_000, False),
        ({"started_ms": 22_000, "ahead_ms": 1_000}, {"ahead_ms": 0}, 22_000, True),
    ],
)
def test_logs_that_reach_past_the_end_of_a_copy(
    entry: dict[str, Any], own: dict[str, Any], until_ms: int | None, is_after: bool
) -> None:
    """The logs are those of broker 2; what others are copied of says nothing of them."""
    known = times(copied(3, started_ms=1, ahead_ms=50_000), copied(**own), copied(2, **entry))
    assert known.heard_until("broker-2") == until_ms
    assert known.heard_after("broker-2", facts()) is is_after


@pytest.mark.parametrize(
    ("log_dir", "killed", "may"), [("broker-2", False, True), ("broker-2", True, False), ("broker-1", False, False)]
)
def test_logs_of_a_broker_that_may_have_been_down_for_long(log_dir: str, killed: bool, may: bool) -> None:
    assert times(copied(), copied(2, kind="killed")).may_be_stale(log_dir, facts(killed=killed)) is may


def test_what_an_answer_says_of_the_copies() -> None:
    known = times(
        copied(2, kind="killed", started_ms=None),
        copied(2, log_dir="disk-2", kind=None, finished_ms=None),
        copied(1),
        copied(3, kind=None),
    )
    told = known.as_inputs()
    assert [(one["broker_id"], one["kind"]) for one in told["brokers"]] == [(1, "live"), (2, None), (2, "killed")]
    assert [tuple(one.values()) for one in told["copied"]] == [(1, 10_000, 20_000), (3, 10_000, 20_000)]
    assert "copied" not in times(copied(**NO_TIMES)).as_inputs()


@pytest.mark.parametrize(
    ("ahead_ms", "was_down", "clock"),
    [
        (None, False, ""),
        (2_000, False, ""),
        (2_500, False, "2 s ahead of"),
        (-3_000, False, "3 s behind"),
        (9_000, True, ""),
    ],
)
def test_times_in_words(ahead_ms: int | None, was_down: bool, clock: str) -> None:
    told = times(copied(ahead_ms=ahead_ms)).describe([facts(was_down=was_down)])
    by = f" by a clock that is {clock} its copy of the metadata log" if clock else ""
    assert told == f"broker 1 was copied from 1970-01-01T00:00:10Z to 1970-01-01T00:00:20Z{by}"
    assert times(copied(**NO_TIMES)).describe([facts()]) is None
