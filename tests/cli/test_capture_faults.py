"""The script of `capture-plan` where something goes otherwise than planned: files that vanish, shrink or cannot be read."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest
from tests.support.encoder import Record, encode_batch
from tests.support.snapshots import Replica, make_uuid, write_log_dir

from replica_audit.cli.main import main
from replica_audit.config import Settings
from replica_audit.model import TopicPartition
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.runner.in_process import audit_one
from replica_audit.snapshot.opening import open_snapshot

AT = TopicPartition("orders", 0)
NOBODY = 65534


def plan(capsys, *arguments):
    assert main(["capture-plan", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def run(script, **options):
    return subprocess.run(["bash"], input=script, capture_output=True, text=True, timeout=120, **options)


def log_dir(path: Path, broker_id: int, segments: int = 4) -> Path:
    """A log dir with one partition, whose records lie in `segments` segments of ten offsets."""
    batches = [
        encode_batch(offset, [Record(None, b"%d" % index) for index in range(10)], 0)
        for offset in range(0, 10 * segments, 10)
    ]
    replica = Replica(batches, recovery_point=0, per_segment=1)
    return write_log_dir(path, broker_id, [replica], cluster_id=make_uuid("c"), directory_id=make_uuid(f"d{broker_id}"))


def changing(directory: Path, command: str, *, at: str, after: str = "true") -> dict[str, str]:
    """An environment whose tar does `command` in the log dir before it reads files named like `at`, and `after` when some
    of what it read was written.
    """
    place = directory / "bin"
    place.mkdir()
    tar = place / "tar"
    tar.write_text(f"""#!/bin/bash
[ "$1" = --create ] || exec {shutil.which("tar")} "$@"
list=$(mktemp); cat > $list
if tr '\\0' '\\n' < $list | grep -q '{at}'; then
{command}
{shutil.which("tar")} "$@" < $list | (head -c 1000000; {after}; cat)
exit ${{PIPESTATUS[0]}}
fi
exec {shutil.which("tar")} "$@" < $list
""")
    tar.chmod(0o755)
    return {**os.environ, "PATH": f"{place}:{os.environ['PATH']}"}


def manifest_of(to):
    return json.loads((to / "manifest.json").read_text())


def audited(to):
    return audit_one(str(to), AT, Settings())


@pytest.fixture(scope="module")
def captured(tmp_path_factory):
    """What the script copied of two log dirs, which nobody may change."""
    place, script = tmp_path_factory.mktemp("captured"), io.StringIO()
    own = {number: log_dir(place / f"data {number}", number) for number in (1, 2)}
    with contextlib.redirect_stdout(script):
        assert main(["capture-plan", *map(str, arguments(own, place / "to"))]) == 0
    done = run(script.getvalue())
    assert done.returncode == 0, done.stderr
    return place / "to"


@pytest.fixture
def sources(tmp_path):
    return {number: log_dir(tmp_path / f"data {number}", number) for number in (1, 2)}


def arguments(sources, to):
    return [*(f"{number}={path}" for number, path in sources.items()), "--to", to, "--kind", "live"]


def codes(results):
    return {row["code"] for row in results.rows("findings")}


def test_a_target_that_is_not_empty_is_refused(capsys, tmp_path, sources):
    to = tmp_path / "to"
    to.mkdir()
    (to / "kept").write_text("x")
    done = run(plan(capsys, *arguments(sources, to)))
    assert done.returncode == 2 and "not empty" in done.stderr and [one.name for one in to.iterdir()] == ["kept"]


def test_the_manifest_has_size_and_hash_of_every_file(captured):
    for one in manifest_of(captured)["brokers"]:
        told, place = {file["path"] for file in one["files"]}, captured / one["log_dir"]
        assert told == {str(p.relative_to(place)) for p in place.rglob("*") if p.is_file()}
        assert one["incomplete"] == []
    assert audited(captured).audit["verdict"] == "CONSISTENT"


@pytest.mark.parametrize("name", ["00000000000000000010.log", "leader-epoch-checkpoint"])
@pytest.mark.parametrize("change", ["one byte", "shorter", "gone"])
def test_a_file_that_changed_since_is_not_read(captured, tmp_path, name, change):
    to = shutil.copytree(captured, tmp_path / "to")
    file = to / "broker-2" / "orders-0" / name
    data = file.read_bytes()
    if change == "gone":
        file.unlink()
    else:
        file.write_bytes(data[:-1] + (b"" if change == "shorter" else bytes([data[-1] ^ 1])))
    found = audited(to)
    assert "CAP-UNREADABLE" in codes(found) and found.audit["verdict"] == "INCONCLUSIVE"
    (message,) = [row["message"] for row in found.rows("findings") if row["code"] == "CAP-UNREADABLE"]
    assert "broker 2" in message
    (reason,) = [row["reason"] for row in found.rows("quarantine") if row["path"] == f"broker-2/orders-0/{name}"]
    assert "manifest.json" in reason


def test_indexes_may_be_left_out_later(captured, tmp_path):
    to = shutil.copytree(captured, tmp_path / "to")
    for file in to.rglob("*index"):
        file.unlink()
    assert audited(to).audit["verdict"] == "CONSISTENT"


def piped_over_ssh(directory: Path) -> dict[str, str]:
    """An ssh that reads its standard input to the end unless told not to, and runs the command here by a plain sh."""
    place = directory / "bin"
    place.mkdir()
    ssh = place / "ssh"
    ssh.write_text(
        '#!/bin/sh\nif [ "$1" = -n ]; then shift; exec </dev/null; fi\ncat >/dev/null\nshift; exec sh -c "$*"\n'
    )
    ssh.chmod(0o755)
    return {**os.environ, "PATH": f"{place}:{os.environ['PATH']}"}


def test_piped_into_bash_every_broker_is_copied_over_ssh(capsys, tmp_path):
    place = tmp_path / "it's a disk"
    sources = {number: log_dir(place / str(number), number) for number in (1, 2)}
    to = tmp_path / "to"
    script = plan(capsys, *(f"{number}@host={path}" for number, path in sources.items()), "--to", to)
    done = run(script, env=piped_over_ssh(tmp_path))
    assert done.returncode == 0, done.stderr
    assert len(manifest_of(to)["brokers"]) == 2 and audited(to).audit["verdict"] == "CONSISTENT"


def test_a_script_that_is_cut_short_does_nothing(capsys, tmp_path, sources):
    to = tmp_path / "to"
    script = plan(capsys, *arguments(sources, to))
    assert run(script[: len(script) // 2]).returncode != 0 and not to.exists()
    assert run(script.rstrip().removesuffix("}")).returncode != 0 and not to.exists()


@pytest.mark.parametrize("gone", [1, 2])
@pytest.mark.parametrize("at", ["[.]index", "[.]log"])
def test_segments_that_retention_deletes_meanwhile_are_no_longer_part_of_the_log(capsys, tmp_path, sources, gone, at):
    """As a broker does: files are renamed first, the oldest segments go first, and a new one is begun."""
    to = tmp_path / "to"
    renamed = " ".join(
        f"for f in orders-0/{10 * index:020}.*; do case $f in *.deleted) ;; *) mv $f $f.deleted;; esac; done;"
        for index in range(gone)
    )
    done = run(plan(capsys, *arguments(sources, to)), env=changing(tmp_path, renamed, at=at))
    assert done.returncode == 0, done.stderr
    found = audited(to)
    assert found.audit["verdict"] == "CONSISTENT" and not codes(found) & {
        "CAP-MISSING-SEGMENT",
        "CAP-UNREADABLE",
        "LOG-GAP",
    }
    assert {row["log_start_offset"] for row in found.rows("replicas")} == {10 * gone}


def test_a_segment_that_retention_deletes_while_older_ones_are_read(capsys, tmp_path, sources):
    """The oldest was read already when all but the newest two go: what was copied of them is put aside."""
    to = tmp_path / "to"
    script = plan(capsys, *arguments(sources, to))
    deleted = "rm -f orders-0/000000000000000000[01]0.log"
    done = run(script, env=changing(tmp_path, deleted, at="0010[.]log"))
    assert done.returncode == 0, done.stderr
    assert audited(to).audit["verdict"] == "CONSISTENT"
    assert list((to / "broker-1" / "orders-0").glob("*.index.deleted"))


@pytest.mark.parametrize("at", ["[.]index", "[.]log"])
def test_a_replica_that_is_emptied_meanwhile_is_copied_again(capsys, tmp_path, sources, at):
    """As a follower of a tiered topic begins anew: every file is renamed, and an empty segment begins further up (J9)."""
    to = tmp_path / "to"
    emptied = (
        "[ -e orders-0/00000000000000000040.log ] || { for f in orders-0/0*; do mv $f $f.deleted; done; "
        "for kind in log index timeindex; do : > orders-0/00000000000000000040.$kind; done; };"
    )
    done = run(plan(capsys, "2=" + str(sources[2]), "--to", to), env=changing(tmp_path, emptied, at=at))
    assert done.returncode == 0, done.stderr
    assert (to / "broker-2" / "orders-0" / "00000000000000000040.log").exists()
    found = audited(to)
    assert "CAP-MISSING-SEGMENT" not in codes(found)
    (row,) = [row for row in found.rows("replicas") if row["role"] != "deleted_segments"]
    assert (row["log_start_offset"], row["log_end_offset"]) == (40, 40)


def test_segments_that_compaction_replaces_are_copied_again(capsys, tmp_path, sources):
    to = tmp_path / "to"
    # Two segments become one: the first is replaced, the second vanishes.
    merged = (
        "cd orders-0; [ ! -e 00000000000000000020.log ] || { cat 00000000000000000010.log 00000000000000000020.log > m; "
        "mv m 00000000000000000010.log; rm 00000000000000000020.*; }; cd .."
    )
    done = run(plan(capsys, *arguments(sources, to)), env=changing(tmp_path, merged, at="0020[.]log"))
    assert done.returncode == 0, done.stderr
    found = audited(to)
    assert found.audit["verdict"] == "CONSISTENT" and "CAP-MISSING-SEGMENT" not in codes(found)


def test_the_newest_segment_is_copied_again_where_compaction_replaces_it(capsys, tmp_path, sources):
    """Listed while it was active; then a newer one began, and a cleaner removed its record for a later one there."""
    to = tmp_path / "to"
    rolled = (
        "cd orders-0; [ -e 00000000000000000040.log ] || { tail -c 78 00000000000000000030.log > 00000000000000000040.log; "
        "touch m; mv m 00000000000000000030.log; }; cd .."
    )
    done = run(plan(capsys, "2=" + str(sources[2]), "--to", to), env=changing(tmp_path, rolled, at="0030[.]log"))
    assert done.returncode == 0, done.stderr
    assert (to / "broker-2" / "orders-0" / "00000000000000000040.log").exists()


def test_a_log_that_is_cut_while_it_is_copied_is_copied_again(capsys, tmp_path, sources):
    to = tmp_path / "to"
    # A tail that does not fit into the pipe keeps tar waiting while the file is cut.
    for path in sources.values():
        with open(path / "orders-0" / "00000000000000000030.log", "ab") as file:
            file.truncate(1 << 23)
    cut = "truncate -s 50 orders-0/00000000000000000030.log"
    done = run(plan(capsys, *arguments(sources, to)), env=changing(tmp_path, "true", at="0030[.]log", after=cut))
    assert done.returncode == 0, done.stderr
    for number in sources:
        assert (to / f"broker-{number}" / "orders-0" / "00000000000000000030.log").stat().st_size == 50


def test_a_directory_that_vanishes_makes_the_copy_incomplete(capsys, tmp_path, sources):
    to = tmp_path / "to"
    moved = "[ ! -e orders-0 ] || case $PWD in *2) mv orders-0 orders-0.0123456789abcdef0123456789abcdef-delete;; esac"
    done = run(plan(capsys, *arguments(sources, to)), env=changing(tmp_path, moved, at="[.]log"))
    assert done.returncode == 1 and "broker 2: orders-0" in done.stderr
    assert [one["incomplete"] == [] for one in manifest_of(to)["brokers"]] == [True, False]
    assert audited(to).audit["verdict"] == "INCONCLUSIVE"


@pytest.mark.parametrize("what", ["file", "directory"])
def test_what_cannot_be_read_makes_the_copy_incomplete(capsys, what):
    """Run by a user who may not read everything; all else is copied."""
    top = Path(tempfile.mkdtemp(prefix="replica-audit-"))
    try:
        sources = {number: log_dir(top / f"data{number}", number) for number in (1, 2)}
        kept = sources[2] / "orders-0"
        (kept / "00000000000000000010.log" if what == "file" else kept).chmod(0)
        top.chmod(0o777)
        to = top / "to"
        done = run(plan(capsys, *arguments(sources, to)), **as_nobody(), cwd="/")
        assert done.returncode == 1 and "incomplete: broker 2: orders-0" in done.stderr
        assert "broker 1" not in done.stderr
        (told,) = manifest_of(to)["brokers"][1]["incomplete"]
        assert told["path"] == ("orders-0/00000000000000000010.log" if what == "file" else "orders-0")
        found = audited(to)
        assert found.audit["verdict"] == "INCONCLUSIVE"
        assert any(
            row["code"] == "CAP-UNREADABLE" and row["broker_id"] == 2 and "incomplete" in str(found.rows("quarantine"))
            for row in found.rows("findings")
        )
    finally:
        (top / "data2" / "orders-0").chmod(0o700)
        shutil.rmtree(top)


#: Names of files that somebody left in a log dir; no file of Kafka has such a name.
STRANGE_NAMES = [
    'we"ird',
    "back\\slash",
    "a\x01control",
    "a\ttab",
    "two\nlines",
    "colon: it",
    b"latin\xe9".decode("utf-8", "surrogateescape"),
]


@pytest.mark.parametrize("name", STRANGE_NAMES)
@pytest.mark.parametrize("is_readable", [True, False])
def test_files_of_any_name_cost_the_manifest_nothing(capsys, name, is_readable):
    top = Path(tempfile.mkdtemp(prefix="replica-audit-"))
    try:
        sources = {number: log_dir(top / f"data{number}", number) for number in (1, 2)}
        strange = sources[2] / name
        strange.write_bytes(b"x")
        strange.chmod(0o644 if is_readable else 0)
        top.chmod(0o777)
        to = top / "to"
        done = run(plan(capsys, *arguments(sources, to)), **as_nobody(), cwd="/", errors="replace")
        assert done.returncode == (0 if is_readable else 1), done.stderr
        one, two = manifest_of(to)["brokers"]
        assert bool(two["incomplete"]) != is_readable and not one["incomplete"]
        assert {file["path"] for file in one["files"]} <= {file["path"] for file in two["files"]}
        row = audited(to).rows("partitions")[0]
        assert row["verdict"] == "CONSISTENT", "it is no file of the partition"
    finally:
        shutil.rmtree(top)


def as_nobody():
    """Options of a process that may not read everything."""
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


@pytest.mark.parametrize(
    ("host", "answer", "why"),
    [
        (None, None, "cannot be read by who runs this: run it as the user of the broker, or as root"),
        ("kafka2", "cd: /data: Permission denied >&2; exit 3", "cannot be read by who runs this"),
        ("kafka2", "admin@kafka2: Permission denied '(publickey)' >&2; exit 255", "kafka2 cannot be reached"),
        (
            "kafka2",
            "cd: /data: Input/output error >&2; exit 3",
            "cannot be read; where its disk has failed, leave it out",
        ),
    ],
)
def test_a_log_dir_is_not_called_failed_where_only_rights_are_missing(
    host, answer, why, capsys, tmp_path_factory, sources
):
    """Left out, its replicas were missing."""
    top = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        closed = top / "closed"
        shutil.copytree(sources[2], closed)
        (top / "bin").mkdir()
        ssh = top / "bin" / "ssh"
        ssh.write_text(f"#!/bin/sh\necho {answer}\n")
        ssh.chmod(0o755)
        top.chmod(0o777)
        # It may be entered, and not listed.
        closed.chmod(0o711 if os.geteuid() == 0 else 0o311)
        there = f"2@{host}={closed}" if host else f"2={closed}"
        environment = {**os.environ, "PATH": f"{top / 'bin'}:{os.environ['PATH']}"}
        done = run(plan(capsys, there, "--to", top / "to"), env=environment, cwd="/", **as_nobody())
        assert done.returncode == 3 and why in done.stderr, done.stderr
        assert ("failed" in done.stderr) == ("failed" in why) and not (top / "to").exists()
    finally:
        shutil.rmtree(top)


def test_a_copy_that_breaks_off_is_not_taken_for_a_whole_one(capsys, tmp_path, sources):
    to = tmp_path / "to"
    broken = "case $PWD in *2) exit 255;; esac"
    done = run(plan(capsys, *arguments(sources, to)), env=changing(tmp_path, broken, at="[.]log"))
    assert done.returncode == 1 and "broker 2" in done.stderr and "broker 1" not in done.stderr
    assert audited(to).audit["verdict"] == "INCONCLUSIVE"
    _, inventory = open_snapshot(str(to), (), None)
    assert {one.broker_id for one in inventory.replicas} == {1, 2}


def test_a_listing_that_cannot_be_taken_does_not_cost_the_manifest(capsys, tmp_path, sources):
    to = tmp_path / "to"
    done = run(plan(capsys, *arguments(sources, to), "--bootstrap-server", "nowhere:1"), env=no_kafka(tmp_path))
    assert done.returncode == 1 and "no listing" in done.stderr
    assert manifest_of(to)["brokers"] and not (to / "kafka-topics-describe.txt").exists()


def no_kafka(directory):
    place = directory / "bin"
    place.mkdir()
    (place / "kafka-topics.sh").write_text("#!/bin/sh\nexit 1\n")
    (place / "kafka-topics.sh").chmod(0o755)
    return {**os.environ, "PATH": f"{place}:{os.environ['PATH']}"}


def test_links_to_other_places_are_followed(capsys, tmp_path, sources):
    to = tmp_path / "to"
    shutil.move(sources[1] / "orders-0", tmp_path / "elsewhere")
    (sources[1] / "orders-0").symlink_to(tmp_path / "elsewhere")
    assert run(plan(capsys, *arguments(sources, to))).returncode == 0
    assert (to / "broker-1" / "orders-0" / "00000000000000000000.log").is_file()


def test_indexes_of_remote_storage_have_no_segments_beside_them(capsys, tmp_path, sources):
    to, cached = tmp_path / "to", sources[1] / "remote-log-index-cache"
    cached.mkdir()
    for suffix in ("index", "timeindex"):
        (cached / f"0_{make_uuid('segment')}.{suffix}").write_bytes(bytes(32))
    done = run(plan(capsys, *arguments(sources, to)))
    assert done.returncode == 0, done.stderr
    assert [one["incomplete"] for one in manifest_of(to)["brokers"]] == [[], []]


def test_a_live_cluster_whose_retention_is_faster_than_the_copy_is_ok(capsys, tmp_path):
    """Segments are begun and deleted all the time; each broker is copied in a later state than the one before."""
    sources = {number: log_dir(tmp_path / str(number), number, segments=6) for number in (1, 2, 3)}
    script = plan(capsys, *arguments(sources, tmp_path / "to"))
    done = threading.Event()

    def live() -> None:
        for first in range(0, 100_000, 10):
            if done.wait(0.1):
                return
            batch = encode_batch(first + 60, [Record(None, b"%d" % index) for index in range(10)], 0)
            for path in sources.values():
                begun = path / "orders-0" / f"{first + 60:020}"
                for suffix, data in ((".index", b""), (".timeindex", b""), (".log", batch)):
                    begun.with_suffix(suffix).write_bytes(data)
                for suffix in (".index", ".timeindex", ".log"):
                    old = path / "orders-0" / f"{first:020}{suffix}"
                    old.rename(f"{old}.deleted")

    cluster = threading.Thread(target=live)
    cluster.start()
    try:
        copied = run(script, env=changing(tmp_path, "sleep 0.4", at="orders"))
    finally:
        done.set()
        cluster.join()
    assert copied.returncode == 0, copied.stderr
    (tmp_path / "to" / "kafka-topics-describe.txt").write_text(
        "Topic: orders\tPartitionCount: 1\tReplicationFactor: 3\tConfigs:\n"
        "\tTopic: orders\tPartition: 0\tLeader: 3\tReplicas: 1,2,3\tIsr: 1,2,3\n"
    )
    found = audited(tmp_path / "to")
    assert build_verdict(found, "high")["status"] == "OK"
    # What was put aside may be a row of its own.
    rows = found.rows("replicas")
    starts = [max(row["log_start_offset"] for row in rows if row["broker_id"] == number) for number in sources]
    assert starts == sorted(set(starts)) and starts[0] > 0
