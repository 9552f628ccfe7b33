"""Consumer groups that are hit, and producers of lost records, on the page and in summary.md."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.support.captures_with_more import with_groups
from tests.support.fixtures import FIXTURES
from tests.support.report_rows import objects, orders_row, partition, results, row

from replica_audit.config import Settings
from replica_audit.elect import hit_groups as groups_module
from replica_audit.elect.election_plan import plan_elections
from replica_audit.model import TopicPartition
from replica_audit.report.facts.lost_writers import READER_LIMIT, writers_of
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.markdown import render_markdown
from replica_audit.report.page import document
from replica_audit.report.page.content import build_pieces
from replica_audit.report.plan_text import render_plan
from replica_audit.report.readers_and_writers import find_hits, hit_groups_of
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_all
from replica_audit.schema import GroupOffsetRow

LATER = 3_600_000_000_000
GROUPS = (
    ("audit", "ledger", 0, 70, 0, LATER),
    ("billing", "ledger", 0, 45, 0, LATER),
    ("sound", "ledger", 0, 30, 0, LATER),
    ("on", "ledger", 0, 50, 1, LATER),
)


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Results:
    snapshot = with_groups("diverged-unclean", tmp_path_factory.mktemp("groups") / "s", *GROUPS)
    return audit_all(str(snapshot), Settings(topics=("ledger",)))


@cache
def transactions() -> Results:
    return audit_all(str(FIXTURES / "txn-failover-1-unclean"), Settings(topics=("wallet",)))


def markdown(found: Results) -> str:
    return render_markdown(found, build_verdict(found, "high"))


def test_summary_names_the_groups_that_are_hit_and_under_whom(audited: Results) -> None:
    told = [line for line in markdown(audited).splitlines() if line.startswith("- `ledger-0`: group ")]
    assert told == [
        "- `ledger-0`: group `audit` committed 70, past the end of the log of broker 1, parted at 34, hit if broker 1 or 2 leads",
        "- `ledger-0`: group `billing` committed 45, past the divergence, inside the log of broker 1, parted at 34, hit if broker 1 or 2 leads",
        "- `ledger-0`: group `on` committed 50, valid on the log of broker 1, above lost records, parted at 34, hit if broker 0 leads",
    ]  # fmt: skip


def test_groups_by_choice_of_leader_are_those_that_the_plan_counts(audited: Results) -> None:
    (decision,) = plan_elections(audited, asked=[("ledger", 0)]).decisions
    hits = find_hits(audited)["ledger", 0]
    shown = hit_groups_of([one for one in audited.group_offsets if one.partition == 0], hits)
    counted = Counter(broker for one in shown for broker in one.hit_by)
    assert counted == {one.candidate_id: one.groups_hit for one in decision.candidates} == {0: 1, 1: 2, 2: 2}


@pytest.mark.parametrize(("candidate", "is_said"), [(0, True), (1, False)], ids=["elected", "leads already"])
def test_a_plan_tells_what_to_do_with_groups_that_a_new_leader_carries_past_other_records(
    audited: Results, candidate: int, *, is_said: bool
) -> None:
    plan = plan_elections(audited, asked=[TopicPartition("ledger", 0)], candidate_id=candidate)
    told = " ".join(render_plan(plan).split())
    numbers = [step.number for step in plan.steps if step.action == "reset_offsets"]
    said = [f"1 group has read records that broker 0 lacks: step {number} sets its offsets back." for number in numbers]
    assert len(said) == is_said and all(one in told for one in said) and told.count("have read records") == 0


class _Read(dict):
    """Costs by partition, with a note of those that were asked for."""

    def __getitem__(self, place: object) -> dict:
        self.asked = [*getattr(self, "asked", []), place]
        return super().__getitem__(place)


def test_costs_are_asked_for_in_the_order_in_which_they_are_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    places = [("orders", number) for number in range(50)]
    costs = _Read((place, {}) for place in places)
    offsets = [GroupOffsetRow("group", *place, 1, None, 0, "unaffected", None) for place in reversed(places)]
    monkeypatch.setattr(groups_module, "Matrix", lambda results: SimpleNamespace(rows=costs))
    monkeypatch.setattr(groups_module, "committed_offsets", lambda results: offsets)
    monkeypatch.setattr(groups_module, "present_state", lambda results: None)
    groups_module.hit_groups(SimpleNamespace(options={}))
    assert costs.asked == places


def test_a_report_asks_for_them_once(audited: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large audit all costs are read for them; the page is put together again until it is light enough."""
    found = replace(audited)
    worked, hit_groups = [], groups_module.hit_groups
    monkeypatch.setattr(groups_module, "hit_groups", lambda results: (worked.append(results), hit_groups(results))[1])
    monkeypatch.setattr(document, "PAGE_BYTES", 1)
    page = document.render_page(found, build_verdict(found, "high"))
    assert "hit if broker 1 or 2 leads" in markdown(found) and "<!doctype html>" in page.lower()
    assert len(worked) == 1


def test_the_page_carries_no_group_that_nothing_hits(audited: Results) -> None:
    (piece,) = build_pieces(audited, audited.partitions)
    text = json.dumps(piece["tables"]["group_offsets"])
    assert '"billing"' in text and '"sound"' not in text


def test_summary_names_who_wrote_the_lost_records() -> None:
    lines = markdown(transactions()).splitlines()
    (named,) = (line for line in lines if line.startswith("- `wallet-1`: transactional id"))
    (lost,) = (one for one in transactions().rows("lost_producers") if one["transactional_id"])
    assert named.startswith(
        f"- `wallet-1`: transactional id `{lost['transactional_id']}`, producer {lost['producer_id']}, transaction "
    )
    assert "4 records in \\[12, 16), timestamp 2026-11-21T10:31:57.723Z, held by broker 0" in named
    assert any(line.startswith("- `wallet-0`: no producer id, 3 records") for line in lines)


def test_brokers_that_hold_the_same_of_a_producer_are_told_once() -> None:
    def of(broker: int, producer: int, records: int) -> dict:
        return orders_row("lost_producers", broker_id=broker, producer_id=producer,
                   transactional=False, start_offset=5, end_offset=5 + records, record_count=records)  # fmt: skip

    merged = writers_of(objects("lost_producers", [of(3, 7, 2), of(2, 7, 2), of(2, 8, 4)]))
    assert [(one.records.producer_id, one.brokers, one.records.record_count) for one in merged] == [
        (8, [2], 4),
        (7, [2, 3], 2),
    ]


def test_long_lists_are_cut_and_names_are_text() -> None:
    offsets = [
        row("group_offsets", group=f"g{number:02}`<b>", topic="orders", partition=0, committed_offset=20, effect="past_end",
            committed_ms=0, parted_at=10)
        for number in range(READER_LIMIT + 3)
    ]  # fmt: skip
    text = markdown(results([partition()], group_offsets=offsets))
    assert text.count("past the end of the log of broker 1") == READER_LIMIT
    assert "- and 3 more: `group_offsets` in `audit.json`" in text and "``g00`<b>``" in text


def test_nothing_is_said_where_nobody_is_hit(tmp_path: Path) -> None:
    snapshot = with_groups("lagging", tmp_path / "s", ("g", "orders", 0, 5, 0, LATER))
    found = audit_all(str(snapshot), Settings(topics=("orders",)))
    assert found.rows("group_offsets")
    text = markdown(found)
    assert "Consumer groups" not in text and "Who wrote" not in text
    assert not {"group_offsets", "lost_producers"} & next(build_pieces(found, found.partitions))["tables"].keys()


def test_a_choice_that_hits_a_share_group_does_not_hit_a_consumer_group_of_its_name(audited: Results) -> None:
    (sound,) = [one for one in audited.group_offsets if one.partition == 0 and one.group == "sound"]
    rows = [sound._replace(kind=kind) for kind in ("consumer", "share")]
    shown = hit_groups_of(rows, {1: {("sound", "share")}})
    assert [(one.offset.kind, one.hit_by) for one in shown] == [("share", [1])]
