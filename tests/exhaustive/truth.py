"""Answers that an audit of a state may give, computed from the model alone: the five questions for every answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tests.exhaustive.model_replica import RECORDS, Replica, follow
from tests.exhaustive.partition import BROKERS, State

Rows = Mapping[str, list[dict[str, Any]]]
Name = tuple[int, int]

QUESTIONS = (
    "the high watermark is inside its interval",
    "no false alarm",
    "no missed loss",
    "the cuts",
    "the numbers of elect",
    "the best choice",
)
HIGH_WATERMARK, FALSE_ALARM, MISSED_LOSS, CUTS, NUMBERS, CHOICE = QUESTIONS

#: Verdicts that say that committed records are lost, or may be.
TELLING = ("COMMITTED_LOSS", "COMMITTED_DIVERGENCE", "LATENT_CORRUPTION", "WILL_LOSE_ON_TRUNCATION", "INCONCLUSIVE")


class Wrong(NamedTuple):
    """An answer that is wrong: to which question, of which kind, and how."""

    question: str
    kind: str
    text: str


class Choice(NamedTuple):
    """Truth about a candidate: batches that no log holds once it leads and all others have followed."""

    lost: frozenset[Name]
    undeleted: frozenset[Name]
    """Those of them not deleted by DeleteRecords, which files may not show yet."""
    committed: frozenset[Name]
    """Those of the lost batches that were committed once."""
    kept: dict[int, set[int]]
    """Possible log end of each broker when it begins to fetch."""

    @property
    def wanted(self) -> frozenset[Name]:
        """Lost, committed and not deleted."""
        return self.committed & self.undeleted


def wrong_answers(state: State, rows: Rows) -> list[Wrong]:
    """All that is wrong with the rows of an audit."""
    reference = rows["partitions"][0]["reference_id"]
    choices = {broker: choose(state, broker) for broker in BROKERS}
    return [
        *_high_watermark(state, rows, reference),
        *_false_alarms(state, rows, choices[reference]),
        *_missed_losses(state, rows, choices[reference]),
        *_cuts(rows, choices[reference]),
        *_elections(rows, choices),
    ]


def choose(state: State, candidate: int) -> Choice:
    """Every broker down, the candidate started alone and elected in the next epoch, the others following it.

    Epochs are those of the files, or of the batches: a kill after DeleteRecords, before the log start was written, leaves
    a file that says less than the batches do. What the two then differ in had been deleted.
    """
    found = [_at_rest(replica).loaded() for replica in state.replicas]
    lost: set[Name] = set()
    kept: dict[int, set[int]] = {broker: set() for broker in BROKERS}
    for logs in (found, [_by_batches(replica) for replica in found]):
        leader = logs[candidate].assign(state.epoch + 1, logs[candidate].end)
        ends = [leader.end if one == candidate else follow(logs[one], leader).end for one in BROKERS]
        held = {name for replica in logs for name in _names(replica)}
        after = {batch.name for replica, end in zip(logs, ends) for batch in replica.batches if batch.end <= end}
        lost |= {name for name in held - after if name[0] >= leader.log_start}
        lost |= never_had(logs[candidate], logs, leader.log_start) & held
        for broker, end in enumerate(ends):
            kept[broker].add(end)
    undeleted = frozenset(name for name in lost if name[0] >= state.deleted_to)
    return Choice(frozenset(lost), undeleted, frozenset(lost & state.committed), kept)


def never_had(log: Replica, logs: Iterable[Replica], start: int) -> set[Name]:
    """Batches below a log's start, of a later epoch than its first one: nobody deleted them from it."""
    own = [batch.epoch for batch in log.batches if batch.end > start] or [epoch for epoch, _ in log.epochs]
    return {
        batch.name for one in logs for batch in one.batches if own and batch.base < start and batch.epoch > min(own)
    }


def _by_batches(replica: Replica) -> Replica:
    """The replica with the epochs that its batches show."""
    rebuilt = replica._replace(epochs=())
    for batch in replica.batches:
        rebuilt = rebuilt.assign(batch.epoch, batch.base)
    return rebuilt


def _at_rest(replica: Replica) -> Replica:
    return replica if replica.status != "up" else replica._replace(status="killed")


def _names(replica: Replica) -> set[Name]:
    return {batch.name for batch in replica.batches if batch.base >= replica.log_start}


def _high_watermark(state: State, rows: Rows, reference: int) -> Iterator[Wrong]:
    """The end of what was ever committed and is on the reference's log lies between the bounds."""
    row, log = rows["high_watermarks"][0], state.replicas[reference]
    ends = [batch.end for batch in log.batches if batch.name in state.committed]
    mark = max([log.first, log.start_mark or 0, *ends])
    lower, upper = row["hw_lower"], row["hw_upper"]
    if lower > mark:
        yield Wrong(HIGH_WATERMARK, "hw_lower too high", f"[{lower}, {upper}] for {mark} ({row['lower_evidence']})")
    if upper is not None and mark > upper:
        yield Wrong(
            HIGH_WATERMARK,
            f"hw_upper too low: {row['method']}",
            f"[{lower}, {upper}] for {mark} ({row['upper_evidence']})",
        )


def _false_alarms(state: State, rows: Rows, choice: Choice) -> Iterator[Wrong]:
    """Nothing is said to be lost that is not, nor committed that was not."""
    verdict = rows["partitions"][0]["verdict"]
    lacking = lacked(state, rows["partitions"][0]["reference_id"])
    if verdict == "COMMITTED_DIVERGENCE" or verdict == "COMMITTED_LOSS" and not lacking:
        codes = {row["code"] for row in rows["findings"] if row["severity"] in ("critical", "high")}
        yield Wrong(FALSE_ALARM, f"{verdict}: {', '.join(sorted(codes))}", f"{verdict}, {len(lacking)} batches lost")
    for row in rows["findings"]:
        if row["severity"] == "critical" and not lacking:
            yield Wrong(FALSE_ALARM, f"critical {row['code']}", row["message"])
    for row in rows["divergences"]:
        span = range(row["start_offset"], row["end_offset"])
        inside = [batch for batch in state.replicas[row["broker_id"]].batches if batch.base in span]
        committed = RECORDS * sum(batch.name in state.committed for batch in inside)
        if (row["lost_committed"] or 0) > committed or row["committed"] and not committed:
            text = f"broker {row['broker_id']} {span}: {row['lost_committed']} committed, of {committed}"
            yield Wrong(FALSE_ALARM, f"run called committed: {row['code']}", text)


def lacked(state: State, reference: int) -> set[Name]:
    """Committed batches that the reference does not have; DeleteRecords that no file tells of is nobody's excuse."""
    log = state.replicas[reference]
    start = max(log.start_mark or 0, log.first)
    gone = state.committed - {batch.name for batch in log.batches}
    return {name for name in gone if name[0] >= start} | gone & never_had(log, state.replicas, start)


def _missed_losses(state: State, rows: Rows, choice: Choice) -> Iterator[Wrong]:
    """Committed records that the reference lacks are told, or it is said that nothing can tell.

    Those that another replica has; and those that no log has any more, where a checkpoint and an epoch file still show them.
    """
    partition = rows["partitions"][0]
    if partition["verdict"] in TELLING:
        return
    own = next(row for row in rows["elections"] if row["candidate_id"] == row["broker_id"] == partition["reference_id"])
    told = (own["lost_committed"], own["lost_possible"])
    codes = sorted({row["code"] for row in rows["findings"] if row["severity"] != "info"})
    if choice.wanted and not any(told):
        yield Wrong(MISSED_LOSS, partition["verdict"], f"lost {sorted(choice.wanted)}, {codes}")
    elif not choice.wanted and (gone := shown_but_gone(state)):
        yield Wrong(
            MISSED_LOSS, f"{partition['verdict']}, no log has them", f"lost {sorted(gone)}, elect {told}, {codes}"
        )


def shown_but_gone(state: State) -> set[Name]:
    """Committed batches that no log has, though files show them: they lie below the checkpoint of a replica whose epoch file
    has their epoch at their offset, and where every later leader's epoch began is known, so that it was no cut."""
    held = {batch.name for replica in state.replicas for batch in replica.batches}
    gone = {name for name in state.committed - held if name[0] >= state.deleted_to}
    known = {epoch for replica in state.replicas for epoch, _ in replica.epochs}
    return {
        (base, epoch)
        for base, epoch in gone
        for broker, replica in enumerate(state.replicas)
        if replica.end <= base < replica.mark
        and max((entry for entry in replica.epochs if entry[1] <= base), default=(-1, 0))[0] == epoch
        and all(later in known for later, leader in led(state) if later > epoch and leader != broker)
    }


def led(state: State) -> list[tuple[int, int]]:
    """(epoch, leader) of every leader that the partition had."""
    changes = [entry.leader for _, entries in state.metadata for entry in entries if entry.leader is not None]
    return [(epoch, leader) for epoch, leader in enumerate((0, *changes)) if leader >= 0]


def _cuts(rows: Rows, choice: Choice) -> Iterator[Wrong]:
    for row in rows["truncations"]:
        if row["protocol"] == "fetch" and row["truncate_to"] not in choice.kept[row["broker_id"]]:
            yield Wrong(
                CUTS,
                row["reason"],
                f"broker {row['broker_id']} to {row['truncate_to']}, not {choice.kept[row['broker_id']]}",
            )


def _elections(rows: Rows, choices: Mapping[int, Choice]) -> Iterator[Wrong]:
    own = {row["candidate_id"]: row for row in rows["elections"] if row["candidate_id"] == row["broker_id"]}
    for row in rows["elections"]:
        kept = choices[row["candidate_id"]].kept[row["broker_id"]]
        if row["kept_to"] not in kept:
            yield Wrong(
                CUTS, "kept_to", f"broker {row['broker_id']} under {row['candidate_id']}: {row['kept_to']}, not {kept}"
            )
    for candidate, row in own.items():
        true = choices[candidate]
        lost, undeleted, committed, wanted = (
            RECORDS * len(names) for names in (true.lost, true.undeleted, true.committed, true.wanted)
        )
        proven, possible = row["lost_committed"], row["lost_possible"]
        told = f"candidate {candidate} ({row['standing']}): {row['lost_records']} lost, {proven} + {possible} committed"
        told += f"; true {lost}, {committed}"
        if not undeleted <= row["lost_records"] <= lost:
            yield Wrong(NUMBERS, "lost_records", told)
        if proven > committed:
            yield Wrong(NUMBERS, "lost_committed too high", told)
        if wanted > proven + possible:
            yield Wrong(NUMBERS, "possibly lost too low", told)
    best = next((row for row in own.values() if row["choice"] == "best"), None)
    if best is None:
        yield Wrong(CHOICE, "none", "no best choice")
        return
    for candidate, row in own.items():
        true, other = len(choices[best["candidate_id"]].wanted), len(choices[candidate].wanted)
        if other < true and not best["lost_possible"] and not row["lost_possible"]:
            yield Wrong(
                CHOICE, "another one loses less", f"best {best['candidate_id']} loses {true}, {candidate} {other}"
            )
