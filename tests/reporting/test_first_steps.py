"""What to do first: whom to elect, and how many records a place has."""

from __future__ import annotations

from collections.abc import Mapping

from tests.reporting.rows import finding, partition, results, row

from replica_audit.answering.verdict import build_verdict
from replica_audit.reporting.answers.answer import build_answer
from replica_audit.reporting.answers.first_step_text import tell_costed_choices
from replica_audit.reporting.phrases.sentences import plain_text


def _steps(held: Mapping[int, Mapping[int, int]], lost: Mapping[int, int]) -> list[str]:
    """The steps, given the records that brokers hold by partition number, and those that each partition lost."""
    found = results(
        [
            partition(number=number, verdict="COMMITTED_LOSS", lost_records=count, lost_committed=count)
            for number, count in lost.items()
        ],
        replicas=[
            row("replicas", topic="orders", partition=number, broker_id=broker, log_dir=f"broker-{broker}", role="follower",
                clean_shutdown=False, lost_held=count, lost_committed_held=count)
            for broker, counts in held.items()
            for number, count in counts.items()
        ],
        divergences=[
            row("divergences", topic="orders", partition=number, broker_id=broker, code="DIV-EPOCH", start_offset=10,
                end_offset=10 + count, lost_records=count, committed=True)
            for broker, counts in held.items()
            for number, count in counts.items()
        ],
        truncations=[
            row("truncations", topic="orders", partition=number, broker_id=broker, protocol="fetch", truncate_to=10)
            for broker, counts in held.items()
            for number in counts
        ],
    )  # fmt: skip
    return [plain_text(step) for step in build_answer(found, build_verdict(found, "high")).first_steps]


def _decisions(steps: list[str]) -> list[str]:
    return [step.partition(", or take")[0] for step in steps if step.startswith("Then decide")]


def test_who_has_all_that_is_lost_is_the_one_to_elect():
    steps = _steps({2: {0: 2}, 3: {0: 1}}, {0: 2})
    assert _decisions(steps) == [
        "Then decide for orders-0: elect broker 2, which loses what the present leader took since"
    ]
    assert [step[:40] for step in steps if step.startswith("Keep this")] == [
        "Keep this snapshot, which has them in br",
        "Keep this snapshot, which has it in brok",
    ]


def test_where_nobody_has_all_that_is_lost_the_others_part_is_named():
    assert _decisions(_steps({0: {0: 30}, 2: {0: 6}}, {0: 33})) == [
        "Then decide for orders-0: elect broker 0 or 2, which loses what the present leader took since and what only the "
        "others have"
    ]


def test_each_partition_has_its_own_candidates():
    assert _decisions(_steps({0: {0: 5}, 2: {1: 7}, 3: {1: 7}}, {0: 5, 1: 7})) == [
        "Then decide for orders-1: elect broker 2 or 3, which loses what the present leader took since",
        "Then decide for orders-0: elect broker 0, which loses what the present leader took since",
    ]


def test_a_step_about_a_partition_without_files_speaks_of_no_broker_that_it_has_not_named():
    missing = finding("CAP-MISSING-REPLICA", "medium")
    found = results([partition(verdict="INCONCLUSIVE")], [missing])
    steps = [plain_text(step) for step in build_answer(found, build_verdict(found, "high")).first_steps]
    assert steps == [
        "orders-0: Where the answer depends on it, do not start the broker before its log directory is copied; add the copy "
        "to the snapshot and audit again. (CAP-MISSING-REPLICA)"
    ]


def test_a_loss_that_several_partitions_have_is_said_of_each():
    def choice(lost: int) -> dict:
        return {"candidate_id": 0, "standing": "isr", "lost_records": lost, "lost_committed": lost, "lost_possible": 0,
                "lost_at_most": False}  # fmt: skip

    best = {("orders", 0): choice(6), ("orders", 1): choice(6), ("orders", 2): choice(4), ("orders", 3): choice(0),
            ("orders", 4): choice(0)}  # fmt: skip
    (step,) = tell_costed_choices(best, results([partition()]))
    assert plain_text(step).partition(". The steps")[0] == (
        "Then decide: for each of orders-0 and orders-1 elect broker 0, which loses 6 committed records; for orders-2 elect "
        "broker 0, which loses 4 committed records; for orders-3 and orders-4 elect broker 0, which loses nothing"
    )


def _stood_in_for(is_here: bool) -> list[str]:
    """Broker 3 leads after an unclean election; broker 1 is compared with where its log is not here."""
    brokers = (1, 2, 3) if is_here else (1, 2)
    reference = 3 if is_here else 1
    found = results(
        [partition(verdict="COMMITTED_LOSS", leader_id=3, reference_id=reference, lost_records=4, lost_committed=4)],
        [finding("META-UNCLEAN-ELECTION", "info", broker_id=3)],
        replicas=[
            row("replicas", topic="orders", partition=0, broker_id=broker, log_dir=f"broker-{broker}", role="compared",
                record_count=20, lost_held=4 * (broker == 2), lost_committed_held=4 * (broker == 2))
            for broker in brokers
        ],
        divergences=[row("divergences", topic="orders", partition=0, broker_id=2, code="DIV-EPOCH", start_offset=10,
                         end_offset=14, lost_records=4, committed=True)],
        truncations=[row("truncations", topic="orders", partition=0, broker_id=2, protocol="fetch", truncate_to=10)],
    )  # fmt: skip
    return [plain_text(step) for step in build_answer(found, build_verdict(found, "high")).first_steps]


def test_where_the_leader_is_not_in_the_snapshot_nothing_is_said_of_what_it_lacks():
    steps = _stood_in_for(is_here=False)
    assert "it holds 4 committed records that broker 1 does not have, in orders-0" in steps[0]
    assert (
        "Copy the log directories of brokers 1 and 2 before they follow broker 3: it was elected uncleanly and leads orders-0, "
        "and its log is not in the snapshot, so that nothing tells what it lacks. An audit with its log does."
    ) in steps
    whole = _stood_in_for(is_here=True)
    assert "4 committed records that the leader does not have" in whole[0]
    assert not [step for step in whole if "before they follow" in step]
