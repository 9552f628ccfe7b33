"""Mutates the protocol and the rules, one change at a time, and says which changes no test notices: `make mutation`.

cosmic-ray makes the changes. Each is tried on the fast tests that reach it, in a fork of a process that has loaded
everything. What no test notices has to be in tests/mutation-survivors.txt with the reason, and what is there has to go
unnoticed; lists of unnamed things rot.

    make mutation MUTATION_ARGS="rules --module epo"
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.support.mutants import ROOT, Mutant, mutants
from tests.support.mutation_runs import Runner

SURVIVORS = ROOT / "tests" / "mutation-survivors.txt"
TARGET = 0.9
#: As few histories as show every case, since hundreds of mutants are tried.
HISTORIES = "60"


class Room(NamedTuple):
    """Code that is mutated, and the tests that must notice."""

    modules: str
    tests: tuple[str, ...]

    def paths(self) -> list[Path]:
        return sorted((ROOT / self.modules).glob("*.py"))


_HISTORIES = tuple(
    f"tests/property/test_{name}.py"
    for name in ("random_truncation", "random_timelines", "leaders", "random_elections")
)
ROOMS = {
    "protocol": Room(
        "lib/replica_audit/protocol",
        ("tests/protocol", *_HISTORIES, "tests/verify/test_elections_replayed.py", "tests/auditing"),
    ),
    "rules": Room("lib/replica_audit/auditing/findings", ("tests/auditing",)),
}


def listed() -> dict[str, str]:
    """The survivors that are known, each with its reason: lines that begin a line, and below them an indented reason."""
    found, group, closed = {}, [], False
    for line in SURVIVORS.read_text(encoding="utf-8").splitlines():
        if line.startswith("    "):
            found |= {name: " ".join([found.get(name, ""), line.strip()]).strip() for name in group}
            closed = True
        elif line and not line.startswith("#"):
            group = [line] if closed else [*group, line]
            closed = False
    return found


def run(tests: list[str], chosen: list[Mutant], seconds: float) -> Runner:
    """Try these mutants on these tests; ends the program where they cannot be collected."""
    modules = [path.relative_to(ROOT).as_posix() for room in ROOMS.values() for path in room.paths()]
    terminal = os.fdopen(os.dup(sys.stderr.fileno()), "w", buffering=1)
    runner = Runner(chosen, modules, seconds, lambda line: print(line, file=terminal))
    arguments = ["-q", "-p", "no:cacheprovider", "-m", "not spark and not slow", "-o", "tmp_path_retention_policy=none"]
    arguments += ["--basetemp", str(ROOT / "build" / "mutation" / "tmp")]
    pytest.main([*arguments, *tests], plugins=[runner])
    if not runner.took:
        sys.exit("error: the tests cannot be collected")
    return runner


def main() -> int:
    """Mutate, run, compare with the list; the exit status says whether nine in ten were noticed and the rest is listed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", choices=[*ROOMS, []], help="protocol, rules; both when none is named")
    parser.add_argument("--module", action="append", metavar="M", help="mutants of this module only")
    parser.add_argument("--function", action="append", metavar="F", help="mutants of this function only")
    parser.add_argument("--sample", type=int, metavar="N", help="N mutants, always the same, in place of all")
    parser.add_argument("--seconds", type=float, default=5.0, metavar="S", help="of tests against each mutant, at most")
    parser.add_argument("--tests", nargs="+", metavar="T", help="these tests in place of the rooms' own")
    arguments = parser.parse_args()
    rooms = [ROOMS[name] for name in arguments.rooms or ROOMS]
    paths = [path for room in rooms for path in room.paths()]
    chosen = [one for path in paths if path.stem in (arguments.module or [path.stem]) for one in mutants(path)]
    chosen = [one for one in chosen if one.function in (arguments.function or [one.function])]
    if arguments.sample and arguments.sample < len(chosen):
        chosen = sorted(random.Random(1).sample(chosen, arguments.sample))
    print(f"{len(chosen)} mutants", flush=True)
    tests = arguments.tests or list(dict.fromkeys(test for room in rooms for test in room.tests))
    runner = run(tests, chosen, arguments.seconds)
    survivors = {one.name for one in runner.survivors}
    known = {name for name in listed() if name.startswith(tuple(room.modules for room in rooms))}
    if arguments.module or arguments.function or arguments.sample:
        known &= {one.name for one in chosen}
    wrong = [f"survives, but is not listed: {name}" for name in sorted(survivors - known)]
    wrong += [f"fails without any mutant: {name}" for name in runner.unfit]
    wrong += [f"is listed, but noticed or gone: {name}" for name in sorted(known - survivors)]
    print(*wrong, sep="\n")
    for room in rooms:
        tried = sum(one.path.startswith(room.modules) for one in chosen)
        left = sum(one.path.startswith(room.modules) for one in runner.survivors)
        if tried:
            print(f"{room.modules}: {tried} mutants, {left} not noticed, {1 - left / tried:.1%} killed")
            wrong += [room.modules] if left > tried * (1 - TARGET) else []
    return 1 if wrong else 0


if __name__ == "__main__":
    os.environ["PROPERTY_HISTORIES"] = HISTORIES
    sys.exit(main())
