"""The reference, with which the other replicas are compared, and the current leader epoch (docs/semantics.md F.0)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from replica_audit.auditing.replicas.later_files import LaterEntry, later_entry
from replica_audit.literals import LeadershipSource
from replica_audit.model import Leadership
from replica_audit.protocol.election import Election, elections, first_known_epoch, last_led
from replica_audit.protocol.lineage import Lineage
from replica_audit.snapshot.provenance import NOT_CAPTURED

if TYPE_CHECKING:
    from replica_audit.auditing.replicas.replica_facts import ReplicaFacts
    from replica_audit.model import PartitionState

#: Clause on the log of a reference that `is_replaced`.
COPIED_BEFORE = "was copied before it led, or before it was cut"


@dataclass(frozen=True, slots=True)
class Reference:
    """The reference replica, the leader, and the lineage with which a leader of the current epoch would answer."""

    facts: ReplicaFacts
    leader_id: int | None
    """The leading broker; None if the newest known state has no leader."""
    leader_epoch: int | None
    """The current leader epoch; None for a log without epochs."""
    log_epoch: int | None
    """Epoch whose records are below the reference's log end: the leader epoch, unless another broker leads in it.

    A stand-in with fewer records does not prove what the leader's missing files hold. If leadership is older than the
    reference's own records, these determine the epoch; likewise if there is no leader and another broker led last.
    """
    source: LeadershipSource
    isr: tuple[int, ...] | None
    elr: tuple[int, ...]
    predates: bool = False
    """True if the log was copied before the reference began to lead, by its own epoch file (`_predates`, `later_entry`): it
    may have received since what others have past its end."""
    later: LaterEntry | None = None
    """Entry of its own epoch file that shows that the log was cut after it was copied; implies `predates`."""
    is_replaced: bool = False
    """True if it `predates` and another broker led meanwhile, so that the log may have been cut since and now hold what others have there."""
    outdated: Leadership | None = None
    """The given leadership, if it is older than the logs: a replica knows a later epoch than this leadership or its leader.
    Then the leader is inferred from the logs, and the given ISR is ignored."""
    history: tuple[PartitionState, ...] = ()
    """Committed states of the metadata log, oldest first; () if leadership comes from elsewhere, or is outdated."""
    fenced_since: Mapping[int, int] = field(default_factory=dict)
    """`Leadership.fenced_since` of the given leadership."""

    @property
    def is_led(self) -> bool:
        """True if the reference is the leader, was the last leader if there is none, or stands in for an unknown leader."""
        if self.leader_id is not None:
            return self.leader_id == self.facts.broker_id
        last = last_led(self.history)
        return last is not None and last.leader_id == self.facts.broker_id

    def is_before(self, leader_epoch: int | None) -> bool:
        """True if a later leader wrote the records of `leader_epoch` than the reference is known to be: the source of
        leadership is older than the logs, or the reference was elected without these records."""
        return self.leader_epoch is not None and leader_epoch is not None and leader_epoch > self.leader_epoch

    @property
    def may_lack_others(self) -> bool:
        """True if it may have been elected without records that others have: it `predates` or is `blank` (perhaps on a
        replaced disk), and there was a `doubtful_election` or the history is unknown."""
        is_older = self.predates or self.facts.blank
        return is_older and (not self.history or self.doubtful_election is not None)

    @property
    def doubtful_election(self) -> Election | None:
        """First election after the latest epoch of its log whose winner may have lacked committed records: it was out of
        sync, or had been down."""
        later = (one for one in elections(self.history) if one.leader_epoch > self.facts.log_epoch)
        return next((one for one in later if not one.clean or one.came_back), None)

    def lacks_election(self, election: Election) -> bool:
        """True if its broker won this election, in an epoch that its files do not know."""
        return election.leader_id == self.facts.broker_id and election.leader_epoch > known_epoch(self.facts)

    def complete(self, lineage: Lineage) -> Lineage:
        """Complete a lineage of the reference as its leader keeps it: a missing leader epoch starts at the log end, or
        where it starts in `past_end`.

        A leader writes that entry at its election (`makeLeader`, 2.0.1, B.5).
        """
        epoch = self.leader_epoch
        if epoch is None or (lineage.latest_epoch is not None and epoch <= lineage.latest_epoch):
            return lineage
        own = self.past_end
        if own.latest_epoch != epoch:
            return lineage.assign(epoch, self.facts.log_end_offset)
        for entry in own:
            lineage = lineage.assign(*entry)
        return lineage

    @property
    def past_end(self) -> Lineage:
        """Epochs of the reference's history from its log end on: `log_epoch`, and earlier ones that start there in its
        epoch file if the log had reached that offset (`ReplicaFacts.reached_offset`)."""
        facts, epoch = self.facts, self.log_epoch
        if epoch is None:
            return Lineage()
        end = facts.log_end_offset
        own = facts.last_leader_epoch
        written = facts.file_entries
        if facts.reached_offset > end and written[-1][0] == epoch:
            return Lineage.of(((-1 if own is None else own, end), *(entry for entry in written if entry[1] >= end)))
        return Lineage(((epoch, end),))


#: Used if no source gives a leadership.
_UNSAID = Leadership("", -1, "inferred")


def choose_reference(
    replicas: Sequence[ReplicaFacts],
    leadership: Leadership | None,
    *,
    at_rest: bool,
    is_later: Callable[[ReplicaFacts, ReplicaFacts], bool],
) -> Reference | None:
    """The leader if it is known and its files are here, else the best other replica; None without replicas.

    The best has the greatest (current epoch, log end offset), then the lowest broker id, of those on the first line that fits:

    | leader | the best of |
    |---|---|
    | one that has copies here, by a leadership that is not older than the logs | its copies |
    | one by a leadership that is older than the logs | those that know a later epoch |
    | nobody now; the last leader could lead again and has copies here | its copies |
    | any other, or nobody; some in-sync or eligible leader replicas are here | these |
    | any other, or nobody | all |

    A cleanly stopped cluster has no leader. A leadership older than the logs is ignored. `at_rest`: the manifest says that all
    copies are of one moment. `is_later`: the copy of the first began after that of the second had ended.
    """
    if not replicas:
        return None
    given = leadership if leadership is not None and leadership.source != "inferred" else _UNSAID
    members = (*(given.isr or ()), *given.elr)
    led = [facts for facts in replicas if facts.broker_id == given.leader_id]
    eligible = [facts for facts in replicas if facts.broker_id in members]
    outdated = None
    if later := _of_later_epochs(led, eligible, replicas, given):
        outdated = given
        given = _UNSAID
        led = []
        eligible = later
    given = given.believed
    last = last_led(given.history) if given.leader_id is None else None
    stopped = [facts for facts in eligible if last is not None and facts.broker_id == last.leader_id]
    facts = max(
        led or stopped or eligible or replicas,
        key=lambda facts: (credible_epoch(facts, replicas), facts.log_end_offset, -facts.broker_id),
    )
    epoch = given.leader_epoch
    if epoch is None:
        epoch = max(credible_epoch(facts, replicas), _epoch_past_end(facts) if led else -1)
    leader_id = facts.broker_id if given is _UNSAID else given.leader_id
    term = _epoch_alone(facts, given) if last is None else None
    if led:
        term = given.leader_epoch
    elif stopped and last is not None:
        term = last.leader_epoch
    age = _age(facts, term, given, last, replicas, is_led=bool(led), at_rest=at_rest, is_later=is_later)
    led_in = None
    if leader_id == facts.broker_id and not age.predates:
        led_in = epoch
    elif age.is_replaced or not age.predates:
        led_in = _epoch_of_last_term(facts, leadership, last)
    return Reference(
        facts=facts,
        leader_id=leader_id,
        leader_epoch=epoch if epoch >= 0 else None,
        log_epoch=log_epoch_as_leader(facts, led_in),
        source=given.source,
        isr=None if given.isr is None else tuple(sorted(given.isr)),
        elr=tuple(sorted(given.elr)),
        predates=age.predates,
        later=age.later,
        is_replaced=age.is_replaced,
        outdated=outdated,
        history=given.committed,
        fenced_since=given.fenced_since,
    )


class _Age(NamedTuple):
    """Age of the reference's copy relative to its leadership; fields as in `Reference`."""

    predates: bool = False
    later: LaterEntry | None = None
    is_replaced: bool = False


def _age(
    facts: ReplicaFacts,
    term: int | None,
    given: Leadership,
    last: PartitionState | None,
    replicas: Sequence[ReplicaFacts],
    *,
    is_led: bool,
    at_rest: bool,
    is_later: Callable[[ReplicaFacts, ReplicaFacts], bool],
) -> _Age:
    """The age of the reference's copy; `term` is the epoch in which it leads or last led, `last` the state with the last leader."""
    # Its copy began after others had received its records of `term`, so it led before that, and its log has not been cut since.
    had_led = any(
        is_later(facts, one) for one in replicas if term is not None and one.lineage.start_of(term) is not None
    )
    if at_rest or had_led:
        return _Age()
    cut_at = later_entry(facts, replicas)
    may_predate = is_led or (last is None and not facts.is_at_rest)
    is_older = (may_predate and _predates(facts, term, given, replicas)) or _led_before_it_went(
        facts, last, given, replicas
    )
    if cut_at is None and not is_older:
        return _Age()
    return _Age(True, cut_at, cut_at is not None or _may_have_followed(facts, given.committed))


def _epoch_of_last_term(facts: ReplicaFacts, leadership: Leadership | None, last: PartitionState | None) -> int | None:
    """Epoch of the reference's last leadership if there is no leader; if the source gives only the present state, the
    latest possible one."""
    if leadership is None or leadership.leader_id is not None:
        return None
    if leadership.history and (last is None or last.leader_id != facts.broker_id):
        return None
    return last_possible_term(leadership)


def last_possible_term(leadership: Leadership) -> int | None:
    """Latest epoch in which anybody can have led: the present one or, without a leader, that of the last leader (the one
    before the present if unknown); None if no source has epochs."""
    if leadership.leader_id is not None:
        return leadership.leader_epoch
    last = last_led(leadership.history)
    return _epoch_before(leadership) if last is None else last.leader_epoch


def _predates(
    facts: ReplicaFacts, led_in: int | None, leadership: Leadership, replicas: Sequence[ReplicaFacts]
) -> bool:
    """True if a replica led, by a source that has epochs, in an epoch that its own file lacks, although a leader writes it at once. An empty
    file may be damaged: the log must then be empty too, predate an epoch that began below its end, or end below the start of another log."""
    if leadership.source not in ("metadata_log", "user") or led_in is None:
        return False
    if _lacks_epoch(facts, led_in):
        return bool(facts.file_entries) or not facts.is_at_rest
    begun = (epoch for one in replicas for epoch, start in one.lineage if start < facts.log_end_offset)
    is_below = any(one.start_by_epoch_file > facts.log_end_offset for one in replicas)
    is_cut = is_below or any(facts.log_epoch < epoch <= led_in for epoch in begun)
    # While a log starts over, its file has a count of 0; a file of 0 bytes was never written.
    may_be_begun_anew = facts.directory.epoch_file.state == "present" and not facts.is_at_rest
    return (facts.in_any_order or may_be_begun_anew) and is_cut and facts.directory.is_epoch_file_empty


def _lacks_epoch(facts: ReplicaFacts, epoch: int) -> bool:
    """True if neither a replica's epoch file nor its log has an epoch this late."""
    if not facts.file_entries:
        return facts.empty and facts.directory.is_epoch_file_empty
    return facts.file_increases and known_epoch(facts) < epoch


def led_with_another_log(facts: ReplicaFacts, leadership: Leadership | None, committed_end: int = 0) -> bool:
    """True if its broker last led with another log, since its disk was replaced or restored from a backup: nobody has led
    since, and its files lack that epoch.

    A broker that announced its stop had heard of its election. Another may not have heard, or may have dropped the epoch
    when it restarted; but its log is not empty if records below `committed_end` were committed.
    """
    if leadership is None or leadership.leader_id is not None or leadership.is_deleted:
        return False
    last = last_led(leadership.history)
    if last is None or last.leader_id != facts.broker_id or not _lacks_epoch(facts, last.leader_epoch):
        return False
    is_as_stopped = leadership.committed[-1].leader_stopped and facts.was_stopped_before_copy
    return is_as_stopped or (not facts.file_entries and facts.log_end_offset < committed_end)


def known_epoch(facts: ReplicaFacts) -> int:
    """Latest epoch in a replica's log or epoch file; -1 without one."""
    return max(facts.log_epoch, max((epoch for epoch, _ in facts.file_entries), default=-1))


def _may_have_followed(facts: ReplicaFacts, history: Sequence[PartitionState]) -> bool:
    """True if another broker led, or may have led, after the latest epoch of a replica: only then can its log have been cut."""
    known = known_epoch(facts)
    known_from = first_known_epoch(history)
    others = {state.leader_epoch for state in history if state.leader_id not in (None, facts.broker_id)}
    return known_from is None or known_from > known or any(epoch > known for epoch in others)


def _led_before_it_went(
    facts: ReplicaFacts, last: PartitionState | None, leadership: Leadership, replicas: Sequence[ReplicaFacts]
) -> bool:
    """True if a replica was the last leader before its broker went down, in an epoch that its file lacks. One copied while
    down does not count: it had not heard of its election."""
    if last is None or last.leader_id != facts.broker_id or facts.broker_id not in (leadership.fenced or ()):
        return False
    return not facts.is_at_rest and _predates(facts, last.leader_epoch, leadership, replicas)


def _epoch_alone(facts: ReplicaFacts, leadership: Leadership) -> int | None:
    """Epoch in which a replica last led, by a source that gives only the present state: nobody leads and it alone is in
    sync, since the last leader to go stays in the ISR. Otherwise None."""
    is_alone = leadership.leader_id is None and leadership.isr is not None and {*leadership.isr} == {facts.broker_id}
    return _epoch_before(leadership) if is_alone else None


def _epoch_before(leadership: Leadership) -> int | None:
    """Epoch before that of a leadership without a leader. It may be too high: the controller raises the epoch when the
    leader goes, and again if a reassignment removes replicas meanwhile (`PartitionChangeBuilder`)."""
    return None if leadership.leader_epoch is None else leadership.leader_epoch - 1


def _of_later_epochs(
    led: Sequence[ReplicaFacts],
    eligible: Sequence[ReplicaFacts],
    replicas: Sequence[ReplicaFacts],
    leadership: Leadership,
) -> list[ReplicaFacts]:
    """Replicas with a later epoch than the given leadership, if that is older than the logs; else ().

    It is older if its leader, or a replica it has in sync, has records of an epoch above the given one, or without one (a listing)
    above all that this leader has: a leader writes its epoch to its file at once. Likewise if a replica it has in sync began such an
    epoch below that leader's log end, still without records. A leader whose bytes the evidence lacks may have any epoch.
    """
    said = leadership.leader_epoch
    if not led or (said is None and NOT_CAPTURED in led[0].unproven):
        return []
    known = max(led[0].log_epoch, _epoch_past_end(led[0])) if said is None else said

    def shows(facts: ReplicaFacts) -> bool:
        began_below = facts.log_end_offset < led[0].log_end_offset
        return _written_epoch(facts) > known or (began_below and _sure_epoch(facts) > known)

    is_older = any(shows(facts) for facts in {facts.key: facts for facts in (*led, *eligible)}.values())
    return [facts for facts in replicas if _sure_epoch(facts) > known] if is_older else []


def _epoch_past_end(facts: ReplicaFacts) -> int:
    """Latest epoch in the file of a running broker, if it starts past the end of its log, which was copied earlier
    (`ReplicaFacts.reached_offset`); else -1."""
    entries = facts.file_entries
    return entries[-1][0] if entries and facts.is_live and facts.reached_offset > facts.log_end_offset else -1


def _written_epoch(facts: ReplicaFacts) -> int:
    """Latest epoch of the replica's records that is also in its epoch file, so that one changed header deposes no leader; -1 without one."""
    last = facts.last_leader_epoch
    entries = facts.file_lineage
    return last if last is not None and entries is not None and entries.latest_epoch == last else -1


def _sure_epoch(facts: ReplicaFacts) -> int:
    """Latest epoch in the replica's own epoch file that its log confirms, by its last record or by starting at its end."""
    last = facts.last_leader_epoch
    epoch = facts.log_epoch
    return epoch if last is None or epoch > last else _written_epoch(facts)


def credible_epoch(facts: ReplicaFacts, replicas: Sequence[ReplicaFacts]) -> int:
    """`ReplicaFacts.log_epoch`, ignoring one changed header at the log's end, which must neither make nor depose a leader.

    Such a header is a single last batch whose epoch contradicts the replica's own epoch file: it is higher and on no other
    replica, or lower.
    """
    epoch = facts.log_epoch
    written = facts.found_lineage
    if not written or facts.epoch_starts[-1:] != ((epoch, facts.segments[-1].last_base_offset),):
        return epoch
    said = written.epoch_for_offset(facts.log_end_offset - 1)
    others = [one for one in replicas if one is not facts]
    known = any(epoch in {one for one, _ in (*other.epoch_starts, *(other.file_lineage or ()))} for other in others)
    return epoch if said is None or (epoch >= said and known) else said


def log_epoch_as_leader(facts: ReplicaFacts, led_in: int | None) -> int | None:
    """`ReplicaFacts.log_epoch` of a replica that leads, or led, in epoch `led_in`; None without any epoch."""
    epoch = max(facts.log_epoch, -1 if led_in is None else led_in)
    return epoch if epoch >= 0 else None
