"""The tables of codes and verdicts in docs/semantics.md F.2 to F.7 and in docs/reference.md, made of the catalogue.

`python -m tests.docs.code_tables` writes them anew; a test holds that this changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from replica_audit.auditing.catalogue import FAMILIES, VERDICT_MEANINGS, code_text, codes_beginning, family_text
from replica_audit.auditing.finding import Code

DOCS = Path(__file__).parents[2] / "docs"
PAGES = (DOCS / "semantics.md", DOCS / "reference.md")

#: A table: its head with the rule below it, and its rows.
_RULES, _FAMILIES, _VERDICTS = (
    re.compile(rf"^({re.escape(head)}.*\n\|[-|]+\|\n)((?:\|.*\n)+)", re.M)
    for head in ("| code |", "| family |", "| verdict | means |")
)


def with_code_tables(text: str) -> str:
    """A page with its tables made anew; each table of rules has the families that it had."""
    text = _RULES.sub(lambda at: at[1] + "".join(_rows(at[1], at[2])), text)
    text = _FAMILIES.sub(lambda at: at[1] + "".join(map(_family, FAMILIES)), text)
    return _VERDICTS.sub(lambda at: at[1] + "".join(map(_verdict, VERDICT_MEANINGS.items())), text)


def _rows(head: str, rows: str) -> Iterator[str]:
    columns = [cell.strip() for cell in head.splitlines()[0].strip("| ").split("|")]
    for family in dict.fromkeys(re.findall(r"^\| ([A-Z]+)-", rows, re.M)):
        for code in codes_beginning(family):
            cells = _cells(code)
            yield f"| {' | '.join(cells[column] for column in columns)} |\n"


def _cells(code: Code) -> dict[str, str]:
    text = code_text(code.code)

    def told(names: Sequence[str]) -> str:
        cells = [f"{name} {text.conditions.get(name, '')}".rstrip() for name in names]
        if len(cells) > 1 and cells[-1] == names[-1]:
            cells[-1] = f"else {names[-1]}"
        return "; ".join(cells) or "–"

    return {
        "code": code.code,
        "severity": told(code.severities),
        "verdict": told(code.verdicts),
        "when": text.when or f"{text.summary[0].lower()}{text.summary[1:]}",
        "harmless explanations": text.traps or "–",
    }


def _family(family: str) -> str:
    codes = ", ".join(code.code for code in codes_beginning(family))
    return f"| {family} | {family_text(family).subject} | {codes} |\n"


def _verdict(item: tuple[str, str]) -> str:
    name, meaning = item
    return f"| {name} | {meaning[0].lower()}{meaning[1:].removesuffix('.')} |\n"


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(with_code_tables(page.read_text(encoding="utf-8")), encoding="utf-8")
