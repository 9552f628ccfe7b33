"""The Delta tables, written and read without a Spark job."""
