"""The mutation run itself: functions exchanged in place, statements with a probe, the list of survivors."""

from __future__ import annotations

import ast
import re
from collections import defaultdict

import pytest
from tests import mutation
from tests.support import mutation_runs
from tests.support.mutants import ROOT, same_code, statements

SOURCE = '''\
LEAST = 3


def enough(number: int) -> bool:
    """Whether it is."""
    if number < LEAST:
        return False
    return True


class Box:
    size: int = 1

    def holds(self, number):
        return number <= self.size
'''


def _code(source: str):
    return compile(source, "module.py", "exec")


@pytest.mark.parametrize(
    ("old", "new", "function"),
    [
        ("number < LEAST", "number <= LEAST", "enough"),
        ("<= self", "< self", "holds"),
        ("return True", "return 1", "enough"),
    ],
)
def test_a_change_inside_a_function_is_that_function_alone(old, new, function):
    changed = mutation_runs._changed_functions(_code(SOURCE), _code(SOURCE.replace(old, new)))
    assert [name for _, name in changed] == [function]


@pytest.mark.parametrize(
    ("old", "new"), [("LEAST = 3", "LEAST = 4"), ("int = 1", "int = 2"), ("(number:", "(number=1, *, no:")]
)
def test_a_change_outside_of_functions_is_none_of_them(old, new):
    assert mutation_runs._changed_functions(_code(SOURCE), _code(SOURCE.replace(old, new))) is None


def test_what_compiles_to_the_same_or_not_at_all_is_no_mutant():
    assert same_code(SOURCE + "# more", _code(SOURCE), "module.py")
    assert same_code(SOURCE + "def", _code(SOURCE), "module.py")
    assert not same_code(SOURCE.replace("3", "4"), _code(SOURCE), "module.py")


def test_probes_tell_which_statements_were_reached():
    tree, hits, names = ast.parse(SOURCE), [], {}
    mutation_runs._add_probes(tree, inside=False)
    exec(compile(tree, "module.py", "exec"), names)
    names[mutation_runs._PROBE] = hits.append
    assert names["enough"](2) is False
    assert hits == [5, 6, 7]


def test_survivors_that_follow_each_other_have_one_reason(tmp_path, monkeypatch):
    path = tmp_path / "survivors.txt"
    path.write_text(
        "# About\n\na: {1 -> 2}\nb: {3 -> 4}\n    Equal\n    for ints.\n\nc: {5 -> 6}\n    No.\n", encoding="utf-8"
    )
    monkeypatch.setattr(mutation, "SURVIVORS", path)
    assert mutation.listed() == {
        "a: {1 -> 2}": "Equal for ints.",
        "b: {3 -> 4}": "Equal for ints.",
        "c: {5 -> 6}": "No.",
    }


def test_every_survivor_has_a_reason():
    lines = mutation.SURVIVORS.read_text(encoding="utf-8").splitlines()
    named = [line for line in lines if line and not line.startswith(("#", " "))]
    assert sorted(mutation.listed()) == sorted(named)


def test_what_a_survivor_changes_is_still_in_its_function():
    """Whether a change goes unnoticed only `make mutation` tells; that there is nothing left to change is seen at once."""
    named, gone = defaultdict(list), []
    for survivor in mutation.listed():
        path, function, change = re.fullmatch(r"(\S+) (\S+): (.*)", survivor).groups()
        before = re.sub(r"\{([^{}]*) -> [^{}]*\}", r"\1", change)
        named[path].append((function.rpartition(".")[2], "".join(before.split()), survivor))
    for path, survivors in named.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        blocks = [one for one in statements(ast.parse(text)) if hasattr(one, "body") and hasattr(one, "name")]
        sources = [(one.name, "".join(ast.get_source_segment(text, one).split())) for one in blocks]
        for function, before, survivor in survivors:
            if not any(name == function and before in source for name, source in sources):
                gone.append(survivor)
    assert gone == []


@pytest.mark.parametrize("room", mutation.ROOMS.values(), ids=list(mutation.ROOMS))
def test_what_is_mutated_and_the_tests_that_notice_are_there(room):
    assert room.paths()
    assert [test for test in room.tests if not (mutation.ROOT / test).exists()] == []
