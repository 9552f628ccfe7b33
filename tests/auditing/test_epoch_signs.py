"""Every line of the decision table of `confidence_of`."""

from __future__ import annotations

import pytest

from replica_audit.auditing.compare.epoch_corruption import EpochSigns, confidence_of

#: Nothing tells anything.
NOTHING = EpochSigns(
    own=None,
    theirs=None,
    known=False,
    led=None,
    goes_on=False,
    contradicted=False,
    late=False,
    own_is_other=False,
    begins_there=False,
    in_others=False,
    has_other=False,
    settled=False,
)
NO_FILE = NOTHING._replace(theirs=True)
DENIED = NOTHING._replace(own=False)
BEGUN = NOTHING._replace(own=True, begins_there=True, has_other=True, settled=True)

#: One for each line of the table, in its order, with the signs that this line shares with no line above it.
LINES = [
    ([BEGUN._replace(known=True), NO_FILE._replace(known=True, led=False)], None),
    ([NO_FILE._replace(led=False), NO_FILE._replace(led=False, goes_on=True)], "proven"),
    ([NOTHING._replace(led=False), NOTHING._replace(led=False, theirs=False, contradicted=True)], "likely"),
    (
        [NO_FILE._replace(led=True), NOTHING, NO_FILE._replace(theirs=False), NO_FILE._replace(goes_on=True)],
        None,
    ),
    ([NO_FILE._replace(contradicted=True)], "proven"),
    ([NO_FILE], "suspect"),
    ([DENIED._replace(theirs=False, contradicted=True), DENIED._replace(late=True, theirs=True)], None),
    (
        [DENIED._replace(theirs=True), DENIED._replace(own_is_other=True), DENIED._replace(contradicted=True)],
        "proven",
    ),
    ([DENIED, DENIED._replace(known=True, led=True, goes_on=True)], "likely"),
    (
        [BEGUN._replace(begins_there=False, led=False), BEGUN._replace(goes_on=True), BEGUN._replace(led=True)],
        None,
    ),
    ([BEGUN._replace(in_others=True, led=False)], None),
    (
        [BEGUN._replace(led=False), BEGUN._replace(contradicted=True), BEGUN._replace(led=False, has_other=False)],
        "proven",
    ),
    ([BEGUN._replace(has_other=False)], None),
    ([BEGUN], "suspect"),
    ([BEGUN._replace(settled=False)], None),
]


@pytest.mark.parametrize(("signs", "confidence"), [(one, said) for some, said in LINES for one in some])
def test_a_line_of_the_table(signs: EpochSigns, confidence: str | None) -> None:
    assert confidence_of(signs) == confidence


def test_the_table_has_the_lines_that_are_tried_with_their_answers() -> None:
    assert confidence_of.__doc__ is not None
    lines = [line.split("|") for line in confidence_of.__doc__.splitlines() if line.strip().startswith("|")][2:]
    assert [line[3].strip() or None for line in lines] == [said for _, said in LINES]
