"""Text of kafka-dump-log in place of segments."""
