# ruff: noqa: I001  (our `package` goes before any module of Great Expectations)
"""The checkpoint: a plan's suites validated on pandas or Spark, Data Docs built, Actions run; results as rows.

One GX Checkpoint has one validation definition for each suite, each with a DataFrame of its own. Great Expectations'
own `success` is true or false and knows no severity, so rows carry ours and the caller judges.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import unescape
from typing import Any, Literal

from replica_audit.config import nearest
from replica_audit.errors import UsageError
from replica_audit.quality.package import gx
from replica_audit.quality.data_docs import SITE, data_docs_site, finish_data_docs
from replica_audit.quality.suites import ExpectationSpec, QualityPlan, Suite
from replica_audit.schema import QualityRow

import pandas as pd
import pyarrow as pa
from great_expectations.checkpoint.actions import UpdateDataDocsAction, ValidationAction
from great_expectations.compatibility.pydantic import PrivateAttr, ValidationError
from great_expectations.core.run_identifier import RunIdentifier
from great_expectations.core.validation_definition import ValidationDefinition
from great_expectations.exceptions import ExpectationNotFoundError
from great_expectations.exceptions.exceptions import ValidationActionRegistryRetrievalError
from great_expectations.expectations.metadata_types import FailureSeverity
from great_expectations.expectations.registry import get_expectation_impl, list_registered_expectation_implementations

#: Ours are five, theirs three.
GX_SEVERITY: Mapping[str, FailureSeverity] = {
    "critical": FailureSeverity.CRITICAL,
    "high": FailureSeverity.CRITICAL,
    "medium": FailureSeverity.WARNING,
    "low": FailureSeverity.INFO,
    "info": FailureSeverity.INFO,
}

#: So many rows that break an expectation are named.
GREATEST_NAMED = 20


@dataclass(frozen=True, slots=True)
class QualityRun:
    """Outcome of a checkpoint: rows of the table `quality`, and failures of Actions."""

    rows: list[QualityRow]
    warnings: tuple[str, ...]


class _SuiteValidation(ValidationDefinition):
    """A validation definition that takes its own DataFrame out of those of all suites.

    The parameters of a checkpoint's run go to each of its definitions alike, and a DataFrame asset wants exactly one.
    """

    def run(self, *, batch_parameters: Any = None, **others: Any) -> Any:
        return super().run(batch_parameters={"dataframe": batch_parameters[self.name]}, **others)


class _Collect(ValidationAction):
    """Keeps the result of the checkpoint, which is lost otherwise when an Action after it fails."""

    type: Literal["replica_audit_collect"] = "replica_audit_collect"
    _result: Any = PrivateAttr(default=None)

    def run(self, checkpoint_result: Any, action_context: Any = None) -> dict[str, Any]:
        self._result = checkpoint_result
        return {}


def run_checkpoint(
    plan: QualityPlan, frames: Mapping[str, Any], data_docs: str | None, run_name: str, run_time: datetime
) -> QualityRun:
    """Validate every suite of `plan` on its frame: an Arrow table by pandas, a Spark DataFrame by Spark.

    `frames` has one for each suite by its name, each with the column `place`. Data Docs are written to the directory
    `data_docs`, replacing what is there; None leaves them out. Raises UsageError for an expectation or an
    Action that Great Expectations does not know or that has wrong arguments, before anything is validated.
    """
    context = gx.get_context(mode="ephemeral")
    context.enable_analytics(False)
    bars: Any = {"globally": False}
    context.variables.progress_bars = bars
    for site in context.get_site_names():
        context.delete_data_docs_site(site)
    actions: list[Any] = []
    if data_docs is not None:
        docs: Any = data_docs_site(data_docs)
        context.add_data_docs_site(SITE, docs)
        actions.append(UpdateDataDocsAction(name="data-docs", site_names=[SITE]))
    actions += [_Collect(name="collect"), *(_action(settings) for settings in plan.actions)]
    batches = _batches(context, plan.suites, frames)
    checkpoint = gx.Checkpoint(
        name="replica-audit",
        validation_definitions=[_definition(context, suite, batches[suite.name][0]) for suite in plan.suites],
        actions=actions,
        result_format={
            "result_format": "SUMMARY",
            "unexpected_index_column_names": ["place"],
            "partial_unexpected_count": GREATEST_NAMED,
            "return_unexpected_index_query": False,
        },
    )
    # The checkpoint has copies of what it was given.
    (collect,) = [action for action in checkpoint.actions if isinstance(action, _Collect)]
    warnings: tuple[str, ...] = ()
    try:
        parameters = {name: frame for name, (_, frame) in batches.items()}
        checkpoint.run(batch_parameters=parameters, run_id=RunIdentifier(run_name=run_name, run_time=run_time))
    except Exception as error:
        if collect._result is None:
            raise
        # The answers are there; a notification that fails must not take them away.
        warnings = (
            f"an Action of the quality checkpoint failed: {type(error).__name__}: {' '.join(str(error).split())}",
        )
    finally:
        if data_docs is not None:
            finish_data_docs(data_docs)
    tables = {suite.name: suite.table for suite in plan.suites}
    rows = [
        _row(key.expectation_suite_identifier.name, tables[key.expectation_suite_identifier.name], result)
        for key, validation in collect._result.run_results.items()
        for result in validation.results
    ]
    return QualityRun(rows, warnings)


def _definition(context: Any, suite: Suite, batch: Any) -> Any:
    """The validation of one suite on its batch definition, known to the context."""
    expectations = [_expectation(suite, one) for one in suite.expectations]
    added = context.suites.add(gx.ExpectationSuite(suite.name, expectations=expectations))
    definition = _SuiteValidation(name=suite.name, data=batch, suite=added)
    context.validation_definitions.add(definition)
    return definition


def _batches(context: Any, suites: Sequence[Suite], frames: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The batch definition of each suite, and the DataFrame for it."""
    batches, sources = {}, {}
    for suite in suites:
        frame = frames[suite.name]
        local = isinstance(frame, pa.Table)
        if local:
            # Arrow's own types: pandas' would make floats of integers where one is null.
            frame = frame.to_pandas(types_mapper=pd.ArrowDtype)
        if local not in sources:
            # Not persisted: the frames are small or on disk already, and GX never gives a cached one back.
            add = context.data_sources
            sources[local] = add.add_pandas("report") if local else add.add_spark("warehouse", persist=False)
        asset = sources[local].add_dataframe_asset(suite.name)
        batches[suite.name] = asset.add_batch_definition_whole_dataframe(suite.table), frame
    return batches


def _expectation(suite: Suite, spec: ExpectationSpec) -> Any:
    where = f"suite {suite.name}: expectation {spec.name}"
    try:
        kind = get_expectation_impl(spec.type)
    except ExpectationNotFoundError as error:
        hint = nearest(spec.type, list_registered_expectation_implementations())
        raise UsageError(f"{where}: Great Expectations has no {spec.type}; {hint}") from error
    arguments: dict[str, Any] = dict(spec.kwargs)
    try:
        return kind(
            **arguments,
            description=spec.description,
            severity=GX_SEVERITY[spec.severity],
            meta={"name": spec.name, "severity": spec.severity},
        )
    except (ValidationError, TypeError, ValueError) as error:
        raise UsageError(f"{where}: {_said(error)}") from error


def _action(settings: Mapping[str, Any]) -> Any:
    from great_expectations.checkpoint.actions import _VALIDATION_ACTION_REGISTRY

    try:
        return _VALIDATION_ACTION_REGISTRY.get(settings["type"])(**settings)
    except ValidationActionRegistryRetrievalError as error:
        known = ", ".join(sorted(_VALIDATION_ACTION_REGISTRY._registered_actions))
        raise UsageError(
            f"action {settings['name']}: Great Expectations has no Action of type {settings['type']}; known are {known}"
        ) from error
    except (ValidationError, TypeError, ValueError) as error:
        raise UsageError(f"action {settings['name']}: {_said(error)}") from error


def _said(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
    return " ".join(str(error).split())


def _row(suite: str, table: str, result: Any) -> QualityRow:
    """A row of the table `quality` for one validation result."""
    config = result.expectation_config
    found = result.result or {}
    columns = [config.kwargs[key] for key in ("column", "column_A", "column_B") if key in config.kwargs]
    columns += config.kwargs.get("column_list") or config.kwargs.get("column_set") or []
    errors = list(_errors(result.exception_info))
    return QualityRow(
        suite=suite,
        name=config.meta["name"],
        table=table,
        expectation=config.type,
        column=", ".join(map(str, columns)) or None,
        severity=config.meta["severity"],
        success=bool(result.success) and not errors,
        element_count=found.get("element_count"),
        # A sum over no rows is null on Spark.
        unexpected_count=found.get("unexpected_count") if found.get("element_count") != 0 else 0,
        observed=_text(found.get("observed_value")),
        failing=_failing(found.get("partial_unexpected_index_list") or (), columns),
        description=config.description,
        error="; ".join(errors) or None,
        status=None if result.success or errors else "new",
    )


def _failing(indexes: Any, columns: list[Any]) -> list[str]:
    """Rows that break the expectation, in words: where they are, and the value that is not as expected."""
    named = []
    for index in indexes:
        values = ", ".join(f"{column} {index[column]}" for column in columns if column in index)
        place = unescape(str(index.get("place")))  # `place` is escaped for the pages
        named.append(f"{place}: {values}" if values else place)
    return named


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return value if isinstance(value, str) else json.dumps(value, default=str, sort_keys=True)


def _errors(info: Mapping[str, Any] | None) -> Iterator[str]:
    """Messages of what kept an expectation from being looked at: given once, or once for each metric."""
    if not info:
        return
    parts = [info] if "raised_exception" in info else [part for part in info.values() if isinstance(part, Mapping)]
    seen = set()
    for part in parts:
        message = " ".join(str(part.get("exception_message") or "no message").split())[:300]
        if part.get("raised_exception") and message not in seen:
            seen.add(message)
            yield message
