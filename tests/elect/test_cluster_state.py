"""Who is up: the manifest, the metadata log, clean-shutdown flags, in that order (docs/semantics.md H.2)."""

from __future__ import annotations

import pytest
from tests.support.report_rows import answers_of, orders_row

from replica_audit.elect.cluster_state import find_clean, find_up, present_state
from replica_audit.elect.plan_model import Plan, Step
from replica_audit.report.plan_text import render_plan
from replica_audit.results import Results


def results_of(
    fenced: bool | None,
    flag: bool | None,
    kind: str | None = None,
    quiesced: bool | None = None,
    lost_tail: str | None = None,
) -> Results:
    """Broker 1 by the metadata log (None: there is none), its flag (None: no log dir of it is here) and the manifest."""
    said = None if fenced is None else [1] if fenced else []
    state = {"source": "metadata_log", "replicas": [1], "isr": [1], "leader_id": 1, "fenced": said, "leader_epoch": 0}
    tables = {
        "partition_states": [orders_row("partition_states", **state)],
        "replicas": [] if flag is None else [orders_row("replicas", broker_id=1, clean_shutdown=flag)],
    }
    if lost_tail is not None:
        tables["findings"] = [orders_row("findings", code=lost_tail, broker_id=1, status="new")]
    kinds = [] if kind is None else [{"broker_id": 1, "kind": kind}]
    return answers_of({"inputs": {"brokers": kinds}, "options": {"quiesced": quiesced}}, tables)


@pytest.mark.parametrize(
    ("fenced", "flag", "kind", "quiesced", "up"),
    [
        (False, False, None, None, True),
        (False, None, None, None, True),
        (True, False, None, None, False),
        (True, True, None, None, False),
        (None, True, None, None, False),
        (None, False, None, None, None),
        (None, None, None, None, None),
        # Flag and log are of different moments: it stopped after the log ends, or started after it was copied.
        (False, True, None, None, None),
        (False, True, None, False, None),
        # Copies of one moment leave the first only.
        (False, True, None, True, False),
        (False, True, "stopped", None, False),
        (False, True, "live", None, True),
        # It went down later, or the controllers do not have it as a broker.
        (True, False, "live", None, None),
        (False, False, "killed", None, False),
    ],
)
def test_the_first_that_says_so_tells_who_is_up(
    fenced: bool | None, flag: bool | None, kind: str | None, quiesced: bool | None, up: bool | None
) -> None:
    results = results_of(fenced, flag, kind, quiesced)
    assert find_up(results).get(1) is up
    state = present_state(results)
    assert (1 in state.up, 1 in state.unknown, 1 in state.down) == (up is True, up is None, up is False)
    assert find_clean(results).get(1) is flag


@pytest.mark.parametrize(("fenced", "kind"), [(True, "live"), (True, None), (False, "live"), (None, "live")])
def test_one_that_ran_and_was_fenced_is_named(fenced: bool | None, kind: str | None) -> None:
    """A process that the controllers do not have as a broker is not up, and --up is not asked for."""
    is_named = fenced is True and kind == "live"
    assert present_state(results_of(fenced, False, kind)).fenced_running == ({1} if is_named else set())
    told = render_plan(
        Plan(
            unknown=(1, 2) if is_named else (2,),
            fenced=(1,) if is_named else (),
            leaderless=(("t", 0),),
            steps=(Step(action="verify", text=""),),
        )
    )
    assert ("Broker 1 ran when it was copied, and by the metadata log it is fenced" in told) is is_named
    assert "It is not known whether broker 2 is up" in " ".join(told.split())


def test_a_broker_that_left_its_flag_in_some_of_its_log_dirs_was_not_stopped_cleanly() -> None:
    """`LogManager.readBrokerEpochFromCleanShutdownFiles` asks for all; the one that has it shows that the broker is down."""
    results = results_of(None, True)
    results.replicas.append(results.replicas[0]._replace(log_dir="other", clean_shutdown=False))
    for rows in (results.replicas, results.replicas[::-1]):
        results.replicas[:] = rows
        state = present_state(results)
        assert state.down == {1} and not state.clean


@pytest.mark.parametrize(
    ("fenced", "kind", "up"),
    [(False, None, None), (True, None, False), (None, None, None), (False, "live", True), (False, "killed", False)],
)
@pytest.mark.parametrize("code", ["HWM-CP-ABOVE-LEO", "HWM-RP-ABOVE-LEO"])
def test_a_broker_that_lost_the_end_of_a_log_is_not_up_by_the_metadata_log(
    code: str, fenced: bool | None, kind: str | None, up: bool | None
) -> None:
    assert find_up(results_of(fenced, False, kind, lost_tail=code)).get(1) is up
    assert find_up(results_of(False, False, lost_tail="HWM-STUCK"))[1]


@pytest.mark.parametrize("said", [{1}, set()])
def test_what_is_said_of_who_is_up_goes_before_everything(said: set[int]) -> None:
    state = present_state(results_of(False, True), up=said)
    assert state.up == said and not state.unknown


@pytest.mark.parametrize(
    ("kind", "flag", "said", "liveness"),
    [
        (None, False, None, "unknown"),
        (None, True, None, "down"),
        ("live", False, None, "up"),
        ("killed", False, None, "down"),
        (None, False, [2], "down"),
        (None, False, [3], "up"),
    ],
)
def test_a_broker_that_is_assigned_nothing_is_not_taken_for_down(
    kind: str | None, flag: bool, said: list[int] | None, liveness: str
) -> None:
    """It may hold a copy that was put aside (-stray), which is copied before it is started, or now."""
    results = results_of(False, False)
    results.replicas.append(results.replicas[0]._replace(broker_id=3, role="stray", clean_shutdown=flag))
    results.audit["inputs"]["brokers"] += [] if kind is None else [{"broker_id": 3, "kind": kind}]
    state = present_state(results, up=said)
    assert state.liveness(3) == liveness and 3 not in state.unknown
