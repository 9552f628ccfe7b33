"""Observations of replicas over time: replica_progress as JSON lines, CSV or Parquet."""
