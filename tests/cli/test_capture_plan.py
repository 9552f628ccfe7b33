"""`capture-plan`: the script that it prints is run, and the audit of the copy is the audit of the original."""

from __future__ import annotations

import fcntl
import json
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.support.archives import read_directory
from tests.support.captures import FIXTURES
from tests.support.report_rows import tables_of

from replica_audit.cli.main import main
from replica_audit.config import Settings
from replica_audit.model import TopicPartition
from replica_audit.runner.in_process import audit_one
from replica_audit.snapshot.manifest import parse_manifest
from replica_audit.snapshot.opening import open_snapshot

SAMPLE = Path(__file__).parents[2] / "data" / "samples" / "isr-minimum"
DESCRIBE = """Topic: t\tPartitionCount: 3\tReplicationFactor: 2\tConfigs:
\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2
\tTopic: t\tPartition: 1\tLeader: 1\tReplicas: 1,2\tIsr: 1,2
\tTopic: t\tPartition: 2\tLeader: 3\tReplicas: 3,2\tIsr: 3,2
"""


def plan(capsys, *arguments):
    status = main(["capture-plan", *arguments])
    out, err = capsys.readouterr()
    assert status == 0, err
    return out


@pytest.mark.parametrize("target", ["snapshot", "a snapshot's place"])
def test_the_script_copies_everything_and_says_when(capsys, tmp_path, target):
    to = tmp_path / target
    (tmp_path / "disk one").mkdir()
    source = tmp_path / "disk one" / "kafka"
    shutil.copytree(FIXTURES / "healthy-running", source, symlinks=True)
    brokers = sorted(source.glob("broker-*"))
    script = plan(capsys, *(f"{path.name[7:]}={path}" for path in brokers), "--to", str(to), "--kafka-version", "4.3.1")
    subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True)
    for path in brokers:
        assert read_directory(to / path.name) == read_directory(path)
    manifest = parse_manifest((to / "manifest.json").read_bytes(), "manifest.json")
    assert (manifest.quiesced, manifest.kafka_version) == (None, "4.3.1")
    assert [(one.broker_id, one.log_dir) for one in manifest.brokers] == [(int(p.name[7:]), p.name) for p in brokers]
    assert all(one.started_ms <= one.finished_ms for one in manifest.brokers)
    assert sorted(one.started_ms for one in manifest.brokers) == [one.started_ms for one in manifest.brokers]


def test_only_a_broker_that_is_seen_to_run_is_said_to_be_live(capsys, tmp_path):
    """A broker that had gone down was declared to be running, and what it had lost not yet to be written."""
    for number in (1, 2):
        shutil.copytree(SAMPLE / f"broker-{number}", tmp_path / f"disk {number}")
        (tmp_path / f"disk {number}" / ".lock").touch()
    script = plan(capsys, *(f"{number}={tmp_path}/disk {number}" for number in (1, 2)), "--to", str(tmp_path / "copy"))
    with (tmp_path / "disk 1" / ".lock").open("r+") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        done = subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True)
    manifest = parse_manifest((tmp_path / "copy" / "manifest.json").read_bytes(), "manifest.json")
    assert [(one.broker_id, one.kind) for one in manifest.brokers] == [(1, "live"), (2, None)]
    assert "broker 2, " in done.stderr and '"stopped" or "killed"' in done.stderr and "broker 1" not in done.stderr


def test_an_inode_of_another_device_with_the_same_number_is_no_lock_of_the_broker(capsys, tmp_path):
    """The disk of a broker that is down, mounted beside one that runs: fresh file systems give files the same numbers."""
    shutil.copytree(SAMPLE / "broker-1", tmp_path / "disk")
    (tmp_path / "disk" / ".lock").touch()
    inode = (tmp_path / "disk" / ".lock").stat().st_ino
    (tmp_path / "locks").write_text(f"1: POSIX  ADVISORY  WRITE 10192 00:00:{inode} 0 EOF\n")
    script = plan(capsys, f"1={tmp_path}/disk", "--to", str(tmp_path / "copy"))
    script = script.replace('/proc/locks"', f'{tmp_path}/locks"')
    assert f"{tmp_path}/locks" in script
    subprocess.run(["bash", "-c", script], check=True, capture_output=True)
    assert parse_manifest((tmp_path / "copy" / "manifest.json").read_bytes(), "manifest.json").brokers[0].kind is None


def test_a_broker_that_runs_is_not_said_to_be_down(capsys, tmp_path):
    """Its supervisor had started it again, and its log been cut; the manifest had it killed and the snapshot at rest."""
    shutil.copytree(SAMPLE / "broker-1", tmp_path / "disk")
    lock = tmp_path / "disk" / ".lock"
    lock.touch()
    script = plan(capsys, f"1={tmp_path}/disk", "--to", str(tmp_path / "copy"), "--kind", "killed")
    with lock.open("r+") as held:
        fcntl.lockf(held, fcntl.LOCK_EX)
        done = subprocess.run(["bash", "-c", script], check=False, capture_output=True, text=True)
    assert done.returncode == 3 and "broker 1 runs" in done.stderr and not (tmp_path / "copy").exists()
    # It starts while it is copied.
    begin = "import fcntl, time; f = open(%r, 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); time.sleep(60)"
    hold = f'python3 -c {shlex.quote(begin % str(lock))} > >(cat >"$WORK/held") & HELD=$!; while [ ! -s "$WORK/held" ]; do sleep 0.1; done'
    script = script.replace("\ncopy_log_dir 1", f"\n{hold}\ncopy_log_dir 1").replace(
        "\nexit 0\n", "\nkill $HELD\nexit 0\n"
    )
    done = subprocess.run(["bash", "-c", script], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    manifest = parse_manifest((tmp_path / "copy" / "manifest.json").read_bytes(), "manifest.json")
    assert (manifest.brokers[0].kind, manifest.quiesced) == (None, None)
    assert "was started while it was copied" in done.stderr


def test_a_log_dir_is_not_moved_aside_nor_copied_into_itself(capsys, tmp_path):
    shutil.copytree(SAMPLE / "broker-1", tmp_path / "kafka" / "data")
    (tmp_path / "link").symlink_to(tmp_path / "kafka")
    for to in ("kafka", "kafka/data", "kafka/data/copy", "link"):
        script = plan(capsys, f"1={tmp_path}/kafka/data", "--to", f"{tmp_path}/{to}", "--move-aside")
        done = subprocess.run(["bash", "-c", script], check=False, capture_output=True, text=True)
        assert done.returncode == 3 and "lies in the other" in done.stderr
    assert read_directory(tmp_path / "kafka" / "data") == read_directory(SAMPLE / "broker-1")
    script = plan(capsys, f"1={tmp_path}/kafka/data", "--to", f"{tmp_path}/kafka/data-copy")
    subprocess.run(["bash", "-c", script], check=True, capture_output=True)


def test_what_a_script_leaves_that_was_killed_is_no_whole_copy(capsys, tmp_path):
    brokers = [f"{number}={SAMPLE / f'broker-{number}'}" for number in (2, 1)]
    script = plan(capsys, *brokers, "--to", str(tmp_path / "copy")).replace("\ncopy_log_dir 1", "\nkill -KILL $$\n")
    assert subprocess.run(["bash", "-c", script], check=False, capture_output=True).returncode == -9
    _, inventory = open_snapshot(str(tmp_path / "copy"), (), None)
    assert inventory.replicas and {one.broker_id for one in inventory.manifest.brokers} == {1, 2}
    audit = audit_one(str(tmp_path / "copy"), TopicPartition("orders", 0), Settings())
    assert {row.verdict for row in audit.partitions} == {"INCONCLUSIVE"}


def test_the_audit_of_the_copy_is_that_of_the_original(capsys, tmp_path):
    brokers = [f"{number}={SAMPLE / f'broker-{number}'}" for number in (2, 3, 4, 1)]
    subprocess.run(
        ["bash", "-c", plan(capsys, *brokers, "--to", str(tmp_path / "copy"))], check=True, capture_output=True
    )
    shutil.copy(SAMPLE / "kafka-topics-describe.txt", tmp_path / "copy")
    original, copy = (
        audit_one(str(path), TopicPartition("orders", 0), Settings()) for path in (SAMPLE, tmp_path / "copy")
    )
    assert tables_of(copy) == tables_of(original)


def test_several_disks_of_one_broker(capsys, tmp_path):
    disks = [tmp_path / name for name in ("one", "two")]
    for disk, partition in zip(disks, ("orders-0", "orders-1"), strict=True):
        shutil.copytree(SAMPLE / "broker-1", disk)
        (disk / "orders-0").rename(disk / partition)
    script = plan(capsys, f"1={disks[0]},{disks[1]}", "--to", str(tmp_path / "copy"), "--kind", "stopped")
    subprocess.run(["bash", "-c", script], check=True, capture_output=True)
    _, inventory = open_snapshot(str(tmp_path / "copy"), (), None)
    assert [(one.broker_id, one.log_dir) for one in inventory.replicas] == [
        (1, "broker-1/disk-1"),
        (1, "broker-1/disk-2"),
    ]
    assert inventory.manifest.quiesced is True and {one.kind for one in inventory.manifest.brokers} == {"stopped"}


@pytest.mark.parametrize(
    ("kinds", "found", "quiesced"),
    [
        ((), [None, None], None),
        (("2=killed",), [None, "killed"], None),
        (("killed", "1=live"), ["live", "killed"], None),
        (("killed", "1=stopped"), ["stopped", "killed"], True),
        (("image",), ["image", "image"], None),
        (("killed", "1=image"), ["image", "killed"], None),
    ],
)
def test_brokers_that_are_down_beside_others(capsys, tmp_path, kinds, found, quiesced):
    brokers = [f"{number}={SAMPLE / f'broker-{number}'}" for number in (1, 2)]
    options = [word for kind in kinds for word in ("--kind", kind)]
    script = plan(capsys, *brokers, "--to", str(tmp_path / "copy"), *options)
    subprocess.run(["bash", "-c", script], check=True, capture_output=True)
    manifest = parse_manifest((tmp_path / "copy" / "manifest.json").read_bytes(), "manifest.json")
    assert ([one.kind for one in manifest.brokers], manifest.quiesced) == (found, quiesced)
    steps = json.loads(plan(capsys, *brokers, *options, "--format", "json"))
    assert [one["kind"] for one in steps["copies"]] == found


def test_what_an_earlier_try_copied_is_refused_or_moved_aside(capsys, tmp_path):
    to = tmp_path / "copy"
    source = [f"1={SAMPLE / 'broker-1'}", "--to", f"{to}/"]
    for options, status in (((), 0), ((), 2), (("--move-aside",), 0)):
        script = plan(capsys, *source, *options)
        assert subprocess.run(["bash", "-c", script], check=False, capture_output=True).returncode == status
        if status == 0:
            (to / "of this try").touch()
    (aside,) = tmp_path.glob("copy-until-*")
    assert (aside / "of this try").exists() and read_directory(aside / "broker-1") == read_directory(to / "broker-1")
    # Nothing is moved where nothing can be copied.
    script = plan(capsys, f"1={tmp_path}/nothing", "--to", str(to), "--move-aside")
    assert subprocess.run(["bash", "-c", script], check=False, capture_output=True).returncode == 3
    assert read_directory(to / "broker-1") == read_directory(SAMPLE / "broker-1")


def test_a_directory_that_is_not_there_stops_the_script(capsys, tmp_path):
    script = plan(capsys, f"1={tmp_path}/nothing", "--to", str(tmp_path / "copy"))
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.returncode != 0 and "nothing" in done.stderr and not (tmp_path / "copy" / "manifest.json").exists()


def test_checkpoints_go_before_segments_and_epochs_after_them(capsys):
    script = plan(capsys, "1=/data")
    places = [
        script.index(f"{number}. {name}")
        for number, name in enumerate(("checkpoints", "indexes", "segments", "epochs", "metadata"), 1)
    ]
    assert places == sorted(places) and places[-1] < script.index("copy_log_dir 1 - /data broker-1")


def test_the_broker_that_leads_most_goes_last(capsys, tmp_path):
    (tmp_path / "listing.txt").write_text(DESCRIBE)
    script = plan(capsys, "1=/d1", "3=/d3", "2@kafka2=/d2", "--describe", str(tmp_path / "listing.txt"))
    order = [line.split()[1] for line in script.splitlines() if line.startswith("copy_log_dir ")]
    assert order == ["2", "3", "1"]
    assert "copy_log_dir 2 kafka2 /d2 broker-2" in script
    script = plan(capsys, "1=/d1", "3=/d3", "2@kafka2=/d2")
    order = [line.split()[1] for line in script.splitlines() if line.startswith("copy_log_dir ")]
    assert order == ["1", "3", "2"], "as they are given"


def test_the_steps_as_json(capsys):
    told = json.loads(plan(capsys, "1=/d1,/d2", "--to", "/backup", "--format", "json"))
    assert [(one["log_dir"], one["to"]) for one in told["copies"]] == [
        ("/d1", "/backup/broker-1/disk-1"),
        ("/d2", "/backup/broker-1/disk-2"),
    ]
    assert [step["name"] for step in told["copies"][0]["steps"]] == [
        "checkpoints",
        "indexes",
        "segments",
        "epochs",
        "metadata",
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("1",),
        ("x=/data",),
        ("1=",),
        ("1=data",),
        ("1=/data,/data",),
        ("1=/data", "1=/more"),
        ("1@-oProxyCommand=/data",),
        ("1=/data", "--describe", "/no/such/file"),
        ("1=/data", "--kind", "asleep"),
        ("1=/data", "--kind", "1=asleep"),
        ("1=/data", "--kind", "one=killed"),
        ("1=/data", "--kind", "2=killed"),
        ("1=/data", "--evidence", "--move-aside"),
        ("1=/data", "--kind", "killed", "--kind", "stopped"),
    ],
)
def test_what_is_no_plan_is_an_error_of_usage(capsys, arguments):
    assert main(["capture-plan", *arguments]) == 2
    assert "replica-audit" in capsys.readouterr().err
