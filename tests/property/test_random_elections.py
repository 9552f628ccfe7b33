"""Statements of the audit on elections, compared with the simulated cluster, which knows what each elected leader had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.property.audits import AUDITED, _audits
from tests.property.cluster import Cluster, Elected
from tests.property.history import narrate
from tests.support.some import some

from replica_audit.auditing.compare.divergent_ranges import DivergentRange
from replica_audit.protocol.election import elections


def content_of(cluster: Cluster, broker_id: int, run: DivergentRange) -> bytes:
    """The first batch of the run."""
    return next(one.content for one in cluster.replicas[broker_id].batches if one.end_offset > run.start_offset)


def abandoned(cluster: Cluster, broker_id: int, run: DivergentRange) -> Elected | None:
    """The first election whose leader did not have the run's first batch, after the last whose leader had it."""
    content = content_of(cluster, broker_id, run)
    later = [one for one in cluster.elected if one.leader_epoch > run.replica_epoch]
    last = max((number for number, one in enumerate(later) if content in one.held), default=-1)
    return next((one for one in later[last + 1 :]), None)


def runs(**options: object) -> Iterator[tuple[str, Cluster, int, DivergentRange]]:
    """Every conflicting run that the audit gives a cause, with its broker."""
    for story, cluster, audit in _audits(source="metadata_log", **options):
        for item in audit.case.comparisons:
            for run in item.runs:
                if run.cause is not None:
                    yield story, cluster, item.follower.broker_id, run


def test_elections_of_the_history_are_those_that_were_held():
    for story, cluster, audit in some(_audits(count=AUDITED * 2, source="metadata_log")):
        found = [(one.leader_epoch, one.leader_id, one.clean) for one in elections(audit.evidence.leadership.history)]
        assert found == [(one.leader_epoch, one.leader_id, one.clean) for one in cluster.elected], story


def test_a_tail_is_called_pending_only_when_a_clean_election_left_it():
    seen = 0
    for story, cluster, broker_id, run in runs(count=AUDITED * 2):
        if run.cause.clean:
            seen += 1
            culprit = abandoned(cluster, broker_id, run)
            assert culprit is not None and culprit.clean, f"broker {broker_id} {run}\n{story}"
    assert seen


def test_records_are_said_to_be_left_behind_uncleanly_when_they_were():
    """Where the metadata log tells of the election; one of which nothing tells any more is suspected when unclean.

    A clean one is taken for an unclean one only where no file tells the two apart: no record of its epoch is left, or
    the unclean leader or a later one still had the records and lost them in a crash.
    """
    outcome: Counter[str] = Counter()
    for story, cluster, broker_id, run in runs(count=AUDITED * 2):
        culprit, content = abandoned(cluster, broker_id, run), content_of(cluster, broker_id, run)
        assert culprit is not None, story
        told = {one.leader_epoch for one in run.cause.elections}
        if run.cause.clean is None:
            outcome["left open"] += 1
            continue
        named = run.cause.election
        assert named is not None and run.cause.clean is named.clean, story
        assert named.leader_epoch in told, story
        outcome["told" if culprit.leader_epoch in told else "suspected"] += 1
        if culprit.leader_epoch in told or not culprit.clean:
            assert run.cause.clean is culprit.clean, f"broker {broker_id} {run}\n{story}"
        elif not run.cause.clean:
            since = [one for one in cluster.elected if one.leader_epoch >= named.leader_epoch]
            traces = {batch.leader_epoch for replica in cluster.replicas.values() for batch in replica.batches}
            lost_later = any(content in one.held for one in since)
            assert lost_later or culprit.leader_epoch not in traces, f"broker {broker_id} {run}\n{story}"
    assert outcome["told"] > outcome["suspected"] + outcome["left open"], outcome


def test_what_was_acknowledged_with_acks_all_is_within_what_may_have_been_promised():
    promised = spared = 0
    for story, cluster, broker_id, run in runs(count=AUDITED * 2, lost_tails=False):
        batches = cluster.replicas[broker_id].batches
        inside = [one for one in batches if one.end_offset > run.start_offset and one.base_offset < run.end_offset]
        committed = sum(
            min(one.end_offset, run.end_offset) - max(one.base_offset, run.start_offset)
            for one in inside
            if one.content in cluster.committed
        )
        assert run.cause.promised_records is not None
        assert run.cause.promised_records >= committed, f"{committed} of {run}\n{story}"
        promised += run.cause.promised_records > 0
        spared += run.cause.promised_records == 0
    assert promised and spared


def test_clean_histories_without_lost_tails_have_no_unclean_election_and_promise_nothing_that_is_dropped():
    for story, _, audit in some(_audits(source="metadata_log", unclean=False, lost_tails=False)):
        assert not [one for one in audit.findings if one.code in ("META-UNCLEAN-ELECTION", "DIV-EPOCH")], story
        assert not [one for one in audit.findings if one.severity in ("critical", "high")], story


def test_a_high_watermark_called_exact_is():
    methods: Counter[str] = Counter()
    for story, cluster, audit in _audits(count=AUDITED * 2, source="metadata_log"):
        mark = audit.case.high_watermark
        methods[mark.method] += 1
        if mark.method == "sole_isr":
            assert mark.hw_lower == cluster.committed_end, f"{mark}\n{narrate(0, cluster)}\n{story}"
    assert methods["sole_isr"]
