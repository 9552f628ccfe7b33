"""Snapshots and warehouses in an object store: ranged reads many at once, commits that lose nothing, no credentials shown.

The store is that of build/s3 (`make test-s3`), on this machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyarrow import fs
from tests.support.audit_json_text import audit_json_text
from tests.support.encoder import encode_batch
from tests.support.known_batches import directories
from tests.support.remote_log import LEADS, copied, with_remote
from tests.support.remote_stores import chunked_path, compressed, plain_path, segment_id
from tests.support.remote_stores import put as put_object
from tests.support.s3_stores import PYTHON, SECRETS
from tests.support.samples import SAMPLES
from tests.support.scenario import written
from tests.support.snapshots import Replica, write_snapshot

from replica_audit.api.salvaged import salvage
from replica_audit.config import Settings
from replica_audit.errors import InputError
from replica_audit.progress import Progress
from replica_audit.runner.executor import InProcess
from replica_audit.runner.in_process import audit_all
from replica_audit.runner.ingest import ingest
from replica_audit.runner.ingested_source import audit
from replica_audit.runner.scanning import scan_task
from replica_audit.runner.task_planning import SegmentWork
from replica_audit.snapshot.opening import open_snapshot
from replica_audit.snapshot.storage import Snapshot
from replica_audit.warehouse.commit_trial import loses_commits
from replica_audit.warehouse.delta_tables import Warehouse

pytestmark = [
    pytest.mark.s3,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not PYTHON.exists(), reason="no S3 server in build/s3: run make test-s3"),
]

_RUN = "import sys; from replica_audit.cli.main import main; sys.exit(main())"
SAMPLE = SAMPLES / "last-replica-standing"


def put(directory: Path, uri: str) -> str:
    """Every file below `directory` as an object below `uri`."""
    filesystem, root = fs.FileSystem.from_uri(uri)
    for file in sorted(directory.rglob("*")):
        if file.is_file():
            with filesystem.open_output_stream(f"{root}/{file.relative_to(directory)}") as stream:
                stream.write(file.read_bytes())
    return uri


def answers(text: str) -> dict:
    content = json.loads(text)
    for name in ("audit_id", "started", "finished"):
        content["audit"].pop(name)
    content["audit"]["inputs"].pop("snapshot", None)
    return content


def test_a_snapshot_in_a_store_has_the_answers_and_the_id_of_the_one_on_a_disk(usual, connect):
    connect(usual)
    uri = put(SAMPLE, "s3://bucket/sample")
    for given in (uri, uri.replace("s3://", "s3a://")):
        found = audit_all(given, Settings())
        assert answers(audit_json_text(found)) == answers(audit_json_text(audit_all(str(SAMPLE), Settings())))


def large(path, batches=40, size=400_000, partitions=3):
    content = [encode_batch(5 * number, 5, 0, mark="x" * (size // 5)) for number in range(batches)]
    replicas = [Replica(content, topic="large", partition=number, topic_id=None) for number in range(partitions)]
    return write_snapshot(path, {1: replicas}, cluster_id="c")


def test_segments_are_read_in_large_pieces_many_at_once_and_every_byte_once(usual, connect, tmp_path):
    connect(usual)
    path = large(tmp_path / "large")
    snapshot, inventory = open_snapshot(put(path, "s3://bucket/large"), (), None)
    before = len(usual.requests())
    works = [SegmentWork(file) for file in inventory.segments]
    places = directories(Warehouse(str(tmp_path / "warehouse")))
    part = scan_task(snapshot, works, places, {"cluster_id": "c", "ingest_id": "1"})
    local, _ = open_snapshot(str(path), (), None)
    assert part.digests == scan_task(local, works, places, {"cluster_id": "c", "ingest_id": "2"}).digests
    reads = [one for one in usual.requests()[before:] if one["range"] and one["path"].endswith(".log")]
    spans = [tuple(map(int, one["range"].removeprefix("bytes=").split("-"))) for one in reads]
    total = sum(file.size_bytes for file in inventory.segments)
    # Beside the pieces, two headers of each file, which the next ingest knows it by.
    assert total <= sum(end - start + 1 for start, end in spans) <= total + 2 * 61 * len(works)
    assert sum(end - start + 1 == 4 << 20 for start, end in spans) >= 9
    assert max(one["at_once"] for one in reads) > 1


def test_an_object_with_the_same_etag_elsewhere_is_not_read_again(usual, connect, tmp_path):
    from tests.support.known_batches import ingest

    connect(usual)
    path = large(tmp_path / "large", size=4000)
    warehouse = Warehouse("s3://bucket/warehouse-of-days")
    first, read, segments = ingest(warehouse, put(path, "s3://bucket/day-1"), "1")
    assert read.known_segments == 0 and all(row["last_change"].startswith('etag "') for row in segments)
    again, read, _ = ingest(warehouse, put(path, "s3://bucket/day-2"), "2")
    assert again == first and read.known_segments == len(segments)
    assert read.read_bytes <= 2 * 61 * len(segments)
    log = sorted(path.rglob("*.log"))[0]
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)
    changed, read, _ = ingest(warehouse, put(path, "s3://bucket/day-3"), "3")
    assert changed != first and read.known_segments == len(segments) - 1


def test_small_files_are_read_many_at_once(usual, connect, tmp_path):
    connect(usual)
    many = [Replica((), ((0, 0),), topic="many", partition=number, topic_id=None) for number in range(60)]
    write_snapshot(tmp_path / "many", {1: many}, cluster_id="c")
    uri, before = put(tmp_path / "many", "s3://bucket/many"), len(usual.requests())
    _, inventory = open_snapshot(uri, (), None)
    assert len(inventory.replicas) == 60 and not inventory.quarantine
    reads = [one for one in usual.requests()[before:] if one["path"].endswith("leader-epoch-checkpoint")]
    assert max(one["at_once"] for one in reads) >= 8
    assert sum(one["method"] == "GET" for one in reads) == 60


def test_directories_read_by_tasks_take_a_listing_each_and_are_read_many_at_once(usual, connect, tmp_path, monkeypatch):
    """Tasks read those of a store as one process does: the same id and answers, and no request more for a replica."""
    from tests.support.spread import Pickling, spread_everything

    connect(usual)
    content = [encode_batch(0, 5, 0, mark="x")]
    many = [
        Replica(content, ((0, 0),), topic="many", partition=number, topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
        for number in range(60)
    ]
    write_snapshot(tmp_path / "many", {1: many, 2: many}, cluster_id="c")
    uri = put(tmp_path / "many", "s3://bucket/spread")
    warehouses = [Warehouse(str(tmp_path / name)) for name in ("one", "other")]
    whole = ingest(InProcess(), warehouses[0], uri, Settings(), Progress())
    spread_everything(monkeypatch, stretch=40, pack=16)
    before, executor = len(usual.requests()), Pickling()
    assert ingest(executor, warehouses[1], uri, Settings(), Progress()) == whole
    assert len(executor.jobs) == 2 and executor.jobs[0].tasks == 3
    asked = usual.requests()[before:]
    small = [one for one in asked if one["path"].endswith(("leader-epoch-checkpoint", "partition.metadata"))]
    assert sum(one["method"] == "GET" for one in small) == 2 * 2 * len(many)
    assert max(one["at_once"] for one in small) >= 8
    # Below a bucket only listings have no path of an object.
    listings = sum(one["method"] == "GET" and "/" not in one["path"].strip("/") for one in asked)
    assert listings <= 2 * len(many) + 20
    found = [audit(InProcess(), one, whole, Settings(), Progress()) for one in warehouses]
    assert answers(audit_json_text(found[0])) == answers(audit_json_text(found[1]))


def test_a_file_that_is_gone_is_told_in_words_without_its_place(usual, connect):
    connect(usual)
    snapshot = Snapshot.open(put(SAMPLE, "s3://bucket/gone"))
    with pytest.raises(OSError, match=r"^broker-9/x\.log: could not be opened") as error:
        snapshot.open_file("broker-9/x.log")
    assert not any(secret in str(error.value) for secret in SECRETS)


def test_a_store_with_conditional_puts_loses_no_commit_and_is_tried_once(usual, connect):
    connect(usual)
    assert loses_commits("s3://bucket/tried") is False
    before = len(usual.requests())
    assert loses_commits("s3a://bucket/tried") is False
    assert not any(one["method"] == "PUT" for one in usual.requests()[before:])
    filesystem, _ = fs.FileSystem.from_uri("s3://bucket")
    left = [info.path for info in filesystem.get_file_info(fs.FileSelector("bucket/tried", recursive=True))]
    assert left == ["bucket/tried/commits.json"]


def test_a_store_that_takes_every_put_is_found_out(ignoring, connect):
    connect(ignoring)
    assert loses_commits("s3://bucket/tried") is True
    assert loses_commits("s3://bucket/tried") is True


def test_a_store_that_refuses_conditional_puts_is_told(refusing, connect):
    connect(refusing)
    with pytest.raises(InputError, match=r"s3://bucket/w: the store takes no commit, .*501 Not Implemented") as error:
        loses_commits("s3://bucket/w")
    assert not any(secret in str(error.value) for secret in SECRETS)


@pytest.mark.spark
def test_a_run_from_a_store_into_a_store_shows_no_credentials(ignoring, tmp_path, connect):
    connect(ignoring)
    uri = put(SAMPLE, "s3://bucket/of-a-run")
    credentials = f"{SECRETS[0]}:{SECRETS[1].replace('/', '%2F').replace('+', '%2B')}@"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REPLICA_AUDIT_")}
    command = [sys.executable, "-c", _RUN, "run", uri.replace("s3://", f"s3://{credentials}")]
    command += ["--no-quality", "--warehouse", "s3://bucket/warehouse"]
    for turn in range(2):
        ran = subprocess.run(
            command,
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert ran.returncode == 1, ran.stderr
        assert "the store of s3://bucket/warehouse has no conditional puts" in ran.stderr
        assert "read 0 B of segments" in ran.stderr or not turn
        written = [ran.stdout, ran.stderr, *(file.read_text() for file in tmp_path.rglob("*") if file.is_file())]
        assert not any(secret in text for secret in SECRETS for text in written)
    filesystem, _ = fs.FileSystem.from_uri("s3://bucket")
    for info in filesystem.get_file_info(fs.FileSelector("bucket/warehouse", recursive=True)):
        if info.type == fs.FileType.File:
            with filesystem.open_input_stream(info.path) as stream:
                content = stream.read()
            assert not any(secret.encode() in content for secret in SECRETS), info.path
    found = json.loads((tmp_path / "replica-audit-report" / "audit.json").read_text())
    expected = json.loads(audit_json_text(audit_all(str(SAMPLE), Settings())))
    assert found["findings"] == expected["findings"] and found["replicas"] == expected["replicas"]


def test_a_remote_store_in_a_bucket_tells_what_its_copy_on_a_disk_does(usual, connect, tmp_path):
    connect(usual)
    spans = [(0, 40, (0, 0)), (40, 60, (0, 40)), (60, 100, (1, 60)), (60, 75, (0, 60))]
    segments = []
    for start, end, epoch in spans:
        data = b"".join(written(start, end, epoch[0]))
        segments.append(copied(start, end, epoch, at=(1000 * end + 1, 1000 * end + 2), size=len(data)))
        name = segment_id(start, end, epoch)
        if end == 75:
            for kind, content in zip(("log", "rsm-manifest"), compressed(data), strict=True):
                put_object(tmp_path / "tier", chunked_path(name, start, kind), content)
        elif start != 40:
            put_object(tmp_path / "tier", plain_path(name, start), data)
    with_remote(tmp_path / "snapshot", LEADS, *segments)
    uri = put(tmp_path / "tier", "s3://bucket/tier")
    told = []
    for number, place in enumerate((uri, str(tmp_path / "tier"))):
        found = audit_all(str(tmp_path / "snapshot"), Settings(topics=("orders",), remote=place, verify_remote=True))
        told.append({(row.code, row.severity, row.start_offset) for row in found.findings})
        salvaged = salvage(str(tmp_path / "snapshot"), str(tmp_path / f"out-{number}"), payloads=True, remote=place)
        assert salvaged.exit_status == 0 and salvaged.manifest.totals.written == 15
    # A copy may have been made while retention deleted: there an older segment that is there proves nothing.
    missing = [{one for one in found if one[0] == "TIER-OBJECT-MISSING"} for found in told]
    assert missing == [{("TIER-OBJECT-MISSING", "high", 40)}, {("TIER-OBJECT-MISSING", "info", 40)}]
    assert told[0] - missing[0] == told[1] - missing[1] >= {("TIER-ORPHAN", "critical", 60)}
