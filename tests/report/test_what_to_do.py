"""Do first and what follows it are one plan: together all of it, and nothing twice."""

from __future__ import annotations

import pytest
from tests.support.captures import audit_whole
from tests.support.fixtures import ATTACKS, CAPTURES, FIXTURES
from tests.support.samples import SAMPLES

from replica_audit.elect.election_plan import advise
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.first_steps import CHOICE_LIMIT, first_decisions, first_steps, tell_what_to_do
from replica_audit.report.layout import clean
from replica_audit.report.markdown import escape, render_markdown
from replica_audit.report.plan_text import tell_decisions

SNAPSHOTS = [
    *(FIXTURES / name for name in CAPTURES if not name.startswith("corrupted-")),
    *sorted(path for path in ATTACKS.glob("*/*") if path.is_dir()),
    *sorted(path for path in SAMPLES.iterdir() if path.is_dir()),
]


def test_some_snapshots_have_more_than_do_first_says():
    assert sum(tell_what_to_do(audit_whole(path)) is not None for path in SNAPSHOTS) > 20


@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda path: path.name)
def test_what_follows_do_first_is_what_it_leaves_of_the_plan(path):
    results = audit_whole(path)
    plan, todo = advise(results), tell_what_to_do(results)
    first = [step.number for step in first_steps(plan)]
    if todo is None:
        assert not plan.decisions or (len(first) == len(plan.steps) and len(first_decisions(plan)) > 0)
        return
    later = [step.number for step in todo.steps]
    assert sorted(first + later) == [step.number for step in plan.steps]
    said = [clean(one.sentence) for one in first_decisions(plan)]
    told = [clean(one.sentence) for one in tell_decisions(plan)]
    chosen = [one.sentence for one in todo.choices]
    assert not set(said) & set(chosen)
    assert len(said) + len(chosen) == min(len(told), len(said) + CHOICE_LIMIT)
    assert set(said) | set(chosen) <= set(told)
    text = render_markdown(results, build_verdict(results, "high"), todo)
    for sentence in said:
        assert text.count(escape(sentence)) == said.count(sentence), sentence
