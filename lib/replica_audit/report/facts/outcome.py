"""Outcome of an audit in one word, derived from verdicts, losses and conditions, and the cases that show it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from replica_audit.auditing.catalogue import CATALOGUE, at_or_above, codes_with
from replica_audit.literals import CALM, VERDICTS, Verdict
from replica_audit.model import TopicPartition
from replica_audit.report.facts.by_partition import worst_first, worst_partitions
from replica_audit.report.facts.conditions import Compared, Conditions, Stored, whole_audit
from replica_audit.report.facts.losses import Holder, PlaceLoss, Total, loss_at, total_loss
from replica_audit.results import FindingPlace, Results, place_of, present
from replica_audit.schema import DivergenceRow, FindingRow, PartitionRow

#: Maximum number of partitions, and of findings without one, named one by one.
CASE_LIMIT = 3

#: Kinds of outcome with a certain loss of committed records.
_LOSSES = ("lost", "lost_leaderless", "lost_uncounted", "lost_markers", "gone_since", "gone_for_good")

_TONES = dict(zip(VERDICTS, ("bad", "bad", "bad", "bad", "unknown", "warn", "warn", "good"), strict=True))

#: Verdicts whose number of lost records is reported if known.
_WITH_NUMBERS = ("COMMITTED_LOSS", "WILL_LOSE_ON_TRUNCATION", "UNCOMMITTED_DIVERGENCE")
#: Kinds of verdicts that come after lost records that a broker holds, though they are worse.
_OUTRANKED = {"COMMITTED_DIVERGENCE": "differ", "LATENT_CORRUPTION": "damaged"}


class WorstCase(NamedTuple):
    """A partition that shows the problem: by its loss, else by a finding, else by its verdict alone."""

    partition: PartitionRow
    loss: PlaceLoss | None
    finding: FindingRow | None


class Outcome(NamedTuple):
    """Outcome of an audit; `findings` are the present ones by partition, worst first."""

    worst: str
    """Worst verdict of a partition."""
    kind: str
    """Outcome in one word (see `kind_of_outcome`)."""
    affected: int
    """Number of partitions that `kind` applies to."""
    partitions: Sequence[PartitionRow]
    """All partitions, worst first."""
    total: Total
    holders: Mapping[int, Holder]
    stored: frozenset[Stored]
    """`stored` of the `WholeAudit`."""
    conditions: Conditions
    findings: Mapping[FindingPlace, Sequence[FindingRow]]
    tone: str
    """bad, warn, unknown or good."""
    cases: tuple[WorstCase, ...]
    """The worst ones."""
    unplaced: tuple[FindingRow, ...]
    """Findings of high severity or more that belong to no partition."""
    adds_up: bool
    """True if the sum over all partitions exceeds the number in the headline, and is not that of the only one with a loss."""
    gone: tuple[TopicPartition, ...]
    """Partitions whose committed records are on no captured replica, without those that the headline counts."""
    damaged: tuple[int, ...]
    """Brokers whose damaged files make partitions LATENT_CORRUPTION; () if a cause has no broker."""
    whole: int | None
    """Broker that is the reference of all these partitions and has no damaged files there."""
    uncounted: int
    """Number of partitions of the worst verdict with an unknown number of lost records."""
    outranked: str | None
    """`differ` or `damaged` for the worst verdict if `kind` is a loss that goes before it, since a broker still holds the records."""
    others: Mapping[str, int]
    """Number of partitions of each other verdict, worst first."""

    @property
    def is_loss(self) -> bool:
        """True if committed records are certainly lost."""
        return self.kind in _LOSSES

    @property
    def is_calm(self) -> bool:
        """True if the worst verdict means no loss."""
        return self.worst in CALM


def find_outcome(results: Results, untrusted: str | None, verdict: Verdict) -> Outcome | None:
    """Find the outcome of `results`, computed once; None without partitions.

    `untrusted` is what the audit could not answer, `verdict` that of the audit; both from verdict.json.
    """
    if not results.partitions:
        return None
    return results.once(f"outcome {verdict} {untrusted}", Outcome, lambda: _find(results, untrusted, verdict))


def _find(results: Results, untrusted: str | None, verdict: Verdict) -> Outcome:
    partitions = worst_partitions(results)
    worst = partitions[0].verdict
    findings: dict[FindingPlace, list[FindingRow]] = defaultdict(list)
    for row in worst_first(present(results.findings)):
        findings[place_of(row)].append(row)
    whole = whole_audit(results)
    total = total_loss(partitions)
    conditions = whole.conditions
    codes = {place: frozenset(row.code for row in rows) for place, rows in findings.items()}
    gone = tuple(_gone(partitions, findings))
    is_peace = conditions.is_peace and not untrusted
    kind, affected = kind_of_outcome(
        worst, partitions, codes, gone, total, is_peace, conditions.compared, whole.untimed
    )
    counts = Counter(row.verdict for row in partitions)
    damaged = list(_damaged(partitions, findings))
    references = {row.reference_id for row, _ in damaged}
    without_sum = worst in ("WILL_LOSE_ON_TRUNCATION", "UNCOMMITTED_DIVERGENCE") and not total.committed
    countable = worst in ("COMMITTED_LOSS", "COMMITTED_DIVERGENCE", "WILL_LOSE_ON_TRUNCATION")
    unlike_whole = {one for _, one in damaged} | {one.broker_id for one in conditions.unchecked}
    return Outcome(
        worst=worst,
        kind=kind,
        affected=affected,
        partitions=partitions,
        total=total,
        holders=whole.holders,
        stored=whole.stored,
        conditions=conditions,
        findings=findings,
        tone=_tone(worst, conditions, untrusted, verdict),
        cases=tuple(_cases(partitions, worst, findings, results)),
        unplaced=tuple(row for row in findings.get((None, None), ()) if at_or_above(row.severity, "high")),
        adds_up=bool(total.committed or len(total.places) > 1)
        and not without_sum
        and (total.records != total.committed or worst != "COMMITTED_LOSS"),
        gone=gone if total.committed else (),
        damaged=_all_known([broker for _, broker in damaged]),
        whole=references.pop() if len(references) == 1 and not references & unlike_whole else None,
        uncounted=sum(row.lost_records is None and row.verdict == worst for row in partitions) if countable else 0,
        outranked=_OUTRANKED.get(worst) if kind in ("lost", "lost_leaderless") else None,
        others={name: counts[name] for name in VERDICTS if counts[name] and name != worst},
    )


def _all_known(brokers: Sequence[int | None]) -> tuple[int, ...]:
    known = {broker for broker in brokers if broker is not None}
    return tuple(sorted(known)) if None not in brokers else ()


def _damaged(
    partitions: Sequence[PartitionRow], findings: Mapping[FindingPlace, Sequence[FindingRow]]
) -> Iterator[tuple[PartitionRow, int | None]]:
    """LATENT_CORRUPTION partitions, each with every broker of a finding that caused the verdict."""
    for row in partitions:
        if row.verdict != "LATENT_CORRUPTION":
            continue
        for found in findings.get(place_of(row), ()):
            known = CATALOGUE.get(found.code)
            if known is not None and "LATENT_CORRUPTION" in known.verdicts and at_or_above(found.severity, "medium"):
                yield row, found.broker_id


def _gone(
    partitions: Sequence[PartitionRow], findings: Mapping[FindingPlace, Sequence[FindingRow]]
) -> Iterator[TopicPartition]:
    """Partitions that lost committed records which no replica has, without those where others are counted."""
    codes = codes_with("gone")
    for row in partitions:
        place = place_of(row)
        # Of lower severity, another replica has the records, or may have them.
        is_gone = any(one.code in codes and one.severity == "critical" for one in findings.get(place, ()))
        if is_gone and row.verdict == "COMMITTED_LOSS" and not row.lost_committed:
            yield place


def kind_of_outcome(
    worst: str,
    partitions: Sequence[PartitionRow],
    codes: Mapping[FindingPlace, frozenset[str]],
    gone: Collection[TopicPartition],
    total: Total,
    is_peace: bool,
    compared: Compared,
    untimed: Collection[TopicPartition],
) -> tuple[str, int]:
    """Outcome in one word, and the number of partitions it applies to; `codes` are those of each partition's findings,
    `gone` the partitions of `Outcome`.

    - `lost`, `lost_leaderless` (no leader to miss them, or it may have them): committed records, counted
    - `gone_since` an earlier audit, `gone_for_good`: on no replica here; `lost_markers`: no sound record; `lost_uncounted`
    - `perhaps`: records that nothing proves committed, counted
    - `differ`, `damaged`, `isr_short`, `will_lose`, `undecided`, `left_behind` by a clean election, `unproven`,
      `none_lacked`: the leader has every record that producers sent; `equal_content`: in `untimed` partitions that rests on
      records without times, which equal ones of another producer may have
    - `behind`, `behind_only`, `agree`, `peace`: nothing is lost; the first and the last where all is known
    - `alone`, `single`: one copy is here and was compared with nothing; `single`: the partitions have one replica
    """
    affected = [row for row in partitions if row.verdict == worst]
    # Records that are committed and held are reported too if only the log of an uncaptured leader may have them.
    held = codes_with("held")
    is_held = bool(total.committed) and all(held & codes.get(place, frozenset()) for place in total.committed_places)
    has_numbers = worst in _WITH_NUMBERS or is_held
    if has_numbers and (counted := _counted(worst, affected, partitions, codes, gone, total)):
        return counted
    if worst == "UNCOMMITTED_DIVERGENCE":
        kind = _uncommitted_kind(affected, codes, untimed)
    elif worst == "WILL_LOSE_ON_TRUNCATION":
        only_short = all("REP-ISR-SHORT" in codes.get(place_of(row), ()) for row in affected)
        kind = "isr_short" if only_short else "will_lose"
    elif (worst in CALM or worst == "INCONCLUSIVE") and compared.uncompared.issuperset(map(place_of, affected)):
        kind = "single" if set(map(place_of, affected)) <= set(compared.single) else "alone"
    else:
        if worst in CALM:
            affected = [row for row in affected if place_of(row) not in compared.uncompared]
        kind = {
            "COMMITTED_DIVERGENCE": "differ",
            "LATENT_CORRUPTION": "damaged",
            "INCONCLUSIVE": "undecided",
            "LAGGING": "behind" if is_peace else "behind_only",
            "CONSISTENT": "peace" if is_peace else "agree",
        }[worst]
    return kind, len(affected)


def _uncommitted_kind(
    affected: Sequence[PartitionRow], codes: Mapping[FindingPlace, frozenset[str]], untimed: Collection[TopicPartition]
) -> str:
    if any(row.lost_records is None or row.leader_id is None or row.leader_id != row.reference_id for row in affected):
        return "unproven"
    if all("DIV-EPOCH" not in codes.get(place_of(row), ()) for row in affected):
        return "left_behind"
    return "equal_content" if any(place_of(row) in untimed for row in affected) else "none_lacked"


def _counted(
    worst: str,
    affected: Sequence[PartitionRow],
    partitions: Sequence[PartitionRow],
    codes: Mapping[FindingPlace, frozenset[str]],
    gone: Collection[TopicPartition],
    total: Total,
) -> tuple[str, int] | None:
    if total.committed:
        rows = {place_of(row): row for row in partitions}
        of_leaders = all(_is_leaders_loss(rows[place]) for place in total.committed_places)
        return "lost" if of_leaders else "lost_leaderless", len(total.committed_places)
    if worst == "COMMITTED_LOSS":
        of_affected = [codes.get(place_of(row), frozenset()) for row in affected]
        if all("HWM-GONE" in one for one in of_affected):
            return "gone_since", len(affected)
        if set(gone).issuperset(map(place_of, affected)):
            return "gone_for_good", len(affected)
        if not total.records:
            only_markers = all(row.lost_records == 0 for row in affected)
            held = all(map(codes_with("held").intersection, of_affected))
            return "lost_markers" if only_markers and held else "lost_uncounted", len(affected)
    return ("perhaps", len(total.places)) if total.records else None


def _is_leaders_loss(row: PartitionRow) -> bool:
    """True if the leader itself is known to lack what the reference lacks: it is the reference, and its copy is not perhaps an older one."""
    return row.leader_id == row.reference_id and row.verdict == "COMMITTED_LOSS"


def _tone(worst: Verdict, conditions: Conditions, untrusted: str | None, verdict: Verdict) -> str:
    """Tone of an outcome: good only for peace, and no better than the audit's verdict, which input of no partition may worsen."""
    tone = _TONES[min(verdict, worst, key=VERDICTS.index)]
    if tone != "good":
        return tone
    if untrusted:
        return "unknown"
    return "good" if conditions.is_peace else "warn"


def _cases(
    partitions: Sequence[PartitionRow],
    worst: str,
    findings: Mapping[FindingPlace, Sequence[FindingRow]],
    results: Results,
) -> Iterator[WorstCase]:
    lost: dict[FindingPlace, list[DivergenceRow]] = defaultdict(list)
    for run in results.divergences:
        if run.lost_records:
            lost[place_of(run)].append(run)
    affected = [row for row in partitions if row.verdict == worst]
    if worst in CALM:
        # Findings worth a sentence even in other partitions.
        ranked = {place_of(row): index for index, row in enumerate(worst_first(_worth(findings)))}
        affected = sorted(
            (row for row in partitions if place_of(row) in ranked or (worst == "LAGGING" and row.verdict == worst)),
            key=lambda row: ranked.get(place_of(row), len(ranked)),
        )
    for row in affected[:CASE_LIMIT]:
        place = place_of(row)
        loss = loss_at(row, lost[place]) if row.lost_records else None
        yield WorstCase(row, loss, None if loss else _telling(row, findings.get(place, ())))


def _worth(findings: Mapping[FindingPlace, Sequence[FindingRow]]) -> list[FindingRow]:
    """Worst finding of each partition, if of medium severity or more."""
    placed = [rows[0] for (topic, _), rows in findings.items() if topic is not None]
    return [row for row in placed if at_or_above(row.severity, "medium")]


def _telling(row: PartitionRow, ranked: Sequence[FindingRow]) -> FindingRow | None:
    """The finding that decided the verdict; for a partition without problems the worst one."""
    if row.verdict == "LAGGING" and ranked and ranked[0].severity in ("high", "medium"):
        return ranked[0]
    telling = (one for one in ranked if row.verdict in getattr(CATALOGUE.get(one.code), "verdicts", ()))
    return next(chain(telling, ranked), None)
