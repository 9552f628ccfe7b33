"""Makers of test material: encoded batches, log directories, the sample directories."""
