"""Planted oddities in a snapshot are found: odd names, unreadable files, one other batch in a long log; no content."""

from __future__ import annotations

from pathlib import Path

from tests.support.archives import read_directory
from tests.support.planted import (
    BROKEN,
    LONG,
    LONG_BATCHES,
    LONG_DIVERGENCE,
    LONG_STEP,
    MARKER,
    ODD_NAMES,
    TOPICS,
    write_planted,
    write_small,
)

from replica_audit.progress import Progress
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.report_files import write_report


def of_topic(results, table, topic):
    return [row for row in results.rows(table) if row["topic"] == topic]


def test_every_topic_is_audited_whatever_its_name(planted):
    assert [row["topic"] for row in planted.results.rows("partitions")] == list(TOPICS)
    for topic in ODD_NAMES:
        (partition,) = of_topic(planted.results, "partitions", topic)
        assert (partition["verdict"], partition["hw_lower"], partition["hw_upper"]) == ("CONSISTENT", 20, 20), topic
        assert [row["record_count"] for row in of_topic(planted.results, "replicas", topic)] == [20, 20], topic


def test_the_mark_of_a_clean_shutdown_is_seen_though_its_name_begins_with_a_dot(planted):
    seen = {row["broker_id"]: row["clean_shutdown"] for row in planted.results.rows("replicas")}
    assert seen == {1: True, 2: False}


def test_a_segment_that_cannot_be_looked_at_is_quarantined_and_the_rest_goes_on(planted):
    (row,) = [row for row in planted.results.rows("quarantine") if row["code"] == "CAP-UNREADABLE"]
    assert row["path"] == f"broker-2/{BROKEN}-0/{10:020d}.log"
    assert "No such file" in row["reason"]
    assert "CAP-UNREADABLE" in {finding["code"] for finding in planted.results.rows("findings")}
    assert "unreadable" in build_verdict(planted.results, "never")["untrusted"]
    ends = {row["broker_id"]: row["log_end_offset"] for row in of_topic(planted.results, "replicas", BROKEN)}
    assert ends == {1: 20, 2: None}, "where the log ends is not known"


def test_a_segment_that_vanishes_between_listing_and_scan_is_quarantined(spark, settings, tmp_path, monkeypatch):
    from replica_audit.runner import ingest as stage
    from replica_audit.spark.pipeline import run_audit, run_ingest

    path = write_small(tmp_path / "snapshot", ("gone", "kept"))
    real = stage.open_snapshot

    def open_and_lose(*arguments):
        opened = real(*arguments)
        (path / "broker-1" / "gone-0" / f"{0:020d}.log").unlink()
        return opened

    monkeypatch.setattr(stage, "open_snapshot", open_and_lose)
    results = run_audit(spark, run_ingest(spark, str(path), settings, Progress()), settings, Progress())
    (row,) = results.rows("quarantine")
    assert (row["code"], row["path"]) == ("CAP-UNREADABLE", f"broker-1/gone-0/{0:020d}.log")
    assert "CAP-UNREADABLE" in {row["code"] for row in of_topic(results, "findings", "gone")}
    assert [row["log_end_offset"] for row in of_topic(results, "replicas", "kept")] == [5]
    assert "CAP-UNREADABLE" not in {row["code"] for row in of_topic(results, "findings", "kept")}


def test_one_other_batch_in_a_long_log_is_found_where_it_is(planted):
    (row,) = of_topic(planted.results, "divergences", LONG)
    assert (row["broker_id"], row["start_offset"], row["end_offset"]) == (2, *LONG_DIVERGENCE)
    for replica in of_topic(planted.results, "replicas", LONG):
        assert replica["batch_count"] == LONG_BATCHES
        assert replica["log_end_offset"] == LONG_BATCHES * LONG_STEP


def test_only_the_batches_of_the_differing_chunk_are_looked_at(spark, planted):
    """With other batches in all other chunks of the table the answer is the same: nobody looks at them."""
    import pyarrow.compute as pc
    import pyarrow.parquet as parquet

    from replica_audit.model import CHUNK_OFFSETS
    from replica_audit.spark.pipeline import run_audit

    chunk = LONG_DIVERGENCE[0] // CHUNK_OFFSETS
    assert 0 < chunk < LONG_BATCHES * LONG_STEP // CHUNK_OFFSETS
    files = {path: path.read_bytes() for path in Path(planted.settings.warehouse, "batches").glob("*.parquet")}
    for path in files:
        rows = parquet.read_table(path, partitioning=None)
        elsewhere = pc.not_equal(pc.divide(rows["base_offset"], CHUNK_OFFSETS), chunk)
        elsewhere = pc.and_(elsewhere, pc.equal(rows["topic"], LONG))
        broker = pc.cast(rows["broker_id"], rows.schema.field("crc").type)
        other = pc.if_else(elsewhere, broker, rows["crc"])
        parquet.write_table(rows.set_column(rows.schema.names.index("crc"), rows.schema.field("crc"), other), path)
    try:
        again = run_audit(spark, planted.snapshot_id, planted.settings, Progress())
    finally:
        for path, content in files.items():
            path.write_bytes(content)
    for name in ("partitions", "divergences", "truncations", "findings"):
        assert of_topic(again, name, LONG) == of_topic(planted.results, name, LONG), name


def test_nothing_that_is_written_holds_content_of_a_record(planted, tmp_path):
    import pyarrow.parquet as parquet

    segments = [path for path in planted.path.rglob("*.log") if path.exists()]
    assert all(MARKER in path.read_bytes() for path in segments), "the marker was not planted"
    written = Path(write_report(planted.results, str(tmp_path / "report"), "high"))
    files = [path for root in (written, Path(planted.settings.warehouse)) for path in root.rglob("*") if path.is_file()]
    tables = [path for path in files if path.suffix == ".parquet"]
    assert len(tables) > 10 and (written / "audit.json") in files
    for path in files:
        assert MARKER not in path.read_bytes(), path
    for path in tables:  # compressed: also what is in them
        assert MARKER.decode() not in str(parquet.read_table(path, partitioning=None).to_pydict()), path


def test_the_snapshot_is_left_as_it_was(planted, tmp_path):
    assert read_directory(planted.path) == read_directory(write_planted(tmp_path / "fresh"))
