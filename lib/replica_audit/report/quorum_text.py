"""Text of `quorum`: the copies, the choice, the loss with each, and the plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replica_audit.model import TopicPartition
from replica_audit.quorum.answer_model import CopyAnswer, Lost, NodeRole, QuorumAnswer
from replica_audit.report.layout import clean, fit_columns, paint, wrap
from replica_audit.report.plan_text import tell_elsewhere, tell_step
from replica_audit.report.sentences import join_some, name_partitions
from replica_audit.text import count, listed, name_brokers, name_ids, verb

_NAMED = 6
_VERDICTS = {
    "agree": "Nothing to decide",
    "rejoin": "No log has to be chosen, but voters are missing",
    "choose": "One copy is the best",
    "keep_both": "Neither history is the best: keep both",
    "none": "No copy here can be the right one",
}


def render_quorum(answer: QuorumAnswer) -> str:
    """Render the choice, the copies of the metadata log, what is lost with each, and the steps."""
    lines = [paint(line, "head") for line in wrap(_headline(answer))]
    if answer.no_plan is not None:
        lines += wrap(f"No plan beyond copies: {clean(answer.no_plan)}.", "  ")
    if answer.steps and answer.verdict not in ("agree", "rejoin"):
        lines += wrap("Start and stop nothing until the copies of the plan are made.", "  ")
    lines += wrap(clean(answer.choice.reason if answer.choice else answer.reason), "  ")
    lines += ["", *_table(answer)]
    lines += _notes(answer)
    if answer.verdict not in ("agree", "rejoin"):
        lines += ["", paint("What each choice loses and breaks", "head"), *_losses(answer)]
    elif answer.is_tentative:
        lines += ["", paint("What is lost if one of these logs leads", "head"), *_losses(answer)]
    if answer.quarantine:
        lines += ["", paint("Not usable", "head")]
        for one in answer.quarantine:
            at = "" if one.position is None else f", byte {one.position}"
            lines += wrap(clean(f"{one.path}{at}: {one.reason}"), "  ", "    ")
    if answer.steps:
        lines += ["", paint("The plan", "head")]
        for step in answer.steps:
            lines += tell_step(step)
        lines += ["", *tell_elsewhere(answer.steps)]
        if answer.no_plan is not None:
            lines += wrap("No plan beyond this, for the reason above.")
    return "\n".join(lines).rstrip()


def _headline(answer: QuorumAnswer) -> str:
    choice = answer.choice
    if choice is None:
        return _VERDICTS[answer.verdict]
    log = choice.path if choice.node_id is None else f"the log of {_role(choice.role)} {choice.node_id}"
    if answer.no_plan is not None:
        return f"No plan: {log} is {'asked for' if choice.asked else 'the best'}, but cannot be put in place as it is"
    return f"The requested choice: {log}" if choice.asked else f"{_VERDICTS[answer.verdict]}: {log}"


def _role(role: NodeRole) -> str:
    return "combined node" if role == "combined" else role


def _table(answer: QuorumAnswer) -> Iterator[str]:
    heading = ["node", "role", "log", "last epoch", "committed to", "history", "parts at", "seen epoch", "voted for"]
    rows = [_row(one, answer) for one in answer.copies]
    yield from fit_columns([heading, *rows], right=range(3, 9), indent="  ")


def _row(one: CopyAnswer, answer: QuorumAnswer) -> list[str]:
    mark = "*" if answer.choice is not None and one.path == answer.choice.path else " "
    state = one.quorum_state
    held = one.history is not None and one.end_offset > 0
    log = "unreadable" if one.end_offset else "empty"
    return [
        f"{mark} {'?' if one.node_id is None else one.node_id}",
        one.role,
        f"[{one.start_offset}, {one.end_offset})" if held else log,
        str(one.last_epoch) if held else "-",
        str(one.proven_end) if one.proven_end else "-",
        "-" if one.history is None else str(one.history),
        "-" if one.parts_at is None else str(one.parts_at),
        "-" if state is None or state.leader_epoch is None else str(state.leader_epoch),
        "-" if state is None or state.voted_id is None else str(state.voted_id),
    ]


def _notes(answer: QuorumAnswer) -> Iterator[str]:
    if answer.voters:
        how = verb(len(answer.voters), "known by its ", "known by their ")
        how += (
            verb(len(answer.voters), "directory", "directories")
            if answer.is_dynamic
            else verb(len(answer.voters), "id", "ids")
        )
        without = (
            f"; {name_ids('node', answer.without_log)} {verb(len(answer.without_log), 'has', 'have')} no log here"
            if answer.without_log
            else ""
        )
        yield from wrap(
            f"{verb(len(answer.voters), 'Voter', 'Voters')}: {listed(answer.voters)}, {how}{without}.", "  "
        )
    said: dict[str, list[int]] = {}
    for one in answer.copies:
        if one.proof is not None and one.node_id is not None:
            said.setdefault(one.proof, []).append(one.node_id)
    for proof, nodes in said.items():
        logs = verb(len(nodes), "The log of {} is", "The logs of {} are").format(name_ids("node", nodes))
        yield from wrap(f"{logs} committed up to the offset above: {clean(proof)}.", "  ")
    for one in answer.copies:
        if one.may_vote is False:
            newest = sorted(answer.copies, key=lambda copy: (not copy.refused, copy.last_epoch, copy.end_offset))
            known = (named for copy in reversed(newest) for named in copy.voter_directories)
            # Its own log may be from before another directory became the voter's.
            wanted = next((of for node, of in known if node == one.node_id and of != one.directory_id), "another")
            yield from wrap(
                f"Node {one.node_id} cannot vote: its directory.id is {one.directory_id}, and that of the voter {wanted}.",
                "  ",
            )
        if one.seeded is not None:
            yield from wrap(f"Node {one.node_id} was seeded: {clean(one.seeded)}.", "  ")


def _losses(answer: QuorumAnswer) -> Iterator[str]:
    """Losses by copy; copies with equal text are grouped."""
    groups: dict[tuple[str, ...], list[CopyAnswer]] = {}
    for one in answer.copies:
        if one.history is not None:
            groups.setdefault(tuple(_of_copy(one, is_whole=answer.is_whole)), []).append(one)
    for told, copies in groups.items():
        nodes = [one.node_id for one in copies if one.node_id is not None]
        whose = [name_ids("node", nodes)] if nodes else []
        whose += [one.path for one in copies if one.node_id is None]
        yield f"  {clean(listed(whose))}"
        for line in told:
            yield from wrap(clean(line), "    ", "      ")


def _of_copy(one: CopyAnswer, *, is_whole: bool) -> Iterator[str]:
    yield from (f"refused: {reason}" for reason in one.refused)
    if one.lost is None:
        yield "its loss is not known: its records, or those of another history, cannot be applied"
    elif one.lost.is_nothing:
        rest = (
            "" if not one.lost.records else f" but {count(one.lost.records, 'record')} that changed nothing listed here"
        )
        yield f"loses nothing{'' if is_whole else ' that the copies here have'}{rest}"
    else:
        yield f"loses {'; '.join(tell_lost(one.lost))}"
    yield from (f"breaks: {reason}" for reason in one.breaks)


def tell_lost(lost: Lost) -> Iterator[str]:
    """Yield clauses with what is lost, by name or number."""
    if lost.topics:
        names = [f"{one.topic} (id {one.topic_id}, {count(one.partitions, 'partition')})" for one in lost.topics]
        yield f"{count(len(names), 'topic')}: {join_some(names, _NAMED, 'topic')}"
    if lost.stray:
        records = sum(one.records for one in lost.stray)
        brokers = name_brokers(sorted({one.broker_id for one in lost.stray}))
        yield f"{count(records, 'record')} in {count(len(lost.stray), 'directory', 'directories')} of {brokers}, which become -stray"
    if lost.deletions:
        yield f"the deletion of {join_some([one.topic for one in lost.deletions], _NAMED, 'topic')}"
    yield from _told_places("added partition", lost.partitions)
    yield from _told_places("change of leader", lost.leader_changes, "changes of leader")
    yield from _told_places("change of ISR", lost.isr_changes, "changes of ISR")
    yield from _told_places("reassignment", lost.reassignments)
    if lost.configurations:
        yield f"{count(len(lost.configurations), 'configuration')}: {join_some(lost.configurations, _NAMED, 'configuration')}"
    for number, noun in (
        (lost.acls, "ACL"), (lost.scram_users, "SCRAM credential"), (lost.quotas, "quota"),
        (lost.delegations, "delegation token"),
    ):  # fmt: skip
        if number:
            yield count(number, noun)
    if lost.voters:
        yield f"what became of {verb(len(lost.voters), 'the voter', 'the voters')} {listed(lost.voters)}"
    if lost.features:
        yield f"{verb(len(lost.features), 'feature', 'features')} {join_some(lost.features, _NAMED, 'feature')}"
    if lost.producer_id_blocks:
        yield f"{count(lost.producer_id_blocks, 'block')} of producer ids, given out a second time"
    if lost.records:
        yield f"{count(lost.records, 'record')} of the metadata log in all"


def _told_places(noun: str, places: Sequence[TopicPartition], plural: str | None = None) -> Iterator[str]:
    if places:
        yield f"{count(len(places), noun, plural)}: {name_partitions(places, _NAMED)}"
