"""The step that copies brokers again, for logs that lost their end or were copied before it was written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from replica_audit.auditing.finding import UnseenTail
from replica_audit.elect.cluster_state import PresentState, newest_states
from replica_audit.elect.cost_matrix import Matrix
from replica_audit.elect.cost_words import name_unseen, say_unseen_tails
from replica_audit.elect.plan_model import Step
from replica_audit.elect.step_list import list_names, list_places
from replica_audit.literals import CaptureKind
from replica_audit.model import TopicPartition
from replica_audit.results import COPIED_AGAIN, Results
from replica_audit.text import listed, name_brokers, name_source


class CopiedAgain(NamedTuple):
    """Partitions with logs that lost their end or were copied before it was written, and the brokers whose copies show which."""

    tails: Mapping[TopicPartition, Sequence[UnseenTail]]
    brokers: tuple[int, ...]
    """In the order in which they are to be copied: who leads most of these partitions comes last (C.2)."""
    options: tuple[str, ...]
    """Options of the `elect` command that makes the plan from them."""
    partitions: tuple[str, ...]
    """Partitions that the plan is made for; empty: all that need a decision."""

    @classmethod
    def of(
        cls,
        matrix: Matrix,
        state: PresentState,
        tails: Mapping[TopicPartition, Sequence[UnseenTail]],
        waiting: Iterable[TopicPartition],
        options: Iterable[str],
        partitions: Iterable[str],
    ) -> CopiedAgain:
        """Partitions with open `tails`, and those `waiting` for them: the next plan needs all copies of these, too."""
        places = {*tails, *waiting}
        led = Counter(map(state.registered_leader, places))
        brokers = {broker for place in places for broker in matrix.replicas[place]}
        in_order = tuple(sorted(brokers, key=lambda broker: (led[broker], broker)))
        return cls(tails, in_order, tuple(options), tuple(partitions))

    def step(self, results: Results, state: PresentState) -> Step:
        """Copies of the brokers, and the plan made from them."""
        lost = {place: [one for one in some if one.instead is None] for place, some in self.tails.items()}
        named = [f"{name_unseen(some)} of {place}" for place, some in lost.items() if some]
        question = say_unseen_tails(
            [one for some in self.tails.values() for one in some], list_names(named), len(named)
        )
        kinds: dict[int, CaptureKind] = {
            one: "stopped" if one in state.clean else "killed" for one in self.brokers if one in state.down
        }
        leaders = self._ask_leaders(results)
        return Step(
            action="capture",
            text=f"Copy the log directories of {name_brokers(sorted(self.brokers))} again, and audit again: {question}. capture-plan "
            f"copies the checkpoints first, and records in manifest.json when it copied and who was down{self._ask_kinds(state, kinds)}. "
            f"Until then start, stop and elect no broker of {list_places(self.tails)}{leaders}{self._ask_disks()}",
            brokers=tuple(sorted(self.brokers)),
            partitions=tuple(self.tails),
            commands=results.copy_again(self.brokers, kinds, self.options, self.partitions, at_once=not leaders),
        )

    def _ask_disks(self) -> str:
        """Sentences on brokers that may run with an empty log dir in place of the one that is here; "" without one."""
        instead = sorted({one.broker_id for some in self.tails.values() for one in some if one.instead is not None})
        return "".join(
            f". LOG_DIR_OF_{broker} means here what broker {broker} runs with. If that is not the disk that was copied, stop the broker first "
            "all the same: its followers are cut to what it has there. Then put the present copy into "
            f"{COPIED_AGAIN}, too, in a log directory of its own"
            for broker in instead
        )

    def _ask_leaders(self, results: Results) -> str:
        """A sentence on sources of leadership that are on no broker; "" without one."""
        newest = newest_states(results)
        sources = {newest[place].source for place in self.tails if place in newest} - {"metadata_log", "inferred"}
        told = listed(["zookeeper.json" if one == "zookeeper" else name_source(one) for one in sorted(sources)])
        return f". Put {told} into {COPIED_AGAIN}, too: it is not on any broker" if sources else ""

    def _ask_kinds(self, state: PresentState, kinds: Mapping[int, CaptureKind]) -> str:
        """Clause on what the user has to add to the command: the log of a running broker counts as older than what
        others have past its end (C.2)."""
        unsure = sorted(set(self.brokers) - state.up - state.down)
        if unsure:
            each = f"each of {name_brokers(unsure)}" if len(unsure) > 1 else name_brokers(unsure)
            that = "that is down" if len(unsure) > 1 else "if it is down"
            return f": add --kind ID=killed for {each} {that}, or ID=stopped if it was stopped cleanly"
        if "killed" in kinds.values():
            return ": write stopped instead of killed for a broker that was stopped cleanly"
        return ""
