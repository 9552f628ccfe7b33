"""Prose of the finding codes: a Markdown file per family beside its rules, read when a text of it is wanted.

    # TXN: transactions                              the family and its subject
    ## TXN-HANGING                                   a code
    A transaction has records but will get no marker
    - When: ...                                      a field of `CodeText`, or
    - medium: with ...                               a severity or verdict of the code, and the condition for it

`explain`, the page, the plan's remedies and the tables of docs/semantics.md F.2 to F.7 are made from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, cast

from replica_audit.auditing import findings
from replica_audit.auditing.catalogue import CATALOGUE, Code, codes_beginning

if TYPE_CHECKING:
    from importlib.abc import ResourceLoader


class CodeText(NamedTuple):
    """The prose of a code."""

    summary: str
    """A line without a full stop."""
    when: str
    """The rule, in the terms of docs/semantics.md F.0; '' where the summary says all of it."""
    meaning: str
    proof: str
    remedy: str
    traps: str
    """Harmless explanations that were considered, or have to be; '' when there is none."""
    conditions: Mapping[str, str]
    """By severity or verdict: when the code has that one and not its other ones. Not all need to be told apart."""


class FamilyText(NamedTuple):
    """The prose of the codes with one prefix."""

    subject: str
    codes: Mapping[str, CodeText]


def code_text(code: str) -> CodeText:
    """The prose of a code; KeyError for one that `CATALOGUE` does not have."""
    return family_text(CATALOGUE[code].family).codes[code]


@cache
def family_text(family: str) -> FamilyText:
    """The prose of a family, by its prefix."""
    # The loader reads from a directory and from a zip alike, and needs no import.
    loader: ResourceLoader = cast("ResourceLoader", findings.__loader__)
    text = loader.get_data(f"{findings.__path__[0]}/{family.lower()}.md").decode()
    return parse_family(text, family, codes_beginning(family))


def parse_family(text: str, family: str, codes: list[Code]) -> FamilyText:
    """Parse the file of a family. Raises ValueError unless it has just these codes, and of each what a reader needs."""
    head, *sections = text.split("\n## ")
    title, _, subject = head.strip().partition(": ")
    found = dict(zip((section.split(maxsplit=1)[0] for section in sections), sections))
    if title != f"# {family}" or len(found) != len(sections) or list(found) != [code.code for code in codes]:
        raise ValueError(f"{family}: {title} has {', '.join(found)}")
    return FamilyText(subject, {code.code: _parse_code(found[code.code], code) for code in codes})


def _parse_code(section: str, code: Code) -> CodeText:
    head, *items = section.split("\n- ")
    said = dict(" ".join(item.split()).split(": ", 1) for item in items)
    if len(said) < len(items):
        raise ValueError(f"{code.code}: a word twice")
    text = CodeText(
        summary=" ".join(head.split()[1:]),
        when=said.pop("When", ""),
        meaning=said.pop("Meaning", ""),
        proof=said.pop("Proof", ""),
        remedy=said.pop("Remedy", ""),
        traps=said.pop("Traps", ""),
        conditions=said,
    )
    if not all((text.summary, text.meaning, text.proof, text.remedy)) or not said.keys() <= {
        *code.severities,
        *code.verdicts,
    }:
        raise ValueError(f"{code.code}: not a text of it: {text}")
    return text
