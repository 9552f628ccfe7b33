"""Steps that copy what Kafka does not serve from, and cuts or deletes: -future, -stray and -delete directories, `.deleted` files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from replica_audit.deciding.kafka_commands import Copies
from replica_audit.deciding.plan_parts import Decision, Source, Step
from replica_audit.deciding.present_state import PresentState
from replica_audit.deciding.step_list import list_names
from replica_audit.formats.log_dirs.names import directory_of_deleted
from replica_audit.model import Place
from replica_audit.wording import count

_WHEN = {"down": "before the broker is started", "up": "now", "unknown": "now, or before the broker is started"}


def copy_put_aside(state: PresentState, decisions: Sequence[Decision], copies: Copies) -> Iterator[Step]:
    """One for each directory that has what a choice loses, then one for each broker with `.deleted` files that have."""
    deleted: dict[int, list[tuple[Place, Source, str]]] = defaultdict(list)
    for decision in decisions:
        place = (decision.topic, decision.partition)
        for one in decision.salvage:
            if one.directory is None or one.name is None:
                continue
            if directory := directory_of_deleted(one.directory):
                deleted[one.broker_id].append((place, one, directory))
                continue
            yield Step(
                action="copy",
                text=f"Copy {one.name} of broker {one.broker_id} {_WHEN[state.liveness(one.broker_id)]}: it holds "
                f"{count(one.records, 'record')} of {decision.topic}-{decision.partition} that the choice loses, and Kafka "
                "cuts or deletes it",
                brokers=(one.broker_id,),
                partitions=(place,),
                commands=(copies.of_directories(one.broker_id, [one.name]),),
                snapshot=(one.directory,),
            )
    for broker, found in sorted(deleted.items()):
        yield _copy_deleted(broker, found, state, copies)


def _copy_deleted(broker: int, found: Sequence[tuple[Place, Source, str]], state: PresentState, copies: Copies) -> Step:
    """The directories with `.deleted` files of one broker, a command for each of its log dirs."""
    names: dict[str, list[str]] = defaultdict(list)
    for _, _, directory in found:
        log_dir, _, name = directory.rpartition("/")
        names[log_dir].append(name)
    records = sum(one.records for _, one, _ in found)
    return Step(
        action="copy",
        text=f"Copy {list_names(name for some in names.values() for name in some)} of broker {broker} "
        f"{_WHEN[state.liveness(broker)]}: files there that Kafka is about to delete (*.deleted) hold "
        f"{count(records, 'record')} that the choice loses; they go after file.delete.delay.ms (60 s), or as the broker starts",
        brokers=(broker,),
        partitions=tuple(place for place, _, _ in found),
        commands=tuple(copies.of_directories(broker, some) for _, some in sorted(names.items())),
        snapshot=tuple(one.directory for _, one, _ in found if one.directory),
    )
