"""Kafka's replication protocol as pure functions: epoch lineage, truncation, loading of a log, high watermark, elections."""
