"""Execution of the pure functions on many files and partitions at once by Spark: session, executor, data source, catalogs."""
