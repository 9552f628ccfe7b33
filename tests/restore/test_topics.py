"""Only some topics of a salvage are restored: the plan names the others, and a later run produces theirs, each once."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.encoder import encode_batch
from tests.support.fake_cluster import FakeCluster
from tests.support.snapshots import Listed, Replica, write_snapshot

from replica_audit.cli.main import main
from replica_audit.errors import UsageError
from replica_audit.restore.restore import RestoreOptions, plan_restore, restore
from replica_audit.restore.salvaged_records import SalvagedRecords

OPTIONS = RestoreOptions()
TOPICS = ("orders", "orders-eu", "stock")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The salvage of five records of each topic."""
    path = tmp_path_factory.mktemp("topics")
    common = encode_batch(0, 10, 0)
    own = [Replica((common, encode_batch(10, 3, 2, mark="leader")), topic=topic, recovery_point=0) for topic in TOPICS]
    lost = [Replica((common, encode_batch(10, 5, 0, mark="lost")), topic=topic, recovery_point=0) for topic in TOPICS]
    write_snapshot(path / "snapshot", {1: own, 2: lost}, [Listed(1, (1, 2), (1,), topic=topic) for topic in TOPICS])
    assert main(["salvage", str(path / "snapshot"), "--to", str(path / "salvaged"), "--payloads", "--quiet"]) == 0
    return path / "salvaged"


def restored(directory: Path, cluster: FakeCluster, *topics: str) -> list[str]:
    records = SalvagedRecords(directory, topics)
    plan = plan_restore(records, cluster, OPTIONS)
    restore(records, plan, cluster, OPTIONS)
    return [note for note in plan.notes if "--topic" in note]


def test_only_topics_that_match_are_restored_and_the_rest_later(directory: Path) -> None:
    cluster = FakeCluster()
    assert restored(directory, cluster, "orders*") == ["Records of stock are left out (--topic)."]
    assert {topic: len(log) for (topic, _), log in cluster.logs.items() if log} == {
        "orders.salvaged": 5,
        "orders-eu.salvaged": 5,
    }
    assert restored(directory, cluster) == []
    assert [len(cluster.logs[f"{topic}.salvaged", 0]) for topic in TOPICS] == [5, 5, 5]


def test_a_file_of_another_topic_need_not_be_as_it_was_written(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "stock-0").mkdir(parents=True)
    (tmp_path / "manifest.json").write_bytes((directory / "manifest.json").read_bytes())
    (tmp_path / "stock-0" / "records.jsonl").write_bytes((directory / "stock-0" / "records.jsonl").read_bytes())
    assert [row.topic for row in SalvagedRecords(tmp_path, ("stock",)).partitions()] == ["stock"]
    with pytest.raises(UsageError, match="records.jsonl: cannot be read"):
        SalvagedRecords(tmp_path)


def test_a_pattern_that_nothing_matches_is_refused(directory: Path) -> None:
    with pytest.raises(UsageError, match="--topic order: .* has records of orders, orders-eu and stock only"):
        SalvagedRecords(directory, ("order",))


def test_the_command_has_the_option(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["restore", str(directory), "--topic", "order", "--bootstrap-servers", "localhost:1"]) == 2
    assert "has records of orders, orders-eu and stock only" in capsys.readouterr().err


def test_what_is_not_checked_or_produced_is_said_where_no_plan_is_printed(
    directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeCluster()
    monkeypatch.setattr("replica_audit.cli.restore_command.Contact", lambda *_: cluster)
    for option in ("--yes", "--check"):
        words = ["restore", str(directory), "--topic", "orders*", "--bootstrap-servers", "localhost:1", "--quiet"]
        assert main([*words, option]) == 0
        assert capsys.readouterr().err == "Records of stock are left out (--topic).\n"


def test_a_salvage_without_records_has_none_of_any_topic(tmp_path: Path) -> None:
    own = Replica((encode_batch(0, 10, 0),), recovery_point=0)
    write_snapshot(tmp_path / "snapshot", {1: [own], 2: [own]}, [Listed(1, (1, 2), (1, 2))])
    place = tmp_path / "salvaged"
    assert main(["salvage", str(tmp_path / "snapshot"), "--to", str(place), "--payloads", "--quiet"]) == 0
    assert SalvagedRecords(place, ("orders",)).partitions() == SalvagedRecords(place).partitions() == []
