"""The answer of `salvage`: records that replicas hold and the leaders' logs do not, written to a new directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from replica_audit.api.argument_settings import of_snapshot, resolved
from replica_audit.config import Settings
from replica_audit.elect.plan_model import read_plan
from replica_audit.errors import InputError, UsageError
from replica_audit.literals import RECORD_ENCODINGS, RECORD_FORMS
from replica_audit.paths import check_files, check_outside, local_path
from replica_audit.progress import Progress
from replica_audit.report.salvage_text import render_salvage
from replica_audit.report.wanted_ranges import check_wanted, write_wanted_of_salvage
from replica_audit.salvage.partition_salvage import Choices
from replica_audit.salvage.salvage_manifest import ManifestHead
from replica_audit.salvage.snapshot_salvage import PlannedLeaders, SalvageSearch
from replica_audit.salvage.written_salvage import Forms, write_salvage
from replica_audit.scratch import hash_file
from replica_audit.table_names import check_values
from replica_audit.typed_json import to_object

LOST = 1


class Salvaged:
    """The records salvaged into `directory`; `manifest` is the head of its manifest, with the totals."""

    def __init__(self, manifest: ManifestHead, directory: str) -> None:
        self.manifest = manifest
        self.directory = directory

    @property
    def exit_status(self) -> int:
        """1 if known records were not or cannot be written, 3 if input that may hold records was not read, else 0."""
        totals = self.manifest.totals
        there = totals.records + totals.unexpanded_records if totals.written is None else totals.written
        if there != totals.expected:
            return LOST
        return InputError.exit_status if self.manifest.unread else 0

    def to_dict(self) -> Mapping[str, object]:
        """The object that `salvage --format json` prints."""
        return {**to_object(self.manifest), "exit_status": self.exit_status}

    def __str__(self) -> str:
        """The text that `salvage` prints."""
        return render_salvage(self.manifest, self.directory)


def salvage(
    path: str,
    to: str,
    *,
    payloads: bool = False,
    forms: Sequence[str] = RECORD_FORMS,
    encoding: str = "base64",
    plan: str | None = None,
    include_aborted: bool = False,
    include_ahead: bool = False,
    wanted: str | None = None,
    topics: Sequence[str] = (),
    leadership: str | None = None,
    leadership_source: str | None = None,
    remote: str | None = None,
    protocol: str | None = None,
    kafka_version: str | None = None,
    config: str | None = None,
    progress: Progress | None = None,
) -> Salvaged:
    """Extract the records that leaders lack from the snapshot at `path` into the new directory `to`.

    Keys, values and headers are written only with `payloads`. `plan` is a `plan.json`: the records that its chosen
    leaders lack are extracted. `remote` is the remote store of tiered topics. `wanted` is a file that lists the bytes
    which evidence lacks. Raises UsageError and InputError.
    """
    given = of_snapshot(topics, leadership, leadership_source, protocol, kafka_version, remote)
    check_values("forms", forms, RECORD_FORMS)
    check_values("encoding", [encoding], RECORD_ENCODINGS)
    choices = Choices(payloads, include_aborted, include_ahead)
    settings = resolved(given, config)
    return salvage_snapshot(path, to, choices, written_as(forms, encoding), plan, wanted, settings, progress)


def written_as(forms: Sequence[str], encoding: str) -> Forms:
    """Record formats without duplicates, in the order in which they are written."""
    return Forms(tuple(form for form in RECORD_FORMS if form in forms), encoding)


def salvage_snapshot(
    path: str,
    to: str,
    choices: Choices,
    forms: Forms,
    plan: str | None,
    wanted: str | None,
    settings: Settings,
    progress: Progress | None,
) -> Salvaged:
    """`salvage` with resolved settings."""
    check_files(settings)
    target = _target(to, path)
    if wanted is not None:
        check_wanted(wanted, path)
    opened = SalvageSearch(path, settings, choices, _planned(plan, settings))
    found = opened.find(progress)
    written = write_salvage(found, opened.reader, choices, forms, target)
    if wanted is not None:
        audits = [one.audit for one in found.partitions]
        write_wanted_of_salvage(wanted, audits, opened.reader.not_captured, opened.snapshot)
    return Salvaged(written, str(target))


def _planned(path: str | None, settings: Settings) -> PlannedLeaders | None:
    """Leaders chosen by the plan at `path`; None without a plan."""
    if path is None:
        return None
    return PlannedLeaders(read_plan(path, "--plan"), hash_file(Path(path)), settings.topics)


def _target(to: str, snapshot: str) -> Path:
    """The result directory as a local path outside the snapshot. Raises UsageError."""
    place = local_path(to)
    if place is None:
        raise UsageError(f"--to {to}: the result is written to a local directory")
    check_outside("--to", place, snapshot)
    return Path(place)
