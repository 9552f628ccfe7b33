"""The last steps of a plan for metadata logs: nodes are started in order, and checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from replica_audit.elect.kafka_commands import LISTENERS, Tools
from replica_audit.elect.plan_model import Step
from replica_audit.elect.step_list import room_for_metadata
from replica_audit.quorum.choosing import EMPTY_LEADS
from replica_audit.quorum.keeping_steps import empty_disks
from replica_audit.quorum.restoration import Restoration
from replica_audit.snapshot.metadata.quorum import name_nodes
from replica_audit.text import capitalise, count, verb

_ELECT_FIRST = "You have made the copies that elect asks for, and elect does not say to start another node first"


def address(to: Restoration, node: int, step: Step) -> Step:
    """The step, addressed to a node that does not vote: a controller or a broker."""
    copies = (one for one in to.held.copies if one.node_id == node)
    is_controller = any(to.held.role(one) == "controller" for one in copies)
    return replace(step, controllers=(node,)) if is_controller else replace(step, brokers=(node,))


class StartSteps:
    """Steps that start nodes once a restoration has put the logs in place, and check what they do."""

    def __init__(self, to: Restoration, tools: Tools) -> None:
        self._to = to
        self._tools = tools
        self._empty_disks = empty_disks(to.held)

    def steps(self) -> Iterator[Step]:
        """All steps in order, without numbers."""
        yield from self._start()
        yield from self._see()

    def _start(self) -> Iterator[Step]:
        if self._to.combined:
            yield self._copy_again(
                f", {name_nodes(self._to.combined)} too, {verb(len(self._to.combined), 'which is a broker', 'which are brokers')} "
                "as well as voters",
                # Elect gives no order if the others must be down but are needed for a majority (H16).
                ". If it gives none, keep AFTER, and first start those that lose nothing by its table, instead of the order below: a "
                "majority of the voters elects leaders, and any broker that is up then may lead",
            )
        going_on = [node for node in self._to.holders if node not in self._to.stopped]
        if going_on:
            each = "each unless it is up" if len(going_on) > 1 else "unless it is up"
            yield Step(
                action="start",
                text=f"Start {name_nodes(going_on)}, {each}: a majority has the right log",
                controllers=tuple(going_on),
                commands=tuple(map(self._tools.start, going_on)),
                before=(
                    *self._right_disks(going_on),
                    *self._has_partitions(going_on),
                    *self._elect_first,
                    *self._room(going_on),
                ),
            )
        lacking = self._to.lacking
        order = sorted(
            self._to.stopped,
            key=lambda one: (self._to.fetches and one in lacking, one != self._to.copy.node_id, one in lacking, one),
        )
        for node in order:
            is_bare = node in self._to.bare
            how = ", unless it is up" if node in self._to.holders else ""
            if is_bare:
                how = f" as a controller only: {self._why_controller(node)}. {LISTENERS}"
            yield Step(
                action="start",
                text=f"Start node {node}{how}",
                controllers=(node,),
                commands=(self._tools.start_as_controller(node) if is_bare else self._tools.start(node),),
                before=(
                    *self._right_disks([node]),
                    *self._has_partitions([node]),
                    *self._elect_first,
                    *self._before_start(node, order),
                    *self._is_reached(node),
                    *self._room([node]),
                    *(
                        ("No other broker starts before the quorum has a leader",)
                        if node == order[0] and not self._to.fetches
                        else ()
                    ),
                ),
            )

    @property
    def _elect_first(self) -> tuple[str, ...]:
        return (_ELECT_FIRST,) if self._to.combined else ()

    def _why_controller(self, node: int) -> str:
        if number := self._to.in_sync(node):
            return f"the chosen log has it in the ISR of {count(number, 'partition')}, and {EMPTY_LEADS}"
        return f"an unclean election may choose it, though the chosen log has it in no ISR, and {EMPTY_LEADS}"

    def _room(self, nodes: Sequence[int]) -> Iterator[str]:
        """Conditions for those of `nodes` that start with everything committed."""
        left = [node for node in nodes if not (self._to.fetches and node in self._to.lacking)]
        return room_for_metadata(left, self._tools.kafka_version)

    def _right_disks(self, nodes: Sequence[int]) -> Iterator[str]:
        """Conditions for nodes that also have an empty log dir in the snapshot."""
        for node in nodes:
            if node in self._empty_disks:
                used, empty = self._empty_disks[node]
                yield (
                    f"Node {node} starts with the log directory that the snapshot has as {used}, or with a copy of it, in its place: with "
                    f"{empty} instead, empty as in the snapshot, it votes for a node that lacks committed records"
                )

    def _has_partitions(self, nodes: Sequence[int]) -> Iterator[str]:
        """Checks of the log directories of nodes that have no partition here."""
        for node in nodes:
            if node in self._to.bare:
                yield f"No log directory of node {node} has a partition, nor one that ends in -stray"
            elif node in self._to.unseen:
                yield f"Node {node} still has its partitions, or no other node has any of them"

    def _is_reached(self, node: int) -> Iterator[str]:
        """A condition for a voter that may come back on another host. Nodes look for voters at the addresses in their
        settings or, in a dynamic quorum (KIP-853), in the log: there the voter tells the leader its new address, and nobody
        can lead whom the others look for at an old one (`VoterSet`)."""
        if node in self._to.held.available:
            return
        if not self._to.is_dynamic:
            yield (
                f"controller.quorum.voters of every node has the address at which node {node} is now. Where that is a new one, write it there "
                "before the node starts. Nodes that stay up read it when they are started again only: one after the other, as soon as the "
                "quorum has a leader; a broker that does not find it there ends five minutes after SIGTERM"
            )
        elif len(self._to.voters.ids) > 1 and node in self._to.addresses:
            yield (
                f"The other voters reach node {node} at {self._to.addresses[node]}, where the chosen log has it. Where it has another address now, "
                "the old one leads there (a name that resolves to it, or a forwarded port) until the quorum has a leader and this voter is there"
            )

    def _before_start(self, node: int, order: Sequence[int]) -> Iterator[str]:
        if self._to.fetches and node in self._to.lacking:
            yield f"{capitalise(name_nodes(self._to.holders))} are up and have a leader"
        elif node != order[0]:
            yield f"Node {order[0]} is up and stays up"

    def _copy_again(self, when: str, otherwise: str = "") -> Step:
        return Step(
            action="check",
            text=f"If brokers are down, copy the log directories again before any of them is started{when}: of replicas that differ, the "
            "first to start may lead, and cut the others. First make the copies that elect asks for. If elect gives an order of starting, "
            "follow it instead of the starts below (--up names the brokers that are up)"
            f"{otherwise}",
            commands=("replica-audit elect AFTER",),
        )

    def _see(self) -> Iterator[Step]:
        epoch = (
            ""
            if self._to.majority_stays
            else f" in epoch {max(self._to.copy.epoch, self._to.held.seen_epoch) + 1} or later"
        )
        yield Step(
            action="check",
            text=f"Check that the quorum has a leader{epoch}, that every voter is listed, and that their lag goes to 0",
            controllers=tuple(self._to.voters.ids),
            commands=tuple(self._tools.describe_quorum()),
        )
        if self._to.ahead:
            yield self._order_ahead()
        elif not self._to.combined:
            yield self._copy_again("")
        yield from self._fill_bare()
        known = {one.node_id for one in self._to.held.copies if one.node_id is not None}
        for node in sorted(known.union(self._to.held.brokers).difference(self._to.voters.ids)):
            step = Step(
                action="start",
                text=f"Start node {node}, unless it is up",
                commands=(self._tools.start(node),),
                before=("The quorum has a leader",),
            )
            yield address(self._to, node, step)
        if self._to.gives_ids_again:
            yield self._forget_producers()
        yield Step(
            action="verify",
            text="Check that every topic that the choice does not lose is there. Then copy the log directories again: in the new snapshot "
            "quorum finds nothing to decide",
            commands=("replica-audit quorum AFTER",),
        )

    def _order_ahead(self) -> Step:
        """Raise leader epochs above those of the logs: a follower rejects records of later epochs than the leader's (KAFKA-18723)."""
        latest = max(epoch for one in self._to.ahead for epoch, _ in one.checkpoint_epochs or ())
        forgotten = " and brokers have forgotten the old ones" if self._to.gives_ids_again else ""
        return Step(
            action="check",
            text="Copy the log directories again before any broker is started. Where the metadata log is older than the logs, elect has no "
            "plan, and where it says to start no controller and to run quorum, this plan has done that; but it names the best choice of each "
            "partition. Start the broker that is the best choice of most, and check that it leads "
            "them (where nobody does, by an unclean election). Stop and start it again, which adds two to their leader epochs, until the last "
            f"line of leader-epoch-checkpoint in its directory of each begins with {latest + 1} or more. Until then longer followers are cut, "
            "and all others stay out of sync. Then stop it, put back that file of each from the copy that this plan made, where it has one, "
            "and start it once more: it lost entries while it led, and without them followers are cut to where these begin, again and again. "
            "Then start the others: they are cut where they differ from it, so what another broker has beyond the leader is only in its copy",
            partitions=tuple(sorted({one.topic_partition for one in self._to.ahead})),
            commands=("replica-audit elect AFTER",),
            before=(f"Producers stay stopped until all replicas are in sync again{forgotten}",),
        )

    def _fill_bare(self) -> Iterator[Step]:
        """Give voters that started as controllers only both roles, once others lead their partitions."""
        if not self._to.bare:
            return
        bare = name_nodes(self._to.bare)
        yield Step(
            action="check",
            text=f"Check that {bare} {verb(len(self._to.bare), 'leads', 'lead')} no partition that another node has, and that each of "
            "those has a leader. For one without, elect one that has it, by what elect says of AFTER (kafka-leader-election.sh "
            "--election-type unclean)",
            commands=tuple(self._tools.describe(self._to.topics_of_bare)),
        )
        for node in self._to.bare:
            yield Step(
                action="start",
                text=f"Start node {node} with both roles: the leaders fill its replicas",
                brokers=(node,),
                commands=tuple(self._tools.restart(node)),
                before=(f"Every partition that another node has is led, and not by {bare}",),
            )

    def _forget_producers(self) -> Step:
        """Make brokers forget producers: a broker that recognises a batch by producer id, epoch and sequence numbers
        acknowledges it without writing it (`ProducerStateEntry.findDuplicateBatch`)."""
        return Step(
            action="forget_producers",
            text="Make brokers forget the old producers: controllers give out their ids again, and the first batches of a new producer with "
            "such an id would be acknowledged but not written. With this setting brokers forget a producer that has been silent for a second, "
            "at the latest after ten minutes (producer.id.expiration.check.interval.ms); a batch that is sent again later than that may be "
            "written twice. Keep the setting until the newest old records are older than producer.id.expiration.ms was (a day, unless it was "
            "set), then set it back: until then every broker that starts reads the old producers from its files, and new producers wait ten "
            "minutes again",
            commands=tuple(self._tools.expire_producers()),
            before=(
                "All brokers are up. Every producer is stopped, and starts again only ten minutes after this step",
            ),
        )
