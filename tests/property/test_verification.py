"""Two moments of the simulated cluster: what verify says of each replica against what really happened in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache

from tests.property.capture import to_model
from tests.property.cluster import Cluster
from tests.property.history import HISTORIES, go_on, histories, narrate, play
from tests.property.replica import Batch, Replica
from tests.support.some import some

from replica_audit.auditing.comparison_plan import ComparisonPlan
from replica_audit.auditing.conclude import conclude
from replica_audit.schema import VerificationRow
from replica_audit.verify.verified_partition import Pairing, PartitionVerification, verify_partition

COUNT = max(1, HISTORIES // 3)


@dataclass
class _Pair:
    before: Cluster
    after: Cluster
    result: PartitionVerification
    story: str

    @property
    def rows(self) -> Iterator[tuple[VerificationRow, Replica, Replica]]:
        for row in self.result.verifications:
            yield row, self.before.replicas[row.broker_id], self.after.replicas[row.broker_id]


@cache
def _pairs(*, lost_tails: bool = True) -> tuple[_Pair, ...]:
    return tuple(_pair(seed, before, lost_tails) for seed, before in histories(COUNT, 3_000_000, lost_tails=lost_tails))


def _pair(seed: int, before: Cluster, lost_tails: bool) -> _Pair:
    after = deepcopy(before)
    after.events.append("-- the later snapshot --")
    go_on(after, seed, 5 + seed % 40, lost_tails)
    (old, old_rows), (new, new_rows) = (to_model(cluster) for cluster in (before, after))
    audits = [conclude(ComparisonPlan(old), old_rows), conclude(ComparisonPlan(new), new_rows)]
    result = verify_partition(Pairing(audits[0].case, audits[1].case, old_rows, new_rows))
    told = "\n".join(f"  {row}" for row in (*result.verifications, *result.gone))
    return _Pair(before, after, result, f"{told}\n{narrate(seed, after)}")


def _floor(old: Replica, new: Replica, leader: Replica) -> int:
    return max(new.log_start, leader.log_start, old.log_start)


def _kept_to(old: Replica, new: Replica, floor: int) -> int:
    """By content: where the earlier log, from `floor` on, is first not there any more."""
    held = {batch.content for batch in new.batches}
    missing = [batch.base_offset for batch in old.batches if batch.end_offset > floor and batch.content not in held]
    return max([floor, min([*missing, old.disk_end])])


def test_what_a_replica_kept_is_what_its_two_logs_share():
    kept = Counter()
    for pair in _pairs():
        for row, old, new in pair.rows:
            floor = _floor(old, new, pair.after.leader)
            if floor < old.disk_end:
                assert row.kept_to == _kept_to(old, new, floor), f"{row}\n{pair.story}"
                kept[row.kept_to < old.disk_end] += 1
    assert kept[True] > COUNT / 10 and kept[False] > COUNT / 10, kept


def test_a_follower_that_another_leader_cut_in_between_has_not_followed_yet():
    """Found among 4,000 histories: cut at 9 by the leader of epoch 3, before an unclean election brought back the older log."""
    seed = 3_000_784
    pair = _pair(seed, play(seed, lost_tails=False), lost_tails=False)
    (row,) = [row for row, _, _ in pair.rows if row.broker_id == 0]
    assert (row.kept_to, row.expected, row.verdict) == (9, 12, "not_yet"), pair.story
    assert "it followed the leader of epoch 3 in between" in row.reason


def test_followers_of_a_sound_cluster_are_never_said_to_have_cut_wrongly():
    verdicts = Counter()
    for pair in _pairs(lost_tails=False):
        for row, _, _ in pair.rows:
            assert row.verdict in ("correct", "lost_committed", "not_yet"), f"{row}\n{pair.story}"
            verdicts[row.verdict] += 1
    assert min(verdicts[verdict] for verdict in ("correct", "lost_committed", "not_yet")) > 0, verdicts


def test_a_follower_that_has_not_been_cut_holds_what_the_leader_lacks_and_no_other_does():
    for pair in some(_pairs(lost_tails=False)):
        held = {batch.content for batch in pair.after.leader.batches}
        for row, old, new in pair.rows:
            floor = _floor(old, new, pair.after.leader)
            mine = {batch.content for batch in old.batches}
            foreign = [
                batch
                for batch in new.batches
                if batch.end_offset > floor and batch.content in mine and batch.content not in held
            ]
            # Or another leader cut it in between, and its records stand there now.
            between = row.kept_to is not None and [
                batch
                for batch in new.batches
                if batch.base_offset == row.kept_to < row.expected and batch.content not in held
            ]
            assert (row.verdict == "not_yet") == bool(foreign or between), f"{row}\n{pair.story}"


def test_a_replica_that_lost_its_tail_kept_less_than_it_should():
    cut = 0
    for pair in _pairs():
        held = {batch.content for batch in pair.after.leader.batches}
        for row, old, new in pair.rows:
            floor = _floor(old, new, pair.after.leader)
            lost = [
                b for b in old.batches if b.end_offset > floor and b.content in held and b.base_offset >= new.disk_end
            ]
            if row.verdict == "over_truncated":
                assert lost, f"{row}\n{pair.story}"
                cut += 1
    assert cut


def _gone(pair: _Pair, words: tuple[str, ...]) -> set[tuple[int, int]]:
    """(offset, leader epoch) of all records that are said to be nowhere."""
    return {
        (offset, row.leader_epoch)
        for row in pair.result.gone
        if row.committed in words
        for offset in range(row.start_offset, row.end_offset)
    }


def _offsets(batches: list[Batch]) -> set[tuple[int, int]]:
    return {(offset, batch.leader_epoch) for batch in batches for offset in range(batch.base_offset, batch.end_offset)}


def test_records_said_to_be_nowhere_are_nowhere_and_were_committed_where_it_says_so():
    said = 0
    for pair in _pairs():
        somewhere = _offsets([batch for replica in pair.after.replicas.values() for batch in replica.batches])
        assert not _gone(pair, ("proven", "possible", "no")) & somewhere, pair.story
        proven = _gone(pair, ("proven",))
        assert proven <= _offsets(list(pair.before.committed.values())), pair.story
        said += bool(proven)
    assert said


def test_every_committed_record_of_the_earlier_leader_that_is_nowhere_now_is_told():
    told = 0
    for pair in _pairs():
        start = pair.after.leader.log_start
        somewhere = _offsets([batch for replica in pair.after.replicas.values() for batch in replica.batches])
        committed = [
            b for b in pair.before.leader.batches if b.content in pair.before.committed and b.base_offset >= start
        ]
        gone = _offsets(committed) - somewhere
        assert gone <= _gone(pair, ("proven", "possible")), f"{sorted(gone)}\n{pair.story}"
        told += bool(gone)
    assert told
