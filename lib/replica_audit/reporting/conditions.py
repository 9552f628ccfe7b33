"""What no verdict says and a reader must know at once: nobody leads, a transaction hangs, records may be lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from replica_audit.auditing.findings.catalogue import at_or_above, codes_with
from replica_audit.moments import render_time
from replica_audit.reporting.layout import render_count
from replica_audit.reporting.losses import Place
from replica_audit.reporting.sentences import Sentence, Template, name_partitions, verb
from replica_audit.reporting.similar_findings import Row
from replica_audit.results import Results

NO_LEADER = Template("{partitions} {have} no leader: {places}.")
HANGING = Template("A transaction that will never end stops read_committed consumers at offset {offset} of {places}.")
HANGING_IN_MANY = Template("Transactions that will never end stop read_committed consumers in {places}.")
PAST_ELECTION = Template("An unclean election on {day} may have lost records in {places}; these files cannot tell.")
PAST_ELECTIONS = Template(
    "Unclean elections, the last on {day}, may have lost records in {places}; these files cannot tell."
)
GONE = Template("Records that an earlier audit saw in {places} are gone from every replica.")
NO_FILES = Template("What {replicas} of {places} {hold} is not known: the files are missing or could not be read.")


@dataclass(frozen=True, slots=True)
class Conditions:
    """Findings behind each condition; all empty, and nothing of medium or more: peace."""

    leaderless: tuple[Row, ...]
    hanging: tuple[Row, ...]
    past: tuple[Row, ...]
    gone: tuple[Row, ...]
    no_files: tuple[Row, ...]
    loud: bool
    """Whether any finding is of medium severity or more."""
    past_the_end: bool = False
    """Whether a replica's own high watermark lies past the end of the log that it is compared with: however that came,
    the reference lacked something that was committed once."""

    @property
    def is_peace(self) -> bool:
        return not (
            self.leaderless or self.hanging or self.past or self.gone or self.no_files or self.loud or self.past_the_end
        )


def find_conditions(results: Results) -> Conditions:
    """The conditions of all partitions; what a baseline resolved is over, what it knows is not."""
    found = [row for row in results.rows("findings") if row["status"] != "resolved"]
    gone = {_place(row) for row in found if row["code"] == "HWM-GONE"}
    return Conditions(
        # Severity info: nobody leads because all brokers were stopped in order.
        leaderless=tuple(row for row in found if row["code"] == "META-NO-LEADER" and row["severity"] != "info"),
        hanging=tuple(row for row in found if row["code"] == "TXN-HANGING"),
        # Severity info: no replica holds any more what it left behind; what is certainly gone has a sentence of its
        # own.
        past=tuple(row for row in found if may_have_lost(row) and _place(row) not in gone),
        gone=tuple(row for row in found if row["code"] == "HWM-GONE"),
        no_files=tuple(row for row in found if row["code"] in codes_with("no_files") and row["topic"] is not None),
        loud=any(at_or_above(row["severity"], "medium") for row in found),
        past_the_end=_is_past_the_end(results),
    )


def _is_past_the_end(results: Results) -> bool:
    ends = {
        _place(row): row["log_end_offset"] for row in results.rows("replicas") if row["role"] in ("leader", "reference")
    }
    return any(
        row["role"] == "compared"
        and row["high_watermark_checkpoint"] is not None
        and (end := ends.get(_place(row))) is not None
        and row["high_watermark_checkpoint"] > end
        for row in results.rows("replicas")
    )


def tell_urgent(conditions: Conditions) -> Iterator[Sentence]:
    """A sentence for what stops producers or consumers now: no leader, no end of a transaction."""
    if conditions.leaderless:
        places = places_of(conditions.leaderless)
        count = len(places)
        partitions = render_count(count, "partition")
        yield NO_LEADER.say(partitions=partitions, have=verb(count, "has", "have"), places=name_partitions(places))
    if conditions.hanging:
        places = places_of(conditions.hanging)
        template = HANGING if len(places) == 1 else HANGING_IN_MANY
        offset = min(row["start_offset"] for row in conditions.hanging)
        yield template.say(offset=offset, places=name_partitions(places))


def tell_doubts(conditions: Conditions, results: Results) -> Iterator[Sentence]:
    """A sentence for what may be lost, or is, though the captured replicas agree."""
    if conditions.gone:
        yield GONE.say(places=name_partitions(places_of(conditions.gone)))
    if conditions.past:
        times = election_times(conditions.past, results)
        day = render_time(max(times))[:10] if times else "a day that is not known"
        template = PAST_ELECTION if len(conditions.past) == 1 else PAST_ELECTIONS
        yield template.say(day=day, places=name_partitions(places_of(conditions.past)))
    if conditions.no_files:
        replicas = {(*_place(row), row["broker_id"]) for row in conditions.no_files}
        count = len(replicas)
        yield NO_FILES.say(
            replicas=render_count(count, "replica"),
            hold=verb(count, "holds", "hold"),
            places=name_partitions(places_of(conditions.no_files)),
        )


def may_have_lost(row: Row) -> bool:
    """Whether a finding is an unclean election of which the files cannot tell any more what it lost."""
    known = any(item["kind"] == "loss" for item in row["evidence"] or ())
    return row["code"] == "META-UNCLEAN-ELECTION" and row["severity"] == "info" and not known


def places_of(findings: Sequence[Row]) -> list[Place]:
    """The partitions of findings, each once, in order."""
    return list(dict.fromkeys(_place(row) for row in findings))


def election_times(findings: Sequence[Row], results: Results) -> list[int]:
    """When the elections of META-UNCLEAN-ELECTION findings took place (ms), as far as the history tells."""
    epochs = {
        (*_place(row), int(item["value"]))
        for row in findings
        for item in row["evidence"] or ()
        if item["kind"] == "leadership"
    }
    times: dict[tuple, int] = {}
    for row in results.rows("partition_states"):
        key = (*_place(row), row["leader_epoch"])
        if key in epochs and row["time_ms"] is not None:
            times[key] = min(row["time_ms"], times.get(key, row["time_ms"]))
    return list(times.values())


def _place(row: Row) -> Place:
    return row["topic"], row["partition"]
