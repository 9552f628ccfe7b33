"""What is told of clean histories whose brokers were copied one after the other while they ran, and of true losses among them."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.property.history import HISTORIES
from tests.property.live_copies import LiveCopy, copy_live

from replica_audit.auditing.finding import Finding

COUNT = max(1, HISTORIES // 2)
#: What a clean history never has, whatever the moments of its copies.
ALARMS = ("COMMITTED_LOSS", "COMMITTED_DIVERGENCE")
#: What a broker that lost nothing of its own does not have.
DAMAGE = ("HWM-CP-ABOVE-LEO", "HWM-RP-ABOVE-LEO", "EPO-FILE-CORRUPT", "EPO-CACHE-MISSING")


def _clean(seed: int, **how: bool) -> LiveCopy:
    return copy_live(seed, unclean=False, lost_tails=False, **how)


def _damage(found: LiveCopy) -> list[Finding]:
    return [one for one in found.audit.findings if one.code in DAMAGE and one.severity != "info"]


@pytest.mark.parametrize(
    "how",
    [{}, {"timed": True}, {"timed": True, "eligible": True}, {"any_order": True}, {"images": True}],
    ids=["in order", "with times", "eligible", "any order", "images"],
)
def test_a_clean_history_that_was_copied_live_has_lost_nothing(how: dict[str, bool]):
    told = Counter()
    for seed in range(COUNT):
        found = _clean(seed, **how)
        # Nothing tells a broker that went down while it was copied from one that was down before (C.2).
        if found.audit.case.reference.facts.broker_id not in found.went_down_midway:
            assert found.audit.verdict not in ALARMS, found.story
            assert not [one for one in found.audit.findings if one.severity == "critical"], found.story
        told[found.audit.verdict] += 1
    assert told["LAGGING"] and told["INCONCLUSIVE"], told


@pytest.mark.parametrize(
    ("seed", "codes"),
    [
        (60049, {"HWM-RP-ABOVE-LEO"}),
        (60607, {"HWM-RP-ABOVE-LEO", "EPO-FILE-CORRUPT"}),
        (60743, {"EPO-FILE-CORRUPT"}),
        (60768, {"EPO-CACHE-MISSING"}),
        (63937, {"EPO-CACHE-MISSING"}),
    ],
)
def test_a_log_that_was_cut_or_begun_anew_while_it_was_copied_in_order_has_no_proven_damage(seed: int, codes: set[str]):
    """Its recovery point was copied before, its epoch file after that: LATENT_CORRUPTION, proven."""
    found = _clean(seed, timed=True)
    told = [one for one in found.audit.findings if one.code in codes and one.severity != "info"]
    assert {one.code for one in told} == codes and found.audit.verdict == "INCONCLUSIVE", found.story
    assert {(one.severity, one.confidence) for one in told} == {("medium", "suspect")}, found.story


@pytest.mark.parametrize(
    ("seed", "codes", "told_as"),
    [
        (60207, {"HWM-CP-ABOVE-LEO", "HWM-RP-ABOVE-LEO"}, ("high", "likely")),
        (60992, {"HWM-RP-ABOVE-LEO"}, ("high", "likely")),
        (62344, {"HWM-CP-ABOVE-LEO", "HWM-RP-ABOVE-LEO"}, ("high", "likely")),
        # A later leader than all that were copied may have begun where the log ends.
        (61526, {"HWM-RP-ABOVE-LEO"}, ("medium", "suspect")),
        # So may the broker itself have, in an epoch between those that are known.
        (700225, {"HWM-RP-ABOVE-LEO"}, ("medium", "suspect")),
        # The file has the epochs of a leader that the log was taken back to.
        (61120, {"EPO-CACHE-MISSING"}, ("medium", "suspect")),
        (62040, {"EPO-CACHE-MISSING"}, ("medium", "suspect")),
        (63493, {"EPO-CACHE-MISSING"}, ("medium", "suspect")),
        # The same, and the leader was copied before it led.
        (726010, {"EPO-CACHE-MISSING"}, ("medium", "suspect")),
    ],
)
def test_a_log_that_an_unclean_election_cut_while_it_was_copied_in_order_has_no_proven_damage(
    seed: int, codes: set[str], told_as: tuple[str, str]
):
    found = copy_live(seed, timed=True, lost_tails=False)
    told = [one for one in found.audit.findings if one.code in codes and one.severity != "info"]
    assert {one.code for one in told} == codes, found.story
    assert {(one.severity, one.confidence) for one in told} == {told_as}, found.story


@pytest.mark.parametrize(
    ("seed", "why", "told_as"),
    [
        (201382, "no log has the epochs of which the log had records up to 15", ("medium", "suspect")),
        (200003, "a clean stop has written its log start", None),
    ],
)
def test_a_log_whose_own_records_of_later_epochs_were_cut_has_no_proven_damage(
    seed: int, why: str, told_as: tuple[str, str] | None
):
    found = copy_live(seed, timed=True, eligible=True, lost_tails=False)
    told = {(one.severity, one.confidence) for one in _damage(found)}
    assert told == ({told_as} if told_as else set()), f"{why}\n{found.story}"


@pytest.mark.parametrize("seed", [300083, 300675])
def test_a_broker_that_was_killed_as_it_cut_its_log_has_no_proven_damage(seed: int):
    """The recovery point is written after that: HWM-RP-ABOVE-LEO, proven. One that was stopped cleanly has written it."""
    found = _clean(seed, timed=True, kills=True)
    (told,) = _damage(found)
    assert (told.code, told.severity, told.confidence) == ("HWM-RP-ABOVE-LEO", "high", "likely"), found.story
    assert "killed as it cut its log, before it wrote a smaller recovery point" in told.message


@pytest.mark.parametrize("seed", [60004, 300155])
def test_checkpoints_that_were_copied_before_the_topic_was_created_anew_prove_nothing_of_its_log(seed: int):
    """They name no topic id: HWM-CP-ABOVE-LEO and HWM-RP-ABOVE-LEO, proven."""
    found = _clean(seed, timed=True, anew=True, failed_disks=True)
    told = _damage(found)
    assert {one.code for one in told} == {"HWM-CP-ABOVE-LEO", "HWM-RP-ABOVE-LEO"}, found.story
    assert all((one.severity, one.verdict) == ("medium", "INCONCLUSIVE") for one in told), found.story
    assert all("may be from before that, of an earlier topic" in one.message for one in told)


def test_a_log_that_was_cut_where_the_log_start_of_all_has_moved_past_lost_nothing_of_its_own():
    """Nobody leads any more, and the epoch of an unclean election begins at 9 in both files of the last leader: HWM-CP-ABOVE-LEO, proven."""
    found = copy_live(310116, timed=True, kills=True, lost_tails=False)
    assert not _damage(found), found.story


def test_a_cut_inside_a_batch_whose_records_are_deleted_since_is_no_damage():
    """The file ends where that batch began: HWM-CP-ABOVE-LEO and HWM-RP-ABOVE-LEO, proven."""
    assert not _damage(copy_live(1000635, timed=True, lost_tails=False, failed_disks=True))
    assert not _damage(copy_live(725778, timed=True, lost_tails=False, eligible=True))


def test_no_running_broker_that_was_copied_in_order_has_damage_for_sure():
    """All that differs is of elections, unclean ones too; in its own log no broker has lost anything."""
    told = Counter()
    for seed in range(5 * COUNT):
        found = copy_live(seed, timed=True, lost_tails=False)
        for one in found.audit.findings:
            is_damage = one.verdict == "LATENT_CORRUPTION" and one.severity == "high"
            assert not is_damage or one.confidence != "proven" or found.went_down_midway, found.story
        told[found.audit.verdict] += found.lost
    assert told["COMMITTED_LOSS"], told


@pytest.mark.parametrize("seed", [60293, 61192, 61598, 62461, 63194])
def test_where_the_leader_had_committed_others_in_place_of_what_was_lost_either_may_be_lost(seed: int):
    """Its log was copied before it was cut, and it has them now: HWM-LOSS said for sure that it has not."""
    found = copy_live(seed, timed=True, lost_tails=False)
    assert found.lost and found.audit.verdict == "COMMITTED_LOSS", found.story
    told = [one for one in found.audit.findings if one.code in ("HWM-LOSS", "TRN-BELOW-HW")]
    assert all("was cut since it was copied and has them by now" in one.message for one in told), found.story
    assert {one.confidence for one in told if one.code == "TRN-BELOW-HW"} <= {"likely"}, found.story


def test_what_a_leader_cannot_have_cut_where_both_logs_end_was_lost():
    """Both checkpoints lie past their logs; the leader began at 0 in an epoch that it led before, and was thought to have cut both at 11."""
    found = copy_live(1231, timed=True, eligible=True)
    assert found.lost and found.audit.verdict == "COMMITTED_LOSS", found.story


def test_a_leader_whose_log_was_begun_anew_between_the_copies_of_it_and_of_its_epoch_file_has_lost_nothing():
    """The file, which was copied later, has a count of 0: HWM-LOSS, proven."""
    found = copy_live(200874, timed=True, eligible=True, lost_tails=False)
    assert not found.lost and found.audit.verdict not in ALARMS, found.story


def test_where_no_history_shows_who_led_an_unclean_election_may_have_cut_all_of_a_log_while_it_was_copied():
    found = copy_live(702574, timed=True, eligible=True, lost_tails=False)
    told = [one for one in found.audit.findings if one.code.endswith("-ABOVE-LEO")]
    assert len(told) == 3 and {(one.severity, one.confidence) for one in told} == {("high", "likely")}, found.story


@pytest.mark.parametrize(
    ("seed", "how", "was"),
    [
        (60394, {"eligible": True, "lost_tails": True}, "all records below 1: DIV-HIDDEN"),
        (705680, {"unclean": False, "failed_disks": True}, "all records below 4: DIV-HIDDEN"),
        (706761, {"unclean": False, "eligible": True}, "the same: DIV-HIDDEN"),
        (707372, {"unclean": False}, "all below 57, and the leader's log was begun anew there: HWM-LOSS, proven"),
        (1000508, {"unclean": False}, "the same below 6, by the others' epoch files: HWM-LOSS, proven"),
    ],
)
def test_what_differs_below_where_the_epoch_files_begin_was_deleted_after_the_logs_were_copied_in_order(
    seed: int, how: dict[str, bool], was: str
):
    found = copy_live(seed, timed=True, **{"lost_tails": False, **how})
    assert not found.lost and found.audit.verdict not in ALARMS, f"{was}\n{found.story}"


@pytest.mark.parametrize(
    ("seed", "why", "lost"),
    [
        (201242, "the logs go on alike at 6, where the epoch files of two begin, by which their logs begin there", []),
        (201054, "the log of the leader was cut at 4, where its epoch file begins", [(2, 4, 9)]),
        (700825, "the leader's epoch file begins at 18, where the log of the follower ends", []),
    ],
)
def test_committed_records_below_where_a_later_epoch_file_begins_are_not_called_lost_for_sure(
    seed: int, why: str, lost: list[tuple[int, int, int]]
):
    """They had been deleted (HWM-LOSS, proven); what was lost above that is still proven."""
    found = copy_live(seed, timed=True, lost_tails=False, eligible=seed == 700825)
    told = [one for one in found.audit.findings if one.code in ("HWM-LOSS", "TRN-BELOW-HW") and one.verdict]
    proven = {(one.broker_id, one.start_offset, one.end_offset) for one in told if one.confidence == "proven"}
    assert len(told) > len(proven) and proven == {*lost}, f"{why}\n{found.story}"
    reasons = ("the log may begin at", "may have followed another leader meanwhile")
    assert all(any(reason in one.message for reason in reasons) for one in told if one.confidence != "proven"), (
        found.story
    )


def test_what_a_member_has_below_what_was_deleted_since_the_log_start_was_copied_is_no_loss():
    """By the leader's epoch file, which was copied later, its log begins at 12, where both logs end: HWM-ABOVE-ISR-PREFIX."""
    found = copy_live(61367, timed=True, unclean=False)
    assert not found.lost and found.audit.verdict not in ALARMS, found.story


@pytest.mark.parametrize("seed", [199, 61852])
def test_what_no_leader_can_have_since_an_unclean_election_is_lost_for_sure(seed: int):
    """The leader was copied before it led; whoever joined the ISR since had been cut first: HWM-LOSS was suspect."""
    found = copy_live(seed, timed=True, lost_tails=False)
    lost = [one for one in found.audit.findings if one.code == "HWM-LOSS" and one.confidence == "proven"]
    assert found.lost and lost and found.audit.verdict == "COMMITTED_LOSS", found.story


@pytest.mark.parametrize("seed", [60016, 60331, 60335])
def test_what_was_lost_and_then_deleted_in_its_place_was_lost(seed: int):
    found = copy_live(seed, timed=True)
    assert found.audit.verdict == "COMMITTED_LOSS" and found.lost and not found.cluster.lost_batches(), found.story


@pytest.mark.parametrize("seed", [60810, 61576, 62478])
def test_an_empty_log_that_was_copied_in_order_before_its_broker_led_has_lost_nothing(seed: int):
    """By the manifest the epoch file was copied after the log: HWM-LOSS, proven."""
    found = _clean(seed, timed=True)
    assert found.audit.verdict not in ALARMS, found.story


def test_a_mark_that_is_later_than_a_log_that_was_cut_proves_nothing_of_what_was_cut():
    """The leader's log and epoch file are of before it was cut at 35, and it led again in epoch 5, which they lack."""
    case = _clean(220, any_order=True).audit.case
    assert case.reference.predates and case.reference.facts.directory.high_watermark_checkpoint == 38
    assert {part.start_offset for item in case.comparisons for part in item.stretches} == {35}
    assert case.high_watermark.proven_lower <= 35


def test_a_log_that_ends_below_its_own_log_start_is_older_and_bounds_nothing():
    """Its epoch file begins at 8, inside the last epoch of the log, which ends at 7: the high watermark was said to be exactly that."""
    mark = copy_live(62440, lost_tails=False).audit.case.high_watermark
    assert (mark.hw_upper, mark.method) == (None, "interval")
    assert "broker 1 ends at 7, below 8, where the log begins by its own epoch file" in mark.upper_evidence


def test_the_flag_of_a_stop_during_the_copy_makes_no_alarm():
    """Not one that the same files without it do not have; the files of many contradict it, and those of some do not."""
    told = Counter()
    for seed in range(COUNT):
        found, without = (
            copy_live(seed, any_order=True, stopped=True, flagged=one, unclean=False, lost_tails=False)
            for one in (True, False)
        )
        assert _alarms(found) <= _alarms(without), found.story
        for facts in found.audit.case.replicas:
            if facts.directory.clean_shutdown:
                told["as stopped" if facts.is_as_stopped else "contradicted"] += 1
        told["alarms"] += bool(_alarms(found))
    assert told["contradicted"] > 10 and told["as stopped"] and told["alarms"] < COUNT / 20, told


def _alarms(found: LiveCopy) -> set[tuple[str, int | None]]:
    """(code, broker id) of what a clean history does not have."""
    return {
        (one.code, one.broker_id)
        for one in found.audit.findings
        if one.verdict in ALARMS or (one.verdict == "LATENT_CORRUPTION" and one.severity == "high")
        if not found.went_down_midway & {one.broker_id, found.audit.case.reference.facts.broker_id}
    }


@pytest.mark.parametrize("seed", [6, 8, 22, 35])
def test_a_flag_that_the_other_files_contradict_does_not_show_one_moment(seed: int):
    """Each was LATENT_CORRUPTION: a checkpoint of the stop beside a log of before, or an epoch file of before."""
    found = copy_live(seed, any_order=True, stopped=True, unclean=False, lost_tails=False)
    assert found.audit.verdict not in (*ALARMS, "LATENT_CORRUPTION"), found.story
    assert any(one.in_any_order and one.directory.clean_shutdown for one in found.audit.case.replicas), found.story


@pytest.mark.parametrize(
    ("seed", "was"),
    [
        (1186, "another replica has the run, and records of a later leader: HWM-LOSS"),
        (1731, "a checkpoint was later than its log, which a clean election had left behind: HWM-LOSS"),
        (3599, "the same, after two elections: HWM-LOSS"),
        (4245, "a checkpoint was later than its log, and the flag of its stop than both: HWM-LOSS"),
        (6031, "the same of three logs: HWM-LOSS"),
        (7704, "the leader was copied before a member of the ISR led: HWM-ABOVE-ISR-PREFIX"),
        (60108, "an epoch file was copied while it was empty, the flag of the stop later: DIV-HIDDEN"),
    ],
)
def test_histories_of_stopped_brokers_that_were_once_said_to_have_lost_records(seed: int, was: str):
    found = copy_live(seed, any_order=True, stopped=True, unclean=False, lost_tails=False)
    assert found.audit.verdict not in ALARMS, f"{was}\n{found.story}"


@pytest.mark.parametrize(
    ("seed", "was"),
    [
        (17, "a listing named a leader whose copy did not know the others' epoch: DIV-HIDDEN"),
        (45, "DeleteRecords had moved the log start after its checkpoint was copied: DIV-HIDDEN"),
        (60, "the leader's epoch file begins past the end of its log: HWM-LOSS and DIV-HIDDEN"),
        (216, "a leader went down after its log was copied: REP-LEADER-SHORTER"),
        (516, "a follower was copied before it was cut, and came in sync: HWM-ABOVE-ISR-PREFIX"),
        (654, "the leader was copied before it led, and cut since: HWM-LOSS"),
        (743, "the log of the leader, which is shorter than its epoch file says, may be older: TRN-BELOW-HW"),
        (1094, "the leader was copied before it led: HWM-LOSS"),
        (1725, "a log start had moved to where an epoch begins: HWM-LOSS"),
        (4245, "the same, of the leader's log: DIV-HIDDEN"),
        (5761, "the leader's epoch file begins at the end of its log, in an epoch that began below: DIV-HIDDEN"),
        (5690, "nobody led any more, and the last in sync was copied before it led: HWM-LOSS"),
        (6414, "the same, and it has an epoch of before: HWM-LOSS"),
        (6601, "the log starts of both had moved to where an epoch begins: DIV-HIDDEN"),
        (
            62505,
            "the leader was copied before it was cut, and its log start had moved inside an epoch since: DIV-HIDDEN",
        ),
    ],
)
def test_histories_that_were_once_said_to_have_lost_records(seed: int, was: str):
    found = _clean(seed)
    assert found.audit.verdict not in ALARMS, f"{was}\n{found.story}"


@pytest.mark.parametrize(
    ("seed", "was"),
    [
        (294, "the leader's log was older than its epoch file: TRN-BELOW-HW"),
        (432, "the metadata log was older than a follower's log: DIV-HIDDEN"),
        (501, "no log here was of the newest leader's: DIV-HIDDEN"),
        (516, "the metadata log and the leader's log were older than the followers': HWM-LOSS"),
        (574, "a checkpoint of the leader was later than its log, which was cut since: TRN-BELOW-HW"),
        (706, "a checkpoint of a follower was later than its log, which was cut since: HWM-LOSS"),
        (928, "the leader was copied before it led, and a follower goes on past its end: TRN-BELOW-HW"),
        (1388, "the leader was copied while its log and its epoch file were empty: HWM-LOSS"),
        (1547, "the leader's log was older than its log start, and had earlier epochs: HWM-LOSS"),
        (1992, "a checkpoint of a follower was later than its log, which a clean election had left behind: HWM-LOSS"),
        (
            2131,
            "the leader's log was older than its epoch file, and ends below what a follower had committed: HWM-LOSS",
        ),
        (2391, "the same, and the checkpoint that proves it is a follower's: TRN-BELOW-HW"),
        (2714, "an empty log's epoch file was older than its last records: HWM-ABOVE-ISR-PREFIX"),
        (3336, "the leader's log was several elections older than its epoch file: HWM-LOSS"),
        (3980, "a member of the ISR had a log that was older than its epoch file: HWM-ABOVE-ISR-PREFIX"),
        (4542, "the leader's epoch file was of before its log, and that of before it led: HWM-LOSS"),
        (5684, "the same, and a follower had the leader's records already: DIV-HIDDEN"),
    ],
)
def test_histories_whose_files_in_any_order_were_once_said_to_have_lost_records(seed: int, was: str):
    found = _clean(seed, any_order=True)
    assert found.audit.verdict not in ALARMS, f"{was}\n{found.story}"
    assert not [one for one in found.audit.findings if one.severity == "critical"], f"{was}\n{found.story}"


def test_a_checkpoint_may_be_later_than_the_metadata_log_by_which_a_broker_that_is_down_is_eligible():
    """Others have come in sync since, and committed up to it: HWM-ABOVE-ISR-PREFIX, proven."""
    found = _clean(1001184, any_order=True, eligible=True)
    assert found.audit.verdict not in ALARMS, found.story
    assert {(one.broker_id, one.start_offset) for one in found.audit.findings if one.code == "CAP-SKEW"} == {(3, 21)}


@pytest.mark.parametrize(
    ("seed", "how", "why"),
    [
        # A loss leaves the same files: in the ISR there is also who has not been cut yet after a clean election that lost records.
        (1000365, {"any_order": True, "eligible": True, "unclean": False}, "nothing shows in which order"),
        # Of the two records at offset 1 both were committed; the reference still has the one that was lost, below its log start.
        (1000021, {"timed": True, "stopped": True}, "may have followed another leader meanwhile"),
    ],
)
def test_what_may_be_a_loss_by_the_files_is_likely_and_never_proven(seed: int, how: dict[str, bool], why: str):
    found = copy_live(seed, lost_tails=False, **how)
    told = [one for one in found.audit.findings if one.verdict == "COMMITTED_LOSS"]
    assert told and all(one.confidence == "likely" and why in one.message for one in told), found.story


@pytest.mark.parametrize(
    ("seed", "least", "greatest"),
    [
        # The metadata log was copied before the log of the leader, which it has alone in sync; the others came back meanwhile.
        (2456, 19, 29),
        # A member was copied before it came in sync, and the leader's copy ends below it.
        (2207, 21, 33),
    ],
)
def test_files_in_any_order_that_once_bounded_the_high_watermark_wrongly(seed: int, least: int, greatest: int):
    """`least` and `greatest`: the high watermark at the moments of the copies."""
    found = _clean(seed, any_order=True)
    mark = found.audit.case.high_watermark
    assert mark.proven_lower <= mark.hw_lower <= greatest, found.story
    assert mark.hw_upper is None or mark.hw_upper >= least, found.story


def test_a_log_start_that_is_later_than_the_log_shows_nothing_of_the_records_below_it():
    """The leader's log was copied before it was cut, and what it got in place of its records was deleted since: HWM-LOSS."""
    found = copy_live(5787, any_order=True)
    assert not found.lost and found.audit.verdict not in ALARMS, found.story
    assert not [one for one in found.audit.findings if "never had" in one.message], found.story
    assert [one for one in found.audit.findings if one.code == "DIV-EPOCH" and "copied before it led" in one.message]


def test_an_unclean_election_names_the_doubt_that_the_loss_it_caused_has():
    """It said "all proven committed" of records that a later leader had."""
    found = copy_live(2084, any_order=True, stopped=True)
    told = {one.code: one.message for one in found.audit.findings if one.code in ("HWM-LOSS", "META-UNCLEAN-ELECTION")}
    doubt = told["HWM-LOSS"].partition("; a later leader")[2]
    assert doubt and told["META-UNCLEAN-ELECTION"].endswith(doubt), found.story


def test_a_checkpoint_or_an_epoch_file_of_another_moment_than_its_log_decides_nothing():
    """Where the broker may have run. The end of the log, and what lies past it, are named."""
    told = Counter()
    for seed in range(COUNT):
        found = _clean(seed, any_order=True)
        for one in found.audit.findings:
            if one.code == "EPO-CACHE-MISSING":
                assert one.severity in ("medium", "info"), found.story
            if one.code not in ("HWM-CP-ABOVE-LEO", "HWM-RP-ABOVE-LEO", "EPO-FILE-CORRUPT"):
                continue
            (facts,) = (facts for facts in found.audit.case.replicas if facts.broker_id == one.broker_id)
            if one.severity == "info":  # deleted since
                assert found.audit.case.reference.facts.log_start_offset >= one.end_offset, found.story
                continue
            # Nothing tells a broker that went down while it was copied from one that was down before (C.2).
            assert facts.in_any_order or one.broker_id in found.went_down_midway, found.story
            assert one.severity == ("medium" if facts.in_any_order else "high"), found.story
            assert found.audit.verdict not in ("CONSISTENT", "LAGGING"), found.story
            if one.code != "EPO-FILE-CORRUPT":
                assert (one.start_offset, str(one.end_offset) in one.message) == (facts.log_end_offset, True)
            told[one.code] += 1
    assert len(told) == 3, told


@pytest.mark.parametrize("seed", [94, 225, 288, 425, 515, 580, 801, 1093, 1191, 1273, 1487])
def test_a_checkpoint_of_what_was_deleted_since_leaves_nothing_open(seed: int):
    found = _clean(seed, any_order=True)
    start = found.audit.case.reference.facts.log_start_offset
    told = [one for one in found.audit.findings if one.code.endswith("-ABOVE-LEO") and one.end_offset <= start]
    assert all((one.severity, one.verdict) == ("info", None) for one in told), found.story
    # Where the log's own start lies above it, it is not even past its end.
    assert told or seed == 288, found.story


@pytest.mark.parametrize(
    ("seed", "why"),
    [
        (84, "the log start had moved into the first epoch of the file"),
        (105, "an epoch without records had no trace in any other copy"),
        (366, "the same, of an epoch that is later than the log's"),
        (561, "an election had come after all other copies"),
        (1375, "the log start had moved to where the log has another epoch since"),
        (60622, "more than one election had come between the copies of the log and the file"),
    ],
)
def test_an_epoch_file_that_may_be_of_another_moment_is_not_said_to_be_damaged(seed: int, why: str):
    found = _clean(seed, any_order=True)
    (told,) = [one for one in found.audit.findings if one.code == "EPO-CACHE-MISSING" and one.severity != "info"]
    assert (told.severity, told.verdict) == ("medium", "INCONCLUSIVE"), f"{why}\n{found.story}"


def test_an_epoch_file_from_between_a_deletion_and_an_election_is_not_said_to_be_damaged():
    """The log start had moved, so that it lacks epochs, and the log goes on in one that it does not have yet."""
    found = copy_live(60270, any_order=True, stopped=True, unclean=False, lost_tails=False)
    (told,) = [one for one in found.audit.findings if one.code == "EPO-CACHE-MISSING"]
    assert (told.severity, found.audit.verdict) == ("medium", "INCONCLUSIVE"), found.story


@pytest.mark.parametrize("seed", [60060, 61391, 62480])
def test_a_broker_that_went_down_between_the_copies_of_its_log_and_its_epoch_file_has_no_damage(seed: int):
    found = _clean(seed)
    (told,) = [one for one in found.audit.findings if one.code == "EPO-CACHE-MISSING" and one.severity != "info"]
    assert found.went_down_midway and (told.severity, told.verdict) == ("medium", "INCONCLUSIVE"), found.story


@pytest.mark.parametrize("any_order", [False, True], ids=["in order", "any order"])
def test_what_a_broker_that_went_down_while_it_was_copied_leaves_is_no_proof_of_damage(any_order: bool):
    """Nothing tells it from one that was down before, unless the manifest does (C.2); the finding says so, and asks for it."""
    told = Counter()
    for seed in range(COUNT if not any_order else 5 * COUNT):
        found = _clean(seed, any_order=any_order)
        for one in found.audit.findings:
            if one.code.endswith("-ABOVE-LEO") or one.code in ("EPO-FILE-CORRUPT", "EPO-CACHE-MISSING"):
                assert one.severity in ("medium", "info") or one.confidence == "likely", found.story
                assert ("gone down while it was copied" in one.message) == (one.confidence == "likely"), found.story
                told[one.confidence] += 1
    assert told["likely"] or not any_order, told


@pytest.mark.parametrize("seed", [401212, 401663])
def test_a_flag_that_was_copied_after_the_broker_had_gone_down_proves_no_damage(seed: int):
    """All brokers were stopped in the end, and by the metadata log; one was while it was copied."""
    how = {"any_order": True, "stopped": True, "failed_disks": True}
    found = _clean(seed, **how)
    told = [one for one in found.audit.findings if one.code == "HWM-RP-ABOVE-LEO"]
    assert {(one.severity, one.confidence) for one in told} == {("high", "likely")}, found.story


def test_a_checkpoint_proves_a_loss_only_where_its_file_is_not_perhaps_later_than_the_log():
    """Else it is likely, in every finding that rests on it, and each says why; the verdict stays."""
    told = Counter()
    for seed in range(COUNT):
        audit = copy_live(seed, any_order=True, lost_tails=False).audit
        ordered = {one.broker_id for one in audit.case.replicas if not one.in_any_order}
        for one in audit.findings:
            if one.code in ("HWM-LOSS", "TRN-BELOW-HW") and one.severity == "critical":
                marks = {part.broker_id for part in one.evidence if part.kind == "checkpoint"}
                is_ordered = "in which order" not in one.message
                assert is_ordered == bool(marks & ordered), (seed, one)
                is_certain = is_ordered and "gone down while it was copied" not in one.message
                assert one.confidence == ("proven" if is_certain else "likely"), (seed, one)
                told[one.confidence] += 1
    assert told["proven"] and told["likely"], told


def test_a_mark_of_a_broker_that_may_have_gone_down_while_it_was_copied_proves_no_loss():
    """Unless by the metadata log it was down before anybody was elected who could have cut its log."""
    found = _clean(4084, any_order=True)
    lost = [one for one in found.audit.findings if one.code == "HWM-LOSS"]
    assert lost and {one.confidence for one in lost} == {"likely"}, found.story


@pytest.mark.parametrize("seed", [6457, 7222])
def test_what_no_file_tells_from_a_loss_is_not_called_proven(seed: int):
    """A log that was cut and fetched again between the copies of log and checkpoint (C.2)."""
    found = copy_live(seed, any_order=True, stopped=True, unclean=False, lost_tails=False)
    assert not found.lost and found.audit.verdict == "COMMITTED_LOSS", found.story
    assert {one.confidence for one in found.audit.findings if one.severity == "critical"} == {"likely"}, found.story


@pytest.mark.parametrize(
    ("seed", "why"),
    [
        (200770, "the order of the copies of broker 0 is not known"),
        (60924, "the same of broker 2, which has a hole below the beginning of its log"),
    ],
)
def test_what_differs_below_a_log_start_that_moved_since_is_not_called_proven(seed: int, why: str):
    """A follower was cut where its leader's log began, and its own log start and epoch file were copied before that."""
    found = _clean(seed, any_order=True, stopped=True)
    told = [one for one in found.audit.findings if one.verdict == "COMMITTED_DIVERGENCE"]
    assert {one.code for one in told} == {"DIV-HIDDEN", "TRN-REPLAY-GAP", "EPO-START-MISMATCH"}, f"{why}\n{found.story}"
    assert all(one.confidence == "likely" and "the log may begin at" in one.message for one in told), found.story


@pytest.mark.parametrize("any_order", [False, True], ids=["in order", "any order"])
def test_no_clean_history_is_proven_to_differ_for_good(any_order: bool):
    told = Counter()
    for seed in range(COUNT if not any_order else 5 * COUNT):
        found = _clean(seed, any_order=any_order, stopped=bool(seed % 2))
        for one in found.audit.findings:
            assert one.verdict != "COMMITTED_DIVERGENCE" or one.confidence != "proven", found.story
        told[found.audit.verdict] += 1
    assert told["UNCOMMITTED_DIVERGENCE"], told


def test_a_directory_of_a_topic_that_was_created_anew_is_not_judged_by_the_new_one():
    """All copies are of its first life, and what says who leads is of the second: DIV-HIDDEN."""
    found = _clean(60008, any_order=True, anew=True, failed_disks=True)
    told = {one.code for one in found.audit.findings}
    assert told == {"META-TOPICID-MISMATCH", "CAP-MISSING-REPLICA"}, found.story
    assert found.audit.verdict == "INCONCLUSIVE", found.story


@pytest.mark.parametrize("seed", [300372, 301991])
def test_a_mark_past_the_end_of_a_log_proves_no_more_of_others_than_of_its_own(seed: int):
    """HWM-LOSS was proven by it, and HWM-CP-ABOVE-LEO was likely."""
    found = _clean(seed, any_order=True, anew=True)
    told = {one.code: one.confidence for one in found.audit.findings if one.code in ("HWM-LOSS", "HWM-CP-ABOVE-LEO")}
    assert told == {"HWM-LOSS": "likely", "HWM-CP-ABOVE-LEO": "likely"}, found.story


def test_an_epoch_file_of_a_broker_that_came_back_shows_that_its_log_may_have_been_cut():
    """By the metadata log it was down before anybody was elected; it started again, followed and was copied on: HWM-LOSS, proven."""
    found = _clean(301848, any_order=True, anew=True)
    lost = [one for one in found.audit.findings if one.code in ("HWM-LOSS", "TRN-BELOW-HW")]
    assert lost and {one.confidence for one in lost} == {"likely"}, found.story


@pytest.mark.parametrize("seed", [31, 53, 95, 103, 178, 267, 607])
def test_an_epoch_file_of_a_later_moment_than_its_log_is_not_damaged(seed: int):
    found = _clean(seed)
    damaged = [one for one in found.audit.findings if one.code in ("EPO-CACHE-MISSING", "EPO-FILE-CORRUPT")]
    assert not [one for one in damaged if one.severity == "high"], found.story


@pytest.mark.parametrize("any_order", [False, True])
def test_what_an_unclean_election_lost_is_told_in_live_copies_as_well(any_order: bool):
    told = Counter()
    for seed in range(COUNT):
        found = copy_live(seed, any_order=any_order, lost_tails=False)
        told[found.audit.verdict] += found.lost
    assert told["COMMITTED_LOSS"] > sum(told.values()) / 3, told


def test_a_follower_whose_records_were_all_deleted_begins_anew_inside_a_batch_of_its_leader():
    """The simulation failed."""
    assert copy_live(2909).audit.verdict


def test_records_that_a_leader_may_have_by_now_are_not_said_to_be_left_behind():
    """The leader was copied before it was cut and fetched them; it was elected cleanly since, and has them all."""
    found = copy_live(51043, source="metadata_log")
    told = [one for one in found.audit.findings if one.code == "DIV-TAIL-PENDING"]
    assert told and all(one.message.endswith("was copied before it led, or before it was cut") for one in told), (
        found.story
    )
