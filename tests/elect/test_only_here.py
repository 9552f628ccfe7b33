"""Copies before a plan is carried out: of what no other replica has, nor remote storage as far as it was looked at (J)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.encoder import flip
from tests.support.remote_log import LEADS, copied, with_remote
from tests.support.remote_stores import plain_path, put, segment_id
from tests.support.scenario import written
from tests.support.snapshots import TOPIC, Replica

from replica_audit.config import Settings
from replica_audit.elect.election_plan import plan_elections
from replica_audit.elect.plan_model import Step
from replica_audit.runner.in_process import audit_all

Span = tuple[int, int, tuple[int, int]]
OWN: tuple[Span, ...] = ((0, 40, (0, 0)), (40, 60, (0, 40)), (60, 100, (1, 60)))
#: Of a history that was left at 60, so that there is something to decide.
LEFT: Span = (60, 75, (0, 60))
#: Its local retention lags: its files begin at 40, those of the leader at 100.
LAGS = Replica(
    [*written(40, 60, 0), *written(60, 120, 1)],
    epochs=((0, 0), (1, 60)),
    log_start=0,
    first_base_offset=40,
    high_watermark=120,
)


def content(span: Span) -> bytes:
    return b"".join(written(span[0], span[1], span[2][0], "lost " if span == LEFT else ""))


def planned(
    path: Path, *stored: Span, looks: bool = True, changed: dict[Span, bytes] | None = None, **options: Any
) -> tuple[int, list[Step]]:
    """What only broker 2 has, and the steps that copy it; the store has `stored`, those of `changed` otherwise."""
    spans = (*OWN, LEFT)
    for span in stored:
        put(path / "tier", plain_path(segment_id(*span), span[0]), (changed or {}).get(span, content(span)))
    told = [copied(*span, size=len(content(span))) for span in spans]
    with_remote(path / "snapshot", LEADS, *told, other=LAGS)
    settings = Settings(topics=(TOPIC,), remote=str(path / "tier") if looks else None, **options)
    results = audit_all(str(path / "snapshot"), settings)
    (row,) = [one for one in results.elections if one.candidate_id == one.broker_id == 2]
    return row.only_here, [one for one in plan_elections(results).steps if one.action == "copy"]


@pytest.mark.parametrize("verify", [False, True], ids=["listed", "read"])
def test_what_remote_storage_is_seen_to_have_need_not_be_copied(tmp_path: Path, *, verify: bool) -> None:
    assert planned(tmp_path, *OWN, LEFT, verify_remote=verify) == (0, [])


def test_where_only_metadata_says_so_it_is_copied(tmp_path: Path) -> None:
    number, steps = planned(tmp_path, looks=False)
    assert number == 60 and [one.brokers for one in steps] == [(2,)]
    assert "no other replica here has (remote storage counts only where its objects were seen)" in steps[0].text


def test_what_the_store_lacks_is_copied(tmp_path: Path) -> None:
    number, steps = planned(tmp_path, OWN[0], OWN[1], LEFT)
    assert number == 40 and len(steps) == 1


@pytest.mark.parametrize(("verify", "number"), [(True, 20), (False, 0)], ids=["read", "not read"])
def test_what_is_damaged_there_is_copied_where_it_was_read(tmp_path: Path, *, verify: bool, number: int) -> None:
    """Of an object that is damaged in part nothing counts."""
    whole = content(OWN[1])
    broken = {OWN[1]: flip(whole)}
    found, steps = planned(tmp_path, *OWN, LEFT, changed=broken, verify_remote=verify)
    assert found == number and len(steps) == bool(number)


def test_an_object_of_another_size_does_not_count(tmp_path: Path) -> None:
    found, steps = planned(tmp_path, *OWN, LEFT, changed={OWN[2]: content(OWN[2])[:-1]})
    assert found == 40 and len(steps) == 1


def test_segments_that_no_leader_serves_do_not_count(tmp_path: Path) -> None:
    """Kafka may delete them (J4): a replica that has the records, too, is copied before it follows."""
    other = Replica([*written(0, 60, 0), *written(60, 75, 0, "lost ")], high_watermark=75)
    for span in (*OWN, LEFT):
        put(tmp_path / "tier", plain_path(segment_id(*span), span[0]), content(span))
    told = [copied(*span, size=len(content(span))) for span in (*OWN, LEFT)]
    with_remote(tmp_path / "snapshot", LEADS, *told, other=other)
    settings = Settings(topics=(TOPIC,), remote=str(tmp_path / "tier"), verify_remote=True)
    results = audit_all(str(tmp_path / "snapshot"), settings)
    (row,) = [one for one in results.elections if one.candidate_id == one.broker_id == 2]
    assert row.only_here == 15
    assert any(one.action == "copy" and 2 in one.brokers for one in plan_elections(results).steps)


def test_what_lies_there_past_the_leaders_end_does_not_count(tmp_path: Path) -> None:
    """The leader lost it, and serves nothing past its end."""
    whole, cut = (Replica([*written(0, 60, 0), *written(60, end, 1)], high_watermark=95) for end in (100, 95))
    for span in OWN:
        put(tmp_path / "tier", plain_path(segment_id(*span), span[0]), content(span))
    told = [copied(*span, size=len(content(span))) for span in OWN]
    with_remote(tmp_path / "snapshot", cut, *told, other=whole, quiesced=True)
    results = audit_all(str(tmp_path / "snapshot"), Settings(topics=(TOPIC,), remote=str(tmp_path / "tier")))
    assert {row.only_here for row in results.elections if row.candidate_id == 2} == {5}
