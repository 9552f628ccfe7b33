"""Leadership from the listing of `kafka-topics --describe`, 0.10 to 4.3.

A topic has one line with its configs and, indented, one line for each partition. Fields are `Name: value`, separated by tabs
(or by spaces, if the text was pasted); 0.10 to 2.x write the topic's own line without the space after the colon, and "no
leader" as -1 or `none`. `observe` writes the same with one more field, LeaderEpoch.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from replica_audit.errors import FormatError
from replica_audit.model import Leadership, TopicPartition
from replica_audit.parsing import INT32, parse_whole

_FIELD = re.compile(
    r"(?:^|\s)(Topic|TopicId|PartitionCount|ReplicationFactor|Configs|MarkedForDeletion|Partition|Leader|LeaderEpoch|Replicas|Isr"
    r"|Adding Replicas|Removing Replicas|Elr|LastKnownElr|Offline)\s?:"
)
#: A config's value may contain commas (`0:1,0:2`, `compact,delete`): only a comma before the next name and `=` separates.
_NEXT_CONFIG = re.compile(r",(?=[a-z][A-Za-z0-9._-]*=)")
_TOPIC = re.compile(r"[A-Za-z0-9._-]+")
_HINT = "give the listing as kafka-topics --describe printed it"


class DescribeListing(NamedTuple):
    """Leadership by topic and partition from a listing, and the lines that could not be read."""

    leaderships: tuple[Leadership, ...]
    problems: tuple[FormatError, ...]
    counts: dict[str, int]
    """Number of partitions by topic, of topics with their own line; the listing may have fewer."""


class _DescribedTopic(NamedTuple):
    topic_id: str | None
    configs: dict[str, str]


def parse_topics_describe(text: str, path: str) -> DescribeListing:
    """Leadership of every partition in the listing. A malformed line is reported as a problem.

    ISR and ELR are in ascending order, `replicas` in the order of the assignment. A partition listed twice is a problem if
    the lines differ; the later line counts.
    """
    topics: dict[str, _DescribedTopic] = {}
    counts: dict[str, int] = {}
    found: dict[TopicPartition, Leadership] = {}
    problems: list[FormatError] = []
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        if not line.strip():
            continue
        fields = _split_fields(line)
        try:
            if "Partition" in fields:
                leadership = _parse_partition(fields, topics)
                at = leadership.topic_partition
                if found.setdefault(at, leadership) != leadership:
                    found[at] = leadership
                    problems.append(_problem(path, number, f"{at} once", "another line with other values"))
            elif "PartitionCount" in fields:
                configs = _parse_configs(fields.get("Configs", ""))
                topics[_topic(fields)] = _DescribedTopic(fields.get("TopicId") or None, configs)
                counts[_topic(fields)] = parse_whole(fields["PartitionCount"], 0, INT32) or 0
            else:
                raise ValueError("a topic's or a partition's line")
        except ValueError as error:
            problems.append(_problem(path, number, str(error), repr(line.strip()[:80])))
    return DescribeListing(tuple(found[at] for at in sorted(found)), tuple(problems), counts)


def _problem(path: str, number: int, expected: str, found: str) -> FormatError:
    return FormatError(path, None, f"in line {number} {expected}", found, _HINT)


def _split_fields(line: str) -> dict[str, str]:
    """Fields of a line by name; empty if anything precedes the first name."""
    parts = _FIELD.split(line)
    fields = {name: value.strip() for name, value in zip(parts[1::2], parts[2::2], strict=True)}
    return fields if not parts[0].strip() else {}


def _topic(fields: dict[str, str]) -> str:
    topic = fields.get("Topic", "")
    if not _TOPIC.fullmatch(topic):
        raise ValueError("a topic name after `Topic:`")
    return topic


def _parse_partition(fields: dict[str, str], topics: dict[str, _DescribedTopic]) -> Leadership:
    name = _topic(fields)
    topic = topics.get(name, _DescribedTopic(None, {}))
    partition, leader = fields["Partition"], fields.get("Leader")
    number = parse_whole(partition, 0, INT32)
    if number is None:
        raise ValueError(f"a number from 0 to {INT32} after `Partition:`")
    if leader is None or "Isr" not in fields:
        raise ValueError("`Leader:` and `Isr:`")
    isr = tuple(sorted(_parse_ids(fields["Isr"], "Isr")))
    epoch = fields.get("LeaderEpoch")
    leader_epoch = None if epoch is None else parse_whole(epoch, 0, INT32)
    if epoch is not None and leader_epoch is None:
        raise ValueError(f"a number from 0 to {INT32} after `LeaderEpoch:`")
    return Leadership(
        topic=name,
        partition=number,
        source="topics_describe",
        leader_id=None if leader.lower() in ("none", "-1") else _parse_ids(leader, "Leader")[0],
        leader_epoch=leader_epoch,
        isr=isr,
        elr=tuple(sorted(_parse_ids(fields.get("Elr", ""), "Elr"))),
        last_known_elr=tuple(sorted(_parse_ids(fields.get("LastKnownElr", ""), "LastKnownElr"))),
        replicas=_parse_ids(fields["Replicas"], "Replicas") if "Replicas" in fields else None,
        topic_id=topic.topic_id,
        configs=topic.configs,
    )


def _parse_ids(text: str, name: str) -> tuple[int, ...]:
    # Kafka prints N/A for an ELR that an old controller does not know.
    if text in ("", "N/A") and name != "Leader":
        return ()
    ids = [parse_whole(part.strip(), 0, INT32) for part in text.split(",")]
    if None in ids or (name == "Leader" and len(ids) > 1):
        raise ValueError(f"broker ids after `{name}:`")
    return tuple(one for one in ids if one is not None)


def _parse_configs(text: str) -> dict[str, str]:
    configs: dict[str, str] = {}
    if not text:
        return configs
    for part in _NEXT_CONFIG.split(text):
        name, equals, value = part.partition("=")
        if not equals or not name:
            raise ValueError("`name=value` after `Configs:`")
        configs[name] = value
    return configs
