"""Snapshots that are easy to answer wrongly (tests/attacks), each with what must hold of the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
from tests.support.captures import told
from tests.support.fixtures import ATTACKS

from replica_audit.auditing.catalogue import at_or_above
from replica_audit.config import Settings
from replica_audit.model import TopicPartition
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_one


class Answer:
    """Findings and rows of one partition, for the questions."""

    def __init__(self, results: Results):
        self.results = results
        self.findings = results.rows("findings")
        self.mark = next(iter(results.rows("high_watermarks")), {})
        self.verdict = results.rows("partitions")[0]["verdict"]

    @property
    def exact(self) -> bool:
        return self.mark["exact"]

    def loud(self, severity: str = "medium") -> list[str]:
        return [row["code"] for row in self.findings if at_or_above(row["severity"], severity)]

    def codes(self) -> set[str]:
        return {row["code"] for row in self.findings}

    def cuts(self, protocol: str = "fetch") -> dict[int, int]:
        rows = self.results.rows("truncations")
        return {row["broker_id"]: row["truncate_to"] for row in rows if row["protocol"] == protocol}

    def may_be(self, offset: int) -> bool:
        """True if the interval of the high watermark contains `offset`; a null is no bound."""
        lower, upper = self.mark["hw_lower"], self.mark["hw_upper"]
        return lower <= offset and (upper is None or offset <= upper)


class Question(NamedTuple):
    snapshot: str
    partition: str
    holds: Callable[[Answer], bool]
    protocol: str = "fetch"


def quiet(answer: Answer) -> bool:
    return not answer.loud()


def accuses_no_leader(answer: Answer) -> bool:
    return not answer.codes() & {"HWM-AHEAD", "HWM-STUCK", "HWM-REGRESSED"}


def rotten(answer: Answer) -> bool:
    return answer.verdict == "LATENT_CORRUPTION" and not answer.loud("critical")


def unread(answer: Answer) -> bool:
    return answer.verdict == "INCONCLUSIVE" and not answer.mark.get("exact")


QUESTIONS: tuple[Question, ...] = (
    Question("01-purged-restarted/real-restarted", "purge-0", quiet),
    Question("01-purged-restarted/real-all-restarted", "purge-0", quiet),
    Question("01-purged-restarted/real-all-restarted", "purge2-0", quiet),
    Question("01-purged-restarted/real-streams", "repart-0", quiet),
    Question("02-compact-then-delete/real", "wc-0", quiet),
    Question("02-compact-then-delete/real-fresh", "wc-0", quiet),
    Question("02-compact-then-delete/real", "cf-0", quiet),
    Question("05-purged-follower-truncation/real-before", "dr-0", lambda answer: answer.cuts() == {0: 46, 1: 46}),
    Question("05-purged-follower-truncation/real-before", "ds-0", lambda answer: answer.cuts()[0] == 40),
    Question("05-purged-follower-truncation/real-before", "dt-0", lambda answer: answer.cuts()[0] == 40),
    Question(
        "05-purged-follower-truncation/real-after", "dr-0", lambda answer: "EPO-CACHE-MISSING" not in answer.codes()
    ),
    Question("05-purged-follower-truncation/by-hand", "t-0", lambda answer: answer.cuts()[2] == 46),
    Question("08-listing-of-reference-unreadable/awk", "ledger_eu-1-0", unread),
    Question("08-listing-of-reference-unreadable/iso", "ledger_eu-1-0", unread),
    Question(
        "08-listing-of-reference-unreadable/early-end",
        "ledger_eu-1-2",
        lambda answer: unread(answer) and not answer.loud("high") and answer.may_be(48) and not answer.cuts(),
    ),
    Question("09-foreign-directory/snapshot", "t-0", lambda answer: "META-FOREIGN-DIR" in answer.codes()),
    Question(
        "12-minor/third-replica-proves",
        "t-0",
        lambda answer: (
            {one["committed_dropped"] for one in answer.results.rows("truncations") if one["protocol"] == "fetch"}
            == {7}
        ),
    ),
    Question("07-timeline/outsider-catches-up", "t-0", accuses_no_leader),
    Question("07-timeline/first-hw-unknown", "t-0", accuses_no_leader),
    Question("07-timeline/no-last-caught-up", "t-0", accuses_no_leader),
    Question("07-timeline/outsider-row-absent", "t-0", accuses_no_leader),
    Question("07-timeline/window-expired-between", "t-0", accuses_no_leader),
    *(
        Question(f"06-epoch-bit-rot/{name}", "t-0", rotten)
        for name in ("follower-last", "leader-last", "follower-first", "follower-last-listing")
    ),
    Question("03-isr-member-lost-tail/real", "pl-0", lambda answer: answer.may_be(80)),
    Question("03-isr-member-lost-tail/real", "pm-0", lambda answer: answer.may_be(80)),
    Question("03-isr-member-lost-tail/recovery-point", "t-0", lambda answer: answer.may_be(92)),
    Question("03-isr-member-lost-tail/elr", "t-0", lambda answer: answer.may_be(50)),
    Question("04-leader-has-no-files/real-minisr", "mi-0", lambda answer: answer.may_be(75) and not answer.exact),
    Question("04-leader-has-no-files/real-two", "pair1-0", lambda answer: answer.may_be(55) and not answer.exact),
    Question("04-leader-has-no-files/describe", "t-0", lambda answer: not answer.exact),
    Question(
        "04-leader-has-no-files/user",
        "t-0",
        lambda answer: not answer.exact and "CAP-MISSING-REPLICA" in answer.codes(),
    ),
    Question(
        "10-quiesced-tail-of-later-epoch/real",
        "pp-1",
        lambda answer: answer.codes() & {"REP-LEADER-SHORTER", "HWM-LOSS"} and not answer.exact,
        "kip-101",
    ),
    Question("12-minor/total-loss-without-ids", "t-0", lambda answer: answer.verdict == "COMMITTED_LOSS"),
    Question(
        "10-quiesced-tail-of-later-epoch/real-zookeeper",
        "pp-1",
        lambda answer: answer.verdict == "COMMITTED_LOSS",
        "kip-101",
    ),
    *(Question(f"11-inherited-gaps/{name}", "t-0", quiet) for name in ("by-hand", "leader", "no-config")),
    Question("11-inherited-gaps/real", "gi-0", quiet),
    Question("12-minor/killed-and-corrupt", "t-0", lambda answer: answer.cuts() == {2: 50}),
    Question("12-minor/producer-began-anew", "t-0", quiet),
    Question(
        "12-minor/isr-member-short-quiesced",
        "t-0",
        lambda answer: answer.may_be(97) and answer.mark["method"] != "capture_skew",
    ),
    Question("12-minor/folder-without-log", "t-0", lambda answer: answer.verdict == "INCONCLUSIVE"),
    Question("12-minor/table-rows-twice", "ledger_eu-1-0", lambda answer: not answer.loud("high")),
)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda one: f"{one.snapshot}:{one.partition}")
def test_answers_that_are_easily_wrong(question):
    uri = str(ATTACKS / question.snapshot)
    results = audit_one(uri, TopicPartition.parse(question.partition), Settings(protocol=question.protocol))
    assert question.holds(Answer(results)), told(results)
