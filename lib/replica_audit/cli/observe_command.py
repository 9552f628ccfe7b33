"""`observe`: reads a running cluster as a client into a snapshot. Writes nothing to the cluster, and stores no record."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from replica_audit.api.observation import ClusterToRead, ObservedSnapshot, read_cluster
from replica_audit.cli.output import ask_for_consent, is_consent, print_note, print_object
from replica_audit.cli.progress_lines import ProgressLine
from replica_audit.config import Settings
from replica_audit.observe.planning import Asked


@dataclass(frozen=True, slots=True)
class _OnTerminal:
    """Consent given on the terminal, or by --yes."""

    yes: bool
    progress: ProgressLine

    def tell(self, text: str) -> None:
        print_note(text)

    def to_plan(self) -> None:
        if not self.yes:
            nobody = "observe: nobody can be asked here: give --yes to read"
            ask_for_consent("Read them?", nobody, "observe: nothing was read")

    def to_more(self, text: str) -> bool:
        self.progress.leave_line()
        return is_consent(text)


def observe(arguments: argparse.Namespace, settings: Settings) -> int:
    """Estimate, ask, read and write; 1 if a replica could not be read or a request was refused. Raises UsageError and EngineError."""
    asked = Asked(settings.topics, arguments.last, arguments.since_ms)
    cluster = ClusterToRead(
        arguments.bootstrap_servers, arguments.command_config, asked, arguments.rate_mib, arguments.at_most_mib
    )
    progress = ProgressLine(settings.quiet)
    consent = _OnTerminal(arguments.yes, progress)
    found = ObservedSnapshot(read_cluster(cluster, arguments.to, consent, progress), ())
    print_object(found.to_dict(), str(found), settings)
    return found.exit_status
