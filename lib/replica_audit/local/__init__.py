"""A snapshot audited in this process, without Spark."""
