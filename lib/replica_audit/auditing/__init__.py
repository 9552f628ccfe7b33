"""Conclusions about a snapshot: replica facts, comparison, high watermark, findings, verdict. Pure functions of its evidence."""
