"""Copies whose files are there and cannot be read: told as such, compared with nothing, and never a shorter log."""

from __future__ import annotations

import errno
import os
import shutil
import socket
from pathlib import Path

import pytest
from tests.support.report_rows import answers_of
from tests.support.scenario import audit, written
from tests.support.snapshots import Replica

from replica_audit.report.facts.verdict import build_verdict
from replica_audit.snapshot.storage import Snapshot

LOG = written(0, 60, 1)
#: What a log end that is none would be taken for.
FALSE_ALARMS = {
    "HWM-CP-ABOVE-LEO",
    "HWM-RP-ABOVE-LEO",
    "HWM-LOSS",
    "HWM-ABOVE-ISR-PREFIX",
    "REP-ISR-SHORT",
    "REP-LEADER-SHORTER",
    "REP-LAG",
    "EPO-FILE-CORRUPT",
    "EPO-CACHE-MISSING",
    "CHK-MALFORMED",
    "CHK-MISSING",
    "LOG-GAP",
    "DIV-HIDDEN",
    "TRN-FULL",
    "TRN-OVER-TRUNCATE",
}


def three(**first) -> dict[int, Replica]:
    return {
        1: Replica(LOG, per_segment=4, **first),
        2: Replica(LOG, per_segment=4, high_watermark=55),
        3: Replica(LOG, per_segment=4, high_watermark=50),
    }


def directory(path: Path, broker: int) -> Path:
    return path / f"broker-{broker}" / "orders-0"


def deny(monkeypatch, *denied: Path) -> None:
    """Permission denied for these paths, as for anybody but root."""
    real_open, real_scandir = os.open, os.scandir
    names = {str(path) for path in denied}

    def refuse(path):
        if str(path) in names:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    def fake_open(path, *arguments, **options):
        refuse(path)
        return real_open(path, *arguments, **options)

    def fake_scandir(path):
        refuse(path)
        return real_scandir(path)

    monkeypatch.setattr("replica_audit.snapshot.storage.os.open", fake_open)
    monkeypatch.setattr("replica_audit.snapshot.storage.os.scandir", fake_scandir)


def holds(answer, broker: int, code: str, path: Path) -> None:
    """INCONCLUSIVE by a finding of that broker, nothing concluded from its log, status 3, and no path of this machine."""
    assert answer.verdict == "INCONCLUSIVE", answer
    assert answer.found(code, broker), answer
    assert not answer.codes("info") & FALSE_ALARMS, answer
    assert not [row for row in answer.tables["truncations"] if row["broker_id"] == broker]
    assert not [row for row in answer.tables["divergences"] if row["broker_id"] == broker]
    assert answer.tables["partitions"][0]["unread_replicas"] == [broker]
    assert [row["log_end_offset"] for row in answer.tables["replicas"] if row["broker_id"] == broker] == [None]
    assert all(mark["reference_id"] != broker for mark in answer.tables["high_watermarks"])
    assert str(path) not in repr(answer.tables)
    verdict = build_verdict(answers_of({"verdict": answer.verdict}, answer.tables), "never")
    assert verdict["exit_status"] == 3


@pytest.mark.parametrize("broker", (1, 2))
@pytest.mark.parametrize("left", ("epoch file", "indexes", "nothing"))
def test_a_directory_without_a_log_tells_nothing_of_its_end(broker, left, tmp_path):
    def remove():
        for file in directory(tmp_path, broker).iterdir():
            if file.suffix == ".log" or left == "nothing" or (left == "epoch file" and file.name.startswith("0")):
                file.unlink()

    answer = audit(tmp_path, three(), quiesced=True, before_audit=remove)
    holds(answer, broker, "CAP-MISSING-SEGMENT", tmp_path)


def test_no_directory_with_a_log_at_all(tmp_path):
    def remove():
        for file in tmp_path.glob("*/orders-0/*.log"):
            file.unlink()

    answer = audit(tmp_path, three(), before_audit=remove)
    assert answer.verdict == "INCONCLUSIVE" and answer.codes() == {"CAP-MISSING-SEGMENT"}
    assert [row["broker_id"] for row in answer.tables["findings"]] == [1, 2, 3]
    assert answer.tables["high_watermarks"] == [] and answer.tables["partitions"][0]["unread_replicas"] == [1, 2, 3]


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(path.parent)  # the address of a socket has to be short
        server.bind(path.name)
        os.chdir(here)


def _folder(path: Path) -> None:
    path.mkdir()


def _link_out(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def _link_to_nowhere(path: Path) -> None:
    path.symlink_to("nowhere")


def _link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


ODD = (_pipe, _socket, _folder, _link_out, _link_to_nowhere, _link_to_itself)


@pytest.mark.parametrize("make", ODD)
@pytest.mark.parametrize(("broker", "segment"), [(1, 0), (2, 1), (2, -1), (1, -1)])
def test_a_segment_that_is_no_file(make, broker, segment, tmp_path):
    def put():
        file = sorted(directory(tmp_path, broker).glob("*.log"))[segment]
        file.unlink()
        make(file)

    answer = audit(tmp_path, three(), quiesced=True, before_audit=put)
    holds(answer, broker, "CAP-UNREADABLE", tmp_path)


@pytest.mark.parametrize(("broker", "segment"), [(1, 0), (2, 1), (3, -1)])
def test_a_segment_without_permission(broker, segment, tmp_path, monkeypatch):
    def forbid():
        deny(monkeypatch, sorted(directory(tmp_path, broker).glob("*.log"))[segment])

    answer = audit(tmp_path, three(), quiesced=True, before_audit=forbid)
    holds(answer, broker, "CAP-UNREADABLE", tmp_path)
    reasons = [row["reason"] for row in answer.tables["quarantine"]]
    assert len(reasons) == 1 and "Permission denied" in reasons[0], reasons
    assert not answer.codes("info") & {"CAP-MISSING-SEGMENT", "LOG-GAP"}, answer
    [captured] = [row for row in answer.tables["captures"] if row["broker_id"] == broker]
    assert len(captured["missing"]) == 1, captured


@pytest.mark.parametrize("broker", (1, 3))
def test_a_partition_directory_without_permission(broker, tmp_path, monkeypatch):
    answer = audit(tmp_path, three(), before_audit=lambda: deny(monkeypatch, directory(tmp_path, broker)))
    holds(answer, broker, "CAP-UNREADABLE", tmp_path)


def test_a_partition_directory_that_is_a_link_out_of_the_snapshot(tmp_path):
    def lead_out():
        shutil.move(directory(tmp_path / "s", 2), tmp_path / "elsewhere")
        directory(tmp_path / "s", 2).symlink_to(tmp_path / "elsewhere")

    holds(audit(tmp_path / "s", three(), before_audit=lead_out), 2, "CAP-UNREADABLE", tmp_path)


@pytest.mark.parametrize("make", (None, _pipe, _link_out))
@pytest.mark.parametrize(
    "name",
    (
        "orders-0/leader-epoch-checkpoint",
        "orders-0/partition.metadata",
        "replication-offset-checkpoint",
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "cleaner-offset-checkpoint",
    ),
)
def test_a_side_file_that_cannot_be_read(make, name, tmp_path, monkeypatch):
    def spoil():
        file = tmp_path / "broker-2" / name
        if make is None:
            deny(monkeypatch, file)
        else:
            file.unlink()
            make(file)

    answer = audit(tmp_path, three(), quiesced=True, before_audit=spoil)
    assert answer.verdict == "INCONCLUSIVE", answer
    assert len(answer.found("CAP-UNREADABLE")) == 1 == len(answer.found("CAP-UNREADABLE", 2)), answer
    assert not answer.codes("info") & FALSE_ALARMS, answer
    assert "root:" not in repr(answer.tables) and str(tmp_path) not in repr(answer.tables)
    # Its log was read: it is compared, and counts as known.
    assert answer.tables["partitions"][0]["unread_replicas"] == [] and answer.cut(2)["truncate_to"] == 60


def test_an_epoch_file_that_cannot_be_read_leaves_open_who_was_elected(tmp_path, monkeypatch):
    brokers = {1: Replica(LOG[:11]), 2: Replica(LOG)}
    answer = audit(
        tmp_path,
        brokers,
        quiesced=True,
        before_audit=lambda: deny(monkeypatch, directory(tmp_path, 1) / "leader-epoch-checkpoint"),
    )
    assert answer.verdict == "INCONCLUSIVE" and not answer.codes("info") & FALSE_ALARMS, answer


@pytest.mark.parametrize(
    "name", ("meta.properties", "kafka-topics-describe.txt", "manifest.json", "leadership.json", "x.dump.txt", "x.csv")
)
def test_input_of_the_whole_snapshot_that_cannot_be_read_is_told_with_each_partition(name, tmp_path, monkeypatch):
    def spoil():
        file = tmp_path / ("broker-3/" + name if name == "meta.properties" else name)
        if not file.exists():
            file.write_text("{}")
        deny(monkeypatch, file)

    answer = audit(tmp_path, three(), quiesced=True, before_audit=spoil)
    rows = answer.found("CAP-UNREADABLE")
    assert len(rows) == 1 and "Permission denied" in rows[0]["message"] and name in rows[0]["message"], answer
    assert not answer.codes("info") & FALSE_ALARMS and str(tmp_path) not in repr(answer.tables), answer


def test_a_log_dir_without_permission_is_not_a_broker_without_files(tmp_path, monkeypatch):
    answer = audit(tmp_path, three(), before_audit=lambda: deny(monkeypatch, tmp_path / "broker-3"))
    assert [row["broker_id"] for row in answer.found("CAP-UNREADABLE")] == [3], answer
    (missing,) = answer.found("CAP-MISSING-REPLICA")
    assert "no readable files" in missing["message"]
    assert answer.tables["partitions"][0]["unread_replicas"] == [3]


def test_an_assigned_replica_without_files_counts_as_unread(tmp_path):
    answer = audit(tmp_path, three(), replicas=(1, 2, 3, 4))
    assert answer.tables["partitions"][0]["unread_replicas"] == [4]


@pytest.mark.parametrize("broker", (1, 2, 3))
def test_a_directory_of_another_cluster_is_told_and_compared_with_nothing(broker, tmp_path):
    def lend():
        for other in (1, 2, 3):
            meta = tmp_path / f"broker-{other}" / "meta.properties"
            meta.write_text(meta.read_text() + f"cluster.id={'theirs' if other == broker else 'ours'}\n")

    brokers = three()
    brokers[broker] = Replica(written(0, 30, 9, mark="other"))
    answer = audit(tmp_path, brokers, before_audit=lend)
    (row,) = answer.found("META-FOREIGN-DIR")
    assert row["severity"] == "medium" and row["broker_id"] == broker and "theirs" in row["message"]
    assert broker not in {row["broker_id"] for row in answer.tables["replicas"]}
    assert not answer.codes("high"), answer


def test_no_link_is_followed_out_of_the_snapshot_and_nothing_is_waited_for(tmp_path):
    (tmp_path / "s").mkdir()
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "s/out").symlink_to("../secret")
    (tmp_path / "s/in").symlink_to("there")
    (tmp_path / "s/there").write_text("there")
    os.mkfifo(tmp_path / "s/pipe")
    snapshot = Snapshot.open(tmp_path / "s")
    assert snapshot.read_bytes("in") == b"there"
    for name in ("out", "pipe", "absent"):
        with pytest.raises(OSError) as caught:
            snapshot.read_bytes(name)
        assert str(tmp_path) not in str(caught.value)
