"""Consumer groups beside a log that lost records: where they stand, and the findings of a whole partition."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.captures_with_more import with_groups, with_share_groups
from tests.support.made_cases import case, log
from tests.support.report_rows import tables_of

from replica_audit.auditing.consumer_groups import LostRange, Position, group_position, group_positions
from replica_audit.auditing.findings import grp
from replica_audit.config import Settings
from replica_audit.elect.election_plan import plan_elections
from replica_audit.model import GroupOffset
from replica_audit.protocol.lineage import Lineage
from replica_audit.runner.in_process import audit_all

#: Divergence at 20: epoch 0 ends there, epoch 1 goes on; of epoch 0 another replica has 20 to 29 (H12).
LOST = (LostRange(20, 30, replaced_ms=5000),)
LINEAGE = Lineage(((0, 0), (1, 20)))


def _effect(offset: int, epoch: int | None, end: int, ms: int = 1000, one_moment: bool = False, lost=LOST):
    one = GroupOffset("g", "orders", 0, offset, epoch, ms)
    found = group_position(one, LINEAGE, end, lost, one_moment=one_moment)
    return found.effect, found.parted_at, found.proven


@pytest.mark.parametrize(
    ("offset", "epoch", "end", "effect"),
    [
        (30, 0, 25, ("past_end", 20, True)),
        (30, 0, 45, ("epoch_differs", 20, True)),
        (20, 0, 45, ("unaffected", None, True)),
        (15, None, 45, ("unaffected", None, True)),
        (30, 1, 45, ("read_lost", 20, True)),
        (30, None, 45, ("epoch_differs", 20, False)),
        (30, None, 25, ("past_end", 20, True)),
    ],
)
def test_where_a_group_stands(offset: int, epoch: int | None, end: int, effect: tuple) -> None:
    assert _effect(offset, epoch, end) == effect


def test_a_group_that_went_on_while_the_log_was_copied_is_not_past_a_loss() -> None:
    assert _effect(30, None, 25, lost=()) == ("unaffected", None, True)
    assert _effect(30, None, 25, lost=(), one_moment=True) == ("past_end", 25, True)


def test_without_an_epoch_the_time_of_the_commit_tells_which_version_was_read() -> None:
    assert _effect(30, None, 45, ms=4999)[0] == "epoch_differs"
    assert _effect(30, None, 45, ms=5000)[0] == "read_lost"


def test_an_epoch_that_the_log_never_had_was_read_from_another_log() -> None:
    """Kafka answers with the epoch before it, whose end may be above the offset: no client notices."""
    lineage = Lineage(((0, 0), (3, 79)))
    found = group_position(GroupOffset("g", "orders", 0, 50, 1, 0), lineage, 90, (LostRange(34, 52),), one_moment=False)
    assert (found.effect, found.parted_at) == ("epoch_differs", 34)


def test_an_epoch_without_records_is_no_other_log() -> None:
    """A group that began at the log's end was told the epoch that had just begun; the next one wrote the first record."""
    lineage = Lineage(((4, 50), (6, 100)))
    found = group_position(GroupOffset("g", "orders", 0, 100, 5, 0), lineage, 120, (), one_moment=True)
    assert (found.effect, found.parted_at) == ("unaffected", None)


def test_a_group_that_went_on_while_copies_were_made_is_not_past_the_end() -> None:
    assert _effect(50, None, 45, lost=())[0] == "unaffected"
    assert _effect(50, 1, 45, lost=())[0] == "unaffected"
    assert _effect(50, 1, 45, lost=(), one_moment=True) == ("past_end", 45, True)


def test_groups_of_a_real_unclean_election(tmp_path: Path) -> None:
    """diverged-unclean: epoch 0 ends at 34 in ledger-0, whose log ends at 52, and ledger-2 ends at 50."""
    before = 1_700_000_000_000
    groups = (
        ("audit", "ledger", 0, 70, 0, before * 2),
        ("billing", "ledger", 0, 45, 0, before * 2),
        ("sound", "ledger", 0, 30, 0, before * 2),
        ("back", "ledger", 0, 52, 1, before * 2),
        ("earlier-topic", "ledger", 0, 79, -1, 1000),
        ("audit", "ledger", 2, 60, -1, before * 2),
    )
    snapshot = with_groups("diverged-unclean", tmp_path / "s", *groups, note="private words of a client")
    results = audit_all(str(snapshot), Settings(topics=("ledger",)))
    effects = {(row["group"], row["partition"]): row["effect"] for row in results.rows("group_offsets")}
    assert effects == {
        ("audit", 0): "past_end",
        ("billing", 0): "epoch_differs",
        ("sound", 0): "unaffected",
        ("back", 0): "read_lost",
        ("earlier-topic", 0): None,
        ("audit", 2): "past_end",
    }
    told = [
        (row["code"], row["partition"], row["severity"], row["confidence"], row["message"].split(":")[0])
        for row in results.rows("findings")
        if row["code"].startswith("GRP")
    ]
    assert told == [
        ("GRP-PAST-DIVERGENCE", 0, "medium", "proven",
         "1 consumer group is inside the log of broker 1, past the point where it parts from what they read"),
        ("GRP-PAST-END", 0, "medium", "proven", "1 consumer group is past the end of the log of broker 1, 52"),
        ("GRP-READ-LOST", 0, "info", "proven", "3 consumer groups are past lost records, which begin at offset 34"),
        ("GRP-PAST-END", 2, "medium", "proven", "1 consumer group is past the end of the log of broker 1, 50"),
        ("GRP-READ-LOST", 2, "info", "proven", "1 consumer group is past lost records, which begin at offset 50"),
    ]  # fmt: skip
    assert "private" not in json.dumps([dict(results.audit), tables_of(results)])


def test_share_groups_of_a_real_unclean_election(tmp_path: Path) -> None:
    """As above. A share group stays past the end, and is given nothing, until the log has grown past its offset."""
    groups = (("past", "ledger", 0, 70, 0), ("inside", "ledger", 0, 45, 0), ("back", "ledger", 0, 52, 1))
    snapshot = with_share_groups("diverged-unclean", tmp_path / "s", *groups)
    later = 3_600_000_000_000
    results = audit_all(
        str(with_groups("diverged-unclean", snapshot, ("audit", "ledger", 0, 70, 0, later))),
        Settings(topics=("ledger",)),
    )
    effects = {(row["group"], row["kind"]): row["effect"] for row in results.rows("group_offsets")}
    assert effects == {
        ("audit", "consumer"): "past_end",
        ("past", "share"): "past_end",
        ("inside", "share"): "epoch_differs",
        ("back", "share"): "read_lost",
    }
    told = {row["code"]: row for row in results.rows("findings") if row["code"].startswith("GRP")}
    assert told["GRP-PAST-END"]["message"] == (
        "1 consumer group and 1 share group are past the end of the log of broker 1, 52: audit at 70, past at 70; the two "
        "versions part at offset 34"
    )
    assert told["GRP-PAST-DIVERGENCE"]["message"].startswith("1 share group is inside the log of broker 1")
    assert told["GRP-PAST-DIVERGENCE"]["evidence"][0]["text"] == (
        f"group inside reached 45 at {later} ms, after records of a leader of epoch 0"
    )


def test_the_epoch_of_a_share_groups_leader_may_have_no_records() -> None:
    """After two losses: it read up to 30 from a leader of epoch 2 that has written nothing yet."""
    one = GroupOffset("g", "orders", 0, 30, 2, 0, kind="share")
    lineage = Lineage(((0, 0), (1, 20), (3, 30)))
    found = group_position(one, lineage, 40, LOST, one_moment=False)
    assert (found.effect, found.parted_at) == ("read_lost", 20)


def test_a_group_may_have_come_as_far_in_an_earlier_topic_of_the_name() -> None:
    """Nobody says what epoch its records there were of; sorting by it ended the audit with a TypeError."""
    made = case(log(1, (0, 0), topic_id="new"))
    both = [GroupOffset("g", "orders", 0, 30, epoch, 0, topic, "share") for topic, epoch in (("new", 0), ("old", None))]
    found = group_positions(both, made.reference, None, (), tiered=False, one_moment=False)
    assert [(one.offset.topic_id, one.effect) for one in found] == [("new", "unaffected"), ("old", None)]


def test_an_election_counts_the_groups_that_each_candidate_hits(tmp_path: Path) -> None:
    later = 3_600_000_000_000
    groups = [
        ("audit", "ledger", 0, 70, 0, later),
        ("sound", "ledger", 0, 30, 0, later),
        ("on", "ledger", 0, 50, 1, later),
    ]
    snapshot = with_groups("diverged-unclean", tmp_path / "s", *groups)
    plan = plan_elections(audit_all(str(snapshot), Settings(topics=("ledger",))), asked=[("ledger", 0)])
    (decision,) = plan.decisions
    assert {one.candidate_id: one.groups_hit for one in decision.candidates} == {0: 1, 1: 1, 2: 1}


def test_a_group_may_have_read_a_log_that_is_not_the_present_leaders(tmp_path: Path) -> None:
    """ledger-1: broker 0 led in epoch 1, brokers 1 and 2 have epoch 2 from 41 on; real clients go back to 41 there."""
    snapshot = with_groups("diverged-unclean", tmp_path / "s", ("earlier", "ledger", 1, 58, 1, 3_600_000_000_000))
    plan = plan_elections(audit_all(str(snapshot), Settings(topics=("ledger",))), asked=[("ledger", 1)])
    (decision,) = plan.decisions
    assert {one.candidate_id: one.groups_hit for one in decision.candidates} == {0: 0, 1: 1, 2: 1}


def test_groups_never_move_a_verdict_and_sound_ones_have_no_finding(tmp_path: Path) -> None:
    snapshot = with_groups("lagging", tmp_path / "s", ("g", "orders", 0, 5, 0, 3_800_000_000_000))
    results = audit_all(str(snapshot), Settings(topics=("orders",)))
    assert [row["effect"] for row in results.rows("group_offsets")] == ["unaffected"]
    assert [row["code"] for row in results.rows("findings") if row["code"].startswith("GRP")] == []


def _told(*offsets: tuple[str, int, str], epoch: int | None = 0, proven: bool = True, lost_from: int | None = 34):
    """Findings of groups that read 34 and on in another version, by (group, offset, effect); the log ends at 52."""
    groups = [
        Position(GroupOffset(group, "t", 0, at, epoch, 1000), effect, 34, proven) for group, at, effect in offsets
    ]
    return list(grp.judge(case(log(1, (0, 0), end=52), groups=tuple(groups), lost_from=lost_from)))


def test_five_groups_are_named_and_more_are_counted() -> None:
    groups = [(f"g{number}", 60 + number, "past_end") for number in range(7)]
    for shown, more in ((1, ""), (2, ""), (5, ""), (6, " and 1 more"), (7, " and 2 more")):
        found, readers = _told(*groups[:shown])
        named = ", ".join(f"g{number} at {60 + number}" for number in range(min(shown, 5)))
        stand = "1 consumer group is" if shown == 1 else f"{shown} consumer groups are"
        assert found.message == (
            f"{stand} past the end of the log of broker 1, 52: {named}{more}; the two versions part at offset 34"
        )
        assert [one.kind for one in found.evidence] == ["group"] * min(shown, 5) + ["considered"]
        assert (found.code, readers.code) == ("GRP-PAST-END", "GRP-READ-LOST")


def test_a_group_has_read_lost_records_once_it_is_past_the_first_of_them() -> None:
    def codes(at: int, effect: str, lost_from: int | None = 40) -> list[str]:
        return [found.code for found in _told(("g", at, effect), lost_from=lost_from)]

    assert codes(40, "read_lost") == []
    assert codes(41, "read_lost") == ["GRP-READ-LOST"]
    assert codes(39, "epoch_differs") == codes(40, "epoch_differs") == ["GRP-PAST-DIVERGENCE"]
    assert codes(41, "epoch_differs") == ["GRP-PAST-DIVERGENCE", "GRP-READ-LOST"]
    assert codes(60, "past_end", lost_from=None) == ["GRP-PAST-END"]


def test_what_a_group_read_is_told_with_its_leader_epoch_where_it_has_one() -> None:
    known, unknown = (_told(("g", 60, "past_end"), epoch=epoch)[0] for epoch in (0, None))
    assert known.evidence[0].text == "group g committed 60 at 1000 ms, after a record of leader epoch 0"
    assert unknown.evidence[0].text == "group g committed 60 at 1000 ms, without a leader epoch"
    assert (known.confidence, _told(("g", 60, "past_end"), proven=False)[0].confidence) == ("proven", "likely")
