"""What a local session's workers find on their path."""

from __future__ import annotations

from replica_audit.setup.worker_daemon import without_zips_of_spark


def test_zips_of_spark_are_left_out_and_those_of_others_stay() -> None:
    mine = ["", "/opt/jobs/my-src.zip", "/opt/pyspark.zip/tools", "/srv/python/lib/mine.zip", "/site-packages"]
    of_spark = ["/a b/pyspark/python/lib/pyspark.zip", "/a b/pyspark/python/lib/py4j-0.10.9.9-src.zip"]
    assert without_zips_of_spark([*of_spark, *mine]) == mine
