"""Commands of this program that an answer tells its reader to run, as a POSIX shell takes them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from replica_audit.redaction import redact
from replica_audit.results import Results

#: What stands for a snapshot whose place nobody knows.
UNKNOWN_PLACE = "SNAPSHOT"


def render_command(results: Results, command: str, *options: object, partitions: Sequence[str] = ()) -> str:
    """`replica-audit command SNAPSHOT partitions… options…` with the snapshot of `results` as it was given, each word quoted.

    Credentials in a URI are left out: a report is passed on. Where a partition's name begins with a dash, options come first.
    """
    place = redact(results.location or UNKNOWN_PLACE)
    # A relative path that begins with a dash would be taken for an option.
    place = f"./{place}" if place.startswith("-") else place
    words = [place, *partitions, *map(str, options)]
    if any(one.startswith("-") for one in partitions):
        words = [*map(str, options), place, "--", *partitions]
    return shlex.join(["replica-audit", command, *words])
