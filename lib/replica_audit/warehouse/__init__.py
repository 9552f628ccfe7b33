"""The Delta tables: their place, and the only ways of writing and reading them. No Spark job is started for a commit."""
