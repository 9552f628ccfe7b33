"""Records that an earlier audit in the warehouse saw and no replica holds now, told night after night."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.coordinator_log import commit_marker
from tests.support.encoder import encode_batch
from tests.support.in_process import run_stages
from tests.support.scenario import written
from tests.support.snapshots import Listed, Replica, make_uuid, write_snapshot

from replica_audit.report.answer import build_answer
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.sentences import plain_text
from replica_audit.results import Results
from replica_audit.warehouse import past_audits

COMMITTED = written(0, 30, 1)
ALL_EQUAL = dict.fromkeys((1, 2, 3), Replica(COMMITTED))


@pytest.fixture(scope="module")
def after_nights(tmp_path_factory) -> dict[int, Path]:
    """By the number of nights, one or two, a warehouse after audits of ALL_EQUAL, which told nothing."""
    found: dict[int, Path] = {}
    for number in (1, 2):
        place = tmp_path_factory.mktemp("night")
        assert _told_each_night(place, ALL_EQUAL, since=found.get(number - 1)) == [[]]
        found[number] = place / "warehouse"
    return found


@pytest.mark.parametrize(
    ("after", "missing", "told"),
    [
        ({1: 24, 2: 24, 3: 20}, (), [("HWM-GONE", 24, 30)]),
        ({1: 24, 2: 24, 3: 24}, (3,), [("HWM-UNSEEN", 24, 30)]),
        ({1: 24, 2: 24, 3: 30}, (), []),
        ({1: 30, 2: 30, 3: 30}, (), []),
    ],
    ids=["cut everywhere", "one log is not here", "one log still has them", "nothing is cut"],
)
def test_committed_records_that_all_logs_lost_since_an_audit_are_told(after_nights, tmp_path, after, missing, told):
    """All replicas had 30 records of epoch 1, and a later leader wrote in epoch 2 where its log ended."""
    cut = {broker: Replica(written(0, end, 1)) for broker, end in after.items() if broker not in missing}
    cut[1] = Replica([*written(0, after[1], 1), *written(after[1], 40, 2, "new ")])
    cut[2] = cut[1]
    first, second = _told_each_night(tmp_path, cut, cut, since=after_nights[2])
    assert [(row["code"], row["start_offset"], row["end_offset"]) for row in first] == told, first
    for row, (_, start, end) in zip(first, told, strict=True):
        assert f"offsets {start} to {end - 1}" in row["message"] and "brokers 1, 2 and 3 held" in row["message"]
    assert [(row["finding_id"], row["status"]) for row in second] == [(row["finding_id"], "known") for row in first]


@pytest.mark.parametrize(
    ("begun", "kind", "told"),
    [
        ("2100-01-01", "live", "HWM-GONE"),
        ("2100-01-01", "image", "HWM-UNSEEN"),
        ("2000-01-01", "live", "HWM-UNSEEN"),
        (None, None, "HWM-UNSEEN"),
    ],
)
def test_of_logs_that_are_all_empty_the_time_of_their_copies_tells_which_audit_was_the_later(
    after_nights, tmp_path, begun, kind, told
):
    """Nobody says an epoch: it was CONSISTENT."""
    empty = dict.fromkeys((1, 2, 3), Replica(()))
    times = {"started": f"{begun}T00:00:00Z", "finished": f"{begun}T00:00:09Z", "kind": kind}
    entries = [{"broker_id": one, "log_dir": f"broker-{one}", **times} for one in empty]
    manifest = {"schema_version": 1, "brokers": entries if begun else []}
    found = _told_each_night(tmp_path, empty, empty, manifests=(manifest, manifest), since=after_nights[1])
    assert [[(row["code"], row["status"]) for row in rows] for rows in found] == [[(told, "new")], [(told, "known")]]
    (row,) = found[0]
    assert (row["start_offset"], row["end_offset"]) == (0, 30)
    assert ("the snapshot is older than that audit" in row["message"]) is (told == "HWM-UNSEEN")


@pytest.mark.parametrize(
    ("lacked", "told"), [(20, [("HWM-UNSEEN", 24, 25)]), (15, [])], ids=["what others lost", "what others have"]
)
def test_what_a_missing_segment_file_had_is_on_no_replica_here_and_may_be_on_its_broker(
    after_nights, tmp_path, lacked, told
):
    """A log counted as one that has all of an epoch, whatever files of it are missing."""
    cut = Replica([*written(0, 24, 1), *written(24, 40, 2, "new ")])
    holed = Replica([*written(0, lacked, 1), *written(lacked + 5, 30, 1)], per_segment=1)
    (found,) = _told_each_night(tmp_path, {1: cut, 2: cut, 3: holed}, since=after_nights[2])
    assert [(row["code"], row["start_offset"], row["end_offset"]) for row in found] == told, found
    assert all("the log of broker 3 is missing from it or incomplete" in row["message"] for row in found)


def test_the_latest_audit_that_had_the_partition_counts(tmp_path):
    """The audits since were of another topic, or had a part of the topics only; they took the place of what was known of the others."""
    whole, cut = Replica(COMMITTED), Replica([*written(0, 24, 1), *written(24, 40, 2, "new ")])
    of_orders, of_payments = (
        replace(whole, topic=topic, topic_id=make_uuid(topic)) for topic in ("orders", "payments")
    )
    nights = [
        [of_orders],
        [of_orders, of_payments],
        *[[of_payments]] * 2,
        [replace(cut, topic=topic, topic_id=make_uuid(topic)) for topic in ("orders", "payments")],
    ]
    found = []
    for number, replicas in enumerate(nights):
        directory = tmp_path / str(number)
        listed = [Listed(1, (1, 2), (1, 2), topic=one.topic, topic_id=one.topic_id) for one in replicas]
        write_snapshot(directory, dict.fromkeys((1, 2), replicas), listed, cluster_id="c")
        rows = run_stages(directory, tmp_path / "warehouse").results
        found.append((rows.audit["audit_id"], [row for row in rows.rows("findings") if row["code"] == "HWM-GONE"]))
    assert not any(rows for _, rows in found[:-1])
    known = {row["topic"]: row["evidence"][0]["text"] for row in found[-1][1]}
    assert known.keys() == {"orders", "payments"}
    assert found[1][0] in known["orders"] and found[-2][0] in known["payments"]


@pytest.mark.parametrize(("leader", "nights"), [(1, 1), (None, 2)], ids=["not copied", "offline, not copied, twice"])
def test_an_audit_without_the_leaders_log_takes_the_place_of_none_that_had_it(after_nights, tmp_path, leader, nights):
    """Its followers prove less committed, or, where they have fetched since, more."""
    cut = Replica([*written(0, 24, 1), *written(24, 40, 2, "new ")])
    for number, (known, told) in enumerate([(20, 30), (35, 35)]):
        behind = Replica(written(0, max(30, known), 1), high_watermark=known)
        states = [*[{2: behind, 3: behind}] * nights, dict.fromkeys((1, 2, 3), cut)]
        leaders = [*[leader] * nights, 2]
        found = _told_each_night(tmp_path / str(number), *states, leaders=leaders, since=after_nights[1])
        assert not any(found[:-1])
        assert [(row["code"], row["start_offset"], row["end_offset"]) for row in found[-1]] == [("HWM-GONE", 24, told)]


@pytest.mark.parametrize(("nights", "told"), [(1, [(24, 30)]), (2, [])])
def test_the_leaders_log_is_looked_for_in_so_many_audits(after_nights, tmp_path, monkeypatch, nights, told):
    monkeypatch.setattr(past_audits, "LOOKED_BACK", 2)
    cut = Replica([*written(0, 24, 1), *written(24, 40, 2, "new ")])
    behind = dict.fromkeys((2, 3), Replica(COMMITTED, high_watermark=20))
    states, leaders = [*[behind] * nights, dict.fromkeys((1, 2, 3), cut)], [*[1] * nights, 2]
    found = _told_each_night(tmp_path, *states, leaders=leaders, since=after_nights[1])
    assert [(row["start_offset"], row["end_offset"]) for row in found[-1]] == told


@pytest.mark.parametrize(("version", "confidence"), [("3.4.1", "suspect"), ("3.5.0", "proven")])
def test_what_a_mark_over_a_tail_that_is_cut_may_have_counted_is_suspect(tmp_path, version, confidence):
    """KAFKA-14704."""
    new = Replica([*written(0, 24, 1), *written(24, 40, 2, "new ")])
    nights = (dict.fromkeys((1, 2, 3), one) for one in (Replica(COMMITTED), new))
    said = {"schema_version": 1, "kafka_version": version, "brokers": []}
    (row,) = _told_each_night(tmp_path, *nights, manifests=(said, said))[1]
    assert (row["code"], row["confidence"]) == ("HWM-GONE", confidence)


def _told_each_night(tmp_path, *nights: dict[int, Replica], **options) -> list[list[dict]]:
    """Findings of each night's audit on records that an earlier one saw; `options` are those of `_each_night`."""
    codes = ("HWM-GONE", "HWM-UNSEEN")
    return [
        [row for row in results.rows("findings") if row["code"] in codes]
        for results in _each_night(tmp_path, *nights, **options)
    ]


def _each_night(
    tmp_path: Path, *nights, configs=({},), manifests=(), leaders=(1,), since: Path | None = None
) -> list[Results]:
    """The audit of each night, the first after those in the warehouse `since`; of `configs` and `leaders` the last goes on."""
    found: list[Results] = []
    warehouse = None
    if since is not None:
        shutil.copytree(since, tmp_path / "warehouse")
    for number, brokers in enumerate(nights):
        directory = tmp_path / str(number)
        named = configs[min(number, len(configs) - 1)]
        leader = leaders[min(number, len(leaders) - 1)]
        write_snapshot(directory, brokers, [Listed(leader, (1, 2, 3), (1, 2), configs=named)], cluster_id="c")
        if number < len(manifests) and manifests[number]:
            (directory / "manifest.json").write_text(json.dumps(manifests[number]))
        ran = run_stages(directory, tmp_path / "warehouse", warehouse)
        warehouse = ran.warehouse
        found.append(ran.results)
    return found


@pytest.mark.parametrize("kind", ["marker", "record"])
def test_of_a_lost_end_of_a_transaction_it_is_not_said_that_records_are_gone(tmp_path, kind):
    """Broker 1 had it when it was deposed, and has followed broker 2 since."""
    left = commit_marker(30, 1) if kind == "marker" else encode_batch(30, 1, 1)
    old = Replica([*COMMITTED, left], high_watermark=31)
    new = Replica([*COMMITTED, *written(30, 40, 2, "new ")], high_watermark=30)
    nights = {1: old, 2: new, 3: new}, {1: new, 2: new, 3: new}, {1: new, 2: new, 3: new}
    results = _each_night(tmp_path, *nights, leaders=(2,))
    assert [[row["status"] for row in one.rows("findings") if row["code"] == "HWM-GONE"] for one in results] == [
        [], ["new"], ["known"],
    ]  # fmt: skip
    said = [build_answer(one, build_verdict(one, "high")) for one in results]
    texts = [" ".join([one.headline, *map(plain_text, one.more)]) for one in said]
    what = {"marker": "Ends of transactions, or empty batches, but no records, that", "record": "Records that"}[kind]
    for text in texts[1:]:
        assert f"{what} an earlier audit saw" in text, text
        assert ("Records that an earlier audit saw" in text) is (kind == "record"), text


def test_a_second_loss_in_the_same_epoch_is_told_beside_the_first(after_nights, tmp_path):
    nights = [[*written(0, end, 1), *written(end, 40, epoch, f"{epoch} ")] for end, epoch in ((25, 2), (20, 3))]
    replicas = (dict.fromkeys((1, 2, 3), Replica(batches)) for batches in nights)
    found = _told_each_night(tmp_path, *replicas, since=after_nights[1])
    told = [sorted((row["start_offset"], row["end_offset"], row["status"]) for row in rows) for rows in found]
    assert told == [[(25, 30, "new")], [(20, 25, "new"), (25, 30, "known"), (25, 40, "new")]]


def test_a_log_that_was_compacted_until_an_audit_has_lost_nothing_to_it(tmp_path):
    """After one more cleaning the topic's policy is delete, and the cleaner's checkpoint has no entry of it."""
    cleaned = [*written(0, 10, 1), *written(10, 30, 2)], [*written(0, 5, 1), *written(15, 30, 2), *written(30, 40, 3)]
    nights = Replica(cleaned[0], cleaned_to=10), Replica(cleaned[1])
    policies = [{"cleanup.policy": name} for name in ("compact", "delete")]
    assert _told_each_night(tmp_path, *(dict.fromkeys((1, 2, 3), one) for one in nights), configs=policies) == [[], []]
