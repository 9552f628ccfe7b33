"""Whether what a plan rests on still holds in a later snapshot: epochs, ends, ISR (`elect --check`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from replica_audit.elect.plan_model import SCHEMA_VERSION, Plan, PlannedPartition
from replica_audit.errors import UsageError
from replica_audit.parsing import fits

_WORDS = {
    "topic_id": "topic id",
    "leader_id": "leader",
    "leader_epoch": "leader epoch",
    "isr": "ISR",
    "elr": "eligible leader replicas",
    "log_start_offset": "log start",
    "log_end_offset": "log end",
    "epochs": "leader epochs",
}

_PLACE = {"topic": str, "partition": int}
_NUMBER = (int, None)
_REPLICA = {"broker_id": int, "log_start_offset": _NUMBER, "log_end_offset": _NUMBER, "epochs": [[int, int]]}
#: What is read of a plan.json.
_SHAPE = {
    "cluster_id": (str, None),
    "decisions": [
        {
            **_PLACE,
            "candidate_id": int,
            "procedure": str,
            "candidates": [{"candidate_id": int, "lost_records": _NUMBER}],
        },
    ],
    "rests_on": [
        {
            **_PLACE,
            "topic_id": (str, None),
            "leader_id": _NUMBER,
            "leader_epoch": _NUMBER,
            "isr": ([int], None),
            "elr": [int],
            "replicas": [_REPLICA],
        }
    ],
    "steps": [
        {
            "leaders": [{**_PLACE, "leader_id": _NUMBER}],
            "after": [
                {
                    **_PLACE,
                    **dict.fromkeys(("leader_id", "leader_epoch", "truncate_to", "log_end_offset"), _NUMBER),
                    "broker_id": int,
                    "dropped_records": _NUMBER,
                }
            ],
        }
    ],
}


def check_object(content: Any) -> Mapping[str, Any]:
    """`content` of a plan.json. Raises UsageError for anything else, and for another version."""
    if not isinstance(content, dict) or not isinstance(content.get("rests_on"), list) or "steps" not in content:
        raise UsageError("this is not a plan: expected the plan.json of replica-audit elect, with steps and rests_on")
    if content.get("schema_version") != SCHEMA_VERSION:
        raise UsageError(
            f"the plan has schema_version {content.get('schema_version')}, and this version reads {SCHEMA_VERSION}: make it again"
        )
    for name, shape in _SHAPE.items():
        if not fits(content.get(name), shape):
            raise UsageError(f"{name} of this plan is not as replica-audit elect writes it: make it again")
    return content


def moved(before: Mapping[str, Any], now: Plan) -> Iterator[dict[str, Any]]:
    """`moved_since` the plan `before` (its object), by one made of the present snapshot."""
    yield from moved_since(before, now.cluster_id, now.rests_on)


def moved_since(
    before: Mapping[str, Any], cluster_id: str | None, rests_on: Iterable[PlannedPartition]
) -> Iterator[dict[str, Any]]:
    """What differs between the plan `before` (its object) and what one of the present snapshot would rest on.

    Each is topic, partition, broker_id (None: of the partition), what, before, now. A value that either does not know is
    not compared.
    """
    present = {(one["topic"], one["partition"]): one for one in map(asdict, rests_on)}
    if before.get("cluster_id") and cluster_id and before["cluster_id"] != cluster_id:
        yield _change({}, None, "cluster", before["cluster_id"], cluster_id)
    for then in before["rests_on"]:
        today = present.get((then["topic"], then["partition"]))
        if today is None:
            yield _change(then, None, "partition", "in the snapshot", "not in this one")
            continue
        for name in ("topic_id", "leader_id", "leader_epoch", "isr", "elr"):
            # Nobody leading is a state of its own where the epoch is known; else nothing tells.
            compared = name == "leader_id" or None not in (then[name], today[name])
            if compared and _plain(then[name]) != _plain(today[name]):
                yield _change(then, None, _WORDS[name], then[name], today[name])
        replicas = {one["broker_id"]: one for one in today["replicas"]}
        for replica in then["replicas"]:
            other = replicas.pop(replica["broker_id"], None)
            if other is None:
                yield _change(then, replica["broker_id"], "replica", "in the snapshot", "not in this one")
                continue
            for name in ("log_start_offset", "log_end_offset", "epochs"):
                if _plain(replica[name]) != _plain(other[name]):
                    yield _change(then, replica["broker_id"], _WORDS[name], replica[name], other[name])
        for broker in sorted(replicas):
            yield _change(then, broker, "replica", "not in the snapshot", "in this one")


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _change(place: Mapping[str, Any], broker_id: int | None, what: str, before: Any, now: Any) -> dict[str, Any]:
    names = {"topic": place.get("topic"), "partition": place.get("partition"), "broker_id": broker_id}
    return {**names, "what": what, "before": _plain(before), "now": _plain(now)}
