"""Logs of the simulated cluster as text would show them: without epoch files and checkpoints, and no false word."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from tests.property.audits import AUDITED
from tests.property.capture import to_model
from tests.property.history import histories, narrate

from replica_audit.auditing.comparison_plan import ComparisonPlan
from replica_audit.auditing.conclude import conclude
from replica_audit.auditing.evidence import PartitionEvidence
from replica_audit.model import CheckpointFile, ReplicaDir

NOT_GIVEN = CheckpointFile("not_given", "")
UNPROVEN = ("checksums", "first_timestamps")


def as_text(evidence: PartitionEvidence) -> PartitionEvidence:
    """The same evidence where every log is known from text, and nothing else of a replica is."""
    replicas = tuple(
        (_stripped(directory), tuple(replace(one, source="dump_text", unproven=UNPROVEN) for one in segments))
        for directory, segments in evidence.replicas
    )
    return replace(evidence, replicas=replicas)


def _stripped(directory: ReplicaDir) -> ReplicaDir:
    return directory._replace(
        topic_id=None,
        clean_shutdown=None,
        epoch_file=NOT_GIVEN,
        checkpoint_epochs=None,
        high_watermark_file=NOT_GIVEN,
        recovery_point_file=NOT_GIVEN,
        log_start_file=NOT_GIVEN,
        cleaner_file=NOT_GIVEN,
        high_watermark_checkpoint=None,
        recovery_point_checkpoint=None,
        log_start_checkpoint=None,
        cleaner_checkpoint=None,
    )


@pytest.mark.parametrize("source", ["metadata_log", "topics_describe", "user", "inferred"])
def test_text_never_says_worse_than_files_nor_calls_a_conflict_consistent(source):
    verdicts: Counter[str] = Counter()
    for seed, cluster in histories(AUDITED):
        evidence, batches = to_model(cluster, source=source, quiesced=(True, None)[seed % 2])
        files, text = conclude(ComparisonPlan(evidence), batches), conclude(ComparisonPlan(as_text(evidence)), batches)
        told = "\n".join(f"  {one.severity} {one.code} broker {one.broker_id} {one.message}" for one in text.findings)
        story = f"leadership by {source}: files {files.verdict}, text {text.verdict}\n{told}\n{narrate(seed, cluster)}"
        verdicts[text.verdict] += 1
        severe = {(one.code, one.broker_id) for one in text.findings if one.severity in ("critical", "high")} - {
            (one.code, one.broker_id) for one in files.findings
        }
        # Which of several elections left a tail behind may take the epochs without records to tell.
        assert not {one for one in severe if one[0] not in ("DIV-EPOCH", "META-UNCLEAN-ELECTION")}, story
        if text.case.reference.facts.broker_id != files.case.reference.facts.broker_id:
            continue
        conflicts = any(run.conflicting for item in files.case.comparisons for run in item.runs)
        if conflicts:
            assert text.verdict not in ("CONSISTENT", "LAGGING"), story
        if (
            text.case.reference.facts.broker_id == cluster.leader_id
            and text.case.high_watermark.method != "capture_skew"
        ):
            mark = text.case.high_watermark
            assert mark.hw_lower <= cluster.committed_end <= mark.hw_upper, story
    assert verdicts["INCONCLUSIVE"] < sum(verdicts.values()) and len(verdicts) > 1
