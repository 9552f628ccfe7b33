"""Clauses on the cost of a choice, shared by plan, headline and steps: losses, damaged files, missing replicas."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Sequence
from typing import Protocol

from replica_audit.auditing.catalogue import at_or_above, codes_with
from replica_audit.auditing.finding import Finding, UnseenTail
from replica_audit.schema import FindingRow
from replica_audit.text import count, name_brokers, name_offsets, verb


class CandidateLoss(Protocol):
    """Loss of a candidate: the fields common to a row of the cost matrix and a candidate of a plan."""

    @property
    def lost_records(self) -> int: ...
    @property
    def lost_committed(self) -> int: ...
    @property
    def lost_possible(self) -> int: ...
    @property
    def is_only_likely(self) -> bool: ...
    @property
    def lost_at_most(self) -> bool: ...
    @property
    def cut_transactions(self) -> int: ...
    @property
    def hidden_records(self) -> int: ...


def rank_loss(one: CandidateLoss) -> tuple[int, int, int, int]:
    """Sort key of losses: possibly acknowledged records, proven committed ones, cut transactions, all records."""
    return one.lost_committed + one.lost_possible, one.lost_committed, one.cut_transactions, one.lost_records


def say_loss(one: CandidateLoss, is_all_known: bool = True) -> str:
    """A loss as the object of a sentence: `43 committed records`, `3 records, 1 of them committed`, `nothing`.

    Unless `is_all_known`, replicas that were not captured may hold more.
    """
    parts = [_say_records(one)] if one.lost_records else []
    parts += [f"the end of {count(one.cut_transactions, 'transaction')}"] if one.cut_transactions else []
    loss = " and ".join(parts)
    of_these = "" if is_all_known else " that the copies here have"
    if not one.hidden_records:
        return loss or f"nothing{of_these}"
    more = f"{loss}, and" if loss else f"nothing more{of_these}, but"
    return f"{more} lacks {count(one.hidden_records, 'record')}, perhaps committed, that another replica has, a difference that no truncation finds"


def _say_records(one: CandidateLoss) -> str:
    lost_records = one.lost_records
    lost_committed = one.lost_committed
    lost_possible = one.lost_possible
    most = "at most " if one.lost_at_most else ""
    committed = "likely committed" if one.is_only_likely else "committed"
    if lost_committed == lost_records:
        return most + count(lost_records, f"{committed} record")
    if lost_possible == lost_records:
        return most + count(lost_records, "possibly committed record")
    parts = [f"{lost_committed} of them {committed}"] if lost_committed else []
    if lost_possible:
        parts.append(f"{lost_possible} possibly" if parts else f"{lost_possible} of them possibly committed")
    text = most + count(lost_records, "record")
    return (
        f"{text}, {' and '.join(parts)}"
        if parts
        else f"{text} that {'was' if lost_records == 1 else 'were'} not committed"
    )


def say_unread(records: int, encrypted: int) -> str:
    """A clause on records in remote storage that salvage cannot extract, `encrypted` of them because they are encrypted."""
    parts = []
    if encrypted:
        are, them = verb(encrypted, "is", "are"), verb(encrypted, "it", "them")
        parts.append(f"{encrypted} {are} encrypted: only the brokers' plugin can read {them}")
    if others := records - encrypted:
        parts.append(f"{others} {verb(others, 'is', 'are')} in segments that are incomplete or not known to exist")
    return "; ".join(parts)


def is_damage(found: Finding | FindingRow) -> bool:
    """True if a finding says that files of a replica are, or may be, damaged."""
    return found.code in codes_with("damage") and at_or_above(found.severity, "medium")


def perhaps_damaged(findings: Iterable[Finding | FindingRow]) -> set[int | None]:
    """Brokers whose files may be damaged, or else of different moments, by the findings of one partition."""
    damage = [one for one in findings if is_damage(one)]
    suspect = {one.broker_id for one in damage if one.confidence == "suspect"}
    return suspect - {one.broker_id for one in damage if one.confidence != "suspect"}


def say_damage(broker_id: int, codes: Collection[str], perhaps: Container[int | None]) -> str:
    """A sentence on a candidate with damaged files; `codes` name the damage, `perhaps` are the brokers `perhaps_damaged`."""
    are = "may be" if broker_id in perhaps else "are"
    return f"The files of broker {broker_id} {are} damaged ({', '.join(codes)}): copy them before its next start"


def say_uncaptured(replicas: int) -> str:
    """Predicate for a subject that names this number of missing replicas."""
    return f"{'was' if replicas == 1 else 'were'} not captured and may hold committed records"


def hold_until_brought(brokers: Sequence[int], are_down: bool) -> str:
    """Request to leave brokers that are, or may be, down as they are until the missing bytes of their logs are brought."""
    names = name_brokers(brokers, "or")
    return f"Do not start {names} until then" if are_down else f"If {names} is down, do not start it until then"


def name_unseen(tails: Collection[UnseenTail]) -> str:
    """The offsets of unseen tails of one partition."""
    return name_offsets(min(one.start_offset for one in tails), max(one.end_offset for one in tails))


def say_unseen_tails(tails: Collection[UnseenTail], what: str | None = None, partitions: int = 1) -> str:
    """Clause on offsets that no copy has and a log may have, and on disks that a broker may have left; `what` names the offsets with their
    `partitions`."""
    lost = [one for one in tails if one.instead is None]
    brokers = sorted({one.broker_id for one in lost})
    told = []
    if lost:
        what = what or name_unseen(lost)
        offsets = max(one.end_offset for one in lost) - min(one.start_offset for one in lost)
        these = "it was" if offsets == partitions == 1 else "these were"
        told.append(
            f"whether {name_brokers(brokers)} lost {what}, or {verb(len(brokers), 'was', 'were')} copied before {these} written"
        )
    for broker, log_dir in sorted({(one.broker_id, one.instead) for one in tails if one.instead is not None}):
        told.append(
            f"whether broker {broker} still runs with the disk that was copied, or with {log_dir}, which is empty, in its place"
        )
    return f"nothing shows {', and '.join(told)}"


def ask_for_copies(replicas: int, is_up: bool | None) -> str:
    """Request to copy and add missing replicas; `is_up`: their brokers run (None: unknown)."""
    several = replicas > 1
    logs = "their logs" if several else "its log"
    add = f"add the {'copies' if several else 'copy'} and audit again"
    if is_up:
        return f"copy {logs}, {add}"
    unless = "" if is_up is False else f"if {'they are' if several else 'it is'} down, "
    them = "them" if several else "it"
    return f"{unless}do not start {them} until {logs} {'are' if several else 'is'} copied; {add}"
