"""What a finding code is, and the order of severities and verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from replica_audit.closed_sets import Severity, Verdict

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

#: What reports and other readers of findings go by, besides severity and verdict: trait and what it says of a code.
TRAITS = {
    "records": "is about records of one replica that differ, are dropped or were committed; of the same ones it tells one fact",
    "difference": "says that replicas hold other records, however the differences are put",
    "hole": "may be of a stretch at which one side has nothing",
    "gone": "is about committed records that no replica has any more",
    "held": "is about records that a replica holds and the leader does not have",
    "doubt": "makes it uncertain what a replica holds",
    "damage": "says that a replica's own files are damaged, as whoever lets it lead has to know",
    "no_files": "says that files of an assigned replica are missing or could not be read",
    "unreadable": "says that input could not be read at all, so that the audit does not say everything",
    "retold": "is in a partition's story by the sentences on leadership, agreement, differences or truncation",
    "saved_first": "asks for nothing more once the records that it is about are saved",
    "own_step": "has a step of its own in what to do",
    "quorum": "is about the copies of the metadata log, where it is of no partition",
    "earlier": "is about records that an earlier audit saw",
    "padding": "is about space that a file has beyond its last batch, without being damaged",
}


@dataclass(frozen=True, slots=True)
class Code:
    """What a finding code means, how it is proven and what to do about it."""

    code: str
    severities: tuple[Severity, ...]
    """Every severity that the code can have, worst first."""
    verdicts: tuple[Verdict, ...]
    """Every verdict that it can bring on its partition, worst first; empty when it never moves the verdict."""
    summary: str
    """One line, without a full stop."""
    meaning: str
    proof: str
    remedy: str
    traps: str
    """Harmless explanations that were considered, or have to be; '' when there is none."""
    traits: tuple[str, ...] = ()
    """Of `TRAITS`."""

    def __post_init__(self) -> None:
        for severity in self.severities:
            SEVERITIES.index(severity)
        for verdict in self.verdicts:
            VERDICTS.index(verdict)
        if unknown := set(self.traits) - TRAITS.keys():
            raise ValueError(f"{self.code} has unknown traits {sorted(unknown)}")
