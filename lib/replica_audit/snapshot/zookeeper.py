"""Partition state from ZooKeeper, as JSON that a user saved: leader and ISR at that moment (D.4).

Three forms are accepted, alone or together: an object of znode paths (`/brokers/topics/T/partitions/P/state`, `/brokers/topics/T`,
`/config/topics/T`, below any chroot) with the znodes' data, as JSON or as text; an object of partition names (`orders-0`) with their states;
a list of objects with topic, partition and state. Other znodes are ignored. ZooKeeper keeps only the last state, without history.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from replica_audit.errors import FormatError
from replica_audit.model import UNCLEAN, Leadership, TopicPartition
from replica_audit.parsing import INT32, is_whole, parse_json, parse_whole, show_value

#: Files at the snapshot's root.
ZOOKEEPER_PATTERN = "*zookeeper*.json"

_STATE = re.compile(r"/brokers/topics/([^/]+)/partitions/(\d+)/state$")
_TOPIC = re.compile(r"/brokers/topics/([^/]+)$")
_CONFIG = re.compile(r"/config/topics/([^/]+)$")
_HINT = 'write {"/brokers/topics/orders/partitions/0/state": {"leader": 1, "leader_epoch": 5, "isr": [1, 2]}}'


@dataclass(slots=True)
class _RegisteredTopic:
    replicas: dict[int, tuple[int, ...]] = field(default_factory=dict)
    topic_id: str | None = None
    configs: dict[str, str] = field(default_factory=dict)
    has_configs: bool = False


def parse_zookeeper(data: bytes | str, path: str) -> tuple[Leadership, ...]:
    """Leadership of every partition whose state is in the file, by topic and partition. Raises FormatError."""
    content = parse_json(data, path, _HINT)
    topics: dict[str, _RegisteredTopic] = {}
    states: dict[TopicPartition, Mapping[str, object]] = {}
    for place, value in _entries(content, path):
        found = _STATE.search(place)
        if found:
            states[TopicPartition(found[1], _partition(found[2], place, path))] = _object(value, place, path)
        elif found := _TOPIC.search(place):
            _add_topic(topics.setdefault(found[1], _RegisteredTopic()), _object(value, place, path), place, path)
        elif found := _CONFIG.search(place):
            config = _object(value, place, path).get("config")
            configs = _object({} if config is None else config, place, path)
            topic = topics.setdefault(found[1], _RegisteredTopic())
            topic.configs.update({str(key): str(one) for key, one in configs.items()})
            topic.has_configs = True
        elif not place.startswith("/"):
            try:
                at = TopicPartition.parse(place)
            except ValueError:
                raise _fail(path, place, "a znode's path or a partition such as orders-0", place) from None
            states[at] = _object(value, place, path)
    return tuple(_leadership(at, states[at], topics.get(at.topic, _RegisteredTopic()), path) for at in sorted(states))


def complete_from_listing(of_zookeeper: Leadership, listed: Leadership | None) -> Leadership:
    """ZooKeeper's leadership, with the listing's assignment, topic id and configs if ZooKeeper's file has none."""
    if listed is None:
        return of_zookeeper
    return replace(
        of_zookeeper,
        replicas=of_zookeeper.replicas or listed.replicas,
        topic_id=of_zookeeper.topic_id or listed.topic_id,
        configs={**listed.configs, **of_zookeeper.configs},
    )


def _entries(content: object, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(content, Mapping):
        yield from content.items()
        return
    if not isinstance(content, list):
        raise FormatError(path, None, "an object or a list", type(content).__name__, _HINT)
    for number, one in enumerate(content, 1):
        entry = _object(one, f"entry {number}", path)
        if "path" in entry:
            yield str(entry["path"]), entry.get("data", entry.get("value"))
        elif isinstance(entry.get("topic"), str) and is_whole(entry.get("partition")):
            yield f"{entry['topic']}-{entry['partition']}", entry.get("state", entry)
        else:
            raise _fail(path, f"entry {number}", "topic and partition, or path and data", sorted(entry))


def _object(value: object, place: str, path: str) -> Mapping[str, object]:
    if isinstance(value, str):
        try:
            value = parse_json(value, path, _HINT)
        except FormatError as error:
            raise _fail(path, place, "the znode's data as JSON", error.found) from None
    if not isinstance(value, Mapping):
        raise _fail(path, place, "an object", value)
    return value


def _add_topic(topic: _RegisteredTopic, value: Mapping[str, object], place: str, path: str) -> None:
    for number, ids in _object(value.get("partitions", {}), place, path).items():
        topic.replicas[_partition(str(number), place, path)] = _ids(ids, place, path)
    topic_id = value.get("topic_id")
    if topic_id is not None and not isinstance(topic_id, str):
        raise _fail(path, place, "text for topic_id", topic_id)
    topic.topic_id = topic_id or topic.topic_id


def _partition(text: str, place: str, path: str) -> int:
    number = parse_whole(text, 0, INT32)
    if number is None:
        raise _fail(path, place, f"a partition from 0 to {INT32}", text)
    return number


def _leadership(at: TopicPartition, state: Mapping[str, object], topic: _RegisteredTopic, path: str) -> Leadership:
    leader, epoch = (_whole(state.get(name), name, str(at), path) for name in ("leader", "leader_epoch"))
    return Leadership(
        topic=at.topic,
        partition=at.partition,
        source="zookeeper",
        leader_id=None if leader < 0 else leader,
        leader_epoch=epoch,
        isr=tuple(sorted(_ids(state.get("isr"), str(at), path))),
        replicas=topic.replicas.get(at.partition),
        topic_id=topic.topic_id,
        configs=topic.configs,
        inherits_unclean=UNCLEAN not in topic.configs if topic.has_configs else None,
    )


def _whole(value: object, name: str, place: str, path: str) -> int:
    if not is_whole(value, -1):
        raise _fail(path, place, f"a whole number from -1 to {INT32} for {name}", value)
    return value


def _ids(value: object, place: str, path: str) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise _fail(path, place, "a list of broker ids", value)
    return tuple(_whole(one, "a broker id", place, path) for one in value)


def _fail(path: str, place: str, expected: str, found: object) -> FormatError:
    return FormatError(path, None, f"at {place[:80]!r} {expected}", show_value(found), _HINT)
