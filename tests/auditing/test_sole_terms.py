"""Proofs by the term of a leader alone in the ISR: every line of the table of `confidence_of_term`."""

from __future__ import annotations

import pytest

from replica_audit.auditing.leadership.commitment import confidence_of_term


@pytest.mark.parametrize("outsiders_count", [True, False])
@pytest.mark.parametrize(
    ("others_fenced", "is_shown", "is_likely", "answer"),
    [
        ("no", True, True, None),
        ("throughout", False, False, None),
        ("later", False, False, None),
        ("throughout", True, True, "proven"),
        ("later", True, True, "likely"),
        ("throughout", False, True, "likely"),
        ("later", False, True, "likely"),
    ],
)
def test_confidence_by_fencing_and_by_what_the_leader_knew(others_fenced, is_shown, is_likely, answer, outsiders_count):
    found = confidence_of_term(others_fenced, is_shown=is_shown, is_likely=is_likely, outsiders_count=outsiders_count)
    assert found == ("likely" if answer == "proven" and outsiders_count else answer)
