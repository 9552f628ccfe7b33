"""The capture recipe for given brokers as a shell script: what is copied later never proves less."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

#: What a broker did while it was copied (`kind` of manifest.json).
KINDS = ("live", "stopped", "killed")

#: The order of files within a log dir (docs/semantics.md C.2): its name, why, and what `find` is asked for.
STEPS = (
    (
        "checkpoints",
        "the high watermark as written must not be newer than the logs",
        "-maxdepth 1 -type f",
    ),
    (
        "indexes",
        "indexes, producer snapshots and topic ids: hints, no evidence",
        "-mindepth 2 -type f -not -path \\*/__cluster_metadata-0/\\* -not -name \\*.log "
        "-not -name leader-epoch-checkpoint",
    ),
    (
        "segments",
        "oldest first, so that what was appended meanwhile is at the end",
        "-mindepth 2 -type f -not -path \\*/__cluster_metadata-0/\\* -name \\*.log",
    ),
    (
        "epochs",
        "an epoch is in this file before its first record is in the log",
        "-mindepth 2 -type f -not -path \\*/__cluster_metadata-0/\\* -name leader-epoch-checkpoint",
    ),
    (
        "metadata",
        "it must know every epoch that the logs have",
        "-mindepth 2 -type f -path \\*/__cluster_metadata-0/\\*",
    ),
)

_HEAD = """\
#!/usr/bin/env bash
# Capture for replica-audit, to be read before it is run: it only reads on the brokers and writes below {to}.
# Those that follow go first, the broker that leads most last. Needs bash, GNU tar and find{ssh}.
set -euo pipefail
TO={quoted_to}
mkdir -p "$TO"
entries=()

# copy HOST DIR NAME FIND...: the files that FIND selects, in the order of their names; HOST - is this machine.
copy() {{
  local host=$1 from=$2 name=$3 select=$4
  local archive="tar --create --null --no-recursion --ignore-failed-read --warning=no-file-changed --files-from=-"
  local list="find . $select -print0 | LC_ALL=C sort -z"
  local command="cd $(printf %q "$from") || exit 3; $list | $archive || [ \\$? -eq 1 ]"
  mkdir -p "$TO/$name"
  {{
    if [ "$host" = - ]; then bash -o pipefail -c "$command"
    else ssh "$host" "bash -o pipefail -c $(printf %q "$command")"; fi
  }} | tar --extract --preserve-permissions --directory="$TO/$name"
}}
now() {{ date -u +%Y-%m-%dT%H:%M:%S.%3NZ; }}

# copy_log_dir BROKER HOST DIR NAME: one log dir, in the order in which nothing is proven too much.
copy_log_dir() {{
  local broker=$1 host=$2 from=$3 name=$4 started
  started=$(now)
{steps}
  local entry='{{"broker_id": %s, "log_dir": "%s", "started": "%s", "finished": "%s", "kind": "{kind}"}}'
  entries+=("$(printf "$entry" "$broker" "$name" "$started" "$(now)")")
}}
"""

_TAIL = """
# 6. Who leads, after the copies; where the cluster cannot be asked, see leadership.json in docs/capture.md.
#    {describe}
# 7. The times of the copies tell a replica that was copied early from one that lost records.
{{
  printf '{{"schema_version": 1, "quiesced": %s,{version} "brokers": [\\n' {quiesced}
  (IFS=$'\\n'; echo "${{entries[*]}}" | sed '$!s/$/,/')
  printf ']}}\\n'
}} > "$TO/manifest.json"
echo "copied to $TO; now: replica-audit run $TO"
"""


@dataclass(frozen=True, slots=True)
class CapturedBroker:
    """One broker of a capture: `host` None is the machine that the script runs on."""

    broker_id: int
    log_dirs: tuple[str, ...]
    host: str | None = None

    def copies(self) -> list[tuple[str, str]]:
        """Each log dir with the directory of the snapshot that it is copied to."""
        name = f"broker-{self.broker_id}"
        if len(self.log_dirs) == 1:
            return [(self.log_dirs[0], name)]
        return [(path, f"{name}/disk-{number}") for number, path in enumerate(self.log_dirs, 1)]


def render_capture_script(
    brokers: Sequence[CapturedBroker],
    to: str,
    *,
    kind: str = "live",
    kafka_version: str | None = None,
    bootstrap: str | None = None,
) -> str:
    """The script that copies `brokers`, in the order given, to the directory `to` and writes manifest.json there.

    With `bootstrap` it takes the listing of the topics as well. Brokers that were all stopped or killed make a quiesced
    snapshot; of live ones the manifest does not say.
    """
    remote = any(broker.host for broker in brokers)
    steps = [
        f'  # {number}. {title}: {why}\n  copy "$host" "$from" "$name" {shlex.quote(select)}'
        for number, (title, why, select) in enumerate(STEPS, 1)
    ]
    ssh = ", and ssh" if remote else ""
    parts = [_HEAD.format(to=to, quoted_to=shlex.quote(to), ssh=ssh, steps="\n".join(steps), kind=kind)]
    for broker in brokers:
        for path, name in broker.copies():
            parts.append(shlex.join(("copy_log_dir", str(broker.broker_id), broker.host or "-", path, name)))
    command = f"kafka-topics.sh --bootstrap-server {shlex.quote(bootstrap or 'HOST:9092')} --describe"
    describe = f'{command} > "$TO/kafka-topics-describe.txt"'
    tail = _TAIL.format(
        describe=describe,
        version=f' "kafka_version": "{kafka_version}",' if kafka_version else "",
        quiesced="null" if kind == "live" else "true",
    )
    if bootstrap:
        tail = tail.replace(f"#    {describe}", describe)
    return "\n".join(parts) + "\n" + tail
