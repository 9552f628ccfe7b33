"""Trees that no broker leaves: odd names, links, sparse and changing files. A row each, in bounded time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support.bounds import check_rows, cpu_seconds
from tests.support.report_rows import tables_of
from tests.support.scenario import audit, written
from tests.support.snapshots import Replica, write_snapshot

from replica_audit.cli.main import main
from replica_audit.config import Settings
from replica_audit.runner.in_process import audit_all
from replica_audit.snapshot.discovery import discover
from replica_audit.snapshot.storage import Snapshot

LOG = written(0, 60, 1)
NAMES = (
    "--help",
    "-",
    "<script>alert(1)<!--",
    "*",
    "[a-z]?",
    "a;rm",
    "x\x1b]0;title\x07\x1b[2J",
    "new\nline",
    "tab\tand\rreturn",
    "é",
    "\u202eright to left",
    "&amp;",
    "'quotes\"",
    "{{7*7}}",
    "$(id)`id`",
    "%s%n",
    "..",
    " ",
    "a" * 200,
)


def test_names_of_any_kind_are_topics_like_others(tmp_path, capsys):
    # Checkpoints cannot hold such names.
    named = [Replica(LOG, high_watermark=None, recovery_point=None, topic_id=None, topic=name) for name in NAMES]
    write_snapshot(tmp_path, {1: named, 2: named})
    (tmp_path / "broker-1" / "\x1b[31mred").write_text("")
    (tmp_path / "\x1b[2Jtopics-describe.txt").write_text("Topic: q\tgarbage\n")
    os.makedirs(os.fsencode(tmp_path) + b"/broker-1/t\xff\xfe-0")
    results = audit_all(str(tmp_path), Settings(topics=()))
    check_rows(tables_of(results), str(tmp_path))
    assert set(NAMES) <= {row["topic"] for row in results.rows("partitions")}
    assert any("\\xff" in row["path"] for row in results.rows("quarantine"))
    for arguments in ([tmp_path], [tmp_path, "\x1b[2J-0"], [tmp_path, "--topic", "\x1b*"], ["\x1b[2J"]):
        assert main(["show", *map(str, arguments), "--fail-on", "never"]) in (0, 2, 3)
        told = capsys.readouterr()
        assert "\x1b" not in told.out + told.err and "Traceback" not in told.err
    for name in ("*", "{{7*7}}", " ", "$(id)`id`"):
        assert main(["show", str(tmp_path), f"{name}-0", "--fail-on", "never"]) in (0, 3), capsys.readouterr()


def test_links_in_a_diamond_are_walked_once(tmp_path):
    for depth in range(40):
        (tmp_path / f"x/d{depth}").mkdir(parents=True)
        for name in "ab":
            (tmp_path / f"x/d{depth}" / name).symlink_to(f"../d{depth + 1}")
    (tmp_path / "x/d40").mkdir()
    with cpu_seconds(1):
        tree = Snapshot.open(tmp_path).list_tree()
    assert len(tree.entries) == 42 and len(tree.problems) == 80 and all(one.is_told_elsewhere for one in tree.problems)


def test_thousands_of_empty_partitions_and_of_nested_log_dirs(tmp_path):
    for number in range(800):
        folder = tmp_path / "broker-1" / f"t{number % 7}-{number}"
        folder.mkdir(parents=True)
        (folder / f"{0:020d}.log").touch()
        nested = tmp_path / "broker-2" / f"n-{number}"
        nested.mkdir(parents=True)
        (nested / "meta.properties").write_text("node.id=2\n")
    (tmp_path / "broker-2/meta.properties").write_text("node.id=2\n")
    with cpu_seconds(4):
        inventory = discover(Snapshot.open(tmp_path))
    assert len(inventory.replicas) == 800 and len(inventory.log_dirs) == 802


@pytest.mark.parametrize("size", (2**31, 2**40))
def test_a_segment_larger_than_kafka_opens_is_told_and_not_read(size, tmp_path):
    def stretch():
        os.truncate(tmp_path / f"broker-2/orders-0/{0:020d}.log", size)

    with cpu_seconds(2):
        answer = audit(tmp_path, {1: Replica(LOG), 2: Replica(LOG)}, before_audit=stretch)
    assert answer.verdict == "INCONCLUSIVE" and answer.found("CAP-UNREADABLE", 2), answer
    assert answer.tables["partitions"][0]["unread_replicas"] == [2]


def test_a_sparse_segment_costs_its_zeros_once(tmp_path):
    def stretch():
        os.truncate(tmp_path / f"broker-2/orders-0/{0:020d}.log", 150 << 20)

    with cpu_seconds(3):
        answer = audit(tmp_path, {1: Replica(LOG), 2: Replica(LOG)}, before_audit=stretch)
    assert answer.codes("info") >= {"LOG-TAIL-ZERO"} and not answer.codes("medium"), answer


def _vanish(path: Path) -> None:
    path.unlink(missing_ok=True)


def _shrink(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(LOG[-1] * 50)


def _turn_into_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("happen", (_vanish, _shrink, _grow, _turn_into_a_pipe))
@pytest.mark.parametrize(
    "name",
    (
        f"orders-0/{0:020d}.log",
        "orders-0/leader-epoch-checkpoint",
        "replication-offset-checkpoint",
        "meta.properties",
        "../kafka-topics-describe.txt",
    ),
)
@pytest.mark.parametrize("reading", (1, 2))
def test_a_file_that_changes_while_the_snapshot_is_read(happen, name, reading, tmp_path, monkeypatch):
    target = (tmp_path / "broker-2" / name).resolve()
    opened = 0
    real_open = Snapshot.open_file

    def open_file(self, path):
        nonlocal opened
        if (tmp_path / path).resolve() == target:
            opened += 1
            if opened == reading:
                happen(target)
        return real_open(self, path)

    monkeypatch.setattr(Snapshot, "open_file", open_file)
    followers = {1: Replica(LOG), 2: Replica(written(0, 50, 1) + written(50, 60, 1, "other"), high_watermark=50)}
    answer = audit(tmp_path, followers)
    check_rows(answer.tables, str(tmp_path))
    assert answer.tables["partitions"][0]["verdict"]
    if reading == 1 and happen in (_vanish, _turn_into_a_pipe):
        paths = [row["path"] for row in answer.tables["quarantine"]]
        assert any(target.name in path for path in paths), answer


def test_no_place_of_this_machine_is_told(tmp_path):
    """Whatever is wrong with the tree, paths are those of the snapshot."""
    (tmp_path / "s").mkdir()
    (tmp_path / "secret").write_text("0\n1\nroot:x:0 0\n")

    def spoil():
        for name in ("leader-epoch-checkpoint", "partition.metadata"):
            (directory := tmp_path / "s/broker-2/orders-0").joinpath(name).unlink()
            directory.joinpath(name).symlink_to(tmp_path / "secret")
        (tmp_path / "s/manifest.json").symlink_to("/etc/passwd")
        (tmp_path / "s/broker-1/up").symlink_to("../..")
        (tmp_path / "s/broker-1/orders-9").symlink_to("/")

    answer = audit(tmp_path / "s", {1: Replica(LOG), 2: Replica(LOG)}, before_audit=spoil)
    check_rows(answer.tables, str(tmp_path), "/etc/passwd", "root:")
    assert {row["code"] for row in answer.tables["quarantine"]} == {"CAP-UNREADABLE"}
