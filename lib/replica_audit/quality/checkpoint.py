# ruff: noqa: I001  (our `package` goes before any module of Great Expectations)
"""Checkpoint over a plan's suites, on pandas or Spark: validates them, builds Data Docs, runs Actions, and returns rows.

One GX Checkpoint has one validation definition for each suite, each with its own DataFrame. Great Expectations'
`success` is true or false and knows no severity, so rows carry ours and the caller judges.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import unescape
from typing import Literal, TypeAlias

from replica_audit.config import nearest
from replica_audit.errors import UsageError
from replica_audit.quality.package import gx
from replica_audit.quality.data_docs import SITE, data_docs_site, finish_data_docs
from replica_audit.quality.suites import ActionSpec, ExpectationSpec, QualityPlan, Suite
from replica_audit.schema import QualityRow

import pandas as pd
import pyarrow as pa
from great_expectations.checkpoint.actions import ActionContext, UpdateDataDocsAction, ValidationAction
from great_expectations.checkpoint.checkpoint import CheckpointResult
from great_expectations.compatibility.pydantic import PrivateAttr, ValidationError
from great_expectations.core.batch_definition import BatchDefinition
from great_expectations.core.expectation_validation_result import (
    ExpectationSuiteValidationResult,
    ExpectationValidationResult,
)
from great_expectations.core.run_identifier import RunIdentifier
from great_expectations.core.validation_definition import ValidationDefinition
from great_expectations.data_context import EphemeralDataContext
from great_expectations.data_context.types.base import ProgressBarsConfig
from great_expectations.datasource.fluent.pandas_datasource import DataFrameAsset as PandasAsset, PandasDatasource
from great_expectations.datasource.fluent.spark_datasource import DataFrameAsset as SparkAsset, SparkDatasource
from great_expectations.exceptions import ExpectationNotFoundError
from great_expectations.exceptions.exceptions import ValidationActionRegistryRetrievalError
from great_expectations.expectations.expectation import Expectation
from great_expectations.expectations.metadata_types import FailureSeverity
from great_expectations.expectations.registry import get_expectation_impl, list_registered_expectation_implementations

_Batch: TypeAlias = BatchDefinition[None]

#: Our five severities as Great Expectations' three.
GX_SEVERITY: Mapping[str, FailureSeverity] = {
    "critical": FailureSeverity.CRITICAL,
    "high": FailureSeverity.CRITICAL,
    "medium": FailureSeverity.WARNING,
    "low": FailureSeverity.INFO,
    "info": FailureSeverity.INFO,
}

#: Rows named for each expectation that they break.
GREATEST_NAMED = 20


@dataclass(frozen=True, slots=True)
class QualityRun:
    """Outcome of a checkpoint: rows of the table `quality`, and failures of Actions."""

    rows: list[QualityRow]
    warnings: tuple[str, ...]


class _SuiteValidation(ValidationDefinition):
    """A validation definition that picks its own DataFrame out of those of all suites.

    A checkpoint's run passes the same parameters to each definition, and a DataFrame asset wants exactly one.
    """

    def run(
        self, *, batch_parameters: Mapping[str, object] | None = None, **others: object
    ) -> ExpectationSuiteValidationResult:
        own = {"dataframe": (batch_parameters or {})[self.name]}
        return super().run(batch_parameters=own, **others)  # type: ignore[arg-type]  # handed on as they are


class _Collect(ValidationAction):  # type: ignore[explicit-any]  # of the class that it extends
    """An Action that keeps the checkpoint's result, otherwise lost when a later Action fails."""

    type: Literal["replica_audit_collect"] = "replica_audit_collect"
    _result: CheckpointResult | None = PrivateAttr(default=None)

    def run(
        self, checkpoint_result: CheckpointResult, action_context: ActionContext | None = None
    ) -> dict[str, object]:
        self._result = checkpoint_result
        return {}


def run_checkpoint(
    plan: QualityPlan, frames: Mapping[str, object], data_docs: str | None, run_name: str, run_time: datetime
) -> QualityRun:
    """Validate every suite of `plan` on its frame: an Arrow table by pandas, a Spark DataFrame by Spark.

    `frames` has a frame with the column `place` for each suite, by name. Data Docs replace those in the directory `data_docs`;
    None leaves them out. Raises UsageError for an unknown expectation or Action, or wrong arguments, before anything is validated.
    """
    context = gx.get_context(mode="ephemeral")
    context.enable_analytics(False)
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    for site in context.get_site_names():
        context.delete_data_docs_site(site)
    actions: list[ValidationAction] = []
    if data_docs is not None:
        context.add_data_docs_site(SITE, data_docs_site(data_docs))
        actions.append(UpdateDataDocsAction(name="data-docs", site_names=[SITE]))
    actions += [_Collect(name="collect"), *(_action(one) for one in plan.actions)]
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
    # The checkpoint copies the Actions that it is given.
    (collect,) = [action for action in checkpoint.actions if isinstance(action, _Collect)]
    warnings: tuple[str, ...] = ()
    try:
        parameters = {name: frame for name, (_, frame) in batches.items()}
        checkpoint.run(batch_parameters=parameters, run_id=RunIdentifier(run_name=run_name, run_time=run_time))
    except Exception as error:
        if collect._result is None:
            raise
        # A failing notification must not cost the answers.
        warnings = (
            f"an Action of the quality checkpoint failed: {type(error).__name__}: {' '.join(str(error).split())}",
        )
    finally:
        if data_docs is not None:
            finish_data_docs(data_docs)
    tables = {suite.name: suite.table for suite in plan.suites}
    assert collect._result is not None, "the first of the user's Actions comes after it"
    rows = [
        _row(validation.suite_name, tables[validation.suite_name], result)
        for validation in collect._result.run_results.values()
        for result in validation.results
    ]
    return QualityRun(rows, warnings)


def _definition(context: EphemeralDataContext, suite: Suite, batch: _Batch) -> ValidationDefinition:
    """The validation definition of a suite on its batch definition, added to the context."""
    expectations = [_expectation(one) for one in suite.expectations]
    added = context.suites.add(gx.ExpectationSuite(suite.name, expectations=expectations))
    definition = _SuiteValidation(name=suite.name, data=batch, suite=added)
    context.validation_definitions.add(definition)
    return definition


def _batches(
    context: EphemeralDataContext, suites: Sequence[Suite], frames: Mapping[str, object]
) -> dict[str, tuple[_Batch, object]]:
    """Batch definition and DataFrame of each suite, in the asset named for its table."""
    add = context.data_sources
    batches = dict[str, tuple[_Batch, object]]()
    sources: dict[bool, PandasDatasource | SparkDatasource] = {}
    assets: dict[tuple[bool, str], PandasAsset | SparkAsset[object]] = {}
    for suite in suites:
        frame = frames[suite.name]
        local = isinstance(frame, pa.Table)
        if isinstance(frame, pa.Table):
            # Arrow's own types: pandas' would turn integers with nulls into floats.
            frame = frame.to_pandas(types_mapper=pd.ArrowDtype)
        if local not in sources:
            # Not persisted: the frames are small or on disk, and Great Expectations never releases a cached one.
            sources[local] = add.add_pandas("report") if local else add.add_spark("warehouse", persist=False)
        if (local, suite.table) not in assets:
            assets[local, suite.table] = sources[local].add_dataframe_asset(suite.table)
        batches[suite.name] = assets[local, suite.table].add_batch_definition_whole_dataframe(suite.name), frame
    return batches


def _expectation(spec: ExpectationSpec) -> Expectation:
    try:
        kind = get_expectation_impl(spec.type)
    except ExpectationNotFoundError as error:
        hint = nearest(spec.type, list_registered_expectation_implementations())
        raise UsageError(f"{spec.origin}: Great Expectations has no {spec.type}; {hint}") from error
    try:
        return kind.parse_obj(
            {
                **spec.kwargs,
                # Data Docs show no other name.
                "description": spec.description and f"{spec.name} ({spec.severity}): {spec.description}",
                "severity": GX_SEVERITY[spec.severity],
                "meta": {"name": spec.name, "severity": spec.severity, "description": spec.description},
            }
        )
    except (ValidationError, TypeError, ValueError) as error:
        raise UsageError(f"{spec.origin}: {_said(error)}") from error


def _action(spec: ActionSpec) -> ValidationAction:
    from great_expectations.checkpoint.actions import _VALIDATION_ACTION_REGISTRY

    try:
        return _VALIDATION_ACTION_REGISTRY.get(spec.type).parse_obj(spec.settings)
    except ValidationActionRegistryRetrievalError as error:
        known = ", ".join(sorted(_VALIDATION_ACTION_REGISTRY._registered_actions))
        said = f"{spec.origin}: Great Expectations has no Action of type {spec.type}; known are {known}"
        raise UsageError(said) from error
    except (ValidationError, TypeError, ValueError) as error:
        raise UsageError(f"{spec.origin}: {_said(error)}") from error


def _said(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
    return " ".join(str(error).split())


def _row(suite: str, table: str, result: ExpectationValidationResult) -> QualityRow:
    config = result.expectation_config
    assert config is not None, "every result is of an expectation"
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
        description=config.meta["description"],
        error="; ".join(errors) or None,
        status=None if result.success or errors else "new",
    )


def _failing(indexes: Sequence[Mapping[str, object]], columns: Sequence[str]) -> list[str]:
    """Rows that break the expectation, in words: their place, and the offending values."""
    named = []
    for index in indexes:
        values = ", ".join(f"{column} {index[column]}" for column in columns if column in index)
        place = unescape(str(index.get("place")))  # `place` is escaped for the pages
        named.append(f"{place}: {values}" if values else place)
    return named


def _text(value: object) -> str | None:
    if value is None:
        return None
    return value if isinstance(value, str) else json.dumps(value, default=str, sort_keys=True)


def _errors(info: Mapping[str, object] | None) -> Iterator[str]:
    """Error messages of an expectation that could not be evaluated: given once, or once for each metric."""
    if not info:
        return
    parts = [info] if "raised_exception" in info else [part for part in info.values() if isinstance(part, Mapping)]
    seen = set()
    for part in parts:
        message = " ".join(str(part.get("exception_message") or "no message").split())[:300]
        if part.get("raised_exception") and message not in seen:
            seen.add(message)
            yield message
