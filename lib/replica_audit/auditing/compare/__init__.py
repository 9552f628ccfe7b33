"""Comparison of two replicas: chunks, batches, records, keys, and the divergent ranges that they come to."""
