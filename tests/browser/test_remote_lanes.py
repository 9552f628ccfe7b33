"""Remote storage in the picture of a partition: above the lane of each replica what it would serve as leader, and what not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.browser.layout import write
from tests.support.captures import FIXTURES, audit_whole
from tests.support.samples import SAMPLES

#: Of each replica its bars of remote storage: class and title.
BARS = """
return [...document.querySelectorAll('tr.details svg.picture g.remote')].map((lane) => [...lane.querySelectorAll('rect')]
  .map((bar) => [bar.getAttribute('class'), bar.querySelector('title').textContent]))
"""
LEGEND = "return document.querySelector('tr.details .legend').textContent"


def bars(browser, place: Path, partition: str) -> list[list[list[str]]]:
    browser.open(place, f"#{partition}")
    browser.wait("document.querySelectorAll('tr.details .detail svg.picture').length > 0")
    return browser.run(BARS)


def test_segments_of_another_history_lie_apart_from_what_the_brokers_serve(browser, tmp_path: Path) -> None:
    lanes = bars(browser, write(audit_whole(SAMPLES / "tiered-unclean"), tmp_path / "page.html"), "t-0")
    assert len(lanes) == 2 and lanes[0] != []
    for broker, lane in zip((1, 0), lanes, strict=True):
        left = [title for kind, title in lane if kind == "tier left"]
        assert left == [
            f"remote storage, epoch 0: offsets 40 to 59; broker {broker} as leader would not serve it",
            f"remote storage, epoch 0: offsets 60 to 79; broker {broker} as leader would not serve it",
        ]
        assert len(lane) == 6 and all(kind.startswith("epoch e") for kind, _ in lane if kind != "tier left")
    assert "would not serve it" in browser.run(LEGEND)
    held = browser.run(
        "return [...document.querySelectorAll('tr.details svg.picture .side')].map((node) => node.textContent)"
    )
    assert all("52 to 66" in text for text in held)
    browser.quiet()


@pytest.mark.parametrize("width", [1240, 400])
def test_in_a_sound_cluster_every_broker_serves_all_of_it(browser, tmp_path: Path, width: int) -> None:
    place = write(audit_whole(FIXTURES / "tiered-2-follower"), tmp_path / "page.html")
    browser.look(width=width)
    lanes = bars(browser, place, "tiers-1")
    assert [len(lane) for lane in lanes] == [6, 6, 6]
    assert all(kind.startswith("epoch e") for lane in lanes for kind, _ in lane)
    legend = browser.run(LEGEND)
    assert "in remote storage" in legend and "would not serve" not in legend
    browser.quiet()


def test_a_topic_without_remote_storage_has_no_such_lane(browser, tmp_path: Path) -> None:
    place = write(audit_whole(SAMPLES / "diverged-unclean"), tmp_path / "page.html")
    assert bars(browser, place, "ledger-0") == [] and "remote" not in browser.run(LEGEND)
