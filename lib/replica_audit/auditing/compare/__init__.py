"""Comparison of two replicas: chunks, batches, records, keys, and the resulting divergent ranges."""
