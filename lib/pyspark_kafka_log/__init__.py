"""Makes `spark.read.format("kafka_log")` known to Spark, which looks into every module whose name begins with `pyspark_`."""

from replica_audit.spark.kafka_log import KafkaLogSource as DefaultSource

__all__ = ["DefaultSource"]
