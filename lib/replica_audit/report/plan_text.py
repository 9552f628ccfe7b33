"""A plan in words: the cost of each choice, the best one, and the steps with their commands."""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from replica_audit.elect.cost_words import say_unread
from replica_audit.elect.plan_model import (
    Candidate,
    Conflict,
    Decision,
    KeepStopped,
    Plan,
    Prediction,
    SalvageSource,
    Step,
    is_salvaged,
)
from replica_audit.elect.premises import ChangedPremise
from replica_audit.model import TopicPartition
from replica_audit.report.layout import clean, fit_columns, name_bound, paint, render_range, text_width, wrap
from replica_audit.report.sentences import end_sentence, join_some, join_words, name_partitions
from replica_audit.results import place_of
from replica_audit.snapshot.consumer_offsets import GROUP_OFFSETS
from replica_audit.snapshot.remote_log_metadata import REMOTE_SEGMENTS
from replica_audit.snapshot.share_state import SHARE_OFFSETS
from replica_audit.snapshot.transaction_log import TOPIC as TRANSACTION_STATE
from replica_audit.text import capitalise, count, name_brokers, name_remote_basis, say_offline, verb


class ToldDecision(NamedTuple):
    """Decision that is the same for several partitions."""

    places: tuple[TopicPartition, ...]
    sentence: str
    asks_for_something: bool
    """True if it requires an action other than copying what is missing."""


def tell_decisions(plan: Plan) -> Iterator[ToldDecision]:
    """Yield the decisions of a plan, equal ones together, then the partitions without one."""
    said: dict[tuple[str, bool], list[TopicPartition]] = defaultdict(list)
    unplanned = {place_of(one): one for one in plan.conflicts}
    salvaged = {place for step in plan.steps if step.action == "salvage" for place in step.partitions}
    for decision in plan.decisions:
        place = place_of(decision)
        sentence = tell_decision(
            decision, unplanned.pop(place, None), is_salvaged(decision.topic, ()) or place in salvaged
        )
        # A replica that has to be copied first has a step for it.
        waits = bool(decision.depends_on) and not decision.asked
        asks = decision.procedure != "none" or decision.loses_acknowledged or decision.chosen.cut_transactions > 0
        said[sentence, not waits and asks].append(place)
    copied = {place for step in plan.steps if step.action == "capture" for place in step.partitions}
    for place, conflict in unplanned.items():
        said[_tell_conflict(conflict), place not in copied].append(place)
    for (sentence, asks), places in said.items():
        yield ToldDecision(tuple(places), sentence, asks)


#: What it means to lose records of Kafka's own topics, which are not salvaged unless they are asked for.
_OF_OWN_TOPICS = {
    GROUP_OFFSETS.name: "Groups whose last commits it loses go back to earlier ones and read records again, or begin where auto.offset.reset says.",
    TRANSACTION_STATE: "The coordinator goes back to earlier states of the transactions whose last ones it loses: a transaction that its client "
    "holds for committed may be aborted, or hang (kafka-transactions.sh find-hanging), and a producer that was fenced may write again.",
    SHARE_OFFSETS.name: "Share groups whose last states it loses go back to earlier ones: they are given records again that they had acknowledged.",
    REMOTE_SEGMENTS.name: "Brokers forget the remote segments whose last states it loses: consumers cannot read what only these have, and "
    "retention does not delete them.",
}


def tell_decision(decision: Decision, conflict: Conflict | None, can_salvage: bool = True) -> str:
    """Describe a decision: which broker should lead, the resulting loss, and where lost records can be recovered from. `can_salvage`: salvage
    takes records of that topic."""
    reason = end_sentence(decision.reason)
    if decision.depends_on and not decision.asked:
        if decision.candidate_id in decision.depends_on:  # the rest of its log may change the decision
            return end_sentence(decision.open_question)
        them = verb(len(decision.depends_on), "it", "them")
        like = name_brokers(sorted((decision.candidate_id, *decision.equals)))
        least = f"Of the captured replicas {like} would lose the least"
        return f"{end_sentence(decision.open_question)} {least}, as far as is known without {them}."
    choice = f"broker {decision.candidate_id}"
    chosen = decision.chosen
    stays = {"none": f"keep {choice} as leader", "confirm": f"keep {choice} as leader, if it leads"}
    text = stays.get(decision.procedure, f"elect {choice}")
    ranges = [_tell_source(one) for one in decision.salvage]
    own = _OF_OWN_TOPICS.get(decision.topic) if decision.loses_acknowledged else None
    if ranges and decision.loses_acknowledged and conflict is None and can_salvage:
        text = f"salvage {join_some(ranges, 3, 'range')} first, then {text}"
    each = all(one.loss[0] for one in decision.candidates if one.standing != "unassigned")
    each = each and len(decision.candidates) > 1
    if conflict is not None:
        # The plan has no step that would bring this about.
        best = "each choice loses something; the best would be to" if each else "the best choice would be to"
        text = f"{_tell_conflict(conflict)} {capitalise(best)} {text}"
        if ranges and decision.loses_acknowledged:
            # Salvage uses a plan's leaders.
            text += f"; {choice} lacks {join_some(ranges, 3, 'range')}"
    elif each:
        text = f"each choice loses something: {text}"
    elif decision.procedure in stays and not chosen.loss[0] and not chosen.cut_transactions:
        is_rebuilt = decision.keeps_deleted or any(one.hidden_records for one in decision.candidates)
        is_calm = decision.procedure == "none" and not (chosen.damage or decision.depends_on or is_rebuilt)
        text = "nothing needs to be done" if is_calm else text
        if ranges and can_salvage:
            text += f"; salvage {join_some(ranges, 3, 'range')} if you want what was never committed"
    if chosen.remote_records:
        reason = f"{reason} {_tell_remote(chosen)}"
    if own is not None:
        reason = f"{reason} {own}"
    if decision.depends_on:
        reason = f"{reason} {end_sentence(decision.open_question)}"
    return f"{capitalise(text)}. {reason}"


def _tell_remote(chosen: Candidate) -> str:
    """A sentence on lost records that remote storage still has."""
    some = f"{chosen.remote_records} of " if chosen.remote_records < chosen.lost_records else ""
    them = f"{some}{'it' if chosen.lost_records == 1 else 'them'}"
    most = "at most " if some and chosen.lost_at_most else ""
    text = f"Remote storage still has {most}{them}{_tell_basis(chosen)}.{_tell_deleted(chosen)}"
    if not chosen.remote_unread:
        return text
    taken = "them" if chosen.remote_unread == chosen.remote_records else f"{chosen.remote_unread} of these"
    return f"{text} Salvage cannot take {taken} out of it: {say_unread(chosen.remote_unread, chosen.remote_encrypted)}."


def _tell_basis(chosen: Candidate) -> str:
    """A clause on the evidence that remote storage has them."""
    shares = chosen.remote_basis
    if len(shares) == 1:
        return f": {name_remote_basis(shares[0].basis)}"
    of_each = [f"for {one.records}, {name_remote_basis(one.basis)}" for one in shares]
    return f": {'; '.join(of_each)}" if shares else ""


def _tell_deleted(chosen: Candidate) -> str:
    """A sentence on the segments that Kafka deletes there because the leader's first epoch is later."""
    if not chosen.remote_deleted:
        return ""
    which = f"{chosen.remote_deleted} of these"
    if chosen.remote_deleted == chosen.remote_records:
        which = "what it has"
    return f" Kafka deletes {which} there once broker {chosen.candidate_id} leads, whatever retention is."


def _tell_source(source: SalvageSource) -> str:
    """E.g. "[77, 89) from broker 1" or "[77, 89) from t-0/*.deleted of broker 1"."""
    name = "" if source.name is None else f"{source.name} of "
    return f"{render_range(source.start_offset, source.end_offset)} from {name}broker {source.broker_id}"


def _tell_conflict(conflict: Conflict) -> str:
    return end_sentence(f"no plan: {conflict.reason}")


STANDING_WORDS = {
    "leader": "leader",
    "isr": "in sync",
    "elr": "eligible",
    "last_known": "led last",
    "out_of_sync": "out of sync",
    "unknown": "not known",
    "unassigned": "not assigned",
}
#: Maximum number of directories named.
PATH_LIMIT = 4
#: Maximum numbers of named partitions of a choice, lines of a file, predictions of a step, and partitions with alternatives;
#: plan.json has all.
PLACE_LIMIT = 100
#: Maximum number of different choices shown one by one.
DECISION_LIMIT = 100
#: Maximum number of shown steps with one of these actions; plan.json has all.
STEP_LIMIT = 40
REPEATED = ("capture", "copy", "keep_up", "end_transaction", "mend")
_RIGHTS = {
    "stays": "it stays leader",
    "isr": "the first in-sync replica that is up",
    "elr": "the first eligible replica that is up",
    "last_known": "the last known leader",
    "unclean": "the first replica that is up, uncleanly",
}


def _nothing_to_decide(plan: Plan) -> str:
    places = [TopicPartition(*one) for one in plan.leaderless]
    if not places:
        return "Nothing to decide: no choice of leader would keep more."
    nobody = f"nobody is known to lead {name_partitions(places, 4)} now"
    return f"Nothing to decide: {nobody}, and every replica in sync has what was committed."


def render_plan(plan: Plan) -> str:
    """Render the decisions with their costs, the state of the brokers, the steps, and the way through the Admin API."""
    lines: list[str] = []
    if plan.is_quiet and not plan.decisions:
        lines += wrap(_nothing_to_decide(plan), "")
        if not plan.steps:
            return "\n".join(lines)
    lines += _decisions(plan)
    lines += _brokers(plan)
    if plan.is_at_rest and plan.decisions:
        nothing = "No leader has to change" if plan.steps else "Nothing needs to be done"
        lines.append(f"{nothing}: every leader is the best choice.")
    lines += _keep_down(plan.keep_down)
    if plan.steps:
        lines += ["", paint("The plan", "head")]
        for step, left_out in split_steps(plan.steps):
            lines += tell_step(step)
            lines += wrap(f"{tell_left_out(step, left_out)}.", "   ") if left_out else []
        for paragraph in (tell_interrupted, tell_elsewhere):
            lines += ["", *told] if (told := list(paragraph(plan.steps))) else []
    if plan.alternatives:
        lines += ["", *_alternatives(plan)]
    return "\n".join(lines).rstrip()


def _decisions(plan: Plan) -> Iterator[str]:
    """Decisions with their costs, those of equal partitions together, and the number left out."""
    known = {place_of(one): one for one in plan.decisions}
    decided = list(tell_decisions(plan))
    for told in decided[:DECISION_LIMIT]:
        same: dict[tuple[str, ...], list[Decision]] = defaultdict(list)
        for place in told.places:
            if place in known:
                same[tuple(_table(known[place]))].append(known[place])
        yield paint(clean(name_partitions(told.places, PLACE_LIMIT)), "head")
        yield from wrap(told.sentence, "  ")
        for table, decisions in islice(same.items(), PLACE_LIMIT):
            yield from (*table, *_kafka(decisions, plan), *_readers(decisions[0], plan.steps), "")
        if not same:
            yield ""
    yield from _more_decisions([place for told in decided[DECISION_LIMIT:] for place in told.places], known)


def _more_decisions(places: Sequence[TopicPartition], known: Mapping[TopicPartition, Decision]) -> Iterator[str]:
    """Decisions too many to show one by one: a line for each choice with its count."""
    told: dict[str, list[int]] = defaultdict(list)
    for place in places:
        decision = known.get(place)
        if decision is None or decision.procedure == "unplanned":
            told["no plan, for the reasons given among the conflicts"].append(0)
        else:
            stays = decision.procedure in ("none", "confirm")
            choice = f"broker {decision.candidate_id}"
            told[f"keep {choice} as leader" if stays else f"elect {choice}"].append(decision.chosen.loss[0])
    for what, losses in told.items():
        lost = (
            f", {count(sum(losses), 'record')} that {verb(sum(losses), 'is', 'are')} or may be committed lost"
            if any(losses)
            else ""
        )
        yield from wrap(f"{count(len(losses), 'more partition')}, each in plan.json: {what}{lost}.")
    if places:
        yield ""


def _table(decision: Decision) -> list[str]:
    heading = ["candidate", "would lead as", "log end", "lost", "committed", "possibly", "transactions cut", "groups"]
    rows = [_row(one, decision) for one in decision.candidates]
    if any(one.remote_records for one in decision.candidates):
        # Lost records that can be recovered.
        heading.insert(6, "remote")
        for row, one in zip(rows, decision.candidates, strict=True):
            row.insert(6, str(one.remote_records))
    return fit_columns([heading, *rows], right=range(2, len(heading)), indent="  ")


def _kafka(decisions: Sequence[Decision], plan: Plan) -> Iterator[str]:
    """Lines on the leader that Kafka would elect for equal decisions; empty if leadership is unknown."""
    said: dict[str, list[str]] = defaultdict(list)
    for one in decisions:
        if one.kafka_choice_id is not None and one.kafka_choice_right is not None:
            unless = f", if broker {one.kafka_choice_id} is up" if one.kafka_choice_id in plan.unknown else ""
            text = (
                f"As things are, Kafka chooses broker {one.kafka_choice_id}{unless}: {_RIGHTS[one.kafka_choice_right]}."
            )
        elif place_of(one) in plan.leaderless:
            text = f"As things are, Kafka elects nobody{_tell_offline(one)}."
        else:
            continue
        said[text].append(f"{one.topic}-{one.partition}")
    for text, places in said.items():
        of = f"{clean(join_some(places, 4, 'partition'))}: " if len(said) > 1 else ""
        yield from wrap(f"{of}{text}", "  ")


def _readers(decision: Decision, steps: Sequence[Step]) -> Iterator[str]:
    """Lines on groups that read from the present leader what a planned one lacks, with the step that sets them back."""
    for step in steps:
        if step.action == "reset_offsets" and place_of(decision) in step.partitions:
            number = decision.chosen.groups_hit or 0
            yield from wrap(
                f"{count(number, 'group')} {verb(number, 'has', 'have')} read records that broker {decision.candidate_id} lacks: step "
                f"{step.number} sets {verb(number, 'its', 'their')} offsets back.",
                "  ",
            )


def _tell_offline(decision: Decision) -> str:
    if not decision.offline:
        return ""
    named = name_brokers(decision.offline, "or")
    return f", and not {named} however long it is up: {say_offline(decision.offline)}"


def _keep_down(held: Sequence[KeepStopped]) -> Iterator[str]:
    """Lines on brokers that stay down until a step, those with the same reason together."""
    alike: dict[tuple[bool, int, str], list[int]] = defaultdict(list)
    for one in held:
        alike[one.is_down, one.until_step, one.reason].append(one.broker_id)
    for (is_down, until_step, reason), brokers in alike.items():
        named, is_one = name_brokers(sorted(brokers)), len(brokers) == 1
        if is_down:
            are_down = f"{capitalise(named)} {verb(len(brokers), 'is', 'are')} down"
            state = f"{are_down}: leave {'it' if is_one else 'each'} down until step {until_step} is done"
        else:
            goes_down = f"Once {'' if is_one else 'any of '}{named} is down"
            state = f"{goes_down}, do not start it until step {until_step} is done"
        yield from wrap(f"{state}, since {reason}.")


def tell_elsewhere(steps: Sequence[Step]) -> Iterator[str]:
    """Yield hints for nodes managed by systemd or Strimzi."""
    if any(step.action in ("start", "stop") for step in steps):
        yield from wrap(
            "If systemd runs the brokers, stop and start them with systemctl on each host. Under Strimzi, first scale the Cluster "
            "Operator to 0 replicas, since it would recreate a deleted pod. To stop a broker, save its pod's manifest (kubectl get pod "
            "POD -o yaml) and delete the pod; to start it, create the pod again."
        )


def tell_interrupted(steps: Sequence[Step]) -> Iterator[str]:
    """Yield what to do where a step that changes the cluster fails."""
    actions = {step.action for step in steps}
    if not actions.isdisjoint(("start", "stop", "elect", "reorder")):
        salvaged = " and the salvaged records" if "salvage" in actions else ""
        yield from wrap(
            "If a command fails, fix the cause and repeat it before you go on. If you cannot, or a condition does not hold, go no further: "
            "copy all brokers again into a new snapshot, and follow the plan of elect for that. "
            f"Keep this snapshot{salvaged}: what has been cut since exists nowhere else."
        )


def _row(one: Candidate, decision: Decision) -> list[str]:
    mark = "*" if one.candidate_id == decision.candidate_id else " "
    bound = name_bound(at_most=one.lost_at_most and not decision.depends_on, at_least=bool(decision.depends_on))

    def number(lost: int) -> str:
        return f"{bound}{lost}" if lost or decision.depends_on else "0"

    return [
        f"{mark} broker {one.candidate_id}",
        STANDING_WORDS[one.standing],
        str(one.log_end_offset),
        number(one.lost_records),
        number(one.lost_committed),
        number(one.lost_possible),
        str(one.cut_transactions),
        "-" if one.groups_hit is None else str(one.groups_hit),
    ]


def _brokers(plan: Plan) -> Iterator[str]:
    """Brokers by known state: up, stopped cleanly, down."""
    down = [one for one in plan.down if one not in plan.stopped_cleanly and one not in plan.unknown]
    states = {"up": plan.up, "stopped cleanly": plan.stopped_cleanly, "down": down}
    parts = [f"{state}: {join_words(ids)}" for state, ids in states.items() if ids]
    if parts:
        yield from wrap(f"Brokers {'; '.join(parts)}.")
    if plan.fenced:
        yield from wrap(_tell_fenced(plan.fenced))
    if unknown := sorted({*plan.unknown} - {*plan.fenced}):
        yield from wrap(
            f"It is not known whether {name_brokers(unknown)} {verb(len(unknown), 'is', 'are')} up: name those that are with --up."
        )


def _tell_fenced(brokers: Sequence[int]) -> str:
    who, it, is_it = name_brokers(brokers), verb(len(brokers), "it", "them"), verb(len(brokers), "it is", "they are")
    return (
        f"{capitalise(who)} ran when {verb(len(brokers), 'it was', 'they were')} copied, and by the metadata log {is_it} fenced: so nobody elects "
        f"{it}, be the process there or not. A broker is fenced that went down since, that runs as a controller only, or that the controllers "
        f"refuse, as its log says. Name {it} with --up only if {is_it} in an ISR now (kafka-topics.sh --describe)."
    )


def split_steps(steps: Sequence[Step]) -> list[tuple[Step, int]]:
    """Steps to show, each with the number of following steps left out that do the same for other partitions."""
    runs: list[tuple[Step, int]] = []
    told: Counter[str] = Counter()
    for step in steps:
        told[step.action] += 1
        if runs and runs[-1][0].action == step.action in REPEATED and told[step.action] > STEP_LIMIT:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((step, 0))
    return runs


def tell_left_out(step: Step, number: int) -> str:
    """Refer to the `number` steps after `step` that are left out."""
    return f"{count(number, 'more step')} up to {step.number + number} {verb(number, 'does', 'do')} the same for other partitions: plan.json"


def tell_long_file(name: str, content: str) -> str | None:
    """Line in place of a file that is too long to show; None for a short one."""
    lines = content.count("\n")
    if lines <= PLACE_LIMIT:
        return None
    return f"# {name}, {lines} lines: elect --plan FILE writes it next to FILE"


def tell_step(step: Step) -> Iterator[str]:
    """Yield the lines of one step: what it does, its preconditions, its files and shell commands."""
    yield from wrap(f"{step.number}. {step.text}.", "", "   ")
    for condition in step.before:
        yield from wrap(f"before: {condition}.", "   ", "           ")
    for name, content in step.files.items():
        if (long := tell_long_file(name, content)) is not None:
            yield f"   {long}"
            continue
        *most, last = content.rstrip("\n").split("\n")
        begin = "printf '%s\\n' '"
        for line in most:
            yield f"   {begin}{clean(line)}"
            begin = ""
        yield f"   {begin}{clean(last)}' > {name}"
    for command in step.commands:
        yield from wrap_command(command)
    if step.snapshot:
        yield from wrap(tell_snapshot(step.snapshot), "   ")
    predictions = list(tell_predictions(step.after))
    for text in predictions[:PLACE_LIMIT]:
        yield from wrap(text, "   ", "     ")
    if len(predictions) > PLACE_LIMIT:
        yield from wrap(f"and {len(predictions) - PLACE_LIMIT} more of these: plan.json", "   ", "     ")
    if step.irreversible:
        yield from wrap(f"cannot be undone: {step.irreversible[0].lower()}{step.irreversible[1:]}.", "   ", "     ")


def tell_snapshot(paths: Sequence[str]) -> str:
    """Name the directories of the snapshot that have what a step copies."""
    named = [*paths[:PATH_LIMIT], *(["other directories"] if len(paths) > PATH_LIMIT else [])]
    return f"This snapshot has a copy in {join_words(named)}: keep it."


def wrap_command(command: str) -> Iterator[str]:
    """Wrap a POSIX shell command with backslashes; a comment stays in one line."""
    if command.startswith("#"):
        yield f"   {clean(command)}"
        return
    line = "   "
    for number, part in enumerate(shlex.split(clean(command))):
        word = part if part in ("&&", "||", ">") else shlex.quote(part)
        longer = f"{line}{' ' if number else ''}{word}"
        if number and len(longer) > text_width() - 2:
            yield f"{line} \\"
            longer = f"     {word}"
        line = longer
    yield line


def tell_predictions(after: Sequence[Prediction]) -> Iterator[str]:
    """Yield the state of each log after a step, a line for each partition and leader and for each metadata log."""
    by_place: dict[tuple[str, int, int | None], list[Prediction]] = {}
    for one in after:
        if one.leader_id is None:
            counts_on = "" if one.leader_epoch is None else f", and counts on from epoch {one.leader_epoch}"
            yield f"then: {clean(one.topic)}-{one.partition} of node {one.broker_id} ends at {one.log_end_offset}{counts_on}"
            continue
        by_place.setdefault((one.topic, one.partition, one.leader_id), []).append(one)
    for (topic, partition, leader), some in by_place.items():
        epoch = some[0].leader_epoch
        since = "" if epoch is None else f" in leader epoch {epoch} or later"
        cuts = [
            f"broker {one.broker_id} is cut to {one.truncate_to}"
            if one.truncate_to is not None
            else f"the start of broker {one.broker_id} may cut its own log there"
            for one in some
            if one.dropped_records
        ]
        text = (
            f"then: broker {leader} leads {clean(topic)}-{partition}{since}; its log ends at {some[0].log_end_offset}"
        )
        yield "; ".join([text, *cuts])


def _alternatives(plan: Plan) -> Iterator[str]:
    yield from wrap(
        "Alternatively, stop only the leader: unlike Kafka's tools, the Admin API (alterPartitionReassignments) accepts the same replicas "
        "in another order even while one of them is down. An unclean election then picks the first live one in this order, as long as "
        "nobody leads."
    )
    for one in plan.alternatives[:PLACE_LIMIT]:
        yield f"  {clean(one.topic)}-{one.partition}: replicas {', '.join(map(str, one.replicas))}"
    if len(plan.alternatives) > PLACE_LIMIT:
        yield f"  and {count(len(plan.alternatives) - PLACE_LIMIT, 'more partition')}: plan.json"


def render_moved(changes: Sequence[ChangedPremise]) -> str:
    """Render the outcome of `elect --check`."""
    if not changes:
        return "Nothing has moved: the plan still holds."
    said = f"{count(len(changes), 'premise')} of the plan {verb(len(changes), 'has', 'have')} changed; make a new plan:"
    lines = [paint(said, "high")]
    for one in changes:
        place = "" if one.topic is None else f"{clean(one.topic)}-{one.partition}: "
        of_broker = "" if one.broker_id is None else f" of broker {one.broker_id}"
        lines += wrap(f"{place}{one.what}{of_broker} was {_value(one.before)}, is {_value(one.now)}", "  ", "    ")
    return "\n".join(lines)


def _value(value: object) -> str:
    if value is None:
        return "nobody"
    if isinstance(value, tuple):
        return (
            ", ".join(f"{item[0]} from {item[1]}" if isinstance(item, tuple) else str(item) for item in value) or "none"
        )
    return clean(str(value))
