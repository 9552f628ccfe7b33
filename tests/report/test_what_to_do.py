"""Do first and what follows it are one plan: together all of it, and nothing twice."""

from __future__ import annotations

import pytest
from tests.support.captures import audit_whole
from tests.support.fixtures import ATTACKS, CAPTURES, FIXTURES
from tests.support.samples import SAMPLES

from replica_audit.elect.election_plan import advise
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.layout import clean
from replica_audit.report.markdown import escape, render_markdown
from replica_audit.report.plan_text import tell_decisions
from replica_audit.report.what_to_do import CHOICE_LIMIT, DECISION_LIMIT, first_steps, tell_what_to_do

SNAPSHOTS = [
    *(FIXTURES / name for name in CAPTURES if not name.startswith("corrupted-")),
    *sorted(path for path in ATTACKS.glob("*/*") if path.is_dir()),
    *sorted(path for path in SAMPLES.iterdir() if path.is_dir()),
]


def test_some_snapshots_have_more_than_do_first_says():
    assert sum(tell_what_to_do(audit_whole(path)).goes_on for path in SNAPSHOTS) > 20


@pytest.mark.parametrize("path", SNAPSHOTS)
def test_what_follows_do_first_is_what_it_leaves_of_the_plan(path):
    results = audit_whole(path)
    plan = advise(results)
    todo = tell_what_to_do(results)
    assert todo.first or all(row.verdict != "INCONCLUSIVE" for row in results.partitions)
    first = [step.number for step in first_steps(plan)]
    assert [step.number for step in todo.first if step.number is not None] == first
    told = [one for one in tell_decisions(plan)]
    said = [one for one in told if one.asks_for_something][:DECISION_LIMIT]
    if not todo.goes_on:
        assert not plan.decisions or (len(first) == len(plan.steps) and said)
        return
    later = [step.number for step in todo.steps]
    assert sorted(first + later) == [step.number for step in plan.steps]
    chosen = [one.sentence for one in todo.choices]
    assert not {clean(one.sentence) for one in said} & set(chosen)
    assert len(said) + len(chosen) == min(len(told), len(said) + CHOICE_LIMIT)
    assert {clean(one.sentence) for one in said} | set(chosen) <= {clean(one.sentence) for one in told}
    text = render_markdown(results, build_verdict(results, "high"))
    for sentence in (clean(one.sentence) for one in said):
        assert text.count(escape(sentence)) == [clean(one.sentence) for one in said].count(sentence), sentence
