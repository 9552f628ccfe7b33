"""`capture-plan`: prints the capture script for brokers and their log dirs. No snapshot, no Spark."""

from __future__ import annotations

import argparse
import base64
import glob
import os
import re
import shlex
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.resources import files

from replica_audit.cli.output import print_note, print_result
from replica_audit.collect import collect
from replica_audit.config import Settings
from replica_audit.errors import UsageError
from replica_audit.literals import CaptureKind
from replica_audit.report.capture_script import STEPS, CapturedBroker, render_capture_script
from replica_audit.report.evidence_script import render_evidence_script
from replica_audit.report.layout import render_object
from replica_audit.snapshot.topics_describe import parse_topics_describe

_BROKER = re.compile(r"(?P<id>\d+)(?:@(?P<host>[^=\s]+))?=(?P<dirs>.+)")
#: Archive names that the script makes, with the broker id.
_OF_BROKER = re.compile(r"(?:evidence-|\.)([0-9]+)(?:-after-|-broken-|-wanted-|\.[0-9]+\.part)")
_EXAMPLE = "give ID=DIR, ID=DIR,DIR or ID@HOST=DIR, for example 1=/var/lib/kafka/data 2@kafka2=/disk1,/disk2"


def capture_plan(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print the capture script for the brokers; with `--format json` its steps, with `--evidence` the script that
    collects evidence, with `--collector` the collector itself."""
    if arguments.collector:
        print_result(collector_text().rstrip("\n"))
        return 0
    if any(mark in arguments.to for mark in "\n\r"):
        raise UsageError("capture-plan: --to with a line break, which no comment of a script can hold")
    brokers = [parse_broker(text) for text in arguments.brokers]
    if not brokers:
        raise UsageError(f"capture-plan: no broker; {_EXAMPLE}")
    again = [broker_id for broker_id, count in Counter(one.broker_id for one in brokers).items() if count > 1]
    if again:
        raise UsageError(
            f"capture-plan: broker {again[0]} twice; give its log dirs together, as in {again[0]}=/disk1,/disk2"
        )
    shared = Counter((one.host, log_dir) for one in brokers for log_dir in one.log_dirs).most_common(1)
    (_, log_dir), times = shared[0]
    if times > 1:
        raise UsageError(f"capture-plan: {log_dir} is given for {times} brokers, and each has its own")
    brokers = list(_with_kinds(brokers, arguments.kind))
    if arguments.describe:
        brokers = order_brokers(brokers, arguments.describe)
    if arguments.evidence or arguments.goes_on or arguments.wanted is not None:
        if settings.format == "json":
            raise UsageError("capture-plan: evidence has a script only, no --format json")
        if arguments.move_aside:
            raise UsageError("capture-plan: --move-aside: not with evidence")
        print_result(_evidence_script(brokers, arguments).rstrip("\n"))
        return 0
    if arguments.sudo is not None:
        raise UsageError("capture-plan: --sudo: only with evidence")
    if settings.format == "json":
        print_result(render_object(_plan(brokers, arguments)))
        return 0
    script = render_capture_script(
        brokers,
        arguments.to,
        kafka_version=settings.kafka_version,
        bootstrap=arguments.bootstrap_server,
        moves_aside=arguments.move_aside,
    )
    print_result(script.rstrip("\n"))
    return 0


def _evidence_script(brokers: list[CapturedBroker], arguments: argparse.Namespace) -> str:
    try:
        options = shlex.split(arguments.collect_options)
    except ValueError as error:
        raise UsageError(f"capture-plan: --collect-options {arguments.collect_options}: {error}") from error
    if arguments.goes_on and arguments.wanted is not None:
        raise UsageError("capture-plan: --after and --wanted: give one of them")
    given = collect.parse_arguments(["--log-dir", "/", *options])
    wanted = None
    if arguments.wanted is not None:
        try:
            collect.read_wanted(arguments.wanted)
            with open(arguments.wanted, encoding="utf-8") as file:
                wanted = file.read()
        except (collect.CollectError, OSError) as error:
            raise UsageError(f"capture-plan: {error}") from error
    after = _known_files(arguments.to, brokers, given.headers) if arguments.goes_on else None
    return render_evidence_script(
        brokers,
        arguments.to,
        collector_text(),
        options,
        rate_mib=given.rate_mib,
        is_less=bool(given.topic) or given.headers != "never" or wanted is not None or after is not None,
        wanted=wanted,
        after=after,
        bootstrap=arguments.bootstrap_server,
        user=arguments.sudo,
    )


def _known_files(to: str, brokers: list[CapturedBroker], headers: str) -> dict[int, str]:
    """For each broker the list of files that its archives in `to` hold, which tells the collector what to leave out;
    with `--headers` its own list."""
    # A killed script leaves files with such names, too.
    patterns = ("evidence*.tar", ".[0-9]*.part")
    archives = sorted(path for one in patterns for path in glob.glob(os.path.join(glob.escape(to), one)))
    if not archives:
        print_note(f"capture-plan --after: there is no evidence in {to} yet: all will be read")
        return {broker.broker_id: "" for broker in brokers}
    found = {}
    # Slow to load, and needed by --after only.
    from replica_audit.snapshot.evidence_retention import collected_log_dirs

    for broker in brokers:
        names = [name for _, name in broker.copies()]
        own = list(_archives_of(broker, archives))
        other = sorted(collected_log_dirs(to, broker.broker_id, own).difference(names))
        if other:
            known = f"the evidence in {to} has {', '.join(other)} of broker {broker.broker_id}, not {', '.join(names)}"
            raise UsageError(f"capture-plan: --after: {known}: collect into a new directory, without --after")
        try:
            keys = collect.read_known(own, str(broker.broker_id), headers)
        except collect.CollectError as error:
            raise UsageError(f"capture-plan: {error}") from error
        found[broker.broker_id] = base64.b64encode(struct.pack(f">{len(keys)}Q", *sorted(keys))).decode()
    return found


def _archives_of(broker: CapturedBroker, archives: list[str]) -> Iterator[str]:
    """Archives that may be of the broker; those named for another one are left out, since each is read to its end."""
    for path in archives:
        named = _OF_BROKER.match(os.path.basename(path))
        if named is None or int(named[1]) == broker.broker_id:
            yield path


def collector_text() -> str:
    """The collector of evidence, which runs on brokers by itself (docs/evidence.md)."""
    return files("replica_audit.collect").joinpath("collect.py").read_text(encoding="utf-8")


def parse_broker(text: str) -> CapturedBroker:
    """The broker in `1=/data` or `2@host=/disk1,/disk2`. Raises UsageError."""
    found = _BROKER.fullmatch(text)
    log_dirs = [part for part in found["dirs"].split(",") if part] if found else []
    if not found or not log_dirs or any("\n" in part or not part.startswith("/") for part in log_dirs):
        raise UsageError(f"capture-plan: {text!r} is not a broker with absolute directories; {_EXAMPLE}")
    if len(set(log_dirs)) < len(log_dirs) or (found["host"] or "").startswith("-"):
        raise UsageError(f"capture-plan: {text!r} names a directory twice, or no host; {_EXAMPLE}")
    return CapturedBroker(int(found["id"]), tuple(log_dirs), found["host"])


def _with_kinds(
    brokers: Sequence[CapturedBroker], kinds: Sequence[tuple[int | None, CaptureKind]]
) -> Iterator[CapturedBroker]:
    """Brokers with their kinds: (broker id, kind), or None and that of all others. Raises UsageError."""
    known = dict(kinds)
    if len(known) < len(kinds):
        raise UsageError("capture-plan: --kind: give one for a broker, and one for all others")
    for broker_id in known.keys() - {None, *(one.broker_id for one in brokers)}:
        raise UsageError(
            f"capture-plan: --kind {broker_id}={known[broker_id]}: no directory of broker {broker_id} is given"
        )
    for one in brokers:
        yield one._replace(kind=known.get(one.broker_id, known.get(None)))


def order_brokers(brokers: list[CapturedBroker], describe: str) -> list[CapturedBroker]:
    """Brokers in order of the number of partitions that they lead in the listing, fewest first. Raises UsageError."""
    try:
        with open(describe, encoding="utf-8") as file:
            listing = parse_topics_describe(file.read(), describe)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--describe {describe}: {error}") from error
    if not listing.leaderships:
        raise UsageError(f"--describe {describe}: no partition in it; give what kafka-topics --describe printed")
    led = Counter(one.leader_id for one in listing.leaderships)
    return sorted(brokers, key=lambda one: led[one.broker_id])


def _plan(brokers: list[CapturedBroker], arguments: argparse.Namespace) -> dict:
    return {
        "to": arguments.to,
        "copies": [
            {
                "broker_id": broker.broker_id,
                "kind": broker.kind,
                "host": broker.host,
                "log_dir": path,
                "to": f"{arguments.to.rstrip('/')}/{name}",
                "steps": [{"name": title, "reason": why, "find": select} for title, why, select in STEPS],
            }
            for broker in brokers
            for path, name in broker.copies()
        ],
        "then": ["kafka-topics-describe.txt", "manifest.json"],
    }
