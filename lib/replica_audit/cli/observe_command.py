"""`observe`: a snapshot of a running cluster, read as a client. It writes nothing to the cluster, and keeps no record."""

from __future__ import annotations

import argparse
from contextlib import closing
from dataclasses import asdict
from threading import Lock

from replica_audit.cli.output import ask_for_consent, print_note, print_object
from replica_audit.cli.progress_lines import ProgressLine
from replica_audit.client_properties import CLIENT_ID, read_client_properties
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.observe.kafka_brokers import CLIENT_ID as READER_ID
from replica_audit.observe.kafka_brokers import check_addresses, connect
from replica_audit.observe.observing import check_target
from replica_audit.observe.observing import observe as observe_cluster
from replica_audit.observe.planning import Asked, plan_observation
from replica_audit.paths import local_path
from replica_audit.report.layout import render_size
from replica_audit.report.observe_text import render_observed, render_plan

INCOMPLETE = 1
#: Bytes more than twice the estimate that are not reported.
_SLACK_BYTES = 1 << 20


class _Watched:
    """Progress, with a warning once far more has come than somebody agreed to."""

    def __init__(self, progress: ProgressLine, estimate: int) -> None:
        self._progress, self._estimate = progress, estimate
        self._size_bytes, self._is_reported, self._lock = 0, False, Lock()

    def came(self, replicas: int, size_bytes: int) -> None:
        """Count, in any thread."""
        with self._lock:
            self._progress.advance(replicas, size_bytes)
            self._size_bytes += size_bytes
            if not self._is_reported and self._size_bytes > 2 * self._estimate + _SLACK_BYTES:
                self._is_reported = True
                self._progress.warn(
                    f"observe: more than twice the estimate of {render_size(self._estimate)} has come, and the end is not known: batches "
                    "are longer further on than where logs begin. Ctrl-C ends it, and leaves nothing behind."
                )


def observe(arguments: argparse.Namespace, settings: Settings) -> int:
    """Estimate, ask, read and write; 1 where a replica could not be read or anything was refused. Raises UsageError and EngineError."""
    properties = read_client_properties(arguments.command_config)
    bootstrap = arguments.bootstrap_servers or properties.bootstrap
    if bootstrap is None:
        raise UsageError("observe: --bootstrap-servers is missing: give HOST:PORT of a broker")
    directory = None if arguments.to is None else local_path(arguments.to)
    if directory is None:
        raise UsageError("observe: --to is missing: give a new local directory for the snapshot")
    check_addresses(bootstrap)
    check_target(directory)
    for note in properties.notes:
        print_note(note)
    if CLIENT_ID in properties.values:
        print_note(f"{CLIENT_ID} of the file is not used: brokers and quotas know this reader as {READER_ID}.")
    asked = Asked(settings.topics, arguments.last, arguments.since_ms)
    rate = arguments.rate_mib << 20
    with closing(connect(bootstrap, properties)) as brokers:
        plan = plan_observation(brokers, asked)
        if not plan.cluster.partitions:
            raise UsageError(f"observe: no topic can be read{''.join(f'; {one}' for one in plan.refused)}")
        print_note(render_plan(plan, rate).rstrip("\n"))
        if not arguments.yes:
            ask_for_consent(
                "Read them?", "observe: nobody can be asked here: give --yes to read", "observe: nothing was read"
            )
        progress = ProgressLine(settings.quiet)
        progress.begin("reading replicas", sum(map(len, plan.by_broker().values())), plan.size_bytes)
        try:
            found = observe_cluster(
                brokers,
                lambda: connect(bootstrap, properties),
                plan,
                asked,
                directory,
                rate,
                _Watched(progress, plan.size_bytes).came,
            )
        finally:
            progress.end()
    status = INCOMPLETE if found.unread or found.refused else 0
    content = {
        "snapshot": directory,
        "replicas": len(found.replicas),
        "size_bytes": found.size_bytes,
        "unread": [asdict(one) for one in found.unread],
        "refused": list(found.refused),
        "exit_status": status,
    }
    print_object(content, render_observed(found), settings)
    return status
