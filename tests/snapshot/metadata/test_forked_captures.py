"""Forked metadata logs of real clusters: which copies cannot be right, by which rule, and what is advised (META-FORK)."""

from __future__ import annotations

import itertools
import json
import struct
from functools import cache
from pathlib import Path

import pytest
from tests.support.captures import audit_whole
from tests.support.fixtures import ARCHIVED_ATTACKS, ATTACKS
from tests.support.some import some

from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.markdown import render_markdown
from replica_audit.report.page.document import render_page
from replica_audit.report.show_text import render_summary
from replica_audit.snapshot.discovery import discover
from replica_audit.snapshot.metadata.histories import QuorumHistory, find_histories, group_copies
from replica_audit.snapshot.metadata.log_copies import read_copy
from replica_audit.snapshot.metadata.stale_copies import AppliedEvidence
from replica_audit.snapshot.storage import Snapshot

CLASS = "13-forked-metadata"
FORKED = sorted(path.name for path in (ATTACKS / CLASS).iterdir())
_LOG = "__cluster_metadata-0/00000000000000000000.log"


def truth(capture: str) -> dict:
    return json.loads((ARCHIVED_ATTACKS / "truth" / CLASS / f"{capture}.json").read_text(encoding="utf-8"))


@cache
def copies_of(capture: str) -> dict[int, Path]:
    """By node id, its directory in the capture."""
    return {int(path.name.rpartition("-")[2]): path for path in (ATTACKS / CLASS / capture).iterdir()}


def raw_batches(log: Path) -> dict[int, bytes]:
    """By base offset, the bytes of each batch, by its length field only."""
    raw, at, found = log.read_bytes(), 0, {}
    while at < len(raw):
        base, length = struct.unpack_from(">qi", raw, at)
        found[base] = raw[at : at + 12 + length]
        at += 12 + length
    return found


def histories(capture: str, nodes: tuple[int, ...]) -> tuple[QuorumHistory, ...]:
    """Histories that the copies of these nodes hold; the partitions' directories of all brokers are there."""
    snapshot = Snapshot.open(str(ATTACKS / CLASS / capture))
    inventory = discover(snapshot)
    copies = [read_copy(snapshot, log, None) for log in inventory.metadata_logs if log.node_id in nodes]
    return find_histories(snapshot, group_copies(copies), None, AppliedEvidence(directories=inventory.replicas))


def subsets() -> list[tuple[str, tuple[int, ...]]]:
    """Each capture with every choice of copies that has both histories."""
    found = []
    for capture in FORKED:
        told, nodes = truth(capture), sorted(copies_of(capture))
        spliced = set(told["spliced"])
        for size in range(2, len(nodes) + 1):
            found += [
                (capture, chosen)
                for chosen in itertools.combinations(nodes, size)
                if spliced & set(chosen) and set(chosen) - spliced
            ]
    return found


@pytest.mark.parametrize("capture", FORKED)
def test_the_truth_is_that_of_the_bytes(capture):
    told = truth(capture)
    logs = {node: raw_batches(path / _LOG) for node, path in copies_of(capture).items()}
    for group in (told["controllers_agree"], told["brokers_agree"]):
        assert all(logs[node] == logs[group[0]] for node in some(group))
    spliced = logs[told["spliced"][0]]
    others = [logs[node] for node in logs if node not in told["spliced"]]
    for other in some(others):
        differ = [base for base in spliced.keys() | other.keys() if spliced.get(base) != other.get(base)]
        assert (min(differ), max(differ) + 1) == tuple(told["differs"])


@pytest.mark.parametrize(("capture", "nodes"), subsets())
def test_whichever_copies_are_here_no_right_one_is_refused_and_no_wrong_one_left(capture, nodes):
    told, found = truth(capture), histories(capture, nodes)
    start, end = told["differs"]
    is_undecided = told["writer"] is not None and told["writer"] not in nodes
    for one in found:
        ids = {copy.node_id for copy in one.copies}
        reasons = "; ".join(one.refused)
        own = f"it is spliced from two histories: offsets {start} to {end - 1} are of another history"
        either = f"in offsets {start} to {end - 1} it differs from "
        assert (own in reasons) == (ids <= set(told["spliced"]) and not is_undecided), reasons
        assert (either in reasons and "one of the two is spliced" in reasons) == is_undecided, reasons
        lacking = told["lack_a_topic"]
        lacks = lacking is not None and ids <= set(lacking["nodes"])
        assert ("it does not know topic" in reasons) == lacks, reasons
        assert not lacks or f"topic {lacking['topic']} (id " in reasons
    left = {copy.node_id for one in found if not one.refused for copy in one.copies}
    assert left == set(told["right"]) & set(nodes)


@pytest.mark.parametrize("capture", FORKED)
def test_no_form_of_the_report_counts_voters_and_all_begin_with_copies(capture):
    results = audit_whole(ATTACKS / CLASS / capture)
    (fork,) = [row for row in results.rows("findings") if row["code"] == "META-FORK"]
    assert fork["severity"] == "critical" and not [
        row for row in results.rows("quarantine") if row["code"] != "META-FORK"
    ]
    right = " and ".join(", ".join(map(str, truth(capture)["right"])).rsplit(", ", 1))
    left = f"Only the log of nodes {right} lacks nothing" if right else "no copy here is right as it is"
    verdict = build_verdict(results, "high")
    assert verdict["exit_status"] == 1
    forms = render_summary(results), render_markdown(results, verdict), render_page(results, verdict)
    for form in forms:
        text = " ".join(form.replace("\\", "").split())
        assert left in text
        assert "majority of the voters" not in text and "majority's history" not in text
        assert "All is well" not in text
        assert "Start no controller and no broker until" in text
    assert forms[0].index("Do first\n1. Start no controller") > 0
