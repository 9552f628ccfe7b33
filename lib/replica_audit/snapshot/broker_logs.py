"""Events in `server.log`, `state-change.log` and `controller.log`: what a broker did to a replica (D.4).

Optional evidence: elections with leader, epoch, start offset and high watermark; truncations with their reasons; changes of
the ISR. Versions 0.10 to 4.x word these differently; lines of any other form are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, BinaryIO

from replica_audit.bronze_tables import BrokerLogEvent
from replica_audit.model import TopicPartition
from replica_audit.parsing import INT32, INT64, is_whole, parse_json, parse_whole
from replica_audit.schema import QuarantineRow
from replica_audit.snapshot.log_dir_names import broker_of_folders

if TYPE_CHECKING:
    from replica_audit.snapshot.storage import Snapshot


_NAME = re.compile(r"(?:server|state-change|controller|kafkaServer)\.(?:log|out)(?:[.-][\w.-]*)?")
#: Part of a line that is read; none of the known lines has anything after that.
_LONGEST_LINE = 8 << 10
_PACKED = (".gz", ".zip", ".bz2", ".zst", ".xz")
# Patterns are compiled on first use, and kept by `re`: most snapshots have no such log. Every repetition is bounded, and a
# name begins only after another kind of character, so that time grows linearly with the length of a line.
_TP = r"(?<![A-Za-z0-9._-])(?P<tp>[A-Za-z0-9._-]{1,249}-\d{1,10})(?!\d)"
_OLD_TP = r"\[(?P<topic>[A-Za-z0-9._-]{1,249}),(?P<number>\d{1,10})\]"
_TIME = r"(?:(\d{4}-\d\d-\d\d)[ T])?(\d\d):(\d\d):(\d\d)[,.](\d{3})"
_ON_PARTITION = (
    r"\[(?:Log|UnifiedLog|LocalLog|LogLoader|Partition|MergedLog) (?:partition=)?"
    r"(?P<tp>[A-Za-z0-9._-]{1,249}-\d{1,10})[ ,\]]"
)
#: (kind, word, pattern); the first match counts. `\d+` in a pattern is a number of at most 19 digits. Words are fast to
#: search for, and most lines contain none.
_SHAPES = tuple(
    (kind, word, "(?a)" + pattern.replace(r"\d+", r"\d{1,19}(?!\d)"))
    for kind, word, pattern in (
        (
            "starts",
            " starts at ",
            r"(?:(?P<role>Leader|Follower) )?"
            + _TP
            + r"(?: with topic id (?:Some\()?(?P<id>[\w-]{1,40})\)?)? starts at [Ll]eader [Ee]poch (?P<epoch>-?\d+) "
            r"from offset (?P<offset>-?\d+)"
            r"(?: with (?:partition epoch (?P<partition_epoch>\d+),? (?:and )?)?high watermark (?P<mark>\d+))?"
            r"(?:,? ISR \[(?P<isr>[\d, ]{0,2000})\])?",
        ),
        (
            "cut_below_mark",
            "below high watermark",
            r"Truncating " + _TP + r" to offset (?P<offset>\d+) below high watermark (?P<mark>\d+)",
        ),
        ("no_cut", "has no effect", r"Truncating (?:" + _TP + r" )?to (?P<offset>\d+) has no effect"),
        (
            "asked_to_cut",
            "with TruncationState",
            r"Truncating partition "
            + _TP
            + r" with TruncationState\(offset=(?P<offset>\d+), completed=(?P<completed>true|false)\) due to "
            r"(?:local high watermark (?P<mark>\d+)"
            r"|leader epoch and offset EpochEndOffset\(.{0,300}?leaderEpoch=(?P<epoch>-?\d+))",
        ),
        (
            "asked_to_cut",
            "to local high watermark",
            r"Truncating partition " + _TP + r" to local high watermark (?P<offset>(?P<mark>\d+))",
        ),
        ("cut", "Truncating log", r"Truncating log " + _TP + r" to offset (?P<offset>\d+)"),
        ("cut", "Truncating to offset", r"Truncating to offset (?P<offset>\d+)"),
        ("cut", "ncat", r"[Tt]runcat(?:e|ing) (?:fully )?and start at offset (?P<offset>\d+)"),
        (
            "mark_went_back",
            "Non-monotonic update",
            r"Non-monotonic update of high watermark from \(offset=(?P<mark>\d+).{0,200}?\) to \(offset=(?P<offset>\d+)",
        ),
        (
            "loaded",
            "initial high watermark",
            r"loaded for partition " + _TP + r" with initial high watermark (?P<mark>\d+)",
        ),
        ("created", "No checkpointed highwatermark", r"No checkpointed highwatermark is found for partition " + _TP),
        (
            "isr",
            " ISR ",
            r"(?:Expanding|Shrinking) ISR for partition \S{1,300} from [\d, ]{0,2000}to (?P<isr>\d[\d,]{0,2000})",
        ),
        ("isr", " ISR ", r"(?:Expanding|Shrinking) ISR from [\d,]{0,2000} ?to (?P<isr>\d[\d,]{0,2000})"),
        ("isr", "ISR updated", r"ISR updated (?:from [\d,]{0,2000} )?to (?P<isr>\d[\d,]{0,2000})"),
        (
            "elected",
            "ew leader and ISR",
            r"[Nn]ew leader and ISR (?:for partition " + _OLD_TP + r" is )?(?P<state>\{.{0,2000}?\})"
            r"(?: for offline partition \[(?P<topic2>[A-Za-z0-9._-]{1,249}),(?P<number2>\d{1,10})\])?",
        ),
        (
            "elected_uncleanly",
            "No broker in ISR is alive",
            r"No broker in ISR is alive for (?:" + _OLD_TP + r"|" + _TP + r")\. Elect leader (?P<leader>\d+)",
        ),
        (
            "elected",
            "with state LeaderAndIsr",
            r"partition "
            + _TP
            + r" (?:state )?from \S{1,100} to OnlinePartition with state LeaderAndIsr\(leader=(?P<leader>-?\d+), "
            r"?leaderEpoch=(?P<epoch>\d+), ?(?:isUncleanLeader=\w{1,9}, ?)?isr=List\((?P<isr>[\d, ]{0,2000})\)",
        ),
        (
            "refused",
            "truncation is not allowed",
            r"truncation is not allowed for (?:partition|topic) "
            + _TP
            + r", Current leader (?P<leader>\d+)'s latest offset (?P<offset>\d+) is less than "
            r"replica \d+'s latest offset (?P<mark>\d+)",
        ),
    )
)
_WORDS = tuple(sorted({word for _, word, _ in _SHAPES}))
_OLD_PLACE = r"(?:for partition |Partition )" + _OLD_TP
_PLACE = r"for partition " + _TP


def is_broker_log(path: str) -> bool:
    """True for the name of a broker's log, rotated ones included; False for packed ones, which cannot be read."""
    name = path.rpartition("/")[2]
    return _NAME.fullmatch(name) is not None and not name.endswith(_PACKED)


def broker_of_path(path: str) -> int | None:
    """The broker id of the innermost directory `broker-<id>` on the path."""
    return broker_of_folders(path.split("/")[:-1])


def read_broker_log(snapshot: Snapshot, path: str, broker_id: int | None) -> Iterator[BrokerLogEvent | QuarantineRow]:
    """Events of a log in the snapshot; if it cannot be read, a quarantine row."""
    try:
        with snapshot.open_file(path) as stream:
            yield from parse_broker_log(_lines(stream), path, broker_id)
    except OSError as error:
        reason = f"the broker's log could not be read: {error}"
        yield QuarantineRow.of("INPUT-IGNORED", path, reason, broker_id=broker_id)


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """Lines of a file from any reader; a line longer than a megabyte comes in pieces."""
    rest = b""
    while chunk := stream.read(1 << 20):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
        if len(rest) > 1 << 20:
            yield rest
            rest = b""
    if rest:
        yield rest


def parse_broker_log(lines: Iterable[bytes], path: str, broker_id: int | None) -> Iterator[BrokerLogEvent]:
    """Events of a log in line order. Without a broker id, only cuts below a high watermark."""
    for number, raw in enumerate(lines, 1):
        # Known lines are UTF-8.
        text = raw[:_LONGEST_LINE].decode("utf-8", "replace")
        if any(word in text for word in _WORDS):
            event = _parse_line(text, path, number, broker_id)
            if event is not None and (broker_id is not None or event.kind == "cut_below_mark"):
                yield event


def _parse_line(text: str, path: str, number: int, broker_id: int | None) -> BrokerLogEvent | None:
    for kind, word, pattern in _SHAPES:
        found = re.search(pattern, text) if word in text else None
        if found is None:
            continue
        groups = found.groupdict()
        try:
            return _event(kind, groups, text, path, number, broker_id)
        except ValueError:
            return None  # a number or state that no broker writes
    return None


def _event(
    kind: str, groups: Mapping[str, str | None], text: str, path: str, line: int, broker_id: int | None
) -> BrokerLogEvent | None:
    state = _state(groups.get("state"), path)
    place = _place(groups, text)
    if place is None:
        return None
    clock_ms, time = _clock(text)
    return BrokerLogEvent(
        topic=place.topic,
        partition=place.partition,
        broker_id=broker_id,
        path=path,
        line=line,
        kind=kind,
        clock_ms=clock_ms,
        time=time,
        leader_epoch=_number(groups.get("epoch"), INT32) if state is None else state.get("leader_epoch"),
        partition_epoch=_number(groups.get("partition_epoch"), INT32),
        offset=_number(groups.get("offset")),
        high_watermark=_number(groups.get("mark")),
        leader_id=_number(groups.get("leader"), INT32) if state is None else state["leader"],
        isr=_ids(groups.get("isr")) if state is None else tuple(sorted(state["isr"])),
        leads=None if kind != "starts" else groups.get("role") != "Follower",
        topic_id=groups.get("id") if groups.get("id") != "None" else None,
        final=None if groups.get("completed") is None else groups["completed"] == "true",
    )


def _state(text: str | None, path: str) -> dict | None:
    """A partition's state from JSON; None if the line has none. Raises ValueError for anything else."""
    if text is None:
        return None
    state = parse_json(text, path, "")
    isr = state.get("isr") if isinstance(state, dict) else None
    if not isinstance(isr, list) or not all(is_whole(one, -1) for one in (*isr, state.get("leader"))):
        raise ValueError("no state of a partition")
    if not is_whole(state.get("leader_epoch", 0)):
        raise ValueError("no leader epoch")
    return state


def _place(groups: Mapping[str, str | None], text: str) -> TopicPartition | None:
    for topic, number in (("topic", "number"), ("topic2", "number2")):
        name, partition = groups.get(topic), groups.get(number)
        if name and partition is not None:
            return TopicPartition(name, _whole(partition, INT32))
    name = groups.get("tp")
    if name is None:
        for pattern in (_ON_PARTITION, _OLD_PLACE, _PLACE):
            found = re.search(pattern, text)
            if found and "topic" in found.groupdict():
                return TopicPartition(found["topic"], _whole(found["number"], INT32))
            if found:
                name = found["tp"]
                break
        else:
            return None
    return TopicPartition.parse(name)


def _clock(text: str) -> tuple[int | None, str | None]:
    found = re.search(_TIME, text)
    if found is None:
        return None, None
    date, hours, minutes, seconds, millis = found.groups()
    of_day = ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * 1000 + int(millis)
    if date is None:
        return of_day, found[0]
    try:
        day = datetime.fromisoformat(date).replace(tzinfo=timezone.utc)
    except ValueError:
        return of_day, found[0]
    return int(day.timestamp()) * 1000 + of_day, found[0]


def _number(text: str | None, greatest: int = INT64) -> int | None:
    return None if text is None else _whole(text, greatest)


def _whole(text: str, greatest: int) -> int:
    value = parse_whole(text, -1, greatest)
    if value is None:
        raise ValueError(f"a number up to {greatest}")
    return value


def _ids(text: str | None) -> tuple[int, ...] | None:
    return None if text is None else tuple(sorted(_whole(one, INT32) for one in re.split(r"[,\s]+", text) if one))
