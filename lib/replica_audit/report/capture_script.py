"""Shell script that captures given brokers in the order in which a later copy never weakens a proof."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from replica_audit.literals import CaptureKind

#: Order of files within a log dir (docs/semantics.md C.2): title, reason, and the arguments of `find`.
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

#: Where an earlier try left the target, the script ends at its beginning, or renames it once it has reached all log dirs.
_REFUSE = """\
if [ -e "$TO" ] && [ -n "$(ls -A "$TO")" ]; then
  echo "$TO is not empty: give a new directory, so that two captures are not mixed" >&2
  exit 2
fi
"""
_MOVE_ASIDE = '[ ! -e "$TO" ] || mv -T "$TO" "${TO%/}-until-$(date -u +%Y%m%dT%H%M%SZ)"'

#: Commands after a step that copies segments: `settle` handles those that vanished; its second argument selects the files of a
#: partition that is copied again.
_THEN = {
    "segments": "\n  settle '*-*' '-not -name leader-epoch-checkpoint'",
    "metadata": "\n  settle __cluster_metadata-0 ''",
}

_HEAD = """\
#!/usr/bin/env bash
# Capture for replica-audit, to be read before it is run: it only reads on the brokers and writes below {to}.
# Those that follow should go first, the broker that leads most last, as --describe orders them. Needs bash, GNU tar and find{ssh}.
# Ends with 1 where a copy is incomplete, and manifest.json says which one.
{{
set -euo pipefail
exec </dev/null
export LC_ALL=C
TO={quoted_to}
{check}WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
partial=0

quote() {{
  local apostrophe="'" quoted="'\\\\''"
  local text=${{1//$apostrophe/$quoted}}
  printf "'%s'" "$text"
}}

# on HOST DIR COMMAND: runs the command in a directory of a host; HOST - is this machine.
on() {{
  if [ "$1" = - ]; then (set +eu; cd "$2" || exit 3; eval "$3")
  else ssh -n "$1" "env LC_ALL=C bash -o pipefail -c $(quote "cd $(quote "$2") || exit 3; $3")"; fi
}}

# reach BROKER HOST DIR KIND: stops before anything is copied where a log dir cannot be read, or its broker runs though KIND says
# that it is down, or where its copy would lie in it, or it in what is moved aside.
reach() {{
  local status=0 why
  on "$2" "$3" 'ls >/dev/null' 2>"$WORK/said" || status=$?
  if [ "$status" != 0 ]; then
    cat "$WORK/said" >&2
    case "$status $(cat "$WORK/said")" in
      255\\ *) why="$2 cannot be reached" ;;
      *"Permission denied"*) why="$3 cannot be read by who runs this: run it as the user of the broker, or as root" ;;
      *) why="$3 cannot be read; where its disk has failed, leave it out" ;;
    esac
    echo "broker $1: $why" >&2
    exit 3
  fi
  if is_down "$4" && runs "$2" "$3"; then
    echo "broker $1 runs, for $3/.lock is held, but --kind says that it is $4: give the kind that holds now" >&2
    exit 3
  fi
  [ "$2" = - ] || return 0
  local from to
  from=$(realpath "$3")
  to=$(realpath -m "$TO")
  [[ $from/ == "${{to%/}}"/* || $to/ == "${{from%/}}"/* ]] || return 0
  echo "broker $1: one of $3 and $TO lies in the other: give another directory with --to" >&2
  exit 3
}}
is_down() {{ [ "$1" = stopped ] || [ "$1" = killed ]; }}

# note PATH REASON: the copy of this log dir is incomplete in PATH.
note() {{ printf '%s\\t%s\\n' "$1" "$2" >>"$WORK/incomplete"; }}

# copy FIND...: the files of the log dir that FIND selects, in the order of their names.
copy() {{
  local list="find -L . -ignore_readdir_race $1 -print0 | sort -z"
  local archive="tar --create --null --no-recursion --dereference --ignore-failed-read --warning=no-file-changed"
  # Status 1 of tar: a file changed, shrank or vanished; what it says of each is looked at below.
  on "$host" "$from" "$list | $archive --files-from=- || [ \\$? -eq 1 ]" 2>"$WORK/said" \\
    | tar --extract --preserve-permissions --directory="$TO/$name" \\
    || note . "the copy broke off"
  local line path
  while IFS= read -r line; do
    path=${{line#*: }}
    path=${{path%%: *}}
    path=${{path#"'"}}
    path=${{path%"'"}}
    case $line in
      *"tar: ./"*": No such file or directory" | *"tar: ./"*": File removed before we read it") gone "${{path#./}}" ;;
      *"tar: ./"*".log: File shrank by "*) again+=("${{path#./}}") ;;
      *"tar: ./"*": File shrank by "*) ;;
      *"tar: ./"* | *"find: "*) echo "$line" >&2; note "${{path#./}}" "could not be read" ;;
      *"tar: Exiting with failure status"*) ;;
      *) echo "$line" >&2 ;;
    esac
  done <"$WORK/said"
}}

# copy_segments FIND...: copies files with segments among them, and has those that were replaced meanwhile copied again.
copy_segments() {{
  local path
  inodes "$1" >"$WORK/segments"
  copy "$1"
  [ -s "$WORK/segments" ] || return 0
  while IFS= read -r path; do again+=("$path"); done < <(inodes "$1" \
    | awk -F '\\t' 'NR == FNR {{ inode[$2] = $1; next }} $2 in inode && inode[$2] != $1 {{ print $2 }}' "$WORK/segments" -)
}}

# inodes FIND: inode and path of each segment that FIND selects; the copy reports what cannot be read. A cleaner puts another file
# in place of a segment, even of the newest that was listed: it may lack records for later ones, in segments that were not listed.
inodes() {{ on "$host" "$from" "find -L . -ignore_readdir_race $1 -name \\*.log -printf '%i\\t%P\\n'" 2>"$WORK/unread" || true; }}

# gone PATH: a file vanished before it was read; of anything but a segment nothing is missed.
gone() {{ case $1 in *.log) vanished+=("$1") ;; esac; }}

# settle PARTITIONS FIND: what vanished under retention is put aside, as Kafka does with a segment that it is about to
# delete; a partition whose files changed otherwise (compaction, truncation), or of which none is left, is copied again.
settle() {{
  local try file partition segment partitions
  for try in 1 2 3 last; do
    for file in "$TO/$name"/$1/*.index "$TO/$name"/$1/*.timeindex; do
      # What the broker keeps of remote storage's indexes has no segments beside it.
      case $file in */remote-log-index-cache/*) continue ;; esac
      [ ! -e "$file" ] || [ -e "${{file%.*}}.log" ] || vanished+=("${{file#"$TO/$name/"}}")
    done
    for file in ${{vanished[@]+"${{vanished[@]}}"}}; do
      partition=${{file%%/*}}
      segment=${{file##*/}}
      segment=${{segment%%.*}}
      if grep -q "^$partition/$segment[.]log"$'\\t' "$WORK/incomplete"; then
        : # it is there and cannot be read, which is noted
      elif ! on "$host" "$from/$partition" ls >"$WORK/left"; then
        note "$partition" "its directory vanished while it was copied"
      elif begins_after "$segment"; then
        put_aside "$TO/$name/$partition" "$segment"
        # All of it went, and what the log begins with now was not listed: a replica was emptied, or retention took the rest.
        has_segment "$TO/$name/$partition" || again+=("$file")
      else
        again+=("$file")
      fi
    done
    vanished=()
    [ "${{#again[@]}}" -gt 0 ] || return 0
    [ "$try" != last ] || break
    partitions=$(printf '%s\n' "${{again[@]%%/*}}" | sort -u)
    again=()
    for partition in $partitions; do
      rm -rf "${{TO:?}}/$name/$partition"
      copy_segments "-mindepth 2 -type f -path ./$partition/\\* $2"
    done
  done
  for file in "${{again[@]}}"; do note "$file" "changed each time it was copied"; done
  again=()
}}

# begins_after SEGMENT: the oldest segment that is left in the partition is newer.
begins_after() {{
  local oldest
  oldest=$(grep -E '^[0-9]{{20}}[.]log$' "$WORK/left" | sort | head -n 1)
  [ -n "$oldest" ] && [[ $oldest > $1.log ]]
}}

# has_segment DIR: a segment of the log is left in this directory of the copy.
has_segment() {{
  local file
  for file in "$1"/*.log; do [ ! -e "$file" ] || return 0; done
  return 1
}}

# put_aside DIR SEGMENT: the files of this segment and of all before it are no longer part of the log.
put_aside() {{
  local file base
  for file in "$1"/[0-9]*; do
    base=${{file##*/}}
    [[ $file == *.deleted || ${{base%%.*}} > $2 ]] || mv "$file" "$file.deleted"
  done
}}
now() {{ date -u +%Y-%m-%dT%H:%M:%S.%3NZ; }}

# runs HOST DIR: a process holds the lock that a broker takes on its log dir, so the broker runs. That none is seen proves nothing:
# the broker may be in a container, or the disk mounted elsewhere. Inodes of other devices have the same numbers.
runs() {{
  local number='$(($1 >> 8 & 4095)) $(($1 & 255 | $1 >> 12 & 1048320)) $2'
  local lock="set -- \\$(stat -L -c '%d %i' .lock) && [ \\$# = 2 ] && printf ' %02x:%02x:%d ' $number"
  on "$1" "$2" "lock=\\$($lock) && grep -q \\"\\$lock\\" /proc/locks" 2>/dev/null
}}

# copied_files: each file of the copy with its size and SHA-256, as JSON; names that no file of Kafka has are left out.
copied_files() {{
  (cd "$TO/$name" && find . -type f -printf '%s\\t%p\\n' && find . -type f -print0 | sort -z | xargs -0 -r sha256sum) \\
    | awk -F '\\t' 'NF == 2 {{ size[$2] = $1; next }}
        /^[0-9a-f]+  / {{
          path = substr($0, 67); if (!(path in size)) next
          told = substr(path, 3); if (told ~ /[^ -~]/) next; gsub(/["\\\\]/, "\\\\\\\\&", told)
          printf "%s\\n  {{\\"path\\": \\"%s\\", \\"size_bytes\\": %s, \\"sha256\\": \\"%s\\"}}", comma, told, size[path], substr($0, 1, 64)
          comma = "," }}'
}}

# copy_log_dir BROKER HOST DIR NAME KIND: one log dir, in the order in which nothing is proven too much. Without a kind the broker ran
# only if it is seen to run before the copy and after it.
copy_log_dir() {{
  local broker=$1 host=$2 from=$3 name=$4 said=$5 started finished files missing vanished=() again=()
  local kind=null
  started=$(now)
  if [ -n "$said" ]; then kind="\\"$said\\""
  elif runs "$host" "$from"; then kind='"live"'; fi
  mkdir -p "$TO/$name"
  : >"$WORK/incomplete"
{steps}
  finished=$(now)
  if [ -z "$said" ]; then
    runs "$host" "$from" || kind=null
    [ "$kind" != null ] || echo "broker $broker, $from: not seen to run while it was copied. If it was down, give its kind in" \\
      'manifest.json: "stopped" or "killed", or "image" for an image of its disk that was made while it ran' >>"$WORK/unsure"
  elif is_down "$said" && runs "$host" "$from"; then
    kind=null
    quiesced=null
    echo "broker $broker, $from: it was started while it was copied, so manifest.json has no kind of it" >>"$WORK/unsure"
  fi
  files=$(copied_files)
  missing=
  if [ -s "$WORK/incomplete" ]; then
    partial=1
    missing=$(sort -u "$WORK/incomplete" \\
      | sed 's/[^\\t -~]/?/g; s/["\\\\]/\\\\&/g; s|\\(.*\\)\\t\\(.*\\)|{{"path": "\\1", "reason": "\\2"}}|; $!s|$|,|')
    sort -u "$WORK/incomplete" | sed "s|^|incomplete: broker $broker: |; s|\\t|: |" >>"$WORK/told"
  fi
  {{
    [ ! -s "$WORK/entries" ] || printf ',\\n'
    printf '{{"broker_id": %s, "log_dir": "%s", "started": "%s", "finished": "%s", "kind": %s,' \\
      "$broker" "$name" "$started" "$finished" "$kind"
    printf ' "incomplete": [%s], "files": [%s]}}' "$missing" "$files"
  }} >>"$WORK/entries"
}}
: >"$WORK/entries"
: >"$WORK/told"
: >"$WORK/unsure"
"""

_TAIL = """
# 6. Who leads, after the copies; where the cluster cannot be asked, see leadership.json in docs/capture.md.
{take_listing}
# 7. The times of the copies tell a replica that was copied early from one that lost records.
{{
  printf '{{"schema_version": 1, "quiesced": %s,{version} "brokers": [\\n' "$quiesced"
  cat "$WORK/entries"
  printf '\\n]}}\\n'
}} >"$TO/manifest.json"
cat "$WORK/unsure" >&2
if [ "$partial" = 1 ]; then
  cat "$WORK/told" >&2
  echo "copied to $TO, but not all of it: copy these again; the audit says what it cannot know without them" >&2
  exit 1
fi
echo "copied to $TO; now: replica-audit show $TO"
exit 0
}}
"""


class CapturedBroker(NamedTuple):
    """A broker to capture; without `host` it runs on the machine of the script."""

    broker_id: int
    log_dirs: tuple[str, ...]
    host: str | None = None
    kind: CaptureKind | None = None
    """None where nothing says whether it runs: the script looks."""

    def copies(self) -> list[tuple[str, str]]:
        """Pairs of a log dir and the directory of the snapshot that it is copied to."""
        name = f"broker-{self.broker_id}"
        if len(self.log_dirs) == 1:
            return [(self.log_dirs[0], name)]
        return [(path, f"{name}/disk-{number}") for number, path in enumerate(self.log_dirs, 1)]


def render_capture_script(
    brokers: Sequence[CapturedBroker],
    to: str,
    *,
    kafka_version: str | None,
    bootstrap: str | None,
    moves_aside: bool = False,
) -> str:
    """Render the script that copies `brokers`, in the given order, to the directory `to` and writes manifest.json there.

    With `bootstrap` it also takes a listing of the topics. If all brokers are said to be stopped or killed the snapshot is
    quiesced; otherwise the manifest leaves that unknown. A directory that is not empty is refused, or with `moves_aside` renamed.
    """
    remote = any(broker.host for broker in brokers)
    steps = [
        f"  # {number}. {title}: {why}\n  {'copy_segments' if title in _THEN else 'copy'} {shlex.quote(select)}{_THEN.get(title, '')}"
        for number, (title, why, select) in enumerate(STEPS, 1)
    ]
    ssh = ", and ssh" if remote else ""
    check = "" if moves_aside else _REFUSE
    parts = [_HEAD.format(to=to, quoted_to=shlex.quote(to), ssh=ssh, steps="\n".join(steps), check=check)]
    copies = [
        (str(one.broker_id), one.host or "-", path, name, one.kind or "")
        for one in brokers
        for path, name in one.copies()
    ]
    parts += [shlex.join(("reach", broker_id, host, path, kind)) for broker_id, host, path, _, kind in copies]
    parts += [_MOVE_ASIDE] if moves_aside else []
    parts.append('mkdir -p "$TO"')
    parts.append(f"printf '%s\\n' {shlex.quote(_manifest_of_none(copies))} >\"$TO/manifest.json\"")
    parts.append(f"quiesced={'true' if all(one.kind in ('stopped', 'killed') for one in brokers) else 'null'}")
    parts += [shlex.join(("copy_log_dir", *copy)) for copy in copies]
    command = f"kafka-topics.sh --bootstrap-server {shlex.quote(bootstrap or 'HOST:9092')} --describe"
    listing = '"$TO/kafka-topics-describe.txt"'
    describe = f"{command} >{listing}"
    take_listing = f"#    {describe}"
    if bootstrap:
        failed = 'echo "incomplete: no listing of the topics" >>"$WORK/told"'
        take_listing = f"{describe} || {{ partial=1; rm -f {listing}; {failed}; }}"
    version = f' "kafka_version": "{kafka_version}",' if kafka_version else ""
    return "\n".join(parts) + "\n" + _TAIL.format(take_listing=take_listing, version=version)


def _manifest_of_none(copies: Sequence[tuple[str, str, str, str, str]]) -> str:
    """The manifest until all is copied: if the script is killed, every copy is incomplete."""
    cut = [{"path": ".", "reason": "the copy broke off"}]
    brokers = [{"broker_id": int(one), "log_dir": name, "incomplete": cut} for one, _, _, name, _ in copies]
    return json.dumps({"schema_version": 1, "brokers": brokers})
