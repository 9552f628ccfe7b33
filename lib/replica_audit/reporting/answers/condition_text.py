"""What no verdict says and a reader must know at once, in sentences: nobody leads, a transaction hangs, records may be lost."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.answering.conditions import Conditions, election_times, place_of, places_of
from replica_audit.moments import render_time
from replica_audit.reporting.phrases.layout import render_count
from replica_audit.reporting.phrases.sentences import Sentence, Template, name_partitions, verb
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
        replicas = {(*place_of(row), row["broker_id"]) for row in conditions.no_files}
        count = len(replicas)
        yield NO_FILES.say(
            replicas=render_count(count, "replica"),
            hold=verb(count, "holds", "hold"),
            places=name_partitions(places_of(conditions.no_files)),
        )
