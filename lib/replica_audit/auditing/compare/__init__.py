"""Two replicas laid side by side: chunks, batches, records, keys, and what the differences come to."""
