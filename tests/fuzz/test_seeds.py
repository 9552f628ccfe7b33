"""Every seed and every input that once was a crash, through the function that is fuzzed with it; atheris is not needed."""

from __future__ import annotations

from collections import defaultdict

import pytest
from tests.fuzz.seeds import kept_seeds
from tests.fuzz.targets import TARGETS, check_values, execute

SEEDS: dict[str, dict[str, bytes]] = defaultdict(dict)
for _name, _data in kept_seeds().items():
    SEEDS[_name.split("/")[0]][_name] = _data
#: One of many whole snapshots, which take longer than anything else.
_EVERY = {"snapshot": 10}


def test_every_target_has_seeds_and_every_seed_a_target():
    assert set(SEEDS) == set(TARGETS)


@pytest.mark.parametrize("target", TARGETS)
def test_seeds_are_answered_or_refused(target):
    for name, data in sorted(SEEDS[target].items())[:: _EVERY.get(target, 1)]:
        try:
            execute(target, data)
        except BaseException as error:
            raise AssertionError(name) from error


@pytest.mark.parametrize("target", TARGETS)
def test_no_bytes_and_nonsense(target):
    for data in (b"", bytes(100), b"\xff" * 100, bytes(range(256)), b"[" * 500, b"9" * 500, b"a: b\n" * 9):
        execute(target, data)


@pytest.mark.parametrize("value", ("\ud800", {"a": ["\udfff"]}, 2**64, -(2**63) - 1, (1, [2**70])))
def test_answers_that_no_table_holds_are_crashes(value):
    with pytest.raises((AssertionError, UnicodeError)):
        check_values(value)
