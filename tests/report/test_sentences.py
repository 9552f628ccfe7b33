"""Every sentence that a report can say, with the capture that makes it say so and the fact there that makes it true.

A capture's facts are its truth.json, written down when the cluster was run: what producers were acknowledged, what
clients saw, which brokers were up. Sentences that no capture asks for are said of rows made by hand, further below.
"""

from __future__ import annotations

import ast
import inspect
import json
import shlex
import sys
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from tests.support import metadata_log as write
from tests.support.captures import audit_whole
from tests.support.collected import collect_snapshot
from tests.support.encoder import encode_batch
from tests.support.fixtures import ATTACKS, FIXTURES, is_up, truth
from tests.support.less import without
from tests.support.report_rows import AUDIT, answers_of, finding, orders_row, partition, results, row
from tests.support.samples import SAMPLES
from tests.support.scenario import audit, written
from tests.support.snapshots import TOPIC, TOPIC_ID, Replica, write_pair
from tests.support.some import some

from replica_audit.auditing.finding import wanted_range
from replica_audit.config import Settings
from replica_audit.report import answer, captures, partition_story
from replica_audit.report.answer import build_answer
from replica_audit.report.captures import tell_captures
from replica_audit.report.facts.by_partition import rows_by_partition
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.page.content import build_overview
from replica_audit.report.partition_story import tell_story
from replica_audit.report.sentences import plain_text
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_all

MODULES = (answer, captures, partition_story)
Truth = dict[str, Any]
#: Where a sentence is said: module and line.
Site = tuple[str, int]


def sites() -> set[Site]:
    """Every call of `say`, by which reports say what they say."""
    return {
        (module.__name__, node.lineno)
        for module in MODULES
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "say"
    }


def say_all(found: Results) -> dict[Site, set[str]]:
    """Sentences of a report of `found`, by place: its answer and the story of every partition."""
    said: dict[Site, set[str]] = defaultdict(set)

    def record(*parts: str) -> tuple[str, ...]:
        caller = sys._getframe(1)
        said[caller.f_globals["__name__"], caller.f_lineno].add(plain_text(parts))
        return parts

    with ExitStack() as patches:
        for module in MODULES:
            patches.enter_context(patch.object(module, "say", record))
        build_answer(found, build_verdict(found, "high"))
        build_overview(found, found.partitions, None)
        tell_captures(found)
        for place, rows in rows_by_partition(found):
            tell_story(place, rows, found.protocol)
    return said


def sentences(said: dict[Site, set[str]]) -> set[str]:
    return set().union(*said.values())


@cache
def of_capture(name: str) -> dict[Site, set[str]]:
    return say_all(audit_whole(FIXTURES / name))


def leads(truth: Truth, place: str, leader: int | None, isr: list[int]) -> bool:
    said = truth["leader_isr"][place]
    return said["leader"] == leader and said["isr"] == isr


def seen(truth: Truth, place: str) -> int:
    """The high watermark that a client was told."""
    return truth["watermarks_from_clients"][place]["high_watermark"]


def acknowledged(truth: Truth, phase: str, place: str | None = None) -> int:
    """Records that producers were acknowledged in the phases whose names begin so."""
    counts = [
        count[2]
        for name, one in truth["phases"].items()
        for of, count in one.get("first_last_acked_failed", {}).items()
        if name.startswith(phase) and place in (None, of)
    ]
    return sum(counts)


#: (capture, what it says there, the fact in truth.json that makes it true)
TABLE: tuple[tuple[str, str, Callable[[Truth], bool]], ...] = (
    ("diverged-unclean",
     "84 committed records are missing from the leader in 3 of 4 partitions; broker 0 still has them.",
     lambda t: acknowledged(t, "A only") == 84 and not is_up(t, 0)),
    ("zk-2.8-diverged-unclean", "That all of them were committed is likely, not proven.",
     lambda t: not (FIXTURES / "zk-2.8-diverged-unclean" / "manifest.json").exists() and not is_up(t, 0)),
    ("diverged-multi",
     "93 records, perhaps acknowledged, exist only on brokers 0 and 1, in 4 of 5 partitions.",
     lambda t: "elected uncleanly" in t["about"] and not is_up(t, 0) and not is_up(t, 1)),
    ("old-silent-2-healed",
     "Replicas hold different records in both partitions, and no truncation will repair that.",
     lambda t: "for ever different at some offsets" in t["about"]),
    ("corrupted-batch-duplicated",
     "Files of broker 2 are damaged or contradict each other in codecs-1, 1 of 19 partitions; the copy of broker 0 is whole.",
     lambda t: t["damage"] == "one batch twice in a row: offsets go back"),
    ("kip101-isr-2-truncated", "The only partition could not be judged.",
     lambda t: "1 truncated to its high watermark and waits for 2" in t["about"]),
    ("corrupted-hw-garbage", "None of the 19 partitions could be judged.",
     lambda t: t["from"] == "healthy"),
    ("diverged-clean",
     "Replicas differ in 2 of 3 partitions, but only in what a clean election left behind.",
     lambda t: "lost in a clean election from the ISR" in t["about"]),
    ("jbod-killed", "Nothing is lost; replicas are behind or out of sync in all 7 partitions.",
     lambda t: not is_up(t, 0)),
    ("lagging",
     "The captured replicas agree, but some are behind or out of sync in all 4 partitions.",
     lambda t: not is_up(t, 2)),
    ("healthy", "All is well: all 19 partitions are consistent.",
     lambda t: all("stopped cleanly" in state for state in t["process_state"].values())),
    ("diverged-healed", "The captured replicas agree in all 4 partitions.",
     lambda t: len({seen(t, f"ledger-{number}") for number in range(3)}) == 3),
    ("quorum3-1-unclean", "1 partition has no leader: clean-history-0.",
     lambda t: t["leader_isr"]["clean-history-0"]["leader"] in (None, -1)),
    ("txn-failover-2-healed",
     "Transactions that will never end stop read_committed consumers in wallet-0 and wallet-1.",
     lambda t: {one.get("lso_stuck") for one in t["claims"]} >= {"wallet-0", "wallet-1"}),
    ("elr-healed",
     "An unclean election on 2026-11-21 may have lost records in __consumer_offsets-0; these files cannot tell.",
     lambda t: leads(t, "__consumer_offsets-0", 0, [0, 1, 2])),
    ("diverged-healed",
     "Unclean elections, the last on 2026-11-21, may have lost records in ledger-0, ledger-1 and ledger-2; these files "
     "cannot tell.",
     lambda t: acknowledged(t, "A only") == 84),
    ("zk-2.8-diverged-healed",
     "52 lost records of ledger-0, ledger-1 and ledger-2 are only in files that Kafka is about to delete (*.deleted), in "
     "broker-0/ledger-0, broker-0/ledger-1 and broker-0/ledger-2; nothing proves that they were committed.",
     lambda t: sum(phase == "A only" and offset >= (48, 46, 51)[number]
                   for _, number, offset, phase, *_ in t["produced"]) == 52
     and t["phases"]["A only"]["conf"]["acks"] == "1"),
    ("lagging",
     "The files of 1 replica of __consumer_offsets-0 are missing or could not be read: what it holds is not known.",
     lambda t: not (FIXTURES / "lagging" / "broker-2" / "__consumer_offsets-0").exists()),
    ("diverged-unclean",
     "45 committed records at offsets 34 to 78 are not on the leader, broker 1; broker 0 still has them.",
     lambda t: acknowledged(t, "A only", "ledger-0") == 45 and leads(t, "ledger-0", 1, [1, 2])),
    ("old-silent-2-healed",
     "4 records at offsets 11 to 14 exist only on broker 0; nothing proves that they were committed.",
     lambda t: "for ever different" in t["about"]),
    ("old-silent-2-healed",
     "In all, 8 records that the leaders do not have are on other brokers; nothing proves that any of them was committed.",
     lambda t: "for ever different" in t["about"]),
    ("diverged-unclean", "Other partitions: 1 lagging.",
     lambda t: leads(t, "ledger-0", 1, [1, 2]) and len(t["leader_isr"]) <= 4),
    ("kip101-isr-2-truncated", "Not all of this can be trusted: 1 partition inconclusive.",
     lambda t: list(t["leader_isr"]) == ["kip101-0"]),
    ("diverged-unclean",
     "Broker 1 leads in leader epoch 1 (the metadata log says so); in sync: 1 and 2.",
     lambda t: leads(t, "ledger-0", 1, [1, 2])),
    ("live-torn",
     "Broker 2 is taken for the leader in leader epoch 0: nothing says who leads, and it has the newest leader epoch, "
     "then the longest log; which replicas are in sync is not known.",
     lambda t: not list((FIXTURES / "live-torn").glob("*describe*"))),
    ("elr-leaderless",
     "Nobody leads: nothing can be written or read; in sync: none; eligible: 0 and 1.",
     lambda t: t["leader_isr"]["accounts-0"]["isr"] == [] and not is_up(t, 0) and not is_up(t, 1)),
    ("diverged-healed",
     "Nobody leads, since all brokers here were stopped cleanly; in sync: none; eligible: 2.",
     lambda t: all("stopped cleanly" in state for state in t["process_state"].values())),
    ("recreated-1-before",
     "The topic was deleted: nobody leads it, and brokers remove what is left of it.",
     lambda t: "(3 partitions) was deleted" in t["about"] and "orders-2" not in t["leader_isr"]),
    ("elr-leaderless", "The other replicas are compared with broker 0, which led last.",
     lambda t: t["process_state"]["broker-0"] == "killed (SIGKILL)"),
    ("corrupted-batch-missing",
     "The snapshot has no replica of this partition that could be read.",
     lambda t: [path.name for path in (FIXTURES / "corrupted-batch-missing").glob("broker-*/*-*") if path.is_dir()]
     == [t["partition"]] * 2),
    ("diverged-unclean",
     "The high watermark is exactly 52: checkpointed high watermark 52 of broker 1 and log end 52 of broker 1, the "
     "reference.",
     lambda t: seen(t, "ledger-0") == 52),
    ("live-copy",
     "The high watermark is between 176 and 202: log end 176 of broker 0, which is in sync or eligible to lead and "
     "checkpointed high watermark 202 of broker 2.",
     lambda t: leads(t, "clicks-2", 2, [0, 1, 2]) and "Nothing is wrong with this cluster" in t["about"]),
    ("kip101-isr-2-truncated",
     "The high watermark is exactly 23: checkpointed high watermark 23 of broker 0 and log end 23 of broker 2, the reference; "
     "broker 1 keeps no epochs: it may have been cut below what was committed, or have kept other records, "
     "and be in sync all the same.",
     lambda t: leads(t, "kip101-0", 2, [2, 1]) and "1 truncated to its high watermark" in t["about"]),
    ("live-torn", "Only broker 2 has files here; it holds offsets 0 to 1.",
     lambda t: [path.name for path in (FIXTURES / "live-torn").glob("broker-*")] == ["broker-2"]),
    ("retention-skewed",
     "Broker 0 holds the same records as the leader (broker 1) from 23 on, up to log end 50.",
     lambda t: leads(t, "timed-1", 1, [0, 1, 2]) and seen(t, "timed-1") == 50),
    ("txn-failover-2-healed", "Brokers 0 and 2 are empty like the leader (broker 1), and end at 0.",
     lambda t: seen(t, "wallet-3") == 0 and leads(t, "wallet-3", 1, [0, 1, 2])),
    ("last-replica-standing-1-alone",
     "Broker 1 holds the same records as the leader (broker 0), but ends 6 offsets earlier, at 42.",
     lambda t: seen(t, "transfers-3") == 48 and leads(t, "transfers-3", 0, [0])),
    ("reassigned-1-moving",
     "Broker 3 is empty and ends at 0, 117 offsets before the end of the leader (broker 1).",
     lambda t: seen(t, "moving-1") == 117 and 3 in t["reassignment"]["moving-1"]["to"]),
    ("live-copy",
     "Broker 2 agrees with the leader (broker 1) and goes on 29 offsets further, to 228: it was copied later, or the "
     "leader (broker 1) lost its tail.",
     lambda t: "replicas, checkpoints and segments are of different moments" in t["about"]),
    ("retention-passed-1-down",
     "Broker 2 holds offsets 0 to 36, and the leader (broker 0) offsets 71 to 94: no offset is on both.",
     lambda t: t["log_ends_of_broker_2"]["passed-0"] == 37 and t["first_offsets_on_disk"]["passed-0"]["broker-0"] == 71),
    ("compacted-skewed-1",
     "Brokers 0 and 1 and the leader (broker 2) were cleaned at different times: they hold different records of this "
     "compacted partition, which is as it should be.",
     lambda t: t["wrong"] == ["nothing"] and leads(t, "profiles-0", 2, [0, 1, 2])),
    ("recreated-1-before",
     "Broker 2 holds a copy that belongs to another topic of this name (topic id 9DmGkEVrRYKcznAl6jzSpw); it was not "
     "compared.",
     lambda t: {"topic_id_differs": "orders", "odd": 2, "brokers": [0, 1]} in t["claims"]),
    ("corrupted-same-broker-id", "Broker 0 has a second copy in broker-2, which was not used.",
     lambda t: "one log dir copied twice by mistake" in t["damage"]),
    ("diverged-clean",
     "Broker 0 has records of epoch 0 at offsets 38 to 50, where broker 1 has other records of epoch 1; the fetch protocol "
     "cuts the log at 38; left behind by the clean election of broker 1 at 2026-11-21T09:21:19.474Z. There are 13 records, "
     "written at 2026-11-21T09:21:13.489Z; nothing proves that they were committed.",
     lambda t: not is_up(t, 0) and "above its high watermark" in t["about"]),
    ("diverged-multi",
     "Broker 1 has records of epoch 4 at offsets 22 to 28; the log of broker 2 ends at 19; the fetch protocol cuts the log "
     "at 11; broker 1 was alone in the ISR in leader epoch 4 from 2026-11-21T09:04:56.743Z on, which makes it likely that "
     "they were committed; left behind by the unclean election of broker 2 at 2026-11-21T09:04:59.757Z. There are 7 records, "
     "written at 2026-11-21T09:04:56.936Z; nothing proves that they were committed.",
     lambda t: seen(t, "journal-2") == 19),
    ("kip101-isr-3-lost",
     "Broker 0 has records without an epoch at offsets 19 to 22, where broker 1 has other records without an epoch; the "
     "fetch protocol keeps everything below 23, so this stays. There are 4 records, written 2026-11-21 from "
     "09:19:25.423 to 09:19:25.428 UTC; that they were committed is likely, not proven: its own high watermark reached 23.",
     lambda t: "took other records at the same offsets" in t["about"] and t["kafka_versions_in_order"][0].startswith("0.10")),
    ("diverged-clean",
     "When broker 0 follows, broker 1 answers that epoch 0 ends at 38, and it cuts its log at 38: offsets 38 to 50 go with "
     "it.",
     lambda t: any("to offset 38" in line for line in map(str, truth("diverged-clean-healed")["truncation_log_lines"]))
     or "offset=38" in json.dumps(truth("diverged-clean-healed")["truncation_log_lines"])),
    ("kip279-1-before",
     "Under kip-101, broker 0 would be cut at 17, and the difference at 12 would stay, unseen by Kafka.",
     lambda t: "to offset 17" in json.dumps(truth("kip279-2-healed")["truncation_log_lines"])),
    ("corrupted-batch-baseoffset-changed",
     "When broker 2 follows, broker 0 answers that epoch 0 ends at 114, and it cuts its log at 114, which removes no "
     "record.",
     lambda t: t["damaged_broker"] == 2),
    ("diverged-healed",
     "2 earlier changes of leader or of the replicas in sync are left out here.",
     lambda t: acknowledged(t, "A only") == 84),
    ("elr-leaderless",
     "At 2026-11-21T09:06:47.961Z broker 0 stopped leading and nobody led; in sync: none; eligible: 0 and 1.",
     lambda t: t["leader_isr"]["accounts-0"]["isr"] == [] and not is_up(t, 0)),
    ("txn-failover-2-healed",
     "At 2026-11-21T10:31:44.708Z broker 1 became leader in epoch 1; in sync: 0, 1 and 2.",
     lambda t: "wallet-2: a transaction over a clean change of leader" in json.dumps(t["right"])),
    ("diverged-unclean",
     "At 2026-11-21T09:01:14.307Z broker 1 became leader in epoch 1, uncleanly: only broker 0 was in sync or eligible; in "
     "sync: 1.",
     lambda t: "was elected uncleanly" in t["about"]),
    ("diverged-unclean",
     "At 2026-11-21T09:01:18.217Z broker 2 joined the replicas in sync; in sync: 1 and 2.",
     lambda t: leads(t, "ledger-0", 1, [1, 2])),
)  # fmt: skip


@pytest.mark.parametrize(("capture", "sentence", "fact"), TABLE, ids=[f"{entry[0]} {entry[1][:40]}" for entry in TABLE])
def test_a_sentence_is_said_of_a_capture_where_it_is_true(
    capture: str, sentence: str, fact: Callable[[Truth], bool]
) -> None:
    assert sentence in sentences(of_capture(capture))
    assert fact(truth(capture))


#: Snapshots made to mislead, each with what is true of it in its README: (snapshot, what is said of it).
ATTACKED: tuple[tuple[str, str], ...] = (
    ("12-minor/isr-member-short-quiesced",
     "An in-sync replica lacks committed records in the only partition: electing it would lose them."),
    ("04-leader-has-no-files/describe",
     "The other replicas are compared with broker 1: the snapshot has no files of the leader."),
    ("04-leader-has-no-files/describe",
     "The high watermark is at least 30: checkpointed high watermark 30 of broker 1 and no log end bounds "
     "it; no usable log of broker 3 is here."),
    ("12-minor/folder-without-log",
     "What broker 2 holds is not known: what there is of its log could not be compared."),
)  # fmt: skip


@pytest.mark.parametrize(("snapshot", "sentence"), ATTACKED, ids=[entry[0] for entry in ATTACKED])
def test_a_sentence_is_said_of_a_snapshot_that_misleads(snapshot: str, sentence: str) -> None:
    assert sentence in sentences(say_all(audit_whole(ATTACKS / snapshot)))


SHARED = written(0, 10, 0)


def _scenario(path: Path, brokers: dict[int, Replica], **options: Any) -> Results:
    return answers_of(AUDIT, audit(path, brokers, **options).tables)


def _leaderless(path: Path) -> Results:
    """Broker 1 was elected, uncleanly as broker 2's checkpoint shows, and nobody leads now."""
    logs = {1: Replica([*SHARED, *written(10, 14, 2)]), 2: Replica([*SHARED, *written(10, 20, 1)])}
    return _scenario(path, logs, leader=None, isr=(), elr=(1,))


def _deleted(path: Path) -> Results:
    """The topic is in the metadata log, and after that its removal."""
    begin = write.new_topic(TOPIC, TOPIC_ID, (1,), 1)
    metadata = {100: write.history(begin, write.remove_topic(TOPIC_ID))}
    return _scenario(path, {1: Replica(SHARED)}, metadata=metadata)


def _lost_tail(path: Path) -> Results:
    """The only replica had records up to 30, flushed and committed, and ends at 20."""
    return _scenario(path, {1: Replica(written(0, 20, 0), high_watermark=30, recovery_point=20)}, quiesced=True)


def _same_epoch(path: Path) -> Results:
    return _scenario(path, {1: Replica(written(0, 20, 0)), 2: Replica([*SHARED, *written(10, 20, 0, mark="other ")])})


def _hole(path: Path) -> Results:
    """The leader lacks 10 to 14, which broker 2 has."""
    return _scenario(path, {1: Replica([*SHARED, *written(15, 30, 0)]), 2: Replica(written(0, 30, 0))})


def _four_places(path: Path) -> Results:
    own = [batch for base in range(0, 80, 10) for batch in written(base, base + 10, 0, "x " if base % 20 else "", 10)]
    return _scenario(path, {1: Replica(written(0, 80, 0, step=10)), 2: Replica(own)})


def _two_parts(path: Path) -> Results:
    """Brokers 2 and 3 led in epochs that the leader never saw, and each holds committed records of its own."""
    logs = {
        1: Replica([*SHARED, *written(10, 14, 3)]),
        2: Replica([*SHARED, *written(10, 20, 1)]),
        3: Replica([*SHARED, *written(10, 15, 2)]),
    }
    return _scenario(path, logs, isr=(1,))


def _rows(verdict: str, code: str, severity: str, **values: Any) -> Callable[[Path], Results]:
    """A partition of `verdict` of which the lost records are not known, as in a compacted one that could not be decoded."""
    return lambda path: results([partition(verdict=verdict, **values)], [finding(code, severity, start_offset=7)])


def _second_replica(**options: Any) -> Callable[[Path], Results]:
    """Brokers 1 and 2 hold the same; `options` are those of `audit`."""
    return lambda path: _scenario(path, {1: Replica(SHARED), 2: Replica(SHARED)}, **options)


def _equal_without_times(path: Path) -> Results:
    """The leader has equal records in another epoch, of a producer that sets no times."""
    return results(
        [partition(verdict="UNCOMMITTED_DIVERGENCE", lost_records=0, lost_committed=0)],
        [finding("DIV-EPOCH", "medium")],
        divergences=[
            orders_row(
                "divergences",
                broker_id=1,
                reference_id=2,
                start_offset=20,
                end_offset=25,
                code="DIV-EPOCH",
                leader_epoch=2,
                replica_epoch=1,
                record_count=5,
                lost_records=0,
                lost_committed=0,
            )
        ],  # fmt: skip
    )


def _one_replica(**options: Any) -> Callable[[Path], Results]:
    return lambda path: _scenario(path, {1: Replica(SHARED)}, **options)


def _bare_directory(path: Path) -> Results:
    """Broker 3 is out of sync, and its directory has no segment."""
    same, bare = Replica(SHARED), Replica(SHARED, remove=[f"{0:020d}.log"])
    return _scenario(path, {1: same, 2: same, 3: bare}, isr=(1, 2))


def _one_has_one_replica(path: Path) -> Results:
    """One of two partitions has one replica."""
    rows = [partition(lost_records=0), partition(number=1, lost_records=0)]
    copies = [
        orders_row("replicas", broker_id=1, role="leader"),
        *(row("replicas", topic="orders", partition=1, broker_id=one, role="compared") for one in (1, 2)),
    ]
    states = [
        row("partition_states", topic="orders", partition=number, source="topics_describe", replicas=list(brokers))
        for number, brokers in enumerate(((1,), (1, 2)))
    ]
    return results(rows, replicas=copies, partition_states=states)


def _orphaned(path: Path) -> Results:
    """Broker 0 led ledger-1 and is down, and of its directory only the checkpoint file tells."""
    place = without(FIXTURES / "diverged-unclean", path / "part", brokers=(0,))
    (place / "broker-0").mkdir()
    source = FIXTURES / "diverged-unclean" / "broker-0"
    (place / "broker-0" / "meta.properties").write_bytes((source / "meta.properties").read_bytes())
    (place / "broker-0" / "replication-offset-checkpoint").write_text("0\n1\nledger 1 58\n")
    return audit_all(str(place), Settings())


def _torn(path: Path) -> Path:
    """Broker 2 has bytes behind its last sound batch."""
    sound = Replica([encode_batch(0, 3, 0)])
    return write_pair(path, sound, replace(sound, tail=b"\x07" * 50))


def _many_captures(path: Path) -> Results:
    """Seven partitions, each without the replica of another broker."""
    captures = [
        row("captures", topic="orders", partition=one, broker_id=one, state="named", missing=["directory"], named_by=[])
        for one in range(7)
    ]
    return results([partition(number=one) for one in range(7)], captures=captures)


def _needed(fenced: list[int], state: str = "named") -> Callable[[Path], Results]:
    """Brokers 3 and 4 are needed, and the metadata log says who is fenced."""
    captures = [
        orders_row("captures", broker_id=one, state=state, needed="isr", missing=["directory"],
            named_by=["isr"])
        for one in (3, 4)
    ]  # fmt: skip
    newest = orders_row("partition_states", source="metadata_log", replicas=[1, 2, 3, 4],
                 isr=[1, 2, 3, 4], fenced=fenced)  # fmt: skip
    made = results([partition(verdict="INCONCLUSIVE")], captures=captures, partition_states=[newest])
    return lambda path: made


def _unread_start(number: int) -> dict[str, Any]:
    """A log that begins at 0 and was read from 30 on."""
    return finding("CAP-NOT-FROM-START", "info", number=number, broker_id=2, start_offset=0, end_offset=30)


#: (what is made, what is said of it)
MADE: tuple[tuple[Callable[[Path], Results], str], ...] = (
    (lambda path: Results(AUDIT), "No partition was found."),
    (_leaderless,
     "10 committed records are missing from the log that the others are compared with in the only partition; broker 2 "
     "still has them."),
    (_deleted, "The metadata log has deleted the topic of orders-0: brokers remove what is left of it."),
    (_lost_tail,
     "Records that were committed are no longer on any replica here, in the only partition."),
    (_orphaned,
     "At least 17 committed records are missing from the leader in 1 of 4 partitions; no replica in the snapshot has them."),
    (_rows("COMMITTED_LOSS", "HWM-LOSS", "critical"),
     "Committed records are lost in the only partition."),
    (_rows("COMMITTED_LOSS", "REP-LEADER-SHORTER", "high", lost_records=0, lost_committed=0),
     "Other replicas hold offsets that the leader does not have in the only partition: ends of transactions, or empty "
     "or damaged batches, but no sound record."),
    (_one_replica(source="inferred"), "Nothing was compared: only one replica is in the snapshot."),
    (_one_replica(), "Nothing was compared: the only partition has one replica."),
    (_second_replica(replicas=(1, 2, 3)),
     "Broker 3 was not captured and may hold committed records of orders-0: if it is down, do not start it until its "
     "log is copied; add the copy and audit again."),
    (_second_replica(replicas=(1, 2, 3, 4), isr=(1, 2, 3, 4)),
     "Brokers 3 and 4 were not captured and may hold committed records of orders-0: if they are down, do not start them "
     "until their logs are copied; add the copies and audit again."),
    (_needed(fenced=[]),
     "Brokers 3 and 4 were not captured and may hold committed records of orders-0: copy their logs, add the copies and "
     "audit again."),
    (_needed(fenced=[3, 4]),
     "Brokers 3 and 4 were not captured and may hold committed records of orders-0: do not start them until their logs "
     "are copied; add the copies and audit again."),
    (lambda path: audit_whole(FIXTURES / "last-replica-standing-3-healed"),
     "The last replicas in sync of __consumer_offsets-0, transfers-0, transfers-1, transfers-2 and 1 more partition dropped "
     "out without a controlled shutdown and led again, the last of them on 2026-11-21: those that crashed may have lost the "
     "ends of their logs, and these files cannot tell."),
    (lambda path: audit_all(
         str(FIXTURES / "last-replica-standing-3-healed"), Settings(topics=("__consumer_offsets",))),
     "The last replica in sync of __consumer_offsets-0 dropped out without a controlled shutdown and led again on "
     "2026-11-21: if it crashed, it may have lost the end of its log, and these files cannot tell."),
    (_needed(fenced=[3, 4], state="absent"),
     "Brokers 3 and 4 were captured without orders-0 and may hold committed records of it: do not start them until their "
     "logs are copied; add the copies and audit again."),
    (_needed(fenced=[3, 4]),
     "Brokers 3 and 4 were not captured and are needed (no replica here is known to have all their records): orders-0."),
    (_bare_directory,
     "Broker 3 was not captured whole and may hold more committed records of orders-0: if it is down, do not start it "
     "until its log is copied; add the copy and audit again."),
    (_rows("CONSISTENT", "TRN-LOGGED", "medium", lost_records=0, lost_committed=0),
     "A broker cut its log below its own high watermark in orders-0; these files cannot tell what was lost by it."),
    (lambda path: audit_whole(FIXTURES / "kip101-isr-1-before"),
     "When brokers 1 and 2 start, they cut committed records off their logs in kip101-0; only a leader that stays up has "
     "them."),
    (_second_replica(replicas=(1, 2, 3)),
     "Broker 3 was not captured and is needed (no history says how it left the in-sync replicas): orders-0."),
    (_bare_directory,
     "Broker 3 was captured without *.log and is needed (no history says how it left the in-sync replicas): orders-0."),
    (lambda path: audit_whole(FIXTURES / "lagging"),
     "Broker 2 was captured without this partition: __consumer_offsets-0."),
    (lambda path: audit_whole(FIXTURES / "recreated-1-before"),
     "Broker 2 was captured with a directory of another topic id in place of these partitions: orders-0 and orders-1."),
    (lambda path: audit_whole(SAMPLES / "lost-quorum"),
     f"If a majority of the controllers lost their disks, replica-audit quorum {shlex.quote(str(SAMPLES / 'lost-quorum'))} says "
     "which copy of the metadata log is the right one."),
    (_many_captures, "Replicas of 2 more partitions are missing: captures in audit.json."),
    (lambda path: audit_whole(FIXTURES / "corrupted-same-broker-id"),
     "A second copy on broker 0 was not used in codecs-1."),
    (lambda path: audit_whole(FIXTURES / "recreated-1-before"),
     "Only one replica of orders-2 is in the snapshot, and nothing was compared with it."),
    (_one_has_one_replica, "There is one replica of orders-0, and nothing to compare with it."),
    (_second_replica(source="inferred"),
     "No source says which replicas of orders-0 exist: 2 copies were compared, and one that is not here may hold more."),
    (lambda path: results(
         [partition(verdict="INCONCLUSIVE")],
         [finding("CAP-MISSING-SEGMENT", "medium", broker_id=2, evidence=[wanted_range(2, "a.log", 5, 7)._asdict()])]),
     "Bytes of broker 2 that were not collected are needed for orders-0, 7 bytes in all: replica-audit show SNAPSHOT --wanted "
     "wanted.json names them, and capture-plan --wanted wanted.json collects only these."),
    (lambda path: results([partition(verdict="INCONCLUSIVE")], [finding("CAP-MOVED", "medium")]),
     "orders-0 moved while being collected, and what looks wrong may be due to that: replica-audit show SNAPSHOT --wanted "
     "wanted.json names it, and capture-plan --wanted wanted.json reads it again on all brokers."),
    (lambda path: audit_all(str(collect_snapshot(_torn(path / "snapshot"), path / "evidence")), Settings(quiet=True)),
     "If broker 2 is down, do not start it until then."),
    (lambda path: audit_all(
         str(collect_snapshot(FIXTURES / "healthy", path / "evidence", "--headers", "always")), Settings(quiet=True)),
     "Damage inside 450 of the 474 batches of brokers 0, 1 and 2 would not be seen: only their headers were collected, and no "
     "checksums computed."),
    (lambda path: results([partition()], [_unread_start(0)]),
     "The logs of orders-0 were compared from offset 30 on; what is below is not known."),
    (lambda path: results([partition(), partition(number=1)], [_unread_start(0), _unread_start(1)]),
     "The logs of orders-0 and orders-1 were compared from an offset after their start; what is below is not known."),
    (lambda path: replace(results(), audit={**AUDIT, "options": {"since": "a1"}}),
     "Only what lies above the offsets that audit a1 verified, and what has changed since, was compared."),
    (lambda path: results(
         [partition(verdict="COMMITTED_LOSS", lost_records=4, lost_committed=4),
          partition(number=1, verdict="COMMITTED_LOSS", lost_records=0, lost_committed=0)],
         [finding("HWM-LOSS", "critical"), finding("HWM-CP-ABOVE-LEO", "critical", number=1)],
     ),
     "Committed records of orders-1 are no longer on any replica here."),
    (lambda path: results(
         [partition(number=number, verdict="COMMITTED_LOSS", lost_records=4, lost_committed=4) for number in (0, 1)],
         [finding("HWM-LOSS", "critical"), finding("HWM-LOSS", "critical", number=1, confidence="suspect")],
     ),
     "That all of them were committed in orders-1 is suspected, not proven."),
    (lambda path: results(
         [partition(verdict="COMMITTED_LOSS", lost_records=1, lost_committed=1)],
         [finding("HWM-LOSS", "critical", confidence="likely")],
     ),
     "That it was committed is likely, not proven."),
    (_rows("COMMITTED_LOSS", "HWM-LOSS", "critical"),
     "In 1 partition it is not known how many records are lost."),
    (_rows("COMMITTED_LOSS", "HWM-GONE", "high", lost_records=0, lost_committed=0),
     "Records that an earlier audit saw are gone from every replica in the only partition."),
    (lambda path: results([partition()], [finding("META-FORK", "critical", topic=None, number=None, broker_id=100)]),
     "Copies of the metadata log are stale or contradict each other: start no controller before all of them are copied."),
    (lambda path: results(captures=[row("captures", topic="__cluster_metadata", broker_id=100, state="absent")]),
     "Controller 100 has no metadata log to vote with, and without it there is no majority: start no controller before "
     "the metadata log of every node is copied."),
    (_rows("CONSISTENT", "HWM-GONE", "high", lost_records=0, lost_committed=0),
     "Records that an earlier audit saw in orders-0 are gone from every replica."),
    (_rows("WILL_LOSE_ON_TRUNCATION", "DIV-EPOCH", "high"),
     "The next truncation or election may lose records in the only partition."),
    (_rows("UNCOMMITTED_DIVERGENCE", "DIV-EPOCH", "medium", lost_records=0, lost_committed=0),
     "Replicas differ in the only partition, but the leader has every record that producers sent."),
    (_equal_without_times,
     "Replicas differ in the only partition, but the leader has records of equal content."),
    (_rows("UNCOMMITTED_DIVERGENCE", "DIV-EPOCH", "medium"),
     "Replicas differ in the only partition, but only in records that nothing proves committed."),
    (_rows("CONSISTENT", "TXN-HANGING", "medium", lost_records=0, lost_committed=0),
     "A transaction that will never end stops read_committed consumers at offset 7 of orders-0."),
    (_two_parts,
     "15 committed records at offsets 10 to 19 are not on the leader, broker 1; brokers 2 and 3 still have them, each a "
     "part of them."),
    (_same_epoch,
     "Broker 2 has records of epoch 0 at offsets 10 to 19, where broker 1 has other records of epoch 0; the fetch protocol "
     "keeps everything below 20, so this stays. There are 10 records, written at 2023-11-14T22:13:20.000Z; that they "
     "were committed is likely, not proven: its own high watermark reached 20."),
    (_hole,
     "Broker 2 has records of epoch 0 at offsets 10 to 14, where broker 1 has nothing; the fetch protocol keeps everything "
     "below 30, so this stays. There are 5 records, written at 2023-11-14T22:13:20.000Z; nothing proves that they were "
     "committed."),
    (_four_places, "Broker 2 differs in 1 place more, listed below."),
)  # fmt: skip


@pytest.mark.parametrize(("make", "sentence"), MADE, ids=[entry[1][:40] for entry in MADE])
def test_a_sentence_is_said_of_what_was_made_so(make: Callable[[Path], Results], sentence: str, tmp_path: Path) -> None:
    assert sentence in sentences(say_all(make(tmp_path)))


def test_every_place_that_says_something_is_in_a_table(tmp_path: Path) -> None:
    """Of each call of `say` a table has a sentence: none is left that nothing was shown to make true."""
    tested = [(of_capture(capture), sentence) for capture, sentence, _ in TABLE]
    tested += [(say_all(audit_whole(ATTACKS / snapshot)), sentence) for snapshot, sentence in ATTACKED]
    for number, (make, sentence) in enumerate(MADE):
        (place := tmp_path / str(number)).mkdir()
        tested.append((say_all(make(place)), sentence))
    shown = {site for said, sentence in tested for site, at_site in said.items() if sentence in at_site}
    assert sorted(sites() - shown) == []


EVERY_CAPTURE = sorted({entry[0] for entry in TABLE})


@pytest.mark.parametrize("capture", EVERY_CAPTURE)
def test_no_sentence_speaks_of_every_broker_or_of_nobody_in_particular(capture: str) -> None:
    for sentence in some(sentences(of_capture(capture))):
        assert "all brokers" not in sentence.replace("all brokers here were stopped cleanly", ""), sentence
        assert not any(words in sentence for words in ("this broker", "this replica", "  ", "..")), sentence
        assert "None" not in sentence.removeprefix("None of the "), sentence
        # A remedy begins with the place that it is for.
        assert sentence[0].isupper() or sentence[0].isdigit(), sentence
