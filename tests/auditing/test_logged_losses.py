"""Elections and cuts that cost records, by lines of brokers' own logs, and cuts that are still to come: what is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.support.encoder import encode_marker
from tests.support.scenario import Answer, audit, written
from tests.support.snapshots import TOPIC, TOPIC_ID, Replica

from replica_audit.auditing.finding import finding, finding_id
from replica_audit.auditing.findings.trn import TRN_BELOW_HW
from replica_audit.model import TopicPartition

COMMON = written(0, 30, 0)
#: Led in epoch 0, and went on with ten records of its own.
OLD = Replica([*COMMON, *written(30, 40, 0, "old ")], high_watermark=30)
#: Led in epoch 1, from 30 on.
NEW = Replica([*COMMON, *written(30, 35, 1, "new ")], high_watermark=30)


def leads(broker: int, epoch: int, offset: int, isr: Sequence[int]) -> str:
    return (
        f"INFO [Broker id={broker}] Leader orders-0 with topic id Some({TOPIC_ID}) starts at leader epoch {epoch} from offset "
        f"{offset} with partition epoch 7, high watermark 0, ISR [{','.join(map(str, isr))}]"
    )


def isr(broker: int, *ids: int) -> str:
    return (
        f"INFO [Partition orders-0 broker={broker}] ISR updated to {','.join(map(str, ids))}  and version updated to 3"
    )


def elected(leader: int, epoch: int, *isr: int) -> str:
    state = f'{{"leader":{leader},"leader_epoch":{epoch},"isr":{list(isr)}}}'
    return f"DEBUG [OfflinePartitionLeaderSelector]: New leader and ISR for partition [orders,0] is {state}"


def unclean(leader: int) -> str:
    return f"WARN [OfflinePartitionLeaderSelector]: No broker in ISR is alive for [orders,0]. Elect leader {leader} from live"


def cut(offset: int) -> str:
    return f"INFO [Log partition=orders-0, dir=/d] Truncating to offset {offset}"


def cut_below(offset: int, mark: int) -> str:
    return f"WARN [UnifiedLog partition=orders-0, dir=/d] Truncating orders-0 to offset {offset} below high watermark {mark}"


def asked(offset: int, why: str) -> str:
    return f"INFO Truncating partition orders-0 with TruncationState(offset={offset}, completed=true) due to {why}"


def by_mark(offset: int) -> str:
    return asked(offset, f"local high watermark {offset}")


def by_epoch(offset: int, epoch: int) -> str:
    return asked(offset, f"leader epoch and offset EpochEndOffset(leaderEpoch={epoch}, endOffset={offset})")


def scene(
    path: Path, brokers: dict[int, Replica], logs: Mapping[int, Mapping[int, str]], leader: int = 2, **named
) -> Answer:
    """`logs`: broker id → second → its line of that second. Only `leader` is in sync."""

    def write() -> None:
        for broker, lines in logs.items():
            file = path / f"broker-{broker}" / "logs" / "server.log"
            file.parent.mkdir(parents=True)
            file.write_text("".join(f"[2024-01-31 10:00:{at:02d},000] {line}\n" for at, line in lines.items()))

    return audit(path, brokers, leader=leader, isr=(leader,), before_audit=write, **named)


def place(broker: int, line: int, second: int) -> str:
    return f"by broker-{broker}/logs/server.log line {line}, 2024-01-31 10:00:{second:02d},000"


def evidence(row: dict, *kinds: str) -> list[str]:
    return [one["text"] for one in row["evidence"] if one["kind"] in kinds]


# --- elections

BY_CONTROLLER = {1: elected(1, 0, 1, 2), 2: elected(1, 0, 1), 3: unclean(2), 4: elected(2, 1, 2)}
BY_LEADERS = {1: {1: leads(1, 0, 0, (1, 2)), 2: isr(1, 1)}, 2: {4: leads(2, 1, 30, (2,))}}
HEALED = {1: NEW, 2: NEW}
LEFT = {1: OLD, 2: NEW}
#: The records of broker 1 were sent again to broker 2, which lacks nothing.
SENT_AGAIN = {1: Replica([*COMMON, *written(30, 35, 0, "new ")], high_watermark=30), 2: NEW}
#: Broker 2 has a hole, which no election explains.
HOLE = {1: NEW, 2: Replica([*COMMON[:2], *NEW.batches[3:]], high_watermark=30)}


@pytest.mark.parametrize(
    ("brokers", "logs", "leader", "severity", "confidence"),
    [
        (LEFT, {2: BY_CONTROLLER}, 2, "high", "proven"),
        (LEFT, BY_LEADERS, 2, "high", "likely"),
        (LEFT, {2: {1: elected(1, 0, 1), 4: elected(2, 1, 2)}}, 2, "info", "likely"),
        (HEALED, {2: BY_CONTROLLER}, 2, "info", "proven"),
        (HEALED, BY_LEADERS, 2, "info", "likely"),
        (SENT_AGAIN, {2: BY_CONTROLLER}, 2, "info", "proven"),
        (HOLE, {2: BY_CONTROLLER}, 2, "info", "proven"),
        ({1: OLD, 2: NEW, 3: NEW}, {2: BY_CONTROLLER}, 3, "info", "proven"),
        ({1: NEW, 2: NEW, 3: OLD}, {2: BY_CONTROLLER}, 1, "info", "proven"),
    ],
    ids=[
        *(
            "a line says so",
            "by the ISR",
            "no log of who led before",
            "healed",
            "healed, by the ISR",
            "sent again",
            "a hole",
        ),
        *("another leads now", "the first leads again"),
    ],
)
def test_how_bad_and_how_sure_an_unclean_election_of_the_logs_is(tmp_path, brokers, logs, leader, severity, confidence):
    answer = scene(tmp_path, brokers, logs, leader)
    assert answer.one("META-UNCLEAN-ELECTION", 2) == (severity, confidence, 30, None)
    assert (answer.verdict == "WILL_LOSE_ON_TRUNCATION") == (severity == "high")


@pytest.mark.parametrize(
    ("logs", "epoch", "members", "line", "considered"),
    [
        (
            {2: BY_CONTROLLER},
            " in epoch 1",
            "only broker 1 was in sync",
            place(2, 3, 3),
            "no, a line says that no in-sync replica was alive",
        ),
        (BY_LEADERS, " in epoch 1", "only broker 1 was in sync", place(2, 1, 4), "no line says so"),
        (
            {2: {1: elected(1, 0, 1, 3), 4: elected(2, 1, 2)}},
            " in epoch 1",
            "brokers 1 and 3 were in sync",
            place(2, 2, 4),
            "no line says so; but the log of broker 1, which led before, is not here",
        ),
        (
            {1: {1: unclean(2)}},
            "",
            "who was in sync is not known",
            place(1, 1, 1),
            "no, a line says that no in-sync replica was alive",
        ),
    ],
    ids=["a line says so", "by the ISR", "no log of who led before", "one line alone"],
)
def test_what_is_told_of_an_unclean_election_of_the_logs(tmp_path, logs, epoch, members, line, considered):
    (row,) = scene(tmp_path, HEALED, logs).found("META-UNCLEAN-ELECTION")
    assert row["message"] == f"broker 2 was elected{epoch} though it was not in sync ({members}); {line}"
    assert evidence(row, "considered") == [f"it had joined the ISR again: {considered}"]
    assert row["start_offset"] == (30 if epoch else None)


def test_an_epoch_that_left_no_record_begins_nowhere(tmp_path):
    new = Replica([*COMMON, *written(30, 35, 2)])
    answer = scene(tmp_path, {1: new, 2: new}, {2: BY_CONTROLLER})
    assert answer.one("META-UNCLEAN-ELECTION", 2) == ("info", "proven", None, None)


def test_who_led_before_an_election_may_be_nobody(tmp_path):
    """While nobody led no replica could join the ISR, so that no line of a leader is missed."""
    logs = {1: {1: leads(1, 0, 0, (1, 2)), 2: elected(-1, 1), 4: elected(2, 2, 2)}}
    answer = scene(tmp_path, {1: NEW, 2: NEW}, logs)
    (row,) = answer.found("META-UNCLEAN-ELECTION")
    assert row["message"] == (
        f"broker 2 was elected in epoch 2 though it was not in sync (nobody was in sync); {place(1, 3, 4)}"
    )
    assert evidence(row, "considered") == ["it had joined the ISR again: no line says so"]


def test_the_line_of_an_election_is_told_of_one_broker_alone(tmp_path):
    answer = scene(tmp_path, {1: Replica(COMMON)}, {1: {1: unclean(2)}}, leader=1)
    assert answer.one("META-UNCLEAN-ELECTION", 2) == ("info", "proven", None, None)


# --- cuts


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ({2: cut(25)}, ""),
        ({2: by_mark(25), 3: cut(25)}, ", its own high watermark"),
        ({2: by_epoch(25, 0), 3: cut(25)}, ", as its leader's epoch 0 ends below the end of its own log"),
    ],
    ids=["unsaid", "its mark", "its epoch"],
)
def test_an_ordinary_cut_says_what_it_was_to(tmp_path, lines, why):
    answer = scene(tmp_path, HEALED, {1: {1: leads(1, 0, 0, (1, 2)), **lines}})
    (row,) = answer.found("TRN-LOGGED")
    assert row["message"] == f"broker 1 cut its log at 25{why}; {place(1, 1 + len(lines), 1 + len(lines))}"
    assert answer.one("TRN-LOGGED", 1) == ("info", "proven", 25, None)
    assert evidence(row, "considered") == [
        "fetched again from the leader: yes, as far as the captured logs show: the leader had what was dropped, or it was never "
        "committed"
    ]


@pytest.mark.parametrize(
    ("earlier", "said"),
    [
        ((), []),
        ((10,), ["1 earlier truncation of this replica, in broker_log_events"]),
        ((10, 20), ["2 earlier truncations of this replica, in broker_log_events"]),
    ],
)
def test_of_ordinary_cuts_the_last_is_reported_and_the_others_are_counted(tmp_path, earlier, said):
    lines = {2 + number: cut(offset) for number, offset in enumerate((*earlier, 25))}
    (row,) = scene(tmp_path, {1: NEW}, {1: {1: leads(1, 0, 0, (1, 2)), **lines}}, leader=1).found("TRN-LOGGED")
    assert row["start_offset"] == 25
    assert evidence(row, "log") == [f"line {2 + len(earlier)}: cut at 25"]
    assert evidence(row, "considered")[1:] == said


@pytest.mark.parametrize(("offset", "code"), [(30, "TRN-BELOW-HW"), (25, "TRN-LOGGED")])
def test_a_cut_that_may_have_cost_records_is_told_whatever_is_cut_later(tmp_path, offset, code):
    lines = {1: leads(1, 0, 0, (1, 2)), 2: cut_below(offset, 36), 3: cut(27)}
    answer = scene(tmp_path, {1: NEW}, {1: lines}, leader=1)
    found = [(row["code"], row["start_offset"]) for row in answer.tables["findings"] if row["code"].startswith("TRN")]
    assert sorted(found) == sorted([(code, offset), ("TRN-LOGGED", 27)])


def test_each_replica_s_last_cut_is_reported(tmp_path):
    logs = {1: {1: leads(1, 0, 0, (1, 2)), 3: cut(25)}, 2: {1: isr(2, 2), 4: cut(20)}}
    found = scene(tmp_path, HEALED, logs).found("TRN-LOGGED")
    assert {(row["broker_id"], row["start_offset"]) for row in found} == {(1, 25), (2, 20)}


def test_a_cut_before_the_replica_led_out_of_sync_may_have_cost_committed_records(tmp_path):
    lines = {1: leads(1, 0, 0, (1, 2)), 2: cut(30), 3: unclean(1), 4: leads(1, 1, 30, (1,))}
    answer = scene(tmp_path, HEALED, {1: lines}, leader=1)
    assert answer.one("TRN-LOGGED", 1) == ("medium", "likely", 30, None)
    (row,) = answer.found("TRN-LOGGED")
    assert row["message"] == (
        "broker 1 cut its log at 30, and led in epoch 1 without having been in sync again: anything committed from 30 on "
        f"is missing from every replica that followed it; {place(1, 2, 2)}"
    )
    assert evidence(row, "log") == ["line 2: cut at 30", "line 3: elected"]
    assert evidence(row, "considered") == [
        "fetched again from the leader: no, the leader was down, and this replica led next"
    ]


@pytest.mark.parametrize(
    ("offset", "code"), [(30, "TRN-BELOW-HW"), (25, "TRN-LOGGED")], ids=["where the leader's epoch begins", "elsewhere"]
)
def test_a_cut_below_the_mark_is_a_loss_where_the_leader_goes_on_otherwise(tmp_path, offset, code):
    answer = scene(tmp_path, HEALED, {1: {1: leads(1, 0, 0, (1, 2)), 2: cut_below(offset, 36)}})
    loss = code == "TRN-BELOW-HW"
    assert answer.codes("info") & {"TRN-BELOW-HW", "TRN-LOGGED"} == {code}
    assert answer.one(code, 1) == (("critical", "proven") if loss else ("medium", "likely")) + (offset, 36)
    assert (answer.verdict == "COMMITTED_LOSS") == loss
    (row,) = answer.found(code)
    assert (
        row["message"]
        == f"broker 1 cut its log at {offset}, below its own high watermark 36"
        + (": offsets 30 to 35 were committed, but broker 2 has records of epoch 1 from there on" if loss else "")
        + f"; {place(1, 2, 2)}"
    )
    if loss:
        assert evidence(row, "log", "lineage") == [
            "line 2: high watermark 36 before the cut",
            "epoch 1 of the reference begins at 30",
        ]


@pytest.mark.parametrize(
    ("entries", "epoch"),
    [
        ([(0, 0), (3, 30)], 3),
        ([(0, 0), (1, 30), (3, 30)], 3),
        ([(0, 0), (1, 30), (3, 33)], 1),
    ],
    ids=["one", "after one that wrote nothing", "before another"],
)
def test_the_epoch_in_which_the_leader_goes_on_is_the_last_that_begins_where_it_was_cut(tmp_path, entries, epoch):
    batches = [*COMMON, *written(30, 33, epoch, "new "), *written(33, 35, 3, "new ")]
    new = Replica(batches, epochs=entries, high_watermark=30)
    answer = scene(tmp_path, {1: new}, {1: {1: leads(1, 0, 0, (1, 2)), 2: cut_below(30, 31)}}, leader=1)
    (row,) = answer.found("TRN-BELOW-HW")
    assert f": offset 30 were committed, but broker 1 has records of epoch {epoch} from there on;" in row["message"]
    # One problem with one id, audit after audit: it is of the epoch before.
    same = finding(TRN_BELOW_HW, "", broker_id=1, offsets=(30, None), replica_epoch=epoch - 1)
    assert row["finding_id"] == finding_id(same, TopicPartition(TOPIC, 0), TOPIC_ID, None)


# --- cuts that are still to come

TAIL = written(30, 40, 0, "old ")
MARKER = encode_marker(30, "COMMIT", 0, producer_id=7, producer_epoch=0)


@pytest.mark.parametrize(
    ("tail", "mark", "gone"),
    [
        (TAIL, None, None),
        (TAIL, 25, None),
        (TAIL, 30, None),
        (TAIL, 31, "1 committed record goes with it"),
        (TAIL, 32, "2 committed records go with it"),
        (TAIL, 40, "10 committed records go with it"),
        (TAIL, 41, None),
        ([MARKER], 31, "the end of a committed transaction goes with it"),
    ],
    ids=[
        "unknown",
        "below the cut",
        "at the cut",
        "one above it",
        "two above it",
        "at the end",
        "past the end",
        "a marker alone",
    ],
)
def test_what_goes_with_a_cut_below_the_followers_own_high_watermark(tmp_path, tail, mark, gone):
    brokers = {1: NEW, 2: Replica([*COMMON, *tail], high_watermark=mark)}
    answer = audit(tmp_path, brokers, isr=(1,), in_order=True)
    assert answer.messages("TRN-BELOW-HW") == (
        [
            f"broker 2 will cut its log at 30, below its own high watermark {mark}: {gone}; copy the replica before it follows"
        ]
        if gone
        else []
    )
    assert not {code for code in answer.codes("info") if code.startswith("TRN")} - {"TRN-BELOW-HW"}


@pytest.mark.parametrize("other", [5, 25], ids=["below the cut", "up to the cut"])
def test_a_tail_that_is_merely_ahead_is_no_conflict_whatever_differs_below_it(tmp_path, other):
    """The leader's copy ends at 30, the other's at 40; they differ at five offsets, which stay."""
    at = other // 5
    follower = [*COMMON[:at], *written(other, other + 5, 0, "other "), *COMMON[at + 1 :], *written(30, 40, 0)]
    brokers = {1: Replica(COMMON, high_watermark=20), 2: Replica(follower, high_watermark=35)}
    answer = audit(tmp_path, brokers, protocol="kip-279")
    assert answer.cut(2, "kip-279")["truncate_to"] == 30
    assert [run[:3] for run in answer.runs(2)] == [("DIV-CONTENT", other, other + 5)]
    assert not answer.found("TRN-BELOW-HW"), answer
