"""Partitions that moved while evidence of running brokers was collected: what looks wrong is collected again before it is told."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

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
MOVE = (change(isr=(1, 2)), change(isr=(1, 2, 3)))
LED_BY_2 = (change(isr=(1,)), change(leader=2, isr=(2,), recovering=True))
NEW = Replica([*COMMON, *written(50, 60, 1, "new ")], high_watermark=50)


class Cluster:
    """Three brokers and a controller, collected as of given seconds; changes of the metadata log are a second apart."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._live, self.evidence = place / "live", place / "evidence"
        self._place, self._monkeypatch, self._number = place, monkeypatch, 0
        self.evidence.mkdir(parents=True)

    def be(
        self,
        brokers: dict[int, Replica],
        *changes: bytes,
        calm: int = 50,
        others: Mapping[int, Replica] = MappingProxyType({}),
    ) -> None:
        """Let the brokers have these logs, and `others` of another topic, by default of `calm` records."""
        shutil.rmtree(self._live, ignore_errors=True)
        other = Replica(written(0, calm, 0), topic="calm", topic_id=CALM)
        begin = [*write.new_topic(TOPIC, TOPIC_ID, (1, 2, 3), 1), write.topic("calm", CALM)]
        begin += [write.partition(CALM, (1, 2, 3), 1), write.config(2, TOPIC, "min.insync.replicas", "1")]
        begin += [write.register_broker(broker) for broker in (1, 2, 3)]
        having = {broker: [log, others.get(broker, other)] for broker, log in brokers.items()}
        write_snapshot(
            self._live, {**dict.fromkeys((1, 2, 3), other), **having}, metadata={100: write.history(begin, *changes)}
        )

    def collect(
        self, seconds: float, brokers: Sequence[int] = (1, 2, 3, 100), *options: str, kind: str | None = "live"
    ) -> None:
        """Collect the brokers, and the controller, as of so many seconds after the metadata log was begun; none is seen to run if `kind`
        is None."""
        self._number += 1
        with self._monkeypatch.context() as patch:
            patch.setattr(collect.time, "time", lambda: TIME_MS / 1000 + seconds)
            for broker in brokers:
                path = self._live / (f"broker-{broker}" if broker < 100 else "controller-100")
                given = ("--log-dir", f"{path}={path.name}", "--broker-id", str(broker))
                given += () if kind is None else ("--kind", kind)
                assert not collect_into(self.evidence / f"evidence-{broker}-{self._number}.tar", *given, *options)

    def again(
        self, seconds: float, *topics: str, brokers: Sequence[int] = (1, 2, 3, 100), kind: str | None = "live"
    ) -> list[str]:
        """Collect what is wanted, as of so many seconds, and these topics; the partitions that were collected again."""
        wanted = self._place / "wanted.json"
        evidence = Snapshot.open(self.evidence).evidence
        given = self.wanted()
        found = given["wanted"]
        dirs = {(one.broker_id, evidence.sources[top]) for top, one in evidence.log_dirs.items()}
        found += [
            {
                "broker_id": broker,
                "log_dir": top,
                "path": f"{topic}-0",
                "ranges": [],
                "bytes": 0,
                "why": [],
                "again": True,
            }
            for broker, top in dirs
            for topic in topics
        ]
        wanted.write_text(json.dumps(given))
        self.collect(seconds, brokers, "--wanted", str(wanted), kind=kind)
        return sorted({one["path"] for one in found if one.get("again")})

    def wanted(self) -> dict:
        """Content of the file of `show --wanted`."""
        found = audit_all(str(self.evidence), Settings())
        return json.loads(render_wanted(found, Snapshot.open(self.evidence).evidence))

    def codes(self, *severities: str) -> set[tuple[str, str, int | None]]:
        """Topic, code and broker of each finding of these severities."""
        rows = answers(self.evidence)["findings"]
        return {(row["topic"], row["code"], row["broker_id"]) for row in rows if row["severity"] in severities}

    def lost(self) -> dict[str, int]:
        """The records that each topic loses."""
        return {row["topic"]: row["lost_records"] for row in answers(self.evidence)["partitions"]}

    def loud(self) -> set[tuple[str, str, int | None]]:
        """Topic, code and broker of each finding of medium severity or more."""
        return self.codes("critical", "high", "medium")


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(tmp_path, monkeypatch)


MOVED = {(TOPIC, "CAP-MOVED", None)}


def test_an_alarm_of_skew_vanishes_when_the_partition_is_collected_again(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.be({1: SOUND, 2: SOUND, 3: GIVEN_BACK}, *MOVE)
    cluster.collect(0.5)
    assert cluster.loud() == MOVED
    results = audit_all(str(cluster.evidence), Settings())
    said = build_answer(results, build_verdict(results, "high"))
    assert (
        "orders-0 moved while being collected, and what looks wrong (HWM-CP-ABOVE-LEO, HWM-RP-ABOVE-LEO) may be due to that"
        in said.headline
    )
    assert said.todo.first[0].commands[0].endswith("--wanted wanted.json")
    assert "Collect orders-0 again on all brokers" in "".join(said.todo.first[0].sentence)
    assert "1=LOG_DIR_OF_1 2=LOG_DIR_OF_2 3=LOG_DIR_OF_3 100=LOG_DIR_OF_100" in said.todo.first[0].commands[1]
    main(["elect", str(cluster.evidence), "-q"])
    planned = capsys.readouterr().out
    assert "kafka-leader-election" not in planned and "Elect broker" not in planned and "tar -czf" not in planned
    assert "No plan: it moved while it was collected" in planned and "Nothing to decide" not in planned
    main(["elect", str(cluster.evidence), "orders-0", "-q"])
    assert "No plan: it moved while it was collected" in capsys.readouterr().out
    # What the other topic's checkpoint says by then is no news of its logs, which are of before.
    cluster.be({1: SOUND, 2: SOUND, 3: SOUND}, *MOVE, calm=80)
    assert cluster.again(10) == ["orders-0"]
    content = answers(cluster.evidence)
    assert cluster.loud() == set()
    assert {(row["topic"], row["verdict"]) for row in content["partitions"]} == {
        (TOPIC, "CONSISTENT"),
        ("calm", "CONSISTENT"),
    }
    ends = {(row["topic"], row["broker_id"]): row["log_end_offset"] for row in content["replicas"]}
    assert ends == {(topic, broker): 50 for topic in (TOPIC, "calm") for broker in (1, 2, 3)}


ON_1_AND_2 = change(replicas=(1, 2), isr=(1, 2))
TAKEN_TO_3 = (change(replicas=(1, 2, 3)), change(isr=(1, 2, 3)))


def test_a_replica_that_a_broker_was_given_meanwhile_is_collected_before_it_is_missed(cluster: Cluster) -> None:
    cluster.be({1: SOUND, 2: SOUND}, ON_1_AND_2, *TAKEN_TO_3)
    cluster.collect(0.5)
    assert cluster.loud() == MOVED
    results = audit_all(str(cluster.evidence), Settings())
    assert "(CAP-MISSING-REPLICA)" in build_answer(results, build_verdict(results, "high")).headline
    cluster.be({1: SOUND, 2: SOUND, 3: SOUND}, ON_1_AND_2, *TAKEN_TO_3)
    assert cluster.again(10) == ["orders-0"]
    assert cluster.loud() == set()
    assert {row["verdict"] for row in answers(cluster.evidence)["partitions"]} == {"CONSISTENT"}


@pytest.mark.parametrize(
    ("changes", "begun", "kind"),
    [(MOVE, 0.5, "live"), ((ON_1_AND_2, *TAKEN_TO_3), 30, "live"), ((ON_1_AND_2, *TAKEN_TO_3), 0.5, "killed")],
    ids=["assigned before", "given before the collection", "killed"],
)
def test_a_replica_that_its_broker_should_have_had_is_missed_at_once(
    cluster: Cluster, changes: tuple[bytes, ...], begun: float, kind: str
) -> None:
    cluster.be({1: SOUND, 2: SOUND}, *changes)
    cluster.collect(begun, kind=kind)
    assert (TOPIC, "CAP-MISSING-REPLICA", 3) in cluster.loud() and MOVED.isdisjoint(cluster.loud())


LATE, LATE_ID = "late", make_uuid("a topic that is created meanwhile")
CREATED = write.new_topic(LATE, LATE_ID, (1, 2, 3), 1)


@pytest.mark.parametrize("begun", [0.5, 30], ids=["meanwhile", "before"])
def test_a_partition_that_was_created_meanwhile_is_collected_before_it_is_missed(
    cluster: Cluster, begun: float
) -> None:
    brokers = {1: SOUND, 2: SOUND, 3: SOUND}
    cluster.be(brokers, *CREATED)
    cluster.collect(begun)
    if begun > 10:
        assert cluster.loud() == {(LATE, "CAP-MISSING-REPLICA", None)} and cluster.again(60) == []
        return
    assert cluster.loud() == {(LATE, "CAP-MOVED", None)}
    new = Replica(COMMON, high_watermark=50, epochs=((0, 0),), topic=LATE, topic_id=LATE_ID)
    cluster.be(brokers, *CREATED, others={1: new, 2: new, 3: new})
    assert cluster.again(60) == ["late-0"]
    assert cluster.loud() == set()


def test_a_replica_that_is_missing_in_the_second_collection_too_is_missed(cluster: Cluster) -> None:
    cluster.be({1: SOUND, 2: SOUND}, ON_1_AND_2, *TAKEN_TO_3)
    cluster.collect(0.5)
    assert cluster.again(10) == ["orders-0"]
    assert (TOPIC, "CAP-MISSING-REPLICA", 3) in cluster.loud() and cluster.again(20) == []


def test_a_run_answers_as_show_before_and_after(cluster: Cluster, tmp_path: Path) -> None:
    for state, seconds in ((GIVEN_BACK, 0.5), (SOUND, 10)):
        cluster.be({1: SOUND, 2: SOUND, 3: state}, *MOVE)
        cluster.collect(seconds) if state is GIVEN_BACK else cluster.again(seconds)
        ran = without_run(run_stages(cluster.evidence, tmp_path / "warehouse").results)
        assert ran["findings"] == answers(cluster.evidence)["findings"]
        assert ran["partitions"] == answers(cluster.evidence)["partitions"]


def test_a_real_loss_is_told_at_once(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.be({1: Replica(OLD, high_watermark=50), 2: NEW, 3: NEW}, *LED_BY_2)
    cluster.collect(0.5)
    assert {(TOPIC, "META-UNCLEAN-ELECTION", 2), (TOPIC, "DIV-EPOCH", 1)} <= cluster.loud()
    assert cluster.lost() == {TOPIC: 6, "calm": 0} and cluster.again(10) == []
    main(["elect", str(cluster.evidence), "-q"])
    assert "Copy the log directory of broker 1 now: it holds 6 records" in capsys.readouterr().out


@pytest.mark.parametrize("left", [NEW.batches, [], COMMON], ids=["followed", "disk replaced", "tail cut"])
@pytest.mark.parametrize("new", [NEW.batches, COMMON], ids=["written since", "nothing written since"])
def test_what_a_replica_lost_before_it_was_collected_again_is_lost(cluster: Cluster, left: list, new: list) -> None:
    leads = Replica(new, high_watermark=50, epochs=((0, 0), (1, 50)))
    cluster.be({1: Replica(OLD, high_watermark=50), 2: leads, 3: leads}, *LED_BY_2)
    cluster.collect(0.5)
    told, lost = cluster.loud(), cluster.lost()
    assert lost[TOPIC] == 6 and (TOPIC, "META-UNCLEAN-ELECTION", 2) in told
    left = left if new is not COMMON else left[: len(COMMON)]
    now = Replica(left, high_watermark=len(left) and 50, epochs=((0, 0), (1, 50)) if left else ())
    cluster.be({1: now, 2: leads, 3: leads}, *LED_BY_2, change(isr=(2, 1, 3)))
    cluster.again(60, TOPIC)
    assert cluster.lost() == lost and (TOPIC, "META-UNCLEAN-ELECTION", 2) in cluster.loud()
    assert "META-DUP-DIR" not in {code for _, code, _ in cluster.loud()}


@pytest.mark.parametrize("followers", [COMMON, OLD], ids=["on no broker", "on followers"])
def test_a_tail_that_the_leader_lost_before_it_was_collected_again_is_lost(cluster: Cluster, followers: list) -> None:
    cluster.be(dict.fromkeys((1, 2, 3), Replica(OLD, high_watermark=56)))
    cluster.collect(30)
    assert cluster.loud() == set()
    cut, others = Replica(COMMON, high_watermark=50), Replica(followers, high_watermark=50)
    cluster.be({1: cut, 2: others, 3: others})
    cluster.again(90, TOPIC)
    assert cluster.lost()[TOPIC] == 6 and (TOPIC, "HWM-LOSS", 1) in cluster.loud()
    results = audit_all(str(cluster.evidence), Settings())
    headline = build_answer(results, build_verdict(results, "high")).headline
    assert ("no replica in the snapshot has them" in headline) is (followers is COMMON)
    assert ("brokers 2 and 3 still have them" in headline) is (followers is OLD)


def test_what_was_cut_legally_meanwhile_is_no_loss(cluster: Cluster) -> None:
    clean = (change(isr=(2, 3)), change(leader=2, isr=(2, 3)))
    ahead = Replica([*COMMON, *written(50, 56, 0, "unacknowledged ")], high_watermark=50)
    new = Replica(NEW.batches, high_watermark=60, epochs=((0, 0), (1, 50)))
    cluster.be({1: ahead, 2: new, 3: new}, *clean)
    cluster.collect(0.5)
    before = cluster.loud()
    cluster.be({1: new, 2: new, 3: new}, *clean, change(isr=(1, 2, 3)))
    cluster.again(60, TOPIC)
    assert cluster.loud() == before == set()


def test_retention_and_another_topic_of_the_name_are_no_loss(cluster: Cluster) -> None:
    cluster.be({1: SOUND, 2: SOUND, 3: SOUND})
    cluster.collect(0.5)
    later = Replica(written(50, 60, 0), high_watermark=60, log_start=50, epochs=((0, 50),))
    cluster.be({1: later, 2: later, 3: later})
    cluster.again(60, TOPIC)
    assert cluster.loud() == set() and cluster.lost() == {TOPIC: 0, "calm": 0}
    ends = {
        (row["broker_id"], row["log_end_offset"])
        for row in answers(cluster.evidence)["replicas"]
        if row["topic"] == TOPIC
    }
    assert ends == {(1, 60), (2, 60), (3, 60)}


def test_what_the_topic_had_before_it_was_created_again_is_no_loss(cluster: Cluster) -> None:
    before = Replica(OLD, high_watermark=56, topic_id=make_uuid("the topic before"))
    cluster.be(dict.fromkeys((1, 2, 3), before))
    cluster.collect(0.5)
    cluster.be(dict.fromkeys((1, 2, 3), SOUND))
    cluster.again(60, TOPIC)
    assert cluster.loud() == set() and cluster.lost() == {TOPIC: 0, "calm": 0}


def test_what_a_cleaner_removed_meanwhile_is_no_loss(cluster: Cluster) -> None:
    compacts = write.config(2, TOPIC, "cleanup.policy", "compact")
    cluster.be(dict.fromkeys((1, 2, 3), Replica(COMMON, high_watermark=50, cleaned_to=0)), compacts)
    cluster.collect(0.5)
    cleaned = Replica([COMMON[0], *COMMON[3:]], high_watermark=50, cleaned_to=40)
    cluster.be(dict.fromkeys((1, 2, 3), cleaned), compacts)
    cluster.again(60, TOPIC)
    assert cluster.loud() == set() and cluster.lost() == {TOPIC: 0, "calm": 0}


def test_a_log_that_stays_damaged_stays_an_alarm(cluster: Cluster) -> None:
    cluster.be({1: SOUND, 2: SOUND, 3: GIVEN_BACK}, *MOVE)
    cluster.collect(0.5)
    assert cluster.again(10) == ["orders-0"]
    assert (TOPIC, "HWM-CP-ABOVE-LEO", 3) in cluster.loud()


def test_bytes_and_partitions_are_asked_for_together(cluster: Cluster) -> None:
    other = Replica([COMMON[0], *written(5, 10, 0, "other "), *COMMON[2:]], high_watermark=50, epochs=((0, 0), (1, 50)))
    cluster.be({1: SOUND, 2: other, 3: GIVEN_BACK}, *MOVE)
    cluster.collect(0.5)
    found = audit_all(str(cluster.evidence), Settings())
    wanted = json.loads(render_wanted(found, Snapshot.open(cluster.evidence).evidence))
    assert wanted["bytes"] and any(one.get("again") for one in wanted["wanted"])
    assert cluster.again(30) == ["orders-0"]
    assert (TOPIC, "DIV-CONTENT", 2) in cluster.loud()


def test_nothing_waits_twice(cluster: Cluster) -> None:
    cluster.be({1: SOUND, 2: SOUND, 3: GIVEN_BACK}, *MOVE)
    cluster.collect(0.5)
    cluster.be({1: SOUND, 2: SOUND, 3: GIVEN_BACK}, *MOVE * 8)
    assert cluster.again(10) == ["orders-0"]
    assert (TOPIC, "HWM-CP-ABOVE-LEO", 3) in cluster.loud() and cluster.again(20) == []
    assert build_verdict(audit_all(str(cluster.evidence), Settings()), "high")["exit_status"] == 1


def test_no_plan_stops_or_starts_a_broker_of_a_partition_that_is_to_be_collected_again(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    left = Replica(OLD, high_watermark=56, topic="calm", topic_id=CALM)
    led = Replica(COMMON, high_watermark=50, topic="calm", topic_id=CALM, epochs=((0, 0), (1, 50)))
    lost = [{"isr": (1,)}, {"leader": 2, "isr": (2,), "recovering": True}, {"isr": (2, 3)}]
    changes = [*MOVE, *(write.change(CALM, **one) for one in lost)]
    brokers = {1: SOUND, 2: SOUND, 3: GIVEN_BACK}
    for seconds, is_held in ((0.5, True), (40, False)):
        cluster.be(brokers, *changes, others={1: left, 2: led, 3: led})
        cluster.collect(seconds)
        main(["elect", str(cluster.evidence), "-q"])
        planned = capsys.readouterr().out
        assert ("kafka-server-stop.sh" in planned) is not is_held
        assert ("its brokers have a partition that moved" in " ".join(planned.split())) is is_held
        # What is lost is told, and copied, whatever waits; a checkpoint of just after the creation may be of an earlier topic.
        known_as = "likely committed" if is_held else "committed"
        assert f"Copy the log directory of broker 1 now: it holds 6 {known_as} records" in planned
        assert ((TOPIC, "CAP-MOVED", None) in cluster.loud()) is is_held
        assert ("calm", "HWM-LOSS", 1) in cluster.loud()
        for path in cluster.evidence.iterdir():
            path.unlink()


def test_what_waits_is_told_beside_and_is_not_resolved(cluster: Cluster, tmp_path: Path) -> None:
    cluster.be({1: SOUND, 2: SOUND, 3: GIVEN_BACK})
    cluster.collect(30)
    told = {row["finding_id"]: row for row in answers(cluster.evidence)["findings"]}
    moving = Cluster(tmp_path / "moving", cluster._monkeypatch)
    moving.be({1: SOUND, 2: SOUND, 3: GIVEN_BACK}, *MOVE)
    moving.collect(0.5)
    assert (TOPIC, "HWM-CP-ABOVE-LEO", 3) in moving.codes("info")
    waiting = {row["finding_id"]: row for row in answers(moving.evidence)["findings"]}
    assert told.keys() <= waiting.keys()
    assert build_verdict(audit_all(str(moving.evidence), Settings()), "high")["exit_status"] == 3


def test_one_broker_that_was_not_collected_again_has_its_first_evidence(cluster: Cluster) -> None:
    cluster.be({1: Replica(OLD, high_watermark=50), 2: NEW, 3: NEW}, *LED_BY_2)
    cluster.collect(0.5)
    cluster.again(10, TOPIC, brokers=(2, 3, 100))
    assert cluster.lost() == {TOPIC: 6, "calm": 0}
    roles = {(row["broker_id"], row["role"]) for row in answers(cluster.evidence)["replicas"] if row["topic"] == TOPIC}
    assert roles == {(1, "compared"), (2, "leader"), (3, "compared")}


def test_a_partition_that_no_broker_has_any_more_keeps_what_it_was(cluster: Cluster) -> None:
    cluster.be({1: Replica(OLD, high_watermark=50), 2: NEW, 3: NEW}, *LED_BY_2)
    cluster.collect(0.5)
    told = cluster.loud()
    for directory in cluster._live.glob(f"broker-*/{TOPIC}-0"):
        shutil.rmtree(directory)
    cluster.again(10, TOPIC)
    assert cluster.lost()[TOPIC] == 6 and told <= cluster.loud()


def test_advice_does_not_send_anyone_for_what_no_broker_has(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.be({1: Replica(OLD, high_watermark=50), 2: NEW, 3: NEW}, *LED_BY_2)
    cluster.collect(0.5)
    cluster.be({1: NEW, 2: NEW, 3: NEW}, *LED_BY_2, change(isr=(2, 1, 3)))
    cluster.again(60, TOPIC)
    results = audit_all(str(cluster.evidence), Settings())
    headline = build_answer(results, build_verdict(results, "high")).headline
    assert headline == "6 records, perhaps acknowledged, are on no broker any more, in 1 of 2 partitions."
    main(["elect", str(cluster.evidence), "-q"])
    planned = capsys.readouterr().out
    assert "keep broker 2 as leader. Broker 2 loses 6 possibly" in planned and "tar -czf" not in planned


def test_what_another_file_of_the_replica_shows_does_not_wait(cluster: Cluster) -> None:
    damaged = bytearray(COMMON[1])
    damaged[-3] ^= 0xFF
    batches = [COMMON[0], bytes(damaged), *COMMON[2:]]
    cluster.be({1: SOUND, 2: SOUND, 3: Replica(batches, high_watermark=50, epochs=((0, 0), (1, 50)))}, *MOVE)
    cluster.collect(0.5, (1, 2, 3, 100), "--raw")
    assert {(TOPIC, "LOG-CORRUPT-MID", 3), (TOPIC, "DIV-CORRUPT", 3)} <= cluster.loud()
    cluster.be({1: SOUND, 2: SOUND, 3: SOUND}, change(isr=(1,)), change(leader=-1))
    for path in cluster.evidence.iterdir():
        path.unlink()
    cluster.collect(0.5)
    assert cluster.loud() == {(TOPIC, "META-NO-LEADER", None)}


def test_what_no_other_log_has_does_not_wait(cluster: Cluster) -> None:
    beyond = Replica(COMMON, high_watermark=60, recovery_point=60, epochs=((0, 0), (1, 50)))
    cluster.be({1: SOUND, 2: SOUND, 3: beyond}, *MOVE)
    cluster.collect(0.5)
    assert (TOPIC, "HWM-CP-ABOVE-LEO", 3) in cluster.loud()


def test_a_later_metadata_log_and_other_partitions_move_nothing(cluster: Cluster) -> None:
    later = [write.register_broker(3)] * 36
    cluster.be({1: SOUND, 2: SOUND, 3: GIVEN_BACK}, *later, *MOVE)
    cluster.collect(20, (1, 2, 3))
    cluster.collect(60, (100,))
    assert (TOPIC, "HWM-CP-ABOVE-LEO", 3) in cluster.loud()
    assert cluster.again(80) == []


@pytest.mark.parametrize("same", [change(elr=(3,)), change(isr=(3, 2, 1))], ids=["ELR", "order"])
def test_a_record_that_changes_neither_leader_isr_nor_assignment_is_no_move(cluster: Cluster, same: bytes) -> None:
    cluster.be({1: SOUND, 2: SOUND, 3: GIVEN_BACK}, same)
    cluster.collect(0.5)
    assert (TOPIC, "HWM-CP-ABOVE-LEO", 3) in cluster.loud()


@pytest.mark.parametrize("kind", ["stopped", "killed"])
def test_one_broker_that_was_not_running_is_enough_to_judge_at_once(cluster: Cluster, kind: str) -> None:
    cluster.be({1: SOUND, 2: SOUND, 3: GIVEN_BACK}, *MOVE)
    cluster.collect(0.5, (1,), kind=kind)
    cluster.collect(0.5, (2, 3, 100))
    assert (TOPIC, "HWM-CP-ABOVE-LEO", 3) in cluster.loud()
    cluster.again(60, TOPIC)
    snapshot = Snapshot.open(cluster.evidence).evidence
    assert {one.kind for one in snapshot.log_dirs.values() if one.broker_id == 1} == {kind}
    results = audit_all(str(cluster.evidence), Settings())
    _, script, run = results.bring([1, 2])
    words = f"replica-audit capture-plan --wanted wanted.json --kind 1={kind} 1=LOG_DIR_OF_1 2=LOG_DIR_OF_2 "
    assert script.startswith(words) and run == "bash bring.sh"


def test_a_copy_is_judged_at_once(cluster: Cluster) -> None:
    cluster.be({1: SOUND, 2: SOUND, 3: GIVEN_BACK}, *MOVE)
    cluster.collect(0.5, (1, 2, 100))
    shutil.copytree(cluster._live / "broker-3", cluster.evidence / "broker-3")
    assert (TOPIC, "HWM-CP-ABOVE-LEO", 3) in cluster.loud()


def test_what_was_collected_again_is_kept_with_its_base(cluster: Cluster) -> None:
    cluster.be({1: SOUND, 2: SOUND, 3: GIVEN_BACK}, *MOVE)
    cluster.collect(0.5)
    cluster.be({1: SOUND, 2: SOUND, 3: SOUND}, *MOVE)
    cluster.again(10)
    main(["evidence", str(cluster.evidence), "--prune", "7"])
    assert len(list(cluster.evidence.glob("*.tar"))) == 8 and cluster.loud() == set()


def test_headers_alone_are_collected_again_without_a_library(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise collect.CollectError("no library")

    cluster.be({1: SOUND, 2: SOUND, 3: GIVEN_BACK}, *MOVE)
    cluster.collect(0.5, (1, 2, 3, 100), "--headers", "always")
    cluster.be({1: SOUND, 2: SOUND, 3: SOUND}, *MOVE)
    monkeypatch.setattr(collect, "find_checksums", fail)
    assert cluster.again(10) == ["orders-0"] and cluster.codes("critical", "high") == set()
    assert (TOPIC, "CAP-MOVED", None) not in cluster.loud()


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
    cluster.be({1: SOUND, 2: SOUND, 3: SOUND}, *MOVE)
    cluster.collect(0.5)
    assert cluster.loud() == set() and cluster.again(10) == []


def test_an_older_collection_does_not_stand_for_a_later_one(cluster: Cluster) -> None:
    cluster.be({1: SOUND, 2: SOUND, 3: GIVEN_BACK}, *MOVE)
    cluster.collect(0.5)
    cluster.again(10)
    told = cluster.loud()
    for path in cluster.evidence.glob("evidence-*-1.tar"):
        path.unlink()
    cluster.be({1: SOUND, 2: SOUND, 3: SOUND}, *MOVE)
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
    cluster.be({1: SOUND, 2: SOUND, 3: GIVEN_BACK}, *MOVE)
    cluster.collect(5)
    assert cluster.loud() == MOVED


OTHER = Replica([COMMON[0], *written(5, 10, 0, "other "), *COMMON[2:]], high_watermark=50, epochs=((0, 0), (1, 50)))


def test_what_a_broker_has_no_longer_is_not_asked_for(cluster: Cluster) -> None:
    cluster.be({1: SOUND, 2: OTHER, 3: GIVEN_BACK}, *MOVE)
    cluster.collect(0.5)
    assert [one["broker_id"] for one in cluster.wanted()["wanted"] if one["ranges"]] == [1, 2]
    # Broker 2 was mended before anybody came for the records.
    cluster.be({1: SOUND, 2: SOUND, 3: SOUND}, *MOVE)
    assert cluster.again(20) == ["orders-0"]
    assert cluster.wanted()["wanted"] == [] and cluster.loud() == {(TOPIC, "CAP-NOT-CAPTURED", 2)}
    (said,) = (row for row in answers(cluster.evidence)["findings"] if row["code"] == "CAP-NOT-CAPTURED")
    assert said["message"].startswith("the first evidence of broker 2 (broker-2) has 1 batch that no log has now")
    assert {row["topic"]: row["verdict"] for row in answers(cluster.evidence)["partitions"]}[TOPIC] == "INCONCLUSIVE"


def test_what_was_brought_before_it_was_gone_is_told(cluster: Cluster) -> None:
    cluster.be({1: SOUND, 2: OTHER, 3: GIVEN_BACK}, *MOVE)
    cluster.collect(0.5)
    cluster.again(10)
    cluster.be({1: SOUND, 2: SOUND, 3: SOUND}, *MOVE)
    cluster.again(20, TOPIC)
    # Those of broker 1, with which they are compared, are to be had still.
    cluster.again(30)
    assert (TOPIC, "DIV-EPOCH", 2) in cluster.loud() and cluster.wanted()["wanted"] == []


def test_an_alarm_of_a_broker_that_was_left_out_waits_for_it_alone(cluster: Cluster) -> None:
    cluster.be({1: SOUND, 2: SOUND, 3: GIVEN_BACK}, *MOVE)
    cluster.collect(0.5)
    cluster.be({1: SOUND, 2: SOUND, 3: SOUND}, *MOVE)
    assert cluster.again(10, brokers=(1, 2, 100)) == ["orders-0"]
    assert cluster.loud() == MOVED
    assert cluster.again(20) == ["orders-0"]
    assert cluster.loud() == set() and cluster.wanted()["wanted"] == []


def test_an_alarm_of_a_broker_that_was_collected_again_does_not_wait_for_another(cluster: Cluster) -> None:
    cluster.be({1: SOUND, 2: SOUND, 3: GIVEN_BACK}, *MOVE)
    cluster.collect(0.5)
    cluster.again(10, brokers=(1, 3, 100))
    assert (TOPIC, "HWM-CP-ABOVE-LEO", 3) in cluster.loud() and not MOVED & cluster.loud()


@pytest.mark.parametrize(
    ("first", "second", "found", "may_be_image"),
    [
        ("live", None, "live", False),
        ("killed", "live", "killed", False),
        ("image", "live", "live", False),
        ("image", "image", "image", True),
        (None, None, None, True),
    ],
)
def test_what_is_collected_again_from_the_broker_is_no_image(
    cluster: Cluster, first: str | None, second: str | None, found: str | None, may_be_image: bool
) -> None:
    cluster.be({1: SOUND, 2: SOUND, 3: SOUND})
    cluster.collect(50, kind=first)
    cluster.again(100, TOPIC, kind=second)
    copies = Snapshot.open(cluster.evidence).evidence.log_dirs.values()
    again = [one for one in copies if f"{TOPIC}-0" in one.partitions]
    assert again and {(one.kind, one.may_be_image) for one in again} == {(found, may_be_image)}
