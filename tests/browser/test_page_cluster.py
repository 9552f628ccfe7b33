"""The page of a whole cluster: a map of its replicas, what happened when, equal rows as one, what is new; and axe-core's rules."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.browser.layout import CLIPPED, LABELS, settle, write
from tests.support.captures import audit_whole
from tests.support.large_cluster import AWAY, BROKERS, large_cluster
from tests.support.report_rows import results, row
from tests.support.samples import SAMPLES

AXE = Path(__file__).parents[2] / "build" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
ROWS = "return [...document.querySelectorAll('tr.partition .open')].map((one) => one.textContent)"
#: Keys, as WebDriver numbers them.
ENTER, ESCAPE, HOME, LEFT, UP, RIGHT, DOWN = "\ue007", "\ue00c", "\ue011", "\ue012", "\ue013", "\ue014", "\ue015"


class Pages(dict[int, Path]):
    """Pages of audits of so many partitions, each made when it is wanted."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory

    def __missing__(self, count: int) -> Path:
        results, earlier = (
            (audit_whole(SAMPLES / "last-replica-standing"), None) if count == 1 else large_cluster(count)
        )
        self[count] = write(results, self._directory / f"{count}.html", earlier)
        return self[count]


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> Pages:
    return Pages(tmp_path_factory.mktemp("cluster"))


#: Runs axe-core, by some rules or by all; what is broken, and the number of rules that are kept.
RUN_AXE = """
const done = arguments[1];
const told = (one) => `${one.id} (${one.help}): ${one.nodes.map((node) => node.html.slice(0, 120)).slice(0, 3).join(' | ')}`;
axe.run(document, { resultTypes: ['violations'], ...(arguments[0] && { runOnly: arguments[0] }) })
  .then((found) => done([found.violations.map(told), found.passes.length]));
"""
#: Rules that look at colours.
OF_COLOURS = ["color-contrast", "link-in-text-block"]


@pytest.mark.parametrize("count", [1, 600, 1_600])
def test_no_rule_of_axe_is_broken(browser, pages, count):
    """By dark colours those are asked again that look at colours."""
    if not AXE.exists():
        pytest.skip("no axe-core in build/axe (make axe brings it by npm)")
    browser.open(pages[count])
    browser.run("document.querySelector('tr.partition .open[aria-expanded=false]')?.click()")
    browser.wait("document.querySelector('tr.details .detail')")
    browser.run("for (const fold of document.querySelectorAll('details')) fold.open = true")
    settle(browser)
    browser.run(AXE.read_text(encoding="utf-8"))
    browser.driver.set_script_timeout(180)
    broken, kept = browser.driver.execute_async_script(RUN_AXE, None)
    assert broken == [] and kept > 30
    browser.look(dark=True)
    settle(browser)
    broken, kept = browser.driver.execute_async_script(RUN_AXE, OF_COLOURS)
    assert broken == [] and kept > 0


@pytest.mark.parametrize("count", [600, 1_600])
def test_the_map_has_every_replica_and_leads_to_its_partition_by_keys(browser, pages, count):
    browser.open(pages[count])
    browser.wait("document.querySelector('.map path.map-cell')")
    counts = browser.run(
        "return [...document.querySelectorAll('.map .legend b')].map((one) => Number(one.textContent))"
    )
    # A partition has two or three replicas, and may have more copies.
    assert 2 * count <= sum(counts) <= 4 * count
    assert [f"broker {one}" for one in range(BROKERS)] == browser.run(
        "return [...document.querySelectorAll('.map text.tick[text-anchor=end]')].map((one) => one.textContent)"
    )
    said = "return document.querySelector('.map .readout').textContent"
    browser.run("document.querySelector('.map .canvas').focus()")
    browser.press(DOWN, *[DOWN] * AWAY)
    assert f" on broker {AWAY}: " in browser.run(said) and " not captured" in browser.run(said)
    for _ in range(4):
        if not browser.find(".map .readout button"):
            break
        browser.press(ENTER)
    browser.press(RIGHT, LEFT, UP)
    name = browser.run("return document.querySelector('.map .readout a').textContent")
    assert browser.run(said).startswith(f"{name}") and browser.find(".map .lead")
    browser.press(ENTER)
    browser.wait("document.querySelector('tr.details .detail')")
    assert browser.run("return document.activeElement.textContent") == name
    browser.run("document.querySelector('.map .canvas').focus()")
    browser.press(ESCAPE)
    assert browser.run("return !document.querySelector('.map .picture-tools button')")
    browser.quiet()


def test_the_map_shows_what_the_filters_leave(browser, pages):
    browser.open(pages[600], "#verdict=COMMITTED_LOSS")
    browser.wait("document.querySelector('.map path.map-cell')")
    assert browser.find(".map path.map-cell.holds") and browser.find(".map text.sign.holds")
    held = browser.run(
        "return [...document.querySelectorAll('.map .key')].map((one) => one.textContent).find((text) => text.includes('holds'))"
    )
    assert held.endswith(browser.text("#count").split(" of ")[0])
    browser.quiet()


def test_the_timeline_tells_what_happened_and_zooms(browser, pages):
    browser.open(pages[600])
    browser.wait("document.querySelector('.timeline .event')")
    for kind in ("elected", "unclean", "left", "joined", "captured"):
        assert browser.find(f".timeline .canvas .event.{kind}"), kind
    span = "return document.querySelector('.timeline .picture-tools .soft').textContent"
    whole = browser.run(span)
    browser.run("document.querySelector('.timeline .canvas').focus()")
    browser.press(HOME)
    said = browser.text(".timeline .readout")
    assert said.startswith("2026-01-11 00:00:00") and "broker 0 elected, " in said
    browser.press(RIGHT, DOWN)
    assert "broker 1 " in browser.text(".timeline .readout")
    name = browser.run("return document.querySelector('.timeline .readout a').textContent")
    browser.press(ENTER)
    browser.wait("document.querySelector('tr.details .detail')")
    assert browser.run("return document.activeElement.textContent") == name
    browser.run("document.querySelector('.timeline .canvas').focus()")
    browser.press("+")
    narrower = browser.run(span)
    assert narrower != whole
    browser.press("-", "-", "-")
    assert browser.run(span) != narrower
    browser.press(ESCAPE)
    assert browser.run("return [...document.querySelectorAll('.timeline [data-out]')].every((one) => one.disabled)")
    browser.quiet()


def test_a_stretch_of_the_timeline_is_dragged_open(browser, pages):
    from selenium.webdriver import ActionChains

    browser.open(pages[600])
    browser.wait("document.querySelector('.timeline .event')")
    span = "return document.querySelector('.timeline .picture-tools .soft').textContent"
    whole = browser.run(span)
    (canvas,) = browser.find(".timeline .canvas")
    browser.run("arguments[0].scrollIntoView({ block: 'center' })", canvas)
    ActionChains(browser.driver).move_to_element_with_offset(canvas, -200, 0).click_and_hold().move_by_offset(
        300, 0
    ).release().perform()
    assert browser.run(span) != whole
    browser.quiet()


def test_equal_rows_are_one_line_until_it_is_opened_and_on_paper(browser, pages):
    browser.open(pages[600])
    folds = browser.run("return [...document.querySelectorAll('tr.folded')].map((one) => one.textContent)")
    assert len(folds) > 2 and " more partitions like it: " in folds[0] and folds[-1].endswith("CONSISTENT: show them")
    rows = browser.run(ROWS)
    more = int(folds[0].split()[0])
    browser.run("document.querySelector('tr.folded button').click()")
    assert len(browser.run(ROWS)) == len(rows) + more
    browser.run("document.querySelector('[data-sort=name] button').click()")
    assert not browser.find("tr.folded") and len(browser.run(ROWS)) == 100
    browser.open(pages[600])
    browser.wait("document.documentElement.dataset.printable === 'yes'")
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert not browser.find("tr.folded") and len(browser.find("tr.details")) > 25
    assert browser.run("return document.querySelector('.on-paper').textContent") == "", "all bad ones are opened"
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.run(ROWS) == rows
    browser.quiet()


def test_what_is_new_since_the_last_audit_is_named_with_its_partitions(browser, pages):
    browser.open(pages[1_600])
    lines = browser.run("return [...document.querySelectorAll('#since li')].map((one) => one.textContent)")
    worse = [line for line in lines if line.startswith("worse CONSISTENT, now ")]
    new = [line for line in lines if " HWM-LOSS " in line]
    assert worse and len(new) == 1 and "critical" in new[0]
    browser.run("document.querySelector('#since .place').click()")
    browser.wait("document.querySelector('tr.details .detail')")
    browser.open(pages[1])
    assert not browser.find("#since")
    browser.quiet()


PRINT_ALL = "[...document.querySelectorAll('#partitions .csv')].find((one) => one.textContent.startsWith('Print all '))"
SAID = "return document.querySelector('.on-paper').textContent"


def printed(browser) -> int:
    """Partitions that are open on paper; the paper is left again."""
    browser.run("dispatchEvent(new Event('beforeprint'))")
    opened = len(browser.find("tr.details .detail"))
    browser.run("window.said = document.querySelector('.on-paper').textContent; dispatchEvent(new Event('afterprint'))")
    return opened


def test_paper_says_how_many_bad_partitions_are_printed_with_their_details(browser, pages):
    browser.open(pages[1_600])
    browser.wait("document.documentElement.dataset.printable === 'yes'")
    note = "return getComputedStyle(document.querySelector('.on-paper')).display"
    assert browser.run(note) == "none"
    browser.run("dispatchEvent(new Event('beforeprint'))")
    browser.look(width=703, media="print")
    opened = len(browser.find("tr.details"))
    assert browser.run(note) == "block"
    assert f"the worst {opened} are printed with their details" in browser.run(SAID)
    assert browser.run(f"return {PRINT_ALL}.textContent") in browser.run(SAID)
    browser.run("dispatchEvent(new Event('afterprint'))")
    browser.quiet()


def test_a_button_prints_the_details_of_every_bad_partition_that_the_filters_leave(browser, pages):
    browser.open(pages[1_600])
    browser.wait("document.documentElement.dataset.printable === 'yes'")
    rows = browser.run(ROWS)
    browser.run("window.print = () => { window.asked = true; }")
    bad = int(browser.run(f"return {PRINT_ALL}.textContent").split()[-1])
    assert bad > 60
    browser.run(f"{PRINT_ALL}.click()")
    browser.wait("window.asked === true")
    assert printed(browser) == bad
    assert browser.run("return window.said") == "", "nothing is left out"
    assert browser.run(ROWS) == rows and not browser.find("tr.details"), "the page is as it was"
    assert printed(browser) == 40, "what is printed next is bounded again"

    browser.run("document.querySelector('#verdicts .chip').click()")
    few = int(browser.text("#count").split()[0])
    browser.wait("document.documentElement.dataset.printable === 'yes'")
    assert 0 < few < bad
    if few > 40:
        browser.run(f"window.asked = false; {PRINT_ALL}.click()")
        browser.wait("window.asked === true")
    else:
        assert browser.run(f"return {PRINT_ALL} === undefined || {PRINT_ALL}.hidden")
    assert printed(browser) == few
    browser.quiet()


@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_nothing_of_a_large_cluster_is_wider_than_the_screen(browser, pages, width):
    browser.open(pages[600], width=width)
    browser.wait("document.querySelector('.timeline .event')")
    assert browser.run(CLIPPED, [".scroll"]) == []
    browser.run("dispatchEvent(new Event('beforeprint'))")
    browser.look(width=703, media="print")
    settle(browser)
    assert browser.run(CLIPPED, [".scroll"]) == []
    browser.run("dispatchEvent(new Event('afterprint'))")


def metadata_copy(broker: int, standing: str, *ends: int, **values):
    """A copy of the metadata log whose epochs 1, 2, … end at `ends`."""
    starts = (0, *ends)
    epochs = [
        {"leader_epoch": number + 1, "start_offset": start, "end_offset": end}
        for number, (start, end) in enumerate(zip(starts, ends, strict=False))
    ]
    told = {"start_offset": 0, "end_offset": ends[-1], "epochs": epochs, "refused": [], "checkpoints": [], "history": 1}
    path = f"controller-{broker}/__cluster_metadata-0"
    return row("metadata_logs", broker_id=broker, path=path, standing=standing, **{**told, **values})


@pytest.mark.parametrize("width", [390, 1280])
def test_copies_of_the_metadata_log_are_lanes_and_stand_at_the_top_where_they_differ(browser, tmp_path, width):
    copies = [metadata_copy(100, "used", 50, 90, proven_end=80, is_voter=True, seen_epoch=2, voted_id=100)]
    apart = metadata_copy(101, "refused", 50, 70, parts_at=50, history=2, refused=["brokers applied what it lacks"], is_voter=True)  # fmt: skip
    browser.open(write(results(metadata_logs=[*copies, apart]), tmp_path / "page.html"), width=width)
    browser.wait("document.querySelector('#metadata .span')")
    bars = "return [...document.querySelectorAll('#metadata .span title')].map((one) => one.textContent)"
    assert browser.run(bars) == [
        "controller 100, epoch 1: offsets 0 to 49", "controller 100, epoch 2: offsets 50 to 89",
        "controller 101, epoch 1: offsets 0 to 49", "controller 101, epoch 2: offsets 50 to 69",
    ]  # fmt: skip
    assert browser.find("#metadata .canvas .event.elected")
    cross, start = browser.run(
        "const bars = document.querySelectorAll('#metadata .span');"
        "const cross = document.querySelector('#metadata .canvas .event.unclean').getBoundingClientRect();"
        "return [(cross.left + cross.right) / 2, bars[3].getBoundingClientRect().left]"
    )
    assert abs(cross - start) < 2
    assert "brokers applied what it lacks" in browser.text("#metadata table")
    above = (
        "return document.getElementById('metadata').compareDocumentPosition(document.getElementById('partitions')) & 4"
    )
    assert browser.run(above) == 4
    assert browser.run(LABELS) == [] and browser.run(CLIPPED, []) == []
    browser.open(write(results(metadata_logs=[*copies, metadata_copy(101, "agrees", 50, 88)]), tmp_path / "calm.html"))
    assert browser.run(above) == 0 and not browser.run("return document.getElementById('metadata').hidden")
    browser.open(write(results(metadata_logs=copies), tmp_path / "one.html"))
    assert browser.run("return document.getElementById('metadata').hidden")
    browser.quiet()
