"""The answer of `observe`: a running cluster, read as a client into a new snapshot. Writes nothing to the cluster, and
stores no record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Protocol

from replica_audit.api.argument_settings import resolved
from replica_audit.client_properties import CLIENT_ID, read_client_properties
from replica_audit.errors import UsageError
from replica_audit.observe.agreement import AgreedBytes
from replica_audit.observe.kafka_brokers import CLIENT_ID as READER_ID
from replica_audit.observe.kafka_brokers import check_addresses, connect
from replica_audit.observe.observing import Observed, check_target
from replica_audit.observe.observing import observe as observe_cluster
from replica_audit.observe.planning import Asked, plan_observation
from replica_audit.paths import local_path
from replica_audit.progress import Progress
from replica_audit.report.observe_text import render_more, render_observed, render_plan
from replica_audit.text import parse_time

INCOMPLETE = 1
#: Bytes beyond twice the estimate that are read without asking.
_SLACK_BYTES = 1 << 20


class ObservedSnapshot:
    """A snapshot read from a running cluster; `found` has its replicas, and the requests that were refused."""

    def __init__(self, found: Observed, notes: Sequence[str]) -> None:
        self.found = found
        self.notes = tuple(notes)
        """Sentences on the client properties file, and on how much had to be read."""

    @property
    def directory(self) -> str:
        """Path of the snapshot."""
        return self.found.directory

    @property
    def exit_status(self) -> int:
        """0 if every replica on a live broker was read and nothing was refused, else 1."""
        return INCOMPLETE if self.found.unread or self.found.refused else 0

    def to_dict(self) -> Mapping[str, object]:
        """The object that `observe --format json` prints."""
        return {
            "snapshot": self.directory,
            "replicas": len(self.found.replicas),
            "size_bytes": self.found.size_bytes,
            "unread": [asdict(one) for one in self.found.unread],
            "refused": list(self.found.refused),
            "exit_status": self.exit_status,
        }

    def __str__(self) -> str:
        """The text that `observe` prints."""
        return render_observed(self.found)


class Consent(Protocol):
    """Decides whether a cluster is read, and how much of it."""

    def tell(self, text: str) -> None:
        """Take note of a sentence, or the plan."""

    def to_plan(self) -> None:
        """Raise UsageError if the plan may not be carried out."""

    def to_more(self, text: str) -> bool:
        """True if as much again as agreed may be read."""


class _Called:
    """Consent of a calling program: to the plan, and to no more."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def tell(self, text: str) -> None:
        self.notes.append(text)

    def to_plan(self) -> None:
        pass

    def to_more(self, text: str) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class ClusterToRead:
    """A cluster, how it is reached, and how much of it is read at what rate."""

    bootstrap_servers: str | None
    command_config: str | None
    asked: Asked
    rate_mib: int
    at_most_mib: int | None
    """MiB after which consent is asked again; None: twice the estimate."""


def observe(
    to: str,
    *,
    bootstrap_servers: str | None = None,
    command_config: str | None = None,
    topics: Sequence[str] = (),
    last: int | None = None,
    since: str | None = None,
    rate_mib: int = 10,
    at_most_mib: int | None = None,
    config: str | None = None,
    progress: Progress | None = None,
) -> ObservedSnapshot:
    """Read the batch headers of every live replica of a running cluster into the new snapshot `to`, as a client.

    `since` is a time in ISO 8601. Reading stops without a question after twice the estimate, or `at_most_mib` MiB; the
    remaining replicas are listed as unread. Raises UsageError and EngineError.
    """
    settings = resolved({"topics": tuple(topics)}, config)
    for name, number in (("last", last), ("rate_mib", rate_mib), ("at_most_mib", at_most_mib)):
        if number is not None and number < 1:
            raise UsageError(f"{name}: expected a number of 1 or more, found {number}")
    try:
        since_ms = None if since is None else parse_time(since)
    except ValueError:
        raise UsageError(f"since: {since!r} is not a time such as 2025-01-31T10:00:00Z") from None
    asked = Asked(settings.topics, last, since_ms)
    cluster = ClusterToRead(bootstrap_servers, command_config, asked, rate_mib, at_most_mib)
    called = _Called()
    return ObservedSnapshot(read_cluster(cluster, to, called, progress or Progress()), called.notes)


def read_cluster(cluster: ClusterToRead, to: str | None, consent: Consent, progress: Progress) -> Observed:
    """`observe` with questions to `consent`. Raises UsageError and EngineError."""
    properties = read_client_properties(cluster.command_config)
    bootstrap = properties.bootstrap("observe", cluster.bootstrap_servers)
    directory = None if to is None else local_path(to)
    if directory is None:
        raise UsageError("observe: --to is missing: give a new local directory for the snapshot")
    check_addresses(bootstrap)
    check_target(directory)
    for note in properties.notes:
        consent.tell(note)
    if CLIENT_ID in properties.values:
        consent.tell(f"{CLIENT_ID} of the file is not used: brokers and quotas know this reader as {READER_ID}.")
    rate = cluster.rate_mib << 20
    with closing(connect(bootstrap, properties)) as brokers:
        plan = plan_observation(brokers, cluster.asked)
        if not plan.cluster.partitions:
            raise UsageError(f"observe: no topic can be read{''.join(f'; {one}' for one in plan.refused)}")
        consent.tell(render_plan(plan, rate).rstrip("\n"))
        consent.to_plan()
        most = 2 * plan.size_bytes + _SLACK_BYTES if cluster.at_most_mib is None else cluster.at_most_mib << 20
        agreement = AgreedBytes(most, lambda came_bytes: consent.to_more(render_more(came_bytes, plan)))
        progress.begin("reading replicas", sum(map(len, plan.by_broker().values())), plan.size_bytes)
        try:
            return observe_cluster(
                brokers,
                lambda: connect(bootstrap, properties),
                plan,
                cluster.asked,
                directory,
                rate,
                agreement,
                progress.advance,
            )
        finally:
            progress.end()
