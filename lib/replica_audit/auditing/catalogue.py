"""The catalogue of finding codes (F.2 to F.7), their prose, and the order of severities and verdicts (F.8).

The prose is in a Markdown file per family beside its rules, read when a text of it is wanted:

    # TXN: transactions                              the family and its subject
    ## TXN-HANGING                                   a code
    A transaction has records but will get no marker
    - When: ...                                      a field of `CodeText`, or
    - medium: with ...                               a severity or verdict of the code, and the condition for it

`explain`, the page, the plan's remedies and the tables of docs/semantics.md F.2 to F.7 are made from it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, cast

from replica_audit.auditing import findings
from replica_audit.auditing.finding import TRAITS, Code, Finding
from replica_audit.literals import SEVERITIES, VERDICTS, Verdict
from replica_audit.schema import FindingRow

if TYPE_CHECKING:
    from importlib.abc import ResourceLoader


#: All finding codes, by name, in the order of their definitions.
CATALOGUE: dict[str, Code] = {
    code.code: code for module in findings.MODULES for code in vars(module).values() if isinstance(code, Code)
}

#: Prefixes of codes; the subject of each family is in its file.
FAMILIES = tuple(dict.fromkeys(code.family for code in CATALOGUE.values()))

#: Meaning of each verdict on a partition.
VERDICT_MEANINGS = {
    "COMMITTED_LOSS": "Records that were committed are gone from the leader's log.",
    "COMMITTED_DIVERGENCE": "Replicas differ, and no protocol will repair it.",
    "LATENT_CORRUPTION": "A replica's own files are damaged or contradict each other.",
    "WILL_LOSE_ON_TRUNCATION": "The next truncation or election may lose committed or acknowledged records.",
    "INCONCLUSIVE": "Something that had to be read could not be, what was read has two explanations, or a replica that the "
    "answer depends on was not captured.",
    "UNCOMMITTED_DIVERGENCE": "Replicas differ in records that were not proven committed; the next truncation settles it.",
    "LAGGING": "Replicas are equal as far as they go, but some are shorter or not in sync.",
    "CONSISTENT": "The captured replicas agree; how many were compared is said where not all were.",
}


def worst_verdict(verdicts: Iterable[str | None]) -> Verdict:
    """Worst of `verdicts` in the order of `VERDICTS`, ignoring None; CONSISTENT if there is none.

    Raises ValueError for an unknown name.
    """
    return VERDICTS[min((VERDICTS.index(one) for one in verdicts if one is not None), default=len(VERDICTS) - 1)]


def unplaced_codes(findings: Iterable[FindingRow]) -> set[str]:
    """Codes of present findings that belong to no partition."""
    return {row.code for row in findings if row.topic is None and row.status != "resolved"}


def audit_verdict(partition_verdicts: Iterable[str], unplaced: Iterable[str]) -> Verdict:
    """Return the verdict of an audit: the worst among its partitions' and those of `unplaced` codes; INCONCLUSIVE without partitions."""
    verdicts = list(partition_verdicts)
    if not verdicts:
        return "INCONCLUSIVE"
    # A warehouse may have codes of another version.
    asked = (CATALOGUE[code].verdicts[:1] for code in unplaced if code in CATALOGUE)
    return worst_verdict([*verdicts, *(verdict for of_code in asked for verdict in of_code)])


def at_or_above(severity: str, level: str) -> bool:
    """True if `severity` is `level` or worse; always False for the level `never`."""
    return level != "never" and SEVERITIES.index(severity) <= SEVERITIES.index(level)


def codes_beginning(prefix: str) -> list[Code]:
    """Codes that equal `prefix` or continue it after a dash (a family or a part of one)."""
    return [code for name, code in CATALOGUE.items() if f"{name}-".startswith(f"{prefix.rstrip('-')}-")]


def codes_of_verdict(verdict: str) -> list[Code]:
    """Codes that can cause `verdict`."""
    return [code for code in CATALOGUE.values() if verdict in code.verdicts]


@cache
def codes_with(trait: str) -> frozenset[str]:
    """Names of the codes with a trait of `TRAITS`. Raises KeyError for an unknown trait."""
    TRAITS[trait]
    return frozenset(name for name, code in CATALOGUE.items() if trait in code.traits)


def leaves_commitment_open(found: Finding | FindingRow) -> bool:
    """True if a finding of a loss leaves it unproven that the lost records were committed."""
    return found.code in codes_with("held") and found.severity == "critical" and found.confidence != "proven"


def nearest_codes(name: str) -> list[str]:
    """At most three known codes similar to `name`, nearest first."""
    wanted = name.strip().upper().replace("_", "-")
    near = difflib.get_close_matches(wanted, CATALOGUE, n=3)
    containing = [code for code in CATALOGUE if wanted and wanted in code and code not in near]
    return (near + containing)[:3]


class CodeText(NamedTuple):
    """The prose of a code."""

    summary: str
    """A line without a full stop."""
    when: str
    """The rule, in the terms of docs/semantics.md F.0; "" if the summary is complete."""
    meaning: str
    proof: str
    remedy: str
    traps: str
    """Harmless explanations that were or must be considered; "" without any."""
    conditions: Mapping[str, str]
    """Condition for a severity or verdict of the code, if it can have several; some may be left out."""


class FamilyText(NamedTuple):
    """The prose of the codes with one prefix."""

    subject: str
    codes: Mapping[str, CodeText]


def code_text(code: str) -> CodeText:
    """Return the prose of a code. Raises KeyError for a code outside `CATALOGUE`."""
    return family_text(CATALOGUE[code].family).codes[code]


@cache
def family_text(family: str) -> FamilyText:
    """Return the prose of a family, by its prefix."""
    # The loader reads from directories and zips alike, and needs no import.
    loader: ResourceLoader = cast("ResourceLoader", findings.__loader__)
    text = loader.get_data(f"{findings.__path__[0]}/{family.lower()}.md").decode()
    return parse_family(text, family, codes_beginning(family))


def parse_family(text: str, family: str, codes: list[Code]) -> FamilyText:
    """Parse the file of a family. Raises ValueError unless it has exactly `codes`, each with the required fields."""
    head, *sections = text.split("\n## ")
    title, _, subject = head.strip().partition(": ")
    found = dict(zip((section.split(maxsplit=1)[0] for section in sections), sections))
    if title != f"# {family}" or len(found) != len(sections) or list(found) != [code.code for code in codes]:
        raise ValueError(f"{family}: {title} has {', '.join(found)}")
    return FamilyText(subject, {code.code: _parse_code(found[code.code], code) for code in codes})


#: Ends each remedy that moves a replica's directory away.
_REBUILDING = (
    "Rebuild a replica only while another one leads the partition and is sound there, one broker at a time: stop the broker, move the "
    "partition's directory away, and a -future copy of it on another disk, which would replace it; keep both; then start the broker, "
    "which fetches the partition from the leader. A broker that was alone in sync would lead with an empty log."
)


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
    return text._replace(remedy=f"{text.remedy} {_REBUILDING}") if "moved_away" in code.traits else text
