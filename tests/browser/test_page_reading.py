"""Use of a page: reading its outline, copying a command, linking to a step, printing, holding it in a hand."""

from __future__ import annotations

import base64
import re
from dataclasses import replace

from tests.browser.layout import CLIPPED, settle, write
from tests.support.captures import audit_whole
from tests.support.report_rows import finding, partition, results
from tests.support.samples import SAMPLES

from replica_audit.schema import REPORT_ROWS

OPENED = "document.querySelectorAll('tr.details .detail').length"
#: Headings in order, as level and text.
OUTLINE = """
return [...document.querySelectorAll('h1, h2, h3, h4')].filter((node) => node.checkVisibility())
  .map((node) => [Number(node.getAttribute('aria-level') || node.tagName[1]), node.textContent])
"""


def test_headings_skip_no_level_and_landmarks_are_there_once(browser, unclean):
    browser.open(unclean, "#ledger-0")
    browser.wait(f"{OPENED} === 1")
    outline = browser.run(OUTLINE)
    levels = [level for level, _ in outline]
    assert levels[0] == 1 and levels.count(1) == 1
    assert [text for (level, text), before in zip(outline[1:], levels, strict=False) if level > before + 1] == []
    for landmark in ("header", "main", "footer"):
        assert len(browser.find(f"body > {landmark}")) == 1, landmark
    unnamed = "return [...document.querySelectorAll('section:not([aria-label]):not([aria-labelledby])')].length"
    assert browser.run(unnamed) == 0
    stray = "return [...document.body.children].filter((node) => !node.matches('header, main, footer, script, .skip, svg')).length"
    assert browser.run(stray) == 0
    browser.quiet()


def test_commands_are_copied_without_the_words_around_them(browser, unclean):
    browser.open(unclean, "#ledger-0")
    browser.wait(f"{OPENED} === 1")
    browser.run(
        "Object.defineProperty(navigator, 'clipboard', { value: { writeText: async (text) => { (window.copied ||= []).push(text); } } })"
    )
    commands = "[...document.querySelectorAll('.command:not(.remark)')]"
    assert browser.run(f"return {commands}.every((node) => node.querySelectorAll('.copy').length === 1)")
    browser.run(f"{commands}.forEach((node) => node.querySelector('.copy').click())")
    texts = browser.run(f"return {commands}.map((node) => node.textContent)")
    assert browser.run("return window.copied") == texts and not any("cop" in text[-6:] for text in texts)
    browser.wait("document.querySelectorAll('.copy[data-done]').length > 0")
    browser.quiet()


def test_a_link_leads_to_a_step_of_the_plan_and_opens_it(browser, unclean):
    browser.open(unclean, "#plan-step-4")
    assert browser.run("return document.getElementById('plan-steps').open")
    assert browser.run("return document.getElementById('plan-step-4').matches(':target')")
    browser.open(unclean)
    assert not browser.run("return document.getElementById('plan-steps').open")
    browser.run("location.hash = '#plan-step-5'")
    browser.wait("document.getElementById('plan-steps').open")
    links = browser.run(
        "return [...document.querySelectorAll('.anchor')].map((link) => link.hash.slice(1) === link.closest('li').id)"
    )
    assert links and all(links)
    browser.quiet()


def bad(count: int):
    """So many partitions with lost records, each with a finding, and one consistent partition."""
    rows = [partition("orders", number, "COMMITTED_LOSS", lost_records=9, lost_committed=7) for number in range(count)]
    found = [finding("HWM-LOSS", "critical", "orders", number, broker_id=1) for number in range(count)]
    return results([*rows, partition("calm", 0)], found)


def printed_pages(browser) -> int:
    made = browser.driver.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True, "printBackground": True})
    return len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(made["data"])))


def test_a_print_has_the_plan_and_every_bad_partition_open_each_on_a_page_of_its_own(browser, unclean, tmp_path):
    browser.open(write(bad(6), tmp_path / "page.html"))
    browser.wait("document.documentElement.dataset.printable === 'yes'")
    assert browser.run(f"return {OPENED}") == 0
    pages = printed_pages(browser)
    assert pages >= 6, "partitions begin on pages of their own"
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run(f"return {OPENED}") == 6
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.run(f"return {OPENED}") == 0
    browser.open(unclean)
    browser.wait("document.documentElement.dataset.printable === 'yes'")
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run("return document.getElementById('plan-steps').open")
    assert browser.run(
        "return [...document.querySelectorAll('.detail figure')].every((one) => one.querySelector('svg'))"
    )
    browser.look(width=703, media="print")
    settle(browser)
    assert browser.run(
        "return [...document.querySelectorAll('.copy, .csv, .anchor')].every((one) => !one.checkVisibility())"
    )
    browser.run("dispatchEvent(new Event('afterprint'))")
    browser.quiet()


def test_on_a_phone_nothing_is_wider_than_the_screen_however_long_a_topic_is(browser, tmp_path):
    whole = audit_whole(SAMPLES / "diverged-unclean")
    name = "payments.card-authorisations.europe-west.v2.retry.dead-letter." + "x" * 120

    def renamed(row):
        return row._replace(topic=name) if getattr(row, "topic", None) == "ledger" else row

    found = replace(whole, **{table: list(map(renamed, whole.table(table))) for table in REPORT_ROWS})
    browser.open(write(found, tmp_path / "page.html"), f"#{name}-0", width=390)
    browser.wait(f"{OPENED} === 1")
    browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    assert browser.run(CLIPPED, []) == []
    assert browser.run("return document.documentElement.scrollWidth") <= 390
