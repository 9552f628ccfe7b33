"""Which epoch of another partition in a broker's files is the latest, however many partitions and epochs there are."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.support.step_count import count_steps

from replica_audit.model import Leadership, PartitionState
from replica_audit.snapshot.metadata.sole_isr import KnownEpochs

Begun = tuple[int, int, int]
"""(end of the batch, leader epoch, leader)."""


def _partition(number: int, begun: Sequence[Begun]) -> Leadership:
    history = tuple(
        PartitionState(
            time_ms=0,
            metadata_offset=at - 1,
            occasion="changed",
            leader_id=leader,
            leader_epoch=epoch,
            partition_epoch=epoch,
            isr=(leader,),
            elr=(),
            last_known_elr=(),
            replicas=(1, 2),
            removing=(),
            adding=(),
            directories=(),
            recovering=False,
            configs={},
            batch_end=at,
        )
        for at, epoch, leader in begun
    )
    return Leadership("t", number, "metadata_log", topic_id="id", history=history)


def test_the_latest_of_another_partition_is_found_as_by_looking_at_all() -> None:
    generator = random.Random(5)
    found = 0
    for _ in range(300):
        partitions = [
            _partition(number, [(2 * at + number % 2, at, generator.choice((1, 2))) for at in range(1, 1 + generator.randrange(6))])
            for number in range(generator.randrange(1, 5))
        ]  # fmt: skip
        files = {one.partition: {at for at in range(7) if generator.random() < 0.6} for one in partitions}
        known = KnownEpochs(
            partitions, lambda _broker, _topic, number, _id, files=files: [(at, at) for at in files[number]]
        )
        for _ in range(10):
            own, since, until = generator.choice(partitions), generator.randrange(12), generator.randrange(12)
            every = [
                (state.batch_end, -one.partition, state, one)
                for one in partitions
                for state in one.history
                if one is not own and state.leader_epoch in files[one.partition] and state.batch_end >= since
            ]
            latest = max(every, default=None, key=lambda item: item[:2])
            led = [item for item in every if item[2].leader_id == 1 and item[0] <= until]
            expected = max(led, default=None, key=lambda item: item[:2])
            assert known.of(1).find_latest(own, since) == (latest and latest[2:])
            assert known.of(1, led=True).find_latest(own, since, until) == (expected and expected[2:])
            found += latest is not None and expected is not None
    assert found > 300


def test_many_epochs_of_one_partition_are_passed_over_at_once() -> None:
    def steps(count: int) -> int:
        busy = _partition(0, [(at, at, 1) for at in range(1, count)])
        known = KnownEpochs([busy, _partition(1, [(1, 0, 1)])], lambda *_: [(at, at) for at in range(count)])

        def ask() -> None:
            assert all(known.of(1, led=True).find_latest(busy, 0, at) for at in range(1, count))

        return count_steps(ask).total()

    assert steps(400) < 2.5 * steps(200)
