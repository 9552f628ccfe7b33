"""Conclusions about a snapshot: facts of replicas, comparison, high watermark, findings, verdict. Pure functions of what it holds."""
