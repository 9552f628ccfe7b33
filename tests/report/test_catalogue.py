"""The finding catalogue: complete, and in the order that verdicts and levels are judged by."""

from __future__ import annotations

import re

import pytest

from replica_audit.auditing.catalogue import (
    CATALOGUE,
    at_or_above,
    code_text,
    codes_with,
    nearest_codes,
    worst_verdict,
)
from replica_audit.config import FAIL_LEVELS
from replica_audit.literals import SEVERITIES, VERDICTS

TEXTS = {name: code_text(name) for name in CATALOGUE}
REMEDIES = {name: text.remedy for name, text in TEXTS.items()}


@pytest.mark.parametrize("code", CATALOGUE.values(), ids=list(CATALOGUE))
def test_a_code_says_all_that_an_operator_needs(code) -> None:
    text = TEXTS[code.code]
    assert all((text.summary, text.meaning, text.proof, text.remedy)) and code.severities
    assert list(code.severities) == sorted(set(code.severities), key=SEVERITIES.index)
    assert list(code.verdicts) == sorted(set(code.verdicts), key=VERDICTS.index)
    assert not text.summary.endswith(".")
    for said in (text.meaning, text.proof, text.remedy, text.traps):
        assert not said or said.endswith(".")


@pytest.mark.parametrize("code", CATALOGUE)
def test_no_remedy_throws_away_what_may_be_the_last_copy(code) -> None:
    """A replica that is damaged in one place may be the only one that holds something in another; and a plan has one such step of it."""
    own, rule, _ = REMEDIES[code].partition(" Rebuild a replica only while another one leads the partition")
    rebuilds = re.search(r"(?i)\brebuild\b|fetch(es)? the partition|directory (away|aside)", own)
    assert bool(rebuilds or code == "EPO-AHEAD-OF-METADATA") is bool(rule) is (code in codes_with("moved_away"))
    if rebuilds:
        assert re.search(r"(?i)\bcopy (the|this|both|of)|\bkeep it\b|\bkeep a copy\b", own)


@pytest.mark.parametrize("code", [name for name in CATALOGUE if "abort" in REMEDIES[name]])
def test_no_remedy_aborts_what_was_committed(code) -> None:
    """Abort hides the records of a transaction from read_committed consumers; another log may have its marker."""
    assert re.search(r"If no other log has its marker|abort on the leader only what was aborted", REMEDIES[code])


@pytest.mark.parametrize("code", [name for name in CATALOGUE if "kafka_cleanshutdown" in REMEDIES[name]])
def test_no_remedy_takes_the_clean_flag_away(code) -> None:
    """Without it every log of the disk is recovered, and the broker counts as stopped uncleanly (KIP-966)."""
    assert "Do not remove .kafka_cleanshutdown" in REMEDIES[code]


def test_every_family_is_there() -> None:
    families = {code.split("-")[0] for code in CATALOGUE}
    assert families == {"LOG", "EPO", "DIV", "HWM", "REP", "TXN", "TIER", "CHK", "TRN", "GRP", "META", "CAP"}


def test_no_critical_code_leaves_a_partition_consistent() -> None:
    assert [code.code for code in CATALOGUE.values() if "critical" in code.severities and not code.verdicts] == []


def test_the_worst_verdict_wins_and_none_is_consistent() -> None:
    assert worst_verdict([]) == "CONSISTENT"
    assert worst_verdict(reversed(VERDICTS)) == "COMMITTED_LOSS"
    with pytest.raises(ValueError, match="not in tuple"):
        worst_verdict(["FINE"])


def test_levels_are_the_severities_and_never() -> None:
    assert (*SEVERITIES, "never") == FAIL_LEVELS
    assert at_or_above("high", "high") and not at_or_above("medium", "high")
    assert not any(at_or_above(severity, "never") for severity in SEVERITIES)


def test_a_mistyped_code_finds_its_neighbours() -> None:
    assert nearest_codes("hwm_los")[0] == "HWM-LOSS" and nearest_codes("DIV-HIDEN")[0] == "DIV-HIDDEN"
