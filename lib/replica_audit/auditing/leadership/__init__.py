"""Who led, and what was committed: the bounds of the high watermark, elections, brokers' own logs, observations."""
