"""How the page looks, measured: labels, names and tables on a desk, a wall, a phone and on paper."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.browser.layout import CLIPPED, LABELS, WRAPPED, settle, write
from tests.support.captures import FIXTURES, audit_whole
from tests.support.report_rows import finding, partition, results, row
from tests.support.samples import SAMPLES

from replica_audit.literals import PROTOCOLS, VERDICTS
from replica_audit.results import Results

WIDTHS = (1280, 1920, 390)
PAGES = ("sample", "unclean", "lost", "elr", "random", "other")
#: A4 without the margins of the style sheet, in CSS pixels.
PAPER = 703


def random_results(seed: int, count: int = 20) -> Results:
    """Partitions of any shape: far and near offsets, many epochs, open and unknown high watermarks, copies of every role."""
    generator = random.Random(seed)
    tables: dict[str, list] = {name: [] for name in ("replicas", "divergences", "truncations", "high_watermarks")}
    partitions, findings = [], []
    for number in range(count):
        place = {"topic": generator.choice(("orders", "a.rather-long_name-of-a-topic", "x")), "partition": number}
        base = generator.choice((0, 0, 7, 10**6, 4 * 10**9, 2**52))
        end = base + generator.choice((1, 5, 60, 5000, 10**7))
        lower = generator.choice((None, base, generator.randint(base, end), end))
        upper = None if lower is None else generator.choice((None, lower, generator.randint(lower, end), end))
        partitions.append(
            partition(place["topic"], number, generator.choice(VERDICTS[:7]), hw_lower=lower, hw_upper=upper)
        )
        mark = {"leader_id": 0, "reference_id": 0, "leadership_source": "inferred", "exact": lower == upper, **place}
        tables["high_watermarks"].append(row("high_watermarks", hw_lower=lower, hw_upper=upper, **mark))
        for broker in range(generator.randint(1, 5)):
            role = (
                "leader"
                if broker == 0
                else generator.choice(("compared", "compared", "compared", "foreign", "duplicate", "set_aside"))
            )
            own_end = end if broker == 0 else generator.randint(base, end + 3)
            starts = sorted({base, *(generator.randint(base, own_end) for _ in range(generator.choice((0, 1, 3, 40))))})
            tables["replicas"].append(
                row(
                    "replicas",
                    broker_id=broker,
                    log_dir=f"broker-{broker}",
                    role=role,
                    is_leader=broker == 0,
                    in_isr=generator.choice((True, False, None)),
                    log_start_offset=base,
                    log_end_offset=own_end,
                    epochs=[[epoch * generator.choice((1, 99999)), start] for epoch, start in enumerate(starts)]
                    if generator.random() < 0.8
                    else [],
                    high_watermark_checkpoint=generator.choice(
                        (None, 0, base, own_end, generator.randint(base, own_end), own_end + 4)
                    ),
                    tail_kind="clean",
                    record_count=own_end - base,
                    size_bytes=100,
                    **place,
                )
            )
            if role != "compared" or own_end <= base:
                continue
            differs = generator.randint(base, own_end - 1) if generator.random() < 0.7 else None
            if differs is not None:
                tables["divergences"].append(
                    row(
                        "divergences",
                        broker_id=broker,
                        reference_id=0,
                        start_offset=differs,
                        end_offset=own_end,
                        code="DIV-EPOCH",
                        leader_epoch=1,
                        replica_epoch=0,
                        record_count=own_end - differs,
                        committed=generator.random() < 0.5,
                        **place,
                    )
                )
            for protocol in PROTOCOLS:
                cut = own_end if differs is None else generator.choice((differs, differs, base, own_end))
                tables["truncations"].append(
                    row(
                        "truncations",
                        broker_id=broker,
                        leader_id=0,
                        protocol=protocol,
                        truncate_to=cut,
                        dropped_records=own_end - cut,
                        dropped_bytes=9,
                        committed_dropped=0,
                        common_prefix_end=own_end if differs is None else differs,
                        steps=[],
                        reason="none",
                        **place,
                    )
                )
            if generator.random() < 0.3:
                findings.append(
                    finding(
                        "LOG-GAP",
                        "high",
                        place["topic"],
                        number,
                        broker_id=broker,
                        start_offset=base,
                        end_offset=own_end,
                    )
                )
    return results(partitions, findings, **tables)


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("layout")
    found = {
        "sample": audit_whole(SAMPLES / "last-replica-standing"),
        "unclean": audit_whole(SAMPLES / "diverged-unclean"),
        "lost": audit_whole(FIXTURES / "kip101-isr-3-lost"),
        "elr": audit_whole(FIXTURES / "elr-elected"),
        "random": random_results(11),
        "other": random_results(12),
    }
    return {name: write(found[name], directory / f"{name}.html") for name in PAGES}


def open_all(browser, path: Path, **look) -> None:
    """Open the page and every partition of its table."""
    browser.open(path, **look)
    browser.run("for (const fold of document.querySelectorAll('.folded button')) fold.click()")
    browser.run("for (const button of document.querySelectorAll('.open[aria-expanded=false]')) button.click()")
    browser.wait(
        "document.querySelectorAll('tr.details .detail').length === document.querySelectorAll('tr.partition').length"
    )
    settle(browser)


def to_paper(browser) -> None:
    """Lay the page that is open out as its print would be, whatever the window was."""
    browser.run("dispatchEvent(new Event('beforeprint'))")
    browser.look(width=PAPER, media="print")
    settle(browser)


class Measured(NamedTuple):
    """A page with all partitions open: texts of its pictures, labels that lie on something, and what is cut off."""

    texts: int
    labels: list[str]
    clipped: list[str]


@pytest.fixture(scope="module")
def measure(browser, pages) -> Callable[[str], dict[int | str, Measured]]:
    """Opens a page once for all who ask, and looks at it in a window of every width and, from the last of them, on paper: that it
    is drawn for the paper from any, a real print shows.
    """

    def look(*scrolled: str) -> Measured:
        texts = browser.run("return document.querySelectorAll('svg.picture[aria-labelledby] text').length")
        return Measured(texts, browser.run(LABELS), browser.run(CLIPPED, scrolled))

    @cache
    def measured(name: str) -> dict[int | str, Measured]:
        found: dict[int | str, Measured] = {}
        for width in WIDTHS:
            open_all(browser, pages[name], width=width)
            # Wide tables of one partition may be scrolled in their own box.
            found[width] = look(".scroll")
        to_paper(browser)
        found["paper"] = look()
        browser.quiet()
        return found

    return measured


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("width", [*WIDTHS, "paper"])
def test_labels_lie_on_nothing(measure, name, width):
    found = measure(name)[width]
    assert found.texts > 5
    assert found.labels == []


@pytest.mark.parametrize("width", [*WIDTHS, "paper"])
def test_nothing_is_cut_off(measure, width):
    for name in PAGES:
        assert measure(name)[width].clipped == []


@pytest.mark.parametrize("width", [1920, 390])
def test_a_real_print_draws_for_the_paper(browser, pages, width):
    open_all(browser, pages["unclean"], width=width)
    browser.run(
        "addEventListener('beforeprint', () => { "
        "window.drawn = [...document.querySelectorAll('figure .canvas svg')].map(svg => svg.viewBox.baseVal.width) })"
    )
    pdf = browser.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True, "preferCSSPageSize": True})
    assert base64.b64decode(pdf["data"]).startswith(b"%PDF")
    drawn = browser.run("return window.drawn")
    assert drawn and set(drawn) == {700}
    settle(browser)
    widths = browser.run(
        "return [...document.querySelectorAll('figure .canvas svg')].map(svg => svg.viewBox.baseVal.width)"
    )
    assert 700 not in widths, "what was drawn for the paper is not left on the screen"


@pytest.mark.parametrize("width", [1280, 1920])
def test_names_stay_on_one_line_while_there_is_room(browser, tmp_path, width):
    names = ["orders", "__consumer_offsets", "payments.card-authorisations.v2", "a" * 34]
    rows = [partition(name, 12, "WILL_LOSE_ON_TRUNCATION", hw_lower=10**10, hw_upper=10**10) for name in names]
    codes = [finding("REP-UNDER-REPLICATED", "medium", name, 12, broker_id=1) for name in names]
    browser.open(write(results(rows, codes), tmp_path / "page.html"), width=width)
    assert browser.run("return document.querySelectorAll('.open code').length") == len(names)
    assert browser.run(WRAPPED, ".open code, .cardy .plain, .verdict, .found code, thead .sort") == []
    assert browser.run(CLIPPED, []) == []


def test_a_name_of_249_letters_is_broken_and_not_cut(browser, tmp_path):
    name = "n" * 249
    found = results([partition(name, 0, "LAGGING"), *(partition("orders", number) for number in range(3))])
    for width in WIDTHS:
        browser.open(write(found, tmp_path / "page.html"), width=width)
        assert browser.run(CLIPPED, []) == []
        assert browser.run(WRAPPED, ".open code") == [f"{name}-0"]


def test_a_wide_window_is_used(browser, pages):
    browser.open(pages["unclean"], width=1920)
    browser.wait("document.querySelectorAll('figure svg').length > 0")
    used = browser.run(
        "return [...document.querySelectorAll('main > section, figure .canvas svg')].map(e => e.getBoundingClientRect().width).filter(Boolean)"
    )
    assert min(used) > 1600
    beside = browser.run(
        "const [a, b] = ['.said', '.first'].map(s => document.querySelector(s).getBoundingClientRect()); return a.right <= b.left"
    )
    assert beside, "what to do first stands beside what is wrong"
