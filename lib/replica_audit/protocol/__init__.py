"""What Kafka does: epoch lineage, truncation, loading of a log directory, high watermark. Pure functions only."""
