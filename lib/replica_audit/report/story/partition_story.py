"""The story of one partition: who leads, who agrees, who differs, what is committed, what the next truncation does."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.auditing.catalogue import at_or_above, codes_with
from replica_audit.report.facts.by_partition import present, worst_first
from replica_audit.report.sentences import Sentence, Template, tell_finding
from replica_audit.report.story.agreement import tell_agreement
from replica_audit.report.story.differing_runs import is_differing_run, tell_differences
from replica_audit.report.story.follower_cuts import tell_truncations
from replica_audit.report.story.leaders import is_of_leadership, tell_history, tell_leadership, tell_past_elections
from replica_audit.results import PartitionRows
from replica_audit.schema import FindingRow, PartitionRow

#: How many findings the story has; the tables below it have them all.
FINDING_LIMIT = 4
HW_EXACT = Template("The high watermark is *exactly {lower}*{proof}.")
HW_AT_LEAST = Template("The high watermark is *at least {lower}*{proof}.")
HW_BETWEEN = Template("The high watermark is *between {lower} and {upper}*{proof}.")


def tell_story(partition: PartitionRow, rows: PartitionRows, protocol: str) -> list[Sentence]:
    """Sentences in chronological order; truncations are those of `protocol`."""
    return [
        *tell_history(rows.partition_states),
        *tell_past_elections(rows),
        *tell_leadership(partition, rows),
        *tell_agreement(rows),
        *tell_differences(rows),
        *_high_watermark(rows),
        *tell_truncations(rows, protocol),
        *_other_findings(rows),
    ]


def _high_watermark(rows: PartitionRows) -> Iterator[Sentence]:
    for row in rows.high_watermarks:
        lower, upper = row.hw_lower, row.hw_upper
        proofs = [text for text in (row.lower_evidence, row.upper_evidence) if text]
        proof = f": {' and '.join(dict.fromkeys(proofs))}" if proofs else ""
        if row.exact:
            yield HW_EXACT.say(lower=lower, proof=proof)
        elif upper is None:
            yield HW_AT_LEAST.say(lower=lower, proof=proof)
        else:
            yield HW_BETWEEN.say(lower=lower, upper=upper, proof=proof)


def find_untold(rows: PartitionRows) -> list[FindingRow]:
    """Findings that no sentence of the story reports, worst first: those of medium severity or more, and missing files.

    Positions of consumer groups are in a table of their own.
    """
    return [
        row
        for row in worst_first(present(rows.findings))
        if (at_or_above(row.severity, "medium") or row.code in codes_with("no_files"))
        and not any(item.kind == "group" for item in row.evidence or ())
        and not (is_of_leadership(row, rows) or is_differing_run(row, rows))
    ]


def _other_findings(rows: PartitionRows) -> Iterator[Sentence]:
    yield from map(tell_finding, find_untold(rows)[:FINDING_LIMIT])
