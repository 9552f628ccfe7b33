"""Text on remote storage: in the terminal, in the answer, and in a plan."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.captures import FIXTURES, audit_whole
from tests.support.remote_log import DELETED, LEADS, WHOLE, copied, leader, with_remote
from tests.support.remote_stores import chunked_path, manifest, put, segment_id
from tests.support.samples import SAMPLES
from tests.support.scenario import written
from tests.support.snapshots import TOPIC, Replica, make_uuid

from replica_audit.cli.main import main
from replica_audit.config import Settings
from replica_audit.report.answer import build_answer
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.page.columns import encode_column
from replica_audit.report.page.content import build_pieces
from replica_audit.report.show_text import render_partition
from replica_audit.runner.in_process import audit_all


def replica_lines(text: str) -> list[list[str]]:
    """Cells of the first table of replicas in the text of a partition."""
    lines = text.split("\nReplicas\n")[1].splitlines()
    end = next(number for number, line in enumerate(lines) if line.lstrip().startswith("* leads"))
    return [line.replace("*", " ").split() for line in lines[:end]]


def test_the_answer_does_not_say_that_files_cannot_tell_where_segments_do() -> None:
    results = audit_whole(SAMPLES / "tiered-unclean")
    answer = build_answer(results, build_verdict(results, "high"))
    assert answer.headline.startswith("40 committed records are missing from the leader")
    assert "remote storage still has them: only __remote_log_metadata says so" in answer.headline
    assert "cannot tell" not in repr(answer)
    (election,) = [row for row in results.findings if row.code == "META-UNCLEAN-ELECTION"]
    assert (
        "by __remote_log_metadata remote storage still has segments of an earlier epoch from 40 to 79; it may have lost more"
        in election.message
    )


def test_the_answer_says_how_many_a_broker_still_has_where_the_others_were_deleted_from_the_store(
    tmp_path: Path,
) -> None:
    """An empty replica was elected uncleanly, and Kafka deleted all segments; the old leader has what it had not yet copied."""
    began_empty = Replica(written(0, 5, 5), epochs=((5, 0),), log_start=0)
    old = leader((0, 0), start=60, end=80)
    segments = [copied(0, 40, (0, 0), state=DELETED), copied(40, 60, (0, 40), state=DELETED)]
    with_remote(tmp_path / "s", began_empty, *segments, other=old, quiesced=True)
    results = audit_all(str(tmp_path / "s"), Settings(topics=(TOPIC,)))
    headline = build_answer(results, build_verdict(results, "high")).headline
    assert headline.startswith(
        "80 committed records are missing from the leader in the only partition; broker 2 still has 20 of them."
    )


def test_where_files_begin_above_the_log_start_has_a_column() -> None:
    head, *rows = replica_lines(render_partition(audit_whole(SAMPLES / "tiered-unclean")).split("t-0  ")[1])
    assert head[2:5] == ["START", "LOCAL", "END"] and len(rows) == 2
    assert [row[2:5] for row in rows] == [["0", "52", "67"], ["0", "52", "67"]]


def test_a_topic_without_remote_storage_has_no_such_column() -> None:
    head, *rows = replica_lines(render_partition(audit_whole(FIXTURES / "healthy")))
    assert head[2:4] == ["START", "END"] and rows


def test_elect_counts_for_each_candidate_what_remote_storage_still_has(capsys) -> None:
    assert main(["elect", str(SAMPLES / "tiered-unclean")]) in (0, 1)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    head = next(line for line in lines if line[:1] == ["candidate"])
    assert head.index("remote") == head.index("possibly") + 1
    rows = [line for line in lines if line[:2] == ["broker", "0"] or line[:3] == ["*", "broker", "1"]]
    # Lost, committed, possibly, remote, transactions, groups.
    assert len(rows) == 2 and all(row[-6:] == ["40", "40", "0", "40", "0", "-"] for row in rows)


def test_the_page_has_of_segments_what_its_picture_draws_and_none_that_is_deleted(tmp_path: Path) -> None:
    gone = [copied(60, 75, (1, 60), state=DELETED), copied(0, 20, (0, 0), topic_id=make_uuid("another"))]
    with_remote(tmp_path, LEADS, *WHOLE, *gone)
    results = audit_all(str(tmp_path), Settings(topics=(TOPIC,)))
    (piece,) = build_pieces(results, results.partitions)
    table = piece["tables"]["remote_segments"]
    assert len(results.remote_segments) == 5 and set(table["columns"]) == {
        *("start_offset", "end_offset", "epochs", "state", "lineage", "parted_at"),
    }
    assert table["rows"] == encode_column([4])
    assert table["columns"]["state"] == encode_column(["copy_finished"] * 4)


def _headline(path: Path, *forms: object) -> tuple[str, str]:
    """The headline, and the text of TIER-ORPHAN, of two lost segments in a store in these forms; None: it has no object."""
    segments = ((60, 75, (0, 60)), (75, 90, (0, 75)))
    for (start, end, epoch), form in zip(segments, forms, strict=True):
        if form is not None:
            name = segment_id(start, end, epoch)
            put(path / "tier", chunked_path(name, start))
            put(path / "tier", chunked_path(name, start, "rsm-manifest"), manifest(100, **form))
    put(path / "tier", chunked_path(make_uuid("another"), 0))
    with_remote(path / "snapshot", LEADS, *WHOLE, *(copied(*one) for one in segments))
    results = audit_all(str(path / "snapshot"), Settings(topics=(TOPIC,), remote=str(path / "tier")))
    (told,) = {row.message for row in results.findings if row.code == "TIER-ORPHAN"}
    return build_answer(results, build_verdict(results, "high")).headline, told


UNREAD = ": its objects were seen, and not read"
ENCRYPTED = {"encryption": {"aad": "AA=="}}


@pytest.mark.parametrize(
    ("forms", "still", "orphan"),
    [
        (({}, {}), "remote storage still has them: its objects were seen, and not read.", None),
        (
            (ENCRYPTED, ENCRYPTED),
            f"remote storage still has them{UNREAD}; there they are encrypted, and only the brokers' plugin can read them.",
            "; 2 are encrypted, and only the brokers' plugin can read them",
        ),
        (
            ({}, ENCRYPTED),
            f"remote storage still has them{UNREAD}; there some are encrypted, and only the brokers' plugin can read them.",
            "; 1 is encrypted, and only the brokers' plugin can read it",
        ),
        (
            (None, ENCRYPTED),
            f"remote storage still has some of them{UNREAD}; there they are encrypted, and only the brokers' plugin can read them.",
            "; 1 is encrypted, and only the brokers' plugin can read it; 1 is missing or incomplete",
        ),
        (
            ({}, None),
            "remote storage still has some of them: its objects were seen, and not read.",
            "; 1 is missing or incomplete",
        ),
        (
            (None, None),
            "no replica in the snapshot has them, nor has the remote store the whole of their segments.",
            "; 2 are missing or incomplete",
        ),
    ],
    ids=[
        "readable",
        "encrypted",
        "one encrypted",
        "one is not there",
        "one is not there, nor encrypted",
        "none is there",
    ],
)
def test_of_what_is_encrypted_or_gone_from_the_store_no_more_is_said_than_is_true(
    tmp_path: Path, forms: tuple, still: str, orphan: str | None
) -> None:
    headline, told = _headline(tmp_path, *forms)
    assert headline.partition("; ")[2] == still, headline
    assert told.endswith(orphan or "does not have: its objects were seen, and not read"), told
