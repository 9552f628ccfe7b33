"""Extras of the distribution: packages that only some commands need."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from types import MappingProxyType

from replica_audit.errors import EngineError

#: Modules that commands import, by extra of pyproject.toml. Those of `restore` and `cluster` are checked when they connect.
EXTRAS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "report": ("deltalake", "jinja2"),
        "spark": ("pyspark", "delta", "deltalake", "jinja2", "pandas", "platformdirs"),
        "quality": ("great_expectations", "deltalake", "jinja2", "pandas"),
    }
)


def check_extra(extra: str, command: str) -> None:
    """Raise EngineError unless all modules of an extra can be imported; `command` is what needs them."""
    lacking = [module for module in EXTRAS[extra] if find_spec(module) is None]
    if lacking:
        raise EngineError(
            f"{command} needs {', '.join(lacking)} of the extra {extra}: pip install 'replica-audit[{extra}]'"
        )
