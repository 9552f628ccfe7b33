"""index.html without a browser: what it carries, what it lets nobody do, what it weighs."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
from importlib.resources import files
from typing import Any, get_args

import pytest
from tests.support.page_content import Page, page_of
from tests.support.report_rows import AUDIT, answers_of, finding, orders_row, partition, results, row, tables_of
from tests.support.samples import SAMPLES
from tests.support.snapshots import write_manifest
from tests.support.some import some

from replica_audit.auditing.known_findings import Earlier, earlier_of
from replica_audit.config import Settings
from replica_audit.elect.election_plan import advise
from replica_audit.literals import VERDICTS, Role
from replica_audit.model import TopicPartition
from replica_audit.report import page
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.page.columns import SAFE_INTEGER, encode_column
from replica_audit.report.page.content import PIECE
from replica_audit.report.page.document import render_page
from replica_audit.results import Results
from replica_audit.runner.in_process import audit_all, audit_one


def decode(column: dict[str, Any], count: int, bases: list[int] | None = None) -> list[Any]:
    """A column's values, as data.js reads them."""
    if "c" in column:
        values = [column["c"]] * count
    else:
        values = [column["d"][number] for number in column["i"]] if "d" in column else column["v"]
    if column.get("r"):
        values = [value + base if isinstance(value, int) else value for value, base in zip(values, bases, strict=True)]
    return values


def sample(name: str, place: str) -> Results:
    return audit_one(str(SAMPLES / name), TopicPartition.parse(place), Settings())


@pytest.mark.parametrize(
    "values",
    [
        [],
        [7, 7, 7],
        [None, 1, 2**40, -5],
        [3, 3, 3, 3, 4, 4, None],
        [[1, 2], [1, 2], None, [], [1, 2], [1, 2], []],
        ["a", "b", "a", None, "a", "a"],
        [True, False, None, True, 1, 0, 1, 1],
    ],
)
def test_a_column_reads_back_as_it_was_with_and_without_bases(values: list[Any]) -> None:
    assert decode(encode_column(values), len(values)) == values
    if all(value is None or type(value) is int for value in values):
        bases = [10**9 + 7 * number for number in range(len(values))]
        assert decode(encode_column(values, bases), len(values), bases) == values


def test_offsets_near_their_base_become_one_constant() -> None:
    bases = [10**9, 5, 77]
    assert encode_column(bases, bases) == {"c": 0, "r": 1}


def test_true_and_one_stay_apart() -> None:
    values = [True, 1, True, 1, True, 1]
    assert [type(value) for value in decode(encode_column(values), 6)] == [bool, int] * 3


def test_integers_that_a_browser_cannot_hold_travel_as_text() -> None:
    assert decode(encode_column([SAFE_INTEGER, SAFE_INTEGER + 1, -(2**63)], [0, 0, 0]), 3, [0, 0, 0]) == [
        SAFE_INTEGER,
        str(SAFE_INTEGER + 1),
        str(-(2**63)),
    ]


def test_the_overview_has_every_partition_worst_first_and_the_details_follow_it() -> None:
    partitions = [partition("orders", number) for number in range(PIECE + 3)]
    partitions.append(partition("orders", 900, "COMMITTED_LOSS", committed_dropped=3))
    replicas = [row("replicas", topic="orders", partition=900, broker_id=b, log_end_offset=100 + b) for b in (1, 2)]
    frame, pieces = page_of(results(partitions, replicas=replicas)).unpack()
    assert frame["count"] == PIECE + 4
    numbers = decode(frame["overview"]["partition"], frame["count"])
    assert numbers == [900, *range(PIECE + 3)]
    assert decode(frame["overview"]["verdict"], frame["count"])[:2] == [0, VERDICTS.index("CONSISTENT")]
    assert [len(piece["story"]) for piece in pieces] == [PIECE, 4]
    table = pieces[0]["tables"]["replicas"]
    counts = decode(table["rows"], PIECE)
    assert counts == [2] + [0] * (PIECE - 1)
    bases = [
        number for number, times in zip(decode(pieces[0]["bases"], PIECE), counts, strict=True) for _ in range(times)
    ]
    assert decode(table["columns"]["log_end_offset"], 2, bases) == [101, 102]


def test_what_to_do_names_brokers_and_a_replica_that_is_not_at_hand_counts_as_assigned() -> None:
    found = sample("diverged-unclean", "ledger-0")
    (only,) = found.rows("partitions")
    away = answers_of(found.audit, {**tables_of(found), "partitions": [{**only, "unread_replicas": [7]}]})
    frame, _ = page_of(away).unpack()
    assert decode(frame["overview"]["unread"], 1) == [[7]]
    (advice,) = decode(frame["overview"]["advice"], 1)
    assert advice.startswith("Each choice loses something: salvage [34, 52) from broker 1 first, then elect broker 0.")
    damaged = finding("LOG-CORRUPT-MID", "high", broker_id=2)
    frame, _ = page_of(results([partition()], [damaged])).unpack()
    (advice,) = decode(frame["overview"]["advice"], 1)
    assert advice.startswith("Do not restart broker 2 until another in-sync replica") and "this broker" not in advice


def test_the_choice_that_the_costs_mark_is_the_one_of_the_plan(tmp_path) -> None:
    """The registered leader was killed, and would lose the least; broker 2 leads in its place."""
    shutil.copytree(SAMPLES / "consumable-prefix", tmp_path / "down")
    write_manifest(tmp_path / "down", {1: "killed", 2: "live"})
    found = audit_one(str(tmp_path / "down"), TopicPartition("orders", 0), Settings())
    (decision,) = advise(found).decisions
    (best,) = {row["candidate_id"] for row in found.rows("elections") if row["choice"] == "best"}
    frame, _ = page_of(found).unpack()
    assert decode(frame["overview"]["choice"], 1) == [decision.candidate_id] == [2] and best == 1
    (advice,) = decode(frame["overview"]["advice"], 1)
    assert advice.startswith("Keep broker 2 as leader, if it leads")


def test_no_column_is_carried_that_no_script_reads() -> None:
    scripts = "".join(one.read_text() for one in files(page).iterdir() if one.name.endswith(".js"))
    read = set(re.findall(r"\w+", scripts))
    for name in ("diverged-unclean", "fast-failover", "tiered-unclean"):
        _, (piece,) = page_of(audit_all(str(SAMPLES / name), Settings())).unpack()
        for table, packed in some(piece["tables"].items()):
            assert set(packed["columns"]) <= read, (table, set(packed["columns"]) - read)


def test_details_read_back_as_the_rows_of_a_real_audit() -> None:
    found = sample("diverged-unclean", "ledger-0")
    _, (piece,) = page_of(found).unpack()
    (base,) = decode(piece["bases"], 1)
    for table in ("replicas", "divergences", "truncations", "high_watermarks"):
        rows = found.rows(table)
        columns = piece["tables"][table]["columns"]
        for name, column in some(columns.items()):
            assert decode(column, len(rows), [base] * len(rows)) == [item[name] for item in rows], (table, name)


def test_a_name_that_is_markup_is_text_everywhere() -> None:
    name = "</script><img src=x onerror=alert(1)>&\"'"
    found = results(
        [partition(name, 0, "COMMITTED_LOSS")],
        [finding("HWM-LOSS", "critical", name, 0, message=f"<b>{name}</b>", broker_id=1)],
        quarantine=[row("quarantine", path=f"broker-1/{name}", code="CAP-UNREADABLE", reason="<i>no</i>")],
    )
    page = page_of(found)
    assert not {"img", "i"} & {tag for tag, _ in page.tags}
    assert sum(tag == "script" for tag, _ in page.tags) == 3
    assert name in page.text.replace("-0", "")
    frame, _ = page.unpack()
    assert decode(frame["overview"]["topic"], 1) == [name]


def test_control_characters_and_direction_marks_are_shown_as_their_numbers() -> None:
    found = results([partition("a\u202eb\x1b[31m\udcff", 0)])
    text = render_page(found, build_verdict(found, "high"))
    text.encode("utf-8")
    assert "a\\u202eb\\x1b[31m\\udcff" in text and "\u202e" not in text
    frame, _ = Page(text).unpack()
    assert decode(frame["overview"]["topic"], 1) == ["a\\u202eb\\x1b[31m\\udcff"]


def test_the_policy_lets_only_this_script_and_style_run_and_nothing_be_fetched() -> None:
    page = page_of(sample("last-replica-standing", "orders-0"))
    (policy,) = [
        attributes["content"] for tag, attributes in page.tags if tag == "meta" and attributes.get("http-equiv")
    ]
    rules = {part.split()[0]: part.split()[1:] for part in policy.split("; ")}
    (script,) = [text for attributes, text in page.scripts if "type" not in attributes]
    for text, rule in ((script, "script-src"), (page.style, "style-src")):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[rule] == [f"'sha256-{digest}'"]
    assert rules["default-src"] == ["'none'"] and rules["require-trusted-types-for"] == ["'script'"]
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|fetch\(|XMLHttp", script
    )
    links = {value for _, attributes in page.tags for key, value in attributes.items() if key in ("src", "href")}
    steps = {link for link in links if re.fullmatch(r"#plan-step-\d+", link)}
    assert steps and links - steps == {"#partitions", "data:,", "#orders-0"}
    # The only address is the name of SVG, which nobody fetches.
    addresses = set(re.findall(r"https?://[^'\"\s)]+", script + page.style))
    assert addresses == {"http://www.w3.org/2000/svg"} and "url(http" not in page.style


def test_every_element_that_the_script_asks_for_is_there() -> None:
    page = page_of(sample("last-replica-standing", "orders-0"))
    (script,) = [text for attributes, text in page.scripts if "type" not in attributes]
    ids = {attributes["id"] for _, attributes in page.tags if attributes.get("id")}
    asked = set(re.findall(r"getElementById\('([\w-]+)'\)", script))
    assert len(asked) >= 6 and asked <= ids
    labelled = {attributes["aria-labelledby"] for _, attributes in page.tags if attributes.get("aria-labelledby")}
    assert labelled <= ids


def test_the_answer_and_the_worst_rows_are_there_without_the_script() -> None:
    found = results([partition("orders", number) for number in range(30)] + [partition("bad", 1, "LAGGING")])
    page = page_of(found)
    assert "Nothing is lost; replicas are behind or out of sync in 1 of 31 partitions." in page.text
    assert page.text.index("bad-1") < page.text.index("orders-0") and "and 11 more" in page.text


def test_what_changed_is_told_only_where_there_is_something_to_compare_with() -> None:
    found = results([partition("orders", 0, "LAGGING"), partition("orders", 1)], [finding("REP-LAG", "info")])
    assert "Nothing to compare with" in page_of(found).text
    content = {"audit": {"audit_id": "x", "finished": "2026-01-01T10:00:00.000Z"}, "partitions": [
        {"topic": "orders", "partition": 0, "verdict": "CONSISTENT"},
        {"topic": "orders", "partition": 1, "verdict": "COMMITTED_LOSS"},
        {"topic": "orders", "partition": 2, "verdict": "NONSENSE"},
    ]}  # fmt: skip
    earlier = earlier_of(content)
    assert earlier == Earlier(
        "x", "2026-01-01T10:00:00.000Z", {("orders", 0): "CONSISTENT", ("orders", 1): "COMMITTED_LOSS"}
    )
    page = page_of(found, earlier)
    assert "verdicts: 1 worse, 1 better" in page.text and "compared with 2026-01-01 10:00 UTC" in page.text
    frame, _ = page.unpack()
    assert [VERDICTS[number] for number in decode(frame["overview"]["before"], 2)] == ["CONSISTENT", "COMMITTED_LOSS"]


def test_an_audit_without_a_partition_has_a_page() -> None:
    page = page_of(Results(AUDIT))
    assert "No partition was found" in page.text
    assert page.unpack()[0]["count"] == 0


def test_tables_of_a_later_version_are_carried_along() -> None:
    timeline = [orders_row("high_watermark_timeline", time_ms=t, hw_recomputed=t, hw_observed=t) for t in (1, 2)]
    _, (piece,) = page_of(results(high_watermark_timeline=timeline)).unpack()
    assert decode(piece["tables"]["high_watermark_timeline"]["columns"]["time_ms"], 2) == [1, 2]


def test_quality_expectations_that_are_not_met_are_listed_and_their_pages_linked() -> None:
    rows = [
        row(
            "quality",
            suite="s",
            name="crc",
            severity="high",
            success=False,
            unexpected_count=2,
            element_count=9,
            status="new",
            description="<b>CRC</b> valid",
            failing=["orders-0"],
            expectation="e",
        ),
        row("quality", suite="s", name="fine", severity="low", success=True, expectation="e"),
    ]
    found = results(quality=rows)
    text = render_page(found, build_verdict(found, "high"), data_docs="data_docs/index.html")
    page = Page(text)
    assert "1 of 2 expectations met" in page.text and "2 of 9 rows" in page.text and "<b>CRC</b> valid" in page.text
    assert ("a", {"href": "data_docs/index.html"}) in page.tags
    assert "Data Docs" not in page_of(found).text and "Quality checks" not in page_of(results()).text


def test_what_to_do_next_is_the_rest_of_the_plan():
    found = audit_one(
        str(SAMPLES / "last-replica-standing"), TopicPartition("orders", 0), Settings(kafka_version="3.9.1")
    )
    page = render_page(found, build_verdict(found, "high"))
    section = page[page.index('<section class="plan"') : page.index('<section class="tiles"')]
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", section))
    told = "Elect broker 2. Broker 2 loses nothing; broker 1 would lose 7 committed records."
    assert told not in text and told in page[page.index('<div class="first">') : page.index('<section class="plan"')]
    assert "Stop broker 1 with SIGTERM; orders-0 has no leader meanwhile." in text
    assert "kafka-leader-election.sh --bootstrap-server HOST:PORT --election-type unclean" in text


def test_where_nothing_is_to_be_decided_the_page_has_no_plan():
    assert '<section class="plan"' not in render_page(
        results([partition("calm")]),
        build_verdict(results([partition("calm")]), "high"),
    )


def test_every_role_of_a_replica_has_its_word_on_the_page() -> None:
    picture = files("replica_audit.report.page").joinpath("picture.js").read_text(encoding="utf-8")
    words = re.search(r"const ROLES = \{(.*?)\};", picture)
    assert words is not None
    plain = {"leader", "compared"}
    assert set(re.findall(r"(\w+): '", words[1])) == set(get_args(Role)) - plain
