"""Do first: the beginning of the plan, each sentence held against a fact of the capture that makes a report say it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.captures import audit_whole
from tests.support.fixtures import ATTACKS, FIXTURES, is_up, truth
from tests.support.report_rows import AUDIT, answers_of, finding, objects, orders_row, partition, results
from tests.support.scenario import audit, written
from tests.support.snapshots import Replica

from replica_audit.config import Settings
from replica_audit.elect.election_plan import advise
from replica_audit.report.answer import build_answer
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.sentences import plain_text
from replica_audit.report.what_to_do import LIMITS, SAFE
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_all

Truth = Mapping[str, Any]


def steps_of(found: Results) -> list[str]:
    return [
        " ".join([plain_text(step.sentence), *step.commands])
        for step in build_answer(found, build_verdict(found, "high")).todo.first
    ]


def acknowledged(told: Truth, phase: str, place: str) -> int:
    """Records that producers were acknowledged in the phases whose names begin so."""
    return sum(
        counts[place][2]
        for name, one in told["phases"].items()
        if name.startswith(phase) and place in (counts := one.get("first_last_acked_failed", {}))
    )


#: (capture, a step that its report begins with, the fact in truth.json that makes it true)
TABLE: tuple[tuple[str, str, Callable[[Truth], bool]], ...] = (
    ("diverged-unclean",
     "Do not start broker 0 until its log directory is copied: it holds 84 committed records that the leader does not "
     "have, in ledger-0, ledger-1 and ledger-2; they are deleted as soon as it follows. This snapshot has a copy in "
     "broker-0/ledger-0, broker-0/ledger-1 and broker-0/ledger-2: keep it. On the broker: tar -czf broker-0.tgz "
     "-C LOG_DIR_OF_0 -- ./ledger-0 ./ledger-1 ./ledger-2",
     lambda t: not is_up(t, 0) and is_up(t, 1)),
    ("diverged-unclean",
     "ledger-0: Each choice loses something: salvage [34, 52) from broker 1 first, then elect broker 0. Broker 0 loses 18 "
     "committed records; broker 1, the next best, would lose 45 committed records.",
     lambda t: acknowledged(t, "B, after unclean election", "ledger-0") == 18 and acknowledged(t, "A only", "ledger-0") == 45),
    ("diverged-unclean",
     "ledger-2: Elect broker 0. Broker 0 loses nothing; broker 1, the next best, would lose 22 committed records.",
     lambda t: acknowledged(t, "B, after unclean election", "ledger-2") == 0),
    ("last-replica-standing-2-cut",
     "Do not start broker 1 or 2 until the log directory of one of them is copied: each holds the same 48 committed "
     "records that the leader does not have, in transfers-0, transfers-1 and transfers-3; they are deleted as soon as "
     "they follow. This snapshot has a copy in broker-1/transfers-0, broker-1/transfers-1 and broker-1/transfers-3: keep it. "
     "On the broker: tar -czf broker-1.tgz -C LOG_DIR_OF_1 -- ./transfers-0 ./transfers-1 ./transfers-3",
     lambda t: not is_up(t, 1) and not is_up(t, 2) and is_up(t, 0)),
    # The listing was taken before anything stopped: it does not tell who is up now.
    ("zk-2.8-diverged-unclean",
     "If broker 0 is down, do not start it until its log directory is copied; if it is up, copy the directory now: it "
     "holds 103 likely committed records that the leader does not have, in ledger-0, ledger-1 and ledger-2; they are deleted as "
     "soon as it follows. This snapshot has a copy in broker-0/ledger-0, broker-0/ledger-1 and broker-0/ledger-2: keep it. "
     "On the broker: tar -czf broker-0.tgz -C LOG_DIR_OF_0 -- ./ledger-0 ./ledger-1 ./ledger-2",
     lambda t: "A=0 led alone and took records" in t["about"]),
    ("txn-failover-1-unclean",
     "retried-0 and retried-1: Elect broker 0. Broker 0 loses nothing that the copies here have; neither would brokers 1 and 2. "
     "Broker 0 is eligible.",
     lambda t: not is_up(t, 0)),
    ("txn-failover-2-healed",
     "End the hanging transaction of wallet-1, which stops read_committed consumers at offset 9: abort it once find-hanging "
     "has confirmed it; its coordinator says that it was committed, so produce again what the abort hides. If its "
     "application still runs with that transactional id, do not abort it: the next transaction that it commits with records "
     "of that partition commits this one, too. "
     "kafka-transactions.sh --bootstrap-server HOST:PORT find-hanging --topic=wallet --partition 1 "
     "kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic=wallet --partition 1 --start-offset 9",
     lambda t: t["watermarks_from_clients"]["wallet-1"]["last_stable_offset"] == 9),
    ("kip101-isr-2-truncated",
     "Keep broker 2 up until broker 1 has caught up in kip101-0: broker 1 is in sync but lacks some of what is committed. If "
     "broker 2 must stop, stop broker 1 first.",
     lambda t: "1 truncated to its high watermark" in t["about"]),
    ("lagging",
     "__consumer_offsets-0, orders-0, orders-1 and orders-2: Find out why the other replicas are not in sync: their brokers "
     "are down, or cannot keep up (REP-UNDER-REPLICATED).",
     lambda t: not is_up(t, 2)),
)  # fmt: skip


@pytest.mark.parametrize(("capture", "step", "fact"), TABLE, ids=[f"{one[0]} {one[1][:30]}" for one in TABLE])
def test_a_capture_begins_with_what_is_true_of_it(capture: str, step: str, fact: Callable[[Truth], bool]) -> None:
    assert step in steps_of(audit_whole(FIXTURES / capture))
    assert fact(truth(capture))


def test_of_brokers_of_which_nothing_tells_whether_they_are_up_neither_is_assumed() -> None:
    first, *_ = steps_of(audit_whole(ATTACKS / "12-minor" / "third-replica-proves"))
    assert first.startswith(
        "If broker 2 or 3 is down, do not start it until the log directory of one of them is copied; if it is up, copy the "
        "directory now: each holds the same 7 likely committed records that the leader does not have, in t-0;"
    )


@pytest.mark.parametrize(
    "capture", ["diverged-unclean", "last-replica-standing-2-cut", "quorum3-1-unclean", "diverged-multi"]
)
def test_do_first_is_the_beginning_of_the_plan(capture: str) -> None:
    """What keeps records safe comes first there too, in the same words; nothing else is advised."""
    found = audit_whole(FIXTURES / capture)
    plan, told = advise(found), steps_of(found)
    safe = [step for step in plan.steps if step.action in SAFE]
    assert [step.action for step in plan.steps[: len(safe)]] == [step.action for step in safe]
    shown = [step for action in SAFE for step in [one for one in safe if one.action == action][: LIMITS[action]]]
    assert [line.startswith(step.text) for step, line in zip(shown, told, strict=False)] == [True] * len(shown)


def _lost(brokers: Mapping[int, int], kind: str | None, **options: Any) -> Callable[[Path], Results]:
    """Broker 1 leads in epoch 2 from offset 10; the others have so many records of epoch 1 there."""

    def made(path: Path) -> Results:
        shared = written(0, 10, 0)
        logs = {1: Replica([*shared, *written(10, 14, 2)])}
        logs |= {broker: Replica([*shared, *written(10, 10 + count, 1)]) for broker, count in brokers.items()}
        kinds = [] if kind is None else [{"broker_id": one, "kind": kind} for one in logs]
        return answers_of({**AUDIT, "inputs": {"brokers": kinds}}, audit(path, logs, **options).tables)

    return made


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("live", "Copy the log directory of broker 2 now: it holds 10 likely committed records"),
        ("killed", "Do not start broker 2 until its log directory is copied: it holds 10 likely committed records"),
        ("stopped", "Do not start broker 2 until its log directory is copied: it holds 10 likely committed records"),
    ],
)
def test_a_broker_is_spoken_of_as_it_was_when_it_was_copied(kind: str, said: str, tmp_path: Path) -> None:
    assert steps_of(_lost({2: 10}, kind)(tmp_path))[0].startswith(said)


def test_brokers_that_hold_the_same_are_copied_once(tmp_path: Path) -> None:
    (first, *_) = steps_of(_lost({2: 10, 3: 10}, "killed")(tmp_path))
    assert first.startswith(
        "Do not start broker 2 or 3 until the log directory of one of them is copied: each holds the same"
    )


def test_without_costs_what_is_held_is_kept_all_the_same() -> None:
    """Where replicas differ in very many batches, a run works out no costs."""
    whole = audit_whole(FIXTURES / "diverged-unclean")
    steps = steps_of(replace(whole, elections=[]))
    assert steps[0].startswith("Do not start broker 0 until its log directory is copied: it holds 84 committed records")
    assert steps[1] == (
        "ledger-0, ledger-1 and ledger-2: No plan: this audit has not computed the cost of each choice; elect does."
    )


def test_a_remedy_names_the_brokers_of_a_partition_together_and_never_one_that_nobody_knows() -> None:
    rows = [finding("LOG-CORRUPT-MID", "high", broker_id=broker) for broker in (2, 1)]
    of_nobody = finding("CAP-UNREADABLE", "high", topic=None, number=None)
    steps = steps_of(results([partition(verdict="LATENT_CORRUPTION")], [*rows, of_nobody]))
    assert any(step.startswith("orders-0 on brokers 1 and 2: ") for step in steps)
    assert not [step for step in steps if "None" in step]


def test_the_directory_of_a_replica_is_moved_away_once() -> None:
    """The second time would take what the broker has just fetched."""
    rows = [finding("LOG-CORRUPT-MID", "high", broker_id=2)]
    rows += [finding("DIV-CORRUPT", "high", broker_id=broker) for broker in (2, 2, 3)]
    steps = [
        step for step in steps_of(results([partition(verdict="LATENT_CORRUPTION")], rows)) if "directory away" in step
    ]
    named = {step.partition(": ")[0]: step.rpartition(" (")[2] for step in steps}
    assert named == {
        "orders-0 on broker 2": "LOG-CORRUPT-MID). Also found there: DIV-CORRUPT; replica-audit explain says what else to do.",
        "orders-0 on broker 3": "DIV-CORRUPT).",
    }


def test_no_replica_is_rebuilt_for_what_is_normal_where_a_follower_is_behind() -> None:
    """A compacted log has gaps; the step said to rebuild the leader for them."""
    rows = [finding(code, "info", broker_id=1) for code in ("LOG-GAP", "DIV-PRESENCE")]
    lag = finding("REP-LAG", "info", broker_id=2)
    steps = steps_of(results([partition(verdict="LAGGING")], [*rows, lag]))
    assert not [step for step in steps if "directory away" in step]
    assert steps == steps_of(results([partition(verdict="LAGGING")], [lag]))


def test_of_all_remedies_that_rebuild_a_replica_the_worst_is_a_step() -> None:
    codes = {"LOG-GAP": "medium", "LOG-OFFSET-DUPLICATE": "high", "LOG-CRC-BLIND": "high", "DIV-PRESENCE": "high"}
    rows = [finding(code, severity, broker_id=2) for code, severity in codes.items()]
    steps = steps_of(results([partition(verdict="COMMITTED_DIVERGENCE")], rows))
    (step,) = [step for step in steps if "directory away" in step]
    assert step.startswith("orders-0 on broker 2: Keep a copy of the replica on broker 2, and rebuild it")
    assert "only while another one leads the partition and is sound there, one broker at a time" in step
    assert (
        "(LOG-OFFSET-DUPLICATE). Also found there: DIV-PRESENCE, LOG-CRC-BLIND, LOG-GAP; replica-audit explain" in step
    )


def test_no_replica_is_rebuilt_before_it_is_decided_which_side_is_right() -> None:
    rows = [finding("DIV-HIDDEN", "critical", broker_id=2), finding("LOG-OFFSET-REGRESSION", "high", broker_id=1)]
    steps = steps_of(results([partition(verdict="COMMITTED_DIVERGENCE")], rows))
    hidden, of_leader = [step for step in steps if "directory away" in step]
    assert hidden.endswith("(DIV-HIDDEN).") and "Before that" not in hidden
    assert "First decide which side of orders-0 (DIV-HIDDEN) is right, and leave leadership as it is" in of_leader


def test_a_remedy_in_a_plan_is_a_sentence_and_names_brokers_that_no_partition_is_said_of() -> None:
    rows = [
        finding("LOG-TAIL-PARTIAL", "medium"),
        finding("CHK-MISSING", "medium", topic=None, number=None, broker_id=2),
    ]
    steps = steps_of(results([partition(verdict="LATENT_CORRUPTION")], rows))
    assert any(": Nothing to do after a crash or on a live copy." in step for step in steps)
    assert any(step.startswith("Broker 2: ") for step in steps)
    assert not [step for step in steps if "This snapshot" in step or ": None" in step]


def test_who_is_started_last_is_said_of_no_broker_that_the_plan_starts() -> None:
    whole = audit_whole(FIXTURES / "elr-leaderless")
    lacks = [finding("CHK-MISSING", "medium", topic=None, number=None, broker_id=broker) for broker in (0, 1, 2, 7)]
    plan = advise(replace(whole, findings=[*whole.findings, *objects("findings", lacks)]))
    started = {broker for step in plan.steps if step.action == "start" for broker in step.brokers}
    (told,) = (step for step in plan.steps if "CHK-MISSING" in step.text)
    assert started and {0, 1, 2, 7} - set(told.brokers) == started


def test_one_partition_that_cannot_be_judged_takes_no_other_steps_away() -> None:
    whole = audit_whole(FIXTURES / "diverged-unclean")
    unread = partition("other", verdict="INCONCLUSIVE")
    more = finding("CAP-UNREADABLE", "high", topic="other")
    with_it = steps_of(
        replace(
            whole,
            partitions=[*whole.partitions, *objects("partitions", [unread])],
            findings=[*whole.findings, *objects("findings", [more])],
        )
    )
    assert [
        step for step in steps_of(whole) if step not in with_it and "the cost of every other choice" not in step
    ] == []
    assert any(step.startswith("other-0: ") for step in with_it)


def test_equal_advice_is_one_line_with_its_partitions() -> None:
    whole = audit_whole(FIXTURES / "diverged-unclean")
    tables = {}
    for name in ("partitions", "replicas", "elections", "partition_states", "findings", "divergences", "truncations"):
        tables[name] = whole.table(name) + [
            one._replace(topic=f"copy-{number}")
            for number in range(6)
            for one in whole.table(name)
            if (one.topic, one.partition) == ("ledger", 2)
        ]
    steps = steps_of(replace(whole, **tables))
    assert any(
        step.startswith("copy-0-2, copy-1-2, copy-2-2, copy-3-2 and 3 more partitions: Elect broker 0.")
        for step in steps
    )


def test_rows_of_a_table_that_was_not_computed_are_no_reason_to_fail() -> None:
    assert steps_of(results([partition()], replicas=[orders_row("replicas", broker_id=1)])) == []


@pytest.mark.parametrize(("isr", "is_said"), [((2,), True), ((1,), False)], ids=["it follows", "a leader changes"])
def test_a_directory_is_moved_away_before_its_broker_follows_as_it_is(
    tmp_path: Path, isr: tuple[int, ...], *, is_said: bool
) -> None:
    """No decision asked for that, so that nothing was there to do first."""
    whole = written(0, 60, 1)
    holed = Replica([*whole[:2], *whole[4:]], high_watermark=60)
    audit(tmp_path, {1: holed, 2: Replica(whole, high_watermark=60)}, leader=isr[0], isr=isr, quiesced=True)
    told = steps_of(audit_all(str(tmp_path), Settings(kafka_version="4.3.1")))
    moved = [one for one in told if one.startswith("Move orders-0 of broker 1 out of its log directory")]
    assert bool(moved) == is_said, told
    assert all("mv -T -- LOG_DIR_OF_1/orders-0 put-aside-1/orders-0" in one for one in moved)
    assert all("from the leader. Before: Broker 1 is down; put-aside-1 is on another disk" in one for one in moved)
    assert told[-1].endswith(f"replica-audit elect {tmp_path} --kafka-version 4.3.1")
