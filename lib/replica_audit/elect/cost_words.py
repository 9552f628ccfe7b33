"""Clauses on the cost of a choice of leader, shared by plan, headline and steps: losses, damaged files, missing replicas."""

from __future__ import annotations

from collections.abc import Collection

from replica_audit.text import count


def say_loss(
    lost_records: int,
    lost_committed: int,
    lost_possible: int,
    at_most: bool,
    cut_transactions: int = 0,
    hidden_records: int = 0,
    is_all_known: bool = True,
) -> str:
    """A loss as the object of a sentence: `43 committed records`, `3 records, 1 of them committed`, `nothing`.

    `cut_transactions`: those that will be left without an end; `hidden_records`: what another replica keeps and it lacks.
    Where nothing says who is assigned, or a replica that is needed was not captured, it may have more than the copies here.
    """
    loss = _say_loss(lost_records, lost_committed, lost_possible, at_most, cut_transactions)
    of_these = "" if is_all_known else " that the copies here have"
    if not hidden_records:
        return loss or f"nothing{of_these}"
    more = f"{loss}, and" if loss else f"nothing more{of_these}, but"
    return f"{more} lacks {count(hidden_records, 'record')} that another replica has where no truncation finds them"


def _say_loss(lost_records: int, lost_committed: int, lost_possible: int, at_most: bool, cut_transactions: int) -> str:
    parts = [_say_records(lost_records, lost_committed, lost_possible, at_most)] if lost_records else []
    parts += [f"the end of {count(cut_transactions, 'transaction')}"] if cut_transactions else []
    return " and ".join(parts)


def _say_records(lost_records: int, lost_committed: int, lost_possible: int, at_most: bool) -> str:
    most = "at most " if at_most else ""
    if lost_committed == lost_records:
        return most + count(lost_records, "committed record")
    if lost_possible == lost_records:
        return most + count(lost_records, "possibly committed record")
    parts = [f"{lost_committed} of them committed"] if lost_committed else []
    parts += [f"{lost_possible} possibly"] if lost_possible and parts else []
    parts += [f"{lost_possible} of them possibly committed"] if lost_possible and not parts else []
    text = most + count(lost_records, "record")
    return (
        f"{text}, {' and '.join(parts)}"
        if parts
        else f"{text} that {'was' if lost_records == 1 else 'were'} not committed"
    )


def say_damage(broker_id: int, codes: Collection[str]) -> str:
    """A sentence on a candidate with damaged files; `codes` name the damage."""
    return f"The files of broker {broker_id} are damaged ({', '.join(codes)}): copy them before its next start"


def say_uncaptured(replicas: int) -> str:
    """Predicate of a sentence whose subject is that many missing replicas."""
    return f"{'was' if replicas == 1 else 'were'} not captured and may hold committed records"


def ask_for_copies(replicas: int, is_up: bool | None) -> str:
    """The request to copy and add missing replicas; `is_up` says whether their brokers run (None: unknown)."""
    several = replicas > 1
    logs = "their logs" if several else "its log"
    them = "them" if several else "it"
    if is_up:
        return f"copy {logs}; add {them} and audit again"
    unless = "" if is_up is False else f"if {'they are' if several else 'it is'} down, "
    return f"{unless}do not start {them} before {logs} {'are' if several else 'is'} copied; add {them} and audit again"
