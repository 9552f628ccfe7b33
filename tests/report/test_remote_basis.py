"""Evidence that remote storage has lost records, from the snapshot to headline, summary, page, plan and JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.encoder import flip
from tests.support.page_content import page_of
from tests.support.remote_log import LEADS, WHOLE, copied, with_remote
from tests.support.remote_stores import plain_path, put, segment_id, write_listing
from tests.support.scenario import written
from tests.support.snapshots import TOPIC, Replica

from replica_audit.cli.main import main
from replica_audit.config import Settings
from replica_audit.report.answer import build_answer
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.markdown import render_markdown
from replica_audit.runner.in_process import audit_all

Span = tuple[int, int, tuple[int, int]]
#: Of a history that was left at 60: 30 records, in no log any more.
LEFT: tuple[Span, ...] = ((60, 75, (0, 60)), (75, 90, (0, 75)))

WORDS = {
    "metadata": "only __remote_log_metadata says so, and no object was seen",
    "differs": "the size or content of its objects is not what __remote_log_metadata says",
    "listing": "its objects were seen, and not read",
    "content": "its objects were read, and are sound",
}


def lost(span: Span) -> bytes:
    return b"".join(written(span[0], span[1], 0, "lost "))


def prepare(path: Path, stored: dict[Span, bytes], *, listed: bool = False, other: Replica | None = None) -> list[str]:
    """A snapshot with both lost segments, as large as `lost` has them, and a store, or a listing of it, with those given.

    Returns the options that name the store.
    """
    place = path / "snapshot"
    store = path / "tier"
    objects = {plain_path(segment_id(*span), span[0]): data for span, data in stored.items()}
    put(store, plain_path(segment_id(0, 40, (0, 0)), 0))
    for name, data in objects.items():
        put(store, name, data)
    if listed:
        write_listing(place, *((name, len(data)) for name, data in objects.items()))
    with_remote(place, LEADS, *WHOLE, *(copied(*span, size=len(lost(span))) for span in LEFT), other=other)
    return [] if listed or not stored else ["--remote", str(store)]


def told(path: Path, options: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The decision's candidate in plan.json, and every text that tells of it, by where it stands."""
    place = str(path / "snapshot")
    settings = Settings(
        topics=(TOPIC,),
        remote=options[1] if "--remote" in options else None,
        verify_remote="--verify-remote" in options,
    )
    results = audit_all(place, settings)
    texts = {
        "headline": build_answer(results, build_verdict(results, "high")).headline,
        "summary": render_markdown(results, build_verdict(results, "high")).replace("\\", ""),
        "page": " ".join(page_of(results).texts),
    }
    capsys.readouterr()
    for command in ("show", "elect"):
        assert main([command, place, "--topic", TOPIC, "--quiet", *options]) in (0, 1)
        texts[command] = capsys.readouterr().out
    assert main(["elect", place, "--topic", TOPIC, "--quiet", "--format", "json", *options]) in (0, 1)
    plan = json.loads(capsys.readouterr().out)
    (chosen,) = [one for one in plan["decisions"][0]["candidates"] if one["candidate_id"] == 1]
    (row,) = [one for one in results.elections if one.candidate_id == one.broker_id == 1]
    shares = [{"basis": one.basis, "records": one.records} for one in row.remote_basis]
    assert shares == chosen["remote_basis"] and sum(one["records"] for one in shares) == chosen["remote_records"]
    looks = [one for one in plan["steps"] if one["action"] == "check_remote"]
    return {**chosen, "looks": looks, "steps": plan["steps"]}, {
        at: " ".join(text.split()) for at, text in texts.items()
    }


@pytest.mark.parametrize("basis", ["metadata", "differs", "listing", "listing beside the copies", "content"])
def test_every_text_says_what_the_rows_say(tmp_path: Path, basis: str, capsys: pytest.CaptureFixture[str]) -> None:
    whole = {span: lost(span) for span in LEFT}
    stored = {"metadata": {}, "differs": {span: data[:-1] for span, data in whole.items()}}.get(basis, whole)
    options = prepare(tmp_path, stored, listed="beside" in basis)
    options += ["--verify-remote"] if basis == "content" else []
    expected = basis.split()[0]
    chosen, texts = told(tmp_path, options, capsys)
    assert chosen["remote_basis"] == [{"basis": expected, "records": 30}]
    for at, text in texts.items():
        # The headline does not count on what is not as it was told.
        assert (WORDS[expected] in text) == ((at, expected) != ("headline", "differs")), (at, text)
        assert not [other for name, other in WORDS.items() if name != expected and other in text], (at, text)
    assert ("remote storage still has them" in texts["headline"]) == (expected != "differs"), texts["headline"]
    assert bool(chosen["looks"]) == (expected == "metadata")


def test_where_only_metadata_says_so_the_plan_looks_before_it_counts_on_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen, texts = told(tmp_path, prepare(tmp_path, {}), capsys)
    (look,) = chosen["looks"]
    assert look["commands"] == [f"replica-audit elect {tmp_path}/snapshot --remote URI --topic orders"]
    before = [one["action"] for one in chosen["steps"][: look["number"] - 1]]
    assert before == ["keep_remote"], "which only keeps what may be there"
    assert look["text"].split(": ")[0] in texts["show"]


def test_a_mixture_is_told_by_records_in_the_plan_and_by_the_weakest_in_the_headline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The store lacks one object, and nothing tells whether Kafka has deleted it since."""
    options = prepare(tmp_path, {LEFT[0]: lost(LEFT[0])})
    chosen, texts = told(tmp_path, [*options, "--verify-remote"], capsys)
    assert chosen["remote_basis"] == [{"basis": "metadata", "records": 15}, {"basis": "content", "records": 15}]
    for at in ("show", "elect", "page", "summary"):
        assert f"for 15, {WORDS['metadata']}; for 15, {WORDS['content']}" in texts[at], (at, texts[at])
    assert "remote storage still has some of them: its objects were read, and are sound." in texts["headline"]
    (look,) = chosen["looks"]
    assert "no object was seen for 15 records" in look["text"] and "lists the store again" in look["text"]


def test_of_an_object_that_is_damaged_in_part_the_rest_is_not_called_sound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batches = written(60, 75, 0, "lost ")
    batches[1] = flip(batches[1])
    options = prepare(tmp_path, {LEFT[0]: b"".join(batches), LEFT[1]: lost(LEFT[1])})
    chosen, texts = told(tmp_path, [*options, "--verify-remote"], capsys)
    assert chosen["remote_basis"] == [{"basis": "differs", "records": 10}, {"basis": "content", "records": 15}]
    assert "remote storage still has some of them: its objects were read, and are sound." in texts["headline"]
    assert not chosen["looks"]


def test_a_segment_that_two_objects_have_is_known_by_the_better_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """KAFKA-15168: copies of one history may overlap."""
    options = prepare(tmp_path, {LEFT[0]: lost(LEFT[0])})
    log = tmp_path / "snapshot" / "broker-1" / "__remote_log_metadata-0" / f"{0:020d}.log"
    put(tmp_path / "tier", plain_path(segment_id(*LEFT[1], number=1), 75), lost(LEFT[1]))
    with_remote(
        tmp_path / "again",
        LEADS,
        *WHOLE,
        *(copied(*one, size=len(lost(one))) for one in LEFT),
        copied(*LEFT[1], size=len(lost(LEFT[1])), number=1),
    )
    log.write_bytes((tmp_path / "again" / "broker-1" / "__remote_log_metadata-0" / log.name).read_bytes())
    chosen, _ = told(tmp_path, options, capsys)
    assert chosen["remote_basis"] == [{"basis": "listing", "records": 30}]


def test_where_a_broker_has_all_of_it_nothing_is_said_of_remote_storage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Replica([*written(0, 60, 0), *written(60, 90, 0, "lost ")], high_watermark=90)
    with_remote(tmp_path / "snapshot", LEADS, *WHOLE, other=other)
    chosen, texts = told(tmp_path, [], capsys)
    assert (chosen["remote_records"], chosen["remote_basis"], chosen["looks"]) == (0, [], [])
    assert not [text for text in texts.values() if any(words in text for words in WORDS.values())]


def test_a_sound_tier_is_nothing_to_look_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with_remote(tmp_path, LEADS, *WHOLE)
    for command in ("show", "elect"):
        assert main([command, str(tmp_path), "--topic", TOPIC, "--quiet"]) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert "remote store" not in text and "says so" not in text
