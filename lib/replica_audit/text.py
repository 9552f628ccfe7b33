"""Values in prose: times in ISO 8601, numbers with nouns, lists, and words for codes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta, timezone

from replica_audit.literals import REMOTE_BASES, RemoteBasis

#: Sources of leadership (`LeadershipSource`).
_SOURCES = {
    "metadata_log": "the metadata log",
    "zookeeper": "ZooKeeper",
    "topics_describe": "the listing of the topics",
    "user": "the leadership file",
    "inferred": "inferred from the logs",
}
#: Reasons for the end of a truncation (`protocol.truncation.Replay.reason`).
_CUTS = {
    "epoch_match": "the epochs agree up to there",
    "stepped_back": "the epochs agree up to there, after earlier ones were asked for",
    "hw_fallback": "its high watermark, no epoch being of use",
    "out_of_range_tail": "the leader's log ends there",
    "full_truncate": "it ends below the leader's log start",
    "tiered_restart": "it starts anew where the leader's local log starts",
    "recovery": "its own start cuts off what is damaged",
    "none": "nothing is cut",
}

#: States of a segment in remote storage (`RemoteState`).
_REMOTE_STATES = {
    "copy_started": "being copied",
    "copy_finished": "copied",
    "delete_started": "being deleted",
    "delete_finished": "deleted",
}


def name_source(source: str) -> str:
    """A source of leadership in prose."""
    return _SOURCES[source]


def name_cut(reason: str) -> str:
    """The reason for which a truncation stops, as a clause."""
    return _CUTS[reason]


def name_remote_state(state: str) -> str:
    """The state of a segment in remote storage, as an adjective."""
    return _REMOTE_STATES[state]


def name_remote_lineage(lineage: str, parted_at: int | None) -> str:
    """Clause on the relation of a segment in remote storage to the log (`RemoteLineage`); `parted_at` is where left and past_end diverge."""
    return {
        "own": "of this log",
        "left": f"of another history from offset {parted_at} on",
        "past_end": f"past the end of this copy of the log from offset {parted_at} on",
        "below_start": "below the log start",
        "other_topic": "of another topic of that name",
        "unknown": "no log of the partition has its epochs",
    }[lineage]


#: Clauses on the evidence that remote storage has records (`RemoteBasis`).
_BASES: dict[RemoteBasis, str] = {
    "log": "no segment of them is known, only where the leader's files begin",
    "metadata": "only __remote_log_metadata says so, and no object was seen",
    "differs": "the size or content of its objects is not what __remote_log_metadata says",
    "listing": "its objects were seen, and not read",
    "content": "its objects were read, and are sound",
}


def name_remote_basis(basis: RemoteBasis) -> str:
    """Clause on the evidence that remote storage has records."""
    return _BASES[basis]


def name_remote_bases(bases: Collection[RemoteBasis]) -> str:
    """Clause on the weakest evidence, of at least one, that remote storage has some records."""
    weakest = min(bases, key=REMOTE_BASES.index)
    some = "for some, " if len(set(bases)) > 1 else ""
    return f"{some}{name_remote_basis(weakest)}"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """A number and its noun: 1 record, 2 records; `plural` unless the noun just takes an s."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def verb(count: int, one: str, many: str) -> str:
    """The form of a verb or pronoun that agrees with `count`."""
    return one if count == 1 else many


def listed(words: Iterable[object], last: str = "and") -> str:
    """Words as a list in prose: 1; 1 and 2; 1, 2 and 3; '' for no words."""
    *first, end = [*map(str, words)] or [""]
    return f"{', '.join(first)} {last} {end}" if first else end


def name_ids(noun: str, ids: Sequence[int], last: str = "and") -> str:
    """Ids with their noun: controller 1; controllers 1, 2 and 3; controller 1 or 2; no controller."""
    return f"{noun}{'' if len(ids) == 1 or last == 'or' else 's'} {listed(ids, last)}" if ids else f"no {noun}"


def name_brokers(ids: Sequence[int], last: str = "and") -> str:
    """Brokers by their ids, in the form of `name_ids`."""
    return name_ids("broker", ids, last)


def say_offline(ids: Sequence[int]) -> str:
    """Clause on brokers whose log dir with a partition is offline."""
    has = "its log directory with it is" if len(ids) == 1 else "their log directories with it are"
    return f"{has} offline"


def capitalise(text: str) -> str:
    """`text` with a capital first letter."""
    return text[:1].upper() + text[1:]


def name_offsets(start_offset: int, end_offset: int) -> str:
    """Half-open range in prose: offset 12; offsets 12 to 16."""
    last = end_offset - 1
    return f"offset {start_offset}" if last <= start_offset else f"offsets {start_offset} to {last}"


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def now() -> str:
    """The present time in ISO 8601, with milliseconds."""
    return _render(datetime.now(timezone.utc), "milliseconds")


def now_ms() -> int:
    """The present time in ms since 1970."""
    return int(datetime.now(timezone.utc).timestamp() * 1000)


def parse_moment(moment: str) -> datetime:
    """The time in a text of ISO 8601; inverse of `now`."""
    # Python 3.10 does not accept the Z.
    return datetime.fromisoformat(moment.replace("Z", "+00:00"))


def parse_time(text: str) -> int:
    """Milliseconds since the epoch for a time in ISO 8601 (UTC unless a zone is given). Raises ValueError."""
    moment = parse_moment(text)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp() * 1000)


def render_time(time_ms: int | None, timespec: str = "milliseconds") -> str:
    """Milliseconds since the epoch as 2023-11-14T22:13:20.000Z; - for None, the bare number outside years 1 to 9999.

    Producers choose timestamps and a damaged record may hold any, so every int64 is accepted.
    """
    if time_ms is None:
        return "-"
    try:
        return _render(_EPOCH + timedelta(milliseconds=time_ms), timespec)
    except OverflowError:
        return f"{time_ms} ms"


def _render(moment: datetime, timespec: str) -> str:
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")
