"""Copies of images of the disks of running brokers (LVM, EBS, VM snapshots; C.2, "Images of a disk").

Of a 4.3.1 cluster under load, images on ext4 had logs that ended 100 to 400 offsets below the checkpoint of the high watermark beside
them, at the end of a batch or in zeros up to the end of a page; nothing was lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.support import metadata_log as write
from tests.support.scenario import Answer, audit, costs, written
from tests.support.snapshots import TOPIC, TOPIC_ID, Replica, write_manifest

from replica_audit.config import Settings
from replica_audit.elect.cluster_state import find_up
from replica_audit.elect.election_plan import advise
from replica_audit.runner.in_process import audit_all

_LEFT_OUT = "left out"
#: Of a file whose last page was not whole on the disk yet.
_ZEROS = bytes(674)


def _audit(
    path: Path,
    brokers: Mapping[int, Replica],
    kind: str | None,
    begun: Mapping[int, int] | None = None,
    metadata: Mapping[int, bytes] | None = None,
) -> Answer:
    """The audit of running brokers, of which 1 leads, by the kind of their copies; each of these took a minute from `begun` on."""
    listed = [
        {
            "broker_id": one,
            "log_dir": f"broker-{one}",
            "started": f"2026-01-31T10:{(begun or {}).get(one, 10 * one):02}:00Z",
            "finished": f"2026-01-31T10:{(begun or {}).get(one, 10 * one) + 1:02}:00Z",
        }
        | ({} if kind == _LEFT_OUT else {"kind": kind})
        for one in brokers
    ]
    write_manifest(path, brokers=listed)
    return audit(path, brokers, source="user", leader_epoch=1, metadata=metadata)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("image", "this is an image of the disk of broker 1; copy the log directory from the broker"),
        (None, "nobody saw broker 1 run; give its kind in manifest.json if it was down"),
    ],
)
def test_what_was_not_on_the_disk_yet_is_not_lost(tmp_path: Path, kind: str | None, says: str) -> None:
    """Each was LATENT_CORRUPTION."""
    ends = {1: 224, 2: 225, 3: 210}
    brokers = {
        one: Replica(written(0, end, 1), high_watermark=end + 200, recovery_point=0, tail=_ZEROS)
        for one, end in ends.items()
    }
    answer = _audit(tmp_path, brokers, kind)
    assert answer.verdict == "INCONCLUSIVE" and not answer.codes("high"), answer
    assert answer.mark["hw_upper"] is None
    assert says in answer.found("HWM-CP-ABOVE-LEO", 1)[0]["message"]
    found = audit_all(str(tmp_path), Settings())
    assert find_up(found) == ({} if kind is None else dict.fromkeys(brokers, True))
    step = advise(found).steps[0]
    assert step.action == "capture" and "stop and elect no broker" in step.text and "recovered" not in step.text


@pytest.mark.parametrize(
    ("kind", "recovery_point"), [("live", 0), ("live", 224), ("live", 300), ("live", None), (_LEFT_OUT, 0)]
)
def test_a_file_that_was_copied_from_the_broker_after_its_checkpoint_has_what_that_has(
    tmp_path: Path, kind: str, recovery_point: int | None
) -> None:
    """A segment that was deleted below a running broker leaves such files, too."""
    brokers = {one: Replica(written(0, 224, 1), high_watermark=424, recovery_point=recovery_point) for one in (1, 2)}
    assert _audit(tmp_path, brokers, kind).one("HWM-CP-ABOVE-LEO", 1)[0] == "high"


@pytest.mark.parametrize(("kind", "confidence"), [(_LEFT_OUT, "likely"), ("killed", "proven")])
@pytest.mark.parametrize("recovery_point", [0, 210, 240])
def test_of_a_copy_without_a_kind_an_image_is_named_as_the_other_explanation(
    tmp_path: Path, kind: str, confidence: str, recovery_point: int
) -> None:
    """Not of what was flushed. Each was proven."""
    bad = written(0, 210, 1)
    bad[-1] = bad[-1][:80] + bytes(len(bad[-1]) - 80)
    follower = Replica(bad, high_watermark=230, recovery_point=recovery_point)
    answer = _audit(tmp_path, {1: Replica(written(0, 240, 1), high_watermark=230), 2: follower}, kind)
    flushed = recovery_point > 205
    said = "manifest.json leaves out the kind of the copy of broker 2, and an image of its disk"
    for code in ("HWM-CP-ABOVE-LEO", "LOG-TAIL-GARBAGE", "DIV-CORRUPT", "HWM-ABOVE-ISR-PREFIX"):
        (told,) = answer.found(code, 2)
        assert told["confidence"] == ("proven" if flushed else confidence), told
        assert (said in told["message"]) is (kind == _LEFT_OUT and not flushed), told


def test_a_shorter_leader_whose_copy_has_no_kind_may_be_an_image(tmp_path: Path) -> None:
    brokers = {1: Replica(written(0, 30, 1), high_watermark=30), 2: Replica(written(0, 40, 1), high_watermark=30)}
    for kind in (_LEFT_OUT, "live"):
        (tmp_path / kind).mkdir()
        (told,) = _audit(tmp_path / kind, brokers, kind, begun={1: 10, 2: 5}).found("REP-LEADER-SHORTER", 2)
        assert ("leaves out the kind of the copy of broker 1" in told["message"]) is (kind == _LEFT_OUT), told
        assert (told["severity"], told["confidence"]) == ("high", "likely")


@pytest.mark.parametrize("mark", [30, 35])
def test_a_leader_that_lost_its_page_cache_and_runs_again_has_the_later_copy(tmp_path: Path, mark: int) -> None:
    brokers = {
        1: Replica(written(0, 30, 1), high_watermark=mark, recovery_point=10),
        2: Replica(written(0, 40, 1), high_watermark=30),
    }
    answer = _audit(tmp_path, brokers, "live", begun={1: 10, 2: 5})
    assert answer.one("REP-LEADER-SHORTER", 2)[0] == "high", answer
    assert answer.verdict == "COMMITTED_LOSS"


@pytest.mark.parametrize("kind", ["killed", "stopped"])
def test_a_broker_that_was_down_has_no_such_excuse(tmp_path: Path, kind: str) -> None:
    brokers = {one: Replica(written(0, 224, 1), high_watermark=424, recovery_point=0) for one in (1, 2)}
    answer = _audit(tmp_path, brokers, kind)
    assert answer.one("HWM-CP-ABOVE-LEO", 1)[:2] == ("critical", "likely") and answer.verdict == "COMMITTED_LOSS"


@pytest.mark.parametrize("kind", ["image", "live", "killed"])
def test_of_an_image_another_replica_has_the_rest(tmp_path: Path, kind: str) -> None:
    brokers = {1: Replica(written(0, 240, 1), high_watermark=230), 2: Replica(written(0, 210, 1), high_watermark=230)}
    answer = _audit(tmp_path, brokers, kind)
    severity = "info" if kind == "image" else "high"
    assert answer.one("HWM-CP-ABOVE-LEO", 2)[0] == severity and (answer.verdict == "LAGGING") is (kind == "image"), (
        answer
    )
    said = "the broker ran, and an image of its disk lacks what had not reached the disk"
    assert (said in answer.found("HWM-CP-ABOVE-LEO", 2)[0]["message"]) is (kind == "image")


@pytest.mark.parametrize(
    ("kind", "told", "verdict"),
    [
        ("image", ("CAP-SKEW", "info"), "CONSISTENT"),
        (None, ("CAP-SKEW", "medium"), "INCONCLUSIVE"),
        ("live", ("REP-LEADER-SHORTER", "high"), "COMMITTED_LOSS"),
        (_LEFT_OUT, ("REP-LEADER-SHORTER", "high"), "COMMITTED_LOSS"),
    ],
)
def test_an_image_of_the_leader_s_disk_that_was_copied_last_may_be_older(
    tmp_path: Path, kind: str | None, told: tuple[str, str], verdict: str
) -> None:
    """Where nobody says whether it is one the leader may have lost the rest: the copy is asked for again."""
    brokers = {1: Replica(written(0, 30, 1), high_watermark=30), 2: Replica(written(0, 40, 1), high_watermark=30)}
    answer = _audit(tmp_path, brokers, kind, begun={1: 10, 2: 5})
    code, severity = told
    assert (answer.one(code, 2)[0], answer.verdict) == (severity, verdict), answer
    says = "the copy of broker 1 may be the later one, and then that log lost its end; or its clock is slow, or its disk was copied as an image"
    assert (says in answer.found(code, 2)[0]["message"]) is (kind is None)
    if kind != "image":
        assert costs(answer, 1) == (10, 0, 10), answer


@pytest.mark.parametrize("kind", ["image", None, "live", _LEFT_OUT])
@pytest.mark.parametrize("damage", ["page", "batch", "tail"])
@pytest.mark.parametrize("recovery_point", [0, 40])
def test_a_page_that_was_not_on_the_disk_yet_is_not_called_damage_before_that_is_known(
    tmp_path: Path, kind: str | None, damage: str, recovery_point: int
) -> None:
    """Writes reach the disk in any order above the recovery point, so that zeros stand between records; below it nothing is missing."""
    sound = written(0, 40, 1)
    bad = list(sound)
    at = len(bad) - 1 if damage == "tail" else 2
    bad[at] = bytes(len(bad[at])) if damage == "page" else bad[at][:80] + bytes(len(bad[at]) - 80)
    brokers = {1: Replica(sound), 2: Replica(bad, recovery_point=recovery_point)}
    answer = _audit(tmp_path, brokers, kind)
    is_open = kind in ("image", None) and recovery_point == 0
    alarms = {"LATENT_CORRUPTION", "COMMITTED_DIVERGENCE"}  # of an in-sync replica without its tail
    assert (answer.verdict == "INCONCLUSIVE") is is_open and (answer.verdict in alarms) is not is_open, answer
    assert bool(answer.codes("high") - {"HWM-ABOVE-ISR-PREFIX"}) is not is_open, answer
    remedies = [step.text for step in advise(audit_all(str(tmp_path), Settings())).steps if step.action == "mend"]
    is_moved_away = any("directory away" in text for text in remedies)
    assert not (is_open and is_moved_away) and (is_moved_away or damage != "page" or kind != "live"), remedies


def test_nor_does_a_copy_of_which_nothing_is_said_show_that_an_in_sync_replica_lost_its_end(tmp_path: Path) -> None:
    """It was COMMITTED_DIVERGENCE."""
    sound = written(0, 40, 1)
    torn = [*sound[:-1], sound[-1][:80] + bytes(len(sound[-1]) - 80)]
    brokers = {1: Replica(sound), 2: Replica(torn, recovery_point=0)}
    answer = audit(tmp_path / "running", brokers)
    assert answer.one("HWM-ABOVE-ISR-PREFIX", 2)[:2] == ("high", "suspect") and answer.verdict != "COMMITTED_DIVERGENCE"
    flushed = audit(tmp_path / "flushed", {1: Replica(sound), 2: Replica(torn, recovery_point=40)})
    assert flushed.one("HWM-ABOVE-ISR-PREFIX", 2)[0] == "critical"


@pytest.mark.parametrize("kind", ["image", None])
def test_an_image_without_what_was_flushed_is_of_a_damaged_log(tmp_path: Path, kind: str | None) -> None:
    """The recovery point is written once all below it is on the disk. It was info with `image`, INCONCLUSIVE with null."""
    short = Replica(written(0, 210, 1), high_watermark=210, recovery_point=230)
    answer = _audit(tmp_path, {1: Replica(written(0, 240, 1), high_watermark=230), 2: short}, kind)
    assert answer.one("HWM-RP-ABOVE-LEO", 2)[:2] == ("high", "proven") and answer.verdict == "LATENT_CORRUPTION", answer


def test_a_broker_that_ran_by_the_manifest_was_not_copied_from_an_image(tmp_path: Path) -> None:
    """An in-sync replica with damage was INCONCLUSIVE where the manifest has no times, since an image might explain it."""
    sound = written(0, 40, 1)
    torn = [*sound[:-1], sound[-1][:80] + bytes(len(sound[-1]) - 80)]
    brokers = {1: Replica(sound), 2: Replica(torn, recovery_point=0)}
    write_manifest(tmp_path, dict.fromkeys(brokers, "live"))
    answer = audit(tmp_path, brokers)
    assert answer.one("HWM-ABOVE-ISR-PREFIX", 2)[0] == "critical", answer


@pytest.mark.parametrize(
    ("kind", "verdict"), [("image", "CONSISTENT"), (None, "INCONCLUSIVE"), ("live", "COMMITTED_LOSS")]
)
def test_the_empty_log_of_a_leader_may_be_an_image_of_before_its_election_or_lost(
    tmp_path: Path, kind: str | None, verdict: str
) -> None:
    """With null it was told as of an image."""
    brokers = {1: Replica([], epochs=[]), 2: Replica(written(0, 30, 0), high_watermark=20)}
    metadata = {100: write.history(write.new_topic(TOPIC, TOPIC_ID, (1, 2), 1))}
    answer = _audit(tmp_path, brokers, kind, begun={1: 10, 2: 5}, metadata=metadata)
    assert answer.verdict == verdict, answer
    told = any("or its disk lost what it wrote then" in row["message"] for row in answer.found("CAP-SKEW", 1))
    assert told is (kind is None)
