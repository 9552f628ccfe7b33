"""Extraction of records that other replicas hold and the leader's log does not."""
