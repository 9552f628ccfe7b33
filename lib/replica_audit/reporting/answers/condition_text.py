"""What no verdict says and a reader must know at once, in sentences: nobody leads, a transaction hangs, records may be lost."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.answering.conditions import Conditions, election_times, place_of, places_of
from replica_audit.moments import render_time
from replica_audit.reporting.phrases.layout import render_count
from replica_audit.reporting.phrases.sentences import (
    Sentence,
    Template,
    capitalise,
    join_some,
    name_brokers,
    name_partitions,
    verb,
)
from replica_audit.results import Results

QUORUM = Template(
    "Copies of the metadata log are stale or contradict each other: start no controller before all of them are copied."
)
NO_LEADER = Template("{partitions} {have} no leader: {places}.")
HANGING = Template("A transaction that will never end stops read_committed consumers at offset {offset} of {places}.")
HANGING_IN_MANY = Template("Transactions that will never end stop read_committed consumers in {places}.")
PAST_ELECTION = Template("An unclean election on {day} may have lost records in {places}; these files cannot tell.")
PAST_ELECTIONS = Template(
    "Unclean elections, the last on {day}, may have lost records in {places}; these files cannot tell."
)
GONE = Template("Records that an earlier audit saw in {places} are gone from every replica.")
NEEDED = Template(
    "{brokers} {was} not captured and may hold committed records of {places}: {act}; add {copies} and audit again."
)
NEEDED_WHOLE = Template(
    "{brokers} {was} not captured whole and may hold more committed records of {places}: {act}; add {copies} and audit again."
)
LOGGED_CUTS = Template(
    "{brokers} cut {logs} below {marks} high watermark in {places}; these files cannot tell what was lost by it."
)
RESTART_CUTS = Template(
    "When {brokers} {starts}, {it} {cuts} committed records off {logs} in {places}; only a leader that stays up has them."
)
ABOUT_TO_GO = Template(
    "{records} of {places} {are} only in files that Kafka is about to delete ({pattern}), in {directories}{proof}."
)
SECOND_COPIES = Template("A second copy on {brokers} was not compared in {places}.")
ALONE = Template("Only one replica of {places} is in the snapshot, and nothing was compared with it.")
SINGLE = Template("There is one replica of {places}, and nothing to compare with it.")
UNASSIGNED = Template(
    "No source says which replicas of {places} exist: {copies} were compared, and one that is not here may hold more."
)
NO_FILES = Template("What {replicas} of {places} {hold} is not known: the files are missing or could not be read.")


def tell_urgent(conditions: Conditions) -> Iterator[Sentence]:
    """A sentence for what cannot wait: metadata that is in doubt, no leader, no end of a transaction."""
    if conditions.quorum:
        yield QUORUM.say()
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


def tell_needed(conditions: Conditions) -> Iterator[Sentence]:
    """A sentence for replicas that were not captured and may hold committed records, those of the most partitions first."""
    for one in conditions.needed:
        several = len(one.brokers) > 1
        logs = "their logs" if several else "its log"
        start = f"do not start {'them' if several else 'it'} before {logs} {'are' if several else 'is'} copied"
        unknown = f"if {'they are' if several else 'it is'} down, {start}"
        acts = {True: f"copy {logs}", False: start, None: unknown}
        yield (NEEDED_WHOLE if one.in_part else NEEDED).say(
            brokers=capitalise(name_brokers(one.brokers)),
            was=verb(len(one.brokers), "was", "were"),
            places=name_partitions(one.places),
            act=acts[one.is_up],
            copies=verb(len(one.brokers), "it", "them"),
        )


def tell_compared(conditions: Conditions, kind: str) -> Iterator[Sentence]:
    """A sentence for what was compared with nothing, or may be missing without anything saying so; `kind` is the outcome's."""
    compared = conditions.compared
    if compared.alone and kind != "alone":
        yield ALONE.say(places=name_partitions(compared.alone))
    if compared.single and kind != "single":
        yield SINGLE.say(places=name_partitions(compared.single))
    if compared.unassigned:
        least, most = (count([number for _, number in compared.unassigned]) for count in (min, max))
        yield UNASSIGNED.say(
            places=name_partitions([place for place, _ in compared.unassigned]),
            copies=f"{least} copies" if least == most else f"{least} to {most} copies",
        )


def tell_doubts(conditions: Conditions, results: Results) -> Iterator[Sentence]:
    """A sentence for what may be lost, or is, though the captured replicas agree."""
    if conditions.gone:
        yield GONE.say(places=name_partitions(places_of(conditions.gone)))
    if conditions.past:
        times = election_times(conditions.past, results)
        day = render_time(max(times))[:10] if times else "a day that is not known"
        template = PAST_ELECTION if len(conditions.past) == 1 else PAST_ELECTIONS
        yield template.say(day=day, places=name_partitions(places_of(conditions.past)))
    if conditions.cuts:
        brokers = sorted({row["broker_id"] for row in conditions.cuts if row["broker_id"] is not None})
        yield LOGGED_CUTS.say(
            brokers=capitalise(name_brokers(brokers)) if brokers else "A broker",
            logs=verb(len(brokers) or 1, "its log", "their logs"),
            marks=verb(len(brokers) or 1, "its own", "their own"),
            places=name_partitions(places_of(conditions.cuts)),
        )
    if conditions.restart_cuts:
        brokers = sorted({row["broker_id"] for row in conditions.restart_cuts})
        yield RESTART_CUTS.say(
            brokers=name_brokers(brokers),
            starts=verb(len(brokers), "starts", "start"),
            it=verb(len(brokers), "it", "they"),
            cuts=verb(len(brokers), "cuts", "cut"),
            logs=verb(len(brokers), "its log", "their logs"),
            places=name_partitions(places_of(conditions.restart_cuts)),
        )
    if found := conditions.about_to_go:
        records = sum(one.records for one in found)
        were = verb(records, "it was", "they were")
        yield ABOUT_TO_GO.say(
            records=render_count(records, "lost record"),
            places=name_partitions([one.place for one in found]),
            are=verb(records, "is", "are"),
            pattern="*.deleted",
            directories=join_some([path for one in found for path in one.directories], 4, "place"),
            proof="" if any(one.is_proven for one in found) else f"; nothing proves that {were} committed",
        )
    if conditions.compared.second_copies:
        places = [place for place, _ in conditions.compared.second_copies]
        brokers = sorted({broker_id for _, broker_id in conditions.compared.second_copies})
        yield SECOND_COPIES.say(brokers=name_brokers(brokers), places=name_partitions(list(dict.fromkeys(places))))
    if conditions.no_files:
        replicas = {(*place_of(row), row["broker_id"]) for row in conditions.no_files}
        count = len(replicas)
        yield NO_FILES.say(
            replicas=render_count(count, "replica"),
            hold=verb(count, "holds", "hold"),
            places=name_partitions(places_of(conditions.no_files)),
        )
