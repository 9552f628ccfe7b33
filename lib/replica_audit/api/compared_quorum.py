"""The answer of `quorum`: which copy of the metadata log is right, and how to put it into force. Contacts no cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replica_audit.api.elected import check_plan_file, write_plan_files
from replica_audit.elect.kafka_commands import BOOTSTRAP
from replica_audit.elect.premises import ChangedPremise
from replica_audit.quorum.answer_model import QuorumAnswer, answer_object, read_answer
from replica_audit.quorum.quorum_answer import answer_quorum, moved_since
from replica_audit.report.layout import render_object
from replica_audit.report.plan_text import render_moved
from replica_audit.report.quorum_text import render_quorum
from replica_audit.snapshot.discovery import discover
from replica_audit.snapshot.opening import open_location


class ComparedQuorum:
    """`answer` has every copy of the metadata log and what choosing it loses, the best of them, and the steps of the plan.

    Given an earlier answer, `moved` lists what has changed since; the exit status is then 1 if anything has, otherwise
    if there is no plan.
    """

    def __init__(self, answer: QuorumAnswer, before: QuorumAnswer | None) -> None:
        self.answer = answer
        self.moved: Sequence[ChangedPremise] = [] if before is None else list(moved_since(before, answer))
        self._is_check = before is not None

    @property
    def exit_status(self) -> int:
        """Exit status of the command line."""
        return int(bool(self.moved) if self._is_check else self.answer.no_plan is not None)

    def to_dict(self) -> Mapping[str, object]:
        """The object that `quorum --format json` prints."""
        return answer_object(self.answer)

    def write(self, path: str) -> None:
        """Write that object to a file, and beside it the files that its steps need. Raises UsageError."""
        write_plan_files(path, render_object(self.to_dict()), self.answer.steps)

    def __str__(self) -> str:
        """The text that `quorum` prints."""
        return render_moved(self.moved) if self._is_check else render_quorum(self.answer)


def quorum(
    path: str,
    *,
    choose: int | None = None,
    bootstrap_server: str | None = None,
    command_config: str | None = None,
    plan: str | None = None,
    check: str | None = None,
    kafka_version: str | None = None,
) -> ComparedQuorum:
    """Compare the copies of the metadata log in the snapshot at `path`; `choose` is the node whose copy the plan is for.

    The answer is written to the file `plan`; `check` is a file written before. Raises UsageError and InputError.
    """
    check_plan_file(plan, path, is_check=check is not None)
    before = None if check is None else read_answer(check)
    snapshot = open_location(path)
    answer = answer_quorum(
        snapshot,
        discover(snapshot),
        kafka_version=kafka_version,
        bootstrap=bootstrap_server or BOOTSTRAP,
        client_config=command_config,
        node_id=choose,
    )
    found = ComparedQuorum(answer, before)
    if plan is not None:
        found.write(plan)
    return found
