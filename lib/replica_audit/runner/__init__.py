"""The stages of an audit in this process, without Spark."""
