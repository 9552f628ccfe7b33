"""Data Docs in a real browser: the index, a result with what failed, and nothing asked of another host."""

from __future__ import annotations

import re
from datetime import datetime, timezone

import pytest
from tests.support.samples import SAMPLES
from tests.support.some import some

from replica_audit.config import Settings
from replica_audit.model import TopicPartition
from replica_audit.runner.in_process import audit_one


@pytest.fixture(scope="module")
def docs(tmp_path_factory):
    """Data Docs of the sample's audit."""
    from replica_audit.quality.checkpoint import run_checkpoint
    from replica_audit.quality.suites import load_plan
    from replica_audit.spark.quality_run import quality_frames

    found = audit_one(str(SAMPLES / "last-replica-standing"), TopicPartition("orders", 0), Settings())
    plan, directory = load_plan(), tmp_path_factory.mktemp("docs") / "data_docs"
    frames = quality_frames(None, None, found, {}, plan.suites)
    run_checkpoint(plan, frames, str(directory), "sample", datetime(2026, 1, 2, tzinfo=timezone.utc))
    return directory


def test_the_index_shows_results_and_suites(browser, docs):
    browser.open(docs / "index.html")
    rows = browser.run("return [...document.querySelectorAll('.tab-pane.active tbody tr')].map((row) => row.innerText)")
    assert len(rows) == 4
    assert {name for name in ("replicas", "partitions", "findings", "quarantine") if any(name in row for row in rows)} == {
        "replicas", "partitions", "findings", "quarantine",
    }  # fmt: skip
    browser.find("#Expectation-Suites-tab")[0].click()
    assert browser.run(
        "return [...document.querySelectorAll('.tab-pane')].map((pane) => getComputedStyle(pane).display)"
    ) == ["none", "block"]
    browser.quiet()


def test_a_result_says_what_failed_and_where_and_hides_what_is_met(browser, docs):
    (page,) = (docs / "validations" / "findings").rglob("*.html")
    browser.open(page)
    text = browser.text("main")
    assert (
        "no-critical-finding (critical): No partition has a critical finding, save those accepted or in the baseline."
        in text
    )
    assert "orders-0" in text and "Data asset: partition_facts" in text
    shown = "[...document.querySelectorAll('main tr i.fas')].filter((icon) => icon.offsetParent).length"
    before = browser.run(f"return {shown}")
    browser.find("#failed-only")[0].click()
    assert 0 < browser.run(f"return {shown}") < before
    assert "severity high" not in browser.text("main")
    toggle = browser.find("[data-toggle=collapse]")[0]
    target = toggle.get_attribute("href").split("#")[1]
    hidden = "getComputedStyle(document.getElementById(arguments[0])).display"
    assert browser.run(f"return {hidden}", target) == "none"
    toggle.click()
    assert browser.run(f"return {hidden}", target) == "block"
    browser.quiet()
    browser.find("nav.top a")[1].click()
    browser.wait(
        "location.pathname.endsWith('/data_docs/index.html') && document.documentElement.dataset.ready === 'yes'"
    )


def test_every_page_leads_back_to_the_audit_and_to_the_index(docs):
    for page in some(docs.rglob("*.html")):
        report, index = re.findall(r'href="([^"]*)"', re.findall(r"<nav.*</nav>", page.read_text())[0])
        assert (page.parent / report).resolve() == docs.parent / "index.html"
        assert index == "#" or (page.parent / index).resolve() == docs / "index.html"
        assert "None" not in page.read_text(), page


@pytest.mark.parametrize("look", [{"dark": True}, {"width": 390, "height": 800}, {"media": "print"}])
def test_a_result_is_as_wide_as_the_window(browser, docs, look):
    (page,) = (docs / "validations" / "replicas").rglob("*.html")
    browser.open(page, **look)
    assert browser.run("return document.documentElement.scrollWidth <= window.innerWidth")
    browser.quiet()


def test_everything_is_readable_without_scripts(browser, docs):
    browser.look(scripts=False)
    browser.driver.get((docs / "index.html").as_uri())
    assert len(browser.find("main tbody tr")) == 8
    browser.look()
