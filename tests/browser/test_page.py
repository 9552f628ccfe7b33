"""The page in a real browser: opened from a file, filtered, sorted, a partition opened, read along, printed."""

from __future__ import annotations

import base64
import time
from pathlib import Path

import pytest
from tests.browser.layout import write
from tests.support.captures import audit_whole
from tests.support.captures_with_more import with_groups
from tests.support.fixtures import ATTACKS, FIXTURES
from tests.support.large_audit import audit_models, large_results
from tests.support.less import without
from tests.support.report_rows import finding, orders_row, partition, results, row
from tests.support.samples import SAMPLES

from replica_audit.auditing.known_findings import Earlier
from replica_audit.config import Settings
from replica_audit.model import TopicPartition
from replica_audit.runner.in_process import audit_all, audit_one

# The picture of offsets; those of leadership and of the high watermark over time are there only where something tells them.
OPEN = "document.querySelectorAll('tr.details figure svg.picture[aria-labelledby]').length"
#: Keys, as WebDriver numbers them.
ENTER, ESCAPE, END = "\ue007", "\ue00c", "\ue010"

SHOWN = "document.querySelectorAll('tr.partition').length"


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("pages")
    sample, unclean = audit_whole(SAMPLES / "last-replica-standing"), audit_whole(SAMPLES / "diverged-unclean")
    bad = audit_models([(str(SAMPLES / "diverged-unclean"), "ledger-0"), (str(SAMPLES / "zombie"), "orders-0")])
    calm = audit_models([(str(SAMPLES / "hw-truncation-before"), "orders-0")])
    large = large_results(10_000, bad, calm, 0.05)
    return {
        name: write(found, directory / f"{name}.html")
        for name, found in (("sample", sample), ("unclean", unclean), ("large", large))
    }


def test_the_sample_opens_with_the_answer_the_picture_and_the_story(browser, pages):
    browser.open(pages["sample"])
    browser.wait(f"{OPEN} === 1")
    assert browser.text(".answer h2").endswith(
        "7 committed records are missing from the leader in the only partition; broker 2 still has them."
    )
    svg = browser.text("figure") + " ".join(
        browser.run("return [...document.querySelectorAll('figure text')].map(t => t.textContent)")
    )
    for words in (
        "broker 1",
        "leader · in sync",
        "epoch 4",
        "high watermark 93",
        "HW 100",
        "cut 93 · every protocol",
        "first difference at 93",
    ):
        assert words in svg, words
    assert browser.find("rect.run.lost") and browser.find("rect.dropped")
    story = browser.text(".story")
    assert "cuts its log at 93: offsets 93 to 99 go with it, committed records among them" in story
    assert "Elect broker 2. Broker 2 loses nothing; broker 1 would lose 7 committed records." in browser.text(".todo")
    assert "Elect broker 2. Broker 2 loses nothing; broker 1 would lose 7 committed records." in browser.text(".first")
    steps = browser.run(
        "return [...document.querySelectorAll('.plan li')].map(li => [li.value, li.textContent.trim()])"
    )
    assert [number for number, _ in steps] == [2, 3, 4, 5, 6, 7, 8] and steps[3][1].startswith(
        "Elect broker 2 for orders-0."
    )
    costs = browser.run("return [...document.querySelectorAll('.replay h4 + .scroll')].map(t => t.textContent)")
    assert any("broker 1 is cut to 93" in text or "nobody is cut" in text for text in costs)
    assert any("would lead as" in text and "1leader" in text and "2 bestout of sync" in text for text in costs), costs
    browser.quiet()


def test_a_partition_names_the_groups_that_are_hit_and_who_wrote_what_is_lost(browser, tmp_path):
    later = 3_600_000_000_000
    groups = [
        ("audit", "ledger", 0, 70, 0, later),
        ("on", "ledger", 0, 50, 1, later),
        ("sound", "ledger", 0, 30, 0, later),
    ]
    snapshot = with_groups("diverged-unclean", tmp_path / "s", *groups)
    page = write(audit_all(str(snapshot), Settings(topics=("ledger",))), tmp_path / "page.html")
    browser.open(page, "#ledger-0")
    browser.wait(f"{OPEN} === 1")
    cells = "return [...document.querySelectorAll('%s tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
    assert browser.run(cells % ".groups") == [
        ["audit", "70 · epoch 0", "past the leader’s log end", "34", "brokers 1 and 2"],
        ["on", "50 · epoch 1", "valid, above lost records", "34", "broker 0"],
    ]
    assert browser.run(cells % ".writers") == [
        ["no producer id", "broker 0", "[34, 79)", "45", "2026-11-21T09:01:08.552Z to 2026-11-21T09:01:08.735Z"]
    ]
    browser.open(page, "#ledger-2")
    browser.wait(f"{OPEN} === 1")
    assert not browser.find(".groups") and browser.find(".writers")
    browser.quiet()


def test_bars_are_where_their_offsets_are(browser, pages):
    browser.open(pages["unclean"], "#ledger-0")
    browser.wait(f"{OPEN} === 1")
    bars = browser.run(
        "return [...document.querySelectorAll('rect.epoch, rect.run, line.recomputed')].map(e => { "
        "const b = e.getBBox(); "
        "return [e.querySelector('title')?.textContent ?? 'high watermark', b.x, b.x + b.width] })"
    )
    places = {name: (left, right) for name, left, right in bars}
    left, end = places["broker 1, epoch 0: offsets 0 to 33"][0], places["high watermark"][0]
    step = (end - left) / 52

    def near(one: float, offset: float) -> bool:
        return abs(one - (left + step * offset)) < 2

    assert near(places["broker 1, epoch 1: offsets 34 to 51"][0], 34) and near(
        places["broker 1, epoch 1: offsets 34 to 51"][1], 52
    )
    first = next(value for name, value in places.items() if name.startswith("broker 0, offsets 34 to 56: DIV-EPOCH"))
    second = next(value for name, value in places.items() if name.startswith("broker 0, offsets 57 to 78: DIV-EPOCH"))
    assert near(first[0], 34) and near(first[1], 57) and near(second[1], 79)


def test_another_protocol_moves_the_cut_and_shows_what_stays(browser, pages):
    browser.open(pages["unclean"], "#ledger-1")
    browser.wait(f"{OPEN} === 1")
    assert len(browser.find("rect.run.lost")) == 1 and not browser.find("rect.run.hidden")
    browser.run("document.querySelector('[data-choice=\"high-watermark\"]').focus()")
    browser.press(" ")
    assert len(browser.find("rect.run.hidden")) == 1 and not browser.find("rect.dropped")
    # Whoever works with the keyboard stays where they were.
    assert browser.run("return document.activeElement.dataset.choice") == "high-watermark"
    assert "differs and stays, unseen" in browser.text(".legend")
    browser.quiet()


def test_the_table_is_filtered_searched_and_sorted(browser, pages):
    browser.open(pages["large"])
    assert browser.run(f"return {SHOWN}") == 100
    assert "folded" not in browser.run("return document.querySelector('#rows').innerHTML")
    browser.run("document.querySelector('[data-verdict=COMMITTED_DIVERGENCE]').click()")
    counted = int(browser.text("#count").split(" of ")[0])
    assert counted > 100 and browser.run(f"return {SHOWN}") == 100
    verdicts = browser.run("return [...new Set([...document.querySelectorAll('.verdict')].map(e => e.textContent))]")
    assert verdicts == ["COMMITTED_DIVERGENCE"]
    browser.run("document.querySelector('#more button').click()")
    assert browser.run(f"return {SHOWN}") == counted
    name = browser.text("tr.partition:nth-child(7) .open").strip()
    browser.press("/")
    browser.press(name)
    browser.wait(f"{SHOWN} === 1")
    assert browser.text("#count") == "1 of 10000"
    browser.press(ESCAPE)
    browser.wait(f"{SHOWN} === 100")
    browser.run("document.querySelector('[data-sort=name] button').click()")
    names = browser.run("return [...document.querySelectorAll('tr.partition .open')].map(e => e.textContent)")
    topics = [name.rsplit("-", 1)[0] for name in names]
    assert topics == sorted(topics, key=lambda topic: (topic.rsplit("-", 1)[0], int(topic.rsplit("-", 1)[1])))
    assert browser.run("return document.querySelector('[data-sort=name]').getAttribute('aria-sort')") == "ascending"
    browser.quiet()


def test_ten_thousand_partitions_weigh_under_5_mb_and_are_there_before_any_detail_is_unpacked(browser, pages):
    assert pages["large"].stat().st_size < 5_000_000
    started = time.monotonic()
    browser.open(pages["large"])
    took = time.monotonic() - started
    # Headless paints when it has time to, which may be after the script is done.
    browser.wait("performance.getEntriesByName('first-contentful-paint').length")
    paint = browser.run("return performance.getEntriesByName('first-contentful-paint')[0].startTime")
    # Generous: two busy cores. Alone it is a third of a second.
    assert paint < 3000 and took < 15
    assert browser.run("return document.querySelectorAll('.detail figure').length") == 0
    browser.run("document.querySelector('.open').click()")
    browser.wait(f"{OPEN} === 1")
    # The last partition of all lies in another piece.
    browser.run("document.querySelector('[data-verdict=CONSISTENT]').click(); document.querySelector('.open').click()")
    browser.wait(f"{OPEN} === 1 && document.querySelector('.story')")
    assert browser.run("return document.documentElement.scrollWidth - innerWidth") <= 0
    browser.quiet()


def test_numbers_of_steps_are_printed_whole(browser, pages):
    browser.open(pages["large"])
    browser.look(media="print")
    room, needed, steps = browser.run("""
        const list = [...document.querySelectorAll('.plan ol')].at(-1);
        list.closest('details').open = true;
        const mark = document.createElement('span');
        mark.style.whiteSpace = 'pre';
        mark.textContent = `${list.lastElementChild.value}. `;
        list.firstElementChild.append(mark);
        return [parseFloat(getComputedStyle(list).paddingLeft), mark.getBoundingClientRect().width, list.lastElementChild.value];
    """)
    assert room >= needed > 0 and steps >= 10


def test_brokers_findings_and_topics_filter_the_table(browser, pages):
    browser.open(pages["large"])
    for text in ("broker 0", "DIV-HIDDEN"):
        browser.run(
            "[...document.querySelectorAll('#where .plain')].find(b => b.textContent === arguments[0]).click()", text
        )
        assert " of 10000" in browser.text("#count") and text in browser.text("#filters")
    browser.run("document.querySelector('#filters .chip').click()")
    assert browser.text("#count") == "10000"


def test_it_works_without_a_mouse(browser, pages):
    browser.open(pages["unclean"], "#nothing-of-this-name")
    browser.run("document.querySelector('.open').click(); document.body.focus()")
    browser.press("j", "j")
    focused = browser.run("return document.activeElement.textContent")
    browser.press(ENTER)
    browser.wait("document.activeElement.getAttribute('aria-expanded') === 'true'")
    browser.wait("document.querySelectorAll('tr.details .canvas[role=slider]').length > 0")
    assert focused == browser.run("return document.activeElement.textContent")
    browser.run("document.querySelector('.canvas[role=slider]').focus()")
    browser.press(END)
    said = browser.run("return document.activeElement.getAttribute('aria-valuetext')")
    assert said == browser.text(".readout") and said.startswith("offset ") and "broker" in said
    browser.press(ESCAPE)
    assert browser.run("return document.querySelectorAll('[aria-expanded=true]').length") == 0
    browser.quiet()


@pytest.mark.parametrize(
    "look", [{"width": 390}, {"width": 390, "dark": True}, {"dark": True}, {"media": "print", "width": 740}]
)
def test_nothing_runs_over_the_edge_and_text_can_be_read_everywhere(browser, pages, look):
    browser.open(pages["unclean"], "#ledger-0", **look)
    browser.wait(f"{OPEN} === 1")
    assert browser.run("return document.documentElement.scrollWidth - innerWidth") <= 0
    cut = browser.run(
        "const svg = document.querySelector('figure svg'); const width = svg.viewBox.baseVal.width;"
        "return [...svg.querySelectorAll('text')].filter(t => { const b = t.getBBox(); "
        "return b.x < -1 || b.x + b.width > width + 1 }).map(t => t.textContent)"
    )
    assert cut == []
    low = browser.run(CONTRAST)
    assert low == []
    browser.quiet()


#: Texts whose colour is too near to what is behind them (WCAG: 4.5, and 3 for large text).
CONTRAST = """
const parse = (c) => (c.match(/[\\d.]+/g) || []).map(Number);
const linear = (v) => (v <= 10 ? v / 3295 : ((v / 255 + 0.055) / 1.055) ** 2.4);
const light = ([r, g, b]) => linear(r) * 0.2126 + linear(g) * 0.7152 + linear(b) * 0.0722;
const behind = (e) => {
  for (; e; e = e.parentElement) {
    const c = parse(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] > 0.99) return c;
  }
  return [255, 255, 255];
};
const found = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const e = walker.currentNode.parentElement;
  const text = walker.currentNode.textContent.trim();
  if (!text || !e.getClientRects().length || e.closest('svg, .none, noscript, .hide, .skip, script')) continue;
  const style = getComputedStyle(e);
  const [a, b] = [light(parse(style.color)), light(behind(e))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const least = parseFloat(style.fontSize) >= 24 ? 3 : 4.5;
  if (ratio < least) found.push(`${e.className || e.tagName}: ${text.slice(0, 30)} ${ratio.toFixed(2)}`);
}
return [...new Set(found)];
"""


def test_it_can_be_printed(browser, pages):
    browser.open(pages["unclean"], "#ledger-0")
    browser.wait("document.documentElement.dataset.printable === 'yes'")
    pdf = base64.b64decode(browser.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    # The answer, the steps, and four partitions with their details.
    assert pdf.startswith(b"%PDF") and 8 < pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") <= 16


def test_without_scripts_the_answer_and_the_worst_partitions_can_be_read(browser, pages):
    browser.look(scripts=False)
    browser.driver.get(pages["large"].as_uri())
    try:
        text = browser.driver.find_element("css selector", "body").text
        assert "committed records are missing from the leader" in text and "Scripts are off" in text
        assert len(browser.find("#rows tr")) == 21
    finally:
        browser.look()


def test_markup_in_names_and_messages_stays_text(browser, tmp_path):
    name = "<img src=http://example.invalid/x onerror=\"document.title='run'\">'\"&"
    path = f"broker-1/{name}"
    evidence = [{"kind": "file", "broker_id": 1, "path": path, "position": 5, "value": name, "text": name}]
    found = results(
        [partition(name, 0, "COMMITTED_LOSS", isr=[1, 2])],
        [
            finding(
                "HWM-LOSS",
                "critical",
                name,
                0,
                message=name,
                broker_id=2,
                start_offset=1,
                end_offset=2,
                evidence=evidence,
            ),
            finding("CAP-UNREADABLE", "high", None, None, message=name, evidence=evidence),
        ],
        replicas=[
            row(
                "replicas",
                topic=name,
                partition=0,
                broker_id=b,
                log_start_offset=0,
                log_end_offset=9,
                epochs=[[0, 0]],
                tail_kind=name,
            )
            for b in (1, 2)
        ],
        quarantine=[row("quarantine", path=path, code="CAP-UNREADABLE", reason=name)],
    )
    browser.open(write(found, tmp_path / "page.html"))
    browser.wait(f"{OPEN} === 1")
    assert not browser.find("img") and browser.run("return document.title") != "run"
    assert browser.text(".open").strip() == f"{name}-0"
    browser.run("document.querySelectorAll('details').forEach(d => { d.open = true })")
    assert name in browser.text(".evidence") and name in browser.text("#read")
    browser.quiet()


def test_a_difference_of_seven_records_at_the_end_of_ten_million_is_seen(browser, tmp_path):
    far = 10_000_000
    replicas = [
        orders_row(
            "replicas",
            broker_id=b,
            log_start_offset=0,
            log_end_offset=end,
            epochs=[[4, 0]],
            is_leader=b == 1,
            in_isr=b == 1,
            role="leader" if b == 1 else "compared",
        )
        for b, end in ((1, far), (2, far + 7))
    ]
    runs = [
        orders_row(
            "divergences",
            broker_id=2,
            reference_id=1,
            start_offset=far,
            end_offset=far + 7,
            code="DIV-EPOCH",
            replica_epoch=4,
            record_count=7,
            committed=True,
            committed_records=7,
        )
    ]
    browser.open(
        write(
            results([partition(verdict="COMMITTED_LOSS")], replicas=replicas, divergences=runs), tmp_path / "page.html"
        )
    )
    browser.wait(f"{OPEN} === 1")
    wide = "return document.querySelector('rect.run').getBBox().width"
    assert browser.run(wide) > 20 and browser.find(".break")
    browser.run("document.querySelector('[data-choice=linear]').click()")
    assert browser.run(wide) < 5 and not browser.find(".break")
    browser.quiet()


def test_what_changed_since_the_last_audit_can_be_filtered(browser, tmp_path):
    partitions = [
        partition("orders", 0, "COMMITTED_LOSS"),
        partition("orders", 1, "LAGGING"),
        partition("orders", 2, "LAGGING"),
    ]
    findings = [
        finding("HWM-LOSS", "critical", "orders", 0, finding_id="a"),
        finding("REP-LAG", "info", "orders", 1, finding_id="b"),
    ]
    verdicts = {("orders", 0): "CONSISTENT", ("orders", 1): "LAGGING", ("orders", 2): "LAGGING"}
    ids = {("orders", 1): frozenset("b"), ("orders", 2): frozenset("c")}
    earlier = Earlier("x", "2026-01-01T00:00:00.000Z", verdicts, ids)
    page = write(results(partitions, findings), tmp_path / "page.html", earlier)
    browser.open(page)
    rows = browser.run("return [...document.querySelectorAll('tr.partition')].map(r => r.lastElementChild.innerText)")
    assert rows == ["was CONSISTENT; 1 new", "1 known", "1 resolved"]
    browser.run(
        "[...document.querySelectorAll('#filters .chip')].find(b => b.textContent.startsWith('changed')).click()"
    )
    assert browser.text("#count") == "2 of 3"
    browser.quiet()


def test_a_timeline_is_drawn_where_there_is_one(browser, tmp_path):
    points = [(0, 5, 5, None), (1000, 9, 9, None), (2000, 12, 9, "stuck")]
    timeline = [
        orders_row("high_watermark_timeline", time_ms=t, hw_recomputed=r, hw_observed=o, deviation=d, isr=[1])
        for t, r, o, d in points
    ]
    replicas = [orders_row("replicas", broker_id=1, log_start_offset=0, log_end_offset=12, epochs=[[0, 0]])]
    browser.open(write(results(replicas=replicas, high_watermark_timeline=timeline), tmp_path / "page.html"))
    browser.wait("document.querySelector('path.steps')")
    assert len(browser.find("circle.observed")) == 3 and len(browser.find("circle.deviates")) == 1
    browser.quiet()


def test_leadership_over_time_is_drawn_where_a_metadata_log_told_it(browser, tmp_path):
    changes = [(0, 0, [0, 1, 2], []), (1000, 0, [0], [1]), (90_000, None, [], [0, 1]), (95_000, 1, [1], [])]
    names = ("entry", "time_ms", "leader_epoch", "leader_id", "isr", "elr")
    place = {"topic": "orders", "partition": 0, "replicas": [0, 1, 2], "source": "metadata_log"}
    states = [
        row("partition_states", **place, **dict(zip(names, (number, at, number, leader, isr, elr), strict=True)))
        for number, (at, leader, isr, elr) in enumerate(changes)
    ]
    ends = {"log_start_offset": 0, "log_end_offset": 9}
    replicas = [orders_row("replicas", broker_id=1, epochs=[[0, 0]], **ends)]
    browser.open(write(results(replicas=replicas, partition_states=states), tmp_path / "page.html"))
    browser.wait("document.querySelector('.span')")
    spans = browser.run("return [...document.querySelectorAll('.span title')].map(t => t.textContent)")
    assert len(spans) == 3 + 1 + 1 + 2 + 1
    assert "broker 1 leads in epoch 3 from 1970-01-01T00:01:35.000Z" in spans
    assert "broker 0 eligible to lead from 1970-01-01T00:01:30.000Z" in spans
    assert "broker 0 stopped leading and nobody led" in browser.text(".story")
    browser.quiet()


def test_a_high_watermark_that_nothing_bounds_is_a_band_without_an_end(browser, tmp_path):
    uri = str(ATTACKS / "04-leader-has-no-files" / "describe")
    browser.open(write(audit_one(uri, TopicPartition("t", 0), Settings()), tmp_path / "open.html"), "#t-0")
    browser.wait(f"{OPEN} === 1")
    assert browser.run("return document.querySelector('text.recomputed').textContent") == "high watermark at least 30"
    assert len(browser.find("svg.picture rect.band.open")) == 1
    assert len({line.get_attribute("x1") for line in browser.find("svg.picture line.recomputed")}) == 1
    browser.run("document.querySelector('.canvas').focus()")
    browser.press(END)
    assert "perhaps committed" in browser.text(".readout")
    browser.quiet()


def test_costs_that_a_missing_replica_may_raise_are_told_as_the_least(browser, tmp_path):
    found = audit_all(str(without(FIXTURES / "diverged-unclean", tmp_path / "part", brokers=[0])), Settings())
    browser.open(write(found, tmp_path / "index.html"), "#ledger-0")
    browser.wait(f"{OPEN} === 1")
    costs = browser.run("return [...document.querySelectorAll('.replay h4 + .scroll')].map(t => t.innerText)")[-1]
    assert "1 best of these" in " ".join(costs.split()) and costs.count("at least 0") == 6
