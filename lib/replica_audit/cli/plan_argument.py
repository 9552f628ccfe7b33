"""A plan.json that an option names."""

from __future__ import annotations

from typing import Any

from replica_audit.elect.plan_check import check_object
from replica_audit.errors import FormatError, UsageError
from replica_audit.parsing import parse_json


def read_plan(path: str, option: str) -> Any:
    """The content of the plan.json at `path`, which `option` named; raises UsageError for any other file."""
    try:
        with open(path, encoding="utf-8") as file:
            return check_object(parse_json(file.read(), path, "give the plan.json of replica-audit elect"))
    except FormatError as error:
        raise UsageError(f"{option} {error}") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{option} {path}: {error}") from error
    except UsageError as error:
        raise UsageError(f"{option} {path}: {error}") from error
