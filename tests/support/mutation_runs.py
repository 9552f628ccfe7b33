"""Runs the tests against mutants: one warm process has collected them, and each mutant is tried in a fork of it.

First every test runs once by itself, with a probe before each statement of the mutated modules; so it is known which
tests reach a statement, and how long they take. Against a mutant run those that reach what it changed, the quickest and
likeliest to notice it first, until one fails. What changes a function is put into the function objects of the fork; what
changes the rest of a module (constants, defaults, fields) needs a process of its own that imports the changed source.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import gc
import hashlib
import importlib.abc
import importlib.util
import inspect
import json
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from tests.support.mutants import ROOT, Mutant

#: Set in a process that imports a changed module: its path, and where the changed source is.
CHANGED, SOURCE = "MUTANT_PATH", "MUTANT_SOURCE"
#: A mutant that takes this many times longer than its tests do, in seconds of a processor, is caught in a loop: noticed.
PATIENCE, LEAST_PATIENCE = 4.0, 2.0
#: Seconds of a processor that a test may take by itself, and seconds after which a process that waits is ended.
LONGEST, LONGEST_WAIT = 120.0, 900.0
#: As many cases of one test are tried.
CASES = 24
#: What each test reached in an earlier run of the very same sources.
REACH = ROOT / "build" / "mutation" / "reach.json"
_PROBE = "_mutation_probe"


class Runner:
    """A pytest plugin that, in place of running what was collected, tries mutants on it."""

    def __init__(self, mutants: list[Mutant], modules: list[str], seconds: float, say: Callable[[str], None]):
        #: `modules` are all that may be mutated, those of the mutants among them: what is kept of the tests is of them all.
        self.mutants, self.modules, self.seconds, self.say = mutants, modules, seconds, say
        self.survivors: list[Mutant] = []
        #: Tests that fail without any mutant, and so say nothing.
        self.unfit: list[str] = []
        self.failed: list[str] = []
        self.reached: dict[tuple[str, int], set[str]] = defaultdict(set)
        self.took: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Select some cases of a test with many, drawn evenly: the others would notice the same."""
        cases: dict[str, list[pytest.Item]] = defaultdict(list)
        for item in items:
            cases[item.nodeid.partition("[")[0]].append(item)
        items[:] = [item for found in cases.values() for item in found[:: -(-len(found) // CASES)]]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        session.config.pluginmanager.unregister(name="terminalreporter")
        session.config._tmp_path_factory.getbasetemp()  # one for all forks
        self.items = {item.nodeid: item for item in session.items}
        self.functions = _functions(set(self.modules))
        self.caches = [one for one in gc.get_objects() if _is_cache(one)]
        gc.collect()
        gc.freeze()
        self.find_out_what_reaches()
        self.try_all()
        return True

    def find_out_what_reaches(self) -> None:
        """Run each test by itself; note the statements it reaches and the seconds of a processor it takes."""
        hits: set[tuple[str, int]] = set()
        kept = {id(one): (one, one.__code__) for found in self.functions.values() for one in found}
        for path in self.modules:
            self._put_probes(path, hits)
        begun = time.monotonic()
        known = _read_reach()
        for number, name in enumerate(self.items, start=1):
            if number % 500 == 0:
                self.say(f"{number} of {len(self.items)} tests in {time.monotonic() - begun:.0f} s")
            key = _key(name)
            if key in known:
                self.took[name], hits_of_test = known[key]
                for path, line in hits_of_test:
                    self.reached[path, line].add(name)
                continue
            answer, self.took[name] = _fork(lambda name=name: {**self._run([name]), "hits": sorted(hits)}, LONGEST)
            if answer is None or answer["failed"]:
                self.unfit.append(name)
                self.say(f"fails without any mutant: {name}")
                continue
            known[key] = self.took[name], answer["hits"]
            for path, line in answer["hits"]:
                self.reached[path, line].add(name)
        REACH.write_text(json.dumps(known), encoding="utf-8")
        # A fork of its own has a price, which tests that share one against a mutant do not pay again.
        fork = min(self.took.values(), default=0.0)
        self.took = {name: took - fork for name, took in self.took.items()}
        for function, code in kept.values():
            function.__code__ = code
        self.say(f"{len(self.items)} tests, each by itself, in {time.monotonic() - begun:.0f} s")

    def try_all(self) -> None:
        """Try every mutant; those that no test notices are `survivors`."""
        killers: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        files: dict[str, Counter[str]] = defaultdict(Counter)
        wide = Counter(test for tests in self.reached.values() for test in tests)
        rare: dict[tuple[str, str], float] = defaultdict(float)
        for (path, _), tests in self.reached.items():
            for test in tests:
                rare[path, test] += 100 / len(tests) + 100 / wide[test] ** 2
        begun = time.monotonic()
        for number, mutant in enumerate(self.mutants, start=1):
            known = killers[mutant.path, mutant.function]
            worth = {name: 1 + files[mutant.path][_file(name)] + rare[mutant.path, name] for name in self.took}
            killer = self._killer(mutant, known, worth)
            if killer is None:
                self.survivors.append(mutant)
                self.say(f"survives: {mutant.name}")
            else:
                known[killer] += 1
                files[mutant.path][_file(killer)] += 1
            if number % 100 == 0:
                self.say(f"{number} of {len(self.mutants)} mutants in {time.monotonic() - begun:.0f} s")

    def _killer(self, mutant: Mutant, known: Counter[str], worth: dict[str, float]) -> str | None:
        """The test that notices a mutant, or how else it was noticed."""
        changed = _changed_functions(_compiled(mutant.path), compile(mutant.source, str(ROOT / mutant.path), "exec"))
        if changed is None or any(len(self.functions[(mutant.path, *place)]) != 1 for place in changed):
            reaching = {test for (path, _), tests in self.reached.items() if path == mutant.path for test in tests}
            return _try_apart(mutant, self._affordable(reaching, known, worth))
        tests = self._affordable(self.reached[mutant.path, mutant.statement], known, worth)
        if not tests:
            return None

        def work() -> dict[str, Any]:
            for place, code in changed.items():
                self.functions[(mutant.path, *place)][0].__code__ = code
            return self._run(tests)

        answer, _ = _fork(work, max(LEAST_PATIENCE, PATIENCE * sum(self.took[test] for test in tests)))
        if answer is None:
            return "its process ended or hung"
        return answer["failed"][0] if answer["failed"] else None

    def _affordable(self, tests: set[str], known: Counter[str], worth: dict[str, float]) -> list[str]:
        """The tests that noticed others of the function, then the quickest for their worth, as many as there is time for.

        Every audit reaches most rules, and there is not the time for all audits. So a test is worth more, the more of the
        module it reaches that few others do, the less it reaches besides, and the more mutants of the module tests of its
        file have noticed.
        """
        chosen, total = [], 0.0
        for test in sorted(tests, key=lambda test: (-known[test], self.took[test] / worth[test])):
            total += self.took[test]
            if chosen and total > self.seconds:
                break
            chosen.append(test)
        return chosen

    def _run(self, tests: list[str]) -> dict[str, Any]:
        """In a fork: the tests one by one up to the first that fails."""
        for one in self.caches:
            one.cache_clear()
        items = [self.items[test] for test in tests]
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.failed:
                break
        return {"failed": self.failed}

    def _put_probes(self, path: str, hits: set[tuple[str, int]]) -> None:
        full = str(ROOT / path)
        tree = ast.parse(Path(full).read_text(encoding="utf-8"))
        _add_probes(tree, inside=False)
        for place, code in _code_of_functions(compile(tree, full, "exec")):
            for function in self.functions[(path, *place)]:
                function.__globals__[_PROBE] = lambda line: hits.add((path, line))
                function.__code__ = code


def _try_apart(mutant: Mutant, tests: list[str]) -> str | None:
    """Try a mutant of code that a module runs when it is imported, in a process of its own."""
    if not tests:
        return None
    with tempfile.TemporaryDirectory() as place:
        source, names = Path(place) / "source.py", Path(place) / "tests.txt"
        source.write_text(mutant.source, encoding="utf-8")
        names.write_text("\n".join(tests), encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "tests.support.mutation_runs",
        ]
        environment = {**os.environ, CHANGED: mutant.path, SOURCE: str(source)}
        try:
            done = subprocess.run(
                [*command, f"@{names}"],
                cwd=ROOT,
                env=environment,
                capture_output=True,
                timeout=LONGEST_WAIT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "its process hung"
    return "a process of its own" if done.returncode else None


class _ChangedSource(importlib.abc.MetaPathFinder):
    """Finds the module that is changed, and loads it from the changed source."""

    def __init__(self, path: str, source: str):
        parts = Path(path).with_suffix("").parts[1:]
        self.name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        self.path, self.source = ROOT / path, source

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self.name:
            return None
        spec = importlib.util.spec_from_file_location(name, self.path)
        source = Path(self.source).read_bytes()
        spec.loader.get_code = lambda _: compile(source, str(self.path), "exec")
        return spec


if CHANGED in os.environ:
    sys.meta_path.insert(0, _ChangedSource(os.environ[CHANGED], os.environ[SOURCE]))


def _functions(paths: set[str]) -> dict[tuple[str, int, str], list[FunctionType]]:
    """Every function object of these modules, by module, first line and name."""
    found: dict[tuple[str, int, str], list[FunctionType]] = defaultdict(list)
    full = {str(ROOT / path): path for path in paths}
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__code__.co_filename in full:
            code = one.__code__
            found[full[code.co_filename], code.co_firstlineno, code.co_name].append(one)
    return found


def _code_of_functions(module: CodeType) -> Iterator[tuple[tuple[int, str], CodeType]]:
    """The code of a module's functions and methods, without functions inside of functions."""
    for const in module.co_consts:
        # Python 3.14 has annotations in functions of their own.
        if isinstance(const, CodeType) and const.co_name != "__annotate__":
            if _is_function(const):
                yield (const.co_firstlineno, const.co_name), const
            else:
                yield from _code_of_functions(const)


def _changed_functions(original: CodeType, changed: CodeType) -> dict[tuple[int, str], CodeType] | None:
    """The functions that differ, or None where something differs that is outside of all functions."""
    before, after = list(_code_of_functions(original)), list(_code_of_functions(changed))
    if [place for place, _ in before] != [place for place, _ in after]:
        return None
    found = {place: new for (place, old), (_, new) in zip(before, after, strict=True) if old != new}
    return found if found and _outside(original) == _outside(changed) else None


def _outside(code: CodeType) -> tuple:
    """Code of a module outside functions."""
    consts = (const if isinstance(const, CodeType) else repr(const) for const in code.co_consts)
    inner = [one if isinstance(one, str) else None if _is_function(one) else _outside(one) for one in consts]
    return code.co_code, code.co_names, *inner


def _add_probes(node: ast.AST, inside: bool) -> None:
    """A probe before every statement of every function."""
    inside = inside or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    for name, field in ast.iter_fields(node):
        if not isinstance(field, list):
            continue
        changed = []
        for one in field:
            if isinstance(one, ast.AST):
                if inside and isinstance(one, ast.stmt) and name != "decorator_list":
                    call = ast.Call(ast.Name(_PROBE, ast.Load()), [ast.Constant(one.lineno)], [])
                    changed.append(ast.fix_missing_locations(ast.copy_location(ast.Expr(call), one)))
                _add_probes(one, inside)
            changed.append(one)
        field[:] = changed


def _is_function(code: CodeType) -> bool:
    return bool(code.co_flags & inspect.CO_NEWLOCALS)  # the body of a class has not got it


def _is_cache(one: object) -> bool:
    """A cache of the project: what it holds when the tests are collected was computed without the mutant."""
    return isinstance(one, functools._lru_cache_wrapper) and one.__module__.startswith(("replica_audit", "tests"))


def _key(test: str) -> str:
    return f"{_digest(_file(test))} {test}"


def _file(test: str) -> str:
    return test.partition("::")[0]


@functools.cache
def _digest(test_file: str) -> str:
    """Digest of the library, of what tests share, and of one file of tests."""
    shared = [
        *(ROOT / "lib").rglob("*.py"),
        *(one for one in (ROOT / "tests").rglob("*.py") if one.stem[:5] != "test_"),
    ]
    content = b"".join(path.read_bytes() for path in [*sorted(shared), ROOT / test_file])
    return hashlib.sha256(content).hexdigest()[:16]


def _read_reach() -> dict[str, list]:
    return json.loads(REACH.read_text(encoding="utf-8")) if REACH.exists() else {}


@functools.cache
def _compiled(path: str) -> CodeType:
    return compile((ROOT / path).read_text(encoding="utf-8"), str(ROOT / path), "exec")


def _fork(work: Callable[[], dict[str, Any]], limit: float) -> tuple[dict[str, Any] | None, float]:
    """Result of `work` in a process of its own, and its seconds of CPU; None if that fails.

    CPU time is limited rather than elapsed time, since the machine may have other work.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.close(reader)
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit), math.ceil(limit)))
            answer = json.dumps(work())
            with os.fdopen(writer, "w") as pipe:
                pipe.write(answer)
        os._exit(0)
    os.close(writer)
    previous = signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, LONGEST_WAIT)
    try:
        with os.fdopen(reader) as pipe:
            text = pipe.read()
        _, _, used = os.wait4(child, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    return json.loads(text) if text else None, used.ru_utime + used.ru_stime
