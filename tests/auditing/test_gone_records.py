"""Records that an earlier audit saw and no replica holds now: HWM-GONE once, and only where nothing else explains it."""

from __future__ import annotations

import json
import shutil
from dataclasses import fields, replace
from pathlib import Path

import pytest
from tests.support.captures import audit_whole
from tests.support.coordinator_log import commit_marker
from tests.support.encoder import encode_batch
from tests.support.fixtures import FIXTURES
from tests.support.in_process import run_stages
from tests.support.report_rows import finding
from tests.support.scenario import written
from tests.support.snapshots import Listed, Replica, make_uuid, write_snapshot

from replica_audit.auditing import opened_snapshot
from replica_audit.auditing.comparison_plan import ComparisonPlan
from replica_audit.auditing.earlier_losses import EarlierLosses, EarlierRun, earlier_losses
from replica_audit.auditing.known_findings import compare_findings
from replica_audit.config import Settings
from replica_audit.report.answer import build_answer
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.sentences import plain_text
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_all
from replica_audit.schema import Evidence, FindingRow
from replica_audit.typed_json import from_object
from replica_audit.warehouse import past_audits


def seen_by(results: Results, finished: str = "2026-11-20T10:00:00.000Z") -> list[dict]:
    """Runs of an audit as they are loaded: committed or left by an unclean election, and those reported."""
    place = lambda row: (row["topic"], row["partition"])  # noqa: E731
    partitions = {place(row): row for row in results.rows("partitions")}
    unclean = {
        (*place(row), row["broker_id"], row["start_offset"])
        for row in results.rows("findings")
        if row["code"] == "DIV-EPOCH" and row["severity"] == "high"
    }
    rows = [
        {
            "audit_id": "a" * 32,
            "finished": finished,
            "topic_id": partitions[place(row)]["topic_id"],
            "leader_epoch": partitions[place(row)]["leader_epoch"],
            "records": row["record_count"],
            **row,
        }
        for row in results.rows("divergences")
        if row["committed"] or (*place(row), row["broker_id"], row["start_offset"]) in unclean
    ]
    return rows + [row for row in results.rows("findings") if row["code"] in ("HWM-GONE", "HWM-UNSEEN")]


def losses_of(rows: list[dict]) -> EarlierLosses:
    """`EarlierLosses` loaded from `seen_by`."""
    names = {field.name for field in fields(EarlierRun)} - {"broker_ids"}
    runs = [row for row in rows if "finding_id" not in row]
    return earlier_losses(
        [EarlierRun(**{name: row[name] for name in names}, broker_ids=(row["broker_id"],)) for row in runs],
        {row["finding_id"]: [Evidence(**one) for one in row["evidence"]] for row in rows if "finding_id" in row},
    )


def audit(name: str, seen: list[dict] = (), monkeypatch=None, change=lambda evidence: evidence, **settings) -> Results:
    """The audit of a fixture after others that saw these rows."""
    if monkeypatch is None:
        return audit_all(str(FIXTURES / name), Settings(**settings)) if settings else audit_whole(FIXTURES / name)
    real = opened_snapshot.plan_of

    def with_rows(partition, *known):
        mine = [row for row in seen if (row["topic"], row["partition"]) == (partition.topic, partition.partition)]
        *others, side, options = known
        plan = real(partition, *others, side._replace(losses=losses_of(mine)), options)
        return ComparisonPlan(change(plan.evidence))

    with monkeypatch.context() as patch:
        patch.setattr(opened_snapshot, "plan_of", with_rows)
        answer = audit_all(str(FIXTURES / name), Settings(**settings))
    assert not [row["message"] for row in answer.rows("findings") if row["code"] == "CAP-NOT-AUDITED"]
    return answer


def gone(results: Results) -> list[dict]:
    return [row for row in results.rows("findings") if row["code"] == "HWM-GONE"]


PAIRS = [
    ("diverged-unclean", "diverged-healed"),
    ("kafka-3.9-diverged-unclean", "kafka-3.9-diverged-healed"),
    ("kafka-3.6-diverged-unclean", "kafka-3.6-diverged-healed"),
    ("zk-2.8-diverged-unclean", "zk-2.8-diverged-healed"),
    ("diverged-multi", "diverged-multi-healed"),
    ("last-replica-standing-2-cut", "last-replica-standing-3-healed"),
]


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_every_run_that_was_cut_is_told_once(monkeypatch, before, after):
    first = audit(before)
    rows = seen_by(first)
    lost = {(row["topic"], row["partition"], row["replica_epoch"]) for row in rows}
    assert rows
    second = audit(after, rows, monkeypatch)
    found = gone(second)
    for row in found:
        assert (row["severity"], row["confidence"], row["status"]) == ("high", "proven", "new")
        assert "2026-11-20" in row["message"] and "no replica has" in row["message"]
        assert row["evidence"][0]["kind"] == "earlier" and "a" * 32 in row["evidence"][0]["text"]
    told = {(row["topic"], row["partition"], json.loads(row["evidence"][0]["value"])["replica_epoch"]) for row in found}
    assert told == lost
    verdicts = {(row["topic"], row["partition"]): row["verdict"] for row in second.rows("partitions")}
    assert {verdicts[topic, partition] for topic, partition, _ in lost} == {"COMMITTED_LOSS"}

    # The audit after that knows it, also when the first one was removed from the warehouse; nothing else changes.
    for remembered in ([*rows, *found], found):
        third = audit(after, remembered, monkeypatch)
        assert [(row["finding_id"], row["status"]) for row in gone(third)] == [
            (row["finding_id"], "known") for row in found
        ]
        assert third.rows("partitions") == [
            {**row, "findings": now["findings"]}
            for row, now in zip(audit(after).rows("partitions"), third.rows("partitions"))
        ]


def test_the_counts_are_those_of_the_records_that_were_lost(monkeypatch):
    found = gone(audit("diverged-healed", seen_by(audit("diverged-unclean")), monkeypatch))
    (row,) = [row for row in found if row["partition"] == 0 and row["topic"] == "ledger"]
    assert row["message"] == (
        "45 committed records that broker 0 held on 2026-11-20 are gone: no replica has offsets 34 to 78 of epoch 0 any more"
    )
    assert (row["broker_id"], row["start_offset"], row["end_offset"]) == (0, 34, 79)


CONTROLS = [
    ("diverged-unclean", "diverged-unclean"),  # still there
    ("diverged-clean", "diverged-clean-healed"),  # a clean failover with acks=1
    ("diverged-healed", "diverged-healed"),  # nothing was seen
    ("diverged-healed", "diverged-unclean"),
    ("retention-passed-1-down", "retention-passed-2-back"),
    ("recreated-1-before", "recreated-2-back"),
    ("lagging", "lagging-caught-up"),
    ("healthy", "diverged-unclean"),
    ("diverged-unclean", "healthy"),  # other topics
]


@pytest.mark.parametrize(("before", "after"), CONTROLS)
def test_nothing_is_gone_where_nothing_was_lost(monkeypatch, before, after):
    assert not gone(audit(after, seen_by(audit(before)), monkeypatch))


def _rows_of_ledger_0() -> list[dict]:
    return [row for row in seen_by(audit("diverged-unclean")) if row["topic"] == "ledger" and row["partition"] == 0]


def _with_directory(evidence, **changes):
    replicas = tuple((directory._replace(**changes), segments) for directory, segments in evidence.replicas)
    return replace(evidence, replicas=replicas)


HARMLESS = {
    "another topic id": lambda evidence: _with_directory(evidence, topic_id="x" * 22),
    "no topic id": lambda evidence: _with_directory(evidence, topic_id=None),
    "retention passed": lambda evidence: _with_directory(evidence, log_start_checkpoint=79),
    "tiered": lambda evidence: replace(
        evidence, leadership=replace(evidence.leadership, configs={"remote.storage.enable": "true"})
    ),
    "compacted": lambda evidence: replace(
        evidence,
        leadership=replace(evidence.leadership, configs={**evidence.leadership.configs, "cleanup.policy": "compact"}),
    ),
    "the holder is not here": lambda evidence: replace(
        evidence, replicas=tuple(one for one in evidence.replicas if one[0].broker_id != 0)
    ),
    "another replica is not here": lambda evidence: replace(
        evidence, replicas=tuple(one for one in evidence.replicas if one[0].broker_id != 2)
    ),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_else_explains_it_is_believed(monkeypatch, name):
    rows = _rows_of_ledger_0()

    def change(evidence):
        topic_partition = evidence.topic_partition
        return (
            HARMLESS[name](evidence)
            if (topic_partition.topic, topic_partition.partition) == ("ledger", 0)
            else evidence
        )

    assert gone(audit("diverged-healed", rows, monkeypatch))
    assert not gone(audit("diverged-healed", rows, monkeypatch, change))


@pytest.mark.parametrize(("name", "absent"), [("the holder is not here", 0), ("another replica is not here", 2)])
def test_where_a_log_is_missing_they_are_not_gone_for_sure_but_told_once(monkeypatch, name, absent):
    rows = _rows_of_ledger_0()

    def change(evidence):
        is_it = (evidence.topic_partition.topic, evidence.topic_partition.partition) == ("ledger", 0)
        return HARMLESS[name](evidence) if is_it else evidence

    def unseen(results):
        return [row for row in results.rows("findings") if row["code"] == "HWM-UNSEEN"]

    second = audit("diverged-healed", rows, monkeypatch, change)
    (row,) = unseen(second)
    assert row["message"] == (
        "45 committed records that broker 0 held on 2026-11-20 are on no replica in the snapshot (offsets 34 to 78 of "
        f"epoch 0), and the log of broker {absent} is missing from it or incomplete"
    )
    assert (row["severity"], row["confidence"], row["status"]) == ("medium", "proven", "new") and not gone(second)
    verdicts = {(one["topic"], one["partition"]): one["verdict"] for one in second.rows("partitions")}
    assert verdicts["ledger", 0] == "INCONCLUSIVE"

    # The next audit knows it; one that has every log says that they are gone, as news.
    third = audit("diverged-healed", [*rows, row], monkeypatch, change)
    assert [one["status"] for one in unseen(third)] == ["known"]
    verdicts = {(one["topic"], one["partition"]): one["verdict"] for one in third.rows("partitions")}
    # Broker 2 led last and is in sync: without its log there is no answer. Broker 0 has followed since it was deposed.
    assert (verdicts["ledger", 0] == "INCONCLUSIVE") == (absent == 2) and verdicts["ledger", 0] != "COMMITTED_LOSS"
    fourth = audit("diverged-healed", [*rows, row], monkeypatch)
    assert [one["status"] for one in gone(fourth)] == ["new"] and not unseen(fourth)


def test_a_snapshot_from_before_the_loss_says_nothing(monkeypatch):
    """Audited after the other one: in its time the records were not written yet."""
    rows = [{**row, "replica_epoch": 5, "leader_epoch": 6} for row in _rows_of_ledger_0()]
    assert not gone(audit("diverged-healed", rows, monkeypatch))
    rows = [{**row, "leader_epoch": 99} for row in _rows_of_ledger_0()]
    assert not gone(audit("diverged-healed", rows, monkeypatch))


def test_retention_that_passed_a_part_leaves_the_rest(monkeypatch):
    rows = _rows_of_ledger_0()

    def change(evidence):
        return _with_directory(evidence, log_start_checkpoint=50)

    whole, part = (
        gone(audit("diverged-healed", rows, monkeypatch)),
        gone(audit("diverged-healed", rows, monkeypatch, change)),
    )
    assert part[0]["message"].startswith("up to 29 committed records that broker 0 held")
    assert part[0]["finding_id"] == whole[0]["finding_id"]


def test_two_brokers_that_held_the_same_are_one_fact():
    row = {
        "audit_id": "a", "finished": "2026-01-01", "topic_id": "t", "broker_id": 0, "start_offset": 5, "end_offset": 9,
        "replica_epoch": 1, "records": 4, "committed": False, "leader_epoch": 2,
    }  # fmt: skip
    other = {**row, "broker_id": 2, "end_offset": 7, "records": 2, "committed": True}
    newer = {**row, "audit_id": "b", "finished": "2026-01-02"}
    (run,) = losses_of([row, other]).runs
    assert (run.broker_ids, run.start_offset, run.end_offset, run.records, run.committed) == ((0, 2), 5, 9, 4, True)
    (run,) = losses_of([row, other, newer]).runs
    assert (run.audit_id, run.broker_ids) == ("b", (0,))
    touching = {**row, "start_offset": 9, "end_offset": 12, "records": 3}
    (run,) = losses_of([touching, row]).runs
    assert (run.start_offset, run.end_offset, run.records) == (5, 12, 7)
    overlapping = {**newer, "start_offset": 8, "end_offset": 12, "records": 4}
    assert [(run.start_offset, run.end_offset, run.records) for run in losses_of([overlapping, row]).runs] == [
        (5, 9, 4), (9, 12, 3),
    ]  # fmt: skip


def test_a_finding_that_is_known_without_a_baseline_stays_known():
    row = finding("HWM-GONE", "critical", "t", finding_id="f", status="known")
    assert compare_findings([from_object(FindingRow, row)], [], {("t", 0)})[0].status == "known"
    assert compare_findings([], [from_object(FindingRow, row)], {("t", 0)})[0].status == "resolved"


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
    assert [[row["status"] for row in gone(one)] for one in results] == [[], ["new"], ["known"]]
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
