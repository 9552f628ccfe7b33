"""Steps that keep the records which only remote storage has, and look for them there."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

from replica_audit.auditing.findings.tier import TIER_ORPHAN
from replica_audit.elect.cluster_state import PresentState, placed
from replica_audit.elect.cost_words import say_unread
from replica_audit.elect.kafka_commands import Tools, for_names
from replica_audit.elect.plan_model import Decision, Step
from replica_audit.elect.step_list import list_names, list_places
from replica_audit.model import TopicPartition
from replica_audit.results import Results, place_of
from replica_audit.text import count, name_brokers, verb


def copy_remote(decisions: Sequence[Decision]) -> Iterator[Step]:
    """A step for the partitions whose records in remote storage Kafka deletes as soon as the plan's leader leads (J4)."""
    leaving = [one for one in decisions if one.chosen.remote_deleted]
    if not leaving:
        return
    places = tuple(map(place_of, leaving))
    records = sum(one.chosen.remote_deleted for one in leaving)
    leaders = sorted({one.candidate_id for one in leaving})
    lead = f"{name_brokers(leaders)} {verb(len(leaders), 'leads', 'lead')}"
    when = f"now: {lead}, and" if leaving[0].is_deleting else f"before {lead}: then"
    unread, encrypted = unread_records(leaving)
    ways = "Or take them out with salvage and --remote"
    if unread:
        ways = f"Salvage cannot take all of them out: {say_unread(unread, encrypted)}"
    yield Step(
        action="keep_remote",
        text=f"Copy the segments of {list_places(places)} out of the remote store's bucket {when} Kafka deletes "
        f"{count(records, 'record')} there within a minute, whatever retention is: their epochs are before the "
        f"leader's first. {ways}",
        partitions=places,
    )


def check_remote(results: Results, decisions: Sequence[Decision]) -> Iterator[Step]:
    """A step for partitions whose lost records remote storage has, by metadata alone."""
    unseen = [one for one in decisions if one.chosen.remote_unseen]
    if not unseen:
        return
    places = tuple(map(place_of, unseen))
    records = sum(one.chosen.remote_unseen for one in unseen)
    is_given = results.remote_store is not None
    more = "" if results.reads_store else "; with --verify-remote it reads the segments, too"
    untold = sum(share.records for one in unseen for share in one.chosen.remote_basis if share.basis == "log")
    if untold:
        more += (
            f". For {untold} no segment is known either: first copy __remote_log_metadata of the brokers into the snapshot, since "
            "only it says which objects have them"
        )
    yield Step(
        action="check_remote",
        text=f"Look into the remote store before you rely on it: no object was seen for {count(records, 'record')} of "
        f"{list_places(places)} that the log of the present or planned leader lacks. This lists the store"
        f"{' again' if is_given else ' at URI'} and makes the plan again{more}",
        partitions=places,
        commands=(results.command("elect", *([] if is_given else ["--remote", "URI"])),),
    )


def keep_remote(
    results: Results, state: PresentState, decisions: Sequence[Decision], tools: Tools, about: Container[TopicPartition]
) -> Iterator[Step]:
    """A step for the topics with records in remote storage that no log has, or none will have under the plan's leader: they are
    deleted once the log start has passed them."""
    orphans = placed(results, TIER_ORPHAN, about)
    found = {place for place, _ in orphans}
    found |= {
        place_of(one)
        for one in decisions
        if one.procedure != "unplanned" and one.chosen.remote_records > one.chosen.remote_deleted
    }
    places = [place for place in sorted(found) if place in about and place not in state.deleted]
    if not places:
        return
    about_them = [one for one in decisions if place_of(one) in places]
    unread, encrypted = unread_records(about_them)
    known = ", as far as is known," if any(one.chosen.remote_unseen for one in about_them) else ""
    # Any leader may have them, and nothing is salvaged before that is known.
    unsure = {place for place, row in orphans if row.confidence == "suspect"} & set(places)
    ends = []
    until = ""
    if unread:
        until = f"Salvage cannot take all of them out of its segments: {say_unread(unread, encrypted)}. "
        ends.append("they are safe elsewhere")
    if unsure:
        ends.append("an audit of the leader's log shows which of them it lacks")
    if not ends:
        ends.append(
            "salvage has taken them out of its segments, and has named none that it cannot read: then set retention back to what it was"
        )
    until += f"Retention stays off until {', and until '.join(ends)}"
    if not unread and results.remote_store is None:
        until += "; whether they are encrypted was not checked: only the brokers' plugin can read encrypted ones"
    lacks = "does not have"
    if unsure:
        lacks = "may not have" if unsure == set(places) else "does not have, or may not have"
    topics = sorted({topic for topic, _ in places})
    way = tools.way_to_configure(is_any_up=state.is_any_up)
    commands, files = for_names(topics, "keep-remote.txt", lambda topic: tools.keep_remote(topic, way))
    yield Step(
        action="keep_remote",
        text=f"Switch off retention for {'topic' if len(topics) == 1 else 'topics'} {list_names(topics)}, and note what it was: "
        f"remote storage{known} has committed records of {list_places(places)} that the log of the present or planned leader {lacks}. "
        "Kafka deletes them once retention or DeleteRecords has moved the leader's log start past them, or once the leader's first epoch "
        f"is later. {until}",
        partitions=tuple(places),
        commands=tuple(commands),
        files=files,
        before=(
            "The brokers' disks have room: local files are kept as long, unless local.retention.ms and local.retention.bytes are set",
            "Meanwhile nobody runs kafka-delete-records on them, and no other leader is elected uncleanly",
        ),
    )


def unread_records(decisions: Iterable[Decision]) -> tuple[int, int]:
    """Numbers of records in remote storage that salvage cannot extract from the given store, and of those among them that are
    encrypted."""
    chosen = [one.chosen for one in decisions]
    return sum(one.remote_unread for one in chosen), sum(one.remote_encrypted for one in chosen)
