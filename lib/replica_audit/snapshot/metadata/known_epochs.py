"""Which epochs the brokers' leader-epoch-checkpoint files have of those that the metadata log began (docs/semantics.md F.0)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from replica_audit.model import Leadership, PartitionState

#: (broker id, topic, partition, topic id) → the entries of that replica's leader-epoch-checkpoint; None without one.
EpochFiles = Callable[[int, str, int, str], Sequence[tuple[int, int]] | None]


class BegunEpoch(NamedTuple):
    """An epoch of a partition, by the state that it began with."""

    state: PartitionState
    partition: Leadership

    @property
    def at(self) -> int:
        """End of the batch that it began with."""
        # Known while the metadata log is read, of which this is a part.
        assert self.state.batch_end is not None
        return self.state.batch_end


class KnownEpochs:
    """Epochs of all partitions in the files of brokers; each file is read once, and only when it is asked for."""

    def __init__(self, leaderships: Sequence[Leadership], epochs: EpochFiles) -> None:
        self._epochs = epochs
        self._files: dict[tuple[int, str, int], set[int]] = {}
        self._of: dict[int, EpochsInFiles] = {}
        self._led_by: dict[int, EpochsInFiles] = {}
        self._begun: dict[int, list[BegunEpoch]] = defaultdict(list)
        for one in leaderships:
            if one.topic_id is not None:
                self._note_epochs(one)
        for begun in self._begun.values():
            begun.sort(key=lambda one: -one.at)

    def _note_epochs(self, one: Leadership) -> None:
        last = None
        for state in one.history:
            if state.uncommitted or state.leader_id is None or state.leader_epoch == last:
                continue
            last = state.leader_epoch
            # When an epoch began that a snapshot has is not known.
            if state.occasion != "snapshot":
                for broker in state.replicas:
                    self._begun[broker].append(BegunEpoch(state, one))

    def of(self, broker: int) -> EpochsInFiles:
        """Epochs in the broker's files."""
        if broker not in self._of:
            self._of[broker] = EpochsInFiles(self._begun.get(broker, []), self._looks_into(broker))
        return self._of[broker]

    def led_by(self, broker: int) -> EpochsInFiles:
        """Those of them that it led."""
        if broker not in self._led_by:
            led = [one for one in self._begun.get(broker, ()) if one.state.leader_id == broker]
            self._led_by[broker] = EpochsInFiles(led, self._looks_into(broker))
        return self._led_by[broker]

    def _looks_into(self, broker: int) -> Callable[[BegunEpoch], bool]:
        return lambda one: one.state.leader_epoch in self._in_file(broker, one.partition)

    def _in_file(self, broker: int, one: Leadership) -> set[int]:
        key = broker, one.topic, one.partition
        if key not in self._files:
            entries = None if one.topic_id is None else self._epochs(*key, one.topic_id)
            self._files[key] = {epoch for epoch, _ in entries or ()}
        return self._files[key]


class EpochsInFiles:
    """Those of `begun`, the latest first, that are in a file (`is_in_file`); looked for only as far as they are asked for."""

    def __init__(self, begun: Sequence[BegunEpoch], is_in_file: Callable[[BegunEpoch], bool]) -> None:
        self._begun, self._is_in_file = begun, is_in_file
        self._looked_at = 0
        self._found: list[BegunEpoch] = []
        self._stretch_ends: list[int] = []
        """Where in `_found` each stretch of one partition ends, but the last."""

    def find_latest(self, own: Leadership, since: int, until: int | None = None) -> BegunEpoch | None:
        """The latest that began in a batch that ends from `since` to `until`, and not in the partition `own`."""
        index = 0 if until is None else bisect_left(self._found, -until, key=lambda one: -one.at)
        while index < len(self._found) or self._find_next(since):
            one = self._found[index]
            if one.at < since:
                return None
            if one.partition is own:
                # The next stretch is another partition's: one step, however many epochs this one has had.
                stretch = bisect_right(self._stretch_ends, index)
                index = self._stretch_ends[stretch] if stretch < len(self._stretch_ends) else len(self._found)
            elif until is not None and one.at > until:
                index += 1
            else:
                return one
        return None

    def _find_next(self, since: int) -> bool:
        """Look for one more that began at `since` or later; whether there is one."""
        while self._looked_at < len(self._begun) and self._begun[self._looked_at].at >= since:
            one = self._begun[self._looked_at]
            self._looked_at += 1
            if self._is_in_file(one):
                if self._found and self._found[-1].partition is not one.partition:
                    self._stretch_ends.append(len(self._found))
                self._found.append(one)
                return True
        return False
