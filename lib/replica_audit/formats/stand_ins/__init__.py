"""What stands in for segments: text of kafka-dump-log, and tables of batches or records."""
