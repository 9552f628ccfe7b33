"""`explain`: explains a finding code, a family of codes, a verdict, or one finding of the latest audit."""

from __future__ import annotations

import argparse

from replica_audit.api.explained import explain_code
from replica_audit.cli.output import print_object
from replica_audit.config import Settings


def explain(arguments: argparse.Namespace, settings: Settings) -> int:
    """Explain a code, the codes with a prefix, a verdict or a finding; without an argument list all codes."""
    found = explain_code(arguments.code, settings)
    print_object(found.content, found.text, settings)
    return 0
