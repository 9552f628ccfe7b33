"""The commands of this program that take out what a plan loses, and put it back afterwards, for a POSIX shell."""

from __future__ import annotations

import shlex

from replica_audit.deciding.kafka_commands import BOOTSTRAP


def salvage_command(snapshot: str, plan: str, target: str) -> str:
    """What the leaders that the file `plan` chose lose, taken out of `snapshot` into the new directory `target`."""
    options = (*_option("--plan", plan), *_option("--to", target), "--payloads")
    return shlex.join(["replica-audit", "salvage", *options, *_argument(snapshot)])


def restore_command(
    directory: str,
    bootstrap: str = BOOTSTRAP,
    client_config: str | None = None,
    *,
    to_original: bool = False,
    skip_present: bool = False,
    yes: bool = False,
) -> str:
    """What `salvage_command` took out into `directory`, produced to TOPIC.salvaged, or `to_original` to the topics themselves.

    `skip_present` leaves out what the leaders hold, and with `yes` nobody is asked.
    """
    config = () if client_config is None else _option("--command-config", client_config)
    chosen = (("--to-original", to_original), ("--skip-present", skip_present), ("--yes", yes))
    flags = [name for name, is_given in chosen if is_given]
    options = (*_option("--bootstrap-servers", bootstrap), *config, *flags)
    return shlex.join(["replica-audit", "restore", *options, *_argument(directory)])


def _option(name: str, value: str) -> tuple[str, ...]:
    """An option and its value, which may begin like an option."""
    return (f"{name}={value}",) if value.startswith("-") else (name, value)


def _argument(value: str) -> tuple[str, ...]:
    return ("--", value) if value.startswith("-") else (value,)
