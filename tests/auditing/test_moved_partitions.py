"""Partitions that moved while evidence of running brokers was collected: what looks wrong is collected again before it is told."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support import metadata_log as write
from tests.support.collected import answers, collect_into
from tests.support.in_process import run_stages, without_run
from tests.support.metadata_log import TIME_MS
from tests.support.scenario import written
from tests.support.scenes import COMMON, OLD, change
from tests.support.snapshots import TOPIC, TOPIC_ID, Replica, make_uuid, write_snapshot

from replica_audit.cli.main import main
from replica_audit.collect import collect
from replica_audit.config import Settings
from replica_audit.report.answer import build_answer
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.wanted_ranges import render_wanted
from replica_audit.runner.in_process import audit_all
from replica_audit.snapshot.storage import Snapshot

CALM = make_uuid("a topic that does not move")
SOUND = Replica(COMMON, high_watermark=50, epochs=((0, 0), (1, 50)))
#: Its checkpoint is of before it was taken away, and its log of after it was given back.
GIVEN_BACK = Replica([], high_watermark=50, recovery_point=50, epochs=())
MOVE = change(replicas=(1, 2, 3), isr=(1, 2, 3))
LED_BY_2 = (change(isr=(1,)), change(leader=2, isr=(2,), recovering=True))
NEW = Replica([*COMMON, *written(50, 60, 1, "new ")], high_watermark=50)


class Cluster:
    """Three brokers and a controller, collected as of given seconds; changes of the metadata log are a second apart."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._live, self.evidence = place / "live", place / "evidence"
        self._place, self._monkeypatch, self._number = place, monkeypatch, 0
        self.evidence.mkdir()

    def be(self, brokers: dict[int, Replica], *changes: bytes, calm: int = 50) -> None:
        """Let the brokers have these logs, and another topic, of `calm` records."""
        shutil.rmtree(self._live, ignore_errors=True)
        other = Replica(written(0, calm, 0), topic="calm", topic_id=CALM)
        begin = [write.topic(TOPIC, TOPIC_ID), write.partition(TOPIC_ID, (1, 2, 3), 1), write.topic("calm", CALM)]
        begin += [write.partition(CALM, (1, 2, 3), 1), write.config(2, TOPIC, "min.insync.replicas", "1")]
        begin += [write.register_broker(broker) for broker in (1, 2, 3)]
        having = {broker: [log, other] for broker, log in brokers.items()}
        write_snapshot(
            self._live, {**dict.fromkeys((1, 2, 3), other), **having}, metadata={100: write.history(begin, *changes)}
        )

    def collect(
        self, seconds: float, brokers: Sequence[int] = (1, 2, 3, 100), *options: str, kind: str = "live"
    ) -> None:
        """Collect the brokers, and the controller, as of so many seconds after the metadata log was begun."""
        self._number += 1
        with self._monkeypatch.context() as patch:
            patch.setattr(collect.time, "time", lambda: TIME_MS / 1000 + seconds)
            for broker in brokers:
                path = self._live / (f"broker-{broker}" if broker < 100 else "controller-100")
                given = ("--log-dir", f"{path}={path.name}", "--broker-id", str(broker), "--kind", kind)
                assert not collect_into(self.evidence / f"evidence-{broker}-{self._number}.tar", *given, *options)

    def again(self, seconds: float) -> list[str]:
        """Collect what is wanted, as of so many seconds; the partitions that were collected again."""
        wanted = self._place / "wanted.json"
        wanted.write_text(
            render_wanted(audit_all(str(self.evidence), Settings()), Snapshot.open(self.evidence).evidence)
        )
        found = json.loads(wanted.read_text())["wanted"]
        self.collect(seconds, (1, 2, 3, 100), "--wanted", str(wanted))
        return sorted({one["path"] for one in found if one.get("again")})

    def loud(self) -> set[tuple[str, str, int | None]]:
        """Topic, code and broker of each finding of medium severity or more."""
        rows = answers(self.evidence)["findings"]
        return {(row["topic"], row["code"], row["broker_id"]) for row in rows if row["severity"] not in ("low", "info")}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(tmp_path, monkeypatch)


MOVED = {(TOPIC, "CAP-MOVED", None)}


def test_an_alarm_of_skew_vanishes_when_the_partition_is_collected_again(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.be({1: SOUND, 2: SOUND, 3: GIVEN_BACK}, MOVE)
    cluster.collect(0.5)
    assert cluster.loud() == MOVED
    results = audit_all(str(cluster.evidence), Settings())
    said = build_answer(results, build_verdict(results, "high"))
    assert "orders-0 moved while being collected and looks wrong, as copies of different moments do" in said.headline
    assert said.todo.first[0].commands[0].endswith("--wanted wanted.json")
    assert "Collect orders-0 again on all brokers" in "".join(said.todo.first[0].sentence)
    assert "1=LOG_DIR_OF_1 2=LOG_DIR_OF_2 3=LOG_DIR_OF_3 100=LOG_DIR_OF_100" in said.todo.first[0].commands[1]
    main(["elect", str(cluster.evidence), "-q"])
    planned = capsys.readouterr().out
    assert "kafka-leader-election" not in planned and "Elect broker" not in planned and "tar -czf" not in planned
    assert "No plan: it moved while it was collected" in planned and "Nothing needs to be decided" not in planned
    main(["elect", str(cluster.evidence), "orders-0", "-q"])
    assert "No plan: it moved while it was collected" in capsys.readouterr().out
    # What the other topic's checkpoint says by then is no news of its logs, which are of before.
    cluster.be({1: SOUND, 2: SOUND, 3: SOUND}, MOVE, calm=80)
    assert cluster.again(10) == ["orders-0"]
    content = answers(cluster.evidence)
    assert cluster.loud() == set()
    assert {(row["topic"], row["verdict"]) for row in content["partitions"]} == {
        (TOPIC, "CONSISTENT"),
        ("calm", "CONSISTENT"),
    }
    ends = {(row["topic"], row["broker_id"]): row["log_end_offset"] for row in content["replicas"]}
    assert ends == {(topic, broker): 50 for topic in (TOPIC, "calm") for broker in (1, 2, 3)}


def test_a_run_answers_as_show_before_and_after(cluster: Cluster, tmp_path: Path) -> None:
    for state, seconds in ((GIVEN_BACK, 0.5), (SOUND, 10)):
        cluster.be({1: SOUND, 2: SOUND, 3: state}, MOVE)
        cluster.collect(seconds) if state is GIVEN_BACK else cluster.again(seconds)
        ran = without_run(run_stages(cluster.evidence, tmp_path / "warehouse").results)
        assert ran["findings"] == answers(cluster.evidence)["findings"]
        assert ran["partitions"] == answers(cluster.evidence)["partitions"]


def test_a_real_loss_is_told_when_the_partition_was_collected_again(cluster: Cluster) -> None:
    cluster.be({1: Replica(OLD, high_watermark=50), 2: NEW, 3: NEW}, *LED_BY_2)
    cluster.collect(0.5)
    assert cluster.loud() == MOVED
    assert cluster.again(10) == ["orders-0"]
    codes = {code for _, code, _ in cluster.loud()}
    assert "META-UNCLEAN-ELECTION" in codes and "CAP-MOVED" not in codes
    (row,) = (row for row in answers(cluster.evidence)["partitions"] if row["topic"] == TOPIC)
    assert row["lost_records"] == 6


def test_a_log_that_stays_damaged_stays_an_alarm(cluster: Cluster) -> None:
    cluster.be({1: SOUND, 2: SOUND, 3: GIVEN_BACK}, MOVE)
    cluster.collect(0.5)
    assert cluster.again(10) == ["orders-0"]
    assert (TOPIC, "HWM-CP-ABOVE-LEO", 3) in cluster.loud()


def test_a_partition_that_still_moves_is_not_called_sound(cluster: Cluster) -> None:
    cluster.be({1: SOUND, 2: SOUND, 3: GIVEN_BACK}, MOVE)
    cluster.collect(0.5)
    cluster.be({1: SOUND, 2: SOUND, 3: GIVEN_BACK}, *[MOVE] * 15)
    assert cluster.again(10) == ["orders-0"]
    assert cluster.loud() == MOVED
    verdicts = {row["topic"]: row["verdict"] for row in answers(cluster.evidence)["partitions"]}
    assert verdicts == {TOPIC: "INCONCLUSIVE", "calm": "CONSISTENT"}
    assert build_verdict(audit_all(str(cluster.evidence), Settings()), "high")["exit_status"] == 3
    cluster.be({1: SOUND, 2: SOUND, 3: SOUND}, *[MOVE] * 15)
    assert cluster.again(30) == ["orders-0"] and cluster.loud() == set()


def test_one_broker_that_was_not_collected_again_is_of_another_moment(cluster: Cluster) -> None:
    cluster.be({1: SOUND, 2: SOUND, 3: GIVEN_BACK}, MOVE)
    cluster.collect(0.5)
    cluster.again(10)
    (one,) = cluster.evidence.glob("evidence-2-2.tar")
    one.unlink()
    assert cluster.loud() == MOVED


@pytest.mark.parametrize(
    ("seconds", "kind", "changes"),
    [(30, "live", [MOVE]), (0.5, "killed", [MOVE]), (30, "live", [])],
    ids=["moved before", "not running", "never moved"],
)
def test_what_did_not_move_is_told_at_once(cluster: Cluster, seconds: float, kind: str, changes: list[bytes]) -> None:
    cluster.be({1: SOUND, 2: SOUND, 3: GIVEN_BACK}, *changes)
    cluster.collect(seconds, kind=kind)
    assert (TOPIC, "HWM-CP-ABOVE-LEO", 3) in cluster.loud() and "CAP-MOVED" not in {
        code for _, code, _ in cluster.loud()
    }


def test_what_moved_and_looks_sound_is_not_collected_again(cluster: Cluster) -> None:
    cluster.be({1: SOUND, 2: SOUND, 3: SOUND}, MOVE)
    cluster.collect(0.5)
    assert cluster.loud() == set() and cluster.again(10) == []


def test_an_older_collection_does_not_stand_for_a_later_one(cluster: Cluster) -> None:
    cluster.be({1: SOUND, 2: SOUND, 3: GIVEN_BACK}, MOVE)
    cluster.collect(0.5)
    cluster.again(10)
    told = cluster.loud()
    for path in cluster.evidence.glob("evidence-*-1.tar"):
        path.unlink()
    cluster.be({1: SOUND, 2: SOUND, 3: SOUND}, MOVE)
    cluster.collect(100)
    assert told and cluster.loud() == set()


def test_what_claims_the_place_of_other_evidence_is_refused(cluster: Cluster) -> None:
    cluster.be({1: SOUND, 2: SOUND, 3: SOUND})
    cluster.collect(30)
    with tarfile.open(cluster.evidence / "evidence-1-1.tar") as archive:
        head = json.loads(archive.extractfile("evidence-1.json").read())  # type: ignore[union-attr]
    name = f"evidence-1.bytes-{head['log_dirs'][0]['finished'] + 1}.json"
    (cluster.evidence / name).write_text(json.dumps({**head, "lists": [], "again": ["orders-0"]}))
    found = audit_all(str(cluster.evidence), Settings())
    assert any("no other evidence of broker-1" in row.reason for row in found.quarantine)
    ends = {(row.topic, row.broker_id): row.log_end_offset for row in found.replicas}
    assert ends == {(topic, broker): 50 for topic in (TOPIC, "calm") for broker in (1, 2, 3)}


def test_a_change_counts_that_a_busy_broker_may_have_yet_to_apply(cluster: Cluster) -> None:
    cluster.be({1: SOUND, 2: SOUND, 3: GIVEN_BACK}, MOVE)
    cluster.collect(5)
    assert cluster.loud() == MOVED
