"""`make test-exhaustive`: every state that a few events lead to, audited in two processes, and longer histories at random."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Sequence
from itertools import chain

from tests.exhaustive.asking import Asked, ask, narrate
from tests.exhaustive.partition import State
from tests.exhaustive.states import reachable, walks
from tests.exhaustive.truth import QUESTIONS

PROCESSES = 2
#: Events of the histories that are sampled.
LONGER = (6, 7)


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when every answer was right, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.exhaustive", description=__doc__)
    parser.add_argument("--events", type=int, default=5, help="all states that up to so many events lead to")
    parser.add_argument("--every", type=int, default=1, help="of these every so manieth only")
    parser.add_argument("--sample", type=int, default=2000, help="histories of six events, and as many of seven")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the sample")
    options = parser.parse_args(arguments)
    begun = time.monotonic()
    states = reachable(options.events)
    asked = f", of which every {options.every}th is audited" if options.every > 1 else ""
    print(f"{len(states)} states of up to {options.events} events{asked}", flush=True)
    states = states[options.seed % options.every :: options.every]
    print(
        f"{options.sample} histories each of {' and '.join(map(str, LONGER))} events, seed {options.seed}", flush=True
    )
    states += chain.from_iterable(walks(options.seed, events, options.sample) for events in LONGER)
    found = ask_in_processes(states)
    print(summary(found, time.monotonic() - begun))
    return 1 if found.wrong else 0


def ask_in_processes(states: Sequence[State]) -> Asked:
    """Every other state says that the cluster was at rest, which an instant's copy of all nodes is."""
    given = [(state, True if number % 2 else None) for number, state in enumerate(states)]
    # Neighbours share a history: dealt out in pairs, both processes get as many of each kind.
    parts = [
        [pair for number, pair in enumerate(given) if number // 2 % PROCESSES == part] for part in range(PROCESSES)
    ]
    with multiprocessing.get_context("fork").Pool(PROCESSES) as pool:
        one, *others = pool.map(ask, parts, chunksize=1)
    for other in others:
        one += other
    return one


def summary(found: Asked, seconds: float) -> str:
    """The figures, and of every kind of wrong answer the shortest history."""
    lines = [f"{found.audits} audits in {seconds:.0f} s", ""]
    lines += [f"{count:8} {verdict}" for verdict, count in sorted(found.verdicts.items(), key=lambda one: -one[1])]
    lines += [""]
    for question in QUESTIONS:
        wrong = sum(count for (asked, _), count in found.wrong.items() if asked == question)
        lines.append(f"{wrong:8} wrong: {question}")
    for name, failure in sorted(found.nearest.items()):
        lines += ["", f"{found.wrong[name]} times", narrate(failure)]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
