"""Commands in a report do what they say when they are pasted into a shell."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import replace

import pytest
from tests.support.report_rows import results
from tests.support.samples import SAMPLES

from replica_audit.cli.parser import parse_arguments
from replica_audit.config import Settings
from replica_audit.model import TopicPartition
from replica_audit.report.page.document import split_words
from replica_audit.runner.in_process import audit_one


@pytest.mark.parametrize(
    "place", ["captures/friday", "/a b/it's", "$(touch x)", "a;b&c|d", "s3://bucket/p q", "*", "~/logs", "#1"]
)
def test_a_shell_gives_the_command_the_path_as_it_was_given(place):
    text = replace(results(), location=place).command("show", "orders-0")
    script = text.replace("replica-audit", "printf '%s\\n'", 1)
    words = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert words.stdout.splitlines() == ["show", place, "orders-0"]


def test_a_path_is_no_option_and_credentials_are_not_passed_on():
    assert replace(results(), location="-x").command("elect") == "replica-audit elect ./-x"
    secret = replace(results(), location="s3://key:word@bucket/it")
    assert secret.command("show") == "replica-audit show s3://bucket/it"
    assert replace(results(), location=None).command("show") == "replica-audit show SNAPSHOT"


@pytest.mark.parametrize(
    ("partitions", "said"),
    [
        ([], "replica-audit elect logs --up 1"),
        (["a-0", "b-1"], "replica-audit elect logs a-0 b-1 --up 1"),
        (["a-0", "-b-1"], "replica-audit elect --up 1 logs -- a-0 -b-1"),
    ],
)
def test_a_partition_that_begins_with_a_dash_is_no_option(partitions, said):
    assert replace(results(), location="logs").command("elect", "--up", 1, partitions=partitions) == said
    assert parse_arguments(shlex.split(said)[1:]).topic_partitions == partitions


def test_an_audit_knows_where_its_snapshot_was_read_from(tmp_path, monkeypatch):
    (tmp_path / "two words").symlink_to(SAMPLES / "isr-minimum")
    monkeypatch.chdir(tmp_path)
    found = audit_one("two words", TopicPartition("orders", 0), Settings())
    assert shlex.split(found.command("show"))[2] == "two words"


def test_commands_and_names_within_sentences_are_told_apart():
    text = "To copy orders-0: tar -czf broker-2.tgz -C LOG_DIR 'a b-0' orders-0, with its log.dirs as LOG_DIR."
    assert list(split_words(text)) == [
        ("To copy ", ""),
        ("orders-0", "name"),
        (": ", ""),
        ("tar -czf broker-2.tgz -C LOG_DIR 'a b-0' orders-0", "command"),
        (", with its log.dirs as LOG_DIR.", ""),
    ]
    assert ("kafka-transactions.sh --bootstrap-server HOST:PORT abort --start-offset 9", "command") in split_words(
        "End it: kafka-transactions.sh --bootstrap-server HOST:PORT abort --start-offset 9."
    )
    assert ("replica-audit explain META-FORK", "command") in split_words(
        "Choose by the rules of replica-audit explain META-FORK. On the brokers:"
    )
    assert list(split_words("Nothing to run, tar is not needed.")) == [("Nothing to run, tar is not needed.", "")]
    assert list(split_words("on 2026-11-21, in a-1 and " + "x" * 60 + "-1")) == [
        ("on ", ""), ("2026-11-21", "name"), (", in ", ""), ("a-1", "name"), (" and " + "x" * 60 + "-1", ""),
    ]  # fmt: skip
    assert "".join(part for part, _ in split_words(text)) == text
