"""What is said of a warehouse whose files are not those that were committed."""

from __future__ import annotations


def damage_sentence(what: str, warehouse: str | None = None) -> str:
    """The error for a damaged warehouse: `what` is wrong with it, and what to do."""
    name = f"the warehouse {warehouse}" if warehouse else "the warehouse"
    remedy = "restore it, or move the warehouse away and run again, which reads the snapshot from the start"
    return f"{name} is damaged: {what}; {remedy}"
