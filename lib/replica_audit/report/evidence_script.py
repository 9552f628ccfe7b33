"""Shell script that collects evidence from given brokers at the same time; it contains the collector."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from replica_audit.report.capture_script import CapturedBroker

#: A line that does not occur in the collector.
_END = "END_OF_COLLECTOR"

_HEAD = """\
#!/usr/bin/env bash
# Evidence for replica-audit, to be read before it is run: it only reads on the brokers and writes below {to}.
# The brokers are read at the same time, each at a limited rate. Needs bash{ssh}; on the brokers python3, and for CRC-32C a library
# or else Java 9, for which a class lies below $TMPDIR as long as it starts (the collector's --no-java forbids that).
# Ends with 1 where something could not be read. With --dry-run it only says how much there is to read.
{{
set -euo pipefail
exec </dev/null
export LC_ALL=C
umask 077
TO={quoted_to}
{check}
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
cat >"$WORK/collect.py" <<'{end}'
{collector}
{end}
{after}
# on HOST COMMAND: runs a command of a shell on a host; HOST - is this machine.
on() {{
  if [ "$1" = - ]; then bash -c "$2"; else ssh -T -o BatchMode=yes "$1" "$2"; fi
}}

# keep BROKER PART: an archive that broke off gets a name; false where nothing goes on from it, and it is removed.
keep() {{
  local by=${{2%.part}}
  # Partitions that were collected again are collected anew.
  if grep -a '"as": "frames"' "$2" | grep -av '"path": "again-' >/dev/null; then
    mv "$2" "$TO/evidence-$1-broken-$(date -u +%Y%m%dT%H%M%SZ)-${{by##*.}}.tar"
  else
    rm -f "$2"
    return 1
  fi
}}

# claim BROKER: false while another collection of it into this directory goes on. One that was killed has none, where there is flock.
claim() {{
  local lock="$TO/.lock-$1"
  if command -v flock >/dev/null; then
    exec 9>"$lock" && flock -n 9 && [ "$lock" -ef /dev/fd/9 ]
  else
    mkdir "$lock"
  fi && trap "rm -rf $(printf %q "$lock")" EXIT
}}

# collect BROKER HOST COMMAND: the archive has its name only once it is whole.
collect() {{
  local status=0 left part="$TO/.$1.$$.part"
  if ! claim "$1"; then
    echo "broker $1: another collection into $TO goes on; if none does, as one was killed, remove $TO/.lock-$1" >&2
    return 4
  fi
  for left in "$TO/.$1".*.part; do
    if [ -e "$left" ] && keep "$1" "$left"; then
      echo "broker $1: a collection was killed; what it left counts as what one that broke off left" >&2
    fi
  done
  touch "$WORK/after-$1"
  cat "$WORK/after-$1" "$WORK/collect.py" >"$WORK/$1.py"
  on "$2" "$3" <"$WORK/$1.py" >"$part" 2>"$WORK/$1.said" 9>&- || status=$?
  sed "s/^/broker $1: /" "$WORK/$1.said" >&2
  # What comes last in it.
  if [ "$status" -le 1 ] && grep -qa '^ "unread": [0-9]' <(tail -c 8192 "$part"); then
    mv "$part" "$TO/evidence-$1{suffix}.tar"
  elif keep "$1" "$part"; then
    echo "broker $1: the collection broke off, exit status $status; capture-plan --after goes on from what there is" >&2
    return 4
  else
    echo "broker $1: no evidence, exit status $status" >&2
    return 4
  fi
  return "$status"
}}

# measure BROKER HOST COMMAND: how much there is to read.
measure() {{
  on "$2" "$3" | awk -v broker="$1" -v rate={rate} '
    {{ files++; bytes += $1 }}
    END {{ printf "broker %s: {at_most}%d segments, %.1f GiB, %.1f hours\\n", broker, files, bytes / 2^30, bytes / 2^20 / rate / 3600 }}'
}}

if [ "${{1:-}}" = --dry-run ]; then
{measures}
  exit 0
fi
mkdir -p "$TO"
running=()
{collects}
failed=0
for one in "${{running[@]}}"; do
  wait "$one" || failed=1
done
"""

_TAIL = """\
{listing}if [ "$failed" = 1 ]; then
  echo "collected into $TO, but not all of it; the audit says what it cannot know without it" >&2
  exit 1
fi
echo "collected into $TO; now: replica-audit show $TO --wanted wanted.json"
exit 0
}}
"""

_NEW = """\
if [ "${1:-}" != --dry-run ] && [ -e "$TO" ] && [ -n "$(ls -A "$TO")" ]; then
  echo "$TO is not empty: give a new directory, so that two captures are not mixed" >&2
  exit 2
fi"""


def render_evidence_script(
    brokers: Sequence[CapturedBroker],
    to: str,
    collector: str,
    options: Sequence[str],
    *,
    rate_mib: float,
    is_less: bool,
    wanted: str | None,
    after: Mapping[int, str] | None,
    bootstrap: str | None,
    user: str | None,
) -> str:
    """Render the script that writes the evidence of `brokers` into the directory `to`, an archive each.

    `collector` is the text of collect.py, `options` its further options, `rate_mib` the rate in them, `is_less` whether only
    some segments are read. With `wanted`, the content of wanted.json, the script collects these bytes only, into a directory
    that already has evidence. With `after`, the collector's input about each broker's earlier evidence, it reads only what that
    lacks. `user` is the account that reads on the brokers, through sudo.
    """
    text = collector if wanted is None else f"WANTED = {wanted!r}\n{collector}"
    if f"\n{_END}\n" in text:
        raise ValueError("the collector ends itself")
    measures = []
    collects = []
    by = ["sudo", "-n", "-u", user] if user else []
    for broker in brokers:
        host = broker.host or "-"
        given = [part for path, name in broker.copies() for part in ("--log-dir", f"{path}={name}")]
        given += ["--broker-id", str(broker.broker_id), *(["--kind", broker.kind] if broker.kind else [])]
        command = shlex.join([*by, "python3", "-I", "-B", "-", *given, *options])
        names = ["(", "-name", "*.log", "-o", "-name", "*.log.deleted", "-o", "-name", "*.log.swap", ")"]
        find = shlex.join([*by, "find", "-L", *broker.log_dirs, "-type", "f", *names, "-printf", "%s\\n"])
        measures.append("  " + shlex.join(["measure", str(broker.broker_id), host, find]))
        collects.append(shlex.join(["collect", str(broker.broker_id), host, command]) + ' & running+=("$!")')
    listing = ""
    if bootstrap and wanted is None:
        describe = f"kafka-topics.sh --bootstrap-server {shlex.quote(bootstrap)} --describe"
        new = '"$TO/.kafka-topics-describe.$$"'
        file = '"$TO/kafka-topics-describe.txt"'
        # A listing that is already there is older, and better than none.
        kept = f"{{ failed=1; rm -f {new}; echo 'no new listing of the topics' >&2; }}"
        listing = f"{{ {describe} >{new} && mv {new} {file}; }} || {kept}\n"
    known = [
        f"cat >\"$WORK/after-{broker_id}\" <<'{_END}'\nAFTER = {text!r}\n{_END}\n"
        for broker_id, text in (after or {}).items()
    ]
    stamp = "$(date -u +%Y%m%dT%H%M%SZ)-$$"
    suffix = "" if wanted is None else f"-wanted-{stamp}"
    if after is not None:
        suffix = f"-after-{stamp}"
    head = _HEAD.format(
        to=to,
        ssh=" and ssh" if any(broker.host for broker in brokers) else "",
        quoted_to=shlex.quote(to),
        check=_NEW if wanted is None and after is None else "",
        end=_END,
        collector=text.rstrip("\n"),
        after="".join(known),
        suffix=suffix,
        rate=f"{rate_mib:g}",
        at_most="at most " if is_less else "",
        measures="\n".join(measures),
        collects="\n".join(collects),
    )
    return head + _TAIL.format(listing=listing)
