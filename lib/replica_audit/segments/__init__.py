"""Segment files: batches, records, damage, tails, and the summary that an audit needs of each."""
