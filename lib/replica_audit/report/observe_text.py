"""Text of `observe` in the terminal: what will be read, and the outcome."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from replica_audit.observe.observing import Observed
from replica_audit.observe.planning import ReadingPlan
from replica_audit.report.layout import align_columns, clean, render_size, wrap
from replica_audit.text import count, name_brokers, verb

#: Maximum numbers of refusals and of unread replicas shown.
_SHOWN = 10


def render_plan(plan: ReadingPlan, rate: int) -> str:
    """Render the estimated size and duration for each broker."""
    lines = wrap(f"Cluster {clean(plan.cluster.cluster_id)}: {count(len(plan.cluster.partitions), 'partition')}")
    table: list[tuple[str, ...]] = [("BROKER", "REPLICAS", "ABOUT", "TAKES")]
    by_broker = plan.by_broker()
    for broker_id, replicas in by_broker.items():
        size = sum(one.size_bytes for one in replicas)
        table.append((str(broker_id), str(len(replicas)), render_size(size), _duration(size / rate)))
    lines += ["", *align_columns(table, (0, 1, 2, 3)), ""]
    lines += [line for text in _sources_of_sizes(plan, sorted(by_broker)) for line in wrap(text)]
    reading = f"{verb(len(by_broker), '', 'each of ')}{name_brokers(sorted(by_broker))}"
    lines += wrap(
        f"About {render_size(plan.size_bytes)} will be read, at most {render_size(rate)} a second from {reading}."
    )
    unread = _unread((one.broker_id, str(one.partition.place), one.problem) for one in plan.replicas)
    lines += _not_read([*plan.refused, *unread, *plan.hidden])
    return "\n".join(lines) + "\n"


def _sources_of_sizes(plan: ReadingPlan, brokers: list[int]) -> list[str]:
    """Sentences on the source of the logs' sizes."""
    by_reason: dict[str, list[int]] = defaultdict(list)
    for broker_id in brokers:
        if broker_id in plan.untold:
            by_reason[plan.untold[broker_id]].append(broker_id)
    untold = [one for ids in by_reason.values() for one in ids]
    told = [one for one in brokers if one not in untold]
    lines = []
    if told:
        report = verb(len(told), "the broker reports", "the brokers report")
        lines.append(f"Log sizes on {name_brokers(told)} are as {report} them.")
    for reason, ids in by_reason.items():
        report = verb(len(ids), "the broker does", "the brokers do")
        lines.append(
            f"Log sizes on {name_brokers(ids)} are estimated from the first batches of each log, since {report} not report them: "
            f"{clean(reason)}."
        )
    return lines


def render_more(came_bytes: int, plan: ReadingPlan) -> str:
    """Render the question asked once the agreed amount has been read."""
    return (
        f"observe: {render_size(came_bytes)} have been read, against an estimate of {render_size(plan.size_bytes)}; it is not known how much "
        "is left. If you stop here, the snapshot keeps the replicas read so far. Read as much again?"
    )


def render_observed(found: Observed) -> str:
    """Render what was written, and what the snapshot lacks."""
    read = len(found.replicas) - len(found.unread)
    lines = wrap(
        f"{found.directory}: {count(read, 'replica')} read, {render_size(found.size_bytes)}; no record was kept."
    )
    problems = _unread((one.broker_id, f"{one.topic}-{one.partition}", one.problem) for one in found.replicas)
    lines += _not_read([*found.refused, *problems], ", in observed.json")
    lines += wrap(
        "Not captured: records above a replica's own high watermark, checkpoints, epoch files, brokers that are down, and anything "
        "else that a broker does not serve to clients."
    )
    return "\n".join([*lines, f"replica-audit show {clean(found.directory)} reports on it."]) + "\n"


def _unread(replicas: Iterable[tuple[int, str, str | None]]) -> list[str]:
    """A clause for each reason and broker."""
    places: dict[tuple[str, int], list[str]] = defaultdict(list)
    for broker_id, place, problem in replicas:
        if problem is not None:
            places[problem, broker_id].append(place)
    return [
        f"broker {broker_id}: {of_it[0]}{'' if len(of_it) == 1 else f' and {len(of_it) - 1} more'}: {problem}"
        for (problem, broker_id), of_it in places.items()
    ]


def _not_read(texts: list[str], where: str = "") -> list[str]:
    lines = [line for text in texts[:_SHOWN] for line in wrap(f"Not read: {clean(text)}.", "", "    ")]
    return lines + ([f"Not read: {len(texts) - _SHOWN} more{where}."] if len(texts) > _SHOWN else [])


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if seconds < 120:
        return f"{round(seconds)} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"
