"""Views of the page: filters in the address, small multiples, facts, protocols, roles, open high watermarks, commands."""

from __future__ import annotations

import shlex
from dataclasses import replace

from tests.browser.layout import LABELS, settle, write
from tests.support.captures import audit_whole
from tests.support.report_rows import finding, orders_row, partition, results, row
from tests.support.samples import SAMPLES

from replica_audit.cli.main import main

ROWS = "return [...document.querySelectorAll('tr.partition .open')].map(e => e.textContent)"
CELLS = "return [...document.querySelectorAll('.mini-name')].map(e => e.textContent)"
OPENED = "document.querySelectorAll('tr.details .detail').length"


def mixed(bad: int = 5):
    """`bad` partitions that lost records, one that lags and one that is consistent."""
    partitions = [
        partition(
            "orders" if number % 2 else "ledger",
            number,
            "COMMITTED_LOSS",
            lost_records=9 - number,
            lost_committed=8 - number,
            lost_at_most=False,
        )
        for number in range(bad)
    ]
    others = [partition("orders", 90, "LAGGING", lost_records=0), partition("calm & quiet", 91, lost_records=0)]
    findings = [
        finding("HWM-LOSS", "critical", one["topic"], one["partition"], broker_id=one["partition"] % 2)
        for one in partitions
    ]
    replicas = [
        row(
            "replicas",
            topic=one["topic"],
            partition=one["partition"],
            broker_id=broker,
            role="leader" if broker == 1 else "compared",
            is_leader=broker == 1,
            log_start_offset=0,
            log_end_offset=20,
            epochs=[[0, 0]],
            lost_held=0 if broker else one["lost_records"],
            lost_committed_held=0 if broker else one["lost_committed"],
            lost_only_here=0 if broker else one["lost_records"],
            lost_committed_only_here=0 if broker else one["lost_committed"],
        )
        for one in partitions
        for broker in (0, 1)
    ]
    return results([*partitions, *others], [*findings, finding("REP-LAG", "info", "orders", 90)], replicas=replicas)


def test_filters_search_and_order_are_in_the_address_and_come_back_from_it(browser, tmp_path):
    page = write(mixed(), tmp_path / "page.html")
    browser.open(page)
    browser.run(
        "document.querySelector('[data-verdict=COMMITTED_LOSS]').click(); document.querySelector('[data-sort=name] button').click()"
    )
    browser.press("/")
    browser.press("orders")
    browser.wait("document.querySelector('#count').innerText === '2 of 7'")
    shown = browser.run(ROWS)
    assert shown == ["orders-1", "orders-3"]
    browser.run("document.querySelector('.open').click()")
    browser.wait(f"{OPENED} === 1")
    fragment = browser.run("return location.hash")
    assert fragment == "#orders-1&q=orders&verdict=COMMITTED_LOSS&sort=name"
    browser.open(page, fragment)
    browser.wait(f"{OPENED} === 1")
    assert browser.run(ROWS) == shown and browser.run("return document.getElementById('search').value") == "orders"
    assert (
        browser.run("return document.querySelector('[data-verdict=COMMITTED_LOSS]').getAttribute('aria-pressed')")
        == "true"
    )
    assert browser.run("return document.querySelector('[data-sort=name]').getAttribute('aria-sort')") == "ascending"
    # Somebody pastes another address into the window that is open.
    browser.run("location.hash = '#q=broker 1&broker=1'")
    browser.wait("document.querySelector('#filters').innerText.includes('broker 1')")
    assert browser.run(ROWS) == ["ledger-0", "orders-1", "ledger-2", "orders-3", "ledger-4"][1::2]
    browser.run("location.hash = ''")
    browser.wait("document.querySelector('#count').innerText === '7'")
    assert browser.run("return location.hash") == ""
    browser.quiet()


def test_what_an_address_names_and_the_page_does_not_have_is_passed_over(browser, tmp_path):
    page = write(mixed(), tmp_path / "page.html")
    browser.open(page, "#gone-7&sort=nonsense&verdict=NONE,LAGGING&broker=x&q=%E0%A4%A")
    assert browser.run(ROWS) == ["orders-90"]
    browser.open(page, "#" + "topic=calm%20%26%20quiet")
    assert browser.run(ROWS) == ["calm & quiet-91"] and "topic calm & quiet" in browser.text("#filters")
    browser.run("document.querySelector('.skip').click()")
    assert browser.run(ROWS) == ["calm & quiet-91"], "the link to the table is no address of a partition"
    browser.quiet()


def test_bad_partitions_are_seen_at_a_glance_where_they_are_more_than_three(browser, tmp_path):
    browser.open(write(mixed(5), tmp_path / "page.html"))
    browser.wait("document.querySelectorAll('.mini-cell svg').length === 5")
    assert browser.run(CELLS) == ["ledger-0", "orders-1", "ledger-2", "orders-3", "ledger-4"]
    assert (
        browser.run("return [...document.querySelectorAll('.mini-what')].map(e => e.textContent)")[0]
        == "8 committed records lost"
    )
    assert browser.run(
        "return document.getElementById('gallery').getBoundingClientRect().bottom < document.getElementById('table').getBoundingClientRect().top"
    )
    browser.run("[...document.querySelectorAll('#where .plain')].find(b => b.textContent === 'broker 0').click()")
    assert browser.run(CELLS) == ["ledger-0", "ledger-2", "ledger-4"]
    browser.run("document.querySelectorAll('.mini-cell')[1].click()")
    browser.wait(f"{OPENED} === 1")
    assert browser.run("return document.activeElement.textContent") == "ledger-2"
    browser.open(write(mixed(3), tmp_path / "few.html"))
    assert not browser.find(".mini-cell") and browser.run("return document.getElementById('gallery').hidden")
    browser.quiet()


def test_lost_records_are_the_same_number_everywhere(browser, tmp_path):
    browser.open(write(mixed(5), tmp_path / "page.html"))
    table = browser.run(
        "return [...document.querySelectorAll('tr.partition')].map(r => [r.cells[4].innerText, r.cells[5].innerText])"
    )
    assert table[:5] == [[str(9 - n), str(8 - n)] for n in range(5)]
    cards = browser.text("#where")
    assert "holds 30 lost committed records in 5 partitions, nobody else has them" in cards
    topics = browser.run(
        "return [...document.querySelectorAll('#where .barred')].map(c => c.parentElement.innerText.split(/\\s+/).join(' '))"
    )
    assert any(text.startswith("ledger 3 18 committed of 21") for text in topics), topics
    assert "committed records lost in 3 partitions" in cards, "partitions are not taken for records"


def test_a_fact_is_told_once_and_the_other_findings_are_behind_it(browser, unclean):
    browser.open(unclean, "#ledger-0")
    browser.wait(f"{OPENED} === 1")
    heads = browser.run(
        "return [...document.querySelectorAll('.detail .findings > li')].map(li => li.querySelector('code').textContent)"
    )
    assert heads == ["HWM-LOSS", "META-UNCLEAN-ELECTION", "REP-UNDER-REPLICATED"]
    assert "broker 0 · [34, 79)" in browser.text(".detail .findings > li")
    browser.run("document.querySelectorAll('.detail .findings details').forEach(d => { d.open = true })")
    said = browser.text(".detail .findings")
    for code in ("TRN-BELOW-HW", "DIV-EPOCH"):
        assert code in said


def test_one_finding_of_seven_brokers_is_one_line(browser, tmp_path):
    rows = [
        finding("EPO-CACHE-MISSING", "high", broker_id=broker, message=f"broker {broker} has no epochs")
        for broker in range(7)
    ]
    browser.open(write(results([partition(verdict="LATENT_CORRUPTION")], rows), tmp_path / "page.html"))
    browser.wait(f"{OPENED} === 1")
    assert len(browser.find(".detail .findings > li")) == 1
    assert "brokers 0, 1, 2, 3, 4, 5 and 6" in browser.text(".detail .findings > li")
    assert "(1, told by 7 rows of audit.json)" in browser.text(".detail h4:has(+ div .findings)")


def test_protocols_that_agree_are_one_line(browser, unclean, tmp_path):
    lines = "return [...document.querySelectorAll('.replay > .scroll tbody tr')].map(r => [...r.cells].slice(1, 3).map(c => c.innerText))"
    browser.open(write(audit_whole(SAMPLES / "last-replica-standing"), tmp_path / "page.html"))
    browser.wait(f"{OPENED} === 1")
    assert browser.run(lines) == [["every protocol", "93"]]
    browser.run("document.querySelector('.steps-told').open = true")
    assert browser.text(".steps-told").count("asks for epoch 4") == 2, (
        "KIP-101 asks alike and is answered without an epoch"
    )
    browser.open(unclean, "#ledger-0")
    browser.wait(f"{OPENED} === 1")
    assert browser.run(lines) == [
        ["fetch 2.8 and later, KIP-279 2.0.1 to 2.7, KIP-101 0.11 to 2.0.0", "34"],
        ["high watermark before 0.11", "52"],
    ]


def test_tables_are_handed_out_as_csv_with_the_rows_that_the_filters_leave(browser, tmp_path):
    browser.open(write(mixed(3), tmp_path / "page.html"), "#verdict=COMMITTED_LOSS")
    browser.run(
        "URL.createObjectURL = (blob) => { blob.text().then((text) => { document.body.dataset.csv = text }); return 'data:,' };"
        "HTMLAnchorElement.prototype.click = function () { document.body.dataset.file = this.download };"
        "document.querySelector('#partitions .csv').click()"
    )
    browser.wait("document.body.dataset.csv")
    lines = [line.split(",") for line in browser.run("return document.body.dataset.csv").splitlines()]
    assert browser.run("return document.body.dataset.file") == "partitions.csv"
    rows = [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]
    assert [(row["topic"], row["partition"], row["lost_committed"]) for row in rows] == [
        ("ledger", "0", "8"), ("orders", "1", "7"), ("ledger", "2", "6"),
    ]  # fmt: skip
    assert {row["verdict"] for row in rows} == {"COMMITTED_LOSS"} and rows[0]["code"] == "HWM-LOSS"
    browser.run("document.querySelector('.open').click()")
    browser.wait(f"{OPENED} === 1")
    browser.run("document.body.dataset.csv = ''; document.querySelector('.detail .csv').click()")
    browser.wait("document.body.dataset.csv")
    assert browser.run("return document.body.dataset.csv").splitlines()[0].startswith("broker,in sync,log start")
    browser.quiet()


def copy(broker: int, role: str, **values):
    defaults = {
        "log_start_offset": 0,
        "log_end_offset": 80,
        "epochs": [[0, 0]],
        "tail_kind": "clean",
        "log_dir": f"d{broker}",
    }
    return orders_row("replicas", broker_id=broker, role=role, is_leader=role == "leader", **{**defaults, **values})


def test_without_an_upper_bound_nothing_is_said_not_to_be_committed(browser, tmp_path):
    mark = orders_row("high_watermarks", hw_lower=52, hw_upper=None, leadership_source="inferred")
    found = results(
        [partition(verdict="LAGGING", hw_lower=52, hw_upper=None)], replicas=[copy(1, "leader")], high_watermarks=[mark]
    )
    browser.open(write(found, tmp_path / "page.html"), "#orders-0")
    browser.wait("document.querySelector('figure text.recomputed')")
    assert browser.run("return document.querySelector('text.recomputed').textContent") == "high watermark at least 52"
    band, line = (
        browser.run(f"return document.querySelector('{one}').getBoundingClientRect().toJSON()")
        for one in (".band.open", "line.recomputed")
    )
    assert (
        abs(band["left"] - line["left"]) < 2
        and band["width"] > 100
        and len(
            set(browser.run("return [...document.querySelectorAll('line.recomputed')].map(l => l.getAttribute('x1'))"))
        )
        == 1
    )
    browser.run("document.querySelector('.canvas').focus()")
    said = set()
    for key in ("\ue011", *"\ue014\ue014\ue014\ue014"):
        browser.press(key)
        said.add(browser.text(".readout").rsplit(" · ", 1)[1])
    assert said == {"below the high watermark", "perhaps committed"}
    assert browser.run("return document.querySelector('tr.partition').cells[3].innerText") == "at least 52"
    assert browser.run(LABELS) == []
    browser.quiet()


def test_copies_are_named_for_what_they_are(browser, tmp_path):
    replicas = [
        copy(3, "foreign", log_end_offset=500),
        copy(1, "reference"),
        copy(2, "compared"),
        copy(2, "duplicate", log_dir="other", log_end_offset=70),
        copy(2, "future", log_dir="another", log_end_offset=90),
        copy(4, "set_aside"),
    ]
    run = orders_row(
        "divergences", broker_id=2, start_offset=60, end_offset=80, code="DIV-EPOCH", record_count=20, committed=False
    )
    found = results([partition(verdict="UNCOMMITTED_DIVERGENCE", leader_id=None)], replicas=replicas, divergences=[run])
    browser.open(write(found, tmp_path / "page.html"))
    browser.wait("document.querySelector('figure .side')")
    names = browser.run(
        "return [...document.querySelectorAll('figure .side')].map(g => [...g.children].slice(0, 2).map(t => t.textContent).join(': '))"
    )
    assert names == [
        "broker 1: reference, not the leader · in sync?",
        "broker 2: in sync?",
        "broker 2: duplicate copy",
        "broker 2: on its way to another disk",
        "broker 3: another topic id",
        "broker 4: set aside",
    ]
    assert len(browser.find("rect.run")) == 1, "what the compared copy has is not drawn on the others of its broker"
    assert "not what the reference has" in browser.text(".legend")
    browser.run("document.querySelector('.fold').open = true")
    assert "2 duplicate copy in other" in browser.text(".fold table")
    assert browser.run(LABELS) == []
    browser.quiet()


def test_the_command_on_the_page_runs_when_it_is_pasted(browser, tmp_path, capsys):
    place = tmp_path / "it's a capture; of friday"
    place.symlink_to(SAMPLES / "last-replica-standing")
    page = write(replace(audit_whole(place), location=str(place)), tmp_path / "page.html")
    browser.open(page)
    browser.wait(f"{OPENED} === 1")
    words = shlex.split(browser.text(".detail .command"))
    assert words == ["replica-audit", "show", str(place), "orders-0"]
    assert main(words[1:]) == 1 and "COMMITTED_LOSS" in capsys.readouterr().out


def test_a_page_printed_from_a_window_has_what_was_at_a_glance(browser, tmp_path):
    browser.open(write(mixed(5), tmp_path / "page.html"))
    browser.wait("document.querySelectorAll('.mini-cell svg').length === 5")
    browser.look(width=703, media="print")
    settle(browser)
    assert browser.run(
        "return [...document.querySelectorAll('.mini-cell svg')].every(s => s.getBoundingClientRect().width > 100)"
    )
