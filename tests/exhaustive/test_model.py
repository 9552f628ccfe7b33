"""The model keeps Kafka's invariants (docs/semantics.md, B.6) in every state, so that it can be the judge of answers."""

from __future__ import annotations

from functools import cache

from tests.exhaustive.model_replica import RECORDS, Batch, Replica, follow
from tests.exhaustive.partition import BROKERS, State, created
from tests.exhaustive.states import key, reachable, walks
from tests.support.some import some


@cache
def states() -> tuple[State, ...]:
    """All near ones, and some further away."""
    return (*reachable(3), *walks(1, 8, 500))


def told(state: State) -> str:
    return "\n".join(state.story)


def is_tame(state: State) -> bool:
    """Nothing was elected uncleanly, and no log lost its end."""
    return not any("unclean" in event or "loses" in event for event in state.story) and not state.recovering


def test_two_logs_that_share_a_batch_share_all_below_it():
    for state in some(states()):
        for one in state.replicas:
            for other in state.replicas:
                common = {batch.name for batch in one.batches} & {batch.name for batch in other.batches}
                top, start = max(common, default=(-1, 0))[0], max(one.first, other.first)
                below = [{batch.name for batch in log.batches if start <= batch.base <= top} for log in (one, other)]
                assert below[0] == below[1], told(state)


def test_epochs_never_decrease_and_marks_lie_within_the_log():
    for state in some(states()):
        for replica in state.replicas:
            epochs = [batch.epoch for batch in replica.batches]
            assert epochs == sorted(epochs), told(state)
            assert list(replica.epochs) == sorted(replica.epochs), told(state)
            assert replica.recovery_point <= replica.end, told(state)
            if replica.status == "up":
                assert replica.log_start <= replica.high_watermark <= replica.end, told(state)


def test_what_is_committed_stays_on_the_leader_while_nothing_is_lost_and_every_election_is_clean():
    tame = 0
    for state in some(filter(is_tame, states())):
        tame += 1
        if state.leader is not None:
            leader = state.replicas[state.leader]
            held = {batch.name for batch in leader.batches}
            assert {name for name in state.committed if name[0] >= leader.first} <= held, told(state)
    assert tame > 100


def test_every_member_of_isr_and_elr_that_kept_its_log_has_what_is_committed():
    for state in some(filter(is_tame, states())):
        for broker in {*state.isr, *state.elr}:
            log = state.replicas[broker]
            held = {batch.name for batch in log.batches}
            assert {name for name in state.committed if name[0] >= log.first} <= held, told(state)


def test_after_following_a_log_is_the_beginning_of_its_leaders():
    for state in some(states()):
        for leader in BROKERS:
            chosen = state.replicas[leader].loaded()
            leading = chosen.assign(state.epoch + 1, chosen.end)
            held = {batch.name for batch in chosen.batches}
            for broker in set(BROKERS) - {leader}:
                kept = follow(state.replicas[broker].loaded(), leading)
                foreign = {batch.name for batch in kept.batches if batch.base >= max(kept.log_start, state.deleted_to)}
                assert foreign <= held, told(state)


def test_the_examples_of_the_rule_book_come_out_as_it_says():
    """E3 and E4 of B.4, an offset there being a batch here."""

    def log(epochs: dict[int, int], end: int) -> Replica:
        starts = sorted((start, epoch) for epoch, start in epochs.items())
        batches = [Batch(RECORDS * at, max(epoch for start, epoch in starts if start <= at), 0) for at in range(end)]
        return Replica(tuple(batches), epochs=tuple((epoch, RECORDS * start) for epoch, start in epochs.items()))

    examples = [
        (log({0: 0, 2: 10}, 12), log({0: 0, 1: 10, 3: 15}, 20), 10),
        (log({0: 0, 2: 10, 4: 14, 6: 18}, 20), log({0: 0, 1: 10, 3: 12, 5: 13, 7: 16}, 30), 10),
    ]
    for follower, leader, kept in examples:
        assert follow(follower, leader).end == RECORDS * kept


def test_brokers_that_change_names_make_no_other_state():
    state = created(1, False)
    assert state._replace(leader=1, fetched=(4, -1, 4)) != state
    assert key(state._replace(leader=1, fetched=(4, -1, 4))) == key(state)
