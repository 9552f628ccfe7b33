"""audit.json: complete, sorted, the same bytes for the same answers."""

from __future__ import annotations

import json
import random

import pytest
from tests.support.audit_json_text import audit_json_text
from tests.support.report_rows import AUDIT, finding, partition, results

from replica_audit.results import Results
from replica_audit.schema import REPORT_TABLES


def test_every_table_is_there_in_order_also_when_it_was_not_computed() -> None:
    content = json.loads(audit_json_text(Results(AUDIT)))
    assert list(content) == ["schema_version", "audit", *REPORT_TABLES, "decisions", "steps"]
    assert content["schema_version"] == 1 and content["audit"] == AUDIT
    assert all(content[table] == [] for table in (*REPORT_TABLES, "decisions", "steps"))


def test_rows_are_sorted_and_shuffled_input_gives_the_same_bytes() -> None:
    partitions = [partition(topic, number) for topic in ("b", "a", "a-b") for number in (10, 2)]
    findings = [finding(code, "low", t, 0, message=m) for t in ("b", None) for code in ("X", "A") for m in ("2", "1")]
    texts = set()
    for seed in range(5):
        random.Random(seed).shuffle(partitions)
        random.Random(seed).shuffle(findings)
        texts.add(audit_json_text(results(partitions, findings)))
    assert len(texts) == 1
    content = json.loads(texts.pop())
    places = [(row["topic"], row["partition"]) for row in content["partitions"]]
    assert places == [("a", 2), ("a", 10), ("a-b", 2), ("a-b", 10), ("b", 2), ("b", 10)]
    assert [(row["topic"], row["code"], row["message"]) for row in content["findings"][:3]] == [
        (None, "A", "1"),
        (None, "A", "2"),
        (None, "X", "1"),
    ]


def test_columns_are_in_the_order_of_the_table() -> None:
    shuffled = dict(reversed(list(partition().items())))
    content = json.loads(audit_json_text(results([shuffled])))
    assert list(content["partitions"][0]) == [column.name for column in REPORT_TABLES["partitions"]]


@pytest.mark.parametrize("value", [b"secret", float("nan"), float("inf")])
def test_bytes_and_numbers_that_json_does_not_have_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="partitions"):
        audit_json_text(results([partition(hw_lower=value)]))


def test_an_unknown_table_is_refused() -> None:
    with pytest.raises(KeyError, match="records"):
        Results(AUDIT).rows("records")


def test_a_name_that_is_no_utf8_still_makes_a_valid_file() -> None:
    text = audit_json_text(results([partition("caf\u00e9-\udcff")]))
    assert text.isascii() and json.loads(text)["partitions"][0]["topic"] == "caf\u00e9-\udcff"


def test_the_order_of_the_inputs_does_not_matter() -> None:
    texts = set()
    for names in (("log", "index"), ("index", "log")):
        inputs = {"snapshot": "s", "files": dict.fromkeys(names, 1)}
        texts.add(audit_json_text(Results({**AUDIT, "inputs": inputs})))
    assert len(texts) == 1
